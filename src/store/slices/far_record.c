/* Most numbers of a record are varints (store/varint.h), because they are small. */
#include "store/slices/far_record.h"

#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "store/body.h"
#include "store/store.h"
#include "store/varint.h"

/* Bits of byte 5. */
enum {
    FAR_JSON = 1,
    FAR_BY_ARRIVAL = 2,
    FAR_PROPERTIES = 4,
    FAR_COUNTS = 8, /* it has failures or counts */
    FAR_RETRY = 16,
    FAR_DELAY = 32,  /* the last requested delay is not due time minus creation time */
    FAR_BURIED = 64, /* else it is delayed, … */
    FAR_READY = 128, /* … or ready */
};

enum {
    SUM_AT = 8,
    CONTENT_SUM_AT = 12,
    NUMBERS_AT = 20,
    PROPERTIES_HEAD = 2, /* their length */
    ID_AT = 7,
};

bool far_record_fits(const struct event *job)
{
    bool waits = job->job.state == JOB_DELAYED || job->job.state == JOB_READY ||
                 job->job.state == JOB_BURIED;
    return job->kind == EVENT_JOB && waits && job->job.lease == 0 && job->job.until_us == 0;
}

static uint32_t usual_delay_s(const struct event *job)
{
    int64_t span_us = time_span_modulo(job->created_us, job->job.due_us);
    return span_us > 0 && span_us / 1000000 <= UINT32_MAX ? (uint32_t)(span_us / 1000000) : 0;
}

static bool has_counts(const struct event *job)
{
    const struct job_counts *counts = &job->job.counts;
    return job->job.failures || counts->reserves || counts->timeouts || counts->releases ||
           counts->buries || counts->kicks;
}

static unsigned bits_of(const struct event *job)
{
    return (job->body_kind == BODY_JSON ? FAR_JSON : 0) |
           (job->order == ORDER_ARRIVAL ? FAR_BY_ARRIVAL : 0) |
           (job->properties.len ? FAR_PROPERTIES : 0) | (has_counts(job) ? FAR_COUNTS : 0) |
           (job->retry_count ? FAR_RETRY : 0) |
           (job->delay_s != usual_delay_s(job) ? FAR_DELAY : 0) |
           (job->job.state == JOB_BURIED ? FAR_BURIED : 0) |
           (job->job.state == JOB_READY ? FAR_READY : 0);
}

/* ---- encode ---- */

/* Writes all in front of the content but the record's length and sums. Returns its bytes. */
static size_t encode_head(const struct event *job, char room[static FAR_HEAD_MAX])
{
    unsigned bits = bits_of(job);
    char *at = room + NUMBERS_AT;
    at = varint_put(at, job->job.seq);
    at = varint_put(at, varint_fold(job->job.due_us));
    at = varint_put(at, varint_fold(time_span_modulo(job->created_us, job->job.due_us)));
    at = varint_put(at, varint_fold(job->ttr_us));
    at = varint_put(at, job->job.priority);
    at = varint_put(at, job->body.len);
    at = varint_put(at, job->content_type.len);
    at = varint_put(at, job->topic.len);
    if (bits & FAR_DELAY)
        at = varint_put(at, job->delay_s);
    if (bits & FAR_RETRY)
        at = varint_put(at, job->retry_count);
    if (bits & FAR_COUNTS) {
        const struct job_counts *counts = &job->job.counts;
        at = varint_put(at, job->job.failures);
        at = varint_put(at, counts->reserves);
        at = varint_put(at, counts->timeouts);
        at = varint_put(at, counts->releases);
        at = varint_put(at, counts->buries);
        at = varint_put(at, counts->kicks);
    }
    size_t len = (size_t)(at - room);
    CHECK(len <= FAR_HEAD_MAX);
    room[4] = RECORD_FAR;
    room[5] = (char)bits;
    room[6] = (char)len;
    room[ID_AT] = (char)job->id.len;
    return len;
}

static size_t content_bytes(const struct event *job)
{
    size_t properties = job->properties.len ? PROPERTIES_HEAD + job->properties.len : 0;
    return job->content_type.len + job->body.len + properties;
}

static size_t tail_bytes(const struct event *job)
{
    return job->retry_count * sizeof(int64_t) + job->id.len + job->topic.len;
}

static size_t whole_bytes(size_t head, const struct event *job)
{
    size_t len = (head + content_bytes(job) + tail_bytes(job) + 7) & ~(size_t)7;
    return len < FAR_RECORD_MIN ? FAR_RECORD_MIN : len;
}

void far_record_begin(const struct event *job, struct far_draft *out_draft)
{
    out_draft->head_len = encode_head(job, out_draft->head);
    out_draft->len = whole_bytes(out_draft->head_len, job);
}

size_t far_record_bytes(const struct event *job)
{
    struct far_draft draft;
    far_record_begin(job, &draft);
    return draft.len;
}

