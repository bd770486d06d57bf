#include "store/recovery/history_rescue.h"

#include <stdlib.h>

#include "base/codec.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/history/history_parts.h"
#include "store/recovery/directory.h"
#include "store/recovery/history_survey.h"

enum { FILE_MAX = 256 * 1024 * 1024 }; /* merging makes none above 40 MiB */

struct rescued {
    uint32_t number;
    bool intact;
    bool left_out;        /* its entries are in another file, too */
    uint64_t first, last; /* batches; 0: its header is damaged */
    int64_t at_us;        /* of its oldest entry */
};

struct history_rescue {
    struct history_rescue_options options;
    struct buf files; /* struct rescued, in order of their oldest entry */
    struct buf noted; /* uint64_t: checksums of entries of the log, … */
    bool sorted;      /* … sorted */
    char *bytes;      /* the contents of one file */
    size_t len;
};

static struct rescued *files_of(const struct history_rescue *rescue, size_t *out_count)
{
    *out_count = rescue->files.len / sizeof(struct rescued);
    return (struct rescued *)(void *)rescue->files.at;
}

/* ---- a file ---- */

/* Reads a file; what cannot be read is zeros. False: it cannot be opened, or is too large. */
static bool read_whole(struct history_rescue *rescue, uint32_t number)
{
    char name[DISK_NAME_MAX];
    struct file_bytes file;
    mem_free(rescue->bytes);
    rescue->bytes = NULL;
    rescue->len = 0;
    history_name(number, name);
    if (directory_read_file(rescue->options.disk, name, FILE_MAX, &file))
        return false;
    rescue->bytes = file.at;
    rescue->len = file.len;
    return file.size_bytes == file.len && (file.len > 0 || !file.unread);
}

/* The length of the intact block at `at`, or 0 if there is none. */
static size_t block_at(const struct history_rescue *rescue, size_t at, size_t end,
                       struct history_walk *out_walk)
{
    if (end - at < HISTORY_BLOCK_HEAD)
        return 0;
    const char *block = rescue->bytes + at;
    size_t len = get_u32(block + 8);
    bool may_be = get_u32(block + 12) == 0 && len > HISTORY_BLOCK_HEAD &&
                  len <= HISTORY_BLOCK_BYTES && len <= end - at;
    return may_be && history_walk_init(out_walk, block, len) == OK ? len : 0;
}

struct visitor {
    enum err (*entry)(void *ctx, const struct happening *happening, struct bytes entry);
    /* Bytes that are not a block lie at `at`, up to the next block or the end. */
    void (*gap)(void *ctx, size_t at);
    void *ctx;
};

static enum err visit_block(struct history_walk *walk, const struct visitor *visitor, size_t at)
{
    struct happening happening;
    struct bytes entry;
    enum err err;
    while ((err = history_walk_next(walk, &happening, &entry)) == OK) {
        err = visitor->entry(visitor->ctx, &happening, entry);
        if (err)
            return err;
    }
    if (err != ERR_NOT_FOUND)
        visitor->gap(visitor->ctx, at);
    return OK;
}

/* Visits all intact blocks up to `end`, and the gaps between them. An error of visitor->entry. */
static enum err visit(const struct history_rescue *rescue, size_t end,
                      const struct visitor *visitor)
{
    bool in_gap = false;
    for (size_t at = BLOCK; at < end;) {
        struct history_walk walk;
        size_t len = block_at(rescue, at, end, &walk);
        if (len == 0) {
            if (!in_gap)
                visitor->gap(visitor->ctx, at);
            in_gap = true;
            at++;
            continue;
        }
        enum err err = visit_block(&walk, visitor, at);
        if (err)
            return err;
        in_gap = false;
        at += len;
    }
    return OK;
}

/* ---- the list of files ---- */

struct looking {
    struct history_rescue *rescue;
    struct rescued file;
    char name[DISK_NAME_MAX];
    bool headless; /* where its blocks end is unknown, so gaps are not reported */
};

static void fault(struct looking *looking, uint64_t offset, const char *text)
{
    const struct history_rescue_options *options = &looking->rescue->options;
    options->fault(options->ctx, looking->name, offset, text);
    looking->file.intact = false;
}

static enum err note_entry(void *ctx, const struct happening *happening, struct bytes entry)
{
    struct looking *looking = ctx;
    (void)entry;
    if (happening->at_us < looking->file.at_us)
        looking->file.at_us = happening->at_us;
    return OK;
}

static void report_gap(void *ctx, size_t at)
{
    struct looking *looking = ctx;
    if (!looking->headless)
        fault(looking, at, "a block of entries is damaged; those in it are lost");
}

/* Checks the header. *out_end: where the blocks end, at most. False: the file is not used. */
static bool check_head(struct looking *looking, size_t *out_end)
{
    const struct history_rescue *rescue = looking->rescue;
    struct history_head head = {0};
    enum format_verdict verdict =
        rescue->len < BLOCK ? FORMAT_BAD : history_head_decode(rescue->bytes, &head);
    *out_end = rescue->len;
    if (verdict == FORMAT_NEWER) {
        fault(looking, 0, "a newer laterd wrote it; nothing of it is carried over");
        return false;
    }
    if (verdict == FORMAT_GOOD && !store_id_eq(&head.id, rescue->options.id)) {
        fault(looking, 0, "it belongs to another store; nothing of it is carried over");
        return false;
    }
    looking->headless = verdict != FORMAT_GOOD || head.size_bytes != rescue->len;
    if (verdict != FORMAT_GOOD)
        fault(looking, 0, "its header is damaged; its blocks are read");
    else if (looking->headless)
        fault(looking, rescue->len, "it was cut, or has grown; its blocks are read");
    if (verdict == FORMAT_GOOD) {
        looking->file.first = head.batch_first;
        looking->file.last = head.batch_last;
    }
    if (looking->headless)
        return true;
    *out_end = (size_t)head.data_end;
    if (hash_of(rescue->bytes + head.data_end, rescue->len - *out_end) != head.fences_sum)
        fault(looking, head.data_end, "its fences are damaged; its blocks are read");
    return true;
}

