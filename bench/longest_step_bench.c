/*
 * The longest single step of what holds millions: an addition or a removal, whatever it makes grow
 * or shrink, in processor time of the thread. The five longest of each are shown, with the number
 * of entries at that time: one that is long because of what it does comes again in the next run, at
 * the same number; one that the system or the hypervisor made long does not.
 *
 *     longest_step_bench [--entries N]
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/mem.h"
#include "bench/lone_core.h"
#include "core/far_ready.h"
#include "core/name_order.h"

enum { LONGEST = 5, NAME_BYTES = 16 };

struct longest {
    const char *what;
    int64_t at_ns, sum_ns;
    uint64_t steps;
    struct {
        int64_t ns;
        uint64_t step;
    } all[LONGEST];
};

static int64_t cpu_ns(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at); /* cannot fail for this clock */
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static struct longest begin(const char *what)
{
    return (struct longest){.what = what, .at_ns = cpu_ns()};
}

static void step(struct longest *longest)
{
    int64_t now_ns = cpu_ns(), ns = now_ns - longest->at_ns;
    unsigned place = LONGEST;
    while (place > 0 && longest->all[place - 1].ns < ns)
        place--;
    if (place < LONGEST) {
        memmove(&longest->all[place + 1], &longest->all[place],
                (LONGEST - place - 1) * sizeof(longest->all[0]));
        longest->all[place].ns = ns;
        longest->all[place].step = longest->steps;
    }
    longest->steps++;
    longest->sum_ns += ns;
    longest->at_ns = cpu_ns();
}

static void show(const struct longest *longest)
{
    printf("%-32s %8.0f ns each; longest, us:", longest->what,
           (double)longest->sum_ns / (double)longest->steps);
    for (unsigned i = 0; i < LONGEST; i++)
        printf(" %.0f (at %" PRIu64 ")", (double)longest->all[i].ns / 1000, longest->all[i].step);
    printf("\n");
    (void)fflush(stdout);
}

static uint64_t mixed(uint64_t number) /* splitmix64 */
{
    uint64_t mix = number * 0x9e3779b97f4a7c15ull;
    mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9ull;
    mix = (mix ^ mix >> 27) * 0x94d049bb133111ebull;
    return mix ^ mix >> 31;
}

/* ---- single containers ---- */

static bool same(const void *ctx, uint32_t number, const void *key)
{
    (void)ctx;
    return number == *(const uint32_t *)key;
}

static void maps(uint32_t entries)
{
    struct map map;
    map_init(&map, same, NULL);
    struct longest add = begin("map: add");
    for (uint32_t i = 0; i < entries; i++) {
        map_add(&map, mixed(i), i);
        step(&add);
    }
    show(&add);
    struct longest cut = begin("map: remove");
    for (uint32_t i = 0; i < entries; i++) {
        map_remove(&map, mixed(i), i);
        step(&cut);
    }
    show(&cut);
    map_fini(&map);
}

static void pools(uint32_t entries)
{
    struct pool pool;
    pool_init(&pool, 84);
    struct longest take = begin("pool: take");
    for (uint32_t i = 0; i < entries; i++) {
        (void)pool_take(&pool);
        step(&take);
    }
    show(&take);
    struct longest give = begin("pool: give");
    for (uint32_t i = 0; i < entries; i++) {
        pool_give(&pool, i);
        step(&give);
    }
    show(&give);
    struct longest trim = begin("pool: trim");
    while (pool_trim(&pool))
        step(&trim);
    show(&trim);
    pool_fini(&pool);
}

static void heaps(uint32_t entries)
{
    struct heap heap = {0};
    struct heap_node *nodes = mem_zalloc(entries * sizeof(*nodes));
    struct longest put = begin("heap: put");
    for (uint32_t i = 0; i < entries; i++) {
        heap_put(&heap, &nodes[i], (int64_t)(mixed(i) >> 1));
        step(&put);
    }
    show(&put);
    struct longest cut = begin("heap: remove");
    for (uint32_t i = 0; i < entries; i++) {
        heap_remove(&heap, &nodes[i]);
        step(&cut);
    }
    show(&cut);
    mem_free(nodes);
}

