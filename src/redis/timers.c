#include "redis/timers.h"

#include "base/log.h"
#include "base/mem.h"

enum {
    LEASE_US = 2000 * 1000,
    RENEW_US = 1000 * 1000,
    ALIVE_US = 5000 * 1000,
    AGAIN_US = 100 * 1000,      /* after a call that failed */
    STEPS = 500,                /* of one promote: a few milliseconds of Redis' time */
    CLOCK_CLOSE_US = 10 * 1000, /* clocks that differ by less are taken for one */
    CLOCK_FAR_US = 1000 * 1000,
    ROUND_TRIP_US = 20 * 1000, /* an answer that took longer says little about the clock */
};

void timers_init(struct timers *timers, const struct timers_options *options)
{
    uint32_t count = options->space->partitions;
    *timers = (struct timers){.options = *options};
    timers->timers = mem_zalloc(count * sizeof(struct timer));
    for (uint32_t i = 0; i < count; i++) {
        timers->timers[i] = (struct timer){
            .timers = timers,
            .partition = i,
            .hello_at_us = INT64_MAX,
            .promote_at_us = INT64_MAX,
        };
    }
}

void timers_fini(struct timers *timers)
{
    mem_free(timers->timers);
    timers->timers = NULL;
}

static enum err read_answer(const struct timer *timer, const struct bytes *parts, uint32_t count,
                            struct script_answer *out_answer)
{
    return script_read_answer(
        timer->timers->options.space,
        &(struct script_parts){.partition = timer->partition, .at = parts, .count = count},
        out_answer);
}

/* ---- the clocks ---- */

/* Due times are the clock's of the partition's server; see script_space::ahead_us. */
static void compare_clocks(struct timer *timer, int64_t redis_us)
{
    struct timers *timers = timer->timers;
    int64_t *known_us = &timers->options.space->ahead_us[timer->partition];
    int64_t took_us = timers->now_us - timer->hello_sent_us;
    int64_t ahead_us = redis_us - (timer->hello_sent_us + took_us / 2);
    if (redis_us == 0 || took_us > ROUND_TRIP_US || took_us < 0)
        return;
    if (ahead_us > -CLOCK_CLOSE_US && ahead_us < CLOCK_CLOSE_US)
        return;
    *known_us += ahead_us;
    if (ahead_us > CLOCK_FAR_US || ahead_us < -CLOCK_FAR_US)
        log_event(LOG_WARN, "redis_clock", "ahead_ms=%lld hint=\"set the clocks by NTP\"",
                  (long long)(*known_us / 1000));
}

/* ---- hello ---- */

static void hello_failed(struct timer *timer)
{
    timer->owner = false;
    timer->hello_at_us = timer->timers->now_us + AGAIN_US;
}

static void greeted(void *owner, struct call *call, enum err err, const struct bytes *parts,
                    uint32_t count)
{
    struct timer *timer = owner;
    struct timers *timers = timer->timers;
    struct script_answer answer;
    (void)call;
    timer->hello_asked = false;
    if (!err)
        err = read_answer(timer, parts, count, &answer);
    if (err) {
        hello_failed(timer);
        return;
    }
    if (answer.err) {
        hello_failed(timer);
        timers->options.refused(timers->options.owner, answer.count);
        return;
    }
    compare_clocks(timer, answer.now_us);
    calls_open(timers->options.calls, timer->partition);
    if (answer.count)
        timers->options.forgotten(timers->options.owner);
    if (answer.owner && !timer->owner)
        timer->promote_at_us = timers->now_us; /* nobody knows yet what is due */
    timer->owner = answer.owner;
    timer->hello_at_us = timer->hello_sent_us + RENEW_US;
    if (!answer.owner && answer.next_us < timer->hello_at_us)
        timer->hello_at_us = answer.next_us > timers->now_us ? answer.next_us : timers->now_us;
}

/* The answers kept for us go with our sign of life; a request may be sent again until it is old. */
static int64_t alive_us(const struct timers *timers)
{
    int64_t least_us = timers->options.calls->options.timeout_us + 2 * RENEW_US;
    return least_us > ALIVE_US ? least_us : ALIVE_US;
}

