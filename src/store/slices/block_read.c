#include "store/slices/block_read.h"

#include "base/check.h"
#include "base/mem.h"
#include "store/slices/slices_parts.h"

enum {
    TRY_AGAIN_US = 100 * 1000, /* after the first failure; doubled after each */
    PAUSE_US = 5 * 1000,       /* after each SLICE_BLOCK_BYTES, and after a block at least */
};

void block_read_init(struct block_read *read, struct slices *slices, struct slice *slice,
                     uint32_t block, void (*failed)(struct block_read *read, enum err err))
{
    *read = (struct block_read){
        .slices = slices,
        .slice = slice,
        .block = block,
        .len = slice_block_bytes(slice, block),
        .retry_at_us = INT64_MIN,
        .failed = failed,
    };
    read->bytes = mem_aligned(BLOCK, read->len);
}

void block_read_fini(struct block_read *read)
{
    CHECK(!read->reading);
    mem_free(read->bytes);
    *read = (struct block_read){0};
}

uint64_t block_read_offset(const struct block_read *read)
{
    return slice_block_begin(read->slice, read->block);
}

int64_t block_read_pause_us(const struct block_read *read)
{
    int64_t pause_us = (int64_t)(PAUSE_US * (uint64_t)read->len / SLICE_BLOCK_BYTES);
    return pause_us > PAUSE_US ? pause_us : PAUSE_US; /* a block of one long job is many */
}

bool block_read_due(const struct block_read *read)
{
    return !read->reading && !read->there && read->retry_at_us <= read->slices->store->now_us;
}

/* Are these `len` bytes the whole block? */
static bool is_block(const struct block_read *read, size_t len, uint32_t *out_payload_bytes)
{
    const struct slices *slices = read->slices;
    struct batch_head head;
    bool good = batch_head_decode(read->bytes, len, &head) == FORMAT_GOOD &&
                head.number == read->block + 1 && head.segment == read->slice->head.number &&
                head.store_tag == slices->store->tag && batch_whole(&head, read->bytes, 0);
    *out_payload_bytes = good ? head.payload_bytes : 0;
    return good;
}

/* Called by the disk's thread: several blocks may end in one turn, and one may be long. */
static void inspect(struct disk_op *op)
{
    struct block_read *read = op->owner;
    read->good = is_block(read, op->got, &read->payload_bytes);
}

static void note_failure(struct block_read *read, enum err err)
{
    int64_t now_us = read->slices->store->now_us;
    if (err == ERR_AGAIN) { /* no free descriptor: no error of the slice */
        read->retry_at_us = now_us + TRY_AGAIN_US;
        return;
    }
    read->retry_at_us = now_us + ((int64_t)TRY_AGAIN_US << read->tries);
    read->tries++;
    read->failed(read, err);
}

static void read_ended(struct disk_op *op)
{
    struct block_read *read = op->owner;
    struct slices *slices = read->slices;
    CHECK(read->reading);
    read->reading = false;
    segments_read_end(slices->segments, read->slice->segment, op);
    if (op->fresh && op->file)
        slices->store->disk->verbs->close(slices->store->disk, op->file);
    if (op->err || op->got <= BATCH_HEAD || !read->good) {
        note_failure(read, op->err ? op->err : op->got <= BATCH_HEAD ? ERR_IO : OK);
        return;
    }
    read->there = true;
    batch_walk_init(&read->walk, read->bytes, read->payload_bytes);
}

void block_read_start(struct block_read *read, bool fresh, uint64_t ahead)
{
    CHECK(!read->reading && !read->there && read->len > 0 && read->len % BLOCK == 0);
    read->op = (struct disk_op){
        .into = read->bytes,
        .len = read->len,
        .offset = block_read_offset(read),
        .fresh = fresh || read->tries > 0,
        .ahead = ahead,
        .inspect = inspect,
        .done = read_ended,
        .owner = read,
    };
    read->reading = true;
    read->good = false;
    segments_read(read->slices->segments, read->slice->segment, &read->op);
}

void block_read_use_damaged(struct block_read *read)
{
    CHECK(!read->reading && !read->there && read->op.got > BATCH_HEAD);
    read->there = true;
    batch_walk_init(&read->walk, read->bytes, (uint32_t)(read->op.got - BATCH_HEAD));
}

void block_read_valid(const struct block_read *read)
{
    CHECK(!read->bytes == !read->slice);
    if (!read->slice)
        return;
    CHECK(!(read->reading && read->there));
    CHECK(!read->reading || read->slice->segment->reading > 0); /* T3 */
    CHECK(read->len == slice_block_bytes(read->slice, read->block));
}
