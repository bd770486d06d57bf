/*
 * Has the worker write replies with large bodies as HTTP and JSON (a megabyte with escapes takes
 * milliseconds). Meanwhile the request stays pending in its session.
 */
#ifndef LATERD_SERVER_ENCODE_H
#define LATERD_SERVER_ENCODE_H

#include "server/http/request.h"

/* Must the reply be written by the worker? */
bool encode_is_long(const struct server *server, const struct reply *reply);

/* Keeps the reply, or a copy of it; request_encoded() is called in a later turn. */
void encode_begin(struct request *request, const struct reply *reply);

/* An answer that is no engine's reply. */
struct encode_source {
    /* On the worker's thread, once: writes it from `from`, which is the arena's, and touches
       nothing else. */
    void (*write)(const void *from, const struct response_format *format, struct bytes date,
                  struct buf *out);
    const void *from;
    size_t bytes; /* of the answer, about */
};

/* The same of it; takes `arena` over, which is empty then. Only if the server has a worker. */
void encode_begin_source(struct request *request, const struct encode_source *source,
                         struct arena *arena);

/* Called when the request is answered or abandoned. NULL does nothing. */
void encode_free(struct encoding *encoding);

/* About how many bytes of memory it holds. */
size_t encode_bytes(const struct encoding *encoding);

#endif
