/*
 * What a change left in Redis for the journal (scripts/entry.lua), as a batch of the log that the
 * journal is given on the embedded engine. Pure.
 */
#ifndef LATERD_ENGINE_REDIS_JOURNAL_ENTRY_H
#define LATERD_ENGINE_REDIS_JOURNAL_ENTRY_H

#include "engine/redis/script.h"
#include "port/journal.h"

/* Bytes are borrowed. */
struct journal_entry {
    uint64_t number; /* in its partition: each is one more than the one before */
    int64_t at_us;   /* our clock */
    uint64_t mark;   /* of its bytes: no other entry of that number has it */
    char what;
    struct bytes text;
};

/* What the field says: see scripts/entry.lua. */
struct journal_field {
    uint64_t last; /* entry */
    uint64_t waiting_bytes;
};

/* ERR_CORRUPT: it is none of ours. */
enum err journal_entry_read(const struct script_space *space, uint32_t partition,
                            struct bytes member, struct journal_entry *out_entry) MUST_USE;
enum err journal_field_read(struct bytes field, struct journal_field *out_field) MUST_USE;

/* The batch with its event, for mem_free(); stream, entry and mark are set, the number is not. One
   that begins a journal has no event. ERR_CORRUPT. */
enum err journal_entry_batch(const struct script_space *space, uint32_t partition,
                             const struct journal_entry *entry, struct arena *arena,
                             struct journal_batch **out_batch) MUST_USE;

/* One without an event, for mem_free(): it says where the database stands in the stream. */
struct journal_batch *journal_entry_place(uint32_t partition, uint64_t entry, uint64_t mark,
                                          int64_t now_us);

#endif
