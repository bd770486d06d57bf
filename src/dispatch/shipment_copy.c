/*
 * Copies a job that was reserved to a shipment's own memory, with what its delivery needs; a large
 * body stays in the memory of the reply. The retry schedule is the job's own, else its topic's,
 * else `standard` of the Standard Webhooks.
 */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "dispatch/pump_parts.h"
#include "proto/settings/job_properties.h"

enum { MESSAGE_ID_MAX = 48 };
enum { BORROW_BYTES = 256 * 1024 }; /* larger bodies stay in the reply, if it can be kept */

/* The id is the same in each attempt and on each daemon, because the job's fields in it never
 * change. */
static size_t make_message_id(const struct job_view *view, char *room)
{
    uint64_t hash =
        XXH3_64bits_withSeed(view->topic.at, view->topic.len, (uint64_t)view->created_us);
    return (size_t)snprintf(room, MESSAGE_ID_MAX, "msg_%llx_%016llx",
                            (unsigned long long)view->ref.seq, (unsigned long long)hash);
}

/* Without the body. */
static size_t room_of(const struct job_view *view, const struct job_properties *properties,
                      size_t texts)
{
    size_t size = texts + view->content_type.len + view->topic.len;
    size += properties->url.len + properties->key.len + properties->amqp.len;
    size += properties->biz_key.len + properties->subtopic.len + properties->tags.len +
            properties->extend_data.len;
    size += properties->header_count * sizeof(struct target_header);
    for (unsigned i = 0; i < properties->header_count; i++)
        size += properties->headers[i].name.len + properties->headers[i].value.len;
    return size;
}

static void pack_headers(struct packer *packer, const struct job_properties *properties,
                         struct delivery *delivery)
{
    struct target_header *headers = (void *)packer->at; /* the room is aligned at its beginning */
    packer->at += properties->header_count * sizeof(*headers);
    for (unsigned i = 0; i < properties->header_count; i++) {
        headers[i].name = pack(packer, properties->headers[i].name);
        headers[i].value = pack(packer, properties->headers[i].value);
    }
    delivery->headers = headers;
    delivery->header_count = properties->header_count;
}

static void pack_labels(struct packer *packer, const struct job_properties *properties,
                        struct delivery *delivery)
{
    delivery->labels[DELIVERY_BIZ_KEY] = pack(packer, properties->biz_key);
    delivery->labels[DELIVERY_SUBTOPIC] = pack(packer, properties->subtopic);
    delivery->labels[DELIVERY_TAGS] = pack(packer, properties->tags);
    delivery->labels[DELIVERY_EXTEND_DATA] = pack(packer, properties->extend_data);
}

/* Sets when the next attempt is made, and whether there is one, if this one fails. */
static void plan_retry(struct shipment *shipment, const struct job_view *view)
{
    const struct topic_settings *settings = &shipment->kept->settings;
    const int64_t *waits_us = view->retry_us;
    uint32_t count = view->retry_count, failures = view->failures;
    struct schedule schedule;
    if (!count) { /* an empty one was given, or it was pushed before its topic had a target */
        schedule = topic_settings_schedule(settings, &shipment->pump->standard);
        waits_us = schedule.waits_us;
        count = schedule.count;
    }
    shipment->last =
        failures >= count || (settings->attempts_max && failures + 1 >= settings->attempts_max);
    shipment->wait_us = shipment->last ? 0 : waits_us[failures];
}

struct shipment *shipment_of(struct lane *lane, const struct job_view *view, size_t room)
{
    struct shipment *shipment = shipment_new(lane->pump, room);
    shipment->lane = lane;
    list_add_tail(&lane->all, &shipment->of_lane);
    lane->shipments++;
    shipment->end.ref.seq = view->ref.seq;
    shipment->end.lease = view->lease;
    shipment->lease_us = view->until_us;
    shipment->kept = lane->kept;
    if (lane->kept)
        settings_hold(lane->kept);
    return shipment;
}

/* The body stays in the memory of the reply: copying many MiB would take too long. */
static void borrow_body(struct shipment *shipment, struct bytes body, struct reply_hold *hold,
                        struct reply_share **io_share)
{
    if (!*io_share) {
        *io_share = mem_alloc(sizeof(**io_share));
        **io_share = (struct reply_share){.hold = hold, .users = 1};
        hold->taken = true;
    }
    shipment->share = *io_share;
    shipment->share->users++;
    shipment->delivery.body = body;
    shipment->bytes += body.len;
    shipment->pump->counts.bytes += body.len;
}

struct shipment *shipment_copy(struct lane *lane, const struct job_view *view,
                               const struct job_properties *properties, struct reply_hold *hold,
                               struct reply_share **io_share)
{
    char id_room[JOB_TEXT_ID_MAX], message_room[MESSAGE_ID_MAX];
    struct pump *pump = lane->pump;
    struct bytes id = job_ref_text(&view->ref, id_room);
    struct bytes message_id = bytes_of(message_room, make_message_id(view, message_room));
    bool borrows = hold && view->body.len > BORROW_BYTES;
    size_t room = room_of(view, properties, id.len + message_id.len);
    struct shipment *shipment = shipment_of(lane, view, room + (borrows ? 0 : view->body.len));
    const struct target *target = &shipment->kept->settings.target;
    struct delivery *delivery = &shipment->delivery;
    struct packer packer = {.at = shipment->room};
    bool http = target->type == TARGET_HTTP;
    pack_headers(&packer, properties, delivery);
    delivery->target = target;
    shipment->own_url = http && properties->url.len > 0;
    delivery->url = properties->url.len ? pack(&packer, properties->url)
                    : http              ? target->http.url
                                        : (struct bytes){0};
    delivery->key = pack(&packer, properties->key);
    delivery->amqp = pack(&packer, properties->amqp);
    pack_labels(&packer, properties, delivery);
    delivery->topic = pack(&packer, view->topic);
    delivery->id = pack(&packer, id);
    delivery->message_id = pack(&packer, message_id);
    delivery->content_type = pack(&packer, view->content_type);
    if (borrows)
        borrow_body(shipment, view->body, hold, io_share);
    else
        delivery->body = pack(&packer, view->body);
    delivery->body_kind = view->body_kind;
    delivery->attempt = (uint32_t)view->failures + 1;
    delivery->due_us = view->due_us;
    delivery->timeout_us = pump_timeout_us(pump, target);
    plan_retry(shipment, view);
    return shipment;
}
