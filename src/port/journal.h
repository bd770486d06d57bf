/*
 * A journal receives every batch of the log, in order, and writes its changes to a database.
 * Implemented by a plugin (src/journal/mysql); fed by engine/embedded/journal_feed.c, which follows
 * the log, or by engine/redis/journal_feed.c, which makes a batch of each change.
 *
 *     feed: give(batch) ─▶ its thread ─▶ database: rows and cursor, one transaction
 *           ◀─ changed() ◀─ status: batches up to `done` are committed there
 *
 * All functions are called on the loop's thread; none but close() waits for the database.
 */
#ifndef LATERD_PORT_JOURNAL_H
#define LATERD_PORT_JOURNAL_H

#include "base/err.h"
#include "base/mem.h"
#include "core/cmd.h"
#include "port/loop.h"
#include "port/metric.h"
#include "port/restore.h"

struct journal;

/*
 * What a batch contains. All kinds but CHANGES belong to a resync. Batches that are not `numbered`
 * are not from the log and do not move the cursor: their `number` is one more than that of the last
 * numbered batch before. They describe a state after all batches given so far, and perhaps after
 * some that are given later: those only repeat, in order, the changes that led to that state.
 */
enum journal_batch_kind {
    JOURNAL_CHANGES, /* of the log, or an entry */
    JOURNAL_IMAGES,  /* JOB records: the jobs' rows are overwritten with them, without rows of
                        changes */
    JOURNAL_ABSENT,  /* GONE records: these jobs do not exist; their unfinished rows are ended */
    JOURNAL_RESYNC_BEGINS, /* no records: the database notes that a resync runs … */
    JOURNAL_RESYNC_ENDS,   /* … until this batch */
};

/* One batch. From give() on the journal owns it, and frees it by journal_batch_free(). */
struct journal_batch {
    struct queue_node place;
    enum journal_batch_kind kind;
    bool numbered; /* of the log, or an entry */
    uint64_t number;
    int64_t clock_us; /* when it was written */
    uint32_t payload_bytes;
    uint32_t records;
    size_t bytes; /* header and records, as batch_walk_init() takes them: */
    /* With journal_begin::streams: which stream, and which of its entries this batch holds. */
    uint32_t stream;
    uint64_t entry, mark;
    char *apart; /* not NULL: they are there, in memory of mem_alloc(), and not in `at` */
    char at[];
};

static inline const char *journal_batch_at(const struct journal_batch *batch)
{
    return batch->apart ? batch->apart : batch->at;
}

static inline void journal_batch_free(struct journal_batch *batch)
{
    mem_free(batch->apart);
    mem_free(batch);
}

/* The last entry of a stream that the database has; 0: none. */
struct journal_stream {
    uint64_t entry, mark;
};

enum journal_phase {
    JOURNAL_AWAY,    /* no connection: it keeps trying to connect */
    JOURNAL_WRITES,  /* batches are being committed */
    JOURNAL_REFUSES, /* connected, but tables or privileges are not as needed: checked again every
                        few seconds */
    JOURNAL_FENCED,  /* another process writes for this store: this one writes no more */
    JOURNAL_STOPPED, /* journal_verbs::stop: log and database do not match */
};

enum { JOURNAL_WHY_MAX = 200, JOURNAL_ADVICE_MAX = 160, JOURNAL_STORE_BYTES = 16 };

struct journal_status {
    enum journal_phase phase;
    bool known;           /* the cursor was read, so that `done` is valid */
    bool made;            /* the cursor was created at journal_begin::batch, perhaps before a
                             restart, and nothing was committed since */
    uint64_t done;        /* batches up to this one are committed in the database */
    int64_t oldest_us;    /* clock of the oldest batch that it holds; 0: it holds none */
    uint64_t held_bytes;  /* of batches that it holds */
    uint64_t groups;      /* transactions committed */
    uint64_t job_rows;    /* rows of jobs written */
    uint64_t log_rows;    /* rows of changes written */
    uint64_t rejected;    /* rows that the database refused, set aside */
    uint64_t connections; /* made so far */
    bool resyncing;   /* a resync was begun there, perhaps before a restart, and has not ended */
    uint64_t resyncs; /* ended since begin() */
    uint64_t epoch;   /* of its cursor, if `known` */
    char why[JOURNAL_WHY_MAX];       /* not WRITES: why; a clause for people, without passwords */
    char advice[JOURNAL_ADVICE_MAX]; /* what to do about it; or empty */
};

/* Counters of what has been written, and the warning about rows that were refused. */
static inline void journal_describe(const struct journal_status *status, struct metric_sink *sink)
{
    if (sink->metric) {
        metric_counter(sink, "journal_groups_total", "Transactions committed in MySQL.",
                       status->groups);
        metric_counter(sink, "journal_rows_total", "Rows of jobs written to MySQL.",
                       status->job_rows);
        metric_counter(sink, "journal_log_rows_total", "Rows of changes written to MySQL.",
                       status->log_rows);
        metric_counter(sink, "journal_rejected_total",
                       "Rows that MySQL refused, which are in laterd_journal_rejected.",
                       status->rejected);
        metric_counter(sink, "journal_connections_total", "Connections made to MySQL.",
                       status->connections);
    }
    if (sink->warning && status->rejected)
        sink->warning(sink, "rows that MySQL refused", status->rejected);
}