/* The sum of the head without the sums, and of what follows the content. */
static uint32_t head_sum(const char *at, size_t head, const char *tail, size_t tail_len)
{
    uint64_t sum = hash_of(at, SUM_AT);
    sum = hash_seeded(at + CONTENT_SUM_AT, head - CONTENT_SUM_AT, sum);
    return (uint32_t)hash_seeded(tail, tail_len, sum);
}

static char *put_bytes(char *at, struct bytes bytes)
{
    if (bytes.len)
        memcpy(at, bytes.at, bytes.len);
    return at + bytes.len;
}

static char *put_content(const struct event *job, char *at)
{
    char *end = put_bytes(put_bytes(at, job->content_type), job->body);
    if (job->properties.len) {
        put_u16(end, (uint16_t)job->properties.len);
        end = put_bytes(end + PROPERTIES_HEAD, job->properties);
    }
    return end;
}

/* Does that begin where these bytes end? */
static bool follows(struct bytes bytes, const char *at)
{
    return bytes.at + bytes.len == at;
}

/* Is what a record has behind its head in one piece, as in a JOB of the log? */
static bool is_one_piece(const struct event *job)
{
    return job->properties.len == 0 && job->retry_count == 0 && job->content_type.at &&
           follows(job->content_type, job->body.at) && follows(job->body, job->id.at) &&
           follows(job->id, job->topic.at);
}

/* Writes retry waits, id and topic; returns where they end. */
static char *put_tail(const struct event *job, char *at)
{
    for (unsigned i = 0; i < job->retry_count; i++, at += sizeof(int64_t))
        put_u64(at, (uint64_t)job->retry_us[i]);
    return put_bytes(put_bytes(at, job->id), job->topic);
}

size_t far_record_end(const struct event *job, const struct far_draft *draft, uint64_t content_sum,
                      void *record)
{
    char *at = record, *content = at + draft->head_len;
    size_t content_len = content_bytes(job), tail_len = tail_bytes(job);
    char *tail = content + content_len, *end = tail + tail_len;
    CHECK(far_record_fits(job));
    memcpy(at + 4, draft->head + 4, 4);
    put_u32(at, (uint32_t)draft->len);
    put_u64(at + CONTENT_SUM_AT, content_sum);
    memcpy(at + NUMBERS_AT, draft->head + NUMBERS_AT, draft->head_len - NUMBERS_AT);
    if (is_one_piece(job)) {
        memcpy(content, job->content_type.at, content_len + tail_len);
    } else {
        tail = put_content(job, content);
        end = put_tail(job, tail);
    }
    put_u32(at + SUM_AT, head_sum(at, draft->head_len, tail, tail_len));
    memset(end, 0, (size_t)(at + draft->len - end));
    return (size_t)(end - at) - job->topic.len - job->id.len;
}

void far_record_encode(const struct event *job, size_t len, void *record)
{
    struct far_draft draft;
    far_record_begin(job, &draft);
    CHECK(len == draft.len);
    char *content = (char *)record + draft.head_len;
    size_t content_len = (size_t)(put_content(job, content) - content);
    (void)far_record_end(job, &draft, hash_seeded(content, content_len, job->job.seq), record);
}

/* ---- decode ---- */

static bool get_counts(struct varint_reader *reader, struct event *job)
{
    uint64_t numbers[6];
    for (int i = 0; i < 6; i++) {
        numbers[i] = varint_get(reader);
        if (numbers[i] > UINT16_MAX)
            return false;
    }
    job->job.failures = (uint16_t)numbers[0];
    job->job.counts = (struct job_counts){
        .reserves = (uint16_t)numbers[1],
        .timeouts = (uint16_t)numbers[2],
        .releases = (uint16_t)numbers[3],
        .buries = (uint16_t)numbers[4],
        .kicks = (uint16_t)numbers[5],
    };
    return true;
}

/* Decodes the head; `room` is at least FAR_RECORD_MIN. Of id, topic and content it sets the lengths
   only. Returns the length of the head; 0: it is not valid. Writes to *job directly: copying a
   struct that was just written field by field stalls until the stores are complete. */
