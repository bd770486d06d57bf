/*
 * Invariants: a waiter is in its group until it is answered; a group lives while it has waiters or
 * calls.
 */
#include "engine/redis/consumers.h"
#include "base/hash.h"
#include "base/mem.h"
#include "engine/redis/consumers_parts.h"
#include "engine/redis/queue_clock.h"
#include <stdlib.h>

enum {
    HIT_STREAK_MIN = 3,
    VERIFY_GROUPS = 250, /* checked in one turn: some 50 us, or 1 ms if all of them call Redis */
    VERIFY_PAUSE_US = 1000,
    GONE_PART = 8, /* 1/8 of a job's ttr may be over when the consumer that gets it reserves */
    HELD_PART = 4, /* after 1/4 of a job's ttr its consumer is answered, without waiting for more */
};

const struct topic *consumers_topic(const struct consumers *consumers, struct bytes name)
{
    return topic_cache_find(&consumers->topic_cache, name);
}

void consumers_delivered(struct consumers *consumers, const struct job_view *job)
{
    struct topic *topic = topic_cache_find(&consumers->topic_cache, job->topic);
    int64_t now_us = consumers_now_us(consumers);
    int64_t late_us = lateness_us(job->due_us, job->created_us, now_us);
    unsigned bucket = lateness_bucket(late_us);
    lateness_add(&consumers->lateness, now_us, bucket);
    lateness_count(&consumers->lateness_histogram, bucket, late_us);
    if (topic)
        lateness_add(&topic->lateness, now_us, bucket);
}

/* ---- groups ---- */

void wait_group_touch(struct wait_group *group)
{
    if (list_empty(&group->dirty)) /* else it keeps its turn, however often it changes until then */
        list_add_tail(&group->consumers->dirty, &group->dirty);
}

/* For one topic it makes no difference: who waits for that is in one group. */
static bool is_in_listed_order(const struct cmd_reserve *reserve)
{
    return reserve->listed_order && reserve->topic_count > 1;
}

static bool wait_group_is_for(const struct wait_group *group, const struct cmd_reserve *reserve)
{
    if (group->topic_count != reserve->topic_count || group->bound != reserve->bound ||
        group->listed_order != is_in_listed_order(reserve) || group->ttr_us != reserve->ttr_us)
        return false;
    for (uint32_t i = 0; i < group->topic_count; i++) {
        if (!bytes_eq(topic_name(group->topics[i].topic), reserve->topics[i]))
            return false;
    }
    return true;
}

/* The group with these topics and options, or NULL. Searches the groups of the first topic, which
   are few, unless clients use many combinations. */
static struct wait_group *find_group(struct consumers *consumers, const struct cmd_reserve *reserve)
{
    struct topic *first = topic_cache_find(&consumers->topic_cache, reserve->topics[0]);
    if (!first)
        return NULL;
    for (struct list *at = first->groups.next; at != &first->groups; at = at->next) {
        struct wait_group *group = LIST_ENTRY(at, struct place, in_topic)->group;
        if (wait_group_is_for(group, reserve))
            return group;
    }
    return NULL;
}

/* Reserving no longer waits for the probes under way. */
static void end_probe(struct timer *timer)
{
    wait_group_touch(LIST_ENTRY(timer, struct wait_group, probe));
}

static void end_rest(struct timer *timer)
{
    wait_group_touch(LIST_ENTRY(timer, struct wait_group, taken_rested));
}

