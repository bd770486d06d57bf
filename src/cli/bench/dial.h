/*
 * The connections of the load generator: plain TCP to one server, without TLS, proxy or
 * credentials, so that nothing but the server is measured. Blocking, for one thread.
 */
#ifndef LATERD_CLI_BENCH_DIAL_H
#define LATERD_CLI_BENCH_DIAL_H

#include "base/bytes.h"
#include "base/err.h"

enum { DIAL_HOST_ROOM = 256 };

/* Where to connect to. Owns nothing that has to be freed. */
struct dial {
    char host[DIAL_HOST_ROOM]; /* without brackets */
    char port[6];
    char authority[DIAL_HOST_ROOM + 8]; /* "host:port", for the Host header */
    char error[320];                    /* after an error: what went wrong, for people */
};

/*
 * `url`: "http://host:port", "host:port" or "host"; port 9277 if none is given. ERR_INVALID: it is
 * none of these; dial->error says so.
 */
enum err dial_init(struct dial *dial, const char *url) MUST_USE;

/*
 * A new connected non-blocking socket without Nagle's delay, for the caller to close. Looks the
 * name up each time. ERR_IO: the name is unknown, or no address accepted within the time;
 * dial->error.
 */
enum err dial_connect(struct dial *dial, int64_t timeout_us, int *out_fd) MUST_USE;

#endif
