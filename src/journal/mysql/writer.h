/*
 * The journal in MySQL: a thread with a connection, which receives batches and commits them.
 *
 *     loop: give() ─▶ inbox ─▶ held ─▶ group ─▶ one transaction ─▶ status ─▶ changed()
 *
 * Batches are held until they are committed, so that a lost connection loses nothing: the cursor
 * then decides which of them must still be written. `mutex` protects the fields marked.
 */
#ifndef LATERD_JOURNAL_MYSQL_WRITER_H
#define LATERD_JOURNAL_MYSQL_WRITER_H

#include <pthread.h>

#include "base/list.h"
#include "journal/id_set.h"
#include "journal/mysql/session.h"
#include "journal/sql.h"
#include "port/journal.h"

/* Reads rows back: each run has a thread and a connection of its own. */
struct restorer {
    struct restore restore;
    struct list runs;      // restore_run::place
    pthread_mutex_t mutex; /* of what runs share with their threads, and of: */
    pthread_cond_t ended;
    unsigned threads;   /* that have not ended */
    unsigned of_all;    /* runs that are not of one id */
    struct id_set ends; /* of jobs that have ended since one such began */
};

struct writer_stream {
    struct journal_stream begun, at;
    bool moved; /* by the group */
};

struct writer {
    struct journal journal;
    struct loop *loop;
    struct link_options link_options;
    bool at_once;
    enum journal_lead (*lead)(void *owner); /* journal_options::lead */
    void *lead_owner;
    struct sql_place place;
    char host[128];
    pthread_t thread;
    bool started, closed;
    /* The thread's. */
    struct journal_begin begin;
    struct link link;
    struct queue held;  // journal_batch::place; taken and not committed
    struct group group; /* of what is held */
    bool taken;         /* the cursor is ours since the first connection */
    uint64_t epoch;     /* … by this number */
    bool writes;        /* something was committed on this connection */
    uint64_t done;      /* journal_status::done */
    /* begin.streams: where the group ends in each, and the cursor when it became known. */
    struct writer_stream *streams;
    struct buf sql;   /* the statement being built */
    unsigned *picked; /* indices of the jobs that it is for */
    unsigned picked_cap;
    uint64_t job_rows, log_rows, rejected; /* of the transaction under way */
    int64_t logged_us; /* when an error was logged; 0: none since the last connection */
    unsigned logged_errnum;
    char logged_why[JOURNAL_WHY_MAX];
    /* Used by both threads, under the mutex: */
    pthread_mutex_t mutex;
    pthread_cond_t given;
    struct queue inbox; // journal_batch::place
    unsigned inbox_records;
    int64_t inbox_since_us; /* of the monotonic clock: since when something waits there */
    bool waiting;           /* the thread is, for `given` */
    bool connected;         /* to MySQL, as far as the thread knows */
    bool closing, stopping;
    bool over; /* the thread needs nothing of the writer any more, but to be joined */
    int64_t until_us;
    struct journal_status status;
    struct message message;
    bool posted;
    struct restorer restorer; /* see restore.c */
};

enum { GROUP_RECORDS = 512, GROUP_US = 10 * 1000 };

int64_t writer_now_us(void); /* of a clock that never goes back */

/* ---- restore.c; the loop's ---- */

void restorer_init(struct restorer *restorer);
/* Makes the threads end. True: they have ended. Runs exist until their readers close them. */
bool restorer_leave(struct restorer *restorer);
/* The same, and waits for it. */
void restorer_stop(struct restorer *restorer);
/* True: there are no runs. */
bool restorer_idle(const struct restorer *restorer);
void restorer_fini(struct restorer *restorer);
void restorer_ended(struct restorer *restorer, struct bytes id);

/* ---- writer.c: the loop's side, and what both share ---- */

static inline void writer_lock(struct writer *writer)
{
    (void)pthread_mutex_lock(&writer->mutex); /* cannot fail: it is ours and not recursive */
}

static inline void writer_unlock(struct writer *writer)
{
    (void)pthread_mutex_unlock(&writer->mutex);
}

static inline struct journal_batch *writer_batch(struct queue_node *node)
{
    return LIST_ENTRY(node, struct journal_batch, place);
}

void writer_free_batches(struct queue *queue);
/* Under the mutex. The status has changed: journal::changed is called on the loop's thread. */
void writer_post(struct writer *writer);
/* Without the mutex. Both texts are copied. */
void writer_set_phase(struct writer *writer, enum journal_phase phase, const char *why,
                      const char *advice);
/* DONE: everything up to this batch is committed. AWAY: the writer does not write now. */
enum link_result writer_has(struct writer *writer, uint64_t batch);
/* Frees the writer; it must be closed, and not used any more. */
void writer_release(struct writer *writer);

/* ---- writer_thread.c ---- */

/* The thread's function; `writer` is a struct writer. */
void *writer_run(void *arg);

/* ---- commit.c; the thread's ---- */

/* The batch where the database stands once the group is committed. */
uint64_t writer_group_end(const struct writer *writer);

/* Writes the group, its cursor last, and commits. Not DONE: nothing of it was written, or, if
   COMMIT itself failed, all of it. ROW: fenced, *refusal says by which writer; REFUSED: it may say
   why. */
enum link_result writer_commit(struct writer *writer, struct session_refusal *refusal);
/* Changes nothing, by writing the cursor: DONE: the server takes changes. */
enum link_result writer_probe(struct writer *writer);

#endif
