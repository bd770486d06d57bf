/*
 * A job that the pump holds: copied when its reserve is answered, sent, and ended by the outcome.
 * Every command for it waits in pump::outbox for pump_step(), because most are caused within a
 * callback of the engine, where nothing may be submitted.
 *
 * The schedule is the job's own, else its topic's, else `standard` of the Standard Webhooks. The
 * due time of the next attempt is always given, so the engine's own schedule never buries: that is
 * decided here (failures + 1 against the schedule), whatever jitter and Retry-After add.
 */
#include <stdio.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "dispatch/key_order.h"
#include "dispatch/pump_parts.h"
#include "proto/settings/attempt_note.h"
#include "proto/settings/job_properties.h"

enum { END_NS = 800, COPY_BYTES_PER_NS = 4, AGAIN_US = 300000 };
enum { LOOK_NS = 10 }; /* work for one shipment that is gone through */

static const struct delivery nothing;

/* ---- slots ---- */

static void free_slot(struct shipment *shipment)
{
    struct pump *pump = shipment->pump;
    if (!shipment->slot)
        return;
    shipment->slot = false;
    pump->counts.in_flight--;
    if (shipment->lane) {
        shipment->lane->in_flight--;
        shipment->lane->active_us = pump_now(pump);
    }
}

/* Takes it out of pump::ready, if it is there, or of the outbox. */
static void unlist(struct shipment *shipment)
{
    list_remove(&shipment->place);
    if (!shipment->ready)
        return;
    shipment->ready = false;
    shipment->lane->ready--;
    shipment->pump->ready_count--;
}

void shipment_make_ready(struct shipment *shipment)
{
    unlist(shipment);
    shipment->ready = true;
    shipment->lane->ready++;
    shipment->pump->ready_count++;
    list_add_tail(&shipment->pump->ready, &shipment->place);
}

void reply_share_drop(struct reply_share *share)
{
    if (!share || --share->users)
        return;
    share->hold->release(share->hold);
    mem_free(share);
}

static void free_shipment(struct shipment *shipment)
{
    struct pump *pump = shipment->pump;
    struct lane *lane = shipment->lane;
    CHECK(!shipment->pending && shipment->state != SHIP_SENT && !shipment->entry);
    free_slot(shipment);
    loop_cancel(pump->options.loop, &shipment->timer);
    list_remove(&shipment->all);
    list_remove(&shipment->of_lane);
    unlist(shipment);
    pump->counts.bytes -= shipment->bytes;
    buf_fini(&shipment->note);
    settings_drop(shipment->kept);
    origin_release(pump, shipment->origin);
    origin_release(pump, shipment->of_key);
    reply_share_drop(shipment->share);
    mem_free(shipment);
    if (!lane)
        return;
    lane->shipments--;
    lane_want(lane);
    lane_settle(lane);
    if (!list_empty(&pump->ring) || !list_empty(&pump->ready))
        pump_wake(pump);
}

/* ---- the command that ends it ---- */

static void to_outbox(struct shipment *shipment)
{
    struct pump *pump = shipment->pump;
    shipment->state = SHIP_ENDING;
    loop_cancel(pump->options.loop, &shipment->timer);
    unlist(shipment);
    list_add_tail(&pump->outbox, &shipment->place);
    pump_wake(pump);
}

static void end_by(struct shipment *shipment, enum cmd_kind kind)
{
    shipment->end_kind = kind;
    shipment->end.brief = true;
    to_outbox(shipment);
}

void shipment_return(struct shipment *shipment, int64_t due_us)
{
    struct pump *pump = shipment->pump;
    if (shipment->entry && due_us <= 0 && pump->options.shared)
        due_us = key_order_return_us(shipment);
    pump->counts.returned++;
    shipment->outcome_unwanted = true;
    shipment->end.why = RELEASE_UNDELIVERED;
    shipment->end.has_delay = due_us > 0;
    shipment->end.due_us = due_us;
    if (shipment->entry)
        key_order_left(shipment, due_us > 0 ? due_us : pump_now(pump));
    free_slot(shipment);
    end_by(shipment, CMD_RELEASE);
}

