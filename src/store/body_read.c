/*
 * Owns the reads, from their request until they end and their bytes go to the cache, and the
 * fetches that wait for them. A read gets READ_BYTES in one piece if more than one of its bodies is
 * wanted, else LONE_BYTES: more bytes hardly take longer on a disk that seeks, but they do on a
 * fast disk. Bytes behind the last batch that is completely in the file are never read: a cached
 * copy would become wrong when the next batch is written.
 *
 * Invariants: a fetch that has not ended pins its segment, so that its file stays; a read under way
 * has the file open, too. The bytes that a read of one large record gets are never cached: they
 * belong to its fetch.
 */
#include "store/body_read.h"

#include "base/check.h"
#include "base/mem.h"
#include "store/body.h"
#include "store/internal.h"
#include "store/read_cache.h"
#include "store/record.h"

enum {
    READ_BYTES = READ_CACHE_PIECE_BYTES, /* in one piece */
    LONE_BYTES = 16 * 1024,              /* for one body, if no adjacent bodies are wanted */
    READS_MAX = 64,                      /* waiting and under way */
    AHEAD_MAX = READS_MAX / 2,           /* waiting reads without a fetch: read-ahead */
    UNDER_WAY_BYTES = 8 << 20,           /* with more, large records are read one after the other */
    FETCHED_BYTES = 8 << 20, /* of fetches that have ended; with more, one read at a time */
    /* A larger record is read and checked by the disk's threads: a copy in the turn would cost
       milliseconds, most of them page faults of fresh memory. */
    IN_TURN_BYTES = READ_BYTES,
    /* Records that are copied from shared reads in one turn, to a fetch each, and checked: any
       number of clients may ask for one of 128 KiB at once. */
    SERVED_BYTES = 512 * 1024,
};

enum read_state { READ_WAITING, READ_UNDER_WAY };

struct body_read {
    struct list link; /* body_reads::waiting, ahead or under_way */
    struct body_reads *reads;
    enum read_state state;
    uint32_t segment;
    uint64_t start, end; /* bytes of the segment's file */
    uint32_t wanted;     /* bodies in it that are requested, or soon will be */
    bool alone;          /* for one fetch only */
    bool large;          /* alone, and its bytes become the fetch's */
    struct list fetches; /* body_fetch::link */
    char *bytes;
    struct body_place place;     /* of a large record: its place … */
    enum err verdict;            /* … whether it is intact, … */
    struct body_content content; /* … and contents */
    struct disk_op op;
};

struct body_reads {
    struct store *store;
    struct list queue;       /* body_fetch::link: fetches without a read yet, … */
    struct list unsettled;   /* … and those whose records are not in their files yet */
    struct list waiting;     /* body_read::link: reads of fetches, in their order */
    struct list ahead;       /* body_read::link: waiting, too, without fetches yet */
    struct list under_way;   /* body_read::link */
    struct read_cache cache; /* of reads that have ended */
    uint32_t waiting_count, ahead_count, under_way_count;
    size_t under_way_bytes, fetched_bytes;
    size_t served_bytes; /* of shared reads in this turn: SERVED_BYTES */
    bool again;          /* a turn should follow: some were served, or may be then */
    int64_t retry_at_us; /* when to try again, if no descriptor was free */
    bool wants_ahead;    /* see store_wants_read_ahead() */
};

static struct body_read *of_link(struct list *link)
{
    return LIST_ENTRY(link, struct body_read, link);
}

static struct body_fetch *fetch_of(struct list *link)
{
    return LIST_ENTRY(link, struct body_fetch, link);
}

static uint64_t start_of(const struct body_place *place)
{
    return where_offset(place->where);
}

static uint64_t end_of(const struct body_place *place)
{
    return start_of(place) + record_read_bytes(place);
}

static bool covers(const struct body_read *read, uint32_t segment, uint64_t start, uint64_t end)
{
    return read->segment == segment && read->start <= start && end <= read->end;
}

