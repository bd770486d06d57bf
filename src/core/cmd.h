/*
 * The commands of the queue and their replies: the whole interface between the protocols and the
 * engines. The protocol has already validated the form of everything (ranges, lengths, UTF-8); the
 * engine checks what depends on the state. Main thread only.
 *
 * Bytes in a command are borrowed until the engine's submit returns, but see cmd_push::memory.
 * Bytes in a reply are borrowed until the reply callback returns.
 */
#ifndef LATERD_CORE_CMD_H
#define LATERD_CORE_CMD_H

#include "base/err.h"
#include "core/job.h"
#include "core/lateness.h"

enum cmd_kind {
    CMD_PUSH,
    CMD_RESERVE,     /* takes ready jobs; waits for one if there is none */
    CMD_RESERVE_JOB, /* takes one job by name, even one that is delayed or buried */
    CMD_FINISH,      /* a reserved job is done and removed */
    CMD_RELEASE,     /* a reserved job becomes ready or delayed again */
    CMD_TOUCH,       /* the ttr of a reserved job starts again */
    CMD_BURY,        /* a reserved job becomes buried (dead letter) */
    CMD_KICK,        /* a buried or delayed job becomes ready */
    CMD_RUN,         /* a delayed job becomes ready now */
    CMD_RESCHEDULE,  /* a delayed job's due time, priority or body change */
    CMD_GET,
    CMD_DELETE,      /* from any state */
    CMD_PEEK,        /* the first job of a topic in `state`, with its body */
    CMD_KICK_TOPIC,  /* up to `max` jobs of a topic in `state` become ready */
    CMD_CLEAR_TOPIC, /* up to `max` jobs of a topic in `state` are deleted */
    CMD_PAUSE,
    CMD_RESUME,
    CMD_REMOVE_TOPIC,    /* ends its pause and removes its settings; if it holds nothing else, the
                            topic is removed */
    CMD_TOPICS,          /* one page of topics, by name */
    CMD_TOPIC,           /* one topic's counts */
    CMD_LIST,            /* one page of a topic's jobs in one state; delayed ones by due time,
                            or backwards */
    CMD_CONFIGURE_TOPIC, /* a topic's settings are replaced or removed */
    CMD_DUE,             /* counts the delayed jobs of all topics that are due by given times */
};
enum { CMD_KINDS = CMD_DUE + 1 };

enum { DUE_TIMES_MAX = 64 }; /* of a CMD_DUE */

/* What a command acts on, which determines the member of struct cmd that is set. */
enum cmd_subject {
    CMD_ON_NEW_JOB,    /* cmd_push */
    CMD_ON_READY_JOBS, /* cmd_reserve */
    CMD_ON_JOB,        /* cmd_job: one job by name */
    CMD_ON_TOPICS,     /* cmd_topic: one topic by name, or (TOPICS, DUE) all */
};

/* Properties of all commands of a kind, whatever their arguments. */
struct cmd_traits {
    const char *name; /* "push" … */
    enum cmd_subject subject;
    bool changes;      /* its effect must survive a crash. RESERVE's need not: decision 3 */
    bool takes_jobs;   /* reserves jobs; if the answer cannot be delivered, they are released */
    bool shows_bodies; /* its reply has jobs with their bodies */
    bool takes_lease;  /* cmd_job::lease, if given, must be that of the present reservation */
    bool waits;        /* is parked until a job is there or its wait ends */
    uint8_t states;    /* CMD_ON_JOB: the allowed states, as bits (1 << enum job_state) */
};

extern const struct cmd_traits cmd_table[CMD_KINDS];

static inline const struct cmd_traits *cmd_traits(enum cmd_kind kind)
{
    return &cmd_table[kind];
}

/* What a push does when a live job has the id. */
enum if_exists {
    IF_EXISTS_REJECT,
    IF_EXISTS_REPLACE, /* the old job ends, whatever its state; its lease is stale */
    IF_EXISTS_KEEP,    /* nothing changes, and that is a success */
};

/* When a change may be answered; DEFAULT is the server's setting. */
enum durability { DURABILITY_DEFAULT, DURABILITY_SYNC, DURABILITY_INTERVAL, DURABILITY_OS };

