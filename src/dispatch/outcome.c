/*
 * What the outcome of a delivery does: to the counts, to its receiver's breaker and limits, to its
 * topic's lane, and to the job, which is finished, tried again later, or buried.
 *
 * The due time of the next attempt is always given, so the engine's own schedule never buries: that
 * is decided here (failures + 1 against the schedule), whatever jitter and Retry-After add.
 */
#include "base/log.h"
#include "base/time_us.h"
#include "dispatch/pump_parts.h"
#include "proto/settings/attempt_note.h"

enum { UNSENT_US = 300000 }; /* nothing is reserved for this long after the sink did not send */

static int64_t with_jitter(struct pump *pump, int64_t wait_us, uint32_t permille)
{
    int64_t part_us = wait_us / 1000 * (permille < 1000 ? permille : 1000);
    if (part_us <= 0)
        return wait_us;
    return wait_us - part_us + (int64_t)(pump_random(pump) % ((uint64_t)part_us * 2 + 1));
}

static void bury(struct shipment *shipment)
{
    shipment->pump->counts.buried++;
    shipment_end_by(shipment, CMD_BURY);
}

static void retry_or_bury(struct shipment *shipment, const struct outcome *outcome)
{
    struct pump *pump = shipment->pump;
    if (shipment->last) {
        bury(shipment);
        return;
    }
    int64_t wait_us =
        with_jitter(pump, shipment->wait_us, shipment->kept->settings.jitter_permille);
    int64_t asked_us = outcome->retry_after_us;
    if (asked_us > pump->options.retry_after_max_us)
        asked_us = pump->options.retry_after_max_us;
    if (wait_us < asked_us)
        wait_us = asked_us;
    shipment->end.has_delay = true;
    shipment->end.due_us = time_add(pump_now(pump), wait_us);
    shipment_end_by(shipment, CMD_RELEASE);
}

/* Logs changes of breakers: only of receivers, because there may be many keys; and only the first
 * opening, though failed probes open it again. */
static void update_breaker(const struct shipment *shipment, const struct origin *origin,
                           enum breaker_change change)
{
    bool probed = origin->breaker.open_us > BREAKER_FIRST_US;
    if (origin != shipment->origin || change == BREAKER_SAME || probed)
        return;
    struct bytes topic = lane_name(shipment->lane), id = shipment->delivery.id;
    if (change == BREAKER_OPENED)
        log_event(
            LOG_WARN, "breaker_opened",
            "receiver=\"%.*s\" topic=\"%.*s\" hint=\"push.breaker_failures attempts failed in a "
            "row; to see why, run: later attempts %.*s\"",
            (int)origin->name_len, origin->name, (int)topic.len, topic.at, (int)id.len, id.at);
    else
        log_event(LOG_INFO, "breaker_closed", "receiver=\"%.*s\"", (int)origin->name_len,
                  origin->name);
}

/* Notes the outcome for its receiver, or for its key. */
static void update_origin(struct shipment *shipment, struct origin *origin,
                          const struct outcome *outcome)
{
    struct pump *pump = shipment->pump;
    int64_t now_us = pump_now(pump);
    origin_ended(origin);
    bool sent = outcome->kind != OUTCOME_UNSENT && !outcome->untried;
    if (sent || outcome->unhealthy) { /* the latter, UNSENT: it held its slot for long */
        enum breaker_change change =
            origin_outcome(origin, outcome->unhealthy, now_us, pump->options.breaker_failures);
        origin_took(origin, outcome->took_us);
        pump->counts.opened += change == BREAKER_OPENED;
        update_breaker(shipment, origin, change);
        if (change == BREAKER_CLOSED && origin == shipment->origin && !shipment->own_url)
            shipment->lane->window = 1;
        bool busy = outcome->retry_after_us > 0 && (outcome->code == 429 || outcome->code == 503);
        int64_t hold_us = outcome->retry_after_us;
        if (hold_us > pump->options.retry_after_max_us)
            hold_us = pump->options.retry_after_max_us;
        if (busy && now_us + hold_us > origin->hold_us)
            origin->hold_us = now_us + hold_us;
    }
    origin_wake(pump, origin);
}

/* Notes the outcome for the lane. Outcomes of jobs' own URLs neither pause the topic's target nor
 * keep the lane's window small. */
static void update_lane(struct shipment *shipment, const struct outcome *outcome)
{
    struct pump *pump = shipment->pump;
    struct lane *lane = shipment->lane;
    int64_t now_us = pump_now(pump);
    if (shipment->kept != lane->kept)
        return;                            /* its settings have changed meanwhile */
    if (outcome->kind == OUTCOME_UNSENT) { /* the sink says it is ready, but did not send */
        lane->not_before_us = now_us + UNSENT_US;
        return;
    }
    bool well = !outcome->unhealthy && !outcome->untried;
    if ((well || shipment->own_url) && lane->window < pump->options.concurrency)
        lane->window++;
    if (shipment->own_url)
        return;
    if (outcome->kind == OUTCOME_DELIVERED) {
        lane->failing_us = 0;
        return;
    }
    if (!lane->failing_us)
        lane->failing_us = now_us;
    if (outcome->kind == OUTCOME_GONE)
        lane_pause(lane, "gone");
    else if (pump->options.disable_after_us &&
             now_us - lane->failing_us >= pump->options.disable_after_us)
        lane_pause(lane, "failing");
}

static void count_outcome(struct pump *pump, const struct outcome *outcome)
{
    struct pump_counts *counts = &pump->counts;
    unsigned bucket = 0;
    counts->outcomes[outcome->kind]++;
    if (outcome->kind == OUTCOME_UNSENT || !outcome->address.len)
        return; /* nothing was sent, so there is no duration */
    while (bucket < PUMP_BUCKETS - 1 && outcome->took_us > pump_bound_us(bucket))
        bucket++;
    counts->took_us[bucket]++;
    counts->took_us_sum += outcome->took_us > 0 ? (uint64_t)outcome->took_us : 0;
}

static void write_note(struct shipment *shipment, const struct outcome *outcome)
{
    shipment->end.note_code = outcome->code;
    attempt_note_write(
        &(struct attempt_note){.reason = outcome->reason,
                               .address = outcome->address,
                               .took_us = outcome->address.len ? outcome->took_us : -1,
                               .response = outcome->response},
        &shipment->note);
}

static void end_by_outcome(struct shipment *shipment, const struct outcome *outcome)
{
    switch (outcome->kind) {
    case OUTCOME_DELIVERED: shipment_end_by(shipment, CMD_FINISH); break;
    case OUTCOME_FAILED:
        write_note(shipment, outcome);
        retry_or_bury(shipment, outcome);
        break;
    case OUTCOME_REFUSED:
    case OUTCOME_GONE:
        write_note(shipment, outcome);
        bury(shipment);
        break;
    case OUTCOME_UNSENT:
    case OUTCOME_KINDS: shipment_return(shipment, 0); break;
    }
}

void shipment_apply_outcome(struct shipment *shipment, const struct outcome *outcome)
{
    count_outcome(shipment->pump, outcome);
    update_origin(shipment, shipment->origin, outcome);
    if (shipment->of_key)
        update_origin(shipment, shipment->of_key, outcome);
    update_lane(shipment, outcome);
    end_by_outcome(shipment, outcome);
}

void shipment_refuse(struct shipment *shipment, struct bytes reason)
{
    struct outcome outcome = {.kind = OUTCOME_REFUSED, .retry_after_us = -1, .reason = reason};
    count_outcome(shipment->pump, &outcome);
    write_note(shipment, &outcome);
    bury(shipment);
}
