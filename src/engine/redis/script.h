/*
 * The scripts of the Redis engine, and the contract between them and the engine in C: which script
 * executes a command, in which partition, with which arguments, and how its answer is decoded.
 * Pure: only encodes and decodes. Connections, time-outs and parked consumers are the engine's.
 * docs/redis-layout.md describes the keys; docs/decisions/0010 gives the reasons.
 *
 * The queue consists of partitions. Each has four keys with one hash tag, `{PREFIX:p}:h` (a hash:
 * ids, counts, answers), `:d` (delayed jobs by due time), `:l` (leases: reserved jobs by the end of
 * their ttr) and `:o` (in order: ready and buried jobs, names of topics), and the buckets `:j0` to
 * `:j255`, hashes that hold the jobs. Every call names the four, and no key is ever empty, so a
 * cluster that is moving the slot answers TRYAGAIN, never with a part of the data. A bucket that
 * has moved already causes an error before the script has written anything.
 *
 * Invariants
 *
 * R1 A transition is one call of one script. A job is in exactly one of delayed, reserved, ready
 * and buried. A due job that was not promoted yet is delayed, but is shown as ready.
 *
 * R2 A job is in partition `seq % partitions`. A client's id is hashed to a partition, and the
 * job's number is made there, so id and number name the same partition.
 *
 * R3 Numbers and leases are the time of their making in microseconds, or somewhat more, and only
 * grow: none is given twice even if Redis lost its last minutes (open.lua), and numbers order jobs.
 *
 * R4 The answer to a change is kept in a ring of SCRIPT_RING places per daemon and partition. A
 * request that is sent again (script_mark_again) gets that answer, and changes nothing.
 *
 * R5 Times in Redis are microseconds on the partition's clock (queue_clock.h), from 0 to 2^53 - 1
 * (the year 2255), which a score represents exactly. Others are clamped; 2^53 - 1 stands for
 * INT64_MAX.
 */
#ifndef LATERD_ENGINE_REDIS_SCRIPT_H
#define LATERD_ENGINE_REDIS_SCRIPT_H

#include "base/arena.h"
#include "core/cmd.h"

#define SCRIPT_FOREVER INT64_C(9007199254740991) /* 2^53 - 1: stands for INT64_MAX */

enum {
    SCRIPT_PARTITIONS_MAX = 1024,
    SCRIPT_TOPICS_MAX = 2000, /* of a reserve; Lua's unpack() has a limit */
    SCRIPT_PREFIX_MAX = 64,   /* bytes */
    SCRIPT_RING = 4096,       /* unanswered requests to one partition at most; others wait */
    SCRIPT_RING_FIRST = 256,  /* the limit that a daemon begins with: see script_encode_open */
    SCRIPT_DIGEST = 40,       /* hex digits of SHA-1 */
    SCRIPT_PARTS_MAX = 4096,  /* of any answer */
    SCRIPT_NAME = 8,          /* bytes of a daemon's name */
    SCRIPT_MEMBERS_MAX = 1024,
    SCRIPT_FRESH_US = 1400 * 1000, /* a daemon is silent without a heartbeat for so long */
    SCRIPT_CHANNEL_MAX = SCRIPT_PREFIX_MAX + 48,
};

enum script_kind {
    SCRIPT_OPEN,
    SCRIPT_REBUILD,
    SCRIPT_HEARTBEAT,
    SCRIPT_REAP_DEAD,
    SCRIPT_PROMOTE,
    SCRIPT_PUSH,
    SCRIPT_RESERVE,
    SCRIPT_END,    /* FINISH, DELETE */
    SCRIPT_CHANGE, /* RESERVE_JOB, RELEASE, TOUCH, BURY, KICK, RUN, RESCHEDULE */
    SCRIPT_GET,
    SCRIPT_LIST,      /* LIST, PEEK */
    SCRIPT_SWEEP,     /* KICK_TOPIC, CLEAR_TOPIC */
    SCRIPT_TOPIC,     /* PAUSE, RESUME, REMOVE_TOPIC, TOPIC, TOPICS */
    SCRIPT_COUNT_DUE, /* DUE */
    SCRIPT_SET_CLOCK,
    SCRIPT_SETTINGS, /* CONFIGURE_TOPIC; reads changes of other daemons */
    SCRIPT_JOURNAL,  /* the lease of the journal's writer; reads and deletes entries */
    SCRIPT_RESTORE,  /* for jobs that are pushed again from the journal's rows */
    SCRIPT_TURN,     /* ends, pushes and reserves in one call: see script_join() */
    SCRIPT_RESYNC,   /* makes journal entries with the present state of jobs */
    SCRIPT_COUNT
};

