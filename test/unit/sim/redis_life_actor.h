/*
 * The clients of redis_life_test.c: each has one command under way at a time, at a daemon of its
 * choice, and holds a few jobs. What they ask and are told goes to the oracle.
 */
#ifndef LATERD_TEST_REDIS_LIFE_ACTOR_H
#define LATERD_TEST_REDIS_LIFE_ACTOR_H

#include "redis_life_faults.h"

enum { DRAIN_MAX = 8 };

static const struct bytes topic_names[TOPICS] = {{"a", 1}, {"bb", 2}};

static inline void actor_answered(struct ticket *ticket, const struct reply *reply);

static inline bool is_slow(const struct life *life)
{
    return life->slow || life->calm;
}

static inline struct version *version_of(struct actor *actor)
{
    return &actor->life->oracle.versions[actor->version];
}

static inline void submit(struct actor *actor, enum op op, const struct cmd *cmd)
{
    struct life *life = actor->life;
    struct daemon *daemon = &life->daemons[actor->daemon];
    struct engine *engine = redis_engine_port(daemon->engine);
    actor->op = op;
    actor->ticket = (struct ticket){.answered = actor_answered};
    actor->busy = true;
    actor->born = daemon->born;
    actor->sent_us = life->now_us;
    actor->bound = cmd->kind == CMD_RESERVE && cmd->reserve.bound;
    (void)loop_update_time(daemon->loop);
    (void)engine->verbs->submit(engine, cmd, &actor->ticket); /* the ticket says it as well */
    engine->verbs->match(engine);
    daemon->wanted_us = life->now_us;
}

/* ---- asking ---- */

static inline void push_later(struct actor *actor, int64_t delay_us)
{
    struct life *life = actor->life;
    const struct daemon *daemon = &life->daemons[actor->daemon];
    struct buf body = {0}, properties = {0};
    char id[24];
    bool for_hours = chance(life, 300) && life->gentle;
    struct version version = {.for_hours = for_hours,
                              .topic = (unsigned)below(life, TOPICS),
                              .due_us = life->now_us + delay_us,
                              .first_due_us = life->now_us + delay_us};
    actor->version = oracle_push(&life->oracle, &version);
    oracle_body(actor->version, &body);
    oracle_properties(actor->version, &properties);
    struct cmd cmd = {
        .kind = CMD_PUSH,
        .push = {.topic = topic_names[version.topic],
                 .due_us = daemon_now(daemon) + delay_us,
                 .ttr_us = for_hours ? 3600 * INT64_C(1000000) : 300 * MS + span(life, 1500 * MS),
                 .priority = (uint32_t)below(life, 3),
                 .body = buf_bytes(&body),
                 .properties = buf_bytes(&properties)}};
    if (chance(life, 400))
        cmd.push.id = bytes_of(id, (size_t)snprintf(id, sizeof(id), "job%u", actor->version));
    submit(actor, OP_PUSH, &cmd);
    if (life->gentle && chance(life, 30)) /* while somebody is about to get it */
        mend_at(life, span(life, 5 * MS), MEND_LEAVE, (unsigned)below(life, life->daemon_count), 0);
    buf_fini(&body);
    buf_fini(&properties);
}

static inline void ask_push(struct actor *actor)
{
    struct life *life = actor->life;
    push_later(actor, chance(life, 500) ? 0 : span(life, 1500 * MS));
}

/* Of all topics, or of one. */
static inline void ask_reserve_of(struct actor *actor, bool all, uint32_t max, int64_t wait_us)
{
    struct life *life = actor->life;
    unsigned first = (unsigned)below(life, TOPICS);
    struct bytes topics[TOPICS] = {topic_names[first], topic_names[1 - first]};
    struct cmd cmd = {.kind = CMD_RESERVE,
                      .reserve = {.topics = topics,
                                  .topic_count = all ? TOPICS : 1,
                                  .max = max,
                                  .wait_us = wait_us,
                                  .listed_order = chance(life, 200),
                                  .bound = !actor->drains && chance(life, 400)}};
    actor->ttr_us = life->oracle.count % 5 == 0 ? 700 * MS : 0; /* in place of the jobs' own */
    cmd.reserve.ttr_us = actor->ttr_us;
    actor->parked = wait_us > 0;
    actor->waits_for[first] = true;
    actor->waits_for[1 - first] = all;
    if (!actor->drains && chance(life, 20))
        cut_off(life, actor->daemon);
    submit(actor, OP_RESERVE, &cmd);
}

