/*
 * Secrets on the command line. Everybody on the machine may read it while the program runs (ps(1),
 * /proc/PID/cmdline), so a secret is copied and then covered where it stood, as curl and mysql do.
 * Until then it could be seen for an instant: files and the environment are better.
 */
#ifndef LATERD_CLI_ARGV_SECRET_H
#define LATERD_CLI_ARGV_SECRET_H

#include "base/bytes.h"

/*
 * Copies a URL, with a NUL, in place of what `copy` holds. In `url` itself "*" stands in place of
 * the password then: "redis://user:*@host/1".
 */
void argv_take_url(char *url, struct buf *copy);

/* A header whose value was copied is "Name: *" then: it may be a token. */
void argv_cover_header(char *header);

#endif
