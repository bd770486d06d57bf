#include "store/slices/far_read.h"

#include "base/check.h"
#include "base/codec.h"
#include "base/mem.h"
#include "store/far.h"
#include "store/internal.h"
#include "store/slices/far_record.h"
#include "store/slices/slices.h"

enum {
    READ_BYTES = 4096,         /* of the first read: most records are shorter */
    CACHED_BYTES = 1024,       /* the same from the page cache, at most */
    CACHED_FORGET = 16,        /* likely_bytes is reduced by this fraction of what was too much */
    CACHED_TURN = 64,          /* reads from the page cache in one turn */
    IN_TURN_BYTES = 16 * 1024, /* of a record that the turn reads and checks itself */
};

struct far_read {
    struct list link; /* far_reads::waiting or under_way */
    struct far_reads *reads;
    struct far_fetch *fetch; /* NULL: the caller has ended it */
    struct segment *segment; /* pinned; NULL: no slice has that place */
    uint64_t offset;
    size_t want; /* bytes of the record; 0: not known yet */
    char *bytes;
    size_t cap;      /* of these: less than `want` until the whole record is read */
    struct buf lent; /* the same memory, in place of `bytes`: store_far_fetch_memory() */
    bool under_way, decoded;
    struct record record;
    struct disk_op op;
};

struct far_reads {
    struct store *store;
    struct list waiting, under_way; /* far_read::link */
    uint32_t under_way_count;
    size_t under_way_bytes;
    size_t likely_bytes; /* of a record, learned from reads of the page cache */
    int64_t retry_at_us; /* no descriptor was free */
};

static struct far_read *of_link(struct list *link)
{
    return LIST_ENTRY(link, struct far_read, link);
}

static void read_free(struct far_read *read)
{
    if (read->segment)
        segments_unpin(read->segment);
    list_remove(&read->link);
    struct discard *discard = read->reads->store->options.discard;
    if (discard) { /* it may be a large one */
        discard_memory(discard, read->bytes, read->cap);
        discard_buf(discard, &read->lent);
    } else {
        mem_free(read->bytes);
        buf_fini(&read->lent);
    }
    mem_free(read);
}

static struct event event_at(const struct record *record, uint64_t where)
{
    struct event event = record->event;
    event.record = (struct stored){.where = where, .bytes = (uint32_t)record->len};
    return event;
}

/* Calls back. The event's bytes stay valid until store_far_fetch_end(). */
static void end(struct far_read *read, enum err err)
{
    struct far_fetch *fetch = read->fetch;
    list_remove(&read->link);
    list_init(&read->link);
    if (read->segment)
        segments_unpin(read->segment);
    read->segment = NULL;
    fetch->err = err;
    if (!err)
        fetch->event = event_at(&read->record, fetch->where);
    fetch->done(fetch);
}

/* Decodes the record, and verifies its sums. */
static enum err decode(struct far_read *read, size_t len)
{
    struct record *record = &read->record;
    bool good =
        record_decode(read->bytes, len, record) == OK && record->is_far && record_body_good(record);
    return good ? OK : ERR_DAMAGED;
}

/* The length of the record that begins with these bytes; 0: no record begins here. */
static size_t record_len(const char *bytes, size_t got, uint64_t left)
{
    size_t len = got >= FAR_RECORD_MIN ? get_u32(bytes) : 0;
    bool possible =
        len >= FAR_RECORD_MIN && len % 8 == 0 && len <= left && get_u8(bytes + 4) == RECORD_FAR;
    return possible ? len : 0;
}

/* Sets read->want from the first bytes. ERR_DAMAGED: no record begins here. */
static enum err measure(struct far_read *read, size_t got)
{
    read->want = record_len(read->bytes, got, read->segment->end - read->offset);
    return read->want ? OK : ERR_DAMAGED;
}

/* Called by the disk's thread: the checksum of a long record takes long. */
static void inspect(struct disk_op *op)
{
    struct far_read *read = op->owner;
    if (op->got == op->len && read->want == op->len)
        read->decoded = decode(read, op->got) == OK;
}

/* It is the next to be started. */
static void wait_first(struct far_read *read)
{
    list_remove(&read->link);
    list_add_head(&read->reads->waiting, &read->link);
}

