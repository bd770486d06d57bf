/*
 * Decodes requests on the worker's thread if that could take too long for a turn:
 * - requests with a large body: a megabyte of JSON with escapes takes milliseconds;
 * - requests with settings of topics: the files that these refer to are looked at
 *   (settings_probe.h), which may wait for a disk.
 * Meanwhile the request is pending in its session, and nothing behind it is read.
 */
#ifndef LATERD_SERVER_HTTP_DECODE_H
#define LATERD_SERVER_HTTP_DECODE_H

#include "server/http/request.h"

struct decoding;

/* True: the session's complete request must be decoded by the worker. */
bool decode_is_long(const struct http_session *http);

/* Takes the request out of the session's parser; http_session_decoded() is called in a later
   turn. */
void decode_begin(struct request *request, const struct api_site *site);

/* An item of a batch that is so long that the worker has decoded it. */
struct decoded_item {
    struct decoded_item *next;
    struct api_batch after; /* the batch behind it */
    struct cmd cmd;
    struct problem problem; /* status 0: none */
    struct buf body;        /* of a large job, for the engine to take over */
};
/* The next item of a batch, if the worker has decoded it, and moves *batch behind it; else NULL.
   The decoding may be NULL. */
const struct decoded_item *decode_next_item(struct decoding *decoding, struct api_batch *batch);
/* The time from which delays count in all items of a batch, so that jobs keep their order whoever
   decodes them: when the request was whole. Without a decoding: now. */
int64_t decode_time_us(const struct decoding *decoding, const struct server *server);

/* Called when the request is answered or abandoned. NULL does nothing. */
void decode_free(struct decoding *decoding);

#endif
