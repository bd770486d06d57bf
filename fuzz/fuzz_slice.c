/*
 * A slice's head and sections against any bytes: the decoders stay in bounds, and what they accept
 * agrees with itself. The input is a head's fields and the bytes of the sections; the sums are made
 * right, so that the fuzzer gets behind them.
 */
#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "base/mem.h"
#include "fuzz/exactly.h"
#include "store/slices/slice_format.h"

enum { FIELDS = 56 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_fences(const struct slice_head *head, const char *section)
{
    struct slice_fence *fences = mem_alloc(head->blocks * sizeof(*fences));
    if (slice_fences_decode(head, section, fences) == OK)
        for (uint32_t i = 0; i < head->blocks; i++)
            CHECK(fences[i].jobs > 0 && (uint64_t)fences[i].offset * BLOCK < head->data_end);
    mem_free(fences);
}

static void read_index(const struct slice_head *head, const char *section)
{
    struct slice_index index, last;
    char room[SLICE_INDEX_MAX];
    slice_index_init(&index, head, section);
    for (last = index; slice_index_next(&index) == OK; last = index) {
        CHECK(index.offset < head->data_end && index.offset > last.offset);
        CHECK(index.topic < head->topics && index.seq > 0);
        size_t len = slice_index_encode(&last, &index, room);
        CHECK(len <= (size_t)(index.at - last.at)); /* shorter: it was written with spare bytes */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum job_state states[] = {JOB_DELAYED, JOB_READY, JOB_BURIED};
    char head_block[BLOCK] = {0};
    struct slice_head head;
    struct bytes name;
    if (size < FIELDS)
        return 0;
    const char *in = (const char *)data, *sections = in + FIELDS;
    size_t left = size - FIELDS;
    struct slice_head wanted = {
        .version = FORMAT_VERSION,
        .number = get_u32(in),
        .state = states[get_u8(in + 3) % 3],
        .jobs = get_u32(in + 4),
        .blocks = get_u32(in + 8) % 64,
        .topics = get_u32(in + 12),
        .size_bytes = get_u64(in + 16),
        .data_end = get_u64(in + 24),
        .due_first_us = (int64_t)get_u64(in + 32),
        .due_last_us = (int64_t)get_u64(in + 40),
        .topics_bytes = get_u32(in + 48),
        .index_bytes = get_u32(in + 52),
    };
    size_t fences = (size_t)wanted.blocks * SLICE_FENCE_BYTES;
    if (fences > left || wanted.topics_bytes > left - fences ||
        wanted.index_bytes > left - fences - wanted.topics_bytes)
        return 0;
    wanted.fences_sum = hash_of(sections, fences);
    slice_head_encode(&wanted, head_block);
    if (slice_head_decode(head_block, &head) != FORMAT_GOOD)
        return 0;
    CHECK(head.blocks == wanted.blocks && head.jobs == wanted.jobs && head.state == wanted.state);
    char *at = exactly(sections, fences);
    read_fences(&head, at);
    mem_free(at);
    at = exactly(sections + fences, (size_t)head.topics_bytes);
    struct slice_topics topics = {at, at + head.topics_bytes};
    while (slice_topics_next(&topics, &name) == OK)
        CHECK(name.len > 0 && name.at + name.len <= topics.end);
    mem_free(at);
    at = exactly(sections + fences + head.topics_bytes, (size_t)head.index_bytes);
    read_index(&head, at);
    mem_free(at);
    return 0;
}
