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
#include "server/http/misdirected.h"
#include "server/protocol.h"
#include "server/push.h"

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
    reference_probe *probe;           /* tries what clients' settings refer to, on the worker's
                                         thread; NULL: it is not tried */
    struct sink *webhook;             /* of targets with a URL; NULL: none can be sent to */
    const struct sink_table *brokers; /* of all others; NULL: none */
    struct restore *restore;          /* the journal's; NULL: there is none */
    struct journal_control *journal;  /* of the engine with one; NULL: there is none */
    char host[SERVER_HOST_MAX];       /* this machine's first address; empty: not known */
    struct member *member;            /* of [member]; NULL: there is no election. Borrowed */
    const char *advertise;            /* where clients reach us, or "" */
    uint64_t led_epoch;               /* we lead with this one: see server_leads(); 0: not asked */
    bool waits;                       /* `engine` is that of who waits: see engine/waiting */
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
    uint64_t intake[3]; /* messages that brokers brought, by enum intake_verdict */
    /* By who asked (our own are the last row) and what for: see server_submit(). */
    uint64_t commands[PROTOCOL_KINDS + 1][CMD_KINDS];
};

/* Of restores of all rows; the last one's, of which others are sums. */
struct restore_counts {
    bool runs, failed;
    uint64_t of; /* rows that there were to read when it began; 0: not known */
    uint64_t rows, created, kept, refused;
    int64_t begun_us, ended_us; /* 0: none since the start */
    uint64_t all_rows, all_created, all_kept,
        all_refused; /* since the start, of single ones, too */
};

struct server {
    struct server_options options;
    struct loop *loop;
    struct acceptor acceptor; /* loop::acceptor */
    struct loop_share share;  /* what is left of the budget: see session.c */
    struct worker *worker;
    struct engine *engine;
    struct registry *registry; /* the settings of topics */
    struct server_push push;
    struct schedule retry;  /* of jobs without one in topics without one: [defaults] */
    struct pool sessions;   // of all protocols, see protocol.h
    struct pool requests;   // struct request
    struct list dirty;      // session::dirty: has bytes to send
    struct list all;        // session::all
    struct list clearings;  // clearing::place: its next command can be asked
    struct list replays;    // replay::place: the same
    struct list listings;   // listing::place: the same
    struct list clear_alls; // clear_all::place: the same
    struct list restores;   // restoring::place: all of them
    struct restore_counts restored;
    struct list offloads;   // offload::waiting: work that the worker cannot take yet
    struct list batches;    // batch::place: those that are not submitted whole
    struct list requeues;   // requeue::place: what clients that have gone left behind
    struct arena scratch;   /* of the request being decoded */
    struct discard discard; /* what connections and requests had, some pieces a turn */
    struct budget budget;   /* of the turn's present stage */
    int64_t plan_ns;        /* of this turn, of which stages have shares */
    struct budget_meter meter;
    int64_t visit_ns; /* the connection being served stops when so much budget is left */
    int64_t started_us;
    int64_t date_s;
    char date[32];
    size_t date_len;
    bool draining;
    bool refusing_pushes; /* see server_refuse_pushes */
    bool turn_again;      /* the next turn is wanted at once */
    struct server_counts counts;
    struct buffers buffers;
    struct misdirected misdirected;
    struct buf hosts; /* our names, for host_is_known() */
    struct beanstalk_shared beanstalk;
    struct snowflake snowflake; /* of the ids that are made for clients of sdmq */
};

struct server *server_new(const struct server_options *options);
void server_free(struct server *server); /* drops the connections that are left */
/*
 * This server has lost the lead and will be freed soon: drops its connections and sends nothing
 * more. It has no turns any more, and stays only for deliveries that sinks still have; meanwhile
 * another server may use the loop.
 */
void server_leave(struct server *server);

/* Runs one turn; returns when the next one should begin, for server_sleep(). See turn.c. */
int64_t server_turn(struct server *server);

void server_sleep(struct server *server, int64_t until_us);
/* The upper bound of a bucket of server_counts::turn_us, in microseconds; INT64_MAX: the last. */
int64_t turn_bound_us(unsigned bucket);
/* What is planned for a turn, of which the stages have shares, when `excluded_next_ns` of it are
   taken by work with a bound of its own. Both together stay below what all shares of `turn_ns` are.
 */
int64_t turn_plan_ns(int64_t turn_ns, int64_t excluded_next_ns);

/*
 * May this server still do what only a leader may? False once the deadline of led_epoch has passed:
 * then a turn does nothing, and nothing more is sent. The server must then be freed, and what it
 * had to send is lost. O(1).
 */
bool server_leads(const struct server *server);

/* Refuses pushes from now on, and does everything else (SIGUSR1, like beanstalkd's drain mode). */
void server_refuse_pushes(struct server *server);

/* Begins to shut down: not ready, no new connections, parked polls are answered, idle connections
   closed. */
void server_drain(struct server *server);
/* Are all clients answered and their connections closed? */
bool server_drained(const struct server *server);

/*
 * One turn of commands that take many turns: takes each item off the list and calls `step` for it,
 * until the budget is spent, but for one item at least. Items that `step` adds wait for the next
 * turn. `step` returns true if its item must go on next turn, because the budget is spent: the item
 * goes back to the list, and no other one is stepped. True: there is more to do.
 */
bool server_step_each(struct server *server, struct list *items, bool (*step)(struct list *item));

/* Frees some memory of sessions and requests that are gone. True: there is more. */
bool server_trim(struct server *server);

unsigned server_sessions(const struct server *server);

/* This server's address in the ids that it makes for clients of sdmq: [sdmq] host, or what
   server_options has. */
const char *server_host(const struct server *server);

/* This second's Date header. */
struct bytes server_date(struct server *server);

#endif
