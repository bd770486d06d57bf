#include "store/recovery/damage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "base/mem.h"

/* ---- reading a segment ---- */

static enum err open_segment(const struct damage *damage, const struct found *found,
                             struct walker *out_walker)
{
    const struct walker_of of = directory_walker_of(damage->directory, found);
    enum err err = walker_open(out_walker, damage->disk, &of, DISK_FRESH);
    if (!err)
        walker_move_to(out_walker, BLOCK, found->head.batch_first);
    return err;
}

/* The first batch of the next segment; UINT64_MAX: there is none. */
static uint64_t batch_end_of(const struct damage *damage, size_t index)
{
    bool last = index + 1 == damage->segment_count;
    return last ? UINT64_MAX : damage->segments[index + 1].head.batch_first;
}

/* The next good batch behind a damaged one has a number below this. */
static uint64_t below_of(const struct damage *damage, uint64_t batch_end)
{
    return batch_end == UINT64_MAX ? damage->proven + 2 : batch_end;
}

/* ---- parsing a region ---- */

static struct suspect *add_suspect(struct damage *damage, uint32_t region_number, const char *at,
                                   const struct record *record)
{
    const struct region *region = &damage->regions[region_number];
    if (damage->suspect_count == damage->suspect_cap) {
        damage->suspect_cap = damage->suspect_cap ? damage->suspect_cap * 2 : 64;
        damage->suspects =
            mem_realloc(damage->suspects, damage->suspect_cap * sizeof(*damage->suspects));
    }
    struct suspect *suspect = &damage->suspects[damage->suspect_count++];
    const struct event *event = &record->event;
    *suspect = (struct suspect){
        .region = region_number,
        .kind = event->kind,
        .seq = event->job.seq,
        .where = where_of(region->number, region->start + (uint64_t)(at - region->bytes)),
        .at = at,
        .len = record->len,
        .died = event->record,
        .body_good = record->summed && record_body_good(record),
        .body_damaged =
            event->kind == EVENT_JOB && !record_body_good(record) && !record_is_invalidated(record),
    };
    return suspect;
}

/*
 * Is it what happened to a job, on which no job depends? No other record becomes one by a single
 * damaged byte: byte 5 is 0 in those alone that would then have an entry of no bytes, and in a
 * GONE, whose length does not fit.
 */
static bool is_of_history(const char *at, const struct record *record)
{
    if (!record->is_history || get_u8(at + 5) != 0)
        return false;
    const char *end = record->entry.at + record->entry.len;
    return bytes_all_zero(end, (size_t)(at + record->len - end));
}

/*
 * Adds the consecutive records from `at` up to `end`, or (`end` NULL) up to the first length of 0,
 * at most up to `room`. Returns where they end; NULL: one cannot be parsed.
 */
static const char *parse_records(struct damage *damage, uint32_t region, const char *at,
                                 const char *end, const char *room, uint32_t *out_count)
{
    struct record record;
    *out_count = 0;
    while (end ? at < end : room - at >= 16 && !bytes_all_zero(at, 4)) {
        if (record_decode(at, (size_t)((end ? end : room) - at), &record))
            return NULL;
        if (!record.is_event && !record.epoch && !is_of_history(at, &record))
            return NULL; /* one damaged bit can make an event look like a record to skip */
        if (record.is_event)
            (void)add_suspect(damage, region, at, &record);
        at += record.len;
        ++*out_count;
    }
    return at;
}

/*
 * Parses one batch of the region. Returns where the next one begins; NULL: it cannot be parsed. If
 * its header is damaged, the header's length or count of records must still match them.
 */
