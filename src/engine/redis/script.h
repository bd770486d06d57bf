/*
 * The scripts of the Redis engine, and the contract between them and the engine in C: which
 * script a command becomes, in which partition, with which arguments, and what its answer says.
 * Pure: bytes in, bytes out; connections, time-outs and parked consumers are the engine's.
 * docs/redis-layout.md shows the keys byte by byte; docs/decisions/0010 says why they are so.
 *
 * The queue is cut into partitions. Each is four keys on one hash tag, `{PREFIX:p}:h` (a hash:
 * ids, counts, answers), `:d` (delayed jobs by due time), `:l` (leases: reserved jobs by the end of
 * their ttr) and `:o` (in order: ready and buried jobs, names of topics), and the buckets `:j0` to
 * `:j255`, hashes that hold the jobs. The four are named in every call and none of all is ever
 * empty, so a cluster that moves a slot says TRYAGAIN, never a half truth; a bucket that has moved
 * already is an error before the script has written anything.
 *
 * Invariants
 *
 * R1 A transition is one call of one script. A job is in exactly one of delayed, reserved, ready
 * and buried. A due job that nobody has promoted yet is delayed, but is shown as ready.
 *
 * R2 A job lives in partition `seq % partitions`. That of a client's id is a hash of the id, and
 * the job's number is made there, so both names lead to one place.
 *
 * R3 Numbers and leases are about the microsecond of their making, or somewhat more, and only grow:
 * none is given twice even if Redis forgot its last minutes (open.lua), and numbers order jobs.
 *
 * R4 A change leaves its answer in a ring of SCRIPT_RING places per daemon and partition. A request
 * sent again (script_mark_again) is answered from there and does nothing.
 *
 * R5 Times in Redis are microseconds on Redis' own clock, from 0 to 2^53 - 1 (the year 2255), which
 * a score holds exactly. Earlier and later ones are clamped; the last stands for INT64_MAX.
 */
#ifndef LATERD_ENGINE_REDIS_SCRIPT_H
#define LATERD_ENGINE_REDIS_SCRIPT_H

#include "base/arena.h"
#include "core/cmd.h"

#define SCRIPT_FOREVER INT64_C(9007199254740991) /* 2^53 - 1: stands for INT64_MAX */

enum {
    SCRIPT_PARTITIONS_MAX = 1024,
    SCRIPT_TOPICS_MAX = 2000, /* of a reserve: Lua cannot pass on many more */
    SCRIPT_PREFIX_MAX = 64,   /* bytes */
    SCRIPT_RING = 4096,       /* requests to one partition that may be unanswered: others wait */
    SCRIPT_RING_FIRST = 256,  /* of these, how many a daemon begins with: see script_ask_open */
    SCRIPT_DIGEST = 40,       /* hex digits of SHA-1 */
    SCRIPT_PARTS_MAX = 4096,  /* of any answer */
    SCRIPT_NAME = 8,          /* bytes of a daemon's name */
    SCRIPT_MEMBERS_MAX = 1024,
    SCRIPT_FRESH_US = 1400 * 1000, /* a heartbeat a second may come that much late */
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
    SCRIPT_TOPIC,     /* PAUSE, RESUME, TOPIC, TOPICS */
    SCRIPT_COUNT_DUE, /* DUE */
    SCRIPT_SET_CLOCK,
    SCRIPT_SETTINGS, /* CONFIGURE_TOPIC, and what others changed */
    SCRIPT_JOURNAL,  /* the journal's entries are taken */
    SCRIPT_RESTORE,  /* jobs come back from the journal */
    SCRIPT_TURN,     /* ends, pushes and reserves in one call: see script_join() */
    SCRIPT_RESYNC,   /* jobs are entered for it as they are */
    SCRIPT_COUNT
};

/*
 * Which queue, and who asks. Made once. `ahead_us`, one for each partition, is how far the clock of
 * its server is ahead of ours, if the engine knows and minds (0: the clocks are one): it is added
 * to times that go in, and taken off times that come out. By `behind_us`, which is less than what
 * the engine minds, it has shown less than that: what is due at once is due so much sooner there,
 * or it would have to wait; `at_once_us` is the last of these due times, there: none goes back
 * behind it, so that jobs keep the order in which they were pushed.
 */
