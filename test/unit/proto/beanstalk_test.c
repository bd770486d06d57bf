/*
 * The beanstalkd codec: what the running beanstalkd 1.12 makes of lines good and bad (each row was
 * tried on it), the same cut at every byte, requests printed and read back.
 * Answers: beanstalk_encode_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "beanstalk_stream.h"
#include "test/unit/support/assert_bytes.h"

enum { BODY_MAX = 65535 };

#define TEXT(literal)                                                                              \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }
#define A10     "aaaaaaaaaa"
#define A50     A10 A10 A10 A10 A10
#define A200    A50 A50 A50 A50
#define BAD     TEXT("BAD_FORMAT\r\n")
#define UNKNOWN TEXT("UNKNOWN_COMMAND\r\n")
#define SAME    TEXT("") /* what was sent comes out */

static const struct {
    struct bytes in, want;
} cases[] = {
    {TEXT("put 1 0 60 3\r\nabc\r\n"), SAME},
    {TEXT("put 4294967295 4294967295 4294967295 0\r\n\r\n"), SAME},
    {TEXT("put  1   0 60  3\r\nabc\r\n"), TEXT("put 1 0 60 3\r\nabc\r\n")},
    {TEXT("put 1 0 60 03\r\n\r\n\n\r\n"), TEXT("put 1 0 60 3\r\n\r\n\n\r\n")},
    {TEXT("put 00000000000000000000001 0 1 0\r\n\r\n"), TEXT("put 1 0 1 0\r\n\r\n")},
    {TEXT("put 1 0 1 00000000000000000000000000000\r\n\r\n"), TEXT("put 1 0 1 0\r\n\r\n")},
    {TEXT("put 1 0 60 8\r\nstats\r\n\0\r\n"), SAME},
    /* A malformed put does not swallow its body. */
    {TEXT("put 1 0 1 5 \r\nstats\r\n"), TEXT("BAD_FORMAT\r\nstats\r\n")},
    {TEXT("put 1 0 1 5 x\r\nstats\r\n"), TEXT("BAD_FORMAT\r\nstats\r\n")},
    {TEXT("put 1 0 1 5x\r\n"), BAD},
    {TEXT("put 1 0 1 +5\r\n"), BAD},
    {TEXT("put -1 0 1 5\r\n"), BAD},
    {TEXT("put 1 -1 1 5\r\n"), BAD},
    {TEXT("put 1 0 -1 5\r\n"), BAD},
    {TEXT("put 1 0 1 -5\r\n"), BAD},
    {TEXT("put 4294967296 0 1 5\r\n"), BAD},
    {TEXT("put 1 4294967296 1 5\r\n"), BAD},
    {TEXT("put 1 0 4294967296 5\r\n"), BAD},
    {TEXT("put 1 0 1 4294967296\r\n"), BAD},
    {TEXT("put 1 0 1 18446744073709551616\r\n"), BAD},
    {TEXT("put 99999999999999999999999 0 1 5\r\n"), BAD},
    {TEXT("put 1 0 1\r\n"), BAD},
    {TEXT("put \r\n"), BAD},
    {TEXT("put\r\n"), UNKNOWN},
    {TEXT("put\t1 0 1 5\r\n"), UNKNOWN},
    {TEXT("put 1\t0 1 5\r\n"), BAD},
    {TEXT("put 1,0,1,5\r\n"), BAD},
    {TEXT("put 1 0 1 5.0\r\n"), BAD},
    {TEXT("put 1 0 1 5\0\r\n"), BAD},
    {TEXT("PUT 1 0 1 5\r\n"), UNKNOWN},
    /* A line of HTTP ends the connection; what follows here is another's. */
    {TEXT("POST / HTTP/1.1\r\nstats\r\n"), TEXT("HTTP\r\nstats\r\n")},
    {TEXT("GET http://a/ HTTP/1.1\r\n"), TEXT("HTTP\r\n")},
    {TEXT("HEAD /\r\n"), TEXT("HTTP\r\n")},
    {TEXT("PUT /x\r\n"), TEXT("HTTP\r\n")},
    {TEXT("DELETE /x\r\n"), TEXT("HTTP\r\n")},
    {TEXT("PATCH /x\r\n"), TEXT("HTTP\r\n")},
    {TEXT("OPTIONS *\r\n"), TEXT("HTTP\r\n")},
    {TEXT("CONNECT a:1\r\n"), TEXT("HTTP\r\n")},
    {TEXT("TRACE /\r\n"), TEXT("HTTP\r\n")},
    {TEXT("GET \0/\r\n"), TEXT("HTTP\r\n")},
    {TEXT("Host: a\r\n"), TEXT("HTTP\r\n")},
    {TEXT("HOST:\r\nstats\r\n"), TEXT("HTTP\r\nstats\r\n")},
    {TEXT("host:a\r\n"), TEXT("HTTP\r\n")},
    {TEXT("stats\r\nPOST / HTTP/1.1\r\n"), TEXT("stats\r\nHTTP\r\n")},
    {TEXT("put 1 0 1 6\r\nGET /x\r\n"), SAME}, /* a body may be anything */
    {TEXT("POST /" A200 A10 "aaaaaaaa"
          "stats\r\n"),
     TEXT("HTTP\r\nstats\r\n")},
    {TEXT("GET\r\n"), UNKNOWN},
    {TEXT("GET \r\n"), UNKNOWN},
    {TEXT("get /\r\n"), UNKNOWN},
    {TEXT("DELETE 5\r\n"), UNKNOWN},
    {TEXT("hostess\r\n"), UNKNOWN},
    {TEXT("delete /x\r\n"), BAD},
    /* A body too big is swallowed whole, and before the line's end is looked at. */
    {TEXT("put 1 0 1 65536\0\r\n"), BAD},
    {TEXT("put x 0 1 65536\r\n"), BAD},
    /* A body of another length than was said. */
    {TEXT("put 1 0 1 3\r\nabcdestats\r\n"), TEXT("EXPECTED_CRLF\r\nstats\r\n")},
    {TEXT("put 1 0 1 3\r\nabc\r\rstats\r\n"), TEXT("EXPECTED_CRLF\r\nstats\r\n")},
    {TEXT("put 1 0 1 3\r\nab\r\nstats\r\n"), TEXT("EXPECTED_CRLF\r\nUNKNOWN_COMMAND\r\n")},
    /* Lines. */
    {TEXT("\r\n"), UNKNOWN},
    {TEXT(" \r\n"), UNKNOWN},
    {TEXT("\n\r\n"), UNKNOWN},
    {TEXT("\r\r\n"), UNKNOWN},
    {TEXT("\0\r\n"), BAD},
    {TEXT("us\0e foo\r\n"), BAD},
    {TEXT("bogus\0\r\n"), BAD},
    {TEXT("reserve\0\r\n"), BAD},
    {TEXT("quit\0x\r\n"), BAD},
    {TEXT("kick 1\0\r\n"), BAD},
    {TEXT("stats\nstats\r\n"), BAD},
    {TEXT("use a\rb\r\nstats\r\n"), TEXT("BAD_FORMAT\r\nstats\r\n")},
    {TEXT(" stats\r\n"), UNKNOWN},
    {TEXT("Stats\r\n"), UNKNOWN},
    {TEXT(A200 A10 A10 "aa\r\n"), UNKNOWN}, /* 224 bytes */
    {TEXT(A200 A10 A10 "aaa\r\nstats\r\n"), TEXT("BAD_FORMAT\r\nstats\r\n")},
    {TEXT(A200 A10 A10 "aaaa\r\nstats\r\n"), TEXT("BAD_FORMAT\r\nstats\r\n")},
    {TEXT(A200 A10 A10 "aaa\rstats\r\nstats\r\n"), TEXT("BAD_FORMAT\r\nstats\r\n")},
    {TEXT(A200 A200 "\n" A200 "\r" A200 "\r\nstats\r\n"), TEXT("BAD_FORMAT\r\nstats\r\n")},
    /* Tubes. */
    {TEXT("use default\r\n"), SAME},
    {TEXT("use " A200 "\r\n"), SAME},
    {TEXT("use " A200 "a\r\n"), BAD},
    {TEXT("use f-o+/;.$_()\r\n"), SAME},
    {TEXT("use +\r\n"), SAME},
    {TEXT("use -foo\r\n"), BAD},
    {TEXT("use f@o\r\n"), BAD},
    {TEXT("use f:o\r\n"), BAD},
    {TEXT("use \xc3\xa9\r\n"), BAD},
    {TEXT("use  foo\r\n"), BAD},
    {TEXT("use foo \r\n"), BAD},
    {TEXT("use foo bar\r\n"), BAD},
    {TEXT("use \r\n"), BAD},
    {TEXT("use\r\n"), UNKNOWN},
    {TEXT("usefoo\r\n"), UNKNOWN},
    {TEXT("watch foo\r\n"), SAME},
    {TEXT("watch -foo\r\n"), BAD},
    {TEXT("watch\r\n"), UNKNOWN},
    {TEXT("ignore foo\r\n"), SAME},
    {TEXT("ignore foo bar\r\n"), BAD},
    {TEXT("ignore\r\n"), UNKNOWN},
    {TEXT("stats-tube foo\r\n"), SAME},
    {TEXT("stats-tube " A200 "\r\n"), SAME},
    {TEXT("stats-tube " A200 "a\r\n"), BAD},
    {TEXT("stats-tube  x\r\n"), BAD},
    {TEXT("stats-tube\r\n"), BAD},
    {TEXT("stats-tubex\r\n"), BAD},
    {TEXT("pause-tube default 0\r\n"), SAME},
    {TEXT("pause-tube default 4294967295\r\n"), SAME},
    {TEXT("pause-tube " A200 " 1\r\n"), SAME},
    {TEXT("pause-tube " A200 "a 1\r\n"), BAD},
    {TEXT("pause-tube  default  1\r\n"), TEXT("pause-tube default 1\r\n")},
    {TEXT("pause-tubedefault 1\r\n"), TEXT("pause-tube default 1\r\n")},
    {TEXT("pause-tube default 1 \r\n"), BAD},
    {TEXT("pause-tube default 1x\r\n"), BAD},
    {TEXT("pause-tube default -1\r\n"), BAD},
    {TEXT("pause-tube default 4294967296\r\n"), BAD},
    {TEXT("pause-tube default\r\n"), BAD},
    {TEXT("pause-tube default \r\n"), BAD},
    {TEXT("pause-tube d@f 1\r\n"), BAD},
    {TEXT("pause-tube -x 1\r\n"), BAD},
    {TEXT("pause-tube\r\n"), BAD},
    {TEXT("pause-tube \r\n"), BAD},
    /* Jobs. */
    {TEXT("delete 1\r\n"), SAME},
    {TEXT("delete 0\r\n"), SAME},
    {TEXT("delete 18446744073709551615\r\n"), SAME},
    {TEXT("delete  007\r\n"), TEXT("delete 7\r\n")},
    {TEXT("delete 00018446744073709551615\r\n"), TEXT("delete 18446744073709551615\r\n")},
    {TEXT("delete 18446744073709551616\r\n"), BAD},
    {TEXT("delete 99999999999999999999\r\n"), BAD},
    {TEXT("delete 100000000000000000000\r\n"), BAD},
    {TEXT("delete 1 \r\n"), BAD},
    {TEXT("delete 1 2\r\n"), BAD},
    {TEXT("delete 1x\r\n"), BAD},
    {TEXT("delete x\r\n"), BAD},
    {TEXT("delete -1\r\n"), BAD},
    {TEXT("delete +1\r\n"), BAD},
    {TEXT("delete \t1\r\n"), BAD},
    {TEXT("delete \r\n"), BAD},
    {TEXT("delete\r\n"), UNKNOWN},
    {TEXT("release 1 2 3\r\n"), SAME},
    {TEXT("release  1  2  3\r\n"), TEXT("release 1 2 3\r\n")},
    {TEXT("release 18446744073709551615 4294967295 4294967295\r\n"), SAME},
    {TEXT("release 1 2\r\n"), BAD},
    {TEXT("release 1 2 3 \r\n"), BAD},
    {TEXT("release 1 4294967296 3\r\n"), BAD},
    {TEXT("release 1 2 4294967296\r\n"), BAD},
    {TEXT("release 1x 2 3\r\n"), BAD},
    {TEXT("release\r\n"), UNKNOWN},
    {TEXT("bury 1 2\r\n"), SAME},
    {TEXT("bury 1\r\n"), BAD},
    {TEXT("bury 1 2 3\r\n"), BAD},
    {TEXT("bury 1 4294967296\r\n"), BAD},
    {TEXT("bury\r\n"), UNKNOWN},
    {TEXT("touch 1\r\n"), SAME},
    {TEXT("touch 1 \r\n"), BAD},
    {TEXT("touchx\r\n"), UNKNOWN},
    {TEXT("kick-job 1\r\n"), SAME},
    {TEXT("kick-job 1x\r\n"), BAD},
    {TEXT("kick-job\r\n"), UNKNOWN},
    {TEXT("kick-\r\n"), UNKNOWN},
    {TEXT("stats-job 1\r\n"), SAME},
    {TEXT("stats-job 1 \r\n"), BAD},
    {TEXT("stats-job\r\n"), BAD},
    {TEXT("stats-jobx\r\n"), BAD},
    {TEXT("peek 1\r\n"), SAME},
    {TEXT("peek 1 \r\n"), BAD},
    {TEXT("peek\r\n"), UNKNOWN},
    {TEXT("peek-\r\n"), UNKNOWN},
    {TEXT("reserve-job 1\r\n"), SAME},
    {TEXT("reserve-job  1\r\n"), TEXT("reserve-job 1\r\n")},
    {TEXT("reserve-job 1 \r\n"), BAD},
    {TEXT("reserve-job x\r\n"), BAD},
    {TEXT("reserve-job\r\n"), BAD},
    /* Numbers that beanstalkd reads loosely. */
    {TEXT("reserve-with-timeout 0\r\n"), SAME},
    {TEXT("reserve-with-timeout 2147483648\r\n"), SAME},
    {TEXT("reserve-with-timeout 4294967295\r\n"), SAME},
    {TEXT("reserve-with-timeout  7 x\r\n"), TEXT("reserve-with-timeout 7\r\n")},
    {TEXT("reserve-with-timeout \t+7\r\n"), TEXT("reserve-with-timeout 7\r\n")},
    {TEXT("reserve-with-timeout 1.5\r\n"), TEXT("reserve-with-timeout 1\r\n")},
    {TEXT("reserve-with-timeout x\r\n"), TEXT("reserve-with-timeout 0\r\n")},
    {TEXT("reserve-with-timeout \r\n"), TEXT("reserve-with-timeout 0\r\n")},
    {TEXT("reserve-with-timeout -0\r\n"), TEXT("reserve-with-timeout 0\r\n")},
    {TEXT("reserve-with-timeout -1\r\n"), TEXT("reserve-with-timeout 4294967295\r\n")},
    {TEXT("reserve-with-timeout 4294967296\r\n"), TEXT("reserve-with-timeout 4294967295\r\n")},
    {TEXT("reserve-with-timeout 9223372036854775808\r\n"), BAD},
    {TEXT("reserve-with-timeout -9999999999999999999999\r\n"), BAD},
    {TEXT("reserve-with-timeout\r\n"), BAD},
    {TEXT("reserve-with-timeoutx\r\n"), BAD},
    {TEXT("kick 0\r\n"), SAME},
    {TEXT("kick 4294967295\r\n"), SAME},
    {TEXT("kick  1 x\r\n"), TEXT("kick 1\r\n")},
    {TEXT("kick 1x\r\n"), TEXT("kick 1\r\n")},
    {TEXT("kick \t+1\r\n"), TEXT("kick 1\r\n")},
    {TEXT("kick -1\r\n"), TEXT("kick 4294967295\r\n")},
    {TEXT("kick 4294967297\r\n"), TEXT("kick 4294967295\r\n")},
    {TEXT("kick 18446744073709551615\r\n"), TEXT("kick 4294967295\r\n")},
    {TEXT("kick 18446744073709551616\r\n"), BAD},
    {TEXT("kick +-1\r\n"), BAD},
    {TEXT("kick - 1\r\n"), BAD},
    {TEXT("kick -\r\n"), BAD},
    {TEXT("kick x\r\n"), BAD},
    {TEXT("kick \r\n"), BAD},
    {TEXT("kick\r\n"), UNKNOWN},
    {TEXT("kickx\r\n"), UNKNOWN},
    /* Words alone. */
    {TEXT("reserve\r\n"), SAME},
    {TEXT("reserve \r\n"), BAD},
    {TEXT("reservex\r\n"), BAD},
    {TEXT("reserv\r\n"), UNKNOWN},
    {TEXT("peek-ready\r\n"), SAME},
    {TEXT("peek-readyx\r\n"), BAD},
    {TEXT("peek-delayed\r\n"), SAME},
    {TEXT("peek-delayed \r\n"), BAD},
    {TEXT("peek-buried\r\n"), SAME},
    {TEXT("peek-buriedx\r\n"), BAD},
    {TEXT("stats\r\n"), SAME},
    {TEXT("stats-\r\n"), BAD},
    {TEXT("statsfoo\r\n"), BAD},
    {TEXT("list-tubes\r\n"), SAME},
    {TEXT("list-tubes \r\n"), BAD},
    {TEXT("list-tubes-watch\r\n"), BAD},
    {TEXT("list-tubes-watched\r\n"), SAME},
    {TEXT("list-tubes-watchedx\r\n"), BAD},
    {TEXT("list-tube-used\r\n"), SAME},
    {TEXT("list-tube-used x\r\n"), BAD},
    {TEXT("list-tube\r\n"), UNKNOWN},
    {TEXT("listing\r\n"), UNKNOWN},
    {TEXT("quit\r\n"), SAME},
    {TEXT("quit now\r\n"), TEXT("quit\r\n")},
    {TEXT("quitx\r\n"), TEXT("quit\r\n")},
    {TEXT("qui\r\n"), UNKNOWN},
    /* The last, because under a small limit it swallows what follows. */
    {TEXT("put 1 0 1 65535 x\r\n"), BAD},
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static struct bytes wanted(unsigned i)
{
    return cases[i].want.len ? cases[i].want : cases[i].in;
}

static void lines_mean_what_beanstalkd_takes_them_for(void **state)
{
    (void)state;
    for (unsigned i = 0; i < CASES; i++) {
        struct beanstalk beanstalk;
        struct buf log = {0};
        beanstalk_init(&beanstalk, BODY_MAX);
        stream_feed(&beanstalk, cases[i].in, &log);
        assert_bytes(buf_bytes(&log), wanted(i));
        assert_false(beanstalk_midway(&beanstalk));
        beanstalk_fini(&beanstalk);
        buf_fini(&log);
    }
}

enum { SMALL = 8 };

/* All cases one behind the other, with bodies too big for SMALL between them. */
static void transcript(struct buf *in, struct buf *want)
{
    for (unsigned i = 0; i < CASES - 1; i++) {
        buf_add_bytes(in, cases[i].in);
        buf_add_bytes(want, wanted(i));
        if (i % 16 == 0) {
            buf_addf(in, "put 1 0 1 %u%s\r\n", SMALL + 1 + i, i % 32 ? "" : " x");
            for (unsigned size = SMALL + 1 + i; size > 0; size--)
                buf_add_char(in, "delete 1\r\n"[size % 10]);
            buf_add_str(in, i % 48 ? "\r\n" : "xy");
            buf_add_str(want, "JOB_TOO_BIG\r\n");
        }
    }
    buf_add_bytes(in, cases[CASES - 1].in);
}

static void check_cuts(struct bytes in, const size_t *cuts, unsigned count, struct bytes want)
{
    struct beanstalk beanstalk;
    struct buf log = {0};
    size_t at = 0;
    beanstalk_init(&beanstalk, SMALL);
    for (unsigned i = 0; i < count; i++) {
        stream_feed(&beanstalk, bytes_of(in.at + at, cuts[i] - at), &log);
        at = cuts[i];
    }
    stream_feed(&beanstalk, bytes_of(in.at + at, in.len - at), &log);
    assert_bytes(buf_bytes(&log), want);
    assert_true(beanstalk_midway(&beanstalk));
    beanstalk_fini(&beanstalk);
    buf_fini(&log);
}

static void a_stream_cut_anywhere_says_the_same(void **state)
{
    struct buf in = {0}, want = {0};
    (void)state;
    transcript(&in, &want);
    for (size_t at = 0; at <= in.len; at++)
        check_cuts(buf_bytes(&in), &at, 1, buf_bytes(&want));
    size_t *cuts = malloc(in.len * sizeof(*cuts));
    assert_non_null(cuts);
    for (size_t step = 1; step <= 300; step++) {
        unsigned count = 0;
        for (size_t at = step; at < in.len; at += step)
            cuts[count++] = at;
        check_cuts(buf_bytes(&in), cuts, count, buf_bytes(&want));
    }
    free(cuts);
    buf_fini(&in);
    buf_fini(&want);
}

/* A put that comes whole takes a shorter way: it must come to the same. */
static void a_put_that_comes_whole_says_the_same(void **state)
{
    static const char *const lines[] = {
        "put 0 0 0 3",
        "put 4294967295 4294967295 4294967295 3",
        "put 4294967296 0 0 3",
        "put 0 4294967296 0 3",
        "put 0 0 4294967296 3",
        "put 0 0 0 4294967296",
        "put 9999999999 0 0 3",
        "put 10000000000 0 0 3",
        "put 00000000000 0 0 3",
        "put 0000000001 0000000002 0000000003 0000000003",
        "put 00000000001 00000000002 00000000003 00000000003",
        "put 99999999999999999999999999999999999999999999999999999999 0 0 3",
        "put  1 2 3 3",
        "put 1 2 3  3",
        "put 1 2 3 3 ",
        "put 1 2 3",
        "put 1 2 3 ",
        "put 1 2 3 x",
        "put -1 2 3 3",
        "put 1 2 3 3\r",
        "put 1 2 3 3\n",
        "put 1 2 3 2",
        "put 1 2 3 4",
        "put 1 2 3 65535",
        "put 1 2 3 65536",
    };
    static const char after[] = "\r\nabc\r\nput 1 2 3 0\r\n\r\ndelete 1\r\nrest of it rest of it"
                                " rest of it rest of it rest of it\r\n";
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct buf text = {0}, whole = {0}, cut = {0};
        struct beanstalk one, other;
        buf_add_str(&text, lines[i]);
        buf_add_str(&text, after);
        beanstalk_init(&one, 65535);
        beanstalk_init(&other, 65535);
        stream_feed(&one, buf_bytes(&text), &whole);
        for (size_t at = 0; at < text.len; at++)
            stream_feed(&other, bytes_of(text.at + at, 1), &cut);
        assert_bytes(buf_bytes(&whole), buf_bytes(&cut));
        beanstalk_fini(&one);
        beanstalk_fini(&other);
        buf_fini(&text);
        buf_fini(&whole);
        buf_fini(&cut);
    }
}

