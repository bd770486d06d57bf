#include "cli/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"

bool directory_there(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return false;
    errno = ENOTDIR;
    return S_ISDIR(status.st_mode);
}

bool directory_readable(const char *path)
{
    DIR *dir = opendir(path);
    if (dir)
        (void)closedir(dir); /* only read */
    return dir != NULL;
}

bool directory_empty(const char *path)
{
    bool empty = true;
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT;
    for (struct dirent *entry = readdir(dir); entry && empty; entry = readdir(dir))
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                strcmp(entry->d_name, "lost+found") == 0;
    (void)closedir(dir); /* only read */
    return empty;
}

bool directory_make(const char *path)
{
    if (mkdir(path, 0700) != 0)
        return errno == EEXIST;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int parent_fd = fd < 0 ? -1 : openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent_fd >= 0) {
        (void)fsync(parent_fd); /* some file systems refuse; nothing else to do */
        (void)close(parent_fd);
    }
    if (fd >= 0)
        (void)close(fd); /* the next open() reports why */
    return true;
}

bool directory_has_store(const char *path)
{
    DIR *dir = opendir(path);
    bool found = dir == NULL;
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry && !found; entry = readdir(dir))
        found = strcmp(entry->d_name, "MANIFEST") == 0 || strncmp(entry->d_name, "wal-", 4) == 0;
    if (dir)
        (void)closedir(dir); /* only read */
    return found;
}

static bool is_of_store(const char *name)
{
    static const char *const starts[] = {"MANIFEST", "LOCK",  "wal-",
                                         "slice-",   "hist-", "far-index"};
    bool is = false;
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        is |= strncmp(name, starts[i], strlen(starts[i])) == 0;
    return is;
}

bool directory_closed_file(const char *path, struct buf *out_path)
{
    DIR *dir = opendir(path);
    bool closed = false;
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry && !closed; entry = readdir(dir)) {
        closed = is_of_store(entry->d_name) &&
                 faccessat(dirfd(dir), entry->d_name, R_OK, AT_EACCESS) != 0 && errno == EACCES;
        if (closed)
            buf_addf(out_path, "%s/%s", path, entry->d_name);
    }
    buf_add_char(out_path, '\0');
    if (dir)
        (void)closedir(dir); /* only read */
    return closed;
}

bool directory_within(const char *path, const char *directory)
{
    char *outer = realpath(directory, NULL), *inner = realpath(path, NULL);
    struct buf above = {0};
    buf_add_str(&above, path);
    while (!inner &&
           above.len) { /* of a path that does not exist, the nearest directory above it */
        while (above.len && above.at[above.len - 1] == '/')
            above.len--;
        while (above.len && above.at[above.len - 1] != '/')
            above.len--;
        buf_add_char(&above, '\0');
        inner = realpath(above.len > 1 ? above.at : ".", NULL);
        above.len--;
    }
    size_t len = outer ? strlen(outer) : 0;
    bool within = outer && inner && strncmp(inner, outer, len) == 0 &&
                  (inner[len] == '/' || inner[len] == '\0' || len == 1 /* the root */);
    buf_fini(&above);
    free(outer);
    free(inner);
    return within;
}
