/*
 * The core against the dullest correct model: arrays, searched from end to end. Long random lives;
 * after every step all replies, states, counts and orders must agree, the core must be valid, and
 * now and then replaying the events must give the same digest (P9). A failure names its seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core_model.h"

static struct life *life; /* the one under way: cmocka's checks have no place for it */

#define MUST(claim)                                                                                \
    do {                                                                                           \
        if (!(claim))                                                                              \
            fail_msg("seed %llu step %d: %s", (unsigned long long)life->seed, life->step, #claim); \
    } while (0)

static uint64_t below(uint64_t bound)
{
    uint64_t mixed = life->random += 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return (mixed ^ mixed >> 31) % bound;
}

/* ---- the model's rules ---- */

static bool comes_before(uint64_t a, uint64_t b)
{
    const struct model_job *x = &life->jobs[a], *y = &life->jobs[b];
    if (x->priority != y->priority)
        return x->priority < y->priority;
    int64_t x_rank_us = x->order == ORDER_ARRIVAL ? x->created_us : x->due_us;
    int64_t y_rank_us = y->order == ORDER_ARRIVAL ? y->created_us : y->due_us;
    return x_rank_us != y_rank_us ? x_rank_us < y_rank_us : a < b;
}

static uint64_t best_of(int topic) /* or 0 */
{
    uint64_t best = 0;
    if (life->paused_until_us[topic])
        return 0;
    for (uint64_t i = 1; i < life->seq_next; i++) {
        if (life->jobs[i].state == JOB_READY && life->jobs[i].topic == topic &&
            (!best || comes_before(i, best)))
            best = i;
    }
    return best;
}

static uint64_t choose(const int *topics, int count, bool listed)
{
    uint64_t best = 0;
    for (int i = 0; i < count; i++) {
        uint64_t first = best_of(topics[i]);
        if (first && listed)
            return first;
        if (first && (!best || comes_before(first, best)))
            best = first;
    }
    return best;
}

static enum job_state waiting_state(int64_t due_us)
{
    return due_us <= life->now_us ? JOB_READY : JOB_DELAYED;
}

static void model_wait(struct model_job *job, int64_t due_us)
{
    job->due_us = due_us;
    job->state = waiting_state(due_us);
    job->lease = 0;
    job->until_us = 0;
}

static void model_lease(struct model_job *job, bool bound)
{
    job->bound = bound;
    job->state = JOB_RESERVED;
    job->lease = life->lease_next++;
    job->until_us = life->now_us + job->ttr_us;
    job->counts.reserves++;
}

static void model_bury(struct model_job *job)
{
    job->state = JOB_BURIED;
    job->lease = 0;
    job->until_us = 0;
    job->counts.buries++;
}

static void model_fail(struct model_job *job)
{
    job->failures++;
    if (job->wait_count && job->failures > job->wait_count)
        model_bury(job);
    else
        model_wait(job, life->now_us + (job->wait_count ? job->waits_us[job->failures - 1] : 0));
}

static uint64_t find_id(int id)
{
    for (uint64_t i = 1; i < life->seq_next; i++) {
        if (id >= 0 && life->jobs[i].state != JOB_GONE && life->jobs[i].id == id)
            return i;
    }
    return 0;
}

/* ---- events ---- */

/* A new job's record takes the place of one of another job with its id. */
static void give_place(struct model_job *job, uint64_t where)
{
    struct model_job *other = life->jobs;
    while (other->where != where)
        other++;
    other->where = 0;
    job->where = where;
}

static struct stored keep_event(struct event_sink *sink, const struct event *event)
{
    (void)sink;
    MUST(life->event_count < EVENTS_MAX);
    struct kept *kept = &life->events[life->event_count++];
    kept->event = *event;
    memcpy(kept->id, event->id.len ? event->id.at : "", event->id.len);
    memcpy(kept->topic, event->topic.len ? event->topic.at : "", event->topic.len);
    kept->event.id.at = kept->id;
    kept->event.topic.at = kept->topic;
    kept->event.retry_us = kept->waits_us;
    if (event->retry_count)
        memcpy(kept->waits_us, event->retry_us, event->retry_count * sizeof(int64_t));
    struct model_job *job = &life->jobs[event->job.seq];
    if (event->kind == EVENT_JOB && job->where == 0 && event->record.where)
        give_place(job, event->record.where);
    if (event->kind == EVENT_GONE || event->kind == EVENT_JOB)
        MUST(event->record.where == job->where); /* the engine learns which record dies */
    if (event->kind == EVENT_GONE)
        job->where = 0;
    if (event->kind == EVENT_MOVE && event->job.state == JOB_BURIED)
        job->buried_rank = ++life->rank;
    if (event->kind != EVENT_JOB)
        return (struct stored){0};
    job->where = ++life->where;
    kept->event.record = (struct stored){.where = job->where, .bytes = 7};
    return kept->event.record;
}

/* ---- replies ---- */

static void check_view(uint64_t seq, const struct job_view *view)
{
    const struct model_job *job = &life->jobs[seq];
    MUST(view->ref.seq == seq);
    MUST(bytes_eq(view->ref.id, id_text(job->id)));
    MUST(bytes_eq(view->topic, topic_name(job->topic)));
    MUST(view->state == job->state);
    MUST(view->priority == job->priority);
    MUST(view->due_us == job->due_us);
    MUST(view->until_us == job->until_us);
    MUST(view->ttr_us == job->ttr_us);
    MUST(view->lease == job->lease);
    MUST(view->failures == job->failures);
    MUST(view->retry_count == job->wait_count);
    MUST(view->body_len == job->body_len);
    MUST(view->where == job->where);
    MUST(memcmp(&view->counts, &job->counts, sizeof(job->counts)) == 0);
}

/* Jobs were handed out: they must be the ones, in order, and as many as possible. */
static void check_taken(const struct reply *reply, const struct model_waiter *waiter)
{
    const int *topics = waiter->topics;
    int count = waiter->topic_count;
    bool listed = waiter->listed;
    uint32_t max = waiter->max;
    MUST(reply->count >= 1 && reply->count <= max);
    for (uint32_t i = 0; i < reply->count; i++) {
        uint64_t seq = choose(topics, count, listed);
        MUST(seq != 0);
        struct model_job *job = &life->jobs[seq];
        MUST(job->due_us <= life->now_us); /* P3 */
        model_lease(job, waiter->bound);
        check_view(seq, &reply->jobs[i]);
    }
    MUST(reply->count == max || choose(topics, count, listed) == 0);
}

/* Is the waiter the first to have parked on some topic that has a job for it? */
static bool is_its_turn(const struct model_waiter *waiter)
{
    for (int i = 0; i < waiter->topic_count; i++) {
        bool first = best_of(waiter->topics[i]) != 0;
        for (int w = 0; w < WAITERS_MAX && first; w++) {
            const struct model_waiter *other = &life->waiters[w];
            for (int t = 0; t < other->topic_count; t++) {
                if (other->parked && other->order < waiter->order &&
                    other->topics[t] == waiter->topics[i])
                    first = false;
            }
        }
        if (first)
            return true;
    }
    return false;
}

static void waiter_answered(struct model_waiter *waiter, const struct reply *reply)
{
    MUST(waiter->parked);
    bool over = waiter->until_us <= life->now_us;
    if (reply->err) {
        MUST(reply->err == ERR_EMPTY && over);
        MUST(choose(waiter->topics, waiter->topic_count, waiter->listed) == 0);
    } else {
        MUST(over || is_its_turn(waiter));
        check_taken(reply, waiter);
    }
    waiter->parked = false;
}

static void hear(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    (void)callbacks;
    if (ctx != life) {
        waiter_answered(ctx, reply);
        return;
    }
    MUST(!life->replied);
    life->replied = true;
    life->reply = *reply;
    life->reply.jobs = life->views;
    MUST(reply->count <= 64);
    if (reply->jobs && reply->count)
        memcpy(life->views, reply->jobs, reply->count * sizeof(*reply->jobs));
    for (uint32_t i = 0; reply->jobs && i < reply->count; i++) { /* borrowed until we return */
        memcpy(life->ids[i], reply->jobs[i].ref.id.at, reply->jobs[i].ref.id.len);
        life->views[i].ref.id.at = life->ids[i];
    }
    if (reply->cursor.len)
        memcpy(life->cursor, reply->cursor.at, CURSOR_BYTES);
    life->reply.cursor.at = life->cursor;
}

static enum err apply(const struct cmd *cmd)
{
    life->replied = false;
    (void)core_apply(life->core, life->now_us, cmd, life);
    MUST(life->replied);
    return life->reply.err;
}

/* ---- steps ---- */

static void step_push(void)
{
    int id = below(4) ? (int)below(IDS) : -1;
    uint64_t old = find_id(id);
    struct model_job job = {
        .id = id,
        .topic = (int)below(TOPICS),
        .priority = (uint32_t)below(3),
        .ttr_us = 1 + (int64_t)below(3000),
        .wait_count = (uint8_t)below(4),
        .body_len = (uint32_t)below(5),
        .order = (enum ready_order)below(2),
        .created_us = life->now_us,
    };
    for (int i = 0; i < job.wait_count; i++)
        job.waits_us[i] = (int64_t)below(3) * (int64_t)below(1500);
    model_wait(&job, life->now_us + (int64_t)below(4000) - 1000);
    enum if_exists if_exists = (enum if_exists)below(3);
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = id_text(id),
                               .topic = topic_name(job.topic),
                               .due_us = job.due_us,
                               .ttr_us = job.ttr_us,
                               .priority = job.priority,
                               .if_exists = if_exists,
                               .order = job.order,
                               .body = bytes_of("12345", job.body_len),
                               .retry_us = job.waits_us,
                               .retry_count = job.wait_count}};
    bool rejected = old && if_exists == IF_EXISTS_REJECT;
    bool kept = old && if_exists == IF_EXISTS_KEEP;
    enum err err = apply(&cmd);
    MUST(err == (rejected ? ERR_EXISTS : OK));
    MUST(life->reply.kept == kept);
    MUST(life->reply.replaced == (old && !rejected && !kept));
    if (rejected)
        return;
    if (kept) {
        check_view(old, &life->views[0]);
        return;
    }
    if (old)
        life->jobs[old].state = JOB_GONE;
    MUST(life->seq_next + 1 < SEQ_MAX);
    job.where = life->where;
    life->jobs[life->seq_next++] = job;
    check_view(life->seq_next - 1, &life->views[0]);
}