static struct body_read *find(struct list *head, const struct body_place *place)
{
    uint32_t segment = where_segment(place->where);
    for (struct list *link = head->next; link != head; link = link->next)
        if (!of_link(link)->alone && covers(of_link(link), segment, start_of(place), end_of(place)))
            return of_link(link);
    return NULL;
}

/* An earlier read that has all bytes of the record; NULL: none. */
static struct cached_read *find_cached(struct body_reads *reads, const struct body_place *place)
{
    return read_cache_find(&reads->cache, where_segment(place->where), start_of(place),
                           end_of(place));
}

uint64_t body_reads_looks(const struct body_reads *reads)
{
    return reads->cache.looks;
}

/* ---- the end of a fetch ---- */

static void unpin(struct body_reads *reads, const struct body_fetch *fetch)
{
    struct segment *segment = segments_find(reads->store->segments, fetch->segment);
    if (segment) /* NULL: there never was one */
        segments_unpin(segment);
}

static void end_fetch(struct body_reads *reads, struct body_fetch *fetch, enum err err)
{
    CHECK(fetch->state == FETCH_QUEUED || fetch->state == FETCH_READING);
    list_remove(&fetch->link);
    fetch->state = FETCH_ENDED;
    fetch->err = err;
    unpin(reads, fetch);
    fetch->done(fetch);
}

/* Decodes the record at fetch->bytes and sets the outputs. ERR_DAMAGED. */
static enum err show(struct body_reads *reads, struct body_fetch *fetch)
{
    size_t len = record_read_bytes(&fetch->place);
    reads->fetched_bytes += len;
    return record_open(fetch->bytes, len, &fetch->place, &fetch->content);
}

/* May one more fetch be served from a shared read in this turn? While nothing is being read at
   least one is, so that replies that lack only that become whole, and give their memory back. */
static bool may_serve(const struct body_reads *reads)
{
    if (reads->served_bytes == 0 && reads->under_way_count == 0)
        return true;
    return reads->served_bytes < SERVED_BYTES && reads->fetched_bytes < FETCHED_BYTES;
}

/* Ends the fetch with a copy of its record. */
static void serve(struct body_reads *reads, struct body_fetch *fetch, const char *record)
{
    size_t len = record_read_bytes(&fetch->place);
    reads->served_bytes += len;
    fetch->bytes = mem_alloc(len);
    memcpy(fetch->bytes, record, len);
    end_fetch(reads, fetch, show(reads, fetch));
}

/* ---- the end of a read ---- */

static void read_free(struct body_read *read)
{
    CHECK(list_empty(&read->fetches));
    list_remove(&read->link);
    mem_free(read->bytes);
    mem_free(read);
}

/* Its bytes go to the cache. */
static void keep(struct body_reads *reads, struct body_read *read)
{
    read_cache_add(&reads->cache, read->segment, read->start, read->end, read->bytes);
    read->bytes = NULL;
    read_free(read);
}

/* Queues its fetches again, before all that were requested later. */
static void queue_again(struct body_reads *reads, struct body_read *read)
{
    while (!list_empty(&read->fetches)) {
        struct body_fetch *fetch = fetch_of(read->fetches.prev);
        list_remove(&fetch->link);
        fetch->state = FETCH_QUEUED;
        list_add_head(&reads->queue, &fetch->link);
    }
}

/* Each of its fetches gets a read of its own next time. */
static void separate(struct body_read *read)
{
    for (struct list *link = read->fetches.next; link != &read->fetches; link = link->next)
        fetch_of(link)->alone = true;
}

static void fail(struct body_reads *reads, struct body_read *read)
{
    if (read->op.err == ERR_AGAIN) { /* no descriptor is free: no error of the segment */
        reads->retry_at_us = reads->store->now_us + LOG_REOPEN_US;
        queue_again(reads, read);
    } else if (!read->alone) {
        separate(read); /* one bad sector must not affect adjacent records */
        queue_again(reads, read);
    }
    while (!list_empty(&read->fetches))
        end_fetch(reads, fetch_of(read->fetches.next), ERR_IO);
}

