#include "store/history/history_format.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/codec.h"
#include "base/far_hash.h"
#include "base/hash.h"
#include "base/hex.h"
#include "store/record.h"
#include "store/varint.h"

/* ---- an entry ---- */

uint64_t history_key(uint64_t key, uint64_t seq, struct bytes id)
{
    char number[8];
    if (id.len)
        return far_hash_id(key, id);
    put_u64(number, seq);
    return hash_seeded(number, sizeof(number), key);
}

static bool has_time(enum job_state state)
{
    return state == JOB_DELAYED || state == JOB_READY || state == JOB_RESERVED;
}

static char *put_text(char *at, struct bytes text)
{
    at = varint_put(at, text.len);
    if (text.len)
        memcpy(at, text.at, text.len);
    return at + text.len;
}

size_t history_entry_encode(const struct happening *happening, char *room)
{
    char *at = room;
    CHECK(happening->id.len <= JOB_ID_MAX && happening->topic.len <= TOPIC_NAME_MAX &&
          happening->note.len <= JOB_NOTE_MAX);
    *at++ = (char)happening->what;
    *at++ = (char)happening->state;
    at = varint_put(at, happening->seq);
    at = varint_put(at, varint_fold(happening->at_us));
    if (has_time(happening->state)) {
        int64_t ahead_us = time_span_modulo(happening->at_us, happening->time_us);
        at = varint_put(at, varint_fold(ahead_us));
    }
    if (happening->state == JOB_RESERVED)
        at = varint_put(at, happening->lease);
    at = put_text(at, happening->id);
    at = put_text(at, happening->topic);
    at = varint_put(at, happening->code);
    at = put_text(at, happening->note);
    return (size_t)(at - room);
}

static struct bytes get_text(struct varint_reader *reader, size_t max)
{
    uint64_t len = varint_get(reader);
    if (len > max || len > (size_t)(reader->end - reader->at)) {
        reader->good = false;
        return (struct bytes){0};
    }
    struct bytes text = {.at = len ? reader->at : NULL, .len = (size_t)len};
    reader->at += len;
    return text;
}

enum err history_entry_decode(const char *at, size_t room, struct happening *out_happening,
                              size_t *out_len)
{
    if (room < 2)
        return ERR_CORRUPT;
    unsigned what = get_u8(at), state = get_u8(at + 1);
    if (what == 0 || what >= HAPPENINGS || state >= JOB_STATES)
        return ERR_CORRUPT;
    struct varint_reader reader = {.at = at + 2, .end = at + room, .good = true};
    struct happening happening = {.what = what, .state = state};
    happening.seq = varint_get(&reader);
    happening.at_us = varint_unfold(varint_get(&reader));
    if (has_time(happening.state)) {
        happening.time_us = time_add_modulo(happening.at_us, varint_unfold(varint_get(&reader)));
    }
    if (happening.state == JOB_RESERVED)
        happening.lease = varint_get(&reader);
    happening.id = get_text(&reader, JOB_ID_MAX);
    happening.topic = get_text(&reader, TOPIC_NAME_MAX);
    uint64_t code = varint_get(&reader);
    happening.code = (uint16_t)code;
    happening.note = get_text(&reader, JOB_NOTE_MAX);
    if (!reader.good || code > UINT16_MAX || happening.seq == 0)
        return ERR_CORRUPT;
    *out_happening = happening;
    *out_len = (size_t)(reader.at - at);
    return OK;
}

/* ---- the log's record ---- */

size_t history_record_bytes(size_t entry_len)
{
    size_t len = (HISTORY_RECORD_HEAD + entry_len + 7) & ~(size_t)7;
    return len < 16 ? 16 : len;
}

void history_record_encode(struct bytes entry, char *record)
{
    size_t len = history_record_bytes(entry.len);
    put_u64(record + len - 8, 0); /* the padding: zeros */
    put_u32(record, (uint32_t)len);
    put_u8(record + 4, RECORD_HISTORY);
    put_u8(record + 5, 0);
    put_u16(record + 6, (uint16_t)entry.len);
    memcpy(record + HISTORY_RECORD_HEAD, entry.at, entry.len);
}

