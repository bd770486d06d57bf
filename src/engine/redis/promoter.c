#include "engine/redis/promoter.h"

#include "base/mem.h"

enum {
    AGAIN_US = 100 * 1000, /* after a call that failed */
    STEPS = 500,           /* of one promote: a few milliseconds of Redis' time */
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
            .promote_at_us = INT64_MAX,
            .forget_at_us = INT64_MAX,
        };
    }
}

void timers_fini(struct timers *timers)
{
    mem_free(timers->timers);
    buf_fini(&timers->living);
    timers->timers = NULL;
}

static enum err read_answer(const struct timer *timer, const struct bytes *parts, uint32_t count,
                            struct script_answer *out_answer)
{
    struct script_parts said = {.partition = timer->partition, .at = parts, .count = count};
    enum err err = script_read_answer(timer->timers->options.space, &said, out_answer);
    return err ? err : out_answer->err;
}

/* ---- promote ---- */

static void promoted(void *owner, struct call *call, enum err err, const struct bytes *parts,
                     uint32_t count)
{
    struct timer *timer = owner;
    struct timers *timers = timer->timers;
    struct script_answer answer;
    timer->promote_asked = false;
    if (!err)
        err = read_answer(timer, parts, count, &answer);
    if (err || call->again)
        timers->options.missed(timers->options.owner);
    for (uint32_t i = 1; i < count && !err; i++)
        timers->options.promoted(timers->options.owner, parts[i], timer->partition);
    if (err)
        timer->promote_at_us = timers->now_us + AGAIN_US;
    else if (answer.more || timer->latency_first)
        timer->promote_at_us = timers->now_us;
    else
        timer->promote_at_us = answer.next_us;
    timer->latency_first = false;
}

static void promote(struct timer *timer)
{
    struct timers *timers = timer->timers;
    struct call *call = calls_new_unkept(timers->options.calls, timer->partition);
    timer->promote_at_us = timers->now_us + AGAIN_US;
    script_ask_promote(&call->request, timers->options.space, &call->id, STEPS);
    timer->promote_asked = true;
    timer->latency_first = false;
    calls_send(call, timer, promoted);
    timers->options.promoting(timers->options.owner, timer->partition);
}

/* ---- forget ---- */

static void forgot(void *owner, struct call *call, enum err err, const struct bytes *parts,
                   uint32_t count)
{
    struct timer *timer = owner;
    struct script_answer answer;
    (void)call;
    timer->forget_asked = false;
    if (!err)
        err = read_answer(timer, parts, count, &answer);
    int64_t again_us = err ? timer->timers->now_us + AGAIN_US : answer.next_us;
    if (again_us < timer->forget_at_us) /* else another has died meanwhile */
        timer->forget_at_us = again_us;
}

static void forget(struct timer *timer)
{
    struct timers *timers = timer->timers;
    const struct members *members = timers->options.members;
    struct call *call = calls_new_unkept(timers->options.calls, timer->partition);
    timers->living.len = 0;
    members_living(members, &timers->living);
    timer->forget_at_us = INT64_MAX;
    timer->forget_asked = true;
    script_ask_forget(&call->request, timers->options.space, &call->id, buf_bytes(&timers->living),
                      members->options.alive_us, STEPS);
    calls_send(call, timer, forgot);
}

static void forget_me(struct timer *timer);

static void forgot_me(void *owner, struct call *call, enum err err, const struct bytes *parts,
                      uint32_t count)
{
    struct timer *timer = owner;
    struct script_answer answer = {.err = OK};
    (void)call;
    timer->timers->leaving--;
    if (!err && !read_answer(timer, parts, count, &answer) && answer.more)
        forget_me(timer);
}

static void forget_me(struct timer *timer)
{
    struct timers *timers = timer->timers;
    struct call *call = calls_new_unkept(timers->options.calls, timer->partition);
    script_ask_forget(&call->request, timers->options.space, &call->id, BYTES(""), 0, STEPS);
    timers->leaving++;
    calls_send(call, timer, forgot_me);
}

/* ---- what the engine does ---- */

void timers_due(struct timers *timers, uint32_t partition, int64_t due_us)
{
    struct timer *timer = &timers->timers[partition];
    if (timer->promote_asked)
        timer->latency_first = true; /* its answer may not know yet */
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
    for (uint32_t i = 0; i < timers->options.space->partitions; i++)
        forget_me(&timers->timers[i]);
}

/* Nobody knows yet what is due there, nor whom the owner before was about to forget. */
static void take_over(struct timer *timer)
{
    timer->promote_at_us = timer->timers->now_us;
    timer->forget_at_us = timer->timers->now_us;
}

static void look(struct timer *timer)
{
    const struct members *members = timer->timers->options.members;
    bool owns = members_own(members, timer->partition);
    if (owns && !timer->owner)
        take_over(timer);
    timer->owner = owns;
    if (timer->gone != members->gone)
        timer->forget_at_us = timer->timers->now_us;
    timer->gone = members->gone;
}

void timers_tick(struct timers *timers, int64_t now_us)
{
    bool know = members_know(timers->options.members);
    timers->now_us = now_us;
    for (uint32_t i = 0; i < timers->options.space->partitions; i++) {
        struct timer *timer = &timers->timers[i];
        look(timer);
        if (timer->owner && !timer->promote_asked && timer->promote_at_us <= now_us)
            promote(timer);
        if (timer->owner && know && !timer->forget_asked && timer->forget_at_us <= now_us)
            forget(timer);
    }
}

/* While we do not know enough to forget, the next beat is soon enough. */
int64_t timers_next_us(const struct timers *timers)
{
    bool know = members_know(timers->options.members);
    int64_t next_us = INT64_MAX;
    for (uint32_t i = 0; i < timers->options.space->partitions; i++) {
        const struct timer *timer = &timers->timers[i];
        if (timer->owner && !timer->promote_asked && timer->promote_at_us < next_us)
            next_us = timer->promote_at_us;
        if (timer->owner && know && !timer->forget_asked && timer->forget_at_us < next_us)
            next_us = timer->forget_at_us;
    }
    return next_us;
}
