/*
 * Text that a configuration does not hold itself but points at: $NAME is a variable of the
 * environment, file:PATH the first line of a file (up to 4,095 bytes), everything else stands for
 * itself. Read each time it is needed, so that what is in a file can be changed while laterd runs.
 */
#ifndef LATERD_SINK_REFERENCE_H
#define LATERD_SINK_REFERENCE_H

#include "base/bytes.h"
#include "base/err.h"

/*
 * Appends what the text stands for, and a NUL behind it. ERR_NOT_FOUND, with a clause in `why` that
 * names the variable or the file: it is not there, cannot be read or is empty. ERR_INVALID,
 * likewise: the line is longer than that. May read a disk: not for the loop's thread once turns
 * run. Any thread, as long as none calls setenv().
 */
enum err reference_read(const char *text, struct buf *out, char *why, size_t why_bytes) MUST_USE;

#endif
