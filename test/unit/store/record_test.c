/*
 * Events become bytes and events again, and no bytes make the decoder believe what cannot be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "store/body.h"
#include "store/record.h"
#include "store/store.h"

static const int64_t waits_us[3] = {1000000, 60000000, INT64_MAX};

static struct event a_job(void)
{
    return (struct event){
        .kind = EVENT_JOB,
        .job = {.seq = 77,
                .state = JOB_BURIED,
                .priority = 4000000000u,
                .due_us = -5,
                .until_us = INT64_MAX,
                .lease = UINT64_MAX,
                .failures = 65535,
                .counts = {1, 2, 3, 4, 65535}},
        .id = BYTES("an id"),
        .topic = BYTES("a topic"),
        .ttr_us = 60000000,
        .created_us = 1700000000000000,
        .retry_us = waits_us,
        .retry_count = 3,
        .body_kind = BODY_JSON,
        .content_type = BYTES("application/json"),
        .body = BYTES("{\"a\":1}"),
        .record = {.where = UINT64_C(0x100000020), .bytes = 240},
    };
}

static void assert_same(const struct event *a, const struct event *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->job.seq, b->job.seq);
    assert_int_equal(a->job.state, b->job.state);
    assert_int_equal(a->job.priority, b->job.priority);
    assert_int_equal(a->job.due_us, b->job.due_us);
    assert_int_equal(a->job.until_us, b->job.until_us);
    assert_true(a->job.lease == b->job.lease);
    assert_int_equal(a->job.failures, b->job.failures);
    assert_memory_equal(&a->job.counts, &b->job.counts, sizeof(a->job.counts));
    assert_true(bytes_eq(a->id, b->id) && bytes_eq(a->topic, b->topic));
    assert_true(bytes_eq(a->content_type, b->content_type) && bytes_eq(a->body, b->body));
    assert_int_equal(a->ttr_us, b->ttr_us);
    assert_int_equal(a->created_us, b->created_us);
    assert_int_equal(a->retry_count, b->retry_count);
    for (unsigned i = 0; i < a->retry_count; i++)
        assert_int_equal(a->retry_us[i], b->retry_us[i]);
    assert_int_equal(a->body_kind, b->body_kind);
    assert_int_equal(a->pause_until_us, b->pause_until_us);
    assert_int_equal(a->record.where, b->record.where);
    assert_int_equal(a->record.bytes, b->record.bytes);
}

/* It tells of a job what the decoder does, and nothing of what is of none. */
static void glance_agrees(const char *at, size_t room, const struct record *record)
{
    const struct event *event = &record->event;
    struct job_ref ref = {.seq = 0};
    size_t len = 0;
    bool of_job =
        event->kind == EVENT_JOB || event->kind == EVENT_MOVE || event->kind == EVENT_GONE;
    assert_int_equal(record_peek(at, room, &len, &ref), OK);
    assert_int_equal(len, record->len);
    assert_int_equal(ref.seq, of_job ? event->job.seq : 0);
    assert_true(bytes_eq(ref.id, event->kind == EVENT_JOB ? event->id : (struct bytes){0}));
}

/* Encodes into memory that is just as long, so that the sanitizer sees a byte too many. */
static void round_trip(const struct event *event)
{
    size_t len = record_bytes(event);
    char *at = mem_alloc(len);
    struct record record;
    memset(at, 0xee, len);
    assert_int_equal(len % 8, 0);
    record_encode(event, len, at);
    assert_int_equal(record_decode(at, len, &record), OK);
    assert_int_equal(record.len, len);
    assert_same(event, &record.event);
    if (event->kind == EVENT_JOB)
        assert_true(record_body_good(&record));
    glance_agrees(at, len, &record);
    for (size_t room = 0; room < len; room++) {
        struct job_ref ref;
        size_t seen;
        assert_int_equal(record_decode(at, room, &record), ERR_CORRUPT);
        assert_int_equal(record_peek(at, room, &seen, &ref), ERR_CORRUPT);
    }
    mem_free(at);
}

