/*
 * Internal declarations of the embedded engine; only its own files include this.
 *
 *     core ─reply▶ engine.c ─┬─▶ the ticket, at once
 *                            ├─▶ due.c: until far jobs are counted, too
 *                            ├─▶ commit_waiters.c: until a change is durable (P1)
 *                            └─▶ bodies.c: until its bodies are in memory
 *     command ─┬▶ reschedule.c: until the job's properties are in memory
 *              ├▶ far.c: until the job that it names is in memory
 *              ├▶ far_visit.c: until the jobs of its topic are in memory
 *              ├▶ front.c: a parked RESERVE, until its topic's first jobs are in memory
 *              └▶ history.c: until the history of a job has been found
 */
#ifndef LATERD_ENGINE_EMBEDDED_PARTS_H
#define LATERD_ENGINE_EMBEDDED_PARTS_H

#include "base/arena.h"
#include "base/heap.h"
#include "base/list.h"
#include "engine/embedded/embedded.h"
#include "engine/embedded/memory_records.h"
#include "port/journal_control.h"
#include "store/body.h"
#include "store/follower.h"

/* Which struct begins with this struct waiting_reply. */
enum waits_for {
    WAITS_FOR_COMMIT,     /* struct commit_waiter */
    WAITS_FOR_BODIES,     /* struct body_waiter */
    WAITS_FOR_PROPERTIES, /* struct rescheduling: a command that has not been executed yet */
    WAITS_FOR_FAR,        /* struct far_command: the same */
    WAITS_FOR_VISIT,      /* struct far_visit: the same */
    WAITS_FOR_HISTORY,    /* struct history_question */
    WAITS_FOR_DUE,        /* struct due_count */
};

/* What ticket::held points to. `ticket` is NULL once it was cancelled. */
struct waiting_reply {
    struct ticket *ticket;
    enum waits_for why;
    bool may_park; /* a RESERVE, which waits again if its jobs are gone when their bodies have been
                      read */
};

struct commit_waiter_list {
    struct commit_waiter *first;
    struct commit_waiter **last;
    struct arena arena;
};

/*
 * Replies that wait for one kind of durability, in the order of their batches. New ones gather in a
 * second list while older ones wait, so that an arena becomes empty now and then even under a
 * steady load.
 */
struct commit_waiters {
    struct commit_waiter_list waiting;
    struct commit_waiter_list gathering; /* all of them later than those that wait */
};

enum { AHEAD_TOPICS = 4 };

/* Replies that wait for bodies, and jobs that were reserved but will not reach the client. */
struct bodies {
    struct list reading;          // body_waiter::link: some body is still to be read
    struct list whole;            // body_waiter::link: can be answered
    struct list given_up;         // body_waiter::link: cancelled; the jobs are to go back
    size_t held_bytes;            /* of their own memory, without what the store holds for them */
    struct heap renewals;         // body_waiter::renewal, by the first end of a lease of their jobs
    struct buf unread;            /* struct unread: jobs reserved and not handed out … */
    size_t settled_bytes;         /* … of which this many bytes were handled */
    uint32_t ahead_count;         /* of `ahead` */
    struct arena scratch;         /* bodies of the reply being given */
    struct memory_records memory; /* without a store */
    /* Topics whose next jobs' bodies should be read ahead. */
    struct {
        size_t len;
        char name[TOPIC_NAME_MAX];
    } ahead[AHEAD_TOPICS];
};

/* Commands that wait until the parts of a job that they keep have been read. */
struct reschedulings {
    struct list reading; // rescheduling::link
    struct list whole;   // rescheduling::link: it has come
};

/* Commands that wait until the record of a far job has been read. */
struct far_commands {
    struct list reading; // far_command::link
    struct list whole;   // far_command::link: it has come
};

/* Reads of ready jobs that come next. */
struct fronts {
    struct list reading; // front_read::link
    struct list whole;   // front_read::link: it has come
    uint32_t count;      /* of both */
    int64_t retry_at_us; /* when to read again what could not be read; INT64_MAX: nothing, … */
    int64_t unread_us;   /* … else when the first of it could not, … */
    int64_t failed_us;   /* … and when the last one of those tried one after another could not */
    int64_t report_us;   /* when such a failure may be logged again */
};

