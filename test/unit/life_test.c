/*
 * Whole lives: per seed two dozen clients of both HTTP dialects do random things to one server,
 * with their bytes cut anywhere, small windows, resets and half closes, while syncs are held back,
 * writes fail, the disk fills up, and the server is killed, loses its power or ends politely. Then
 * all faults end, everything is drained, and the oracle (life_oracle.h) must agree with all that
 * any client was told. Each seed is lived twice and must leave the same trace.
 *
 *   SIM_SEEDS=2000 build/test/life_test     the first so many seeds
 *   SIM_SEED=7 build/test/life_test         this one
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "core/core.h"
#include "life_oracle.h"
#include "sim/world.h"
#include "store/store.h"
#include "wire.h"

enum {
    SEEDS = 60, /* unless SIM_SEEDS says otherwise */
    ROUNDS = 700,
    CLIENTS = 24,
    ASKS_MAX = 4, /* pipelined at most */
    JOBS_MAX = 8, /* reserved by one client */
    BATCH_MAX = 4,
    SEGMENT_BYTES = 64 * 1024,
    LARGEST_BODY = 8 * 1024,
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
    bool faulty;  /* a fault was planted since the server started */
    bool crowded; /* the disk has little room */
};

static uint64_t below(struct life *life, uint64_t limit)
{
    return sim_random_below(world_random(life->world), limit);
}

static bool chance(struct life *life, unsigned per_mille)
{
    return sim_random_chance(world_random(life->world), per_mille);
}

/* ---- asking ---- */

static void send_ask(struct life *life, struct client *client, struct ask *ask, const char *method,
                     const char *path, const struct buf *body)
{
    struct buf request = {0};
    struct ask *place = &client->asks[client->ask_count++];
    ask->prompt = client->ask_count == 1 && !client->slow;
    ask->sent_us = world_now_us(life->world);
    *place = *ask;
    wire_request(&request, bytes_str(method), bytes_str(path), NULL,
                 body ? buf_bytes(body) : BYTES(""));
    world_note(life->world, buf_bytes(&request));
    sim_peer_send(client->peer, buf_bytes(&request));
    buf_fini(&request);
}

/* An id that nobody else is changing; it is ours until the answer. NO_ID: they are all busy. */
static unsigned take_id(struct life *life)
{
    unsigned id = (unsigned)below(life, IDS);
    if (life->oracle.busy[id])
        return NO_ID;
    life->oracle.busy[id] = true;
    life->oracle.changes[id]++;
    return id;
}

static int64_t random_delay_ms(struct life *life)
{
    static const int64_t longest_ms[] = {1, 50, 2000, 10000, 600000};
    return chance(life, 300) ? 0 : (int64_t)below(life, (uint64_t)longest_ms[below(life, 5)]);
}

static void add_body(struct buf *out, unsigned number, bool json)
{
    buf_add_str(out, json ? "" : "\"");
    oracle_body(number, json, out);
    buf_add_str(out, json ? "" : "\"");
}

/* Makes a version and adds the object that pushes it. */
static void add_push(struct life *life, unsigned id, unsigned topic, const char *if_exists,
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
    add_body(out, life->oracle.count, version.json);
    buf_add_char(out, '}');
    (void)oracle_push(&life->oracle, &version); /* its number is the last one */
}

static void ask_push(struct life *life, struct client *client)
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

static void ask_old_push(struct life *life, struct client *client)
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
    add_body(&body, before, false);
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

static void ask_delete(struct life *life, struct client *client, unsigned id)
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

static void ask_reserve(struct life *life, struct client *client)
{
    struct ask ask = {.op = OP_RESERVE, .id = NO_ID, .old = chance(life, 300)};
    unsigned one = (unsigned)below(life, TOPICS), two = (unsigned)below(life, TOPICS);
    struct buf body = {0};
    if (client->job_count + 3 > JOBS_MAX)
        client->job_count = 0; /* it forgets them */
    if (ask.old)
        buf_addf(&body, "{\"topic\":\"t%u,t%u\"}", one, two);
    else
        buf_addf(&body, "{\"topics\":[\"t%u\",\"t%u\"],\"wait\":%llu,\"max\":%llu}", one, two,
                 (unsigned long long)(chance(life, 300) ? 0 : below(life, 5000)),
                 (unsigned long long)(1 + below(life, 3)));
    send_ask(life, client, &ask, "POST", ask.old ? "/pop" : "/v1/reserve", &body);
    buf_fini(&body);
}

