/*
 * Merges small history files into larger ones (tiered compaction), so that a search reads few
 * files. At least eight adjacent files of one size level are merged; each level is eight times
 * larger than the one below, up to MERGED_MAX. So an entry is rewritten once for each level.
 *
 * Inputs are read block by block, by the disk's threads; the output is built in memory and written
 * at once. It covers the batches of its inputs, so an opening after a crash recognises inputs that
 * were not removed yet, and removes them.
 */
#include "base/check.h"
#include "base/mem.h"
#include "store/history/history_parts.h"

enum {
    INPUTS_MIN = 8,
    INPUTS_MAX = 32,
    LEVELS = 8,
    LEVEL_BYTES = 64 * 1024,       /* of the lowest level; each next one has 8 times as many */
    MERGED_MAX = 32 * 1024 * 1024, /* of the inputs, together */
    TURN_ENTRIES = 2000,           /* up to 1 µs each */
    AGAIN_US = 1000 * 1000,        /* after a failure, … */
    UNREAD_US = 60 * 1000 * 1000,  /* … or if an input cannot be read: all are read again then */
};

enum merge_step { MERGE_IDLE, MERGE_GATHER, MERGE_WRITE };

struct merge_input {
    struct history_file *file;
    uint32_t block; /* the next to be read */
    bool has_entry, at_end;
    struct history_walk walk;
    struct happening happening;
    struct bytes entry;
    uint64_t key;
    char *bytes; /* of one block */
};

struct history_merge {
    struct history *history;
    enum merge_step step;
    struct merge_input inputs[INPUTS_MAX];
    unsigned count;
    struct history_image image;
    uint32_t number; /* of its file */
    struct merge_input *reading;
    bool writing;
    struct disk_op op;
    int64_t retry_at_us;
};

static void stop(struct history_merge *merge)
{
    for (unsigned i = 0; i < merge->count; i++) {
        mem_free(merge->inputs[i].bytes);
        merge->inputs[i].file->users--;
        merge->inputs[i].file->merging = false;
    }
    memset(merge->inputs, 0, sizeof(merge->inputs));
    merge->count = 0;
    history_image_discard(&merge->image, &merge->history->spent);
    merge->step = MERGE_IDLE;
}

static void put_off(struct history_merge *merge, int64_t pause_us)
{
    stop(merge);
    merge->retry_at_us = merge->history->store->now_us + pause_us;
}

/* ---- choosing the inputs ---- */

/*
 * How many of the newest files, which are adjacent, are below this size. 0 if one of them is larger
 * than all others together: rewriting it would gain little. A gap in the batches ends the run: a
 * file that could not be read belongs there, and may become readable.
 */
static unsigned run_of(const struct history *history, uint64_t below, uint64_t *out_bytes)
{
    unsigned count = 0;
    uint64_t bytes = 0, largest = 0, next = 0;
    for (const struct list *link = history->files.prev;
         link != &history->files && count < INPUTS_MAX; link = link->prev, count++) {
        const struct history_file *file = LIST_ENTRY(link, const struct history_file, link);
        if (file->damaged || file->head.size_bytes >= below ||
            bytes + file->head.size_bytes > MERGED_MAX ||
            (count > 0 && file->head.batch_last + 1 != next))
            break;
        bytes += file->head.size_bytes;
        next = file->head.batch_first;
        if (file->head.size_bytes > largest)
            largest = file->head.size_bytes;
    }
    *out_bytes = bytes;
    return below > LEVEL_BYTES && largest > bytes - largest ? 0 : count;
}

static void begin(struct history_merge *merge, unsigned count, uint64_t bytes)
{
    struct history *history = merge->history;
    struct list *link = &history->files;
    for (unsigned i = 0; i < count; i++)
        link = link->prev;
    for (unsigned i = 0; i < count; i++, link = link->next) {
        struct history_file *file = LIST_ENTRY(link, struct history_file, link);
        file->users++;
        file->merging = true;
        merge->inputs[i] = (struct merge_input){.file = file};
        merge->inputs[i].bytes = mem_alloc(HISTORY_BLOCK_BYTES);
    }
    CHECK(count >= INPUTS_MIN && count <= INPUTS_MAX && link == &history->files);
    merge->count = count;
    merge->image.head = (struct history_head){
        .id = history->store->id,
        .batch_first = merge->inputs[0].file->head.batch_first,
        .batch_last = merge->inputs[count - 1].file->head.batch_last,
    };
    buf_reserve(&merge->image.bytes, (size_t)bytes); /* enough: there are no more entries */
    history_image_begin(&merge->image);
    merge->step = MERGE_GATHER;
}

static void choose(struct history_merge *merge)
{
    uint64_t below = LEVEL_BYTES, bytes;
    for (unsigned level = 0; level < LEVELS && below <= MERGED_MAX; level++, below *= INPUTS_MIN) {
        unsigned count = run_of(merge->history, below, &bytes);
        if (count < INPUTS_MIN)
            continue;
        if (history_has_room(merge->history, bytes))
            begin(merge, count, bytes);
        return;
    }
}

/* ---- reading ---- */

static uint64_t offset_of(const struct history_file *file, uint32_t block)
{
    return block < file->head.blocks ? file->fences[block].offset : file->head.data_end;
}

