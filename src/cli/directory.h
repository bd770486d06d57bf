/* Checks of directories that commands are given, before they change any. They wait for disks. */
#ifndef LATERD_CLI_DIRECTORY_H
#define LATERD_CLI_DIRECTORY_H

#include <stdbool.h>

#include "base/bytes.h"

/* Is the path a directory? False: errno says why; one above it may be closed to us. */
bool directory_there(const char *path);
/* Is it a directory that can be listed? False: errno says why. */
bool directory_readable(const char *path);
/* Is there nothing in the directory but what a new file system has in its root, or no directory at
 * all? */
bool directory_empty(const char *path);
/* Makes the directory, durably, if it does not exist; not those above it. False: errno says why. */
bool directory_make(const char *path);
/* Is there a manifest or a segment? Also true if it cannot be listed: opening it will say why. */
bool directory_has_store(const char *path);
/* Is there a file of a store that we may not read? Then out_path is its path, with a NUL. */
bool directory_closed_file(const char *path, struct buf *out_path);
/* Is the path, or what exists of it, the directory or below it? */
bool directory_within(const char *path, const char *directory);

#endif