static const char *parse_batch(struct damage *damage, uint32_t number, const char *at,
                               uint64_t batch)
{
    struct region *region = &damage->regions[number];
    const char *room = region->bytes + (region->end - region->start);
    struct batch_head head = {0};
    uint32_t count;
    bool alone = region->batch_first == region->batch_last;
    if (room - at < BLOCK)
        return NULL;
    bool plausible = batch_head_decode(at, (uint64_t)(room - at), &head) == FORMAT_GOOD &&
                     head.number == batch && head.segment == region->number &&
                     head.store_tag == damage->tag;
    if (!plausible && !alone)
        return NULL;
    const char *records = at + BATCH_HEAD;
    const char *end = parse_records(damage, number, records,
                                    plausible ? records + head.payload_bytes : NULL, room, &count);
    if (!end)
        return NULL;
    uint64_t payload = (uint64_t)(end - records);
    uint32_t head_payload, head_count;
    batch_head_counts(at, &head_payload, &head_count);
    const char *next = at + batch_bytes(payload);
    if (next > room || (plausible && head_count != count) ||
        (!plausible && (!count || (head_payload != payload && head_count != count))))
        return NULL;
    bool padded = bytes_all_zero(end, (size_t)(next - end));
    if (!padded && !plausible)
        return NULL;
    region->located = region->located || !plausible || !padded;
    return next;
}

/* Finds intact jobs at any offset: their bodies have checksums of their own. */
static void find_intact_jobs(struct damage *damage, uint32_t number)
{
    const struct region *region = &damage->regions[number];
    const char *end = region->bytes + (region->end - region->start);
    struct record record;
    for (const char *at = region->bytes; end - at >= RECORD_JOB_HEAD;) {
        bool whole = !record_decode(at, (size_t)(end - at), &record) &&
                     record.event.kind == EVENT_JOB && record_body_good(&record);
        if (whole)
            (void)add_suspect(damage, number, at, &record);
        at += whole ? record.len : 8;
    }
}

static void parse_region(struct damage *damage, uint32_t number)
{
    struct region *region = &damage->regions[number];
    const char *end = region->bytes + (region->end - region->start);
    const char *at = region->bytes;
    region->first_suspect = damage->suspect_count;
    for (uint64_t batch = region->batch_first; at && batch <= region->batch_last; batch++)
        at = parse_batch(damage, number, at, batch);
    if (!at || !bytes_all_zero(at, (size_t)(end - at)))
        region->opaque = true;
    if (region->opaque) {
        damage->suspect_count = region->first_suspect;
        find_intact_jobs(damage, number);
    }
    region->suspect_end = damage->suspect_count;
}

/*
 * The end of the batch's own bytes in a mixed region: where consecutive records end, or the end in
 * the header, if that is readable. The header has no checksum of its own: if its end is within an
 * intact record, the header is damaged.
 */
static uint64_t own_end(const struct damage *damage, const struct region *region)
{
    struct batch_head head;
    struct record record;
    uint64_t room = region->end - region->start, at = BATCH_HEAD, end = 0;
    if (room < BLOCK || !batch_is_of(region->bytes, region->number, damage->tag))
        return region->start;
    if (batch_head_decode(region->bytes, room, &head) == FORMAT_GOOD)
        end = BATCH_HEAD + head.payload_bytes; /* else only the records show the end */
    while (at != end && room - at >= 16 &&
           record_decode(region->bytes + at, (size_t)(room - at), &record) == OK)
        at += record.len;
    bool broken = room - at >= 16 && !bytes_all_zero(region->bytes + at, 4);
    if (broken && at < end)
        at = end;
    return region->start + at;
}

static void add_region(struct damage *damage, struct scan *scan, const struct region *found)
{
    uint32_t number = (uint32_t)damage->region_count++;
    size_t size = damage->region_count * sizeof(*damage->regions);
    damage->regions = mem_realloc(damage->regions, size);
    struct region *region = &damage->regions[number];
    *region = *found;
    region->bytes = mem_zalloc((size_t)(region->end - region->start) + 1);
    for (uint64_t at = region->start; at < region->end; at += BLOCK) {
        const char *block;
        size_t len = 0;
        if (scan_bytes(scan, at, BLOCK, &block, &len))
            region->opaque = true;
        else
            memcpy(region->bytes + (at - region->start), block, len);
    }
    if (region->start == region->end)
        region->opaque = true;
    region->own_end = region->mixed ? own_end(damage, region) : region->end;
    CHECK(region->start <= region->end && region->own_end <= region->end);
    parse_region(damage, number);
}

