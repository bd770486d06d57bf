/*
 * Loads plugins. They are in the folder of laterd's own executable; or, if that folder is a `bin`,
 * in lib/laterd beside it, where `make install` puts them with any PREFIX; or in LATERD_LIBDIR,
 * which was given at build time.
 *
 * Main thread, at the start. May wait for a disk.
 */
#ifndef LATERD_LATERD_PLUGIN_FILE_H
#define LATERD_LATERD_PLUGIN_FILE_H

#include <stdint.h>

/* What every plugin's struct begins with: see sink/plugin.h, port/member.h and port/journal.h. */
struct plugin_head {
    uint32_t abi;
    const char *version; /* LATERD_VERSION of its build */
};

/* Which plugin to load, and what its errors name. Strings are borrowed for the call. */
struct plugin_wanted {
    const char *name;   /* its file is laterd-NAME.so; up to 20 bytes */
    const char *symbol; /* what it defines: a struct that begins with plugin_head */
    uint32_t abi;
    const char *package; /* Debian's, of the library that it is linked with */
    const char *place;   /* where the configuration names it, "laterd.conf:7: ", or "" */
    const char *key;     /* what needs it there, "[broker.rabbit]" */
};

/*
 * Loads the plugin and returns its struct, which is valid as long as the process runs. NULL: the
 * file is not there, its library is missing, or it was not built together with this laterd; the
 * reason is on standard error, with what to install.
 */
const void *plugin_file_load(const struct plugin_wanted *wanted);

#endif
