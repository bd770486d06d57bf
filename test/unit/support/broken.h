/* How an oracle ends a life in which a promise was broken: with the seed that shows it again. */
#ifndef LATERD_TEST_BROKEN_H
#define LATERD_TEST_BROKEN_H

#include <stdio.h>
#include <stdlib.h>

/* `oracle` has a `seed`; the rest is as for printf. Does not return. */
#define BROKEN(oracle, ...)                                                                        \
    do {                                                                                           \
        (void)fprintf(stderr, "seed %llu: ", (unsigned long long)(oracle)->seed);                  \
        (void)fprintf(stderr, __VA_ARGS__);                                                        \
        (void)fprintf(stderr, "\n");                                                               \
        abort();                                                                                   \
    } while (0)

#endif
