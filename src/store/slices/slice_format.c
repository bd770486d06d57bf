#include "store/slices/slice_format.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "base/hex.h"
#include "core/job.h"
#include "store/record.h"
#include "store/varint.h"

#define SLICE_MAGIC UINT64_C(0x43494c5344544c01) /* "\1LTDSLIC" */

enum { SUM_AT = BLOCK - 8 };

/* ---- head ---- */

void slice_head_encode(const struct slice_head *head, void *block)
{
    char *at = block;
    memset(at, 0, BLOCK);
    put_u64(at + 0, SLICE_MAGIC);
    put_u32(at + 8, head->version);
    put_u32(at + 12, head->number);
    memcpy(at + 16, head->id.bytes, sizeof(head->id.bytes));
    put_u64(at + 32, head->size_bytes);
    put_u64(at + 40, head->data_end);
    put_u32(at + 48, head->jobs);
    put_u32(at + 52, head->blocks);
    put_u32(at + 56, head->topics);
    put_u32(at + 60, head->state == JOB_DELAYED ? 0 : (uint32_t)head->state);
    put_u64(at + 64, (uint64_t)head->due_first_us);
    put_u64(at + 72, (uint64_t)head->due_last_us);
    put_u64(at + 80, head->topics_bytes);
    put_u64(at + 88, head->index_bytes);
    put_u64(at + 96, head->fences_sum);
    put_u64(at + 104, head->topics_sum);
    put_u64(at + 112, head->index_sum);
    put_u64(at + SUM_AT, hash_of(at, SUM_AT));
}

/* Are the sizes consistent? */
static bool sizes_possible(const struct slice_head *head)
{
    return head->size_bytes % BLOCK == 0 && head->size_bytes <= (uint64_t)UINT32_MAX * 8 &&
           head->data_end % BLOCK == 0 && head->data_end > BLOCK && head->blocks > 0 &&
           head->blocks <= head->data_end / BLOCK && head->jobs >= head->blocks &&
           head->jobs <= head->data_end / SLICE_UNIT && head->topics > 0 &&
           head->topics <= SLICE_TOPICS_MAX && head->topics_bytes <= head->size_bytes &&
           head->index_bytes <= head->size_bytes &&
           slice_index_at(head) + head->index_bytes + RECORD_JOB_HEAD <= head->size_bytes;
}

/* 0 stands for JOB_DELAYED: older versions wrote 0, and made slices of delayed jobs only. */
static bool state_possible(uint32_t state)
{
    return state == 0 || state == JOB_READY || state == JOB_BURIED;
}

enum format_verdict slice_head_decode(const void *block, struct slice_head *out_head)
{
    const char *at = block;
    if (bytes_all_zero(at, BLOCK))
        return FORMAT_BLANK;
    if (get_u64(at) != SLICE_MAGIC || get_u64(at + SUM_AT) != hash_of(at, SUM_AT))
        return FORMAT_BAD;
    if (get_u32(at + 8) > FORMAT_VERSION)
        return FORMAT_NEWER;
    struct slice_head head = {
        .version = get_u32(at + 8),
        .number = get_u32(at + 12),
        .size_bytes = get_u64(at + 32),
        .data_end = get_u64(at + 40),
        .jobs = get_u32(at + 48),
        .blocks = get_u32(at + 52),
        .topics = get_u32(at + 56),
        .state = get_u32(at + 60) ? (enum job_state)get_u32(at + 60) : JOB_DELAYED,
        .due_first_us = (int64_t)get_u64(at + 64),
        .due_last_us = (int64_t)get_u64(at + 72),
        .topics_bytes = get_u64(at + 80),
        .index_bytes = get_u64(at + 88),
        .fences_sum = get_u64(at + 96),
        .topics_sum = get_u64(at + 104),
        .index_sum = get_u64(at + 112),
    };
    memcpy(head.id.bytes, at + 16, sizeof(head.id.bytes));
    if (!sizes_possible(&head) || head.due_first_us > head.due_last_us ||
        !state_possible(get_u32(at + 60)))
        return FORMAT_BAD; /* the checksum is right, but no version writes such a head */
    *out_head = head;
    return FORMAT_GOOD;
}

