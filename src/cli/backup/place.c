#include "cli/backup/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/backup/copy.h"
#include "cli/directory.h"

/* ---- names ---- */

/* "20261123T150000Z", and "-001" … behind it if two were made in a second. One that the operator
 * has given another name, such as "20261123T150000Z-before-move", is the operator's to remove. */
static bool is_backup_name(const char *name)
{
    static const char form[] = "ddddddddTddddddZ";
    for (size_t i = 0; form[i]; i++) {
        bool digit = name[i] >= '0' && name[i] <= '9';
        if (form[i] == 'd' ? !digit : name[i] != form[i])
            return false;
    }
    const char *rest = name + sizeof(form) - 1;
    if (*rest == '\0')
        return true;
    size_t digits = *rest == '-' ? strspn(rest + 1, "0123456789") : 0;
    return digits > 0 && rest[1 + digits] == '\0' && strlen(name) < PLACE_NAME_ROOM;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* Takes the descriptor over, or closes it. NULL: that is not possible; errno says why. */
static DIR *open_dir(int fd)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int saved = errno;
    if (fd >= 0 && !dir)
        (void)close(fd); /* nothing was read */
    errno = saved;
    return dir;
}

/* The names of the backups, whole or half removed, oldest first: PLACE_NAME_ROOM bytes each. */
static enum err list_backups(int fd, struct buf *out_names)
{
    DIR *dir = open_dir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return ERR_IO;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char name[PLACE_NAME_ROOM] = {0};
        if (!is_backup_name(entry->d_name))
            continue;
        memcpy(name, entry->d_name, strlen(entry->d_name));
        buf_add(out_names, name, sizeof(name));
    }
    (void)closedir(dir); /* only read */
    if (out_names->len)
        qsort(out_names->at, out_names->len / PLACE_NAME_ROOM, PLACE_NAME_ROOM, by_name);
    return OK;
}

/* ---- removing ---- */

/* A directory of files, without directories in it. False: errno says why. */
static bool remove_tree(int fd, const char *name)
{
    int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0)
        return errno == ENOENT;
    /* Its list goes first: a backup that is half removed must not look whole. */
    (void)unlinkat(inner, BACKUP_INDEX, 0); /* often there is none */
    DIR *dir = open_dir(inner);
    if (!dir)
        return false;
    bool removed = true;
    for (struct dirent *entry = readdir(dir); entry && removed; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            removed = unlinkat(dirfd(dir), entry->d_name, 0) == 0;
    }
    int saved = errno;
    (void)closedir(dir); /* only read */
    errno = saved;
    return removed && unlinkat(fd, name, AT_REMOVEDIR) == 0;
}

/* ---- life ---- */

static int failed(const struct backup_place *place, const char *what)
{
    cli_message(place->cli, "%s: %s: %s", place->path, what, strerror(errno));
    return EXIT_REFUSED;
}

