/*
 * What the two files of the index share: how an entry is made up, and what reading an image needs
 * of the table of files and of the shards.
 */
#ifndef LATERD_BASE_FAR_INDEX_PARTS_H
#define LATERD_BASE_FAR_INDEX_PARTS_H

#include "base/far_index.h"

/* An entry: PRINT_BITS of the hash, the file's slot, the offset in the file. */
enum {
    SHARD_BITS = 12,
    SHARDS = 1 << SHARD_BITS,
    PRINT_BITS = 24,
    SLOT_BITS = 16,
    OFFSET_BITS = 24,
    FILES_MAX = 65535,
};

static inline uint32_t slot_of(uint64_t entry)
{
    return (uint32_t)(entry >> OFFSET_BITS) & FILES_MAX;
}

/* Makes the file of this slot, whose number is set, known by its number. False: another one has
   that number. O(1). */
bool far_file_take(struct far_index *index, uint32_t slot) __attribute__((warn_unused_result));

void far_make_shards(struct far_index *index); /* those that there are stay */

/* Puts sorted entries, none twice, in place of what the shard's array has. O(count + its length) */
void far_place_sorted(struct far_index *index, struct far_shard *shard, const uint64_t *sorted,
                      uint32_t count);

#endif
