/*
 * A struct claim on client/redis. The connections are on a loop of our own thread, so that the term
 * goes on while the main thread recovers a store. That loop's clock is CLOCK_BOOTTIME.
 */
#include "member/redis_member.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "client/redis/resp.h"
#include "client/redis/topology.h"
#include "member/claim.h"
#include "member/member_thread.h"
#include "os/loop.h"
#include "os/tls.h"
#include "sink/reference.h"

enum { CLOSE_US = 900 * 1000, TIMEOUT_MIN_US = 300 * 1000, FIELDS = 5 };

struct redis_claim {
    struct member_thread *thread;
    struct redis_url url;
    struct claim claim;
    struct clock clock;
    struct os_loop *loop;
    struct tls *tls;                     /* NULL: none */
    struct topology_callbacks callbacks; /* lost() only: each request looks up its node */
    struct topology topology;
    struct link_call call; /* the request under way, if claim::pending */
    struct node *node;     /* that it was sent to */
    bool connected;
    char key[MEMBER_NAME_MAX + 32];
    char why[MEMBER_WHY_MAX];
};

/* Compares and sets, and returns the result: done, epoch, count, timeout_ms, holder, url. KEYS[1]:
   the hash; ARGV: read, make or write; the expected epoch and count; the five new values. */
static const char script[] =
    "local k=KEYS[1] local n={'epoch','count','timeout_ms','holder','url'} "
    "local f=redis.call('HMGET',k,unpack(n)) local done='0' "
    "if (ARGV[1]=='make' and not f[1]) or "
    "(ARGV[1]=='write' and f[1]==ARGV[2] and f[2]==ARGV[3]) then "
    "for i=1,5 do f[i]=ARGV[3+i] redis.call('HSET',k,n[i],f[i]) end done='1' end "
    "if not f[1] then return {done} end "
    "return {done,f[1],f[2] or '0',f[3] or '0',f[4] or '',f[5] or ''}";

static int64_t loop_now_us(struct clock *clock)
{
    (void)clock;
    return member_now_us();
}

static struct redis_claim *of_call(struct link_call *call)
{
    return LIST_ENTRY(call, struct redis_claim, call);
}

static void set_why(struct redis_claim *redis, const char *what, const char *text)
{
    (void)snprintf(redis->why, sizeof(redis->why), "%.60s%.170s", what, text);
}

/* ---- answers ---- */

static uint64_t number_of(const redisReply *field)
{
    uint64_t number;
    bool good = field->type == REDIS_REPLY_STRING &&
                bytes_to_u64(bytes_of(field->str, (size_t)field->len), &number);
    return good ? number : 0;
}

static void take_text(const redisReply *field, char *room, size_t room_bytes)
{
    bool text = field->type == REDIS_REPLY_STRING;
    (void)snprintf(room, room_bytes, "%s", text ? field->str : "");
}

/* False: not an answer of the script. */
static bool read_answer(const redisReply *reply, struct claim_answer *out_answer)
{
    bool array = reply->type == REDIS_REPLY_ARRAY;
    if (!array || (reply->elements != 1 && reply->elements != 1 + FIELDS))
        return false;
    *out_answer = (struct claim_answer){.done = number_of(reply->element[0]) == 1};
    if (reply->elements == 1)
        return true;
    struct claim_row *row = &out_answer->row;
    row->exists = true;
    row->epoch = number_of(reply->element[1]);
    row->count = number_of(reply->element[2]);
    row->timeout_us = claim_timeout_us(number_of(reply->element[3]));
    take_text(reply->element[4], row->holder, sizeof(row->holder));
    take_text(reply->element[5], row->url, sizeof(row->url));
    return true;
}

static void refused(struct redis_claim *redis, const char *error)
{
    struct failure failure = failure_read(bytes_str(error));
    bool moved = failure.kind == FAILURE_MOVED || failure.kind == FAILURE_NO_MASTER;
    if (moved && redis->url.topology != REDIS_SINGLE)
        (void)topology_moved(&redis->topology, redis->node, &failure);
    else if (failure.kind == FAILURE_CLUSTER_DOWN)
        topology_suspect(&redis->topology, redis->node);
    set_why(redis, "Redis refused: ", error);
}

