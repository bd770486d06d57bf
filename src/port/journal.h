/*
 * A journal: somebody who is given every batch of the log, in order, and keeps what it says in a
 * database. Implemented by a plugin (src/journal/mysql); fed by engine/embedded/journal_feed.c,
 * which alone knows the log, or by engine/redis/journal_feed.c, which makes a batch of each change.
 *
 *     feed: give(batch) ─▶ its thread ─▶ database: rows and cursor, one transaction
 *           ◀─ changed() ◀─ status: batches up to `done` are committed there
 *
 * All functions are called on the loop's thread; none waits for the database.
 */
#ifndef LATERD_PORT_JOURNAL_H
#define LATERD_PORT_JOURNAL_H

#include "base/err.h"
#include "core/cmd.h"
#include "port/loop.h"
#include "port/metric.h"
#include "port/restore.h"

struct journal;

/*
 * What a batch is. But for CHANGES they are of a resync. If they are not `numbered` they are not of
 * the log, and move no cursor: `number` is one more than that of the last numbered one that was
 * given before. What they say holds behind all that was given so far, and perhaps behind some that
 * is given later: that only repeats, in its order, what led there.
 */
enum journal_batch_kind {
    JOURNAL_CHANGES, /* of the log, or an entry */
    JOURNAL_IMAGES,  /* JOB records: jobs as they are; their rows are made so, without a row of
                        changes */
    JOURNAL_ABSENT,  /* GONE records: no such job is there, and if its row is unfinished it ends */
    JOURNAL_RESYNC_BEGINS, /* no records: noted in the database, … */
    JOURNAL_RESYNC_ENDS,   /* … until all has been said */
};

/* One batch on its way: the journal's from give() on, which frees it by mem_free(). */
struct journal_batch {
    struct queue_node place;
    enum journal_batch_kind kind;
    bool numbered; /* of the log, or an entry */
    uint64_t number;
    int64_t clock_us; /* when it was written */
    uint32_t payload_bytes;
    uint32_t records;
    size_t bytes; /* header and records, as batch_walk_init() takes them: */
    /* Of a feed of several streams: which one, and its entry that this batch has. */
    uint32_t stream;
    uint64_t entry, mark;
    char at[];
};

/* Where the database stands in a stream; 0: nowhere. */
struct journal_stream {
    uint64_t entry, mark;
};

enum journal_phase {
    JOURNAL_AWAY,    /* no connection: it tries again and again */
    JOURNAL_WRITES,  /* what is given is being committed */
    JOURNAL_REFUSES, /* the database is there, but its tables or rights are not as needed: it looks
                        again every few seconds */
    JOURNAL_FENCED,  /* somebody else writes for this store: it writes nothing any more */
    JOURNAL_STOPPED, /* journal_verbs::stop: the two are out of step */
};

enum { JOURNAL_WHY_MAX = 200, JOURNAL_ADVICE_MAX = 160, JOURNAL_STORE_BYTES = 16 };

