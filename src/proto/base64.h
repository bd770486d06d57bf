/*
 * Base64 (RFC 4648): base64_… with the standard alphabet and padding (section 4), base64url_… for
 * URLs, with - and _ and without padding (section 5). Anything else is refused. Pure.
 */
#ifndef LATERD_PROTO_BASE64_H
#define LATERD_PROTO_BASE64_H

#include "base/arena.h"

/* *out_data lies in the arena. False: not base64, or bits left over that are not zero.
   O(length). */
bool base64_read(struct bytes text, struct arena *arena, struct bytes *out_data);
void base64_write(struct buf *out, struct bytes data);

/* As the two above. */
bool base64url_read(struct bytes text, struct arena *arena, struct bytes *out_data);
void base64url_write(struct buf *out, struct bytes data);

#endif