static void ask_get(struct life *life, struct client *client)
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
static void ask_move(struct life *life, struct client *client)
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

static void ask_topic(struct life *life, struct client *client)
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
static void ask_of_job(struct life *life, struct client *client, const struct held_job *job,
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

static void ask_held(struct life *life, struct client *client)
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

/* ---- answers ---- */

static void check_body(struct life *life, unsigned number, const json_t *body, bool old)
{
    const struct version *version = &life->oracle.versions[number];
    struct buf want = {0};
    oracle_body(number, version->json, &want);
    bool same;
    if (version->json && !old) {
        json_t *value = json_loadb(want.at, want.len, 0, NULL);
        same = json_equal(value, body);
        json_decref(value);
    } else {
        same =
            json_is_string(body) &&
            bytes_eq(bytes_of(json_string_value(body), json_string_length(body)), buf_bytes(&want));
    }
    if (!same)
        BROKEN(&life->oracle, "version %u of job%u has another body", number, version->id);
    buf_fini(&want);
}

/* Which version is it? Its body says so, and all of it must be what was pushed. */
static unsigned read_version(struct life *life, const json_t *job, bool old)
{
    const json_t *body = json_object_get(job, "body");
    const char *text = json_is_string(body) ? json_string_value(body) : "";
    const char *digits = *text == 'v' ? text + 1 : strncmp(text, "{\"v\":", 5) == 0 ? text + 5 : "";
    unsigned number = json_is_object(body)
                          ? (unsigned)json_integer_value(json_object_get(body, "v"))
                          : (unsigned)strtoul(digits, NULL, 10);
    if (number >= life->oracle.count)
        BROKEN(&life->oracle, "version %u was never pushed", number);
    const struct version *version = &life->oracle.versions[number];
    const char *id = json_string_value(json_object_get(job, "id"));
    const char *topic = json_string_value(json_object_get(job, "topic"));
    const char *type = json_string_value(json_object_get(job, "content_type"));
    char want[32];
    check_body(life, number, body, old);
    (void)snprintf(want, sizeof(want), "job%u", version->id);
    if (!id || strcmp(id, want) != 0)
        BROKEN(&life->oracle, "version %u has another id", number);
    (void)snprintf(want, sizeof(want), "t%u", version->topic);
    if (topic ? strcmp(topic, want) != 0 : !old)
        BROKEN(&life->oracle, "version %u has another topic", number);
    (void)snprintf(want, sizeof(want), "text/x-%u", number);
    if (!old && (type ? !version->typed || strcmp(type, want) != 0 : version->typed))
        BROKEN(&life->oracle, "version %u has another content type", number);
    return number;
}

static void got_job(struct life *life, struct client *client, const struct ask *ask,
                    const json_t *job)
{
    const char *lease = json_string_value(json_object_get(job, "lease"));
    struct delivery delivery = {
        .number = read_version(life, job, ask->old),
        .now_us = world_now_us(life->world),
        .asked_us = ask->sent_us,
        .prompt = ask->prompt,
        .lease = lease ? strtoull(lease, NULL, 10) : 0,
        .deadline_ms = json_integer_value(json_object_get(job, "deadline_ms")),
    };
    oracle_delivered(&life->oracle, &delivery);
    if (client->job_count < JOBS_MAX)
        client->jobs[client->job_count++] =
            (struct held_job){.version = delivery.number, .lease = delivery.lease};
}

static void got_reserve(struct life *life, struct client *client, const struct ask *ask,
                        const json_t *answer)
{
    const json_t *job = json_object_get(answer, "data");
    if (ask->old && json_is_object(job))
        got_job(life, client, ask, job);
    const json_t *jobs = json_object_get(answer, "jobs");
    for (size_t i = 0; i < json_array_size(jobs); i++)
        got_job(life, client, ask, json_array_get(jobs, i));
}

/* One push: `status` as in /v1, 200 is "kept". */
static void pushed(struct life *life, const struct ask *ask, unsigned number, int status,
                   const char *result)
{
    struct oracle *oracle = &life->oracle;
    struct version *version = &oracle->versions[number];
    int64_t now_us = world_now_us(life->world);
    if (status == 201) {
        if (strcmp(result, "created") == 0)
            oracle_absent(oracle, version->id, ask->before, ask->may_replace);
        else if (strcmp(result, "replaced") == 0)
            oracle_present(oracle, version->id, ask->before, ask->sent_us);
        oracle_ended_all(oracle, version->id, ask->before, now_us);
        version->acked = true;
        oracle->pushed++;
    } else if (status == 200 || status == 409) { /* kept, exists: this version never was */
        oracle_present(oracle, version->id, ask->before, ask->sent_us);
        oracle_ended(version, now_us);
    }
}

static void got_push(struct life *life, const struct ask *ask, int status, const json_t *answer)
{
    const json_t *results = json_object_get(answer, "results");
    if (ask->old) { /* code 0 does not say whether there was an older one */
        bool well = json_integer_value(json_object_get(answer, "code")) == 0;
        pushed(life, ask, ask->first, well ? 201 : 503, "");
        return;
    }
    if (ask->id != NO_ID) {
        const char *result = json_string_value(json_object_get(answer, "result"));
        pushed(life, ask, ask->first, status, result ? result : "");
        return;
    }
    for (unsigned i = 0; i < json_array_size(results) && i < ask->count; i++) {
        const json_t *one = json_array_get(results, i);
        const char *result =
            json_string_value(json_object_get(json_object_get(one, "job"), "result"));
        pushed(life, ask, ask->first + i, (int)json_integer_value(json_object_get(one, "status")),
               result ? result : "");
    }
}

/* Ending a job must go on whatever the disk is like, but for a broken one. */
static void check_taken(struct life *life, int status)
{
    if (status >= 500 && !life->faulty)
        BROKEN(&life->oracle, "an ending operation got %d, and no fault was planted", status);
}

static void got_finish(struct life *life, const struct ask *ask, int status)
{
    struct version *version = &life->oracle.versions[ask->version];
    check_taken(life, status);
    if (status == 204 && ask->stale)
        BROKEN(&life->oracle, "P4: a stale lease finished version %u", ask->version);
    if (status == 409) {
        version->may_end--;
        return;
    }
    if (status == 404 && version->acked && !version->ended && version->may_end == 1)
        BROKEN(&life->oracle, "P2: version %u was acknowledged and is not there", ask->version);
    if (status == 204 || status == 404)
        oracle_ended(version, world_now_us(life->world));
    life->oracle.finished += status == 204;
}

static void got_delete(struct life *life, const struct ask *ask, int status, const json_t *answer)
{
    check_taken(life, status);
    if (ask->old && json_integer_value(json_object_get(answer, "code")) != 0) {
        check_taken(life, 503);
        return;
    }
    if (status == 404)
        oracle_absent(&life->oracle, ask->id, ask->before, 1);
    if (status == 204 || status == 404 || ask->old)
        oracle_ended_all(&life->oracle, ask->id, ask->before, world_now_us(life->world));
}

static void got_get(struct life *life, const struct ask *ask, int status, const json_t *answer)
{
    const json_t *job = ask->old ? json_object_get(answer, "data") : answer;
    bool well = !ask->old || json_integer_value(json_object_get(answer, "code")) == 0;
    if (status == 404 || (ask->old && well && json_is_null(job))) {
        oracle_absent(&life->oracle, ask->id, ask->before, 0);
    } else if (status == 200 && json_is_object(job)) {
        unsigned number = read_version(life, job, ask->old);
        const struct version *version = &life->oracle.versions[number];
        if (version->ended && version->ended_us < ask->sent_us)
            BROKEN(&life->oracle, "P5: version %u has ended and is shown", number);
    }
}

/* The operation is over: its ids are free for others. */
static void forget_ask(struct life *life, const struct ask *ask)
{
    life->oracle.clears -= ask->op == OP_CLEAR;
    if (ask->id != NO_ID)
        life->oracle.busy[ask->id] = false;
    for (unsigned i = 0; i < ask->count; i++)
        life->oracle.busy[life->oracle.versions[ask->first + i].id] = false;
}

static void got_answer(struct life *life, struct client *client, const struct ask *ask,
                       const struct wire_answer *wire)
{
    json_t *answer = json_loadb(wire->body.at, wire->body.len, 0, NULL);
    struct oracle *oracle = &life->oracle;
    switch (ask->op) {
    case OP_PUSH: got_push(life, ask, wire->status, answer); break;
    case OP_DELETE: got_delete(life, ask, wire->status, answer); break;
    case OP_FINISH: got_finish(life, ask, wire->status); break;
    case OP_GET: got_get(life, ask, wire->status, answer); break;
    case OP_RESERVE: got_reserve(life, client, ask, answer); break;
    case OP_RELEASE: {
        const struct version *version = &oracle->versions[ask->version];
        if (wire->status == 200 && ask->due_us && oracle->changes[version->id] == ask->changes)
            oracle_due(oracle, version->id, ask->due_us, true);
        break;
    }
    case OP_RESCHEDULE:
        if (wire->status == 200 && oracle->changes[ask->id] == ask->changes)
            oracle_due(oracle, ask->id, ask->due_us, true);
        break;
    case OP_BURY:
    case OP_CLEAR:
    case OP_OTHER: break;
    }
    if (wire->status == 400 || wire->status == 408)
        BROKEN(oracle, "the answer was %.*s", (int)wire->head.len, wire->head.at);
    json_decref(answer);
    forget_ask(life, ask);
}

/* Takes what came. With `reserves` those answers only, else those before one: see listen(). */
static void take_answers(struct life *life, struct client *client, bool reserves)
{
    struct wire_answer wire;
    while (client->peer) {
        struct bytes in = sim_peer_received(client->peer);
        size_t len = wire_cut(in, &wire);
        if (len == 0)
            return;
        if (client->ask_count == 0) {
            if (wire.status == 408)
                return;
            BROKEN(&life->oracle, "an answer to nothing: %.*s", (int)in.len, in.at);
        }
        struct ask ask = client->asks[0];
        if (!reserves && ask.op == OP_RESERVE)
            return;
        world_note(life->world, bytes_of(in.at, len));
        client->ask_count--;
        memmove(&client->asks[0], &client->asks[1], client->ask_count * sizeof(ask));
        got_answer(life, client, &ask, &wire);
        sim_peer_take(client->peer, len);
    }
}

static void leave(struct life *life, struct client *client)
{
    for (unsigned i = 0; i < client->ask_count; i++)
        forget_ask(life, &client->asks[i]);
    sim_peer_free(client->peer);
    client->peer = NULL;
    client->ask_count = 0;
    client->shut = false;
}

/*
 * What a turn's end brought to all. First the ends, then the jobs: an end that is answered in this
 * turn was decided before this turn's jobs were handed out.
 */
static void listen(struct life *life)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        take_answers(life, &life->clients[i], false);
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *client = &life->clients[i];
        take_answers(life, client, true);
        if (client->peer && sim_peer_closed(client->peer))
            leave(life, client);
    }
}

