/*
 * Invariant: after SUBSCRIBE a connection accepts no other command, so the request for the master's
 * address is sent before it, in the same write; to request it again, we reconnect.
 */
#include "client/redis/sentinels.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "client/redis/failure.h"
#include "client/redis/resp.h"

enum {
    DECIDE_US = 300 * 1000, /* how long sentinels have to answer */
    AGAIN_US = 250 * 1000,
};

static const char SWITCHED[] = "+switch-master";

static struct loop *loop_of(const struct sentinels *sentinels)
{
    return sentinels->options.loop;
}

/* Ends the search, with or without a result; if a master is still wanted, it is repeated after a
 * while. */
static void end_search(struct sentinels *sentinels)
{
    sentinels->seeking = false;
    sentinels->again_at_us = loop_of(sentinels)->now_us + AGAIN_US;
    if (sentinels->wanted)
        loop_arm(loop_of(sentinels), &sentinels->timer, sentinels->again_at_us);
    else
        loop_cancel(loop_of(sentinels), &sentinels->timer);
}

/* An answer came: if it was the last one, all are counted when this turn's input was read. */
static void count_soon(struct sentinels *sentinels)
{
    unsigned answers = 0;
    for (unsigned i = 0; i < sentinels->count; i++)
        answers += sentinels->all[i].answer.host[0] != '\0';
    if (sentinels->seeking && answers == sentinels->count)
        loop_arm(loop_of(sentinels), &sentinels->timer, loop_of(sentinels)->now_us);
}

/* ---- messages of a sentinel ---- */

static bool read_address(struct bytes host, struct bytes port, struct redis_address *out_address)
{
    uint64_t number;
    return bytes_to_u64(port, &number) && redis_address_make(host, number, out_address);
}

static struct bytes text_of(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING ? bytes_of(reply->str, (size_t)reply->len) : BYTES("");
}

/* "NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT" */
static bool read_switch(struct bytes text, const char *service, struct redis_address *out_address)
{
    enum { NAME, OLD_HOST, OLD_PORT, HOST, PORT, WORDS };
    struct bytes words[WORDS] = {{0}};
    size_t count = 0, begin = 0;
    for (size_t i = 0; i <= text.len && count < WORDS; i++) {
        if (i < text.len && text.at[i] != ' ')
            continue;
        words[count++] = bytes_of(text.at + begin, i - begin);
        begin = i + 1;
    }
    return count == WORDS && bytes_eq(words[NAME], bytes_str(service)) &&
           read_address(words[HOST], words[PORT], out_address);
}

/* Handles +switch-master. One report is enough, because a failover needs a majority of sentinels.
 */
static void take_switch(struct sentinel *sentinel, struct bytes text)
{
    struct sentinels *sentinels = sentinel->sentinels;
    struct redis_address master;
    if (!read_switch(text, sentinels->options.url->service, &master))
        return; /* of another master */
    sentinel->answer = master;
    end_search(sentinels); /* earlier answers of others are outdated */
    sentinels->options.named(sentinels->options.owner, &master);
}

/* Logs that the sentinel is back, once it has answered as a sentinel: connecting proves nothing. */
static void report_back(struct sentinel *sentinel)
{
    char room[REDIS_HOST_MAX + 8];
    struct bytes name = redis_address_text(&sentinel->link.address, room, sizeof(room));
    if (sentinel->logged)
        log_event(LOG_INFO, "sentinel_back", "node=%.*s", (int)name.len, name.at);
    sentinel->logged = false;
}

static void sentinel_message(struct link_callbacks *callbacks, struct link *link,
                             const redisReply *reply)
{
    struct sentinel *sentinel = LIST_ENTRY(callbacks, struct sentinel, callbacks);
    if (reply->type == REDIS_REPLY_ERROR) {
        link_fail(link,
                  strstr(reply->str, "unknown command") ? "it is not a sentinel" : reply->str);
    } else if (reply->type == REDIS_REPLY_NIL) {
        link_fail(link, "No such master with that name");
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
        if (read_address(text_of(reply->element[0]), text_of(reply->element[1]),
                         &sentinel->answer)) {
            sentinel->fresh = true;
            link_good(link);
            report_back(sentinel);
            count_soon(sentinel->sentinels);
        }
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3) {
        if (bytes_eq(text_of(reply->element[0]), BYTES("message")))
            take_switch(sentinel, text_of(reply->element[2]));
    }
}

static void sentinel_up(struct link_callbacks *callbacks, struct link *link)
{
    struct sentinel *sentinel = LIST_ENTRY(callbacks, struct sentinel, callbacks);
    struct buf *out = link_out(link);
    resp_begin(out, 3);
    resp_add_str(out, "SENTINEL");
    resp_add_str(out, "get-master-addr-by-name");
    resp_add_str(out, sentinel->sentinels->options.url->service);
    resp_begin(out, 2);
    resp_add_str(out, "SUBSCRIBE");
    resp_add_str(out, SWITCHED);
    link_flush(link);
}