static void answered(struct link_call *call, redisReply *reply)
{
    struct redis_claim *redis = of_call(call);
    struct claim_answer answer;
    bool good = reply && reply->type != REDIS_REPLY_ERROR && read_answer(reply, &answer);
    redis->connected = good;
    if (good) {
        redis->why[0] = '\0';
        claim_answered(&redis->claim, &answer, member_now_us());
    } else {
        if (!reply)
            set_why(redis, "Redis is away: ", redis->node->link.error);
        else
            refused(redis, reply->type == REDIS_REPLY_ERROR ? reply->str : "unexpected answer");
        claim_unanswered(&redis->claim, member_now_us());
    }
    if (reply)
        freeReplyObject(reply);
}

/* ---- questions ---- */

static void add_request(const struct redis_claim *redis, const struct claim_request *request,
                        struct buf *out)
{
    resp_begin(out, 3 + 3 + 1 + FIELDS);
    resp_add_str(out, "EVAL");
    resp_add_str(out, script);
    resp_add_str(out, "1");
    resp_add_str(out, redis->key);
    resp_add_str(out, !request->write ? "read" : request->make ? "make" : "write");
    resp_add_u64(out, request->from_epoch);
    resp_add_u64(out, request->from_count);
    resp_add_u64(out, request->to.epoch);
    resp_add_u64(out, request->to.count);
    resp_add_u64(out, (uint64_t)(request->to.timeout_us / 1000));
    resp_add_str(out, request->to.holder);
    resp_add_str(out, request->to.url);
}

/* Without a password in the URL it is the environment's. */
static void take_password(struct redis_url *url)
{
    const char *password = getenv("LATERD_REDIS_PASSWORD");
    if (password && !url->password[0])
        (void)snprintf(url->password, sizeof(url->password), "%s", password);
}

/* When a connection is lost, and while there is none: a password that was replaced in the file of
 * the URL is used by the next one, because all connections have a pointer to ours. The rest of the
 * URL is as it was at the start. */
static void find_user(struct redis_claim *redis)
{
    const char *text = member_thread_options(redis->thread)->url_text;
    struct redis_url now;
    struct redis_error error = {.text = ""};
    struct buf plain = {0};
    if (!reference_is(text))
        return;
    enum err err = reference_read(text, &plain, error.text, sizeof(error.text));
    if (!err)
        err = redis_url_read(bytes_str(plain.at), &now, &error);
    buf_fini(&plain);
    if (err) { /* it may be there at the next look */
        set_why(redis, "member.url: ", error.text);
        return;
    }
    take_password(&now);
    memcpy(redis->url.user, now.user, sizeof(now.user));
    memcpy(redis->url.password, now.password, sizeof(now.password));
}

static void node_lost(struct topology_callbacks *callbacks, struct node *node)
{
    (void)node;
    find_user(LIST_ENTRY(callbacks, struct redis_claim, callbacks));
}

static void ask(struct redis_claim *redis)
{
    struct node *node = topology_node(&redis->topology, topology_slot(bytes_str(redis->key)));
    const struct claim_request *question = claim_request(&redis->claim, member_now_us());
    if (!node) {
        const struct link *link = topology_error(&redis->topology);
        redis->connected = false;
        set_why(redis, link ? "Redis is away: " : "Redis is not connected yet",
                link ? link->error : "");
        find_user(redis);
        claim_unanswered(&redis->claim, member_now_us());
        return;
    }
    redis->node = node;
    add_request(redis, question, link_out(&node->link));
    link_expect(&node->link, &redis->call);
    link_flush(&node->link);
}

/* ---- the thread ---- */

static void begin(struct redis_claim *redis)
{
    const char *sentinel_password = getenv("LATERD_REDIS_SENTINEL_PASSWORD");
    int64_t timeout_us = redis->claim.tenure.timeout_us / TENURE_PARTS;
    topology_init(&redis->topology,
                  &(struct topology_options){
                      .url = &redis->url,
                      .callbacks = &redis->callbacks,
                      .sentinel_user = "",
                      .sentinel_password = sentinel_password ? sentinel_password : "",
                      .tls = redis->tls,
                      .loop = os_loop_port(redis->loop),
                      .timeout_us = timeout_us > TIMEOUT_MIN_US ? timeout_us : TIMEOUT_MIN_US});
}

