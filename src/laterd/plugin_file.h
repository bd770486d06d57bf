/*
 * Loads plugins from the folder of laterd's own executable; if that is a `bin`, from lib/laterd
 * beside it, which is where `make install` puts them whatever its PREFIX is; or from LATERD_LIBDIR,
 * which was given at build time.
 */
#ifndef LATERD_LATERD_PLUGIN_FILE_H
#define LATERD_LATERD_PLUGIN_FILE_H

enum { PLUGIN_PATH_BYTES = 544 };

/* Loads laterd-NAME.so, and returns its handle. NULL: it failed; out_path is the last path tried,
   and dlerror() says why if that file exists. */
void *plugin_file_open(const char *name, char out_path[PLUGIN_PATH_BYTES]);

#endif
