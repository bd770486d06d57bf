/*
 * The server: connections on one side, an engine on the other, and one thread between them.
 * turn.c has the order of a turn; this header has what all of server/ shares.
 */
#ifndef LATERD_SERVER_SERVER_H
#define LATERD_SERVER_SERVER_H

#include "base/arena.h"
#include "base/budget.h"
#include "base/list.h"
#include "base/pool.h"
#include "core/core.h"
#include "dispatch/registry.h"
#include "port/clock.h"
#include "port/engine.h"
#include "port/intake.h"
#include "port/journal_control.h"
#include "port/loop.h"
#include "port/reference_probe.h"
#include "port/restore.h"
#include "port/worker.h"
#include "proto/api/api.h"
#include "proto/sdmq/job_id.h"
#include "server/beanstalk/shared.h"
#include "server/buffers.h"
#include "server/config/config.h"
#include "server/misdirected.h"
#include "server/protocol.h"
#include "server/pump_stage.h"
#include "server/turn_meter.h"

struct member;
struct session;

enum { SERVER_LISTENERS_MAX = 64, SERVER_STATUS_MAX = 600, SERVER_HOST_MAX = 48 };

struct server_listener {
    enum protocol_kind protocol;
    enum api_dialect dialect; /* HTTP: who owns the paths outside /v1 */
    bool any_host;            /* HTTP: see struct api_site */
};

/* Made by assemble_server() (server/assemble.h). */
struct server_options {
    const struct config *config; /* read where a key is used; borrowed for the server's life */
    struct loop *loop;
    struct worker *worker; /* NULL: everything is done in the turn */
    struct engine *engine;
    reference_probe *probe;           /* checks references in clients' settings, on the worker's
                                         thread; NULL: they are not checked */
    struct sink *webhook;             /* of targets with a URL; NULL: none can be sent to */
    const struct sink_table *brokers; /* of all others; NULL: none */
    struct restore *restore;          /* the journal's; NULL: there is none */
    struct journal_control *journal;  /* of the engine with one; NULL: there is none */
    char host[SERVER_HOST_MAX];       /* this machine's first address; empty: not known */
    struct member *member;            /* of [member]; NULL: there is no election. Borrowed */
    const char *advertise;            /* where clients reach us, or "" */
    uint64_t led_epoch;               /* the epoch that we lead with: server_leads(); 0: none */
    bool waits;                       /* `engine` refuses everything: engine/waiting */
    struct server_listener listeners[SERVER_LISTENERS_MAX];
    struct api_limits api;
    struct http_limits http;
    struct core_limits limits; /* shown in /metrics */
    uint64_t hash_key;         /* random: keys the hash tables */
    uint64_t instance;         /* random: the id of this process in beanstalkd's statistics */
    int64_t turn_ns;           /* work that a turn is planned for, see turn.c; 0: the default */
};

enum { TURN_BUCKETS = 8 };

/* Counters for /metrics; only ever grow. */
struct server_counts {
    uint64_t turn_us[TURN_BUCKETS]; /* turns by how long they took: see turn_bound_us */
    uint64_t turn_us_sum;
    uint64_t accepted, refused, timed_out, evicted, turns, undelivered, abandoned;
    uint64_t requests[SERVER_STATUS_MAX]; /* by HTTP status */
    uint64_t intake[INTAKE_VERDICTS];     /* messages that brokers brought */
    /* By protocol (the server's own commands are the last row) and kind: see server_submit(). */
    uint64_t commands[PROTOCOL_KINDS + 1][CMD_KINDS];
};

/* Rows of a journal that were read, and what became of their jobs. */
struct restore_tally {
    uint64_t rows, created, kept, refused;
};

/* The last restore of all rows, and sums over all restores. */
struct restore_counts {
    bool runs, failed;
    uint64_t of;                /* rows to read when it began; 0: not known */
    int64_t begun_us, ended_us; /* 0: none since the start */
    struct restore_tally last;
    struct restore_tally all; /* since the start; restores of single jobs, too */
};

/* Memory of answers that were sent, for the next ones: see session_out(). */
enum { SPARE_OUTS = 16, SPARE_OUT_MAX_BYTES = 16 * 1024 };
struct spare_outs {
    struct buf bufs[SPARE_OUTS];
    unsigned count;
};

