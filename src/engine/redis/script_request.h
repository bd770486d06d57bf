/*
 * Script calls to partitions. A call is sent when the partition's node takes commands, and sent
 * again when its answer was lost or said "not now". done() is called exactly once: with the answer,
 * or with an error when the time is up.
 *
 * A call that is sent again is the same request (script_mark_again), so that the script changes
 * nothing twice. One thread.
 *
 *     script_requests_new ─▶ write the request ─▶ script_requests_send ─▶ … ─▶ done(); it is freed
 */
#ifndef LATERD_ENGINE_REDIS_SCRIPT_REQUEST_H
#define LATERD_ENGINE_REDIS_SCRIPT_REQUEST_H

#include "client/redis/topology.h"
#include "engine/redis/queue_clock.h"
#include "engine/redis/request_group.h"
#include "engine/redis/script_answer.h"

struct script_requests;

enum { CALL_RING_WORDS = SCRIPT_RING / 64 };

struct script_request {
    struct link_call on_link;
    struct list place;  // partition::calls, by number
    struct list unsent; // partition::unsent or ::roomless, a request_group's, or nowhere
    struct list held;   // replicas::waiting or ::gathered: its reply waits for replicas
    struct script_request *next_spare;
    struct script_requests *calls;
    struct script_call id;
    struct buf request;
    /* A reserve: the call goes on beyond its deadline until its outcome is known, because otherwise
       no consumer would have the reserved jobs; or until script_requests_give_up(). */
    bool at_most_once;
    bool resent;      /* its answer was lost: the script may have run */
    bool importing;   /* see script_mark_importing */
    bool urgent;      /* it opens the partition, so it is sent before that is open */
    bool changes;     /* its answer waits for replicas */
    bool probes;      /* too few replicas were there: causes a WAIT, but its answer does not wait */
    bool reads_clock; /* the time in its answer is not clamped to the bounds */
    bool in_ring;     /* needs a place in the ring; false: made by script_requests_new_unkept() */
    /* SCRIPT_PUSH, SCRIPT_END, SCRIPT_RESERVE (of one topic): may be joined into one call with
       others; 0: is sent alone. */
    enum script_kind joins;
    uint32_t jobs;    /* a reserve: its max; a push: how many reserved jobs cost as much */
    uint64_t id_hash; /* of the client's id, if `joins`; 0: there is none */
    int64_t deadline_us;
    int64_t retry_at_us;
    struct node *sent_to, *answered_by;
    struct node *addressed; /* the partition's node then, which may have redirected it (ASK) */
    redisReply *reply;
    /* Called with the outcome. The parts are borrowed until it returns. It may make new calls. */
    void (*done)(void *owner, struct script_request *call, enum err err, const struct bytes *parts,
                 uint32_t count);
    void *owner;
    /* For `at_most_once`: called once at the deadline if the outcome is unknown. May be NULL. */
    void (*on_timeout)(void *owner);
};

struct partition {
    struct script_requests *requests;
    struct list calls;                    // call::place: not answered yet, by number
    struct list unsent;                   // call::unsent
    struct list roomless;                 // call::unsent: wait for a place in the ring
    struct list behind;                   // script_requests::behind: some unsent ones can be sent
    struct timer retry;                   /* for the earliest script_request::retry_at_us */
    struct timer deadline;                /* armed while there are calls: that of the oldest */
    uint64_t number;                      /* of the newest request */
    uint64_t used;                        /* how many requests had a place in the ring so far */
    uint64_t ring_taken[CALL_RING_WORDS]; /* a bit for each place: a call has it */
    uint32_t ring_from;                   /* the word where the search for a free place begins */
    uint32_t places;                      /* places of the ring that are registered in Redis */
    uint32_t places_wanted;               /* places that the next `open` should register */
    unsigned slot;
    bool halfway;      /* an error may have stopped a script between two writes: see `mend` */
    struct timer mend; /* armed after such an error: opens the partition, which checks its jobs, if
                          it was not opened before */
    struct queue_clock clock;
    bool clock_pending;         /* a request for the clock is under way: see clock_sync.h */
    bool clock_again;           /* the clock must be read once more behind that */
    int64_t clock_sent_us;      /* when it was sent last */
    int64_t clock_read_us;      /* when the clock was read last */
    int64_t opened_us;          /* when it was opened last */
    const struct node *open_at; /* the node where it is open; NULL: it is not open */
};

/* Answers that wait for a node's replicas: one WAIT is sent behind a pipeline of calls. */
struct replicas {
    struct link_call wait;
    struct list gathered; // call::held: sent since the last WAIT
    struct list waiting;  // call::held: sent before the WAIT that is under way
    bool pending;         /* a WAIT is under way */
    bool shortage_logged; /* that there are too few was logged */
    bool probe;           /* a WAIT should be sent although no answer waits for it */
    struct node *node;
    struct script_requests *calls;
};

/* Loading of a node's scripts, once for all calls that got NOSCRIPT. */
struct loading {
    struct link_call last; /* the last of its SCRIPT LOADs */
    bool under_way;
    bool refused; /* the last attempt failed: no immediate retry */
};

/* An error by which a call failed for good. */
struct script_refusal {
    const struct node *by; /* NULL: there was none */
    int64_t us;
    char text[160];
};

