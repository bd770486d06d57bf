/*
 * What the clients of life_test.c ask, in both HTTP dialects, and what the oracle must know of it
 * before it is answered. Whoever changes a job by its id has that id alone until the answer; what
 * is done by lease is open to all.
 */
#ifndef LATERD_TEST_LIFE_ASK_H
#define LATERD_TEST_LIFE_ASK_H

#include "life_oracle.h"
#include "sim/world.h"
#include "wire.h"

enum {
    CLIENTS = 24,
    ASKS_MAX = 4, /* pipelined at most */
    JOBS_MAX = 8, /* reserved by one client */
    BATCH_MAX = 4,
    SECOND_US = 1000000,
};

enum op {
    OP_PUSH,
    OP_DELETE,
    OP_FINISH,
    OP_RELEASE,
    OP_BURY,
    OP_GET,
    OP_RESERVE,
    OP_RESCHEDULE,
    OP_CLEAR,
    OP_CENSUS,
    OP_OTHER, /* its answer says nothing that we use */
};

/* A request that is owed an answer. */
struct ask {
    enum op op;
    bool old;              /* in the delay-queue dialect */
    bool prompt;           /* the answer comes in the turn that makes it */
    bool stale;            /* FINISH: a newer lease had been seen when it was sent */
    bool may_replace;      /* PUSH */
    unsigned id;           /* NO_ID: none, or (a batch) those of its versions */
    unsigned before;       /* versions there were when it was sent */
    unsigned first, count; /* PUSH: the versions it makes */
    unsigned version;      /* FINISH, RELEASE, BURY */
    unsigned changes;      /* RELEASE, RESCHEDULE: oracle::changes when it was sent */
    int64_t sent_us, due_us;
};

struct held_job {
    unsigned version;
    uint64_t lease; /* 0: it came through the old dialect */
};

struct client {
    struct sim_peer *peer;
    bool slow, shut;
    struct ask asks[ASKS_MAX];
    unsigned ask_count;
    struct held_job jobs[JOBS_MAX];
    unsigned job_count;
};

struct life {
    struct world *world;
    struct oracle oracle;
    struct client clients[CLIENTS];
    bool faulty;                              /* a fault was planted since the server started */
    bool crowded;                             /* the disk has little room */
    uint64_t departed, loaded, ready, buried; /* far jobs, see count_far() */
    uint64_t lease_first; /* leases from here on are accounted for: see oracle_reserved() */
};

static inline uint64_t below(struct life *life, uint64_t limit)
{
    return sim_random_below(world_random(life->world), limit);
}

static inline bool chance(struct life *life, unsigned per_mille)
{
    return sim_random_chance(world_random(life->world), per_mille);
}

/* ---- asking ---- */

static inline void send_ask(struct life *life, struct client *client, struct ask *ask,
                            const char *method, const char *path, const struct buf *body)
{
    struct buf request = {0};
    struct ask *place = &client->asks[client->ask_count++];
    ask->prompt = client->ask_count == 1 && !client->slow && !life->oracle.large;
    ask->sent_us = world_now_us(life->world);
    *place = *ask;
    wire_request(&request, bytes_str(method), bytes_str(path), NULL,
                 body ? buf_bytes(body) : BYTES(""));
    world_note(life->world, buf_bytes(&request));
    sim_peer_send(client->peer, buf_bytes(&request));
    buf_fini(&request);
}

/* An id that nobody else is changing; it is ours until the answer. NO_ID: they are all busy. */
static inline unsigned take_id(struct life *life)
{
    unsigned id = (unsigned)below(life, IDS);
    if (life->oracle.busy[id])
        return NO_ID;
    life->oracle.busy[id] = true;
    life->oracle.changes[id]++;
    return id;
}

static inline int64_t random_delay_ms(struct life *life)
{
    static const int64_t longest_ms[] = {1, 50, 2000, 10000, 600000};
    return chance(life, 300) ? 0 : (int64_t)below(life, (uint64_t)longest_ms[below(life, 5)]);
}

