/*
 * Invariant: reservation->holder->heap[reservation->place] is the reservation, and none ends
 * before its parent in the heap. (A sorted list would be walked for long when a client mixes long
 * and short ttrs.)
 */
#include "server/beanstalk/reservations.h"

#include "base/check.h"
#include "base/mem.h"

enum { FIRST_CAP = 4 };

/* Job numbers are consecutive: unhashed they would fill a long run of the table, slow to remove
 * from. */
static uint64_t hash_seq(uint64_t seq)
{
    return (seq * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
}

static bool seq_is(const void *ctx, uint32_t number, const void *key)
{
    const struct beanstalk_reservation *reservation = pool_at(ctx, number);
    return reservation->seq == *(const uint64_t *)key;
}

void beanstalk_reservations_init(struct beanstalk_reservations *reservations)
{
    pool_init(&reservations->pool, sizeof(struct beanstalk_reservation));
    map_init(&reservations->by_seq, seq_is, &reservations->pool);
}

void beanstalk_reservations_fini(struct beanstalk_reservations *reservations)
{
    map_fini(&reservations->by_seq);
    pool_fini(&reservations->pool);
}

/* ---- the heap ---- */

static void put(struct beanstalk_holder *holder, uint32_t place,
                struct beanstalk_reservation *reservation)
{
    holder->heap[place] = reservation;
    reservation->place = place;
}

/* Finds the reservation's place, beginning at the free `place`. */
static void settle(struct beanstalk_holder *holder, uint32_t place,
                   struct beanstalk_reservation *reservation)
{
    while (place > 0 && reservation->until_us < holder->heap[(place - 1) / 2]->until_us) {
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
        if (holder->heap[child]->until_us >= reservation->until_us)
            break;
        put(holder, place, holder->heap[child]);
        place = (uint32_t)child;
    }
    put(holder, place, reservation);
}

static void heap_add(struct beanstalk_holder *holder, struct beanstalk_reservation *reservation)
{
    if (holder->count == holder->cap) {
        holder->cap = holder->cap ? holder->cap * 2 : FIRST_CAP;
        holder->heap =
            mem_realloc(holder->heap, holder->cap * sizeof(struct beanstalk_reservation *));
    }
    holder->count++;
    settle(holder, holder->count - 1, reservation);
}

static void heap_remove(struct beanstalk_holder *holder,
                        const struct beanstalk_reservation *reservation)
{
    CHECK(reservation->place < holder->count && holder->heap[reservation->place] == reservation);
    holder->count--;
    if (reservation->place < holder->count)
        settle(holder, reservation->place, holder->heap[holder->count]);
}

/* ---- reservations ---- */

static struct beanstalk_reservation *find(const struct beanstalk_reservations *reservations,
                                          uint64_t seq)
{
    uint32_t number = map_find(&reservations->by_seq, hash_seq(seq), &seq);
    return number == MAP_NONE ? NULL : pool_at(&reservations->pool, number);
}

struct beanstalk_reservation *beanstalk_reservations_add(
    struct beanstalk_reservations *reservations, struct beanstalk_holder *holder,
    const struct job_view *job)
{
    struct beanstalk_reservation *stale = find(reservations, job->ref.seq);
    if (stale)
        beanstalk_reservations_drop(reservations, stale);
    uint32_t number = pool_take_dirty(&reservations->pool);
    struct beanstalk_reservation *reservation = pool_at(&reservations->pool, number);
    *reservation = (struct beanstalk_reservation){
        .holder = holder,
        .number = number,
        .seq = job->ref.seq,
        .lease = job->lease,
        .ttr_us = job->ttr_us,
        .until_us = job->until_us,
        .end = UINT64_MAX,
    };
    map_add(&reservations->by_seq, hash_seq(reservation->seq), number);
    heap_add(holder, reservation);
    return reservation;
}

void beanstalk_reservations_put_back(struct beanstalk_reservations *reservations,
                                     struct beanstalk_holder *holder,
                                     const struct beanstalk_lease *lease)
{
    struct job_view job = {.ref.seq = lease->seq,
                           .lease = lease->lease,
                           .ttr_us = lease->ttr_us,
                           .until_us = lease->until_us};
    if (lease->lease && !find(reservations, lease->seq))
        beanstalk_reservations_add(reservations, holder, &job)->end = 0;
}

struct beanstalk_reservation *beanstalk_reservations_find(
    const struct beanstalk_reservations *reservations, const struct beanstalk_holder *holder,
    uint64_t seq)
{
    if (!holder || holder->count == 0)
        return NULL; /* a producer that deletes its jobs: without a look-up */
    struct beanstalk_reservation *reservation = find(reservations, seq);
    return reservation && reservation->holder == holder ? reservation : NULL;
}

void beanstalk_reservations_extend(struct beanstalk_reservation *reservation, int64_t until_us)
{
    reservation->until_us = until_us;
    settle(reservation->holder, reservation->place, reservation);
}

void beanstalk_reservations_touched(struct beanstalk_reservations *reservations,
                                    const struct job_view *job)
{
    struct beanstalk_reservation *reservation = find(reservations, job->ref.seq);
    if (reservation && reservation->lease == job->lease)
        beanstalk_reservations_extend(reservation, job->until_us);
}

void beanstalk_reservations_drop(struct beanstalk_reservations *reservations,
                                 struct beanstalk_reservation *reservation)
{
    heap_remove(reservation->holder, reservation);
    map_remove(&reservations->by_seq, hash_seq(reservation->seq), reservation->number);
    pool_give(&reservations->pool, reservation->number);
}

struct beanstalk_reservation *beanstalk_reservations_soonest(
    struct beanstalk_reservations *reservations, struct beanstalk_holder *holder, int64_t now_us)
{
    struct beanstalk_reservation *ended;
    while ((ended = beanstalk_reservations_ended(holder, now_us)))
        beanstalk_reservations_drop(reservations, ended);
    return holder && holder->count ? holder->heap[0] : NULL;
}

void beanstalk_holder_fini(struct beanstalk_holder *holder, struct discard *discard)
{
    CHECK(holder->count == 0);
    discard_memory(discard, holder->heap, holder->cap * sizeof(struct beanstalk_reservation *));
    *holder = (struct beanstalk_holder){0};
}

void beanstalk_holder_valid(const struct beanstalk_holder *holder)
{
    for (uint32_t i = 0; i < holder->count; i++) {
        const struct beanstalk_reservation *reservation = holder->heap[i];
        CHECK(reservation->holder == holder && reservation->place == i);
        CHECK(i == 0 || holder->heap[(i - 1) / 2]->until_us <= reservation->until_us);
    }
}