static void step_reserve(void)
{
    struct model_waiter waiter = {
        .topics = {(int)below(TOPICS), (int)below(TOPICS)},
        .topic_count = 1 + (int)below(2),
        .listed = below(2),
        .bound = life->seed % 2 && below(2),
        .max = 1 + (uint32_t)below(3),
        .order = ++life->order,
    };
    struct bytes names[2] = {topic_name(waiter.topics[0]), topic_name(waiter.topics[1])};
    struct cmd cmd = {.kind = CMD_RESERVE,
                      .reserve = {.topics = names,
                                  .topic_count = (uint32_t)waiter.topic_count,
                                  .max = waiter.max,
                                  .listed_order = waiter.listed,
                                  .bound = waiter.bound}};
    struct model_waiter *free = NULL;
    for (int i = 0; i < WAITERS_MAX; i++) {
        if (!life->waiters[i].parked)
            free = &life->waiters[i];
    }
    if (choose(waiter.topics, waiter.topic_count, waiter.listed)) {
        cmd.reserve.wait_us = (int64_t)below(2) * 1000;
        MUST(apply(&cmd) == OK);
        check_taken(&life->reply, &waiter);
    } else if (!free || below(2)) {
        MUST(apply(&cmd) == ERR_EMPTY);
    } else {
        cmd.reserve.wait_us = 1 + (int64_t)below(5000);
        waiter.until_us = life->now_us + cmd.reserve.wait_us;
        waiter.parked = true;
        *free = waiter;
        free->handle = core_apply(life->core, life->now_us, &cmd, free);
        MUST(free->parked && free->handle);
    }
}