static inline void add_body(const struct oracle *oracle, unsigned number, bool json,
                            struct buf *out)
{
    buf_add_str(out, json ? "" : "\"");
    oracle_body(oracle, number, json, out);
    buf_add_str(out, json ? "" : "\"");
}

/* Makes a version and adds the object that pushes it. */
static inline void add_push(struct life *life, unsigned id, unsigned topic, const char *if_exists,
                            struct buf *out)
{
    int64_t now_us = world_now_us(life->world), delay_ms = random_delay_ms(life);
    int64_t ttr_ms = 1 + (int64_t)below(life, 5000);
    struct version version = {
        .id = id,
        .topic = topic,
        .json = chance(life, 400),
        .ttr_us = ttr_ms * 1000,
        .due_us = now_us + delay_ms * 1000,
    };
    version.typed = !version.json && chance(life, 300);
    buf_addf(out, "{\"id\":\"job%u\",\"ttr\":%lld,\"priority\":%llu,\"if_exists\":\"%s\"", id,
             (long long)ttr_ms, (unsigned long long)below(life, 3), if_exists);
    if (chance(life, 500)) {
        version.due_us = version.due_us / 1000 * 1000;
        buf_addf(out, ",\"due\":%lld", (long long)(version.due_us / 1000));
    } else {
        buf_addf(out, ",\"delay\":%lld", (long long)delay_ms);
    }
    if (chance(life, 300))
        buf_add_str(out, ",\"retry\":[\"0s\",\"300ms\",\"2s\"]");
    if (version.typed)
        buf_addf(out, ",\"content_type\":\"text/x-%u\"", life->oracle.count);
    buf_add_str(out, ",\"body\":");
    add_body(&life->oracle, life->oracle.count, version.json, out);
    buf_add_char(out, '}');
    (void)oracle_push(&life->oracle, &version); /* its number is the last one */
}

static inline void ask_push(struct life *life, struct client *client)
{
    static const char *const modes[] = {"reject", "replace", "keep"};
    unsigned mode = (unsigned)below(life, 3), topic = (unsigned)below(life, TOPICS);
    unsigned want = chance(life, 250) ? 2 + (unsigned)below(life, BATCH_MAX - 1) : 1;
    struct ask ask = {.op = OP_PUSH,
                      .id = NO_ID,
                      .before = life->oracle.count,
                      .first = life->oracle.count,
                      .may_replace = mode == 1};
    struct buf body = {0};
    char path[32];
    for (unsigned i = 0; i < want; i++) {
        unsigned id = take_id(life);
        if (id == NO_ID)
            continue;
        if (ask.may_replace)
            oracle_may_end(&life->oracle, id, ask.before);
        if (ask.count++)
            buf_add_char(&body, ',');
        else if (want > 1)
            buf_add_char(&body, '[');
        add_push(life, id, topic, modes[mode], &body);
    }
    if (want > 1)
        buf_add_char(&body, ']');
    else if (ask.count)
        ask.id = life->oracle.versions[ask.first].id;
    (void)snprintf(path, sizeof(path), "/v1/topics/t%u/jobs", topic);
    if (ask.count)
        send_ask(life, client, &ask, "POST", path, &body);
    buf_fini(&body);
}

static inline void ask_old_push(struct life *life, struct client *client)
{
    unsigned id = take_id(life);
    if (id == NO_ID)
        return;
    unsigned before = life->oracle.count, topic = (unsigned)below(life, TOPICS);
    int64_t delay_s = 1 + (int64_t)below(life, 4), ttr_s = 1 + (int64_t)below(life, 5);
    struct ask ask = {.op = OP_PUSH,
                      .old = true,
                      .id = id,
                      .before = before,
                      .first = before,
                      .count = 1,
                      .may_replace = true};
    struct buf body = {0};
    oracle_may_end(&life->oracle, id, before);
    buf_addf(&body,
             "{\"topic\":\"t%u\",\"id\":\"job%u\",\"delay\":%lld,\"ttr\":%lld,\"body\":", topic, id,
             (long long)delay_s, (long long)ttr_s);
    add_body(&life->oracle, before, false, &body);
    buf_add_char(&body, '}');
    (void)oracle_push(&life->oracle,
                      &(struct version){.id = id,
                                        .topic = topic,
                                        .ttr_us = ttr_s * SECOND_US,
                                        .due_us = world_now_us(life->world) +
                                                  delay_s * SECOND_US}); /* number `before` */
    send_ask(life, client, &ask, "POST", "/push", &body);
    buf_fini(&body);
}

