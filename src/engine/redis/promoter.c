#include "engine/redis/promoter.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/time_us.h"
#include "engine/redis/clock_sync.h"

enum {
    AGAIN_US = 100 * 1000, /* after a call that failed */
    STEPS = 150,           /* of one promote: about a millisecond of Redis' time */
    HELP_US = 50 * 1000,   /* between promotes for consumers who look: see promoter_help() */
    GIVEN_BACK = 20,       /* jobs of one reap_dead: less than a millisecond */
    BUCKETS_US = 10 * 1000 * 1000, /* between checks that all buckets exist */
};

static void time_to_promote(struct timer *timer);
static void time_to_reap(struct timer *timer);

void promoter_init(struct promoter *promoter, const struct promoter_options *options)
{
    uint32_t count = options->space->partitions;
    *promoter = (struct promoter){.options = *options};
    promoter->duties = mem_zalloc(count * sizeof(struct duty));
    for (uint32_t i = 0; i < count; i++) {
        promoter->duties[i] = (struct duty){
            .promoter = promoter,
            .partition = i,
            .promote_at_us = INT64_MAX,
            .look_at_us = INT64_MAX,
            .reap_at_us = INT64_MAX,
            .young_at_us = INT64_MAX,
            .again_at_us = INT64_MAX,
            .promote.expired = time_to_promote,
            .reap.expired = time_to_reap,
        };
    }
}

void promoter_fini(struct promoter *promoter)
{
    for (uint32_t i = 0; promoter->duties && i < promoter->options.space->partitions; i++) {
        loop_cancel(promoter->options.loop, &promoter->duties[i].promote);
        loop_cancel(promoter->options.loop, &promoter->duties[i].reap);
    }
    mem_free(promoter->duties);
    buf_fini(&promoter->living);
    promoter->duties = NULL;
}

static int64_t now_of(const struct promoter *promoter)
{
    return promoter->options.loop->now_us;
}

static void plan_promote(struct duty *duty)
{
    bool may = duty->owner && !duty->promote_pending;
    int64_t at_us = time_earlier(duty->look_at_us, duty->promote_at_us);
    loop_arm(duty->promoter->options.loop, &duty->promote, may ? at_us : INT64_MAX);
}

/* While we cannot decide which daemons are dead, or do not know all, this is planned again by the
 * next heartbeat. */
static void plan_reap(struct duty *duty)
{
    bool may =
        duty->owner && !duty->reap_pending && members_can_judge(duty->promoter->options.members);
    loop_arm(duty->promoter->options.loop, &duty->reap, may ? duty->reap_at_us : INT64_MAX);
}

static enum err read_answer(const struct duty *duty, const struct bytes *parts, uint32_t count,
                            struct script_answer *out_answer)
{
    struct script_parts received = {.partition = duty->partition, .at = parts, .count = count};
    enum err err = script_read_answer(duty->promoter->options.space, &received, out_answer);
    return err ? err : out_answer->err;
}

/* ---- promote ---- */

/* Up to a quarter sooner, at random, so that not all partitions promote at the same time. */
static int64_t believed_until_us(const struct duty *duty)
{
    int64_t most_us = duty->promoter->options.believe_us, now_us = now_of(duty->promoter);
    if (duty->promoter->options.subscribed[duty->partition])
        return INT64_MAX;
    uint64_t dice = hash_seeded(&now_us, sizeof(now_us), duty->partition);
    return now_us + most_us - (int64_t)(dice % ((uint64_t)most_us / 4 + 1));
}

static void report_missed(struct duty *duty)
{
    struct promoter *promoter = duty->promoter;
    if (duty->answer_lost)
        promoter->options.missed(promoter->options.owner);
    duty->answer_lost = false;
}

