/* Entries for the journal as Redis has them: read, cut off anywhere, and with any byte changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/codec.h"
#include "base/mem.h"
#include "engine/redis/journal_entry.h"
#include "engine/redis/script_parts.h"
#include "store/record.h"

static const int64_t AT_US = INT64_C(1700000000000000);

static struct script_space space;
static struct arena arena;

static int setup(void **state)
{
    (void)state;
    return script_space_init(&space, BYTES("q"), 1, "daemon-1");
}

static int teardown(void **state)
{
    (void)state;
    script_space_fini(&space);
    arena_fini(&arena);
    return 0;
}

enum { ENTRY_FORM = 25 + 8 }; /* behind the entry's head and the job's number */

static void add_us(struct buf *out, int64_t us)
{
    char room[8];
    put_u64(room, (uint64_t)us);
    buf_add(out, room, 7);
}

static void add_name(struct buf *out, uint64_t number)
{
    char room[8];
    put_u64(room, __builtin_bswap64(number));
    buf_add(out, room, sizeof(room));
}

static void add_start(struct buf *out, char what)
{
    static const char bytes_ever[8];
    out->len = 0;
    buf_add_char(out, 'j');
    add_name(out, 17);
    buf_add(out, bytes_ever, sizeof(bytes_ever));
    add_us(out, AT_US);
    buf_add_char(out, what);
}

/* The short form of a record: id "kA", topic "t", due in a second, body "body". */
static void add_job(struct buf *out)
{
    char head[JOB_SHORT_BYTES] = {(char)JOB_IS_RECORD, 2, 1};
    add_start(out, 'p');
    add_name(out, 99);
    put_u16(head + JOB_SHORT_PRIORITY, 5);
    put_u16(head + JOB_SHORT_TTR, 60);
    put_u64(head + JOB_SHORT_CREATED, (uint64_t)AT_US); /* its last byte is the sum's */
    put_u32(head + JOB_SHORT_DUE, (uint32_t)(AT_US + 1000000));
    put_u16(head + JOB_SHORT_DUE + 4, (uint16_t)((AT_US + 1000000) >> 32));
    put_u8(head + JOB_SHORT_DUE + 6, (uint8_t)((AT_US + 1000000) >> 48));
    buf_add(out, head, sizeof(head));
    buf_add_str(out, "tkAbody");
}

static void add_move(struct buf *out)
{
    static const char rest[] = {4, 2, 0, 7, 0, 0, 0}; /* buried, two failures, priority */
    add_start(out, 'm');
    add_name(out, 99);
    buf_add(out, rest, sizeof(rest));
    add_us(out, AT_US);
    buf_add_str(out, "kA");
}

static void add_end(struct buf *out, char what)
{
    add_start(out, what);
    add_name(out, 99);
    buf_add_str(out, "kA");
}

/* ERR_CORRUPT, or a batch that the journal can read. NULL: it has no event. */
static enum err read_entry(struct bytes member, struct record *out_record,
                           struct journal_batch **out_batch)
{
    struct journal_entry entry;
    struct batch_walk walk;
    enum err err = journal_entry_read(&space, 0, member, &entry);
    arena_reset(&arena);
    if (!err)
        err = journal_entry_batch(&space, 0, &entry, &arena, out_batch);
    if (err)
        return err;
    batch_walk_init(&walk, (*out_batch)->at, (*out_batch)->payload_bytes);
    assert_int_equal(batch_walk_next(&walk), (*out_batch)->records ? OK : ERR_NOT_FOUND);
    *out_record = walk.record;
    assert_int_equal((*out_batch)->clock_us, entry.at_us);
    return OK;
}

static void the_order_among_ready_jobs_is_read(void **state)
{
    struct buf out = {0};
    struct record record;
    struct journal_batch *batch;
    (void)state;
    for (int arrival = 0; arrival < 2; arrival++) {
        add_job(&out);
        out.at[ENTRY_FORM] = (char)(JOB_IS_RECORD | (arrival ? JOB_IN_ARRIVAL : 0));
        assert_int_equal(read_entry(buf_bytes(&out), &record, &batch), OK);
        assert_int_equal(record.event.order, arrival ? ORDER_ARRIVAL : ORDER_DUE);
        mem_free(batch);
    }
    buf_fini(&out);
}

