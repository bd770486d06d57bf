/* A new directory for the store of a bench, so that nothing else is ever removed. */
#ifndef LATERD_BENCH_NEW_DIRECTORY_H
#define LATERD_BENCH_NEW_DIRECTORY_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/disk.h"

enum { NEW_DIRECTORY_BYTES = 512 };

/* Makes a new directory within `within` (NULL: /var/tmp). False: it could not be made, and the
   reason is on standard error. */
static inline bool new_directory_make(const char *within, char out_path[static NEW_DIRECTORY_BYTES])
{
    if (!within)
        within = "/var/tmp";
    int len = snprintf(out_path, NEW_DIRECTORY_BYTES, "%s/laterd-bench-XXXXXX", within);
    if (len < 0 || len >= NEW_DIRECTORY_BYTES)
        errno = ENAMETOOLONG;
    else if (mkdtemp(out_path))
        return true;
    (void)fprintf(stderr, "no new directory in %s: %s\n", within, strerror(errno));
    return false;
}

static inline void new_directory_unlink(void *directory, const char *name)
{
    char path[NEW_DIRECTORY_BYTES + NAME_MAX + 1];
    (void)snprintf(path, sizeof(path), "%s/%s", (const char *)directory, name);
    (void)unlink(path);
}

/* Removes all files of a directory that new_directory_make() made. */
static inline void new_directory_clear(char *directory)
{
    struct os_disk *disk;
    if (os_disk_new(directory, &disk))
        return;
    (void)os_disk_port(disk)->verbs->list(os_disk_port(disk), new_directory_unlink, directory);
    os_disk_free(disk);
}

#endif
