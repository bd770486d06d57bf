#include "dispatch/pump.h"

#include "base/check.h"
#include "base/mem.h"
#include "dispatch/key_order.h"
#include "dispatch/pump_parts.h"

enum { RESERVE_NS = 1500, SWEEP_NS = 60, METRICS_MAX = 256 };

static void settings_changed(struct registry_listener *listener, struct bytes topic,
                             struct settings_kept *kept)
{
    lane_configure(LIST_ENTRY(listener, struct pump, listener), topic, kept);
}

struct pump *pump_new(const struct pump_options *options)
{
    struct pump *pump = mem_zalloc(sizeof(*pump));
    CHECK(options->concurrency > 0);
    pump->options = *options;
    pump->random = options->random;
    pump->recheck_next = POOL_NONE;
    pump->listener.changed = settings_changed;
    lanes_init(pump);
    origins_init(&pump->origins, options->random);
    list_init(&pump->ring);
    list_init(&pump->pausing);
    list_init(&pump->outbox);
    list_init(&pump->calls);
    list_init(&pump->ended_orders);
    list_init(&pump->ready);
    list_init(&pump->shipments);
    const char *why;
    CHECK(schedule_read_words(BYTES("standard"), &pump->standard, &why));
    registry_listen(options->registry, &pump->listener);
    return pump;
}

void pump_free(struct pump *pump)
{
    if (!pump)
        return;
    pump->draining = true;
    shipments_end(pump);
    for (uint32_t i = pool_next(&pump->lanes, 0); i != POOL_NONE;
         i = pool_next(&pump->lanes, i + 1)) {
        struct lane *lane = pool_at(&pump->lanes, i);
        if (lane->name)
            lane_free(lane);
    }
    key_orders_free(pump);
    registry_listen(pump->options.registry, NULL);
    map_fini(&pump->by_topic);
    pool_fini(&pump->lanes);
    origins_fini(&pump->origins);
    for (unsigned i = 0; i < pump->sink_count; i++)
        mem_free(pump->sinks[i].broker);
    arena_fini(&pump->scratch);
    buf_fini(&pump->text);
    mem_free(pump);
}

void pump_give_up(struct pump *pump)
{
    pump->draining = true;
    shipments_give_up(pump);
}

/* ---- sinks ---- */

/* Begins to look at all lanes, in slices. */
static void recheck_all(struct pump *pump)
{
    pump->recheck_next = 0;
    pump_wake(pump);
}

static void sink_changed(struct sink *sink)
{
    recheck_all(sink->user);
}

void pump_add_sink(struct pump *pump, enum target_type type, struct bytes broker, struct sink *sink)
{
    CHECK(pump->sink_count < PUMP_SINKS_MAX);
    struct push_sink *added = &pump->sinks[pump->sink_count++];
    *added = (struct push_sink){
        .type = type, .broker = mem_alloc(broker.len + 1), .broker_len = broker.len, .sink = sink};
    if (broker.len)
        memcpy(added->broker, broker.at, broker.len);
    added->broker[broker.len] = '\0';
    sink->changed = sink_changed;
    sink->user = pump;
}

/* Collects the metrics of all sinks, because those of one name must be reported together. */
struct collected_metrics {
    struct metric_sink sink;
    const char *broker; /* of the sink that reports now; NULL: none */
    struct metric at[METRICS_MAX];
    unsigned count;
};

static void add_metric(struct metric_sink *sink, const struct metric *metric)
{
    struct collected_metrics *collected = LIST_ENTRY(sink, struct collected_metrics, sink);
    for (unsigned i = 0; i < collected->count; i++) {
        if (strcmp(collected->at[i].name, metric->name) == 0 &&
            collected->at[i].broker == collected->broker) {
            collected->at[i].value += metric->value;
            return;
        }
    }
    if (collected->count == METRICS_MAX || metric->type == METRIC_HISTOGRAM)
        return;
    collected->at[collected->count] = *metric; /* their names and help are literals */
    collected->at[collected->count++].broker = collected->broker;
}

static void write_family(struct collected_metrics *collected, unsigned first,
                         struct metric_sink *metrics)
{
    const char *name = collected->at[first].name;
    for (unsigned i = first; i < collected->count; i++) {
        if (!collected->at[i].name || strcmp(collected->at[i].name, name) != 0)
            continue;
        collected->at[i].more = i > first;
        metrics->metric(metrics, &collected->at[i]);
        if (i > first)
            collected->at[i].name = NULL; /* reported */
    }
}

