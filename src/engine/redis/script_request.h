/*
 * Calls of scripts, each on its way to the partition that it is for: sent when that partition's
 * node takes commands, sent again when the answer got lost or said "not now", and told to who
 * asked exactly once: an answer, or an error when the time is up.
 *
 * A call that was sent again is the same request (script_mark_again): the script does nothing
 * twice. One thread.
 *
 *     script_requests_new ─▶ write the request ─▶ script_requests_send ─▶ … ─▶ done(); it is freed
 */
#ifndef LATERD_ENGINE_REDIS_SCRIPT_REQUEST_H
#define LATERD_ENGINE_REDIS_SCRIPT_REQUEST_H

#include "client/redis/topology.h"
#include "engine/redis/queue_clock.h"
#include "engine/redis/request_group.h"
#include "engine/redis/script.h"

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
    bool at_most_once; /* until somebody knows what it did: its reserved jobs would be nobody's. Or
                  until nobody can know any more: see script_requests_give_up */
    bool resent;       /* its answer got lost: it may have been done */
    bool asked;        /* see script_mark_asked */
    bool urgent;       /* does not wait for the partition to be open: it opens it */
    bool changes;      /* its answer waits for replicas */
    bool probes; /* where replicas were too few: looks whether they are back, but does not wait */
    bool reads_clock; /* its answer's time is not held between bounds */
    bool in_ring; /* has a place in the ring: all but those made by script_requests_new_unkept */
    /* SCRIPT_PUSH, SCRIPT_END, SCRIPT_RESERVE (of one topic): may go in one call with others of
       that kind; 0: goes alone. */
    enum script_kind joins;
    uint32_t jobs;    /* that it reserves, at most; of a push: how many of these it is as dear as */
    uint64_t id_hash; /* of the client's id, if it joins others; 0: it has none */
    int64_t deadline_us;
    int64_t retry_at_us;
    struct node *sent_to, *answered_by;
    struct node *addressed; /* which had the partition then; it may have sent us on (ASK) */
    redisReply *reply;
    /* Who is told. The parts are borrowed until it returns. It may make new calls. */
    void (*done)(void *owner, struct script_request *call, enum err err, const struct bytes *parts,
                 uint32_t count);
    void *owner;
    /* Of an `at_most_once`: the time is up, and nobody knows yet. Once; may be NULL. */
    void (*on_timeout)(void *owner);
};

struct partition {
    struct script_requests *requests;
    struct list calls;                    // call::place: not answered yet, by number
    struct list unsent;                   // call::unsent
    struct list roomless;                 // call::unsent: wait for a place in the ring
    struct list behind;                   // script_requests::behind: unsent ones can go, in slices
    struct timer retry;                   /* to send what waits for its time to be sent again */
    struct timer deadline;                /* armed while there are calls: the oldest is too old */
    uint64_t number;                      /* of the newest request */
    uint64_t used;                        /* requests that keep an answer, ever: clients' */
    uint64_t ring_taken[CALL_RING_WORDS]; /* a bit for each place: a call has it */
    uint32_t ring_from;                   /* the word in which to look for a free one first */
    uint32_t places;                      /* of the ring, which Redis knows of */
    uint32_t places_wanted;               /* more: `open` is to say so */
    unsigned slot;
    bool halfway;      /* an error may have stopped a script between two writes: see `mend` */
    struct timer mend; /* armed after such an error: to open it, and look at its jobs, if nothing
                          else has had it opened by then */
    struct queue_clock clock;
    bool clock_asked;           /* is under way: see clock_sync.h */
    int64_t clock_asked_us;     /* last */
    int64_t opened_us;          /* last */
    const struct node *open_at; /* the script `open` was answered there; NULL: nowhere */
};

/* What to do for replicas: answers of a pipeline wait for one WAIT behind it. */
struct replicas {
    struct link_call wait;
    struct list gathered; // call::held: sent since the last WAIT
    struct list waiting;  // call::held: sent before the WAIT that is under way
    bool asked;
    bool said;  // that there are too few was logged
    bool probe; // a WAIT is wanted although nothing waits for it
    struct node *node;
    struct script_requests *calls;
};

/* A node's scripts: loaded once for all who meet NOSCRIPT meanwhile. */
struct loading {
    struct link_call last; /* of its SCRIPT LOADs */
    bool under_way;
    bool refused; /* the last time; trying at once again would only keep both busy */
};