static inline void ask_reserve(struct actor *actor, uint32_t max, int64_t wait_us)
{
    bool all = actor->drains || chance(actor->life, 400);
    ask_reserve_of(actor, all, max, wait_us);
}

/* The version is about to be changed by this command. */
static inline void begin_change(struct actor *actor, const struct held *held)
{
    struct life *life = actor->life;
    actor->version = held->version;
    actor->seq = held->seq;
    actor->lease = held->lease;
    struct version *version = version_of(actor);
    actor->stale = held->lease && held->lease < version->lease && !version->relapsed;
    actor->sure =
        held->lease == version->lease && !version->free && !version->loose && !life->risky;
    version->free = true;
    version->wild = version->wild || !held->lease;
    version->changes++;
    actor->due_us = 0;
}

static inline struct held take_held(struct actor *actor)
{
    unsigned at = (unsigned)below(actor->life, actor->held_count);
    struct held held = actor->held[at];
    actor->held[at] = actor->held[--actor->held_count];
    return held;
}

static inline void ask_end(struct actor *actor, struct held held)
{
    struct life *life = actor->life;
    struct cmd cmd = {
        .kind = chance(life, 700) ? CMD_FINISH : CMD_DELETE,
        .job = {
            .ref.seq = held.seq, .lease = held.lease, .is_done = true, .brief = chance(life, 500)}};
    if (!held.lease)
        cmd.kind = CMD_DELETE;
    begin_change(actor, &held);
    version_of(actor)->may_end++;
    submit(actor, OP_END, &cmd);
}

static inline void ask_change(struct actor *actor, struct held held)
{
    char note[16];
    struct life *life = actor->life;
    const struct daemon *daemon = &life->daemons[actor->daemon];
    static const enum cmd_kind kinds[] = {CMD_RELEASE, CMD_RELEASE, CMD_BURY, CMD_KICK, CMD_RUN};
    struct cmd cmd = {.kind = kinds[below(life, 5)],
                      .job = {.ref.seq = held.seq, .lease = held.lease}};
    begin_change(actor, &held);
    actor->changing = held;
    if (cmd.kind == CMD_KICK || cmd.kind == CMD_RUN) {
        cmd.job.lease = 0;
        version_of(actor)->wild = true;
        version_of(actor)->due_us = 0; /* it may be ready from now on */
    } else if (cmd.kind == CMD_RELEASE && chance(life, 500)) {
        int64_t delay_us = span(life, SECOND_US);
        cmd.job.has_delay = true;
        cmd.job.due_us = daemon_now(daemon) + delay_us;
        actor->due_us = life->now_us + delay_us;
    } else if (cmd.kind == CMD_RELEASE && chance(life, life->gentle ? 700 : 300)) {
        cmd.job.why = chance(life, 500) ? RELEASE_UNDELIVERED : RELEASE_ABANDONED;
        actor->stale = actor->sure = false; /* it is answered at once, and done later */
        if (chance(life, 400))
            cut_off(life, actor->daemon);
    }
    actor->note = 0;
    if (cmd.kind == CMD_BURY || (cmd.kind == CMD_RELEASE && cmd.job.why == RELEASE_ASKED)) {
        actor->note = ++version_of(actor)->notes;
        cmd.job.note_code = actor->note;
        cmd.job.note = bytes_of(note, (size_t)snprintf(note, sizeof(note), "n%u", actor->note));
    }
    version_of(actor)->noted = 0;
    submit(actor, OP_CHANGE, &cmd);
}

static inline void ask_touch(struct actor *actor)
{
    struct held held = actor->held[below(actor->life, actor->held_count)];
    struct cmd cmd = {.kind = CMD_TOUCH, .job = {.ref.seq = held.seq, .lease = held.lease}};
    begin_change(actor, &held);
    submit(actor, OP_TOUCH, &cmd);
}

