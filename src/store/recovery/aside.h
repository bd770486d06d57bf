/*
 * For `later salvage`: finds jobs in segments that were set aside (`wal-….damaged`). Nothing in
 * them counts any more, but a body that is lost elsewhere may be intact there. Waits for the disk;
 * writes nothing.
 */
#ifndef LATERD_STORE_ASIDE_H
#define LATERD_STORE_ASIDE_H

#include "base/arena.h"
#include "port/disk.h"
#include "store/record.h"

struct aside_job;

/* The caller sets the first four; the others are zeros at first. */
struct aside {
    struct disk *disk;
    const struct store_id *id;                                    /* of the store */
    void (*fault)(void *ctx, const char *name, const char *text); /* a file is not read whole */
    void *ctx;
    bool loaded;
    struct aside_job *jobs; /* by number */
    size_t count, cap;
};

/* Reads the newest intact record of the job into the arena. ERR_DAMAGED: there is none. The first
   call reads all segments that were set aside. */
enum err aside_read(struct aside *aside, uint64_t seq, struct arena *arena,
                    struct record *out_record) MUST_USE;
void aside_fini(struct aside *aside);

#endif