/* ---- finding regions ---- */

/* Does a batch with a readable length begin here? */
static bool has_length(struct walker *walker)
{
    struct scan *scan = &walker->scan;
    struct batch_head head;
    const char *at;
    size_t len;
    return scan_bytes(scan, walker->offset, BLOCK, &at, &len) == OK && len == BLOCK &&
           batch_is_of(at, scan->number, scan->tag) &&
           batch_head_decode(at, scan->size_bytes - walker->offset, &head) == FORMAT_GOOD;
}

/*
 * The end of a region that no good batch of the log follows. In a reused file, batches whose first
 * blocks are lost look like the earlier segment: so all of the rest is examined.
 */
static uint64_t end_of_last(struct walker *walker, struct region *region)
{
    walker_move_to(walker, region->start, region->batch_first);
    region->mixed = walker->scan.key != 0;
    bool all = region->mixed && !has_length(walker);
    uint64_t end = walker_blank_from(walker, &region->opaque);
    uint64_t blocks = (walker->scan.size_bytes + BLOCK - 1) / BLOCK; /* a cut file ends in one */
    return all ? blocks * BLOCK : end;
}

static void survey_segment(struct damage *damage, size_t index, struct walker *walker)
{
    uint64_t batch_end = batch_end_of(damage, index);
    while (walker->expected < batch_end) {
        if (walker_classify(walker) == PLACE_BATCH) {
            walker_next(walker);
            continue;
        }
        uint64_t expected = walker->expected;
        if (batch_end == UINT64_MAX && expected > damage->proven)
            return; /* the log's end */
        struct region region = {
            .number = walker->scan.number, .start = walker->offset, .batch_first = expected};
        walker_move_to(walker, region.start + BLOCK, expected);
        bool found = walker_seek(walker, expected, below_of(damage, batch_end));
        uint64_t next = walker->offset, number = walker->head.number;
        region.end = found ? next : end_of_last(walker, &region);
        /* opaque: there are good batches, which do not continue the log; the rest is lost */
        region.batch_last = found                     ? number - 1
                            : batch_end == UINT64_MAX ? damage->proven
                                                      : batch_end - 1;
        walker->scan.narrow = true; /* block by block, because some may be unreadable */
        add_region(damage, &walker->scan, &region);
        walker->scan.narrow = false;
        if (!found)
            return;
        walker_move_to(walker, next, number);
    }
}

/* Finds the highest batch that the manifest or a batch calls durable. Later ones may be torn. */
static enum err find_proven(struct damage *damage, const struct manifest *manifest)
{
    struct walker walker;
    damage->proven = manifest->durable;
    if (damage->directory->history_last > damage->proven)
        damage->proven = damage->directory->history_last;
    if (damage->segment_count == 0)
        return OK;
    const struct found *last = &damage->segments[damage->segment_count - 1];
    if (last->head.batch_first - 1 > damage->proven)
        damage->proven = last->head.batch_first - 1;
    enum err err = open_segment(damage, last, &walker);
    if (err)
        return err;
    for (; walker_classify(&walker) != PLACE_END; walker_next(&walker))
        if (walker_durable(&walker) > damage->proven)
            damage->proven = walker_durable(&walker);
    walker_close(&walker);
    return OK;
}

static enum err find_regions(struct damage *damage)
{
    for (size_t i = 0; i < damage->segment_count; i++) {
        struct walker walker;
        enum err err = open_segment(damage, &damage->segments[i], &walker);
        if (err)
            return err;
        survey_segment(damage, i, &walker);
        walker_close(&walker);
    }
    return OK;
}

/* ---- indexes ---- */

static int by_key(const void *left, const void *right)
{
    const struct suspect_key *a = left;
    const struct suspect_key *b = right;
    return a->key < b->key ? -1 : a->key > b->key;
}

