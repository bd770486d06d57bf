/*
 * The keys that secrets' references stand for: "$NAME" of the environment, "file:/PATH". A file is
 * looked at (stat) each time and read again when it has changed, so that a secret can be replaced
 * without a restart. Nothing here is ever logged or told, but the reference.
 *
 * One thread, which may wait for a disk: the sink's. secrets_probe() is for any other.
 */
#ifndef LATERD_SINK_WEBHOOK_SECRETS_H
#define LATERD_SINK_WEBHOOK_SECRETS_H

#include <time.h>

#include "port/reference_probe.h"
#include "sink/webhook/signature.h"

enum { SECRETS_KEPT = 64, SECRET_REFERENCE_MAX = 512 };

struct secret {
    char reference[SECRET_REFERENCE_MAX]; /* empty: none is kept here */
    struct timespec changed;              /* of a file: its mtime, */
    uint64_t inode, size;                 /* and these */
    struct signing_key key;
};

struct secrets {
    struct secret kept[SECRETS_KEPT];
    unsigned next; /* to make room for another */
};

struct secret_problem {
    char text[200]; /* a clause that names the reference */
};

/* *out_key is good until the next call. ERR_INVALID. O(SECRETS_KEPT), a stat(), at times a read. */
enum err secrets_find(struct secrets *secrets, struct bytes reference,
                      const struct signing_key **out_key,
                      struct secret_problem *out_problem) MUST_USE;
void secrets_forget(struct secrets *secrets); /* overwrites all keys */

/* A reference_probe of what a target of HTTP refers to: secrets as secrets_find() reads them, and
   files that libcurl will open (not a directory). Keeps nothing. */
enum err secrets_probe(enum reference_kind kind, struct bytes reference, char *why,
                       size_t why_bytes) MUST_USE;

#endif
