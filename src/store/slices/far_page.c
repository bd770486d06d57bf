#include "store/slices/far_page.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/far.h"
#include "store/internal.h"
#include "store/record.h"
#include "store/slices/far_blocks.h"
#include "store/slices/far_scan.h"
#include "store/slices/far_walk.h"
#include "store/slices/slices_parts.h"

enum {
    BODIES_BYTES_MAX = 1024 * 1024, /* of a page with bodies, which are copied in one turn */
    TURN_LOOKS = 256,               /* slices that all pages examine in a turn: 1 µs each */
    TURN_DROPS = 4096,              /* ended jobs that all pages skip in a turn: 0.2 µs each */
    PART_LEAST = 2048,              /* bytes of a block that are read at least … */
    PART_MORE = 512, /* … and beyond those that are kept, because a record is cut off */
};

struct far_pages {
    struct store *store;
    struct list looking; /* far_page_read::link: these continue in the next turn */
    struct list all;     /* far_page_read::all_link */
    struct far_walks walks;
    uint32_t looks;      /* slices that may still be examined in this turn … */
    uint32_t drops;      /* … and ended jobs that may be skipped */
    uint32_t turn_drops; /* TURN_DROPS */
    uint32_t reading;    /* blocks being read */
    uint64_t read_bytes; /* of all of them */
};

struct far_page_read {
    struct list link;     /* far_pages::looking, while it waits for the next turn */
    struct list all_link; /* far_pages::all */
    struct store *store;
    struct far_page *page; /* NULL: the caller has ended it */
    struct far_walk *walk; /* NULL: it was given back */
    /* Copies, because the disk's thread reads them even if the page has ended: */
    struct job_place after;
    bool backwards;
    struct bytes topic;
    struct event **found; /* in order; each is in one piece of memory with its bytes */
    uint32_t count;
    size_t found_bytes;
    size_t long_bytes; /* of bodies that were left out: the caller reads each of them */
    struct event *events;
    struct slice *slice;    /* pinned while it is being read, … */
    struct block_part part; /* … and the part of it that is read */
    bool reading;
    struct far_scan scan; /* only the disk's thread uses it while `reading` */
    bool good;            /* the index is intact: set by that thread */
    char *bytes;
    size_t cap;
    struct slice_head head; /* a copy, while the index of the slice is read, … */
    uint64_t *firsts; /* … and at first the blocks' offsets, then the numbers of the blocks' first
                         jobs and of the last job, for far_blocks_learn() */
    struct disk_op op;
};

/* ---- what was found ---- */

static char *put(char *room, struct bytes *bytes, bool copies)
{
    size_t len = copies ? bytes->len : 0;
    if (len)
        memcpy(room, bytes->at, len);
    bytes->at = room; /* if it is not copied, only its length is valid */
    return room + len;
}

static struct event *keep(const struct record *record, bool with_bodies, size_t *out_bytes)
{
    const struct event *event = &record->event;
    bool left_out = with_bodies && event->body.len > FAR_PAGE_BODY_MAX;
    bool copies = with_bodies && !left_out;
    size_t retry = event->retry_count * sizeof(event->retry_us[0]);
    size_t bytes = sizeof(*event) + retry + event->id.len + event->topic.len +
                   event->content_type.len + event->properties.len + (copies ? event->body.len : 0);
    struct event *kept = mem_alloc(bytes);
    *kept = *event;
    struct bytes waits = bytes_of(event->retry_us, retry);
    char *room = put((char *)(kept + 1), &waits, true);
    kept->retry_us = (const int64_t *)(const void *)waits.at;
    room = put(room, &kept->id, true);
    room = put(room, &kept->topic, true);
    room = put(room, &kept->content_type, true);
    room = put(room, &kept->properties, true);
    (void)put(room, &kept->body, copies);
    if (left_out)
        kept->body.at = NULL;
    *out_bytes = bytes;
    return kept;
}

static bool is_full(const struct far_page_read *read)
{
    size_t most = read->page->with_bodies ? BODIES_BYTES_MAX : FAR_PAGE_BYTES_MAX;
    bool full =
        read->found_bytes >= most || read->found_bytes + read->long_bytes >= FAR_PAGE_BYTES_MAX;
    return read->count == read->page->max || (read->count > 0 && full);
}

