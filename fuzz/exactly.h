/*
 * Bytes in memory of exactly their length, so that the sanitizers see a decoder that reads one too
 * far.
 */
#ifndef LATERD_FUZZ_EXACTLY_H
#define LATERD_FUZZ_EXACTLY_H

#include <string.h>

#include "base/mem.h"

/* A copy, to be freed with mem_free(). */
static inline char *exactly(const char *at, size_t len)
{
    char *copy = mem_alloc(len ? len : 1);
    if (len)
        memcpy(copy, at, len);
    return copy;
}

#endif