/* Renews the lease for a whole delivery from now on. */
static void submit_touch(struct shipment *shipment, struct ticket *ticket)
{
    struct cmd cmd = {.kind = CMD_TOUCH,
                      .job = {.ref = shipment->end.ref,
                              .lease = shipment->end.lease,
                              .has_ttr = true,
                              .ttr_us = shipment->delivery.timeout_us + LEASE_SPARE_US,
                              .brief = true}};
    (void)pump_submit(shipment->pump, &cmd, ticket);
}

/* The outcome is known, but the engine cannot store it now: renews the lease, so that the job is
   not sent again meanwhile. The engine accepts that even at such times. */
static void keep_lease(struct shipment *shipment)
{
    int64_t now_us = pump_now(shipment->pump);
    if (shipment->lease_us - now_us > LEASE_SPARE_US / 2)
        return;
    shipment->lease_us = now_us + shipment->delivery.timeout_us + LEASE_SPARE_US;
    submit_touch(shipment, NULL); /* if the lease was lost, the next answer says so */
}

static void ended(struct ticket *ticket, const struct reply *reply)
{
    struct shipment *shipment = LIST_ENTRY(ticket, struct shipment, ticket);
    struct pump *pump = shipment->pump;
    shipment->pending = false;
    bool lost = err_ends_lease(reply->err);
    if (reply->err == ERR_JOURNAL_DOWN && !pump->draining)
        keep_lease(shipment);
    if (reply->err && !lost && pump_now(pump) + AGAIN_US < shipment->lease_us) {
        loop_arm(pump->options.loop, &shipment->timer, pump_now(pump) + AGAIN_US);
        return; /* tried again later; the lease is still ours */
    }
    pump->counts.stale += reply->err != OK;
    if (shipment->entry) {
        bool stays = shipment->end_kind == CMD_RELEASE && !lost;
        key_order_left(shipment, stays ? shipment->end.due_us : lost ? pump_now(pump) : 0);
    }
    free_shipment(shipment);
}

static void submit_end(struct shipment *shipment)
{
    struct pump *pump = shipment->pump;
    struct cmd cmd = {.kind = shipment->end_kind, .job = shipment->end};
    if (shipment->note.len) {
        cmd.job.note = buf_bytes(&shipment->note);
        if (cmd.job.note.len > JOB_NOTE_MAX)
            cmd.job.note.len = JOB_NOTE_MAX;
    }
    budget_spend(pump->options.budget, END_NS);
    if (shipment->outcome_unwanted) {
        (void)pump_submit(pump, &cmd, NULL);
        free_shipment(shipment);
        return;
    }
    shipment->pending = true;
    shipment->ticket = (struct ticket){.answered = ended, .brief = true};
    (void)pump_submit(pump, &cmd, &shipment->ticket); /* may have freed the shipment */
}

/* ---- outcomes ---- */

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
    end_by(shipment, CMD_BURY);
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
    end_by(shipment, CMD_RELEASE);
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
        lane->not_before_us = now_us + AGAIN_US;
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
    case OUTCOME_DELIVERED: end_by(shipment, CMD_FINISH); break;
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

static void end_test(struct shipment *shipment, const struct outcome *outcome)
{
    struct pump_test *test = shipment->test;
    shipment->pump->tests--;
    pump_wake(shipment->pump); /* a slot is free now */
    free_shipment(shipment);
    if (test) {
        test->shipment = NULL;
        test->done(test, outcome);
    }
}

static void done(struct delivery *delivery, const struct outcome *outcome)
{
    struct shipment *shipment = LIST_ENTRY(delivery, struct shipment, delivery);
    struct pump *pump = shipment->pump;
    CHECK(shipment->state == SHIP_SENT);
    shipment->state = SHIP_ENDING;
    if (!shipment->lane) {
        end_test(shipment, outcome);
        return;
    }
    count_outcome(pump, outcome);
    update_origin(shipment, shipment->origin, outcome);
    if (shipment->of_key)
        update_origin(shipment, shipment->of_key, outcome);
    update_lane(shipment, outcome);
    end_by_outcome(shipment, outcome);
    if (shipment->lane->state == LANE_RESERVING)
        lane_visit(shipment->lane);
}