void pump_describe_sinks(const struct pump *pump, struct metric_sink *metrics)
{
    struct collected_metrics collected = {.sink.metric = add_metric};
    for (unsigned i = 0; i < pump->sink_count; i++) {
        const struct push_sink *added = &pump->sinks[i];
        collected.broker = added->broker_len ? added->broker : NULL;
        if (added->sink->verbs->describe)
            added->sink->verbs->describe(added->sink, &collected.sink);
    }
    for (unsigned i = 0; metrics->metric && i < collected.count; i++) {
        if (collected.at[i].name)
            write_family(&collected, i, metrics);
    }
}

/* ---- the turn ---- */

static bool recheck_step(struct pump *pump)
{
    for (unsigned steps = 0; pump->recheck_next != POOL_NONE; steps++) {
        pump->recheck_next = pool_next(&pump->lanes, pump->recheck_next);
        if (pump->recheck_next == POOL_NONE)
            return false;
        if (steps > 0 && budget_spent(pump->options.budget))
            return true;
        struct lane *lane = pool_at(&pump->lanes, pump->recheck_next++);
        budget_spend(pump->options.budget, SWEEP_NS);
        if (lane->name && pump->draining)
            shipments_give_back(lane);
        if (!lane->name || !lane->kept)
            continue;
        lane_update_owner(lane);
        if (lane->state == LANE_RESERVING || lane->why == HELD_SINK)
            lane_visit(lane);
    }
    return false;
}

/* Freeing a slot or memory wakes the pump. */
static bool may_reserve(const struct pump *pump)
{
    return pump_slots(pump) && pump_has_memory(pump);
}

/* Asks for lanes in the order in which they were queued; one that is queued meanwhile waits for the
 * next step. All that stay in the ring wait for slots, or for memory. */
static bool ring_step(struct pump *pump)
{
    uint32_t count = pump->ring_count;
    pump->again = false;
    for (uint32_t i = 0; i < count && pump->ring_count > 0 && may_reserve(pump); i++) {
        if (i > 0 && budget_spent(pump->options.budget))
            return true;
        budget_spend(pump->options.budget, RESERVE_NS);
        lane_reserve(LIST_ENTRY(pump->ring.next, struct lane, place));
    }
    bool more = pump->again && may_reserve(pump);
    pump->counts.held[HELD_SHARE] = more ? 0 : pump->ring_count;
    return more;
}

/* True: no topic has a target, and nothing is under way or to be freed. */
static bool has_nothing(const struct pump *pump)
{
    return pump->lanes.count == 0 && list_empty(&pump->shipments) &&
           list_empty(&pump->ended_orders) && !pool_has_spare(&pump->lanes) &&
           !pool_has_spare(&pump->origins.pool);
}

bool pump_step(struct pump *pump)
{
    if (has_nothing(pump))
        return false;
    lanes_submit_pauses(pump);
    bool more = shipments_step(pump);
    more |= key_orders_step(pump);
    more |= recheck_step(pump);
    more |= ring_step(pump);
    (void)pool_trim(&pump->lanes);
    (void)pool_trim(&pump->origins.pool);
    return more;
}

void pump_order_changed(struct pump *pump)
{
    recheck_all(pump);
}

void pump_drain(struct pump *pump)
{
    if (pump->draining)
        return;
    pump->draining = true;
    recheck_all(pump);
}

bool pump_idle(const struct pump *pump)
{
    return list_empty(&pump->shipments);
}

/* ---- state and metrics ---- */

const struct pump_counts *pump_counts(const struct pump *pump)
{
    return &pump->counts;
}

int64_t pump_bound_us(unsigned bucket)
{
    static const int64_t bounds_us[PUMP_BUCKETS - 1] = {
        1000, 5000, 10000, 25000, 50000, 100000, 250000, 1000000, 2500000, 5000000, 15000000};
    return bucket < PUMP_BUCKETS - 1 ? bounds_us[bucket] : INT64_MAX;
}

void pump_valid(const struct pump *pump)
{
    uint32_t slots = 0, ring = 0, ready = 0;
    uint64_t bytes = 0;
    for (struct list *node = pump->shipments.next; node != &pump->shipments; node = node->next) {
        const struct shipment *shipment = LIST_ENTRY(node, struct shipment, all);
        slots += shipment->slot;
        ready += shipment->ready;
        bytes += shipment->bytes;
        CHECK(shipment->state != SHIP_SENT || shipment->slot);
    }
    for (struct list *node = pump->ring.next; node != &pump->ring; node = node->next)
        ring++;
    CHECK(slots == pump->counts.in_flight && slots <= pump->options.concurrency);
    CHECK(bytes == pump->counts.bytes && ready == pump->ready_count);
    CHECK(ring == pump->ring_count);
    pool_valid(&pump->lanes);
}