struct script_requests_options {
    struct script_space *space; /* whose ahead_us is kept here */
    struct topology *topology;
    struct loop *loop;
    int64_t timeout_us;
    unsigned wait_replicas; /* 0: answer at once */
    bool apart;             /* a cluster: no call may be for several partitions */
    /* The partition must be opened (again): it was closed, or its ring needs more places. */
    void (*to_open)(void *owner, uint32_t partition);
    /* The clock of a partition differs from the estimate: times computed by it are wrong. */
    void (*clock_leapt)(void *owner);
    void *owner;
};

struct script_requests {
    struct script_requests_options options;
    struct partition *partitions;
    struct replicas *replicas;    /* one for each node, if wait_replicas */
    struct loading *loading;      /* one for each node */
    struct request_group *groups; /* one for each node */
    bool apart;                   /* options.apart, or a node has reported a cluster */
    struct script_request *spare; /* by next_spare: free ones, for reuse */
    unsigned spare_count;
    struct list behind;            // partition::behind
    struct timer next_slice;       /* armed for the next turn when slice_left is used up */
    int64_t slice_left;            /* bytes of `behind` that may still be sent in this turn */
    bool left;                     /* script_requests_leave() was called */
    uint64_t retried, failed;      /* counts, for the log */
    int64_t ran_on_us;             /* see clock_sync_forgotten(); 0: never */
    struct script_refusal refusal; /* the last one */
    int64_t logged_us;             /* when an error was logged last, … */
    int64_t leapt_us;              /* … when a leap of a clock was logged last, … */
    const struct node *leapt_node; /* … and of which node */
};

void script_requests_init(struct script_requests *calls,
                          const struct script_requests_options *options);
/* After the topology was closed, so that no call is under way. Answers all calls with ERR_AGAIN. */
void script_requests_fini(struct script_requests *calls);

/*
 * Makes a call, whose `request` the caller writes. While all places of the partition's ring are
 * taken, calls are sent in their order as places become free; a call that waits until its deadline
 * is answered with ERR_AGAIN. Never NULL.
 */
struct script_request *script_requests_new(struct script_requests *calls, uint32_t partition);
/* The same for scripts whose answers are not kept in the ring, like open and heartbeat: they need
 * no place. */
struct script_request *script_requests_new_unkept(struct script_requests *calls,
                                                  uint32_t partition);
/* Sends the call, as soon as that is possible. */
void script_requests_send(struct script_request *call, void *owner,
                          void (*done)(void *owner, struct script_request *call, enum err err,
                                       const struct bytes *parts, uint32_t count));

/*
 * Converts the answer's next_us to our clock (INT64_MAX: never). It is counted from the answer on,
 * as a difference of Redis' times, because the estimate of Redis' clock can be wrong by
 * milliseconds, and a call that comes too early would be repeated until the time has come. The
 * result is late by one round trip at most, or early by the part of it above two milliseconds.
 */
int64_t script_request_next_us(const struct script_request *call,
                               const struct script_answer *answer);

/* The node takes commands from now on: loads the scripts, has its partitions opened, and sends
   calls that need not wait for that. */
void script_requests_node_ready(struct script_requests *calls, struct node *node);
/* The connection to the node has ended, and it may never be connected to again. Answers that waited
   for its replicas fail: a WAIT on another connection does not cover them. */
void script_requests_node_lost(struct script_requests *calls, const struct node *node);
/* The node that has the partition now, if it takes commands; else NULL. */
struct node *script_requests_node(const struct script_requests *calls, uint32_t partition);
bool script_requests_is_open(const struct script_requests *calls, uint32_t partition);
/* Did the partition's node have fewer than wait_replicas replicas at the last WAIT? */
bool script_requests_lacks_replicas(const struct script_requests *calls, uint32_t partition);
/* The partition was opened at this node, with so many ring places registered. If it is still there,
   sends the calls that waited. */
void script_requests_open(struct script_requests *calls, uint32_t partition,
                          const struct node *node, uint32_t places);
/* The number of ring places that `open` must register. */
uint32_t script_requests_places(const struct script_requests *calls, uint32_t partition);
/* Do calls wait for more ring places than are registered, so that it must be opened again? */
bool script_requests_wants_places(const struct script_requests *calls, uint32_t partition);
/* The answers that the partition kept for us are gone, so an `at_most_once` call that was executed
   already would be executed again, and take other jobs. Ends such calls. */
void script_requests_give_up(struct script_requests *calls, uint32_t partition);
/* It must be opened again: see partition_init.h. */
void script_requests_close(struct script_requests *calls, uint32_t partition);
/* A script may have been stopped between two writes: has the partition opened, which checks all its
   jobs, within seconds. */
void script_requests_halfway(struct script_requests *calls, uint32_t partition);
/* Partitions may have other nodes now: sends waiting calls that can be sent. */
void script_requests_moved(struct script_requests *calls);
/* Are there unanswered reserves or changes? */
bool script_requests_pending(const struct script_requests *calls);
/* From now on calls are sent once, and not again. */
void script_requests_leave(struct script_requests *calls);

/* The end of a turn: sends WAITs behind the calls. Before topology_flush(). */
void script_requests_flush(struct script_requests *calls);

#endif