/* Any job that somebody knows of, without a lease. */
static inline bool some_job(struct life *life, struct held *out_held)
{
    for (int tries = 0; life->oracle.count && tries < 4; tries++) {
        unsigned number = (unsigned)below(life, life->oracle.count);
        const struct version *version = &life->oracle.versions[number];
        if (!version->seq || version->ended)
            continue;
        *out_held = (struct held){.version = number, .seq = version->seq};
        return true;
    }
    return false;
}

static inline void ask_settings(struct actor *actor)
{
    struct life *life = actor->life;
    char text[24];
    int len = snprintf(text, sizeof(text), "%llu", (unsigned long long)++life->oracle.settings_set);
    struct cmd cmd = {.kind = CMD_CONFIGURE_TOPIC,
                      .topic = {.topic = topic_names[below(life, TOPICS)],
                                .settings = bytes_of(text, chance(life, 800) ? (size_t)len : 0)}};
    submit(actor, OP_LOOK, &cmd);
}

static inline void ask_look(struct actor *actor)
{
    struct life *life = actor->life;
    struct held any;
    if (chance(life, 400)) {
        ask_settings(actor);
        return;
    }
    if (chance(life, 400) && some_job(life, &any)) {
        struct cmd get = {.kind = CMD_GET, .job.ref.seq = any.seq};
        submit(actor, OP_LOOK, &get);
        return;
    }
    struct cmd cmd = {.kind = chance(life, 500) ? CMD_TOPIC : CMD_PEEK,
                      .topic = {.topic = topic_names[below(life, TOPICS)], .state = JOB_READY}};
    submit(actor, OP_LOOK, &cmd);
}

/* ---- answers ---- */

static inline void got_jobs(struct actor *actor, const struct reply *reply)
{
    struct life *life = actor->life;
    const struct daemon *daemon = &life->daemons[actor->daemon];
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct job_view *job = &reply->jobs[i];
        int64_t ttr_us = actor->ttr_us ? actor->ttr_us : job->ttr_us;
        struct handed_out delivery = {.number =
                                          oracle_version(&life->oracle, job->body, job->properties),
                                      .now_us = life->now_us,
                                      .asked_us = actor->sent_us,
                                      .until_us = job->until_us - daemon->ahead_us,
                                      .reserved_us = job->until_us - ttr_us - daemon->ahead_us,
                                      .lease = job->lease,
                                      .seq = job->ref.seq,
                                      .bound = actor->bound};
        oracle_delivered(&life->oracle, &delivery);
        if (actor->held_count < HELD_MAX)
            actor->held[actor->held_count++] = (struct held){.version = delivery.number,
                                                             .seq = delivery.seq,
                                                             .lease = delivery.lease,
                                                             .bound = actor->bound,
                                                             .daemon = actor->daemon,
                                                             .born = actor->born};
    }
}

/* P8 */
static inline void check_jobs_max(const struct oracle *oracle)
{
    unsigned jobs = oracle->jobs_max ? oracle_jobs(oracle) : 0;
    if (jobs > oracle->jobs_max)
        BROKEN(oracle, "P8: %u jobs are there, and %llu may be", jobs,
               (unsigned long long)oracle->jobs_max);
}

/* P8: what is full refuses what is new, and nothing else. */
static inline void check_refusal(struct actor *actor)
{
    struct oracle *oracle = &actor->life->oracle;
    bool full = actor->err == ERR_MEMORY_LIMIT, crowded = actor->err == ERR_JOBS_LIMIT;
    if (!full && !crowded)
        return;
    oracle->refused++;
    if (actor->op != OP_PUSH && actor->op != OP_LOOK)
        BROKEN(oracle, "P8: a command that makes no job is refused with %d", (int)actor->err);
    if (crowded && !actor->life->risky && !oracle->failed_over_us &&
        oracle_jobs_since(oracle, actor->sent_us) * actor->life->partitions < oracle->jobs_max)
        BROKEN(oracle, "P8: a push is refused though there is room for it");
}

