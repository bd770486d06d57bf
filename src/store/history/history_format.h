/*
 * The format of the jobs' history: an entry (one happening), the same in the log's HISTORY records
 * and in history files; and those files. docs/disk-format.md has the layout.
 *
 *     head (a block) | blocks of entries, in order of key | fences
 *
 * A key is the hash of a job's id. Entries with equal keys are ordered by age, oldest first. A
 * fence is the first key and the offset of a block. A file is written once and never changed.
 *
 * Pure; any thread. Decoders trust no byte.
 */
#ifndef LATERD_STORE_HISTORY_FORMAT_H
#define LATERD_STORE_HISTORY_FORMAT_H

#include "base/bytes.h"
#include "base/discard.h"
#include "base/err.h"
#include "core/event.h"
#include "store/format.h"

enum {
    HISTORY_BLOCK_BYTES = 32 * 1024, /* of a block of entries, at most */
    HISTORY_BLOCK_HEAD = 16,
    HISTORY_FENCE_BYTES = 16,
    HISTORY_RECORD_HEAD = 8, /* of a HISTORY record, in front of the entry */
    /* Bytes of an entry, at most: what and state, five numbers, three texts with their lengths. */
    HISTORY_ENTRY_MAX = 2 + 5 * 10 + 3 * 3 + JOB_ID_MAX + TOPIC_NAME_MAX + JOB_NOTE_MAX,
};

#define HISTORY_NAME "hist-%08x"

/* ---- an entry ---- */

/* The key of a job's entries. `key`: store_far_key(), which seeds the hash; `id` empty: by
   `seq`. */
uint64_t history_key(uint64_t key, uint64_t seq, struct bytes id);
/* Encodes an entry into `room` (HISTORY_ENTRY_MAX bytes). Returns its length in bytes. */
size_t history_entry_encode(const struct happening *happening, char *room);
/* Decodes the entry at the start of `room` bytes; outputs borrow from them. ERR_CORRUPT: not a
   valid entry. */
enum err history_entry_decode(const char *at, size_t room, struct happening *out_happening,
                              size_t *out_len) MUST_USE;

/* Bytes of the HISTORY record of an entry; a multiple of eight. */
size_t history_record_bytes(size_t entry_len);
void history_record_encode(struct bytes entry, char *record);
/* Decodes a HISTORY record of `len` bytes; the entry is borrowed. False: not valid. */
bool history_record_decode(const char *record, size_t len, struct bytes *out_entry);

/* ---- a file ---- */

struct history_head {
    uint32_t version;
    struct store_id id;
    uint64_t size_bytes;
    uint64_t data_end; /* offset behind the last block of entries */
    uint32_t blocks;
    uint64_t entries;
    /* The file has all entries of these batches of the log, and no other file has any of them. */
    uint64_t batch_first, batch_last;
    int64_t at_first_us, at_last_us; /* of the oldest entry and of the youngest */
    uint64_t fences_sum;
};

enum format_verdict history_head_decode(const void *block, struct history_head *out_head);

struct history_fence {
    uint64_t key;    /* of the block's first entry */
    uint64_t offset; /* of the block in the file */
};

/* Decodes the whole section, head->blocks fences. ERR_CORRUPT: not a valid section of this file. */
enum err history_fences_decode(const struct history_head *head, const char *section,
                               struct history_fence *out_fences) MUST_USE;

/* Iterates over the entries of a block. */
struct history_walk {
    const char *at, *end;
};
/* Begins at a block of `len` bytes. ERR_CORRUPT: its length or checksum is wrong. O(len). */
enum err history_walk_init(struct history_walk *walk, const char *block, size_t len) MUST_USE;
/* The next entry; outputs borrow from the block. ERR_NOT_FOUND: that was all. ERR_CORRUPT. */
enum err history_walk_next(struct history_walk *walk, struct happening *out_happening,
                           struct bytes *out_entry) MUST_USE;

/* ---- making one ---- */

struct history_image {
    struct history_head head; /* .id, .batch_first and .batch_last are the caller's */
    struct buf bytes;         /* the file */
    struct buf fences;
    size_t block_at; /* of the block being filled; 0: none is */
};

void history_image_begin(struct history_image *image);
/* Adds an entry; keys must not decrease. */
void history_image_add(struct history_image *image, uint64_t key, struct bytes entry,
                       int64_t at_us);
void history_image_end(struct history_image *image);
void history_image_fini(struct history_image *image);
/* As history_image_fini(), for an image of megabytes: moves its memory to `spent`. O(1). */
void history_image_discard(struct history_image *image, struct discard *spent);

/* "hist-0000002a" ⇄ 0x2a; also "hist-0000002a.tmp", a file that was not completed before a crash
   (*out_half_made). False: not such a name. */
void history_name(uint32_t number, char out_name[DISK_NAME_MAX]);
void history_tmp_name(uint32_t number, char out_name[DISK_NAME_MAX]);
bool history_name_parse(const char *name, uint32_t *out_number, bool *out_half_made);

#endif
