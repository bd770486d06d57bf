/*
 * The daemons that serve this queue, as this one knows them: who lives, and who makes each
 * partition's due jobs ready.
 *
 * Each daemon says once a second that it lives (a heartbeat), in one call to partition 0. So an
 * idle daemon sends one command a second, however many partitions there are. What is news (it has
 * come, leaves, serves or does not any more) all hear at once by a notice; else one daemon alone
 * does, the next in the order in which they came: it watches that one. When it misses a heartbeat
 * it looks at all that Redis has noted, and who is silent is told to all.
 *
 * Nobody holds a lease: each daemon works out by itself who owns a partition, by rendezvous hashing
 * (Thaler and Ravishankar, 1998) among those that are not silent. Daemons whose views differ for a
 * moment may both think that they own a partition, or neither: two owners do no harm, and none only
 * makes jobs late. While our own heartbeats are not answered we do not know who is silent: then we
 * own all.
 *
 * Ordered topics (order by key) are each sent by one daemon, chosen in the same way, and there two
 * would do harm. So a daemon sends them only while all others know of it (it has served without a
 * break for as long as they may take to hear of it) and cannot have taken it for silent; else it
 * stops at once. Who is alone waits for nobody.
 *
 * A silent daemon's partitions are another's. One that was silent for alive_us is dead, and what it
 * held is given back; but only a daemon that was itself in contact so long without a pause may say
 * so: else a Redis that comes back would make all others look dead. And only one that has looked
 * after that time: the notice that the silent one is back may be lost.
 */
#ifndef LATERD_ENGINE_REDIS_MEMBERS_H
#define LATERD_ENGINE_REDIS_MEMBERS_H

#include "engine/redis/script_request.h"

enum { MEMBERS_HEARTBEAT_US = 1000 * 1000 };

struct member {
    char name[SCRIPT_NAME];
    enum script_how how;
    int64_t heard_us; /* when it surely lived, by our clock */
    bool silent;
    bool watched; /* we are told of each of its heartbeats, or should be */
};

/* What the answer to a heartbeat says besides who lives; borrowed. */
struct members_told {
    const struct bytes *policy; /* now and then: by which Redis may evict keys, empty if it may not;
                                   else NULL */
    uint64_t settings_changes;  /* see script_settings_mark() */
    bool journal_behind;        /* pushes are refused: see script_journal_behind() */
};

struct members_options {
    const struct script_space *space;
    struct script_requests *calls;
    struct loop *loop;
    int64_t alive_us; /* a daemon that is silent for so long is dead */
    /* Do we reach all partitions now? If not, somebody else had better own them. */
    bool (*serves)(void *owner);
    /* A heartbeat of ours was answered. */
    void (*heartbeat_answered)(void *owner, const struct members_told *told);
    /* We were silent for so long, alive_us or more, that others may have taken us for dead. */
    void (*missed)(void *owner, int64_t silent_us);
    /* What members_own(), members_know() and `gone` say may have changed; `heartbeats` has. */
    void (*changed)(void *owner);
    void *owner;
};

struct members {
    struct members_options options;
    struct member *others;
    uint32_t count, cap;
    uint64_t gone; /* dead or left, ever: each calls for forgetting, see promoter.h */
    uint64_t
        heartbeats; /* ours that were answered: we heard one of another meanwhile, or of ours */
    bool *ours;     /* for each partition */
    uint32_t asked; /* heartbeats without an answer yet */
    bool started, leaving;
    bool wants_look;   /* with the next heartbeat */
    int64_t looked_us; /* the last look that was answered was sent then; 0: none was */
    enum script_how how;
    int64_t heartbeat_sent_us;
    struct timer heartbeat; /* the next one; armed unless one is under way */
    int64_t steady_us;      /* since when we serve and are answered without a break; 0: we do not */
    uint64_t order_changes; /* see members_order_changes() */
    uint64_t order_view;    /* what it was counted of */
    int64_t contact_us;     /* our last heartbeat was answered; 0: none was */
    int64_t
        reached_us;   /* that heartbeat was sent: since then, at the latest, others think we live */
    int64_t since_us; /* since when all of ours were answered in time */
    struct timer
        look; /* when one that is watched is late, somebody is dead, or our answer is late */
};

void members_init(struct members *members, const struct members_options *options);
void members_fini(struct members *members);

/* Redis is there and fit: says that we live. */
void members_start(struct members *members);
/* A notice: how a daemon is. `to_us`: it was told to us alone. */
void members_heard(struct members *members, const struct script_member *said, bool to_us);
/* Notices may have been missed: asks for all with the next heartbeat. */
void members_look(struct members *members);
/* Says how we are at once; nothing before members_start(). */
void members_heartbeat(struct members *members);
/* Tells the other daemons that this one leaves. */
void members_leave(struct members *members);

/* Are we to make the partition's due jobs ready? */
bool members_own(const struct members *members, uint32_t partition);
/* As engine_verbs::keeps_order, of the topic with this hash. O(daemons) */
uint64_t members_keep_order(const struct members *members, uint64_t topic_hash);
/* Grows when that may have changed. */
uint64_t members_order_changes(const struct members *members);
/* Have we heard of others for long enough to say who is dead? */
bool members_know(const struct members *members);
/* Appends the names of all who live, ourselves among them. */
void members_living(const struct members *members, struct buf *out);

#endif
