/*
 * What the index of far jobs costs: memory an entry, a look-up that finds and one that does not, a
 * removal, and the longest addition (a shard grows).
 *
 *     far_index_bench [--entries N]
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/far_index.h"
#include "bench/lone_core.h"

enum { AT_ONCE = 128 }; /* as the core gives them to the index when a store is opened */

static uint64_t clock_ns(void) /* CPU of this thread: others may use the machine, too */
{
    struct timespec at;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at); /* cannot fail for this clock */
    return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static uint64_t hash_of_number(uint64_t number) /* splitmix64 */
{
    uint64_t mixed = number * 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return mixed ^ mixed >> 31;
}

static uint64_t place_of(uint64_t number)
{
    return (1 + number / 50000) << 32 | number % 50000 * 300;
}

static uint64_t resident_bytes(void)
{
    unsigned long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%lu %lu", &all, &resident) != 2)
            resident = 0;
        (void)fclose(file);
    }
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The same entries, as a restart adds them. */
static void gather(uint64_t entries)
{
    struct far_index index;
    far_index_init(&index);
    uint64_t start_ns = clock_ns();
    far_index_gather(&index, entries);
    struct far_pair pairs[AT_ONCE];
    for (uint64_t i = 0; i < entries;) {
        uint32_t count = 0;
        for (; i < entries && count < AT_ONCE; i++)
            pairs[count++] = (struct far_pair){hash_of_number(i), place_of(i)};
        bool added = far_index_gather_add(&index, pairs, count);
        CHECK(added);
    }
    bool whole = true, more = true;
    while (more)
        whole = far_index_gather_end(&index, &more) && whole;
    CHECK(whole && index.count == entries);
    printf("gathered: %.0f ns to add, %.2f bytes each\n",
           (double)(clock_ns() - start_ns) / (double)entries,
           (double)index.bytes / (double)entries);
    far_index_fini(&index);
}

int main(int count, char **args)
{
    uint64_t entries = number_after(args, count, "--entries", 10000000), longest_ns = 0;
    gather(entries);
    uint64_t found[FAR_CANDIDATES_MAX], wrong = 0, before_bytes = resident_bytes();
    struct far_index index;
    far_index_init(&index);
    uint64_t start_ns = clock_ns();
    for (uint64_t i = 0; i < entries; i++) {
        size_t bytes = index.bytes;
        uint64_t at_ns = i % 16 ? 0 : clock_ns(); /* reading the clock takes longer than most */
        bool added = far_index_add(&index, hash_of_number(i), place_of(i));
        CHECK(added);
        if (at_ns && index.bytes != bytes && clock_ns() - at_ns > longest_ns)
            longest_ns = clock_ns() - at_ns;
    }
    uint64_t add_ns = clock_ns() - start_ns;
    printf("%" PRIu64 " entries: %.2f bytes each by its own count, %.2f resident\n", entries,
           (double)index.bytes / (double)entries,
           (double)(resident_bytes() - before_bytes) / (double)entries);
    start_ns = clock_ns();
    for (uint64_t i = 0; i < entries; i++)
        CHECK(far_index_find(&index, hash_of_number(i), found, FAR_CANDIDATES_MAX) > 0);
    uint64_t hit_ns = clock_ns() - start_ns;
    start_ns = clock_ns();
    for (uint64_t i = 0; i < entries; i++)
        wrong += far_index_find(&index, hash_of_number(entries + i), found, FAR_CANDIDATES_MAX);
    uint64_t miss_ns = clock_ns() - start_ns;
    start_ns = clock_ns();
    for (uint64_t i = 0; i < entries; i += 2)
        CHECK(far_index_remove(&index, hash_of_number(i), place_of(i)));
    uint64_t remove_ns = (clock_ns() - start_ns) * 2;
    printf("ns: add %.0f (longest %.0f), found %.0f, not there %.0f, removed %.0f; %.5f %% of "
           "look-ups find one wrongly\n",
           (double)add_ns / (double)entries, (double)longest_ns, (double)hit_ns / (double)entries,
           (double)miss_ns / (double)entries, (double)remove_ns / (double)entries,
           100.0 * (double)wrong / (double)entries);
    far_index_fini(&index);
    return 0;
}
