/*
 * Look-ups: first in memory, then in the files from the newest to the oldest, and in each file from
 * the last block to the first, because a job may have a hundred thousand entries, and only the
 * newest are shown. Searches run one after another. A search pins the files that existed
 * at its beginning, so that neither a merge nor a removal changes its result.
 */
#include "base/arena.h"
#include "base/check.h"
#include "base/mem.h"
#include "store/history/history_parts.h"
#include "store/job_history.h"

enum {
    AGAIN_US = 100 * 1000,  /* until the next try, if no descriptor was free */
    UNDER_WAY_MAX = 4,      /* searches that read at a time */
    READ_MAX = 64 * 1024,   /* bytes, unless one block has more */
    TURN_BYTES = 64 * 1024, /* searched in a turn, besides one read: about 20 us for 1 KiB; … */
    TAKEN_BYTES = 12,  /* … an entry that is found in memory counts as this many bytes, … */
    PASSED_NODES = 16, /* … and this many other entries in memory as one found */
    FOUND_BYTES_MAX = 1024 * 1024 /* of entries; more are not shown */
};

struct history_search {
    struct list link; // history::searches
    struct history *history;
    struct history_find *find; /* NULL: it was cancelled */
    uint64_t key;
    struct buf files;   /* struct history_file *: not read yet, the newest last */
    struct arena arena; /* of the entries' bytes */
    size_t arena_bytes;
    struct buf found; /* struct happening, the newest first */
    uint32_t passed;  /* entries of tables that were examined */
    bool begun, reading, ended;
    char *bytes;        /* read … */
    size_t first, last; /* … blocks of the file … */
    size_t begin;       /* … of those that may have the key, of which this is the first */
    struct disk_op op;
    int64_t retry_at_us;
};

/* ---- results ---- */

static bool is_too_old(const struct history_search *search, const struct happening *happening)
{
    return happening->at_us < search->history->store->now_us - search->history->keep_us;
}

static bool is_asked_for(const struct history_search *search, const struct happening *happening)
{
    const struct job_ref *ref = &search->find->ref;
    bool named = ref->id.len ? bytes_eq(ref->id, happening->id)
                             : ref->seq == happening->seq && happening->id.len == 0;
    return named && !is_too_old(search, happening);
}

static size_t found_count(const struct history_search *search)
{
    return search->found.len / sizeof(struct happening);
}

static bool is_full(const struct history_search *search)
{
    return found_count(search) >= search->find->max || search->arena_bytes >= FOUND_BYTES_MAX;
}

/* Takes a copy of an entry that is older than all so far. */
static void take(struct history_search *search, struct bytes entry)
{
    struct happening happening;
    size_t len;
    struct bytes copy = arena_copy(&search->arena, entry);
    enum err err = history_entry_decode(copy.at, copy.len, &happening, &len);
    CHECK(!err); /* it was decoded before */
    search->arena_bytes += copy.len;
    buf_add(&search->found, &happening, sizeof(happening));
}

/* Stops at the first entry that is too old: all before it are older. */
static void look_into_table(struct history_search *search, const struct history_table *table)
{
    const struct history_node *node = history_table_first(table, search->key);
    for (; node && !is_full(search); node = node->older) {
        struct happening happening;
        size_t len;
        search->passed++;
        if (node->key != search->key ||
            history_entry_decode(node->entry, node->len, &happening, &len))
            continue;
        if (is_too_old(search, &happening))
            break;
        if (is_asked_for(search, &happening))
            take(search, bytes_of(node->entry, node->len));
    }
}

/* ---- files ---- */

static struct history_file *file_at(const struct history_search *search, size_t number)
{
    struct history_file *file;
    memcpy(&file, search->files.at + number * sizeof(file), sizeof(file));
    return file;
}

static struct history_file *current(const struct history_search *search)
{
    return file_at(search, search->files.len / sizeof(struct history_file *) - 1);
}

static void leave_file(struct history_search *search)
{
    CHECK(search->files.len > 0 && current(search)->users > 0);
    current(search)->users--;
    search->files.len -= sizeof(struct history_file *);
}

/* The blocks of the file that may have the key. False: none. */
static bool blocks_of(const struct history_search *search, const struct history_file *file,
                      size_t *out_first, size_t *out_last)
{
    size_t low = 0, high = file->head.blocks;
    while (low < high) { /* the first fence that is not below the key */
        size_t middle = (low + high) / 2;
        if (file->fences[middle].key < search->key)
            low = middle + 1;
        else
            high = middle;
    }
    size_t first = low > 0 ? low - 1 : 0; /* the block before may end with this key */
    while (low < file->head.blocks && file->fences[low].key == search->key)
        low++;
    *out_first = first;
    *out_last = low > 0 ? low - 1 : 0;
    return low > 0;
}

