/* The headers that a target or a job brings, as an object of strings. Pure. */
#ifndef LATERD_PROTO_SETTINGS_HEADER_CODEC_H
#define LATERD_PROTO_SETTINGS_HEADER_CODEC_H

#include "core/target.h"
#include "proto/settings/settings_reader.h"

enum { HEADER_NAME_MAX = 128, HEADER_VALUE_MAX = 2048 }; /* bytes */

/*
 * Reads the headers that are being read behind those that are there: `headers` has room for
 * TARGET_HEADERS_MAX, *header_count of them are set. Refused: a name that is none, that laterd or
 * HTTP sets itself, or that was given twice; control characters; too many. Names and values are
 * borrowed from the text or the reader's scratch. O(headers²).
 */
bool headers_read(struct settings_reader *reader, struct target_header *headers,
                  uint8_t *header_count);

/* Appends them as an object, in their order. */
void headers_write(const struct target_header *headers, uint8_t header_count, struct buf *out);

#endif