/* Once when it goes and once when it is back, however often it is tried in between. */
static void sentinel_down(struct link_callbacks *callbacks, struct link *link)
{
    struct sentinel *sentinel = LIST_ENTRY(callbacks, struct sentinel, callbacks);
    char room[REDIS_HOST_MAX + 8];
    struct bytes name = redis_address_text(&link->address, room, sizeof(room));
    if (sentinel->logged || !link->wanted)
        return;
    sentinel->logged = true;
    log_event(LOG_WARN, "sentinel_away", "node=%.*s error=\"%s\" hint=\"%s\"", (int)name.len,
              name.at, link->error, failure_hint(bytes_str(link->error)));
}

/* ---- the master ---- */

/* Looking up its name, or connecting, may take longer than DECIDE_US: if each search began that
 * again, it would never succeed. An answer that came since the last count is not asked for again,
 * either. */
static bool is_on_its_way(const struct sentinel *sentinel)
{
    enum link_state state = sentinel->link.state;
    return sentinel->fresh || (state != LINK_DOWN && state != LINK_UP);
}

static void seek(struct sentinels *sentinels)
{
    sentinels->seeking = true;
    loop_arm(loop_of(sentinels), &sentinels->timer, loop_of(sentinels)->now_us + DECIDE_US);
    for (unsigned i = 0; i < sentinels->count; i++) {
        struct sentinel *sentinel = &sentinels->all[i];
        if (is_on_its_way(sentinel))
            continue;
        sentinel->answer.host[0] = '\0';
        link_rest(&sentinel->link);
        link_want(&sentinel->link, &sentinels->options.url->addresses[i]);
    }
    count_soon(sentinels);
}

/* The address that most sentinels name; NULL: none has answered. */
static const struct redis_address *most_named(const struct sentinels *sentinels)
{
    const struct redis_address *best = NULL;
    unsigned best_count = 0;
    for (unsigned i = 0; i < sentinels->count; i++) {
        const struct redis_address *one = &sentinels->all[i].answer;
        unsigned same = 0;
        if (!one->host[0])
            continue;
        for (unsigned j = 0; j < sentinels->count; j++)
            same += redis_address_eq(one, &sentinels->all[j].answer);
        if (same > best_count) {
            best = one;
            best_count = same;
        }
    }
    return best;
}

static void report_refusal(struct sentinels *sentinels)
{
    for (unsigned i = 0; i < sentinels->count; i++) {
        const struct link *link = &sentinels->all[i].link;
        if (link->state != LINK_UP && failure_read(bytes_str(link->error)).kind == FAILURE_DENIED) {
            sentinels->options.refused(sentinels->options.owner, link);
            return;
        }
    }
}

static void decide(struct sentinels *sentinels)
{
    const struct redis_address *master = most_named(sentinels);
    end_search(sentinels);
    for (unsigned i = 0; i < sentinels->count; i++)
        sentinels->all[i].fresh = false;
    if (master)
        sentinels->options.named(sentinels->options.owner, master);
    else
        report_refusal(sentinels);
}

static void retry(struct timer *timer)
{
    struct sentinels *sentinels = LIST_ENTRY(timer, struct sentinels, timer);
    if (sentinels->seeking)
        decide(sentinels);
    else if (sentinels->wanted)
        seek(sentinels);
}

void sentinels_want_master(struct sentinels *sentinels, bool wanted)
{
    sentinels->wanted = wanted;
    if (wanted && !sentinels->seeking)
        loop_arm(loop_of(sentinels), &sentinels->timer, sentinels->again_at_us);
}

const struct link *sentinels_error(const struct sentinels *sentinels)
{
    for (unsigned i = 0; i < sentinels->count; i++) {
        if (sentinels->all[i].link.state != LINK_UP)
            return &sentinels->all[i].link;
    }
    return &sentinels->all[0].link;
}

/* ---- life ---- */

void sentinels_init(struct sentinels *sentinels, const struct sentinels_options *options)
{
    struct link_options link = {.loop = options->loop,
                                .user = options->user,
                                .password = options->password,
                                .tls = options->tls,
                                .subscriber = true,
                                .ended = options->ended,
                                .owner = options->ended_owner,
                                .timeout_us = options->timeout_us};
    *sentinels = (struct sentinels){
        .options = *options, .count = options->url->address_count, .timer.expired = retry};
    for (unsigned i = 0; i < sentinels->count; i++) {
        struct sentinel *sentinel = &sentinels->all[i];
        sentinel->callbacks = (struct link_callbacks){
            .up = sentinel_up, .down = sentinel_down, .message = sentinel_message};
        sentinel->sentinels = sentinels;
        link.callbacks = &sentinel->callbacks;
        link_init(&sentinel->link, &link);
    }
}

void sentinels_fini(struct sentinels *sentinels)
{
    for (unsigned i = 0; i < sentinels->count; i++)
        link_fini(&sentinels->all[i].link);
    if (sentinels->count)
        loop_cancel(loop_of(sentinels), &sentinels->timer);
    sentinels->count = 0;
}