struct cmd_push {
    struct bytes id; /* empty: the server makes one */
    struct bytes topic;
    int64_t due_us; /* a time in the past means now */
    int64_t ttr_us; /* at least 1 */
    uint32_t priority;
    bool buried; /* it is buried from the start: a dead letter from another server */
    bool brief;  /* the reply needs only the job's .ref.seq and .state */
    enum if_exists if_exists;
    enum ready_order order;
    enum durability durability;
    /* For a job that is imported from another queue: */
    int64_t created_us; /* when it was pushed there, not in the future; 0: it is new */
    uint16_t reserves;  /* attempts so far, … */
    uint16_t failures;  /* … and failed attempts that count against its retry schedule */
    /*
     * Not 0: pushed by this restore of a shared engine. ERR_NOT_FOUND: a job of that id has ended
     * since the restore began, so the push is left out. ERR_STALE_LEASE: the restore has ended, so
     * that is not known.
     */
    uint64_t restore;
    bool written; /* with `restore`: the journal's row has the job already, so the push need not be
                     journaled */
    /* Not 0: a restored job that had this number and no id. If the job of this
       number lives, the push changes nothing, as with IF_EXISTS_KEEP. */
    uint64_t number;
    enum body_kind body_kind;
    struct bytes content_type; /* may be empty */
    struct bytes body;
    /* Not NULL: the body is in this buffer, whose memory the engine may take over, so that it need
       not copy a large body in the turn. The buffer is empty then. */
    struct buf *memory;
    /* What a delivery needs besides the body: target, key, headers. Opaque to engines, kept as long
     * as the job, and shown with its body. Up to JOB_PROPERTIES_MAX; may be empty. */
    struct bytes properties;
    const int64_t *retry_us; /* each at least 0 */
    uint8_t retry_count;     /* 0 = no schedule: again at once, without a limit */
    /* For server/door.h, which sets missing fields by the topic's settings. Engines ignore
       these: */
    bool retry_given;    /* its client gave a schedule, maybe an empty one */
    bool ttr_is_default; /* its client gave no ttr */
    bool own_target;     /* its properties name a URL to send this job to */
    bool own_route;      /* its properties name RabbitMQ's exchange and routing key for it */
};

/* A reserve stops taking jobs once their bodies reach this size, which a turn can still handle. */
enum { RESERVE_BODY_BYTES = 512 * 1024 };

struct cmd_reserve {
    const struct bytes *topics; /* topic_count names */
    uint32_t topic_count;       /* at least 1 */
    uint32_t max;               /* jobs at most; at least 1; fewer if their bodies are large */
    int64_t wait_us;            /* 0 = do not wait */
    int64_t ttr_us;    /* above 0: the ttr of these reservations, instead of the jobs' own. A TOUCH
                          without a ttr starts the job's own again */
    bool listed_order; /* take from the first listed topic that has one; else the best of all */
    bool bound;        /* the leases belong to a connection: void after a restart, and not logged */
    /* Who reserves, for the jobs' history: up to HAPPENING_BY_MAX bytes, which must stay in place
       while the reserve waits. Empty: not recorded. */
    struct bytes by;
};

enum release_why {
    RELEASE_ASKED,       /* by its consumer */
    RELEASE_UNDELIVERED, /* the client never received it: the attempt does not count, whenever it is
                            due */
    RELEASE_ABANDONED,   /* its consumer has gone: a failed attempt, as when its ttr runs out */
};

/* Due times that differ by up to this count as equal: a shared engine's clock is not quite ours. */
enum { DUE_SAME_US = 10000 };

struct cmd_job { /* RESERVE_JOB FINISH RELEASE TOUCH BURY KICK RUN RESCHEDULE GET DELETE */
    struct job_ref ref;
    uint64_t lease;  /* 0 = not given */
    bool is_done;    /* DELETE: counted as finished, because its work is done */
    bool bound;      /* RESERVE_JOB: as in cmd_reserve; … */
    struct bytes by; /* … also written; borrowed like all others */
    bool history; /* GET: the history of all jobs that had this id, also if the last one has ended.
                     NOT_FOUND: no history is known */
    bool if_free; /* DELETE without a lease: fails if the job is reserved */
    bool brief;   /* not RESERVE_JOB, GET: the reply needs only .ref.seq and .state */
    enum release_why why; /* RELEASE */
    /*
     * RELEASE_ASKED, BURY: a note about this attempt. The last JOB_NOTES_MAX of a job are kept
     * until it ends or is replaced. Engines only look at its code and add the present time. Up to
     * JOB_NOTE_MAX; nothing is kept if it is empty, or if the attempt was not completed (`why`).
     */
    struct bytes note;
    uint16_t note_code; /* of an HTTP answer, or 0 */
    bool has_delay;     /* RELEASE: due_us is given (else the retry schedule decides) */
    bool has_priority;  /* RELEASE, BURY, RESCHEDULE */
    bool has_due; /* RESCHEDULE. RUN: only if the job's due time equals due_us (within DUE_SAME_US),
                   * so that a job that was rescheduled meanwhile does not run early */
    bool has_body; /* RESCHEDULE */
    bool has_ttr;  /* TOUCH: run for ttr_us from now */
    uint32_t priority;
    int64_t due_us;
    int64_t ttr_us;
    enum body_kind body_kind;
    struct bytes content_type;
    struct bytes body;
    struct buf *memory; /* RESCHEDULE with a body: as cmd_push::memory */
    /* RESCHEDULE with a body: the job's present properties, which it keeps. Filled in by the
       engine. */
    struct bytes properties;
};

