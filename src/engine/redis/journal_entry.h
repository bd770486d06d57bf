/*
 * Converts the entry that a change left in Redis for the journal (scripts/entry.lua) to a batch in
 * the format of the embedded engine's log. Pure. O(bytes of the entry).
 */
#ifndef LATERD_ENGINE_REDIS_JOURNAL_ENTRY_H
#define LATERD_ENGINE_REDIS_JOURNAL_ENTRY_H

#include "engine/redis/script.h"
#include "port/journal.h"

/* Bytes are borrowed. */
struct journal_entry {
    uint64_t number; /* consecutive in its partition */
    int64_t at_us;   /* our clock */
    uint64_t mark;   /* hash of its bytes: distinguishes entries of the same number */
    char what;
    struct bytes text;
};

/* A field of the entry: see scripts/entry.lua. */
struct journal_field {
    uint64_t last; /* entry */
    uint64_t waiting_bytes;
};

/* Decodes an entry. ERR_CORRUPT: not an entry that laterd has written. */
enum err journal_entry_read(const struct script_space *space, uint32_t partition,
                            struct bytes member, struct journal_entry *out_entry) MUST_USE;
enum err journal_field_read(struct bytes field, struct journal_field *out_field) MUST_USE;

/* Makes the batch with the entry's event, to be freed by mem_free(); stream, entry and mark are
   set, the number is not. An entry that begins a journal has no event. ERR_CORRUPT. */
enum err journal_entry_batch(const struct script_space *space, uint32_t partition,
                             const struct journal_entry *entry, struct arena *arena,
                             struct journal_batch **out_batch) MUST_USE;

/* Makes a batch without an event, to be freed by mem_free(): it sets the cursor's position in the
   stream. */
struct journal_batch *journal_entry_position(uint32_t partition, uint64_t entry, uint64_t mark,
                                             int64_t now_us);

#endif
