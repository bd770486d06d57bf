/*
 * The on-disk format without the records: the manifest's slots, a segment's header and a batch's
 * header. docs/disk-format.md has the layout.
 *
 * To change the format: give the change a feature bit (docs/disk-format.md says how), keep reading
 * stores without it, and say so in the first line of the commit. A store that uses an unknown
 * incompatible feature is refused.
 *
 * Pure: no function reads or writes a file. Any thread. Decoders trust no byte.
 */
#ifndef LATERD_STORE_FORMAT_H
#define LATERD_STORE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "port/disk.h"

enum {
    FORMAT_VERSION = 1,          /* of a store that uses no incompatible feature, and of all … */
    FORMAT_VERSION_FEATURES = 2, /* … but the manifest of one that does */
    BLOCK = DISK_ALIGN,          /* bytes; batches begin and end at multiples of it */
    BATCH_HEAD = 64,             /* bytes of a batch's header */
    MANIFEST_BYTES = 2 * BLOCK   /* two slots */
};

#define MANIFEST_NAME            "MANIFEST"
#define MANIFEST_UNFINISHED_NAME "MANIFEST.unfinished" /* of a store that is no whole one yet */
#define SEGMENT_NAME             "wal-%08x"

/*
 * A consumer may have seen a server-made number before its batch was durable; such a number must
 * not be used again after a crash. So the mark on disk is this far ahead of the next number, and
 * recovery continues at the mark.
 */
#define SEQ_AHEAD 1000000u

/*
 * The same for leases, whose mark is only in the manifest. Each opening after a crash skips up to
 * this many numbers, and a running store raises the mark when half of them are used. So leases
 * repeat after 136 years of one crash a second, or after half a million years of a million
 * reservations a second. At that rate a write of the manifest would have to take half an hour
 * before a lease is given out that is not below the mark on disk.
 */
#define LEASE_AHEAD (UINT64_C(1) << 32)

struct store_id {
    uint8_t bytes[16];
};

/*
 * Feature bits: what a store uses that 0.1.0 did not know. Incompatible: a program that does not
 * know the bit must not open the store; the bit is durable before the first byte that needs it, and
 * never cleared. Compatible: a program that does not know the bit may use the store, and keeps it.
 */
enum feature {
    FEATURE_EPOCH = 1 << 0,     /* batches may begin with an EPOCH record */
    FEATURE_FOLLOWERS = 1 << 1, /* the manifest has followers; copies of records are marked */
    FEATURE_DELIVERY = 1 << 2,  /* jobs may have properties and notes, topics settings */
    FEATURE_SLICES = 1 << 3,    /* jobs may lie in slices; the log says which */
    FEATURE_BURIED = 1 << 4,    /* so may buried ones … */
    FEATURE_READY = 1 << 5,     /* … and ready ones */
    FEATURE_REUSE = 1 << 6,     /* segments may lie in files that had been others before */
};
#define FEATURES_INCOMPATIBLE /* that are known */                                                 \
    ((uint32_t)(FEATURE_EPOCH | FEATURE_FOLLOWERS | FEATURE_DELIVERY | FEATURE_SLICES |            \
                FEATURE_BURIED | FEATURE_READY | FEATURE_REUSE))

enum {
    FOLLOWERS_MAX = 16,
    FOLLOWER_NAME_MAX = 32, /* bytes */
};

/* A reader of the log that keeps its place: store/follower.h. */
struct manifest_follower {
    char name[FOLLOWER_NAME_MAX]; /* padded with zeros; empty: this place is free */
    uint64_t cursor;              /* it has read all batches up to this one */
    bool dropped;                 /* it was too far behind: batches behind its cursor are gone */
};

/* The store's root. Two slots in one file, written in turn: the newer valid one counts. */
struct manifest {
    uint32_t version;
    struct store_id id;
    uint64_t generation;  /* of this slot: one more with each writing */
    uint64_t boot;        /* openings so far */
    uint64_t batch_first; /* the log begins with this batch; segments before it are dead */
    uint64_t durable;     /* all batches up to this one were durable when it was written */
    uint64_t seq_mark;    /* server-made numbers at or above this were never given */
    uint64_t lease_mark;  /* leases at or above this were never given; 0: see recover.c */
    uint64_t epoch;       /* of the last leader; batches of an older leader are refused */
    uint32_t compatible, incompatible; /* enum feature */
    uint32_t number_next;              /* segment numbers at or above this were never given */
    uint64_t secret; /* of segment_key(); on disk with FEATURE_REUSE only. 0: there is none yet */
    bool clean;      /* closed in order: durable, seq_mark and lease_mark are exact */
    struct manifest_follower followers[FOLLOWERS_MAX];
};