static void serve_large(struct body_reads *reads, struct body_read *read)
{
    if (list_empty(&read->fetches))
        return; /* the fetch was ended meanwhile */
    struct body_fetch *fetch = fetch_of(read->fetches.next);
    enum err err = read->op.got < read->op.len ? ERR_DAMAGED : read->verdict;
    if (!err) {
        fetch->bytes = read->bytes;
        read->bytes = NULL;
        fetch->content = read->content;
        reads->fetched_bytes += record_read_bytes(&fetch->place);
    }
    end_fetch(reads, fetch, err);
}

/* Ends the fetch with its record from the read. */
static void serve_from(struct body_reads *reads, struct body_fetch *fetch,
                       const struct body_read *read)
{
    uint64_t start = start_of(&fetch->place);
    if (start < read->start || end_of(&fetch->place) > read->end)
        end_fetch(reads, fetch, ERR_DAMAGED); /* the file is shorter than it should be */
    else
        serve(reads, fetch, read->bytes + (start - read->start));
}

/* Serves its fetches: one, and as many more as may be in this turn. The others are served later,
   from the cache. */
static void serve_all(struct body_reads *reads, struct body_read *read)
{
    for (bool first = true; !list_empty(&read->fetches) && (first || may_serve(reads));
         first = false)
        serve_from(reads, fetch_of(read->fetches.next), read);
    queue_again(reads, read);
}

static void read_ended(struct disk_op *op)
{
    struct body_read *read = op->owner;
    struct body_reads *reads = read->reads;
    struct store *store = reads->store;
    struct segment *segment = segments_find(store->segments, read->segment);
    CHECK(segment);
    reads->under_way_count--;
    reads->under_way_bytes -= op->len;
    list_remove(&read->link);
    segments_read_end(store->segments, segment, op);
    if (op->err) {
        fail(reads, read);
    } else if (read->large) {
        serve_large(reads, read);
    } else {
        read->end = read->start + op->got;
        serve_all(reads, read);
    }
    if (op->err || read->alone || op->got == 0)
        read_free(read);
    else
        keep(reads, read);
}

/* ---- making reads ---- */

static struct body_read *read_new(struct body_reads *reads, const struct body_place *place,
                                  bool alone)
{
    struct body_read *read = mem_zalloc(sizeof(*read));
    list_init(&read->fetches);
    read->reads = reads;
    read->segment = where_segment(place->where);
    read->start = start_of(place);
    read->end = end_of(place);
    read->wanted = 1;
    read->large = record_read_bytes(place) > READ_BYTES;
    read->alone = alone || read->large;
    read->place = *place;
    return read;
}

static void wait_add(struct body_reads *reads, struct body_read *read)
{
    list_add_tail(&reads->waiting, &read->link);
    reads->waiting_count++;
}

static void ahead_add(struct body_reads *reads, struct body_read *read)
{
    list_add_tail(&reads->ahead, &read->link);
    reads->ahead_count++;
}

/* Takes a waiting read out of its list. */
static void unlist(struct body_reads *reads, struct body_read *read)
{
    CHECK(read->state == READ_WAITING);
    list_remove(&read->link);
    if (list_empty(&read->fetches))
        reads->ahead_count--;
    else
        reads->waiting_count--;
}

/* Extends the read to this record, too, if it is near. */
static bool extend(struct body_read *read, const struct body_place *place)
{
    uint64_t start = start_of(place) < read->start ? start_of(place) : read->start;
    uint64_t end = end_of(place) > read->end ? end_of(place) : read->end;
    if (read->alone || read->segment != where_segment(place->where) || end - start > READ_BYTES)
        return false;
    read->start = start;
    read->end = end;
    read->wanted++;
    return true;
}

static struct body_read *find_near(struct list *head, const struct body_place *place)
{
    for (struct list *link = head->next; link != head; link = link->next)
        if (extend(of_link(link), place))
            return of_link(link);
    return NULL;
}