/* ---- sections ---- */

void slice_fence_encode(const struct slice_fence *fence, void *at)
{
    put_u64(at, (uint64_t)fence->due_us);
    put_u32((char *)at + 8, fence->offset);
    put_u32((char *)at + 12, fence->jobs);
}

enum err slice_fences_decode(const struct slice_head *head, const void *section,
                             struct slice_fence *out_fences)
{
    const char *at = section;
    uint64_t jobs = 0;
    uint32_t end = (uint32_t)(head->data_end / BLOCK);
    if (hash_of(at, (size_t)head->blocks * SLICE_FENCE_BYTES) != head->fences_sum)
        return ERR_CORRUPT;
    for (uint32_t i = 0; i < head->blocks; i++, at += SLICE_FENCE_BYTES) {
        struct slice_fence *fence = &out_fences[i];
        *fence = (struct slice_fence){
            .due_us = (int64_t)get_u64(at), .offset = get_u32(at + 8), .jobs = get_u32(at + 12)};
        bool follows = i == 0
                           ? fence->offset == 1 && fence->due_us == head->due_first_us
                           : fence->offset > fence[-1].offset && fence->due_us >= fence[-1].due_us;
        if (!follows || fence->offset >= end || fence->jobs == 0 ||
            fence->due_us > head->due_last_us)
            return ERR_CORRUPT;
        jobs += fence->jobs;
    }
    return jobs == head->jobs ? OK : ERR_CORRUPT;
}

enum err slice_topics_next(struct slice_topics *topics, struct bytes *out_name)
{
    if (topics->at == topics->end)
        return ERR_NOT_FOUND;
    size_t len = get_u8(topics->at);
    if (len == 0 || len > TOPIC_NAME_MAX || len >= (size_t)(topics->end - topics->at))
        return ERR_CORRUPT;
    *out_name = bytes_of(topics->at + 1, len);
    topics->at += 1 + len;
    return OK;
}

void slice_index_init(struct slice_index *index, const struct slice_head *head, const void *section)
{
    *index = (struct slice_index){
        .at = section,
        .end = (const char *)section + head->index_bytes,
        .head = head,
        .offset = BLOCK,
    };
}

size_t slice_index_encode(const struct slice_index *last, const struct slice_index *entry,
                          char room[static SLICE_INDEX_MAX])
{
    CHECK(entry->offset > last->offset && entry->offset % 8 == 0);
    char *at = varint_put(room, (entry->offset - last->offset) / 8 << 1 | (entry->id_hash != 0));
    at = varint_put(at, varint_fold((int64_t)(entry->seq - last->seq)));
    if (entry->id_hash) {
        put_u64(at, entry->id_hash);
        at += 8;
    }
    at = varint_put(at, entry->topic);
    if (entry->head->state == JOB_READY) {
        at = varint_put(at, entry->priority);
        at = varint_put(at, varint_fold(time_span_modulo(last->rank_us, entry->rank_us)));
    }
    return (size_t)(at - room);
}

enum err slice_index_next(struct slice_index *index)
{
    struct varint_reader reader = {index->at, index->end, true};
    if (index->at == index->end)
        return ERR_NOT_FOUND;
    uint64_t gap = varint_get(&reader);
    uint64_t seq = index->seq + (uint64_t)varint_unfold(varint_get(&reader));
    uint64_t id_hash = 0;
    if (gap & 1) {
        if (reader.end - reader.at < 8)
            return ERR_CORRUPT;
        id_hash = get_u64(reader.at);
        reader.at += 8;
        if (id_hash == 0)
            return ERR_CORRUPT;
    }
    uint64_t topic = varint_get(&reader), priority = 0;
    int64_t rank_us = 0;
    if (index->head->state == JOB_READY) {
        priority = varint_get(&reader);
        rank_us = time_add_modulo(index->rank_us, varint_unfold(varint_get(&reader)));
    }
    gap >>= 1;
    if (!reader.good || gap == 0 || gap >= (index->head->data_end - index->offset) / 8 ||
        seq == 0 || topic >= index->head->topics || priority > UINT32_MAX)
        return ERR_CORRUPT;
    index->at = reader.at;
    index->offset += gap * 8;
    index->seq = seq;
    index->id_hash = id_hash;
    index->topic = (uint32_t)topic;
    index->priority = (uint32_t)priority;
    index->rank_us = rank_us;
    return OK;
}

