/* beanstalkd's binlog records: both versions, every cut, and what beanstalkd never writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/codec.h"
#include "proto/beanstalk/binlog.h"

enum { HEAD_7 = 4 + 4 + 80, AT_JOB = 4 + 4, SECOND_US = 1000000 };

/* The second record of a log that beanstalkd 1.12 wrote: put 7 100 61 5, tube mail. */
static const unsigned char real[] = {
    0x04, 0x00, 0x00, 0x00, 0x6d, 0x61, 0x69, 0x6c, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe8, 0x76, 0x48, 0x17, 0x00, 0x00, 0x00,
    0x00, 0x22, 0xe2, 0x33, 0x0e, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x50, 0xac, 0x7d, 0x5c, 0xdb, 0xff, 0xe9, 0x18, 0x50, 0x94, 0xf4, 0xa4, 0xf2, 0xff, 0xe9, 0x18,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x64, 0x65, 0x6c, 0x61, 0x79, 0x0d, 0x0a,
};

static void a_record_that_beanstalkd_wrote_is_read(void **state)
{
    (void)state;
    struct binlog_record record;
    assert_int_equal(binlog_decode(7, bytes_of(real, sizeof(real)), &record), OK);
    assert_int_equal(record.id, 2);
    assert_true(bytes_eq(record.tube, BYTES("mail")));
    assert_int_equal(record.state, BINLOG_DELAYED);
    assert_int_equal(record.priority, 7);
    assert_int_equal(record.ttr_us, 61 * SECOND_US);
    assert_int_equal(record.due_us - record.created_us, 100 * SECOND_US);
    assert_int_equal(record.body_len, 5);
    assert_int_equal(record.head_len, HEAD_7);
    assert_true(binlog_body_whole(bytes_of(real + HEAD_7, 7)));
    assert_false(binlog_body_whole(bytes_of(real + HEAD_7, 6)));
    assert_false(binlog_body_whole(bytes_of("\r", 1)));
}

static void a_cut_record_asks_for_more(void **state)
{
    (void)state;
    struct binlog_record record;
    for (size_t len = 0; len < sizeof(real); len++) {
        enum err wanted = len < HEAD_7 ? ERR_AGAIN : OK; /* the body need not be there */
        assert_int_equal(binlog_decode(7, bytes_of(real, len), &record), wanted);
    }
}

static void zeros_end_a_file(void **state)
{
    (void)state;
    static const char zeros[BINLOG_HEAD_MAX];
    struct binlog_record record;
    assert_int_equal(binlog_decode(7, bytes_of(zeros, sizeof(zeros)), &record), ERR_EMPTY);
    assert_int_equal(binlog_decode(5, bytes_of(zeros, sizeof(zeros)), &record), ERR_EMPTY);
    uint32_t version;
    assert_int_equal(binlog_version(bytes_of(zeros, 4), &version), ERR_EMPTY);
    assert_int_equal(binlog_version(bytes_of(zeros, 3), &version), ERR_AGAIN);
    assert_int_equal(binlog_version(bytes_of("\6\0\0\0", 4), &version), ERR_UNSUPPORTED);
    assert_int_equal(binlog_version(bytes_of("\7\0\0\0", 4), &version), OK);
    assert_int_equal(version, 7);
}

static void a_short_record_has_no_tube_and_no_body(void **state)
{
    (void)state;
    char bytes[4 + 80] = {0};
    struct binlog_record record;
    memcpy(bytes + 4, real + AT_JOB, 80);
    bytes[4 + 76] = BINLOG_GONE;
    assert_int_equal(binlog_decode(7, bytes_of(bytes, sizeof(bytes)), &record), OK);
    assert_int_equal(record.tube.len, 0);
    assert_int_equal(record.state, BINLOG_GONE);
    assert_int_equal(record.head_len, sizeof(bytes));
}

static void version_5_has_microseconds_and_a_longer_length(void **state)
{
    (void)state;
    char bytes[8 + 4 + 77];
    struct binlog_record record;
    put_u64(bytes, 4);
    memcpy(bytes + 8, real + 4, 4 + 77);
    put_u64(bytes + 8 + 4 + 24, 5 * SECOND_US);
    put_u64(bytes + 8 + 4 + 40, 1000000);
    put_u64(bytes + 8 + 4 + 48, 1234567);
    assert_int_equal(binlog_decode(5, bytes_of(bytes, sizeof(bytes)), &record), OK);
    assert_int_equal(record.ttr_us, 5 * SECOND_US);
    assert_int_equal(record.due_us, 1234567);
    assert_int_equal(record.head_len, sizeof(bytes));
    assert_int_equal(binlog_decode(5, bytes_of(bytes, sizeof(bytes) - 1), &record), ERR_AGAIN);
    put_u64(bytes + 8 + 4 + 48, INT64_MAX / 1000 + 1);
    assert_int_equal(binlog_decode(5, bytes_of(bytes, sizeof(bytes)), &record), ERR_CORRUPT);
}

static void times_are_rounded_up_so_that_nothing_comes_early(void **state)
{
    (void)state;
    char bytes[sizeof(real)];
    struct binlog_record record;
    memcpy(bytes, real, sizeof(real));
    put_u64(bytes + AT_JOB + 48, 1001);
    assert_int_equal(binlog_decode(7, bytes_of(bytes, sizeof(bytes)), &record), OK);
    assert_int_equal(record.due_us, 2);
}

static void what_beanstalkd_never_writes_is_corrupt(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        unsigned char byte;
    } flaws[] = {
        {0, 201},            /* the name is too long */
        {1, 1},              /* much too long */
        {5, ' '},            /* no such name */
        {5, 0xff},           /* nor such */
        {AT_JOB, 0},         /* id 0, and yet a name */
        {AT_JOB + 32, 1},    /* a body too short for its CR LF */
        {AT_JOB + 35, 0x80}, /* one too long for any machine */
        {AT_JOB + 31, 0x80}, /* ttr, created and deadline before 1970 */
        {AT_JOB + 47, 0x80},
        {AT_JOB + 55, 0x80},
        {AT_JOB + 76, BINLOG_GONE}, /* whole, and yet deleted */
        {AT_JOB + 76, 5},           /* no state */
    };
    for (size_t i = 0; i < sizeof(flaws) / sizeof(flaws[0]); i++) {
        char bytes[BINLOG_HEAD_MAX] = {0};
        struct binlog_record record = {.id = 99};
        memcpy(bytes, real, sizeof(real));
        bytes[flaws[i].at] = (char)flaws[i].byte;
        assert_int_equal(binlog_decode(7, bytes_of(bytes, sizeof(bytes)), &record), ERR_CORRUPT);
        assert_int_equal(record.id, 99); /* outputs are written on OK only */
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_that_beanstalkd_wrote_is_read),
        cmocka_unit_test(a_cut_record_asks_for_more),
        cmocka_unit_test(zeros_end_a_file),
        cmocka_unit_test(a_short_record_has_no_tube_and_no_body),
        cmocka_unit_test(version_5_has_microseconds_and_a_longer_length),
        cmocka_unit_test(times_are_rounded_up_so_that_nothing_comes_early),
        cmocka_unit_test(what_beanstalkd_never_writes_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