static int64_t next_us(const struct redis_claim *redis)
{
    return tenure_wake_us(&redis->claim.tenure, claim_next_us(&redis->claim));
}

static void turn(struct redis_claim *redis, int64_t until_us)
{
    topology_flush(&redis->topology);
    loop_turn(os_loop_port(redis->loop), until_us);
    (void)claim_expire(&redis->claim, member_now_us());
}

static void give_back(struct redis_claim *redis)
{
    int64_t until_us = member_now_us() + CLOSE_US;
    claim_resign(&redis->claim, 2 * CLOSE_US, member_now_us());
    while (redis->connected && claim_is_held(&redis->claim) && member_now_us() < until_us) {
        if (claim_next_us(&redis->claim) <= member_now_us())
            ask(redis);
        int64_t at_us = next_us(redis);
        turn(redis, at_us < until_us ? at_us : until_us);
    }
}

static void run(struct member_thread *thread, void *user)
{
    struct redis_claim *redis = user;
    redis->thread = thread;
    os_loop_wake_by(redis->loop, member_wake_fd(thread));
    (void)loop_update_time(os_loop_port(redis->loop));
    begin(redis);
    for (;;) {
        struct member_requests requests = member_requests(thread);
        if (requests.close)
            break;
        if (requests.above)
            claim_raise(&redis->claim, requests.above, member_now_us());
        if (requests.resign)
            claim_resign(&redis->claim, requests.rest_us, member_now_us());
        if (claim_next_us(&redis->claim) <= member_now_us())
            ask(redis);
        member_publish(thread, &redis->claim.tenure, claim_leader(&redis->claim), redis->connected,
                       redis->why);
        turn(redis, next_us(redis));
    }
    give_back(redis);
    topology_fini(&redis->topology); /* answers the request under way with an error */
}

static void ended(void *user)
{
    struct redis_claim *redis = user;
    os_loop_free(redis->loop);
    tls_free(redis->tls);
    mem_free(redis);
}

/* ---- as a plugin has it ---- */

static enum err read_options(const struct member_options *options, struct redis_claim *redis,
                             struct member_error *out_error)
{
    struct redis_error error = {.text = ""};
    enum err err = redis_url_read(bytes_str(options->url), &redis->url, &error);
    (void)snprintf(out_error->text, sizeof(out_error->text), "url: %.220s",
                   redis_url_clause(error.text));
    if (err)
        return err;
    take_password(&redis->url);
    (void)snprintf(redis->key, sizeof(redis->key), "laterd:member:%s", options->name);
    claim_init(&redis->claim, options, member_now_us());
    return OK;
}

static enum err check(const struct member_options *options, struct member_error *out_error)
{
    struct redis_claim *redis = mem_zalloc(sizeof(*redis));
    enum err err = read_options(options, redis, out_error);
    mem_free(redis);
    return err;
}

static enum err make_tls(const struct member_options *options, struct redis_claim *redis,
                         struct member_error *out_error)
{
    struct tls_options tls = {.keys = "member.", .ca = options->ca, .certificate = "", .key = ""};
    struct tls_error error = {.text = ""};
    enum err err = redis->url.tls ? tls_client_new(&tls, &redis->tls, &error) : OK;
    (void)snprintf(out_error->text, sizeof(out_error->text), "%.230s", error.text);
    return err;
}

static enum err open_member(const struct member_options *options, struct member **out_member,
                            struct member_error *out_error)
{
    struct redis_claim *redis = mem_zalloc(sizeof(*redis));
    redis->call.done = answered;
    redis->callbacks.lost = node_lost;
    redis->clock.now_us = loop_now_us;
    enum err err = read_options(options, redis, out_error);
    if (!err)
        err = make_tls(options, redis, out_error);
    if (!err)
        redis->loop = os_loop_new(&redis->clock, 0);
    if (!err && !redis->loop) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "%s", strerror(errno));
        err = ERR_IO;
    }
    if (err) {
        ended(redis);
        return err;
    }
    return member_thread_open(
        &(struct member_thread_options){
            .member = options, .user = redis, .run = run, .ended = ended},
        out_member, out_error);
}

const struct member_plugin redis_member = {
    .abi = MEMBER_PLUGIN_ABI,
    .version = LATERD_VERSION,
    .scheme = "redis",
    .library = "client/redis of laterd",
    .check = check,
    .open = open_member,
};
