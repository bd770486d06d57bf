/*
 * The history's decoders against any bytes: an entry, a log record, a block and the fences of a
 * file stay in bounds, and what they accept is written again as the same thing. The sums are made
 * right, so that the fuzzer gets behind them.
 */
#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "base/mem.h"
#include "fuzz/exactly.h"
#include "store/history/history_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct happening *a, const struct happening *b)
{
    CHECK(a->what == b->what && a->state == b->state && a->seq == b->seq && a->at_us == b->at_us);
    CHECK(a->time_us == b->time_us && a->lease == b->lease && a->code == b->code);
    CHECK(bytes_eq(a->id, b->id) && bytes_eq(a->topic, b->topic) && bytes_eq(a->note, b->note));
}

static void check_entry(const struct happening *happening)
{
    char room[HISTORY_ENTRY_MAX], record[HISTORY_ENTRY_MAX + 16];
    struct happening again;
    struct bytes entry;
    size_t len = history_entry_encode(happening, room), used;
    CHECK(len <= sizeof(room));
    CHECK(history_entry_decode(room, len, &again, &used) == OK && used == len);
    same(happening, &again);
    history_record_encode(bytes_of(room, len), record);
    CHECK(history_record_decode(record, history_record_bytes(len), &entry));
    CHECK(bytes_eq(entry, bytes_of(room, len)));
}

static void read_block(const char *in, size_t size)
{
    struct history_walk walk;
    struct happening happening;
    struct bytes entry;
    if (size < HISTORY_BLOCK_HEAD)
        return;
    char *block = exactly(in, size);
    put_u32(block + 8, (uint32_t)size);
    put_u64(block, hash_of(block + 8, size - 8));
    CHECK(history_walk_init(&walk, block, size) == OK);
    while (history_walk_next(&walk, &happening, &entry) == OK)
        check_entry(&happening);
    mem_free(block);
}

static void read_fences(const char *in, size_t size)
{
    struct history_head head = {.blocks = (uint32_t)(size / HISTORY_FENCE_BYTES)};
    size_t len = (size_t)head.blocks * HISTORY_FENCE_BYTES;
    if (head.blocks == 0)
        return;
    char *section = exactly(in, len);
    struct history_fence *fences = mem_alloc(head.blocks * sizeof(*fences));
    head.data_end = get_u64(section + len - 8) % (UINT64_C(1) << 40) + 100;
    head.fences_sum = hash_of(section, len);
    if (history_fences_decode(&head, section, fences) == OK)
        for (uint32_t i = 0; i < head.blocks; i++)
            CHECK(fences[i].offset >= BLOCK && fences[i].offset < head.data_end);
    mem_free(fences);
    mem_free(section);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct happening happening;
    struct bytes entry;
    struct history_head head;
    size_t used;
    char *in = exactly((const char *)data, size);
    if (history_entry_decode(in, size, &happening, &used) == OK) {
        CHECK(used <= size);
        check_entry(&happening);
    }
    (void)history_record_decode(in, size, &entry);
    read_block(in, size);
    read_fences(in, size);
    if (size >= BLOCK) {
        put_u64(in + BLOCK - 8, hash_of(in, BLOCK - 8));
        if (history_head_decode(in, &head) == FORMAT_GOOD)
            CHECK(head.size_bytes >= head.data_end);
    }
    mem_free(in);
    return 0;
}