static void read_ended(struct disk_op *op)
{
    struct far_read *read = op->owner;
    struct far_reads *reads = read->reads;
    bool whole = read->want > 0;
    reads->under_way_count--;
    reads->under_way_bytes -= op->len;
    read->under_way = false;
    segments_read_end(reads->store->segments, read->segment, op);
    if (!read->fetch) {
        read_free(read);
        return;
    }
    if (op->err == ERR_AGAIN) { /* no free descriptor: no error of the slice */
        reads->retry_at_us = reads->store->now_us + LOG_REOPEN_US;
        read->want = 0;
        wait_first(read);
        return;
    }
    enum err err = op->err ? ERR_IO : whole ? OK : measure(read, op->got);
    if (err || (whole && !read->decoded))
        end(read, err ? err : ERR_DAMAGED);
    else if (whole)
        end(read, OK);
    else if (read->want > op->got)
        wait_first(read); /* for the whole of it */
    else
        end(read, decode(read, read->want));
}

static void submit(struct far_read *read, size_t len)
{
    struct far_reads *reads = read->reads;
    read->bytes = mem_realloc(read->bytes, len);
    read->cap = len;
    read->op = (struct disk_op){
        .into = read->bytes,
        .len = len,
        .offset = read->offset,
        .inspect = inspect,
        .done = read_ended,
        .owner = read,
    };
    read->under_way = true;
    reads->under_way_count++;
    reads->under_way_bytes += len;
    segments_read(reads->store->segments, read->segment, &read->op);
}

/* Reads from the page cache, at once. False: the disk must read. */
static bool read_cached(struct far_read *read, size_t len)
{
    struct far_reads *reads = read->reads;
    size_t got = 0;
    read->bytes = mem_realloc(read->bytes, len);
    read->cap = len;
    if (segments_read_cached(reads->store->segments, read->segment, read->offset, read->bytes, len,
                             &got))
        return false;
    enum err err = measure(read, got);
    if (!err && read->want > got) {
        size_t want = read->want;
        read->want = 0;
        return want <= IN_TURN_BYTES && want > len && read_cached(read, want);
    }
    end(read, err ? err : decode(read, read->want));
    return true;
}

static void start(struct far_read *read, bool *out_cached)
{
    uint64_t left = read->segment ? read->segment->end - read->offset : 0;
    size_t len = left < READ_BYTES ? (size_t)left : READ_BYTES;
    *out_cached = true;
    if (len < FAR_RECORD_MIN) {
        end(read, ERR_DAMAGED);
        return;
    }
    *out_cached = read->want == 0 && read_cached(read, len);
    if (*out_cached)
        return;
    if (read->want > 0)
        len = read->want; /* its first bytes have been read */
    list_remove(&read->link);
    list_add_tail(&read->reads->under_way, &read->link);
    submit(read, len);
}

/* May the first that waits be started? Any one may if none is under way. */
static bool may_start(const struct far_reads *reads)
{
    if (list_empty(&reads->waiting) || reads->under_way_count == 0)
        return !list_empty(&reads->waiting);
    const struct far_read *next = of_link(reads->waiting.next);
    size_t len = next->want ? next->want : READ_BYTES;
    return reads->under_way_count < FAR_READS_UNDER_WAY_MAX &&
           reads->under_way_bytes + len <= FAR_READS_BYTES;
}

void far_reads_turn(struct far_reads *reads)
{
    if (list_empty(&reads->waiting) || reads->store->now_us < reads->retry_at_us)
        return;
    for (unsigned cached = 0; cached < CACHED_TURN && may_start(reads);) {
        bool was_cached;
        start(of_link(reads->waiting.next), &was_cached);
        cached += was_cached;
    }
}

int64_t far_reads_next_us(const struct far_reads *reads)
{
    if (!may_start(reads))
        return INT64_MAX;
    int64_t now_us = reads->store->now_us;
    return reads->retry_at_us > now_us ? reads->retry_at_us : now_us;
}

/* ---- what the store's user calls ---- */

/* The segment of the slice that has this place, or NULL. */
static struct segment *slice_at(const struct store *store, uint64_t where)
{
    struct segment *segment = segments_find(store->segments, where_segment(where));
    bool there =
        segment && segment->slice && where_offset(where) < (uint64_t)segment->slice->named * BLOCK;
    return there ? segment : NULL;
}