static struct wait_group *wait_group_new(struct consumers *consumers,
                                         const struct cmd_reserve *reserve)
{
    struct wait_group *group = mem_zalloc(sizeof(*group));
    group->consumers = consumers;
    group->topic_count = reserve->topic_count;
    group->listed_order = is_in_listed_order(reserve);
    group->bound = reserve->bound;
    group->ttr_us = reserve->ttr_us;
    group->probe.expired = end_probe;
    group->first_probe.expired = wait_group_end_first_probe;
    group->taken_rested.expired = end_rest;
    list_init(&group->timed_requests);
    group->topics = mem_zalloc(reserve->topic_count * sizeof(*group->topics));
    group->at = mem_zalloc(consumers->options.space->partitions * sizeof(*group->at));
    list_init(&group->waiters);
    list_init(&group->settling);
    list_init(&group->dirty);
    list_add_tail(&consumers->groups, &group->place);
    for (uint32_t i = 0; i < reserve->topic_count; i++) {
        struct topic *topic = topic_cache_need(&consumers->topic_cache, reserve->topics[i]);
        group->topics[i] = (struct place){.group = group, .topic = topic};
        list_add_tail(&topic->groups, &group->topics[i].in_topic);
    }
    return group;
}

static void wait_group_free(struct wait_group *group)
{
    if (group->consumers->hit_group == group)
        group->consumers->hit_group = NULL;
    for (uint32_t i = 0; i < group->topic_count; i++) {
        struct topic *topic = group->topics[i].topic;
        list_remove(&group->topics[i].in_topic);
        if (list_empty(&topic->groups))
            topic_cache_rest(&group->consumers->topic_cache, topic);
    }
    list_remove(&group->place);
    list_remove(&group->dirty);
    loop_cancel(group->consumers->options.loop, &group->probe);
    loop_cancel(group->consumers->options.loop, &group->first_probe);
    loop_cancel(group->consumers->options.loop, &group->taken_rested);
    mem_free(group->topics);
    mem_free(group->at);
    mem_free(group);
}

void wait_group_free_if_over(struct wait_group *group)
{
    if (group->calls == 0 && list_empty(&group->waiters))
        wait_group_free(group);
}

/* ---- waiters ---- */

/* The first consumer waits from now on: marks of SCRIPT_MARK_HINT are replaced by the next
   calls. */
static void mark_again(struct topic *topic, uint32_t partitions)
{
    for (uint32_t i = 0; i < partitions; i++) {
        if (topic->hints[i].what == EMPTY && topic->hints[i].only_hint)
            topic->hints[i].what = TAKEN;
    }
}

static void count_waiter(const struct waiter *waiter)
{
    struct wait_group *group = waiter->group;
    group->waiter_count++;
    for (uint32_t i = 0; i < group->topic_count; i++) {
        struct topic *topic = group->topics[i].topic;
        topic->waiters++;
        topic->parked += waiter->parked;
        if (waiter->parked && topic->parked == 1)
            mark_again(topic, group->consumers->options.space->partitions);
    }
}

static void uncount_waiter(const struct waiter *waiter)
{
    struct wait_group *group = waiter->group;
    group->waiter_count--;
    for (uint32_t i = 0; i < group->topic_count; i++) {
        group->topics[i].topic->waiters--;
        group->topics[i].topic->parked -= waiter->parked;
    }
}

static void waiter_free(struct waiter *waiter)
{
    struct wait_group *group = waiter->group;
    uncount_waiter(waiter);
    group->wanted -= waiter->max - waiter->job_count;
    group->consumers->waiters--;
    loop_cancel(group->consumers->options.loop, &waiter->deadline);
    list_remove(&waiter->place);
    list_remove(&waiter->settling);
    arena_fini(&waiter->arena);
    mem_free(waiter);
}

static void waiter_answer(struct waiter *waiter, const struct reply *reply)
{
    struct ticket *ticket = waiter->ticket;
    struct arena arena = waiter->arena; /* the reply's jobs are in it */
    waiter->arena = (struct arena){0};
    waiter_free(waiter);
    ticket->parked = 0;
    ticket->held = NULL;
    ticket->answered(ticket, reply);
    arena_fini(&arena);
}

