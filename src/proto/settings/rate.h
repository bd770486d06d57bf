/* Rates of deliveries: "100/s", "5/m", "1/10s", in settings and in [push]. Pure. */
#ifndef LATERD_PROTO_SETTINGS_RATE_H
#define LATERD_PROTO_SETTINGS_RATE_H

#include "base/bytes.h"

enum { RATE_MAX = 1000000000 };

/* Reads a rate. The time is 1ms … 1d; "s" means "1s". False: not a rate; nothing is written. */
bool rate_read(struct bytes text, uint32_t *out_count, int64_t *out_us);

#endif
