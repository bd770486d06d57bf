/*
 * A disk that is written to only while we lead: port/disk.h in front of another disk. After the
 * deadline, writes fail (ERR_IO, ESTALE) without reaching the disk behind; reads go on. Together
 * with the store's lock and epoch this keeps a former leader from changing the files.
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
