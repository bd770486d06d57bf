/*
 * The longest single steps: what the benches of them have in common. Steps are measured in
 * processor time of the thread; the five longest are shown, with their number: one that is long
 * because of what it does comes again in the next run, at the same number; one that the system or
 * the hypervisor made long does not.
 */
#ifndef LATERD_BENCH_LONGEST_H
#define LATERD_BENCH_LONGEST_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LONGEST = 5 };

struct longest {
    const char *what;
    int64_t at_ns, sum_ns;
    uint64_t steps;
    struct {
        int64_t ns;
        uint64_t step;
    } all[LONGEST];
};

static inline int64_t cpu_ns(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at); /* cannot fail for this clock */
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static inline struct longest begin(const char *what)
{
    return (struct longest){.what = what, .at_ns = cpu_ns()};
}

/* What was done since the last step is none. */
static inline void skip(struct longest *longest)
{
    longest->at_ns = cpu_ns();
}

static inline void step(struct longest *longest)
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

static inline void show(const struct longest *longest)
{
    printf("%-32s %8.0f ns each; longest, us:", longest->what,
           (double)longest->sum_ns / (double)longest->steps);
    for (unsigned i = 0; i < LONGEST; i++)
        printf(" %.0f (at %" PRIu64 ")", (double)longest->all[i].ns / 1000, longest->all[i].step);
    printf("\n");
    (void)fflush(stdout);
}

static inline uint64_t mixed(uint64_t number) /* splitmix64 */
{
    uint64_t mix = number * 0x9e3779b97f4a7c15ull;
    mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9ull;
    mix = (mix ^ mix >> 27) * 0x94d049bb133111ebull;
    return mix ^ mix >> 31;
}

#endif
