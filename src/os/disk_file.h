/*
 * Files of the store's directory, for os/disk.c: opened, read, and written durably. Nothing is kept
 * but a file's descriptors, so any thread may call this; a file is used by one thread at a time.
 */
#ifndef LATERD_OS_DISK_FILE_H
#define LATERD_OS_DISK_FILE_H

#include "port/disk.h"

struct disk_file {
    int fd;
    int direct_fd; /* -1: not opened, or refused */
    bool direct_tried;
    bool fresh; /* reads are from the device, past the page cache */
    char name[DISK_NAME_MAX];
};

/* What an errno means for the store. */
enum err disk_file_err(int number);

/* A descriptor of a regular file of the directory, or -1 and errno. */
int disk_file_descriptor(int dir_fd, const char *name, int flags);

/* Locks all of a file: F_RDLCK, F_WRLCK or F_UNLCK. Returns 0 or an errno, at once. */
int disk_file_lock(int fd, short type);

/* Of a file or a directory. Returns 0 or an errno. A failed one must not be tried again. */
int disk_file_sync(int fd);

/* As disk_verbs.open, read, exact, fetch and close. */
enum err disk_file_open(int dir_fd, const char *name, enum disk_cache cache,
                        struct disk_file **out_file) MUST_USE;
enum err disk_file_read(struct disk_file *file, uint64_t offset, void *at, size_t len,
                        size_t *out_len) MUST_USE;
void disk_file_exact(struct disk_file *file);
void disk_file_fetch(struct disk_file *file, uint64_t offset, uint64_t len);
void disk_file_close(struct disk_file *file);

/* Does what op->verb says, in this thread, and fills in err, sys_errno and took_us. */
void disk_file_perform(int dir_fd, struct disk_op *op);

#endif
