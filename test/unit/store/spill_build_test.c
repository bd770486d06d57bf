/*
 * Jobs that were gathered become slices: each once, in the order in which they are due, whatever
 * order they came in, and memory is taken once for many runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/codec.h"
#include "base/far_hash.h"
#include "base/hash.h"
#include "base/mem.h"
#include "port/disk.h"
#include "store/record.h"
#include "store/slices/far_record.h"
#include "store/slices/slices.h"
#include "store/slices/spill_build.h"
#include "store/slices/spill_gather.h"

static const struct store_id id = {.bytes = "0123456789abcde"};

/* Xorshift (G. Marsaglia, "Xorshift RNGs"). */
static uint64_t random_next(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

static void add_event(struct spill_gather *gather, struct gather_room *room,
                      const struct event *job, uint64_t content_sum)
{
    struct far_draft draft;
    far_record_begin(job, &draft);
    gather_add(gather, room, job, &draft, content_sum, (uint32_t)job->job.seq);
}

static void add(struct spill_gather *gather, struct gather_room *room, uint64_t seq, int64_t due_us,
                struct bytes body)
{
    struct event job = {
        .kind = EVENT_JOB,
        .job = {.seq = seq, .due_us = due_us, .state = JOB_DELAYED},
        .ttr_us = 1000000,
        .id = BYTES("an id of a client's"),
        .topic = seq % 3 ? BYTES("one") : BYTES("another"),
        .body = body,
    };
    add_event(gather, room, &job, hash_seeded(body.at, body.len, seq));
}

/* Makes all slices of what was gathered. Returns how many; none is out of order. */
static unsigned build_all(struct spill_build *build, uint64_t *out_jobs)
{
    struct discard spent = {0};
    int64_t last_us = INT64_MIN;
    uint64_t last_seq = 0;
    unsigned slices = 0;
    *out_jobs = 0;
    for (; gather_left(build->gather); slices++) {
        slice_build_begin(&build->slice, &id, 7 + slices);
        spill_build_run(build);
        const struct leaving *leaving = (const struct leaving *)(const void *)build->leaving.at;
        size_t count = build->leaving.len / sizeof(*leaving);
        assert_int_equal(count, build->slice.head.jobs);
        for (size_t i = 0; i < count; i++) {
            struct record record;
            const char *at = build->slice.image + (leaving[i].where & UINT32_MAX) * 8;
            assert_int_equal(leaving[i].where >> 32, 7 + slices);
            assert_int_equal(record_decode(at, leaving[i].len, &record), OK);
            assert_true(record.is_far && record.len == leaving[i].len && record_body_good(&record));
            assert_int_equal(record.event.job.seq, leaving[i].seq);
            uint64_t bits[4] = {0};
            slice_topic_bits(bits, record.event.topic);
            for (unsigned word = 0; word < 4; word++)
                assert_false(bits[word] & ~build->topics[word]); /* slice_may_have() */
            assert_int_equal((uint32_t)leaving[i].seq, leaving[i].old_bytes);
            bool after = record.event.job.due_us > last_us ||
                         (record.event.job.due_us == last_us && leaving[i].seq > last_seq);
            assert_true(after || (i == 0 && slices == 0));
            last_us = record.event.job.due_us;
            last_seq = leaving[i].seq;
        }
        *out_jobs += count;
        slice_build_reset(&build->slice, &spent);
        buf_fini(&build->leaving);
    }
    discard_fini(&spent);
    return slices;
}

static void jobs_come_in_order_of_due_time_and_number(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct spill_gather gather = {.taken = 0};
        struct gather_room room = {.chunks = {.len = 0}};
        struct spill_build build = {.gather = &gather, .far_key = 9};
        uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15), jobs, count = 1 + seed * seed;
        for (uint64_t i = 0; i < count; i++) {
            uint64_t seq = seed % 2 ? i + 1 : (count - i) << seed; /* or against their order */
            int64_t due_us = (int64_t)random_next(&random);
            if (seed % 4 == 1 || seed % 4 == 2)
                due_us %= 5; /* many at one instant, some before 1970 */
            if (seed % 8 == 3)
                due_us = i ? due_us & 0xffffff : INT64_MAX; /* one is far from the others */
            add(&gather, &room, seq, due_us, BYTES("body"));
        }
        assert_int_equal(build_all(&build, &jobs), 1);
        assert_int_equal(jobs, count);
        gather_fini(&gather, &room);
        gather_room_fini(&room);
        slice_build_fini(&build.slice);
    }
}

