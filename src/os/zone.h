/*
 * The time zone of dates that name none. The C library has one for the whole process: set it once,
 * before there are threads.
 */
#ifndef LATERD_OS_ZONE_H
#define LATERD_OS_ZONE_H

#include <stdint.h>

#include "base/err.h"

/*
 * Sets the zone by its name in the machine's time zone data ("Europe/Berlin", "UTC"); an empty name
 * is the machine's own zone (TZ in the environment, else /etc/localtime). ERR_NOT_FOUND: there is
 * no such zone; then nothing is changed.
 */
enum err zone_set(const char *name) MUST_USE;

/* ERR_NOT_FOUND: zone_set() would not find it. Changes nothing. */
enum err zone_check(const char *name) MUST_USE;

/* The zone's offset from UTC at this time, in microseconds, positive to the east. Any thread. */
int64_t zone_east_us(int64_t at_us);

#endif
