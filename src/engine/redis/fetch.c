/*
 * Requests the jobs that a group wants from Redis, and reads the answers. When a request is sent,
 * the jobs requested by all calls under way (`requested`) are no more than the group's waiters
 * want, not counting calls that are overdue.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/redis/fetch_parts.h"

enum {
    AGAIN_US = 500 * 1000,     /* until the next call, after one that failed */
    SILENT_US = 50 * 1000,     /* a partition with a call under way for so long is not "empty" */
    STALE_US = 100 * 1000,     /* knowledge of ready jobs that is older is checked by a probe */
    TAKEN_REST_US = 20 * 1000, /* see without_rested() */
};

/* ---- cache entries ---- */

struct candidate wait_group_look_up(const struct wait_group *group, uint32_t from, uint32_t to,
                                    uint32_t partition)
{
    int64_t old_us = consumers_now_us(group->consumers) - STALE_US;
    int64_t half_us = group->consumers->options.believe_us / 2; /* see plan_verify() */
    struct candidate candidate = {.partition = partition, .taken_us = INT64_MAX};
    for (uint32_t i = from; i < to; i++) {
        const struct hint *hint = &group->topics[i].topic->hints[partition];
        bool ready = hint->what == READY;
        if (ready && (candidate.best < READY || rank_compare(hint->first, candidate.first) < 0))
            candidate.first = hint->first, candidate.close_jobs = hint->close_jobs;
        if (hint->what > (uint8_t)candidate.best)
            candidate.best = (enum hint_kind)hint->what;
        candidate.noticed = candidate.noticed || hint->what == NOTICED;
        if (hint->what == TAKEN && hint->at_us < candidate.taken_us)
            candidate.taken_us = hint->at_us;
        candidate.unsure = candidate.unsure || hint->what == UNKNOWN;
        candidate.stale =
            candidate.stale || ((ready || hint->what == TAKEN) && hint->at_us <= old_us);
        candidate.empty_long =
            candidate.empty_long ||
            (hint->what == EMPTY && (hint->shared || !group->consumers->subscribed[partition]) &&
             consumers_now_us(group->consumers) - hint->at_us >= half_us);
    }
    return candidate;
}

static bool is_unsure(const struct candidate *candidate)
{
    return candidate->unsure;
}

static bool is_stale(const struct candidate *candidate)
{
    return candidate->stale;
}

static bool is_empty_long(const struct candidate *candidate)
{
    return candidate->empty_long;
}

static bool is_taken(const struct candidate *candidate)
{
    return candidate->best == TAKEN;
}

static bool is_noticed(const struct candidate *candidate)
{
    return candidate->best == NOTICED;
}

static bool is_candidate(const struct candidate *candidate)
{
    return candidate->best >= NOTICED;
}

static bool is_candidate_or_unsure(const struct candidate *candidate)
{
    return candidate->best >= UNKNOWN;
}

static struct candidates find_candidates(const struct wait_group *group, uint32_t from, uint32_t to,
                                         bool (*fits)(const struct candidate *candidate))
{
    uint32_t partitions = group->consumers->options.space->partitions;
    struct candidates found = {
        .at = arena_alloc(&group->consumers->scratch, partitions * sizeof(*found.at)),
    };
    for (uint32_t i = 0; i < partitions; i++) {
        struct candidate candidate = wait_group_look_up(group, from, to, i);
        if (!group->at[i].calls && !group->at[i].planned && fits(&candidate))
            found.at[found.count++] = candidate;
    }
    return wait_group_answering(group, found, CALLS_AT_ONCE);
}

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

/* ---- requests ---- */

/* True for a cluster. */
static bool has_several_servers(const struct wait_group *group)
{
    return group->consumers->options.calls->options.topology->node_count > 1;
}

/* If one server is silent, others may have the few jobs that are wanted, or those of a list of
 * topics whose order counts. */
static bool others_may(const struct wait_group *group)
{
    return has_several_servers(group) && (group->listed_order || !wait_group_wants_many(group));
}

bool wait_group_wants_many(const struct wait_group *group)
{
    return !list_empty(&group->waiters) &&
           LIST_ENTRY(group->waiters.next, struct waiter, place)->max > JOBS_AT_ONCE;
}