/* Which of the group's topics the job is in. */
static uint32_t topic_place(const struct wait_group *group, const struct job_view *job)
{
    uint32_t place = 0;
    while (place < group->topic_count &&
           !bytes_eq(topic_name(group->topics[place].topic), job->topic))
        place++;
    return place;
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_jobs(const void *a_at, const void *b_at, void *ctx)
{
    const struct wait_group *group = ctx;
    const struct job_view *a = a_at, *b = b_at;
    int order = group->listed_order ? compare(topic_place(group, a), topic_place(group, b)) : 0;
    if (!order)
        order = compare(a->priority, b->priority);
    if (!order)
        order = (a->due_us > b->due_us) - (a->due_us < b->due_us);
    return order ? order : compare(a->ref.seq, b->ref.seq);
}

static int compare_reservations(const void *a_at, const void *b_at)
{
    const struct job_view *a = a_at, *b = b_at;
    int order = compare(a->ref.seq, b->ref.seq);
    return order ? order : (a->until_us < b->until_us) - (a->until_us > b->until_us);
}

/* Keeps only the newest reservation of each job. Returns how many are left. */
static uint32_t keep_newest_reservations(struct job_view *jobs, uint32_t count)
{
    uint32_t left = 0;
    qsort(jobs, count, sizeof(*jobs), compare_reservations);
    for (uint32_t i = 0; i < count; i++) {
        if (left == 0 || jobs[i].ref.seq != jobs[left - 1].ref.seq)
            jobs[left++] = jobs[i];
    }
    return left;
}

/* Removes jobs whose reservation has expired while the waiter waited for more: they may be reserved
 * by others now, or again here. Returns how many are left; if all have expired, all are kept, each
 * once. */
static uint32_t drop_expired(const struct waiter *waiter)
{
    int64_t now_us = consumers_now_us(waiter->group->consumers);
    uint32_t left = 0;
    for (uint32_t i = 0; i < waiter->job_count; i++) {
        if (waiter->jobs[i].until_us > now_us)
            waiter->jobs[left++] = waiter->jobs[i];
    }
    if (left == 0 && waiter->job_count > 1)
        return keep_newest_reservations(waiter->jobs, waiter->job_count);
    return left ? left : waiter->job_count;
}

void waiter_end(struct waiter *waiter, enum err err)
{
    uint32_t count = drop_expired(waiter);
    if (count > 1) /* they may come from several partitions */
        qsort_r(waiter->jobs, count, sizeof(*waiter->jobs), compare_jobs, waiter->group);
    struct reply reply = {
        .err = count ? OK : err,
        .kind = CMD_RESERVE,
        .count = count,
        .jobs = waiter->jobs,
    };
    waiter_answer(waiter, &reply);
}

/* The waiter is answered before most of this job's ttr is over, without waiting for more jobs. */
static void answer_before_expiry(struct waiter *waiter, const struct job_view *job)
{
    int64_t ttr_us = waiter->group->ttr_us ? waiter->group->ttr_us : job->ttr_us;
    loop_arm_by(waiter->group->consumers->options.loop, &waiter->deadline,
                job->until_us - ttr_us + ttr_us / HELD_PART);
}

static size_t content_bytes(const struct job_view *job)
{
    return job->body.len + job->properties.len;
}

static void keep_job(struct waiter *waiter, const struct job_view *job)
{
    struct arena *arena = &waiter->arena;
    if (!waiter->jobs)
        waiter->jobs = arena_alloc(arena, waiter->max * sizeof(*job));
    if (list_empty(&waiter->settling))
        list_add_tail(&waiter->group->settling, &waiter->settling);
    struct job_view *kept = &waiter->jobs[waiter->job_count++];
    size_t retry_bytes = job->retry_count * sizeof(*job->retry_us);
    *kept = *job;
    kept->ref.id = arena_copy(arena, job->ref.id);
    kept->topic = arena_copy(arena, job->topic);
    kept->content_type = arena_copy(arena, job->content_type);
    kept->body = arena_copy(arena, job->body);
    kept->properties = arena_copy(arena, job->properties);
    if (retry_bytes) {
        int64_t *retry_us = arena_alloc(arena, retry_bytes);
        memcpy(retry_us, job->retry_us, retry_bytes);
        kept->retry_us = retry_us;
    }
    waiter->got_bytes += content_bytes(job);
    waiter->group->wanted--;
    answer_before_expiry(waiter, job);
    consumers_delivered(waiter->group->consumers, job);
}

/*
 * Calls under way to a partition, perhaps of the same client, may make jobs ready there. So a
 * reserve that does not wait calls such partitions instead of relying on the cache.
 */
static void ask_behind(const struct wait_group *group)
{
    const struct consumers_options *options = &group->consumers->options;
    for (uint32_t i = 0; i < options->space->partitions; i++) {
        if (list_empty(&options->calls->partitions[i].calls))
            continue;
        for (uint32_t topic = 0; topic < group->topic_count; topic++) {
            if (group->topics[topic].topic->hints[i].what == EMPTY)
                topic_forget_at(group->topics[topic].topic, i);
        }
    }
}

static void time_is_up(struct timer *timer)
{
    struct waiter *waiter = LIST_ENTRY(timer, struct waiter, deadline);
    wait_group_touch(waiter->group);
    waiter_end(waiter, waiter->parked ? wait_group_nothing(waiter->group) : ERR_AGAIN);
}

/* While consumers wait, entries of the cache that may be wrong are checked twice in believe_us. */
static void plan_verify(struct consumers *consumers)
{
    int64_t now_us = consumers_now_us(consumers), half_us = consumers->options.believe_us / 2;
    if (timer_is_armed(&consumers->verify))
        return;
    uint64_t dice = hash_seeded(&now_us, sizeof(now_us), consumers->waiters);
    loop_arm(consumers->options.loop, &consumers->verify,
             now_us + half_us - (int64_t)(dice % ((uint64_t)half_us / 4 + 1)));
}

enum submitted consumers_reserve(struct consumers *consumers, const struct cmd_reserve *reserve,
                                 struct ticket *ticket)
{
    bool parks = reserve->wait_us > 0 && !consumers->drained;
    if (parks && consumers->waiters >= consumers->options.waiters_max) {
        struct reply full = {.err = ERR_WAITERS_LIMIT, .kind = CMD_RESERVE};
        ticket->answered(ticket, &full);
        return SUBMIT_ANSWERED;
    }
    struct wait_group *group = find_group(consumers, reserve);
    if (!group)
        group = wait_group_new(consumers, reserve);
    struct waiter *waiter = mem_zalloc(sizeof(*waiter));
    int64_t wait_us = parks ? reserve->wait_us : consumers->options.timeout_us, until_us;
    waiter->group = group;
    waiter->ticket = ticket;
    waiter->max = reserve->max;
    waiter->parked = parks;
    waiter->asked_us = consumers_now_us(consumers);
    waiter->deadline.expired = time_is_up;
    if (!__builtin_add_overflow(consumers_now_us(consumers), wait_us, &until_us))
        loop_arm(consumers->options.loop, &waiter->deadline, until_us);
    list_add_tail(&group->waiters, &waiter->place);
    group->wanted += waiter->max;
    list_init(&waiter->settling);
    if (!parks) {
        list_add_tail(&group->settling, &waiter->settling);
        ask_behind(group);
    }
    consumers->waiters++;
    plan_verify(consumers);
    count_waiter(waiter);
    ticket->parked = 1;
    ticket->held = waiter;
    wait_group_touch(group);
    return SUBMIT_PARKED;
}

void consumers_cancel(struct consumers *consumers, struct waiter *waiter)
{
    struct wait_group *group = waiter->group;
    for (uint32_t i = 0; i < waiter->job_count; i++)
        consumers->options.give_back(consumers->options.owner, &waiter->jobs[i]);
    waiter_free(waiter);
    wait_group_touch(group);
}

/* ---- handing out ---- */

static bool has_enough(const struct waiter *waiter)
{
    return waiter->job_count == waiter->max || waiter->got_bytes >= RESERVE_BODY_BYTES;
}

/* Was too much of the job's ttr over when the waiter reserved? A client may count from then. */
static bool is_stale_for(const struct waiter *waiter, const struct job_view *job)
{
    int64_t ttr_us = waiter->group->ttr_us ? waiter->group->ttr_us : job->ttr_us;
    int64_t gone_us = waiter->asked_us - (job->until_us - ttr_us);
    return gone_us > ttr_us / GONE_PART + QUEUE_CLOCK_CLOSE_US;
}

/* The reservation ended while its answer was on the way. */
static bool is_over(const struct consumers *consumers, const struct job_view *job)
{
    return job->until_us <= consumers_now_us(consumers);
}

/* A ttr that is shorter than an answer takes is always over: after some answers such jobs are
 * handed out, as otherwise nobody would ever get them. */
static void note_over(struct wait_group *group, uint32_t partition, const struct job_view *jobs,
                      uint32_t count)
{
    uint32_t over = 0;
    while (over < count && !is_over(group->consumers, &jobs[over]))
        over++;
    if (over < count)
        topic_note_over(topic_of(group, &jobs[over]), partition, true);
    for (uint32_t i = 0; i < count && over == count; i++)
        topic_note_over(topic_of(group, &jobs[i]), partition, false);
}

static bool goes_back(const struct waiter *waiter, uint32_t partition, bool for_another,
                      const struct job_view *job)
{
    const struct wait_group *group = waiter->group;
    if (is_over(group->consumers, job) && !topic_is_always_over(topic_of(group, job), partition))
        return true;
    return for_another && is_stale_for(waiter, job);
}

/* Gives back the first job that is over, or stale, if the jobs were requested before the first
 * waiter came, for another waiter; and all behind it, because they must not be delivered before it.
 * The partition is called again. Returns how many are left. */
static uint32_t give_back_stale(struct wait_group *group, uint32_t partition, int64_t requested_us,
                                struct job_view *jobs, uint32_t count)
{
    const struct waiter *waiter = LIST_ENTRY(group->waiters.next, struct waiter, place);
    bool for_another = waiter->asked_us > requested_us;
    uint32_t left = 0;
    while (left < count && !goes_back(waiter, partition, for_another, &jobs[left]))
        left++;
    for (uint32_t i = left; i < count; i++) {
        struct topic *topic = topic_of(group, &jobs[i]);
        group->consumers->options.give_back(group->consumers->options.owner, &jobs[i]);
        if (topic)
            topic_notice(topic, partition);
    }
    return left;
}

/* Updates the mean size of the group's recent jobs. */
static void note_sizes(struct wait_group *group, const struct job_view *jobs, uint32_t count)
{
    if (count == 0)
        return;
    group->came_jobs = group->came_jobs / 2 + count;
    group->came_bytes /= 2;
    for (uint32_t i = 0; i < count; i++)
        group->came_bytes += content_bytes(&jobs[i]);
}

void wait_group_hand_out(struct wait_group *group, uint32_t partition, int64_t requested_us,
                         struct job_view *jobs, uint32_t count)
{
    uint32_t next = 0;
    note_sizes(group, jobs, count);
    note_over(group, partition, jobs, count);
    while (next < count && !list_empty(&group->waiters)) {
        struct waiter *waiter = LIST_ENTRY(group->waiters.next, struct waiter, place);
        uint32_t wants = waiter->max - waiter->job_count;
        count = next + give_back_stale(group, partition, requested_us, jobs + next, count - next);
        if (waiter->job_count == 0 && wants <= count - next) {
            struct reply reply = {.kind = CMD_RESERVE, .count = wants, .jobs = jobs + next};
            for (uint32_t i = 0; i < wants; i++)
                consumers_delivered(group->consumers, &jobs[next++]);
            waiter_answer(waiter, &reply);
            continue;
        }
        while (next < count && !has_enough(waiter))
            keep_job(waiter, &jobs[next++]);
        if (has_enough(waiter))
            waiter_end(waiter, OK);
    }
    for (; next < count; next++)
        group->consumers->options.give_back(group->consumers->options.owner, &jobs[next]);
}

/* ---- updating the cache of ready jobs ---- */

static void wake_groups(struct topic *topic)
{
    for (struct list *at = topic->groups.next; at != &topic->groups; at = at->next)
        wait_group_touch(LIST_ENTRY(at, struct place, in_topic)->group);
}

/* Only we were notified of a ready job: by the end of the next match it is requested, or another
 * daemon is notified. */
void consumers_take_or_pass_on(struct consumers *consumers, struct topic *topic, uint32_t partition)
{
    if (list_empty(&topic->groups)) {
        consumers_pass_on(consumers, topic_name(topic), partition);
        return;
    }
    topic->hints[partition].notified_alone = true;
    list_remove(&topic->notified_alone);
    list_add_tail(&consumers->notified_alone, &topic->notified_alone);
}

void consumers_ready(struct consumers *consumers, struct bytes name, uint32_t partition,
                     enum notified notified)
{
    struct topic *topic = topic_cache_find(&consumers->topic_cache, name);
    if (partition >= consumers->options.space->partitions)
        return;
    if (!topic) {
        if (notified == NOTIFIED_ALONE)
            consumers_pass_on(consumers, name, partition);
        return;
    }
    topic_notice(topic, partition);
    if (notified == NOTIFIED_OTHER)
        return;
    if (notified == NOTIFIED_ALONE)
        consumers_take_or_pass_on(consumers, topic, partition);
    wake_groups(topic);
}

/*
 * Due jobs are mostly for waiting consumers. If they were for the same group several times in a
 * row, its reserve is sent right behind the promote, which saves a round trip. The streak ends when
 * another group gets the jobs.
 */
void consumers_promoting(struct consumers *consumers, uint32_t partition)
{
    if (consumers->hit_group && consumers->hit_streak >= HIT_STREAK_MIN)
        wait_group_fetch_behind(consumers->hit_group, partition);
}

void consumers_promoted(struct consumers *consumers, struct bytes name, uint32_t partition)
{
    struct topic *topic = topic_cache_find(&consumers->topic_cache, name);
    if (!topic) {
        consumers_pass_on(consumers, name, partition);
        return;
    }
    topic_promoted(topic, partition);
    /* A reserve under way was sent behind the promote, and takes the jobs that it made ready. Not
       surely if others share its jobs: then it may not be done, or bring fewer; nor if it takes
       another topic's. */
    uint64_t call = consumers_requesting_call(topic, partition, true);
    if (call)
        topic_requested_alone(topic, partition, call);
    else
        consumers_take_or_pass_on(consumers, topic, partition);
    if (list_empty(&topic->groups))
        return;
    struct wait_group *group = LIST_ENTRY(topic->groups.next, struct place, in_topic)->group;
    consumers->hit_streak = group == consumers->hit_group ? consumers->hit_streak + 1 : 0;
    consumers->hit_group = group;
    wake_groups(topic);
}

void consumers_see(struct consumers *consumers, const struct job_view *job, uint32_t partition,
                   bool became)
{
    struct topic *topic = topic_cache_find(&consumers->topic_cache, job->topic);
    struct script_rank rank = {.priority = job->priority, .us = job->due_us};
    if (!topic)
        return;
    topic_see(topic, partition, rank, became, consumers_now_us(consumers));
    wake_groups(topic);
}

struct topic *consumers_pushing(struct consumers *consumers, struct bytes name)
{
    struct topic *topic = topic_cache_find(&consumers->topic_cache, name);
    if (topic)
        topic->pushes++;
    return topic;
}

void consumers_pushed(struct topic *topic)
{
    topic->pushes--;
    wake_groups(topic);
}

static void forget(struct consumers *consumers, struct topic *topic, const void *ctx)
{
    (void)ctx;
    topic_forget(topic, consumers->options.space->partitions);
    wake_groups(topic);
}

static void each_topic(struct consumers *consumers,
                       void (*see)(struct consumers *, struct topic *, const void *ctx),
                       const void *ctx)
{
    for (struct list *at = consumers->groups.next; at != &consumers->groups; at = at->next) {
        struct wait_group *group = LIST_ENTRY(at, struct wait_group, place);
        for (uint32_t i = 0; i < group->topic_count; i++)
            see(consumers, group->topics[i].topic, ctx);
    }
    for (struct list *at = consumers->topic_cache.idle.next; at != &consumers->topic_cache.idle;
         at = at->next)
        see(consumers, LIST_ENTRY(at, struct topic, idle), ctx);
}

void consumers_forget(struct consumers *consumers)
{
    each_topic(consumers, forget, NULL);
}

static void forget_at(struct consumers *consumers, struct topic *topic, const void *partition)
{
    (void)consumers;
    topic_forget_at(topic, *(const uint32_t *)partition);
    wake_groups(topic);
}

void consumers_subscribed(struct consumers *consumers, uint32_t partition, bool subscribed)
{
    consumers->subscribed[partition] = subscribed;
    each_topic(consumers, forget_at, &partition);
}

static void forget_if_time(struct consumers *consumers, struct topic *topic, const void *ctx)
{
    if (topic->again_us <= consumers_now_us(consumers))
        forget(consumers, topic, ctx);
    else
        loop_arm_by(consumers->options.loop, &consumers->again, topic->again_us);
}

static void time_to_forget(struct timer *timer)
{
    each_topic(LIST_ENTRY(timer, struct consumers, again), forget_if_time, NULL);
}

static void report_looking(struct consumers *consumers)
{
    for (uint32_t i = 0; i < consumers->options.space->partitions; i++) {
        if (!consumers->subscribed[i])
            consumers->options.looking(consumers->options.owner, i);
    }
}

/* Checks some of the groups, and the others a little later, because there may be very many. New
 * ones are checked in the next round. */
static void verify(struct timer *timer)
{
    struct consumers *consumers = LIST_ENTRY(timer, struct consumers, verify);
    for (unsigned i = 0; i < VERIFY_GROUPS && !list_empty(&consumers->groups); i++) {
        struct wait_group *group = LIST_ENTRY(consumers->groups.next, struct wait_group, place);
        if (group->verify_round == consumers->verify_round) {
            consumers->verify_round++;
            plan_verify(consumers);
            return;
        }
        group->verify_round = consumers->verify_round;
        list_remove(&group->place);
        list_add_tail(&consumers->groups, &group->place);
        if (!wait_group_is_suspect(group))
            continue;
        report_looking(consumers);
        wait_group_touch(group); /* in this turn */
    }
    if (!list_empty(&consumers->groups))
        loop_arm(consumers->options.loop, timer, consumers_now_us(consumers) + VERIFY_PAUSE_US);
}

uint64_t consumers_count(const struct consumers *consumers)
{
    return consumers->waiters;
}

/* ---- life ---- */

void consumers_init(struct consumers *consumers, const struct consumers_options *options)
{
    *consumers = (struct consumers){
        .options = *options, .again.expired = time_to_forget, .verify.expired = verify};
    topic_cache_init(&consumers->topic_cache, options->space->partitions);
    list_init(&consumers->groups);
    list_init(&consumers->dirty);
    list_init(&consumers->notified_alone);
    consumers->subscribed = mem_zalloc(options->space->partitions * sizeof(bool));
    consumers->verify_round = 1;
}

void consumers_fini(struct consumers *consumers)
{
    while (!list_empty(&consumers->groups)) {
        struct wait_group *group = LIST_ENTRY(consumers->groups.next, struct wait_group, place);
        while (!list_empty(&group->waiters))
            waiter_end(LIST_ENTRY(group->waiters.next, struct waiter, place), ERR_DRAINING);
        wait_group_free(group);
    }
    loop_cancel(consumers->options.loop, &consumers->again);
    loop_cancel(consumers->options.loop, &consumers->verify);
    topic_cache_fini(&consumers->topic_cache);
    mem_free(consumers->subscribed);
    arena_fini(&consumers->scratch);
}
