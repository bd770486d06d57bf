/*
 * The keys that references to secrets stand for: "$NAME" of the environment, "file:/PATH". A file
 * is checked by stat() each time and read again when it has changed, so that a secret can be
 * replaced without a restart. Only references are ever logged or returned in errors, never secrets.
 *
 * Sink's thread only, which may wait for a disk; secrets_probe() may be called on any thread.
 */
#ifndef LATERD_SINK_WEBHOOK_SECRETS_H
#define LATERD_SINK_WEBHOOK_SECRETS_H

#include <time.h>

#include "core/target.h"
#include "port/reference_probe.h"
#include "sink/webhook/signature.h"

enum { SECRETS_KEPT = 64 };

struct secret {
    char reference[TARGET_PATH_MAX + 1]; /* empty: this entry is free */
    struct timespec changed;             /* of a file: its mtime, */
    uint64_t inode, size;                /* and these */
    struct signing_key key;
};

struct secrets {
    struct secret kept[SECRETS_KEPT];
    unsigned next; /* the entry to replace next */
};

struct secret_problem {
    char text[200]; /* a clause that names the reference */
};

/* *out_key is valid until the next call. ERR_INVALID: out_problem. O(SECRETS_KEPT), a stat(), and a
   read if the file has changed. */
enum err secrets_find(struct secrets *secrets, struct bytes reference,
                      const struct signing_key **out_key,
                      struct secret_problem *out_problem) MUST_USE;
void secrets_forget(struct secrets *secrets); /* overwrites all keys */

/* A reference_probe for HTTP targets: secrets as in secrets_find(), and regular files that libcurl
   will open. Caches nothing. */
enum err secrets_probe(enum reference_kind kind, struct bytes reference, char *why,
                       size_t why_bytes) MUST_USE;

#endif