static void promoted(void *owner, struct script_request *call, enum err err,
                     const struct bytes *parts, uint32_t count)
{
    struct duty *duty = owner;
    struct promoter *promoter = duty->promoter;
    struct script_answer answer;
    duty->promote_pending = false;
    if (!err)
        err = read_answer(duty, parts, count, &answer);
    if (!err && (answer.lost || answer.missed))
        promoter->options.lost(promoter->options.owner, duty->partition, answer.lost);
    duty->answer_lost = duty->answer_lost || err || call->resent;
    if (!err || !duty->owner) /* no longer the owner: no further promote will be sent */
        report_missed(duty);
    if (!err)
        clock_sync_promoted(promoter->options.calls, duty->partition, answer.seq);
    for (uint32_t i = 1; i < count && !err; i++)
        promoter->options.promoted(promoter->options.owner, parts[i], duty->partition);
    if (err)
        duty->promote_at_us = now_of(promoter) + AGAIN_US;
    else if (answer.more || duty->promote_again)
        duty->promote_at_us = now_of(promoter);
    else
        duty->promote_at_us = script_request_next_us(call, &answer);
    duty->promote_again = false;
    duty->look_at_us = believed_until_us(duty);
    plan_promote(duty);
}

static void promote(struct duty *duty)
{
    struct promoter *promoter = duty->promoter;
    struct script_request *call =
        script_requests_new_unkept(promoter->options.calls, duty->partition);
    bool all_buckets = now_of(promoter) - duty->buckets_at_us >= BUCKETS_US;
    if (all_buckets)
        duty->buckets_at_us = now_of(promoter);
    script_encode_promote(&call->request, promoter->options.space, &call->id, STEPS, all_buckets);
    duty->promote_pending = true;
    duty->promote_again = false;
    duty->checked = promoter->options.calls->partitions[duty->partition].used;
    script_requests_send(call, duty, promoted);
    if (duty->promote_at_us <= now_of(promoter)) /* else it is expected to promote nothing */
        promoter->options.promoting(promoter->options.owner, duty->partition);
}

static void time_to_promote(struct timer *timer)
{
    promote(LIST_ENTRY(timer, struct duty, promote));
}

/* ---- jobs of dead daemons ---- */

/* The jobs of all dead daemons that we know of were given back. */
static void plan_next_look(struct duty *duty)
{
    if (duty->once_more)
        duty->again_at_us =
            now_of(duty->promoter) + duty->promoter->options.members->options.alive_us;
    duty->once_more = false;
    duty->reap_at_us = time_earlier(duty->young_at_us, duty->again_at_us);
    duty->young_at_us = INT64_MAX;
}

static void reaped(void *owner, struct script_request *call, enum err err,
                   const struct bytes *parts, uint32_t count)
{
    struct duty *duty = owner;
    struct script_answer answer;
    duty->reap_pending = false;
    if (!err)
        err = read_answer(duty, parts, count, &answer);
    bool another = duty->reap_at_us != INT64_MAX; /* one died meanwhile: begin at the start */
    duty->reap_from = err || another || !answer.more ? 0 : answer.seq;
    if (!err)
        duty->young_at_us = time_earlier(duty->young_at_us, script_request_next_us(call, &answer));
    if (!another && (err || answer.more))
        duty->reap_at_us = now_of(duty->promoter) + (err ? AGAIN_US : 0);
    else if (!another)
        plan_next_look(duty);
    plan_reap(duty);
}

static void reap(struct duty *duty)
{
    struct promoter *promoter = duty->promoter;
    const struct members *members = promoter->options.members;
    struct script_request *call =
        script_requests_new_unkept(promoter->options.calls, duty->partition);
    promoter->living.len = 0;
    members_living(members, &promoter->living);
    if (!duty->reap_from && duty->again_at_us <= now_of(promoter))
        duty->again_at_us = INT64_MAX;
    duty->reap_at_us = INT64_MAX;
    duty->reap_pending = true;
    script_encode_reap_dead(&call->request, promoter->options.space, &call->id,
                            &(struct script_reap){.living = buf_bytes(&promoter->living),
                                                  .young_us = members->options.alive_us,
                                                  .from = duty->reap_from,
                                                  .max = GIVEN_BACK});
    script_requests_send(call, duty, reaped);
}

