/* How many deliveries in a time: "100/s", "5/m", "1/10s", as settings and [push] have it. Pure. */
#ifndef LATERD_PROTO_SETTINGS_RATE_H
#define LATERD_PROTO_SETTINGS_RATE_H

#include "base/bytes.h"

enum { RATE_MAX = 1000000000 };

/* The time is 1ms … 1d; "s" is "1s". False: the text is no rate, and nothing is written. */
bool rate_read(struct bytes text, uint32_t *out_count, int64_t *out_us);

#endif