static void a_body_in_the_input_is_not_copied(void **state)
{
    const struct bytes in = TEXT("put 1 0 1 3\r\nabc\r\nuse foo\r\n");
    struct beanstalk beanstalk;
    size_t used;
    (void)state;
    beanstalk_init(&beanstalk, BODY_MAX);
    assert_int_equal(beanstalk_feed(&beanstalk, in, &used), BEANSTALK_READY);
    assert_int_equal(used, 18);
    assert_ptr_equal(beanstalk.request.body.at, in.at + 13);
    assert_int_equal(beanstalk.request.body.len, 3);
    beanstalk_next(&beanstalk);
    assert_int_equal(beanstalk_feed(&beanstalk, bytes_of(in.at + 18, 9), &used), BEANSTALK_READY);
    assert_int_equal(used, 9);
    assert_ptr_equal(beanstalk.request.tube.at, in.at + 22);
    assert_null(beanstalk.body.at);
    beanstalk_fini(&beanstalk);
}

/* Feeds `count` bytes of no meaning and says how the last went. */
static enum beanstalk_progress feed_noise(struct beanstalk *beanstalk, uint64_t count)
{
    static const char noise[1 << 20];
    enum beanstalk_progress progress = BEANSTALK_MORE;
    while (count > 0) {
        size_t len = count < sizeof(noise) ? (size_t)count : sizeof(noise);
        size_t used;
        assert_int_equal(progress, BEANSTALK_MORE);
        progress = beanstalk_feed(beanstalk, bytes_of(noise, len), &used);
        assert_int_equal(used, len);
        count -= used;
    }
    return progress;
}

