/* Base64 (RFC 4648, section 4): the standard alphabet, with padding, nothing else. */
#ifndef LATERD_PROTO_BASE64_H
#define LATERD_PROTO_BASE64_H

#include "base/arena.h"

/* False: not base64, or bits left over that are not zero. */
bool base64_read(struct bytes text, struct arena *arena, struct bytes *out_data);
void base64_write(struct buf *out, struct bytes data);

#endif
