/*
 * How many full job lives (push, due, reserve, finish) the core lives through in a second on one
 * core, with many other jobs waiting. The sink drops what it is told and the time is made up, so
 * this is the core alone.
 *
 *     core_bench [--waiting N] [--lives N] [--batch N] [--json]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/mem.h"
#include "bench/lone_core.h"

struct bench {
    struct core_callbacks callbacks;
    struct core *core;
    int64_t now_us;
    uint64_t random;
    uint64_t lives;
    uint32_t got; /* jobs of the last reserve */
    struct {
        char id[24];
        size_t id_len;
        uint64_t lease;
    } jobs[1024];
};

static void note_reply(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    struct bench *bench = ctx;
    (void)callbacks;
    if (!has_reserved(reply))
        return;
    bench->got = reply->count;
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct job_view *view = &reply->jobs[i];
        memcpy(bench->jobs[i].id, view->ref.id.at, view->ref.id.len);
        bench->jobs[i].id_len = view->ref.id.len;
        bench->jobs[i].lease = view->lease;
    }
}

static int64_t clock_us(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at); /* cannot fail for this clock */
    return (int64_t)at.tv_sec * 1000000 + at.tv_nsec / 1000;
}

static uint64_t random_next(struct bench *bench) /* splitmix64 */
{
    uint64_t mixed = bench->random += 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return mixed ^ mixed >> 31;
}

/* A 20-byte id, as clients choose them. */
static void push(struct bench *bench, uint64_t number, int64_t due_us)
{
    char id[21];
    uint64_t mixed = number * 0x9e3779b97f4a7c15ull;
    for (int i = 0; i < 16; i++)
        id[i] = "0123456789abcdef"[mixed >> i * 4 & 15];
    memcpy(id + 16, "-job", 4);
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {
                          .id = bytes_of(id, 20),
                          .topic = BYTES("bench"),
                          .due_us = due_us,
                          .ttr_us = 60000000,
                          .priority = 1024,
                          .body = BYTES("{\"a\":1}"),
                      }};
    (void)core_apply(bench->core, bench->now_us, &cmd, bench);
}

static void fill(struct bench *bench, uint64_t waiting)
{
    int64_t year_us = 365ll * 86400 * 1000000;
    for (uint64_t i = 0; i < waiting; i++) {
        int64_t span_us = (int64_t)(random_next(bench) % (uint64_t)year_us);
        push(bench, i, bench->now_us + 3600000000ll + span_us);
    }
}

/* One turn: `batch` jobs are pushed, fall due a little later, are reserved, and are finished. */
static void turn(struct bench *bench, uint32_t batch, uint64_t *number)
{
    struct bytes topic = BYTES("bench");
    for (uint32_t i = 0; i < batch; i++)
        push(bench, (*number)++, bench->now_us + 1000 + (int64_t)(random_next(bench) % 5000));
    bench->now_us += 7000;
    while (core_tick(bench->core, bench->now_us, 2000))
        ;
    for (uint32_t left = batch; left > 0; left -= bench->got) {
        struct cmd reserve = {.kind = CMD_RESERVE,
                              .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
        (void)core_apply(bench->core, bench->now_us, &reserve, bench);
        struct cmd finish = {
            .kind = CMD_FINISH,
            .job = {.ref = {.id = bytes_of(bench->jobs[0].id, bench->jobs[0].id_len)},
                    .lease = bench->jobs[0].lease}};
        (void)core_apply(bench->core, bench->now_us, &finish, bench);
    }
    bench->lives += batch;
}

int main(int count, char **args)
{
    static struct bench bench;
    uint64_t waiting = number_after(args, count, "--waiting", 10000000);
    uint64_t lives = number_after(args, count, "--lives", 5000000);
    uint32_t batch = (uint32_t)number_after(args, count, "--batch", 256);
    bool json = count > 1 && strcmp(args[count - 1], "--json") == 0;
    bench.callbacks.reply = note_reply;
    bench.now_us = 1790000000000000;
    bench.core = lone_core_new(&bench.callbacks, bench.now_us);
    size_t before_bytes = mem_used();
    int64_t fill_us = clock_us();
    fill(&bench, waiting);
    fill_us = clock_us() - fill_us;
    double job_bytes = waiting ? (double)(mem_used() - before_bytes) / (double)waiting : 0;
    uint64_t number = waiting;
    int64_t lives_us = clock_us();
    while (bench.lives < lives)
        turn(&bench, batch, &number);
    lives_us = clock_us() - lives_us;
    double per_second = (double)bench.lives * 1e6 / (double)lives_us;
    double fills = fill_us ? (double)waiting * 1e6 / (double)fill_us : 0;
    if (json) {
        printf("{\"bench\":\"core\",\"waiting\":%" PRIu64 ",\"lives\":%" PRIu64 ",\"batch\":%u,"
               "\"lives_per_second\":%.0f,\"pushes_per_second\":%.0f,\"bytes_per_job\":%.1f}\n",
               waiting, bench.lives, batch, per_second, fills, job_bytes);
    } else {
        printf("%" PRIu64 " jobs wait: %.0f pushes/s, %.1f bytes of memory each\n", waiting, fills,
               job_bytes);
        printf("%" PRIu64 " full lives in turns of %u: %.0f lives/s, %.0f ns each\n", bench.lives,
               batch, per_second, 1e9 / per_second);
    }
    core_free(bench.core);
    return 0;
}
