/*
 * The store alone: group commits of K records of about 300 bytes, and the opening of a store with a
 * million jobs.
 *
 *     build/bench/store_bench [DIRECTORY]
 *
 * The store is in a new directory, made within DIRECTORY (/var/tmp) and removed at the end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench/new_directory.h"
#include "os/disk.h"
#include "store/stats.h"
#include "store/store.h"

enum { BODY_BYTES_COMMIT = 180, BODY_BYTES_RESTART = 256, RESTART_JOBS = 1000000 };

struct bench {
    struct store_callbacks callbacks;
    struct os_disk *disk;
    struct store *store;
    uint64_t replayed;
    uint64_t seq;
};

static enum err replay(struct store_callbacks *callbacks, const struct event *event)
{
    struct bench *bench = (struct bench *)callbacks; /* its first member */
    bench->replayed += event->kind == EVENT_JOB;
    return OK;
}

static void failed(struct store_callbacks *callbacks, int sys_errno)
{
    (void)callbacks;
    (void)fprintf(stderr, "the disk failed: %s\n", strerror(sys_errno));
    exit(1);
}

static void notice(struct store_callbacks *callbacks, enum store_notice what,
                   const struct store_error *error)
{
    (void)callbacks;
    (void)what;
    (void)fprintf(stderr, "%s: %s\n", error->file, error->text);
}

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t cpu_us(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static void open_store(struct bench *bench, const char *directory)
{
    struct store_error error;
    if (os_disk_new(directory, &bench->disk)) {
        (void)fprintf(stderr, "%s: %s\n", directory, strerror(errno));
        exit(1);
    }
    struct store_options options = {
        .disk = os_disk_port(bench->disk),
        .segment_bytes = 32 * 1024 * 1024,
        .recent_bytes = 16 * 1024 * 1024,
        .body_max = 1024 * 1024,
        .now_us = now_us(),
    };
    if (store_open(&options, &bench->callbacks, &bench->store, &error)) {
        (void)fprintf(stderr, "%s: %s\n", error.file, error.text);
        exit(1);
    }
}

static void close_store(struct bench *bench)
{
    store_close(bench->store);
    os_disk_free(bench->disk);
}

static void push(struct bench *bench, struct bytes body)
{
    struct event event = {
        .kind = EVENT_JOB,
        .promised = true,
        .job = {.seq = ++bench->seq, .state = JOB_DELAYED, .due_us = INT64_MAX},
        .topic = BYTES("bench"),
        .ttr_us = 60000000,
        .body = body,
    };
    (void)store_append(bench->store, &event);
}

static void commit(struct bench *bench)
{
    struct disk *disk = os_disk_port(bench->disk);
    uint64_t batch = store_batch(bench->store);
    store_turn(bench->store, now_us());
    while (store_durable(bench->store) < batch) {
        disk->verbs->wait(disk);
        store_poll(bench->store);
        store_turn(bench->store, now_us());
    }
}

static void bench_commits(struct bench *bench, unsigned records)
{
    char room[BODY_BYTES_COMMIT];
    memset(room, 'b', sizeof(room));
    unsigned commits = records < 64 ? 8000 : 4000;
    int64_t start_us = now_us();
    int64_t start_cpu_us = cpu_us();
    for (unsigned i = 0; i < commits; i++) {
        for (unsigned k = 0; k < records; k++)
            push(bench, bytes_of(room, sizeof(room)));
        commit(bench);
    }
    double all = (double)commits * records;
    double took_us = (double)(now_us() - start_us);
    double cpu = (double)(cpu_us() - start_cpu_us);
    (void)printf(
        "%4u records a commit: %6.2f us CPU a record, %9.0f records/s, %6.1f us a commit\n",
        records, cpu / all, all * 1e6 / took_us, took_us / commits);
}

static void bench_restart(struct bench *bench, const char *directory)
{
    char room[BODY_BYTES_RESTART];
    struct store_stats stats;
    memset(room, 'r', sizeof(room));
    open_store(bench, directory);
    for (unsigned i = 0; i < RESTART_JOBS; i++) {
        push(bench, bytes_of(room, sizeof(room)));
        if (i % 500 == 499)
            commit(bench);
    }
    close_store(bench);
    bench->replayed = 0;
    open_store(bench, directory);
    store_stats(bench->store, &stats);
    (void)printf("opening: %llu jobs of %d bytes, %llu MB, in %.3f s\n",
                 (unsigned long long)bench->replayed, BODY_BYTES_RESTART,
                 (unsigned long long)stats.disk_bytes >> 20, (double)stats.recovery_us / 1e6);
    close_store(bench);
}

int main(int argc, char **argv)
{
    static const unsigned sizes[] = {1, 16, 64, 256};
    char directory[NEW_DIRECTORY_BYTES];
    struct bench bench = {.callbacks = store_idle_callbacks};
    bench.callbacks.replay = replay;
    bench.callbacks.failed = failed;
    bench.callbacks.notice = notice;
    if (!new_directory_make(argc > 1 ? argv[1] : NULL, directory))
        return 1;
    open_store(&bench, directory);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        bench_commits(&bench, sizes[i]);
    close_store(&bench);
    new_directory_clear(directory);
    bench_restart(&bench, directory);
    new_directory_clear(directory);
    (void)rmdir(directory);
    return 0;
}
