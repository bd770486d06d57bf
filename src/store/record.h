/*
 * The core's events as bytes. Every record begins with its length and kind and is a multiple of
 * eight bytes long; docs/disk-format.md draws them.
 *
 * Pure. The decoder trusts no byte: whatever it accepts is an event the core can be given.
 */
#ifndef LATERD_STORE_RECORD_H
#define LATERD_STORE_RECORD_H

#include "base/err.h"
#include "core/event.h"

enum {
    RECORD_JOB_HEAD = 104, /* bytes in front of content type and body */
    RECORD_MOVE = 56,
    RECORD_GONE = 32,
    RECORD_TOPIC_HEAD = 16,
};

/* Bytes of the event's record; a multiple of eight. */
size_t record_bytes(const struct event *event);

/* Writes the record; `len` is record_bytes(event). */
void record_encode(const struct event *event, size_t len, void *record);

/* Makes a JOB record one whose body does not hold: its own is lost, and must never be delivered. */
void record_spoil(void *record);

/*
 * What a record says. The event's bytes are borrowed from the record, its retry waits from
 * `retry_us`. For JOB and GONE event.record is the place of the record that died by this one. The
 * body is not compared with its checksum: see record_body().
 */
struct record {
    struct event event;
    size_t len; /* bytes of the record */
    uint64_t body_sum;
    int64_t retry_us[RETRY_STEPS_MAX];
};

/* ERR_CORRUPT when `room` bytes do not begin with a whole, possible record. */
enum err record_decode(const void *bytes, size_t room, struct record *out_record) MUST_USE;

/* Is the body still what the client sent? */
bool record_body_good(const struct record *record);
/* Does it say, by record_spoil(), that its body was lost before it was written? */
bool record_spoiled(const struct record *record);

/*
 * Finds content type and body at the beginning of a JOB record of which `len` bytes are in memory,
 * if it is that of job `seq` and has just these lengths and the body that the client sent.
 */
enum err record_body(const void *record, size_t len, uint64_t seq, size_t content_type_len,
                     size_t body_len) MUST_USE;

#endif
