/* Where plugins are looked for: the folder of laterd's own file, then the one given at build. */
#ifndef LATERD_LATERD_PLUGIN_FILE_H
#define LATERD_LATERD_PLUGIN_FILE_H

enum { PLUGIN_PATH_BYTES = 544 };

/* Loads laterd-NAME.so. NULL: out_path is the last one tried; dlerror() says more if it is there.
 */
void *plugin_file_open(const char *name, char out_path[PLUGIN_PATH_BYTES]);

#endif
