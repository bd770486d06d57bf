/*
 * The answers of the Redis engine's scripts: how a reply of Redis becomes what the core would have
 * answered. Pure; nothing is kept. What decoded answers refer to is borrowed from the reply.
 */
#ifndef LATERD_ENGINE_REDIS_SCRIPT_ANSWER_H
#define LATERD_ENGINE_REDIS_SCRIPT_ANSWER_H

#include "engine/redis/script.h"

/*
 * Every script returns an array of strings, or one string, which counts as an array of one:
 * `parts`, borrowed. Errors are handled by the engine, with two special ones. An error that begins
 * with SCRIPT_CLOSED: the partition does not exist (Redis lost its data). Open it, then send the
 * request again.
 */
#define SCRIPT_CLOSED "LATERDCLOSED"

/*
 * An error that contains SCRIPT_MISSING: a bucket of jobs does not exist. It is being moved to this
 * node, or lost. Open the partition, which creates a lost one again, then send the request again.
 */
#define SCRIPT_MISSING "LATERDMISSING"

struct script_parts {
    uint32_t partition; /* that answered */
    const struct bytes *at;
    uint32_t count;
    struct bytes request; /* PUSH: the request, because the answer does not repeat the job */
};

struct script_answer {
    enum err err;
    enum job_state state; /* ERR_WRONG_STATE: the job's */
    bool kept, replaced;  /* PUSH */
    bool more;
    bool lost;   /* open, promote: a sorted set was lost */
    bool look;   /* open: jobs are in an older layout */
    bool missed; /* open, promote: buckets of jobs were lost, and were created again */
    bool marked; /* reserve: marks were left at all topics that have none */
    bool shared; /* other daemons wait there, too, and may get the notice instead of us */
    uint32_t count;
    int64_t now_us;  /* our clock; 0 = the script did not read the clock */
    int64_t next_us; /* our clock; INT64_MAX = never */
    uint64_t seq;
    struct bytes firsts; /* reserve: see script_first() */
    struct reply reply;  /* of script_read(): as the core would answer, including err */
};

/* The queue's clock in an answer; 0: it has none. */
int64_t script_clock(const struct bytes *parts, uint32_t count);

/*
 * Decodes an answer to script_encode…. ERR_CORRUPT: it is not valid. Jobs (an array from `arena`;
 * their bytes borrow from the parts) go to out_answer->reply. A job whose body does not match its
 * checksum is left out, and reply.err is ERR_DAMAGED if none is left; the engine should then bury
 * it: see script_damaged().
 */
enum err script_read(const struct script_space *space, enum cmd_kind kind,
                     const struct script_parts *parts, struct arena *arena,
                     struct script_answer *out_answer) MUST_USE;

/* Decodes the first part of an answer, which all scripts have. ERR_CORRUPT as script_read(). */
enum err script_read_answer(const struct script_space *space, const struct script_parts *parts,
                            struct script_answer *out_answer) MUST_USE;

/* A partition's clock. */
struct script_clock {
    int64_t queue_us;   /* what it shows, … */
    int64_t shift_us;   /* … which is this much more than Redis' clock */
    uint64_t set_count; /* how often it was set, … */
    int64_t set_us;     /* … and what it showed after the last time */
};

/* A page of settings. The answer to CONFIGURE_TOPIC and to script_encode_unconfigure() has `count`
   0. */
struct script_settings {
    enum err err; /* ERR_INVALID: the changes are no longer known: read all settings */
    bool more;
    uint64_t changes;       /* number of the last change so far, or of the page's last change */
    uint64_t version;       /* the last version that was given */
    struct bytes from;      /* of a page of all: the position of the next page */
    const struct bytes *at; /* 2 * count: a topic, then its version with its settings (or empty) */
    uint32_t count;         /* topics */
};

/* ERR_CORRUPT as script_read(). `all`: the answer to a call with `from`. Bytes are borrowed. */
enum err script_read_settings(const struct script_parts *parts, bool all,
                              struct script_settings *out_page) MUST_USE;
/* The settings of the i-th topic of a page, and their version. */
struct bytes script_settings_of(const struct script_settings *page, uint32_t i,
                                uint64_t *out_version);
/* In the answer to a heartbeat: the number of changes of settings; SCRIPT_FOREVER: not known. In
 * that to a change: the last version that was given. */
uint64_t script_settings_mark(const struct bytes *parts, uint32_t count);
/* In the answer to a resync of ids: how many of them were looked at. It stands where others have a
 * time, but is none: script_answer::next_us would have moved it by the difference of the clocks. */
uint64_t script_resync_looked(const struct bytes *parts, uint32_t count);
/* In the answer to a heartbeat: are pushes refused in some partition, because the journal is too
 * far behind? */
bool script_journal_behind(const struct bytes *parts, uint32_t count);

/* Decodes the clock in the answer to open or set_clock. False: there is none. */
bool script_read_clock(const struct bytes *parts, uint32_t count, struct script_clock *out_clock);

/* Decodes the answer to a heartbeat: up to SCRIPT_MEMBERS_MAX daemons, including this one.
   ERR_CORRUPT as script_read(). */
enum err script_read_members(const struct script_parts *parts, struct script_member *out_members,
                             uint32_t *out_count) MUST_USE;

/* What a reserve has left in a topic. */
enum script_first { SCRIPT_UNSEEN, SCRIPT_NONE, SCRIPT_FIRST };

enum { SCRIPT_CLOSE_JOBS_MAX = 4 };

/* Of the topic at `place` of the reserve's list. SCRIPT_FIRST: *out_rank is the rank of its first
 * ready job, and *out_close how many ready jobs are close to that one, including it, up to
 * SCRIPT_CLOSE_JOBS_MAX; 0: not counted, because several topics were requested. */
enum script_first script_first(const struct script_space *space, uint32_t partition,
                               const struct script_answer *answer, uint32_t place,
                               struct script_rank *out_rank, uint32_t *out_close);

/*
 * Lists the reserved jobs of an answer whose bodies are damaged: bury each (CMD_BURY with its seq
 * and lease), so that an operator sees it. Returns how many there are, up to `max`.
 */
uint32_t script_damaged(const struct script_space *space, const struct script_parts *parts,
                        struct job_view *out_jobs, uint32_t max);

#endif