/*
 * The queue and this daemon. Initialised once. `ahead_us`, `behind_us`, `at_once_us` and `newest`
 * have an element for each partition.
 *
 * `ahead_us`: how far the clock of the partition's server is ahead of ours; 0 if that is unknown or
 * too little to matter. It is added to times in requests, and subtracted from times in answers.
 *
 * `behind_us`: the server's clock may show this much less than `ahead_us` implies. Jobs that are
 * due at once get a due time that much earlier, so that they need not wait. `at_once_us` is the
 * last due time given in this way, on the server's clock; none is before it, so that jobs keep the
 * order in which they were pushed.
 */
struct script_space {
    char prefix[SCRIPT_PREFIX_MAX + 1];
    uint32_t partitions;
    unsigned db;              /* Redis' database number; 0 in a cluster */
    char daemon[SCRIPT_NAME]; /* random, of this process */
    uint64_t jobs_max;        /* jobs in a partition above which pushes are refused; 0 = no limit */
    uint32_t topics_max;      /* the same for topics */
    uint64_t journal_bytes;   /* limit of journal entries in bytes; 0: no journal here */
    uint64_t journal_job_bytes; /* of the largest job's entry: see script_journal_share() */
    int64_t journal_lag_us;     /* limit of the age of the oldest entry; 0: none */
    bool journal_detaches;      /* above a limit the journal is dropped; else pushes are refused */
    bool one_server;            /* it has all partitions: none is created beside others of another
                                   number */
    bool guessed;      /* `partitions` was not given: the first one tells whether it is right */
    bool leaves_older; /* do not convert an older layout, because this daemon is a standby */
    int64_t *ahead_us, *behind_us, *at_once_us;
    uint64_t *newest; /* the highest number or lease in an answer */
    struct {
        struct buf text;
        char digest[SCRIPT_DIGEST];
    } scripts[SCRIPT_COUNT];
};

/* ERR_INVALID: the prefix is empty, too long or holds '{' or '}', or partitions are out of range.
 */
enum err script_space_init(struct script_space *space, struct bytes prefix, uint32_t partitions,
                           const char daemon[8]) MUST_USE;
void script_space_fini(struct script_space *space);

/*
 * How many bytes of entries for the journal may wait in a partition. A push is taken while fewer
 * wait, and at twice as many the journal is given up: so a share is never less than one job, or a
 * single push would end the journal.
 */
static inline uint64_t script_journal_share(const struct script_space *space)
{
    uint64_t share = space->journal_bytes / space->partitions;
    return share < space->journal_job_bytes && space->journal_bytes ? space->journal_job_bytes
                                                                    : share;
}

/* The text for SCRIPT LOAD: load all scripts after connecting, and again after NOSCRIPT. */
struct bytes script_text(const struct script_space *space, enum script_kind kind);
const char *script_digest(const struct script_space *space, enum script_kind kind);

/* Writes `{PREFIX:p}`, whose CRC16 gives the slot in a cluster, to room[SCRIPT_PREFIX_MAX + 16]. */
struct bytes script_tag(const struct script_space *space, uint32_t partition, char *room);

/* ---- routing ---- */

enum script_route {
    SCRIPT_ONE,   /* to *out_partition */
    SCRIPT_ANY,   /* to any partition: a push without a client's id */
    SCRIPT_READY, /* a reserve: to partitions that may have ready jobs: see script_encode_reserve */
    SCRIPT_ALL,   /* a command on topics, to all: see fanout */
    SCRIPT_REFUSED, /* refuse with *out_err: ERR_INVALID, as the core does */
};

enum script_route script_route(const struct script_space *space, const struct cmd *cmd,
                               uint32_t *out_partition, enum err *out_err);

/*
 * Identifies a request. `number` counts the requests of this daemon to this partition, 1, 2, 3 …,
 * over all connections. `place` is one in the ring that no unanswered request has. After a
 * connection broke, mark the same bytes by script_mark_again() and send them again: if the script
 * has run, it returns its first answer. (Requests that change nothing may be repeated unmarked.)
 */
