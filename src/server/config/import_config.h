/*
 * laterd --import-config: reads the configuration of the Go server whose dialect is delay-queue, an
 * INI file without sections, and writes the one of laterd's that does the same.
 */
#ifndef LATERD_SERVER_CONFIG_IMPORT_CONFIG_H
#define LATERD_SERVER_CONFIG_IMPORT_CONFIG_H

#include "server/config/config.h"

/*
 * `text` is all of the file. What it does not say has the Go server's own default. ERR_INVALID:
 * out_error says why, and `out` may have part of an answer. The password is not written anywhere.
 */
enum err import_config_convert(struct bytes text, struct buf *out,
                               struct config_error *out_error) MUST_USE;

/* The same of a file of up to 1 MiB. ERR_IO, too. Waits for the disk. */
enum err import_config_file(const char *path, struct buf *out,
                            struct config_error *out_error) MUST_USE;

#endif
