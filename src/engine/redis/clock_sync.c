#include "engine/redis/clock_sync.h"

#include "base/codec.h"
#include "base/log.h"

enum {
    LOOK_AGAIN_US = 20 * 1000,    /* between readings of a clock, after a leap … */
    LOOK_RARELY_US = 1000 * 1000, /* … and otherwise */
    BELIEVE_US = 1000 * 1000,     /* … in a partition that is used, though all agrees */
    LEAP_US = 250 * 1000,         /* larger leaps are logged */
    FAR_US = 1000 * 1000,         /* larger differences of clocks are logged */
    LOG_EVERY_US = 1000 * 1000,   /* all partitions of a server leap at once */
    WAKE_US = 10 * 1000 *
              1000, /* by then a daemon that was silent is registered in all partitions again */
};

static int64_t now_of(const struct script_requests *calls)
{
    return calls->options.loop->now_us;
}

/* Reads the clock: the turn's time may be before the answer came. */
static int64_t time_now(const struct script_requests *calls)
{
    struct clock *clock = calls->options.loop->clock;
    return clock->now_us(clock);
}

static bool is_far(int64_t us, int64_t than_us)
{
    return us > than_us || us < -than_us;
}

static uint32_t number_of(const struct partition *partition)
{
    return (uint32_t)(partition - partition->requests->partitions);
}

/* ---- log lines ---- */

static struct bytes name_of(const struct node *node, char room[REDIS_HOST_MAX + 8])
{
    return redis_address_text(&node->link.address, room, REDIS_HOST_MAX + 8);
}

static const char WE_SET_IT[] =
    "no job is early or late by that: let NTP slew the clocks, not step them";
static const char OTHERS_SET_IT[] =
    "another daemon has set the queue's clock, see docs/redis-promises.md";

static void report_leap(struct script_requests *calls, const struct node *node, int64_t by_us,
                        const char *hint)
{
    char room[REDIS_HOST_MAX + 8];
    struct bytes name = name_of(node, room);
    bool just_logged = calls->leapt_node == node && now_of(calls) - calls->leapt_us < LOG_EVERY_US;
    if (just_logged || !is_far(by_us, LEAP_US))
        return;
    calls->leapt_node = node;
    calls->leapt_us = now_of(calls);
    log_event(LOG_WARN, "redis_clock_leapt", "node=%.*s by_ms=%lld hint=\"%s\"", (int)name.len,
              name.at, (long long)(by_us / 1000), hint);
}

/* Once for a server with many partitions. */
static void report_far_clock(const struct script_requests *calls, const struct partition *partition,
                             int64_t ahead_us)
{
    char room[REDIS_HOST_MAX + 8];
    const struct node *node = script_requests_node(calls, number_of(partition));
    if (!node || !is_far(ahead_us, FAR_US))
        return;
    for (uint32_t i = 0; i < calls->options.space->partitions; i++) {
        if (&calls->partitions[i] != partition && script_requests_node(calls, i) == node &&
            !is_far(calls->options.space->ahead_us[i] - ahead_us, LEAP_US))
            return;
    }
    struct bytes name = name_of(node, room);
    log_event(LOG_WARN, "redis_clock", "node=%.*s ahead_ms=%lld hint=\"set the clocks by NTP\"",
              (int)name.len, name.at, (long long)(ahead_us / 1000));
}

/* ---- reading and setting clocks ---- */

static void look_now(struct partition *partition);

static void clock_answered(void *owner, struct script_request *call, enum err err,
                           const struct bytes *parts, uint32_t count)
{
    struct partition *partition = owner;
    partition->clock_pending = false;
    if (!err)
        clock_sync_read(call, parts, count, false);
    if (partition->clock_again && !partition->clock_pending)
        look_now(partition);
}

/* Adds `by_us` to the clock; 0: only reads it. */
static void set_by(struct partition *partition, int64_t by_us, uint64_t set_count,
                   uint64_t new_count)
{
    struct script_requests *calls = partition->requests;
    struct script_request *call = script_requests_new_unkept(calls, number_of(partition));
    script_encode_set_clock(&call->request, calls->options.space, &call->id, by_us, set_count,
                            new_count);
    call->reads_clock = true;
    partition->clock_pending = true;
    partition->clock_sent_us = now_of(calls);
    script_requests_send(call, partition, clock_answered);
}

static void look_now(struct partition *partition)
{
    partition->clock_again = partition->clock_pending;
    if (!partition->clock_pending)
        set_by(partition, 0, 0, 0);
}

static void look(struct partition *partition, int64_t least_us)
{
    if (!partition->clock_pending &&
        now_of(partition->requests) - partition->clock_sent_us >= least_us)
        set_by(partition, 0, 0, 0);
}

static void look_at_all(struct script_requests *calls, const struct node *node)
{
    for (uint32_t i = 0; i < calls->options.space->partitions; i++) {
        if (!node || script_requests_node(calls, i) == node)
            look(&calls->partitions[i], LOOK_AGAIN_US);
    }
}

/* ---- estimates ---- */

/* Sets ahead_us to the upper bound: a job may be late by a round trip, but never early (P3). */
static void settle(const struct partition *partition)
{
    const struct script_requests *calls = partition->requests;
    const struct queue_clock *clock = &partition->clock;
    if (!clock->known)
        return;
    int64_t *ahead_us = &calls->options.space->ahead_us[number_of(partition)];
    if (*ahead_us > clock->least_us - QUEUE_CLOCK_CLOSE_US &&
        *ahead_us < clock->most_us + QUEUE_CLOCK_CLOSE_US)
        return;
    *ahead_us = is_far(clock->most_us, QUEUE_CLOCK_CLOSE_US) ? clock->most_us : 0;
    calls->options.space->behind_us[number_of(partition)] = 0;
    report_far_clock(calls, partition, *ahead_us);
}