struct script_call {
    uint32_t partition;
    uint32_t place; /* below SCRIPT_RING; SCRIPT_RING: script_set_place() comes before sending */
    uint64_t number;
    int64_t now_us; /* our clock; delays count from it */
    /* Bounds of Redis' clock when the script runs, and the least possible queue time: see
       queue_clock.h. queue_us 0: the queue's time is Redis' clock. */
    int64_t least_us, most_us, queue_us;
    int64_t late_us; /* script_encode_open: how long after it was sent it may run */
};

/*
 * Appends the complete request (EVALSHA …) in RESP. script_route() of `cmd` is ONE or ANY.
 */
void script_encode(struct buf *out, const struct script_space *space,
                   const struct script_call *call, const struct cmd *cmd);

/* Where a job stands among the ready ones of its topic: the lower, the sooner it is taken. */
struct script_rank {
    uint32_t priority;
    int64_t us; /* the due time, or that of its arrival; our clock */
};

/* What a reserve does at each of its topics, unless `max` jobs came or (max 0) it has some. */
enum script_mark {
    SCRIPT_NO_MARK,
    SCRIPT_MARK_HINT, /* no consumer waits: all daemons with this mark get a NOTICE_HINT */
    SCRIPT_MARK_WAIT, /* a consumer waits: the first daemon with this mark gets the notice */
    SCRIPT_PASS_ON,   /* (max 0) we got a notice and need no job: notifies the next such daemon */
};

/* How one call of a reserve requests jobs from its partition. */
struct script_share {
    uint32_t max; /* jobs; 0: a probe, which reserves none and reports what is ready */
    enum script_mark mark;
    /*
     * Not NULL: the request is one of several in one call, for the same consumers and one topic,
     * which differ in partition and `max` only. Each may take more than its `max` jobs, up to this
     * rank, as long as all together take at most the sum of their `max`. Later requests take fewer
     * then, or none: SCRIPT_UNSEEN.
     */
    const struct script_rank *shares_until;
};

/*
 * A reserve of up to share->max jobs. If that is above 1, and less than reserve->max, the answer's
 * seq is how many more jobs are ready; else 0. After an answer the partition must be called again
 * only when (a) a notice comes for one of the topics, (b) the answer was not `marked`, (c) its
 * next_us has come (a pause ends), (d) the subscription broke, so that notices may be lost, (e) a
 * while has passed and the mark is `shared`: the daemon that is notified instead of us may be dead.
 * Subscribe first, then leave marks. A mark of a daemon that has ended costs one publication.
 */
void script_encode_reserve(struct buf *out, const struct script_space *space,
                           const struct script_call *call, const struct cmd_reserve *reserve,
                           const struct script_share *share);

/*
 * Makes up to `max` due jobs ready, and ends a few leases whose ttr is over. Any daemon may call it
 * at any time; the partition's owner should, after a notice. The answer: now_us; count (jobs and
 * leases); more (call again at once); next_us (INT64_MAX = nothing is
 * due: a notice comes when that changes); lost, missed: a key is gone. It checks that a bucket of
 * jobs exists, another one in each call, or (`all_buckets`) that all do.
 */
void script_encode_promote(struct buf *out, const struct script_space *space,
                           const struct script_call *call, uint32_t max, bool all_buckets);

/*
 * The first call to each partition over a new connection: creates the partition if it does not
 * exist, and registers this daemon and the number of ring places that it uses, the first `places`.
 * Call it again before using more. The clock of a new partition counts as set `set_count` times.
 * The answer:
 *   state     not 0: this server was started after the last opening, or is another server
 *   err       ERR_INVALID: made with another number of partitions (.count) or another layout
 *             (.seq), or (second part) this key has a wrong type; ERR_WRONG_STATE: it has the older
 *             layout .seq, and script_space::leaves_older
 *   now_us
 *   replaced  the partition was created
 *   count     1: this daemon was not registered, so its marks are gone
 *   lost, look  a sorted set is gone; jobs are in an older layout: see script_encode_rebuild
 *   missed    buckets of jobs were lost, and were created again
 */
void script_encode_open(struct buf *out, const struct script_space *space,
                        const struct script_call *call, uint32_t places, uint64_t set_count);

