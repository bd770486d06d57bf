/*
 * Times and durations as text, by calendar arithmetic of our own: no locale, no time zone data,
 * no clock. Times are microseconds since the Unix epoch, in UTC, without leap seconds. Pure; any
 * thread; O(bytes).
 */
#ifndef LATERD_BASE_RFC3339_H
#define LATERD_BASE_RFC3339_H

#include <stdint.h>

#include "base/bytes.h"

/* 9999-12-31T23:59:59.999999Z, the last time RFC 3339 can name. */
#define RFC3339_MAX_US INT64_C(253402300799999999)

/*
 * Reads RFC 3339: "2026-11-21T05:00:00.123+08:00" (T, t or a space; Z, z or an offset; up to nine
 * digits of a second, of which those past six are dropped). A time before 1970 is read as 0:
 * callers need only know that it is past. False: the text is no such time, or is past the year 9999
 * in UTC.
 */
bool rfc3339_read(struct bytes text, int64_t *out_us);

/*
 * Reads "yyyy-MM-dd HH:mm:ss", which names no zone. `east_us` returns the zone's offset from UTC at
 * a time, in microseconds, positive to the east; NULL: the zone is UTC. A local time that occurs
 * twice (clocks were set back) is the earlier one; one that does not occur (clocks were set ahead)
 * is moved later by the length of the gap. Both as in Java. The rest as rfc3339_read().
 */
bool rfc3339_read_local(struct bytes text, int64_t (*east_us)(int64_t at_us), int64_t *out_us);

enum { RFC3339_ROOM = 40 };

/* Writes "2026-11-21T05:00:00.123Z", with six digits when there are microseconds, and returns its
   length; no zero follows. Allocates nothing and takes no lock: a signal handler may call it. */
size_t rfc3339_print(int64_t us, char room[static RFC3339_ROOM]);
/* Appends the same to the buffer. */
void rfc3339_add(struct buf *out, int64_t us);

/* Writes "Sun, 06 Nov 1994 08:49:37 GMT", the format of HTTP (RFC 9110, 5.6.7), into room[30], and
   returns its 29 bytes, borrowed; a NUL follows. */
struct bytes http_date(int64_t unix_seconds, char *room);

enum { DURATION_ROOM = 32 };

/* Writes it in the format of the configuration, "250ms", "600s", "365d", and returns `room`. */
const char *duration_print(int64_t us, char room[static DURATION_ROOM]);

/* Reads "250ms" "1h30m" "2d": whole numbers, each with its unit (us ms s m h d w). False: not a
   duration, or longer than 64 bits of microseconds. */
bool duration_read(struct bytes text, int64_t *out_us);

#endif
