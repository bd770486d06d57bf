/*
 * What the clients of life_test.c make of their answers: each is read, held against what was asked,
 * and told to the oracle.
 */
#ifndef LATERD_TEST_LIFE_ANSWER_H
#define LATERD_TEST_LIFE_ANSWER_H

#include <jansson.h>

#include "core/core.h"
#include "life_ask.h"

static inline void check_body(struct life *life, unsigned number, const json_t *body, bool old)
{
    const struct version *version = &life->oracle.versions[number];
    struct buf want = {0};
    oracle_body(&life->oracle, number, version->json, &want);
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
static inline unsigned read_version(struct life *life, const json_t *job, bool old)
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

static inline void got_job(struct life *life, struct client *client, const struct ask *ask,
                           const json_t *job)
{
    const char *lease = json_string_value(json_object_get(job, "lease"));
    struct handed_out delivery = {
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

static inline void got_reserve(struct life *life, struct client *client, const struct ask *ask,
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
static inline void pushed(struct life *life, const struct ask *ask, unsigned number, int status,
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
        oracle->large_pushed += oracle_is_large(oracle, number);
    } else if (status == 200 || status == 409) { /* kept, exists: this version never was */
        oracle_present(oracle, version->id, ask->before, ask->sent_us);
        oracle_ended(version, now_us);
    }
}

static inline void got_push(struct life *life, const struct ask *ask, int status,
                            const json_t *answer)
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
static inline void check_taken(struct life *life, int status)
{
    if (status >= 500 && !life->faulty)
        BROKEN(&life->oracle, "an ending operation got %d, and no fault was planted", status);
}

static inline void got_finish(struct life *life, const struct ask *ask, int status)
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

static inline void got_delete(struct life *life, const struct ask *ask, int status,
                              const json_t *answer)
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

static inline void got_get(struct life *life, const struct ask *ask, int status,
                           const json_t *answer)
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

/* What an earlier server reserved may have been on its way to a client when it crashed. */
static inline void got_census(const struct life *life, const json_t *answer)
{
    const json_t *jobs = json_object_get(answer, "jobs");
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const json_t *job = json_array_get(jobs, i);
        const char *lease = json_string_value(json_object_get(job, "lease"));
        uint64_t number = lease ? strtoull(lease, NULL, 10) : 0;
        if (number >= life->lease_first)
            oracle_reserved(&life->oracle, json_string_value(json_object_get(job, "id")), number);
    }
}

static inline void got_answer(struct life *life, struct client *client, const struct ask *ask,
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
    case OP_CENSUS: got_census(life, answer); break;
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
static inline void take_answers(struct life *life, struct client *client, bool reserves)
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

static inline uint64_t lease_next(const struct world *world)
{
    struct core_totals totals;
    core_totals(world_core(world), &totals);
    return totals.lease_next;
}

static inline void leave(struct life *life, struct client *client)
{
    /* Its last answer was left to linger: whether it arrives, the server does not wait to see. */
    if (client->shut && client->ask_count && world_is_up(life->world))
        life->lease_first = lease_next(life->world);
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
static inline void listen(struct life *life)
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

static inline void run(struct life *life, int64_t span_us)
{
    int64_t until_us = world_now_us(life->world) + span_us;
    while (world_step(life->world, until_us))
        listen(life);
}

#endif
