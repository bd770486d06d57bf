#include "laterd/plugin_file.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "laterd/complain.h"

enum { FOLDER_BYTES = 512, PATH_BYTES = FOLDER_BYTES + 32 };

/* The folder of our executable, where `make` leaves the plugins. */
static void own_folder(char folder[FOLDER_BYTES])
{
    ssize_t len = readlink("/proc/self/exe", folder, FOLDER_BYTES - 1);
    folder[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
}

/* lib/laterd beside our folder, if that is a `bin`; else "". Beside any other folder, such as /tmp,
 * anybody might have put a file. */
static void installed_folder(const char *own, char folder[FOLDER_BYTES])
{
    const char *last = strrchr(own, '/');
    folder[0] = '\0';
    if (last && strcmp(last, "/bin") == 0)
        (void)snprintf(folder, FOLDER_BYTES, "%.490s/../lib/laterd", own); /* it fits */
}

/* Loads the first file of this name that is there. NULL: it failed; out_path is the last path
 * tried, and dlerror() says why if there is such a file. */
static void *open_file(const char *name, char out_path[PATH_BYTES])
{
    char folders[][FOLDER_BYTES] = {"", "", LATERD_LIBDIR};
    own_folder(folders[0]);
    installed_folder(folders[0], folders[1]);
    for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        if (!folders[i][0])
            continue;
        (void)snprintf(out_path, PATH_BYTES, "%.511s/laterd-%.20s.so", folders[i], name);
        if (access(out_path, F_OK) == 0)
            return dlopen(out_path, RTLD_NOW | RTLD_LOCAL);
    }
    return NULL;
}

static void complain_missing(const struct plugin_wanted *wanted, const char *path)
{
    if (access(path, F_OK) == 0)
        complain("%s%s cannot load %s: %s; install its library: apt-get install %s", wanted->place,
                 wanted->key, path, dlerror(), wanted->package);
    else
        complain("%s%s needs the plugin %s, which is not there: install laterd with it (it is "
                 "built where the library's headers are, and needs: apt-get install %s)",
                 wanted->place, wanted->key, path, wanted->package);
}

const void *plugin_file_load(const struct plugin_wanted *wanted)
{
    char path[PATH_BYTES];
    struct plugin_head head = {.abi = 0, .version = ""};
    void *library = open_file(wanted->name, path);
    if (!library) {
        complain_missing(wanted, path);
        return NULL;
    }
    const void *plugin = dlsym(library, wanted->symbol);
    if (plugin)
        memcpy(&head, plugin, sizeof(head));
    if (head.abi == wanted->abi && strcmp(head.version, LATERD_VERSION) == 0)
        return plugin;
    complain("%s%s: the plugin %s does not match this laterd: it has abi %u of version \"%s\", and "
             "abi %u of version \"%s\" is needed; install both from the same build",
             wanted->place, wanted->key, path, head.abi, head.version, wanted->abi, LATERD_VERSION);
    return NULL;
}
