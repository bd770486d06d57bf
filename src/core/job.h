/*
 * A job: what is known of it in memory, its states and the moves allowed between them.
 *
 *     push ─▶ DELAYED ─due▶ READY ─reserve▶ RESERVED ─finish▶ gone
 *                ▲            ▲                │ ├─ ttr ran out, release ─▶ READY or DELAYED
 *                │            └────kick────────│ └─ bury, schedule used up ─▶ BURIED
 *                └───────────release(delay)────┘          delete: from any state ─▶ gone
 *
 * A push may ask for a job that is buried from the start, so that dead letters can be moved to
 * another server. A delayed job whose due time passes, or that is kicked or run, becomes ready. A
 * delayed or buried job may be reserved by its id, without becoming ready first. job_move() alone
 * writes the state (and job_restore(), in replay). The body is not here: it lives where `stored`
 * says. All times are microseconds since the Unix epoch (wall time).
 */
#ifndef LATERD_CORE_JOB_H
#define LATERD_CORE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/pool.h"
#include "base/time_us.h"

enum job_state {
    JOB_GONE = 0, /* not in the queue (yet, or any more) */
    JOB_DELAYED,
    JOB_READY,
    JOB_RESERVED,
    JOB_BURIED,
    JOB_STATES
};

enum {
    JOB_ID_MAX = 255,       /* bytes of a client's id */
    JOB_TEXT_ID_MAX = 255,  /* room for any id as text, server-made ones too */
    CONTENT_TYPE_MAX = 127, /* bytes */
    TOPIC_NAME_MAX = 200,   /* bytes; beanstalkd's limit for tube names */
    RETRY_STEPS_MAX = 64,
};

enum {
    JOB_PROPERTIES_MAX = 4096,      /* bytes of a job's properties */
    JOB_NOTE_MAX = 4608,            /* bytes of the note of one failed attempt */
    JOB_NOTES_MAX = 5,              /* failed attempts whose notes are kept: the last ones */
    TOPIC_SETTINGS_MAX = 16 * 1024, /* bytes of a topic's settings */
};

/* The longest ttr that limits.ttr_seconds can allow, and settings of a topic can have. */
#define TTR_MAX_US (INT64_C(36500) * 86400 * 1000000)

/* What the body is, so that /v1 returns it in the form in which it came. */
enum body_kind {
    BODY_BYTES = 0, /* bytes or text */
    BODY_JSON = 1,  /* the text of a JSON value */
};

/* Which of two ready jobs of one priority goes first. */
enum ready_order {
    ORDER_DUE = 0,     /* the one that was due first */
    ORDER_ARRIVAL = 1, /* the one that was pushed first, as in beanstalkd */
};

enum { PRIORITY_URGENT = 1024 }; /* priorities below count as urgent in statistics */

/* Where the engine keeps a job's record; opaque to the core. */
struct stored {
    uint64_t where; /* the engine's word for a place; 0 is nowhere */
    uint32_t bytes; /* disk bytes that die with the job */
};

/* How often each of these happened to a job. A count stops at its largest value. */
struct job_counts {
    uint16_t reserves;
    uint16_t timeouts;
    uint16_t releases;
    uint16_t buries;
    uint16_t kicks;
};

/* 64-bit words aligned to 4 bytes: objects of the jobs' pool have sizes in steps of four bytes. */
typedef int64_t job_time_us __attribute__((aligned(4)));
typedef uint64_t job_word __attribute__((aligned(4)));

/*
 * The client's id follows right behind this struct; a job's size in the pool is that of both,
 * rounded up to four bytes. The first fields are all that timers, queues and leases need.
 */
struct job {
    job_word seq;       /* server-made number, never used again; also the order of arrival */
    job_time_us due_us; /* when it may be handed out */
    uint32_t prev;      /* wheel or buried list: neighbours; READY: prev is the place in the heap */
    uint32_t next;
    uint32_t topic;    /* number in the topics' pool */
    uint32_t priority; /* lower first */
    uint8_t state;     /* enum job_state; written by job_move() and job_restore() only */
    enum body_kind body_kind : 1;
    enum ready_order order : 1;
    bool leaving : 1;        /* unchanged since core_spill() or core_arrive(): see far.c */
    bool in_slice : 1;       /* its record lies in a slice, from which the job has come back */
    bool has_properties : 1; /* its record has some, so the whole record must be read */
    bool has_notes : 1;      /* core::notes has some of it */
    bool bound : 1;          /* RESERVED: the lease belongs to a connection and is not in the log */
    bool was_due : 1;        /* its due time has come, even if the clock was set back since */
    uint8_t content_type_len;
    uint8_t id_len;    /* 0: the id is the server-made number */
    uint16_t failures; /* failed attempts counted against the retry schedule */
    uint16_t reserves; /* struct job_counts::reserves */
    uint32_t extra;    /* what only some jobs have: see job_extra.h; 0 = nothing */
    uint32_t retry;    /* number of the retry schedule, 0 = none */
    uint32_t delay_s;  /* the delay in the last push or release, for statistics */
    job_time_us ttr_us;
    job_time_us created_us;
    job_word where;        /* struct stored::where */
    uint32_t record_bytes; /* struct stored::bytes */
    uint32_t body_len;     /* bytes */
};

/* Makes it a pool of jobs, with ids of any length, in steps of four bytes. */
void job_pool_init(struct pool *jobs);
/* Takes a new job with room for an id of this length (up to JOB_ID_MAX); no field and no id is set.
   Returns its number. O(1). */
uint32_t job_take(struct pool *jobs, size_t id_len);

/* Is this move allowed? The whole state machine. */
bool job_may_move(enum job_state from, enum job_state to);

/* Among ready jobs of one priority the one with the lower rank goes first. */
static inline int64_t job_rank_us(const struct job *job)
{
    return job->order == ORDER_ARRIVAL ? job->created_us : job->due_us;
}

/* Writes the state; CHECKs that the move is allowed. */
void job_move(struct job *job, enum job_state to);

/* Writes the state in replay, where any move is allowed: the log has the state, not the way to
   it. */
void job_restore(struct job *job, enum job_state state);

/* The client's id; empty when the id is server-made. Good while the job lives. */
static inline struct bytes job_id(const struct job *job)
{
    return bytes_of((const char *)(job + 1), job->id_len);
}

/* Copies the id behind the job, which was taken for an id of this length. */
void job_id_set(struct job *job, struct bytes id);

const char *job_state_name(enum job_state state); /* "delayed" … */

/*
 * Names a job: by the client's id, or (id empty) by the server-made number. As text a server-made
 * id is an at sign and the number ("@123", which no shell expands); clients may not choose ids of
 * that form, so that no two jobs ever have one name.
 */
struct job_ref {
    struct bytes id;
    uint64_t seq;
};

/* Reads a text id of either kind. False: empty, longer than JOB_ID_MAX. "@007" is a client id. */
bool job_ref_parse(struct bytes text, struct job_ref *out_ref);

/* Writes the text form into `room` (JOB_TEXT_ID_MAX bytes) if server-made, else borrows ref.id. */
struct bytes job_ref_text(const struct job_ref *ref, char *room);

#endif