static void read_ended(struct disk_op *op)
{
    struct history_merge *merge = op->owner;
    struct merge_input *input = merge->reading;
    CHECK(input && input->file->users > 0);
    struct disk *disk = merge->history->store->disk;
    if (op->file)
        disk->verbs->close(disk, op->file);
    merge->reading = NULL;
    if (!op->err &&
        (op->got != op->len || history_walk_init(&input->walk, input->bytes, op->len) != OK))
        input->file->damaged = true; /* neither it nor files before it are merged */
    if (op->err || input->file->damaged) {
        put_off(merge, op->err && op->err != ERR_AGAIN ? UNREAD_US : AGAIN_US);
        return;
    }
    input->block++;
}

static void read_block(struct history_merge *merge, struct merge_input *input)
{
    CHECK(!merge->reading && input->block < input->file->head.blocks);
    uint64_t offset = offset_of(input->file, input->block);
    merge->reading = input;
    merge->op = (struct disk_op){
        .verb = DISK_READ,
        .lane = LANE_READ,
        .into = input->bytes,
        .len = (size_t)(offset_of(input->file, input->block + 1) - offset),
        .offset = offset,
        .done = read_ended,
        .owner = merge,
    };
    history_name(input->file->number, merge->op.name);
    merge->history->store->disk->verbs->submit(merge->history->store->disk, &merge->op);
}

/* Advances to the input's next entry. False: its block is being read, or the merge was put off. */
static bool advance(struct history_merge *merge, struct merge_input *input)
{
    if (input->has_entry || input->at_end)
        return true;
    enum err err = ERR_NOT_FOUND;
    if (input->walk.at)
        err = history_walk_next(&input->walk, &input->happening, &input->entry);
    if (err == OK) {
        input->has_entry = true;
        input->key = history_key(merge->history->key, input->happening.seq, input->happening.id);
        return true;
    }
    if (err != ERR_NOT_FOUND) {
        input->file->damaged = true;
        put_off(merge, AGAIN_US);
        return false;
    }
    input->walk = (struct history_walk){0};
    input->at_end = input->block == input->file->head.blocks;
    if (!input->at_end)
        read_block(merge, input);
    return input->at_end;
}

/* ---- merging ---- */

static void gather(struct history_merge *merge)
{
    int64_t since_us = merge->history->store->now_us - merge->history->keep_us;
    for (unsigned done = 0; done < TURN_ENTRIES; done++) {
        struct merge_input *first = NULL;
        for (unsigned i = 0; i < merge->count; i++) {
            struct merge_input *input = &merge->inputs[i];
            if (!advance(merge, input))
                return;
            if (input->has_entry && (!first || input->key < first->key))
                first = input; /* for equal keys, the older file's entry first */
        }
        if (!first) {
            history_image_end(&merge->image);
            merge->number = merge->history->number_next++;
            merge->step = MERGE_WRITE;
            return;
        }
        if (first->happening.at_us >= since_us)
            history_image_add(&merge->image, first->key, first->entry, first->happening.at_us);
        first->has_entry = false;
    }
}

/* The merged file takes the place of the first input. */
static void replace_inputs(struct history_merge *merge)
{
    struct history *history = merge->history;
    const struct history_head *head = &merge->image.head;
    struct history_file *file =
        history_file_new(history, merge->number, head, merge->image.bytes.at + head->data_end);
    CHECK(file); /* it was encoded just before */
    list_add_tail(&merge->inputs[0].file->link, &file->link);
    for (unsigned i = 0; i < merge->count; i++)
        history_retire(history, merge->inputs[i].file);
}

static void written(struct disk_op *op)
{
    struct history_merge *merge = op->owner;
    merge->writing = false;
    if (op->err == ERR_AGAIN || op->err == ERR_DISK_FULL) {
        put_off(merge, AGAIN_US);
        return;
    }
    if (op->err) {
        stop(merge);
        store_fail(merge->history->store, op->sys_errno);
        return;
    }
    replace_inputs(merge);
    stop(merge);
}

static void write_file(struct history_merge *merge)
{
    if (!history_has_room(merge->history, merge->image.bytes.len)) { /* jobs have it since */
        put_off(merge, AGAIN_US);
        return;
    }
    merge->op = (struct disk_op){
        .verb = DISK_REPLACE,
        .lane = LANE_BACKGROUND,
        .data = merge->image.bytes.at,
        .len = merge->image.bytes.len,
        .done = written,
        .owner = merge,
    };
    history_name(merge->number, merge->op.name);
    merge->writing = true;
    merge->history->store->disk->verbs->submit(merge->history->store->disk, &merge->op);
}

void history_merge_turn(struct history_merge *merge)
{
    if (merge->reading || merge->writing || merge->history->store->now_us < merge->retry_at_us)
        return;
    switch (merge->step) {
    case MERGE_IDLE: choose(merge); break;
    case MERGE_GATHER: gather(merge); break;
    case MERGE_WRITE: write_file(merge); break;
    }
}

bool history_merge_busy(const struct history_merge *merge)
{
    return merge->reading || merge->writing;
}

bool history_merge_works(const struct history_merge *merge)
{
    return merge->step != MERGE_IDLE && !merge->reading && !merge->writing;
}

struct history_merge *history_merge_new(struct history *history)
{
    struct history_merge *merge = mem_zalloc(sizeof(*merge));
    merge->history = history;
    merge->retry_at_us = INT64_MIN;
    return merge;
}

void history_merge_free(struct history_merge *merge)
{
    if (!merge)
        return;
    CHECK(!history_merge_busy(merge));
    stop(merge);
    mem_free(merge);
}
