/*
 * Checks the Host of a request. A web page can make its own name resolve to any address (DNS
 * rebinding); then the browser treats laterd as the page's own origin, and only the name in Host
 * distinguishes its requests from those of laterd's users. An IP address, or "localhost", cannot be
 * redirected like that.
 */
#ifndef LATERD_PROTO_HTTP_HOST_H
#define LATERD_PROTO_HTTP_HOST_H

#include "base/bytes.h"

/*
 * True: a request with this Host (with or without a port) may be served. `names` are the server's
 * own, without ports, separated by spaces or commas; "*" admits any. Case is ignored, and so is a
 * dot at the end. True for an empty Host, because browsers always send one.
 */
bool host_is_known(struct bytes host, struct bytes names);

/* The next name of such a list; false: none is left. */
bool host_next_name(struct bytes *names, struct bytes *out_name);

/* True: a valid host name (letters, digits, '-', '_' and dots, up to 253 bytes), or "*". */
bool host_is_name(struct bytes name);

/* "name:80" → "name", "[::1]:80" → "[::1]". */
struct bytes host_without_port(struct bytes host);

#endif
