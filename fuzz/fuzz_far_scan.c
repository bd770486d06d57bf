/*
 * A block of a slice that is looked through in parts, after some of its bytes were changed: the
 * scan stays in bounds, comes to an end, and finds no job that was not there. The input says how
 * large the records and parts are, and what is changed.
 */
#include "base/check.h"
#include "base/codec.h"
#include "base/mem.h"
#include "fuzz/exactly.h"
#include "store/format.h"
#include "store/slices/far_record.h"
#include "store/slices/far_scan.h"

enum { FIELDS = 8, JOBS_MAX = 64, RECORD_MAX = 512, NUMBER = 3, BLOCKS_MAX = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bed {
    _Alignas(8) char block[BLOCKS_MAX * BLOCK];
    uint32_t jobs;
    size_t len; /* a multiple of BLOCK */
};

static void add_job(struct bed *bed, const uint8_t *in)
{
    static const char body[256];
    struct event job = {
        .kind = EVENT_JOB,
        .job = {.seq = bed->jobs + 1, .state = JOB_DELAYED, .due_us = 1000 + (in[0] >> 6)},
        .topic = in[0] & 1 ? BYTES("t") : BYTES("u"),
        .body = bytes_of(body, in[1]),
    };
    size_t len = far_record_bytes(&job);
    CHECK(len <= RECORD_MAX && bed->len + len <= sizeof(bed->block));
    job.job.due_us += bed->jobs * INT64_C(4);
    len = far_record_bytes(&job);
    far_record_encode(&job, len, bed->block + bed->len);
    bed->len += len;
    bed->jobs++;
}

static void close_block(struct bed *bed)
{
    struct batch_head head = {.number = 1,
                              .seq_mark = 1,
                              .segment = NUMBER,
                              .payload_bytes = (uint32_t)(bed->len - BATCH_HEAD),
                              .record_count = bed->jobs};
    size_t bytes = (size_t)batch_bytes(head.payload_bytes);
    (void)batch_head_encode(&head, bed->block);
    batch_sign(bed->block, bytes, 0);
    bed->len = bytes;
}

static void run(const struct bed *bed, struct far_scan *scan, size_t len)
{
    uint32_t at = scan->backwards ? 0 : scan->rest.at;
    size_t room = (scan->backwards && scan->rest.records ? scan->rest.at : scan->block_bytes) - at;
    len = len < room && !scan->backwards ? len : room;
    char *bytes = exactly(bed->block + at, len);
    scan->at = at;
    scan->bytes = bytes;
    scan->len = len;
    far_scan_run(scan);
    for (uint32_t i = 0; i < scan->match_count; i++)
        CHECK(scan->matches[i].place.seq <= bed->jobs && scan->matches[i].len <= RECORD_MAX);
    mem_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bed bed;
    if (size < FIELDS)
        return 0;
    const uint8_t *in = data + FIELDS, *end = data + size;
    memset(&bed, 0, sizeof(bed));
    bed.len = BATCH_HEAD;
    for (unsigned left = data[0] % JOBS_MAX + 1; left > 0 && end - in >= 2; left--, in += 2)
        add_job(&bed, in);
    if (bed.jobs == 0)
        return 0;
    close_block(&bed);
    for (; end - in >= 3; in += 3)
        bed.block[(in[0] | in[1] << 8) % bed.len] ^= (char)in[2];
    bool backwards = data[1] & 1;
    struct far_scan scan = {
        .topic = BYTES("t"),
        .after = backwards ? (struct job_place){INT64_MAX, UINT64_MAX}
                           : (struct job_place){INT64_MIN, 0},
        .backwards = backwards,
        .keep_bytes = data[2] ? data[2] * (size_t)8 : SIZE_MAX,
        .number = NUMBER,
        .jobs = bed.jobs,
        .block_bytes = (uint32_t)bed.len,
        .salvage = data[1] & 2,
    };
    size_t len = (size_t)BATCH_HEAD + data[3] * (size_t)16;
    uint32_t found = 0, parts = 0;
    for (bool more = true; more; scan.rest = scan.left) {
        run(&bed, &scan, len);
        for (unsigned tries = 0; scan.need_bytes; tries++) {
            CHECK(tries < 2); /* the record's length, and then the record */
            run(&bed, &scan, scan.need_bytes);
        }
        found += scan.match_count;
        more = !scan.broken && scan.left.records > 0;
        CHECK(++parts <= bed.jobs + 1 && found <= bed.jobs);
        CHECK(scan.left.records <= bed.jobs && scan.left.at <= bed.len);
    }
    far_scan_fini(&scan);
    return 0;
}
