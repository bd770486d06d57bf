/*
 * Far jobs become the bytes of slices and jobs again, and no bytes make the decoders believe what
 * cannot be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/codec.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/body.h"
#include "store/slices/far_record.h"
#include "store/slices/slice_build.h"
#include "store/store.h"
#include "store/varint.h"

static const struct store_id id = {{1, 2, 3}};

static struct event a_job(void)
{
    static const int64_t waits_us[2] = {1000000, INT64_MAX};
    return (struct event){
        .kind = EVENT_JOB,
        .job = {.seq = 77,
                .state = JOB_DELAYED,
                .priority = 4000000000u,
                .due_us = 1700000030000000,
                .failures = 3,
                .counts = {1, 2, 3, 4, 65535}},
        .id = BYTES("an id"),
        .topic = BYTES("a topic"),
        .ttr_us = 60000000,
        .created_us = 1700000000000000,
        .delay_s = 30,
        .retry_us = waits_us,
        .retry_count = 2,
        .body_kind = BODY_JSON,
        .order = ORDER_ARRIVAL,
        .content_type = BYTES("application/json"),
        .body = BYTES("{\"a\":1}"),
        .properties = BYTES("p"),
    };
}

static void assert_same(const struct event *a, const struct event *b)
{
    assert_true(a->kind == b->kind && a->job.state == b->job.state);
    assert_true(a->job.seq == b->job.seq && a->job.priority == b->job.priority);
    assert_true(a->job.due_us == b->job.due_us && a->created_us == b->created_us);
    assert_true(a->job.failures == b->job.failures && a->ttr_us == b->ttr_us);
    assert_memory_equal(&a->job.counts, &b->job.counts, sizeof(a->job.counts));
    assert_true(bytes_eq(a->id, b->id) && bytes_eq(a->topic, b->topic));
    assert_true(bytes_eq(a->content_type, b->content_type) && bytes_eq(a->body, b->body));
    assert_true(bytes_eq(a->properties, b->properties));
    assert_true(a->delay_s == b->delay_s && a->order == b->order && a->body_kind == b->body_kind);
    assert_int_equal(a->retry_count, b->retry_count);
    for (unsigned i = 0; i < a->retry_count; i++)
        assert_true(a->retry_us[i] == b->retry_us[i]);
}

/* Encodes into memory that is just as long, so that the sanitizer sees a byte too many. */
static void round_trip(const struct event *job)
{
    size_t len = far_record_bytes(job);
    char *at = mem_alloc(len);
    struct record record;
    struct body_content content;
    assert_true(far_record_fits(job));
    far_record_encode(job, len, at);
    assert_int_equal(record_decode(at, len, &record), OK);
    assert_true(record.is_far && record.is_event && record_body_good(&record));
    assert_same(job, &record.event);
    for (size_t room = 0; room < len; room++)
        assert_int_equal(record_decode(at, room, &record), ERR_CORRUPT);
    struct body_place place = {.seq = job->job.seq,
                               .content_type_len = job->content_type.len,
                               .body_len = job->body.len,
                               .record_bytes = job->properties.len ? (uint32_t)len : 0};
    char *room = mem_zalloc(record_read_bytes(&place) + len);
    memcpy(room, at, len);
    assert_int_equal(record_open(room, record_read_bytes(&place), &place, &content), OK);
    assert_true(bytes_eq(content.body, job->body));
    assert_true(bytes_eq(content.properties, job->properties));
    place.seq++;
    assert_int_equal(record_open(room, record_read_bytes(&place), &place, &content), ERR_DAMAGED);
    mem_free(room);
    mem_free(at);
}

