#include "cli/backup/copy.h"
#include "port/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

bool copy_write(int fd, const void *data, size_t len, uint64_t offset)
{
    const char *at = data;
    while (len > 0) {
        ssize_t wrote = pwrite(fd, at, len, (off_t)offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        at += wrote;
        len -= (size_t)wrote;
        offset += (uint64_t)wrote;
    }
    return true;
}

void copier_end_progress(const struct copier *copier)
{
    if (copier->progress)
        (void)fputs("\r\x1b[K", stderr);
}

static void show_progress(const struct copier *copier)
{
    if (copier->progress)
        (void)fprintf(stderr, "\r%llu of %llu MB ", (unsigned long long)(copier->done_bytes >> 20),
                      (unsigned long long)(copier->all_bytes >> 20));
}

static int failed(const struct copier *copier, const char *name, const char *what)
{
    int saved = errno;
    copier_end_progress(copier);
    cli_message(copier->cli, "%s: %s: %s", name, what, strerror(saved));
    return EXIT_REFUSED;
}

/* Sleeps as long as more was copied than the rate allows. */
static void throttle(struct copier *copier, size_t bytes)
{
    copier->copied_bytes += bytes;
    copier->done_bytes += bytes;
    show_progress(copier);
    if (copier->rate == 0)
        return;
    if (copier->start_us == 0)
        copier->start_us = clock_monotonic_us();
    double due_us = (double)copier->copied_bytes * 1e6 / (double)copier->rate;
    int64_t ahead_us = copier->start_us + (int64_t)due_us - clock_monotonic_us();
    if (ahead_us <= 0)
        return;
    struct timespec wait = {.tv_sec = (time_t)(ahead_us / 1000000),
                            .tv_nsec = (long)(ahead_us % 1000000) * 1000};
    (void)nanosleep(&wait, NULL); /* interrupted: the next one is longer */
}

/* ---- links ---- */

static bool same_time(const struct stat *a, const struct stat *b)
{
    return a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Compares the headers, which differ if one store was restored from a backup of the other. */
static bool same_head(struct copier *copier, struct disk *disk, const struct backup_file *file)
{
    char *block = copier->room.at, *other = block + BLOCK;
    size_t len = 0;
    int fd = openat(copier->previous_fd, file->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool read = fd >= 0 && pread(fd, block, BLOCK, 0) == BLOCK;
    if (fd >= 0)
        (void)close(fd); /* only read */
    return read && disk->verbs->read(disk, file->file, 0, other, BLOCK, &len) == OK &&
           len == BLOCK && memcmp(block, other, BLOCK) == 0;
}

/* Does the last backup have this very file? Sealed ones have not changed since they were. */
static bool link_previous(struct copier *copier, struct disk *disk, const struct backup_file *file)
{
    struct stat now, then;
    return copier->previous_fd >= 0 && fstatat(copier->from_fd, file->name, &now, 0) == 0 &&
           fstatat(copier->previous_fd, file->name, &then, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(then.st_mode) && then.st_size == now.st_size && same_time(&now, &then) &&
           same_head(copier, disk, file) &&
           linkat(copier->previous_fd, file->name, copier->to_fd, file->name, 0) == 0;
}

/* Refused for one it is refused for all, unless the cleaner has just taken this one away. */
static bool link_store(struct copier *copier, const struct backup_file *file)
{
    if (copier->no_links)
        return false;
    if (linkat(copier->from_fd, file->name, copier->to_fd, file->name, 0) == 0)
        return true;
    copier->no_links = errno != ENOENT;
    return false;
}

/* ---- copies ---- */

/* The time of the store's file, so that the next backup knows the copy. */
static bool keep_time(const struct copier *copier, const char *name, int fd)
{
    struct stat status;
    if (fstatat(copier->from_fd, name, &status, 0) != 0)
        return true; /* it was removed, so the next backup does not need it */
    struct timespec times[2] = {status.st_atim, status.st_mtim};
    return futimens(fd, times) == 0;
}

static int close_synced(const struct copier *copier, const char *name, int fd, bool good)
{
    int saved = errno;
    if (good && fsync(fd) == 0) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* the server needs the memory more */
        if (close(fd) == 0)
            return EXIT_DONE;
        return failed(copier, name, "cannot be written");
    }
    errno = good ? errno : saved;
    saved = errno;
    (void)close(fd); /* it is of no use */
    errno = saved;
    return failed(copier, name, "cannot be written");
}

static int copy_held(struct copier *copier, struct disk *disk, const struct backup_file *file)
{
    int fd = openat(copier->to_fd, file->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed(copier, file->name, "cannot be made");
    bool good = true;
    uint64_t at = 0;
    while (good && at < file->used_bytes) {
        uint64_t left = file->used_bytes - at;
        size_t len = 0, want = left < CHUNK ? (size_t)left : CHUNK;
        errno = EIO;
        if (disk->verbs->read(disk, file->file, at, copier->room.at, want, &len) || len < want) {
            (void)close(fd); /* it is of no use */
            return failed(copier, file->name, "cannot be read");
        }
        good = copy_write(fd, copier->room.at, len, at);
        at += len;
        throttle(copier, len);
    }
    good = good && ftruncate(fd, (off_t)file->size_bytes) == 0 &&
           (!file->sealed || keep_time(copier, file->name, fd));
    copier->done_bytes += file->size_bytes - file->used_bytes;
    return close_synced(copier, file->name, fd, good);
}

int copier_take(struct copier *copier, struct disk *disk, const struct backup_file *file)
{
    buf_reserve(&copier->room, CHUNK);
    if (file->sealed && link_store(copier, file)) {
        copier->linked_bytes += file->size_bytes;
        copier->done_bytes += file->size_bytes;
        return EXIT_DONE;
    }
    if (file->sealed && link_previous(copier, disk, file)) {
        copier->kept_bytes += file->size_bytes;
        copier->done_bytes += file->size_bytes;
        return EXIT_DONE;
    }
    return copy_held(copier, disk, file);
}

int copier_restore(struct copier *copier, const char *name, uint64_t bytes)
{
    struct stat status;
    buf_reserve(&copier->room, CHUNK);
    int from = openat(copier->from_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0)
        return failed(copier, name, "the backup is not whole: it cannot be opened");
    if (fstat(from, &status) != 0 || (uint64_t)status.st_size != bytes) {
        (void)close(from); /* only read */
        errno = EINVAL;
        return failed(copier, name, "the backup is not whole: the file is longer or shorter");
    }
    int to = openat(copier->to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0) {
        (void)close(from); /* only read */
        return failed(copier, name, "cannot be made");
    }
    bool good = true;
    for (uint64_t at = 0; good && at < bytes;) {
        ssize_t len = pread(from, copier->room.at, CHUNK, (off_t)at);
        if (len <= 0) {
            errno = len < 0 ? errno : EIO;
            (void)close(to);   /* it is of no use */
            (void)close(from); /* only read */
            return failed(copier, name, "cannot be read");
        }
        good = copy_write(to, copier->room.at, (size_t)len, at);
        at += (uint64_t)len;
        throttle(copier, (size_t)len);
    }
    (void)close(from); /* only read */
    return close_synced(copier, name, to, good);
}

void copier_fini(struct copier *copier)
{
    buf_fini(&copier->room);
}
