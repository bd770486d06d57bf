#include "store/record.h"

#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "store/body.h"
#include "store/format.h"
#include "store/history/history_format.h"
#include "store/slices/far_record.h"
#include "store/store.h"

/* Bits of a JOB's byte 6. */
enum { JOB_BODY_KIND = 0x7f, JOB_HAS_PROPERTIES = 0x80 };

enum { PROPERTIES_HEAD = 2 }; /* their length */

static size_t round_up(size_t len)
{
    return (len + 7) & ~(size_t)7;
}

/* What properties take, with their length. */
static size_t properties_bytes(const struct event *event)
{
    return event->properties.len ? PROPERTIES_HEAD + event->properties.len : 0;
}

/* Of a MOVE: bytes in front of the id. */
static size_t move_head(const struct event *event)
{
    return event->record.where ? RECORD_PLACED : RECORD_MOVE;
}

size_t record_bytes(const struct event *event)
{
    switch (event->kind) {
    case EVENT_JOB:
        return round_up(RECORD_JOB_HEAD + event->content_type.len + event->body.len +
                        properties_bytes(event) + event->retry_count * sizeof(int64_t) +
                        event->id.len + event->topic.len);
    case EVENT_MOVE: return round_up(move_head(event) + event->id.len);
    case EVENT_GONE: return round_up(RECORD_GONE + event->id.len);
    case EVENT_TOPIC: return round_up(RECORD_TOPIC_HEAD + event->topic.len);
    case EVENT_NOTE: return round_up(RECORD_NOTE_HEAD + event->body.len);
    case EVENT_SETTINGS: return round_up(RECORD_SETTINGS_HEAD + event->body.len + event->topic.len);
    }
    CHECK(false); /* an event of an unknown kind */
    return 0;
}

/* ---- encode ---- */

static inline void put_counts(char *at, const struct job_counts *counts)
{
    put_u16(at + 0, counts->reserves);
    put_u16(at + 2, counts->timeouts);
    put_u16(at + 4, counts->releases);
    put_u16(at + 6, counts->buries);
    put_u16(at + 8, counts->kicks);
}

/* The checksum of what follows the head, up to `end`. */
static void put_sum(char *at, const char *end)
{
    const char *summed = at + RECORD_JOB_HEAD;
    put_u64(at + 96, hash_seeded(summed, (size_t)(end - summed), get_u64(at + 8)));
}

/* Without the body, its place is left as it is. */
static void encode_job(const struct event *event, char *at, bool with_body)
{
    const struct job_now *job = &event->job;
    CHECK(event->id.len <= JOB_ID_MAX && event->topic.len <= TOPIC_NAME_MAX);
    CHECK(event->content_type.len <= CONTENT_TYPE_MAX && event->body.len <= UINT32_MAX);
    CHECK(event->retry_count <= RETRY_STEPS_MAX && event->properties.len <= JOB_PROPERTIES_MAX);
    put_u8(at + 5, (uint8_t)job->state);
    put_u8(at + 6, (uint8_t)(event->body_kind | (event->properties.len ? JOB_HAS_PROPERTIES : 0)));
    put_u8(at + 7, event->retry_count);
    put_u64(at + 8, job->seq);
    put_u64(at + 16, (uint64_t)job->due_us);
    put_u64(at + 24, (uint64_t)job->until_us);
    put_u64(at + 32, (uint64_t)event->ttr_us);
    put_u64(at + 40, (uint64_t)event->created_us);
    put_u64(at + 48, job->lease);
    put_u64(at + 56, event->record.where);
    put_u32(at + 64, event->record.bytes);
    put_u32(at + 68, job->priority);
    put_u16(at + 72, job->failures);
    put_counts(at + 74, &job->counts);
    put_u8(at + 84, (uint8_t)event->id.len);
    put_u8(at + 85, (uint8_t)event->topic.len);
    put_u8(at + 86, (uint8_t)event->content_type.len);
    put_u8(at + 87, (uint8_t)event->order);
    put_u32(at + 88, (uint32_t)event->body.len);
    put_u32(at + 92, event->delay_s);
    char *end = bytes_put(at + RECORD_JOB_HEAD, event->content_type);
    end = with_body ? bytes_put(end, event->body) : end + event->body.len;
    if (event->properties.len) {
        put_u16(end, (uint16_t)event->properties.len);
        end = bytes_put(end + PROPERTIES_HEAD, event->properties);
    }
    if (with_body)
        put_sum(at, end);
    for (unsigned i = 0; i < event->retry_count; i++, end += sizeof(int64_t))
        put_u64(end, (uint64_t)event->retry_us[i]);
    end = bytes_put(end, event->id);
    (void)bytes_put(end, event->topic); /* the padding is there already */
}