static uint64_t block_end(const struct history_file *file, size_t block)
{
    return block + 1 < file->head.blocks ? file->fences[block + 1].offset : file->head.data_end;
}

/* Appends the key's entries in this block to `out`, in order. */
static enum err collect(const struct history_search *search, size_t block, struct buf *out)
{
    const struct history_file *file = current(search);
    uint64_t start = file->fences[search->first].offset;
    const char *at = search->bytes + (file->fences[block].offset - start);
    struct history_walk walk;
    struct happening happening;
    struct bytes entry;
    enum err err =
        history_walk_init(&walk, at, (size_t)(block_end(file, block) - file->fences[block].offset));
    while (!err && (err = history_walk_next(&walk, &happening, &entry)) == OK)
        if (is_asked_for(search, &happening))
            buf_add(out, &entry, sizeof(entry));
    return err == ERR_NOT_FOUND ? OK : ERR_DAMAGED;
}

static void take_newest(struct history_search *search, const struct buf *entries)
{
    for (size_t i = entries->len / sizeof(struct bytes); i > 0 && !is_full(search); i--) {
        struct bytes entry;
        memcpy(&entry, entries->at + (i - 1) * sizeof(entry), sizeof(entry));
        take(search, entry);
    }
}

static enum err take_read(struct history_search *search)
{
    struct buf entries = {0};
    enum err err = search->op.err ? ERR_IO : search->op.got == search->op.len ? OK : ERR_DAMAGED;
    for (size_t block = search->last + 1; !err && block-- > search->first && !is_full(search);) {
        entries.len = 0;
        err = collect(search, block, &entries);
        if (!err)
            take_newest(search, &entries);
    }
    buf_fini(&entries);
    return err;
}

static void read_ended(struct disk_op *op)
{
    struct history_search *search = op->owner;
    if (op->file)
        search->history->store->disk->verbs->close(search->history->store->disk, op->file);
    CHECK(search->reading && search->history->reading > 0);
    search->reading = false;
    search->history->reading--;
}

/* Reads the last blocks of those from `begin` to `last`. */
static void submit(struct history_search *search)
{
    const struct history_file *file = current(search);
    CHECK(!search->reading && search->begin <= search->last && search->last < file->head.blocks);
    uint64_t end = block_end(file, search->last);
    search->first = search->last;
    while (search->first > search->begin &&
           end - file->fences[search->first - 1].offset <= READ_MAX)
        search->first--;
    uint64_t offset = file->fences[search->first].offset;
    search->bytes = mem_realloc(search->bytes, (size_t)(end - offset));
    search->op = (struct disk_op){
        .verb = DISK_READ,
        .lane = LANE_READ,
        .into = search->bytes,
        .len = (size_t)(end - offset),
        .offset = offset,
        .done = read_ended,
        .owner = search,
    };
    history_name(file->number, search->op.name);
    search->reading = true;
    search->history->reading++;
    search->history->store->disk->verbs->submit(search->history->store->disk, &search->op);
}

/* ---- searches ---- */

static void search_free(struct history_search *search)
{
    while (search->files.len > 0)
        leave_file(search);
    list_remove(&search->link);
    buf_fini(&search->files);
    buf_fini(&search->found);
    arena_fini(&search->arena);
    mem_free(search->bytes);
    mem_free(search);
}

static void end(struct history_search *search, enum err err)
{
    struct history_find *find = search->find;
    size_t count = found_count(search);
    struct happening *happenings = (struct happening *)(void *)search->found.at;
    for (size_t i = 0; i < count / 2; i++) {
        struct happening newer = happenings[i];
        happenings[i] = happenings[count - 1 - i];
        happenings[count - 1 - i] = newer;
    }
    find->more = is_full(search);
    find->err = err;
    find->count = (uint32_t)count;
    find->happenings = happenings;
    search->ended = true;
    list_remove(&search->link);
    list_init(&search->link);
    while (search->files.len > 0)
        leave_file(search);
    find->done(find);
}

