/*
 * How many jobs are requested from each partition that may have some, in how many calls, and how
 * many of these are under way to one server.
 */
#include <string.h>

#include "engine/redis/fetch_parts.h"

enum {
    COUNTED_AT_ONCE = 160, /* of one partition, by five calls, if it has counted its ready jobs */
    COUNTED_TOPICS = 64,   /* ready jobs are not counted for more topics than that */
    ROUND_JOBS = 512,      /* of all partitions, by such calls: as many as one turn can send */
    SHARE_ROUNDS = 8,      /* rounds of divide_jobs() at most */
};

static size_t node_place(const struct script_requests *calls, uint32_t partition)
{
    const struct topology *topology = calls->options.topology;
    const struct node *node = script_requests_node(calls, partition);
    return node ? (size_t)(node - topology->nodes) : topology->node_count;
}

/* The group's calls to one server. */
struct node_calls {
    uint32_t under_way;
    uint32_t left_out; /* of these: see wait_group::left_out */
};

/* By the place of the server in the topology; the last is for partitions without one. In the
 * scratch. */
static struct node_calls *calls_by_node(const struct wait_group *group)
{
    struct consumers *consumers = group->consumers;
    const struct script_requests *calls = consumers->options.calls;
    size_t bytes = (calls->options.topology->node_count + 1) * sizeof(struct node_calls);
    struct node_calls *by_node = arena_alloc(&consumers->scratch, bytes);
    memset(by_node, 0, bytes);
    for (uint32_t i = 0; i < consumers->options.space->partitions; i++) {
        struct node_calls *of_node = &by_node[node_place(calls, i)];
        of_node->under_way += group->at[i].calls;
        of_node->left_out += group->at[i].left_out;
    }
    return by_node;
}

static struct node_calls *of_node(const struct wait_group *group, struct node_calls *by_node,
                                  uint32_t partition)
{
    return &by_node[node_place(group->consumers->options.calls, partition)];
}

/* It has at least `least` calls to answer, and answers none. */
static bool is_silent(const struct node_calls *calls, uint32_t least)
{
    return calls->under_way >= least && calls->left_out == calls->under_way;
}

struct candidates wait_group_answering(const struct wait_group *group, struct candidates candidates,
                                       uint32_t least)
{
    if (group->left_out < least)
        return candidates;
    struct node_calls *by_node = calls_by_node(group);
    uint32_t count = candidates.count;
    candidates.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t partition = candidates.at[i].partition;
        if (!is_silent(of_node(group, by_node, partition), least) ||
            wait_group_is_answered(group, partition))
            candidates.at[candidates.count++] = candidates.at[i];
    }
    return candidates;
}

struct candidates wait_group_with_room_for_probes(const struct wait_group *group,
                                                  struct candidates candidates)
{
    uint32_t most = PROBED_AT_ONCE / group->topic_count;
    most = most > CALLS_AT_ONCE ? most : CALLS_AT_ONCE;
    if (group->calls + candidates.count <= most)
        return candidates;
    struct node_calls *by_node = calls_by_node(group);
    uint32_t count = candidates.count;
    candidates.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (of_node(group, by_node, candidates.at[i].partition)->under_way++ < most)
            candidates.at[candidates.count++] = candidates.at[i];
    }
    return candidates;
}

static uint32_t at_most(uint64_t jobs, uint64_t most)
{
    return (uint32_t)(jobs < most ? jobs : most);
}

static uint32_t most_at_once(const struct wait_group *group, const struct candidate *candidate)
{
    uint32_t counted = group->at[candidate->partition].left;
    if (!counted)
        return JOBS_AT_ONCE;
    return counted < COUNTED_AT_ONCE ? counted : COUNTED_AT_ONCE;
}

/* So many jobs are requested from the candidates in one round at most. */
static uint64_t most_of_a_round(struct candidates candidates)
{
    uint64_t most = (uint64_t)JOBS_AT_ONCE * candidates.count;
    return most > ROUND_JOBS ? most : ROUND_JOBS;
}

/* Returns how many candidates have a share then, the first ones. */
static uint32_t choose_shares(const struct wait_group *group, struct candidates candidates,
                              uint64_t open)
{
    uint32_t count = 0;
    /* For more than one call into a partition: others wait behind all that are under way. */
    uint64_t room = group->requested < ROUND_JOBS ? ROUND_JOBS - group->requested : 0;
    for (; count < candidates.count && open; count++) {
        struct candidate *at = &candidates.at[count];
        at->share = at_most(open, at_most(at->share ? at->share : 1, JOBS_AT_ONCE));
        open -= at->share;
        room -= at_most(at->share, room);
    }
    for (uint32_t i = 0; i < count && open; i++) {
        struct candidate *at = &candidates.at[i];
        uint64_t left = count - i, more = (open + left - 1) / left;
        uint32_t most = at_most(most_at_once(group, at), at->share + room);
        most = most > JOBS_AT_ONCE ? most : JOBS_AT_ONCE; /* more may have come since */
        more = at_most(more, most - at->share);
        at->share += (uint32_t)more;
        open -= more;
        room -= at_most(more, room);
    }
    return count;
}

/* Jobs of which only we were notified must be requested or passed on: such a request must not be
 * left out because others in the same call bring enough. */