static void survey_file(struct history_rescue *rescue, uint32_t number)
{
    struct looking looking = {.rescue = rescue,
                              .file = {.number = number, .intact = true, .at_us = INT64_MAX}};
    const struct visitor visitor = {note_entry, report_gap, &looking};
    size_t end;
    history_name(number, looking.name);
    if (!read_whole(rescue, number)) {
        fault(&looking, 0, "it cannot be opened, or is too large to be one; it is left out");
        return;
    }
    if (!check_head(&looking, &end))
        return;
    (void)visit(rescue, end, &visitor); /* note_entry() has no errors */
    buf_add(&rescue->files, &looking.file, sizeof(looking.file));
}

static int by_time(const void *left, const void *right)
{
    const struct rescued *a = left;
    const struct rescued *b = right;
    if (a->at_us != b->at_us)
        return a->at_us < b->at_us ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Leaves out files whose batches another file has, too: a crash came after they were merged. */
static void leave_merged_out(struct history_rescue *rescue)
{
    size_t count;
    struct rescued *files = files_of(rescue, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count && !files[i].left_out; j++)
            files[i].left_out = i != j && files[i].first > 0 && files[j].intact &&
                                !files[j].left_out && files[j].first <= files[i].first &&
                                files[j].last >= files[i].last;
}

enum err history_rescue_new(const struct history_rescue_options *options,
                            struct history_rescue **out_rescue)
{
    struct buf numbers = {0};
    struct history_rescue *rescue = mem_zalloc(sizeof(*rescue));
    size_t count;
    rescue->options = *options;
    enum err err = history_numbers(options->disk, &numbers);
    for (size_t at = 0; at < numbers.len && !err; at += sizeof(uint32_t)) {
        uint32_t number;
        memcpy(&number, numbers.at + at, sizeof(number));
        survey_file(rescue, number);
    }
    buf_fini(&numbers);
    struct rescued *files = files_of(rescue, &count);
    if (count > 0)
        qsort(files, count, sizeof(*files), by_time);
    leave_merged_out(rescue);
    if (err)
        history_rescue_free(rescue);
    else
        *out_rescue = rescue;
    return err;
}

void history_rescue_free(struct history_rescue *rescue)
{
    if (!rescue)
        return;
    buf_fini(&rescue->files);
    buf_fini(&rescue->noted);
    mem_free(rescue->bytes);
    mem_free(rescue);
}

/* ---- beside the log ---- */

bool history_rescue_covers(const struct history_rescue *rescue, uint64_t batch)
{
    size_t count;
    const struct rescued *files = files_of(rescue, &count);
    for (size_t i = 0; i < count; i++)
        if (files[i].intact && files[i].first <= batch && batch <= files[i].last)
            return true;
    return false;
}

bool history_rescue_is_incomplete(const struct history_rescue *rescue)
{
    size_t count;
    const struct rescued *files = files_of(rescue, &count);
    for (size_t i = 0; i < count; i++)
        if (!files[i].intact)
            return true;
    return false;
}

void history_rescue_note(struct history_rescue *rescue, struct bytes entry)
{
    uint64_t sum = hash_of(entry.at, entry.len);
    buf_add(&rescue->noted, &sum, sizeof(sum));
    rescue->sorted = false;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a, b;
    memcpy(&a, left, sizeof(a));
    memcpy(&b, right, sizeof(b));
    return a < b ? -1 : a > b;
}

static bool is_noted(const struct history_rescue *rescue, struct bytes entry)
{
    uint64_t sum = hash_of(entry.at, entry.len);
    const struct buf *noted = &rescue->noted;
    return noted->len > 0 &&
           bsearch(&sum, noted->at, noted->len / sizeof(sum), sizeof(sum), by_value);
}

/* ---- the replay ---- */

struct replaying {
    struct history_rescue *rescue;
    bool doubtful;
    enum err (*each)(void *ctx, const struct happening *happening);
    void *ctx;
};

static enum err replay_entry(void *ctx, const struct happening *happening, struct bytes entry)
{
    struct replaying *replaying = ctx;
    if (replaying->doubtful && is_noted(replaying->rescue, entry))
        return OK;
    return replaying->each(replaying->ctx, happening);
}

static void replay_gap(void *ctx, size_t at)
{
    (void)ctx;
    (void)at; /* report_gap() has reported it */
}

enum err history_rescue_replay(struct history_rescue *rescue,
                               enum err (*each)(void *ctx, const struct happening *happening),
                               void *ctx)
{
    struct replaying replaying = {.rescue = rescue, .each = each, .ctx = ctx};
    const struct visitor visitor = {replay_entry, replay_gap, &replaying};
    size_t count;
    const struct rescued *files = files_of(rescue, &count);
    enum err err = OK;
    if (!rescue->sorted && rescue->noted.len > 0)
        qsort(rescue->noted.at, rescue->noted.len / sizeof(uint64_t), sizeof(uint64_t), by_value);
    rescue->sorted = true;
    for (size_t i = 0; i < count && !err; i++) {
        replaying.doubtful = !files[i].intact;
        if (!files[i].left_out && read_whole(rescue, files[i].number))
            err = visit(rescue, rescue->len, &visitor); /* fences are never parsed as a block */
    }
    return err;
}