static bool is_of_topic(enum event_kind kind)
{
    return kind == EVENT_TOPIC || kind == EVENT_SETTINGS;
}

static uint64_t name_key(struct bytes id, struct bytes topic)
{
    return id.len ? hash_seeded(id.at, id.len, 1) : hash_seeded(topic.at, topic.len, 2);
}

static void index_suspects(struct damage *damage)
{
    struct suspect_index *const all[] = {&damage->by_place, &damage->by_died, &damage->by_seq,
                                         &damage->by_name};
    size_t count = damage->suspect_count;
    for (int i = 0; i < 4; i++) {
        all[i]->at = mem_alloc((count + 1) * sizeof(*all[i]->at));
        all[i]->count = count;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct suspect *suspect = &damage->suspects[i];
        struct record record;
        enum err err = record_decode(suspect->at, suspect->len, &record);
        bool named = !err && (record.event.id.len || is_of_topic(suspect->kind));
        damage->by_place.at[i] = (struct suspect_key){suspect->where, i};
        damage->by_died.at[i] = (struct suspect_key){suspect->died.where, i};
        damage->by_seq.at[i] = (struct suspect_key){suspect->seq, i};
        damage->by_name.at[i] =
            (struct suspect_key){named ? name_key(record.event.id, record.event.topic) : 0, i};
    }
    for (int i = 0; i < 4 && count; i++)
        qsort(all[i]->at, count, sizeof(*all[i]->at), by_key);
}