static int take_lock(struct backup_place *place)
{
    place->lock_fd = openat(place->fd, "LOCK", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (place->lock_fd < 0)
        return failed(place, "cannot be written to");
    if (flock(place->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return EXIT_DONE;
    cli_message(place->cli, "another backup is being made in %s", place->path);
    return EXIT_CONFLICT;
}

int backup_place_open(struct backup_place *place, struct cli *cli, const char *path)
{
    struct buf names = {0};
    *place =
        (struct backup_place){.cli = cli, .path = path, .fd = -1, .lock_fd = -1, .started_fd = -1};
    if (!directory_make(path))
        return failed(place, "cannot be made");
    place->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place->fd < 0)
        return failed(place, "cannot be opened");
    int code = take_lock(place);
    if (code == EXIT_DONE && !remove_tree(place->fd, BACKUP_STARTED))
        code = failed(place, "what was left incomplete cannot be removed");
    if (code == EXIT_DONE && list_backups(place->fd, &names))
        code = failed(place, "cannot be listed");
    if (code == EXIT_DONE && names.len)
        memcpy(place->newest, names.at + names.len - PLACE_NAME_ROOM, PLACE_NAME_ROOM);
    buf_fini(&names);
    return code;
}

void backup_place_close(struct backup_place *place)
{
    if (place->started_fd >= 0) {
        (void)close(place->started_fd);               /* what matters was synced */
        (void)remove_tree(place->fd, BACKUP_STARTED); /* else the next backup does */
    }
    if (place->lock_fd >= 0)
        (void)close(place->lock_fd); /* which gives back the lock */
    if (place->fd >= 0)
        (void)close(place->fd);
}

int backup_place_start(struct backup_place *place)
{
    if (mkdirat(place->fd, BACKUP_STARTED, 0700) != 0)
        return failed(place, "cannot be written to");
    place->started_fd = openat(place->fd, BACKUP_STARTED, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return place->started_fd < 0 ? failed(place, "cannot be opened") : EXIT_DONE;
}

int backup_place_write(struct backup_place *place, const char *name, const void *data, size_t len)
{
    int fd = openat(place->started_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed(place, name);
    bool good = copy_write(fd, data, len, 0) && fsync(fd) == 0;
    int saved = errno;
    bool closed = close(fd) == 0;
    errno = good ? errno : saved;
    return good && closed ? EXIT_DONE : failed(place, name);
}

/*
 * The newest backup is the last one by name, also if the clock was set back since it was made, or
 * if an older one of this second has been removed: so the name comes behind all that are there.
 */
static unsigned place_stamp(const struct backup_place *place, int64_t at_us, char stamp[static 20])
{
    enum { STAMP_LEN = 16 };
    struct tm at;
    time_t seconds = (time_t)(at_us / 1000000);
    (void)gmtime_r(&seconds, &at);
    (void)strftime(stamp, 20, "%Y%m%dT%H%M%SZ", &at); /* it fits */
    const char *newest = place->newest;
    if (!newest[0] || strncmp(newest, stamp, STAMP_LEN) < 0)
        return 0;
    memcpy(stamp, newest, STAMP_LEN);
    return newest[STAMP_LEN] == '-' ? (unsigned)strtoul(newest + STAMP_LEN + 1, NULL, 10) + 1 : 1;
}

int backup_place_finish(struct backup_place *place, int64_t at_us)
{
    char name[PLACE_NAME_ROOM], stamp[20];
    if (fsync(place->started_fd) != 0)
        return failed(place, "cannot be synced");
    for (unsigned count = place_stamp(place, at_us, stamp); count < 1000; count++) {
        (void)snprintf(name, sizeof(name), count ? "%s-%03u" : "%s", stamp, count); /* it fits */
        if (faccessat(place->fd, name, F_OK, 0) == 0)
            continue; /* nobody else makes one now */
        if (renameat(place->fd, BACKUP_STARTED, place->fd, name) != 0 || fsync(place->fd) != 0)
            return failed(place, name);
        (void)close(place->started_fd);
        place->started_fd = -1;
        memcpy(place->finished, name, sizeof(name));
        return EXIT_DONE;
    }
    cli_message(place->cli, "%s: there are 1000 backups of this second", place->path);
    return EXIT_REFUSED;
}

int backup_place_drop(struct backup_place *place)
{
    return remove_tree(place->fd, place->finished) ? EXIT_DONE : failed(place, place->finished);
}

int backup_place_prune(struct backup_place *place, uint64_t keep)
{
    struct buf names = {0};
    int code = EXIT_DONE;
    if (list_backups(place->fd, &names))
        code = failed(place, "cannot be listed");
    size_t count = names.len / PLACE_NAME_ROOM, left = count;
    for (size_t i = 0; code == EXIT_DONE && i < count && left > keep; i++) {
        const char *name = names.at + i * PLACE_NAME_ROOM;
        if (strcmp(name, place->finished) == 0)
            continue; /* others are of times to come: the clock was ahead when they were made */
        if (!remove_tree(place->fd, name))
            code = failed(place, name);
        left--;
    }
    buf_fini(&names);
    return code;
}

/* ---- for those who read ---- */

static char *joined(const char *path, const char *name)
{
    struct buf whole = {0};
    buf_addf(&whole, "%s/%s", path, name);
    buf_add_char(&whole, '\0');
    return whole.at;
}

/* ERR_IO: errno says why that cannot be told, or why it may not be read. */
static enum err find_index(const char *path)
{
    char *index = joined(path, BACKUP_INDEX);
    bool there = access(index, R_OK) == 0;
    int failed = errno;
    mem_free(index);
    errno = failed;
    return there ? OK : failed == ENOENT || failed == ENOTDIR ? ERR_NOT_FOUND : ERR_IO;
}

enum err backup_place_find(const char *path, char **out_path)
{
    struct buf names = {0};
    enum err err = find_index(path);
    *out_path = NULL;
    if (err != ERR_NOT_FOUND) {
        buf_add_str(&names, path);
        buf_add_char(&names, '\0');
        *out_path = names.at;
        return err;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ERR_NOT_FOUND;
    (void)list_backups(fd, &names); /* without any there is none */
    (void)close(fd);                /* only read */
    for (size_t at = names.len; at > 0 && err == ERR_NOT_FOUND; at -= PLACE_NAME_ROOM) {
        mem_free(*out_path);
        *out_path = joined(path, names.at + at - PLACE_NAME_ROOM);
        err = find_index(*out_path);
    }
    int failed = errno;
    if (err == ERR_NOT_FOUND) {
        mem_free(*out_path);
        *out_path = NULL;
    }
    buf_fini(&names);
    errno = failed;
    return err;
}

json_t *backup_index_load(const char *path)
{
    char *index = joined(path, BACKUP_INDEX);
    json_t *list = json_load_file(index, 0, NULL);
    mem_free(index);
    return list;
}
