#include "store/slices/far_scan.h"

#include <string.h>

#include "base/check.h"
#include "base/codec.h"
#include "base/mem.h"
#include "store/format.h"
#include "store/log/segments.h"
#include "store/record.h"
#include "store/slices/far_record.h"

enum { FIRST_CAP = 256 };

static struct job_place place_of(const struct record *record)
{
    return (struct job_place){record->event.job.due_us, record->event.job.seq};
}

/* Is this decoded record a job of the topic behind the position? */
static bool is_match(const struct far_scan *scan, const struct record *record)
{
    const struct far_merge order = {.backwards = scan->backwards};
    struct job_place place = place_of(record);
    return record->is_far && bytes_eq(record->event.topic, scan->topic) &&
           far_merge_before(&order, &scan->after, &place);
}

static void add_match(struct far_scan *scan, const struct record *record, size_t record_at)
{
    if (scan->match_count == scan->match_cap) {
        scan->match_cap = scan->match_cap ? scan->match_cap * 2 : FIRST_CAP;
        scan->matches = mem_realloc(scan->matches, scan->match_cap * sizeof(*scan->matches));
    }
    scan->matches[scan->match_count++] = (struct merge_job){
        .place = place_of(record),
        .where = where_of(scan->number, scan->offset + scan->at + record_at),
        .record = scan->bytes + record_at,
        .len = (uint32_t)record->len,
        .block = scan->block,
    };
    scan->matched_bytes += record->len;
}

/* ---- an intact block ---- */

/* Is the header that of this block, and, if all of the block was read, its checksum right?
 *out_whole: the checksum was verified. */
static bool head_is_good(const struct far_scan *scan, bool *out_whole)
{
    struct batch_head head;
    bool all = scan->len == scan->block_bytes;
    *out_whole = false;
    if (batch_head_decode(scan->bytes, scan->block_bytes, &head) != FORMAT_GOOD ||
        head.number != scan->block + 1 || head.segment != scan->number ||
        head.store_tag != scan->store_tag)
        return false;
    *out_whole = all && batch_whole(&head, scan->bytes, 0);
    return *out_whole || !all;
}

/* Was only the beginning of the record read? */
static bool is_cut_off(const struct far_scan *scan, size_t at)
{
    size_t len = scan->len - at, room = scan->block_bytes - scan->at - at;
    if (len >= room)
        return false;
    if (len < FAR_RECORD_MIN)
        return true;
    size_t record = get_u32(scan->bytes + at);
    return record > len && record <= room;
}

struct scanning {
    size_t at;        /* offset of the next record in scan->bytes */
    uint32_t records; /* that were not examined yet */
    bool whole;       /* the block's checksum was verified */
};

/* ERR_NOT_FOUND: the scan is over: no more records were read, or are wanted. ERR_CORRUPT. */
static enum err scan_one(struct far_scan *scan, struct scanning *scanning)
{
    struct record record;
    if (scanning->records == 0 || is_cut_off(scan, scanning->at) ||
        (!scan->backwards && scan->matched_bytes >= scan->keep_bytes))
        return ERR_NOT_FOUND;
    if (record_decode(scan->bytes + scanning->at, scan->len - scanning->at, &record) ||
        !record.is_far)
        return ERR_CORRUPT;
    if (is_match(scan, &record)) {
        if (!scanning->whole && !record_body_good(&record))
            return ERR_CORRUPT;
        add_match(scan, &record, scanning->at);
    }
    CHECK(record.len <= scan->len - scanning->at);
    scan->behind = place_of(&record);
    scanning->at += record.len;
    scanning->records--;
    return OK;
}

/* The number of records from `at` up to `end`, where a record begins. */
static uint32_t count_records(const struct far_scan *scan, size_t at, size_t end)
{
    uint32_t count = 0;
    for (; at < end; count++)
        at += get_u32(scan->bytes + at); /* decoded before, so the length is valid */
    CHECK(at == end);
    return count;
}

/* Backwards: keeps the last matches that fit into `keep_bytes`, at least one. */
static void keep_last(struct far_scan *scan, size_t first_at)
{
    uint32_t first = scan->match_count;
    size_t bytes = 0;
    while (first > 0 && (bytes == 0 || bytes + scan->matches[first - 1].len <= scan->keep_bytes))
        bytes += scan->matches[--first].len;
    if (first == 0)
        return; /* all are kept: nothing that is looked for is left in front of them */
    size_t at = (size_t)(scan->matches[first].record - scan->bytes);
    CHECK(at >= first_at && at < scan->len);
    scan->left = (struct block_rest){.at = scan->at + (uint32_t)at,
                                     .records = count_records(scan, first_at, at)};
    scan->behind = scan->matches[first].place;
    scan->match_count -= first;
    scan->matched_bytes = bytes;
    memmove(scan->matches, scan->matches + first, scan->match_count * sizeof(*scan->matches));
}

static void keep_first(struct far_scan *scan, const struct scanning *scanning, size_t first_at)
{
    size_t len = scan->len - scanning->at;
    if (scanning->records == 0)
        return;
    scan->left =
        (struct block_rest){.at = scan->at + (uint32_t)scanning->at, .records = scanning->records};
    if (scanning->at == first_at) /* no record was whole: asks for its length, or for all of it */
        scan->need_bytes =
            scanning->at +
            (len < FAR_RECORD_MIN ? FAR_RECORD_MIN : get_u32(scan->bytes + scanning->at));
}

static void scan_good(struct far_scan *scan)
{
    bool from_start = scan->at == 0;
    struct scanning scanning = {
        .at = from_start ? BATCH_HEAD : 0,
        .records = scan->rest.records ? scan->rest.records : scan->jobs,
    };
    size_t first_at = scanning.at;
    enum err err = OK;
    scan->broken = scan->len < first_at || (from_start && !head_is_good(scan, &scanning.whole));
    while (!scan->broken && !err)
        err = scan_one(scan, &scanning);
    scan->broken |= err == ERR_CORRUPT || (scan->backwards && scanning.records > 0);
    if (scan->broken)
        return;
    scan->looked_bytes = scanning.at - first_at;
    if (scan->backwards)
        keep_last(scan, first_at);
    else
        keep_first(scan, &scanning, first_at);
}

/* ---- a damaged block ---- */

/* Finds each far job's record that is intact by its own sums. Other records have no sums, so they
   are skipped like damage. */
static void scan_damaged(struct far_scan *scan)
{
    struct record record;
    size_t at = scan->at == 0 ? BATCH_HEAD : 0;
    while (at + FAR_RECORD_MIN <= scan->len) {
        if (record_decode(scan->bytes + at, scan->len - at, &record) || !record.is_far) {
            at += 8;
            continue;
        }
        if (is_match(scan, &record) && record_body_good(&record))
            add_match(scan, &record, at);
        at += record.len;
    }
}

void far_scan_run(struct far_scan *scan)
{
    CHECK(scan->at + scan->len <= scan->block_bytes);
    scan->broken = false;
    scan->match_count = 0;
    scan->matched_bytes = scan->looked_bytes = scan->need_bytes = 0;
    scan->left = (struct block_rest){0};
    if (scan->salvage)
        scan_damaged(scan);
    else
        scan_good(scan);
    if (scan->broken)
        scan->match_count = 0;
}

void far_scan_fini(struct far_scan *scan)
{
    mem_free(scan->matches);
    scan->matches = NULL;
    scan->match_count = scan->match_cap = 0;
}