/*
 * Adds `by_us` to the partition's clock and sets its counter to `new_count`, if the counter is
 * `set_count`. The answer has the clock: see script_read_clock().
 */
void script_encode_set_clock(struct buf *out, const struct script_space *space,
                             const struct script_call *call, int64_t by_us, uint64_t set_count,
                             uint64_t new_count);

/*
 * Reads settings of topics, which are in partition 0, one page per call. `from` empty: what has
 * changed after change number `known`. Else: all; `from` is "0" at first and then
 * script_settings::from of the last page. Decode the answer by script_read_settings().
 */
void script_encode_settings(struct buf *out, const struct script_space *space,
                            const struct script_call *call, uint64_t known, struct bytes from);
/* The last step of REMOVE_TOPIC: deletes its settings, and the topic if it has no job here. */
void script_encode_unconfigure(struct buf *out, const struct script_space *space,
                               const struct script_call *call, struct bytes topic);

/*
 * Moves jobs of an older layout to their buckets and, but for REBUILD_CONVERT, restores members of
 * sorted sets from the jobs. A bounded part per call: `from` is "0" at first and then the answer's
 * second part, while the answer's `more` is set. `lost` in the last answer: a set is lost, which
 * only REBUILD_LOST makes whole.
 */
enum script_rebuild {
    REBUILD_CONVERT = 'c',
    REBUILD_ALL = 'r',
    REBUILD_LOST = 'l', /* one daemon does it, if a set is lost; Redis knows where to continue.
                           Second part "0": another one does it */
};

void script_encode_rebuild(struct buf *out, const struct script_space *space,
                           const struct script_call *call, struct bytes from,
                           enum script_rebuild what);

/* The state of a daemon. */
enum script_how {
    SCRIPT_SERVES = 'y',
    SCRIPT_LIVES = 'n', /* but does not reach all partitions now */
    SCRIPT_LEAVES = 'x',
    SCRIPT_SILENT = 's', /* no heartbeat for SCRIPT_FRESH_US; other daemons found that */
};

struct script_heartbeat {
    enum script_how how;
    bool look;   /* the answer has all daemons, and silent ones are published to all */
    bool memory; /* the answer's third part is the policy by which Redis may evict keys, empty if it
                    may not */
};

/*
 * The heartbeat, sent about once a second to partition 0 only: see members.h. It is published to
 * the next daemon, or to all if the state has changed. Decode the answer by script_read_members().
 */
void script_encode_heartbeat(struct buf *out, const struct script_space *space,
                             const struct script_call *call,
                             const struct script_heartbeat *heartbeat);

struct script_member {
    char name[SCRIPT_NAME];
    enum script_how how;
    int64_t age_us; /* of its last heartbeat, by Redis' clock; for a notice: 0 */
};

/*
 * Acquires or renews the lease, in partition 0, of the one daemon that reads the journal's entries
 * (scripts/entry.lua). The answer: state (not 0: we have the lease), second part: the queue's
 * identity, third part: the label of the daemon that has the lease.
 */
struct script_lease {
    int64_t span_us;       /* duration; 0: give the lease back */
    struct bytes identity; /* becomes the queue's, if it has none */
    struct bytes label;    /* of this daemon */
    bool refuses;          /* pushes are refused because the journal is too far behind: heartbeats
                              tell that to all daemons until the lease ends */
};
void script_encode_journal_lease(struct buf *out, const struct script_space *space,
                                 const struct script_call *call, const struct script_lease *lease);
struct script_entries {
    uint64_t from;     /* the last one that was read; 0: none */
    uint64_t below;    /* those before this one are deleted */
    struct bytes head; /* the first bytes of `from`; empty: not known */
    uint32_t max;      /* 0: none, only their count */
};

/*
 * Reads entries of a partition from `from` on, that one included, because another may have taken
 * its place. If it still begins with `head`, it comes as an empty part. The answer: state (0 there
 * is no journal here, 1 there is, 2 it was dropped, and its entries are being deleted), more; then
 * the field (journal_entry.h) and the entries, up to one entry above 256 KB.
 */
void script_encode_journal_read(struct buf *out, const struct script_space *space,
                                const struct script_call *call,
                                const struct script_entries *entries);