static inline void got_push(struct actor *actor, const struct reply *reply)
{
    struct version *version = version_of(actor);
    if (!reply->err) {
        version->acked = true;
        version->seq = reply->jobs->ref.seq;
        check_jobs_max(&actor->life->oracle);
    } else if (reply->err == ERR_EXISTS) {
        BROKEN(&actor->life->oracle, "version %u was pushed once, and is there", actor->version);
    }
}

/* Its lease was stale, and nothing can have made it good again. */
static inline bool is_stale(const struct actor *actor, const struct version *version)
{
    return actor->stale && !version->loose && actor->life->oracle.failed_over_us < actor->sent_us;
}

/* The push was on its way and the job reserved when a failover lost both: it was pushed again, and
   is another job now. That the one before is not there says nothing of it. */
static inline bool is_of_lost_push(const struct actor *actor, const struct version *version)
{
    return version->seq && version->seq != actor->seq;
}

/* A lease that must be good was refused. */
static inline void check_sure(const struct actor *actor, const struct version *version)
{
    const struct oracle *oracle = &actor->life->oracle;
    if (actor->sure && version->changes == 1 && version->lease == actor->lease && !version->loose &&
        !oracle->silences && oracle->failed_over_us < actor->sent_us &&
        (!version->bound || oracle->left_us < actor->sent_us) &&
        actor->life->now_us < version->held_until_us - oracle->slack_us)
        BROKEN(oracle, "P4: the lease of version %u is refused %lld us before its end",
               actor->version, (long long)(version->held_until_us - actor->life->now_us));
}

static inline void got_end(struct actor *actor, const struct reply *reply)
{
    struct life *life = actor->life;
    struct version *version = version_of(actor);
    switch ((unsigned)reply->err) {
    case OK:
        if (is_stale(actor, version))
            BROKEN(&life->oracle, "P4: a stale lease finished version %u", actor->version);
        oracle_ended(version, life->now_us);
        life->oracle.finished++;
        break;
    case ERR_NOT_FOUND:
        if (is_of_lost_push(actor, version)) {
            version->may_end--;
            break;
        }
        if (version->acked && !version->ended && version->may_end == 1 && !version->loose &&
            !life->oracle.silences)
            BROKEN(&life->oracle, "P2: version %u was acknowledged and is not there",
                   actor->version);
        if (version->acked && life->oracle.failed_over_us < actor->sent_us)
            oracle_missing(version, life->now_us);
        break;
    case ERR_STALE_LEASE:
    case ERR_WRONG_STATE:
        check_sure(actor, version);
        version->may_end--;
        break;
    default: break; /* nobody knows */
    }
}

static inline void got_change(struct actor *actor, const struct reply *reply)
{
    struct version *version = version_of(actor);
    if (!reply->err && actor->due_us && actor->lease && version->lease == actor->lease &&
        version->changes == 1 && !version->loose)
        version->due_us = actor->due_us;
    if (!reply->err && actor->op == OP_CHANGE && version->changes == 1) {
        version->noted = actor->note;
        version->noted_us = actor->life->now_us;
    }
    if (!reply->err && actor->lease && is_stale(actor, version) && reply->kind != CMD_KICK &&
        reply->kind != CMD_RUN)
        BROKEN(&actor->life->oracle, "P4: a stale lease changed version %u", actor->version);
    if (reply->err == ERR_STALE_LEASE && reply->kind != CMD_KICK)
        check_sure(actor, version);
    bool ours = actor->op == OP_CHANGE && actor->changing.lease;
    if (reply->err && ours && actor->held_count < HELD_MAX)
        actor->held[actor->held_count++] = actor->changing;
}

