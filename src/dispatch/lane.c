/*
 * How many jobs a topic may reserve now: its credit is the least of what its settings, its
 * receiver, the window, the tokens and the free slots allow. One reserve of a lane is under way at
 * a time, for no more jobs than the credit at that moment. Slots and receivers are shared with
 * other lanes: jobs that come when those are used up are given back, once, and the lane waits for
 * its turn.
 *
 * How many a reserve asks for begins with one and doubles while as many come: an idle topic has a
 * parked reserve for one job, so that 100,000 idle topics cannot bring 64 jobs each at once.
 */
#include <xxhash.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "dispatch/key_order.h"
#include "dispatch/pump_parts.h"

enum { BACKOFF_FIRST_US = 100000, BACKOFF_MOST_US = 5000000, IDLE_AFTER_US = 60000000 };
#define WAIT_US (INT64_C(86400) * 1000000)

const char *held_why_name(enum held_why why)
{
    static const char *const names[HELD_WHYS] = {
        [HELD_NOT] = "none",        [HELD_PAUSED] = "paused", [HELD_SINK] = "sink",
        [HELD_BREAKER] = "breaker", [HELD_HOST] = "host",     [HELD_TOPIC] = "topic",
        [HELD_RATE] = "rate",       [HELD_SHARE] = "share",   [HELD_KEYS] = "keys",
        [HELD_OTHERS] = "others",   [HELD_ERROR] = "error",
    };
    return names[why];
}

/* ---- states ---- */

static void leave(struct lane *lane)
{
    struct pump *pump = lane->pump;
    if (lane->state == LANE_QUEUED)
        pump->ring_count--;
    if (pump->counts.held[HELD_SHARE] > pump->ring_count)
        pump->counts.held[HELD_SHARE] = pump->ring_count;
    if (lane->state == LANE_IDLE || lane->state == LANE_BLOCKED || lane->state == LANE_WAITING)
        pump->counts.held[lane->why]--;
    list_remove(&lane->place);
    loop_cancel(pump->options.loop, &lane->timer);
    lane->state = LANE_RESERVING; /* until the caller sets another one */
}

static void rest(struct lane *lane, enum lane_state state, enum held_why why)
{
    leave(lane);
    lane->state = state;
    lane->why = why;
    lane->pump->counts.held[why]++;
}

static void wait_until(struct lane *lane, int64_t until_us, enum held_why why)
{
    rest(lane, LANE_WAITING, why);
    loop_arm(lane->pump->options.loop, &lane->timer, until_us);
}

static void queue_lane(struct lane *lane)
{
    struct pump *pump = lane->pump;
    leave(lane);
    lane->state = LANE_QUEUED;
    list_add_tail(&pump->ring, &lane->place);
    pump->ring_count++;
}

static void timer_expired(struct timer *timer)
{
    struct lane *lane = LIST_ENTRY(timer, struct lane, timer);
    queue_lane(lane);
    pump_wake(lane->pump);
}

/* As engine_verbs::keeps_order, for the lane's topic. */
static uint64_t keeps_order(const struct lane *lane)
{
    struct pump_door *door = lane->pump->options.door;
    if (lane->pump->options.leaves_ordered)
        return 0;
    return door->keeps_order ? door->keeps_order(door, lane_name(lane)) : 1;
}

/* Calls keeps_order() too: its result can change by time alone, before order_changes() says so. */
bool lane_is_others(const struct lane *lane)
{
    return lane->kept && lane->kept->settings.order == ORDER_BY_KEY &&
           (!lane->ours || keeps_order(lane) != lane->ours);
}

/* Why the lane's own settings or state keep it from reserving; HELD_NOT: nothing does. */
static enum held_why closed_by(const struct lane *lane)
{
    if (!lane->kept || lane->kept->settings.paused || lane->stopped || lane->pump->draining)
        return HELD_PAUSED;
    if (lane_is_others(lane))
        return HELD_OTHERS;
    if (!lane->sink || !lane->sink->sink->verbs->ready(lane->sink->sink, NULL))
        return HELD_SINK;
    if (lane_is_ordered(lane) && !key_order_open(lane->keys))
        return HELD_KEYS;
    return HELD_NOT;
}