/* Uses the blocks that were read. Continues with the next file if no earlier blocks are left. */
static enum err use_read(struct history_search *search)
{
    search->op.done = NULL;
    if (search->op.err == ERR_AGAIN) { /* no descriptor was free */
        search->retry_at_us = search->history->store->now_us + AGAIN_US;
        return OK;
    }
    enum err err = take_read(search);
    if (!err && search->first > search->begin && !is_full(search)) {
        search->last = search->first - 1;
        return OK;
    }
    search->last = SIZE_MAX;
    leave_file(search);
    search->find->damaged |= err == ERR_DAMAGED; /* other blocks may be intact */
    return err == ERR_DAMAGED ? OK : err;
}

/* Continues until it waits for a read, or has ended. */
static void step(struct history_search *search)
{
    enum err err = search->op.done ? use_read(search) : OK;
    if (search->history->store->now_us < search->retry_at_us)
        return;
    while (!err && search->files.len > 0 && !is_full(search)) {
        if (current(search)->head.blocks == 0 && current(search)->damaged)
            search->find->damaged = true; /* it could not be read */
        else if (search->last != SIZE_MAX ||
                 blocks_of(search, current(search), &search->begin, &search->last)) {
            submit(search);
            return;
        }
        search->last = SIZE_MAX;
        leave_file(search);
    }
    end(search, err);
}

/* Is a file missing between others, or is there one whose contents are unknown? */
static bool is_incomplete(const struct history *history)
{
    uint64_t last = 0;
    bool incomplete = false;
    for (const struct list *link = history->files.next; link != &history->files;
         link = link->next) {
        const struct history_head *head = &LIST_ENTRY(link, struct history_file, link)->head;
        incomplete |= last > 0 && head->batch_first != last + 1;
        last = head->batch_last;
    }
    for (const struct list *link = history->strays.next; link != &history->strays;
         link = link->next)
        incomplete |= LIST_ENTRY(link, struct history_file, link)->nameless;
    return incomplete;
}

/* Searches in memory. Returns the cost of that, in bytes searched. */
static size_t begin(struct history_search *search)
{
    struct history *history = search->history;
    search->begun = true;
    search->find->damaged = is_incomplete(history);
    look_into_table(search, &history->table);
    look_into_table(search, &history->frozen);
    for (struct list *link = history->files.next; link != &history->files; link = link->next) {
        struct history_file *file = LIST_ENTRY(link, struct history_file, link);
        file->users++;
        buf_add(&search->files, &file, sizeof(file));
    }
    history->steps += search->passed;
    return TAKEN_BYTES * (found_count(search) + search->passed / PASSED_NODES);
}

void history_searches_turn(struct history *history)
{
    unsigned under_way = 0;
    size_t bytes = 0;
    for (struct list *link = history->searches.next;
         link != &history->searches && under_way < UNDER_WAY_MAX && bytes < TURN_BYTES;) {
        struct history_search *search = LIST_ENTRY(link, struct history_search, link);
        link = link->next;
        under_way++;
        if (search->reading)
            continue;
        bytes += search->op.done ? search->op.got : 0;
        if (!search->find) {
            search_free(search);
            continue;
        }
        if (!search->begun)
            bytes += begin(search);
        step(search);
    }
}

int64_t history_searches_next_us(const struct history *history)
{
    int64_t next_us = INT64_MAX;
    unsigned under_way = 0;
    for (const struct list *link = history->searches.next;
         link != &history->searches && under_way < UNDER_WAY_MAX; link = link->next, under_way++) {
        const struct history_search *search = LIST_ENTRY(link, const struct history_search, link);
        if (!search->reading && search->retry_at_us < next_us)
            next_us = search->retry_at_us; /* INT64_MIN: at once */
    }
    return next_us;
}

void history_searches_fini(struct history *history)
{
    while (!list_empty(&history->searches)) {
        struct history_search *search =
            LIST_ENTRY(history->searches.next, struct history_search, link);
        CHECK(!search->find && !search->reading);
        search_free(search);
    }
}

void store_history_find(struct store *store, struct history_find *find)
{
    struct history *history = store->history;
    struct history_search *search = mem_zalloc(sizeof(*search));
    search->history = history;
    search->find = find;
    search->retry_at_us = INT64_MIN;
    search->last = SIZE_MAX;
    search->key = history_key(history->key, find->ref.seq, find->ref.id);
    find->search = search;
    list_add_tail(&history->searches, &search->link);
}

void store_history_find_end(struct store *store, struct history_find *find)
{
    struct history_search *search = find->search;
    (void)store;
    if (!search)
        return;
    find->search = NULL;
    search->find = NULL;
    if (!search->reading)
        search_free(search); /* else it is freed when the read has ended */
}