/* ---- the log's record ---- */

size_t slice_record_bytes(const struct slice_record *record)
{
    return (SLICE_RECORD_HEAD + (size_t)record->dead_bytes + 7) & ~(size_t)7;
}

void slice_record_encode(const struct slice_record *record, void *to)
{
    char *at = to;
    size_t len = slice_record_bytes(record);
    memset(at, 0, SLICE_RECORD_HEAD);
    put_u64(at + len - 8, 0); /* the padding */
    put_u32(at + 0, (uint32_t)len);
    put_u8(at + 4, RECORD_SLICE);
    put_u8(at + 5, record->whole);
    put_u32(at + 8, record->number);
    put_u32(at + 12, record->from);
    put_u32(at + 16, record->to);
    put_u32(at + 20, record->jobs);
    put_u32(at + 24, record->left);
    put_u64(at + 32, record->left_bytes);
    put_u32(at + 40, record->dead_bytes);
    if (record->dead_bytes)
        memcpy(at + SLICE_RECORD_HEAD, record->dead, record->dead_bytes);
}

bool slice_record_decode(const void *from, size_t len, struct slice_record *out_record)
{
    const char *at = from;
    if (len < SLICE_RECORD_HEAD || get_u8(at + 5) > 1)
        return false;
    struct slice_record record = {
        .whole = get_u8(at + 5),
        .number = get_u32(at + 8),
        .from = get_u32(at + 12),
        .to = get_u32(at + 16),
        .jobs = get_u32(at + 20),
        .left = get_u32(at + 24),
        .left_bytes = get_u64(at + 32),
        .dead = at + SLICE_RECORD_HEAD,
        .dead_bytes = get_u32(at + 40),
    };
    if (record.dead_bytes > len || slice_record_bytes(&record) != len || record.from == 0 ||
        record.from >= record.to || (record.whole && (record.from != 1 || record.left)))
        return false;
    uint64_t unit = slice_unit((uint64_t)record.from * BLOCK);
    uint64_t end = slice_unit((uint64_t)record.to * BLOCK);
    struct varint_reader reader = {record.dead, record.dead + record.dead_bytes, true};
    while (reader.good && reader.at < reader.end) {
        uint64_t gap = varint_get(&reader);
        if (gap == 0 || gap >= end - unit)
            return false;
        unit += gap;
    }
    *out_record = record;
    return reader.good;
}

/* ---- names ---- */

void slice_name(uint32_t number, char out_name[DISK_NAME_MAX])
{
    (void)snprintf(out_name, DISK_NAME_MAX, SLICE_NAME, number);
}

#define SLICE_PREFIX "slice-"
#define TMP_SUFFIX   ".tmp"

void slice_tmp_name(uint32_t number, char out_name[DISK_NAME_MAX])
{
    (void)snprintf(out_name, DISK_NAME_MAX, SLICE_NAME TMP_SUFFIX, number);
}

static bool parse(const char *name, size_t len, uint32_t *out_number)
{
    size_t prefix = sizeof(SLICE_PREFIX) - 1;
    uint32_t number;
    if (len != prefix + HEX_U32_DIGITS || memcmp(name, SLICE_PREFIX, prefix) != 0 ||
        !hex_lower_u32(name + prefix, &number))
        return false;
    *out_number = number;
    return number != 0;
}

bool slice_name_parse(const char *name, uint32_t *out_number)
{
    return parse(name, strlen(name), out_number);
}

bool slice_tmp_name_parse(const char *name, uint32_t *out_number)
{
    size_t len = strlen(name), suffix = sizeof(TMP_SUFFIX) - 1;
    return len > suffix && strcmp(name + len - suffix, TMP_SUFFIX) == 0 &&
           parse(name, len - suffix, out_number);
}
