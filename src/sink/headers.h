/*
 * The headers that a message to a broker carries: ours, then those of the target, then those of
 * the job. Pure.
 */
#ifndef LATERD_SINK_HEADERS_H
#define LATERD_SINK_HEADERS_H

#include "port/sink.h"

enum {
    SINK_OWN_HEADERS = 7 + DELIVERY_LABELS,
    SINK_HEADERS_MAX = SINK_OWN_HEADERS + 2 * TARGET_HEADERS_MAX,
};

/* Bytes are borrowed from the delivery, or lie in `room`. Does not move. */
struct sink_headers {
    struct target_header all[SINK_HEADERS_MAX];
    unsigned own_count; /* of `all`, the first: content-type and laterd-… */
    unsigned count;
    char room[64];
};

/* What the body is: the job's content type, else JSON or bytes. Never empty. */
struct bytes sink_content_type(const struct delivery *delivery);

/* "laterd-biz-key" … */
struct bytes sink_label_header(enum delivery_label label);

/* May a job bring a header of that name? Names that begin with laterd- are ours, and those with
   nats- give orders to that broker. */
bool sink_header_is_free(struct bytes name);

/*
 * content-type, laterd-message-id, laterd-job-id, laterd-topic, laterd-attempt, laterd-due (RFC
 * 3339), laterd-key, -biz-key, -subtopic, -tags and -extend-data if the job has one; then the
 * target's that the job does not bring itself, then the job's. A target's or a job's header named
 * as one of ours is left out, except content-type, which takes the place of ours. O(target's *
 * job's).
 */
void sink_headers_make(struct sink_headers *out, const struct delivery *delivery);

#endif