bool history_record_decode(const char *record, size_t len, struct bytes *out_entry)
{
    struct happening happening;
    size_t entry_len;
    if (len < HISTORY_RECORD_HEAD || get_u16(record + 6) > len - HISTORY_RECORD_HEAD)
        return false;
    struct bytes entry = bytes_of(record + HISTORY_RECORD_HEAD, get_u16(record + 6));
    if (history_entry_decode(entry.at, entry.len, &happening, &entry_len) ||
        entry_len != entry.len || history_record_bytes(entry.len) != len)
        return false;
    *out_entry = entry;
    return true;
}

/* ---- a file's head and fences ---- */

static const char magic[8] = "\1LTDHIST";
enum { HISTORY_VERSION = 1, HEAD_SUM = BLOCK - 8 };

static void head_encode(const struct history_head *head, void *block)
{
    char *at = block;
    memset(at, 0, BLOCK);
    memcpy(at, magic, sizeof(magic));
    put_u32(at + 8, HISTORY_VERSION);
    put_u32(at + 12, head->blocks);
    memcpy(at + 16, head->id.bytes, sizeof(head->id.bytes));
    put_u64(at + 32, head->size_bytes);
    put_u64(at + 40, head->data_end);
    put_u64(at + 48, head->entries);
    put_u64(at + 56, head->batch_first);
    put_u64(at + 64, head->batch_last);
    put_u64(at + 72, (uint64_t)head->at_first_us);
    put_u64(at + 80, (uint64_t)head->at_last_us);
    put_u64(at + 88, head->fences_sum);
    put_u64(at + HEAD_SUM, hash_of(at, HEAD_SUM));
}

enum format_verdict history_head_decode(const void *block, struct history_head *out_head)
{
    const char *at = block;
    if (memcmp(at, magic, sizeof(magic)) != 0 || get_u64(at + HEAD_SUM) != hash_of(at, HEAD_SUM))
        return FORMAT_BAD;
    struct history_head head = {
        .version = get_u32(at + 8),
        .blocks = get_u32(at + 12),
        .size_bytes = get_u64(at + 32),
        .data_end = get_u64(at + 40),
        .entries = get_u64(at + 48),
        .batch_first = get_u64(at + 56),
        .batch_last = get_u64(at + 64),
        .at_first_us = (int64_t)get_u64(at + 72),
        .at_last_us = (int64_t)get_u64(at + 80),
        .fences_sum = get_u64(at + 88),
    };
    memcpy(head.id.bytes, at + 16, sizeof(head.id.bytes));
    if (head.version > HISTORY_VERSION) {
        *out_head = head; /* each version has its batches and times there */
        return FORMAT_NEWER;
    }
    uint64_t fences_bytes = (uint64_t)head.blocks * HISTORY_FENCE_BYTES;
    if (head.version == 0 || head.data_end < BLOCK || head.size_bytes < head.data_end ||
        head.size_bytes - head.data_end != fences_bytes || head.batch_last < head.batch_first)
        return FORMAT_BAD;
    *out_head = head;
    return FORMAT_GOOD;
}

enum err history_fences_decode(const struct history_head *head, const char *section,
                               struct history_fence *out_fences)
{
    uint64_t key = 0, end = BLOCK;
    if (hash_of(section, (size_t)head->blocks * HISTORY_FENCE_BYTES) != head->fences_sum)
        return ERR_CORRUPT;
    for (uint32_t i = 0; i < head->blocks; i++) {
        const char *at = section + (size_t)i * HISTORY_FENCE_BYTES;
        struct history_fence fence = {.key = get_u64(at), .offset = get_u64(at + 8)};
        bool follows = i == 0 ? fence.offset == BLOCK
                              : fence.offset > end && fence.offset - end <= HISTORY_BLOCK_BYTES;
        if (!follows || fence.key < key || fence.offset >= head->data_end)
            return ERR_CORRUPT;
        key = fence.key;
        end = fence.offset;
        out_fences[i] = fence;
    }
    return head->data_end - end <= HISTORY_BLOCK_BYTES ? OK : ERR_CORRUPT;
}

/* ---- a block ---- */

enum err history_walk_init(struct history_walk *walk, const char *block, size_t len)
{
    if (len < HISTORY_BLOCK_HEAD || get_u32(block + 8) != len ||
        get_u64(block) != hash_of(block + 8, len - 8))
        return ERR_CORRUPT;
    *walk = (struct history_walk){block + HISTORY_BLOCK_HEAD, block + len};
    return OK;
}