static void encode_move(const struct event *event, char *at)
{
    const struct job_now *job = &event->job;
    put_u8(at + 5, (uint8_t)job->state);
    put_u16(at + 6, job->failures);
    put_u64(at + 8, job->seq);
    put_u64(at + 16, (uint64_t)job->due_us);
    put_u64(at + 24, (uint64_t)job->until_us);
    put_u64(at + 32, job->lease);
    put_u32(at + 40, job->priority);
    put_counts(at + 44, &job->counts);
    put_u8(at + 54, (uint8_t)event->id.len);
    put_u8(at + 55, 0);
    if (event->record.where) {
        put_u8(at + 4, RECORD_AT);
        put_u64(at + RECORD_MOVE, event->record.where);
    }
    (void)bytes_put(at + move_head(event), event->id); /* the padding is there already */
}

static void encode_gone(const struct event *event, char *at)
{
    put_u8(at + 5, (uint8_t)event->end);
    put_u8(at + 6, (uint8_t)event->id.len);
    put_u8(at + 7, 0);
    put_u64(at + 8, event->job.seq);
    put_u64(at + 16, event->record.where);
    put_u32(at + 24, event->record.bytes);
    put_u32(at + 28, 0);
    (void)bytes_put(at + RECORD_GONE, event->id); /* the padding is there already */
}

static void encode_topic(const struct event *event, char *at)
{
    CHECK(event->topic.len <= TOPIC_NAME_MAX);
    put_u8(at + 5, (uint8_t)event->topic.len);
    put_u16(at + 6, 0);
    put_u64(at + 8, (uint64_t)event->pause_until_us);
    (void)bytes_put(at + RECORD_TOPIC_HEAD, event->topic); /* the padding is there already */
}

enum { NOTE_SUMMED = 24 }; /* from there on all of it has a sum */

static void encode_note(const struct event *event, char *at)
{
    CHECK(event->body.len > 0 && event->body.len <= JOB_NOTE_MAX);
    put_u8(at + 5, 0);
    put_u16(at + 6, 0);
    put_u64(at + 8, event->job.seq);
    put_u64(at + 24, (uint64_t)event->note.at_us);
    put_u32(at + 32, event->note.number);
    put_u16(at + 36, event->note.code);
    put_u16(at + 38, (uint16_t)event->body.len);
    const char *end = bytes_put(at + RECORD_NOTE_HEAD, event->body);
    put_u64(at + 16,
            hash_seeded(at + NOTE_SUMMED, (size_t)(end - at) - NOTE_SUMMED, event->job.seq));
}

static void encode_settings(const struct event *event, char *at)
{
    CHECK(event->topic.len <= TOPIC_NAME_MAX && event->body.len <= TOPIC_SETTINGS_MAX);
    char *bytes = at + RECORD_SETTINGS_HEAD;
    put_u8(at + 5, (uint8_t)event->topic.len);
    put_u16(at + 6, (uint16_t)event->body.len);
    put_u64(at + 8, event->job.seq);
    put_u64(at + 16, 0);
    const char *end = bytes_put(bytes_put(bytes, event->body), event->topic);
    put_u64(at + 24, hash_seeded(bytes, (size_t)(end - bytes), event->job.seq));
}

static void begin_record(const struct event *event, size_t len, char *at)
{
    put_u64(at + len - 8, 0); /* the padding: zeros */
    put_u32(at + 0, (uint32_t)len);
    put_u8(at + 4, (uint8_t)event->kind);
}

void record_encode_without_body(const struct event *event, size_t len, void *record)
{
    CHECK(event->kind == EVENT_JOB);
    begin_record(event, len, record);
    encode_job(event, record, false);
}

