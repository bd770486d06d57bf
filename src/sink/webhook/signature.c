#include "sink/webhook/signature.h"

#ifndef LATERD_NO_TLS
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#endif

#include "base/ascii.h"
#include "proto/base64.h"

void signing_key_forget(struct signing_key *key)
{
    explicit_bzero(key, sizeof(*key));
}

#ifdef LATERD_NO_TLS

enum err signing_key_read(struct bytes text, struct signing_key *out_key, const char **out_problem)
{
    (void)text;
    (void)out_key;
    *out_problem = "cannot be used: this laterd was built without OpenSSL";
    return ERR_UNSUPPORTED;
}

enum err signature_add(struct buf *out, const struct signing_key *key,
                       const struct signed_message *message)
{
    (void)out;
    (void)key;
    (void)message;
    return ERR_IO;
}

#else

enum err signing_key_read(struct bytes text, struct signing_key *out_key, const char **out_problem)
{
    static const struct bytes prefix = {.at = "whsec_", .len = 6};
    enum { TEXT_MAX = 4 * ((SIGNING_KEY_MAX + 2) / 3) };
    uint8_t room[TEXT_MAX];
    text = ascii_trim(text);
    if (bytes_starts(text, prefix))
        text = bytes_of(text.at + prefix.len, text.len - prefix.len);
    if (text.len == 0) {
        *out_problem = "is empty: it must be whsec_ and 24 to 64 bytes as base64";
        return ERR_INVALID;
    }
    size_t digits = text.len; /* without the padding */
    while (digits && text.at[digits - 1] == '=')
        digits--;
    int len = -1;
    if (!memchr(text.at, '=', digits) && text.len <= TEXT_MAX && text.len % 4 == 0 &&
        text.len - digits <= 2)
        len = EVP_DecodeBlock(room, (const uint8_t *)text.at, (int)text.len);
    len -= (int)(text.len - digits); /* EVP counts padding as zero bytes */
    bool good = len >= SIGNING_KEY_MIN && len <= SIGNING_KEY_MAX;
    if (good) {
        memcpy(out_key->at, room, (size_t)len);
        out_key->len = (uint8_t)len;
    } else {
        *out_problem = "is malformed: it must be whsec_ and 24 to 64 bytes as base64";
    }
    explicit_bzero(room, sizeof(room));
    return good ? OK : ERR_INVALID;
}

static bool authenticate(EVP_MAC_CTX *mac, const struct signing_key *key,
                         const struct signed_message *message, uint8_t out_sum[32])
{
    char digest[] = "SHA256", time[32];
    size_t len = 0;
    OSSL_PARAM options[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                            OSSL_PARAM_construct_end()};
    int time_len = snprintf(time, sizeof(time), ".%lld.", (long long)message->time_s);
    return mac && EVP_MAC_init(mac, key->at, key->len, options) &&
           EVP_MAC_update(mac, (const uint8_t *)message->id.at, message->id.len) &&
           EVP_MAC_update(mac, (const uint8_t *)time, (size_t)time_len) &&
           EVP_MAC_update(mac, (const uint8_t *)message->body.at, message->body.len) &&
           EVP_MAC_final(mac, out_sum, &len, 32) && len == 32;
}

enum err signature_add(struct buf *out, const struct signing_key *key,
                       const struct signed_message *message)
{
    uint8_t sum[32];
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL); /* from OpenSSL's cache */
    EVP_MAC_CTX *mac = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    bool good = authenticate(mac, key, message, sum);
    EVP_MAC_CTX_free(mac);
    EVP_MAC_free(hmac);
    if (!good)
        return ERR_IO;
    buf_add_str(out, "v1,");
    base64_write(out, bytes_of(sum, sizeof(sum)));
    return OK;
}

#endif
