/*
 * Chooses which partitions are asked for the jobs that a group wants, and which are probed first.
 * When a request is sent, the jobs requested by all calls under way (`requested`) are no more than
 * the group's waiters want, not counting calls that are overdue.
 */
#include <stdlib.h>

#include "engine/redis/fetch_parts.h"

enum {
    SILENT_US = 50 * 1000,     /* a partition with a call under way for so long is not "empty" */
    STALE_US = 100 * 1000,     /* knowledge of ready jobs that is older is checked by a probe */
    TAKEN_REST_US = 20 * 1000, /* see without_rested() */
};

/* ---- what is known of the partitions ---- */

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

/* ---- what is wanted ---- */

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

/* ---- which partitions are asked ---- */

/* Does reserving wait for the answers to probes, for a while? */
enum awaiting { AWAITED, NOT_AWAITED };

/* Probes the partitions; those whose servers have too many calls to answer are probed in a later
 * step, as these answer. */
static void probe_all(struct wait_group *group, struct candidates candidates,
                      enum awaiting awaiting)
{
    struct loop *loop = group->consumers->options.loop;
    bool if_silent = group->listed_order && others_may(group); /* see awaits_answers() */
    candidates = wait_group_with_room_for_probes(group, candidates);
    if (awaiting == AWAITED && !group->awaited_probes)
        group->probe_deadline_us = loop->now_us + wait_group_probe_us(group);
    for (uint32_t i = 0; i < candidates.count; i++) {
        struct fetch_request *fetch = wait_group_fetch_for(
            group, group->topic_count, candidates.at[i].partition, 0, (struct fetch_options){0});
        fetch->if_silent = if_silent;
        fetch_request_leave_out_later(fetch);
        if (awaiting == AWAITED) {
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
        probe_all(group, noticed, AWAITED); /* which has the best job */
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
        probe_all(group, unsure, AWAITED);
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
        probe_all(group, taken, AWAITED);
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
        probe_all(group, find_candidates(group, 0, group->topic_count, is_stale), NOT_AWAITED);
    probe_all(group, find_candidates(group, 0, group->topic_count, is_empty_long), NOT_AWAITED);
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