static struct fetch_options fetch_options_for(const struct wait_group *group,
                                              const struct candidates *candidates,
                                              uint32_t partition)
{
    bool alone = group->topics[0].topic->hints[partition].notified_alone;
    return (struct fetch_options){
        .counts = candidates->counts,
        .unmarked = candidates->unmarked,
        .shares_until = candidates->shared && !alone ? &candidates->until : NULL,
    };
}

/* Requests the candidate's share, by as many calls as it takes. */
static void fetch_share(struct wait_group *group, uint32_t topics,
                        const struct candidates *candidates, const struct candidate *at)
{
    for (uint32_t left = at->share, max; left; left -= max) {
        max = at_most(left, JOBS_AT_ONCE);
        struct fetch_request *fetch = wait_group_fetch_for(
            group, topics, at->partition, max, fetch_options_for(group, candidates, at->partition));
        fetch->if_silent = candidates->others_may;
        if (fetch->if_silent)
            fetch_request_leave_out_later(fetch);
    }
}

void wait_group_fetch_all(struct wait_group *group, uint32_t topics, struct candidates candidates)
{
    struct node_calls *by_node = wait_group_wants_many(group) ? calls_by_node(group) : NULL;
    uint64_t open = wait_group_open_wants(group), most = most_of_a_round(candidates);
    /* More consumers wait than one call for each partition serves. */
    candidates.counts = open > (uint64_t)JOBS_AT_ONCE * candidates.count && !group->listed_order &&
                        group->topic_count <= COUNTED_TOPICS;
    uint32_t count = choose_shares(group, candidates, open < most ? open : most);
    for (uint32_t i = 0; i < count; i++) {
        const struct candidate *at = &candidates.at[i];
        if (!by_node || of_node(group, by_node, at->partition)->under_way++ < CALLS_AT_ONCE)
            fetch_share(group, topics, &candidates, at);
    }
    wait_group_arm_first_probe(group);
}

/* Divides `open` jobs evenly among the candidates. What exceeds the jobs of one candidate is
 * divided among the others. */
static void divide_jobs(const struct wait_group *group, struct candidates candidates, uint64_t open)
{
    for (uint32_t round = 0; open && round < SHARE_ROUNDS; round++) {
        uint32_t left = candidates.count;
        for (uint32_t i = 0; i < candidates.count && open; i++, left--) {
            struct candidate *at = &candidates.at[i];
            uint64_t share = (open + left - 1) / left, room = most_at_once(group, at) - at->share;
            share = share < room ? share : room;
            at->share += (uint32_t)share;
            open -= share;
        }
    }
}

/* Jobs are no longer to be requested there. */
static void drop_plan(struct wait_group *group, uint32_t partition)
{
    struct partition_fetches *at = &group->at[partition];
    group->requested -= at->unplanned ? 0 : at->planned;
    group->planned -= at->planned;
    at->planned = 0;
    at->unplanned = false;
}

static void plan(struct wait_group *group, uint32_t partition, uint32_t jobs)
{
    group->at[partition].planned = jobs;
    group->planned += jobs;
    group->requested += jobs;
}

/* Requests what is planned in the partition, by as many calls as its server has room for. */
static void fetch_planned_in(struct wait_group *group, uint32_t partition, struct node_calls *calls)
{
    struct partition_fetches *at = &group->at[partition];
    struct fetch_options how = {.counts =
                                    group->topic_count <= COUNTED_TOPICS}; /* a command for each */
    bool unsure = wait_group_look_up(group, 0, group->topic_count, partition).unsure;
    uint32_t left = at->planned;
    if (is_silent(calls, CALLS_AT_ONCE) && !at->unplanned) {
        group->requested -= left;
        at->unplanned = true;
    }
    if (calls->under_way >= CALLS_AT_ONCE)
        return;
    drop_plan(group, partition);
    for (uint32_t max; left && calls->under_way < CALLS_AT_ONCE; left -= max, calls->under_way++) {
        max = left < JOBS_AT_ONCE ? left : JOBS_AT_ONCE;
        struct fetch_request *fetch =
            wait_group_fetch_for(group, group->topic_count, partition, max, how);
        if (unsure)
            fetch_request_leave_out_later(fetch);
    }
    plan(group, partition, left);
}

void wait_group_fetch_planned(struct wait_group *group)
{
    struct node_calls *by_node = group->planned ? calls_by_node(group) : NULL;
    uint32_t partitions = group->consumers->options.space->partitions;
    for (uint32_t i = 0; i < partitions && group->planned; i++) {
        const struct partition_fetches *at = &group->at[i];
        bool needed = at->unplanned ? wait_group_open_wants(group) >= at->planned
                                    : group->requested <= wait_group_wants(group);
        if (at->planned && !needed)
            drop_plan(group, i);
        else if (at->planned)
            fetch_planned_in(group, i, of_node(group, by_node, i));
    }
    wait_group_arm_first_probe(group);
}

void wait_group_fetch_shares(struct wait_group *group, struct candidates candidates, uint64_t open)
{
    struct node_calls *by_node = calls_by_node(group);
    uint64_t most = most_of_a_round(candidates);
    divide_jobs(group, candidates, open < most ? open : most);
    for (uint32_t i = 0; i < candidates.count; i++)
        plan(group, candidates.at[i].partition, candidates.at[i].share);
    for (uint32_t i = 0; i < candidates.count; i++) {
        uint32_t partition = candidates.at[i].partition;
        fetch_planned_in(group, partition, of_node(group, by_node, partition));
    }
    wait_group_arm_first_probe(group);
}
