#include "store/recovery/history_survey.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/history/history_parts.h"
#include "store/recovery/directory.h"

/* The batches that a file has, whether or not its entries can be read. */
struct span {
    uint64_t first, last;
    uint32_t number;
};

struct surveying {
    struct disk *disk;
    struct disk_file *file;
    struct history_survey *survey;
    struct history_head head;
    char name[DISK_NAME_MAX];
    char *block;
    struct buf spans; /* struct span */
};

static void found_name(void *ctx, const char *name)
{
    struct buf *numbers = ctx;
    uint32_t number;
    bool half_made;
    if (history_name_parse(name, &number, &half_made) && !half_made)
        buf_add(numbers, &number, sizeof(number));
}

enum err history_numbers(struct disk *disk, struct buf *out_numbers)
{
    return disk->verbs->list(disk, found_name, out_numbers);
}

/* The last batch that this file has, or 0. */
static uint64_t last_batch_of(struct disk *disk, const struct store_id *id, uint32_t number,
                              char *block)
{
    struct disk_file *file;
    struct history_head head;
    char name[DISK_NAME_MAX];
    history_name(number, name);
    if (disk->verbs->open(disk, name, DISK_CACHED, &file))
        return 0;
    enum err err = directory_read_all(disk, file, 0, block, BLOCK);
    disk->verbs->close(disk, file);
    bool ours = !err && history_head_decode(block, &head) != FORMAT_BAD &&
                store_id_eq(&head.id, id) && head.batch_first > 0;
    return ours && head.batch_last >= head.batch_first ? head.batch_last : 0;
}

uint64_t history_last_batch(struct disk *disk, const struct store_id *id)
{
    struct buf numbers = {0};
    uint64_t last = 0;
    char *block = mem_aligned(BLOCK, BLOCK);
    if (history_numbers(disk, &numbers))
        numbers.len = 0;
    for (size_t at = 0; at < numbers.len; at += sizeof(uint32_t)) {
        uint32_t number;
        memcpy(&number, numbers.at + at, sizeof(number));
        uint64_t batch = last_batch_of(disk, id, number, block);
        last = batch > last ? batch : last;
    }
    CHECK(numbers.len % sizeof(uint32_t) == 0);
    mem_free(block);
    buf_fini(&numbers);
    return last;
}

static void fault(struct surveying *surveying, uint64_t offset, const char *text)
{
    surveying->survey->fault(surveying->survey->ctx, surveying->name, offset, text);
}

/* Checks a block's checksum and its entries. Returns what is wrong with it, or NULL. */
static const char *flaw_of(struct surveying *surveying, uint64_t offset, size_t len)
{
    struct history_walk walk;
    struct happening happening;
    struct bytes entry;
    size_t got = 0;
    if (surveying->disk->verbs->read(surveying->disk, surveying->file, offset, surveying->block,
                                     len, &got) ||
        got != len)
        return "the disk cannot read a block of entries";
    enum err err = history_walk_init(&walk, surveying->block, len);
    if (err)
        return "a block of entries does not match its checksum";
    while ((err = history_walk_next(&walk, &happening, &entry)) == OK)
        surveying->survey->entries++;
    return err == ERR_NOT_FOUND ? NULL : "an entry is not valid";
}

static void read_blocks(struct surveying *surveying, const char *section)
{
    const struct history_head *head = &surveying->head;
    struct history_fence *fences = mem_alloc(((size_t)head->blocks + 1) * sizeof(*fences));
    if (history_fences_decode(head, section, fences))
        fault(surveying, head->data_end, "its fences do not match their sum");
    else
        for (uint32_t i = 0; i < head->blocks; i++) {
            uint64_t end = i + 1 < head->blocks ? fences[i + 1].offset : head->data_end;
            const char *flaw =
                flaw_of(surveying, fences[i].offset, (size_t)(end - fences[i].offset));
            if (flaw)
                fault(surveying, fences[i].offset, flaw);
        }
    mem_free(fences);
}

static void note_span(struct surveying *surveying, uint32_t number)
{
    const struct history_head *head = &surveying->head;
    struct span span = {head->batch_first, head->batch_last, number};
    if (store_id_eq(&head->id, surveying->survey->id) && span.first > 0 && span.last >= span.first)
        buf_add(&surveying->spans, &span, sizeof(span));
}

static int by_batch(const void *left, const void *right)
{
    const struct span *a = left;
    const struct span *b = right;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Reports missing files: each must begin with the batch after the last of the one before. */
static void find_gaps(struct surveying *surveying)
{
    struct span *spans = (struct span *)(void *)surveying->spans.at;
    size_t count = surveying->spans.len / sizeof(*spans);
    uint64_t last = 0;
    char text[128];
    if (count > 0)
        qsort(spans, count, sizeof(*spans), by_batch);
    for (size_t i = 0; i < count; i++) {
        if (last > 0 && spans[i].first > last + 1) {
            (void)snprintf(text, sizeof(text),
                           "the file before it is missing: that of batches %llu to %llu",
                           (unsigned long long)last + 1, (unsigned long long)spans[i].first - 1);
            history_name(spans[i].number, surveying->name);
            fault(surveying, 0, text);
        }
        last = spans[i].last > last ? spans[i].last : last;
    }
}

static void read_file(struct surveying *surveying, uint32_t number)
{
    char *section = NULL;
    history_name(number, surveying->name);
    if (surveying->disk->verbs->open(surveying->disk, surveying->name, DISK_FRESH,
                                     &surveying->file)) {
        fault(surveying, 0, "the file cannot be opened");
        return;
    }
    enum err err = history_file_read(surveying->disk, surveying->file, &surveying->head, &section);
    if (err)
        fault(surveying, 0,
              err == ERR_UNSUPPORTED ? "a newer laterd wrote it" : "its header is damaged");
    else if (!store_id_eq(&surveying->head.id, surveying->survey->id))
        fault(surveying, 0, "it belongs to another store");
    else
        read_blocks(surveying, section);
    note_span(surveying, number);
    surveying->survey->files++;
    surveying->survey->bytes += err ? 0 : surveying->head.size_bytes;
    mem_free(section);
    surveying->disk->verbs->close(surveying->disk, surveying->file);
}

enum err history_survey(struct disk *disk, struct history_survey *survey)
{
    struct surveying surveying = {.disk = disk, .survey = survey};
    struct buf numbers = {0};
    enum err err = history_numbers(disk, &numbers);
    surveying.block = mem_aligned(BLOCK, HISTORY_BLOCK_BYTES);
    for (size_t at = 0; at < numbers.len && !err; at += sizeof(uint32_t)) {
        uint32_t number;
        memcpy(&number, numbers.at + at, sizeof(number));
        read_file(&surveying, number);
    }
    find_gaps(&surveying);
    mem_free(surveying.block);
    buf_fini(&surveying.spans);
    buf_fini(&numbers);
    return err;
}
