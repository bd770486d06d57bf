#include "store/far_page.h"

#include "base/check.h"
#include "base/mem.h"
#include "store/far_blocks.h"
#include "store/internal.h"
#include "store/record.h"
#include "store/slices_parts.h"

enum {
    PAGE_BYTES_MAX = 4 * 1024 * 1024, /* of found records, unless one alone has more */
    TURN_LOOKS = 256,                 /* slices that all pages look at in a turn: 1 µs each */
};

/* Where a job stands in the order of its topic's delayed, or buried, ones. */
struct job_place {
    int64_t due_us;
    uint64_t seq;
};

/* A job that was found, in one piece of memory with its bytes. */
struct found_job {
    struct job_place place;
    struct event *event;
    size_t bytes;
};

struct far_pages {
    struct store *store;
    struct list looking; /* far_page_read::link: what a turn may look at was not enough */
    uint32_t looks;      /* so many slices may still be looked at in this turn */
    uint32_t reading;    /* blocks being read */
};

struct far_page_read {
    struct list link; /* far_pages::looking, while it is to look at slices */
    struct store *store;
    struct far_page *page;  /* NULL: nobody waits for it any more */
    struct job_place after; /* copies: the disk's thread reads them, whatever becomes of the page */
    struct bytes topic;
    uint32_t max; /* of found ones; falls when their bytes are too many */
    bool left_out;
    struct found_job *found; /* in order */
    uint32_t count;
    size_t found_bytes;
    struct event *events;
    struct far_blocks blocks; /* the order in which they are read */
    struct slice *slice;      /* pinned while it is being read, … */
    uint32_t number, block;   /* … and which of its blocks that is */
    bool reading;
    bool good;         /* the block is as it was written; set by the disk's thread, … */
    uint32_t *matches; /* … and places of records in it that belong to the topic */
    uint32_t match_count, match_cap;
    char *bytes;
    size_t cap;
    struct disk_op op;
};

/* In the page's order. */
static bool comes_before(const struct far_page_read *read, const struct job_place *a,
                         const struct job_place *b)
{
    const struct job_place *first = read->blocks.backwards ? b : a;
    const struct job_place *second = read->blocks.backwards ? a : b;
    return first->due_us != second->due_us ? first->due_us < second->due_us
                                           : first->seq < second->seq;
}

/* ---- what was found ---- */

static char *put(char *room, struct bytes *bytes, bool copies)
{
    size_t len = copies ? bytes->len : 0;
    if (len)
        memcpy(room, bytes->at, len);
    bytes->at = room; /* of what is not copied only the length is known */
    return room + len;
}

static struct found_job keep(const struct record *record, bool with_bodies)
{
    const struct event *event = &record->event;
    size_t retry = event->retry_count * sizeof(event->retry_us[0]);
    size_t bytes = sizeof(*event) + retry + event->id.len + event->topic.len +
                   event->content_type.len + event->properties.len +
                   (with_bodies ? event->body.len : 0);
    struct event *kept = mem_alloc(bytes);
    *kept = *event;
    struct bytes waits = bytes_of(event->retry_us, retry);
    char *room = put((char *)(kept + 1), &waits, true);
    kept->retry_us = (const int64_t *)(const void *)waits.at;
    room = put(room, &kept->id, true);
    room = put(room, &kept->topic, true);
    room = put(room, &kept->content_type, true);
    room = put(room, &kept->properties, true);
    (void)put(room, &kept->body, with_bodies);
    return (struct found_job){
        .place = {event->job.due_us, event->job.seq}, .event = kept, .bytes = bytes};
}

static void drop_last(struct far_page_read *read)
{
    CHECK(read->count > 0);
    struct found_job *last = &read->found[--read->count];
    CHECK(read->found_bytes >= last->bytes);
    read->found_bytes -= last->bytes;
    read->left_out = true;
    mem_free(last->event);
}

