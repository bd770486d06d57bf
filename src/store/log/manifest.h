/*
 * Writes the manifest, the store's root (8 KiB). The file is created by replacing (new file, sync,
 * rename, sync of the directory); afterwards its two slots are written in place alternately, on the
 * disk's background thread. After any crash one of them is intact. Writing in place also works on a
 * disk without a free block, where replacing a file would fail.
 *
 * Invariants: one write is under way at a time; of what it says, the first batch of the log, the
 * durable batch, the numbers and leases only ever rise.
 */
#ifndef LATERD_STORE_MANIFEST_H
#define LATERD_STORE_MANIFEST_H

#include "base/err.h"
#include "store/format.h"

struct store;
struct manifest_writer;

/* Makes the file, with its first slot, for a new store. ERR_DISK_FULL, ERR_IO. */
enum err manifest_create(struct disk *disk, const struct manifest *manifest) MUST_USE;

struct manifest_writer *manifest_new(struct store *store);
void manifest_free(struct manifest_writer *writer); /* NULL does nothing; none may be under way */
/* Opens the file, goes on from what was found in it, and makes that durable. */
enum err manifest_begin(struct manifest_writer *writer, const struct manifest *found,
                        uint64_t lease_first) MUST_USE;

/* Begins to write the store's present state into the next slot. Calls during a write are combined
   into one more write. O(1). */
void manifest_write(struct manifest_writer *writer);
/* Writes it now and waits for the disk, for opening; or, for closing, as that of a store which was
   closed in order. ERR_IO. */
enum err manifest_write_now(struct manifest_writer *writer) MUST_USE;
enum err manifest_write_clean(struct manifest_writer *writer) MUST_USE;
/* The log begins with this batch from now on; begins a write. */
void manifest_forget(struct manifest_writer *writer, uint64_t batch_first);
/* Is the last manifest_forget() durable? */
bool manifest_forgotten(const struct manifest_writer *writer);
/* From now on the store uses this incompatible feature; to be written before it does. */
void manifest_use(struct manifest_writer *writer, enum feature feature);
/*
 * Does the manifest on disk say that the store uses these features? If not, it will soon: then
 * log_start_next() is called.
 */
bool manifest_has(struct manifest_writer *writer, uint32_t features);
/* The core's next lease; writes the manifest when the mark on disk comes near. */
void manifest_lease_note(struct manifest_writer *writer, uint64_t lease_next);

uint64_t manifest_durable(const struct manifest_writer *writer); /* the batch it last called so */
uint64_t manifest_seq_mark(const struct manifest_writer *writer);
bool manifest_busy(const struct manifest_writer *writer);  /* a write is under way */
void manifest_valid(const struct manifest_writer *writer); /* CHECKs the invariants. O(1) */

#endif