enum err history_walk_next(struct history_walk *walk, struct happening *out_happening,
                           struct bytes *out_entry)
{
    size_t len;
    if (walk->at == walk->end)
        return ERR_NOT_FOUND;
    enum err err =
        history_entry_decode(walk->at, (size_t)(walk->end - walk->at), out_happening, &len);
    if (err)
        return err;
    *out_entry = bytes_of(walk->at, len);
    walk->at += len;
    return OK;
}

/* ---- making a file ---- */

void history_image_begin(struct history_image *image)
{
    static const char zeros[BLOCK];
    CHECK(image->bytes.len == 0);
    image->head.at_first_us = INT64_MAX;
    image->head.at_last_us = INT64_MIN;
    buf_add(&image->bytes, zeros, BLOCK);
}

static void end_block(struct history_image *image)
{
    char *block = image->bytes.at + image->block_at;
    size_t len = image->bytes.len - image->block_at;
    if (image->block_at == 0)
        return;
    put_u32(block + 8, (uint32_t)len);
    put_u64(block, hash_of(block + 8, len - 8));
    image->block_at = 0;
}

static void begin_block(struct history_image *image, uint64_t key)
{
    static const char zeros[HISTORY_BLOCK_HEAD];
    char fence[HISTORY_FENCE_BYTES];
    put_u64(fence, key);
    put_u64(fence + 8, image->bytes.len);
    buf_add(&image->fences, fence, sizeof(fence));
    image->block_at = image->bytes.len;
    image->head.blocks++;
    buf_add(&image->bytes, zeros, sizeof(zeros));
}

void history_image_add(struct history_image *image, uint64_t key, struct bytes entry, int64_t at_us)
{
    if (image->block_at && image->bytes.len - image->block_at + entry.len > HISTORY_BLOCK_BYTES)
        end_block(image);
    if (image->block_at == 0)
        begin_block(image, key);
    buf_add_bytes(&image->bytes, entry);
    image->head.entries++;
    if (at_us < image->head.at_first_us)
        image->head.at_first_us = at_us;
    if (at_us > image->head.at_last_us)
        image->head.at_last_us = at_us;
}

void history_image_end(struct history_image *image)
{
    end_block(image);
    image->head.data_end = image->bytes.len;
    image->head.fences_sum = hash_of(image->fences.at, image->fences.len);
    buf_add_bytes(&image->bytes, buf_bytes(&image->fences));
    image->head.size_bytes = image->bytes.len;
    head_encode(&image->head, image->bytes.at);
}

void history_image_fini(struct history_image *image)
{
    buf_fini(&image->bytes);
    buf_fini(&image->fences);
    *image = (struct history_image){0};
}

void history_image_discard(struct history_image *image, struct discard *spent)
{
    discard_buf(spent, &image->bytes);
    discard_buf(spent, &image->fences);
    *image = (struct history_image){0};
}

/* ---- names ---- */

#define PREFIX     "hist-"
#define TMP_SUFFIX ".tmp"

void history_name(uint32_t number, char out_name[DISK_NAME_MAX])
{
    (void)snprintf(out_name, DISK_NAME_MAX, HISTORY_NAME, number);
}

void history_tmp_name(uint32_t number, char out_name[DISK_NAME_MAX])
{
    (void)snprintf(out_name, DISK_NAME_MAX, HISTORY_NAME TMP_SUFFIX, number);
}

bool history_name_parse(const char *name, uint32_t *out_number, bool *out_half_made)
{
    enum { PREFIX_LEN = sizeof(PREFIX) - 1, FRONT_LEN = PREFIX_LEN + HEX_U32_DIGITS };
    size_t len = strlen(name);
    bool tmp =
        len == FRONT_LEN + sizeof(TMP_SUFFIX) - 1 && strcmp(name + FRONT_LEN, TMP_SUFFIX) == 0;
    if ((len != FRONT_LEN && !tmp) || memcmp(name, PREFIX, PREFIX_LEN) != 0 ||
        !hex_lower_u32(name + PREFIX_LEN, out_number))
        return false;
    *out_half_made = tmp;
    return true;
}
