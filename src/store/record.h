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
    RECORD_EPOCH_BYTES = 16,
};

/* A record's kind: an event's, or one of these … */
enum { RECORD_EPOCH = 5 }; /* who led when the batch was written; the first of its batch */
/* … with these bits. */
enum {
    RECORD_COPY = 0x40, /* the cleaner has written it: it says nothing new */
    RECORD_SKIP = 0x80, /* who does not know the kind may step over it */
};

/* Bytes of the event's record; a multiple of eight. */
size_t record_bytes(const struct event *event);

/* Writes the record; `len` is record_bytes(event). */
void record_encode(const struct event *event, size_t len, void *record);

/* Marks a record as a copy of what the log had already: see RECORD_COPY. */
void record_mark_copy(void *record);
/* Writes the RECORD_EPOCH_BYTES of an EPOCH record. */
void record_epoch_encode(uint64_t epoch, void *record);

/* Makes a JOB record one whose body does not hold: its own is lost, and must never be delivered. */
void record_spoil(void *record);

/*
 * What a record says. The event's bytes are borrowed from the record, its retry waits from
 * `retry_us`. For JOB and GONE event.record is the place of the record that died by this one. The
 * body is not compared with its checksum: see record_body().
 */
struct record {
    struct event event;
    bool is_event;  /* false: an EPOCH record, or one of an unknown kind that is stepped over */
    bool copy;      /* RECORD_COPY */
    uint64_t epoch; /* of an EPOCH record; else 0 */
    size_t len;     /* bytes of the record */
    uint64_t body_sum;
    int64_t retry_us[RETRY_STEPS_MAX];
};

/* ERR_CORRUPT when `room` bytes do not begin with a whole, possible record. */
enum err record_decode(const void *bytes, size_t room, struct record *out_record) MUST_USE;

/*
 * Goes through a batch's records, one event after another, stepping over what is none. All that
 * read the log use this: what a batch may hold is said here alone.
 */
struct batch_walk {
    const char *batch; /* its bytes, with the header */
    size_t at, end;    /* the next record, and where they end; from the batch's beginning */
    size_t record_at;  /* the record that was told of last */
    uint32_t count;    /* of records so far, all kinds */
    uint64_t epoch;    /* of the batch; known after the first call */
    struct record record;
};

/* `payload_bytes` is what the batch's header says. */
void batch_walk_init(struct batch_walk *walk, const char *batch, uint32_t payload_bytes);
/*
 * OK: walk->record is the next event, walk->record_at its place. ERR_NOT_FOUND: there is no more.
 * ERR_CORRUPT: what is at walk->at cannot be a record.
 */
enum err batch_walk_next(struct batch_walk *walk) MUST_USE;

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