struct script_space {
    char prefix[SCRIPT_PREFIX_MAX + 1];
    uint32_t partitions;
    unsigned db;              /* of Redis; a cluster has 0 only */
    char daemon[SCRIPT_NAME]; /* random: this life of this process */
    uint64_t jobs_max;        /* pushes into a partition with so many are refused; 0 = no limit */
    uint32_t topics_max;      /* the same of topics */
    uint64_t journal_bytes; /* changes leave entries, so many bytes at most; 0: nobody asks here */
    int64_t journal_lag_us; /* … of which the oldest is no older; 0: as old as it likes */
    bool journal_detaches;  /* beyond these the journal is given up; else pushes are refused */
    bool leaves_older;      /* what an older layout left stays as it is: we wait to lead */
    int64_t *ahead_us, *behind_us, *at_once_us;
    uint64_t *newest; /* the highest number or lease seen in an answer; one for each partition */
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

/* For SCRIPT LOAD: send all of them when a connection is made, and again after NOSCRIPT. */
struct bytes script_text(const struct script_space *space, enum script_kind kind);
const char *script_digest(const struct script_space *space, enum script_kind kind);

/* `{PREFIX:p}`, by whose CRC16 a cluster's slot is found, into room[SCRIPT_PREFIX_MAX + 16]. */
struct bytes script_tag(const struct script_space *space, uint32_t partition, char *room);

/* ---- where a command goes ---- */

enum script_route {
    SCRIPT_ONE,     /* to *out_partition */
    SCRIPT_ANY,     /* to whichever the engine likes: a push whose number the server makes */
    SCRIPT_READY,   /* a reserve: to partitions that may have ready jobs: see script_ask_reserve */
    SCRIPT_ALL,     /* a command on topics: see fanout */
    SCRIPT_REFUSED, /* *out_err: ERR_INVALID, as the core answers it */
};

enum script_route script_route(const struct script_space *space, const struct cmd *cmd,
                               uint32_t *out_partition, enum err *out_err);

/*
 * One request. `number` counts the requests of this daemon to this partition, 1, 2, 3 …, over
 * all connections. `place` is one in the ring that no unanswered request has. After a connection
 * broke, send the same bytes again once script_mark_again() has marked them: if the script ran the
 * first time, its first answer comes again. (Requests that change nothing may be repeated as they
 * are; marking them does no harm.)
 */
struct script_call {
    uint32_t partition;
    uint32_t place; /* below SCRIPT_RING; if that itself: to be set before it is sent */
    uint64_t number;
    int64_t now_us; /* our clock: what a delay counts from */
    /* What Redis' clock can show when the script runs, and the queue's time at the least: see
       queue_clock.h. queue_us 0: whatever Redis' clock shows is the queue's time. */
    int64_t least_us, most_us, queue_us;
};

/*
 * Appends the whole request, EVALSHA and all, in RESP. `cmd` is one of script_route()'s ONE or ANY.
 */
void script_ask(struct buf *out, const struct script_space *space, const struct script_call *call,
                const struct cmd *cmd);

/* Where a job stands among the ready ones of its topic: the lower, the sooner it is taken. */
struct script_rank {
    uint32_t priority;
    int64_t us; /* the due time, or that of its arrival; our clock */
};

/* What a reserve does at each of its topics, unless `max` jobs came or (max 0) it has some. */
enum script_mark {
    SCRIPT_NO_MARK,
    SCRIPT_MARK_HINT, /* nobody waits: all who have said so are told of the next job, as a hint */
    SCRIPT_MARK_WAIT, /* somebody waits: of those who said so the first is told of the next job */
    SCRIPT_PASS_ON,   /* (max 0) we were told, and need none: tells the next one who waits */
};

/* What of a reserve one call asks its partition for. */
struct script_share {
    uint32_t max; /* jobs; 0: it only looks what there is */
    enum script_mark mark;
    /*
     * NULL, or it is one of several for the same consumers, of one topic, that go in one call and
     * differ in nothing but the partition and `max`. Each may then bring more than its `max`, of
     * jobs up to this rank, as long as all together bring no more than they were asked for in all;
     * a later one brings fewer for that, or says SCRIPT_UNSEEN, and was not done.
     */
    const struct script_rank *shares_until;
};

/*
 * A reserve of up to share->max jobs. Where more are wanted in all (reserve->max) and that is above
 * 1, the answer's seq says how many more than it brings are ready; else it is 0. A partition is
 * asked again only after (a) a notice for one of the topics, (b) an answer that was not `marked`,
 * (c) the answer's next_us (a pause ends), (d) the subscription broke: then it is unknown again,
 * (e) after a while, if the mark is `shared`: who is told instead of us may be dead. Subscribe
 * first, then leave marks. A mark whose daemon has gone costs one publication.
 */
void script_ask_reserve(struct buf *out, const struct script_space *space,
                        const struct script_call *call, const struct cmd_reserve *reserve,
                        const struct script_share *share);

/*
 * Makes what is due ready, ends leases whose ttr ran out or whose daemon is dead; up to `max`
 * steps. Any daemon may, at any time; the partition's owner should, when it is told to. The
 * answer: now_us; count (steps done); more (call again at once); next_us (INT64_MAX = nothing is
 * due: a notice comes when that changes); lost, missed: a key is gone. It looks whether one of the
 * buckets of jobs is there, another one each time, or whether all are.
 */
void script_ask_promote(struct buf *out, const struct script_space *space,
                        const struct script_call *call, uint32_t max, bool all_buckets);

/*
 * The first call to each partition over a new connection: makes the partition, if need be, and
 * leaves word there that answers and connections of this daemon are in it, the answers in the first
 * `places` of its ring: before it takes others it must say so by this call. The clock of one that
 * is made counts as set `set_count` times. The answer: state (not 0: this server has started since
 * the partition was opened last, or is another); err
 * (ERR_INVALID: made with another number of partitions, in .count, or another layout, in .seq;
 * ERR_WRONG_STATE: of the older layout .seq, where script_space::leaves_older);
 * now_us; replaced (the partition was made); count (1: it did not know this daemon, so marks that
 * it left are gone); lost (what was in a sorted set is gone) and look (jobs are where an older
 * layout had them): see script_ask_rebuild; missed: buckets of jobs were lost, and are made again.
 * ERR_INVALID with a second part: that key is not of the type that it should be.
 */
void script_ask_open(struct buf *out, const struct script_space *space,
                     const struct script_call *call, uint32_t places, uint64_t set_count);

/*
 * Shows the partition's clock, as script_read_clock() reads it, and sets it by so much before, if
 * it was set `set_count` times: from then on `new_count` times.
 */
void script_ask_set_clock(struct buf *out, const struct script_space *space,
                          const struct script_call *call, int64_t by_us, uint64_t set_count,
                          uint64_t new_count);

/*
 * Settings of topics are in partition 0. What has changed after the `known`th change, a page a
 * call, or, `from` not empty, all that there are, from "0" on and then from where the page before
 * ended. script_read_settings() reads the answer.
 */
void script_ask_settings(struct buf *out, const struct script_space *space,
                         const struct script_call *call, uint64_t known, struct bytes from);
/* The last step of REMOVE_TOPIC: its settings go, and the topic, if it holds no job here. */
void script_ask_unconfigure(struct buf *out, const struct script_space *space,
                            const struct script_call *call, struct bytes topic);

/*
 * Puts the jobs that an older layout left in the hash where they belong and, if `all`, what a lost
 * sorted set held back out of the jobs: a slice a call, from `from`, which is "0" at first and then
 * the answer's second part, while there is more.
 */
void script_ask_rebuild(struct buf *out, const struct script_space *space,
                        const struct script_call *call, struct bytes from, bool all);

/* How a daemon is. */
enum script_how {
    SCRIPT_SERVES = 'y',
    SCRIPT_LIVES = 'n', /* but does not reach all partitions now */
    SCRIPT_LEAVES = 'x',
    SCRIPT_SILENT = 's', /* it has said nothing for SCRIPT_FRESH_US: as others found */
};

/*
 * "I live", said about once a second, to partition 0 for all of them: see members.h. The next
 * daemon hears it, or all, if it is news, as a notice. script_read_members() reads the answer.
 * `look`: all daemons are asked for, and who is silent is told to all. `memory`: its third part is
 * asked for: the policy by which Redis may evict keys, empty if it may not.
 */
void script_ask_heartbeat(struct buf *out, const struct script_space *space,
                          const struct script_call *call, enum script_how how, bool look,
                          bool memory);

struct script_member {
    char name[SCRIPT_NAME];
    enum script_how how;
    int64_t age_us; /* since it said so, by Redis' clock; for a notice: 0 */
};

/*
 * The journal's entries, which changes leave (scripts/entry.lua), are taken by the one daemon that
 * has the lease: partition 0 is asked for it. The answer: state (not 0: it is ours), in its second
 * part the queue's identity, in its third the label of who has it.
 */
struct script_lease {
    int64_t span_us;       /* for so long; 0: it is given back */
    struct bytes identity; /* the queue's, if it has none */
    struct bytes label;    /* of who asks */
    bool refuses;          /* it has seen that pushes are refused, as the journal is too far behind:
                              heartbeats          tell all daemons until the lease ends */
};
void script_ask_journal_lease(struct buf *out, const struct script_space *space,
                              const struct script_call *call, const struct script_lease *lease);
struct script_entries {
    uint64_t from;     /* the last one that was read, 0: none */
    uint64_t below;    /* all before this one go */
    struct bytes head; /* how `from` begins; empty: not known */
    uint32_t max;      /* 0: none, only their count */
};

/*
 * Entries of a partition, the one at `from` first: others could have taken its place. If it begins
 * with `head`, it comes as an empty part. The answer: state (0 no journal here, 1 there is, 2 it
 * was given up, and its entries go), more; behind it the field (journal_entry.h), then the entries,
 * of 256 KB and one more at most.
 */
void script_ask_journal_read(struct buf *out, const struct script_space *space,
                             const struct script_call *call, const struct script_entries *entries);

enum script_restore_step {
    SCRIPT_RESTORE_BEGIN = 'b',
    SCRIPT_RESTORE_GO_ON = 'g',
    SCRIPT_RESTORE_END = 'e',
    SCRIPT_RESTORE_LOOK = 'l', /* at a job whose number this queue gave */
};

/*
 * Jobs come back from the journal (scripts/restore.lua): between BEGIN and END the scripts remember
 * which jobs end, up to `most`, and leave out pushes of these (cmd_push::restore). The answer's
 * state: BEGIN 1 it has begun, behind the entry seq, 0 there is no journal here; GO_ON 1 it does, 0
 * it has ended, 2 too many jobs have ended; LOOK 1 the job lives, or has ended since (`restore` 0:
 * lives). BEGIN and END: more: call again. ERR_STALE_LEASE: LOOK, it has ended.
 */
struct script_restore {
    enum script_restore_step step;
    uint64_t restore; /* which one, not 0; END: 0 is any, LOOK: 0 is none */
    int64_t span_us;  /* BEGIN, GO_ON: to be renewed until then */
    uint64_t most;
    uint64_t seq; /* LOOK */
};
void script_ask_restore(struct buf *out, const struct script_space *space,
                        const struct script_call *call, const struct script_restore *restore);

/*
 * For a resync of the journal (scripts/resync.lua): jobs are entered as they are, from a place on;
 * or that no jobs of these ids are there. The answer: state 0 there is no journal here; count: what
 * was entered; next_us: ids that were looked at, the first ones; more; seq: the last entry; in its
 * second part where to go on.
 */
struct script_resync {
    struct bytes from;       /* "0": the start */
    uint32_t fields;         /* about so many are looked at */
    uint64_t waiting_most;   /* bytes of entries that may wait */
    const struct bytes *ids; /* NULL: jobs */
    uint32_t id_count;
};
void script_ask_resync(struct buf *out, const struct script_space *space,
                       const struct script_call *call, const struct script_resync *resync);

struct script_reap {
    struct bytes living; /* names, one behind the other; empty: forgets the caller, which leaves */
    int64_t young_us;    /* one that left word less than that ago is left alone */
    uint64_t from;       /* goes on there; 0: at the start */
    uint32_t max;        /* jobs given back by this call */
};

/*
 * Forgets daemons that left word in the partition and are not among the living: what their
 * connections held is ready again, the answers kept for them go. The answer: count (daemons
 * forgotten), next_us (then, because of one that was left alone; INT64_MAX: none was), more: call
 * again, from its seq.
 */
void script_ask_reap_dead(struct buf *out, const struct script_space *space,
                          const struct script_call *call, const struct script_reap *reap);

/* Requests of script_ask() and script_ask_reserve() that go in one call. */
struct script_joined {
    const struct bytes
        *requests; /* finishes and deletes, then pushes, then reserves of one topic */
    uint32_t ends, pushes, reserves; /* at most 127 each, more than one in all */
    /* All are for the same one. Else those that are should stand together: they cost less then; and
       the partitions must be on one server, which is no cluster's. */
    bool one_partition;
};

/*
 * Appends one request out of these: the script does them in this order. Its answer is an array with
 * that of each, or with an error in its place.
 */
void script_join(struct buf *out, const struct script_space *space,
                 const struct script_joined *join);

/* Of a push, as made by script_ask(): borrowed. */
struct bytes script_pushed_topic(struct bytes request);
bool script_pushes_restored(struct bytes request); /* cmd_push::restore is not 0 */

/* Marks a request, as made by the functions above, as one that may have been done already. */
void script_mark_again(char *request, size_t len);

/* Puts other bounds of the clock into a request, as made by the functions above. */
void script_set_bounds(char *request, size_t len, const struct script_call *call);

/* Marks a request, or not any more, as one that goes to a node to which the partition's slot is on
 * its way (ASK): the script makes nothing there that may yet come. */
void script_mark_asked(char *request, size_t len, bool asked);

/* Gives a request, as made by the functions above, its place in the ring. */
void script_set_place(char *request, size_t len, uint32_t place);

/* ---- answers ---- */

/*
 * Every script answers with an array of strings, or with one that stands for itself: `parts`,
 * borrowed. An error instead is the engine's affair; one is ours: it begins with SCRIPT_CLOSED and
 * says that the partition is not there (Redis lost its data): open it, then send the request
 * again.
 */
#define SCRIPT_CLOSED "LATERDCLOSED"

/*
 * Another is somewhere in the text of the error: a bucket of jobs is not there. It is on its way to
 * this node, or lost: open the partition, which makes a lost one again, and send the request again.
 */
#define SCRIPT_MISSING "LATERDMISSING"

struct script_parts {
    uint32_t partition; /* that answered */
    const struct bytes *at;
    uint32_t count;
    struct bytes request; /* PUSH: what was answered, for its answer does not repeat the job */
};

struct script_answer {
    enum err err;
    enum job_state state; /* ERR_WRONG_STATE: the job's */
    bool kept, replaced;  /* PUSH */
    bool more;
    bool lost;   /* open, promote: a sorted set is not as it was made */
    bool look;   /* open: jobs are where an older layout had them */
    bool missed; /* open, promote: buckets of jobs were lost, and are made again */
    bool marked; /* reserve: marks were left at all topics that have none */
    bool shared; /* other daemons wait there, too: they may be told instead of us */
    uint32_t count;
    int64_t now_us;  /* our clock; 0 = the script did not look */
    int64_t next_us; /* our clock; INT64_MAX = never */
    uint64_t seq;
    struct bytes firsts; /* reserve: see script_first() */
    struct reply reply;  /* of script_read(): as the core would answer, its err included */
};

/* What the queue's clock said when it answered; 0: nothing. */
int64_t script_clock(const struct bytes *parts, uint32_t count);

/*
 * Reads an answer to script_ask…. ERR_CORRUPT: it is not what a script of ours says. Jobs (an array
 * from `arena`; their bytes borrow from the parts) go to out_answer->reply. Their bodies are
 * checked: one whose checksum does not match is left out, and reply.err is ERR_DAMAGED if none is
 * left; the engine should then bury it: see script_damaged().
 */
enum err script_read(const struct script_space *space, enum cmd_kind kind,
                     const struct script_parts *parts, struct arena *arena,
                     struct script_answer *out_answer) MUST_USE;

/* Reads the answer to open, promote or reap_dead. */
enum err script_read_answer(const struct script_space *space, const struct script_parts *parts,
                            struct script_answer *out_answer) MUST_USE;

/* A partition's clock. */
struct script_clock {
    int64_t queue_us, shift_us; /* what it shows: by so much more than Redis' own */
    uint64_t set_count;         /* how often it was set, */
    int64_t set_us;             /* and what it showed then, the last time */
};

/* A page of settings; of CONFIGURE_TOPIC and the end of REMOVE_TOPIC: `count` is 0. */
struct script_settings {
    enum err err; /* ERR_INVALID: what changed is not known any more: go through all */
    bool more;
    uint64_t changes;       /* how many there were, or up to which one the page goes; */
    uint64_t version;       /* the last one that was given */
    struct bytes from;      /* of all that there are: where to go on */
    const struct bytes *at; /* topic, and its version with its settings (empty: none): in turns */
    uint32_t count;         /* topics */
};

/* ERR_CORRUPT as script_read. `all`: the answer to a call with `from`. Bytes are borrowed. */
enum err script_read_settings(const struct script_parts *parts, bool all,
                              struct script_settings *out_page) MUST_USE;
/* Of the i-th topic of a page. */
struct bytes script_settings_of(const struct script_settings *page, uint32_t i,
                                uint64_t *out_version);
/* Of a heartbeat's answer: how many changes of settings there were; SCRIPT_FOREVER: not known. Of a
 * change's: the last version that was given. */
uint64_t script_settings_mark(const struct bytes *parts, uint32_t count);
/* Of a heartbeat's answer: pushes are refused in some partition, because the journal is too far
 * behind. */
bool script_journal_behind(const struct bytes *parts, uint32_t count);

/* Reads it from the answer to open or set_clock. False: that tells of none. */
bool script_read_clock(const struct bytes *parts, uint32_t count, struct script_clock *out_clock);

/* Reads the answer to a heartbeat: up to SCRIPT_MEMBERS_MAX daemons, the caller among them. */
enum err script_read_members(const struct script_parts *parts, struct script_member *out_members,
                             uint32_t *out_count) MUST_USE;

/* What was left in a topic when a reserve had been done. */
enum script_first { SCRIPT_UNSEEN, SCRIPT_NONE, SCRIPT_FIRST };

enum { SCRIPT_CLOSE_TOLD = 4 };

/* Of the topic in this place of the reserve's list. SCRIPT_FIRST: out_rank is that of the first job
 * that is left, and of those that are left *out_close (up to SCRIPT_CLOSE_TOLD; it is one of these)
 * are close to it; 0: they were not counted, since several topics were asked for. */
enum script_first script_first(const struct script_space *space, uint32_t partition,
                               const struct script_answer *answer, uint32_t place,
                               struct script_rank *out_rank, uint32_t *out_close);

/*
 * The reserved jobs of an answer whose bodies are damaged: bury each (CMD_BURY with its seq and
 * lease) so that an operator sees it. Returns how many, up to `max`.
 */
uint32_t script_damaged(const struct script_space *space, const struct script_parts *parts,
                        struct job_view *out_jobs, uint32_t max);

/* ---- commands on topics: one answer out of all partitions' ---- */

/*
 * The engine's loop:
 *     fanout_new(space, cmd)
 *     for each partition p: while fanout_wants(gather, p): fanout_ask(gather, p, …),
 *         send; on its answer fanout_take(gather, p, parts); then look at all p again
 *     when fanout_done(gather): fanout_reply(gather, …), answer, free
 * Long commands take several calls to a partition, each a bounded slice; kicking and clearing go
 * from one partition to the next, the others ask all at once. The first error ends it.
 */
struct fanout;

/* How many jobs of one topic in one state each partition had, when that was counted last. */
struct fanout_counts {
    uint64_t topic; /* its name's hash */
    enum job_state state;
    uint32_t *jobs; /* by partition; they may be others by now */
};

struct fanout *fanout_new(const struct script_space *space, const struct cmd *cmd);
void fanout_free(struct fanout *fanout);
/* Before the first call: KICK_TOPIC asks only where the counts say that there are jobs, if they are
 * of its topic, and enough. If they are no more, all are asked as without them. O(partitions) */
void fanout_direct(struct fanout *fanout, const struct fanout_counts *counts);
/* When it is done: what it has counted and left of them, if it has. O(partitions) */
void fanout_keep_counts(const struct fanout *fanout, struct fanout_counts *counts);
/* KICK_TOPIC: may jobs of the partition have been made ready? */
bool fanout_touched(const struct fanout *fanout, uint32_t partition);
/* Is a call to this partition to be sent now? False while one is under way. */
bool fanout_wants(const struct fanout *fanout, uint32_t partition);
void fanout_ask(struct fanout *fanout, struct buf *out, const struct script_call *call);
/* ERR_CORRUPT as script_read. Copies what it keeps. */
enum err fanout_take(struct fanout *fanout, uint32_t partition, const struct bytes *parts,
                     uint32_t count) MUST_USE;
bool fanout_done(const struct fanout *fanout); /* answered; nothing under way */
/* Of TOPICS with `stats` and `due_within`: see struct engine_stats. */
const uint64_t *fanout_due_within(const struct fanout *fanout);
/* The reply's bytes live until the gather is freed. Rates, lateness and waiters are the daemon's
 * own to add: Redis does not know them. */
void fanout_reply(struct fanout *fanout, struct reply *out_reply);

/* ---- notices ---- */

/* Each partition publishes on `{PREFIX:p}:notice`, for all daemons, and on that, `:` and a daemon's
 * name, for this one (`own`). In a database other than 0 `:DB` follows `notice`, because channels
 * know no databases. Into room[SCRIPT_CHANNEL_MAX]. */
struct bytes script_channel(const struct script_space *space, uint32_t partition, bool own,
                            char *room);

/* Whose channel is it? False: none of this queue's that we listen to. */
bool script_channel_is(const struct script_space *space, struct bytes channel,
                       uint32_t *out_partition, bool *out_own);

enum notice_kind {
    SCRIPT_READY_NOW = 'r', /* a job became ready in `topic`, where somebody had left a mark */
    SCRIPT_HINT = 'h',      /* the same, but another daemon is told to take it */
    SCRIPT_DUE = 'w',       /* something is due sooner than the owner knows: at `due_us` */
    SCRIPT_MADE = 'n',      /* the partition was made, `by_us`: what was there before is gone */
    SCRIPT_MEMBER = 'b',    /* a daemon says how it is: `member` */
};

struct script_notice {
    enum notice_kind kind;
    uint32_t partition; /* but for a member */
    struct bytes topic; /* borrowed */
    bool alone;         /* READY_NOW: no other daemon waited for it, so it need not be passed on */
    bool by_us;
    int64_t due_us;
    struct script_member member;
};

/* ERR_CORRUPT: not a notice of ours. */
enum err script_notice(const struct script_space *space, struct bytes message,
                       struct script_notice *out_notice) MUST_USE;

/* ---- is this Redis fit? ---- */

/*
 * Judges the texts of INFO and (only if script_is_cluster) of CLUSTER INFO; `cluster` is empty
 * otherwise. OK, or an error with a sentence for people in *out_reason (static). ERR_UNSUPPORTED:
 * too old, may evict keys, a cluster without all its slots. ERR_AGAIN: the cluster is not up yet,
 * or this server has no part in it. The number of partitions is checked when
 * they are opened (script_ask_open).
 */
enum err script_judge(struct bytes info, struct bytes cluster, const char **out_reason) MUST_USE;
/* The policy by which the server of this INFO may evict keys; empty: it may not. Within `info`. */
struct bytes script_evicting_policy(struct bytes info);
bool script_is_cluster(struct bytes info);
/* Of INFO: may this server be written to (role:master)? */
bool script_is_master(struct bytes info);

#endif
