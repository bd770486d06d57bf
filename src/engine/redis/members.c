/*
 * Invariants: no name is in `others` twice, nor is ours; a member is there until it is dead.
 */
#include "engine/redis/members.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "engine/redis/clock_sync.h"

enum {
    AGAIN_US = 100 * 1000,  /* after a heartbeat that failed */
    MEMORY_HEARTBEATS = 10, /* so often a heartbeat asks how Redis deals with its memory */
    /* A heartbeat that is answered later than that has interrupted our contact. */
    IN_CONTACT_US = MEMBERS_HEARTBEAT_US + 500 * 1000,
};

static int64_t now_of(const struct members *members)
{
    return members->options.loop->now_us;
}

/* ---- who owns what ---- */

static bool is_fresh(const struct members *members, const struct member *member)
{
    return now_of(members) - member->heard_us < MEMBERS_FRESH_US;
}

static uint64_t rank_of(const char name[SCRIPT_NAME], uint32_t partition)
{
    return hash_seeded(name, SCRIPT_NAME, partition);
}

/* Ours is compared with the others'; `how` is how one must be to be asked at all. */
static bool outranked(const struct members *members, uint32_t partition, bool only_serving)
{
    uint64_t ours = rank_of(members->options.space->daemon, partition);
    for (uint32_t i = 0; i < members->count; i++) {
        const struct member *other = &members->others[i];
        if (is_fresh(members, other) && (!only_serving || other->how == SCRIPT_SERVES) &&
            rank_of(other->name, partition) > ours)
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

/* Those who do not reach all partitions own none, unless there is nobody else. */
static void share_out(struct members *members)
{
    bool only_serving = somebody_serves(members);
    bool may = members->contact_us && !members->leaving &&
               (!only_serving || members->how == SCRIPT_SERVES);
    for (uint32_t i = 0; i < members->options.space->partitions; i++)
        members->ours[i] = may && !outranked(members, i, only_serving);
}

/* ---- who lives ---- */

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
}

/* It is dead, or has left, perhaps before it had given back all it held. */
static void drop_gone(struct members *members, struct member *member)
{
    *member = members->others[--members->count];
    members->gone++;
}

/* When all that came now was read. */
static void look_soon(struct members *members)
{
    loop_arm(members->options.loop, &members->look, now_of(members));
}

/* It was said `heard_us`, by our clock. */
static void hear(struct members *members, const struct script_member *said, int64_t heard_us)
{
    struct member *known = find(members, said->name);
    bool alive = now_of(members) - heard_us < members->options.alive_us;
    look_soon(members);
    if (memcmp(said->name, members->options.space->daemon, SCRIPT_NAME) == 0)
        return;
    if (said->how == SCRIPT_LEAVES) {
        if (known)
            drop_gone(members, known);
    } else if (!known && alive && members->count < SCRIPT_MEMBERS_MAX) {
        struct member member = {.how = said->how, .heard_us = heard_us};
        memcpy(member.name, said->name, SCRIPT_NAME);
        add(members, &member);
    } else if (known && heard_us >= known->heard_us) {
        known->how = said->how;
        known->heard_us = heard_us;
    }
}

void members_heard(struct members *members, const struct script_member *said)
{
    hear(members, said, now_of(members));
}

bool members_know(const struct members *members)
{
    return members->contact_us && now_of(members) - members->contact_us < IN_CONTACT_US &&
           now_of(members) - members->since_us >= members->options.alive_us;
}

static int64_t sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* Drops the dead, shares out again, and finds out when that must be done next. */
static void look(struct timer *timer)
{
    struct members *members = LIST_ENTRY(timer, struct members, look);
    int64_t next_us = INT64_MAX;
    for (uint32_t i = members->count; i-- > 0;) {
        struct member *member = &members->others[i];
        int64_t dead_at_us = member->heard_us + members->options.alive_us;
        if (dead_at_us <= now_of(members)) {
            drop_gone(members, member);
        } else {
            int64_t stale_at_us = member->heard_us + MEMBERS_FRESH_US;
            bool fresh = stale_at_us > now_of(members);
            next_us = sooner(next_us, fresh ? stale_at_us : dead_at_us);
        }
    }
    loop_arm(members->options.loop, timer, next_us);
    share_out(members);
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

static void in_contact(struct members *members)
{
    bool first = !members->contact_us;
    if (first || now_of(members) - members->contact_us > IN_CONTACT_US)
        members->since_us = now_of(members);
    if (!first && now_of(members) - members->reached_us >= members->options.alive_us)
        members->options.missed(members->options.owner);
    members->contact_us = now_of(members);
    members->reached_us = members->heartbeat_sent_us;
    members->heartbeats++;
}

static void answered(void *owner, struct script_request *call, enum err err,
                     const struct bytes *parts, uint32_t count)
{
    struct members *members = owner;
    struct script_member others[SCRIPT_MEMBERS_MAX];
    struct script_parts said = {.at = parts, .count = count};
    uint32_t heard = 0;
    (void)call;
    members->asked--;
    if (!err)
        err = script_read_members(&said, others, &heard);
    int64_t next_us =
        err ? now_of(members) + AGAIN_US : members->heartbeat_sent_us + MEMBERS_HEARTBEAT_US;
    if (!members->asked && !members->leaving)
        loop_arm(members->options.loop, &members->heartbeat, next_us);
    if (err)
        return;
    in_contact(members);
    clock_sync_heartbeat(members->options.calls, parts, count);
    members->options.beaten(members->options.owner, count > 2 ? &parts[2] : NULL);
    for (uint32_t i = 0; i < heard; i++)
        hear(members, &others[i], members->heartbeat_sent_us - others[i].age_us);
    look_soon(members);
}

static void heartbeat(struct members *members)
{
    struct script_request *call = script_requests_new_unkept(members->options.calls, 0);
    bool serves = members->options.serves(members->options.owner);
    members->how = serves ? SCRIPT_SERVES : SCRIPT_LIVES;
    if (members->leaving)
        members->how = SCRIPT_LEAVES;
    script_ask_heartbeat(&call->request, members->options.space, &call->id, members->how,
                         members->heartbeats % MEMORY_HEARTBEATS == 1);
    call->probes = true; /* that we live is so without replicas, too: it does not wait for them */
    members->asked++;
    members->heartbeat_sent_us = now_of(members);
    script_requests_send(call, members, answered);
}

static void time_for_heartbeat(struct timer *timer)
{
    heartbeat(LIST_ENTRY(timer, struct members, heartbeat));
}

/* ---- what the engine does ---- */

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
    members->started = true;
    loop_arm(members->options.loop, &members->heartbeat, now_of(members));
}

void members_leave(struct members *members)
{
    members->leaving = true;
    loop_cancel(members->options.loop, &members->heartbeat);
    share_out(members);
    members->options.changed(members->options.owner);
    if (members->started)
        heartbeat(members);
}