static void offer(struct far_page_read *read, const struct record *record)
{
    struct job_place place = {record->event.job.due_us, record->event.job.seq};
    uint32_t at = read->count;
    while (at > 0 && comes_before(read, &place, &read->found[at - 1].place))
        at--;
    if (at == read->max) {
        read->left_out = true;
        return;
    }
    if (read->count == read->max)
        drop_last(read);
    memmove(&read->found[at + 1], &read->found[at], (read->count - at) * sizeof(*read->found));
    read->found[at] = keep(record, read->page->with_bodies);
    read->found_bytes += read->found[at].bytes;
    read->count++;
    while (read->found_bytes > PAGE_BYTES_MAX && read->count > 1) {
        drop_last(read);
        read->max = read->count;
    }
    CHECK(read->count > 0 && read->count <= read->max);
}

/* Jobs of the block that are far still. */
static void offer_matches(struct far_page_read *read)
{
    uint64_t begin = (uint64_t)read->slice->fences[read->block].offset * BLOCK;
    struct record record;
    for (uint32_t i = 0; i < read->match_count; i++) {
        uint64_t offset = begin + read->matches[i];
        size_t room = read->op.got - read->matches[i];
        if (slice_is_dead(read->slice, offset) ||
            record_decode(read->bytes + read->matches[i], room, &record))
            continue;
        record.event.record = (struct stored){
            .where = where_of(read->slice->head.number, offset),
            .bytes = (uint32_t)record.len,
        };
        offer(read, &record);
    }
}

/* ---- reading ---- */

static void read_free(struct far_page_read *read)
{
    while (read->count > 0)
        drop_last(read);
    mem_free(read->found);
    mem_free(read->events);
    mem_free(read->matches);
    mem_free(read->bytes);
    mem_free(read);
}

static void end(struct far_page_read *read, enum err err, bool more)
{
    CHECK(read->page && !read->reading && !read->events);
    struct far_page *page = read->page;
    read->events = mem_alloc((read->count + 1) * sizeof(struct event));
    for (uint32_t i = 0; i < read->count; i++)
        read->events[i] = *read->found[i].event;
    page->err = err;
    page->count = read->count;
    page->events = read->events;
    page->more = more || read->left_out;
    page->done(page);
}

/* Does the record, which is whole, belong to the topic, behind the page's beginning? */
static bool is_match(const struct far_page_read *read, const struct record *record)
{
    const struct event *event = &record->event;
    struct job_place place = {event->job.due_us, event->job.seq};
    return record->is_far && bytes_eq(event->topic, read->topic) &&
           comes_before(read, &read->after, &place);
}

static void add_match(struct far_page_read *read, size_t record_at)
{
    if (read->match_count == read->match_cap) {
        read->match_cap = read->match_cap ? read->match_cap * 2 : 256;
        read->matches = mem_realloc(read->matches, read->match_cap * sizeof(*read->matches));
    }
    read->matches[read->match_count++] = (uint32_t)record_at;
}

/*
 * By the disk's thread: looks through the block for jobs of the topic. In one that is damaged each
 * record that has the right sum is as good as ever; the core knows which place is a far job's.
 */
static void inspect(struct disk_op *op)
{
    struct far_page_read *read = op->owner;
    struct batch_head head;
    struct batch_walk walk;
    read->good = batch_head_decode(read->bytes, op->got, &head) == FORMAT_GOOD &&
                 batch_bytes(head.payload_bytes) <= op->got && head.number == read->block + 1 &&
                 head.segment == read->number && head.store_tag == read->store->tag &&
                 batch_whole(&head, read->bytes);
    if (op->got <= BATCH_HEAD)
        return;
    batch_walk_init(&walk, read->bytes,
                    read->good ? head.payload_bytes : (uint32_t)(op->got - BATCH_HEAD));
    enum err err;
    while ((err = batch_walk_next(&walk)) != ERR_NOT_FOUND) {
        if (err && (read->good || walk.end - walk.at <= 8))
            return;
        if (err)
            walk.at += 8;
        else if (is_match(read, &walk.record) && (read->good || record_body_good(&walk.record)))
            add_match(read, walk.record_at);
    }
}

static void go_on(struct far_page_read *read);

/*
 * Of a block that is damaged the jobs that are intact are shown: who loads it says what it is. The
 * read ends with the error of a disk that does not answer.
 */
