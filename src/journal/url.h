/*
 * The URL of the journal's database, with the user and password to log in:
 *
 *     mysql://user[:password]@host[:port]/database[?tls=off|on|verify][&socket=/path]
 *
 * User, password and database are percent-encoded. Pure.
 */
#ifndef LATERD_JOURNAL_URL_H
#define LATERD_JOURNAL_URL_H

#include "base/bytes.h"
#include "base/err.h"

enum { JOURNAL_WORD_MAX = 256, JOURNAL_PORT = 3306 };

enum journal_tls { JOURNAL_TLS_OFF, JOURNAL_TLS_ON, JOURNAL_TLS_VERIFY };

struct journal_url {
    char user[JOURNAL_WORD_MAX], password[JOURNAL_WORD_MAX];
    char host[JOURNAL_WORD_MAX]; /* without the brackets of an IPv6 address; empty: the socket's */
    char database[JOURNAL_WORD_MAX];
    char socket[JOURNAL_WORD_MAX]; /* a path; or empty */
    uint16_t port;
    enum journal_tls tls;
};

/* Reads a URL. ERR_INVALID: out_why is a clause that contains no part of the URL. */
enum err journal_url_read(struct bytes text, struct journal_url *out_url,
                          const char **out_why) MUST_USE;

#endif
