/*
 * A reply with large bodies is written as HTTP and JSON by the worker: a megabyte with escapes
 * takes milliseconds. Meanwhile its request stands unanswered in its session's list.
 */
#ifndef LATERD_SERVER_ENCODE_H
#define LATERD_SERVER_ENCODE_H

#include "server/http/request.h"

/* Is the reply to be written by the worker? */
bool encode_is_long(const struct server *server, const struct reply *reply);

/* Keeps the reply, or a copy of it; request_encoded() follows in a later turn. */
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

/* Its request is answered, or nobody waits for it any more. NULL does nothing. */
void encode_free(struct encoding *encoding);

/* So many bytes are held by it, about. */
size_t encode_bytes(const struct encoding *encoding);

#endif
