/*
 * The host that a request names. A page in a browser can have its own
 * name point to any address (DNS rebinding); for the browser they then have one origin, and only
 * the name in Host distinguishes them from requests of the server's own users. An IP address, or
 * "localhost", cannot be made to point elsewhere.
 */
#ifndef LATERD_PROTO_HTTP_HOST_H
#define LATERD_PROTO_HTTP_HOST_H

#include "base/bytes.h"

/*
 * May a request with this Host (with a port or without) be served? `names` are the server's own,
 * without ports, between spaces or commas; "*" admits any. Letters match in either case, and a dot
 * at the end means nothing. True for an empty one: a browser always names a host.
 */
bool host_is_known(struct bytes host, struct bytes names);

/* The next name of such a list; false: none is left. */
bool host_next_name(struct bytes *names, struct bytes *out_name);

/* Can it be a host's name (letters, digits, '-', '_' and dots, up to 253 bytes), or is it "*"? */
bool host_is_name(struct bytes name);

/* "name:80" → "name", "[::1]:80" → "[::1]". */
struct bytes host_without_port(struct bytes host);

#endif
