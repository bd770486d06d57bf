/* A small seeded generator (splitmix64): the same seed gives the same numbers on every machine. */
#ifndef LATERD_SIM_RANDOM_H
#define LATERD_SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_random {
    uint64_t state;
};

static inline uint64_t sim_random_next(struct sim_random *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* 0 … below - 1 */
static inline uint64_t sim_random_below(struct sim_random *random, uint64_t below)
{
    return below ? sim_random_next(random) % below : 0;
}

static inline bool sim_random_chance(struct sim_random *random, unsigned per_mille)
{
    return sim_random_below(random, 1000) < per_mille;
}

#endif