static void each_kind_is_read(void **state)
{
    struct buf out = {0};
    struct record record;
    struct journal_batch *batch;
    (void)state;
    add_job(&out);
    assert_int_equal(read_entry(buf_bytes(&out), &record, &batch), OK);
    assert_int_equal(record.event.kind, EVENT_JOB);
    assert_int_equal(record.event.job.seq, 99);
    assert_int_equal(record.event.job.state, JOB_DELAYED);
    assert_int_equal(record.event.job.due_us, AT_US + 1000000);
    assert_int_equal(record.event.job.priority, 5);
    assert_true(bytes_eq(record.event.id, BYTES("kA")));
    assert_true(bytes_eq(record.event.topic, BYTES("t")));
    assert_true(bytes_eq(record.event.body, BYTES("body"))); /* though its sum is wrong */
    assert_int_equal(batch->entry, 17);
    assert_int_equal(batch->clock_us, AT_US);
    mem_free(batch);
    add_move(&out);
    assert_int_equal(read_entry(buf_bytes(&out), &record, &batch), OK);
    assert_int_equal(record.event.kind, EVENT_MOVE);
    assert_int_equal(record.event.job.state, JOB_BURIED);
    assert_int_equal(record.event.job.failures, 2);
    assert_int_equal(record.event.job.priority, 7);
    assert_true(bytes_eq(record.event.id, BYTES("kA")));
    mem_free(batch);
    for (const char *what = "fd"; *what; what++) {
        add_end(&out, *what);
        assert_int_equal(read_entry(buf_bytes(&out), &record, &batch), OK);
        assert_int_equal(record.event.kind, EVENT_GONE);
        assert_int_equal(record.event.end, *what == 'f' ? END_FINISHED : END_DELETED);
        mem_free(batch);
    }
    add_start(&out, 'o');
    assert_int_equal(read_entry(buf_bytes(&out), &record, &batch), OK);
    assert_int_equal(batch->records, 0);
    mem_free(batch);
    buf_fini(&out);
}

static void expect_no_harm(struct bytes member)
{
    struct record record;
    struct journal_batch *batch;
    if (read_entry(member, &record, &batch) == OK)
        mem_free(batch);
}

static void damage(struct buf *out)
{
    char *copy = mem_alloc(out->len);
    for (size_t len = 0; len < out->len; len++) {
        char *cut = mem_alloc(len + 1); /* a sanitizer sees what is read behind it */
        memcpy(cut, out->at, len);
        expect_no_harm(bytes_of(cut, len));
        mem_free(cut);
    }
    for (size_t at = 0; at < out->len; at++) {
        for (unsigned value = 0; value < 256; value++) {
            memcpy(copy, out->at, out->len);
            copy[at] = (char)value;
            expect_no_harm(bytes_of(copy, out->len));
        }
    }
    mem_free(copy);
}

static void a_damaged_one_is_refused_or_can_be_written(void **state)
{
    struct buf out = {0};
    (void)state;
    add_job(&out);
    damage(&out);
    add_move(&out);
    damage(&out);
    add_end(&out, 'f');
    damage(&out);
    buf_fini(&out);
}

static void the_field_is_read(void **state)
{
    struct journal_field field;
    char text[49] = {9, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 40};
    (void)state;
    assert_int_equal(journal_field_read(bytes_of(text, sizeof(text)), &field), OK);
    assert_int_equal(field.last, 9);
    assert_int_equal(field.waiting_bytes, 60);
    assert_int_equal(journal_field_read(bytes_of(text, 33), &field), OK); /* it was given up */
    assert_int_equal(journal_field_read(bytes_of(text, 32), &field), ERR_CORRUPT);
    assert_int_equal(journal_field_read(bytes_of(text, 48), &field), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_among_ready_jobs_is_read),
        cmocka_unit_test(each_kind_is_read),
        cmocka_unit_test(a_damaged_one_is_refused_or_can_be_written),
        cmocka_unit_test(the_field_is_read),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
