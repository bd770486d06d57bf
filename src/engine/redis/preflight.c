/*
 * Owns the checks under way: one `check` for each server, with its `question`s. The verdict is
 * given when the last question is answered.
 */
#include "engine/redis/preflight.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "client/redis/failure.h"
#include "client/redis/resp.h"
#include "engine/redis/notice_codec.h"
#include "engine/redis/server_info.h"

enum { WORDS_MAX = 5, RULES_MAX = 256, UNKNOWN_MAX = 160 };

/* Placeholders for a key and a channel of the queue. */
static const char KEY[] = "{}:h", CHANNEL[] = ":notice";

enum occasion {
    ALWAYS,
    IN_CLUSTER,
    WITH_REPLICAS,
    IF_UNKNOWN, /* if the server does not know the command before */
};

/*
 * Redis checks permissions right after the number of arguments. So each of these commands either
 * fails for lack of a permission or in another harmless way: no such script, no such field, a field
 * without a value, not a number, a member to be updated that does not exist.
 */
static const struct {
    enum occasion occasion;
    const char *words[WORDS_MAX];
} trials[] = {
    {ALWAYS, {"INFO"}},                /* the first, as `judge` knows, */
    {IN_CLUSTER, {"CLUSTER", "INFO"}}, /* and the second */
    {IN_CLUSTER, {"CLUSTER", "SLOTS"}},
    {IN_CLUSTER, {"ASKING"}},
    {WITH_REPLICAS, {"WAIT", "0", "0"}},
    {ALWAYS, {"TIME"}},
    {ALWAYS, {"SCRIPT", "LOAD", "="}},
    {ALWAYS, {"EVALSHA", "=", "1", KEY}},
    {ALWAYS, {"SPUBLISH", CHANNEL, ""}},
    {IF_UNKNOWN, {"PUBLISH", CHANNEL, ""}}, /* Redis 6.2 */
    {ALWAYS, {"SSUBSCRIBE"}}, /* to nothing, which is an error; the right is needed elsewhere */
    {IF_UNKNOWN, {"SUBSCRIBE"}},
    {ALWAYS, {"EXISTS", KEY}},
    {ALWAYS, {"HDEL", KEY, ""}},
    {ALWAYS, {"HEXISTS", KEY, ""}},
    {ALWAYS, {"HGET", KEY, ""}},
    {ALWAYS, {"HINCRBY", KEY, "", "="}},
    {ALWAYS, {"HMGET", KEY, ""}},
    {ALWAYS, {"HSCAN", KEY, "="}},
    {ALWAYS, {"HSET", KEY, "", "", ""}},
    {ALWAYS, {"RENAME", KEY, KEY}}, /* to its own name: nothing happens */
    {ALWAYS, {"ZADD", KEY, "XX", "0", ""}},
    {ALWAYS, {"ZCOUNT", KEY, "1", "0"}},
    {ALWAYS, {"ZLEXCOUNT", KEY, "+", "-"}},
    {ALWAYS, {"ZMSCORE", KEY, ""}},
    {ALWAYS, {"ZRANGE", KEY, "1", "0"}},
    {ALWAYS, {"ZRANGEBYLEX", KEY, "+", "-"}},
    {ALWAYS, {"ZRANGEBYSCORE", KEY, "1", "0"}},
    {ALWAYS, {"ZREM", KEY, ""}},
    {ALWAYS, {"ZREMRANGEBYLEX", KEY, "+", "-"}},
    {ALWAYS, {"ZREVRANGEBYLEX", KEY, "-", "+"}},
    {ALWAYS, {"ZREVRANGEBYSCORE", KEY, "0", "1"}},
    {ALWAYS, {"ZSCORE", KEY, ""}},
};

enum { TRIALS = sizeof(trials) / sizeof(trials[0]) };

struct check;

struct question {
    struct link_call call;
    struct check *check;
};

