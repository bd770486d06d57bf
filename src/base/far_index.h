/*
 * Where the record of a name may be, for hundreds of millions of names: maps a 64-bit hash to
 * places, in 10 to 12 bytes an entry. It does not keep the names: a look-up finds candidates, and
 * the caller reads their records to compare. Of 69,000,000,000 / entries look-ups of names that are
 * not there, about one finds a wrong candidate.
 *
 * A place is a file's number (high 32 bits) and an offset in it below 16 MiB (low 32 bits); entries
 * of up to 65,535 files at a time. One entry: 24 bits of the hash, 16 of the file's slot, 24 of
 * the offset. 12 other bits of the hash choose one of 4,096 shards, each an array with linear
 * probing, ordered by those 24 bits, so that a look-up without a result reads some five entries,
 * and an array is made longer where it is, in two passes (D. Knuth, "The Art of Computer
 * Programming" 3, 6.4, exercise 66). Shards grow and shrink one by one, 0.2 ms each at thirty
 * million entries.
 *
 * Each single addition waits for memory that is in no cache. To add very many entries, use
 * far_index_gather(): it collects them by shard and adds some tens at a time, so that the processor
 * fetches the memory for all of them together.
 *
 * Single-threaded. Pure.
 */
#ifndef LATERD_BASE_FAR_INDEX_H
#define LATERD_BASE_FAR_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/map.h"

#define FAR_OFFSET_END (UINT64_C(1) << 24) /* offsets are below */

enum { FAR_CANDIDATES_MAX = 16 };

struct far_shard {
    uint64_t *entries; /* sorted by fingerprint within a run; 0 = empty */
    uint32_t cap;
    uint32_t count;
};

/* A file that entries point to. */
struct far_file {
    uint32_t number;
    uint32_t uses; /* entries; 0: the slot is free */
    uint32_t next_free;
    uint32_t uses_left; /* while an image is read: entries still to come */
};

struct far_gathered; /* entries that are gathered and not yet in the shards' arrays */

struct far_pair {
    uint64_t hash, where;
};

struct far_index {
    struct far_shard *shards;      /* NULL while there is no entry */
    struct far_gathered *gathered; /* NULL: not gathering now */
    struct far_file *files;        /* by slot; slot 0 means: no file */
    struct map by_number;          /* a file's slot */
    uint32_t file_count;           /* slots ever used */
    uint32_t file_cap;
    uint32_t free_file;
    uint32_t last_file; /* the slot used last: entries of one file mostly come together */
    uint64_t count;     /* entries */
    size_t bytes;       /* of memory, all of it */
};

void far_index_init(struct far_index *index);
void far_index_fini(struct far_index *index);

/* False, and nothing has changed: the pair is already there, or the place cannot be stored (offset
   too large, too many files). O(1), but O(entries / 4096) when a shard grows. */
bool far_index_add(struct far_index *index, uint64_t hash, uint64_t where)
    __attribute__((warn_unused_result));
/* False: the pair was not there. */
bool far_index_remove(struct far_index *index, uint64_t hash, uint64_t where);
bool far_index_has(const struct far_index *index, uint64_t hash, uint64_t where);
/* The places of entries that may belong to this hash, at most `max`. Returns how many. */
uint32_t far_index_find(const struct far_index *index, uint64_t hash, uint64_t *out_where,
                        uint32_t max);
/* Prefetches the entries that may belong to this hash. */
void far_index_prefetch(const struct far_index *index, uint64_t hash);

/*
 * For an empty index: begins to gather entries, until far_index_gather_end(); meanwhile only
 * far_index_gather_add() and far_index_fini() may be called. `entries` is an estimate: the index is
 * made large enough for that many at once if their hashes are spread evenly. Takes 1 MiB until the
 * end.
 */
void far_index_gather(struct far_index *index, uint64_t entries);
/*
 * far_index_add() for each pair, except that a duplicate is found only at the end. False: a place
 * cannot be stored; some of the others were gathered, and far_index_fini() must be called. More
 * than ten pairs in one call take half the time of single calls.
 */
bool far_index_gather_add(struct far_index *index, const struct far_pair *pairs, uint32_t count)
    __attribute__((warn_unused_result));
/*
 * Adds what was gathered to the index, a 512th of the work per call; O(entries) in all.
 * `*out_more`: call again. False: some pairs came twice; the index has them once.
 */
bool far_index_gather_end(struct far_index *index, bool *out_more);

/*
 * The index as bytes for the disk (docs/disk-format.md): a table of the files, then FAR_IMAGE_PARTS
 * parts with a 64th of all shards each. Appends to `out`. O(entries / 64).
 */
enum { FAR_IMAGE_PARTS = 64 };
void far_index_image_files(const struct far_index *index, struct buf *out);
void far_index_image_part(const struct far_index *index, uint32_t part, struct buf *out);
/* Reads an image into an empty index: the table first, then each part once. False: not a valid
   image; far_index_fini() must be called. */
bool far_index_take_files(struct far_index *index, struct bytes image)
    __attribute__((warn_unused_result));
bool far_index_take_part(struct far_index *index, uint32_t part, struct bytes image)
    __attribute__((warn_unused_result));
/* True: all entries that the table announced have been read. O(files) */
bool far_index_taken(const struct far_index *index);

void far_index_valid(const struct far_index *index); /* CHECKs every invariant. O(entries) */

#endif
