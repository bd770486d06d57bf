/*
 * How late a job may be in redis_life_test.c. While nothing is wrong, a job that is due, or ready,
 * or whose lease has run out, is handed out within PROMPT_US if a consumer waits for it: all is
 * told at once, and takes some ways to Redis and back. While a daemon hangs, which may have been
 * told of the job, it is LATE_US: each daemon that shares its consumers' topic with others believes
 * for at most a second what it knows of a partition, and then looks for itself.
 *
 * That counts from the end of what was wrong, and some time more: LEAP_RECOVERY_US after a server's
 * clock was set, FAULT_RECOVERY_US after servers and paths are whole again, and after a daemon has
 * ended or stopped: then others must make its partitions' jobs ready, and need not wait until it is
 * dead.
 *
 * What is due is read from the servers' keys, as of the time that they show, now and then; so this
 * finds lateness of any job of the partition, whoever pushed it. One job of each topic and
 * partition is followed, the last one to be reserved, until it is not there any more.
 *
 * Not judged: what is late before the faults end, and while one goes on in the calm time (a slot
 * that moves, a server or path that is down, and the times above); a job beside the one that is
 * followed; topics for which nobody is parked at a daemon that runs.
 */
#ifndef LATERD_TEST_REDIS_LIFE_LATE_H
#define LATERD_TEST_REDIS_LIFE_LATE_H

#include "base/codec.h"
#include "redis_life_keys.h"

enum {
    LATE_US = 1100 * MS,      /* engine.c: BELIEVE_US, and two calls, one after the other */
    PROMPT_US = 150 * MS,     /* notices and calls take a few milliseconds each */
    LATE_LOOK_US = 20 * MS,   /* between two looks */
    LATE_CLOCK_US = 100 * MS, /* a queue's clock that moves by more between two looks has leapt */
    LATE_AGREES_US = 20 * MS, /* daemons' estimates are off by up to so much */
};

/* Looks for the job that is followed, and notes the one that is to be followed in its place. */
struct late_search {
    struct due_job *followed;
    struct bytes topic;
    int64_t queue_us;
    bool found;
    int64_t leased_until_us; /* by the queue's clock, of the job that is followed; 0: it is ready */
    const char *last;        /* its number; NULL: none is due */
};

static inline void late_see(struct late_search *search, const char *number, int64_t until_us)
{
    bool is_followed = memcmp(search->followed->number, number, SCRIPT_NAME) == 0;
    search->found = search->found || is_followed;
    if (is_followed)
        search->leased_until_us = until_us;
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
            late_see(search, member.at + member.len - SCRIPT_NAME, 0);
        else if (late_is_of(member, 'w', search->topic) &&
                 (int64_t)__builtin_bswap64(get_u64(behind)) <= search->queue_us)
            late_see(search, behind + 12, 0);
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
            late_see(search, member.at + member.len - SCRIPT_NAME, (int64_t)leases->items[i].score);
    }
}

/* ---- the queue's clock (engine/redis/queue_clock.h) ---- */

/* By how much the partition's clock is ahead of its server's. */
static inline int64_t late_shift_us(const struct life *life, unsigned partition)
{
    const struct value *hash = key_of(life, partition, "h");
    const struct buf *shift = hash ? hash_get(hash, BYTES("o")) : NULL;
    char text[32] = "0";
    if (shift)
        (void)snprintf(text, sizeof(text), "%.*s", (int)shift->len, shift->at);
    return strtoll(text, NULL, 10);
}

/* By how much it is ahead of the world, the least and the most that the daemon believes. */
static inline bool late_believes(const struct daemon *daemon, unsigned partition, int64_t *out_us,
                                 int64_t *out_most_us)
{
    if (!is_awake(daemon))
        return false;
    const struct queue_clock *clock = &daemon->engine->calls.partitions[partition].clock;
    *out_us = daemon->ahead_us + clock->least_us;
    *out_most_us = daemon->ahead_us + clock->most_us;
    return clock->known;
}

