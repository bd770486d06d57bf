/*
 * A request with a large body is decoded by the worker: a megabyte of JSON with escapes takes
 * milliseconds; and so are settings of topics, for what they refer to is tried
 * (settings_probe.h), which may wait for a disk. Meanwhile it stands in its session's list,
 * unanswered, and nothing behind it is read.
 */
#ifndef LATERD_SERVER_DECODE_H
#define LATERD_SERVER_DECODE_H

#include "server/http/request.h"

struct decoding;

/* Is the session's request, which is whole, to be decoded by the worker? */
bool decode_is_long(const struct http_session *http);

/* Takes the request out of the session's parser; http_session_decoded() follows in a later turn. */
void decode_begin(struct request *request, const struct api_site *site);

/* The request is answered, or nobody waits for it any more. NULL does nothing. */
void decode_free(struct decoding *decoding);

#endif
