/*
 * Invariants: `others` has no name twice, and not ours; a member is in it until it is dead or left.
 */
#include "engine/redis/members.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "engine/redis/clock_sync.h"

enum {
    AGAIN_US = 100 * 1000,  /* after a heartbeat that failed */
    MEMORY_HEARTBEATS = 10, /* every 10th heartbeat asks for Redis' eviction policy */
    /* The list of daemons is read this often, though no notice was missed. */
    LIST_US = 10 * MEMBERS_HEARTBEAT_US,
    /* If the answer to a heartbeat is later than this, our contact was interrupted. */
    IN_CONTACT_US = MEMBERS_HEARTBEAT_US + 500 * 1000,
    /* A daemon that has served this long without a break is known to all others that may send
       ordered topics. Such a daemon has an answer to each heartbeat at most SCRIPT_FRESH_US after
       the one before it was sent, so it reads a list at most LIST_US + SCRIPT_FRESH_US after the
       one before. */
    KNOWN_TO_ALL_US = 12 * MEMBERS_HEARTBEAT_US,
    /* While Redis' clock is wrong, the times of two scripts may differ by this much more than ours.
     */
    CLOCKS_US = 50 * 1000,
};

_Static_assert(KNOWN_TO_ALL_US >= LIST_US + SCRIPT_FRESH_US, "others may not know us by then");

static int64_t now_of(const struct members *members)
{
    return members->options.loop->now_us;
}

/* ---- owners of partitions ---- */

/* True: our last answered heartbeat is recent enough for us to know which daemons are silent. */
static bool in_contact(const struct members *members)
{
    return members->contact_us && now_of(members) - members->contact_us < IN_CONTACT_US;
}

static bool is_fresh(const struct members *members, const struct member *member)
{
    return !member->silent && in_contact(members);
}

/* Rendezvous hashing: the daemon with the highest rank owns the partition, or the topic. */
static uint64_t rank_of(const char name[SCRIPT_NAME], uint32_t key)
{
    return hash_seeded(name, SCRIPT_NAME, key);
}

static bool is_above_us(const struct members *members, const struct member *other, uint32_t key)
{
    return rank_of(other->name, key) > rank_of(members->options.space->daemon, key);
}

/* True: another daemon owns the partition. `only_serving`: compare only with those that serve. */
static bool outranked(const struct members *members, uint32_t partition, bool only_serving)
{
    for (uint32_t i = 0; i < members->count; i++) {
        const struct member *other = &members->others[i];
        if (is_fresh(members, other) && (!only_serving || other->how == SCRIPT_SERVES) &&
            is_above_us(members, other, partition))
            return true;
    }
    return false;
}

static bool somebody_serves(const struct members *members)
{
    bool serves = members->how == SCRIPT_SERVES;
    for (uint32_t i = 0; i < members->count && !serves; i++)
        serves = is_fresh(members, &members->others[i]) && members->others[i].how == SCRIPT_SERVES;
    return serves;
}

/* Computes our partitions. Daemons that do not reach all partitions own none, unless no other
 * daemon does. */
static void assign_partitions(struct members *members)
{
    bool only_serving = somebody_serves(members);
    bool may = members->contact_us && !members->leaving &&
               (!only_serving || members->how == SCRIPT_SERVES);
    for (uint32_t i = 0; i < members->options.space->partitions; i++)
        members->ours[i] = may && !outranked(members, i, only_serving);
}

/* ---- ordered topics ---- */

/* The time until which no other daemon can consider us silent. */
static int64_t trusted_until_us(const struct members *members)
{
    return members->reached_us + SCRIPT_FRESH_US - CLOCKS_US;
}

/* True: the member may rely on that time, for all that we know. */
static bool may_send(const struct member *member)
{
    return member->how == SCRIPT_SERVES && (!member->silent || member->suspect_us);
}

/* True: two lists showed nobody else, and in between every other daemon that may send must have
 * sent a heartbeat, which makes its record again if Redis had lost it. */
static bool is_alone(const struct members *members)
{
    return members->count == 0 && members->alone_us &&
           members->list_sent_us >= members->alone_us + SCRIPT_FRESH_US;
}

/* True: all others know that we serve, so that none of them sends our ordered topics. */
static bool is_known_to_all(const struct members *members)
{
    int64_t now_us = now_of(members);
    if (members->leaving || !members->steady_us || now_us >= trusted_until_us(members))
        return false;
    return is_alone(members) || now_us - members->steady_us >= KNOWN_TO_ALL_US;
}

