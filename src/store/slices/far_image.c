#include "store/slices/far_image.h"

#include <string.h>

#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/slices/slices_parts.h"

/* Offsets in the head, the file's first block. The slices follow it, then the parts. */
enum {
    AT_VERSION = 8,
    AT_SLICES = 12, /* how many */
    AT_ID = 16,
    AT_BOOT = 32,
    AT_BATCH = 40,
    AT_SLICES_SUM = 48,
    AT_PARTS = 56, /* how many */
    AT_TABLE = 64, /* of parts: bytes, sum */
    AT_SUM = BLOCK - 8,
    IMAGE_VERSION = 3, /* 1 had no order of ready jobs, 2 other hashes of numbers */
    PART_BYTES = 16,
    SLICE_BYTES = 72,
    ORDER_BYTES = 28,   /* of a ready job, about */
    IMAGE_JOBS = 65536, /* with fewer far jobs, an opening without an image takes no longer */
};

#define MAGIC "\1LTDFARI"

/* A stop waits until the image is on the disk. So the image is given up when its writes and syncs
   have taken this long: a third of the time that the unit of systemd allows for a stop. The
   processor's time to make the parts is not counted. */
#define IMAGE_US_MAX (INT64_C(20) * 1000 * 1000)

/* Synced after so many bytes: else the kernel would buffer them all until the last sync. */
#define SYNC_BYTES (UINT64_C(64) * 1024 * 1024)

_Static_assert(AT_TABLE + FAR_PARTS * PART_BYTES <= AT_SUM, "the table fits");

static uint64_t dead_sum(const struct slice *slice)
{
    size_t words = slice_unit(slice->head.data_end) / 64 + 1;
    return slice->dead ? hash_of(slice->dead, words * sizeof(*slice->dead)) : 0;
}

static void slice_encode(const struct slice *slice, char *at)
{
    put_u32(at, slice->head.number);
    put_u32(at + 4, slice->named);
    put_u32(at + 8, slice->live_jobs);
    put_u32(at + 12, slice->dead_jobs);
    put_u64(at + 16, slice->live_bytes);
    put_u64(at + 24, slice->dead_bytes);
    put_u64(at + 32, dead_sum(slice));
    for (unsigned i = 0; i < 4; i++)
        put_u64(at + 40 + (size_t)i * 8, slice->topics[i]);
}

/* ---- writing ---- */

static uint32_t living_slices(const struct slices *slices)
{
    uint32_t count = 0;
    for (const struct list *link = slices->all.next; link != &slices->all; link = link->next)
        count += LIST_ENTRY(link, const struct slice, link)->live_jobs > 0;
    return count;
}

/* About the size of the image, rather too large: if a job of a slice may be due, all are counted as
   ready. */
static uint64_t image_bytes(const struct store *store)
{
    const struct slices *slices = store->slices;
    uint64_t bytes = slices->live_jobs * 2 * sizeof(uint64_t);
    for (const struct list *link = slices->all.next; link != &slices->all; link = link->next) {
        const struct slice *slice = LIST_ENTRY(link, const struct slice, link);
        bool due = slice->head.state == JOB_DELAYED && slice->head.due_first_us <= store->now_us;
        if (due || slice->head.state == JOB_READY)
            bytes += (uint64_t)slice->live_jobs * ORDER_BYTES;
    }
    return bytes;
}

static bool worth_it(const struct store *store)
{
    const struct slices *slices = store->slices;
    uint64_t least = store->options.image_jobs ? store->options.image_jobs : IMAGE_JOBS;
    uint64_t bytes = image_bytes(store), max = store->options.max_bytes;
    uint64_t used = segments_store_bytes(store->segments);
    return store->callbacks->far_image && slices->live_jobs >= least &&
           (max == 0 || used + bytes + bytes / 8 <= max) &&
           store->disk->verbs->room(store->disk) / 2 > bytes;
}

struct image_writer {
    struct store *store;
    struct disk_file *file;
    char head[BLOCK];
    uint64_t offset;   /* where the next bytes go */
    uint64_t unsynced; /* bytes */
    int64_t took_us;
};