static inline void ask_delete(struct life *life, struct client *client, unsigned id)
{
    struct ask ask = {.op = OP_DELETE, .id = id, .before = life->oracle.count};
    struct buf body = {0};
    char path[32];
    ask.old = chance(life, 400);
    oracle_may_end(&life->oracle, id, ask.before);
    (void)snprintf(path, sizeof(path), "/v1/jobs/job%u", id);
    buf_addf(&body, "{\"id\":\"job%u\"}", id);
    if (ask.old)
        send_ask(life, client, &ask, "POST", chance(life, 500) ? "/finish" : "/delete", &body);
    else
        send_ask(life, client, &ask, "DELETE", path, NULL);
    buf_fini(&body);
}

static inline void ask_reserve(struct life *life, struct client *client)
{
    struct ask ask = {.op = OP_RESERVE, .id = NO_ID, .old = chance(life, 300)};
    unsigned one = (unsigned)below(life, TOPICS), two = (unsigned)below(life, TOPICS);
    struct buf body = {0};
    while (client->job_count + BATCH_MAX > JOBS_MAX) /* it forgets one */
        life->oracle.versions[client->jobs[--client->job_count].version].held_until_us = 0;
    if (ask.old)
        buf_addf(&body, "{\"topic\":\"t%u,t%u\"}", one, two);
    else
        buf_addf(&body, "{\"topics\":[\"t%u\",\"t%u\"],\"wait\":%llu,\"max\":%llu}", one, two,
                 (unsigned long long)(chance(life, 300) ? 0 : below(life, 5000)),
                 (unsigned long long)(1 + below(life, 3)));
    send_ask(life, client, &ask, "POST", ask.old ? "/pop" : "/v1/reserve", &body);
    buf_fini(&body);
}

static inline void ask_get(struct life *life, struct client *client)
{
    unsigned id = take_id(life);
    struct ask ask = {.op = OP_GET, .id = id, .before = life->oracle.count};
    struct buf body = {0};
    char path[32];
    if (id == NO_ID)
        return;
    ask.old = chance(life, 300);
    (void)snprintf(path, sizeof(path), "/v1/jobs/job%u", id);
    buf_addf(&body, "{\"id\":\"job%u\"}", id);
    if (ask.old)
        send_ask(life, client, &ask, "POST", "/get", &body);
    else
        send_ask(life, client, &ask, "GET", path, NULL);
    buf_fini(&body);
}

/* Kick, run, or another due time. */
static inline void ask_move(struct life *life, struct client *client)
{
    unsigned id = take_id(life);
    struct ask ask = {.op = OP_OTHER, .id = id, .before = life->oracle.count};
    struct buf body = {0};
    char path[40];
    if (id == NO_ID)
        return;
    if (chance(life, 500)) {
        oracle_due(&life->oracle, id, INT64_MIN, false);
        (void)snprintf(path, sizeof(path), "/v1/jobs/job%u/%s", id,
                       chance(life, 500) ? "run" : "kick");
        send_ask(life, client, &ask, "POST", path, NULL);
        return;
    }
    int64_t due_ms = world_now_us(life->world) / 1000 + random_delay_ms(life);
    ask.op = OP_RESCHEDULE;
    ask.due_us = due_ms * 1000;
    ask.changes = life->oracle.changes[id];
    oracle_due(&life->oracle, id, ask.due_us, false);
    buf_addf(&body, "{\"due\":%lld}", (long long)due_ms);
    (void)snprintf(path, sizeof(path), "/v1/jobs/job%u", id);
    send_ask(life, client, &ask, "PATCH", path, &body);
    buf_fini(&body);
}