static void a_body_of_four_gigabytes_is_swallowed_without_memory(void **state)
{
    struct beanstalk beanstalk;
    size_t used;
    (void)state;
    beanstalk_init(&beanstalk, BODY_MAX);
    assert_int_equal(beanstalk_feed(&beanstalk, BYTES("put 1 0 1 4294967295 x\r\n"), &used),
                     BEANSTALK_MORE);
    assert_true(beanstalk_midway(&beanstalk));
    assert_int_equal(feed_noise(&beanstalk, UINT32_MAX + UINT64_C(1)), BEANSTALK_MORE);
    assert_null(beanstalk.body.at);
    assert_int_equal(feed_noise(&beanstalk, 1), BEANSTALK_BAD);
    assert_int_equal(beanstalk.refusal, BEANSTALK_JOB_TOO_BIG);
    assert_false(beanstalk_midway(&beanstalk));
    beanstalk_fini(&beanstalk);
}

static void a_large_body_gets_memory_only_as_it_comes(void **state)
{
    enum { LARGE = 50 * 1000 * 1000 };
    struct beanstalk beanstalk;
    struct buf line = {0};
    size_t used;
    (void)state;
    beanstalk_init(&beanstalk, LARGE);
    buf_addf(&line, "put 1 0 1 %d\r\n", LARGE);
    assert_int_equal(beanstalk_feed(&beanstalk, buf_bytes(&line), &used), BEANSTALK_MORE);
    assert_int_equal(feed_noise(&beanstalk, 100000), BEANSTALK_MORE);
    assert_true(beanstalk.body.cap < 1000000);
    assert_int_equal(feed_noise(&beanstalk, LARGE - 100000), BEANSTALK_MORE);
    assert_int_equal(beanstalk_feed(&beanstalk, BYTES("\r\n"), &used), BEANSTALK_READY);
    assert_int_equal(beanstalk.request.body.len, LARGE);
    beanstalk_next(&beanstalk);
    assert_null(beanstalk.body.at);
    beanstalk_fini(&beanstalk);
    buf_fini(&line);
}