/* Which store, and from where on batches are given. */
struct journal_begin {
    uint8_t store[JOURNAL_STORE_BYTES];
    uint64_t batch; /* the value of a new cursor */
    /* For again(): a resync begins: the database's cursor is set to `batch`, whatever it was, and
       its positions in streams to none. */
    bool resync;
    int64_t at_us; /* resync: the time */
    /* The number of streams that batches come from; the cursor then holds a position in each. 0:
       batches come from a log, whose numbers say where to go on. */
    uint32_t streams;
};

struct journal_verbs {
    /* Begins to connect. Once, before the first give(). */
    void (*begin)(struct journal *journal, const struct journal_begin *begin);
    /* Takes the next batch, and holds it until it is committed: see held_bytes. */
    void (*give)(struct journal *journal, struct journal_batch *batch);
    void (*status)(struct journal *journal, struct journal_status *out_status);
    /* Begins again after it was stopped or fenced, holding nothing, with another `begin`. False:
       its thread has not finished yet: call again later. True: the same as after begin(). */
    bool (*again)(struct journal *journal, const struct journal_begin *begin);
    /* The cursor's positions in the streams, as they were when the cursor became known. */
    void (*streams)(struct journal *journal, struct journal_stream *out_streams);
    /* Log and cursor do not match: nothing may be written any more. `why` is copied. */
    void (*stop)(struct journal *journal, const char *why);
    /* The reader of rows; lives as long as the journal. Its runs may be closed after the
       journal. */
    struct restore *(*restore)(struct journal *journal);
    /* A job has just ended, and that is not durable yet. To be called while
       journal::wants_ended. */
    void (*ended)(struct journal *journal, struct bytes id, uint64_t seq);
    /* Begins to end without waiting: a transaction under way may still be committed, the other
       batches are not. `at_once`: also stops waiting for the database. True: the thread has ended,
       so that close() does not wait. To be called again until then. */
    bool (*leave)(struct journal *journal, bool at_once);
    /* Waits up to grace_us for the batches it holds to be committed, then ends and frees it. */
    void (*close)(struct journal *journal, int64_t grace_us);
};

struct journal {
    const struct journal_verbs *verbs;
    /* Set by the user; called on the loop's thread. */
    void (*changed)(struct journal *journal); /* the status has changed */
    /* The number of the batch that contains all changes so far. */
    uint64_t (*newest)(const struct journal *journal);
    /* True: a job of this number is in memory. False for far jobs, too: restore_row::seq is checked
       when the row is pushed. NULL: the engine cannot tell at once. */
    bool (*lives)(const struct journal *journal, uint64_t seq);
    void *user; /* of these */
    /* Set by the journal: it reads rows back, and must leave out jobs that end meanwhile. */
    bool wants_ended;
};

/* Makes a journal when this daemon becomes the one of several that writes it. */
struct journal_maker {
    struct journal *(*make)(struct journal_maker *maker); /* NULL: failed, and logged */
};

/* ---- the plugin ---- */

enum { JOURNAL_PLUGIN_ABI = 8 };
#define JOURNAL_PLUGIN_SYMBOL "laterd_journal_plugin"

enum journal_lead { JOURNAL_LEAD_NONE, JOURNAL_LEAD_OURS, JOURNAL_LEAD_NOT_OURS };

/* [journal] of the configuration. Strings are valid for as long as the process runs. */
struct journal_options {
    const char *url;      /* mysql://…; may be a reference (sink/reference.h) */
    const char *password; /* the same; empty: the URL's */
    const char *ca;       /* file, or "" */
    bool log_all;         /* rows for all changes; false: only for ends of jobs */
    bool at_once;         /* replies wait for the commit: gather batches only briefly */
    int32_t east_s;       /* of UTC, of the times in the tables */
    int64_t timeout_us;   /* to connect, 1 s … 10 min; a statement may take twice as long */
    struct loop *loop;    /* NULL for journal_plugin::check */
    /* What the election says about this laterd now. OURS: no other process may write for this
       store, so the cursor is taken back from a former leader that took it late and has written
       nothing. NOT_OURS: the cursor is not taken. Never waits; any thread. NULL: no election. */
    enum journal_lead (*lead)(void *owner);
    void *owner;
};

struct journal_error {
    char text[240]; /* a clause without passwords: "url: the database is missing" */
};

struct journal_plugin {
    uint32_t abi;        /* JOURNAL_PLUGIN_ABI */
    const char *version; /* LATERD_VERSION */
    const char *library; /* name and version, for the log */
    /* Checks the options without using the network. ERR_INVALID, or ERR_NOT_FOUND: a file or a
       variable that they name cannot be read now. */
    enum err (*check)(const struct journal_options *options, struct journal_error *out_error);
    /* ERR_INVALID, ERR_IO: out_error. */
    enum err (*open)(const struct journal_options *options, struct journal **out_journal,
                     struct journal_error *out_error);
};

/* Defined by the plugin. */
__attribute__((visibility("default"))) extern const struct journal_plugin laterd_journal_plugin;

#endif
