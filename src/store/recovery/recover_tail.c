/*
 * The end of the last segment: what is behind the last good batch, and how it becomes durable.
 *
 * The tail is read past the page cache: after a failed sync the cache shows bytes that the disk
 * does not have. Batches that nothing proves durable are written again, the same bytes in the
 * same place, before they are served; a crash while doing so finds the same bytes again.
 */
#include "base/check.h"
#include "base/mem.h"
#include "store/recovery/recover_parts.h"

enum { WINDOW_BYTES = 1024 * 1024 };

enum err recover_survey_tail(struct recovery *recovery, const struct segment *segment,
                             struct walker *walker)
{
    enum place_kind kind;
    recovery->dirty_first = recovery->dirty_end = segment->end;
    walker_move_to(walker, segment->end, recovery->batch_next);
    for (; (kind = walker_classify(walker)) != PLACE_END; walker_next(walker)) {
        enum err err = store_opening_read(recovery->store, walker->bytes);
        if (err)
            return err;
        if (kind == PLACE_BLANK)
            continue;
        if (kind == PLACE_UNREAD)
            return walker->err;
        if (recovery->dirty_end == segment->end)
            recovery->dirty_first = walker->offset;
        if (walker_durable(walker) > recovery->proven)
            recovery->proven = walker_durable(walker);
        recovery->dirty_end = walker->offset + walker->bytes;
    }
    return OK;
}

/* Finds the first batch that nothing proves durable; they are the last ones of the segment. */
static enum err find_unproven(struct recovery *recovery, const struct segment *segment,
                              struct walker *walker)
{
    const struct batch_place *from = &recovery->known[0];
    CHECK(from->number <= recovery->proven + 1);
    walker_move_to(walker, from->offset, from->number);
    while (walker->offset < segment->end && walker->expected <= recovery->proven) {
        enum err err = store_opening_worked(recovery->store, walker->bytes);
        if (err)
            return err;
        const struct region *region =
            recovery->surveyed ? damage_region(&recovery->damage, segment->number, walker->offset)
                               : NULL;
        if (region)
            walker_move_to(walker, region->end, region->batch_last + 1);
        else if (walker_classify(walker) == PLACE_BATCH)
            walker_next(walker);
        else
            return ERR_IO; /* it was intact when it was replayed */
    }
    recovery->unproven_at = walker->offset;
    return OK;
}

static enum err write_now(struct store *store, struct segment *segment, const void *data,
                          size_t len, uint64_t offset)
{
    struct disk_op op = {
        .verb = DISK_WRITE_SYNC,
        .lane = LANE_COMMIT,
        .file = segment->file,
        .data = data,
        .len = len,
        .offset = offset,
    };
    store->disk->verbs->run(store->disk, &op);
    return op.err == ERR_DISK_FULL ? ERR_IO : op.err; /* the blocks are allocated already */
}

static enum err rewrite(struct recovery *recovery, struct segment *segment, struct scan *scan,
                        uint64_t from, uint64_t end)
{
    while (from < end) {
        const char *at;
        size_t len;
        size_t want = end - from < WINDOW_BYTES ? (size_t)(end - from) : WINDOW_BYTES;
        enum err err = scan_bytes(scan, from, want, &at, &len);
        if (err)
            return err;
        if (len < want || (uintptr_t)at % BLOCK)
            return ERR_IO;
        err = write_now(recovery->store, segment, at, len, from);
        if (err)
            return err;
        from += len;
    }
    return OK;
}

static enum err zero_tail(struct recovery *recovery, struct segment *segment)
{
    uint64_t at = recovery->dirty_first, bytes = recovery->dirty_end - at;
    enum err err = OK;
    if (recovery->dirty_end <= at)
        return OK;
    size_t room = bytes < WINDOW_BYTES ? (size_t)bytes : WINDOW_BYTES;
    char *zeros = mem_aligned(BLOCK, room);
    memset(zeros, 0, room);
    while (at < recovery->dirty_end && !err) {
        uint64_t left = recovery->dirty_end - at;
        size_t len = left < room ? (size_t)left : room;
        err = write_now(recovery->store, segment, zeros, len, at);
        at += len;
    }
    mem_free(zeros);
    return err;
}

enum err recover_settle_tail(struct recovery *recovery, struct segment *segment,
                             struct walker *walker)
{
    struct store *store = recovery->store;
    CHECK(recovery->batch_next > recovery->proven);
    CHECK(recovery->dirty_first <= recovery->dirty_end && recovery->dirty_first >= segment->end);
    enum err err = find_unproven(recovery, segment, walker);
    /* The header too: if the process was killed while writing it, only the cache may have it. */
    if (!err && !recovery->clean)
        err = rewrite(recovery, segment, &walker->scan, 0, BLOCK);
    if (!err)
        err = rewrite(recovery, segment, &walker->scan, recovery->unproven_at, segment->end);
    if (!err)
        err = zero_tail(recovery, segment);
    store->dropped_tail_bytes = recovery->dirty_end - recovery->dirty_first;
    if (!err && store->dropped_tail_bytes) {
        char name[DISK_NAME_MAX];
        segment_name(segment->number, name);
        store_error_set(recovery->error, name, recovery->dirty_first,
                        "notice: %llu bytes of a torn tail were dropped, as a crash leaves them; "
                        "nothing shows that they were acknowledged",
                        (unsigned long long)store->dropped_tail_bytes);
    }
    return err;
}
