/*
 * A disk that is written to only while we lead: port/disk.h in front of another one. What is to be
 * written after the deadline fails (ERR_IO, ESTALE) and is not given to the disk behind; reads go
 * on. With the store's lock and epoch this is what keeps one who led before out of the files.
 */
#ifndef LATERD_LATERD_FENCE_H
#define LATERD_LATERD_FENCE_H

#include "port/disk.h"
#include "port/member.h"

struct fence;

/* Both are borrowed. */
struct fence *fence_new(struct disk *behind, const struct member *member, uint64_t epoch);
void fence_free(struct fence *fence); /* no operation may be under way; NULL does nothing */
struct disk *fence_port(struct fence *fence);

#endif