uint64_t wait_group_wants(const struct wait_group *group)
{
    const struct waiter *first = LIST_ENTRY(group->waiters.next, struct waiter, place);
    if (!wait_group_wants_many(group) || first->got_bytes >= RESERVE_BODY_BYTES)
        return group->wanted;
    bool has_some = first->got_bytes > 0;
    uint64_t bytes = has_some ? first->got_bytes : group->came_bytes;
    uint64_t jobs = has_some ? first->job_count : group->came_jobs;
    if (!bytes)
        return group->wanted;
    uint64_t fit = (RESERVE_BODY_BYTES - first->got_bytes) * jobs / bytes + 1;
    return fit < group->wanted ? fit : group->wanted;
}

uint64_t wait_group_open_wants(const struct wait_group *group)
{
    uint64_t wanted = wait_group_wants(group);
    return wanted > group->requested ? wanted - group->requested : 0;
}

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

/* Probes the partitions; those whose servers have too many calls to answer are probed in a later
 * step, as these answer. */
static void probe_all(struct wait_group *group, struct candidates candidates, bool awaited)
{
    struct loop *loop = group->consumers->options.loop;
    bool if_silent = group->listed_order && others_may(group); /* see awaits_answers() */
    candidates = wait_group_with_room_for_probes(group, candidates);
    if (awaited && !group->awaited_probes)
        group->probe_deadline_us = loop->now_us + wait_group_probe_us(group);
    for (uint32_t i = 0; i < candidates.count; i++) {
        struct fetch_request *fetch = wait_group_fetch_for(
            group, group->topic_count, candidates.at[i].partition, 0, (struct fetch_options){0});
        fetch->if_silent = if_silent;
        fetch_request_leave_out_later(fetch);
        if (awaited) {
            fetch->awaited = true;
            group->awaited_probes++;
        }
    }
    wait_group_arm_first_probe(group);
    /* Once the deadline has passed it stays in the past until all probes are answered: to arm the
       timer then would make the loop run without sleeping until they are. */
    if (group->awaited_probes && group->probe_deadline_us > loop->now_us)
        loop_arm(loop, &group->probe, group->probe_deadline_us);
}

static int compare_candidates(const void *a_at, const void *b_at)
{
    const struct candidate *a = a_at, *b = b_at;
    int order = rank_compare(a->first, b->first);
    return order ? order : (a->partition > b->partition) - (a->partition < b->partition);
}

/* Of candidates with jobs close to the best one, the one with the most such jobs comes first. */
static int compare_by_close(const void *a_at, const void *b_at)
{
    const struct candidate *a = a_at, *b = b_at;
    if (a->near_best && b->near_best && a->close_jobs != b->close_jobs)
        return a->close_jobs > b->close_jobs ? -1 : 1;
    return compare_candidates(a_at, b_at);
}

/* True: several consumers wait for several jobs. Which of them gets which job is not guaranteed. */
static bool is_shared(const struct wait_group *group)
{
    return group->waiters.next != group->waiters.prev && wait_group_open_wants(group) > 1 &&
           !wait_group_wants_many(group);
}

/* The READY candidate with the best first job; NULL: none is READY. */
static const struct candidate *best_of(struct candidates candidates)
{
    const struct candidate *best = NULL;
    for (uint32_t i = 0; i < candidates.count; i++) {
        const struct candidate *at = &candidates.at[i];
        if (at->best == READY && (!best || rank_compare(at->first, best->first) < 0))
            best = at;
    }
    return best;
}

/*
 * Asking one more partition costs Redis as much as taking several jobs from one. So for several
 * consumers, partitions with several jobs come first. Each is asked only for the jobs that are
 * known to be close to its first one. This bounds how far jobs come out of order: none comes before
 * one of a better priority, nor before one of its own priority that is due more than twice
 * RANK_CLOSE_US sooner. The exception is a partition that other daemons have changed meanwhile: it
 * answers with the best jobs that it has then, which may be due later.
 */
static void order_for_several(struct candidates candidates, struct script_rank first)
{
    for (uint32_t i = 0; i < candidates.count; i++) {
        struct candidate *at = &candidates.at[i];
        at->near_best = at->best == READY && rank_is_close(first, at->first);
        at->share = at->close_jobs;
    }
    qsort(candidates.at, candidates.count, sizeof(*candidates.at), compare_by_close);
}

/* How many jobs this group will get from pushes of this daemon that are under way: one for each,
 * less one for each waiter of other groups. 0 if the group is answered as soon as no call is under
 * way, or if the order of its topics counts. */
static uint64_t expected_jobs(const struct wait_group *group)
{
    uint64_t jobs = 0;
    for (uint32_t i = 0;
         i < group->topic_count && list_empty(&group->settling) && !group->listed_order; i++) {
        const struct topic *topic = group->topics[i].topic;
        uint64_t others = topic->waiters - group->waiter_count;
        jobs += topic->pushes > others ? topic->pushes - others : 0;
    }
    return jobs;
}