static void far_readies(uint32_t entries)
{
    struct far_ready heap = {0};
    struct longest add = begin("far_ready: add");
    for (uint32_t i = 0; i < entries; i++) {
        struct far_ready_entry entry = {.priority = (uint32_t)mixed(i)};
        far_ready_add(&heap, &entry);
        step(&add);
    }
    show(&add);
    struct longest cut = begin("far_ready: remove");
    for (uint32_t i = 0; i < entries; i++) {
        far_ready_remove(&heap, 0);
        step(&cut);
    }
    show(&cut);
}

static struct bytes name_at(const void *ctx, uint32_t number)
{
    return bytes_of((const char *)ctx + (size_t)number * NAME_BYTES, NAME_BYTES);
}

static void names(uint32_t entries)
{
    char *all = mem_alloc((size_t)entries * NAME_BYTES + 1);
    struct name_order order;
    for (uint32_t i = 0; i < entries; i++)
        (void)snprintf(all + (size_t)i * NAME_BYTES, NAME_BYTES + 1, "%016" PRIx64, mixed(i));
    name_order_init(&order, name_at, all);
    struct longest add = begin("name_order: add");
    for (uint32_t i = 0; i < entries; i++) {
        name_order_add(&order, i);
        step(&add);
    }
    show(&add);
    struct longest cut = begin("name_order: remove");
    for (uint32_t i = 0; i < entries; i++) {
        name_order_remove(&order, i);
        step(&cut);
    }
    show(&cut);
    name_order_fini(&order);
    mem_free(all);
}

/* ---- the core, with all of its own ---- */

struct took {
    struct core_callbacks callbacks;
    uint64_t seq, lease;
};

static void note_reply(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    struct took *took = (struct took *)callbacks; /* its first member */
    (void)ctx;
    if (!has_reserved(reply) || reply->count == 0)
        return;
    took->seq = reply->jobs[0].ref.seq;
    took->lease = reply->jobs[0].lease;
}

static void cores(uint32_t entries)
{
    enum { STEPS = 256 };
    static struct took took = {.callbacks.reply = note_reply};
    struct bytes topic = BYTES("bench");
    int64_t now_us = 1000000000;
    struct core *core = lone_core_new(&took.callbacks, now_us);
    struct longest push = begin("core: push, delayed");
    for (uint32_t i = 0; i < entries; i++) {
        char id[NAME_BYTES + 1];
        (void)snprintf(id, sizeof(id), "%016" PRIx64, mixed(i));
        struct cmd cmd = {.kind = CMD_PUSH,
                          .push = {.id = bytes_of(id, NAME_BYTES),
                                   .topic = topic,
                                   .due_us = now_us + 3600000000 + i % 3 * 1000,
                                   .ttr_us = 86400000000,
                                   .priority = (uint32_t)mixed(i)}};
        (void)core_apply(core, now_us, &cmd, &took);
        step(&push);
    }
    show(&push);
    struct longest tick = begin("core: 256 steps of a tick");
    for (now_us += 3600010000; core_tick(core, now_us, STEPS);)
        step(&tick);
    step(&tick);
    show(&tick);
    uint64_t *taken = mem_alloc(entries * 2 * sizeof(*taken));
    struct longest reserve = begin("core: reserve");
    for (uint32_t i = 0; i < entries; i++) {
        struct cmd cmd = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
        (void)core_apply(core, now_us, &cmd, &took);
        taken[2 * i] = took.seq;
        taken[2 * i + 1] = took.lease;
        step(&reserve);
    }
    show(&reserve);
    struct longest finish = begin("core: finish");
    for (uint32_t i = 0; i < entries; i++) {
        struct cmd cmd = {.kind = CMD_FINISH,
                          .job = {.ref.seq = taken[2 * i], .lease = taken[2 * i + 1]}};
        (void)core_apply(core, now_us, &cmd, &took);
        step(&finish);
    }
    show(&finish);
    mem_free(taken);
    core_free(core);
}

int main(int count, char **args)
{
    uint32_t entries = (uint32_t)number_after(args, count, "--entries", 10000000);
    (void)mallopt(M_MMAP_THRESHOLD, 128 * 1024); /* as laterd has it */
    (void)mallopt(M_TRIM_THRESHOLD, 4 * 1024 * 1024);
    maps(entries);
    pools(entries);
    heaps(entries);
    far_readies(entries);
    names(entries / 10);
    cores(entries);
    return 0;
}
