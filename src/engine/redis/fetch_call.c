/*
 * One call for jobs, or a probe: how it is written, what its answer means for the cache and for the
 * waiters, and when its answer is no longer waited for.
 */
#include "base/mem.h"
#include "engine/redis/fetch_parts.h"

enum { AGAIN_US = 500 * 1000 }; /* until the next call, after one that failed */

/* ---- what an answer says of a partition ---- */

static bool has_job_of(const struct script_answer *answer, struct bytes topic)
{
    for (uint32_t i = 0; i < answer->reply.count; i++) {
        if (bytes_eq(answer->reply.jobs[i].topic, topic))
            return true;
    }
    return false;
}

/* A job became ready since the call was sent: if it found none, there may be some. */
static bool is_outdated(const struct fetch_request *fetch, const struct hint *hint)
{
    return fetch->number <= hint->outdated_calls;
}

/* True: this is the answer to the call that requested a job that only we were notified of. */
static bool ends_alone(const struct fetch_request *fetch, struct hint *hint)
{
    if (!hint->alone_call || fetch->number < hint->alone_call)
        return false;
    hint->alone_call = 0;
    return true;
}

/* Notes which jobs were left in the partition after the call. One that only we were notified of may
 * be among them, because a better one of another topic came: it is to be taken, or passed on. */
static void learn(const struct fetch_request *fetch, uint32_t partition,
                  const struct script_answer *answer)
{
    struct consumers *consumers = fetch->group->consumers;
    int64_t now_us = consumers_now_us(consumers);
    for (uint32_t i = 0; i < fetch->topics; i++) {
        struct topic *topic = fetch->group->topics[i].topic;
        struct hint *hint = &topic->hints[partition];
        struct topic_rest rest = {.taken = answer->count};
        bool left = ends_alone(fetch, hint) && !has_job_of(answer, topic_name(topic));
        hint->failed = false;
        switch (script_first(consumers->options.space, partition, answer, i, &rest.first,
                             &rest.close_jobs)) {
        case SCRIPT_FIRST: topic_left(topic, partition, &rest, now_us); break;
        case SCRIPT_NONE:
            left = false;
            if (is_outdated(fetch, hint))
                break;
            /* Without notices: consumers_subscribed() makes it UNKNOWN when they are received. */
            hint->what = answer->marked || !consumers->subscribed[partition] ? EMPTY : TAKEN;
            hint->at_us = now_us;
            hint->only_hint = !fetch->waits;
            hint->shared = answer->shared;
            if (hint->only_hint && topic->parked)
                hint->what = TAKEN; /* a consumer was parked since the call was sent */
            break;
        case SCRIPT_UNSEEN:
            if (answer->firsts.len == 0)
                hint->what = NOTICED;
            break;
        }
        if (left)
            consumers_take_or_pass_on(consumers, topic, partition);
    }
}

/* ---- answers ---- */

static void note_answer(struct consumers *consumers, int64_t us)
{
    us = us < PROBE_MOST_US ? us : PROBE_MOST_US;
    consumers->answer_us = consumers->answer_us ? (7 * consumers->answer_us + us) / 8 : us;
}

int64_t wait_group_probe_us(const struct wait_group *group)
{
    int64_t us = PROBE_ANSWERS * group->consumers->answer_us;
    if (us < PROBE_US)
        return PROBE_US;
    return us < PROBE_MOST_US ? us : PROBE_MOST_US;
}

static void bury_damaged(struct consumers *consumers, const struct script_parts *parts)
{
    struct job_view *jobs = arena_alloc(&consumers->scratch, JOBS_AT_ONCE * sizeof(*jobs));
    struct script_parts taken = *parts;
    taken.count--; /* the last part is not a job: see script_first() */
    uint32_t found = script_damaged(consumers->options.space, &taken, jobs, JOBS_AT_ONCE);
    for (uint32_t i = 0; i < found; i++)
        consumers->options.damaged(consumers->options.owner, &jobs[i]);
}

/* Makes the topics' EMPTY entries UNKNOWN at this time, for instance because a pause ends. */
static void again_at(const struct fetch_request *fetch, int64_t again_us)
{
    struct consumers *consumers = fetch->group->consumers;
    for (uint32_t i = 0; i < fetch->topics; i++) {
        struct topic *topic = fetch->group->topics[i].topic;
        if (again_us < topic->again_us)
            topic->again_us = again_us;
    }
    loop_arm_by(consumers->options.loop, &consumers->again, again_us);
}