void record_put_body(void *record, struct bytes body)
{
    char *at = record;
    CHECK(body.len == get_u32(at + 88));
    char *end = bytes_put(at + RECORD_JOB_HEAD + get_u8(at + 86), body);
    if (get_u8(at + 6) & JOB_HAS_PROPERTIES)
        end += PROPERTIES_HEAD + get_u16(end);
    put_sum(at, end);
}

void record_encode(const struct event *event, size_t len, void *record)
{
    char *at = record;
    begin_record(event, len, at);
    switch (event->kind) {
    case EVENT_JOB: encode_job(event, at, true); return;
    case EVENT_MOVE: encode_move(event, at); return;
    case EVENT_GONE: encode_gone(event, at); return;
    case EVENT_TOPIC: encode_topic(event, at); return;
    case EVENT_NOTE: encode_note(event, at); return;
    case EVENT_SETTINGS: encode_settings(event, at); return;
    }
}

void record_mark_copy(void *record)
{
    char *at = record;
    put_u8(at + 4, get_u8(at + 4) | RECORD_COPY);
}

void record_epoch_encode(uint64_t epoch, void *record)
{
    char *at = record;
    put_u64(at, 0);
    put_u32(at, RECORD_EPOCH_BYTES);
    put_u8(at + 4, RECORD_EPOCH);
    put_u64(at + 8, epoch);
}

void record_invalidate(void *record)
{
    char *at = record;
    put_u64(at + 96, ~get_u64(at + 96));
}

/* ---- decode ---- */

static struct job_counts get_counts(const char *at)
{
    return (struct job_counts){
        .reserves = get_u16(at + 0),
        .timeouts = get_u16(at + 2),
        .releases = get_u16(at + 4),
        .buries = get_u16(at + 6),
        .kicks = get_u16(at + 8),
    };
}

static bool state_possible(uint8_t state)
{
    return state > JOB_GONE && state < JOB_STATES;
}

/* Decodes what follows content type and body. False: it cannot be properties. */
static bool decode_properties(const char *at, size_t len, struct event *event)
{
    uint64_t start = (uint64_t)RECORD_JOB_HEAD + event->content_type.len + event->body.len;
    if (!(get_u8(at + 6) & JOB_HAS_PROPERTIES))
        return true;
    if (start + PROPERTIES_HEAD > len)
        return false;
    event->properties = bytes_of(at + start + PROPERTIES_HEAD, get_u16(at + start));
    return event->properties.len > 0 && event->properties.len <= JOB_PROPERTIES_MAX;
}

static bool decode_job(const char *at, size_t len, struct record *record)
{
    struct event *event = &record->event;
    if (len < RECORD_JOB_HEAD || !state_possible(get_u8(at + 5)) ||
        (get_u8(at + 6) & JOB_BODY_KIND) > BODY_JSON || get_u8(at + 7) > RETRY_STEPS_MAX ||
        get_u8(at + 87) > ORDER_ARRIVAL)
        return false;
    event->job = (struct job_now){
        .seq = get_u64(at + 8),
        .state = get_u8(at + 5),
        .priority = get_u32(at + 68),
        .due_us = (int64_t)get_u64(at + 16),
        .until_us = (int64_t)get_u64(at + 24),
        .lease = get_u64(at + 48),
        .failures = get_u16(at + 72),
        .counts = get_counts(at + 74),
    };
    event->body_kind = get_u8(at + 6) & JOB_BODY_KIND;
    event->retry_count = get_u8(at + 7);
    event->ttr_us = (int64_t)get_u64(at + 32);
    event->created_us = (int64_t)get_u64(at + 40);
    event->order = get_u8(at + 87);
    event->delay_s = get_u32(at + 92);
    event->record = (struct stored){.where = get_u64(at + 56), .bytes = get_u32(at + 64)};
    event->id.len = get_u8(at + 84);
    event->topic.len = get_u8(at + 85);
    event->content_type.len = get_u8(at + 86);
    event->body.len = get_u32(at + 88);
    if (!decode_properties(at, len, event) || record_bytes(event) != len ||
        event->topic.len > TOPIC_NAME_MAX || !event->topic.len ||
        event->content_type.len > CONTENT_TYPE_MAX || !event->job.seq)
        return false;
    record->body_sum = get_u64(at + 96);
    event->content_type.at = at + RECORD_JOB_HEAD;
    event->body.at = event->content_type.at + event->content_type.len;
    const char *retry = event->body.at + event->body.len + properties_bytes(event);
    record->summed = event->content_type.at;
    record->body_bytes = (size_t)(retry - event->content_type.at);
    for (unsigned i = 0; i < event->retry_count; i++)
        record->retry_us[i] = (int64_t)get_u64(retry + i * sizeof(int64_t));
    event->retry_us = record->retry_us;
    event->id.at = retry + event->retry_count * sizeof(int64_t);
    event->topic.at = event->id.at + event->id.len;
    return true;
}

