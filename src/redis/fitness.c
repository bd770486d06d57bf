/*
 * Owns the questions that are under way: one `check` for each server that came.
 */
#include "redis/fitness.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "redis/resp.h"
#include "redis/script.h"

struct check {
    struct link_call info, cluster;
    struct fitness *fitness;
    struct node *node;
    redisReply *told; /* to INFO */
};

static void check_free(struct check *check)
{
    if (check->told)
        freeReplyObject(check->told);
    mem_free(check);
}

static void refuse(struct fitness *fitness, const struct node *node, enum err err,
                   const char *reason)
{
    char room[REDIS_HOST_MAX + 8];
    struct bytes name = redis_address_text(&node->link.address, room, sizeof(room));
    if (fitness->fit) { /* it was good when we began: say so, and go on as well as we can */
        log_event(LOG_ERROR, "redis_unfit", "node=%.*s reason=\"%s\"", (int)name.len, name.at,
                  reason);
        return;
    }
    fitness->unfit = err;
    (void)snprintf(fitness->trouble.text, sizeof(fitness->trouble.text), "%.*s: %s", (int)name.len,
                   name.at, reason);
}

static void judge(struct check *check, struct bytes cluster)
{
    struct fitness *fitness = check->fitness;
    struct bytes info = bytes_of(check->told->str, (size_t)check->told->len);
    const char *reason = "";
    bool is_cluster = script_is_cluster(info);
    bool want_cluster = fitness->options.url->topology == REDIS_CLUSTER;
    enum err err = script_judge(info, cluster, &reason);
    if (!err && is_cluster != want_cluster) {
        err = ERR_UNSUPPORTED;
        reason = is_cluster ? "it is part of a cluster: use redis+cluster://"
                            : "it is not part of a cluster: use redis://";
    }
    if (err) {
        refuse(fitness, check->node, err, reason);
        return;
    }
    fitness->fit = true;
    fitness->options.fit(fitness->options.owner);
}

static void cluster_told(struct link_call *call, redisReply *reply)
{
    struct check *check = LIST_ENTRY(call, struct check, cluster);
    if (reply && reply->type == REDIS_REPLY_STRING)
        judge(check, bytes_of(reply->str, (size_t)reply->len));
    if (reply)
        freeReplyObject(reply);
    check_free(check);
}

static void info_told(struct link_call *call, redisReply *reply)
{
    struct check *check = LIST_ENTRY(call, struct check, info);
    check->told = reply;
    if (!reply || reply->type != REDIS_REPLY_STRING) {
        if (reply)
            refuse(check->fitness, check->node, ERR_UNSUPPORTED,
                   reply->type == REDIS_REPLY_ERROR ? reply->str : "it does not answer INFO");
        check_free(check);
        return;
    }
    struct link *link = &check->node->link;
    if (!script_is_cluster(bytes_of(reply->str, (size_t)reply->len)) || link->doomed) {
        judge(check, BYTES(""));
        check_free(check);
        return;
    }
    resp_begin(link_out(link), 2);
    resp_add_str(link_out(link), "CLUSTER");
    resp_add_str(link_out(link), "INFO");
    link_expect(link, &check->cluster);
}

void fitness_init(struct fitness *fitness, const struct fitness_options *options)
{
    *fitness = (struct fitness){.options = *options};
}

void fitness_ask(struct fitness *fitness, struct node *node)
{
    struct check *check = mem_zalloc(sizeof(*check));
    check->info.done = info_told;
    check->cluster.done = cluster_told;
    check->fitness = fitness;
    check->node = node;
    resp_begin(link_out(&node->link), 1);
    resp_add_str(link_out(&node->link), "INFO");
    link_expect(&node->link, &check->info);
}

void fitness_refuse_queue(struct fitness *fitness, const char *prefix, uint32_t stored,
                          uint32_t wanted)
{
    if (fitness->unfit)
        return; /* one partition says it for all */
    fitness->unfit = ERR_INVALID;
    (void)snprintf(fitness->trouble.text, sizeof(fitness->trouble.text),
                   "the queue \"%.64s\" there was made with redis.partitions = %u, or by another "
                   "version of laterd; this one has %u. It cannot be changed while there are jobs",
                   prefix, stored, wanted);
    log_event(LOG_ERROR, "redis_refused", "reason=\"%.300s\"", fitness->trouble.text);
}