/* ---- renewing the lease of a job that waits ---- */

static void lease_renewed(struct ticket *ticket, const struct reply *reply);

static void touch(struct shipment *shipment)
{
    shipment->pending = true;
    shipment->lease_us = pump_now(shipment->pump); /* it must not be sent before the answer */
    shipment->ticket = (struct ticket){.answered = lease_renewed, .brief = true};
    submit_touch(shipment, &shipment->ticket);
}

static void arm_lease(struct shipment *shipment)
{
    int64_t timeout_us = shipment->delivery.timeout_us;
    loop_arm(shipment->pump->options.loop, &shipment->timer,
             shipment->lease_us - timeout_us - SEND_SPARE_US);
}

static void lease_renewed(struct ticket *ticket, const struct reply *reply)
{
    struct shipment *shipment = LIST_ENTRY(ticket, struct shipment, ticket);
    struct pump *pump = shipment->pump;
    shipment->pending = false;
    if (err_ends_lease(reply->err)) { /* the job is ready again already, or gone */
        pump->counts.stale++;
        if (shipment->entry)
            key_order_left(shipment, pump_now(pump));
        shipment->state = SHIP_ENDING;
        free_shipment(shipment);
        return;
    }
    /* The first two: it is renewed, but nothing may be sent now; the others:
       shipments_give_back() skipped it. */
    if (reply->err == ERR_JOURNAL_DOWN || reply->err == ERR_STORE_FAILED || pump->draining ||
        !lane_is_ordered(shipment->lane) || lane_is_others(shipment->lane) ||
        shipment->lane->kept->settings.paused) {
        shipment_return(shipment, 0);
        return;
    }
    if (reply->err) { /* Redis is away, or full: the lease may be good for seconds */
        loop_arm(pump->options.loop, &shipment->timer, pump_now(pump) + AGAIN_US);
        return;
    }
    /* From the time when it was asked for; or, if key_order_arrive() set it to 0 meanwhile, still
       in the past. */
    shipment->lease_us += shipment->delivery.timeout_us + LEASE_SPARE_US;
    arm_lease(shipment);
    pump_wake(pump);
}

static void timer_expired(struct timer *timer)
{
    struct shipment *shipment = LIST_ENTRY(timer, struct shipment, timer);
    if (shipment->state == SHIP_ENDING)
        to_outbox(shipment);
    else if (shipment->state == SHIP_HELD)
        touch(shipment);
}

/* ---- sending ---- */

static void send_now(struct shipment *shipment)
{
    struct pump *pump = shipment->pump;
    struct lane *lane = shipment->lane;
    loop_cancel(pump->options.loop, &shipment->timer);
    unlist(shipment);
    shipment->slot = true;
    pump->counts.in_flight++;
    lane->in_flight++;
    origin_sent(shipment->origin);
    if (shipment->of_key)
        origin_sent(shipment->of_key);
    bucket_take(&lane->bucket);
    shipment->state = SHIP_SENT;
    lane->sink->sink->verbs->send(lane->sink->sink, &shipment->delivery);
    /* It may have waited for its key, and taken the last token from the reserve under way: then the
       lane must wait for a token, because others in pump::ready have no timer of their own. */
    if (lane->state == LANE_RESERVING)
        lane_visit(lane);
}

/* Checked again for a job that has waited for its key: it was reserved some time ago. */
static bool lane_has_room(struct lane *lane, int64_t now_us)
{
    return !lane_is_ordered(lane) ||
           (lane->in_flight < lane_concurrency(lane) && bucket_tokens(&lane->bucket, now_us) > 0);
}

/* False: not now; a timer wakes the pump if only time is missing, else a delivery that ends
   does. */
static bool origin_admits(struct pump *pump, struct origin *origin)
{
    int64_t now_us = pump_now(pump), until_us = origin_until_us(origin);
    if (origin_credit(origin, now_us))
        return true;
    if (until_us > now_us)
        loop_arm_by(pump->options.loop, &origin->timer, until_us);
    return false;
}

