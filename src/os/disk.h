/*
 * port/disk.h on Linux: one directory, a thread for each lane of changes and a few for that of
 * reads, and an eventfd that is written when an operation has ended. The loop watches it
 * edge-triggered and never reads it.
 */
#ifndef LATERD_OS_DISK_H
#define LATERD_OS_DISK_H

#include <sys/types.h>

#include "port/disk.h"

struct os_disk;

/*
 * Opens the directory, making it (mode 0700) if it is not there; its parent must be. ERR_IO with
 * errno set. The threads start with the first submitted operations of their lane.
 */
enum err os_disk_new(const char *directory, struct os_disk **out_disk) MUST_USE;

/* No operation may be under way. Gives back the lock. NULL does nothing. */
void os_disk_free(struct os_disk *disk);

/*
 * True: users other than us and root can put files into the directory (its group, all others, or an
 * owner who is neither); out_owner has its owner and mode. They cannot make us write outside of the
 * directory, but they can replace the store's files.
 */
struct os_disk_owner {
    uid_t uid;
    mode_t mode; /* permission bits */
};
bool os_disk_exposed(const struct os_disk *disk, struct os_disk_owner *out_owner);

/* 0: we may make files in the directory and write to its lock file. Else the errno that says why
 * not; out_owner is then the owner and mode of what we may not write to. */
int os_disk_may_write(const struct os_disk *disk, struct os_disk_owner *out_owner);

/* 0: the lock file is there or was made. Else the errno of a file system in which nobody makes
 * files, such as /proc, although it lets us write. */
int os_disk_may_create(const struct os_disk *disk);
/* The same of a file of the directory: 0: we may read it and write to it, or it is not there. */
int os_disk_may_use(const struct os_disk *disk, const char *name, struct os_disk_owner *out_owner);

struct disk *os_disk_port(struct os_disk *disk);

/* Becomes readable (edge-triggered, never read) when disk->poll() has something to do. */
int os_disk_eventfd(const struct os_disk *disk);

#endif