/* Jobs that differ in all that stands in front of the names in a record. */
static void add_any(struct spill_gather *gather, struct gather_room *room, uint64_t seq,
                    enum job_state of_all)
{
    static const int64_t waits_us[] = {1, 2, 3};
    static const char id_bytes[] = "0123456789abcdefghijklmnopqrstuvwxyz", content[] = "a/bbody12";
    bool has_type = seq % 2, has_properties = seq % 5 == 0;
    struct event job = {
        .kind = EVENT_JOB,
        .job = {.seq = seq,
                .due_us = (int64_t)(seq * 7919 % 100),
                .priority = (uint32_t)(seq % 11),
                .state = of_all},
        .id = bytes_of(id_bytes, seq % sizeof(id_bytes)),
        .topic = bytes_of(id_bytes + seq / 4 % 3, 1 + seq / 8 % 3),
        .content_type = bytes_of(content, has_type ? 3 : 0),
        .body = bytes_of(content + 3, 4),
        .properties = bytes_of(content + 7, has_properties ? 2 : 0),
        .retry_us = waits_us,
        .retry_count = (uint8_t)(seq % 4),
        .order = seq % 6 ? ORDER_DUE : ORDER_ARRIVAL,
        .created_us = (int64_t)(seq * 31 % 17),
    };
    struct far_draft draft;
    far_record_begin(&job, &draft);
    char *record = mem_alloc(draft.len);
    struct record decoded;
    far_record_encode(&job, draft.len, record); /* for the sum of its content */
    assert_int_equal(record_decode(record, draft.len, &decoded), OK);
    add_event(gather, room, &job, decoded.body_sum);
    mem_free(record);
}

/* The index of a slice says of each job what its record says. */
static void check_index(const struct spill_build *build)
{
    const struct slice_head *head = &build->slice.head;
    const char *image = build->slice.image, *section = image + slice_topics_at(head);
    struct slice_topics topics = {section, section + head->topics_bytes};
    struct bytes names[16] = {{0}};
    struct slice_index index;
    bool ready = head->state == JOB_READY;
    unsigned count = 0, jobs = 0;
    while (slice_topics_next(&topics, &names[count]) == OK)
        count++;
    assert_in_range(count, 2, 15);
    slice_index_init(&index, head, image + slice_index_at(head));
    for (; slice_index_next(&index) == OK; jobs++) {
        struct record record;
        const char *at = image + index.offset;
        assert_int_equal(record_decode(at, get_u32(at), &record), OK);
        assert_true(record_body_good(&record));
        const struct event *job = &record.event;
        assert_int_equal(index.seq, job->job.seq);
        assert_true(index.id_hash == far_hash_id(build->far_key, job->id));
        assert_true(index.topic < count && bytes_eq(names[index.topic], job->topic));
        assert_int_equal(index.priority, ready ? job->job.priority : 0);
        assert_int_equal(index.rank_us, ready ? event_rank_us(job) : 0);
    }
    assert_int_equal(jobs, head->jobs);
}

static void the_index_says_what_the_records_say(void **state)
{
    static const enum job_state kinds[] = {JOB_DELAYED, JOB_READY, JOB_BURIED};
    (void)state;
    for (unsigned kind = 0; kind < 3; kind++) {
        struct spill_gather gather = {.taken = 0};
        struct gather_room room = {.chunks = {.len = 0}};
        struct spill_build build = {.gather = &gather, .far_key = 9};
        struct discard spent = {0};
        for (uint64_t seq = 1; seq <= 1000; seq++)
            add_any(&gather, &room, seq, kinds[kind]);
        slice_build_begin(&build.slice, &id, 7);
        build.slice.head.state = kinds[kind];
        spill_build_run(&build);
        assert_int_equal(build.slice.head.jobs, 1000);
        check_index(&build);
        slice_build_reset(&build.slice, &spent);
        discard_fini(&spent);
        gather_fini(&gather, &room);
        gather_room_fini(&room);
        slice_build_fini(&build.slice);
        buf_fini(&build.leaving);
    }
    assert_int_equal(mem_used(), 0);
}

/* Where the pieces of a slice go: they make the same file. */
struct file {
    struct disk_pieces pieces;
    struct buf bytes;
};

static void put_piece(struct disk_pieces *pieces, const void *data, size_t len, uint64_t offset)
{
    struct file *file = (struct file *)pieces;
    assert_true(offset <= file->bytes.len); /* no gap */
    if (offset + len > file->bytes.len) {
        buf_reserve(&file->bytes, offset + len - file->bytes.len);
        file->bytes.len = offset + len;
    }
    memcpy(file->bytes.at + offset, data, len);
}

