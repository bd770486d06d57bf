/* The headers of a target or a job, as a JSON object of strings. Pure. */
#ifndef LATERD_PROTO_SETTINGS_HEADER_CODEC_H
#define LATERD_PROTO_SETTINGS_HEADER_CODEC_H

#include "core/target.h"
#include "proto/settings/settings_reader.h"

enum { HEADER_NAME_MAX = 128, HEADER_VALUE_MAX = 2048 }; /* bytes */

/*
 * Reads the reader's present value, and appends its headers: `headers` has room for
 * TARGET_HEADERS_MAX, of which *header_count are set. Refused: an invalid name, one that laterd or
 * HTTP sets itself, or a duplicate; control characters; too many. Names and values are borrowed
 * from the text or the reader's scratch. O(headers²).
 */
bool headers_read(struct settings_reader *reader, struct target_header *headers,
                  uint8_t *header_count);

/* Appends them as an object, in their order. */
void headers_write(const struct target_header *headers, uint8_t header_count, struct buf *out);

#endif
