#include "store/record.h"

#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "store/format.h"

static size_t round_up(size_t len)
{
    return (len + 7) & ~(size_t)7;
}

size_t record_bytes(const struct event *event)
{
    switch (event->kind) {
    case EVENT_JOB:
        return round_up(RECORD_JOB_HEAD + event->content_type.len + event->body.len +
                        event->retry_count * sizeof(int64_t) + event->id.len + event->topic.len);
    case EVENT_MOVE: return RECORD_MOVE;
    case EVENT_GONE: return RECORD_GONE;
    case EVENT_TOPIC: return round_up(RECORD_TOPIC_HEAD + event->topic.len);
    }
    CHECK(false); /* an event of an unknown kind */
    return 0;
}

/* ---- encode ---- */

static char *put_bytes(char *at, struct bytes bytes)
{
    if (bytes.len)
        memcpy(at, bytes.at, bytes.len);
    return at + bytes.len;
}

static inline void put_counts(char *at, const struct job_counts *counts)
{
    put_u16(at + 0, counts->reserves);
    put_u16(at + 2, counts->timeouts);
    put_u16(at + 4, counts->releases);
    put_u16(at + 6, counts->buries);
    put_u16(at + 8, counts->kicks);
}

static void encode_job(const struct event *event, char *at)
{
    const struct job_now *job = &event->job;
    CHECK(event->id.len <= JOB_ID_MAX && event->topic.len <= TOPIC_NAME_MAX);
    CHECK(event->content_type.len <= CONTENT_TYPE_MAX && event->body.len <= UINT32_MAX);
    CHECK(event->retry_count <= RETRY_STEPS_MAX);
    put_u8(at + 5, (uint8_t)job->state);
    put_u8(at + 6, (uint8_t)event->body_kind);
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
    char *body = at + RECORD_JOB_HEAD;
    char *end = put_bytes(body, event->content_type);
    end = put_bytes(end, event->body);
    put_u64(at + 96, hash_seeded(body, (size_t)(end - body), job->seq));
    for (unsigned i = 0; i < event->retry_count; i++, end += sizeof(int64_t))
        put_u64(end, (uint64_t)event->retry_us[i]);
    end = put_bytes(end, event->id);
    (void)put_bytes(end, event->topic); /* the padding is there already */
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
    put_u16(at + 54, 0);
}

static void encode_gone(const struct event *event, char *at)
{
    put_u8(at + 5, 0);
    put_u16(at + 6, 0);
    put_u64(at + 8, event->job.seq);
    put_u64(at + 16, event->record.where);
    put_u32(at + 24, event->record.bytes);
    put_u32(at + 28, 0);
}

static void encode_topic(const struct event *event, char *at)
{
    CHECK(event->topic.len <= TOPIC_NAME_MAX);
    put_u8(at + 5, (uint8_t)event->topic.len);
    put_u16(at + 6, 0);
    put_u64(at + 8, (uint64_t)event->pause_until_us);
    (void)put_bytes(at + RECORD_TOPIC_HEAD, event->topic); /* the padding is there already */
}