static void every_kind_of_event_comes_back(void **state)
{
    (void)state;
    struct event job = a_job();
    round_trip(&job);
    struct event move = {.kind = EVENT_MOVE, .job = job.job};
    round_trip(&move);
    move.id = BYTES("order-7");
    round_trip(&move);
    move.record.where = 99; /* the job is in a slice */
    round_trip(&move);
    struct event gone = {.kind = EVENT_GONE, .job.seq = 5, .record = job.record};
    round_trip(&gone);
    gone.id = BYTES("order-7");
    gone.end = END_FINISHED;
    round_trip(&gone);
    struct event topic = {.kind = EVENT_TOPIC, .topic = BYTES("t"), .pause_until_us = INT64_MAX};
    round_trip(&topic);
    struct event settings = {
        .kind = EVENT_SETTINGS, .job.seq = 9, .topic = BYTES("t"), .body = BYTES("{\"a\":1}")};
    round_trip(&settings);
    settings.body = (struct bytes){0};
    round_trip(&settings);
    struct event note = {.kind = EVENT_NOTE,
                         .job.seq = 77,
                         .note = {.at_us = 5, .number = 3, .code = 503},
                         .body = BYTES("no")};
    round_trip(&note);
}

static void lengths_from_nothing_to_most_come_back(void **state)
{
    (void)state;
    char *big = mem_zalloc(70000);
    int64_t many_us[RETRY_STEPS_MAX] = {0};
    for (size_t len = 0; len < 40; len++) {
        struct event job = a_job();
        job.body = bytes_of(big, len);
        job.id = bytes_of(big, len);
        round_trip(&job);
    }
    struct event job = a_job();
    job.id = bytes_of(big, JOB_ID_MAX);
    job.topic = bytes_of(big, TOPIC_NAME_MAX);
    job.content_type = bytes_of(big, CONTENT_TYPE_MAX);
    job.body = bytes_of(big, 1000);
    job.retry_us = many_us;
    job.retry_count = RETRY_STEPS_MAX;
    round_trip(&job);
    mem_free(big);
}

static void no_flipped_bit_is_read_out_of_bounds(void **state)
{
    (void)state;
    struct event job = a_job();
    size_t len = record_bytes(&job);
    char *at = mem_alloc(len);
    struct record record;
    record_encode(&job, len, at);
    for (size_t bit = 0; bit < len * 8; bit++) {
        at[bit / 8] = (char)(at[bit / 8] ^ 1 << bit % 8);
        struct job_ref ref;
        size_t seen;
        (void)!record_peek(at, len, &seen, &ref); /* in bounds, whatever it says */
        if (record_decode(at, len, &record) == OK) {
            assert_true(record.len <= len);
            if (record.is_event)
                glance_agrees(at, len, &record);
            (void)record_body_good(&record); /* the sanitizer looks on */
        }
        at[bit / 8] = (char)(at[bit / 8] ^ 1 << bit % 8);
    }
    mem_free(at);
}

static void p2_a_body_is_known_by_its_job(void **state)
{
    (void)state;
    struct event job = a_job();
    size_t len = record_bytes(&job);
    char at[512];
    record_encode(&job, len, at);
    struct body_place place = {
        .seq = 77, .content_type_len = job.content_type.len, .body_len = job.body.len};
    struct body_content content;
    assert_int_equal(record_open(at, len, &place, &content), OK);
    assert_true(bytes_eq(content.body, job.body) && content.properties.len == 0);
    assert_int_equal(record_open(at, 110, &place, &content), ERR_DAMAGED);
    place.seq = 78;
    assert_int_equal(record_open(at, len, &place, &content), ERR_DAMAGED);
    place = (struct body_place){77, 0, job.content_type.len, job.body.len - 1, 0, false};
    assert_int_equal(record_open(at, len, &place, &content), ERR_DAMAGED);
    place = (struct body_place){77, 0, job.content_type.len, job.body.len, (uint32_t)len, false};
    assert_int_equal(record_open(at, len, &place, &content), ERR_DAMAGED); /* has no properties */
    place.record_bytes = 0;
    at[RECORD_JOB_HEAD + 3] ^= 1;
    assert_int_equal(record_open(at, len, &place, &content), ERR_DAMAGED);
}