static inline void ask_topic(struct life *life, struct client *client)
{
    static const char *const verbs[] = {"pause", "resume", "resume", "kick", "clear"};
    static const char *const states[] = {"ready", "delayed", "reserved", "buried"};
    unsigned topic = (unsigned)below(life, TOPICS);
    const char *verb = verbs[below(life, topic == TOPICS - 1 ? 5 : 4)]; /* only one is cleared */
    struct ask ask = {.op = OP_OTHER, .id = NO_ID};
    struct buf body = {0};
    char path[40];
    if (strcmp(verb, "pause") == 0) {
        buf_addf(&body, "{\"for\":%llu}", (unsigned long long)(1 + below(life, 3000)));
    } else if (strcmp(verb, "clear") == 0) {
        buf_addf(&body, "{\"state\":\"%s\"}", states[below(life, 4)]);
        ask.op = OP_CLEAR;
        life->oracle.clears++;
        for (unsigned i = 0; i < life->oracle.count; i++) {
            struct version *version = &life->oracle.versions[i];
            version->may_end += version->topic == topic;
            version->held_until_us = 0;
        }
    }
    (void)snprintf(path, sizeof(path), "/v1/topics/t%u/%s", topic, verb);
    send_ask(life, client, &ask, "POST", path, &body);
    buf_fini(&body);
}

/* Something that is done with a reserved job and its lease. */
static inline void ask_of_job(struct life *life, struct client *client, const struct held_job *job,
                              enum op op)
{
    static const char *const verbs[] = {
        [OP_FINISH] = "finish", [OP_RELEASE] = "release", [OP_BURY] = "bury", [OP_OTHER] = "touch"};
    struct version *version = &life->oracle.versions[job->version];
    struct ask ask = {.op = op,
                      .id = NO_ID,
                      .version = job->version,
                      .before = life->oracle.count,
                      .stale = version->lease > job->lease};
    struct buf body = {0};
    char path[40];
    buf_addf(&body, "{\"lease\":\"%llu\"", (unsigned long long)job->lease);
    if (op == OP_FINISH)
        version->may_end++;
    if (op == OP_RELEASE || op == OP_BURY)
        version->held_until_us = 0;
    if (op == OP_RELEASE && chance(life, 500)) {
        int64_t delay_ms = random_delay_ms(life);
        ask.due_us = world_now_us(life->world) + delay_ms * 1000;
        ask.changes = ++life->oracle.changes[version->id];
        buf_addf(&body, ",\"delay\":%lld", (long long)delay_ms);
    }
    buf_add_char(&body, '}');
    (void)snprintf(path, sizeof(path), "/v1/jobs/job%u/%s", version->id, verbs[op]);
    send_ask(life, client, &ask, "POST", path, &body);
    buf_fini(&body);
}

static inline void ask_held(struct life *life, struct client *client)
{
    static const enum op ops[] = {OP_FINISH, OP_FINISH,  OP_FINISH, OP_FINISH,
                                  OP_FINISH, OP_RELEASE, OP_BURY,   OP_OTHER};
    struct held_job job = client->jobs[below(life, client->job_count)];
    unsigned id = life->oracle.versions[job.version].id;
    if (job.lease) {
        ask_of_job(life, client, &job, ops[below(life, 8)]);
    } else if (!life->oracle.busy[id]) { /* the old dialect knows no leases: it goes by the id */
        life->oracle.busy[id] = true;
        ask_delete(life, client, id);
    }
}

/* The operation is over: its ids are free for others. */
static inline void forget_ask(struct life *life, const struct ask *ask)
{
    life->oracle.clears -= ask->op == OP_CLEAR;
    if (ask->id != NO_ID)
        life->oracle.busy[ask->id] = false;
    for (unsigned i = 0; i < ask->count; i++)
        life->oracle.busy[life->oracle.versions[ask->first + i].id] = false;
}

#endif