struct check {
    struct preflight *preflight;
    struct node *node;
    struct question questions[TRIALS];
    unsigned pending;              /* answers */
    redisReply *info, *cluster;    /* NULL: not answered */
    char unknown[UNKNOWN_MAX];     /* that it does not know a command; empty: it knows all */
    char sharded[UNKNOWN_MAX];     /* the same of SPUBLISH or SSUBSCRIBE, which Redis 6.2 lacks */
    char obstacle[160];            /* another error than a lack of permissions; empty: none */
    char missing_rules[RULES_MAX]; /* as ACL SETUSER wants them; empty: none */
    bool left;                     /* the connection ended */
};

/* ---- verdicts ---- */

static void refuse(struct preflight *preflight, const struct link *link, enum err err,
                   const char *reason)
{
    char room[REDIS_HOST_MAX + 8];
    struct bytes name = redis_address_text(&link->address, room, sizeof(room));
    if (preflight->serving) { /* the engine continues */
        log_event(LOG_ERROR, "redis_unfit", "node=%.*s reason=\"%s\"", (int)name.len, name.at,
                  reason);
        return;
    }
    if (preflight->unfit)
        return; /* the first fault is most likely the cause */
    preflight->unfit = err;
    char cause[REDIS_ERROR_MAX];
    failure_write(reason, cause, sizeof(cause));
    (void)snprintf(preflight->error.text, sizeof(preflight->error.text), "%.*s: %.300s",
                   (int)name.len, name.at, cause);
}

/* Appends the ACL rule that grants the missing permission. Redis names the command in quotes, but
 * not the keys and channels. */
static void add_rule(const struct preflight *preflight, const char *error, char *rules)
{
    char rule[SCRIPT_PREFIX_MAX + 16] = "";
    size_t len = strlen(rules);
    const char *open = strchr(error, '\'');
    const char *close = open ? strchr(open + 1, '\'') : NULL;
    const char *prefix = preflight->options.space->prefix;
    if (close && (size_t)(close - open) < sizeof(rule))
        (void)snprintf(rule, sizeof(rule), "+%.*s", (int)(close - open - 1), open + 1);
    else if (strstr(error, "channel"))
        (void)snprintf(rule, sizeof(rule), "&{%s:*", prefix);
    else if (strstr(error, "key"))
        (void)snprintf(rule, sizeof(rule), "~{%s:*", prefix);
    if (rule[0] && !strstr(rules, rule))
        (void)snprintf(rules + len, RULES_MAX - len, " %s", rule);
}

static void refuse_rights(struct preflight *preflight, const struct link *link, const char *rules)
{
    const char *user = link->options.user; /* a sentinel has its own users */
    char reason[REDIS_ERROR_MAX];
    (void)snprintf(reason, sizeof(reason),
                   "NOPERM: the user has not all rights: ACL SETUSER %.64s%s",
                   user[0] ? user : "default", rules);
    refuse(preflight, link, ERR_UNSUPPORTED, reason);
}

/* A temporary fault: the server is checked again soon, until one was found fit. */
static void wait_for(struct preflight *preflight, struct node *node, const char *reason)
{
    if (!preflight->serving)
        node_suspect(node, reason);
}

static void judge(struct check *check)
{
    struct preflight *preflight = check->preflight;
    const struct link *link = &check->node->link;
    struct bytes info = bytes_of(check->info->str, (size_t)check->info->len), cluster = BYTES("");
    const char *reason = "";
    bool want_cluster = preflight->options.url->topology == REDIS_CLUSTER;
    if (check->cluster)
        cluster = bytes_of(check->cluster->str, (size_t)check->cluster->len);
    if (server_info_is_cluster(info) != want_cluster) {
        refuse(preflight, link, ERR_UNSUPPORTED,
               want_cluster ? "it is not part of a cluster: use redis://"
                            : "it is part of a cluster: use redis+cluster://");
        return;
    }
    struct bytes policy = server_info_evicting_policy(info);
    enum err err = server_info_judge(info, cluster, &reason);
    if (!err && check->sharded[0] && server_info_has_sharded_channels(info)) {
        reason = check->sharded;
        err = ERR_UNSUPPORTED;
    }
    if (!err && check->unknown[0]) {
        reason = check->unknown;
        err = ERR_UNSUPPORTED;
    }
    if (preflight->serving)
        preflight_policy(preflight, &link->address, policy);
    if (err == ERR_AGAIN) {
        wait_for(preflight, check->node, reason);
    } else if (err &&
               !(preflight->serving && policy.len)) { /* it was reported by preflight_policy() */
        refuse(preflight, link, err, reason);
    } else {
        node_accept(check->node);
        preflight->fit = true;
        preflight->options.fit(preflight->options.owner);
    }
}