static void step_cancel(void)
{
    struct model_waiter *waiter = &life->waiters[below(WAITERS_MAX)];
    waiter->parked = false;                  /* P6: any reply after this is a failure */
    core_cancel(life->core, waiter->handle); /* perhaps one that was answered long ago */
}

static enum err expect_lease(const struct model_job *job, uint64_t lease)
{
    if (job->state != JOB_RESERVED)
        return lease ? ERR_STALE_LEASE : ERR_WRONG_STATE;
    return lease && lease != job->lease ? ERR_STALE_LEASE : OK;
}

static enum err expect(const struct model_job *job, const struct cmd *cmd)
{
    if (job->state == JOB_GONE)
        return ERR_NOT_FOUND;
    if (cmd->kind == CMD_RESERVE_JOB)
        return job->state == JOB_RESERVED ? ERR_WRONG_STATE : OK;
    if (cmd->kind == CMD_DELETE && cmd->job.if_free && job->state == JOB_RESERVED)
        return ERR_WRONG_STATE;
    if (cmd->kind == CMD_DELETE)
        return cmd->job.lease ? expect_lease(job, cmd->job.lease) : OK;
    if (cmd->kind == CMD_KICK)
        return job->state == JOB_DELAYED || job->state == JOB_BURIED ? OK : ERR_WRONG_STATE;
    if (cmd->kind == CMD_RUN || cmd->kind == CMD_RESCHEDULE)
        return job->state == JOB_DELAYED ? OK : ERR_WRONG_STATE;
    return expect_lease(job, cmd->job.lease);
}