void lane_want(struct lane *lane)
{
    if (lane->state != LANE_IDLE || !lane->kept)
        return;
    queue_lane(lane);
    pump_wake(lane->pump);
}

void lane_visit(struct lane *lane)
{
    struct pump *pump = lane->pump;
    if (lane->state == LANE_RESERVING) {
        bool held = (lane->origin && origin_until_us(lane->origin) > pump_now(pump)) ||
                    bucket_tokens(&lane->bucket, pump_now(pump)) == 0;
        if (closed_by(lane) == HELD_NOT && !held)
            return;
        pump->options.door->cancel(pump->options.door, &lane->ticket);
    }
    if (!lane->kept)
        rest(lane, LANE_IDLE, HELD_PAUSED);
    else if (lane->state != LANE_QUEUED)
        queue_lane(lane);
    if (lane->kept)
        pump_wake(pump);
}

/* ---- receivers ---- */

static void origin_expired(struct timer *timer)
{
    struct origin *origin = LIST_ENTRY(timer, struct origin, timer);
    origin_wake(origin->user, origin);
    pump_wake(origin->user); /* a job in pump::ready may have waited for it */
}

/* The origin whose name is in pump->text. */
static struct origin *take_origin(struct pump *pump, uint32_t most, uint32_t rate_count,
                                  int64_t rate_us)
{
    struct origin *origin = origins_take(&pump->origins, buf_bytes(&pump->text));
    origin_limit(origin, most, rate_count, rate_us, pump_now(pump));
    origin->user = pump;
    origin->timer.expired = origin_expired;
    return origin;
}

struct origin *origin_of(struct lane *lane, const struct target *target, struct bytes url)
{
    struct pump *pump = lane->pump;
    const struct pump_options *options = &pump->options;
    bool http = target->type == TARGET_HTTP;
    pump->text.len = 0;
    if ((http && !url.len) || !origin_name(target, lane_name(lane), url, &pump->text))
        return NULL;
    if (!http)
        return take_origin(pump, options->concurrency, 0, 0);
    return take_origin(pump, options->host_concurrency, options->host_rate_count,
                       options->host_rate_us);
}

struct origin *origin_of_key(struct lane *lane, struct bytes key)
{
    struct pump *pump = lane->pump;
    const struct topic_settings *settings = &lane->kept->settings;
    uint32_t most = settings->key_concurrency;
    if (!key.len || (!most && !settings->key_rate_us))
        return NULL;
    pump->text.len = 0;
    buf_add_str(&pump->text, "key:");
    buf_add_bytes(&pump->text, lane_name(lane));
    buf_add_char(&pump->text, '\n'); /* in no topic's name */
    buf_add_bytes(&pump->text, key);
    return take_origin(pump, most ? most : pump->options.concurrency, settings->key_rate_count,
                       settings->key_rate_us);
}

void origin_release(struct pump *pump, struct origin *origin)
{
    if (!origin)
        return;
    if (origin->users == 1)
        loop_cancel(pump->options.loop, &origin->timer);
    origins_give(&pump->origins, origin, pump_now(pump));
}

/* The lane waits until the receiver has room or a token, or until its breaker admits a probe. */
static void block(struct lane *lane)
{
    struct origin *origin = lane->origin;
    struct loop *loop = lane->pump->options.loop;
    int64_t until_us = origin_until_us(origin);
    bool by_time = until_us > loop->now_us;
    bool breaks = breaker_is_open(&origin->breaker) || origin->hold_us > loop->now_us;
    rest(lane, LANE_BLOCKED, breaks ? HELD_BREAKER : by_time ? HELD_RATE : HELD_HOST);
    list_add_tail(&origin->blocked, &lane->place);
    if (by_time)
        loop_arm_by(loop, &origin->timer, until_us);
}

void origin_wake(struct pump *pump, struct origin *origin)
{
    if (list_empty(&origin->blocked) || !origin_credit(origin, pump_now(pump))) {
        int64_t until_us = origin_until_us(origin);
        if (!list_empty(&origin->blocked) && until_us > pump_now(pump))
            loop_arm_by(pump->options.loop, &origin->timer, until_us);
        return;
    }
    queue_lane(LIST_ENTRY(origin->blocked.next, struct lane, place));
    pump_wake(pump);
}