static void run(struct life *life, int64_t span_us)
{
    int64_t until_us = world_now_us(life->world) + span_us;
    while (world_step(life->world, until_us))
        listen(life);
}

/* ---- what clients do ---- */

static void ask_something(struct life *life, struct client *client)
{
    unsigned dice = (unsigned)below(life, 100);
    if (client->job_count && chance(life, 500)) {
        ask_held(life, client);
    } else if (dice < 30) {
        ask_push(life, client);
    } else if (dice < 40) {
        ask_old_push(life, client);
    } else if (dice < 75) {
        ask_reserve(life, client);
    } else if (dice < 82) {
        unsigned id = take_id(life);
        if (id != NO_ID)
            ask_delete(life, client, id);
    } else if (dice < 88) {
        ask_move(life, client);
    } else if (dice < 95) {
        ask_get(life, client);
    } else {
        ask_topic(life, client);
    }
}

static void act(struct life *life, struct client *client)
{
    if (!client->peer) {
        client->peer = sim_net_connect(world_net(life->world), WORLD_DELAY_QUEUE);
        client->slow = chance(life, 150);
    }
    if (client->slow)
        sim_peer_window(client->peer, (size_t)below(life, 400));
    if (client->ask_count && chance(life, 60)) {
        leave(life, client);
    } else if (chance(life, 15)) {
        sim_peer_shut(client->peer);
        client->shut = true;
    } else if (!client->shut && client->ask_count < ASKS_MAX &&
               (client->ask_count == 0 || chance(life, 200))) {
        ask_something(life, client);
    }
}