uint64_t members_keep_order(const struct members *members, uint64_t topic_hash)
{
    uint32_t topic = (uint32_t)(topic_hash ^ topic_hash >> 32);
    bool ours = is_known_to_all(members);
    for (uint32_t i = 0; i < members->count && ours; i++)
        ours = !may_send(&members->others[i]) || !is_above_us(members, &members->others[i], topic);
    return ours ? (uint64_t)members->steady_us : 0;
}

uint64_t members_order_changes(const struct members *members)
{
    return members->order_changes;
}

static void note_order(struct members *members)
{
    uint64_t view = is_known_to_all(members) ? (uint64_t)members->steady_us : 0;
    for (uint32_t i = 0; i < members->count && view; i++) {
        if (may_send(&members->others[i]))
            view += rank_of(members->others[i].name, 0);
    }
    members->order_changes += view != members->order_view;
    members->order_view = view;
}

/* When the result of keep_order() changes by time alone; INT64_MAX: never. */
static int64_t order_next_us(const struct members *members)
{
    int64_t known_us = members->steady_us + KNOWN_TO_ALL_US;
    int64_t trusted_us = trusted_until_us(members);
    if (!members->steady_us || trusted_us <= now_of(members))
        return INT64_MAX;
    return known_us > now_of(members) && known_us < trusted_us ? known_us : trusted_us;
}

/* We begin or stop to serve: counts from now on, before others are notified. */
static void note_serving(struct members *members, bool serves)
{
    if (!serves)
        members->steady_us = 0;
    note_order(members);
}

/* Updates steady_us and alone_us when a heartbeat that was sent at sent_us was answered. The others
 * know that we serve only if this heartbeat said so. */
static void stay_steady(struct members *members, int64_t sent_us)
{
    bool sent_serves = members->how == SCRIPT_SERVES && sent_us >= members->how_since_us;
    bool broken = now_of(members) >= trusted_until_us(members);
    if (broken)
        members->alone_us = 0; /* others may have come meanwhile */
    if (broken || !members->steady_us)
        members->steady_us = sent_serves ? now_of(members) : 0;
}

/* ---- living daemons ---- */

static struct member *find(struct members *members, const char name[SCRIPT_NAME])
{
    for (uint32_t i = 0; i < members->count; i++) {
        if (memcmp(members->others[i].name, name, SCRIPT_NAME) == 0)
            return &members->others[i];
    }
    return NULL;
}

static void add(struct members *members, const struct member *member)
{
    if (members->count == members->cap) {
        members->cap = members->cap ? members->cap * 2 : 8;
        members->others = mem_realloc(members->others, members->cap * sizeof(*members->others));
    }
    members->others[members->count++] = *member;
    members->alone_us = 0;
}

/* Runs look() in this turn, after all input was read. */
static void look_soon(struct members *members)
{
    loop_arm(members->options.loop, &members->look, now_of(members));
}

void members_request_list(struct members *members)
{
    members->wants_list = true;
}

/* The daemon is silent or gone. If we watched it, the list must be read to choose another one. */
static void stop_watching(struct members *members, struct member *member)
{
    if (member->watched)
        members_request_list(members);
    member->watched = false;
}

/* Removes a daemon that is dead or has left, perhaps before it had given back all its jobs. */
static void drop_gone(struct members *members, struct member *member)
{
    stop_watching(members, member);
    *member = members->others[--members->count];
    members->gone++;
    if (members->count == 0)
        members_request_list(members); /* we are alone only if the list says so */
}

static int64_t sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static int64_t later(int64_t a_us, int64_t b_us)
{
    return a_us > b_us ? a_us : b_us;
}

/* Silence before we were in contact does not count. */
static int64_t silent_since(const struct members *members, int64_t seen_us)
{
    return later(seen_us, members->since_us - SCRIPT_FRESH_US);
}

/* The daemon is silent, as a list or notice of as_of_us says. If Redis may have lost its last
 * heartbeat (`suspect`), it may have been answered just before, and relies on that. So its
 * partitions are taken over at once, but its ordered topics only when a list that was requested
 * SCRIPT_FRESH_US later says the same: by then it has sent another heartbeat, or sends no job. */