struct script_requests_options {
    struct script_space *space; /* whose ahead_us is kept here */
    struct topology *topology;
    struct loop *loop;
    int64_t timeout_us;
    unsigned wait_replicas; /* 0: answer at once */
    bool apart;             /* a cluster: no call may be for several partitions */
    /* The partition is to be opened: it is not, any more, or its ring wants more places. */
    void (*to_open)(void *owner, uint32_t partition);
    /* The clock of a partition is another than we believed: what was planned by it is wrong. */
    void (*clock_leapt)(void *owner);
    void *owner;
};

struct script_requests {
    struct script_requests_options options;
    struct partition *partitions;
    struct replicas *replicas;    /* one for each node, if wait_replicas */
    struct loading *loading;      /* one for each node */
    struct request_group *groups; /* one for each node */
    bool apart;                   /* as told, or as a node said */
    struct script_request *spare; /* by next_spare: their memory is used again */
    unsigned spare_count;
    struct list behind;       // partition::behind
    struct timer next_slice;  /* armed after a slice, for the next turn */
    int64_t slice_left;       /* of what may be sent of `behind` in this turn, in bytes */
    bool left;                /* see script_requests_leave */
    uint64_t retried, failed; /* counts, for the log */
    int64_t ran_on_us;        /* see clock_sync_forgotten(); 0: never */
    int64_t said_us;          /* when an error was logged last, */
    int64_t leapt_us;         /* and that a clock has leapt: */
    const struct node *leapt_node;
};

void script_requests_init(struct script_requests *calls,
                          const struct script_requests_options *options);
/* The topology is closed before: no call is under way any more. Tells all owners ERR_AGAIN. */
void script_requests_fini(struct script_requests *calls);

/*
 * `request` is empty, to be written. If as many to this partition are unanswered as its ring has
 * places, the call is sent as soon as one of them is answered, in the order in which they came; who
 * has waited for its time-out is told ERR_AGAIN. Never NULL.
 */
struct script_request *script_requests_new(struct script_requests *calls, uint32_t partition);
/* The same for scripts that keep no answer in the ring, like open and heartbeat: these need no
 * place. */
struct script_request *script_requests_new_unkept(struct script_requests *calls,
                                                  uint32_t partition);
void script_requests_send(struct script_request *call, void *owner,
                          void (*done)(void *owner, struct script_request *call, enum err err,
                                       const struct bytes *parts, uint32_t count));

/*
 * By our clock, when that comes which the answer says comes next (INT64_MAX: nothing does). Counted
 * from the answer on, by Redis' own time: what we believe of its clock may be wrong by
 * milliseconds, and who comes that much too early would ask again and again until it is time. Late
 * by the way there and back at most, or early by what of that is above two milliseconds.
 */
int64_t script_request_next_us(const struct script_request *call,
                               const struct script_answer *answer);

/* The node takes commands from now on: loads the scripts; its partitions are to be opened. What
   waits is sent, if it does not wait for that. */
void script_requests_node_ready(struct script_requests *calls, struct node *node);
/* The node that has the partition now, if it takes commands; else NULL. */
struct node *script_requests_node(const struct script_requests *calls, uint32_t partition);
bool script_requests_is_open(const struct script_requests *calls, uint32_t partition);
/* Its node has too few replicas for wait_replicas, as far as we know. */
bool script_requests_lacks_replicas(const struct script_requests *calls, uint32_t partition);
/* It was opened, by a call addressed to this node that spoke of so many places: if it is still
   there, what waited goes out. */
void script_requests_open(struct script_requests *calls, uint32_t partition,
                          const struct node *node, uint32_t places);
/* Of the ring, as `open` is to say, so that Redis knows what to forget with us. */
uint32_t script_requests_places(const struct script_requests *calls, uint32_t partition);
/* Calls wait for more places than it has said: it is to be opened again. */
bool script_requests_wants_places(const struct script_requests *calls, uint32_t partition);
/* The answers that the partition kept for us are gone: an `at_most_once` that was done already
   would be done once more, and take other jobs. Gives up those. */
void script_requests_give_up(struct script_requests *calls, uint32_t partition);
/* It must be opened again: see partition_init.h. */
void script_requests_close(struct script_requests *calls, uint32_t partition);
/* A script may have been stopped between two writes: its next opening looks at all jobs, in some
   seconds at the latest. */
void script_requests_halfway(struct script_requests *calls, uint32_t partition);
/* Partitions may have other nodes now: sends what waits and can go. */
void script_requests_moved(struct script_requests *calls);
/* Reserves or changes are not answered yet. */
bool script_requests_pending(const struct script_requests *calls);
/* From now on only what is new is sent, once. */
void script_requests_leave(struct script_requests *calls);

/* The end of a turn: WAITs behind what was sent. Before topology_flush. */
void script_requests_flush(struct script_requests *calls);

#endif