/* ---- printed and read back ---- */

static uint64_t random_u64(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005 + 1442695040888963407;
    uint64_t high = *seed >> 32;
    *seed = *seed * 6364136223846793005 + 1442695040888963407;
    /* Of every length: small ones, and both ends. */
    uint64_t number = (high << 32 | *seed >> 32) >> (*seed >> 20 & 63);
    return *seed >> 12 & 7 ? number : ~number;
}

static struct bytes random_tube(uint64_t *seed, char *room)
{
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "+/;.$_()-";
    size_t len = 1 + random_u64(seed) % BEANSTALK_NAME_MAX;
    for (size_t i = 0; i < len; i++)
        room[i] = bytes[random_u64(seed) % (sizeof(bytes) - 1 - (i == 0))];
    return bytes_of(room, len);
}

static void assert_same_request(const struct beanstalk_request *got,
                                const struct beanstalk_request *want)
{
    struct buf a = {0}, b = {0};
    assert_int_equal(got->cmd, want->cmd);
    stream_print(&a, got);
    stream_print(&b, want);
    assert_bytes(buf_bytes(&a), buf_bytes(&b));
    buf_fini(&a);
    buf_fini(&b);
}

static void a_request_printed_is_read_back_as_it_was(void **state)
{
    char room[BEANSTALK_NAME_MAX], body[300];
    uint64_t seed = 1;
    struct beanstalk beanstalk;
    struct buf text = {0};
    (void)state;
    beanstalk_init(&beanstalk, BODY_MAX);
    for (unsigned round = 0; round < 20000; round++) {
        size_t used;
        struct beanstalk_request want = {
            .cmd = (enum beanstalk_cmd)(round % BEANSTALK_CMDS),
            .tube = random_tube(&seed, room),
            .id = random_u64(&seed),
            .priority = (uint32_t)random_u64(&seed),
            .delay_s = (uint32_t)random_u64(&seed),
            .ttr_s = (uint32_t)random_u64(&seed),
            .timeout_s = (uint32_t)random_u64(&seed),
            .bound = (uint32_t)random_u64(&seed),
            .body = bytes_of(body, random_u64(&seed) % sizeof(body)),
        };
        for (size_t i = 0; i < want.body.len; i++)
            body[i] = (char)random_u64(&seed);
        text.len = 0;
        stream_print(&text, &want);
        assert_int_equal(beanstalk_feed(&beanstalk, buf_bytes(&text), &used), BEANSTALK_READY);
        assert_int_equal(used, text.len);
        assert_same_request(&beanstalk.request, &want);
        beanstalk_next(&beanstalk);
    }
    beanstalk_fini(&beanstalk);
    buf_fini(&text);
}

static void a_name_has_the_bytes_that_beanstalkd_allows(void **state)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-+/;.$_()";
    char name[2];
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        bool good = byte && strchr(allowed, byte) != NULL;
        name[0] = name[1] = (char)byte;
        assert_int_equal(beanstalk_name_valid(bytes_of(name, 1)), good && byte != '-');
        name[0] = 'x';
        assert_int_equal(beanstalk_name_valid(bytes_of(name, 2)), good);
    }
    assert_false(beanstalk_name_valid(BYTES("")));
    assert_true(beanstalk_name_valid(BYTES(A200)));
    assert_false(beanstalk_name_valid(BYTES(A200 "a")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_mean_what_beanstalkd_takes_them_for),
        cmocka_unit_test(a_stream_cut_anywhere_says_the_same),
        cmocka_unit_test(a_put_that_comes_whole_says_the_same),
        cmocka_unit_test(a_body_in_the_input_is_not_copied),
        cmocka_unit_test(a_body_of_four_gigabytes_is_swallowed_without_memory),
        cmocka_unit_test(a_large_body_gets_memory_only_as_it_comes),
        cmocka_unit_test(a_request_printed_is_read_back_as_it_was),
        cmocka_unit_test(a_name_has_the_bytes_that_beanstalkd_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