static void model_release(struct model_job *job, const struct cmd_job *cmd)
{
    if (cmd->has_priority)
        job->priority = cmd->priority;
    if (cmd->why == RELEASE_UNDELIVERED && !cmd->has_delay) {
        job->counts.reserves--;
        model_wait(job, job->due_us);
        return;
    }
    if (cmd->why == RELEASE_ABANDONED) {
        model_fail(job);
        return;
    }
    job->counts.releases++;
    if (!cmd->has_delay) {
        model_fail(job);
        return;
    }
    job->failures = (uint16_t)(job->failures + (cmd->why != RELEASE_UNDELIVERED));
    int64_t due_us = cmd->due_us > life->now_us ? cmd->due_us : life->now_us;
    if (cmd->why == RELEASE_UNDELIVERED && job->due_us > due_us)
        due_us = job->due_us;
    model_wait(job, due_us);
}

static void model_kick(struct model_job *job)
{
    job->counts.kicks++;
    if (job->state == JOB_BURIED)
        job->failures = 0;
    model_wait(job, life->now_us);
}

static void model_reserve_job(struct model_job *job, bool bound)
{
    if (job->state == JOB_BURIED)
        job->failures = 0;
    model_lease(job, bound);
}

static void model_do(struct model_job *job, const struct cmd *cmd)
{
    const struct cmd_job *asked = &cmd->job;
    if (cmd->kind == CMD_RELEASE) {
        model_release(job, asked);
    } else if (cmd->kind == CMD_RESERVE_JOB) {
        model_reserve_job(job, asked->bound);
    } else if (cmd->kind == CMD_TOUCH) {
        job->until_us = life->now_us + (asked->has_ttr ? asked->ttr_us : job->ttr_us);
    } else if (cmd->kind == CMD_BURY) {
        if (asked->has_priority)
            job->priority = asked->priority;
        model_bury(job);
    } else if (cmd->kind == CMD_KICK) {
        model_kick(job);
    } else if (cmd->kind == CMD_RUN) {
        model_wait(job, life->now_us);
    } else if (cmd->kind == CMD_RESCHEDULE) {
        if (asked->has_priority)
            job->priority = asked->priority;
        if (asked->has_body)
            job->body_len = (uint32_t)asked->body.len;
        model_wait(job, asked->has_due ? asked->due_us : job->due_us);
    }
}

static void step_job(void)
{
    static const enum cmd_kind kinds[] = {CMD_FINISH, CMD_FINISH,     CMD_RELEASE,    CMD_RELEASE,
                                          CMD_TOUCH,  CMD_BURY,       CMD_KICK,       CMD_RUN,
                                          CMD_DELETE, CMD_RESCHEDULE, CMD_RESERVE_JOB};
    uint64_t oldest = life->seq_next > 40 ? life->seq_next - 40 : 1;
    uint64_t seq = oldest + below(life->seq_next - oldest + 1);
    struct model_job *job = &life->jobs[seq];
    struct cmd cmd = {.kind = kinds[below(sizeof(kinds) / sizeof(kinds[0]))]};
    bool by_id = job->state != JOB_GONE && job->id >= 0 && below(2);
    cmd.job = (struct cmd_job){
        .ref = {.id = by_id ? id_text(job->id) : (struct bytes){0}, .seq = by_id ? 0 : seq},
        .lease = below(3) == 0 ? 0
                 : below(4)    ? job->lease
                               : below(life->lease_next + 1),
        .why = (enum release_why)(below(2) ? RELEASE_ASKED : below(3)),
        .if_free = below(2),
        .bound = life->seed % 2 && below(2),
        .has_delay = below(2),
        .has_priority = below(2),
        .has_due = below(2),
        .has_body = below(3) == 0,
        .has_ttr = below(2),
        .priority = (uint32_t)below(3),
        .due_us = life->now_us + (int64_t)below(3000) - 500,
        .ttr_us = 1 + (int64_t)below(3000),
        .body = bytes_of("12345", below(6)),
    };
    enum err err = expect(job, &cmd);
    MUST(apply(&cmd) == err);
    if (err)
        return;
    if (cmd.kind == CMD_FINISH || cmd.kind == CMD_DELETE) {
        life->views[0].where = 0; /* it has died with the job */
        check_view(seq, &life->views[0]);
        job->state = JOB_GONE;
        return;
    }
    model_do(job, &cmd);
    check_view(seq, &life->views[0]);
}