/* False: it failed, or all operations together took too long. */
static bool run(struct image_writer *writer, struct disk_op *op)
{
    struct disk *disk = writer->store->disk;
    int64_t max_us =
        writer->store->options.image_us ? writer->store->options.image_us : IMAGE_US_MAX;
    op->lane = LANE_BACKGROUND;
    op->file = writer->file;
    disk->verbs->run(disk, op);
    writer->file = op->file;
    writer->took_us += op->took_us;
    return !op->err && writer->took_us <= max_us;
}

static bool sync_image(struct image_writer *writer)
{
    struct disk_op op = {.verb = DISK_SYNC};
    writer->unsynced = 0;
    return run(writer, &op);
}

static bool write_at(struct image_writer *writer, uint64_t offset, const char *at, size_t len)
{
    struct disk_op op = {.verb = DISK_WRITE, .data = at, .len = len, .offset = offset};
    CHECK(writer->file && offset <= writer->offset);
    if (len == 0)
        return true;
    writer->unsynced += len;
    return run(writer, &op) && (writer->unsynced < SYNC_BYTES || sync_image(writer));
}

/* Writes the next bytes of the file. */
static bool write_next(struct image_writer *writer, const struct buf *part)
{
    uint64_t offset = writer->offset;
    CHECK(offset >= BLOCK); /* the head comes last */
    writer->offset += part->len;
    return write_at(writer, offset, part->at, part->len);
}

static bool write_slices(struct image_writer *writer)
{
    const struct slices *slices = writer->store->slices;
    struct buf part = {0};
    uint32_t count = 0;
    for (const struct list *link = slices->all.next; link != &slices->all; link = link->next) {
        const struct slice *slice = LIST_ENTRY(link, const struct slice, link);
        char room[SLICE_BYTES];
        if (slice->live_jobs == 0)
            continue;
        slice_encode(slice, room);
        buf_add(&part, room, sizeof(room));
        count++;
    }
    CHECK(count == living_slices(slices));
    put_u32(writer->head + AT_SLICES, count);
    put_u64(writer->head + AT_SLICES_SUM, hash_of(part.at, part.len));
    bool good = write_next(writer, &part);
    buf_fini(&part);
    return good;
}

/*
 * One part after the other is in memory: with a hundred million jobs each has 25 MB. The callback
 * must be called for all parts, so after a failed write the rest are made and dropped.
 */
static bool write_parts(struct image_writer *writer)
{
    struct store_callbacks *callbacks = writer->store->callbacks;
    struct buf part = {0};
    bool given = true, good = true;
    for (uint32_t number = 0; given && number < FAR_PARTS; number++) {
        char *at = writer->head + AT_TABLE + (size_t)number * PART_BYTES;
        part.len = 0;
        given = callbacks->far_image(callbacks, number, &part);
        put_u64(at, part.len);
        put_u64(at + 8, hash_of(part.at, part.len));
        good = good && given && write_next(writer, &part);
    }
    buf_fini(&part);
    return good;
}

static void begin_head(struct image_writer *writer)
{
    const struct store *store = writer->store;
    char *head = writer->head;
    memcpy(head, MAGIC, sizeof(MAGIC) - 1);
    put_u32(head + AT_VERSION, IMAGE_VERSION);
    memcpy(head + AT_ID, store->id.bytes, sizeof(store->id.bytes));
    put_u64(head + AT_BOOT, store->boot);
    put_u64(head + AT_BATCH, log_synced(store->log));
    put_u32(head + AT_PARTS, FAR_PARTS);
}

/* Slices and parts are written before the head, which has their checksums. */
static bool write_image(struct image_writer *writer)
{
    struct disk_op make = {.verb = DISK_MAKE, .name = FAR_IMAGE_TMP_NAME, .len = BLOCK};
    CHECK(!writer->file && writer->took_us == 0);
    begin_head(writer);
    writer->offset = BLOCK;
    if (!run(writer, &make) || !write_slices(writer) || !write_parts(writer))
        return false;
    put_u64(writer->head + AT_SUM, hash_of(writer->head, AT_SUM));
    return write_at(writer, 0, writer->head, BLOCK) && sync_image(writer);
}

