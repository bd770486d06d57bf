/*
 * The longest single step of the embedded engine on a disk: filling it with jobs that are due far
 * ahead, so that they leave memory for thousands of slices; what asks for all of them; cancelling
 * all, so that slices empty and go; and a history that is written and merged. longest.h says what
 * is shown. `begin` and `end` are those of a turn; what the disk's threads do is not counted.
 *
 *     longest_store_bench [--jobs N] [--topics N] [DIRECTORY]
 *
 * The store is in a new directory, made within DIRECTORY (/var/tmp) and removed at the end. Nothing
 * else in DIRECTORY is read, written or removed.
 */
#include <malloc.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "bench/lone_core.h"
#include "bench/longest.h"
#include "bench/new_directory.h"
#include "engine/embedded/embedded.h"
#include "os/clock.h"
#include "os/disk.h"

enum {
    SEGMENT_BYTES = 256 * 1024,
    BODY_LEN = 64,
    PER_TURN = 100, /* commands */
    DAY_US_IN_SECONDS = 86400,
    FILES = 512,
    SEGMENTS_KEPT = 8,
};

struct bed {
    struct os_clock clock;
    struct loop loop;
    struct os_disk *disk;
    struct embedded *embedded;
    struct engine *engine;
    struct ticket ticket;
    bool answered;
    uint64_t jobs, topics, segment_bytes;
    struct longest begins, ends;
};

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct bed *bed = (struct bed *)((char *)ticket - offsetof(struct bed, ticket));
    CHECK(reply->err == OK);
    bed->answered = true;
}

static void open_bed(struct bed *bed, const char *directory, int64_t history_us)
{
    struct store_error error;
    os_clock_init(&bed->clock);
    bed->loop = (struct loop){.clock = &bed->clock.clock};
    bed->loop.now_us = bed->clock.clock.now_us(&bed->clock.clock);
    CHECK(os_disk_new(directory, &bed->disk) == OK);
    struct embedded_options options = {
        .limits = {.jobs = UINT32_MAX,
                   .topics = UINT32_MAX,
                   .waiters = 16,
                   .memory_bytes = UINT64_MAX},
        .store = {.disk = os_disk_port(bed->disk),
                  .segment_bytes = bed->segment_bytes,
                  .recent_bytes = 1024 * 1024,
                  .body_max = 1024 * 1024,
                  .files_max = FILES,
                  .horizon_us = 1000000,
                  .checkpoint_bytes = 4 * bed->segment_bytes,
                  .slices_few = UINT32_MAX,
                  .history_us = history_us,
                  .now_us = bed->loop.now_us},
        .durability = DURABILITY_OS,
        .hash_key = 42,
        .now_us = bed->loop.now_us,
        .loop = &bed->loop,
    };
    options.store.buffered = true;
    if (embedded_open(&options, &bed->embedded, &error)) {
        (void)fprintf(stderr, "%s: %s\n", error.file, error.text);
        exit(1);
    }
    bed->engine = embedded_engine(bed->embedded);
    bed->ticket.answered = answered;
}

static void close_bed(struct bed *bed)
{
    embedded_close(bed->embedded);
    os_disk_free(bed->disk);
}

/* All of a turn but commands. The disk has some time. */
static void turn(struct bed *bed)
{
    bed->loop.now_us = bed->clock.clock.now_us(&bed->clock.clock);
    skip(&bed->begins);
    bed->engine->verbs->begin(bed->engine);
    step(&bed->begins);
    skip(&bed->ends);
    (void)bed->engine->verbs->end(bed->engine);
    step(&bed->ends);
}

static struct store_stats stats_of(const struct bed *bed)
{
    struct store_stats stats;
    store_stats(embedded_store(bed->embedded), &stats);
    return stats;
}

/* Until the log is as small as cleaning makes it. */
static void settle(struct bed *bed, const char *begins, const char *ends)
{
    uint64_t segments = UINT64_MAX;
    bed->begins = begin(begins);
    bed->ends = begin(ends);
    for (unsigned i = 0; i % 10000 || segments > stats_of(bed).segments; i++) {
        if (i % 10000 == 0)
            segments = stats_of(bed).segments;
        turn(bed);
        (void)usleep(100);
    }
    show(&bed->begins);
    show(&bed->ends);
}

/* The cleaner goes no faster than jobs come, and the disk's thread builds slices meanwhile. */
static void let_clean(struct bed *bed)
{
    for (unsigned i = 0; i < 50 && stats_of(bed).segments > SEGMENTS_KEPT; i++) {
        turn(bed);
        (void)usleep(50);
    }
}