/* A call failed: waiters that are not parked are answered with `err`, parked ones stay. */
static void fetch_failed(const struct fetch_request *fetch, uint32_t partition, enum err err)
{
    struct wait_group *group = fetch->group;
    struct list *next;
    for (uint32_t i = 0; i < fetch->topics; i++) {
        struct hint *hint = &group->topics[i].topic->hints[partition];
        if (!is_outdated(fetch, hint)) {
            hint_set(hint, EMPTY);
            hint->at_us = consumers_now_us(group->consumers);
        }
        hint->failed = true;
    }
    /* The partition counts as empty until then. */
    again_at(fetch, consumers_now_us(group->consumers) + AGAIN_US);
    for (struct list *at = group->settling.next; at != &group->settling; at = next) {
        struct waiter *waiter = LIST_ENTRY(at, struct waiter, settling);
        next = at->next;
        if (!waiter->parked)
            waiter_end(waiter, err);
    }
}

/* Ready jobs that the call left there; 0: none, or they were not counted. */
static uint32_t left_there(const struct script_answer *answer)
{
    return answer->seq < UINT32_MAX ? (uint32_t)answer->seq : UINT32_MAX;
}

static void take_answer(const struct fetch_request *fetch, const struct script_request *call,
                        const struct script_parts *answered, const struct script_answer *answer)
{
    struct consumers *consumers = fetch->group->consumers;
    learn(fetch, answered->partition, answer);
    fetch->group->at[answered->partition].left = left_there(answer);
    if (fetch->behind && answer->count == 0)
        consumers->hit_streak = 0;
    if (answer->next_us != INT64_MAX)
        again_at(fetch, script_request_next_us(call, answer));
    if (answer->reply.err == ERR_DAMAGED || answer->reply.count < answer->count)
        bury_damaged(consumers, answered);
    if (!answer->reply.err)
        wait_group_hand_out(fetch->group, answered->partition, fetch->us, answer->reply.jobs,
                            answer->reply.count);
}

/* No longer counts on the call's jobs: they may be requested from other partitions, and a waiter
 * that has got some jobs does not wait for it. */
static void leave_out(struct fetch_request *fetch)
{
    list_remove(&fetch->place);
    if (fetch->left_out)
        return;
    fetch->group->requested -= fetch->max;
    fetch->group->left_out++;
    fetch->group->at[fetch->partition].left_out++;
    fetch->left_out = true;
}

static void fetch_answered(void *owner, struct script_request *call, enum err err,
                           const struct bytes *parts, uint32_t count)
{
    struct fetch_request *fetch = owner;
    struct wait_group *group = fetch->group;
    struct consumers *consumers = group->consumers;
    struct script_parts answered = {.partition = call->id.partition, .at = parts, .count = count};
    struct script_answer answer;
    group->calls--;
    group->awaited_probes -= fetch->awaited;
    if (!group->awaited_probes)
        loop_cancel(consumers->options.loop, &group->probe);
    leave_out(fetch);
    group->left_out--;
    group->at[answered.partition].left_out--;
    if (list_empty(&group->timed_requests))
        loop_cancel(consumers->options.loop, &group->first_probe);
    group->silent -= fetch->silent;
    group->at[answered.partition].calls--;
    group->at[answered.partition].shared -= fetch->shares;
    group->at[answered.partition].left = 0;
    group->suspect_since_us = 0;
    if (!err)
        err = script_read(consumers->options.space, CMD_RESERVE, &answered, &consumers->scratch,
                          &answer);
    if (parts)
        note_answer(consumers, consumers_now_us(consumers) - call->on_link.sent_us);
    if (err)
        fetch_failed(fetch, answered.partition, err);
    else
        take_answer(fetch, call, &answered, &answer);
    arena_reset(&consumers->scratch);
    mem_free(fetch);
    wait_group_touch(group);
}

/* ---- calls that are not waited for ---- */

/* The call's time is up without an answer: its jobs may be requested from other partitions, and
 * waiters that have got some jobs are answered with these. */
static void request_is_late(void *owner)
{
    struct fetch_request *fetch = owner;
    fetch->silent = true;
    fetch->group->silent++;
    leave_out(fetch);
    wait_group_touch(fetch->group);
}

void fetch_request_leave_out_later(struct fetch_request *fetch)
{
    struct list *all = &fetch->group->timed_requests;
    fetch->probe_end_us =
        consumers_now_us(fetch->group->consumers) + wait_group_probe_us(fetch->group);
    if (!list_empty(all)) {
        int64_t last_us = LIST_ENTRY(all->prev, struct fetch_request, place)->probe_end_us;
        fetch->probe_end_us = last_us > fetch->probe_end_us ? last_us : fetch->probe_end_us;
    }
    list_add_tail(all, &fetch->place);
}

void wait_group_arm_first_probe(struct wait_group *group)
{
    if (!list_empty(&group->timed_requests))
        loop_arm(group->consumers->options.loop, &group->first_probe,
                 LIST_ENTRY(group->timed_requests.next, struct fetch_request, place)->probe_end_us);
}