/* Commands on topics some of whose jobs are far. */
struct far_visits {
    struct list waiting; // far_visit::link: the first is under way
    struct list lookups; // far_visit::link: look-ups that have not begun; …
    struct list looking; // far_visit::link: … have, some at once; …
    struct list ready;   // far_visit::link: … and can continue
    uint32_t looks;      /* number of look-ups that read a page now */
};

enum { OBSERVERS_MAX = 4 };

/* The state of the journal's feed from the log. Zeroed: there is no journal. */
struct journal_feed {
    struct journal *journal; /* NULL: there is none */
    bool joined;             /* the database's cursor is known, and was compared */
    bool begins;             /* … and is being moved to where the log can be followed from */
    bool broken;             /* … and does not fit, or it was too late */
    bool down;               /* nothing is being written now */
    bool refuses;            /* pushes are refused: the lag is above its limit */
    bool unread;             /* the disk could not read the log the last time */
    bool resyncing;          /* one is under way: it sees events */
    struct embedded_journal options;
    struct journal_control control;
    struct follower *follower;
    struct follower_callbacks callbacks;
    struct journal_status status; /* as it was reported last */
    size_t held_bytes; /* held by the journal: by its last status, plus what it was given since */
    uint64_t done;     /* batches up to this one are committed in the database */
    uint64_t given;    /* batches up to this one were given to the journal */
    struct journal_resync *resync; /* NULL: there is no journal */
    enum journal_state state;      /* since state_us; 0: not determined yet */
    int64_t state_us;
    int64_t lacking_us; /* since when it lacks something while its cursor is not known; 0: it does
                           not */
    int64_t lag_check_us, report_us; /* when to measure the lag next, and when to log it again */
};

/* Reports how far the opening of the store is. */
struct opening_report {
    enum err (*report)(void *owner, const struct store_opening *opening); /* or NULL */
    void *owner;
    int64_t logged_us; /* when the progress was logged last, or the opening began; 0: it has not */
};

/* Reports that the store has no room, and once that is over for a while. */
struct full_report {
    bool logged;     /* store_full was logged, and store_has_room was not since then */
    int64_t seen_us; /* when the store was last found full */
};

struct embedded {
    struct engine engine;
    struct event_sink sink;
    struct core_callbacks core_callbacks;
    struct store_callbacks store_callbacks;
    struct core *core;
    struct store *store;
    struct budget *budget; /* see engine_verbs::use_budget */
    struct budget unlimited;
    const char *directory; /* NULL: not shown */
    enum durability durability;
    enum durability
        cmd_durability; /* by the command being applied; between commands the server's own */
    const struct cmd_topic *stats; /* the CMD_TOPICS with `stats` that is being applied; or NULL */
    const struct loop *loop;       /* its time is ours */
    bool busy;                     /* the last slice of work left some over */
    bool draining;
    bool stopped; /* the store is closed; only embedded_close() may follow */
    bool has_far; /* some job is far, or was */
    struct full_report full;
    uint64_t durable, synced;      /* the last batches that are durable, and synced */
    uint64_t read_waiter_count;    /* of all that waits for bodies, records, slices or history */
    uint64_t commit_waiter_count;  /* of both: */
    struct commit_waiters writing; /* for the server's durability */
    struct commit_waiters syncing; /* pushes that want more than that */
    struct discard discard;        /* what commit waiters had, some pieces a turn */
    struct bodies bodies;
    struct reply brief_reply;   /* the brief reply that waited and is given now, … */
    struct job_view brief_view; /* … and its view; what they do not show stays zero */
    struct reschedulings reschedulings;
    struct far_commands far_commands;
    struct far_visits far_visits;
    struct fronts fronts;
    struct list questions;       // history_question::link: the store searches
    struct list questions_ended; // history_question::link: to be answered, or cancelled
    struct list due_counts;      // due_count::link
    struct settings_observer *observers[OBSERVERS_MAX];
    unsigned observer_count;
    struct journal_feed feed;
    struct opening_report opening;
};

/* ---- commit_waiters.c ---- */

void commit_waiters_init(struct commit_waiters *waiters);
void commit_waiters_fini(struct commit_waiters *waiters);
/* Keeps the reply until everything promised so far is as durable as the command being executed asks
   for. False: it already is. */
bool commit_wait(struct embedded *embedded, struct ticket *ticket, const struct reply *reply);
/* Sends the replies whose batches are durable and, once the store has failed, all others as
   ERR_STORE_FAILED, as far as the budget goes; the rest in the next turn, without a sleep. */
