#include "engine/redis/promoter.h"

#include "base/mem.h"

enum {
    AGAIN_US = 100 * 1000, /* after a call that failed */
    STEPS = 150,           /* of one promote: a millisecond of Redis' time */
    GIVEN_BACK = 20,       /* jobs by one reap_dead: less than a millisecond */
};

void promoter_init(struct promoter *promoter, const struct promoter_options *options)
{
    uint32_t count = options->space->partitions;
    *promoter = (struct promoter){.options = *options};
    promoter->promoter = mem_zalloc(count * sizeof(struct promoter_timer));
    for (uint32_t i = 0; i < count; i++) {
        promoter->promoter[i] = (struct promoter_timer){
            .promoter = promoter,
            .partition = i,
            .promote_at_us = INT64_MAX,
            .forget_at_us = INT64_MAX,
            .young_at_us = INT64_MAX,
        };
    }
}

void promoter_fini(struct promoter *promoter)
{
    mem_free(promoter->promoter);
    buf_fini(&promoter->living);
    promoter->promoter = NULL;
}

static enum err read_answer(const struct promoter_timer *timer, const struct bytes *parts,
                            uint32_t count, struct script_answer *out_answer)
{
    struct script_parts said = {.partition = timer->partition, .at = parts, .count = count};
    enum err err = script_read_answer(timer->promoter->options.space, &said, out_answer);
    return err ? err : out_answer->err;
}

/* ---- promote ---- */

static void promoted(void *owner, struct script_request *call, enum err err,
                     const struct bytes *parts, uint32_t count)
{
    struct promoter_timer *timer = owner;
    struct promoter *promoter = timer->promoter;
    struct script_answer answer;
    timer->promote_asked = false;
    if (!err)
        err = read_answer(timer, parts, count, &answer);
    if (err || call->resent)
        promoter->options.missed(promoter->options.owner);
    for (uint32_t i = 1; i < count && !err; i++)
        promoter->options.promoted(promoter->options.owner, parts[i], timer->partition);
    if (err)
        timer->promote_at_us = promoter->now_us + AGAIN_US;
    else if (answer.more || timer->promote_again)
        timer->promote_at_us = promoter->now_us;
    else
        timer->promote_at_us = answer.next_us;
    timer->promote_again = false;
}

static void promote(struct promoter_timer *timer)
{
    struct promoter *promoter = timer->promoter;
    struct script_request *call =
        script_requests_new_unkept(promoter->options.calls, timer->partition);
    timer->promote_at_us = promoter->now_us + AGAIN_US;
    script_ask_promote(&call->request, promoter->options.space, &call->id, STEPS);
    timer->promote_asked = true;
    timer->promote_again = false;
    script_requests_send(call, timer, promoted);
    promoter->options.promoting(promoter->options.owner, timer->partition);
}

/* ---- forget ---- */

static void forgot(void *owner, struct script_request *call, enum err err,
                   const struct bytes *parts, uint32_t count)
{
    struct promoter_timer *timer = owner;
    struct script_answer answer;
    (void)call;
    timer->forget_asked = false;
    if (!err)
        err = read_answer(timer, parts, count, &answer);
    bool another = timer->forget_at_us != INT64_MAX; /* has died meanwhile: from the start */
    timer->forget_from = err || another || !answer.more ? 0 : answer.seq;
    if (!err && answer.next_us < timer->young_at_us)
        timer->young_at_us = answer.next_us;
    if (another)
        return;
    if (err || answer.more) {
        timer->forget_at_us = timer->promoter->now_us + (err ? AGAIN_US : 0);
    } else {
        timer->forget_at_us = timer->young_at_us;
        timer->young_at_us = INT64_MAX;
    }
}

