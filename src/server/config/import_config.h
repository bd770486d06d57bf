/*
 * laterd --import-config: reads the configuration of the Go server whose dialect is delay-queue, an
 * INI file without sections, and writes the equivalent configuration of laterd.
 */
#ifndef LATERD_SERVER_CONFIG_IMPORT_CONFIG_H
#define LATERD_SERVER_CONFIG_IMPORT_CONFIG_H

#include "server/config/config.h"

/*
 * `text` is the whole file. Missing keys have the Go server's defaults. ERR_INVALID: out_error says
 * why, and `out` may have part of a result. The password is not written anywhere.
 */
enum err import_config_convert(struct bytes text, struct buf *out,
                               struct config_error *out_error) MUST_USE;

/* The same of a file of up to 1 MiB. ERR_IO, too. Waits for the disk. */
enum err import_config_file(const char *path, struct buf *out,
                            struct config_error *out_error) MUST_USE;

#endif