static uint64_t soonest_delayed(int topic)
{
    uint64_t soonest = 0;
    for (uint64_t i = 1; i < life->seq_next; i++) {
        const struct model_job *job = &life->jobs[i];
        if (job->state == JOB_DELAYED && job->topic == topic &&
            (!soonest || job->due_us < life->jobs[soonest].due_us))
            soonest = i;
    }
    return soonest;
}

static uint64_t oldest_buried(int topic)
{
    uint64_t oldest = 0;
    for (uint64_t i = 1; i < life->seq_next; i++) {
        const struct model_job *job = &life->jobs[i];
        if (job->state == JOB_BURIED && job->topic == topic &&
            (!oldest || job->buried_rank < life->jobs[oldest].buried_rank))
            oldest = i;
    }
    return oldest;
}

static void step_topic(void)
{
    static const enum cmd_kind kinds[] = {CMD_KICK_TOPIC, CMD_KICK_TOPIC, CMD_PAUSE, CMD_RESUME,
                                          CMD_REMOVE_TOPIC};
    static const enum job_state kick_states[] = {JOB_GONE, JOB_BURIED, JOB_DELAYED};
    int topic = (int)below(TOPICS);
    struct cmd cmd = {.kind = kinds[below(5)],
                      .topic = {.topic = topic_name(topic),
                                .max = 1 + (uint32_t)below(3),
                                .state = kick_states[below(3)],
                                .pause_until_us = below(3)
                                                      ? life->now_us + (int64_t)below(2000) - 100
                                                      : INT64_MAX}};
    enum err err = apply(&cmd);
    MUST(err == OK || (err == ERR_NOT_FOUND && cmd.kind != CMD_PAUSE));
    if (cmd.kind == CMD_PAUSE) {
        life->paused_until_us[topic] =
            cmd.topic.pause_until_us > life->now_us ? cmd.topic.pause_until_us : 0;
    } else if (cmd.kind == CMD_RESUME || cmd.kind == CMD_REMOVE_TOPIC) {
        life->paused_until_us[topic] = 0;
    } else {
        bool buried = cmd.topic.state == JOB_BURIED ||
                      (cmd.topic.state == JOB_GONE && oldest_buried(topic) != 0);
        uint64_t (*next)(int) = buried ? oldest_buried : soonest_delayed;
        uint32_t count = 0;
        for (uint64_t i; count < cmd.topic.max && (i = next(topic)) != 0; count++)
            model_kick(&life->jobs[i]);
        MUST(err || (life->reply.count == count && life->reply.more == (next(topic) != 0)));
    }
}

static void step_peek(void)
{
    static uint64_t (*const first[JOB_STATES])(int) = {
        [JOB_DELAYED] = soonest_delayed,
        [JOB_READY] = best_of,
        [JOB_BURIED] = oldest_buried,
    };
    int topic = (int)below(TOPICS);
    enum job_state state = (enum job_state)(1 + below(JOB_STATES - 1));
    if (state == JOB_RESERVED || life->paused_until_us[topic])
        return; /* best_of() knows nothing of a paused topic; peek shows its jobs */
    struct cmd cmd = {.kind = CMD_PEEK, .topic = {.topic = topic_name(topic), .state = state}};
    uint64_t expected = first[state](topic);
    enum err err = apply(&cmd);
    MUST(err == (expected ? OK : ERR_NOT_FOUND));
    if (expected)
        check_view(expected, &life->views[0]);
}