/* Updates behind_us: at `sent_us` or later the queue's clock showed `queue_us`. */
static void see_behind(const struct partition *partition, int64_t sent_us, int64_t queue_us)
{
    const struct script_space *space = partition->requests->options.space;
    int64_t *behind_us = &space->behind_us[number_of(partition)];
    int64_t by_us = sent_us + space->ahead_us[number_of(partition)] - queue_us;
    if (by_us > *behind_us && by_us < QUEUE_CLOCK_CLOSE_US)
        *behind_us = by_us;
}

/* Did the partition's node answer? While a slot is being moved, another node may have. */
static bool is_of_its_node(const struct script_request *call)
{
    return call->answered_by == script_requests_node(call->calls, call->id.partition);
}

void clock_sync_bound(struct script_request *call)
{
    queue_clock_bound(&call->calls->partitions[call->id.partition].clock, now_of(call->calls),
                      &call->id);
}

void clock_sync_bound_again(struct script_request *call)
{
    if (call->id.now_us == now_of(call->calls))
        return;
    clock_sync_bound(call);
    script_set_bounds(call->request.at, call->request.len, &call->id);
}

void clock_sync_note_answer(const struct script_request *call, const struct bytes *parts,
                            uint32_t count)
{
    struct partition *partition = &call->calls->partitions[call->id.partition];
    int64_t queue_us = script_clock(parts, count);
    /* A resent call may get its first answer from the ring, with an old time. */
    if (!queue_us || call->resent || call->reads_clock || !is_of_its_node(call))
        return;
    switch (queue_clock_compare(&partition->clock, &call->id, queue_us, call->on_link.sent_us,
                                now_of(call->calls))) {
    case CLOCK_AGREES:
        settle(partition);
        see_behind(partition, call->on_link.sent_us, queue_us);
        if (call->in_ring && now_of(call->calls) - partition->clock_read_us >= BELIEVE_US)
            look(partition, LOOK_RARELY_US);
        break;
    case CLOCK_DRIFTS: look(partition, LOOK_RARELY_US); break;
    case CLOCK_LEAPT: look(partition, LOOK_AGAIN_US); break;
    }
}

/* Others considered the daemon dead, but a partition's clock agrees with its estimate: so its own
 * clock has not stood still, and clocks that disagree have leapt. */
static void ran_on(struct script_requests *calls)
{
    calls->ran_on_us = now_of(calls);
    for (uint32_t i = 0; i < calls->options.space->partitions; i++) {
        calls->partitions[i].clock.may_have_stood_still = false;
        calls->partitions[i].clock.others_may_set_until_us = 0;
    }
}

void clock_sync_forgotten(struct script_requests *calls, uint32_t partition)
{
    if (!calls->ran_on_us || now_of(calls) - calls->ran_on_us > WAKE_US)
        calls->partitions[partition].clock.may_have_stood_still = true;
}

void clock_sync_read(const struct script_request *call, const struct bytes *parts, uint32_t count,
                     bool created)
{
    struct script_requests *calls = call->calls;
    struct partition *partition = &calls->partitions[call->id.partition];
    struct queue_clock *clock = &partition->clock;
    struct queue_clock_reading reading = {.created = created, .sent_us = call->on_link.sent_us};
    uint64_t before = clock->set_count;
    bool known = clock->known, unsure = known && clock->may_have_stood_still;
    int64_t by_us;
    if (!script_read_clock(parts, count, &reading.clock) || !is_of_its_node(call))
        return;
    reading.read_us = time_now(calls);
    partition->clock_read_us = reading.read_us;
    switch (queue_clock_read(clock, &reading, &by_us)) {
    case CLOCK_KEPT:
        settle(partition);
        see_behind(partition, reading.sent_us, reading.clock.queue_us);
        if (unsure && !clock->may_have_stood_still)
            ran_on(calls);
        break;
    case CLOCK_ADOPTED:
        settle(partition);
        see_behind(partition, reading.sent_us, reading.clock.queue_us);
        if (known && is_far(by_us, LEAP_US)) {
            report_leap(calls, call->answered_by, by_us, OTHERS_SET_IT);
            calls->options.clock_leapt(calls->options.owner);
        }
        break;
    case CLOCK_TO_SET:
        report_leap(calls, call->answered_by, -by_us, WE_SET_IT);
        if (reading.clock.set_count > before)
            before = reading.clock.set_count;
        set_by(partition, by_us, reading.clock.set_count, before + 1);
        if (is_far(by_us, LEAP_US))
            look_at_all(calls, call->answered_by);
        break;
    case CLOCK_TO_READ: set_by(partition, 0, 0, 0); break;
    }
}

void clock_sync_heartbeat(struct script_requests *calls, const struct bytes *parts, uint32_t count)
{
    if (script_clock(parts, count) &&
        get_u64(parts[0].at + 16) > calls->partitions[0].clock.set_count)
        look_at_all(calls, NULL);
}

void clock_sync_promoted(struct script_requests *calls, uint32_t partition, uint64_t set_count)
{
    if (set_count > calls->partitions[partition].clock.set_count)
        look(&calls->partitions[partition], LOOK_AGAIN_US);
}

void clock_sync_was_set(struct script_requests *calls, uint32_t partition)
{
    if (calls->partitions[partition].clock.known)
        look_now(&calls->partitions[partition]);
}
