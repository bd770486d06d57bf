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
#include "core_model_steps.h"
#include "test/unit/support/every.h"

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

/* It waits until the first one has come, if that is far. */
static void reserve_perhaps_far(struct cmd *cmd, struct model_waiter *waiter,
                                struct model_waiter *free)
{
    waiter->until_us = life->now_us;
    waiter->parked = true;
    *free = *waiter;
    free->handle = core_apply(life->core, life->now_us, cmd, free);
    MUST((free->handle != 0) == free->parked);
    match_all();
    MUST(!free->parked);
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
    if (has_far() && choose(waiter.topics, waiter.topic_count, waiter.listed)) {
        if (free)
            reserve_perhaps_far(&cmd, &waiter, free);
    } else if (choose(waiter.topics, waiter.topic_count, waiter.listed)) {
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
        .note = bytes_of("12345", below(3)),
        .note_code = (uint16_t)below(600),
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
        if (cmd.kind == CMD_REMOVE_TOPIC && life->settings_version[topic]) {
            life->settings_version[topic] = 0;
            life->seq_next++; /* that was a change, and has a version */
        }
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

static bool is_earlier(int64_t a_us, uint64_t a_seq, int64_t b_us, uint64_t b_seq)
{
    return a_us != b_us ? a_us < b_us : a_seq < b_seq;
}

/* Two pages of a listing hold what the model has, in order. */
static void step_list(void)
{
    int topic = (int)below(TOPICS);
    struct cmd cmd = {.kind = CMD_LIST,
                      .topic = {.topic = topic_name(topic),
                                .max = 1 + (uint32_t)below(20),
                                .backwards = below(3) == 0,
                                .state = (enum job_state)(1 + below(JOB_STATES - 1))}};
    bool back = cmd.topic.backwards;
    int64_t due_us = back ? INT64_MAX : INT64_MIN;
    uint64_t seq = back ? UINT64_MAX : 0;
    bool more = true;
    for (int page = 0; page < 2 && more; page++) {
        if (apply(&cmd) == ERR_NOT_FOUND)
            return;
        for (uint32_t shown = 0;; shown++) {
            uint64_t next = 0;
            for (uint64_t i = 1; i < life->seq_next; i++) {
                const struct model_job *job = &life->jobs[i], *best = &life->jobs[next];
                bool after = back ? is_earlier(job->due_us, i, due_us, seq)
                                  : is_earlier(due_us, seq, job->due_us, i);
                bool better = !next || (back ? is_earlier(best->due_us, next, job->due_us, i)
                                             : is_earlier(job->due_us, i, best->due_us, next));
                if (job->state == cmd.topic.state && job->topic == topic && after && better)
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
    if (below(2))
        (void)core_match(life->core, life->now_us, 0); /* it knows the time */
    bring_due();
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
    note_departed();
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
    check_places();
    core_valid(life->core);
    while (has_far() && core_tick(life->core, life->now_us, 10000))
        ; /* memory of those that departed goes back */
    MUST(core_next_us(life->core) > life->now_us);
}

/* P9: a second core that is told the events (twice, now and then) ends in the same state. */
static void check_replay(void)
{
    for (uint64_t i = 1; i < life->seq_next; i++) {
        if (life->jobs[i].state == JOB_RESERVED && life->jobs[i].bound)
            return; /* the events do not tell of it, but they will of its end */
    }
    struct event_sink sink = {.emit = keep_event}; /* nobody counts what dies there */
    struct core *copy = core_new(&(struct core_options){
        .limits = {.jobs = 1, .topics = 1, .waiters = 1}, /* limits do not count in replay */
        .sink = &sink,
        .callbacks = &life->callbacks,
        .now_us = life->now_us,
        .hash_key = below(1000),
    });
    uint64_t times = 1 + below(2);
    for (uint64_t time = 0; time < times; time++) {
        for (int i = 0; i < life->event_count; i++)
            MUST(core_replay(copy, &life->events[i].event) == OK);
    }
    replay_all_far(copy);
    core_replayed(copy, life->now_us);
    core_use_far_key(copy, FAR_KEY);
    load_due(copy);
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
    else if (dice < 89)
        step_configure();
    else
        step_time();
    for (uint64_t i = has_far() ? 1 + below(5) : 0; i > 0; i--)
        step_depart();
    match_all();
    check_all();
}

static void live(uint64_t seed)
{
    memset(life->jobs, 0, sizeof(life->jobs));
    memset(life->waiters, 0, sizeof(life->waiters));
    memset(life->paused_until_us, 0, sizeof(life->paused_until_us));
    memset(life->settings_version, 0, sizeof(life->settings_version));
    memset(life->lives, 0, sizeof(life->lives));
    memset(life->is_far, 0, sizeof(life->is_far));
    life->live_count = 0;
    life->seed = seed;
    life->random = seed;
    life->now_us = seed % 4 ? 1790000000000000 : -3000; /* across zero, too */
    life->seq_next = life->lease_next = 1;
    life->event_count = 0;
    life->where = 0;
    life->rank = life->front_rank = UINT32_MAX;
    life->core = core_new(&(struct core_options){
        .limits = {.jobs = 1000,
                   .topics = TOPICS,
                   .waiters = WAITERS_MAX,
                   .ready_in_memory = ready_stay(),
                   .buried_in_memory = buried_stay()},
        .sink = &life->sink,
        .callbacks = &life->callbacks,
        .now_us = life->now_us,
        .hash_key = seed,
        .lease_first = life->lease_next,
        .seq_first = life->seq_next,
    });
    core_use_far_key(life->core, FAR_KEY);
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
    life->sink.died = place_died;
    life->callbacks.reply = receive;
    for (uint64_t seed = 1; seed <= sim_lives(LIVES); seed++)
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
