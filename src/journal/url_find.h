/*
 * The URL of the journal's database as the configuration has it: it and the password may be
 * references to a variable or a file (sink/reference.h).
 */
#ifndef LATERD_JOURNAL_URL_FIND_H
#define LATERD_JOURNAL_URL_FIND_H

#include "journal/url.h"

enum { JOURNAL_FIND_WHY_MAX = 200 };

/*
 * Reads both; `password` counts before the URL's, unless it is empty. ERR_INVALID, or
 * ERR_NOT_FOUND: a variable or a file cannot be read now; out_why is a clause without passwords.
 * May read a disk, so not on the loop's thread once turns run.
 */
enum err journal_url_find(const char *url, const char *password, struct journal_url *out_url,
                          char out_why[static JOURNAL_FIND_WHY_MAX]) MUST_USE;

/*
 * The user and password of `at_start` as they are now: files may have been replaced since. All else
 * is left as it was at the start, because the journal's cursor is in that database.
 */
enum err journal_url_find_user(const char *url, const char *password,
                               const struct journal_url *at_start, struct journal_url *out_url,
                               char out_why[static JOURNAL_FIND_WHY_MAX]) MUST_USE;

#endif