/* ---- what befalls the server ---- */

static void leave_all(struct life *life)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        leave(life, &life->clients[i]);
}

static void boot(struct life *life)
{
    sim_disk_fail_at(world_disk(life->world), UINT64_MAX, 0); /* a fault that has not come yet */
    if (world_boot(life->world))
        BROKEN(&life->oracle, "it does not start: %s", world_trouble(life->world));
    life->faulty = false;
}

static enum world_crash some_crash(struct life *life)
{
    return chance(life, 500) ? WORLD_KILL : WORLD_POWER;
}

/* A start, now and then after one that did not get far; what is recovered is recovered for good. */
static void start(struct life *life)
{
    while (chance(life, 300))
        world_boot_cut(life->world, below(life, 60), some_crash(life));
    boot(life);
    if (chance(life, 500))
        return;
    uint64_t digest = core_digest(world_core(life->world));
    world_crash(life->world, some_crash(life));
    boot(life);
    if (core_digest(world_core(life->world)) != digest)
        BROKEN(&life->oracle, "P9: a second recovery gives another state");
}

static void crash(struct life *life)
{
    world_crash(life->world, some_crash(life));
    oracle_crashed(&life->oracle);
    leave_all(life);
}

static void stop(struct life *life)
{
    world_hold_disk(life->world, false);
    world_drain(life->world);
    for (unsigned i = 0; i < CLIENTS; i++)
        life->clients[i].shut = true; /* whatever is asked now may not be looked at */
    life->faulty = true;              /* and 503 is a fair answer */
    run(life, 40 * SECOND_US);
    /* On a full disk an answer may have to wait for room, for longer than we do. */
    if (world_is_up(life->world) && !world_stop(life->world) && !life->crowded)
        BROKEN(&life->oracle, "it does not end");
    listen(life);
    leave_all(life);
}