static void fill(struct bed *bed)
{
    static char body[BODY_LEN];
    bed->begins = begin("fill: begin");
    bed->ends = begin("fill: end");
    struct longest push = begin("fill: push");
    for (uint64_t i = 0; i < bed->jobs; i++) {
        char topic[24], id[24];
        (void)snprintf(topic, sizeof(topic), "t%" PRIu64, i % bed->topics);
        (void)snprintf(id, sizeof(id), "%016" PRIx64, mixed(i));
        struct cmd cmd = {
            .kind = CMD_PUSH,
            .push = {.id = bytes_str(id),
                     .topic = bytes_str(topic),
                     .due_us = bed->loop.now_us +
                               (int64_t)(mixed(i) % DAY_US_IN_SECONDS + 3600) * 1000000,
                     .ttr_us = 60000000,
                     .body = bytes_of(body, sizeof(body))}};
        skip(&push);
        (void)bed->engine->verbs->submit(bed->engine, &cmd, NULL);
        step(&push);
        while (i % PER_TURN == PER_TURN - 1) {
            turn(bed);
            if (bed->engine->verbs->health(bed->engine) == OK)
                break;
            os_disk_port(bed->disk)->verbs->wait(os_disk_port(bed->disk)); /* it is behind */
        }
        if (i % PER_TURN == PER_TURN - 1)
            let_clean(bed);
    }
    show(&push);
    show(&bed->begins);
    show(&bed->ends);
}

static void ask(struct bed *bed, const char *what, const struct cmd *cmd)
{
    struct longest submit = begin(what);
    for (unsigned i = 0; i < 200; i++) {
        bed->answered = false;
        skip(&submit);
        (void)bed->engine->verbs->submit(bed->engine, cmd, &bed->ticket);
        step(&submit);
        for (unsigned turns = 0; turns < 20000 && !bed->answered; turns++)
            turn(bed);
    }
    show(&submit);
}

/* What asks for all slices. */
static void ask_all(struct bed *bed)
{
    int64_t until_us[] = {bed->loop.now_us + 600000000, bed->loop.now_us + 40000000000};
    struct longest shown = begin("ask: metrics");
    bed->begins = begin("ask: begin");
    bed->ends = begin("ask: end");
    ask(bed, "ask: due",
        &(struct cmd){.kind = CMD_DUE, .topic = {.until_us = until_us, .until_count = 2}});
    ask(bed, "ask: topics, stats, due_within",
        &(struct cmd){.kind = CMD_TOPICS,
                      .topic = {.max = 100, .stats = true, .due_within = true}});
    ask(bed, "ask: list",
        &(struct cmd){.kind = CMD_LIST,
                      .topic = {.topic = BYTES("t0"), .max = 100, .state = JOB_DELAYED}});
    show(&bed->begins);
    show(&bed->ends);
    for (unsigned i = 0; i < 200; i++) {
        skip(&shown);
        (void)stats_of(bed);
        step(&shown);
    }
    show(&shown);
}

static void cancel_all(struct bed *bed)
{
    bed->begins = begin("cancel: begin");
    bed->ends = begin("cancel: end");
    for (uint64_t i = 0; i < bed->jobs; i++) {
        char id[24];
        (void)snprintf(id, sizeof(id), "%016" PRIx64, mixed(i));
        struct cmd cmd = {.kind = CMD_DELETE, .job = {.ref.id = bytes_str(id)}};
        (void)bed->engine->verbs->submit(bed->engine, &cmd, NULL);
        if (i % PER_TURN == PER_TURN - 1)
            turn(bed);
    }
    show(&bed->begins);
    show(&bed->ends);
}

static void say(const struct bed *bed, const char *when)
{
    struct store_stats stats = stats_of(bed);
    printf("-- %s: %" PRIu64 " slices, %" PRIu64 " jobs in them, %" PRIu64 " segments, %" PRIu64
           " files of history, %" PRIu64 " bytes\n",
           when, (uint64_t)stats.slices, stats.slice_jobs, (uint64_t)stats.segments,
           (uint64_t)stats.history_files, stats.history_bytes);
}

static void play(struct bed *bed, char *directory, int64_t history_us)
{
    open_bed(bed, directory, history_us);
    fill(bed);
    say(bed, "filled");
    settle(bed, "settle: begin", "settle: end");
    say(bed, "settled");
    ask_all(bed);
    cancel_all(bed);
    settle(bed, "cancelled: begin", "cancelled: end");
    say(bed, "cancelled");
    close_bed(bed);
    new_directory_clear(directory);
}

int main(int count, char **args)
{
    char directory[NEW_DIRECTORY_BYTES];
    static struct bed bed;
    if (!new_directory_make(count % 2 == 0 ? args[count - 1] : NULL, directory))
        return 1;
    (void)mallopt(M_MMAP_THRESHOLD, 128 * 1024); /* as laterd has it */
    (void)mallopt(M_TRIM_THRESHOLD, 4 * 1024 * 1024);
    bed.jobs = number_after(args, count, "--jobs", 1000000);
    bed.topics = number_after(args, count, "--topics", 10);
    bed.segment_bytes = SEGMENT_BYTES;
    printf("-- small segments, many slices\n");
    play(&bed, directory, 0);
    printf("-- segments of 16 MiB, large slices, a history\n");
    bed.segment_bytes = 16 * 1024 * 1024;
    play(&bed, directory, INT64_C(86400000000));
    (void)rmdir(directory);
    return 0;
}