/* They are as much the client's as the body: one flipped bit, and neither is handed out. */
static void p2_properties_are_read_and_checked_with_the_body(void **state)
{
    (void)state;
    static char text[JOB_PROPERTIES_MAX];
    static char at[JOB_PROPERTIES_MAX + 512];
    memset(text, 'p', sizeof(text));
    for (size_t size = 1; size <= JOB_PROPERTIES_MAX; size += size < 20 ? 1 : 1359) {
        struct event job = a_job();
        struct record record;
        struct body_content content;
        job.properties = bytes_of(text, size);
        size_t len = record_bytes(&job);
        record_encode(&job, len, at);
        assert_int_equal(record_decode(at, len, &record), OK);
        assert_true(record_body_good(&record) && !record_is_invalidated(&record));
        assert_true(bytes_eq(record.event.properties, job.properties));
        assert_true(bytes_eq(record.event.topic, job.topic));
        assert_int_equal(record.event.body_kind, job.body_kind);
        struct body_place place = {77, 0, job.content_type.len, job.body.len, (uint32_t)len, false};
        assert_int_equal(record_open(at, len, &place, &content), OK);
        assert_true(bytes_eq(content.body, job.body));
        assert_true(bytes_eq(content.properties, job.properties));
        assert_int_equal(record_open(at, len - 8, &place, &content), ERR_DAMAGED);
        at[RECORD_JOB_HEAD + job.content_type.len + job.body.len + 2 + size / 2] ^= 4;
        assert_int_equal(record_open(at, len, &place, &content), ERR_DAMAGED);
        assert_int_equal(record_decode(at, len, &record), OK);
        assert_false(record_body_good(&record));
    }
}

/* A large one, whose body another thread copies. */
static void a_job_written_in_two_steps_is_the_same(void **state)
{
    char names[] = "properties", whole[512], parts[512];
    (void)state;
    for (size_t size = 0; size < sizeof(names); size++) {
        struct event job = a_job();
        job.properties = bytes_of(names, size);
        size_t len = record_bytes(&job);
        assert_true(len <= sizeof(whole));
        memset(parts, 0xee, sizeof(parts));
        record_encode(&job, len, whole);
        record_encode_without_body(&job, len, parts);
        assert_memory_not_equal(whole, parts, len);
        record_put_body(parts, job.body);
        assert_memory_equal(whole, parts, len);
    }
}

/* What the decoder says of the event with these bytes at `place`. */
static enum err decoded_with(const struct event *event, size_t place, const void *bytes,
                             size_t count)
{
    char at[1024];
    struct record record;
    size_t len = record_bytes(event);
    assert_true(len <= sizeof(at) && place + count <= len);
    record_encode(event, len, at);
    assert_int_equal(record_decode(at, len, &record), OK);
    memcpy(at + place, bytes, count);
    return record_decode(at, len, &record);
}

/* A sum may be right over what an older or a wrong program has written. */
static void what_cannot_be_is_no_record(void **state)
{
    (void)state;
    static const char zeros[8], past_state[] = {JOB_STATES}, past_end[] = {END_DELETED + 1},
                                negative[] = {(char)0x80}, steps[] = {RETRY_STEPS_MAX + 1};
    static const char body[(RETRY_STEPS_MAX + 1) * 8];
    struct event job = a_job(), move = {.kind = EVENT_MOVE, .job = job.job, .record.where = 99};
    struct event gone = {.kind = EVENT_GONE, .job.seq = 5, .record = job.record};
    struct event topic = {.kind = EVENT_TOPIC, .topic = BYTES("t"), .pause_until_us = 5};
    struct event settings = {.kind = EVENT_SETTINGS, .job.seq = 9, .topic = BYTES("t")};
    assert_int_equal(decoded_with(&job, 5, past_state, 1), ERR_CORRUPT);
    assert_int_equal(decoded_with(&job, 5, zeros, 1), ERR_CORRUPT);
    assert_int_equal(decoded_with(&job, 8, zeros, 8), ERR_CORRUPT);
    assert_int_equal(decoded_with(&move, 5, past_state, 1), ERR_CORRUPT);
    assert_int_equal(decoded_with(&move, RECORD_MOVE, zeros, 8), ERR_CORRUPT);
    assert_int_equal(decoded_with(&gone, 5, past_end, 1), ERR_CORRUPT);
    assert_int_equal(decoded_with(&gone, 8, zeros, 8), ERR_CORRUPT);
    assert_int_equal(decoded_with(&topic, 15, negative, 1), ERR_CORRUPT);
    assert_int_equal(decoded_with(&settings, 8, zeros, 8), ERR_CORRUPT);

    char at[1024];
    struct record record;
    struct job_ref ref;
    size_t seen, len;
    job.retry_count = 0; /* more waits than there is room for, where the body was */
    job.body = bytes_of(body, sizeof(body));
    len = record_bytes(&job);
    record_encode(&job, len, at);
    memcpy(at + 7, steps, 1);
    memcpy(at + 88, zeros, 4);
    assert_int_equal(record_decode(at, len, &record), ERR_CORRUPT);
    record_encode(&job, len, at);
    memset(at + 84, 0xff, 1); /* an id that is longer than what is left */
    assert_int_equal(record_peek(at, len, &seen, &ref), ERR_CORRUPT);
}