static void crowd(struct life *life)
{
    struct sim_disk *disk = world_disk(life->world);
    life->crowded = !life->crowded;
    life->oracle.full += life->crowded;
    sim_disk_capacity(disk,
                      life->crowded ? sim_disk_used(disk) + below(life, SEGMENT_BYTES * 2) : 0);
}

static void befall(struct life *life)
{
    unsigned dice = (unsigned)below(life, 1000);
    struct sim_disk *disk = world_disk(life->world);
    if (!world_is_up(life->world)) {
        start(life);
    } else if (dice < 12 || (store_failed(world_store(life->world)) && dice < 120)) {
        crash(life);
    } else if (dice < 16) {
        stop(life);
    } else if (dice < 30) {
        world_hold_disk(life->world, chance(life, 500));
    } else if (dice < 36) {
        sim_disk_fail_at(disk, sim_disk_points(disk) + below(life, 8), EIO);
        life->faulty = true;
        life->oracle.failures++;
    } else if (dice < 46) {
        crowd(life);
    }
}

/* ---- a life ---- */

static void live(struct life *life)
{
    static const int64_t spans_us[] = {1, 300, 5000, 200000, 3 * SECOND_US};
    for (unsigned round = 0; round < ROUNDS; round++) {
        befall(life);
        for (uint64_t i = below(life, 4); i > 0 && world_is_up(life->world); i--)
            act(life, &life->clients[below(life, CLIENTS)]);
        run(life, (int64_t)below(life, (uint64_t)spans_us[below(life, 5)]));
    }
}

/* Until all that the client asked is answered, or the time is over. */
static void await(struct life *life, struct client *client, int64_t span_us)
{
    int64_t until_us = world_now_us(life->world) + span_us;
    while (client->ask_count && world_step(life->world, until_us))
        listen(life);
}

static void drain_some(struct life *life, struct client *client, unsigned topic)
{
    struct buf body = {0};
    char path[40];
    for (unsigned i = 0; i < 2; i++) {
        struct ask other = {.op = OP_OTHER, .id = NO_ID};
        (void)snprintf(path, sizeof(path), "/v1/topics/t%u/%s", topic, i ? "kick" : "resume");
        send_ask(life, client, &other, "POST", path, NULL);
    }
    await(life, client, 10 * SECOND_US);
    struct ask reserve = {.op = OP_RESERVE, .id = NO_ID};
    buf_add_str(&body, "{\"topics\":[\"t0\",\"t1\",\"t2\"],\"wait\":\"20s\",\"max\":4}");
    send_ask(life, client, &reserve, "POST", "/v1/reserve", &body);
    buf_fini(&body);
    await(life, client, 30 * SECOND_US);
    while (client->job_count)
        ask_of_job(life, client, &client->jobs[--client->job_count], OP_FINISH);
    await(life, client, 10 * SECOND_US);
    if (client->ask_count)
        BROKEN(&life->oracle, "an answer does not come, though all is well");
}

