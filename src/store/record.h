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
#include "store/slices/slice_format.h"

enum {
    RECORD_JOB_HEAD = 104, /* bytes in front of content type and body */
    RECORD_MOVE = 56,      /* bytes, without the id, which … */
    RECORD_GONE = 32,      /* … only a log with followers has in them */
    RECORD_PLACED = 64,    /* bytes of a MOVE that says where the job's record is */
    RECORD_TOPIC_HEAD = 16,
    RECORD_NOTE_HEAD = 40,     /* bytes in front of the text */
    RECORD_SETTINGS_HEAD = 32, /* bytes in front of the settings and the topic's name */
    RECORD_EPOCH_BYTES = 16,
};

/* A record's kind: an event's, or one of these … */
enum {
    RECORD_EPOCH = 5,      /* who led when the batch was written; the first of its batch */
    RECORD_SLICE = 8,      /* what of a slice is in use: slice_format.h */
    RECORD_FAR = 9,        /* a job in a slice: far_record.h */
    RECORD_AT = 10,        /* a MOVE of a job whose record is in a slice */
    RECORD_HISTORY = 0x8b, /* what happened to a job: history_format.h; with RECORD_SKIP */
};
/* … with these bits. */
enum {
    RECORD_COPY = 0x40, /* written by the cleaner: a copy of what the log had already */
    RECORD_SKIP = 0x80, /* a program that does not know the kind may skip it */
};

/* Bytes of the event's record; a multiple of eight. A MOVE with event.record.where set is
   longer. */
size_t record_bytes(const struct event *event);

/* Writes the record; `len` is record_bytes(event). */
void record_encode(const struct event *event, size_t len, void *record);

/*
 * In two steps, of a JOB whose body is so large that another thread must copy it: all of the record
 * but the body and its checksum, and then those.
 */
void record_encode_without_body(const struct event *event, size_t len, void *record);
void record_put_body(void *record, struct bytes body);

/* Marks a record as a copy of what the log had already: see RECORD_COPY. */
void record_mark_copy(void *record);
/* Writes the RECORD_EPOCH_BYTES of an EPOCH record. */
void record_epoch_encode(uint64_t epoch, void *record);

/* Invalidates the checksum of a JOB record, because its body is lost and must never be
   delivered. */
void record_invalidate(void *record);

/*
 * What a record says. The event's bytes are borrowed from the record, its retry waits from
 * `retry_us`. For JOB and GONE event.record is the place of the record that died by this one, for
 * MOVE that of the job's record if it lies in a slice. The body is not compared with its checksum:
 * see record_open().
 */
struct record {
    struct event event;
    bool is_event; /* false: EPOCH, SLICE, HISTORY, or an unknown kind that may be skipped */
    bool copy;     /* RECORD_COPY */
    bool is_far;   /* RECORD_FAR, which only slices have */
    bool is_slice; /* RECORD_SLICE: `slice` is set */
    struct slice_record slice;
    bool is_history; /* RECORD_HISTORY: `entry` is set */
    struct bytes entry;
    uint64_t epoch;     /* of an EPOCH record; else 0 */
    size_t len;         /* bytes of the record */
    uint64_t body_sum;  /* JOB, NOTE, SETTINGS: the checksum, seeded with event.job.seq, of … */
    const char *summed; /* … these bytes */
    size_t body_bytes;
    int64_t retry_us[RETRY_STEPS_MAX];
};

/* Decodes the record at the start of `room` bytes; *out_record borrows from them. ERR_CORRUPT: not
   a complete, valid record. O(1). */
enum err record_decode(const void *bytes, size_t room, struct record *out_record) MUST_USE;

/*
 * For prefetching: the length of the record at the start of `room` bytes, and the job that it
 * concerns (.seq 0: none). Checks less than record_decode(). ERR_CORRUPT: not a record.
 */
enum err record_peek(const void *bytes, size_t room, size_t *out_len,
                     struct job_ref *out_ref) MUST_USE;
/* The same, without the id. */
enum err record_peek_seq(const void *bytes, size_t room, size_t *out_len,
                         uint64_t *out_seq) MUST_USE;

/*
 * Iterates over the events of a batch, and skips its other records. Everything that reads the log
 * uses it, so the rules for the contents of a batch are in one place.
 */
struct batch_walk {
    bool shows_slices;  /* returns SLICE records as well: check record.is_slice */
    bool shows_history; /* returns HISTORY records as well: check record.is_history */
    const char *batch;  /* the batch's bytes, with its header */
    size_t at, end;     /* offsets in the batch: of the next record, and of the end */
    size_t record_at;   /* offset of the record returned last */
    uint32_t count;     /* records so far, of all kinds */
    uint64_t epoch;     /* of the batch; known after the first call */
    struct record record;
};

/* Begins with the batch's first record. `payload_bytes`: from its header. */
void batch_walk_init(struct batch_walk *walk, const char *batch, uint32_t payload_bytes);
/*
 * OK: walk->record is the next event, at offset walk->record_at. ERR_NOT_FOUND: that was all.
 * ERR_CORRUPT: there is no valid record at walk->at.
 */
enum err batch_walk_next(struct batch_walk *walk) MUST_USE;

/* Does body_sum match? It covers: of a JOB content type, body and properties; of SETTINGS the
   settings and the topic's name; of a NOTE everything. O(those bytes). */
bool record_body_good(const struct record *record);
/* Was the checksum invalidated by record_invalidate(), because the body was lost before this record
   was written? */
bool record_is_invalidated(const struct record *record);

struct body_place;
struct body_content;

/* How many bytes of the record, from its beginning, record_open() needs. */
size_t record_read_bytes(const struct body_place *place);
/*
 * Finds content type, body and properties in a record of which `len` bytes are in memory; they are
 * borrowed. ERR_DAMAGED: it is not the record of that job, or a checksum does not match. O(len).
 */
enum err record_open(const void *record, size_t len, const struct body_place *place,
                     struct body_content *out_content) MUST_USE;

#endif