/* It tells who led when the batch was written, so it comes first or not at all. */
static void only_the_first_record_of_a_batch_has_an_epoch(void **state)
{
    (void)state;
    char batch[512] = {0};
    struct batch_walk walk;
    struct event move = {.kind = EVENT_MOVE, .job = a_job().job};
    uint32_t len = (uint32_t)record_bytes(&move);
    uint32_t payload = len + RECORD_EPOCH_BYTES;
    record_epoch_encode(7, batch + BATCH_HEAD);
    record_encode(&move, len, batch + BATCH_HEAD + RECORD_EPOCH_BYTES);
    batch_walk_init(&walk, batch, payload);
    assert_int_equal(batch_walk_next(&walk), OK);
    assert_int_equal(walk.epoch, 7);
    assert_int_equal(batch_walk_next(&walk), ERR_NOT_FOUND);
    record_epoch_encode(0, batch + BATCH_HEAD);
    batch_walk_init(&walk, batch, payload);
    assert_int_equal(batch_walk_next(&walk), ERR_CORRUPT);
    record_encode(&move, len, batch + BATCH_HEAD);
    record_epoch_encode(7, batch + BATCH_HEAD + len);
    batch_walk_init(&walk, batch, payload);
    assert_int_equal(batch_walk_next(&walk), OK);
    assert_int_equal(batch_walk_next(&walk), ERR_CORRUPT);
}

static void p2_a_note_is_known_by_its_job(void **state)
{
    (void)state;
    char at[128];
    struct event note = {.kind = EVENT_NOTE,
                         .job.seq = 77,
                         .note = {.at_us = 5, .number = 3, .code = 503},
                         .body = BYTES("no")};
    size_t len = record_bytes(&note);
    struct body_place place = {.seq = 77, .record_bytes = (uint32_t)len, .is_note = true};
    struct body_content content;
    record_encode(&note, len, at);
    assert_int_equal(record_open(at, len, &place, &content), OK);
    assert_true(bytes_eq(content.body, note.body) && content.note.code == 503);
    assert_int_equal(record_open(at, len - 8, &place, &content), ERR_DAMAGED);
    place.seq = 78; /* its place in the log was used again */
    assert_int_equal(record_open(at, len, &place, &content), ERR_DAMAGED);
    place.seq = 77;
    at[RECORD_NOTE_HEAD] ^= 1;
    assert_int_equal(record_open(at, len, &place, &content), ERR_DAMAGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_event_comes_back),
        cmocka_unit_test(lengths_from_nothing_to_most_come_back),
        cmocka_unit_test(a_job_written_in_two_steps_is_the_same),
        cmocka_unit_test(no_flipped_bit_is_read_out_of_bounds),
        cmocka_unit_test(what_cannot_be_is_no_record),
        cmocka_unit_test(only_the_first_record_of_a_batch_has_an_epoch),
        cmocka_unit_test(p2_a_note_is_known_by_its_job),
        cmocka_unit_test(p2_a_body_is_known_by_its_job),
        cmocka_unit_test(p2_properties_are_read_and_checked_with_the_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