static void add_found(struct far_page_read *read, const struct merge_job *job)
{
    struct record record;
    size_t bytes;
    enum err err = record_decode(job->record, job->len, &record);
    CHECK(!err && record.is_far); /* far_scan_run() has decoded it before */
    record.event.record = (struct stored){.where = job->where, .bytes = job->len};
    read->found[read->count++] = keep(&record, read->page->with_bodies, &bytes);
    read->found_bytes += bytes;
    if (read->page->with_bodies && record.event.body.len > FAR_PAGE_BODY_MAX)
        read->long_bytes += record.event.body.len;
}

/* Is the job still far? */
static bool lives(const struct far_blocks *blocks, const struct merge_job *job)
{
    const struct segment *segment =
        segments_find(blocks->slices->segments, where_segment(job->where));
    const struct slice *slice = segment ? segment->slice : NULL;
    return slice && !slice_is_dead(slice, where_offset(job->where)) &&
           far_blocks_wants(blocks, slice, job->block);
}

/* The next job read that is still far. NULL: there is none, or more ended jobs precede it than this
   turn may skip. */
static const struct merge_job *next_living(struct far_page_read *read)
{
    struct far_merge *merge = &read->walk->merge;
    struct far_pages *pages = read->store->far_pages;
    const struct merge_job *job;
    while ((job = far_merge_next(merge)) && !lives(&read->walk->blocks, job)) {
        if (pages->drops == 0)
            return NULL;
        pages->drops--;
        far_merge_drop(merge);
    }
    return job;
}

/* Takes jobs for the page. `bounded`: only those in front of the next unread block. */
static void take_some(struct far_page_read *read, bool bounded)
{
    const struct far_walk *walk = read->walk;
    const struct merge_job *job;
    while (!is_full(read) && (job = next_living(read))) {
        if (bounded && !far_blocks_precedes(&walk->blocks, &job->place, &walk->blocks.next))
            return;
        add_found(read, job);
        far_merge_take(&read->walk->merge);
    }
}

/* ---- reading ---- */

/* Pages of one job have no next page. */
static void give_walk_back(struct far_page_read *read)
{
    if (read->walk)
        far_walks_give_back(&read->store->far_pages->walks, read->walk,
                            read->page && read->page->max > 1);
    read->walk = NULL;
}

static void read_free(struct far_page_read *read)
{
    give_walk_back(read);
    list_remove(&read->all_link);
    for (uint32_t i = 0; i < read->count; i++)
        mem_free(read->found[i]);
    mem_free(read->found);
    mem_free(read->events);
    far_scan_fini(&read->scan);
    mem_free(read->bytes);
    mem_free(read->firsts);
    mem_free(read);
}

static void end(struct far_page_read *read, enum err err, bool more)
{
    CHECK(read->page && !read->reading && !read->events);
    struct far_page *page = read->page;
    read->walk->stale |= err != OK || !more; /* the last page has no next page */
    give_walk_back(read);
    read->events = mem_alloc((read->count + 1) * sizeof(struct event));
    for (uint32_t i = 0; i < read->count; i++)
        read->events[i] = *read->found[i];
    page->err = err;
    page->count = read->count;
    page->events = read->events;
    page->more = more;
    page->done(page);
}

/* Called by the disk's thread. */
static void inspect(struct disk_op *op)
{
    struct far_page_read *read = op->owner;
    struct far_scan *scan = &read->scan;
    scan->bytes = read->bytes;
    scan->len = op->got;
    scan->salvage |= op->got < op->len;
    far_scan_run(scan);
}

static void go_on(struct far_page_read *read);

/* Adds the matches to the walk, and limits its memory. */
static void add_block(struct far_page_read *read)
{
    struct far_walk *walk = read->walk;
    struct far_scan *scan = &read->scan;
    const struct merge_job *job;
    uint32_t living = 0;
    walk->stale |= scan->salvage;
    walk->looked_bytes += scan->looked_bytes;
    walk->matched_bytes += scan->matched_bytes;
    for (uint32_t i = 0; i < scan->match_count; i++)
        if (lives(&walk->blocks, &scan->matches[i]))
            scan->matches[living++] = scan->matches[i];
    far_merge_add(&walk->merge, scan->matches, living);
    if (scan->left.records > 0)
        far_blocks_put_back(&walk->blocks, &read->part, scan->left, scan->behind);
    far_walks_limit(&read->store->far_pages->walks, walk);
    if (read->page->max == 1 && (job = next_living(read)))
        far_merge_cut(&walk->merge, job->place);
}

static void end_read(struct far_page_read *read)
{
    struct store *store = read->store;
    segments_read_end(store->segments, read->slice->segment, &read->op);
    CHECK(read->reading && store->far_pages->reading > 0);
    store->far_pages->reading--;
    store->far_pages->read_bytes += read->op.got;
    read->reading = false;
    segments_unpin(read->slice->segment);
    read->slice = NULL;
}