static void attach(struct body_reads *reads, struct body_read *read, struct body_fetch *fetch)
{
    if (read->state == READ_WAITING && list_empty(&read->fetches)) {
        unlist(reads, read); /* from the list `ahead` */
        wait_add(reads, read);
    }
    list_remove(&fetch->link);
    fetch->state = FETCH_READING;
    list_add_tail(&read->fetches, &fetch->link);
}

/* Is the record in a batch that is still to be written? */
static bool is_unsettled(const struct store *store, const struct body_place *place)
{
    const struct log *log = store->log;
    const struct segment *segment = segments_find(store->segments, where_segment(place->where));
    return segment && end_of(place) > log_settled_end(log, segment) &&
           end_of(place) <= segment->end + log_open_bytes(log, segment);
}

/* After a failure nothing more reaches its file. */
static void queue_settled(struct body_reads *reads)
{
    for (struct list *link = reads->unsettled.next, *next; link != &reads->unsettled; link = next) {
        struct body_fetch *fetch = fetch_of(link);
        next = link->next;
        if (reads->store->failed) {
            end_fetch(reads, fetch, ERR_IO);
        } else if (!is_unsettled(reads->store, &fetch->place)) {
            list_remove(link);
            list_add_tail(&reads->queue, link);
        }
    }
}

/* Serves the fetch from the cache. False: not in this turn. */
static bool serve_cached(struct body_reads *reads, struct body_fetch *fetch,
                         struct cached_read *cached)
{
    reads->again = true;
    if (!may_serve(reads)) { /* if others hold the memory, what ends them starts a turn */
        reads->again = reads->fetched_bytes < FETCHED_BYTES || reads->under_way_count == 0;
        return false;
    }
    read_cache_touch(&reads->cache, cached);
    serve(reads, fetch, cached->bytes + (start_of(&fetch->place) - cached->start));
    return true;
}

/* Finds or makes the fetch's read, or ends it. False: it stays in the queue for this turn. */
static bool plan(struct body_reads *reads, struct body_fetch *fetch)
{
    const struct body_place *place = &fetch->place;
    const struct segment *segment = segments_find(reads->store->segments, fetch->segment);
    bool unsettled = is_unsettled(reads->store, place);
    if (unsettled && reads->store->failed) { /* nothing more reaches its file */
        end_fetch(reads, fetch, ERR_IO);
        return true;
    }
    if (unsettled) { /* the end of its commit starts a turn */
        list_remove(&fetch->link);
        list_add_tail(&reads->unsettled, &fetch->link);
        return true;
    }
    if (!segment || !segment_readable(segment) || end_of(place) > segment->end) {
        end_fetch(reads, fetch, ERR_DAMAGED);
        return true;
    }
    struct body_read *read = NULL;
    if (!fetch->alone && record_read_bytes(place) <= READ_BYTES) {
        struct cached_read *cached = find_cached(reads, place);
        if (cached) /* its read has ended since the call of store_read() */
            return serve_cached(reads, fetch, cached);
        read = find(&reads->under_way, place);
        read = read ? read : find_near(&reads->waiting, place);
        read = read ? read : find_near(&reads->ahead, place);
    }
    if (!read) {
        read = read_new(reads, place, fetch->alone);
        ahead_add(reads, read); /* until it is attached */
    }
    attach(reads, read, fetch);
    return true;
}

/* ---- starting ---- */

/* Called by the disk's thread: the checksum of a large record takes long. */
static void check_large(struct disk_op *op)
{
    struct body_read *read = op->owner;
    const struct body_place *place = &read->place;
    if (op->got == op->len)
        read->verdict = record_open(read->bytes, op->got, place, &read->content);
}

static void widen(const struct store *store, const struct segment *segment, struct body_read *read)
{
    uint64_t settled = log_settled_end(store->log, segment);
    uint64_t least = read->start + (read->wanted > 1 ? READ_BYTES : LONE_BYTES);
    if (!read->alone && read->end < least)
        read->end = least;
    if (read->end > settled)
        read->end = settled > read->start ? settled : read->start;
}

/* Can the segment still be read? Read-ahead does not pin it, so it may have been removed, or will
   be soon. */
