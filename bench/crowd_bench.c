/*
 * The lateness of jobs while very many others share one slot of the timing wheel, when the hand
 * reaches that slot. The clock is simulated, but work takes real time: each turn advances the clock
 * by the processor time that it has used, and nothing sleeps. So minutes pass in seconds, and only
 * the core is measured, without network, disk and sleep.
 *
 *     crowd_bench [--crowd N] [--rate N] [--json]
 *
 * The worst second is that with the highest 99th percentile.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/mem.h"
#include "bench/lone_core.h"

#define SLOT_US   INT64_C(1073741824) /* of the wheel's level 5: 17.9 minutes */
#define SECOND_US INT64_C(1000000)

enum {
    TICK_BUDGET = 256, /* as in engine/embedded/engine.c */
    MATCH_BUDGET = 1000,
    BEFORE_S = 200, /* the crowd moves down in less */
    AFTER_S = 20,
    LEAD_US = 50 * 1000, /* a job is pushed so long before it is due */
};

struct bench {
    struct core_callbacks callbacks;
    struct core *core;
    int64_t now_us;
    bool parked;
    uint64_t seq, lease; /* of the job that was handed out last */
    int64_t due_us;
    int64_t *late_us;
    size_t count;
};

static void note_reply(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    struct bench *bench = ctx;
    (void)callbacks;
    if (!has_reserved(reply))
        return;
    bench->parked = false;
    bench->seq = reply->jobs[0].ref.seq;
    bench->lease = reply->jobs[0].lease;
    bench->due_us = reply->jobs[0].due_us;
}

static int64_t cpu_ns(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at); /* cannot fail for this clock */
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static void push(struct bench *bench, struct bytes topic, int64_t due_us)
{
    struct cmd cmd = {
        .kind = CMD_PUSH,
        .push = {.topic = topic, .due_us = due_us, .ttr_us = 60 * SECOND_US, .body = BYTES("1")},
    };
    (void)core_apply(bench->core, bench->now_us, &cmd, bench);
}

static void reserve(struct bench *bench)
{
    struct bytes topic = BYTES("stream");
    struct cmd cmd = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = &topic, .topic_count = 1, .max = 1, .wait_us = SLOT_US},
    };
    bench->parked = true;
    (void)core_apply(bench->core, bench->now_us, &cmd, bench);
}

/* One turn: what is due becomes ready, and is handed out and finished while there is any. */
static void turn(struct bench *bench)
{
    int64_t begin_ns = cpu_ns();
    (void)core_tick(bench->core, bench->now_us, TICK_BUDGET); /* core_next_us() says so, too */
    (void)core_match(bench->core, bench->now_us, MATCH_BUDGET);
    size_t first = bench->count;
    while (!bench->parked) {
        bench->late_us[bench->count++] = bench->due_us;
        struct cmd cmd = {.kind = CMD_FINISH,
                          .job = {.ref = {.seq = bench->seq}, .lease = bench->lease}};
        (void)core_apply(bench->core, bench->now_us, &cmd, bench);
        reserve(bench);
    }
    bench->now_us += (cpu_ns() - begin_ns) / 1000 + 1;
    for (size_t i = first; i < bench->count; i++)
        bench->late_us[i] = bench->now_us - bench->late_us[i];
}

static void run(struct bench *bench, uint64_t crowd, int64_t rate)
{
    int64_t slot_us = INT64_C(1667000) * SLOT_US, step_us = SECOND_US / rate;
    bench->now_us = slot_us - 2 * SLOT_US + 1; /* two slots before: see wheel.c, W5 */
    bench->core = lone_core_new(&bench->callbacks, bench->now_us);
    for (uint64_t i = 0; i < crowd; i++) /* due from 5 to 15 minutes on in the slot */
        push(bench, BYTES("crowd"),
             slot_us + 300 * SECOND_US + (int64_t)(i * 600 * SECOND_US / crowd));
    bench->now_us = slot_us - BEFORE_S * SECOND_US;
    reserve(bench);
    int64_t due_us = bench->now_us + LEAD_US;
    while (bench->now_us < slot_us + AFTER_S * SECOND_US) {
        for (; due_us < bench->now_us + LEAD_US; due_us += step_us)
            push(bench, BYTES("stream"), due_us);
        turn(bench);
        int64_t next_us = core_next_us(bench->core);
        if (due_us - LEAD_US < next_us)
            next_us = due_us - LEAD_US + 1;
        if (next_us > bench->now_us)
            bench->now_us = next_us;
    }
    core_free(bench->core);
}

static int by_size(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

static int64_t worst_second_us(struct bench *bench, size_t rate)
{
    int64_t worst_us = 0;
    for (size_t first = 0; first + rate <= bench->count; first += rate) {
        qsort(bench->late_us + first, rate, sizeof(int64_t), by_size);
        if (bench->late_us[first + rate * 99 / 100] > worst_us)
            worst_us = bench->late_us[first + rate * 99 / 100];
    }
    return worst_us;
}

int main(int count, char **args)
{
    static struct bench bench;
    uint64_t crowd = number_after(args, count, "--crowd", 2000000);
    uint64_t rate = number_after(args, count, "--rate", 1000);
    bool json = count > 1 && strcmp(args[count - 1], "--json") == 0;
    CHECK(rate > 0 && rate <= 1000000);
    bench.callbacks.reply = note_reply;
    bench.late_us = mem_alloc(2 * (BEFORE_S + AFTER_S) * rate * sizeof(int64_t));
    run(&bench, crowd, (int64_t)rate);
    int64_t worst_us = worst_second_us(&bench, rate);
    qsort(bench.late_us, bench.count, sizeof(int64_t), by_size);
    int64_t p99_us = bench.late_us[bench.count * 99 / 100], max_us = bench.late_us[bench.count - 1];
    printf(json ? "{\"bench\":\"crowd\",\"crowd\":%" PRIu64 ",\"jobs\":%zu,\"p99_us\":%" PRId64
                  ",\"worst_second_p99_us\":%" PRId64 ",\"max_us\":%" PRId64 "}\n"
                : "%" PRIu64 " in the crowd, %zu jobs: p99 %" PRId64
                  " µs, p99 of the worst second %" PRId64 " µs, largest %" PRId64 " µs late\n",
           crowd, bench.count, p99_us, worst_us, max_us);
    mem_free(bench.late_us);
    return 0;
}