void far_image_write(struct store *store)
{
    struct disk *disk = store->disk;
    struct image_writer writer = {.store = store};
    if (!worth_it(store))
        return;
    bool good = write_image(&writer);
    if (writer.file)
        disk->verbs->close(disk, writer.file);
    struct disk_op op = {
        .verb = good ? DISK_RENAME : DISK_REMOVE,
        .lane = LANE_BACKGROUND,
        .name = FAR_IMAGE_TMP_NAME,
        .data = FAR_IMAGE_NAME,
    };
    disk->verbs->run(disk, &op);
    (void)op.err; /* if it failed: there is no image, or an older one, which will be ignored */
}

/* ---- reading ---- */

struct image_reader {
    struct store *store; /* NULL: it is only checked */
    struct disk *disk;
    struct disk_file *file;
    char *head; /* BLOCK bytes */
    char *at;   /* the bytes read last … */
    size_t cap;
    uint64_t offset; /* … and the offset of the next ones */
    uint64_t size;   /* of the file */
};

static enum err reader_open(struct image_reader *reader)
{
    struct disk *disk = reader->disk;
    enum err err = disk->verbs->open(disk, FAR_IMAGE_NAME, DISK_CACHED, &reader->file);
    if (err)
        return err;
    reader->head = mem_aligned(BLOCK, BLOCK);
    return disk->verbs->size(disk, reader->file, &reader->size);
}

static void reader_close(struct image_reader *reader)
{
    if (reader->file)
        reader->disk->verbs->close(reader->disk, reader->file);
    mem_free(reader->head);
    mem_free(reader->at);
}

/* Reads the next `len` bytes into reader->at. False: their sum is not `sum`. */
static bool read_next(struct image_reader *reader, uint64_t len, uint64_t sum)
{
    struct disk *disk = reader->disk;
    size_t got = 0;
    if (len > reader->size || reader->offset > reader->size - len)
        return false;
    if (len > reader->cap) {
        mem_free(reader->at);
        reader->at = mem_alloc((size_t)len);
        reader->cap = (size_t)len;
    }
    if (len > 0 &&
        disk->verbs->read(disk, reader->file, reader->offset, reader->at, (size_t)len, &got))
        return false;
    reader->offset += len;
    return got == len && hash_of(reader->at, (size_t)len) == sum;
}

static bool head_fits(const struct image_reader *reader, const struct manifest *clean)
{
    const char *head = reader->head;
    return memcmp(head, MAGIC, sizeof(MAGIC) - 1) == 0 &&
           get_u64(head + AT_SUM) == hash_of(head, AT_SUM) &&
           get_u32(head + AT_VERSION) == IMAGE_VERSION && get_u32(head + AT_PARTS) == FAR_PARTS &&
           memcmp(head + AT_ID, clean->id.bytes, sizeof(clean->id.bytes)) == 0 &&
           get_u64(head + AT_BOOT) == clean->boot && get_u64(head + AT_BATCH) == clean->durable;
}

static struct slice *slice_numbered(const struct slices *slices, uint32_t number)
{
    struct segment *segment = segments_find(slices->segments, number);
    return segment ? segment->slice : NULL;
}

/* Does the image describe exactly these slices, in the state that the log has? */
static bool slices_fit(const struct slices *slices, const char *at, uint32_t count)
{
    if (count != living_slices(slices))
        return false;
    for (uint32_t i = 0; i < count; i++, at += SLICE_BYTES) {
        const struct slice *slice = slice_numbered(slices, get_u32(at));
        if (!slice || !slice->fences || !slice->logged || slice->live_jobs == 0 ||
            slice->named != get_u32(at + 4) || slice->live_jobs != get_u32(at + 8) ||
            slice->dead_jobs != get_u32(at + 12) || dead_sum(slice) != get_u64(at + 32) ||
            (i > 0 && get_u32(at) == get_u32(at - SLICE_BYTES)))
            return false;
    }
    return true;
}

static void take_slices(struct slices *slices, const char *at, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++, at += SLICE_BYTES) {
        struct slice *slice = slice_numbered(slices, get_u32(at));
        CHECK(slice); /* slices_fit() */
        slice->live_bytes = get_u64(at + 16);
        slice->dead_bytes = get_u64(at + 24);
        slices->live_bytes += slice->live_bytes;
        for (unsigned topic = 0; topic < 4; topic++)
            slice->topics[topic] = get_u64(at + 40 + (size_t)topic * 8);
        slice->death_last = 0;
    }
}