static void a_slice_in_pieces_is_the_same_file(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct spill_gather gather = {.taken = 0};
        struct gather_room room = {.chunks = {.len = 0}};
        struct spill_build build = {.gather = &gather, .far_key = 9};
        struct file file = {.pieces.put = put_piece};
        struct buf whole = {0};
        char *body = mem_zalloc(seed * 30000);
        for (unsigned way = 0; way < 2; way++) {
            for (uint64_t i = 1; i <= 500 / seed; i++)
                add(&gather, &room, i, (int64_t)(i * 7919 % 100),
                    bytes_of(body, i * 6700 % (seed * 30000)));
            slice_build_begin(&build.slice, &id, 7);
            build.slice.to = way ? &file.pieces : NULL;
            spill_build_run(&build);
            assert_false(gather_left(&gather));
            if (!way)
                buf_add(&whole, build.slice.image, build.slice.len);
            assert_int_equal(build.slice.len, whole.len);
            assert_true(!way || build.slice.cap < 1024 * 1024 + seed * 60000); /* not all of it */
            slice_build_fini(&build.slice);
            build.leaving.len = 0;
            gather_fini(&gather, &room);
        }
        assert_int_equal(file.bytes.len, whole.len);
        assert_memory_equal(file.bytes.at, whole.at, whole.len);
        gather_room_fini(&room);
        buf_fini(&build.leaving);
        buf_fini(&file.bytes);
        buf_fini(&whole);
        mem_free(body);
    }
    assert_int_equal(mem_used(), 0);
}

static void p8_memory_of_a_run_is_counted_and_used_again(void **state)
{
    enum { BODY = 64 * 1024, JOBS = 400 };
    (void)state;
    struct spill_gather gather = {.taken = 0};
    struct gather_room room = {.chunks = {.len = 0}};
    struct spill_build build = {.gather = &gather, .far_key = 9};
    char *body = mem_zalloc(BODY);
    size_t before = mem_used();
    uint64_t jobs, kept = 0;
    for (int run = 0; run < 3; run++) {
        for (uint64_t i = 1; i <= JOBS; i++)
            add(&gather, &room, i, (int64_t)(i * 7 % JOBS), bytes_of(body, BODY));
        assert_int_equal(gather_bytes(&gather) / BODY, JOBS);
        assert_true(mem_used() >= before + gather_bytes(&gather));
        assert_int_equal(build_all(&build, &jobs), 2); /* 16 MiB are full */
        assert_int_equal(jobs, JOBS);
        gather_fini(&gather, &room);
        assert_true(gather_room_bytes(&room) >= (uint64_t)BODY * JOBS);
        assert_true(room.jobs.cap >= JOBS * sizeof(struct spilled));
        assert_true(room.spare.cap >= JOBS * sizeof(struct spilled));
        assert_true(run == 0 || gather_room_bytes(&room) == kept);
        kept = gather_room_bytes(&room);
    }
    assert_true(mem_used() >= before + kept + build.slice.cap);
    gather_room_fini(&room);
    slice_build_fini(&build.slice);
    assert_int_equal(mem_used(), before);
    mem_free(body);
}

/* The body of a job whose record in a slice has so many bytes. */
static size_t body_for(size_t record_bytes)
{
    size_t body = record_bytes - 256;
    struct far_draft draft = {.len = 0};
    while (draft.len < record_bytes) {
        struct event job = {
            .kind = EVENT_JOB,
            .job = {.seq = 1, .due_us = 1, .state = JOB_DELAYED},
            .ttr_us = 1000000,
            .id = BYTES("an id of a client's"),
            .topic = BYTES("another"),
            .body = bytes_of("", body++),
        };
        far_record_begin(&job, &draft);
    }
    assert_int_equal(draft.len, record_bytes);
    return body - 1;
}

/* The image is given back a MiB a turn, and used again at any point of that. With a record of this
   size it grows to 2 MiB and 1,024 bytes: what is left in the end would not hold its head. */
static void an_image_that_is_given_back_in_part_is_used_again(void **state)
{
    enum { MIB = 1024 * 1024, OVER = 1024, RECORD = (2 * MIB + OVER) / 2 - BLOCK - BATCH_HEAD };
    (void)state;
    size_t len = body_for(RECORD);
    char *body = mem_zalloc(len);
    size_t before = mem_used();
    for (unsigned less = 0; less < 5; less++) {
        struct spill_gather gather = {.taken = 0};
        struct gather_room room = {.chunks = {.len = 0}};
        struct spill_build build = {.gather = &gather, .far_key = 9};
        uint64_t jobs;
        for (unsigned run = 0; run < 2; run++) {
            add(&gather, &room, 3, 1, bytes_of(body, len));
            assert_int_equal(build_all(&build, &jobs), 1);
            assert_int_equal(jobs, 1);
            assert_true(run > 0 || build.slice.cap == 2 * MIB + OVER);
            gather_fini(&gather, &room);
            for (unsigned i = 0; i < less && build.slice.cap > 0; i++)
                slice_build_less(&build.slice);
        }
        gather_room_fini(&room);
        slice_build_fini(&build.slice);
        assert_int_equal(mem_used(), before);
    }
    mem_free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_come_in_order_of_due_time_and_number),
        cmocka_unit_test(the_index_says_what_the_records_say),
        cmocka_unit_test(a_slice_in_pieces_is_the_same_file),
        cmocka_unit_test(p8_memory_of_a_run_is_counted_and_used_again),
        cmocka_unit_test(an_image_that_is_given_back_in_part_is_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