static bool decode_move(const char *at, size_t len, struct record *record, size_t head)
{
    if (len < head || !state_possible(get_u8(at + 5)) || !get_u64(at + 8))
        return false;
    record->event.id = bytes_of(at + head, get_u8(at + 54));
    if (head == RECORD_PLACED) {
        record->event.record.where = get_u64(at + RECORD_MOVE);
        if (!record->event.record.where)
            return false;
    }
    record->event.job = (struct job_now){
        .seq = get_u64(at + 8),
        .state = get_u8(at + 5),
        .priority = get_u32(at + 40),
        .due_us = (int64_t)get_u64(at + 16),
        .until_us = (int64_t)get_u64(at + 24),
        .lease = get_u64(at + 32),
        .failures = get_u16(at + 6),
        .counts = get_counts(at + 44),
    };
    return record_bytes(&record->event) == len;
}

static bool decode_gone(const char *at, size_t len, struct record *record)
{
    if (len < RECORD_GONE || get_u8(at + 5) > END_DELETED || !get_u64(at + 8))
        return false;
    record->event.end = get_u8(at + 5);
    record->event.id = bytes_of(at + RECORD_GONE, get_u8(at + 6));
    record->event.job = (struct job_now){.seq = get_u64(at + 8)};
    record->event.record = (struct stored){.where = get_u64(at + 16), .bytes = get_u32(at + 24)};
    return record_bytes(&record->event) == len;
}

static bool decode_topic(const char *at, size_t len, struct record *record)
{
    struct event *event = &record->event;
    if (len < RECORD_TOPIC_HEAD)
        return false;
    event->topic = bytes_of(at + RECORD_TOPIC_HEAD, get_u8(at + 5));
    event->pause_until_us = (int64_t)get_u64(at + 8);
    return event->topic.len > 0 && event->topic.len <= TOPIC_NAME_MAX &&
           record_bytes(event) == len && event->pause_until_us >= 0;
}

static bool decode_note(const char *at, size_t len, struct record *record)
{
    struct event *event = &record->event;
    if (len < RECORD_NOTE_HEAD)
        return false;
    event->job.seq = get_u64(at + 8);
    event->note = (struct note_head){
        .at_us = (int64_t)get_u64(at + 24), .number = get_u32(at + 32), .code = get_u16(at + 36)};
    event->body = bytes_of(at + RECORD_NOTE_HEAD, get_u16(at + 38));
    record->body_sum = get_u64(at + 16);
    record->summed = at + NOTE_SUMMED;
    record->body_bytes = RECORD_NOTE_HEAD - NOTE_SUMMED + event->body.len;
    return event->job.seq > 0 && event->note.number > 0 && event->body.len > 0 &&
           event->body.len <= JOB_NOTE_MAX && record_bytes(event) == len;
}

static bool decode_settings(const char *at, size_t len, struct record *record)
{
    struct event *event = &record->event;
    if (len < RECORD_SETTINGS_HEAD)
        return false;
    event->job.seq = get_u64(at + 8);
    event->body = bytes_of(at + RECORD_SETTINGS_HEAD, get_u16(at + 6));
    event->topic = bytes_of(event->body.at + event->body.len, get_u8(at + 5));
    record->body_sum = get_u64(at + 24);
    record->summed = event->body.at;
    record->body_bytes = event->body.len + event->topic.len;
    return event->topic.len > 0 && event->topic.len <= TOPIC_NAME_MAX && event->job.seq > 0 &&
           event->body.len <= TOPIC_SETTINGS_MAX && record_bytes(event) == len;
}

