/*
 * Signatures of webhooks by Standard Webhooks (github.com/standard-webhooks): "v1," and the base64
 * of HMAC-SHA256 over the message's id, a '.', the time of the attempt in seconds, a '.', and the
 * body. One signature for each secret, separated by blanks, newest first: a receiver accepts a
 * request if any of them is made with a secret that it knows, so that secrets can be replaced
 * without an interruption.
 *
 * HMAC is OpenSSL's; built with TLS=0 signing_key_read() returns ERR_UNSUPPORTED. Any thread.
 */
#ifndef LATERD_SINK_WEBHOOK_SIGNATURE_H
#define LATERD_SINK_WEBHOOK_SIGNATURE_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum { SIGNING_KEY_MIN = 24, SIGNING_KEY_MAX = 64, SIGNATURE_TEXT_BYTES = 3 + 44 };

struct signing_key {
    uint8_t at[SIGNING_KEY_MAX];
    uint8_t len;
};

struct signed_message {
    struct bytes id; /* without a full stop */
    int64_t time_s;  /* seconds since 1970 */
    struct bytes body;
};

/*
 * Reads a secret: "whsec_" and 24 to 64 bytes as base64; blanks and line ends around it are
 * ignored. A secret without whsec_ is accepted, too, as in the verifiers of Standard Webhooks.
 * ERR_INVALID, ERR_UNSUPPORTED: *out_problem is a clause that says why, valid forever, without
 * parts of the secret.
 */
enum err signing_key_read(struct bytes text, struct signing_key *out_key,
                          const char **out_problem) MUST_USE;
void signing_key_forget(struct signing_key *key); /* overwrites it */

/* Appends SIGNATURE_TEXT_BYTES bytes. ERR_IO: OpenSSL failed; nothing was appended. */
enum err signature_add(struct buf *out, const struct signing_key *key,
                       const struct signed_message *message) MUST_USE;

#endif
