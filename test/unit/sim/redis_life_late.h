/*
 * How late a job may be in redis_life_test.c. While nothing is wrong, a job that is due, or ready,
 * or whose lease has run out, is handed out within LATE_US if a consumer waits for it: each daemon
 * that shares its consumers' topic with others believes for at most a second what it knows of a
 * partition, and then looks for itself; all else is told at once, and takes some ways to Redis and
 * back. Where there is one daemon, which nobody can be told in place of, it is PROMPT_US.
 *
 * That counts from the end of what was wrong, and some time more: LEAP_RECOVERY_US after a server's
 * clock was set, FAULT_RECOVERY_US after servers and paths are whole again, and after a daemon has
 * ended or stopped: then others must make its partitions' jobs ready, and need not wait until it is
 * dead.
 *
 * What is due is read from the servers' keys, as of the time that the daemons believe in, now and
 * then; so this finds lateness of any job of the partition, whoever pushed it. One job of each
 * topic and partition is followed, the last one to be reserved, until it is not there any more.
 */
#ifndef LATERD_TEST_REDIS_LIFE_LATE_H
#define LATERD_TEST_REDIS_LIFE_LATE_H

#include "base/codec.h"
#include "redis_life_keys.h"

enum {
    LATE_US = 1100 * MS,    /* engine.c: BELIEVE_US, and two calls, one after the other */
    PROMPT_US = 150 * MS,   /* notices and calls take a few milliseconds each */
    LATE_LOOK_US = 20 * MS, /* between two looks */
};

/* Looks for the job that is followed, and notes the one that is to be followed in its place. */
struct late_search {
    struct due_job *followed;
    struct bytes topic;
    int64_t queue_us;
    bool found;
    const char *last; /* its number; NULL: none is due */
};

static inline void late_see(struct late_search *search, const char *number)
{
    search->found = search->found || memcmp(search->followed->number, number, SCRIPT_NAME) == 0;
    search->last = number;
}

/* It begins with this letter, the topic's length and the topic. */
static inline bool late_is_of(struct bytes member, char letter, struct bytes topic)
{
    return member.len > 2 + topic.len && member.at[0] == letter &&
           member.at[1] == (char)topic.len && memcmp(member.at + 2, topic.at, topic.len) == 0;
}

static inline void late_search_order(struct late_search *search, const struct value *order)
{
    for (size_t i = 0; order && i < order->count; i++) {
        struct bytes member = order->items[i].member;
        const char *behind = member.at + 2 + search->topic.len; /* docs/redis-layout.md */
        if (late_is_of(member, 'r', search->topic))
            late_see(search, member.at + member.len - SCRIPT_NAME);
        else if (late_is_of(member, 'w', search->topic) &&
                 (int64_t)__builtin_bswap64(get_u64(behind)) <= search->queue_us)
            late_see(search, behind + 12);
    }
}

static inline void late_search_leases(struct late_search *search, const struct value *leases)
{
    for (size_t i = 0; leases && i < leases->count; i++) {
        struct bytes member = leases->items[i].member;
        if (leases->items[i].score > (double)search->queue_us)
            break;
        if (member.at[0] == (char)search->topic.len &&
            memcmp(member.at + 1, search->topic.at, search->topic.len) == 0)
            late_see(search, member.at + member.len - SCRIPT_NAME);
    }
}

/* The least that the partition's clock shows, for all that daemons believe. */
static inline int64_t late_queue_us(const struct life *life, unsigned partition)
{
    int64_t least_us = INT64_MAX;
    for (unsigned i = 0; i < life->daemon_count; i++) {
        const struct daemon *daemon = &life->daemons[i];
        if (!is_awake(daemon))
            continue;
        const struct queue_clock *clock = &daemon->engine->calls.partitions[partition].clock;
        int64_t us = clock->known ? daemon_now(daemon) + clock->least_us : 0;
        least_us = us < least_us ? us : least_us;
    }
    return least_us;
}

