/*
 * A cache of topics that consumers of this daemon reserve from: whether each partition may have
 * ready jobs.
 *
 *     EMPTY    it has none, and we left a mark: the next ready job causes a notice to us, or to
 *              another daemon that waits
 *     TAKEN    we took the last one, and left no mark: waiting consumers need one more call
 *     UNKNOWN  no call was made yet
 *     NOTICED  a notice came: it has some, unless another daemon took them
 *     READY    it has some, and the rank of the first is known
 *
 * A topic without consumers stays in the cache for some time; the one idle for longest is dropped
 * first, and is UNKNOWN afterwards.
 */
#ifndef LATERD_ENGINE_REDIS_TOPIC_CACHE_H
#define LATERD_ENGINE_REDIS_TOPIC_CACHE_H

#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "engine/redis/script_answer.h"

enum hint_kind { EMPTY, TAKEN, UNKNOWN, NOTICED, READY };

/* Jobs of one priority whose ranks differ by no more than this are close: it does not matter which
 * of several waiting consumers gets the earlier one. Two jobs that such consumers get may differ by
 * twice as much: each is close to its partition's first job, which is close to the best of all. */
enum { RANK_CLOSE_US = 50 * 1000 };

struct hint {
    struct script_rank first; /* READY: of the first job, unless other daemons have changed it */
    int64_t at_us;            /* READY, TAKEN, EMPTY: the time of that knowledge */
    uint64_t outdated_calls;  /* calls with numbers up to this one (fetch_request::number) were sent
                                 before a job became ready: their answer "none" is outdated */
    uint64_t alone_call;      /* by this call, or one before it, the job that `notified_alone` stood
                                 for was requested: it may bring another topic's; 0: there is none */
    uint8_t what;             /* enum hint_kind */
    uint8_t close_jobs;       /* READY: known jobs that are close to the first, including it; other
                                 daemons may have taken some. 255: or more */
    bool only_hint;           /* EMPTY: our mark is a SCRIPT_MARK_HINT */
    bool shared;              /* EMPTY: others wait there, too, and may get the notice instead */
    bool notified_alone;      /* only we were notified of a ready job: take it, or pass it on */
    uint8_t over_answers;     /* see topic_note_over() */
    bool failed;              /* the last call failed: whether there are jobs is unknown */
};

/* hint::outdated_calls: all that were sent so far. The next one that is sent sets the number. */
#define ALL_CALLS UINT64_MAX

struct topic {
    char *name;
    uint8_t name_len;
    uint32_t number;    /* in topic_cache::all */
    struct hint *hints; /* for each partition */
    int64_t again_us;   /* when all becomes UNKNOWN: a pause ends, or a failed call is repeated */
    struct list groups; // place::in_topic
    struct list idle;   // topic_cache::idle, while it has no groups
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
/* When no topic has groups any more. */
void topic_cache_fini(struct topic_cache *topic_cache);

struct topic *topic_cache_find(const struct topic_cache *topic_cache,
                               struct bytes name); /* or NULL */
/* Gets the topic for a group; creates it if it is not there. */
struct topic *topic_cache_need(struct topic_cache *topic_cache, struct bytes name);
/* The topic has no groups any more: it becomes idle. */
void topic_cache_rest(struct topic_cache *topic_cache, struct topic *topic);

struct bytes topic_name(const struct topic *topic);
/* A notice: a job became ready in the partition. */
void topic_notice(struct topic *topic, uint32_t partition);
/* A notice that came by a promote of ours. Calls under way are not outdated: they were sent behind
 * it. */
void topic_promoted(struct topic *topic, uint32_t partition);
/* The job that only we were notified of is requested by this call, or one before it. */
void topic_requested_alone(struct topic *topic, uint32_t partition, uint64_t call);
/* What a reserve has left, as its answer says. */
struct topic_rest {
    struct script_rank first;
    uint32_t taken;      /* jobs that it has reserved */
    uint32_t close_jobs; /* see script_first() */
};

/* Sets what is known, and drops the rest of it. `notified_alone`, `alone_call`, `outdated_calls`
 * and `over_answers` stay. */
void hint_set(struct hint *hint, enum hint_kind what);

/* Some are left: it is READY. Redis has counted those that are close to the first, up to
 * SCRIPT_CLOSE_JOBS_MAX. If there are as many, or it has not counted, what was counted here, less
 * `taken`, may be more: that stays so only if this first one is close to the first before it.
 * `notified_alone`, `alone_call` and `outdated_calls` stay, `failed` (like what is known of an
 * EMPTY one) ends. */
void topic_left(struct topic *topic, uint32_t partition, const struct topic_rest *rest,
                int64_t now_us);
/* A ready job was seen there. `became`: our request made it ready, so there is one more than before
 * (it neither was there already, nor replaced one). Calls under way are not outdated, as above. */
void topic_see(struct topic *topic, uint32_t partition, struct script_rank rank, bool became,
               int64_t now_us);
/* An answer has brought jobs of the topic; `over`: the ttr of one was over when it came. Counts
 * such answers, in a row, for the topic and not for who waits: each consumer may leave before there
 * are several. NULL: nothing. */
void topic_note_over(struct topic *topic, uint32_t partition, bool over);
/* True: so many that its jobs are handed out all the same. */
bool topic_is_always_over(const struct topic *topic, uint32_t partition);
/* Sets UNKNOWN, because our marks may be gone. Keeps `failed`, `notified_alone` and
 * `alone_call`: no other daemon takes that job before it is passed on. */
void topic_forget(struct topic *topic, uint32_t partitions);
void topic_forget_at(struct topic *topic, uint32_t partition);

/* Below 0: a comes before b. */
int rank_compare(struct script_rank a, struct script_rank b);
/* Is `later` not before `first`, and close to it? */
bool rank_is_close(struct script_rank first, struct script_rank later);

#endif