static inline void actor_answered(struct ticket *ticket, const struct reply *reply)
{
    struct actor *actor = (struct actor *)ticket; /* its first member */
    struct life *life = actor->life;
    if (!actor->busy || actor->born != life->daemons[actor->daemon].born)
        return; /* its daemon was killed */
    actor->busy = actor->parked = false;
    actor->err = reply->err;
    actor->next_us =
        life->now_us + (actor->drains ? 60 * MS : span(life, (is_slow(life) ? 1000 : 120) * MS));
    if (actor->rests)
        actor->next_us = INT64_MAX;
    check_refusal(actor);
    life->oracle.trace = life->oracle.trace * 31 + (uint64_t)reply->err * 7 +
                         (uint64_t)life->now_us + (uint64_t)reply->kind;
    switch (actor->op) {
    case OP_PUSH: got_push(actor, reply); break;
    case OP_RESERVE:
        if (!reply->err)
            got_jobs(actor, reply);
        break;
    case OP_END: got_end(actor, reply); break;
    case OP_TOUCH:
    case OP_CHANGE: got_change(actor, reply); break;
    case OP_LOOK:
        if (reply->kind == CMD_GET && !reply->err && reply->jobs->body.len > 1)
            oracle_notes(&life->oracle,
                         oracle_version(&life->oracle, reply->jobs->body, reply->jobs->properties),
                         actor->sent_us, reply->jobs->notes, reply->jobs->note_count);
        break;
    case OP_NONE: break;
    }
}

/* ---- acting ---- */

/* Connections end with their daemon, and their leases with them. */
static inline void drop_void(struct actor *actor)
{
    for (unsigned i = actor->held_count; i-- > 0;) {
        const struct held *held = &actor->held[i];
        const struct daemon *daemon = &actor->life->daemons[held->daemon];
        if (held->bound && (daemon->born != held->born || !daemon->engine || daemon->leaving))
            actor->held[i] = actor->held[--actor->held_count];
    }
}

/* A client that waits goes away, with whatever is on its way to it (P6). */
static inline void cancel(struct actor *actor)
{
    struct life *life = actor->life;
    struct daemon *daemon = &life->daemons[actor->daemon];
    struct engine *engine = redis_engine_port(daemon->engine);
    engine->verbs->cancel(engine, &actor->ticket);
    actor->busy = actor->parked = false;
    daemon->wanted_us = life->now_us;
}

static inline bool pick_daemon(struct actor *actor)
{
    struct life *life = actor->life;
    actor->daemon = (unsigned)below(life, life->daemon_count);
    return is_awake(&life->daemons[actor->daemon]);
}

static inline void act_busily(struct actor *actor)
{
    struct life *life = actor->life;
    struct held any;
    uint64_t dice = below(life, 1000);
    if (dice < 350)
        ask_push(actor);
    else if (dice < 480 && actor->held_count)
        ask_end(actor, take_held(actor));
    else if (dice < 560 && actor->held_count)
        ask_change(actor, take_held(actor));
    else if (dice < 580 && actor->held_count)
        ask_touch(actor);
    else if (dice < 600 && some_job(life, &any))
        chance(life, 500) ? ask_end(actor, any) : ask_change(actor, any);
    else if (dice < 620)
        ask_look(actor);
    else if (actor->held_count < HELD_MAX - 1)
        ask_reserve(actor, 1 + (uint32_t)below(life, 2),
                    chance(life, 600) ? span(life, (chance(life, 500) ? 2 : 6) * SECOND_US) : 0);
}

/* Most wait, and each job has somebody who waits for it. */
static inline void act_calmly(struct actor *actor)
{
    struct life *life = actor->life;
    if (actor->held_count && chance(life, 700))
        ask_end(actor, take_held(actor));
    else if (actor->held_count)
        ask_change(actor, take_held(actor));
    else if (chance(life, 400))
        ask_push(actor);
    else
        ask_reserve(actor, 1 + (uint32_t)below(life, 2), SECOND_US + span(life, 3 * SECOND_US));
}

static inline void act(struct actor *actor)
{
    struct life *life = actor->life;
    actor->next_us = life->now_us + span(life, (is_slow(life) ? 1000 : 150) * MS);
    drop_void(actor);
    if (actor->busy) {
        if (actor->parked && chance(life, 150) && is_awake(&life->daemons[actor->daemon]))
            cancel(actor);
        return;
    }
    if (!pick_daemon(actor))
        return;
    if (life->calm)
        act_calmly(actor);
    else if (!life->quiet)
        act_busily(actor);
    else if (actor->held_count)
        ask_end(actor, take_held(actor));
    else if (actor->drains)
        ask_reserve(actor, HELD_MAX, 0);
}

#endif