static inline void late_follow(struct life *life, unsigned partition, unsigned topic,
                               struct bytes name)
{
    struct due_job *followed = &life->late.due[partition][topic];
    struct late_search search = {
        .followed = followed, .topic = name, .queue_us = late_queue_us(life, partition)};
    late_search_order(&search, key_of(life, partition, "o"));
    late_search_leases(&search, key_of(life, partition, "l"));
    if (followed->since_us && search.found)
        return;
    followed->since_us = search.last ? life->now_us : 0;
    if (search.last)
        memcpy(followed->number, search.last, SCRIPT_NAME);
}

/* ---- while nothing is wrong ---- */

static inline bool late_is_moving(const struct life *life)
{
    bool moving = false;
    char tag[16];
    for (unsigned i = 0; life->shape == SHAPE_CLUSTER && life->moving && i < life->partitions; i++)
        moving = moving ||
                 life->cluster.to[sim_cluster_slot(bytes_str(tag_of(i, tag)))] != SIM_CLUSTER_NONE;
    return moving;
}

/* Notes faults that go on, and daemons that have gone: these may have to be found by others that
   have just come back themselves. */
static inline void late_note_faults(struct life *life)
{
    struct late_state *late = &life->late;
    bool faulty = late_is_moving(life), gone = false;
    for (unsigned i = 0; i < life->mender_count; i++)
        faulty =
            faulty || (life->menders[i].what != MEND_LEAP && life->menders[i].what != MEND_LEAVE);
    for (unsigned i = 0; i < life->daemon_count; i++) {
        const struct daemon *daemon = &life->daemons[i];
        unsigned born = is_awake(daemon) ? daemon->born : 0;
        gone = gone || (late->born[i] && late->born[i] != born);
        late->born[i] = born;
    }
    if (faulty)
        late_excuse(life, FAULT_RECOVERY_US);
    if (gone && late->well_us > life->now_us)
        late->well_us += FAULT_RECOVERY_US;
    else if (gone)
        late_excuse(life, FAULT_RECOVERY_US);
}

static inline bool late_waits(const struct life *life, const struct actor *actor)
{
    const struct daemon *daemon = &life->daemons[actor->daemon];
    return actor->busy && actor->parked && actor->born == daemon->born && is_awake(daemon);
}

static inline int64_t late_since_us(const struct life *life, const struct actor *actor,
                                    const struct due_job *job)
{
    int64_t since_us = life->late.well_us;
    since_us = since_us > actor->sent_us ? since_us : actor->sent_us;
    return since_us > job->since_us ? since_us : job->since_us;
}

static inline void late_judge(struct life *life, const struct actor *actor, unsigned topic)
{
    int64_t most_us = life->daemon_count == 1 ? PROMPT_US : LATE_US;
    for (unsigned p = 0; p < life->partitions; p++) {
        const struct due_job *job = &life->late.due[p][topic];
        if (job->since_us && life->now_us - late_since_us(life, actor, job) > most_us)
            BROKEN(
                &life->oracle,
                "late: partition %u has a job of topic %u since %lld ms, and a consumer of daemon "
                "%u waits since %lld ms",
                p, topic, (long long)((life->now_us - job->since_us) / MS), actor->daemon,
                (long long)((life->now_us - actor->sent_us) / MS));
    }
}

/* To be called whenever something may have happened. */
static inline void late_look(struct life *life, const struct bytes *topics)
{
    struct late_state *late = &life->late;
    if (!life->healed || late->look_us > life->now_us)
        return;
    late->look_us = life->now_us + LATE_LOOK_US;
    late_note_faults(life);
    for (unsigned topic = 0; topic < TOPICS; topic++) {
        bool waits = false;
        for (unsigned i = 0; i < ACTORS; i++)
            waits =
                waits || (life->actors[i].waits_for[topic] && late_waits(life, &life->actors[i]));
        for (unsigned p = 0; p < life->partitions; p++) {
            late->due[p][topic].since_us *= waits;
            if (waits)
                late_follow(life, p, topic, topics[topic]);
        }
        for (unsigned i = 0; waits && i < ACTORS; i++) {
            if (life->actors[i].waits_for[topic] && late_waits(life, &life->actors[i]))
                late_judge(life, &life->actors[i], topic);
        }
    }
}

#endif