static void conclude(struct check *check)
{
    if (check->left)
        return; /* another server will be checked */
    if (check->missing_rules[0])
        refuse_rights(check->preflight, &check->node->link, check->missing_rules);
    else if (!check->info && check->unknown[0])
        refuse(check->preflight, &check->node->link, ERR_UNSUPPORTED, check->unknown);
    else if (!check->info)
        wait_for(check->preflight, check->node,
                 check->obstacle[0] ? check->obstacle : "it does not answer INFO");
    else
        judge(check);
}

/* ---- questions ---- */

static void check_free(struct check *check)
{
    if (check->info)
        freeReplyObject(check->info);
    if (check->cluster)
        freeReplyObject(check->cluster);
    mem_free(check);
}

/* Takes ownership of the reply if `judge` reads it. */
static bool keep(struct check *check, size_t which, redisReply *reply)
{
    redisReply **place = which == 0 ? &check->info : which == 1 ? &check->cluster : NULL;
    if (!place || reply->type != REDIS_REPLY_STRING)
        return false;
    *place = reply;
    return true;
}

static void ask(struct check *check, size_t which);

static bool is_unknown(const redisReply *error)
{
    return bytes_starts(bytes_of(error->str, (size_t)error->len), BYTES("ERR unknown command"));
}

/* "ERR unknown command 'INFO', with args beginning with: …": what follows is ours. */
static void note_unknown(char room[UNKNOWN_MAX], const char *error)
{
    const char *args = strstr(error, ", with args");
    int len = args ? (int)(args - error) : (int)strlen(error);
    if (!room[0])
        (void)snprintf(room, UNKNOWN_MAX, "%.*s", len, error);
}

static bool has_substitute(size_t which)
{
    return which + 1 < TRIALS && trials[which + 1].occasion == IF_UNKNOWN;
}

static void handle_answer(struct link_call *call, redisReply *reply)
{
    struct question *question = LIST_ENTRY(call, struct question, call);
    struct check *check = question->check;
    size_t which = (size_t)(question - check->questions);
    check->pending--;
    if (reply && reply->type == REDIS_REPLY_ERROR && is_unknown(reply) && has_substitute(which))
        ask(check, which + 1);
    if (!reply) {
        check->left = true;
    } else if (reply->type == REDIS_REPLY_ERROR) {
        if (failure_read(bytes_of(reply->str, (size_t)reply->len)).kind == FAILURE_DENIED)
            add_rule(check->preflight, reply->str, check->missing_rules);
        else if (is_unknown(reply) && has_substitute(which))
            note_unknown(check->sharded, reply->str);
        else if (is_unknown(reply))
            note_unknown(check->unknown, reply->str);
        else if (which == 0)
            (void)snprintf(check->obstacle, sizeof(check->obstacle), "%s", reply->str);
    }
    if (reply && !keep(check, which, reply))
        freeReplyObject(reply);
    if (check->pending)
        return;
    conclude(check);
    check_free(check);
}

static void add_word(struct buf *out, const struct script_space *space, const char *word)
{
    char room[SCRIPT_CHANNEL_MAX], key[SCRIPT_PREFIX_MAX + 20];
    if (word == KEY) {
        struct bytes tag = script_tag(space, 0, room);
        (void)snprintf(key, sizeof(key), "%.*s:h", (int)tag.len, tag.at);
        resp_add_str(out, key);
    } else if (word == CHANNEL) {
        resp_add(out, notice_channel(space, 0, NOTICE_TO_ALL, room));
    } else {
        resp_add_str(out, word);
    }
}