static bool stays(const struct store *store, const struct segment *segment)
{
    bool goes = cleaner_removing(store->cleaner) && segment == segments_first(store->segments);
    return segment && segment_readable(segment) && !goes;
}

static void start(struct body_reads *reads, struct body_read *read)
{
    struct store *store = reads->store;
    struct segment *segment = segments_find(store->segments, read->segment);
    unlist(reads, read);
    if (stays(store, segment))
        widen(store, segment, read);
    else
        read->end = read->start;
    if (read->end == read->start) {
        while (!list_empty(&read->fetches))
            end_fetch(reads, fetch_of(read->fetches.next), ERR_DAMAGED);
        read_free(read);
        return;
    }
    CHECK(segment);
    read->state = READ_UNDER_WAY;
    list_add_tail(&reads->under_way, &read->link);
    reads->under_way_count++;
    size_t len = (size_t)(read->end - read->start);
    reads->under_way_bytes += len;
    read->bytes = mem_alloc(len);
    read->op = (struct disk_op){
        .into = read->bytes,
        .len = len,
        .offset = read->start,
        .inspect = read->large ? check_large : NULL,
        .done = read_ended,
        .owner = read,
    };
    segments_read(store->segments, segment, &read->op);
}

static bool has_room(const struct body_reads *reads, const struct body_read *read)
{
    if (reads->under_way_count == 0)
        return true; /* at least one read must run, so that memory is freed in the end */
    return reads->under_way_count < BODY_READS_UNDER_WAY_MAX &&
           reads->fetched_bytes < FETCHED_BYTES &&
           reads->under_way_bytes + (size_t)(read->end - read->start) <= UNDER_WAY_BYTES;
}

/* True of most turns. */
static bool nothing_waits(const struct body_reads *reads)
{
    return list_empty(&reads->queue) && list_empty(&reads->waiting) && list_empty(&reads->ahead);
}

static void plan_and_start(struct body_reads *reads)
{
    while (!list_empty(&reads->queue) &&
           reads->waiting_count + reads->under_way_count < READS_MAX &&
           plan(reads, fetch_of(reads->queue.next)))
        ;
    while (!list_empty(&reads->waiting) && has_room(reads, of_link(reads->waiting.next)))
        start(reads, of_link(reads->waiting.next));
    while (list_empty(&reads->waiting) && !list_empty(&reads->ahead) &&
           has_room(reads, of_link(reads->ahead.next)))
        start(reads, of_link(reads->ahead.next));
}

void body_reads_turn(struct body_reads *reads)
{
    reads->again = false;
    if (!list_empty(&reads->unsettled))
        queue_settled(reads);
    if (!nothing_waits(reads) && reads->store->now_us >= reads->retry_at_us)
        plan_and_start(reads);
    reads->served_bytes = 0;
}

int64_t body_reads_next_us(const struct body_reads *reads)
{
    bool waits = !nothing_waits(reads) && reads->store->now_us < reads->retry_at_us;
    if (reads->again)
        return reads->store->now_us;
    if (reads->store->failed && !list_empty(&reads->unsettled))
        return reads->store->now_us; /* no commit will start the turn that ends them */
    return waits ? reads->retry_at_us : INT64_MAX;
}

/* ---- store.h ---- */

/* ERR_AGAIN: the disk's threads must read it. */
static enum err check_in_turn(const struct store *store, uint64_t where, size_t len)
{
    const struct segment *segment = segments_find(store->segments, where_segment(where));
    if (!segment || !segment_readable(segment) || where_offset(where) + len > segment->end)
        return ERR_DAMAGED;
    /* Opening it may have to wait for the disk, too. */
    return !segment->file || len > IN_TURN_BYTES ? ERR_AGAIN : OK;
}

/* Is the record in its file? If not, there is only the copy in memory. */
static bool is_settled(const struct store *store, const struct body_place *place)
{
    const struct segment *segment = segments_find(store->segments, where_segment(place->where));
    return segment && segment_readable(segment) &&
           end_of(place) <= log_settled_end(store->log, segment);
}

