/*
 * References in a configuration: $NAME is the value of an environment variable, file:PATH the first
 * line of a file (up to 4,095 bytes); any other text stands for itself. Read each time it is
 * needed, so that the file can be changed while laterd runs.
 */
#ifndef LATERD_SINK_REFERENCE_H
#define LATERD_SINK_REFERENCE_H

#include "base/bytes.h"
#include "base/err.h"

/* True: the text is $NAME or file:…, and does not stand for itself. */
bool reference_is(const char *text);

/*
 * Appends what the text stands for, and a NUL. ERR_NOT_FOUND: the variable or file is missing,
 * unreadable or empty. ERR_INVALID: the line is too long. In both cases `why` is a clause that
 * names the variable or the file. Any thread, while no thread calls setenv(). May read a disk, so
 * not on the loop's thread once turns run.
 */
enum err reference_read(const char *text, struct buf *out, char *why, size_t why_bytes) MUST_USE;

#endif
