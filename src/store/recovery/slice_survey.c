#include "store/recovery/slice_survey.h"

#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/log/segments.h"
#include "store/slices/far_record.h"
#include "store/varint.h"

/* ---- slices by the log ---- */

static size_t place_of(const struct slice_liveness_set *liveness, uint32_t number)
{
    size_t low = 0, high = liveness->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (liveness->at[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct slice_liveness *find(const struct slice_liveness_set *liveness, uint32_t number)
{
    size_t at = place_of(liveness, number);
    return at < liveness->count && liveness->at[at].number == number ? &liveness->at[at] : NULL;
}

static struct slice_liveness *get_or_create(struct slice_liveness_set *liveness, uint32_t number)
{
    size_t at = place_of(liveness, number);
    if (at < liveness->count && liveness->at[at].number == number)
        return &liveness->at[at];
    liveness->at = mem_realloc(liveness->at, (liveness->count + 1) * sizeof(*liveness->at));
    memmove(liveness->at + at + 1, liveness->at + at,
            (liveness->count - at) * sizeof(*liveness->at));
    CHECK(at <= liveness->count);
    liveness->count++;
    liveness->at[at] = (struct slice_liveness){.number = number};
    return &liveness->at[at];
}

void slice_liveness_fini(struct slice_liveness_set *liveness)
{
    for (size_t i = 0; i < liveness->count; i++)
        mem_free(liveness->at[i].dead);
    mem_free(liveness->at);
    *liveness = (struct slice_liveness_set){0};
}

static bool is_dead(const struct slice_liveness *slice, uint32_t unit)
{
    return unit / 64 < slice->dead_words && slice->dead[unit / 64] >> unit % 64 & 1;
}

static void set_dead(struct slice_liveness *slice, uint32_t unit)
{
    size_t words = unit / 64 + 1;
    if (words > slice->dead_words) {
        words += words / 2;
        slice->dead = mem_realloc(slice->dead, words * sizeof(*slice->dead));
        memset(slice->dead + slice->dead_words, 0,
               (words - slice->dead_words) * sizeof(*slice->dead));
        slice->dead_words = words;
    }
    CHECK(unit / 64 < slice->dead_words);
    slice->dead[unit / 64] |= UINT64_C(1) << unit % 64;
}

void slice_liveness_apply(struct slice_liveness_set *liveness, const struct slice_record *record)
{
    struct slice_liveness *slice = get_or_create(liveness, record->number);
    struct varint_reader reader = {record->dead, record->dead + record->dead_bytes, true};
    uint32_t unit = slice_unit((uint64_t)record->from * BLOCK);
    if (record->from != 1 && (!slice->logged || record->from != slice->named))
        return; /* a record of the whole slice follows */
    if (record->whole)
        slice->live = 0;
    slice->logged = true;
    slice->named = record->to;
    slice->live += record->jobs;
    while (reader.at < reader.end) {
        unit += (uint32_t)varint_get(&reader); /* record_decode() has checked them */
        set_dead(slice, unit);
    }
}

void slice_liveness_mark_dead(struct slice_liveness_set *liveness, uint64_t where)
{
    struct slice_liveness *slice = find(liveness, where_segment(where));
    uint32_t unit = slice_unit(where_offset(where));
    if (!slice || !slice->logged || is_dead(slice, unit))
        return;
    set_dead(slice, unit);
    slice->live -= slice->live > 0;
}

bool slice_liveness_knows(const struct slice_liveness_set *liveness, uint64_t where)
{
    const struct slice_liveness *slice = find(liveness, where_segment(where));
    return slice && slice->logged && where_offset(where) < (uint64_t)slice->named * BLOCK;
}

bool slice_liveness_is_live(const struct slice_liveness_set *liveness, uint64_t where)
{
    const struct slice_liveness *slice = find(liveness, where_segment(where));
    return slice_liveness_knows(liveness, where) &&
           !is_dead(slice, slice_unit(where_offset(where)));
}

uint64_t slice_liveness_count(const struct slice_liveness_set *liveness, uint32_t number)
{
    const struct slice_liveness *slice = find(liveness, number);
    return slice ? slice->live : 0;
}

/* ---- slices by their files ---- */

struct survey {
    const struct slice_reader *reader;
    const struct store_id *id;
    uint32_t number;
    char name[DISK_NAME_MAX];
    char *bytes; /* of the file, up to SLICE_FILE_MAX; what cannot be read is zeros */
    uint64_t len, file_bytes;
    struct slice_head head;
    bool index_good;
};

static void fault(const struct survey *survey, uint64_t offset, const char *text, bool whole)
{
    if (survey->reader->fault)
        survey->reader->fault(survey->reader->ctx, survey->name, offset, text,
                              whole && survey->reader->lost);
}

static enum err read_file(struct disk *disk, struct survey *survey)
{
    struct file_bytes file;
    enum err err = directory_read_file(disk, survey->name, SLICE_FILE_MAX, &file);
    if (err)
        return err;
    survey->bytes = file.at;
    survey->len = file.len;
    survey->file_bytes = file.size_bytes;
    if (file.unread)
        fault(survey, 0, "the disk cannot read some of it", true);
    return OK;
}

/* Decodes the header. False: it is damaged, or its sections are not within the file. */
static bool check_head(struct survey *survey)
{
    const struct slice_head *head = &survey->head;
    enum format_verdict verdict =
        survey->len < BLOCK ? FORMAT_BAD : slice_head_decode(survey->bytes, &survey->head);
    if (verdict != FORMAT_GOOD) {
        fault(survey, 0, "the slice's header is damaged", false);
        return false;
    }
    if (head->number != survey->number || !store_id_eq(&head->id, survey->id)) {
        fault(survey, 0, "it is another slice, or another store's: it was renamed or moved here",
              true);
        return false;
    }
    /* It may have been cut between two blocks: then all that is left is intact. */
    if (head->size_bytes != survey->file_bytes)
        fault(survey, survey->file_bytes, "it was cut, or has grown",
              head->size_bytes < survey->file_bytes);
    return head->size_bytes <= survey->len;
}

static void check_sections(struct survey *survey)
{
    const struct slice_head *head = &survey->head;
    const char *topics_at = survey->bytes + slice_topics_at(head);
    const char *index_at = survey->bytes + slice_index_at(head);
    struct slice_fence *fences = mem_alloc(head->blocks * sizeof(*fences));
    struct slice_topics topics = {topics_at, index_at};
    struct slice_index index;
    struct bytes name;
    uint32_t topic_count = 0, jobs = 0;
    enum err err;
    if (slice_fences_decode(head, survey->bytes + head->data_end, fences))
        fault(survey, head->data_end, "the slice's fences are damaged", true);
    mem_free(fences);
    while ((err = slice_topics_next(&topics, &name)) == OK)
        topic_count++;
    if (err != ERR_NOT_FOUND || topic_count != head->topics ||
        hash_of(topics_at, (size_t)head->topics_bytes) != head->topics_sum)
        fault(survey, slice_topics_at(head), "the slice's topics are damaged", true);
    slice_index_init(&index, head, index_at);
    while ((err = slice_index_next(&index)) == OK)
        jobs++;
    survey->index_good = err == ERR_NOT_FOUND && jobs == head->jobs &&
                         hash_of(index_at, (size_t)head->index_bytes) == head->index_sum;
    if (!survey->index_good)
        fault(survey, slice_index_at(head), "the slice's index is damaged", false);
    uint64_t end = slice_index_at(head) + head->index_bytes;
    if (!bytes_all_zero(survey->bytes + end, (size_t)(survey->len - end)))
        fault(survey, end, "what is behind the slice's index is not zero", true);
}

/* Decodes the record at `offset`. False: no intact far job's record is there. */
static bool decode_at(const struct survey *survey, uint64_t offset, uint64_t end,
                      struct record *out_record)
{
    return offset < end &&
           record_decode(survey->bytes + offset, (size_t)(end - offset), out_record) == OK &&
           out_record->is_far && record_body_good(out_record);
}

/* Reports each job of the index as intact or lost: records have checksums of their own. */
static enum err report_by_index(const struct survey *survey)
{
    const struct slice_reader *reader = survey->reader;
    struct slice_index index;
    enum err err = OK;
    slice_index_init(&index, &survey->head, survey->bytes + slice_index_at(&survey->head));
    while (!err && slice_index_next(&index) == OK) {
        struct record record;
        uint64_t where = where_of(survey->number, index.offset);
        bool good = decode_at(survey, index.offset, survey->head.data_end, &record) &&
                    record.event.job.seq == index.seq;
        if (good)
            err = reader->job(reader->ctx, &record, where);
        else if (reader->lost)
            reader->lost(reader->ctx, index.seq, where);
    }
    return err;
}

static enum err report_block(const struct survey *survey, uint64_t offset,
                             const struct batch_head *head)
{
    const struct slice_reader *reader = survey->reader;
    struct batch_walk walk;
    enum err err = OK;
    batch_walk_init(&walk, survey->bytes + offset, head->payload_bytes);
    while (!err && batch_walk_next(&walk) == OK)
        if (walk.record.is_far && record_body_good(&walk.record))
            err = reader->job(reader->ctx, &walk.record,
                              where_of(survey->number, offset + walk.record_at));
    return err;
}

/* Do far jobs' records fill the block, and does their count match its header? */
static bool block_fits(const char *block, const struct batch_head *head)
{
    struct batch_walk walk;
    enum err err;
    batch_walk_init(&walk, block, head->payload_bytes);
    while ((err = batch_walk_next(&walk)) == OK)
        if (!walk.record.is_far)
            return false;
    return err == ERR_NOT_FOUND && walk.count == head->record_count;
}

static bool is_block(const struct survey *survey, uint64_t at, uint64_t data_end,
                     struct batch_head *out_head)
{
    const char *block = survey->bytes + at;
    return batch_head_decode(block, data_end - at, out_head) == FORMAT_GOOD &&
           out_head->segment == survey->number && out_head->store_tag == store_tag(survey->id) &&
           batch_whole(out_head, block, 0) && block_fits(block, out_head);
}

/* Finds intact jobs at any offset: their records have checksums of their own. */
static enum err report_strays(const struct survey *survey, uint64_t start, uint64_t end)
{
    const struct slice_reader *reader = survey->reader;
    enum err err = OK;
    CHECK(start <= end && end <= survey->len);
    for (uint64_t at = start; end - at >= FAR_RECORD_MIN && !err;) {
        struct record record;
        bool whole = decode_at(survey, at, end, &record);
        if (whole)
            err = reader->stray(reader->ctx, &record, where_of(survey->number, at));
        at += whole ? record.len : 8;
    }
    return err;
}

/* Checks the consecutive blocks. `reports`: calls reader->job for the jobs of intact ones. */
static enum err check_blocks(const struct survey *survey, uint64_t data_end, bool reports)
{
    enum err err = OK;
    uint64_t number = 1;
    struct batch_head head = {.number = 0};
    for (uint64_t at = BLOCK; at < data_end && !err;) {
        if (is_block(survey, at, data_end, &head) && head.number == number) {
            err = reports ? report_block(survey, at, &head) : OK;
            at += batch_bytes(head.payload_bytes);
            number++;
            continue;
        }
        fault(survey, at, "a block of far jobs is damaged", survey->index_good);
        uint64_t start = at;
        do
            at += BLOCK;
        while (at < data_end && !is_block(survey, at, data_end, &head));
        if (reports && survey->reader->stray)
            err = report_strays(survey, start, at < data_end ? at : data_end);
        number = head.number;
    }
    return err;
}

enum err slice_survey(struct disk *disk, const struct store_id *id, uint32_t number,
                      const struct slice_reader *reader, uint64_t *out_bytes)
{
    struct survey survey = {.reader = reader, .id = id, .number = number};
    CHECK(reader->job);
    slice_name(number, survey.name);
    enum err err = read_file(disk, &survey);
    if (err)
        return err;
    *out_bytes = survey.len;
    bool head_good = check_head(&survey);
    if (head_good)
        check_sections(&survey);
    else if (survey.file_bytes > survey.len)
        fault(&survey, survey.len, "no slice is longer than this: the rest is not read", false);
    /* Without a header the end of the blocks is unknown: what is behind them counts as damaged. */
    uint64_t data_end = head_good ? survey.head.data_end : survey.len / BLOCK * BLOCK;
    err = check_blocks(&survey, data_end, !survey.index_good);
    if (!err && survey.index_good)
        err = report_by_index(&survey);
    mem_free(survey.bytes);
    return err;
}