/* The one client that is left takes every job and finishes it. */
static void drain_all(struct life *life)
{
    struct client *client = &life->clients[0];
    struct core_totals totals;
    client->slow = false;
    client->job_count = 0;
    for (unsigned i = 0; i < 10000; i++) {
        core_totals(world_core(life->world), &totals);
        if (totals.jobs[JOB_DELAYED] + totals.jobs[JOB_READY] + totals.jobs[JOB_RESERVED] +
                totals.jobs[JOB_BURIED] ==
            0)
            return;
        if (!client->peer)
            client->peer = sim_net_connect(world_net(life->world), WORLD_DELAY_QUEUE);
        drain_some(life, client, i % TOPICS);
    }
    BROKEN(&life->oracle, "it cannot be drained");
}

/* No more faults: every job comes and is finished, the server ends, and starts empty. */
static void heal(struct life *life)
{
    sim_disk_capacity(world_disk(life->world), 0);
    sim_disk_fail_at(world_disk(life->world), UINT64_MAX, 0);
    if (world_is_up(life->world))
        crash(life);
    boot(life);
    drain_all(life);
    oracle_finish(&life->oracle);
    stop(life);
    boot(life);
    core_valid(world_core(life->world));
}

struct sums {
    uint64_t pushed, delivered, finished, crashes, full, failures;
};

/* The trace of a whole life. */
static uint64_t live_once(uint64_t seed, struct sums *sums)
{
    struct life life = {.oracle.seed = seed};
    bool exact = seed % 2; /* half of the lives see no delay but what is asked for */
    life.world = world_new(&(struct world_options){
        .seed = seed,
        .split = true,
        .disk_us = exact ? 0 : 400,
        .oversleep_us = exact ? 0 : 300,
        .segment_bytes = SEGMENT_BYTES,
        .body_bytes = LARGEST_BODY,
        .block_us = 5 * SECOND_US,
    });
    boot(&life);
    live(&life);
    heal(&life);
    leave_all(&life);
    sums->pushed += life.oracle.pushed;
    sums->delivered += life.oracle.delivered;
    sums->finished += life.oracle.finished;
    sums->crashes += life.oracle.crashes;
    sums->full += life.oracle.full;
    sums->failures += life.oracle.failures;
    uint64_t trace = world_trace(life.world);
    world_free(life.world);
    oracle_fini(&life.oracle);
    return trace;
}

/* ---- seeds ---- */

static uint64_t seed_now; /* for the handler below, which gets no arguments */

/* A CHECK of the server has failed, or a claim of ours: say how to see it again. */
static void say_seed(int signal)
{
    char line[100];
    int len = snprintf(line, sizeof(line), "run it alone: SIM_SEED=%llu build/test/life_test\n",
                       (unsigned long long)seed_now);
    ssize_t written = write(STDERR_FILENO, line, (size_t)len);
    (void)written; /* it was worth a try */
    (void)signal;  /* SIGABRT goes on by itself */
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void whole_lives_keep_every_promise(void **state)
{
    struct sums sums = {0};
    uint64_t alone = number_of("SIM_SEED", 0), seeds = number_of("SIM_SEEDS", SEEDS);
    uint64_t first = alone ? alone : 1, last = alone ? alone : seeds;
    struct timespec begin, end;
    (void)state;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    for (seed_now = first; seed_now <= last; seed_now++) {
        struct sums again = {0};
        if (live_once(seed_now, &sums) != live_once(seed_now, &again)) {
            (void)fprintf(stderr, "seed %llu: two traces\n", (unsigned long long)seed_now);
            abort();
        }
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    (void)printf("%llu lives, each twice, in %lld s: %llu pushes, %llu deliveries, %llu finishes, "
                 "%llu crashes, %llu failing calls, %llu full disks\n",
                 (unsigned long long)(last - first + 1), (long long)(end.tv_sec - begin.tv_sec),
                 (unsigned long long)sums.pushed, (unsigned long long)sums.delivered,
                 (unsigned long long)sums.finished, (unsigned long long)sums.crashes,
                 (unsigned long long)sums.failures, (unsigned long long)sums.full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_lives_keep_every_promise)};
    log_level_set((enum log_level)(LOG_ERROR + 1)); /* broken disks are not news here */
    (void)signal(SIGABRT, say_seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