enum script_restore_step {
    SCRIPT_RESTORE_BEGIN = 'b',
    SCRIPT_RESTORE_GO_ON = 'g',
    SCRIPT_RESTORE_END = 'e',
    SCRIPT_RESTORE_LOOK = 'l', /* looks up a job whose number this queue gave */
};

/*
 * A restore of jobs from the journal (scripts/restore.lua): between BEGIN and END the scripts note
 * up to `most` jobs that end, and skip restoring pushes of these (cmd_push::restore). The answer's
 * state:
 *   BEGIN  1 it has begun, after entry seq; 0 there is no journal here
 *   GO_ON  1 it is still running; 0 it has ended; 2 more than `most` jobs have ended
 *   LOOK   1 the job lives or has ended since BEGIN (`restore` 0: it lives). The restore has ended:
 *          ERR_STALE_LEASE
 * BEGIN and END: `more`: call again.
 */
struct script_restore {
    enum script_restore_step step;
    uint64_t restore; /* its identifier, not 0; END: 0 is any, LOOK: 0 is none */
    int64_t span_us;  /* BEGIN, GO_ON: it ends unless it is renewed within this time */
    uint64_t most;
    uint64_t seq; /* LOOK */
};
void script_encode_restore(struct buf *out, const struct script_space *space,
                           const struct script_call *call, const struct script_restore *restore);

/*
 * For a resync of the journal (scripts/resync.lua): makes entries with the present state of jobs,
 * from a position on; or, for `ids`, entries that no such jobs exist. The answer: state (0: there
 * is no journal here), count (entries made), script_resync_looked(), more, seq
 * (the last entry); second part: the position to continue at.
 */
struct script_resync {
    struct bytes from;       /* a position; "0": the start */
    uint32_t fields;         /* the budget of the call: see resync.lua */
    uint64_t waiting_most;   /* no more entries while this many bytes of entries wait */
    const struct bytes *ids; /* NULL: jobs */
    uint32_t id_count;
};
void script_encode_resync(struct buf *out, const struct script_space *space,
                          const struct script_call *call, const struct script_resync *resync);

struct script_reap {
    struct bytes living; /* names, without a separator; empty: removes this daemon, which leaves */
    int64_t young_us;    /* daemons registered less than this long ago are kept */
    uint64_t from;       /* 0 at first, then the answer's seq */
    uint32_t max;        /* of jobs that are given back by this call */
};

/*
 * Removes daemons that are registered in the partition and are not among the living: jobs that
 * their connections held become ready again, answers kept for them are deleted. The answer: count
 * (daemons removed), next_us (when to call again because of a daemon that was kept; INT64_MAX: none
 * was), more (call again at once, from seq).
 */
void script_encode_reap_dead(struct buf *out, const struct script_space *space,
                             const struct script_call *call, const struct script_reap *reap);

/* Requests of script_encode() and script_encode_reserve() that are sent as one call. */
struct script_joined {
    const struct bytes
        *requests; /* finishes and deletes, then pushes, then reserves of one topic */
    uint32_t ends, pushes, reserves; /* more than one in all, and at most 127 */
    /* Of each request. If they are several, all must be on one server that is not in a cluster;
       requests of a kind for one partition should be adjacent, which costs less. */
    const uint32_t *partitions;
};

/*
 * Appends one request that executes these in this order. Its answer is an array with the answer of
 * each, or an error in its place.
 */
void script_join(struct buf *out, const struct script_space *space,
                 const struct script_joined *join);

/* The topic in a request for a push that script_encode() made; borrowed. */
struct bytes script_pushed_topic(struct bytes request);
bool script_pushes_restored(struct bytes request); /* cmd_push::restore is not 0 */
bool script_asks_briefly(struct bytes request);    /* of a finish or delete: cmd_job::brief */

/* These change a request that the functions above made. */

/* Marks it as one that may have been executed already. */
void script_mark_again(char *request, size_t len);

/* Replaces the bounds of the clock. */
void script_set_bounds(char *request, size_t len, const struct script_call *call);

/* Sets or clears the mark that the partition's slot is being moved to the node (ASK): then the
 * script creates no missing keys, because they may still arrive. */
void script_mark_importing(char *request, size_t len, bool importing);

/* Sets its place in the ring. */
void script_set_place(char *request, size_t len, uint32_t place);

#endif