static void forget(struct promoter_timer *timer)
{
    struct promoter *promoter = timer->promoter;
    const struct members *members = promoter->options.members;
    struct script_request *call =
        script_requests_new_unkept(promoter->options.calls, timer->partition);
    promoter->living.len = 0;
    members_living(members, &promoter->living);
    timer->forget_at_us = INT64_MAX;
    timer->forget_asked = true;
    script_ask_reap_dead(&call->request, promoter->options.space, &call->id,
                         &(struct script_reap){.living = buf_bytes(&promoter->living),
                                               .young_us = members->options.alive_us,
                                               .from = timer->forget_from,
                                               .max = GIVEN_BACK});
    script_requests_send(call, timer, forgot);
}

static void forget_me(struct promoter_timer *timer);

static void forgot_me(void *owner, struct script_request *call, enum err err,
                      const struct bytes *parts, uint32_t count)
{
    struct promoter_timer *timer = owner;
    struct script_answer answer = {.err = OK};
    (void)call;
    timer->promoter->leaving--;
    if (!err && !read_answer(timer, parts, count, &answer) && answer.more)
        forget_me(timer);
}

static void forget_me(struct promoter_timer *timer)
{
    struct promoter *promoter = timer->promoter;
    struct script_request *call =
        script_requests_new_unkept(promoter->options.calls, timer->partition);
    script_ask_reap_dead(&call->request, promoter->options.space, &call->id,
                         &(struct script_reap){.max = GIVEN_BACK});
    promoter->leaving++;
    script_requests_send(call, timer, forgot_me);
}

/* ---- what the engine does ---- */

void promoter_due(struct promoter *promoter, uint32_t partition, int64_t due_us)
{
    struct promoter_timer *timer = &promoter->promoter[partition];
    if (timer->promote_asked)
        timer->promote_again = true; /* its answer may not know yet */
    if (due_us < timer->promote_at_us)
        timer->promote_at_us = due_us;
}

void promoter_look(struct promoter *promoter)
{
    for (uint32_t i = 0; i < promoter->options.space->partitions; i++)
        promoter_due(promoter, i, promoter->now_us);
}

void promoter_leave(struct promoter *promoter)
{
    for (uint32_t i = 0; i < promoter->options.space->partitions; i++)
        forget_me(&promoter->promoter[i]);
}

/* Nobody knows yet what is due there, nor whom the owner before was about to forget. */
static void take_over(struct promoter_timer *timer)
{
    timer->promote_at_us = timer->promoter->now_us;
    timer->forget_at_us = timer->promoter->now_us;
}

static void look(struct promoter_timer *timer)
{
    const struct members *members = timer->promoter->options.members;
    bool owns = members_own(members, timer->partition);
    if (owns && !timer->owner)
        take_over(timer);
    timer->owner = owns;
    if (timer->gone != members->gone)
        timer->forget_at_us = timer->promoter->now_us;
    timer->gone = members->gone;
}

void promoter_tick(struct promoter *promoter, int64_t now_us)
{
    bool know = members_know(promoter->options.members);
    promoter->now_us = now_us;
    for (uint32_t i = 0; i < promoter->options.space->partitions; i++) {
        struct promoter_timer *timer = &promoter->promoter[i];
        look(timer);
        if (timer->owner && !timer->promote_asked && timer->promote_at_us <= now_us)
            promote(timer);
        if (timer->owner && know && !timer->forget_asked && timer->forget_at_us <= now_us)
            forget(timer);
    }
}

/* While we do not know enough to forget, the next heartbeat is soon enough. */
int64_t promoter_next_us(const struct promoter *promoter)
{
    bool know = members_know(promoter->options.members);
    int64_t next_us = INT64_MAX;
    for (uint32_t i = 0; i < promoter->options.space->partitions; i++) {
        const struct promoter_timer *timer = &promoter->promoter[i];
        if (timer->owner && !timer->promote_asked && timer->promote_at_us < next_us)
            next_us = timer->promote_at_us;
        if (timer->owner && know && !timer->forget_asked && timer->forget_at_us < next_us)
            next_us = timer->forget_at_us;
    }
    return next_us;
}
