/*
 * Reads a store's directory: the manifest, the header of every segment, and the names of slices.
 * Used to open, verify, salvage and back up a store. Waits for the disk; writes nothing.
 */
#ifndef LATERD_STORE_DIRECTORY_H
#define LATERD_STORE_DIRECTORY_H

#include "store/format.h"
#include "store/recovery/walker.h"
#include "store/store.h"

struct found {
    uint32_t number;
    enum format_verdict verdict; /* of its header */
    uint64_t size_bytes;         /* of the file; directory_read_lenient(): without a good header
                                    SEGMENT_FILE_MAX at most */
    struct segment_head head;    /* FORMAT_GOOD */
    const char *fault; /* directory_read_lenient(): why it is not used, for people; or NULL */
};

/* The name of a slice's file. The file is read when the log mentions the slice. */
struct found_slice {
    uint32_t number;
    bool half_made; /* "….tmp": it was not completed before a crash */
};

struct directory {
    bool manifest_there;
    bool slot_damaged;  /* one of the manifest's two slots is damaged */
    uint32_t set_aside; /* damaged segments that were taken out of the log and renamed */
    struct manifest manifest;
    /* Batches up to this one are in history files, so they were durable. Filled in by the caller,
       by history_last_batch() or history_covered(); 0: no file says so. */
    uint64_t history_last;
    struct found *found; /* sorted: good headers by batch_first, then the others by number */
    size_t count;
    size_t used;                /* how many have a good header */
    struct found_slice *slices; /* the newest first */
    size_t slice_count;
    bool unfinished;      /* a salvage into this directory is not complete */
    bool image_there;     /* an image of the far jobs' index: far_image.h */
    bool image_half_made; /* an image that was not completed before a crash */
};

/* Reads all of it; the caller calls directory_fini(). ERR_CORRUPT (also what a salvage has left
   that was interrupted), ERR_UNSUPPORTED (written by a newer version), ERR_IO; out_error says more.
   O(files). */
enum err directory_read(struct disk *disk, struct directory *out_directory,
                        struct store_error *out_error) MUST_USE;
/* The same for the salvage itself, whose store is not whole yet. */
enum err directory_read_unfinished(struct disk *disk, struct directory *out_directory,
                                   struct store_error *out_error) MUST_USE;
/*
 * The same for salvage: files that are damaged or of another store are skipped, as long as any are
 * left. Without a readable manifest, id and version are taken from a segment.
 */
enum err directory_read_lenient(struct disk *disk, struct directory *out_directory,
                                struct store_error *out_error) MUST_USE;
/* Reads only the manifest; manifest_there is false if there is no file. directory_fini() is not
   needed. */
enum err directory_manifest(struct disk *disk, struct directory *out_directory,
                            struct store_error *out_error) MUST_USE;
/* The same, from the MANIFEST_BYTES of the file. */
enum err directory_slots(const char *slots, struct directory *out_directory,
                         struct store_error *out_error) MUST_USE;
/* What a walker must know of it. */
struct walker_of directory_walker_of(const struct directory *directory, const struct found *found);
/* Is there a completed file of that slice? O(slices). */
bool directory_has_slice(const struct directory *directory, uint32_t number);
/* Sorts `found` and counts `used` again, after changes. */
void directory_sort(struct directory *directory);
void directory_fini(struct directory *directory);

/* Reads exactly `len` bytes at `offset`. ERR_CORRUPT: the file ends before; else the disk's error.
   Waits for the disk. */
enum err directory_read_all(struct disk *disk, struct disk_file *file, uint64_t offset, void *at,
                            size_t len) MUST_USE;

/* What was read of a file. */
struct file_bytes {
    char *at; /* BLOCK zeros follow `len`; freed by mem_free() */
    size_t len;
    uint64_t size_bytes; /* of the file: more than `len` if it is longer than was wanted */
    bool unread;         /* the disk could not read some of it, which is zeros here */
};

/*
 * Reads a file into memory, its first `bytes_max` bytes at most: any length may stand in a damaged
 * directory, of a sparse file also more than there is memory. If even the length cannot be read,
 * both lengths are 0. ERR_NOT_FOUND, ERR_IO, ERR_AGAIN (no descriptor is free): it cannot be
 * opened. Waits for the disk, block by block. O(the bytes read).
 */
enum err directory_read_file(struct disk *disk, const char *name, uint64_t bytes_max,
                             struct file_bytes *out_file) MUST_USE;

/* Fills in an error message; `file` and the text are truncated if they are too long. */
void store_error_set(struct store_error *error, const char *file, uint64_t offset,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