static enum err read_cached(struct store *store, uint64_t where, char *at, size_t len)
{
    struct segment *segment = segments_find(store->segments, where_segment(where));
    size_t got = 0;
    enum err err =
        segments_read_cached(store->segments, segment, where_offset(where), at, len, &got);
    return err ? ERR_AGAIN : got == len ? OK : ERR_DAMAGED;
}

/* The bytes of the record, if an earlier read has them cached; else NULL. Valid until the next call
   of any function of the store. O(1). */
static const char *cached_record(struct body_reads *reads, const struct body_place *place)
{
    struct cached_read *cached = find_cached(reads, place);
    if (!cached)
        return NULL;
    read_cache_touch(&reads->cache, cached);
    reads->wants_ahead = true;
    return cached->bytes + (start_of(place) - cached->start);
}

enum err store_read(struct store *store, const struct body_place *place, struct arena *arena,
                    struct body_content *out_content)
{
    size_t len = record_read_bytes(place);
    size_t recent_len = 0;
    enum err err = OK;
    const char *memory = log_recent(store->log, place->where, &recent_len);
    if (memory && recent_len < len)
        return ERR_DAMAGED;
    /* The body of a record larger than a batch may not be in the buffer yet (log.c: it comes
       late), and copying it would take too long. */
    bool late = len > store->options.batch_full;
    if (memory && (late || (len > IN_TURN_BYTES && is_settled(store, place))))
        return ERR_AGAIN;
    if (!memory)
        memory = cached_record(store->body_reads, place);
    if (!memory)
        err = check_in_turn(store, place->where, len);
    if (err)
        return err;
    char *at = arena_alloc(arena, len);
    if (memory)
        memcpy(at, memory, len);
    else
        err = read_cached(store, place->where, at, len);
    return err ? err : record_open(at, len, place, out_content);
}

void store_fetch(struct store *store, struct body_fetch *fetch)
{
    struct body_reads *reads = store->body_reads;
    fetch->state = FETCH_QUEUED;
    fetch->err = OK;
    fetch->alone = false;
    fetch->bytes = NULL;
    fetch->segment = where_segment(fetch->place.where);
    list_add_tail(&reads->queue, &fetch->link);
    struct segment *segment = segments_find(store->segments, fetch->segment);
    if (segment)
        segments_pin(segment);
    reads->wants_ahead = true;
    store->cold_reads++;
}

void store_fetch_end(struct store *store, struct body_fetch *fetch)
{
    struct body_reads *reads = store->body_reads;
    if (fetch->state == FETCH_QUEUED || fetch->state == FETCH_READING) {
        CHECK(fetch->link.next && fetch->link.prev);
        bool last = fetch->state == FETCH_READING && fetch->link.next == fetch->link.prev;
        struct body_read *read =
            last ? LIST_ENTRY(fetch->link.next, struct body_read, fetches) : NULL;
        if (read && read->state == READ_WAITING) { /* it has no fetches any more */
            unlist(reads, read);
            list_remove(&fetch->link);
            read_free(read);
        }
        list_remove(&fetch->link);
        unpin(reads, fetch);
    }
    if (fetch->bytes)
        reads->fetched_bytes -= record_read_bytes(&fetch->place);
    mem_free(fetch->bytes);
    fetch->bytes = NULL;
    fetch->state = FETCH_NONE;
}

char *store_fetch_take(struct store *store, struct body_fetch *fetch)
{
    char *bytes = fetch->bytes;
    CHECK(fetch->state == FETCH_ENDED);
    if (bytes)
        store->body_reads->fetched_bytes -= record_read_bytes(&fetch->place);
    fetch->bytes = NULL;
    return bytes;
}