struct push_sink *sink_of(struct pump *pump, const struct target *target)
{
    for (unsigned i = 0; i < pump->sink_count; i++) {
        struct push_sink *sink = &pump->sinks[i];
        bool named =
            !sink->broker_len || bytes_eq(target->broker, bytes_of(sink->broker, sink->broker_len));
        if (sink->type == target->type && named)
            return sink;
    }
    return NULL;
}

/* ---- credit ---- */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t lane_concurrency(const struct lane *lane)
{
    uint32_t most = lane->pump->options.concurrency, own = lane->kept->settings.concurrency;
    return own && own < most ? own : most;
}

/* How many jobs the lane may reserve; 0: none, and lane->state and ->why are set. */
static uint32_t credit(struct lane *lane)
{
    struct pump *pump = lane->pump;
    int64_t now_us = pump_now(pump);
    enum held_why why = closed_by(lane);
    if (why) {
        rest(lane, LANE_IDLE, why);
        return 0;
    }
    if (now_us < lane->not_before_us) {
        wait_until(lane, lane->not_before_us, HELD_ERROR);
        return 0;
    }
    if (lane->origin && !origin_credit(lane->origin, now_us)) {
        block(lane);
        return 0;
    }
    if (!lane->in_flight && now_us - lane->active_us > IDLE_AFTER_US)
        lane->window = 1;
    uint32_t most = least(lane_concurrency(lane), lane->window);
    if (lane->in_flight >= most) {
        rest(lane, LANE_IDLE, HELD_TOPIC);
        return 0;
    }
    uint32_t tokens = bucket_tokens(&lane->bucket, now_us);
    if (!tokens) {
        wait_until(lane, bucket_next_us(&lane->bucket), HELD_RATE);
        return 0;
    }
    uint32_t count = least(most - lane->in_flight, tokens);
    return lane->origin ? least(count, origin_credit(lane->origin, now_us)) : count;
}

/* The lane's share of the free slots: the more lanes wait, the smaller. */
static uint32_t share(const struct lane *lane)
{
    uint32_t slots = pump_slots(lane->pump), waiting = lane->pump->ring_count + 1;
    uint64_t most = (uint64_t)slots * SHARE;
    if (lane->in_flight && lane->in_flight >= most)
        return 0;
    uint32_t part = slots / waiting;
    return part ? part : 1;
}

/* ---- reserving ---- */

/* The reserve was refused: the next one waits, longer each time. EMPTY is no refusal. */
static void back_off(struct lane *lane, enum err err)
{
    if (err == ERR_EMPTY)
        return;
    lane->backoff_us =
        lane->backoff_us ? backoff_after(lane->backoff_us, BACKOFF_MOST_US) : BACKOFF_FIRST_US;
    lane->not_before_us = pump_now(lane->pump) + lane->backoff_us / 2 +
                          (int64_t)(pump_random(lane->pump) % (uint64_t)(lane->backoff_us / 2 + 1));
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct lane *lane = LIST_ENTRY(ticket, struct lane, ticket);
    struct pump *pump = lane->pump;
    rest(lane, LANE_IDLE, HELD_NOT);
    if (reply->err) {
        back_off(lane, reply->err);
        lane->reserve_next = 1;
    } else {
        lane->backoff_us = 0;
        struct reply_share *share = NULL;
        for (uint32_t i = 0; i < reply->count; i++)
            shipment_arrive(lane, &reply->jobs[i], reply->hold, &share);
        reply_share_drop(share);
        bool full = reply->count >= lane->reserving;
        lane->reserve_next = full           ? least(lane->reserving * 2, RESERVE_MAX)
                             : reply->count ? reply->count
                                            : 1;
        pump->again = true;
    }
    if (!lane->kept)
        return;
    queue_lane(lane);
    pump_wake(pump);
}