void record_encode(const struct event *event, size_t len, void *record)
{
    char *at = record;
    put_u64(at + len - 8, 0); /* the padding: zeros */
    put_u32(at + 0, (uint32_t)len);
    put_u8(at + 4, (uint8_t)event->kind);
    switch (event->kind) {
    case EVENT_JOB: encode_job(event, at); return;
    case EVENT_MOVE: encode_move(event, at); return;
    case EVENT_GONE: encode_gone(event, at); return;
    case EVENT_TOPIC: encode_topic(event, at); return;
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

void record_spoil(void *record)
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

static bool decode_job(const char *at, size_t len, struct record *record)
{
    struct event *event = &record->event;
    if (len < RECORD_JOB_HEAD || !state_possible(get_u8(at + 5)) || get_u8(at + 6) > BODY_JSON ||
        get_u8(at + 7) > RETRY_STEPS_MAX || get_u8(at + 87) > ORDER_ARRIVAL)
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
    event->body_kind = get_u8(at + 6);
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
    if (record_bytes(event) != len || event->topic.len > TOPIC_NAME_MAX || !event->topic.len ||
        event->content_type.len > CONTENT_TYPE_MAX || !event->job.seq)
        return false;
    record->body_sum = get_u64(at + 96);
    event->content_type.at = at + RECORD_JOB_HEAD;
    event->body.at = event->content_type.at + event->content_type.len;
    const char *retry = event->body.at + event->body.len;
    for (unsigned i = 0; i < event->retry_count; i++)
        record->retry_us[i] = (int64_t)get_u64(retry + i * sizeof(int64_t));
    event->retry_us = record->retry_us;
    event->id.at = retry + event->retry_count * sizeof(int64_t);
    event->topic.at = event->id.at + event->id.len;
    return true;
}

static bool decode_move(const char *at, size_t len, struct record *record)
{
    if (len != RECORD_MOVE || !state_possible(get_u8(at + 5)) || !get_u64(at + 8))
        return false;
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
    return true;
}

static bool decode_gone(const char *at, size_t len, struct record *record)
{
    if (len != RECORD_GONE || !get_u64(at + 8))
        return false;
    record->event.job = (struct job_now){.seq = get_u64(at + 8)};
    record->event.record = (struct stored){.where = get_u64(at + 16), .bytes = get_u32(at + 24)};
    return true;
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

static bool decode_event(const char *at, size_t len, struct record *record)
{
    switch (record->event.kind) {
    case EVENT_JOB: return decode_job(at, len, record);
    case EVENT_MOVE: return decode_move(at, len, record);
    case EVENT_GONE: return decode_gone(at, len, record);
    case EVENT_TOPIC: return decode_topic(at, len, record);
    }
    return false; /* of a kind that is not known here */
}

static enum err decode_epoch(const char *at, size_t len, struct record *record)
{
    record->epoch = get_u64(at + 8);
    return len == RECORD_EPOCH_BYTES && record->epoch > 0 ? OK : ERR_CORRUPT;
}

enum err record_decode(const void *bytes, size_t room, struct record *out_record)
{
    const char *at = bytes;
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
    out_record->epoch = 0;
    if (kind & RECORD_SKIP)
        return OK;
    if (kind == RECORD_EPOCH)
        return decode_epoch(at, len, out_record);
    out_record->is_event = true;
    out_record->event.kind = kind & ~(unsigned)RECORD_COPY;
    return decode_event(at, len, out_record) ? OK : ERR_CORRUPT;
}

/* ---- a batch's records ---- */

void batch_walk_init(struct batch_walk *walk, const char *batch, uint32_t payload_bytes)
{
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
            return ERR_CORRUPT; /* it is told at the beginning, once */
        walk->epoch += record->epoch;
        walk->record_at = walk->at;
        walk->at += record->len;
        walk->count++;
        if (record->is_event)
            return OK;
    }
    return ERR_NOT_FOUND;
}

/* ---- bodies ---- */

static uint64_t body_sum_of(const struct event *event)
{
    size_t len = event->content_type.len + event->body.len; /* they lie side by side */
    return hash_seeded(event->content_type.at, len, event->job.seq);
}

bool record_body_good(const struct record *record)
{
    return body_sum_of(&record->event) == record->body_sum;
}

bool record_spoiled(const struct record *record)
{
    return body_sum_of(&record->event) == ~record->body_sum;
}

enum err record_body(const void *record, size_t len, uint64_t seq, size_t content_type_len,
                     size_t body_len)
{
    const char *at = record;
    size_t need = content_type_len + body_len;
    if (len < RECORD_JOB_HEAD + need || (get_u8(at + 4) & ~(unsigned)RECORD_COPY) != EVENT_JOB ||
        get_u64(at + 8) != seq || get_u8(at + 86) != content_type_len ||
        get_u32(at + 88) != body_len)
        return ERR_DAMAGED;
    bool good = hash_seeded(at + RECORD_JOB_HEAD, need, seq) == get_u64(at + 96);
    return good ? OK : ERR_DAMAGED;
}
