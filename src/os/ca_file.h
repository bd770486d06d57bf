/*
 * The file of certificate authorities for client libraries that have to be given one: libmariadb
 * and librabbitmq know no file of the system's. What uses OpenSSL itself (os/tls.c) does not need
 * it.
 *
 * Any thread.
 */
#ifndef LATERD_OS_CA_FILE_H
#define LATERD_OS_CA_FILE_H

#include <stddef.h>

#include "base/err.h"

enum { CA_FILE_WHY_MAX = 160 };

/*
 * Sets *out_path to `ca`, the file of the configuration; if it is empty, to that of the system: the
 * one that the environment's SSL_CERT_FILE names, as OpenSSL has it, else the first that can be
 * read of those where distributions have it. It lives as long as `ca`, or without a limit. A path
 * that is set can be read now, which each call looks for: up to six calls of access().
 *
 * ERR_NOT_FOUND: the file cannot be read, or the system has none that is known here; out_why, of
 * CA_FILE_WHY_MAX bytes, is then a clause without the key of the configuration.
 */
enum err ca_file_find(const char *ca, const char **out_path, char *out_why) MUST_USE;

#endif