static void say_hello(struct timer *timer)
{
    struct timers *timers = timer->timers;
    struct script_hello hello = {
        .own_us = timers->leaving ? 0 : LEASE_US,
        .alive_us = timers->leaving ? 0 : alive_us(timers),
    };
    struct call *call = calls_new_hello(timers->options.calls, timer->partition);
    timer->hello_at_us = timers->now_us + RENEW_US;
    script_ask_hello(&call->request, timers->options.space, &call->id, &hello);
    call->urgent = true;
    timer->hello_asked = true;
    timer->hello_sent_us = timers->now_us;
    calls_send(call, timer, greeted);
}

/* ---- promote ---- */

static void promoted(void *owner, struct call *call, enum err err, const struct bytes *parts,
                     uint32_t count)
{
    struct timer *timer = owner;
    struct timers *timers = timer->timers;
    struct script_answer answer;
    (void)call;
    timer->promote_asked = false;
    if (!err)
        err = read_answer(timer, parts, count, &answer);
    if (err)
        timer->promote_at_us = timers->now_us + AGAIN_US;
    else if (answer.more || timer->hurry)
        timer->promote_at_us = timers->now_us;
    else
        timer->promote_at_us = answer.next_us;
    timer->hurry = false;
}

static void promote(struct timer *timer)
{
    struct timers *timers = timer->timers;
    struct call *call = calls_new(timers->options.calls, timer->partition);
    timer->promote_at_us = timers->now_us + AGAIN_US;
    if (!call)
        return;
    script_ask_promote(&call->request, timers->options.space, &call->id, STEPS);
    timer->promote_asked = true;
    timer->hurry = false;
    calls_send(call, timer, promoted);
}

/* ---- what the engine does ---- */

void timers_start(struct timers *timers)
{
    if (timers->started)
        return;
    timers->started = true;
    for (uint32_t i = 0; i < timers->options.space->partitions; i++)
        timers->timers[i].hello_at_us = timers->now_us;
}

void timers_hello(struct timers *timers, uint32_t partition)
{
    timers->timers[partition].hello_at_us = timers->now_us;
    timers->timers[partition].owner = false;
}

void timers_due(struct timers *timers, uint32_t partition, int64_t due_us)
{
    if (partition >= timers->options.space->partitions)
        return;
    struct timer *timer = &timers->timers[partition];
    if (timer->promote_asked)
        timer->hurry = true; /* its answer may not know yet */
    if (due_us < timer->promote_at_us)
        timer->promote_at_us = due_us;
}

void timers_look(struct timers *timers)
{
    for (uint32_t i = 0; i < timers->options.space->partitions; i++)
        timers_due(timers, i, timers->now_us);
}

void timers_leave(struct timers *timers)
{
    timers->leaving = true;
    for (uint32_t i = 0; timers->started && i < timers->options.space->partitions; i++)
        say_hello(&timers->timers[i]);
}

void timers_tick(struct timers *timers, int64_t now_us)
{
    timers->now_us = now_us;
    for (uint32_t i = 0; i < timers->options.space->partitions && !timers->leaving; i++) {
        struct timer *timer = &timers->timers[i];
        if (!timer->hello_asked && timer->hello_at_us <= now_us)
            say_hello(timer);
        if (timer->owner && !timer->promote_asked && timer->promote_at_us <= now_us)
            promote(timer);
    }
}

int64_t timers_next_us(const struct timers *timers)
{
    int64_t next_us = INT64_MAX;
    for (uint32_t i = 0; i < timers->options.space->partitions; i++) {
        const struct timer *timer = &timers->timers[i];
        if (!timer->hello_asked && timer->hello_at_us < next_us)
            next_us = timer->hello_at_us;
        if (timer->owner && !timer->promote_asked && timer->promote_at_us < next_us)
            next_us = timer->promote_at_us;
    }
    return next_us;
}