/* Continues after a read that was handled. */
static void go_on_after(struct far_page_read *read, enum err err)
{
    if (!read->page)
        read_free(read);
    else if (err)
        end(read, err == ERR_AGAIN ? ERR_AGAIN : ERR_IO, false);
    else
        go_on(read);
}

static void start(struct far_page_read *read, size_t least);

/*
 * The intact jobs of a damaged block are returned; the damage is reported when the block is loaded.
 * A read error of the disk ends the page.
 */
static void read_ended(struct disk_op *op)
{
    struct far_page_read *read = op->owner;
    const struct far_scan *scan = &read->scan;
    end_read(read);
    if (read->page && !op->err && (scan->broken || scan->need_bytes)) {
        read->scan.salvage = scan->broken;
        start(read, scan->need_bytes);
        return;
    }
    if (read->page && !op->err)
        add_block(read);
    go_on_after(read, op->err);
}

static void begin_read(struct far_page_read *read, struct slice *slice, uint64_t offset, size_t len)
{
    CHECK(!read->reading);
    if (len > read->cap) {
        mem_free(read->bytes);
        read->cap = len > 2 * SLICE_BLOCK_BYTES ? len : 2 * SLICE_BLOCK_BYTES;
        read->bytes = mem_aligned(BLOCK, read->cap);
    }
    read->slice = slice;
    read->good = false;
    read->op = (struct disk_op){.into = read->bytes, .len = len, .offset = offset, .owner = read};
    read->reading = true;
    read->store->far_pages->reading++;
    segments_pin(slice->segment);
}

/* May the page, or the walk, begin within the block? */
static bool begins_within(const struct far_page_read *read)
{
    const struct far_blocks *blocks = &read->walk->blocks;
    int64_t due_us = read->part.slice->fences[read->part.block].due_us;
    return due_us <= blocks->from.due_us || due_us <= read->after.due_us;
}

/*
 * How many of the block's last `room` bytes are read: so many that the bytes to be kept are
 * probably among them, if the topic's share is the same as in what was read so far. Backwards: all,
 * because records cannot be found from their end.
 */
static size_t bytes_wanted(const struct far_page_read *read, size_t room)
{
    const struct far_walk *walk = read->walk;
    bool all = read->scan.salvage || read->backwards || walk->matched_bytes == 0 ||
               read->scan.keep_bytes >= room ||
               (read->part.rest.records == 0 && begins_within(read));
    if (all)
        return room;
    uint64_t want = read->scan.keep_bytes * walk->looked_bytes / walk->matched_bytes + PART_MORE;
    want = want < PART_LEAST ? PART_LEAST : want;
    return want < room / 2 ? (size_t)want : room;
}

/* Reads the part, or its beginning, at least `least` bytes. */
static void start(struct far_page_read *read, size_t least)
{
    const struct block_part *part = &read->part;
    struct far_scan *scan = &read->scan;
    uint64_t offset = (uint64_t)part->slice->fences[part->block].offset * BLOCK;
    uint32_t bytes = (uint32_t)(slice_block_end(part->slice, part->block) - offset);
    uint32_t at = read->backwards ? 0 : part->rest.at;
    size_t room = (read->backwards && part->rest.records ? part->rest.at : bytes) - at;
    CHECK(at < bytes && room <= bytes - at && room > 0);
    bool single = read->page->max == 1 || !part->divisible;
    scan->keep_bytes =
        single ? SIZE_MAX : far_walks_block_share(&read->store->far_pages->walks, read->walk);
    scan->number = part->slice->head.number;
    scan->block = part->block;
    scan->jobs = part->slice->fences[part->block].jobs;
    scan->block_bytes = bytes;
    scan->rest = part->rest;
    scan->offset = offset;
    scan->at = at;
    size_t len = bytes_wanted(read, room);
    len = len < least ? least : len;
    len = len < room ? len : room;
    begin_read(read, part->slice, offset + at, len);
    read->op.ahead =
        read->backwards ? 0 : slice_listing_ahead(part->slice, part->block, offset + at + len);
    read->op.inspect = inspect;
    read->op.done = read_ended;
    segments_read(read->store->segments, part->slice->segment, &read->op);
}

/* ---- the order of blocks with the same due time ---- */

/* Called by the disk's thread: looks up the numbers of the blocks' first jobs in the slice's index.
 */