static void note_silent(struct members *members, struct member *member, bool suspect,
                        int64_t as_of_us)
{
    if (!member->silent && suspect)
        member->suspect_us = now_of(members);
    else if (as_of_us >= member->suspect_us + SCRIPT_FRESH_US)
        member->suspect_us = 0;
    member->silent = true;
    stop_watching(members, member);
}

/* A list that was requested at `sent_us` lacks the daemon: it has left without our hearing of it,
 * or Redis lost its record. If it lives, its next heartbeat is published to all. */
static void note_missing(struct members *members, struct member *member, int64_t sent_us)
{
    int64_t seen_us = later(member->seen_us, sent_us - SCRIPT_FRESH_US);
    if (!member->silent)
        member->seen_us = silent_since(members, seen_us);
    note_silent(members, member, true, sent_us);
}

/* True: Redis may have started again a moment ago, or another server may have taken over, so that
 * the heartbeats of the last moment may be lost. A notice may come before we reach it again. */
static bool may_have_lost(const struct members *members)
{
    return now_of(members) - members->opened_us < SCRIPT_FRESH_US ||
           !members->options.serves(members->options.owner);
}

void members_note_opened(struct members *members)
{
    members->opened_us = now_of(members);
}

static bool is_ours(const struct members *members, const struct script_member *report)
{
    return memcmp(report->name, members->options.space->daemon, SCRIPT_NAME) == 0;
}

/* Adds or updates a daemon that was alive at `seen_us`, by our clock; its state is that of
 * `as_of_us`. NULL: it must not be added. */
static struct member *add_alive(struct members *members, const struct script_member *report,
                                int64_t seen_us, int64_t as_of_us)
{
    struct member *known = find(members, report->name);
    look_soon(members);
    if (is_ours(members, report))
        return NULL;
    if (report->how == SCRIPT_LEAVES) {
        members->left_us = now_of(members);
        if (known)
            drop_gone(members, known);
        else
            members->gone++; /* we were not told that it had come */
        return NULL;
    }
    if (!known) {
        bool alive = now_of(members) - seen_us < members->options.alive_us;
        if (!alive || members->count == SCRIPT_MEMBERS_MAX)
            return NULL;
        struct member member = {.seen_us = seen_us};
        memcpy(member.name, report->name, SCRIPT_NAME);
        add(members, &member);
        known = &members->others[members->count - 1];
    }
    if (known->seen_us > as_of_us)
        return known; /* we know better */
    if (report->how == SCRIPT_SILENT) {
        known->seen_us = silent_since(members, seen_us);
        note_silent(members, known, may_have_lost(members), as_of_us);
    } else {
        known->silent = false;
        known->suspect_us = 0;
        known->how = report->how;
        known->seen_us = later(seen_us, known->seen_us);
    }
    return known;
}

/* True: nobody watches it yet, for all that we know: it has just come, or come back. */
static bool is_unwatched(struct members *members, const struct script_member *report)
{
    const struct member *known = find(members, report->name);
    return !known || known->silent;
}

/* A daemon that has come may die before its first heartbeat that is published only to one. So the
 * next list is to say who watches it. */
void members_note_report(struct members *members, const struct script_member *report, bool to_us)
{
    int64_t ago_us = report->how == SCRIPT_SILENT ? SCRIPT_FRESH_US : 0;
    bool comes = is_unwatched(members, report);
    struct member *known = add_alive(members, report, now_of(members) - ago_us, now_of(members));
    if (known && to_us)
        known->watched = true;
    else if (known && comes && !known->silent)
        members_request_list(members);
}

bool members_can_judge(const struct members *members)
{
    return in_contact(members) && now_of(members) - members->since_us >= members->options.alive_us;
}

static void heartbeat(struct members *members);

/* Asks for the list now, or as soon as the heartbeat that is under way is answered. */
static void request_list(struct members *members)
{
    members_request_list(members);
    if (!in_contact(members) || members->leaving)
        return;
    members->list_is_urgent = true;
    if (!members->heartbeats_pending)
        heartbeat(members);
}

bool members_know_all(struct members *members)
{
    bool know = members->list_sent_us && now_of(members) - members->list_sent_us < SCRIPT_FRESH_US;
    if (!know)
        request_list(members);
    return know;
}