static bool decode_event(const char *at, size_t len, struct record *record)
{
    switch (record->event.kind) {
    case EVENT_JOB: return decode_job(at, len, record);
    case EVENT_MOVE: return decode_move(at, len, record, RECORD_MOVE);
    case EVENT_GONE: return decode_gone(at, len, record);
    case EVENT_TOPIC: return decode_topic(at, len, record);
    case EVENT_NOTE: return decode_note(at, len, record);
    case EVENT_SETTINGS: return decode_settings(at, len, record);
    }
    return false; /* of a kind that is not known here */
}

static enum err decode_epoch(const char *at, size_t len, struct record *record)
{
    record->epoch = get_u64(at + 8);
    return len == RECORD_EPOCH_BYTES && record->epoch > 0 ? OK : ERR_CORRUPT;
}

/* Decodes FAR and SLICE records. False: the record has another kind. */
static bool decode_of_slices(const char *at, size_t len, unsigned kind, struct record *record,
                             bool *out_good)
{
    switch (kind) {
    case RECORD_SLICE:
        record->is_slice = true;
        *out_good = slice_record_decode(at, len, &record->slice);
        return true;
    case RECORD_FAR:
        record->is_event = record->is_far = true;
        *out_good = !record->copy && far_record_decode(at, len, record);
        return true;
    case RECORD_AT:
        record->is_event = true;
        record->event.kind = EVENT_MOVE;
        *out_good = decode_move(at, len, record, RECORD_PLACED);
        return true;
    default: return false;
    }
}

enum err record_decode(const void *bytes, size_t room, struct record *out_record)
{
    const char *at = bytes;
    bool good;
    if (room < 16)
        return ERR_CORRUPT;
    size_t len = get_u32(at);
    if (len < 16 || len % 8 != 0 || len > room)
        return ERR_CORRUPT;
    uint8_t kind = get_u8(at + 4);
    out_record->len = len;
    out_record->event = (struct event){0};
    out_record->is_event = false;
    out_record->copy = kind & RECORD_COPY;
    out_record->is_far = out_record->is_slice = false;
    out_record->epoch = 0;
    out_record->summed = NULL;
    out_record->body_bytes = 0;
    out_record->is_history = false;
    if (kind & RECORD_SKIP) { /* one that is not valid is skipped as well: no job is concerned */
        if (kind == RECORD_HISTORY)
            out_record->is_history = history_record_decode(at, len, &out_record->entry);
        return OK;
    }
    if (kind == RECORD_EPOCH)
        return decode_epoch(at, len, out_record);
    if (decode_of_slices(at, len, kind & ~(unsigned)RECORD_COPY, out_record, &good))
        return good ? OK : ERR_CORRUPT;
    out_record->is_event = true;
    out_record->event.kind = kind & ~(unsigned)RECORD_COPY;
    return decode_event(at, len, out_record) ? OK : ERR_CORRUPT;
}

static unsigned kind_of(const char *at)
{
    return get_u8(at + 4) & ~(unsigned)RECORD_COPY;
}

enum err record_peek_seq(const void *bytes, size_t room, size_t *out_len, uint64_t *out_seq)
{
    const char *at = bytes;
    size_t len = room < 16 ? 0 : get_u32(at);
    if (len < 16 || len % 8 != 0 || len > room)
        return ERR_CORRUPT;
    unsigned kind = kind_of(at);
    bool of_job =
        kind == EVENT_JOB || kind == EVENT_MOVE || kind == EVENT_GONE || kind == RECORD_AT;
    *out_len = len;
    *out_seq = of_job ? get_u64(at + 8) : 0;
    return OK;
}

enum err record_peek(const void *bytes, size_t room, size_t *out_len, struct job_ref *out_ref)
{
    const char *at = bytes;
    size_t len;
    uint64_t seq;
    if (record_peek_seq(bytes, room, &len, &seq))
        return ERR_CORRUPT;
    struct event event = {.kind = kind_of(at)};
    *out_ref = (struct job_ref){.seq = seq};
    *out_len = len;
    if (event.kind != EVENT_JOB || len < RECORD_JOB_HEAD)
        return OK;
    event.content_type.len = get_u8(at + 86);
    event.body.len = get_u32(at + 88);
    if (!decode_properties(at, len, &event))
        return ERR_CORRUPT;
    size_t front = RECORD_JOB_HEAD + event.content_type.len + event.body.len +
                   properties_bytes(&event) + get_u8(at + 7) * sizeof(int64_t);
    if (front + get_u8(at + 84) > len)
        return ERR_CORRUPT;
    out_ref->id = bytes_of(at + front, get_u8(at + 84));
    return OK;
}