void commit_release(struct embedded *embedded);
/* At the end: sends all replies now; what is not durable has failed. */
void commit_release_all(struct embedded *embedded);
/* The end of a turn: the gathered replies become the waiting ones, if no older ones wait. */
void commit_advance(struct embedded *embedded);

/* ---- bodies.c ---- */

void bodies_init(struct bodies *bodies);
void bodies_fini(struct bodies *bodies);
/* Fills in the bodies and answers: at once if they are in memory, else when they have been read. */
void bodies_reply(struct embedded *embedded, struct ticket *ticket, const struct reply *reply);
/* Where the job's record is, for the store. */
struct body_place bodies_place(const struct job_view *job);
/* Fills in the parts of the job's record, if they are in memory: see store_read(). The bytes are
 * valid until the next call in this turn. */
enum err bodies_read(struct embedded *embedded, struct job_view *job) MUST_USE;
/* A reply that waits for bodies is cancelled: its jobs go back (P6). */
void bodies_cancel(struct embedded *embedded, struct waiting_reply *reply);
/* The beginning of a turn: leases of jobs that wait for their bodies do not run out. False: some
   that end now are left to the next turn, so none may end in this one. */
bool bodies_renew_leases(struct embedded *embedded);
int64_t bodies_renew_next_us(const struct embedded *embedded); /* when it has something to do */
/* Sends replies whose bodies have been read, and gives back jobs that are not handed out, as far as
   the budget goes; the rest in the next turn, without a sleep. */
void bodies_turn(struct embedded *embedded);
/* Passes the store a hint which bodies will be needed next. */
void bodies_read_ahead(struct embedded *embedded);
/* At the end: answers what still waits. Jobs that were not handed out go back. */
void bodies_fail_all(struct embedded *embedded);

/* ---- reschedule.c ---- */

void reschedulings_init(struct reschedulings *reschedulings);
/*
 * RESCHEDULE with a new body keeps the job's properties, which are in the record that it replaces:
 * they are read first. False: nothing must be read, the command can be executed now.
 */
bool reschedule_begin(struct embedded *embedded, const struct cmd *cmd, struct ticket *ticket,
                      enum submitted *out_submitted);
/* Executes the commands whose properties have been read. */
void reschedule_turn(struct embedded *embedded);
/* The end: those that wait have failed. */
void reschedule_fail_all(struct embedded *embedded);

/* ---- far.c ---- */

void far_commands_init(struct far_commands *commands);
/* The command names a job that may be far: its record is read first. False: it can be executed
   now. */
bool far_begin(struct embedded *embedded, const struct cmd *cmd, struct ticket *ticket,
               enum submitted *out_submitted);
/* OK: the far job of this record may stay in memory, and be written to the log again. */
enum err far_may_stay(const struct embedded *embedded, const struct event *event) MUST_USE;
/* The far job has arrived and will change: writes its record to the log again. `memory`: that of
   the event, which is taken over if the body is large, as with event::memory; or NULL. */
void far_write_again(struct embedded *embedded, const struct event *event, struct buf *memory);
/* Executes the commands whose records have been read, as far as the budget goes. */
void far_turn(struct embedded *embedded);
/* The client has gone: a command that was not executed yet never will be, since others may have
   changed the job by then. */
void far_cancel(struct waiting_reply *reply);
/* The end: those that wait have failed. */
void far_fail_all(struct embedded *embedded);
/* The store's callbacks for far jobs, which are the core's matter. */
void far_callbacks(struct store_callbacks *callbacks);
/* The store was opened: if the clock was set back, tells the core which far jobs have been due. */
void far_opened(struct embedded *embedded);

/* ---- far_visit.c ---- */

void far_visits_init(struct far_visits *visits);
/* The command visits a topic's jobs, some of which are far: they are read first. False: it can be
 * executed now. */
bool far_visit_begin(struct embedded *embedded, const struct cmd *cmd, struct ticket *ticket,
                     enum submitted *out_submitted);
/* Continues them, as far as the budget goes. */
void far_visit_turn(struct embedded *embedded);
/* The topic of the visit that is under way. False: none is. */
bool far_visit_topic(const struct embedded *embedded, struct bytes *out_topic);
void far_visit_cancel(struct waiting_reply *reply);
void far_visit_fail_all(struct embedded *embedded);

