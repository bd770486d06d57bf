#include "store/log/manifest.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/internal.h"

struct manifest_writer {
    struct store *store;
    struct disk *disk;
    struct manifest now;                         /* the contents of the last write begun */
    uint64_t writing_first;                      /* batch_first of the write under way … */
    uint64_t durable_first;                      /* … and of the last that is durable */
    uint32_t writing_features, durable_features; /* the same of `incompatible` */
    uint64_t lease_next;
    struct disk_file *file;
    char *slot; /* BLOCK bytes, under way while busy */
    struct disk_op op;
    bool busy, again;
};

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

struct manifest_writer *manifest_new(struct store *store)
{
    struct manifest_writer *writer = mem_zalloc(sizeof(*writer));
    writer->store = store;
    writer->disk = store->disk;
    writer->slot = mem_aligned(BLOCK, BLOCK);
    return writer;
}

void manifest_free(struct manifest_writer *writer)
{
    if (!writer)
        return;
    CHECK(!writer->busy);
    if (writer->file)
        writer->disk->verbs->close(writer->disk, writer->file);
    mem_free(writer->slot);
    mem_free(writer);
}

enum err manifest_begin(struct manifest_writer *writer, const struct manifest *found,
                        uint64_t lease_first)
{
    CHECK(!writer->file && found->generation > 0);
    writer->now = *found;
    writer->lease_next = lease_first;
    enum err err =
        writer->disk->verbs->open(writer->disk, MANIFEST_NAME, DISK_FRESH, &writer->file);
    if (err)
        return err;
    struct disk_op op = {
        .verb = DISK_SYNC,
        .lane = LANE_BACKGROUND,
        .name = MANIFEST_NAME,
        .file = writer->file,
    };
    writer->disk->verbs->run(writer->disk, &op); /* the page cache may be ahead of the disk */
    return op.err;
}

/* Encodes the store's present state for the next slot, and fills in the operation. */
static void prepare(struct manifest_writer *writer, bool clean)
{
    const struct store *store = writer->store;
    struct manifest *now = &writer->now;
    CHECK(!writer->busy);
    CHECK(log_synced(store->log) >= now->durable); /* else recovery would lose batches */
    CHECK(now->batch_first <= log_synced(store->log) + 1);
    now->generation++;
    now->boot = store->boot;
    now->durable = log_synced(store->log);
    now->number_next = segments_number_next(store->segments);
    now->clean = clean;
    now->seq_mark = log_seq_next(store->log) + (clean ? 0 : SEQ_AHEAD);
    now->lease_mark = writer->lease_next + (clean ? 0 : LEASE_AHEAD);
    followers_fill(store->followers, now);
    writer->writing_first = now->batch_first;
    writer->writing_features = now->incompatible;
    manifest_encode(now, writer->slot);
    writer->op = (struct disk_op){
        .verb = DISK_WRITE_SYNC,
        .lane = LANE_BACKGROUND,
        .file = writer->file,
        .data = writer->slot,
        .len = BLOCK,
        .offset = (now->generation & 1) * BLOCK,
        .owner = writer,
    };
}

static void written(struct disk_op *op)
{
    struct manifest_writer *writer = op->owner;
    CHECK(writer->busy && op == &writer->op);
    writer->busy = false;
    if (op->err) {
        store_fail(writer->store, op->sys_errno);
        return;
    }
    writer->durable_first = writer->writing_first;
    writer->durable_features = writer->writing_features;
    if (writer->again) {
        writer->again = false;
        manifest_write(writer);
    }
    log_start_next(writer->store->log); /* a batch may have waited for a feature */
}

void manifest_write(struct manifest_writer *writer)
{
    if (writer->store->failed)
        return;
    if (writer->busy) {
        writer->again = true;
        return;
    }
    prepare(writer, false);
    writer->busy = true;
    writer->op.done = written;
    writer->disk->verbs->submit(writer->disk, &writer->op);
}

static enum err write_now(struct manifest_writer *writer, bool clean)
{
    prepare(writer, clean);
    writer->disk->verbs->run(writer->disk, &writer->op);
    if (!writer->op.err) {
        writer->durable_first = writer->writing_first;
        writer->durable_features = writer->writing_features;
    }
    return writer->op.err;
}

enum err manifest_write_now(struct manifest_writer *writer)
{
    return write_now(writer, false);
}

enum err manifest_write_clean(struct manifest_writer *writer)
{
    return write_now(writer, true);
}

void manifest_forget(struct manifest_writer *writer, uint64_t batch_first)
{
    CHECK(batch_first > writer->now.batch_first);
    writer->now.batch_first = batch_first;
    manifest_write(writer);
}

bool manifest_forgotten(const struct manifest_writer *writer)
{
    return writer->durable_first == writer->now.batch_first;
}

void manifest_use(struct manifest_writer *writer, enum feature feature)
{
    CHECK(FEATURES_INCOMPATIBLE & feature);
    writer->now.incompatible |= feature;
}

bool manifest_has(struct manifest_writer *writer, uint32_t features)
{
    if (!(features & ~writer->durable_features))
        return true;
    CHECK(!(features & ~FEATURES_INCOMPATIBLE));
    if (features & ~writer->now.incompatible) {
        writer->now.incompatible |= features;
        manifest_write(writer);
    }
    return false;
}

void manifest_lease_note(struct manifest_writer *writer, uint64_t lease_next)
{
    if (lease_next <= writer->lease_next)
        return;
    writer->lease_next = lease_next;
    if (lease_next > writer->now.lease_mark - LEASE_AHEAD / 2)
        manifest_write(writer);
}

uint64_t manifest_durable(const struct manifest_writer *writer)
{
    return writer->now.durable;
}

uint64_t manifest_seq_mark(const struct manifest_writer *writer)
{
    return writer->now.seq_mark;
}

bool manifest_busy(const struct manifest_writer *writer)
{
    return writer->busy;
}

void manifest_valid(const struct manifest_writer *writer)
{
    const struct manifest *now = &writer->now;
    CHECK(now->version > 0 && now->version <= FORMAT_VERSION_FEATURES && now->generation > 0);
    CHECK(store_id_eq(&now->id, &writer->store->id));
    CHECK(now->durable <= log_synced(writer->store->log));
    CHECK(now->batch_first > 0 && now->batch_first <= log_batch(writer->store->log) + 1);
    CHECK(writer->durable_first <= writer->writing_first);
    CHECK(writer->writing_first <= now->batch_first);
    CHECK(now->number_next <= segments_number_next(writer->store->segments));
    CHECK(now->lease_mark >= writer->lease_next);
    CHECK(!(writer->durable_features & ~now->incompatible)); /* never cleared */
    CHECK(writer->busy || !writer->again || writer->store->failed);
    CHECK(writer->file || writer->store->closing);
}