struct segment_head {
    uint32_t version;
    struct store_id id;
    uint32_t number;
    uint64_t batch_first; /* number of its first batch; all before are durable */
    uint64_t seq_mark;
    uint32_t number_next;
    uint64_t size_bytes; /* of the file */
    uint64_t key;        /* segment_key(), if its file was another segment's before, else 0 */
};

struct batch_head {
    uint64_t number;
    uint64_t durable; /* the last batch known to be durable when this one was written */
    uint64_t seq_mark;
    int64_t clock_us; /* the time when it was written; 0 in one written before there was this */
    uint32_t segment;
    uint32_t store_tag;     /* of the store's id */
    uint32_t payload_bytes; /* of the records, without padding */
    uint32_t record_count;
};

enum format_verdict {
    FORMAT_GOOD,
    FORMAT_BLANK, /* zeros only */
    FORMAT_BAD,   /* a torn write, or damaged */
    FORMAT_NEWER, /* whole, but of a version that is not ours */
    FORMAT_SPARE, /* segment_head_decode() alone: a file to be used again, out of the log */
};

/* `slot` and `block` are BLOCK bytes. Outputs are written on FORMAT_GOOD only. */
void manifest_encode(const struct manifest *manifest, void *slot);
enum format_verdict manifest_decode(const void *slot, struct manifest *out_manifest);
/* The number of the first incompatible feature that is not known here; -1: there is none. */
int manifest_unknown_feature(const struct manifest *manifest);

void segment_head_encode(const struct segment_head *head, void *block);
/* The header of a file that is to be used again: whatever is behind it is dead. */
void spare_head_encode(const struct store_id *id, void *block);
enum format_verdict segment_head_decode(const void *block, struct segment_head *out_head);

/*
 * Writes the header in front of the records at `batch` + BATCH_HEAD, and the zeros behind them, but
 * not yet the checksum. There must be room for batch_bytes(). Returns that.
 */
size_t batch_head_encode(const struct batch_head *head, void *batch);
/* Writes the checksum over all `len` bytes of a batch that is otherwise complete. `key`: of its
   segment. */
void batch_sign(void *batch, size_t len, uint64_t key);

/*
 * Reads a header and nothing more: are its fields possible for a batch with `room` bytes until
 * the end of its segment? FORMAT_GOOD is not yet a checked batch.
 */
enum format_verdict batch_head_decode(const void *batch, uint64_t room,
                                      struct batch_head *out_head);

/* For salvage: the two counts in a header of BATCH_HEAD bytes whose other fields may be damaged. */
void batch_head_counts(const void *batch, uint32_t *out_payload_bytes, uint32_t *out_record_count);

/* Does the checksum of the whole batch match? All batch_bytes() of it are in memory. O(bytes). */
bool batch_whole(const struct batch_head *head, const void *batch, uint64_t key);

/* Does this block begin as a batch of this segment and store, whatever else is wrong with it? */
bool batch_is_of(const void *block, uint32_t segment, uint32_t store_tag);

/*
 * The key of a segment whose file had been another's before, never 0; all others have 0. It seeds
 * the checksums of its batches. So neither a batch of the earlier segment, nor the bytes of a
 * client's job, which may begin a block and look like a batch, are taken for one of this segment: a
 * client does not know `secret`.
 */
uint64_t segment_key(uint64_t secret, uint32_t number);

/* Bytes on disk of a batch with so many bytes of records. */
static inline uint64_t batch_bytes(uint64_t payload_bytes)
{
    return (BATCH_HEAD + payload_bytes + BLOCK - 1) / BLOCK * BLOCK;
}

uint32_t store_tag(const struct store_id *id);
bool store_id_eq(const struct store_id *a, const struct store_id *b);
bool bytes_all_zero(const void *at, size_t len);

/* "wal-0000002a" ⇄ 0x2a. False: not such a name. */
void segment_name(uint32_t number, char out_name[DISK_NAME_MAX]);
bool segment_name_parse(const char *name, uint32_t *out_number);
/* No segment has more bytes: the maximum of store.segment_bytes. */
#define SEGMENT_FILE_MAX (UINT64_C(1) << 30)

/* The same for "wal-0000002a.damaged": a segment that was set aside, out of the log. */
void aside_name(uint32_t number, char out_name[DISK_NAME_MAX]);
bool aside_name_parse(const char *name, uint32_t *out_number);

#endif