/* When the member must be checked next: it is late then, dead, or silent and not suspect. */
static int64_t next_of(const struct members *members, const struct member *member)
{
    if (member->suspect_us)
        return member->suspect_us + SCRIPT_FRESH_US;
    if (member->silent)
        return member->seen_us + members->options.alive_us;
    return member->watched ? member->seen_us + SCRIPT_FRESH_US : INT64_MAX;
}

/* True: the member was silent until dead_at_us, and a list that was requested after that time still
 * says so. (It may have come back without our getting the notice.) */
static bool is_dead(const struct members *members, const struct member *member, int64_t dead_at_us)
{
    return member->silent && !member->suspect_us && members->list_sent_us >= dead_at_us;
}

/* When the list must be read again to learn whether we are alone; INT64_MAX: we know. */
static int64_t alone_next_us(const struct members *members)
{
    return members->alone_us && !is_alone(members) ? members->alone_us + SCRIPT_FRESH_US
                                                   : INT64_MAX;
}

/* Removes dead members, requests the list if a watched one is late, one may be dead or is suspect,
 * or we may be alone, computes the owners again, and arms the timer for the next time. */
static void look(struct timer *timer)
{
    struct members *members = LIST_ENTRY(timer, struct members, look);
    int64_t next_us = in_contact(members) ? members->contact_us + IN_CONTACT_US : INT64_MAX;
    next_us = sooner(next_us, order_next_us(members));
    bool late = alone_next_us(members) <= now_of(members);
    if (!late)
        next_us = sooner(next_us, alone_next_us(members));
    for (uint32_t i = members->count; i-- > 0;) {
        struct member *member = &members->others[i];
        int64_t at_us = next_of(members, member);
        if (at_us > now_of(members)) {
            next_us = sooner(next_us, at_us);
        } else if (is_dead(members, member, at_us)) {
            drop_gone(members, member);
        } else {
            member->watched = false;
            late = true;
        }
    }
    loop_arm(members->options.loop, timer, next_us);
    if (late)
        request_list(members);
    assign_partitions(members);
    note_order(members);
    members->options.changed(members->options.owner);
}

bool members_own(const struct members *members, uint32_t partition)
{
    return members->ours[partition];
}

void members_living(const struct members *members, struct buf *out)
{
    buf_add(out, members->options.space->daemon, SCRIPT_NAME);
    for (uint32_t i = 0; i < members->count; i++)
        buf_add(out, members->others[i].name, SCRIPT_NAME);
}

/* ---- our own heartbeat ---- */

/* When this heartbeat was sent; a newer one may have been sent since. */
static int64_t sent_us_of(const struct script_request *call)
{
    return call->deadline_us - call->calls->options.timeout_us;
}

static void have_contact(struct members *members, int64_t sent_us, bool looked)
{
    bool first = !members->contact_us;
    if (first || now_of(members) - members->contact_us > IN_CONTACT_US) {
        members->since_us = now_of(members);
        if (!looked) /* notices may have been missed: the list says who is silent, and since when */
            members_request_list(members);
    }
    int64_t silent_us = now_of(members) - members->reached_us;
    if (!first && silent_us >= members->options.alive_us)
        members->options.missed(members->options.owner, silent_us);
    stay_steady(members, sent_us);
    members->contact_us = now_of(members);
    members->reached_us = sent_us;
    members->heartbeats++;
}

/* Watches the nearest daemon before us, in the order in which they started, that is not silent: its
 * heartbeats are published to us. */
static void watch(struct members *members, const struct script_member *all, uint32_t count)
{
    uint32_t ours = 0;
    while (ours < count && !is_ours(members, &all[ours]))
        ours++;
    for (uint32_t i = 0; i < members->count; i++)
        members->others[i].watched = false;
    for (uint32_t i = 1; i < count && ours < count; i++) {
        const struct script_member *before = &all[(ours + count - i) % count];
        struct member *known = find(members, before->name);
        if (!known || before->how == SCRIPT_SILENT)
            continue;
        known->watched = true;
        return;
    }
}

/* Applies a complete list, of a request that was sent at sent_us. */
static void apply_list(struct members *members, int64_t sent_us, const struct script_member *all,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)add_alive(members, &all[i], sent_us - all[i].age_us, sent_us);
    for (uint32_t i = members->count; i-- > 0;) {
        struct member *member = &members->others[i];
        uint32_t at = 0;
        while (at < count && memcmp(all[at].name, member->name, SCRIPT_NAME) != 0)
            at++;
        if (at == count && member->seen_us <= sent_us)
            note_missing(members, member, sent_us);
    }
    members->list_sent_us = sent_us;
    if (members->count == 0 && !members->alone_us)
        members->alone_us = now_of(members);
    watch(members, all, count);
}