/* The first entry with that key, or NULL. */
static const struct suspect_key *first_with(const struct suspect_index *index, uint64_t key)
{
    size_t low = 0;
    size_t high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->at[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < index->count && index->at[low].key == key ? &index->at[low] : NULL;
}

/* The next entry with the same key, or NULL. */
static const struct suspect_key *next_with(const struct suspect_index *index,
                                           const struct suspect_key *found)
{
    const struct suspect_key *next = found + 1;
    return next < index->at + index->count && next->key == found->key ? next : NULL;
}

/* ---- comparing suspects with good records ---- */

/* Is this job's record the one that the suspect claims to end or replace? */
static bool is_victim(const struct suspect *suspect, const struct event *victim, size_t len)
{
    struct record record;
    if (suspect->died.bytes != len || record_decode(suspect->at, suspect->len, &record))
        return false;
    return suspect->seq == victim->job.seq ||
           (victim->id.len && bytes_eq(record.event.id, victim->id));
}

/* A good record ended or replaced the one at `died`. */
static void match_death(struct damage *damage, struct stored died)
{
    const struct suspect_index *index = &damage->by_place;
    const struct suspect_key *key = died.where ? first_with(index, died.where) : NULL;
    for (; key; key = next_with(index, key)) {
        struct suspect *suspect = &damage->suspects[key->suspect];
        suspect->dead = suspect->dead || (suspect->kind == EVENT_JOB && suspect->len == died.bytes);
    }
}

/* A good record of a job is at `where`: finds the suspects that claim to end or replace it. */
static void match_victim(struct damage *damage, uint64_t where, const struct record *record)
{
    const struct suspect_index *index = &damage->by_died;
    for (const struct suspect_key *key = first_with(index, where); key;
         key = next_with(index, key)) {
        struct suspect *suspect = &damage->suspects[key->suspect];
        if (!is_victim(suspect, &record->event, record->len))
            continue;
        suspect->proven = true;
        suspect->died_seq = record->event.job.seq;
    }
}

static void match_record(struct damage *damage, uint64_t batch, uint64_t where,
                         const struct record *record)
{
    const struct event *event = &record->event;
    bool of_topic = is_of_topic(event->kind);
    bool named = event->id.len || of_topic;
    if (event->job.seq > damage->seq_max)
        damage->seq_max = event->job.seq;
    const struct suspect_index *seqs = &damage->by_seq;
    const struct suspect_index *names = &damage->by_name;
    match_death(damage, event->record);
    if (event->kind == EVENT_JOB)
        match_victim(damage, where, record);
    bool of_job = !of_topic && event->kind != EVENT_NOTE; /* a note does not repeat its job */
    const struct suspect_key *key = of_job ? first_with(seqs, event->job.seq) : NULL;
    for (; key; key = next_with(seqs, key)) {
        struct suspect *suspect = &damage->suspects[key->suspect];
        bool later = batch > damage->regions[suspect->region].batch_last;
        bool anew = suspect->kind != EVENT_JOB ||
                    event->kind != EVENT_MOVE; /* a MOVE does not have the body */
        suspect->superseded = suspect->superseded || (later && anew);
        suspect->seq_known = suspect->seq_known || (!later && event->kind == EVENT_JOB);
        suspect->known_before = suspect->known_before || suspect->seq_known;
    }
    key = named ? first_with(names, name_key(event->id, event->topic)) : NULL;
    for (; key; key = next_with(names, key)) {
        struct suspect *suspect = &damage->suspects[key->suspect];
        bool later = batch > damage->regions[suspect->region].batch_last;
        suspect->superseded =
            suspect->superseded || (later && of_topic && suspect->kind == event->kind);
        suspect->known_before = suspect->known_before || !later;
    }
}

static enum err match_batch(void *ctx, const struct good_batch *batch)
{
    struct batch_walk walk;
    batch_walk_init(&walk, batch->at, batch->head->payload_bytes);
    while (batch_walk_next(&walk) == OK) /* recovery reports invalid records */
        match_record(ctx, batch->head->number,
                     where_of(batch->number, batch->offset + walk.record_at), &walk.record);
    return OK;
}

static enum err ignore_region(void *ctx, struct region *region)
{
    const struct damage *damage = ctx;
    region->seq_before = damage->seq_max;
    return OK;
}

/* Compares suspects with each other: one damaged bit cannot make two of them agree either. */
static void match_suspects(struct damage *damage)
{
    for (size_t i = 0; i < damage->suspect_count; i++) {
        struct suspect *suspect = &damage->suspects[i];
        struct record record;
        const struct suspect_index *index = &damage->by_place;
        const struct suspect_key *key =
            suspect->died.where ? first_with(index, suspect->died.where) : NULL;
        for (; key; key = next_with(index, key)) {
            struct suspect *victim = &damage->suspects[key->suspect];
            if (victim->kind != EVENT_JOB || record_decode(victim->at, victim->len, &record) ||
                !is_victim(suspect, &record.event, victim->len))
                continue;
            suspect->proven = victim->dead = true;
            suspect->died_seq = victim->seq;
        }
    }
}

/* ---- the verdict ---- */

/* Jobs of the earlier segment in the file have ended, or have a record elsewhere. */
static void judge_earlier(struct damage *damage)
{
    for (size_t i = 0; i < damage->suspect_count; i++) {
        struct suspect *suspect = &damage->suspects[i];
        const struct region *region = &damage->regions[suspect->region];
        bool foreign = region->opaque && where_offset(suspect->where) >= region->own_end;
        suspect->dead = suspect->dead || (foreign && suspect->kind == EVENT_JOB &&
                                          !suspect->proven && suspect->seq <= region->seq_before);
    }
}

static bool in_log(const struct damage *damage, uint32_t number)
{
    for (size_t i = 0; i < damage->segment_count; i++)
        if (damage->segments[i].number == number)
            return true;
    return false;
}

/*
 * Can the suspect be about a job that exists? If there are slices, always: the log need not have a
 * record of a far job, and a damaged bit can hide that the suspect is about one.
 */
static bool may_matter(const struct damage *damage, const struct suspect *suspect)
{
    return suspect->known_before || damage->directory->slice_count > 0;
}

/* Is it certain that without this record no job would live that it ended or replaced? */
static bool ends_nothing_unproven(const struct damage *damage, const struct suspect *suspect)
{
    if (!suspect->died.where)
        return suspect->kind == EVENT_JOB || !may_matter(damage, suspect);
    return suspect->proven ||
           (!may_matter(damage, suspect) && !in_log(damage, where_segment(suspect->died.where)));
}

static bool is_harmless(const struct damage *damage, const struct suspect *suspect, bool located)
{
    switch (suspect->kind) {
    case EVENT_JOB: return suspect->dead && ends_nothing_unproven(damage, suspect);
    case EVENT_GONE: return ends_nothing_unproven(damage, suspect);
    case EVENT_MOVE: return located && (suspect->superseded || !may_matter(damage, suspect));
    case EVENT_TOPIC: return located && suspect->superseded;
    case EVENT_NOTE: return true; /* no job is lost with it */
    case EVENT_SETTINGS: return suspect->body_good && suspect->superseded;
    }
    return false;
}

/* Sets `located` and `harmless` of the region and its suspects. */
static void set_harmless(struct damage *damage, struct region *region)
{
    region->harmless = !region->opaque;
    for (size_t i = region->first_suspect; i < region->suspect_end; i++) {
        const struct suspect *suspect = &damage->suspects[i];
        bool own_sum = suspect->kind == EVENT_NOTE || suspect->kind == EVENT_SETTINGS;
        if ((suspect->dead && suspect->body_damaged) || (own_sum && !suspect->body_good))
            region->located = true;
    }
    for (size_t i = region->first_suspect; i < region->suspect_end; i++) {
        struct suspect *suspect = &damage->suspects[i];
        suspect->harmless = is_harmless(damage, suspect, region->located);
        region->harmless = region->harmless && suspect->harmless;
    }
}

enum err damage_survey(struct disk *disk, const struct directory *directory, size_t first_segment,
                       struct damage *out_damage)
{
    static const struct damage_reader matching = {.batch = match_batch, .region = ignore_region};
    struct damage damage = {
        .disk = disk,
        .tag = store_tag(&directory->manifest.id),
        .directory = directory,
        .segments = directory->found + first_segment,
        .segment_count = directory->used - first_segment,
    };
    struct damage_reader reader = matching;
    reader.ctx = &damage;
    enum err err = find_proven(&damage, &directory->manifest);
    if (!err)
        err = find_regions(&damage);
    if (!err) {
        index_suspects(&damage);
        err = damage_read(&damage, &reader);
    }
    if (err) {
        damage_fini(&damage);
        return err;
    }
    match_suspects(&damage);
    judge_earlier(&damage);
    for (size_t i = 0; i < damage.region_count; i++)
        set_harmless(&damage, &damage.regions[i]);
    *out_damage = damage;
    return OK;
}

void damage_fini(struct damage *damage)
{
    for (size_t i = 0; i < damage->region_count; i++)
        mem_free(damage->regions[i].bytes);
    mem_free(damage->regions);
    mem_free(damage->suspects);
    mem_free(damage->by_place.at);
    mem_free(damage->by_died.at);
    mem_free(damage->by_seq.at);
    mem_free(damage->by_name.at);
    *damage = (struct damage){0};
}

struct region *damage_region(const struct damage *damage, uint32_t number, uint64_t offset)
{
    for (size_t i = 0; i < damage->region_count; i++)
        if (damage->regions[i].number == number && damage->regions[i].start == offset)
            return &damage->regions[i];
    return NULL;
}

bool damage_covers(const struct damage *damage, uint64_t where)
{
    uint64_t offset = where_offset(where);
    for (size_t i = 0; i < damage->region_count; i++) {
        const struct region *region = &damage->regions[i];
        if (region->number == where_segment(where) && offset >= region->start &&
            offset < region->end)
            return true;
    }
    return false;
}

/* ---- reading the log ---- */

static enum err read_segment(struct damage *damage, size_t index, struct walker *walker,
                             const struct damage_reader *reader)
{
    uint64_t batch_end = batch_end_of(damage, index);
    uint32_t number = walker->scan.number;
    enum err err = OK;
    while (walker->expected < batch_end && !err) {
        struct region *region = damage_region(damage, number, walker->offset);
        if (region &&
            region->batch_first == walker->expected) { /* else it is empty, and was skipped */
            err = reader->region(reader->ctx, region);
            walker_move_to(walker, region->end, region->batch_last + 1);
            continue;
        }
        if (walker_classify(walker) != PLACE_BATCH)
            return OK; /* the log's end */
        err = reader->batch(reader->ctx, &(struct good_batch){number, walker->offset, &walker->head,
                                                              walker->batch});
        walker_next(walker);
    }
    return err;
}

enum err damage_read(struct damage *damage, const struct damage_reader *reader)
{
    enum err err = OK;
    for (size_t i = 0; i < damage->segment_count && !err; i++) {
        struct walker walker;
        err = open_segment(damage, &damage->segments[i], &walker);
        if (err)
            return err;
        err = read_segment(damage, i, &walker, reader);
        walker_close(&walker);
    }
    return err;
}

/* ---- messages ---- */

/* Copies a client's bytes, with '?' for what is not printable, so that they cannot forge output. */
static void quote(struct bytes text, char *room, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < text.len && used + 1 < size; i++) {
        char c = text.at[i];
        room[used++] = c >= ' ' && c <= '~' && c != '"' && c != '\\' ? c : '?';
    }
    room[used] = '\0';
}

