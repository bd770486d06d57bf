/*
 * A consistent backup of a store that a server may have open: determines which bytes of which files
 * are the store at one instant. Opens the files in the directory; writes nothing, takes no lock and
 * does not talk to the server, so no turn of the server takes longer because of a backup
 * (docs/decisions/0050-a-backup-reads-the-directory-beside-the-server.md).
 *
 * Why that is consistent: segments are only appended to, no write touches a block that holds an
 * earlier batch (S3), a segment that has a successor never changes again, no file name is used
 * twice, and a removed file can be read as long as it is open. The result is a state that a crash
 * at this instant could have left, and recovery opens every such state.
 *
 *     manifest ─▶ all files are opened ─▶ manifest: the same   ─▶ the tail's end ─▶ a slice that
 *         ▲                                 generation?                             is not open?
 *         │                                        │ no                                 │ yes
 *         └────────────────────────────────────────┴──────── what is new is opened, too ┘
 *
 * A slice never changes. The log mentions it only when its file exists, and it is removed only when
 * all its records have died in durable batches. So a slice that the log needs up to the end of the
 * tail (the last segment) existed before that end was read: it was opened in the first round, or is
 * found in the next one. A file of the history has batches that were durable when it was made: they
 * are in front of that end, unless their segment was not in use yet when the directory was listed.
 * Then another round finds it.
 */
#ifndef LATERD_STORE_BACKUP_H
#define LATERD_STORE_BACKUP_H

#include "store/format.h"
#include "store/store.h"

struct backup_file {
    char name[DISK_NAME_MAX];
    struct disk_file *file;   /* open; readable even after the server has removed the name */
    uint64_t size_bytes;      /* of the file */
    uint64_t used_bytes;      /* copy these; the rest of the copy must be zeros */
    bool sealed;              /* it never changes again, so a hard link will do */
    bool is_slice;            /* a slice or a file of the history: never changes */
    struct segment_head head; /* of a segment */
    uint64_t batch_last;      /* of a file of the history: the last batch that it has */
};

struct backup {
    struct disk *disk;
    struct manifest manifest;
    struct backup_file *files; /* segments in the order of the log, then slices */
    size_t count;
    size_t segments;  /* how many of `files` are segments */
    uint64_t batch;   /* the last batch in the backup */
    int64_t clock_us; /* the server's clock when that was written; 0: not known */
    unsigned rounds;  /* how often the directory was read */
};

/*
 * Captures the store in the disk's directory as it is now; the caller releases it. A descriptor is
 * held for each file. ERR_NOT_FOUND: there is no store. ERR_UNSUPPORTED: a newer version wrote
 * it. ERR_CORRUPT: no manifest can be read, or files are missing. ERR_AGAIN: no descriptor is
 * free, or the store changed all the time. ERR_IO. out_error has details, but for ERR_NOT_FOUND.
 * Waits for the disk: O(files) opens, and one segment is read.
 */
enum err backup_capture(struct disk *disk, struct backup *out_backup,
                        struct store_error *out_error) MUST_USE;
void backup_release(struct backup *backup); /* closes the files; zeros: does nothing */

/* Writes the backup's manifest, which calls all of its batches durable: MANIFEST_BYTES, both slots.
 */
void backup_manifest(const struct backup *backup, char *slots);

/*
 * Changes a backup's manifest (MANIFEST_BYTES) in place into that of a restored store. Server-made
 * numbers and leases continue far above all that the original store may have given out since the
 * backup, because clients may still use those. Followers are dropped, because batch numbers that
 * they have read will be used for other batches. ERR_CORRUPT, ERR_UNSUPPORTED; out_error says more.
 */
enum err backup_restored(char *slots, struct store_error *out_error) MUST_USE;

#endif
