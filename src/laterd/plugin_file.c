#include "laterd/plugin_file.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FOLDER_BYTES = 512 };

/* The folder of our executable, where `make` leaves the plugins. */
static void own_folder(char folder[FOLDER_BYTES])
{
    ssize_t len = readlink("/proc/self/exe", folder, FOLDER_BYTES - 1);
    folder[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
}

void *plugin_file_open(const char *name, char out_path[PLUGIN_PATH_BYTES])
{
    char folders[][FOLDER_BYTES] = {"", "", LATERD_LIBDIR};
    own_folder(folders[0]);
    const char *last = strrchr(folders[0], '/');
    if (last &&
        strcmp(last, "/bin") == 0) /* beside another folder anybody may write: /tmp/x/../lib */
        (void)snprintf(folders[1], FOLDER_BYTES, "%.490s/../lib/laterd", folders[0]); /* it fits */
    for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        if (!folders[i][0])
            continue;
        (void)snprintf(out_path, PLUGIN_PATH_BYTES, "%.511s/laterd-%.20s.so", folders[i], name);
        if (access(out_path, F_OK) == 0)
            return dlopen(out_path, RTLD_NOW | RTLD_LOCAL);
    }
    return NULL;
}