static void ask(struct check *check, size_t which)
{
    struct buf *out = link_out(&check->node->link);
    struct question *question = &check->questions[which];
    const char *const *words = trials[which].words;
    unsigned count = 0;
    while (count < WORDS_MAX && words[count])
        count++;
    resp_begin(out, count);
    for (unsigned i = 0; i < count; i++)
        add_word(out, check->preflight->options.space, words[i]);
    question->check = check;
    question->call.done = handle_answer;
    check->pending++;
    link_expect(&check->node->link, &question->call);
}

void preflight_init(struct preflight *preflight, const struct preflight_options *options)
{
    *preflight = (struct preflight){.options = *options};
    list_init(&preflight->looks);
}

void preflight_check_node(struct preflight *preflight, struct node *node)
{
    struct check *check = mem_zalloc(sizeof(*check));
    bool occasions[] = {
        [ALWAYS] = true,
        [IN_CLUSTER] = preflight->options.url->topology == REDIS_CLUSTER,
        [WITH_REPLICAS] = preflight->options.wait_replicas,
        [IF_UNKNOWN] = false, /* handle_answer() asks */
    };
    check->preflight = preflight;
    check->node = node;
    for (size_t i = 0; i < TRIALS; i++) {
        if (occasions[trials[i].occasion])
            ask(check, i);
    }
}

/* ---- faults found elsewhere ---- */

static uint32_t evicting_place(const struct preflight *preflight,
                               const struct redis_address *address)
{
    uint32_t place = 0;
    while (place < preflight->evicting_count &&
           !redis_address_eq(&preflight->evicting[place], address))
        place++;
    return place;
}

static void forget_policy(struct preflight *preflight, uint32_t place)
{
    preflight->evicting[place] = preflight->evicting[--preflight->evicting_count];
    preflight->evicts = preflight->evicting_count > 0;
}

void preflight_lost(struct preflight *preflight, const struct link *link)
{
    char rules[RULES_MAX] = "";
    if (preflight->serving)
        return; /* the connection is lost, which was logged */
    if (failure_read(bytes_str(link->error)).kind != FAILURE_DENIED)
        return;
    add_rule(preflight, link->error, rules);
    bool lacks_right = strncmp(link->error, "NOPERM", 6) == 0 && rules[0];
    if (lacks_right)
        refuse_rights(preflight, link, rules);
    else
        refuse(preflight, link, ERR_UNSUPPORTED, link->error);
}

void preflight_node_lost(struct preflight *preflight, const struct node *node)
{
    bool lone = preflight->options.url->topology == REDIS_SINGLE;
    if (lone && node->replica && !preflight->serving)
        refuse(preflight, &node->link, ERR_UNSUPPORTED, "it is a replica");
    else
        preflight_lost(preflight, &node->link);
}

void preflight_refuse_queue(struct preflight *preflight, uint32_t stored_partitions)
{
    if (preflight->unfit)
        return; /* the others would report the same */
    const struct script_space *space = preflight->options.space;
    preflight->unfit = ERR_INVALID;
    if (stored_partitions != space->partitions)
        preflight->queue_partitions = stored_partitions;
    if (stored_partitions == space->partitions)
        (void)snprintf(
            preflight->error.text, sizeof(preflight->error.text),
            "the queue %.64s was made by a version of laterd that this one cannot follow: "
            "run that one, or begin a new queue with another redis.prefix",
            space->prefix);
    else
        (void)snprintf(
            preflight->error.text, sizeof(preflight->error.text),
            "the queue %.64s was made with redis.partitions = %u, and cannot change: set "
            "that again (this is %u), or begin a new queue with another redis.prefix",
            space->prefix, stored_partitions, space->partitions);
    if (preflight->serving) /* else the start tells it */
        log_event(LOG_ERROR, "redis_unfit", "reason=\"%s\"", preflight->error.text);
}