/* Sends it, if there is a slot and its receiver has credit. False: not now. */
static bool try_to_send(struct shipment *shipment)
{
    struct pump *pump = shipment->pump;
    struct lane *lane = shipment->lane;
    int64_t now_us = pump_now(pump);
    if (shipment->pending) /* its lease is being renewed: lease_renewed() wakes the pump */
        return false;
    if (pump->draining || lane->kept != shipment->kept || lane->stopped || lane_is_others(lane) ||
        !lane->sink || !lane->sink->sink->verbs->ready(lane->sink->sink, NULL)) {
        shipment_return(shipment, 0);
        return true;
    }
    if (shipment->of_key && !origin_admits(pump, shipment->of_key))
        return false;
    bool spare = shipment->lease_us - now_us >= shipment->delivery.timeout_us + SEND_SPARE_US - 1;
    if (!pump_slots(pump) || !spare || !origin_admits(pump, shipment->origin) ||
        !lane_has_room(lane, now_us))
        return false;
    send_now(shipment);
    return true;
}

/* ---- arriving ---- */

struct shipment *shipment_new(struct pump *pump, size_t room_bytes)
{
    size_t bytes = sizeof(struct shipment) + room_bytes;
    struct shipment *shipment = mem_alloc(bytes);
    *shipment = (struct shipment){.delivery = nothing, .pump = pump, .bytes = bytes};
    shipment->delivery.done = done;
    shipment->timer.expired = timer_expired;
    list_init(&shipment->place);
    list_init(&shipment->of_lane);
    list_add_tail(&pump->shipments, &shipment->all);
    pump->counts.bytes += bytes;
    budget_spend(pump->options.budget, (int64_t)room_bytes / COPY_BYTES_PER_NS);
    return shipment;
}

/* The job can never be sent: buries it, with the reason as its note. */
static void refuse(struct shipment *shipment, struct bytes reason)
{
    struct outcome outcome = {.kind = OUTCOME_REFUSED, .retry_after_us = -1, .reason = reason};
    count_outcome(shipment->pump, &outcome);
    write_note(shipment, &outcome);
    bury(shipment);
}

/* The due time for a job whose key, or receiver, has no credit now; 0: for a free slot, or for the
   receiver that the lane itself waits for. */
static int64_t slot_of(const struct shipment *shipment)
{
    struct origin *origin = shipment->origin, *of_key = shipment->of_key;
    int64_t now_us = pump_now(shipment->pump);
    if (!pump_slots(shipment->pump))
        return 0;
    if (of_key && !origin_credit(of_key, now_us))
        return origin_slot(of_key, now_us);
    return origin != shipment->lane->origin ? origin_slot(origin, now_us) : 0;
}

/* The first job of its key cannot be sent now. It waits in memory; or, as thousands of keys may
   have such a job, until its time in the queue, where it keeps its place before those of its key.
 */
static void wait_for_turn(struct shipment *shipment)
{
    int64_t due_us = shipment->lane->ready < READY_MAX ? 0 : slot_of(shipment);
    if (due_us > 0)
        shipment_return(shipment, due_us);
    else
        shipment_make_ready(shipment);
}

void shipment_arrive(struct lane *lane, const struct job_view *view, struct reply_hold *hold,
                     struct reply_share **io_share)
{
    struct pump *pump = lane->pump;
    struct job_properties properties;
    if (pump->draining || !lane->kept || lane_is_others(lane) || !pump_slots(pump) ||
        !pump_has_memory(pump)) {
        shipment_return(shipment_of(lane, view, 0), 0);
        return;
    }
    arena_reset(&pump->scratch);
    enum err err = job_properties_read(view->properties, &pump->scratch, &properties, NULL);
    if (err)
        memset(&properties, 0, sizeof(properties));
    struct shipment *shipment = shipment_copy(lane, view, &properties, hold, io_share);
    const struct target *target = shipment->delivery.target;
    shipment->origin = origin_of(lane, target, shipment->delivery.url);
    if (properties.url.len && pump->options.refuses_urls) { /* pushed before it was turned off */
        refuse(shipment, BYTES("the job has a URL of its own, and push.job_targets is off"));
        return;
    }
    if (err || !shipment->origin) {
        refuse(shipment, err ? BYTES("the job's properties cannot be read")
                             : BYTES("neither the job nor its topic has a URL to send to"));
        return;
    }
    shipment->of_key = origin_of_key(lane, shipment->delivery.key);
    if (lane_is_ordered(lane) && shipment->delivery.key.len) {
        arm_lease(shipment);
        if (key_order_arrive(lane->keys, shipment) && !try_to_send(shipment))
            wait_for_turn(shipment);
        return;
    }
    if (!try_to_send(shipment)) /* gives it back */
        shipment_return(shipment, slot_of(shipment));
}