/* The known jobs and the pushes under way are as many as are wanted. So no mark is needed that asks
 * for notices of other jobs: it would cost Redis a write and a publication. */
static bool pushes_bring_the_rest(const struct wait_group *group, struct candidates candidates)
{
    uint64_t expected = expected_jobs(group), known = 0;
    for (uint32_t i = 0; i < candidates.count; i++)
        known += candidates.at[i].best == READY ? candidates.at[i].close_jobs : 1;
    return expected && expected + known >= wait_group_open_wants(group);
}

/* Each candidate may bring more jobs than are known of it, up to `until`, so that fewer partitions
 * are called. Not in a cluster, where a call is for one partition. */
static void share_among(const struct wait_group *group, struct candidates *candidates)
{
    const struct candidate *best = best_of(*candidates);
    struct script_rank first = best ? best->first : (struct script_rank){0};
    candidates->shared = best && group->topic_count == 1 && !has_several_servers(group);
    candidates->until = first;
    candidates->until.us += 2 * (int64_t)RANK_CLOSE_US;
    order_for_several(*candidates, first);
}

/* Requests jobs from the partitions that have some of these topics, the best first. False: none
 * has, apart from those of silent servers. */
static bool fetch_candidates(struct wait_group *group, uint32_t from, uint32_t to)
{
    struct candidates candidates = find_candidates(group, from, to, is_candidate);
    struct candidates noticed = find_candidates(group, from, to, is_noticed);
    if (noticed.count && candidates.count > wait_group_open_wants(group)) {
        probe_all(group, noticed, true); /* which has the best job */
        return true;
    }
    candidates.others_may = others_may(group);
    if (candidates.others_may)
        candidates = wait_group_answering(group, candidates, 1);
    candidates.unmarked = pushes_bring_the_rest(group, candidates);
    if (is_shared(group))
        share_among(group, &candidates);
    else
        qsort(candidates.at, candidates.count, sizeof(*candidates.at), compare_candidates);
    wait_group_fetch_all(group, to, candidates);
    return candidates.count > 0;
}

/* Are answers pending, apart from those of a cluster's silent servers? */
static bool awaits_answers(const struct wait_group *group)
{
    return group->calls > (has_several_servers(group) ? group->left_out : group->silent);
}

/* For reserves in listed order: jobs of a topic are requested only when all partitions have
 * answered that the topics before it have none, but for those of silent servers. */
static bool fetch_in_order(struct wait_group *group)
{
    for (uint32_t i = 0; i < group->topic_count; i++) {
        if (fetch_candidates(group, i, i + 1) || awaits_answers(group))
            return true;
    }
    return false;
}

/* Calls the partitions that are UNKNOWN. False: probes are under way, and may find better jobs than
 * the known ones. */
static bool fetch_unsure(struct wait_group *group)
{
    struct candidates unsure = find_candidates(group, 0, group->topic_count, is_unsure);
    bool alone = unsure.count == 1 && group->calls == group->silent &&
                 find_candidates(group, 0, group->topic_count, is_candidate).count == 0;
    unsure.others_may = others_may(group);
    if (alone)
        wait_group_fetch_all(group, group->topic_count, unsure);
    else
        probe_all(group, unsure, true);
    return !group->awaited_probes || group->probe_deadline_us <= consumers_now_us(group->consumers);
}

/* If at least as many jobs are wanted as there are partitions that may have some, all of these are
 * asked at once. No probe is needed, since the best jobs are among those that come. What a
 * partition of which nothing is known does not give within wait_group_probe_us() is requested from
 * the others. False: the group wants too few, and must be handled as for few jobs. */
static bool fetch_many(struct wait_group *group)
{
    if (!wait_group_wants_many(group) || group->listed_order)
        return false;
    uint64_t open = wait_group_open_wants(group);
    struct candidates candidates =
        find_candidates(group, 0, group->topic_count, is_candidate_or_unsure);
    if (candidates.count == 0 || open < candidates.count)
        return false;
    qsort(candidates.at, candidates.count, sizeof(*candidates.at), compare_candidates);
    wait_group_fetch_shares(group, candidates, open);
    return true;
}

/*
 * Of the partitions whose last job we took, those to request jobs from now. While pushes under way
 * from here bring as many jobs as are wanted, such a partition is left alone for TAKEN_REST_US: a
 * request would mostly find nothing, and leave a mark, for which the next push there must publish a
 * notice. A job that came through another daemon waits that much longer at most.
 */