static void answered(void *owner, struct script_request *call, enum err err,
                     const struct bytes *parts, uint32_t count)
{
    struct members *members = owner;
    struct script_member others[SCRIPT_MEMBERS_MAX];
    struct script_parts list = {.at = parts, .count = count};
    uint32_t heard = 0;
    int64_t sent_us = sent_us_of(call);
    members->heartbeats_pending--;
    if (!err)
        err = script_read_members(&list, others, &heard);
    int64_t next_us =
        err ? now_of(members) + AGAIN_US : members->heartbeat_sent_us + MEMBERS_HEARTBEAT_US;
    if (!err && members->list_is_urgent)
        next_us = now_of(members);
    if (!members->heartbeats_pending && !members->leaving)
        loop_arm(members->options.loop, &members->heartbeat, next_us);
    if (err) {
        members->wants_list = true; /* perhaps it was one */
        return;
    }
    bool outdated = heard > 0 && sent_us <= members->left_us; /* it may have who has left */
    heard = outdated ? 0 : heard;
    have_contact(members, sent_us, heard > 0);
    clock_sync_heartbeat(members->options.calls, parts, count);
    struct heartbeat_answer answer = {.policy = count > 2 ? &parts[2] : NULL,
                                      .settings_changes = script_settings_mark(parts, count),
                                      .journal_behind = script_journal_behind(parts, count)};
    members->options.heartbeat_answered(members->options.owner, &answer);
    if (heard)
        apply_list(members, sent_us, others, heard);
    if (outdated)
        request_list(members);
    look_soon(members);
}

static void heartbeat(struct members *members)
{
    struct script_request *call = script_requests_new_unkept(members->options.calls, 0);
    bool serves = members->options.serves(members->options.owner);
    enum script_how how = serves ? SCRIPT_SERVES : SCRIPT_LIVES;
    if (members->leaving)
        how = SCRIPT_LEAVES;
    if (how != members->how)
        members->how_since_us = now_of(members);
    members->how = how;
    note_serving(members, how == SCRIPT_SERVES);
    members->wants_list = members->wants_list || now_of(members) >= trusted_until_us(members) ||
                          now_of(members) - members->list_sent_us >= LIST_US;
    struct script_heartbeat options = {.how = members->how,
                                       .look = members->wants_list,
                                       .memory = members->heartbeats % MEMORY_HEARTBEATS == 1};
    script_encode_heartbeat(&call->request, members->options.space, &call->id, &options);
    members->wants_list = members->list_is_urgent = false;
    loop_cancel(members->options.loop, &members->heartbeat); /* the answer arms it again */
    call->probes = true; /* sent without waiting for replicas: a heartbeat need not be durable */
    members->heartbeats_pending++;
    members->heartbeat_sent_us = now_of(members);
    script_requests_send(call, members, answered);
}

static void time_for_heartbeat(struct timer *timer)
{
    heartbeat(LIST_ENTRY(timer, struct members, heartbeat));
}

/* ---- calls of the engine ---- */

void members_init(struct members *members, const struct members_options *options)
{
    *members = (struct members){
        .options = *options, .heartbeat.expired = time_for_heartbeat, .look.expired = look};
    members->how = SCRIPT_LIVES;
    members->ours = mem_zalloc(options->space->partitions * sizeof(bool));
}

void members_fini(struct members *members)
{
    loop_cancel(members->options.loop, &members->heartbeat);
    loop_cancel(members->options.loop, &members->look);
    mem_free(members->others);
    mem_free(members->ours);
    *members = (struct members){0};
}

void members_start(struct members *members)
{
    members->started = members->wants_list = true;
    loop_arm(members->options.loop, &members->heartbeat, now_of(members));
}

void members_heartbeat(struct members *members)
{
    if (members->started && !members->leaving)
        heartbeat(members);
}

void members_leave(struct members *members)
{
    members->leaving = true;
    loop_cancel(members->options.loop, &members->heartbeat);
    assign_partitions(members);
    note_serving(members, false);
    members->options.changed(members->options.owner);
    if (members->started)
        heartbeat(members);
}