struct cmd_topic {      /* PEEK … TOPIC; TOPICS LIST DUE */
    struct bytes topic; /* of TOPICS: start after this name; of DUE: empty */
    uint32_t max;    /* KICK_TOPIC, CLEAR_TOPIC, TOPICS, LIST: maximal number of jobs or topics; at
                        least 1 */
    bool stats;      /* TOPICS: with statistics over all topics, whatever is shown: see reply */
    bool due_within; /* TOPICS with stats: also counts jobs due within 1 min … 1 day */
    bool brief;      /* TOPIC: without next_due_us, which may take a long search */
    bool in_use;     /* PAUSE, RESUME: NOT_FOUND if it holds no job, no waiter and no pause */
    bool must_exist; /* PAUSE: NOT_FOUND if there is no such topic; else it is made */
    /* PEEK, CLEAR_TOPIC, LIST, KICK_TOPIC; of KICK_TOPIC GONE is buried ones, else delayed ones */
    enum job_state state;
    int64_t pause_until_us; /* PAUSE; INT64_MAX = until resumed */
    bool backwards;         /* LIST: the last job comes first */
    /* LIST: the reply's before, for the next page; empty: from the start. ERR_INVALID: it is not
       one of this engine's for this topic, state and direction. */
    struct bytes cursor;
    /* CONFIGURE_TOPIC: opaque to engines, up to TOPIC_SETTINGS_MAX; empty: it has none any more.
       A topic with settings is not forgotten, though it holds no job. */
    struct bytes settings;
    bool if_empty;    /* REMOVE_TOPIC, for server/http/clearing.c: not if it holds jobs */
    bool if_version;  /* CONFIGURE_TOPIC: only if the settings have this version; else ERR_VERSION.
                       * Removing settings that do not exist is no change, and no error */
    uint64_t version; /* 0: only if it has none */
    const int64_t *until_us; /* DUE: these times, none before the one in front of it … */
    uint32_t until_count;    /* … number of them: 1 … DUE_TIMES_MAX */
};

struct cmd {
    enum cmd_kind kind;
    union {
        struct cmd_push push;
        struct cmd_reserve reserve;
        struct cmd_job job;
        struct cmd_topic topic;
    };
};

/* Of the job's body that the command brings. */
static inline size_t cmd_body_bytes(const struct cmd *cmd)
{
    if (cmd->kind == CMD_PUSH)
        return cmd->push.body.len;
    return cmd->kind == CMD_RESCHEDULE ? cmd->job.body.len : 0;
}

/* Does the command carry a note that the engine keeps with the job? */
static inline bool cmd_keeps_note(const struct cmd *cmd)
{
    return cmd->kind == CMD_BURY || (cmd->kind == CMD_RELEASE && cmd->job.why == RELEASE_ASKED);
}

/* The note of a failed attempt. */
struct job_note {
    int64_t at_us;
    uint16_t code;
    struct bytes text; /* as it was given */
};