void store_read_ahead(struct store *store, const struct body_place *places, uint32_t count)
{
    struct body_reads *reads = store->body_reads;
    for (uint32_t i = 0; i < count && reads->ahead_count < AHEAD_MAX; i++) {
        const struct body_place *place = &places[i];
        size_t recent_len;
        if (record_read_bytes(place) > READ_BYTES ||
            log_recent(store->log, place->where, &recent_len) || find_cached(reads, place) ||
            find(&reads->under_way, place) || find_near(&reads->waiting, place) ||
            find_near(&reads->ahead, place))
            continue;
        ahead_add(reads, read_new(reads, place, false));
    }
}

bool store_wants_read_ahead(struct store *store)
{
    bool wants = store->body_reads->wants_ahead;
    store->body_reads->wants_ahead = false;
    return wants;
}

uint64_t store_cold_reads(const struct store *store)
{
    return store->cold_reads;
}

size_t store_read_bytes(const struct store *store)
{
    const struct body_reads *reads = store->body_reads;
    return reads->under_way_bytes + reads->cache.bytes + reads->fetched_bytes;
}

/* ---- life ---- */

struct body_reads *body_reads_new(struct store *store)
{
    struct body_reads *reads = mem_zalloc(sizeof(*reads));
    reads->store = store;
    reads->retry_at_us = INT64_MIN;
    list_init(&reads->queue);
    list_init(&reads->unsettled);
    list_init(&reads->waiting);
    list_init(&reads->ahead);
    list_init(&reads->under_way);
    read_cache_init(&reads->cache);
    return reads;
}

void body_reads_free(struct body_reads *reads)
{
    if (!reads)
        return;
    CHECK(list_empty(&reads->queue) && list_empty(&reads->unsettled));
    CHECK(list_empty(&reads->waiting) && reads->fetched_bytes == 0);
    struct disk *disk = reads->store->disk;
    while (reads->under_way_count > 0) {
        disk->verbs->wait(disk);
        (void)disk->verbs->poll(disk);
    }
    while (!list_empty(&reads->ahead))
        read_free(of_link(reads->ahead.next));
    read_cache_fini(&reads->cache);
    mem_free(reads);
}

/* Checks the reads of one list; returns their number. */
static uint32_t list_valid(const struct body_reads *reads, const struct list *head,
                           enum read_state state, bool waited_for, size_t *out_bytes)
{
    uint32_t count = 0;
    *out_bytes = 0;
    for (struct list *link = head->next; link != head; link = link->next) {
        const struct body_read *read = of_link(link);
        CHECK(read->reads == reads && read->state == state && read->start < read->end);
        CHECK(read->end - read->start <= READ_BYTES || read->large);
        CHECK((read->bytes != NULL) == (state != READ_WAITING));
        CHECK(state == READ_UNDER_WAY || list_empty(&read->fetches) == !waited_for);
        for (const struct list *at = read->fetches.next; at != &read->fetches; at = at->next) {
            const struct body_fetch *fetch = LIST_ENTRY(at, const struct body_fetch, link);
            CHECK(fetch->state == FETCH_READING && fetch->segment == read->segment);
        }
        *out_bytes += (size_t)(read->end - read->start);
        count++;
    }
    return count;
}

void body_reads_valid(const struct body_reads *reads)
{
    size_t bytes;
    CHECK(list_valid(reads, &reads->waiting, READ_WAITING, true, &bytes) == reads->waiting_count);
    CHECK(list_valid(reads, &reads->ahead, READ_WAITING, false, &bytes) == reads->ahead_count);
    CHECK(list_valid(reads, &reads->under_way, READ_UNDER_WAY, true, &bytes) ==
          reads->under_way_count);
    CHECK(bytes == reads->under_way_bytes && reads->under_way_count <= BODY_READS_UNDER_WAY_MAX);
    read_cache_valid(&reads->cache);
    for (const struct list *link = reads->unsettled.next; link != &reads->unsettled;
         link = link->next)
        CHECK(LIST_ENTRY(link, const struct body_fetch, link)->state == FETCH_QUEUED);
    for (const struct list *link = reads->queue.next; link != &reads->queue; link = link->next)
        CHECK(LIST_ENTRY(link, const struct body_fetch, link)->state == FETCH_QUEUED);
}
