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
    RECORD_COPY = 0x40, /* the cleaner has written it: it says nothing new */
    RECORD_SKIP = 0x80, /* who does not know the kind may step over it */
};

/* Bytes of the event's record; a multiple of eight. A MOVE with a place says it. */
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
 * `retry_us`. For JOB and GONE event.record is the place of the record that died by this one, for
 * MOVE that of the job's record if it lies in a slice. The body is not compared with its checksum:
 * see record_open().
 */
struct record {
    struct event event;
    bool is_event; /* false: EPOCH, SLICE, or of an unknown kind that is stepped over */
    bool copy;     /* RECORD_COPY */
    bool is_far;   /* RECORD_FAR: of a slice, and of none else */
    bool is_slice; /* RECORD_SLICE: `slice` is what it says */
    struct slice_record slice;
    bool is_history; /* RECORD_HISTORY: `entry` is what happened */
    struct bytes entry;
    uint64_t epoch;     /* of an EPOCH record; else 0 */
    size_t len;         /* bytes of the record */
    uint64_t body_sum;  /* of JOB, NOTE and SETTINGS: the sum, seeded with event.job.seq, of … */
    const char *summed; /* … these bytes */
    size_t body_bytes;
    int64_t retry_us[RETRY_STEPS_MAX];
};

/* ERR_CORRUPT when `room` bytes do not begin with a whole, possible record. */
enum err record_decode(const void *bytes, size_t room, struct record *out_record) MUST_USE;

/*
 * A glance at a record that will be decoded later: how long it is, and the job that it is of. The
 * number is 0 if it is of none. ERR_CORRUPT if that cannot be told; OK for some that
 * record_decode() refuses.
 */
enum err record_glance(const void *bytes, size_t room, size_t *out_len,
                       struct job_ref *out_ref) MUST_USE;

/*
 * Goes through a batch's records, one event after another, stepping over what is none. All that
 * read the log use this: what a batch may hold is said here alone.
 */
struct batch_walk {
    bool shows_slices;  /* SLICE records are told of, too: who sets it looks at record.is_slice */
    bool shows_history; /* the same of HISTORY records and record.is_history */
    const char *batch;  /* its bytes, with the header */
    size_t at, end;     /* the next record, and where they end; from the batch's beginning */
    size_t record_at;   /* the record that was told of last */
    uint32_t count;     /* of records so far, all kinds */
    uint64_t epoch;     /* of the batch; known after the first call */
    struct record record;
};

/* `payload_bytes` is what the batch's header says. */
void batch_walk_init(struct batch_walk *walk, const char *batch, uint32_t payload_bytes);
/*
 * OK: walk->record is the next event, walk->record_at its place. ERR_NOT_FOUND: there is no more.
 * ERR_CORRUPT: what is at walk->at cannot be a record.
 */
enum err batch_walk_next(struct batch_walk *walk) MUST_USE;

/* Is the body still what the client sent? Of SETTINGS: are they, and the topic's name? Of a NOTE:
   is all of it? */
bool record_body_good(const struct record *record);
/* Does it say, by record_spoil(), that its body was lost before it was written? */
bool record_spoiled(const struct record *record);

struct body_place;
struct body_content;

/* How many bytes from its beginning must be read for record_open(). */
size_t record_read_bytes(const struct body_place *place);
/*
 * Finds content type, body and properties in a record of which `len` bytes are in memory, if it is
 * the one of that place and has them as the client sent them. They are borrowed. ERR_DAMAGED.
 */
enum err record_open(const void *record, size_t len, const struct body_place *place,
                     struct body_content *out_content) MUST_USE;

#endif