static struct candidates without_rested(struct wait_group *group, struct candidates taken)
{
    struct loop *loop = group->consumers->options.loop;
    uint32_t count = taken.count;
    uint64_t expected = expected_jobs(group);
    if (!expected || expected < wait_group_open_wants(group))
        return taken;
    taken.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t fetch_us = taken.at[i].taken_us + TAKEN_REST_US;
        if (fetch_us <= loop->now_us)
            taken.at[taken.count++] = taken.at[i];
        else
            loop_arm_by(loop, &group->taken_rested, fetch_us);
    }
    return taken;
}

static void fetch_taken(struct wait_group *group)
{
    struct candidates taken =
        without_rested(group, find_candidates(group, 0, group->topic_count, is_taken));
    taken.others_may = others_may(group);
    if (taken.count == 1 || (!group->listed_order && taken.count <= wait_group_open_wants(group)))
        wait_group_fetch_all(group, group->topic_count, taken);
    else
        probe_all(group, taken, true);
}

bool wait_group_is_suspect(const struct wait_group *group)
{
    for (uint32_t i = 0; i < group->consumers->options.space->partitions; i++) {
        struct candidate candidate = wait_group_look_up(group, 0, group->topic_count, i);
        if (candidate.empty_long || candidate.noticed)
            return true;
    }
    return false;
}

void wait_group_fetch_behind(struct wait_group *group, uint32_t partition)
{
    uint64_t open = wait_group_open_wants(group);
    if (!open || group->listed_order || group->at[partition].calls)
        return;
    struct fetch_request *fetch = wait_group_fetch_for(
        group, group->topic_count, partition, open < JOBS_AT_ONCE ? (uint32_t)open : JOBS_AT_ONCE,
        (struct fetch_options){0});
    fetch->behind = true;
    fetch->if_silent = others_may(group);
    if (fetch->if_silent)
        fetch_request_leave_out_later(fetch);
    wait_group_arm_first_probe(group);
}

static void wait_group_fetch(struct wait_group *group)
{
    bool many = fetch_many(group);
    if (!many && (!fetch_unsure(group) || !wait_group_open_wants(group)))
        return;
    if (!many && !(group->listed_order ? fetch_in_order(group)
                                       : fetch_candidates(group, 0, group->topic_count)))
        fetch_taken(group);
    else
        probe_all(group, find_candidates(group, 0, group->topic_count, is_stale), false);
    probe_all(group, find_candidates(group, 0, group->topic_count, is_empty_long), false);
}

static bool is_suspect_now(const struct wait_group *group)
{
    int64_t silent_us = consumers_now_us(group->consumers) - SILENT_US;
    uint32_t partitions = group->consumers->options.space->partitions;
    for (uint32_t i = 0; i < partitions; i++) {
        if (group->at[i].calls && group->at[i].us <= silent_us)
            return true;
    }
    for (uint32_t topic = 0; topic < group->topic_count; topic++) {
        for (uint32_t i = 0; i < partitions; i++) {
            if (group->topics[topic].topic->hints[i].failed)
                return true;
        }
    }
    return group->silent > 0;
}

/* Computed once a turn: very many waiters may be answered in one. */
enum err wait_group_nothing(struct wait_group *group)
{
    if (group->suspect_since_us != consumers_now_us(group->consumers))
        group->nothing = is_suspect_now(group) ? ERR_AGAIN : ERR_EMPTY;
    group->suspect_since_us = consumers_now_us(group->consumers);
    return group->nothing;
}

/* When no call is waited for, and no partition is known to have jobs: answers the waiters that are
 * not parked, or have got some jobs. Very many others may wait, and are not gone through. */
static void settle(struct wait_group *group)
{
    struct list *next;
    for (struct list *at = group->settling.next; at != &group->settling; at = next) {
        next = at->next;
        waiter_end(LIST_ENTRY(at, struct waiter, settling), wait_group_nothing(group));
    }
}

/* The same while calls are left out: answers the first waiter, the only one that can have some
   jobs. */
static void settle_first(struct wait_group *group)
{
    if (list_empty(&group->waiters))
        return;
    struct waiter *first = LIST_ENTRY(group->waiters.next, struct waiter, place);
    if (first->job_count)
        waiter_end(first, OK);
}

void wait_group_step(struct wait_group *group)
{
    wait_group_fetch_planned(group);
    if (wait_group_open_wants(group))
        wait_group_fetch(group);
    if (group->calls == group->silent)
        settle(group);
    else if (group->calls == group->left_out)
        settle_first(group);
}