bool wait_group_is_answered(const struct wait_group *group, uint32_t partition)
{
    const struct script_requests *calls = group->consumers->options.calls;
    const struct node *node = script_requests_node(calls, partition);
    return script_requests_is_open(calls, partition) &&
           node->link.received_us > consumers_now_us(group->consumers) - wait_group_probe_us(group);
}

void wait_group_end_first_probe(struct timer *timer)
{
    struct wait_group *group = LIST_ENTRY(timer, struct wait_group, first_probe);
    while (!list_empty(&group->timed_requests)) {
        struct fetch_request *fetch =
            LIST_ENTRY(group->timed_requests.next, struct fetch_request, place);
        if (fetch->probe_end_us > consumers_now_us(group->consumers))
            break;
        list_remove(&fetch->place);
        if (fetch->if_silent && wait_group_is_answered(group, fetch->partition))
            fetch_request_leave_out_later(fetch);
        else
            leave_out(fetch);
    }
    wait_group_arm_first_probe(group);
    wait_group_touch(group);
}

/* ---- sending ---- */

static struct fetch_request *fetch_request_new(struct wait_group *group, uint32_t partition,
                                               uint32_t topics, uint32_t max)
{
    struct fetch_request *fetch = mem_alloc(sizeof(*fetch));
    *fetch = (struct fetch_request){.group = group,
                                    .us = consumers_now_us(group->consumers),
                                    .partition = partition,
                                    .topics = topics,
                                    .max = max};
    list_init(&fetch->place);
    group->calls++;
    group->requested += max;
    return fetch;
}

struct fetch_request *wait_group_fetch_for(struct wait_group *group, uint32_t topics,
                                           uint32_t partition, uint32_t max,
                                           struct fetch_options how)
{
    struct consumers *consumers = group->consumers;
    struct script_request *call = script_requests_new(consumers->options.calls, partition);
    struct bytes *names = arena_alloc(&consumers->scratch, topics * sizeof(*names));
    for (uint32_t i = 0; i < topics; i++) {
        names[i] = topic_name(group->topics[i].topic);
        struct hint *hint = &group->topics[i].topic->hints[partition];
        if (hint->outdated_calls == ALL_CALLS)
            hint->outdated_calls = consumers->last_call;
        if (hint->notified_alone && max > 0)
            topic_requested_alone(group->topics[i].topic, partition, consumers->last_call + 1);
        hint->notified_alone = hint->notified_alone && max == 0;
    }
    struct cmd_reserve reserve = {
        .topics = names,
        .topic_count = topics,
        .max = how.counts ? UINT32_MAX : max, /* beyond `max` the script counts what is left */
        .ttr_us = group->ttr_us,
        .listed_order = group->listed_order && topics > 1,
        .bound = group->bound,
    };
    struct fetch_request *fetch = fetch_request_new(group, partition, topics, max);
    fetch->number = ++consumers->last_call;
    for (uint32_t i = 0; i < topics; i++)
        fetch->waits = fetch->waits || group->topics[i].topic->parked;
    enum script_mark mark = fetch->waits ? SCRIPT_MARK_WAIT : SCRIPT_MARK_HINT;
    bool marks = consumers->subscribed[partition] && !how.unmarked;
    script_encode_reserve(&call->request, consumers->options.space, &call->id, &reserve,
                          &(struct script_share){.max = max,
                                                 .mark = marks ? mark : SCRIPT_NO_MARK,
                                                 .shares_until = how.shares_until});
    call->joins = topics == 1 ? SCRIPT_RESERVE : 0;
    call->jobs = max;
    call->at_most_once = max > 0;
    call->on_timeout = request_is_late;
    group->at[partition].calls++;
    fetch->shares = how.shares_until != NULL;
    group->at[partition].shared += fetch->shares;
    group->at[partition].us = consumers_now_us(consumers);
    group->at[partition].last_call = fetch->number;
    script_requests_send(call, fetch, fetch_answered);
    return fetch;
}

static void passed_on(void *owner, struct script_request *call, enum err err,
                      const struct bytes *parts, uint32_t count)
{
    (void)owner, (void)call, (void)err, (void)parts,
        (void)count; /* if the notice is lost, waiters read again by themselves */
}

void consumers_pass_on(struct consumers *consumers, struct bytes name, uint32_t partition)
{
    struct script_request *call = script_requests_new_unkept(consumers->options.calls, partition);
    struct cmd_reserve reserve = {.topics = &name, .topic_count = 1};
    script_encode_reserve(&call->request, consumers->options.space, &call->id, &reserve,
                          &(struct script_share){.max = 0, .mark = SCRIPT_PASS_ON});
    script_requests_send(call, consumers, passed_on);
}