void preflight_refuse_key(struct preflight *preflight, struct bytes key)
{
    static const char *const hint =
        "somebody else uses it: begin a queue with another redis.prefix";
    if (preflight->unfit || preflight->stray)
        return; /* the others would report the same */
    preflight->stray = true;
    if (preflight->serving) {
        log_event(LOG_ERROR, "redis_unfit",
                  "key=%.*s reason=\"it is not of the type that laterd gives it\" hint=\"%s\"",
                  (int)key.len, key.at, hint);
        return;
    }
    preflight->unfit = ERR_INVALID;
    (void)snprintf(preflight->error.text, sizeof(preflight->error.text),
                   "the key %.*s is not of the type that laterd gives it: %s", (int)key.len, key.at,
                   hint);
}

void preflight_accept_keys(struct preflight *preflight)
{
    if (preflight->stray)
        log_event(LOG_INFO, "redis_fit", "reason=\"all keys are of laterd's types again\"");
    preflight->stray = false;
}

/* ---- may it evict keys? ---- */

struct policy_look {
    struct list place; // preflight::looks
    struct link_call call;
    struct preflight *preflight;
    struct node *node;
};

void preflight_policy(struct preflight *preflight, const struct redis_address *address,
                      struct bytes policy)
{
    uint32_t place = evicting_place(preflight, address);
    bool evicts = policy.len > 0, did = place < preflight->evicting_count;
    char room[REDIS_HOST_MAX + 8];
    struct bytes name = redis_address_text(address, room, sizeof(room));
    if (evicts && !did && place < REDIS_NODES_MAX) {
        log_event(LOG_ERROR, "redis_unfit",
                  "node=%.*s reason=\"its maxmemory-policy, %.*s, may evict jobs\" hint=\"%s\"",
                  (int)name.len, name.at, (int)policy.len, policy.at,
                  "CONFIG SET maxmemory-policy noeviction, and set that in its file, too");
        preflight->evicting[preflight->evicting_count++] = *address;
    } else if (!evicts && did) {
        log_event(LOG_INFO, "redis_fit", "node=%.*s reason=\"it may not evict jobs any more\"",
                  (int)name.len, name.at);
        forget_policy(preflight, place);
    }
    preflight->evicts = preflight->evicting_count > 0;
}

void preflight_keep_policies(struct preflight *preflight, struct node *const *nodes, uint32_t count)
{
    for (uint32_t place = preflight->evicting_count; place > 0; place--) {
        uint32_t i = 0;
        while (i < count &&
               !redis_address_eq(&nodes[i]->link.address, &preflight->evicting[place - 1]))
            i++;
        if (i < count)
            continue;
        char room[REDIS_HOST_MAX + 8];
        struct bytes name = redis_address_text(&preflight->evicting[place - 1], room, sizeof(room));
        log_event(LOG_INFO, "redis_fit", "node=%.*s reason=\"it has no jobs of ours any more\"",
                  (int)name.len, name.at);
        forget_policy(preflight, place - 1);
    }
}

static void handle_policy_answer(struct link_call *call, redisReply *reply)
{
    struct policy_look *look = LIST_ENTRY(call, struct policy_look, call);
    if (reply && reply->type == REDIS_REPLY_STRING) {
        struct bytes info = bytes_of(reply->str, (size_t)reply->len);
        preflight_policy(look->preflight, &look->node->link.address,
                         server_info_evicting_policy(info));
    }
    if (reply)
        freeReplyObject(reply);
    list_remove(&look->place);
    mem_free(look);
}

void preflight_look(struct preflight *preflight, struct node *node)
{
    for (struct list *at = preflight->looks.next; at != &preflight->looks; at = at->next) {
        if (LIST_ENTRY(at, struct policy_look, place)->node == node)
            return;
    }
    struct policy_look *look = mem_alloc(sizeof(*look));
    struct buf *out = link_out(&node->link);
    *look = (struct policy_look){
        .call.done = handle_policy_answer, .preflight = preflight, .node = node};
    list_add_tail(&preflight->looks, &look->place);
    resp_begin(out, 2);
    resp_add_str(out, "INFO");
    resp_add_str(out, "memory");
    link_expect(&node->link, &look->call);
}
