/*
 * The headers of a message to a broker: laterd's, then those of the target, then those of the job.
 * Pure.
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
    unsigned own_count; /* laterd's: the first ones of `all`, content-type and laterd-… */
    unsigned count;
    char room[64];
};

/* The job's content type, else that of JSON or of bytes. Never empty. */
struct bytes sink_content_type(const struct delivery *delivery);

/* "laterd-biz-key" … */
struct bytes sink_label_header(enum delivery_label label);

/*
 * content-type, laterd-message-id, laterd-job-id, laterd-topic, laterd-attempt, laterd-due (RFC
 * 3339), laterd-key, -biz-key, -subtopic, -tags and -extend-data if the job has one; then the
 * target's, except names that the job has too, then the job's. Headers of target or job with the
 * name of one of ours are left out, except content-type, which replaces ours. O(target's headers *
 * job's headers).
 */
void sink_headers_make(struct sink_headers *out, const struct delivery *delivery);

#endif
