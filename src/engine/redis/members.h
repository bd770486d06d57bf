/*
 * The daemons that serve this queue, as seen by this one: which are alive, and which one promotes
 * the due jobs of each partition (its owner).
 *
 * Each daemon sends a heartbeat once a second, in one call to partition 0: an idle daemon sends one
 * command a second, however many partitions there are. A notice reports state changes of a daemon
 * (it has started, leaves, begins or stops to serve) to all others at once; an ordinary heartbeat
 * is published only to one daemon, the next in the order in which they started, which watches it.
 * If the watching daemon misses a heartbeat, it reads the list of all daemons from Redis, and a
 * silent daemon is reported to all. A daemon that hears of a new one, or of one that is back, reads
 * the list with its next heartbeat, to learn whether it must watch it: else nobody would watch it
 * before it has sent its second heartbeat. So each arrival costs every daemon one list, which is
 * O(N²) records for all N of them; arrivals between two heartbeats cost one together.
 *
 * There are no leases: each daemon computes the owner of a partition by itself, by rendezvous
 * hashing (Thaler and Ravishankar, 1998) among the daemons that are not silent. If views differ for
 * a moment, two daemons or none may think that they own a partition: two owners do no harm, and
 * without an owner jobs are only late. While our own heartbeats are not answered we cannot know
 * which daemons are silent: then we own all partitions.
 *
 * Ordered topics (order by key) are each sent by one daemon, chosen in the same way, and two
 * senders would do harm. So a daemon sends them only while
 *   - no other can consider it silent: its last heartbeat that was answered was sent less than
 *     1.35 s ago. Others do so after 1.4 s (SCRIPT_FRESH_US); the rest is for their clocks;
 *   - all others know of it: it has served for 12 s without a break, and each other that may send
 *     reads the list every 10 s, and is answered within 1.4 s. A daemon that sees nobody else in
 *     two lists, of which the second was requested 1.4 s after the first was answered, need not
 *     wait;
 *   - each daemon with a higher rank is silent. If a list lacks it, or it was found silent while we
 *     did not serve or within 1.4 s of partition 0 being opened, Redis may have lost its
 *     heartbeats: then the list is read once more after 1.4 s.
 * It must ask each time before it sends, so one that was frozen stops. Two may send for a moment if
 * Redis loses records twice within 1.4 s, and on the two sides of a network that has split while
 * each has a master.
 *
 * The partitions of a silent daemon go to others. A daemon that was silent for alive_us is dead,
 * and the jobs that it held are given back. Only a daemon whose own heartbeats were answered for
 * that long without a pause may decide this: else after an outage of Redis all others would look
 * dead. And it must have read the list after that time, because the notice that the silent daemon
 * is back may have been lost. A daemon that the list lacks is silent, not dead: Redis may have lost
 * its record. Nor is one dead because we do not know it: the notice that it has come may have been
 * lost, too, so before the others are reaped (promoter.h) the list must be fresh.
 *
 * Single-threaded. Times are microseconds of the loop's clock.
 */
#ifndef LATERD_ENGINE_REDIS_MEMBERS_H
#define LATERD_ENGINE_REDIS_MEMBERS_H

#include "engine/redis/script_request.h"

enum { MEMBERS_HEARTBEAT_US = 1000 * 1000 };

struct member {
    char name[SCRIPT_NAME];
    enum script_how how;
    int64_t seen_us; /* when it was known to be alive last, by our clock */
    bool silent;
    bool watched;       /* its heartbeats are published to us, or should be */
    int64_t suspect_us; /* since when it is silent because Redis may have lost its heartbeats; it
                           may still send ordered topics. 0: it cannot, or is not silent */
};

/* What the answer to a heartbeat has besides the list of daemons; borrowed. */
struct heartbeat_answer {
    const struct bytes *policy; /* the policy by which Redis evicts keys, empty: it does not; NULL:
                                   not in this answer */
    uint64_t settings_changes;  /* see script_settings_mark() */
    bool journal_behind;        /* pushes are refused: see script_journal_behind() */
};