struct server {
    struct server_options options;
    struct loop *loop;
    struct acceptor acceptor; /* loop::acceptor */
    struct loop_share share;  /* charges the loop's work to `budget`: see session.c */
    struct worker *worker;
    struct engine *engine;
    struct registry *registry; /* the settings of topics */
    struct pump_stage pump_stage;
    struct schedule retry; /* of jobs without one in topics without one: [defaults] */
    struct pool sessions;  // of all protocols, see protocol.h
    struct pool requests;  // struct request
    struct list all;       // session::all
    /* Whose session::all is told next that the server drains; server::all: then the engine is;
       NULL: there is no drain, or all know. */
    struct list *drain_next;
    struct spare_outs spare_outs;
    struct restore_counts restored;
    struct list offloads;        // offload::waiting: work that exceeds the worker's memory for now
    struct list intakes;         // server_intake::place: all of them
    struct arena scratch;        /* of the request being decoded */
    struct buf answer_body;      /* of the HTTP response being written */
    struct buf spare_deliveries; /* request::deliveries of one that is over, for the next */
    /* What each turn looks at lies side by side, in few cache lines. */
    struct list batches;    // batch::place: those that are not completely submitted
    struct list requeues;   // requeue::place: reservations of clients that have gone
    struct list clearings;  // clearing::place: its next command can be submitted
    struct list clear_alls; // clear_all::place: the same
    struct list replays;    // replay::place: the same
    struct list listings;   // listing::place: the same
    struct list scrapes;    // scrape::place: the same
    struct list restores;   // restoring::place: all of them
    struct list dirty;      // session::dirty: has bytes to send
    struct discard discard; /* memory of ended connections and requests, freed in pieces */
    struct budget budget;   /* of the turn's present stage */
    int64_t percent_ns;     /* a hundredth of the time that the stages of this turn share */
    int64_t visit_ns;       /* the connection being served stops when this much budget is left */
    bool turn_again;        /* the next turn must follow without a sleep */
    bool refusing_pushes;   /* see server_refuse_pushes */
    bool draining;
    struct budget_meter meter;
    struct turn_meter turn_meter;
    int64_t started_us;
    int64_t date_s;
    char date[32];
    size_t date_len;
    struct server_counts counts;
    struct buffers buffers;
    struct misdirected misdirected;
    struct buf hosts; /* our names, for host_is_known() */
    struct beanstalk_shared beanstalk;
    struct snowflake snowflake; /* makes ids for clients of sdmq */
};

/*
 * The options are copied; what they point to is borrowed for the server's life. From now on it is
 * the acceptor of the loop, and its budget that of the engine. Waits for nothing; never NULL.
 */
struct server *server_new(const struct server_options *options);
/* Drops the connections that are left, and waits for the worker. All sinks must be closed. NULL
   does nothing. */
void server_free(struct server *server);
/*
 * This server has lost the lead and will be freed soon: drops its connections and sends nothing
 * more. It must get no more turns; it stays only for deliveries that sinks still have. Meanwhile
 * another server may use the loop.
 */
void server_abandon(struct server *server);
/*
 * After server_abandon(), in place of server_free(), while the thread of a sink hangs: gives back
 * all jobs that connections and deliveries had reserved, and frees nothing that a sink uses.
 * Afterwards the engine may be closed, and the process must end. O(jobs).
 */
void server_give_up(struct server *server);

/* Runs one turn; returns when the next one should begin, for server_sleep(). See turn.c. */
int64_t server_turn(struct server *server);
/* Sleeps until the time (that of loop::now_us) has come or there is something to do. */
void server_sleep(struct server *server, int64_t until_us);
/* The upper bound of a bucket of server_counts::turn_us, in microseconds; INT64_MAX: the last. */
int64_t turn_bound_us(unsigned bucket);
/* The time that the stages of a turn share, if `excluded_next_ns` of the turn are taken by work
   with a bound of its own (budget_exclude_elapsed()). Both together take no longer than all shares
   of `turn_ns`. Pure. */
int64_t turn_plan_ns(int64_t turn_ns, int64_t excluded_next_ns);

/*
 * True: there is no election, or we still lead. False once the deadline of led_epoch has passed:
 * then a turn does nothing, and nothing more is sent. The server must then be freed; answers that
 * it had to send are lost. O(1).
 */
bool server_leads(const struct server *server);

/* Refuses pushes from now on, and does everything else (SIGUSR1, like beanstalkd's drain mode). */
void server_refuse_pushes(struct server *server);

/* Begins to shut down: not ready, no new connections, parked polls are answered, idle connections
   closed. */
void server_drain(struct server *server);
/* True: all clients are answered, and their connections closed. */
bool server_drained(const struct server *server);

/*
 * For commands that take many turns: takes each item off the list and calls `step` for it, until
 * the budget is spent, but for at least one item. Items that `step` adds wait for the next turn.
 * `step` returns true if the budget is spent and its item must go on in the next turn: the item is
 * put back into the list, and no further one is stepped. Returns true: there is more to do.
 */
bool server_step_each(struct server *server, struct list *items, bool (*step)(struct list *item));

/* Bytes of ended connections, and of buffers that were sent, that are not freed yet. */
size_t server_discarded(const struct server *server);
/* Returns some memory of ended sessions and requests to the system. True: there is more. */
bool server_trim(struct server *server);

unsigned server_sessions(const struct server *server); /* open connections */

/* This server's address in the ids that it makes for clients of sdmq: [sdmq] host, or
   server_options::host. */
const char *server_host(const struct server *server);

/* This second's Date header. */
struct bytes server_date(struct server *server);

#endif
