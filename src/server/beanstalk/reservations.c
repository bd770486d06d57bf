/*
 * Invariant: hold->holder->heap[hold->place] is the hold, and no hold ends before its parent in the
 * heap. (A sorted list would be walked for long when a client mixes long and short ttrs.)
 */
#include "server/beanstalk/reservations.h"

#include "base/check.h"
#include "base/mem.h"

enum { FIRST_CAP = 4 };

/* Numbers come in a row, and a row of neighbours in the table would make its removals slow. */
static uint64_t hash_seq(uint64_t seq)
{
    return (seq * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
}

static bool seq_is(const void *ctx, uint32_t number, const void *key)
{
    const struct beanstalk_hold *hold = pool_at(ctx, number);
    return hold->seq == *(const uint64_t *)key;
}

void beanstalk_holds_init(struct beanstalk_holds *holds)
{
    pool_init(&holds->pool, sizeof(struct beanstalk_hold));
    map_init(&holds->by_seq, seq_is, &holds->pool);
}

void beanstalk_holds_fini(struct beanstalk_holds *holds)
{
    map_fini(&holds->by_seq);
    pool_fini(&holds->pool);
}

/* ---- the heap ---- */

static void put(struct beanstalk_held *holder, uint32_t place, struct beanstalk_hold *hold)
{
    holder->heap[place] = hold;
    hold->place = place;
}

/* Finds the hold's place, beginning at the free `place`. */
static void settle(struct beanstalk_held *holder, uint32_t place, struct beanstalk_hold *hold)
{
    while (place > 0 && hold->until_us < holder->heap[(place - 1) / 2]->until_us) {
        put(holder, place, holder->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (;;) {
        uint64_t child = (uint64_t)place * 2 + 1;
        if (child >= holder->count)
            break;
        if (child + 1 < holder->count &&
            holder->heap[child + 1]->until_us < holder->heap[child]->until_us)
            child++;
        if (holder->heap[child]->until_us >= hold->until_us)
            break;
        put(holder, place, holder->heap[child]);
        place = (uint32_t)child;
    }
    put(holder, place, hold);
}

static void heap_add(struct beanstalk_held *holder, struct beanstalk_hold *hold)
{
    if (holder->count == holder->cap) {
        holder->cap = holder->cap ? holder->cap * 2 : FIRST_CAP;
        holder->heap = mem_realloc(holder->heap, holder->cap * sizeof(struct beanstalk_hold *));
    }
    holder->count++;
    settle(holder, holder->count - 1, hold);
}

static void heap_remove(struct beanstalk_held *holder, const struct beanstalk_hold *hold)
{
    CHECK(hold->place < holder->count && holder->heap[hold->place] == hold);
    holder->count--;
    if (hold->place < holder->count)
        settle(holder, hold->place, holder->heap[holder->count]);
}

/* ---- holds ---- */

static struct beanstalk_hold *find(const struct beanstalk_holds *holds, uint64_t seq)
{
    uint32_t number = map_find(&holds->by_seq, hash_seq(seq), &seq);
    return number == MAP_NONE ? NULL : pool_at(&holds->pool, number);
}

struct beanstalk_hold *beanstalk_holds_add(struct beanstalk_holds *holds,
                                           struct beanstalk_held *holder,
                                           const struct job_view *job)
{
    struct beanstalk_hold *stale = find(holds, job->ref.seq);
    if (stale)
        beanstalk_holds_drop(holds, stale);
    uint32_t number = pool_take(&holds->pool);
    struct beanstalk_hold *hold = pool_at(&holds->pool, number);
    *hold = (struct beanstalk_hold){
        .holder = holder,
        .number = number,
        .seq = job->ref.seq,
        .lease = job->lease,
        .ttr_us = job->ttr_us,
        .until_us = job->until_us,
        .end = UINT64_MAX,
    };
    map_add(&holds->by_seq, hash_seq(hold->seq), number);
    heap_add(holder, hold);
    return hold;
}

struct beanstalk_hold *beanstalk_holds_find(const struct beanstalk_holds *holds,
                                            const struct beanstalk_held *holder, uint64_t seq)
{
    struct beanstalk_hold *hold = find(holds, seq);
    return hold && hold->holder == holder ? hold : NULL;
}

void beanstalk_holds_extend(struct beanstalk_hold *hold, int64_t until_us)
{
    hold->until_us = until_us;
    settle(hold->holder, hold->place, hold);
}

void beanstalk_holds_drop(struct beanstalk_holds *holds, struct beanstalk_hold *hold)
{
    heap_remove(hold->holder, hold);
    map_remove(&holds->by_seq, hash_seq(hold->seq), hold->number);
    pool_give(&holds->pool, hold->number);
}

struct beanstalk_hold *beanstalk_holds_soonest(struct beanstalk_holds *holds,
                                               struct beanstalk_held *holder, int64_t now_us)
{
    while (holder && holder->count && holder->heap[0]->until_us <= now_us)
        beanstalk_holds_drop(holds, holder->heap[0]);
    return holder && holder->count ? holder->heap[0] : NULL;
}

void beanstalk_held_fini(struct beanstalk_held *holder)
{
    CHECK(holder->count == 0);
    mem_free(holder->heap);
    *holder = (struct beanstalk_held){0};
}

void beanstalk_held_valid(const struct beanstalk_held *holder)
{
    for (uint32_t i = 0; i < holder->count; i++) {
        const struct beanstalk_hold *hold = holder->heap[i];
        CHECK(hold->holder == holder && hold->place == i);
        CHECK(i == 0 || holder->heap[(i - 1) / 2]->until_us <= hold->until_us);
    }
}
