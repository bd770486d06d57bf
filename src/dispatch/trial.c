/*
 * A trial: one delivery without a job, to see what a target answers. It uses a slot, but does not
 * count for limits, breakers or windows.
 */
#include <stdio.h>

#include "dispatch/pump_parts.h"

enum { TRIALS_MAX = 16, TRIAL_ID_MAX = 40 };

/* OK: it can be sent now, by *out_sink. */
static enum err check(struct pump *pump, const struct settings_kept *kept,
                      struct push_sink **out_sink)
{
    if (pump->draining)
        return ERR_DRAINING;
    if (!kept || kept->settings.target.type == TARGET_NONE)
        return ERR_NOT_FOUND;
    const struct target *target = &kept->settings.target;
    if (target->type == TARGET_HTTP && !target->http.url.len)
        return ERR_INVALID;
    struct push_sink *sink = sink_of(pump, target);
    if (!sink)
        return ERR_UNSUPPORTED;
    if (pump->trials >= TRIALS_MAX || !pump_slots(pump) || !pump_has_memory(pump) ||
        !sink->sink->verbs->ready(sink->sink, NULL))
        return ERR_AGAIN;
    *out_sink = sink;
    return OK;
}

static void fill_in(struct shipment *shipment, const struct pump_trial *trial)
{
    struct pump *pump = shipment->pump;
    struct delivery *delivery = &shipment->delivery;
    const struct target *target = &shipment->kept->settings.target;
    struct packer packer = {.at = shipment->room + TRIAL_ID_MAX};
    int len = snprintf(shipment->room, TRIAL_ID_MAX, "msg_test_%016llx",
                       (unsigned long long)pump_random(pump));
    delivery->message_id = bytes_of(shipment->room, (size_t)len);
    delivery->topic = pack(&packer, trial->topic);
    delivery->content_type = pack(&packer, trial->content_type);
    delivery->body = pack(&packer, trial->body);
    delivery->body_kind = trial->body_kind;
    delivery->target = target;
    delivery->id = BYTES("test");
    delivery->url = target->type == TARGET_HTTP ? target->http.url : (struct bytes){0};
    delivery->attempt = 1;
    delivery->due_us = pump_now(pump);
    delivery->timeout_us = pump_timeout_us(pump, target);
}

enum err pump_trial_send(struct pump *pump, struct pump_trial *trial)
{
    struct settings_kept *kept = registry_hold(pump->options.registry, trial->topic);
    struct push_sink *sink;
    enum err err = check(pump, kept, &sink);
    if (err) {
        settings_drop(kept);
        return err;
    }
    struct shipment *shipment = shipment_new(pump, TRIAL_ID_MAX + trial->topic.len +
                                                       trial->content_type.len + trial->body.len);
    shipment->kept = kept;
    shipment->trial = trial;
    shipment->slot = true;
    pump->counts.in_flight++;
    pump->trials++;
    fill_in(shipment, trial);
    trial->shipment = shipment;
    shipment->state = SHIP_SENT;
    sink->sink->verbs->send(sink->sink, &shipment->delivery);
    return OK;
}

void pump_trial_cancel(struct pump_trial *trial)
{
    struct shipment *shipment = trial->shipment;
    if (shipment)
        shipment->trial = NULL;
    trial->shipment = NULL;
}
