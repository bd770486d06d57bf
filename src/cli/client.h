/*
 * HTTP to one server, by libcurl: one kept connection, one request at a time, blocking with a time
 * limit. Speaks http and https, through a proxy, below a prefix of the URL, or over a unix socket.
 *
 * No request is sent twice, unless its caller does it. libcurl would send a request again on a new
 * connection if a kept one breaks before the answer; but a push whose answer was lost may have been
 * done.
 *
 * For one thread. The answer's bytes belong to the client and are good until the next call.
 */
#ifndef LATERD_CLI_CLIENT_H
#define LATERD_CLI_CLIENT_H

#include "base/bytes.h"
#include "base/err.h"

enum {
    CLIENT_ANSWER_MAX = 256 << 20, /* bytes of a body */
    CLIENT_ERROR_ROOM = 640,
    CLIENT_PORT = 9277, /* of http:// without a port; https:// has 443 */
};

/* Borrowed until client_fini(), except `url`. NULL: not given. */
struct client_options {
    const char
        *url; /* "http[s]://[USER:PASSWORD@]HOST[:PORT][/PREFIX]", "HOST[:PORT]", "unix:PATH" */
    const char *user;   /* "NAME:PASSWORD" for basic authentication; before one in the URL */
    const char *token;  /* bearer token; before any user */
    const char *cacert; /* PEM files: the authorities to trust instead of the system's, */
    const char *cert;   /* the client's own certificate, */
    const char *key;    /* and its key, if it is not in the same file */
    bool insecure;      /* the server's certificate is not checked */
};

struct client {
    void *easy, *multi; /* libcurl's handles of the request and of the connection */
    struct buf base;    /* URL without user and without a slash at the end, NUL-terminated */
    struct buf url;     /* of the call under way, NUL-terminated */
    struct buf body;
    struct buf name;      /* the server in messages: its URL without user, NUL-terminated */
    bool has_credentials; /* a user or a token goes with each request */
    unsigned sent;        /* how often the request under way was about to be sent */
    char reason[256];     /* libcurl's words on the last failure; it wants CURL_ERROR_SIZE */
    char error[CLIENT_ERROR_ROOM]; /* after an error: what went wrong, for people */
    /* While a call waits and `watch_fd` can be read, `watch` is asked whether to give the call up:
     * it ends with ERR_IO then, and `interrupted` is set. NULL: nothing is watched. */
    bool (*watch)(void);
    int watch_fd;
    bool interrupted;
    bool lost; /* the last call: its connection was closed before the answer */
};

struct client_request {
    const char *method;
    struct bytes target;      /* "/v1/…", sent as it is behind the URL's prefix */
    const char *content_type; /* NULL: no body */
    struct bytes body;
    const char *header; /* one more, a whole line such as "If-Match: \"17\""; NULL: none */
    /* From 0; up to 24 days count, which is as long as libcurl waits. */
    int64_t connect_us; /* to connect, TLS included */
    int64_t timeout_us; /* for the whole call, connecting included */
};

struct client_answer {
    int status;
    struct bytes content_type; /* empty: none was given */
    struct bytes location;     /* where a redirection points to; it is not followed */
    struct bytes body;
};

/* ERR_INVALID: `options` are invalid; client->error says why. Connects to nothing yet. */
enum err client_init(struct client *client, const struct client_options *options) MUST_USE;
void client_fini(struct client *client);

/*
 * ERR_IO: could not connect, the connection broke, no complete answer came within the time, or it
 * was not HTTP; client->error says which, and what to do. Any status is OK.
 */
enum err client_call(struct client *client, const struct client_request *request,
                     struct client_answer *out_answer) MUST_USE;

#endif