static void read_ended(struct disk_op *op)
{
    struct far_page_read *read = op->owner;
    struct store *store = read->store;
    segments_read_end(store->segments, read->slice->segment, op);
    CHECK(read->reading && store->far_pages->reading > 0);
    store->far_pages->reading--;
    read->reading = false;
    if (read->page && !op->err)
        offer_matches(read);
    segments_unpin(read->slice->segment);
    read->slice = NULL;
    if (!read->page)
        read_free(read);
    else if (op->err)
        end(read, op->err == ERR_AGAIN ? ERR_AGAIN : ERR_IO, false);
    else
        go_on(read);
}

static void start(struct far_page_read *read, struct slice *slice, uint32_t block)
{
    CHECK(!read->reading && block < slice->head.blocks);
    uint64_t offset = (uint64_t)slice->fences[block].offset * BLOCK;
    size_t len = (size_t)(slice_block_end(slice, block) - offset);
    if (len > read->cap) {
        mem_free(read->bytes);
        read->cap = len > 2 * SLICE_BLOCK_BYTES ? len : 2 * SLICE_BLOCK_BYTES;
        read->bytes = mem_aligned(BLOCK, read->cap);
    }
    read->slice = slice;
    read->number = slice->head.number;
    read->block = block;
    read->match_count = 0;
    read->good = false;
    read->op = (struct disk_op){
        .into = read->bytes,
        .len = len,
        .offset = offset,
        .inspect = inspect,
        .done = read_ended,
        .owner = read,
    };
    read->reading = true;
    read->store->far_pages->reading++;
    segments_pin(slice->segment);
    segments_read(read->store->segments, slice->segment, &read->op);
}

static void go_on(struct far_page_read *read)
{
    struct far_pages *pages = read->store->far_pages;
    bool full = read->count > 0 && read->count == read->max;
    int64_t until_us = full ? read->found[read->count - 1].place.due_us : 0;
    struct slice *slice;
    uint32_t block;
    switch (far_blocks_next(&read->blocks, full, until_us, &pages->looks, &slice, &block)) {
    case BLOCKS_NEXT: start(read, slice, block); return;
    case BLOCKS_NONE: end(read, OK, false); return;
    case BLOCKS_ENOUGH: end(read, OK, true); return;
    case BLOCKS_LATER: list_add_tail(&pages->looking, &read->link); return;
    }
}

/* ---- what the store's user calls ---- */

void store_far_page(struct store *store, struct far_page *page)
{
    CHECK(page->max > 0 && page->done);
    CHECK(page->state == JOB_DELAYED || page->state == JOB_BURIED);
    struct far_page_read *read = mem_zalloc(sizeof(*read) + page->topic.len);
    char *name = (char *)(read + 1);
    memcpy(name, page->topic.at, page->topic.len);
    list_init(&read->link);
    read->store = store;
    read->page = page;
    read->after = (struct job_place){page->due_us, page->seq};
    read->topic = bytes_of(name, page->topic.len);
    read->max = page->max;
    read->found = mem_alloc((page->max + 1) * sizeof(struct found_job));
    read->blocks.slices = store->slices;
    read->blocks.topic = read->topic;
    read->blocks.state = page->state;
    read->blocks.from_us = page->due_us;
    read->blocks.backwards = page->backwards;
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
        read_free(read); /* else when the disk has ended it */
}

/* ---- the turn ---- */

void far_pages_turn(struct far_pages *pages)
{
    pages->looks = TURN_LOOKS;
    while (pages->looks > 0 && !list_empty(&pages->looking)) {
        struct far_page_read *read = LIST_ENTRY(pages->looking.next, struct far_page_read, link);
        list_remove(&read->link);
        go_on(read);
    }
}

int64_t far_pages_next_us(const struct far_pages *pages)
{
    return list_empty(&pages->looking) ? INT64_MAX : pages->store->now_us;
}

struct far_pages *far_pages_new(struct store *store)
{
    struct far_pages *pages = mem_zalloc(sizeof(*pages));
    pages->store = store;
    pages->looks = TURN_LOOKS;
    list_init(&pages->looking);
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
    mem_free(pages);
}
