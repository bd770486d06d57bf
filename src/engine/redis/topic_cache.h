/*
 * What a daemon knows of the topics that its consumers ask for: for each partition, whether ready
 * jobs may be there.
 *
 *     EMPTY    it has none, and a mark is left there: a notice comes with the next one, to us or
 *              to another daemon that waits
 *     TAKEN    we took the last one, and left no mark: who waits has to ask once more
 *     UNKNOWN  nobody has asked yet
 *     NOTICED  a notice came: it has some, or had until another daemon was quicker
 *     READY    it has some, and we know where the first one stands
 *
 * A topic that nobody asks for any more is kept for a while, the longest idle is forgotten first:
 * it is UNKNOWN next time.
 */
#ifndef LATERD_ENGINE_REDIS_TOPIC_CACHE_H
#define LATERD_ENGINE_REDIS_TOPIC_CACHE_H

#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "engine/redis/script.h"

enum hint_kind { EMPTY, TAKEN, UNKNOWN, NOTICED, READY };

/* Jobs of one priority whose ranks differ by no more are close: of several consumers who wait it
 * does not matter which one gets the earlier one. Between two jobs that such consumers get the
 * bound is twice that: the later one is close to its partition's first job, and that one is close
 * to the best of all partitions. */
enum { RANK_CLOSE_US = 50 * 1000 };

struct hint {
    struct script_rank first; /* READY: of the first job, unless others have changed it since */
    int64_t at_us;            /* READY, TAKEN, EMPTY: since when we know */
    uint8_t what;             /* enum hint_kind */
    uint8_t close_jobs;       /* READY: jobs that we know of which are close to the first, with it;
                                 others may have taken some. 255: or more */
    bool stale_answer;        /* came since it was asked: an answer that says "none" is too old */
    bool only_hint;           /* EMPTY: our mark there does not say that somebody waits */
    bool shared;              /* EMPTY: others wait there, too, and may be told instead of us */
    bool notified_alone;      /* of a ready job there: it is taken, or passed on */
    bool failed;              /* the last call there: whether there are jobs is not known */
};

struct topic {
    char *name;
    uint8_t name_len;
    uint32_t number;    /* in topic_cache::all */
    struct hint *hints; /* for each partition */
    int64_t again_us;   /* when all is UNKNOWN again: a pause ends, a failed call is tried again */
    struct list groups; // place::in_topic
    struct list idle;   // topic_cache::idle, while no group asks for it
    struct list notified_alone; // consumers::notified_alone, while one of its hints is
    uint64_t waiters;
    uint64_t parked;          /* of these, who wait for a job */
    uint64_t pushes;          /* of due jobs, ours, not answered yet: it is not freed then */
    struct lateness lateness; /* of jobs handed out here */
};

struct topic_cache {
    uint32_t partitions;
    struct pool all; // struct topic
    struct map by_name;
    struct list idle; // topic::idle, the longest idle first
};

void topic_cache_init(struct topic_cache *topic_cache, uint32_t partitions);
/* No topic has groups any more. */
void topic_cache_fini(struct topic_cache *topic_cache);

struct topic *topic_cache_find(const struct topic_cache *topic_cache,
                               struct bytes name); /* or NULL */
/* Makes it if need be: it is for a group then. */
struct topic *topic_cache_need(struct topic_cache *topic_cache, struct bytes name);
/* No group asks for it any more. */
void topic_cache_rest(struct topic_cache *topic_cache, struct topic *topic);

struct bytes topic_name(const struct topic *topic);
/* A notice: a job became ready in the partition. */
void topic_notice(struct topic *topic, uint32_t partition);
/* The same, but it is no stale_answer to a reserve that is answered after this. */
void topic_promoted(struct topic *topic, uint32_t partition);
/* What a reserve has left, as its answer says. */
struct topic_rest {
    struct script_rank first;
    uint32_t taken;      /* jobs that it has reserved */
    uint32_t close_jobs; /* see script_first() */
};

/* Some are left: it is READY. Redis has counted those that are close to the first, up to
 * SCRIPT_CLOSE_TOLD. If there are as many, or it has not counted, what was counted here, less
 * `taken`, may be more: that stays so only if this first one is close to the first before it.
 * `notified_alone` stays, `stale_answer` and `failed` (like what is known of an EMPTY one) end. */
void topic_left(struct topic *topic, uint32_t partition, const struct topic_rest *rest,
                int64_t now_us);
/* A ready job was seen there; `became`: it is so by what we did, so there is one more than before
 * (not: it was there already, or has replaced one). It is no stale_answer to a reserve that is
 * answered after this. */
void topic_see(struct topic *topic, uint32_t partition, struct script_rank rank, bool became,
               int64_t now_us);
/* What we know is worth nothing: our marks may be gone. Which calls failed stays known, and that we
 * alone were told of a job: nobody else takes it before we have passed that on. */
void topic_forget(struct topic *topic, uint32_t partitions);
void topic_forget_at(struct topic *topic, uint32_t partition);

/* Below 0: a stands before b. */
int rank_compare(struct script_rank a, struct script_rank b);
/* `later` does not stand before `first`, and is close to it. */
bool rank_is_close(struct script_rank first, struct script_rank later);

#endif