static void time_to_reap(struct timer *timer)
{
    struct duty *duty = LIST_ENTRY(timer, struct duty, reap);
    struct members *members = duty->promoter->options.members;
    if (members_can_judge(members) && members_know_all(members))
        reap(duty);
}

static void give_back_own(struct duty *duty);

static void own_given_back(void *owner, struct script_request *call, enum err err,
                           const struct bytes *parts, uint32_t count)
{
    struct duty *duty = owner;
    struct script_answer answer = {.err = OK};
    (void)call;
    duty->promoter->leaving--;
    if (!err && !read_answer(duty, parts, count, &answer) && answer.more)
        give_back_own(duty);
}

static void give_back_own(struct duty *duty)
{
    struct promoter *promoter = duty->promoter;
    struct script_request *call =
        script_requests_new_unkept(promoter->options.calls, duty->partition);
    script_encode_reap_dead(&call->request, promoter->options.space, &call->id,
                            &(struct script_reap){.max = GIVEN_BACK});
    promoter->leaving++;
    script_requests_send(call, duty, own_given_back);
}

/* ---- calls of the engine ---- */

void promoter_due(struct promoter *promoter, uint32_t partition, int64_t due_us)
{
    struct duty *duty = &promoter->duties[partition];
    if (duty->promote_pending)
        duty->promote_again = true; /* the promote under way may have missed this job */
    if (due_us < duty->promote_at_us)
        duty->promote_at_us = due_us;
    plan_promote(duty);
}

void promoter_opened(struct promoter *promoter, uint32_t partition, bool buckets_checked)
{
    if (buckets_checked)
        promoter->duties[partition].buckets_at_us = now_of(promoter);
    promoter->duties[partition].reap_at_us = now_of(promoter);
    plan_reap(&promoter->duties[partition]);
    promoter_due(promoter, partition, now_of(promoter));
}

void promoter_help(struct promoter *promoter, uint32_t partition)
{
    struct duty *duty = &promoter->duties[partition];
    if (duty->promote_pending || now_of(promoter) - duty->helped_at_us < HELP_US)
        return;
    duty->helped_at_us = now_of(promoter);
    promote(duty);
    plan_promote(duty); /* not twice */
}

void promoter_look(struct promoter *promoter)
{
    for (uint32_t i = 0; i < promoter->options.space->partitions; i++)
        promoter_due(promoter, i, now_of(promoter));
}

void promoter_leave(struct promoter *promoter)
{
    for (uint32_t i = 0; i < promoter->options.space->partitions; i++)
        give_back_own(&promoter->duties[i]);
}

/* We become the owner: due times, and what the former owner had left to give back, are unknown. */
static void take_over(struct duty *duty)
{
    duty->promote_at_us = now_of(duty->promoter);
    duty->reap_at_us = now_of(duty->promoter);
}

static void note_members(struct duty *duty)
{
    const struct members *members = duty->promoter->options.members;
    bool owns = members_own(members, duty->partition);
    if (owns && !duty->owner)
        take_over(duty);
    if (!owns)
        report_missed(duty);
    duty->owner = owns;
    if (duty->gone != members->gone) {
        duty->reap_at_us = now_of(duty->promoter);
        duty->once_more = true;
    }
    duty->gone = members->gone;
    plan_promote(duty);
    plan_reap(duty);
}

void promoter_members_changed(struct promoter *promoter)
{
    for (uint32_t i = 0; i < promoter->options.space->partitions; i++)
        note_members(&promoter->duties[i]);
}

void promoter_check(struct promoter *promoter)
{
    for (uint32_t i = 0; i < promoter->options.space->partitions; i++) {
        struct duty *duty = &promoter->duties[i];
        bool used = promoter->options.calls->partitions[i].used != duty->checked;
        if (duty->owner && used && !duty->promote_pending) {
            promote(duty);
            plan_promote(duty); /* not twice */
        }
    }
}