static void step_clear(void)
{
    int topic = (int)below(TOPICS);
    enum job_state state = (enum job_state)(1 + below(JOB_STATES - 1));
    struct cmd cmd = {.kind = CMD_CLEAR_TOPIC,
                      .topic = {.topic = topic_name(topic), .max = 1000, .state = state}};
    uint32_t count = 0;
    for (uint64_t i = 1; i < life->seq_next; i++) {
        if (life->jobs[i].state == state && life->jobs[i].topic == topic) {
            life->jobs[i].state = JOB_GONE;
            count++;
        }
    }
    enum err err = apply(&cmd);
    MUST(err == OK || (err == ERR_NOT_FOUND && count == 0));
    MUST(life->reply.count == count && !life->reply.more);
}

/* Two pages of a listing hold what the model has, in order. */
static void step_list(void)
{
    int topic = (int)below(TOPICS);
    struct cmd cmd = {.kind = CMD_LIST,
                      .topic = {.topic = topic_name(topic),
                                .max = 1 + (uint32_t)below(20),
                                .state = (enum job_state)(1 + below(JOB_STATES - 1))}};
    int64_t due_us = INT64_MIN;
    uint64_t seq = 0;
    bool more = true;
    for (int page = 0; page < 2 && more; page++) {
        if (apply(&cmd) == ERR_NOT_FOUND)
            return;
        for (uint32_t shown = 0;; shown++) {
            uint64_t next = 0;
            for (uint64_t i = 1; i < life->seq_next; i++) {
                const struct model_job *job = &life->jobs[i], *best = &life->jobs[next];
                bool after = job->due_us > due_us || (job->due_us == due_us && i > seq);
                if (job->state == cmd.topic.state && job->topic == topic && after &&
                    (!next || job->due_us < best->due_us))
                    next = i;
            }
            more = next != 0;
            if (shown == life->reply.count)
                break;
            MUST(next != 0);
            check_view(next, &life->views[shown]);
            due_us = life->jobs[next].due_us;
            seq = next;
        }
        MUST((life->reply.cursor.len > 0) == more);
        MUST(life->reply.count == cmd.topic.max || !more);
        cmd.topic.cursor = life->reply.cursor;
    }
}

static void step_time(void)
{
    life->now_us += (int64_t)below(1500);
    for (int i = 0; i < TOPICS; i++) {
        if (life->paused_until_us[i] <= life->now_us)
            life->paused_until_us[i] = 0;
    }
    for (uint64_t i = 1; i < life->seq_next; i++) {
        struct model_job *job = &life->jobs[i];
        if (job->state == JOB_RESERVED && job->until_us <= life->now_us) {
            job->counts.timeouts++;
            model_fail(job);
        }
        if (job->state == JOB_DELAYED && job->due_us <= life->now_us)
            job->state = JOB_READY;
    }
    /* In small slices a wait may end before the model's job is seen; so only without such. */
    bool sliced = below(2);
    for (int i = 0; i < WAITERS_MAX; i++)
        sliced = sliced && !(life->waiters[i].parked && life->waiters[i].until_us <= life->now_us);
    while (core_tick(life->core, life->now_us, sliced ? 1 + (uint32_t)below(20) : 10000))
        ;
}

static void step_relocate(void)
{
    uint64_t seq = 1 + below(life->seq_next);
    struct model_job *job = &life->jobs[seq];
    uint64_t where = below(4) ? job->where : 1;
    bool expected = job->state != JOB_GONE && where == job->where;
    bool carried =
        core_relocate(life->core, seq, where, (struct bytes){0}, bytes_of("12345", job->body_len));
    MUST(carried == expected);
    for (uint32_t cursor = 0; below(8) == 0;)
        if (!core_relocate_topics(life->core, &cursor, 1 + (uint32_t)below(5)))
            break;
}

/* ---- checks after a step ---- */