void lane_reserve(struct lane *lane)
{
    struct pump *pump = lane->pump;
    CHECK(lane->state == LANE_QUEUED);
    struct origin *origin = lane->origin;
    uint32_t count = credit(lane);
    if (!count) {
        if (origin && lane->state != LANE_BLOCKED)
            origin_wake(pump, origin); /* for a lane that can use what this one was woken for */
        return;
    }
    uint32_t part = share(lane);
    leave(lane);
    if (!part) { /* it continues when slots are freed */
        rest(lane, LANE_IDLE, HELD_NOT);
        queue_lane(lane);
        return;
    }
    count =
        least(least(count, lane->reserve_next ? lane->reserve_next : 1), least(part, RESERVE_MAX));
    struct bytes name = lane_name(lane);
    int64_t timeout_us = pump_timeout_us(pump, &lane->kept->settings.target);
    lane->reserving = count;
    lane->state = LANE_RESERVING;
    lane->ticket = (struct ticket){.answered = answered};
    struct cmd cmd = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = &name,
                    .topic_count = 1,
                    .max = count,
                    .wait_us = WAIT_US,
                    .ttr_us = timeout_us + LEASE_SPARE_US,
                    .bound = true},
    };
    (void)pump_submit(pump, &cmd, &lane->ticket); /* answered() handles every result */
    if (origin)
        origin_wake(pump, origin); /* there may be room for another lane */
}

/* ---- settings ---- */

static bool name_is(const void *ctx, uint32_t number, const void *key)
{
    const struct lane *lane = pool_at(ctx, number);
    return bytes_eq(lane_name(lane), *(const struct bytes *)key);
}

void lanes_init(struct pump *pump)
{
    pool_init(&pump->lanes, sizeof(struct lane));
    map_init(&pump->by_topic, name_is, &pump->lanes);
}

static struct lane *lane_of(struct pump *pump, struct bytes topic, bool make)
{
    uint64_t hash = XXH3_64bits_withSeed(topic.at, topic.len, pump->options.random);
    uint32_t number = map_find(&pump->by_topic, hash, &topic);
    if (number != MAP_NONE)
        return pool_at(&pump->lanes, number);
    if (!make)
        return NULL;
    number = pool_take(&pump->lanes);
    struct lane *lane = pool_at(&pump->lanes, number);
    *lane = (struct lane){.number = number, .pump = pump, .name_len = topic.len, .hash = hash};
    lane->name = mem_alloc(topic.len + 1);
    memcpy(lane->name, topic.at, topic.len);
    lane->timer.expired = timer_expired;
    lane->why = HELD_PAUSED;
    pump->counts.held[HELD_PAUSED]++;
    pump->counts.topics++;
    list_init(&lane->all);
    list_init(&lane->place);
    list_init(&lane->pausing);
    map_add(&pump->by_topic, hash, number);
    return lane;
}

static void clear_target(struct lane *lane)
{
    struct pump *pump = lane->pump;
    if (lane->state == LANE_RESERVING)
        pump->options.door->cancel(pump->options.door, &lane->ticket);
    rest(lane, LANE_IDLE, HELD_PAUSED);
    list_remove(&lane->pausing);
    struct origin *origin = lane->origin;
    lane->origin = NULL;
    if (origin)
        origin_wake(pump, origin); /* this lane may have been woken without reserving yet */
    origin_release(pump, origin);
    settings_drop(lane->kept);
    lane->kept = NULL;
    lane->sink = NULL;
}

/* Gives back the jobs that wait for another of their key, too: else they would stay reserved for as
   long as nobody takes the one before. */
static void leave_order(struct lane *lane)
{
    if (lane->ours)
        shipments_give_back(lane);
    lane->ours = 0;
}

void lane_configure(struct pump *pump, struct bytes topic, struct settings_kept *kept)
{
    bool pushed = kept && kept->settings.target.type != TARGET_NONE;
    struct lane *lane = lane_of(pump, topic, pushed);
    if (!lane)
        return;
    clear_target(lane);
    if (!pushed) {
        leave_order(lane);
        lane_settle(lane);
        return;
    }
    const struct topic_settings *settings = &kept->settings;
    settings_hold(kept);
    lane->kept = kept;
    lane->sink = sink_of(pump, &settings->target);
    bool http = settings->target.type == TARGET_HTTP;
    lane->origin =
        origin_of(lane, &settings->target, http ? settings->target.http.url : (struct bytes){0});
    bucket_limit(&lane->bucket, settings->rate_count, settings->rate_us, settings->burst,
                 pump_now(pump));
    lane->window = 1;
    lane->reserve_next = 1;
    lane->failing_us = lane->not_before_us = lane->backoff_us = 0;
    lane->stopped = false;
    if (settings->order != ORDER_BY_KEY)
        leave_order(lane);
    else if (settings->paused)
        shipments_give_back(lane); /* it may be for days */
    queue_lane(lane);
    lane_update_owner(lane);
    pump_wake(pump);
}