/* ---- front.c ---- */

void fronts_init(struct fronts *fronts);
/* Loads the first ready jobs of topics that consumers wait for, as far as the budget goes. */
void front_turn(struct embedded *embedded);
/* When it needs the next turn; INT64_MAX: no time of its own. */
int64_t front_next_us(const struct embedded *embedded);
/* The end: nothing is read any more. */
void front_fail_all(struct embedded *embedded);

/* ---- history.c ---- */

/* event_sink::happened */
void history_record(struct event_sink *sink, const struct happening *happening);
/* A GET of a history. */
enum submitted history_look_up(struct embedded *embedded, const struct cmd *cmd,
                               struct ticket *ticket);
/* The same, once the job is in memory if it lives. */
enum submitted history_look(struct embedded *embedded, const struct cmd *cmd,
                            struct ticket *ticket);
/* Answers the searches that have ended, as far as the budget goes; the rest in the next turn,
   without a sleep. */
void history_answer_turn(struct embedded *embedded);
/* The client has gone: it is freed in the next turn. */
void history_cancel(struct waiting_reply *reply);
/* The end: those that wait have failed. */
void history_fail_all(struct embedded *embedded);

/* ---- due.c ---- */

/* A CMD_DUE whose jobs in memory were counted: waits until far jobs are counted. */
void due_wait(struct embedded *embedded, struct ticket *ticket, const struct reply *reply);
/* Continues counting, as far as the budget goes, and answers. */
void due_turn(struct embedded *embedded);
/* The end: those that wait have failed. */
void due_fail_all(struct embedded *embedded);

/* ---- engine.c ---- */

/* Checks and executes a command, or begins to read what it needs. */
enum submitted embedded_submit(struct embedded *embedded, const struct cmd *cmd,
                               struct ticket *ticket);

/* Checks and executes a command that needs no reads. */
enum submitted embedded_do(struct embedded *embedded, const struct cmd *cmd, struct ticket *ticket);

/* The same for a command that deletes a far job, whose record is `event`. False: the case is not
   that simple, and nothing was done; see core_delete_far(). */
bool embedded_delete_far(struct embedded *embedded, const struct cmd *cmd,
                         const struct event *event, struct ticket *ticket,
                         enum submitted *out_submitted);

/* ---- journal_feed.c ---- */

/* The end of a turn: gives the journal, which there is, the batches that have become durable, as
   far as it has room. */
void journal_feed_turn(struct embedded *embedded);
/* True: no job may be handed out, and nothing changed, until the journal writes again. */
bool journal_feed_stops(const struct embedded *embedded);
/* OK, or why the journal does not allow the command now. */
enum err journal_feed_admit(const struct embedded *embedded, const struct cmd *cmd);
enum err journal_feed_health(const struct embedded *embedded);
/* The last batch, at most `batch`, whose replies may be sent. */
uint64_t journal_feed_gate(const struct embedded *embedded, uint64_t batch);
void journal_feed_describe(const struct embedded *embedded, struct metric_sink *sink);
/* A job ends while the journal reads rows back. */
void journal_feed_ended(struct embedded *embedded, const struct event *event);
/* Closes the journal's side of the feed; the journal itself is not used any more. */
void journal_feed_end(struct embedded *embedded);

/* ---- journal_resync.c ---- */

void journal_resync_open(struct embedded *embedded);
void journal_resync_close(struct embedded *embedded);
/* The end of a turn: continues a resync. */
void journal_resync_turn(struct embedded *embedded);
/* When it needs the next turn; INT64_MAX: after the next event. */
int64_t journal_resync_next_us(const struct embedded *embedded);
/* Continues a resync that the database has noted as not ended. */
void journal_resync_resume(struct embedded *embedded);
/* Notes an event while a resync is running. */
void journal_resync_note_event(struct embedded *embedded, const struct event *event);
/* journal_control_verbs */
enum err journal_resync_begin(struct embedded *embedded, const char **out_why);
void journal_resync_status(const struct embedded *embedded, struct resync_status *out_status);
void journal_resync_describe(const struct embedded *embedded, struct metric_sink *sink);

/* ---- relocate.c ---- */

/* The store's callbacks for recovery and for cleaning, which are the core's matter. */
void relocate_callbacks(struct store_callbacks *callbacks);

#endif