static enum err read_parts(struct image_reader *reader)
{
    struct store_callbacks *callbacks = reader->store->callbacks;
    for (uint32_t part = 0; part < FAR_PARTS; part++) {
        const char *at = reader->head + AT_TABLE + (size_t)part * PART_BYTES;
        bool good = read_next(reader, get_u64(at), get_u64(at + 8));
        enum err err = good ? store_opening_worked(reader->store, get_u64(at)) : OK;
        if (!good || err) {
            callbacks->far_image_drop(callbacks);
            return err ? err : ERR_NOT_FOUND;
        }
        if (callbacks->far_image_take(callbacks, part, bytes_of(reader->at, (size_t)get_u64(at))))
            return ERR_NOT_FOUND;
    }
    return OK;
}

static enum err read_image(struct image_reader *reader, const struct manifest *clean)
{
    struct slices *slices = reader->store->slices;
    struct disk *disk = reader->disk;
    size_t got = 0;
    if (disk->verbs->read(disk, reader->file, 0, reader->head, BLOCK, &got) || got != BLOCK ||
        !head_fits(reader, clean))
        return ERR_NOT_FOUND;
    uint32_t count = get_u32(reader->head + AT_SLICES);
    uint64_t bytes = (uint64_t)count * SLICE_BYTES;
    reader->offset = BLOCK;
    if (!read_next(reader, bytes, get_u64(reader->head + AT_SLICES_SUM)) ||
        !slices_fit(slices, reader->at, count))
        return ERR_NOT_FOUND;
    char *of_slices = reader->at;
    reader->at = NULL;
    reader->cap = 0;
    enum err err = slices_drop_older(slices);
    if (!err)
        err = read_parts(reader);
    if (!err)
        take_slices(slices, of_slices, count);
    mem_free(of_slices);
    return err;
}

enum err far_image_read(struct store *store, const struct manifest *clean)
{
    struct slices *slices = store->slices;
    struct image_reader reader = {.store = store, .disk = store->disk};
    if (!clean || !slices->directory->image_there || !store->callbacks->far_image_take ||
        slices->live_jobs == 0)
        return ERR_NOT_FOUND;
    enum err err = reader_open(&reader) ? ERR_NOT_FOUND : read_image(&reader, clean);
    reader_close(&reader);
    return err;
}

/* ---- checking ---- */

static const char *check_image(struct image_reader *reader, const struct manifest *clean)
{
    struct disk *disk = reader->disk;
    size_t got = 0;
    if (disk->verbs->read(disk, reader->file, 0, reader->head, BLOCK, &got) || got != BLOCK)
        return "its header cannot be read";
    if (get_u64(reader->head + AT_SUM) != hash_of(reader->head, AT_SUM))
        return "its header does not match its checksum";
    if (!head_fits(reader, clean))
        return NULL; /* of another version, or older than a restored backup: ignored */
    uint64_t bytes = (uint64_t)get_u32(reader->head + AT_SLICES) * SLICE_BYTES;
    reader->offset = BLOCK;
    if (!read_next(reader, bytes, get_u64(reader->head + AT_SLICES_SUM)))
        return "what it says of slices does not match its checksum";
    for (uint32_t part = 0; part < FAR_PARTS; part++) {
        const char *at = reader->head + AT_TABLE + (size_t)part * PART_BYTES;
        if (!read_next(reader, get_u64(at), get_u64(at + 8)))
            return "a part of it does not match its checksum";
    }
    return NULL;
}

const char *far_image_check(struct disk *disk, const struct manifest *clean, uint64_t *out_bytes)
{
    struct image_reader reader = {.disk = disk};
    CHECK(clean->clean);
    *out_bytes = 0;
    const char *wrong = reader_open(&reader) ? "it cannot be opened" : check_image(&reader, clean);
    CHECK(wrong || reader.offset == 0 || reader.offset >= BLOCK);
    *out_bytes = reader.offset;
    reader_close(&reader);
    return wrong;
}
