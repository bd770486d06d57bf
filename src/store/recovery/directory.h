/*
 * What is in a store's directory, before any of it is believed: the manifest and every segment's
 * header. Used to open a store, to verify and to salvage one. Writes nothing.
 */
#ifndef LATERD_STORE_DIRECTORY_H
#define LATERD_STORE_DIRECTORY_H

#include "store/format.h"
#include "store/store.h"

struct found {
    uint32_t number;
    enum format_verdict verdict; /* of its header */
    uint64_t size_bytes;
    struct segment_head head; /* FORMAT_GOOD */
    const char *fault; /* directory_read_lenient(): why it is not used, for people; or NULL */
};

/* A slice's file; what is in it is not looked at before the log tells of it. */
struct found_slice {
    uint32_t number;
    bool half_made; /* it was being written when the power went */
};

struct directory {
    bool manifest_there;
    bool slot_damaged;  /* one of the manifest's two slots is */
    uint32_t set_aside; /* damaged segments that were taken out of the log */
    struct manifest manifest;
    struct found *found; /* by batch_first those with a good header, then the others by number */
    size_t count;
    size_t used;                /* how many have a good header */
    struct found_slice *slices; /* in no order */
    size_t slice_count;
    bool image_there;     /* of the far jobs' index: far_image.h */
    bool image_half_made; /* one was being written when the power went */
};

/* ERR_CORRUPT, ERR_UNSUPPORTED (a newer version), ERR_IO; out_error says more. */
enum err directory_read(struct disk *disk, struct directory *out_directory,
                        struct store_error *out_error) MUST_USE;
/*
 * The same for salvage: what is damaged, or not of this store, is as if it were not there, if
 * anything is left. Without a manifest its id and version are those of a segment.
 */
enum err directory_read_lenient(struct disk *disk, struct directory *out_directory,
                                struct store_error *out_error) MUST_USE;
/* The manifest alone; without a file of it manifest_there stays false. Nothing is to be freed. */
enum err directory_manifest(struct disk *disk, struct directory *out_directory,
                            struct store_error *out_error) MUST_USE;
/* The same of its MANIFEST_BYTES. */
enum err directory_slots(const char *slots, struct directory *out_directory,
                         struct store_error *out_error) MUST_USE;
/* Is the file of that slice there, whole? O(slices). */
bool directory_has_slice(const struct directory *directory, uint32_t number);
/* Puts `found` in its order again, and counts `used` again. */
void directory_sort(struct directory *directory);
void directory_fini(struct directory *directory);

/* Fills in what people are told of an error; a file's name or text that is too long is cut. */
void store_error_set(struct store_error *error, const char *file, uint64_t offset,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