/* Reading too many bytes from the page cache costs more than the rest of such a read. */
static void learn_length(struct far_reads *reads, size_t len)
{
    if (len < reads->likely_bytes)
        reads->likely_bytes -= (reads->likely_bytes - len) / CACHED_FORGET;
    else
        reads->likely_bytes = len < CACHED_BYTES ? len : CACHED_BYTES;
}

enum err store_far_cached(struct store *store, uint64_t where, struct far_room *room,
                          struct event *out_event)
{
    struct segment *segment = slice_at(store, where);
    if (!segment)
        return ERR_DAMAGED;
    uint64_t offset = where_offset(where), left = segment->end - offset;
    slice_prefetch_death(segment->slice, offset); /* most callers will end the job */
    size_t got = 0, likely = store->far_reads->likely_bytes;
    size_t first = left < likely ? (size_t)left : likely;
    enum err err = segments_read_cached(store->segments, segment, offset, room->bytes, first, &got);
    if (err)
        return err;
    size_t len = record_len(room->bytes, got, left);
    if (len > sizeof(room->bytes))
        return ERR_AGAIN;
    if (len > got)
        err = segments_read_cached(store->segments, segment, offset, room->bytes, len, &got);
    if (err)
        return err;
    if (len == 0 || len > got)
        return ERR_DAMAGED;
    if (store->callbacks->far_soon)
        store->callbacks->far_soon(store->callbacks, far_record_seq(room->bytes, len));
    if (!far_record_read(room->bytes, len, room->retry_us, out_event))
        return ERR_DAMAGED;
    learn_length(store->far_reads, len);
    out_event->record = (struct stored){.where = where, .bytes = (uint32_t)len};
    store->cold_reads++;
    return OK;
}

void store_far_fetch(struct store *store, struct far_fetch *fetch)
{
    struct far_read *read = mem_zalloc(sizeof(*read));
    read->reads = store->far_reads;
    read->fetch = fetch;
    read->offset = where_offset(fetch->where);
    read->segment = slice_at(store, fetch->where);
    if (read->segment)
        segments_pin(read->segment);
    fetch->read = read;
    fetch->err = OK;
    list_add_tail(&store->far_reads->waiting, &read->link);
    store->cold_reads++;
}

void store_far_fetch_end(struct store *store, struct far_fetch *fetch)
{
    struct far_read *read = fetch->read;
    (void)store;
    fetch->read = NULL;
    if (!read)
        return;
    if (read->under_way)
        read->fetch = NULL; /* freed when the read ends */
    else
        read_free(read);
}

struct buf *store_far_fetch_memory(struct far_fetch *fetch)
{
    struct far_read *read = fetch->read;
    CHECK(read && !read->under_way && !fetch->err);
    if (read->bytes)
        read->lent = (struct buf){.at = read->bytes, .len = read->want, .cap = read->cap};
    read->bytes = NULL;
    read->cap = 0;
    return &read->lent;
}

/* ---- life ---- */

struct far_reads *far_reads_new(struct store *store)
{
    struct far_reads *reads = mem_zalloc(sizeof(*reads));
    reads->store = store;
    reads->likely_bytes = CACHED_BYTES;
    reads->retry_at_us = INT64_MIN;
    list_init(&reads->waiting);
    list_init(&reads->under_way);
    return reads;
}

void far_reads_free(struct far_reads *reads)
{
    if (!reads)
        return;
    CHECK(list_empty(&reads->waiting));
    while (reads->under_way_count > 0) {
        reads->store->disk->verbs->wait(reads->store->disk);
        (void)reads->store->disk->verbs->poll(reads->store->disk);
    }
    mem_free(reads);
}

void far_reads_valid(const struct far_reads *reads)
{
    uint32_t count = 0;
    size_t bytes = 0;
    for (const struct list *link = reads->under_way.next; link != &reads->under_way;
         link = link->next) {
        const struct far_read *read = LIST_ENTRY(link, const struct far_read, link);
        CHECK(read->under_way && read->segment && read->segment->reading > 0);
        bytes += read->op.len;
        count++;
    }
    CHECK(count == reads->under_way_count && count <= FAR_READS_UNDER_WAY_MAX);
    CHECK(bytes == reads->under_way_bytes && (count <= 1 || bytes <= FAR_READS_BYTES));
    CHECK(reads->likely_bytes >= FAR_RECORD_MIN && reads->likely_bytes <= CACHED_BYTES);
}
