/*
 * Writes long replies as HTTP and JSON on the worker's thread (a megabyte with escapes takes
 * milliseconds). Meanwhile the request stays pending in its session.
 */
#ifndef LATERD_SERVER_HTTP_ENCODE_H
#define LATERD_SERVER_HTTP_ENCODE_H

#include "server/http/request.h"

/* True: the reply must be written by the worker. */
bool encode_is_long(const struct server *server, const struct reply *reply);

/* Keeps the reply, or a copy of it; request_encoded() is called in a later turn. */
void encode_begin(struct request *request, const struct reply *reply);

/* An answer that is not made from a reply of the engine. */
struct encode_source {
    /* Called once, perhaps on the worker's thread: writes the answer. Uses only `from` and what
       that points to. */
    void (*write)(const void *from, const struct response_format *format, struct bytes date,
                  struct buf *out);
    const void *from;  /* borrowed, and copied for the worker; what it points to is in the arena */
    size_t from_bytes; /* its size */
    size_t bytes;      /* of the answer, about */
};

/* The same for such an answer; takes over `arena`, which is empty then. The server must have a
   worker. */
void encode_begin_source(struct request *request, const struct encode_source *source,
                         struct arena *arena);

/* Called when the request is answered or abandoned. NULL does nothing. */
void encode_free(struct encoding *encoding);

/* About how many bytes of memory it holds. */
size_t encode_bytes(const struct encoding *encoding);

#endif
