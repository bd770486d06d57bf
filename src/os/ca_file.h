/*
 * Finds the file of certificate authorities, for client libraries that need its path: libmariadb
 * and librabbitmq have no default. OpenSSL (os/tls.c) has one.
 *
 * Any thread.
 */
#ifndef LATERD_OS_CA_FILE_H
#define LATERD_OS_CA_FILE_H

#include "base/err.h"

enum { CA_FILE_WHY_MAX = 160 };

/*
 * Sets *out_path to `ca`, the file of the configuration. If that is empty: to the file that the
 * environment variable SSL_CERT_FILE names, as in OpenSSL, else to the first readable one of the
 * usual places of Linux distributions. The path lives as long as `ca`, or forever. The file was
 * readable during this call: up to six calls of access().
 *
 * ERR_NOT_FOUND: the file cannot be read, or none was found; out_why, of CA_FILE_WHY_MAX bytes, is
 * then a clause that says so, without the name of the configuration key.
 */
enum err ca_file_find(const char *ca, const char **out_path, char *out_why) MUST_USE;

#endif