struct journal_status {
    enum journal_phase phase;
    bool known;           /* its cursor has been read, so that `done` is one */
    bool made;            /* the cursor was made, at journal_begin::batch, perhaps in an earlier
                             life, and nothing was committed since */
    uint64_t done;        /* batches up to this one are committed in the database */
    int64_t oldest_us;    /* clock of the oldest batch that it holds; 0: it holds none */
    uint64_t held_bytes;  /* of batches that it holds */
    uint64_t groups;      /* transactions committed */
    uint64_t job_rows;    /* rows of jobs written */
    uint64_t log_rows;    /* rows of changes written */
    uint64_t rejected;    /* rows that the database refused, set aside */
    uint64_t connections; /* made so far */
    bool resyncing;   /* a resync was begun there, perhaps in an earlier life, and has not ended */
    uint64_t resyncs; /* ended since begin() */
    uint64_t epoch;   /* of its cursor, if that is known */
    char why[JOURNAL_WHY_MAX];       /* not WRITES: a clause for people, without passwords */
    char advice[JOURNAL_ADVICE_MAX]; /* … and what to do; empty: nothing is known */
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

/* Which store, and where it stands. */
struct journal_begin {
    uint8_t store[JOURNAL_STORE_BYTES];
    uint64_t batch; /* where a new cursor begins */
    /* Of again(): a resync begins, so that the database's cursor is set to `batch`, whatever it
       was. Of streams it then stands nowhere. */
    bool resync;
    int64_t at_us; /* resync: the time */
    /* Batches come from so many streams, whose places the cursor has, too: numbers alone do not say
       where to go on. 0: from a log, which numbers them. */
    uint32_t streams;
};

struct journal_verbs {
    /* Begins to connect. Once, before the first give(). */
    void (*begin)(struct journal *journal, const struct journal_begin *begin);
    /* The next batch. It is held until it is committed: look at held_bytes. */
    void (*give)(struct journal *journal, struct journal_batch *batch);
    void (*status)(struct journal *journal, struct journal_status *out_status);
    /* Begins again after it was stopped or fenced, with nothing held, and another `begin`. False:
       what it did before has not ended; to be asked again. Then all is as after begin(). */
    bool (*again)(struct journal *journal, const struct journal_begin *begin);
    /* Its streams' places, when the cursor became known. */
    void (*streams)(struct journal *journal, struct journal_stream *out_streams);
    /* The log and the cursor do not fit: nothing is to be written any more. */
    void (*stop)(struct journal *journal, const char *why);
    /* Who reads rows back; lives as long as the journal. What it reads for somebody may be closed
       after the journal. */
    struct restore *(*restore)(struct journal *journal);
    /* Wanted while journal::wants_ends: a job has just ended, before that is durable. */
    void (*ended)(struct journal *journal, struct bytes id, uint64_t seq);
    /* Begins to end, and waits for nothing: what is being committed may be still, the rest of what
       it holds is not. At once: it waits for the database no longer. True: it has ended, and
       close() will not wait. To be asked again until then. */
    bool (*leave)(struct journal *journal, bool at_once);
    /* Waits up to the grace for what it holds to be committed, and ends. */
    void (*close)(struct journal *journal, int64_t grace_us);
};

struct journal {
    const struct journal_verbs *verbs;
    /* Set by who uses it; on the loop's thread. */
    void (*changed)(struct journal *journal); /* the status has */
    /* The batch that has all changes so far. */
    uint64_t (*newest)(const struct journal *journal);
    /* Is a job of this number in memory? False of a far one, too: restore_row::seq is asked for
       when the row is pushed. NULL: that cannot be said at once. */
    bool (*lives)(const struct journal *journal, uint64_t seq);
    void *user; /* of these */
    /* Set by the journal: it reads rows back, and must not give back what ends meanwhile. */
    bool wants_ends;
};

/* Who makes a journal each time that it is this daemon's turn to write: others write, too. */
struct journal_maker {
    struct journal *(*make)(struct journal_maker *maker); /* NULL: it has said why not */
};

/* ---- the plugin ---- */

enum { JOURNAL_PLUGIN_ABI = 7 };
#define JOURNAL_PLUGIN_SYMBOL "laterd_journal_plugin"

enum journal_lead { JOURNAL_LEAD_NONE, JOURNAL_LEAD_OURS, JOURNAL_LEAD_NOT_OURS };

/* [journal]. Strings are good for as long as the process runs. */
struct journal_options {
    const char *url;      /* mysql://…; it, and: */
    const char *password; /* may be a reference (sink/reference.h); empty: the URL's */
    const char *ca;       /* file, or "" */
    bool log_all;         /* rows of all changes; false: of ends */
    bool at_once;         /* replies wait: commit without gathering for long */
    int32_t east_s;       /* of UTC, of the times in the tables */
    int64_t timeout_us;   /* to connect, 1 s … 10 min; of a statement twice as long */
    struct loop *loop;    /* NULL for journal_plugin::check */
    /* What an election says of this laterd now. OURS: nobody else may write for this store, so the
       cursor is taken again from one who took it, late, and has written nothing. NOT_OURS: it is
       not taken. Waits for nothing; from any thread. NULL: there is NONE. */
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
    /* Are the options right, as far as that can be told without the network? ERR_INVALID, or
       ERR_NOT_FOUND: a file or a variable that they name cannot be read now. */
    enum err (*check)(const struct journal_options *options, struct journal_error *out_error);
    /* ERR_INVALID, ERR_IO: out_error. */
    enum err (*open)(const struct journal_options *options, struct journal **out_journal,
                     struct journal_error *out_error);
};

/* What the plugin defines. */
__attribute__((visibility("default"))) extern const struct journal_plugin laterd_journal_plugin;

#endif