void lane_update_owner(struct lane *lane)
{
    uint64_t ours = lane->kept->settings.order == ORDER_BY_KEY ? keeps_order(lane) : 0;
    if (ours == lane->ours)
        return;
    if (lane->ours)
        shipments_give_back(lane);
    lane->ours = ours;
    if (ours && lane->keys)
        key_order_restart(lane->keys);
    else if (ours)
        lane->keys = key_order_new(lane);
    lane_visit(lane);
}

void lane_settle(struct lane *lane)
{
    if (!lane->kept && lane->state != LANE_RESERVING && !lane->shipments)
        lane_free(lane);
}

void lane_free(struct lane *lane)
{
    struct pump *pump = lane->pump;
    clear_target(lane);
    key_order_end(lane->keys);
    pump->counts.held[lane->why]--;
    pump->counts.topics--;
    map_remove(&pump->by_topic, lane->hash, lane->number);
    mem_free(lane->name);
    lane->name = NULL;
    pool_give(&pump->lanes, lane->number);
}

enum held_why pump_held(struct pump *pump, struct bytes topic)
{
    const struct lane *lane = lane_of(pump, topic, false);
    if (!lane || !lane->kept)
        return HELD_NOT;
    switch (lane->state) {
    case LANE_IDLE:
    case LANE_BLOCKED:
    case LANE_WAITING: return lane->why;
    case LANE_QUEUED: return pump->counts.held[HELD_SHARE] ? HELD_SHARE : HELD_NOT;
    case LANE_RESERVING: break;
    }
    return HELD_NOT;
}

struct bytes pump_held_by(struct pump *pump, struct bytes topic)
{
    enum held_why why = pump_held(pump, topic);
    const struct lane *lane = lane_of(pump, topic, false);
    bool of_receiver = why && lane->state == LANE_BLOCKED;
    return of_receiver ? bytes_of(lane->origin->name, lane->origin->name_len) : (struct bytes){0};
}

/* ---- pausing of targets that fail ---- */

void lane_pause(struct lane *lane, const char *why)
{
    if (!lane->kept || lane->stopped)
        return;
    lane->stopped = true;
    lane->pause_why = why;
    list_add_tail(&lane->pump->pausing, &lane->pausing);
    lane->pump->counts.targets_paused++;
    char name[TOPIC_NAME_MAX + 1];
    memcpy(name, lane->name, lane->name_len);
    name[lane->name_len] = '\0';
    log_event(
        LOG_WARN, "target_paused",
        "topic=\"%s\" why=%s hint=\"nothing is sent to this target until you run: later topic "
        "set %s --resumed\"",
        name, why, name);
    pump_wake(lane->pump);
}

/* Stores `paused` in the topics' settings, if those have not changed since. If the engine cannot do
   that now, only this process stops sending to the target. */
void lanes_submit_pauses(struct pump *pump)
{
    while (!list_empty(&pump->pausing)) {
        struct lane *lane = LIST_ENTRY(pump->pausing.next, struct lane, pausing);
        list_remove(&lane->pausing);
        struct topic_settings settings = lane->kept->settings;
        settings.paused = true;
        settings.paused_why = bytes_str(lane->pause_why);
        pump->text.len = 0;
        topic_settings_write(&settings, &pump->text);
        struct cmd cmd = {
            .kind = CMD_CONFIGURE_TOPIC,
            .topic = {.topic = lane_name(lane),
                      .settings = buf_bytes(&pump->text),
                      .if_version = true,
                      .version = lane->kept->version},
        };
        lane_visit(lane);
        (void)pump_submit(pump, &cmd, NULL);
    }
}