static void check_all(void)
{
    uint64_t jobs[JOB_STATES] = {0};
    for (uint64_t i = 1; i < life->seq_next; i++) {
        struct model_job *job = &life->jobs[i];
        struct cmd cmd = {.kind = CMD_GET, .job = {.ref = {.seq = i}}};
        if (job->state == JOB_GONE)
            continue;
        jobs[job->state]++;
        MUST(apply(&cmd) == OK);
        check_view(i, &life->views[0]);
    }
    struct core_totals totals;
    core_totals(life->core, &totals);
    for (int state = 1; state < JOB_STATES; state++)
        MUST(totals.jobs[state] == jobs[state]);
    for (int i = 0; i < WAITERS_MAX; i++) {
        const struct model_waiter *waiter = &life->waiters[i];
        if (waiter->parked)
            MUST(choose(waiter->topics, waiter->topic_count, waiter->listed) == 0);
    }
    core_valid(life->core);
    MUST(core_next_us(life->core) > life->now_us);
}

/* P9: a second core that is told the events (twice, now and then) ends in the same state. */
static void check_replay(void)
{
    for (uint64_t i = 1; i < life->seq_next; i++) {
        if (life->jobs[i].state == JOB_RESERVED && life->jobs[i].bound)
            return; /* the events do not tell of it, but they will of its end */
    }
    struct core *copy = core_new(&(struct core_options){
        .limits = {.jobs = 1, .topics = 1, .waiters = 1}, /* limits do not count in replay */
        .sink = &life->sink,
        .callbacks = &life->callbacks,
        .now_us = life->now_us,
        .hash_key = below(1000),
    });
    uint64_t times = 1 + below(2);
    for (uint64_t time = 0; time < times; time++) {
        for (int i = 0; i < life->event_count; i++)
            MUST(core_replay(copy, &life->events[i].event) == OK);
    }
    core_replayed(copy, life->now_us);
    core_valid(copy);
    MUST(core_digest(copy) == core_digest(life->core));
    struct core_totals ours, theirs;
    core_totals(life->core, &ours);
    core_totals(copy, &theirs);
    MUST(ours.seq_next == theirs.seq_next);
    bool told_all = life->seed % 2 == 0; /* of bound leases the events do not tell */
    MUST(told_all ? ours.lease_next == theirs.lease_next : ours.lease_next >= theirs.lease_next);
    for (int state = 0; state < JOB_STATES; state++)
        MUST(ours.jobs[state] == theirs.jobs[state]);
    core_free(copy);
}

static void step(void)
{
    uint64_t dice = below(100);
    if (dice < 25)
        step_push();
    else if (dice < 45)
        step_reserve();
    else if (dice < 48)
        step_cancel();
    else if (dice < 75)
        step_job();
    else if (dice < 80)
        step_topic();
    else if (dice < 81)
        step_clear();
    else if (dice < 83)
        step_list();
    else if (dice < 85)
        step_peek();
    else if (dice < 87)
        step_relocate();
    else
        step_time();
    while (core_match(life->core, life->now_us, 1000))
        ;
    check_all();
}

static void live(uint64_t seed)
{
    memset(life->jobs, 0, sizeof(life->jobs));
    memset(life->waiters, 0, sizeof(life->waiters));
    memset(life->paused_until_us, 0, sizeof(life->paused_until_us));
    life->seed = seed;
    life->random = seed;
    life->now_us = seed % 4 ? 1790000000000000 : -3000; /* across zero, too */
    life->seq_next = life->lease_next = 1;
    life->event_count = 0;
    life->where = life->rank = 0;
    life->core = core_new(&(struct core_options){
        .limits = {.jobs = 1000, .topics = TOPICS, .waiters = WAITERS_MAX},
        .sink = &life->sink,
        .callbacks = &life->callbacks,
        .now_us = life->now_us,
        .hash_key = seed,
        .lease_first = life->lease_next,
        .seq_first = life->seq_next,
    });
    for (life->step = 0; life->step < STEPS; life->step++) {
        step();
        if (life->step % 100 == 99)
            check_replay();
    }
    core_free(life->core);
}

static void p9_random_lives_agree_with_the_model_and_replay_to_the_same_state(void **state)
{
    (void)state;
    life = mem_zalloc(sizeof(*life));
    life->events = mem_alloc(EVENTS_MAX * sizeof(*life->events));
    life->sink.emit = keep_event;
    life->callbacks.reply = hear;
    for (uint64_t seed = 1; seed <= LIVES; seed++)
        live(seed);
    mem_free(life->events);
    mem_free(life);
    assert_int_equal(mem_used(), 0); /* nothing leaks, whatever was under way */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p9_random_lives_agree_with_the_model_and_replay_to_the_same_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