static void inspect_index(struct disk_op *op)
{
    struct far_page_read *read = op->owner;
    const struct slice_head *head = &read->head;
    const char *section = read->bytes + (slice_index_at(head) - op->offset);
    struct slice_index index;
    uint32_t block = 0;
    if (op->got < op->len || hash_of(section, head->index_bytes) != head->index_sum)
        return;
    slice_index_init(&index, head, section);
    enum err err;
    while ((err = slice_index_next(&index)) == OK)
        if (block < head->blocks && index.offset > read->firsts[block])
            read->firsts[block++] = index.seq;
    read->firsts[head->blocks] = index.seq;
    read->good = err == ERR_NOT_FOUND && block == head->blocks;
}

/* Reports once for each slice. */
static void report_unread(const struct store *store, struct slice *slice)
{
    struct store_error error;
    char name[DISK_NAME_MAX];
    if (slice->index_unread)
        return;
    slice->index_unread = true;
    segments_file_name(slice->segment, name);
    store_error_set(&error, name, slice_index_at(&slice->head),
                    "the disk cannot read an index of far jobs: they come due, but lists of them "
                    "fail, and the store may not open again; look at the disk");
    store->callbacks->notice(store->callbacks, STORE_UNREAD, &error);
}

/*
 * If the index is damaged, the order stays unknown, and all blocks with that due time are read. If
 * the disk cannot read the index, the page ends, as with a block, and the next page tries again.
 */
static void index_read(struct disk_op *op)
{
    struct far_page_read *read = op->owner;
    struct slice *slice = read->slice;
    end_read(read);
    if (op->err && op->err != ERR_AGAIN)
        report_unread(read->store, slice);
    if (!op->err && !read->good)
        segments_damaged(read->store->segments, slice->segment, slice_index_at(&slice->head),
                         "an index of far jobs is damaged: they come due, but the store may not "
                         "open again; stop laterd, and recover them with: later salvage DIR NEW");
    if (!op->err)
        far_blocks_learn(slice, read->good ? read->firsts : NULL);
    mem_free(read->firsts);
    mem_free(read->bytes); /* an index may be large */
    read->firsts = NULL;
    read->bytes = NULL;
    read->cap = 0;
    go_on_after(read, op->err);
}

static void start_order(struct far_page_read *read, struct slice *slice)
{
    const struct slice_head *head = &slice->head;
    uint64_t offset = slice_index_at(head) / BLOCK * BLOCK;
    uint64_t end = slice_index_at(head) + head->index_bytes;
    begin_read(read, slice, offset, (size_t)((end + BLOCK - 1) / BLOCK * BLOCK - offset));
    read->head = *head;
    read->firsts = mem_alloc((head->blocks + 1) * sizeof(*read->firsts));
    for (uint32_t i = 0; i < head->blocks; i++)
        read->firsts[i] = (uint64_t)slice->fences[i].offset * BLOCK;
    read->op.inspect = inspect_index;
    read->op.done = index_read;
    segments_read(read->store->segments, slice->segment, &read->op);
}

/* No job up to the bound is left: reads again what was dropped behind the bound. */
static void pass_bound(struct far_walk *walk)
{
    far_blocks_restart(&walk->blocks, walk->merge.bound);
    far_merge_pass_bound(&walk->merge);
}

/* Finds the next part that is needed: one that may have a job in front of `job`; if that is NULL,
   any up to the bound. */
static enum far_blocks_verdict next_part(struct far_page_read *read, const struct merge_job *job)
{
    struct far_walk *walk = read->walk;
    bool bounded = job || walk->merge.cut;
    struct job_place until = job ? job->place : walk->merge.bound;
    if (is_full(read)) { /* no part is needed, only whether there is one */
        bounded = true;
        until = read->backwards ? (struct job_place){INT64_MAX, UINT64_MAX}
                                : (struct job_place){INT64_MIN, 0};
    }
    return far_blocks_next(&walk->blocks, bounded, until, &read->store->far_pages->looks,
                           &read->part);
}

/* Continues in the next turn. */
static void go_on_later(struct far_page_read *read)
{
    list_add_tail(&read->store->far_pages->looking, &read->link);
}

