/*
 * A backup of a store, taken beside whoever has it open: which bytes of which files are the store
 * as it was at one instant. Reads the directory and holds its files; writes nothing, takes no lock
 * and asks the server for nothing, so that no turn of its is longer because of a backup
 * (docs/decisions/0050-a-backup-reads-the-directory-beside-the-server.md).
 *
 * Why that is enough: segments are only appended to, no write touches a block that holds an earlier
 * batch (S3), a segment with another one behind it never changes again, no name is used twice, and
 * a file that is removed can be read as long as it is held open. What is captured is a state that
 * a crash at this instant could have left, and recovery opens each of those.
 *
 *     manifest ─▶ all files are opened ─▶ manifest: the same   ─▶ the tail's end ─▶ a slice that
 *         ▲                                 generation?                             is not open?
 *         │                                        │ no                                 │ yes
 *         └────────────────────────────────────────┴──────── what is new is opened, too ┘
 *
 * A slice never changes. The log tells of it when it is there, and it goes when all that lived in
 * it has died in durable batches. So one that the log needs up to the tail's end was there before
 * that, and was opened either before, or when what is new was looked for after it.
 */
#ifndef LATERD_STORE_BACKUP_H
#define LATERD_STORE_BACKUP_H

#include "store/format.h"
#include "store/store.h"

struct backup_file {
    char name[DISK_NAME_MAX];
    struct disk_file *file;   /* open, the backup's: it can be read though the cleaner removed it */
    uint64_t size_bytes;      /* of the file */
    uint64_t used_bytes;      /* those up to here count; behind them the copy must have zeros */
    bool sealed;              /* it never changes again: a hard link is as good as a copy */
    bool is_slice;            /* or a part of the jobs' history: it never changes */
    struct segment_head head; /* of a segment */
};

struct backup {
    struct disk *disk;
    struct manifest manifest;
    struct backup_file *files; /* segments in the order of the log, then slices */
    size_t count;
    size_t segments;  /* of them */
    uint64_t batch;   /* the last one that is in it */
    int64_t clock_us; /* what the server's clock showed then; 0: not known */
    unsigned rounds;  /* how often the directory was looked at */
};

/*
 * Captures the store in the disk's directory as it is now; the caller releases it. A descriptor is
 * held for each file. ERR_NOT_FOUND: there is no store. ERR_UNSUPPORTED: a newer version wrote
 * it. ERR_CORRUPT: no manifest can be read, or files are missing. ERR_AGAIN: no descriptor is
 * free, or the store changed all the time. ERR_IO. out_error says more of all but ERR_NOT_FOUND.
 * Waits for the disk: O(files) opens, and one segment is read.
 */
enum err backup_capture(struct disk *disk, struct backup *out_backup,
                        struct store_error *out_error) MUST_USE;
void backup_release(struct backup *backup); /* a zeroed one: does nothing */

/* The manifest of the backup: MANIFEST_BYTES, both slots. */
void backup_manifest(const struct backup *backup, char *slots);

/*
 * The manifest of a store that is made of a backup, from the backup's, in place. Server-made
 * numbers and leases go on far behind all that the store may have given since: clients may still
 * know those. Followers are dropped, because they have read batches that will now be other ones.
 * ERR_CORRUPT, ERR_UNSUPPORTED.
 */
enum err backup_restored(char *slots, struct store_error *out_error) MUST_USE;

#endif
