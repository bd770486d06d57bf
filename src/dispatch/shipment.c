/*
 * A job that the pump holds: copied when its reserve is answered, sent, and ended by the outcome.
 * Every command for it waits in pump::outbox for pump_step(), because most are caused within a
 * callback of the engine, where nothing may be submitted.
 */
#include "base/check.h"
#include "base/mem.h"
#include "dispatch/key_order.h"
#include "dispatch/pump_parts.h"
#include "proto/settings/job_properties.h"

enum {
    END_NS = 800,          /* work for a command that ends a shipment, … */
    OUTCOME_NS = 600,      /* … for the outcome of a delivery, … */
    LOOK_NS = 10,          /* … for one shipment that is gone through, … */
    COPY_BYTES_PER_NS = 4, /* … and for what is copied of a job */
    AGAIN_US = 300000,     /* after a command that failed */
};

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

void shipment_end_by(struct shipment *shipment, enum cmd_kind kind)
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
    shipment_end_by(shipment, CMD_RELEASE);
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

/* ---- sent ---- */

static void end_trial(struct shipment *shipment, const struct outcome *outcome)
{
    struct pump_trial *trial = shipment->trial;
    shipment->pump->trials--;
    pump_wake(shipment->pump); /* a slot is free now */
    free_shipment(shipment);
    if (trial) {
        trial->shipment = NULL;
        trial->done(trial, outcome);
    }
}

static void done(struct delivery *delivery, const struct outcome *outcome)
{
    struct shipment *shipment = LIST_ENTRY(delivery, struct shipment, delivery);
    CHECK(shipment->state == SHIP_SENT);
    budget_spend(shipment->pump->options.budget, OUTCOME_NS);
    shipment->state = SHIP_ENDING;
    if (!shipment->lane) {
        end_trial(shipment, outcome);
        return;
    }
    shipment_apply_outcome(shipment, outcome);
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

/* The first job of its key cannot be sent now. It waits in memory (0); or, as thousands of keys may
   have such a job, until this time in the queue, where it keeps its place before those of its key.
 */
static int64_t turn_us(const struct shipment *shipment)
{
    uint32_t others = shipment->lane->ready - shipment->ready;
    return others < READY_MAX ? 0 : slot_of(shipment);
}

static void wait_for_turn(struct shipment *shipment)
{
    int64_t due_us = turn_us(shipment);
    if (due_us > 0)
        shipment_return(shipment, due_us);
    else if (!shipment->ready)
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
        shipment_refuse(shipment,
                        BYTES("the job has a URL of its own, and push.job_targets is off"));
        return;
    }
    if (err || !shipment->origin) {
        shipment_refuse(shipment,
                        err ? BYTES("the job's properties cannot be read")
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

/* Looks at all that are ready, once, as far as the budget goes. True: the rest follows; or, as this
   look took several turns, another one, because what woke the pump in an earlier one of them (a
   token, a place, a job that is the first of its key now) may concern those looked at before. */
static bool send_ready(struct pump *pump)
{
    if (!pump->ready_left) {
        pump->ready_left = pump->ready_count;
        pump->woken = false;
    }
    bool again = pump->woken; /* what wakes it from here on has another turn follow */
    for (unsigned steps = 0; pump->ready_left && pump->ready_count && pump_slots(pump); steps++) {
        if (steps > 0 && budget_spent(pump->options.budget))
            return true;
        struct list *place = pump->ready.next;
        list_remove(place);
        list_add_tail(&pump->ready, place); /* it leaves if it is sent */
        pump->ready_left--;
        budget_spend(pump->options.budget, END_NS);
        struct shipment *shipment = LIST_ENTRY(place, struct shipment, place);
        if (!try_to_send(shipment) && !shipment->pending)
            wait_for_turn(shipment); /* it may have become the first one in memory */
    }
    pump->ready_left = 0;
    return again;
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
