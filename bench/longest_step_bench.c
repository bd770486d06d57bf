/*
 * The longest single step of what holds millions: an addition or a removal, whatever it makes grow
 * or shrink. longest.h says what is shown; a step's number is that of the entries at that time.
 *
 *     longest_step_bench [--entries N] [--trim]
 *
 * --trim: free() returns the end of the C library's heap to the system, as it does by default.
 */
#include <malloc.h>

#include "base/check.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/mem.h"
#include "bench/lone_core.h"
#include "bench/longest.h"
#include "core/far_ready.h"
#include "core/name_order.h"
#include "os/heap_return.h"

enum { NAME_BYTES = 16 };

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

/* Buffers of 64 KiB, freed in the order in which they came; the last one keeps the others from the
   heap's end. Then what is free goes back. */
static void buffers(uint32_t entries)
{
    enum { BUFFER = 64 * 1024, BY_ENTRIES = 5000 };
    uint32_t some = entries / BY_ENTRIES + 1;
    char **all = mem_alloc(some * sizeof(*all));
    for (uint32_t i = 0; i < some; i++)
        memset(all[i] = mem_alloc(BUFFER), 1, BUFFER);
    struct heap_return heap = {.used_max = mem_used()};
    struct longest freed = begin("heap: free");
    for (uint32_t i = 0; i < some; i++) {
        mem_free(all[i]);
        step(&freed);
    }
    show(&freed);
    mem_free(all);
    struct longest returned = begin("heap: return");
    for (int64_t now_us = 1; now_us != INT64_MAX;) {
        now_us = heap_return_turn(&heap, now_us, mem_used());
        step(&returned);
    }
    show(&returned);
}

int main(int count, char **args)
{
    uint32_t entries = (uint32_t)number_after(args, count, "--entries", 10000000);
    heap_return_begin(); /* as laterd has it */
    for (int i = 1; i < count; i++)
        if (strcmp(args[i], "--trim") == 0)
            (void)mallopt(M_TRIM_THRESHOLD, 4 * 1024 * 1024);
    buffers(entries);
    maps(entries);
    pools(entries);
    heaps(entries);
    far_readies(entries);
    names(entries / 10);
    cores(entries);
    return 0;
}
