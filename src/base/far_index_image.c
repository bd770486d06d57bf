/*
 * The index as bytes, and read back: a table of the files, then parts with the entries of 64 shards
 * each, in order, without the free places. Nothing that is read is believed: an entry must be above
 * the one before it, and name a file of the table that still has entries to come.
 */
#include "base/far_index_parts.h"

#include "base/check.h"
#include "base/codec.h"
#include "base/mem.h"

enum {
    PART_SHARDS = SHARDS / FAR_IMAGE_PARTS,
    COUNTS_BYTES = PART_SHARDS * sizeof(uint32_t),
    FILE_BYTES = 8
};

static void add_u32(struct buf *out, uint32_t number)
{
    char room[sizeof(number)];
    put_u32(room, number);
    buf_add(out, room, sizeof(room));
}

void far_index_image_files(const struct far_index *index, struct buf *out)
{
    add_u32(out, index->file_count);
    for (uint32_t slot = 1; slot <= index->file_count; slot++) {
        add_u32(out, index->files[slot].number);
        add_u32(out, index->files[slot].uses);
    }
}

void far_index_image_part(const struct far_index *index, uint32_t part, struct buf *out)
{
    CHECK(part < FAR_IMAGE_PARTS && !index->gathered);
    const struct far_shard *shards = index->shards ? &index->shards[part * PART_SHARDS] : NULL;
    for (uint32_t i = 0; i < PART_SHARDS; i++)
        add_u32(out, shards ? shards[i].count : 0);
    for (uint32_t i = 0; shards && i < PART_SHARDS; i++) {
        buf_reserve(out, shards[i].count * sizeof(uint64_t));
        for (uint32_t at = 0; at < shards[i].cap; at++) {
            if (!shards[i].entries[at])
                continue;
            put_u64(out->at + out->len, shards[i].entries[at]);
            out->len += sizeof(uint64_t);
        }
    }
}

bool far_index_take_files(struct far_index *index, struct bytes image)
{
    CHECK(index->count == 0 && index->file_count == 0 && !index->shards);
    uint32_t count = image.len >= sizeof(count) ? get_u32(image.at) : UINT32_MAX;
    if (count > FILES_MAX || image.len != sizeof(count) + count * (size_t)FILE_BYTES)
        return false;
    far_make_shards(index);
    index->file_count = count;
    index->file_cap = count + 1;
    index->files = mem_zalloc(index->file_cap * sizeof(*index->files));
    index->bytes += index->file_cap * sizeof(*index->files);
    for (uint32_t slot = count; slot > 0; slot--) {
        const char *at = image.at + sizeof(count) + (slot - 1) * (size_t)FILE_BYTES;
        struct far_file *file = &index->files[slot];
        file->number = get_u32(at);
        if (get_u32(at + 4) == 0) {
            file->next_free = index->free_file;
            index->free_file = slot;
            continue;
        }
        file->uses_left = get_u32(at + 4);
        if (!far_file_take(index, slot))
            return false;
    }
    return true;
}

/* False: the entries are not in order, or one names a file that is not in the table. */
static bool take_entries(struct far_index *index, struct far_shard *shard, const char *at,
                         uint32_t count, uint64_t *room)
{
    for (uint32_t i = 0; i < count; i++, at += sizeof(uint64_t)) {
        room[i] = get_u64(at);
        uint32_t slot = slot_of(room[i]);
        if ((i > 0 && room[i] <= room[i - 1]) || slot == 0 || slot > index->file_count ||
            index->files[slot].uses_left == 0)
            return false;
        index->files[slot].uses_left--;
        index->files[slot].uses++;
    }
    index->count += count;
    far_place_sorted(index, shard, room, count);
    return true;
}

bool far_index_take_part(struct far_index *index, uint32_t part, struct bytes image)
{
    CHECK(part < FAR_IMAGE_PARTS && index->shards);
    uint64_t all = 0;
    uint32_t most = 0;
    bool good = image.len >= COUNTS_BYTES;
    for (uint32_t i = 0; good && i < PART_SHARDS; i++) {
        uint32_t count = get_u32(image.at + i * sizeof(count));
        all += count;
        most = count > most ? count : most;
    }
    if (!good || image.len - COUNTS_BYTES != all * sizeof(uint64_t))
        return false;
    uint64_t *room = mem_alloc((most + (size_t)1) * sizeof(*room));
    const char *at = image.at + COUNTS_BYTES;
    for (uint32_t i = 0; good && i < PART_SHARDS; i++) {
        struct far_shard *shard = &index->shards[part * PART_SHARDS + i];
        uint32_t count = get_u32(image.at + i * sizeof(count));
        if (count == 0)
            continue;
        good = shard->count == 0 && take_entries(index, shard, at, count, room);
        at += count * sizeof(uint64_t);
    }
    mem_free(room);
    return good;
}

bool far_index_taken(const struct far_index *index)
{
    bool whole = !index->gathered;
    for (uint32_t slot = 1; slot <= index->file_count; slot++)
        whole = whole && index->files[slot].uses_left == 0;
    return whole;
}