struct members_options {
    const struct script_space *space;
    struct script_requests *calls;
    struct loop *loop;
    int64_t alive_us; /* a daemon that is silent for this long is dead */
    /* True: we reach all partitions now. If not, other daemons own them, if there are any. */
    bool (*serves)(void *owner);
    /* A heartbeat of ours was answered. */
    void (*heartbeat_answered)(void *owner, const struct heartbeat_answer *answer);
    /* We were silent for alive_us or more, so others may have considered us dead. */
    void (*missed)(void *owner, int64_t silent_us);
    /* members_own(), members_can_judge() or `gone` may have changed; `heartbeats` has. */
    void (*changed)(void *owner);
    void *owner;
};

struct members {
    struct members_options options;
    struct member *others;
    uint32_t count, cap;
    uint64_t gone;       /* counts daemons that died or left: each must be reaped, see promoter.h */
    uint64_t heartbeats; /* ours that were answered: by then a notice must have come as well */
    bool *ours;          /* for each partition */
    uint32_t heartbeats_pending; /* heartbeats that are not answered yet */
    bool started, leaving;
    bool wants_list;      /* the next heartbeat asks for the list of daemons */
    bool list_is_urgent;  /* so it is sent when the one that is under way is answered */
    int64_t list_sent_us; /* when the last answered request for the list was sent; 0: never */
    int64_t left_us;      /* when a notice said last that a daemon leaves; 0: never */
    int64_t alone_us; /* when a list showed nobody else; 0: not since we know another, or since our
                         heartbeats are answered without a break */
    enum script_how how;
    int64_t how_since_us; /* when the first heartbeat that said `how` was sent */
    int64_t heartbeat_sent_us;
    struct timer heartbeat; /* sends the next one; not armed while one is under way */
    int64_t steady_us; /* since when answers to our heartbeats, without a break, have shown that
                          Redis knows that we serve; 0: not now */
    uint64_t order_changes; /* see members_order_changes() */
    uint64_t order_view;    /* hash of the state that order_changes was counted for */
    int64_t contact_us;     /* when a heartbeat of ours was answered last; 0: never */
    int64_t opened_us;      /* see members_note_opened() */
    int64_t reached_us;     /* when that heartbeat was sent: others know that we were alive then */
    int64_t since_us;       /* since when all our heartbeats were answered in time */
    struct timer
        look; /* expires when a watched daemon is late, one is dead, or our answer is late */
};

void members_init(struct members *members, const struct members_options *options);
void members_fini(struct members *members);

/* Begins to send heartbeats, once Redis is connected and the preflight has passed. */
void members_start(struct members *members);
/* Handles a notice with the state of a daemon. `to_us`: it was published only to us. */
void members_note_report(struct members *members, const struct script_member *report, bool to_us);
/* Notices may have been missed: the next heartbeat asks for the list of all daemons. */
void members_request_list(struct members *members);
/* Partition 0 was opened again: its server may have started again, or be another one, and may have
 * lost what daemons were answered within the last moment. O(1) */
void members_note_opened(struct members *members);
/* Sends a heartbeat now, with our present state. Does nothing before members_start(). */
void members_heartbeat(struct members *members);
/* Tells the other daemons that this one leaves. */
void members_leave(struct members *members);

/* True: we own the partition: we promote its due jobs. */
bool members_own(const struct members *members, uint32_t partition);
/* As engine_verbs::keeps_order, of the topic with this hash. O(daemons) */
uint64_t members_keep_order(const struct members *members, uint64_t topic_hash);
/* Grows when results of members_keep_order() may have changed. */
uint64_t members_order_changes(const struct members *members);
/* True: we were in contact for long enough to decide which daemons are dead. */
bool members_can_judge(const struct members *members);
/* True: the list of daemons was requested less than SCRIPT_FRESH_US ago, so that we know each one
 * that has sent a heartbeat before, though a notice of it may have been lost. Before others are
 * taken for dead because we do not know them. False: the list is requested, and options.changed is
 * called when it has come. O(1) */
bool members_know_all(struct members *members);
/* Appends the names of all living daemons, including ours. */
void members_living(const struct members *members, struct buf *out);

#endif