/* ---- a batch's records ---- */

void batch_walk_init(struct batch_walk *walk, const char *batch, uint32_t payload_bytes)
{
    walk->shows_slices = walk->shows_history = false;
    walk->batch = batch;
    walk->at = walk->record_at = BATCH_HEAD;
    walk->end = BATCH_HEAD + (size_t)payload_bytes;
    walk->count = 0;
    walk->epoch = 0;
}

enum err batch_walk_next(struct batch_walk *walk)
{
    struct record *record = &walk->record;
    while (walk->at < walk->end) {
        if (record_decode(walk->batch + walk->at, walk->end - walk->at, record))
            return ERR_CORRUPT;
        if (record->epoch && walk->count > 0)
            return ERR_CORRUPT; /* only the first record may be an EPOCH */
        walk->epoch += record->epoch;
        walk->record_at = walk->at;
        walk->at += record->len;
        walk->count++;
        if (record->is_event || (walk->shows_slices && record->is_slice) ||
            (walk->shows_history && record->is_history))
            return OK;
    }
    return ERR_NOT_FOUND;
}

/* ---- bodies ---- */

static uint64_t body_sum_of(const struct record *record)
{
    return hash_seeded(record->summed, record->body_bytes, record->event.job.seq);
}

bool record_body_good(const struct record *record)
{
    return body_sum_of(record) == record->body_sum;
}

bool record_is_invalidated(const struct record *record)
{
    return body_sum_of(record) == ~record->body_sum;
}

size_t record_read_bytes(const struct body_place *place)
{
    size_t front = RECORD_JOB_HEAD + place->content_type_len + place->body_len;
    if (place->is_note)
        return place->record_bytes;
    return place->record_bytes > front ? place->record_bytes : front;
}

static enum err open_note(const char *at, size_t len, const struct body_place *place,
                          struct body_content *out_content)
{
    struct record record;
    if (len < place->record_bytes || record_decode(at, place->record_bytes, &record) ||
        record.event.kind != EVENT_NOTE || record.len != place->record_bytes ||
        record.event.job.seq != place->seq || !record_body_good(&record))
        return ERR_DAMAGED;
    *out_content = (struct body_content){.body = record.event.body, .note = record.event.note};
    return OK;
}

enum err record_open(const void *record, size_t len, const struct body_place *place,
                     struct body_content *out_content)
{
    const char *at = record;
    if (place->is_note)
        return open_note(at, len, place, out_content);
    if (len >= FAR_RECORD_MIN && get_u8(at + 4) == RECORD_FAR)
        return far_record_open(at, len, place, out_content);
    size_t need = place->content_type_len + place->body_len;
    bool has_properties = place->record_bytes > 0;
    if (len < record_read_bytes(place) || (get_u8(at + 4) & ~(unsigned)RECORD_COPY) != EVENT_JOB ||
        get_u64(at + 8) != place->seq || get_u8(at + 86) != place->content_type_len ||
        get_u32(at + 88) != place->body_len ||
        has_properties != (get_u8(at + 6) >= JOB_HAS_PROPERTIES))
        return ERR_DAMAGED;
    struct event event = {.content_type = bytes_of(at + RECORD_JOB_HEAD, place->content_type_len)};
    event.body = bytes_of(event.content_type.at + place->content_type_len, place->body_len);
    if (!decode_properties(at, len, &event))
        return ERR_DAMAGED;
    need += properties_bytes(&event);
    if (RECORD_JOB_HEAD + need > len ||
        hash_seeded(at + RECORD_JOB_HEAD, need, place->seq) != get_u64(at + 96))
        return ERR_DAMAGED;
    *out_content = (struct body_content){
        .content_type = event.content_type, .body = event.body, .properties = event.properties};
    return OK;
}