/* All daemons that run take it for the queue's clock. */
static inline bool late_all_believe(const struct life *life, unsigned partition, int64_t ahead_us)
{
    bool some = false;
    for (unsigned i = 0; i < life->daemon_count; i++) {
        int64_t least_us, most_us;
        if (!late_believes(&life->daemons[i], partition, &least_us, &most_us))
            continue;
        if (ahead_us < least_us - LATE_AGREES_US || ahead_us > most_us + LATE_AGREES_US)
            return false;
        some = true;
    }
    return some;
}

/*
 * The queue's clock goes on evenly, whatever Redis' own does. So it is what Redis shows, whatever
 * daemons believe, as long as Redis' own clock is what it was; only where Redis may have lost what
 * was set they set it again. When that has leapt, the queue's is what it was before, until Redis
 * shows about that again, or something that all daemons believe.
 */
static inline void late_note_clock(struct life *life, unsigned partition)
{
    struct late_clock *clock = &life->late.clocks[partition];
    int64_t server_us = sim_redis_settings(server_of(life, partition))->ahead_us;
    int64_t shown_us = server_us + late_shift_us(life, partition);
    int64_t moved_us = shown_us - clock->ahead_us;
    bool may_move = server_us != clock->server_us || life->risky || life->oracle.failed_over_us;
    clock->leapt = clock->known && (moved_us > LATE_CLOCK_US || moved_us < -LATE_CLOCK_US) &&
                   !(may_move && late_all_believe(life, partition, shown_us));
    if (!clock->leapt) {
        clock->ahead_us = shown_us;
        clock->server_us = server_us;
    }
    clock->wild = clock->leapt && may_move;
    clock->known = clock->known || key_of(life, partition, "h");
}

/* What it shows now; while Redis' own has leapt, the least that somebody may take it for. */
static inline int64_t late_queue_us(const struct life *life, unsigned partition)
{
    const struct late_clock *clock = &life->late.clocks[partition];
    int64_t ahead_us = clock->ahead_us;
    for (unsigned i = 0; clock->wild && i < life->daemon_count; i++) {
        int64_t least_us, most_us;
        if (late_believes(&life->daemons[i], partition, &least_us, &most_us) && least_us < ahead_us)
            ahead_us = least_us;
    }
    return life->now_us + ahead_us;
}

/* ---- the job that is followed ---- */

static inline void late_follow(struct life *life, unsigned partition, unsigned topic,
                               struct bytes name)
{
    struct due_job *followed = &life->late.due[partition][topic];
    struct late_search search = {
        .followed = followed, .topic = name, .queue_us = late_queue_us(life, partition)};
    late_search_order(&search, key_of(life, partition, "o"));
    late_search_leases(&search, key_of(life, partition, "l"));
    if (followed->since_us && search.found) {
        /* It may have been reserved between two looks: then it is due since that lease ended. */
        int64_t ended_us = life->now_us - (search.queue_us - search.leased_until_us);
        if (search.leased_until_us && ended_us > followed->since_us)
            followed->since_us = ended_us;
        return;
    }
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

/* A daemon does nothing, or did nothing a moment ago. */
static inline bool late_hangs(struct life *life)
{
    for (unsigned i = 0; i < life->daemon_count; i++) {
        const struct daemon *daemon = &life->daemons[i];
        if (daemon->engine && daemon->frozen_until_us > life->now_us)
            life->late.hung_us = life->now_us;
    }
    return life->late.hung_us && life->now_us - life->late.hung_us <= PROMPT_US;
}

static inline void late_judge(struct life *life, const struct actor *actor, unsigned topic)
{
    int64_t most_us = late_hangs(life) ? LATE_US : PROMPT_US;
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
    if (late->look_us > life->now_us)
        return;
    late->look_us = life->now_us + LATE_LOOK_US;
    for (unsigned p = 0; p < life->partitions; p++)
        late_note_clock(life, p);
    if (!life->healed)
        return;
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