static void a_far_job_comes_back(void **state)
{
    (void)state;
    struct event job = a_job();
    round_trip(&job);
    job.delay_s = 5;
    round_trip(&job);
    job.job.state = JOB_BURIED;
    round_trip(&job);
    job.job.state = JOB_READY;
    round_trip(&job);
    job.job.state = JOB_DELAYED;
    job.retry_count = 0;
    job.properties = (struct bytes){0};
    round_trip(&job);
    job.id = job.content_type = job.body = (struct bytes){0};
    job.job = (struct job_now){.seq = 1, .state = JOB_DELAYED, .due_us = 1};
    job.created_us = job.delay_s = 0;
    round_trip(&job);
}

static void numbers_at_their_ends_come_back(void **state)
{
    (void)state;
    int64_t many_us[RETRY_STEPS_MAX] = {INT64_MIN};
    const int64_t times_us[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
    char *big = mem_zalloc(70000);
    for (unsigned i = 0; i < 25; i++) {
        struct event job = a_job();
        job.job.seq = UINT64_MAX - 1;
        job.job.due_us = times_us[i % 5];
        job.created_us = times_us[i / 5];
        job.ttr_us = INT64_MAX;
        job.job.priority = job.delay_s = UINT32_MAX;
        job.job.failures = UINT16_MAX;
        job.job.counts =
            (struct job_counts){UINT16_MAX, UINT16_MAX, UINT16_MAX, UINT16_MAX, UINT16_MAX};
        job.id = bytes_of(big, JOB_ID_MAX);
        job.topic = bytes_of(big, TOPIC_NAME_MAX);
        job.content_type = bytes_of(big, CONTENT_TYPE_MAX);
        job.properties = bytes_of(big, JOB_PROPERTIES_MAX);
        job.body = bytes_of(big, i * 2500);
        job.retry_us = many_us;
        job.retry_count = RETRY_STEPS_MAX;
        round_trip(&job);
    }
    mem_free(big);
}

static void what_is_reserved_does_not_fit(void **state)
{
    (void)state;
    struct event job = a_job();
    job.job.state = JOB_RESERVED;
    assert_false(far_record_fits(&job));
    job = a_job();
    job.job.lease = 1;
    assert_false(far_record_fits(&job));
    job = a_job();
    job.kind = EVENT_MOVE;
    assert_false(far_record_fits(&job));
}

static void each_flipped_bit_of_a_record_is_noticed(void **state)
{
    (void)state;
    struct event job = a_job();
    size_t len = far_record_bytes(&job);
    char *at = mem_alloc(len);
    size_t padding = 0;
    far_record_encode(&job, len, at);
    for (size_t bit = 0; bit < len * 8; bit++) {
        struct record record;
        at[bit / 8] = (char)(at[bit / 8] ^ 1 << bit % 8);
        bool noticed =
            record_decode(at, len, &record) != OK || !record.is_far || !record_body_good(&record);
        padding += !noticed; /* it is the block's sum that has the padding */
        assert_true(noticed || bit / 8 >= len - 8);
        at[bit / 8] = (char)(at[bit / 8] ^ 1 << bit % 8);
    }
    assert_true(padding < 64);
    mem_free(at);
}

/* ---- slices ---- */

enum { JOBS = 3000 };

struct built {
    struct slice_build build;
    uint64_t offsets[JOBS];
};

static struct event job_number(unsigned number, char room[static 64])
{
    static const char *const topics[] = {"mail", "a topic", "orders"};
    struct event job = a_job();
    memset(room, (int)('a' + number % 26), 64);
    job.job.seq = 5 + number * 7 % JOBS;
    job.job.due_us = 1700000000000000 + (int64_t)number / 3 * 1000;
    job.topic = bytes_str(topics[number % 3]);
    job.id = number % 2 ? bytes_of(room, 20) : (struct bytes){0};
    job.body = bytes_of(room, number % 64);
    return job;
}

static struct built *build_of(enum job_state state)
{
    struct built *built = mem_zalloc(sizeof(*built));
    char room[64];
    slice_build_begin(&built->build, &id, 42);
    built->build.head.state = state;
    for (unsigned i = 0; i < JOBS; i++) {
        struct event job = job_number(i, room);
        job.job.state = state;
        size_t len = far_record_bytes(&job);
        char *record = mem_alloc(len);
        far_record_encode(&job, len, record);
        assert_true(slice_build_room(&built->build, len));
        uint64_t id_hash = job.id.len ? hash_seeded(job.id.at, job.id.len, 9) : 0;
        built->offsets[i] = slice_build_add(&built->build, &job, id_hash, record, len);
        mem_free(record);
    }
    slice_build_end(&built->build);
    return built;
}

static struct built *build(void)
{
    return build_of(JOB_DELAYED);
}

static void built_free(struct built *built)
{
    slice_build_fini(&built->build);
    mem_free(built);
}

static void a_slice_says_what_is_in_it(void **state)
{
    (void)state;
    struct built *built = build();
    const char *image = built->build.image;
    struct slice_head head;
    struct slice_fence fences[64];
    char room[64];
    assert_int_equal(slice_head_decode(image, &head), FORMAT_GOOD);
    assert_int_equal(head.size_bytes, built->build.len);
    assert_true(head.number == 42 && head.jobs == JOBS && head.topics == 3);
    assert_true(store_id_eq(&head.id, &id) && head.blocks > 3 && head.blocks < 64);
    assert_int_equal(slice_fences_decode(&head, image + head.data_end, fences), OK);
    unsigned job = 0;
    struct slice_index index;
    slice_index_init(&index, &head, image + slice_index_at(&head));
    for (uint32_t i = 0; i < head.blocks; i++) {
        const char *block = image + (uint64_t)fences[i].offset * BLOCK;
        struct batch_head batch;
        assert_int_equal(batch_head_decode(block, head.data_end, &batch), FORMAT_GOOD);
        assert_true(batch.number == i + 1 && batch.segment == 42 && batch_whole(&batch, block, 0));
        assert_true(batch_bytes(batch.payload_bytes) <= SLICE_BLOCK_BYTES + BLOCK);
        struct batch_walk walk;
        batch_walk_init(&walk, block, batch.payload_bytes);
        while (batch_walk_next(&walk) == OK) {
            struct event want = job_number(job, room);
            assert_true(walk.record.is_far);
            assert_same(&want, &walk.record.event);
            assert_int_equal(slice_index_next(&index), OK);
            assert_int_equal(index.offset, (uint64_t)(block - image) + walk.record_at);
            assert_int_equal(index.offset, built->offsets[job]);
            assert_int_equal(index.seq, want.job.seq);
            assert_int_equal(index.id_hash != 0, want.id.len > 0);
            job++;
        }
    }
    assert_int_equal(job, JOBS);
    assert_int_equal(slice_index_next(&index), ERR_NOT_FOUND);
    struct slice_topics topics = {image + slice_topics_at(&head), image + slice_index_at(&head)};
    struct bytes name;
    assert_int_equal(slice_topics_next(&topics, &name), OK);
    assert_true(bytes_eq(name, BYTES("mail")));
    assert_int_equal(slice_topics_next(&topics, &name), OK);
    assert_int_equal(slice_topics_next(&topics, &name), OK);
    assert_true(bytes_eq(name, BYTES("orders")));
    assert_int_equal(slice_topics_next(&topics, &name), ERR_NOT_FOUND);
    built_free(built);
}

/* And only of ready ones: the index of others does not say it. */
static void the_index_of_ready_jobs_has_their_order(void **state)
{
    (void)state;
    for (enum job_state of = JOB_DELAYED; of <= JOB_BURIED; of++) {
        char room[64];
        if (of == JOB_RESERVED)
            continue;
        struct built *built = build_of(of);
        const char *image = built->build.image;
        struct slice_head head;
        struct slice_index index;
        assert_int_equal(slice_head_decode(image, &head), FORMAT_GOOD);
        assert_int_equal(head.state, of);
        slice_index_init(&index, &head, image + slice_index_at(&head));
        for (unsigned i = 0; i < JOBS; i++) {
            struct event want = job_number(i, room);
            assert_int_equal(slice_index_next(&index), OK);
            assert_int_equal(index.priority, of == JOB_READY ? want.job.priority : 0);
            assert_true(index.rank_us == (of == JOB_READY ? event_rank_us(&want) : 0));
        }
        assert_int_equal(slice_index_next(&index), ERR_NOT_FOUND);
        built_free(built);
    }
}

static void a_job_is_not_both_ready_and_buried(void **state)
{
    (void)state;
    struct event job = a_job();
    struct record record;
    size_t len = far_record_bytes(&job);
    char *at = mem_alloc(len);
    far_record_encode(&job, len, at);
    assert_int_equal(record_decode(at, len, &record), OK);
    at[5] = (char)(at[5] | 64 | 128);
    assert_int_equal(record_decode(at, len, &record), ERR_CORRUPT);
    mem_free(at);
}

static void a_slice_ends_when_it_is_full(void **state)
{
    (void)state;
    struct slice_build build = {0};
    struct event job = a_job();
    size_t len = 1024 * 1024;
    char *record = mem_zalloc(len);
    slice_build_fini(&build);
    slice_build_begin(&build, &id, 7);
    unsigned count = 0;
    for (; slice_build_room(&build, len); count++)
        (void)slice_build_add(&build, &job, 0, record, len);
    assert_true(count == 14 || count == 15); /* each has a block and its header */
    slice_build_end(&build);
    assert_true(build.head.data_end <= SLICE_DATA_MAX);
    slice_build_fini(&build);
    len = SLICE_DATA_MAX + 8;
    record = mem_realloc(record, len);
    slice_build_begin(&build, &id, 7);
    assert_true(slice_build_room(&build, len)); /* into an empty one anything goes */
    (void)slice_build_add(&build, &job, 0, record, len);
    assert_false(slice_build_room(&build, 32));
    slice_build_end(&build);
    assert_true(build.len > len);
    slice_build_fini(&build);
    mem_free(record);
}

static void damaged_heads_and_sections_are_none(void **state)
{
    (void)state;
    struct built *built = build();
    char *image = built->build.image;
    struct slice_head head, other;
    struct slice_fence fences[64];
    assert_int_equal(slice_head_decode(image, &head), FORMAT_GOOD);
    for (size_t byte = 0; byte < BLOCK; byte++) {
        image[byte] ^= 4;
        assert_int_equal(slice_head_decode(image, &other), FORMAT_BAD);
        image[byte] ^= 4;
    }
    image[head.data_end + 5] ^= 1;
    assert_int_equal(slice_fences_decode(&head, image + head.data_end, fences), ERR_CORRUPT);
    char *zeros = mem_zalloc(BLOCK);
    assert_int_equal(slice_head_decode(zeros, &other), FORMAT_BLANK);
    mem_free(zeros);
    slice_head_encode(&head, image);
    put_u32(image + 8, FORMAT_VERSION + 1);
    put_u64(image + BLOCK - 8, hash_of(image, BLOCK - 8));
    assert_int_equal(slice_head_decode(image, &other), FORMAT_NEWER);
    built_free(built);
}

/* ---- the log's records ---- */

static void what_the_log_says_of_a_slice_comes_back(void **state)
{
    (void)state;
    char dead[40], at[200], *end = dead;
    end = varint_put(end, 2);
    end = varint_put(end, 1000);
    end = varint_put(end, 3);
    struct slice_record part = {.number = 9,
                                .from = 1,
                                .to = 40,
                                .jobs = 5,
                                .left = 3,
                                .left_bytes = UINT64_C(1) << 40,
                                .dead = dead,
                                .dead_bytes = (uint32_t)(end - dead)};
    size_t len = slice_record_bytes(&part);
    struct record record;
    slice_record_encode(&part, at);
    assert_int_equal(record_decode(at, len, &record), OK);
    assert_true(record.is_slice && !record.is_event && record.len == len);
    const struct slice_record *again = &record.slice;
    assert_true(again->number == 9 && again->from == 1 && again->to == 40 && again->jobs == 5);
    assert_true(again->left == 3 && again->left_bytes == UINT64_C(1) << 40 && !again->whole);
    assert_int_equal(again->dead_bytes, part.dead_bytes);
    assert_memory_equal(again->dead, dead, part.dead_bytes);
    part.whole = true; /* takes over nothing */
    slice_record_encode(&part, at);
    assert_int_equal(record_decode(at, len, &record), ERR_CORRUPT);
    part.left = 0;
    slice_record_encode(&part, at);
    assert_int_equal(record_decode(at, len, &record), OK);
    part.to = 8; /* now a dead one lies behind the end */
    slice_record_encode(&part, at);
    assert_int_equal(record_decode(at, len, &record), ERR_CORRUPT);
    part.to = 1;
    slice_record_encode(&part, at);
    assert_int_equal(record_decode(at, len, &record), ERR_CORRUPT);
}

static void a_move_may_say_where_the_record_is(void **state)
{
    (void)state;
    struct event move = {.kind = EVENT_MOVE,
                         .job = {.seq = 4, .state = JOB_BURIED, .due_us = 6},
                         .id = BYTES("order-7"),
                         .record = {.where = UINT64_C(0x500000020)}};
    char at[128];
    struct record record;
    size_t len = record_bytes(&move);
    assert_int_equal(len, RECORD_PLACED + 8);
    record_encode(&move, len, at);
    assert_int_equal(record_decode(at, len, &record), OK);
    assert_true(record.is_event && record.event.kind == EVENT_MOVE);
    assert_true(record.event.record.where == move.record.where && record.event.job.due_us == 6);
    assert_true(bytes_eq(record.event.id, move.id));
    for (size_t room = 0; room < len; room++)
        assert_int_equal(record_decode(at, room, &record), ERR_CORRUPT);
}

static void names_are_told_apart(void **state)
{
    (void)state;
    char name[DISK_NAME_MAX];
    uint32_t number = 0;
    slice_name(0x2a, name);
    assert_string_equal(name, "slice-0000002a");
    assert_true(slice_name_parse(name, &number) && number == 0x2a);
    assert_true(slice_tmp_name_parse("slice-0000002b.tmp", &number) && number == 0x2b);
    assert_false(slice_name_parse("slice-0000002b.tmp", &number));
    assert_false(slice_tmp_name_parse("slice-0000002b", &number));
    assert_false(slice_tmp_name_parse(".tmp", &number));
    assert_false(slice_name_parse("slice-2a", &number));
    assert_false(slice_name_parse("wal-0000002a", &number));
    assert_false(slice_name_parse("slice-", &number));
}

/* A head that could be one of two blocks with ten jobs. */
static struct slice_head possible_head(void)
{
    return (struct slice_head){.version = FORMAT_VERSION,
                               .number = 7,
                               .id.bytes = {1},
                               .size_bytes = (uint64_t)16 * BLOCK,
                               .data_end = (uint64_t)4 * BLOCK,
                               .jobs = 10,
                               .blocks = 2,
                               .topics = 1,
                               .state = JOB_DELAYED,
                               .due_first_us = 5,
                               .due_last_us = 9,
                               .topics_bytes = 8,
                               .index_bytes = 64};
}

static enum format_verdict verdict_of(const struct slice_head *head)
{
    static char block[BLOCK];
    struct slice_head back;
    slice_head_encode(head, block);
    return slice_head_decode(block, &back);
}

/* With the right checksum: nothing is read, or made room for, by such numbers. */
static void a_head_that_no_version_writes_is_refused(void **state)
{
    (void)state;
    enum { CASES = 13 };
    struct slice_head heads[CASES], good = possible_head();
    assert_int_equal(verdict_of(&good), FORMAT_GOOD);
    for (unsigned i = 0; i < CASES; i++)
        heads[i] = good;
    heads[0].size_bytes += 8;
    heads[1].data_end = BLOCK; /* no block has room */
    heads[1].blocks = 1;
    heads[2].data_end += 8;
    heads[3].blocks = 0;
    heads[4].blocks = 5;
    heads[5].jobs = 1;
    heads[6].jobs = 4 * BLOCK / SLICE_UNIT + 1;
    heads[7].topics = 0;
    heads[8].topics = SLICE_TOPICS_MAX + 1;
    heads[9].topics_bytes = good.size_bytes + 1;
    heads[10].index_bytes = good.size_bytes;
    heads[11].due_first_us = 10;
    heads[12].state = JOB_RESERVED;
    for (unsigned i = 0; i < CASES; i++) {
        if (verdict_of(&heads[i]) != FORMAT_BAD)
            fail_msg("head %u is taken", i);
    }
}

static enum err fences_of(const struct slice_fence fences[2])
{
    char section[2 * SLICE_FENCE_BYTES];
    struct slice_head head = possible_head();
    struct slice_fence back[2];
    for (unsigned i = 0; i < 2; i++)
        slice_fence_encode(&fences[i], section + (size_t)i * SLICE_FENCE_BYTES);
    head.fences_sum = hash_of(section, sizeof(section));
    return slice_fences_decode(&head, section, back);
}

/* Blocks are read by them, and jobs are counted. */
static void fences_that_do_not_fit_the_head_are_refused(void **state)
{
    static const struct slice_fence good[2] = {{.due_us = 5, .offset = 1, .jobs = 4},
                                               {.due_us = 9, .offset = 3, .jobs = 6}};
    static const struct slice_fence bad[][2] = {
        {{.due_us = 5, .offset = 2, .jobs = 4}, {.due_us = 9, .offset = 3, .jobs = 6}},
        {{.due_us = 6, .offset = 1, .jobs = 4}, {.due_us = 9, .offset = 3, .jobs = 6}},
        {{.due_us = 5, .offset = 1, .jobs = 4}, {.due_us = 4, .offset = 3, .jobs = 6}},
        {{.due_us = 5, .offset = 1, .jobs = 4}, {.due_us = 10, .offset = 3, .jobs = 6}},
        {{.due_us = 5, .offset = 1, .jobs = 4}, {.due_us = 9, .offset = 1, .jobs = 6}},
        {{.due_us = 5, .offset = 1, .jobs = 4}, {.due_us = 9, .offset = 4, .jobs = 6}},
        {{.due_us = 5, .offset = 1, .jobs = 10}, {.due_us = 9, .offset = 3, .jobs = 0}},
        {{.due_us = 5, .offset = 1, .jobs = 4}, {.due_us = 9, .offset = 3, .jobs = 5}},
    };
    (void)state;
    assert_int_equal(fences_of(good), OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (fences_of(bad[i]) != ERR_CORRUPT)
            fail_msg("fences %zu are taken", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_that_no_version_writes_is_refused),
        cmocka_unit_test(fences_that_do_not_fit_the_head_are_refused),
        cmocka_unit_test(a_far_job_comes_back),
        cmocka_unit_test(numbers_at_their_ends_come_back),
        cmocka_unit_test(what_is_reserved_does_not_fit),
        cmocka_unit_test(each_flipped_bit_of_a_record_is_noticed),
        cmocka_unit_test(a_slice_says_what_is_in_it),
        cmocka_unit_test(the_index_of_ready_jobs_has_their_order),
        cmocka_unit_test(a_job_is_not_both_ready_and_buried),
        cmocka_unit_test(a_slice_ends_when_it_is_full),
        cmocka_unit_test(damaged_heads_and_sections_are_none),
        cmocka_unit_test(what_the_log_says_of_a_slice_comes_back),
        cmocka_unit_test(a_move_may_say_where_the_record_is),
        cmocka_unit_test(names_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