/* One job as a reply shows it. */
struct job_view {
    struct job_ref ref; /* .seq is always set; .id too if the client chose one */
    struct bytes topic;
    enum job_state state;
    uint32_t priority;
    int64_t due_us;
    uint32_t delay_s; /* the delay in its last push or release, for statistics */
    int64_t until_us; /* RESERVED only */
    int64_t ttr_us;
    int64_t created_us;
    uint64_t lease;
    uint32_t attempt; /* reservations so far, this one included */
    uint16_t failures;
    struct job_counts counts;
    const int64_t *retry_us;
    uint8_t retry_count;
    enum ready_order order;
    enum body_kind body_kind;
    uint64_t where;        /* for the engine, to find content type, body and properties */
    uint32_t record_bytes; /* the same, of a job that has properties; else 0 */
    uint32_t body_len;
    uint8_t content_type_len;
    struct bytes content_type; /* filled in by the engine, for RESERVE and GET */
    struct bytes body;
    struct bytes properties; /* the same */
    /* Of the last note, if there is one; in all views except FINISH's and DELETE's, whose jobs have
     * lost their notes. */
    uint16_t last_code;
    int64_t last_note_us;         /* 0: there is none */
    const struct job_note *notes; /* GET, filled in by the engine: the last ones, oldest first */
    uint8_t note_count;
};

/* One topic as a reply shows it. */
struct topic_view {
    struct bytes name;
    uint64_t jobs[JOB_STATES]; /* how many now, by state */
    uint64_t urgent;           /* of the ready ones, those with a priority below PRIORITY_URGENT */
    uint64_t waiters;
    int64_t pause_until_us;  /* 0 = not paused */
    int64_t pause_us;        /* length of the present pause, from its begin; 0 = not paused */
    int64_t oldest_ready_us; /* due time of the head of the ready queue; 0 = none */
    int64_t next_due_us;     /* TOPIC only: when the next delayed job is due; 0 = none */
    /* Since the topic was made: */
    uint64_t pushed, reserved, finished, deleted, timeouts, released, buried, kicked, pauses;
    /* In the last whole ten seconds: */
    uint32_t pushed_10s, reserved_10s, finished_10s;
    const struct lateness *lateness;
    /* Of one topic, set by the server, which observes the engine's settings: */
    struct bytes settings; /* JSON, or empty */
    uint64_t version;      /* of them */
    const char *held;     /* why nothing is sent to its target now; NULL: jobs are sent, or there is
                             no target */
    struct bytes held_by; /* the receiver that is the reason; may be empty */
};

struct engine_stats;
struct happening;

/*
 * Shares ownership of the memory that a reply borrows, so that a large reply can be kept without a
 * copy. A receiver that sets `taken` during the callback keeps `jobs` and everything they point to,
 * until it calls `release`: once, on any thread.
 */
struct reply_hold {
    bool taken;
    void (*release)(struct reply_hold *hold);
};

struct reply {
    enum err err;
    const char *why; /* with an error: details that err_text() lacks, a clause for people, such as
                      * the value and its limit; or NULL. Good while answered() runs */
    enum cmd_kind kind;
    enum job_state state; /* ERR_WRONG_STATE: the job's */
    bool kept;            /* PUSH with IF_EXISTS_KEEP: the job was there already */
    bool replaced;        /* PUSH with IF_EXISTS_REPLACE: there was an older one */
    uint32_t count;       /* jobs, topics or times shown; KICK_TOPIC, CLEAR_TOPIC: jobs changed */
    bool more; /* GET of a history, TOPICS, KICK_TOPIC, CLEAR_TOPIC: there are more; REMOVE_TOPIC:
                  the topic was kept, because it holds jobs or waiters */
    struct job_view *jobs;     /* PUSH, RESERVE, GET, LIST and single-job commands */
    struct topic_view *topics; /* TOPICS, TOPIC */
    /* GET of a history, which shows no job: the oldest first; `more`: there may be older ones. */
    const struct happening *happenings;
    bool damaged; /* some of them cannot be read */
    uint32_t happening_count;
    bool happens_on; /* the job of the last happening still lives */
    /* TOPICS with stats: port/engine.h. With an error: as they were known last, or NULL. */
    const struct engine_stats *stats;
    /* LIST: for the next page; empty: this was the last one. For the engine alone to read: see
       base/cursor.h. */
    struct bytes cursor;
    /* DUE: the `count` times of the command, and how many delayed jobs are due by each.
       Approximate: each engine documents its precision. */
    const int64_t *until_us;
    const uint64_t *due;
    uint64_t version; /* CONFIGURE_TOPIC: of the settings that there are now; 0: none. The same
                         with ERR_VERSION */
    /* RESERVE that got jobs: the command; .wait_us is the rest of its wait. */
    const struct cmd_reserve *reserve;
    struct reply_hold *hold; /* of large bodies; or NULL */
};

#endif