static size_t get_head(const char *at, size_t room, struct event *job)
{
    unsigned bits = get_u8(at + 5);
    size_t len = get_u8(at + 6);
    enum job_state state = bits & FAR_BURIED  ? JOB_BURIED
                           : bits & FAR_READY ? JOB_READY
                                              : JOB_DELAYED;
    if (get_u8(at + 4) != RECORD_FAR || (bits & FAR_BURIED && bits & FAR_READY) ||
        len > FAR_HEAD_MAX || len <= NUMBERS_AT || len > room)
        return 0;
    struct varint_reader reader = {at + NUMBERS_AT, at + len, true};
    *job = (struct event){.kind = EVENT_JOB, .job = {.state = state}};
    job->job.seq = varint_get(&reader);
    job->job.due_us = varint_unfold(varint_get(&reader));
    job->created_us = time_span_modulo(varint_unfold(varint_get(&reader)), job->job.due_us);
    job->ttr_us = varint_unfold(varint_get(&reader));
    uint64_t priority = varint_get(&reader), body_len = varint_get(&reader);
    uint64_t content_type_len = varint_get(&reader), topic_len = varint_get(&reader);
    uint64_t delay_s = bits & FAR_DELAY ? varint_get(&reader) : usual_delay_s(job);
    uint64_t retries = bits & FAR_RETRY ? varint_get(&reader) : 0;
    if (bits & FAR_COUNTS && !get_counts(&reader, job))
        return 0;
    if (!reader.good || reader.at != reader.end || !job->job.seq || priority > UINT32_MAX ||
        body_len > UINT32_MAX || content_type_len > CONTENT_TYPE_MAX || !topic_len ||
        topic_len > TOPIC_NAME_MAX || delay_s > UINT32_MAX || retries > RETRY_STEPS_MAX)
        return 0;
    job->job.priority = (uint32_t)priority;
    job->body.len = (size_t)body_len;
    job->content_type.len = (size_t)content_type_len;
    job->topic.len = (size_t)topic_len;
    job->delay_s = (uint32_t)delay_s;
    job->retry_count = (uint8_t)retries;
    job->id.len = get_u8(at + ID_AT);
    job->body_kind = bits & FAR_JSON ? BODY_JSON : BODY_BYTES;
    job->order = bits & FAR_BY_ARRIVAL ? ORDER_ARRIVAL : ORDER_DUE;
    return len;
}

/* Sets content type, body and properties, which follow the head. False: they exceed `len` bytes. */
static bool get_content(const char *at, size_t len, size_t head, struct event *job)
{
    uint64_t end = (uint64_t)head + job->content_type.len + job->body.len;
    if (end > len)
        return false;
    job->content_type.at = at + head;
    job->body.at = job->content_type.at + job->content_type.len;
    if (!(get_u8(at + 5) & FAR_PROPERTIES))
        return true;
    if (end + PROPERTIES_HEAD > len)
        return false;
    job->properties = bytes_of(at + end + PROPERTIES_HEAD, get_u16(at + end));
    return job->properties.len > 0 && job->properties.len <= JOB_PROPERTIES_MAX &&
           end + PROPERTIES_HEAD + job->properties.len <= len;
}

/* Decodes all but the retry waits; verifies no sum. Returns the length of the head; 0: not valid.
 */
static size_t get_parts(const char *at, size_t len, struct event *job)
{
    size_t head = len < FAR_RECORD_MIN ? 0 : get_head(at, len, job);
    if (!head || !get_content(at, len, head, job) || whole_bytes(head, job) != len)
        return 0;
    job->id.at = at + head + content_bytes(job) + job->retry_count * sizeof(int64_t);
    job->topic.at = job->id.at + job->id.len;
    return head;
}

/* As get_parts(), with the retry waits; verifies the sum of all but the content. */
static size_t get_all(const char *at, size_t len, struct event *job,
                      int64_t retry_us[static RETRY_STEPS_MAX])
{
    size_t head = get_parts(at, len, job);
    if (!head)
        return 0;
    const char *tail = at + head + content_bytes(job);
    if (get_u32(at + SUM_AT) != head_sum(at, head, tail, tail_bytes(job)))
        return 0;
    for (unsigned i = 0; i < job->retry_count; i++)
        retry_us[i] = (int64_t)get_u64(tail + i * sizeof(int64_t));
    job->retry_us = retry_us;
    return head;
}

bool far_record_decode(const char *at, size_t len, struct record *record)
{
    size_t head = get_all(at, len, &record->event, record->retry_us);
    if (!head)
        return false;
    record->body_sum = get_u64(at + CONTENT_SUM_AT);
    record->summed = at + head;
    record->body_bytes = content_bytes(&record->event);
    return true;
}

bool far_record_read(const char *at, size_t len, int64_t retry_us[static RETRY_STEPS_MAX],
                     struct event *out_job)
{
    size_t head = get_all(at, len, out_job, retry_us);
    return head && hash_seeded(at + head, content_bytes(out_job), out_job->job.seq) ==
                       get_u64(at + CONTENT_SUM_AT);
}

uint64_t far_record_seq(const char *at, size_t len)
{
    struct varint_reader reader = {at + NUMBERS_AT, at + len, true};
    return varint_get(&reader);
}

bool far_record_glance(const char *at, size_t len, struct event *out_job)
{
    return get_parts(at, len, out_job) > 0;
}

enum err far_record_open(const char *at, size_t len, const struct body_place *place,
                         struct body_content *out_content)
{
    struct event job;
    size_t head = len < FAR_RECORD_MIN ? 0 : get_head(at, len, &job);
    if (!head || job.job.seq != place->seq || job.content_type.len != place->content_type_len ||
        job.body.len != place->body_len || !get_content(at, len, head, &job) ||
        (place->record_bytes > 0) != (job.properties.len > 0) ||
        hash_seeded(at + head, content_bytes(&job), place->seq) != get_u64(at + CONTENT_SUM_AT))
        return ERR_DAMAGED;
    *out_content = (struct body_content){
        .content_type = job.content_type, .body = job.body, .properties = job.properties};
    return OK;
}