static void go_on(struct far_page_read *read)
{
    const struct merge_job *job;
    for (;;) {
        bool cut = read->walk->merge.cut;
        job = next_living(read);
        if (!job && far_merge_next(&read->walk->merge)) {
            go_on_later(read);
            return;
        }
        if (job && is_full(read))
            break;
        enum far_blocks_verdict verdict = next_part(read, job);
        if (verdict == BLOCKS_NEXT) {
            read->scan.salvage = false;
            start(read, 0);
            return;
        }
        if (verdict == BLOCKS_ORDER) {
            start_order(read, read->part.slice);
            return;
        }
        if (verdict == BLOCKS_LATER) {
            go_on_later(read);
            return;
        }
        if (job) {
            take_some(read, verdict == BLOCKS_ENOUGH);
        } else if (cut && read->count == 0) {
            pass_bound(read->walk);
        } else {
            end(read, OK, cut || verdict == BLOCKS_ENOUGH);
            return;
        }
    }
    end(read, OK, true);
}

/* ---- what the store's user calls ---- */

void store_far_page(struct store *store, struct far_page *page)
{
    CHECK(page->max > 0 && page->done);
    CHECK(page->state == JOB_DELAYED || page->state == JOB_READY || page->state == JOB_BURIED);
    struct far_page_read *read = mem_zalloc(sizeof(*read) + page->topic.len);
    char *name = (char *)(read + 1);
    memcpy(name, page->topic.at, page->topic.len);
    list_init(&read->link);
    list_add_tail(&store->far_pages->all, &read->all_link);
    read->store = store;
    read->page = page;
    read->after = (struct job_place){page->due_us, page->seq};
    read->backwards = page->backwards;
    read->topic = bytes_of(name, page->topic.len);
    read->scan.topic = read->topic;
    read->scan.after = read->after;
    read->scan.backwards = read->backwards;
    read->scan.store_tag = store->tag;
    read->found = mem_alloc(page->max * sizeof(struct event *));
    read->walk = far_walks_take(&store->far_pages->walks, page);
    page->read = read;
    page->err = OK;
    go_on(read);
}

void store_far_page_end(struct store *store, struct far_page *page)
{
    struct far_page_read *read = page->read;
    (void)store;
    page->read = NULL;
    if (!read)
        return;
    read->page = NULL;
    list_remove(&read->link);
    if (!read->reading)
        read_free(read); /* else it is freed when the read ends */
}

/* ---- the turn ---- */

void far_pages_named(struct far_pages *pages, const struct slice *slice, uint32_t block)
{
    far_walks_named(&pages->walks, slice, block);
    for (struct list *link = pages->all.next; link != &pages->all; link = link->next) {
        struct far_walk *walk = LIST_ENTRY(link, struct far_page_read, all_link)->walk;
        if (walk && slice_may_have(slice, walk->topic))
            walk->stale |= far_walk_has_passed(walk, slice, block);
    }
}

void far_pages_turn(struct far_pages *pages)
{
    far_walks_turn(&pages->walks);
    pages->looks = TURN_LOOKS;
    pages->drops = pages->turn_drops;
    while (pages->looks > 0 && pages->drops > 0 && !list_empty(&pages->looking)) {
        struct far_page_read *read = LIST_ENTRY(pages->looking.next, struct far_page_read, link);
        list_remove(&read->link);
        go_on(read);
    }
}

int64_t far_pages_next_us(const struct far_pages *pages)
{
    return list_empty(&pages->looking) ? far_walks_next_us(&pages->walks) : pages->store->now_us;
}

size_t far_pages_held_bytes(const struct far_pages *pages)
{
    return far_walks_held_bytes(&pages->walks);
}

void far_pages_limit(struct far_pages *pages, size_t bytes)
{
    pages->walks.idle_bytes_max = bytes;
}

void far_pages_limit_drops(struct far_pages *pages, uint32_t drops)
{
    pages->drops = pages->turn_drops = drops;
}

uint64_t far_pages_read_bytes(const struct far_pages *pages)
{
    return pages->read_bytes;
}

void far_pages_valid(const struct far_pages *pages)
{
    far_walks_valid(&pages->walks);
}

struct far_pages *far_pages_new(struct store *store)
{
    struct far_pages *pages = mem_zalloc(sizeof(*pages));
    pages->store = store;
    pages->looks = TURN_LOOKS;
    pages->drops = pages->turn_drops = TURN_DROPS;
    list_init(&pages->looking);
    list_init(&pages->all);
    far_walks_init(&pages->walks, store);
    return pages;
}

void far_pages_free(struct far_pages *pages)
{
    if (!pages)
        return;
    CHECK(list_empty(&pages->looking));
    while (pages->reading > 0) {
        pages->store->disk->verbs->wait(pages->store->disk);
        (void)pages->store->disk->verbs->poll(pages->store->disk);
    }
    CHECK(list_empty(&pages->all));
    far_walks_fini(&pages->walks);
    mem_free(pages);
}