/* ---- the turn, and the end ---- */

/* Looks at all that are ready, once, as far as the budget goes. True: the rest follows. */
static bool send_ready(struct pump *pump)
{
    if (!pump->ready_left)
        pump->ready_left = pump->ready_count;
    for (unsigned steps = 0; pump->ready_left && pump->ready_count && pump_slots(pump); steps++) {
        if (steps > 0 && budget_spent(pump->options.budget))
            return true;
        struct list *place = pump->ready.next;
        list_remove(place);
        list_add_tail(&pump->ready, place); /* it leaves if it is sent */
        pump->ready_left--;
        budget_spend(pump->options.budget, END_NS);
        (void)try_to_send(LIST_ENTRY(place, struct shipment, place));
    }
    pump->ready_left = 0;
    return false;
}

bool shipments_step(struct pump *pump)
{
    for (unsigned steps = 0; !list_empty(&pump->outbox); steps++) {
        if (steps > 0 && budget_spent(pump->options.budget))
            return true;
        struct list *place = pump->outbox.next;
        list_remove(place);
        submit_end(LIST_ENTRY(place, struct shipment, place));
    }
    return send_ready(pump) || !list_empty(&pump->outbox);
}

void shipments_give_back(struct lane *lane)
{
    for (struct list *at = lane->all.next, *next; at != &lane->all; at = next) {
        struct shipment *shipment = LIST_ENTRY(at, struct shipment, of_lane);
        next = at->next;
        budget_spend(lane->pump->options.budget, LOOK_NS);
        if (shipment->state == SHIP_HELD && !shipment->pending)
            shipment_return(shipment, 0);
    }
}

void shipments_end(struct pump *pump)
{
    while (!list_empty(&pump->shipments)) {
        struct shipment *shipment = LIST_ENTRY(pump->shipments.next, struct shipment, all);
        bool submitted = shipment->pending && shipment->state == SHIP_ENDING;
        if (shipment->pending)
            pump->options.door->cancel(pump->options.door, &shipment->ticket);
        shipment->pending = false;
        if (shipment->entry)
            key_order_left(shipment, 0);
        if (shipment->state == SHIP_SENT && shipment->origin)
            origin_ended(shipment->origin);
        if (shipment->state == SHIP_SENT && shipment->of_key)
            origin_ended(shipment->of_key);
        if (shipment->state != SHIP_ENDING && shipment->lane) {
            shipment->end.why = RELEASE_UNDELIVERED;
            shipment->end_kind = CMD_RELEASE;
        }
        shipment->state = SHIP_ENDING;
        shipment->outcome_unwanted = true;
        if (submitted || !shipment->lane)
            free_shipment(shipment);
        else
            submit_end(shipment);
    }
}

/* Those that are sent are put aside first: a command for another one may free it and its neighbours
   in the list. */
void shipments_give_up(struct pump *pump)
{
    struct list sent;
    list_init(&sent);
    for (struct list *at = pump->shipments.next, *next; at != &pump->shipments; at = next) {
        next = at->next;
        if (LIST_ENTRY(at, struct shipment, all)->state != SHIP_SENT)
            continue;
        list_remove(at);
        list_add_tail(&sent, at);
    }
    shipments_end(pump);
    while (!list_empty(&sent)) {
        struct shipment *shipment = LIST_ENTRY(sent.next, struct shipment, all);
        struct cmd cmd = {.kind = CMD_RELEASE, .job = shipment->end};
        cmd.job.why = RELEASE_UNDELIVERED;
        list_remove(&shipment->all);
        list_add_tail(&pump->shipments, &shipment->all);
        if (shipment->lane) /* else it is a test's */
            (void)pump_submit(pump, &cmd, NULL);
    }
}
