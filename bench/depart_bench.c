/*
 * What the core takes for a job that moves from memory to a slice, in ns of CPU: its push, the
 * offer (core_spill), and the departure (core_depart), while others are far already and some are in
 * memory. Jobs are offered in the order in which they came, as the log has them, and depart in
 * the order of their due times, as slices have them.
 *
 *     depart_bench [--far N] [--near N] [--run N] [--runs N]
 *
 * It first moves `far` jobs to slices, then measures `runs` runs of `run` jobs, with `near` jobs in
 * memory besides. Ids have 20 bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "bench/lone_core.h"
#include "core/far.h"

enum { ID_BYTES = 20, RECORD_BYTES = 355, SLICE_BYTES = 15 * 1024 * 1024 };

struct moving {
    uint64_t seq;
    int64_t due_us;
};

struct bench {
    struct core_callbacks callbacks;
    struct core *core;
    int64_t now_us;
    uint64_t random, pushed, left; /* the last two: numbers of jobs */
    int64_t *due_us;               /* of job i at [i % due_cap] */
    uint64_t due_cap;
    struct moving *run;
    uint64_t slice, slice_used;
    uint64_t push_ns, spill_ns, depart_ns, longest_ns;
};

static void no_reply(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    (void)callbacks;
    (void)ctx;
    CHECK(reply->err == OK);
}

static uint64_t cpu_ns(void) /* of this thread: others may use the machine, too */
{
    struct timespec at;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at); /* cannot fail for this clock */
    return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static uint64_t mixed(uint64_t number) /* splitmix64 */
{
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9ull;
    number = (number ^ number >> 27) * 0x94d049bb133111ebull;
    return number ^ number >> 31;
}

static struct bytes id_of(uint64_t number, char room[static ID_BYTES])
{
    uint64_t of_id = mixed(number * 0x9e3779b97f4a7c15ull);
    for (int i = 0; i < 16; i++)
        room[i] = "0123456789abcdef"[of_id >> i * 4 & 15];
    memcpy(room + 16, "-job", 4);
    return bytes_of(room, ID_BYTES);
}

/* Its number in the core is one more: seqs begin with 1. */
static void push(struct bench *bench)
{
    char room[ID_BYTES];
    int64_t month_us = 30ll * 86400 * 1000000;
    uint64_t number = bench->pushed++;
    bench->random += 0x9e3779b97f4a7c15ull;
    int64_t due_us =
        bench->now_us + 3600000000ll + (int64_t)(mixed(bench->random) % (uint64_t)month_us);
    bench->due_us[number % bench->due_cap] = due_us;
    bench->now_us += 10;
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {
                          .id = id_of(number, room),
                          .topic = BYTES("bench"),
                          .due_us = due_us,
                          .ttr_us = 60000000,
                          .priority = 1024,
                          .body = BYTES("{\"a\":1}"),
                      }};
    struct job_ref ref = {.id = cmd.push.id};
    uint64_t places[FAR_CANDIDATES_MAX];
    if (core_any_far(bench->core))                            /* as the engine asks */
        (void)core_far_only(bench->core, &ref, true, places); /* some few by mistake */
    (void)core_apply(bench->core, bench->now_us, &cmd, bench);
}

static void soon(struct bench *bench, uint64_t i, uint64_t count, bool departs)
{
    uint64_t seqs[CORE_SOON_MAX];
    uint32_t soon = count - i < CORE_SOON_MAX ? (uint32_t)(count - i) : CORE_SOON_MAX;
    for (uint32_t j = 0; j < soon; j++)
        seqs[j] = bench->run[i + j].seq;
    core_fetch(bench->core, seqs, soon, departs);
}

static void offer(struct bench *bench, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t number = bench->left + i;
        bench->run[i] = (struct moving){number + 1, bench->due_us[number % bench->due_cap]};
    }
    uint64_t start_ns = cpu_ns();
    for (uint64_t i = 0; i < count; i++) {
        struct event out, event = {.kind = EVENT_JOB, .job.seq = bench->run[i].seq};
        if (i % CORE_SOON_MAX == 0)
            soon(bench, i, count, false);
        bool leaves = core_spill(bench->core, &event, 1, bench->now_us, &out);
        CHECK(leaves);
    }
    bench->spill_ns += cpu_ns() - start_ns;
}

static int by_due(const void *one, const void *other)
{
    const struct moving *a = one, *b = other;
    return a->due_us < b->due_us ? -1 : a->due_us > b->due_us;
}

static void depart(struct bench *bench, uint64_t count)
{
    qsort(bench->run, count, sizeof(*bench->run), by_due);
    uint64_t start_ns = cpu_ns(), last_ns = start_ns;
    for (uint64_t i = 0; i < count; i++) {
        if (bench->slice_used + RECORD_BYTES > SLICE_BYTES) {
            bench->slice++;
            bench->slice_used = 0;
        }
        struct stored record = {.where = bench->slice << 32 | bench->slice_used / 8,
                                .bytes = RECORD_BYTES};
        bench->slice_used += RECORD_BYTES;
        if (i % CORE_SOON_MAX == 0)
            soon(bench, i, count, true);
        bool left = core_depart(bench->core, bench->run[i].seq, record);
        CHECK(left);
        if (i % 128 == 127) {
            uint64_t now_ns = cpu_ns();
            if (now_ns - last_ns > bench->longest_ns)
                bench->longest_ns = now_ns - last_ns;
            last_ns = now_ns;
        }
    }
    bench->depart_ns += cpu_ns() - start_ns;
    bench->left += count;
}

static void move(struct bench *bench, uint64_t count)
{
    uint64_t start_ns = cpu_ns();
    for (uint64_t i = 0; i < count; i++)
        push(bench);
    bench->push_ns += cpu_ns() - start_ns;
    offer(bench, count);
    depart(bench, count);
}

int main(int count, char **args)
{
    static struct bench bench;
    uint64_t far = number_after(args, count, "--far", 5000000);
    uint64_t near = number_after(args, count, "--near", 640000);
    uint64_t run = number_after(args, count, "--run", 40000);
    uint64_t runs = number_after(args, count, "--runs", 25);
    bench.callbacks.reply = no_reply;
    bench.now_us = 1790000000000000;
    bench.core = lone_core_new(&bench.callbacks, bench.now_us);
    core_use_far_key(bench.core, 7);
    bench.due_cap = near + run;
    bench.due_us = mem_alloc(bench.due_cap * sizeof(*bench.due_us));
    bench.run = mem_alloc(run * sizeof(*bench.run));
    bench.slice = 1;
    for (uint64_t i = 0; i < near; i++)
        push(&bench);
    for (uint64_t i = 0; i < far; i += run)
        move(&bench, run);
    bench.push_ns = bench.spill_ns = bench.depart_ns = bench.longest_ns = 0;
    for (uint64_t i = 0; i < runs; i++)
        move(&bench, run);
    double jobs = (double)(run * runs);
    printf("%" PRIu64 " far, %" PRIu64
           " in memory: push %.0f ns, offer %.0f, departure %.0f (128 of them %.1f us at "
           "most)\n",
           far, near, (double)bench.push_ns / jobs, (double)bench.spill_ns / jobs,
           (double)bench.depart_ns / jobs, (double)bench.longest_ns / 1000);
    core_free(bench.core);
    mem_free(bench.due_us);
    mem_free(bench.run);
    return 0;
}