/* Without a client's id the job's id is "@" and its number, which is shown of each. */
static void name_id(struct bytes id, char *room, size_t size)
{
    char quoted[80];
    quote(id, quoted, sizeof(quoted));
    room[0] = '\0';
    if (id.len)
        (void)snprintf(room, size, "id \"%s\", ", quoted); /* it fits */
}

static void time_text(int64_t us, char *room, size_t size)
{
    struct tm parts;
    time_t seconds = (time_t)(us / 1000000);
    if (us < 0 || !gmtime_r(&seconds, &parts) ||
        strftime(room, size, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        (void)snprintf(room, size, "%" PRId64 " us", us);
}

const char *damage_batches(uint64_t first, uint64_t last, char room[static DAMAGE_BATCHES_ROOM])
{
    if (first == last)
        (void)snprintf(room, DAMAGE_BATCHES_ROOM, "batch %" PRIu64, first);
    else
        (void)snprintf(room, DAMAGE_BATCHES_ROOM, "batches %" PRIu64 " to %" PRIu64, first, last);
    return room; /* both numbers fit */
}

void damage_describe(const struct suspect *suspect, char *out_line, size_t room)
{
    struct record record;
    char id[96];
    char topic[80];
    char due[40];
    if (record_decode(suspect->at, suspect->len, &record)) {
        (void)snprintf(out_line, room, "a record that cannot be read");
        return;
    }
    name_id(record.event.id, id, sizeof(id));
    quote(record.event.topic, topic, sizeof(topic));
    time_text(record.event.job.due_us, due, sizeof(due));
    switch (suspect->kind) {
    case EVENT_JOB:
        (void)snprintf(out_line, room,
                       "job @%" PRIu64 " (%stopic \"%s\", due %s) is in a damaged batch; "
                       "its body is %s",
                       suspect->seq, id, topic, due, suspect->body_good ? "intact" : "damaged");
        break;
    case EVENT_MOVE:
        (void)snprintf(out_line, room,
                       "job @%" PRIu64 " (due %s): a change of its state or due time is in a "
                       "damaged batch",
                       suspect->seq, due);
        break;
    case EVENT_GONE:
        (void)snprintf(out_line, room,
                       "job @%" PRIu64 ": that it was finished or deleted is in a damaged batch",
                       suspect->seq);
        break;
    case EVENT_TOPIC:
        (void)snprintf(out_line, room, "topic \"%s\": its pause is in a damaged batch", topic);
        break;
    case EVENT_NOTE:
        (void)snprintf(out_line, room,
                       "job @%" PRIu64 ": the note of an attempt is in a damaged batch, and is %s",
                       suspect->seq, suspect->body_good ? "intact" : "lost");
        break;
    case EVENT_SETTINGS:
        (void)snprintf(out_line, room, "topic \"%s\": its settings are in a damaged batch", topic);
        break;
    }
}
