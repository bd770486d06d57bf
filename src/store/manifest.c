/*
 * The manifest's writing. It is made once by replacing (new file, sync, rename, sync of the
 * directory); afterwards its two slots are written in place in turn. At any crash one of them is
 * whole; and a store opens and cleans itself on a disk without a free block, which replacing a
 * file could not.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/internal.h"

enum err manifest_create(struct disk *disk, const struct manifest *manifest)
{
    char *slots = mem_zalloc(MANIFEST_BYTES);
    manifest_encode(manifest, slots + (manifest->generation & 1) * BLOCK);
    struct disk_op op = {
        .verb = DISK_REPLACE,
        .lane = LANE_BACKGROUND,
        .name = MANIFEST_NAME,
        .data = slots,
        .len = MANIFEST_BYTES,
    };
    disk->verbs->run(disk, &op);
    mem_free(slots);
    return op.err;
}

/* The next slot's bytes, into the operation. */
static void prepare(struct store *store, bool clean)
{
    struct manifest *manifest = &store->manifest;
    manifest->generation++;
    manifest->boot = store->boot;
    manifest->durable = store->synced;
    manifest->number_next = store->number_next;
    manifest->clean = clean;
    manifest->seq_mark = store->seq_next + (clean ? 0 : SEQ_AHEAD);
    manifest->lease_mark = store->lease_next + (clean ? 0 : LEASE_AHEAD);
    store->manifest_writing_first = manifest->batch_first;
    manifest_encode(manifest, store->manifest_slot);
    store->manifest_op = (struct disk_op){
        .verb = DISK_WRITE_SYNC,
        .lane = LANE_BACKGROUND,
        .file = store->manifest_file,
        .data = store->manifest_slot,
        .len = BLOCK,
        .offset = (manifest->generation & 1) * BLOCK,
        .owner = store,
    };
}

static void written(struct disk_op *op)
{
    struct store *store = op->owner;
    store->manifest_busy = false;
    if (op->err) {
        wal_fail(store, op->sys_errno);
        return;
    }
    store->manifest_durable_first = store->manifest_writing_first;
    if (store->manifest_again) {
        store->manifest_again = false;
        manifest_write(store);
    }
}

void manifest_write(struct store *store)
{
    if (store->failed)
        return;
    if (store->manifest_busy) {
        store->manifest_again = true;
        return;
    }
    prepare(store, false);
    store->manifest_busy = true;
    store->manifest_op.done = written;
    store->disk->verbs->submit(store->disk, &store->manifest_op);
}

enum err manifest_write_now(struct store *store, bool clean)
{
    CHECK(!store->manifest_busy);
    prepare(store, clean);
    store->disk->verbs->run(store->disk, &store->manifest_op);
    if (!store->manifest_op.err)
        store->manifest_durable_first = store->manifest_writing_first;
    return store->manifest_op.err;
}
