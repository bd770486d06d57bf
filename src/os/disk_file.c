/*
 * Writes that must be durable go past the page cache (O_DIRECT | O_DSYNC) where the file system
 * takes that: one system call instead of write and fdatasync, and nothing is copied. Elsewhere they
 * are pwrite and fdatasync. A failed sync is reported as it is and never tried again: the kernel
 * has marked the pages clean, and a second sync would lie.
 *
 * Nothing is opened through a symbolic link, and what is made is new: users who can write to the
 * directory must not be able to have us write elsewhere.
 */
#include "os/disk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "port/clock.h"

enum {
    FETCH_BYTES = 128 * 1024,
    ZEROS_BYTES = 256 * 1024,
    ZEROS_PIECE = 64 * 1024,   /* of those behind a commit */
    CACHED_PIECE = 256 * 1024, /* of a file that is written through the page cache */
};

/* To be written behind commits. Never written to, so it is one page of the system's. */
static _Alignas(DISK_ALIGN) char zeros_piece[ZEROS_PIECE];

/* True: the process or the system has no descriptor left, which is no fault of the disk. */
static bool no_descriptor(int number)
{
    return number == EMFILE || number == ENFILE;
}

enum err disk_file_err(int number)
{
    return number == ENOSPC || number == EDQUOT || number == EFBIG ? ERR_DISK_FULL
           : number == ENOENT                                      ? ERR_NOT_FOUND
           : no_descriptor(number)                                 ? ERR_AGAIN
                                                                   : ERR_IO;
}

int disk_file_descriptor(int dir_fd, const char *name, int flags)
{
    struct stat status;
    int fd = openat(dir_fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                    0600); /* O_NONBLOCK: else opening a pipe of that name would wait */
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        return fd;
    (void)close(fd); /* nothing was read or written */
    errno = EINVAL;
    return -1;
}

/* A new empty file. One that has the name was left by a crash, or is not ours: it is removed. */
static int create_file(int dir_fd, const char *name)
{
    int fd = disk_file_descriptor(dir_fd, name, O_RDWR | O_CREAT | O_EXCL);
    if (fd >= 0 || errno != EEXIST)
        return fd;
    if (unlinkat(dir_fd, name, 0) && errno != ENOENT)
        return -1;
    return disk_file_descriptor(dir_fd, name, O_RDWR | O_CREAT | O_EXCL);
}

int disk_file_lock(int fd, short type)
{
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &whole) ? errno : 0;
}

static bool same_file(int a, int b)
{
    struct stat of_a, of_b;
    return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

/* ---- the work of one operation; each helper returns 0 or an errno ---- */

static int write_all(int fd, const void *data, size_t len, uint64_t offset)
{
    const char *at = data;
    while (len > 0) {
        ssize_t wrote = pwrite(fd, at, len, (off_t)offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return errno;
        if (wrote == 0)
            return EIO; /* impossible for a regular file; do not loop forever */
        at += wrote;
        len -= (size_t)wrote;
        offset += (uint64_t)wrote;
    }
    return 0;
}

/* True: the file system, or a sandbox, does not let a piece be written before the sync. */
static bool cannot_flush(int number)
{
    return number == ENOSYS || number == EINVAL || number == EOPNOTSUPP || number == ESPIPE ||
           number == EPERM || number == EACCES;
}

/*
 * Begins to write a piece to the disk, and waits until the one before it is there. Else the sync at
 * the end has megabytes to write at once, and commits of the log wait for them (decision 123). The
 * kernel reports an error of the disk once, whatever its number: after the wait the sync would not
 * say it again. The first call takes no such report.
 */
static int flush_piece(int fd, size_t len, uint64_t offset)
{
    const unsigned written =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    uint64_t before = offset < CACHED_PIECE ? 0 : offset - CACHED_PIECE;
    if (sync_file_range(fd, (off_t)offset, (off_t)len, SYNC_FILE_RANGE_WRITE))
        return cannot_flush(errno) ? 0 : errno;
    if (before < offset && sync_file_range(fd, (off_t)before, (off_t)(offset - before), written))
        return errno;
    return 0;
}

/*
 * Writes a file through the page cache. For one large write the kernel takes huge pages. In a
 * virtual machine these are those that it has given back to the host (page reporting), which takes
 * several times as long to bring each back as the copy does. For pieces it takes smaller ones.
 */
static int write_cached(int fd, const char *data, size_t len, uint64_t offset)
{
    int failed = 0;
    for (size_t at = 0; at < len && !failed; at += CACHED_PIECE) {
        size_t piece = len - at < CACHED_PIECE ? len - at : CACHED_PIECE;
        failed = write_all(fd, data + at, piece, offset + at);
        if (!failed && piece == CACHED_PIECE)
            failed = flush_piece(fd, piece, offset + at);
    }
    return failed;
}

struct file_pieces {
    struct disk_pieces pieces;
    int fd;
    int failed; /* an errno */
};

static void put_piece(struct disk_pieces *pieces, const void *data, size_t len, uint64_t offset)
{
    struct file_pieces *file = (struct file_pieces *)pieces; /* its first member */
    if (!file->failed)
        file->failed = write_cached(file->fd, data, len, offset);
}

/* Writes what the operation gives. */
static int write_given(int fd, struct disk_op *op)
{
    if (!op->give)
        return write_cached(fd, op->data, op->len, 0);
    struct file_pieces file = {.pieces.put = put_piece, .fd = fd};
    op->give(op, &file.pieces);
    return file.failed;
}

/* True: nothing was written, so the data may be written alone. Any other error is final: it may
 * come from the sync, and a second sync would not report it again. */
static bool can_retry_without_zeros(int failed)
{
    return failed == EINTR || failed == EINVAL || failed == ENOSPC || failed == EDQUOT;
}

/* Writes the data, and op->zeros zeros behind it, which are already in the file and may be left
 * out. */
static int write_ahead(int fd, const struct disk_op *op)
{
    struct iovec pieces[1 + DISK_ZEROS_MAX / ZEROS_PIECE];
    int count = 0;
    CHECK(op->zeros <= DISK_ZEROS_MAX);
    pieces[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)op->data, .iov_len = op->len};
    for (size_t left = op->zeros; left > 0; left -= pieces[count++].iov_len)
        pieces[count] = (struct iovec){.iov_base = zeros_piece,
                                       .iov_len = left < ZEROS_PIECE ? left : ZEROS_PIECE};
    ssize_t wrote = count > 1 ? pwritev(fd, pieces, count, (off_t)op->offset) : 0;
    if (wrote < 0 && !can_retry_without_zeros(errno))
        return errno;
    size_t done = wrote < 0 ? 0 : (size_t)wrote;
    if (done >= op->len)
        return 0;
    return write_all(fd, (const char *)op->data + done, op->len - done, op->offset + done);
}

int disk_file_sync(int fd)
{
    int failed;
    do
        failed = fsync(fd);
    while (failed && errno == EINTR);
    return failed ? errno : 0;
}

/* The same without what is not needed to read the data, such as times. */
static int sync_data(int fd)
{
    int failed;
    do
        failed = fdatasync(fd);
    while (failed && errno == EINTR);
    return failed ? errno : 0;
}

/* A descriptor past the page cache, or -1 where the file system has none. */
static int direct_fd(int dir_fd, struct disk_file *file)
{
    if (file->direct_tried)
        return file->direct_fd;
    int fd = disk_file_descriptor(dir_fd, file->name, O_RDWR | O_DIRECT | O_DSYNC);
    if (fd < 0 && no_descriptor(errno))
        return -1; /* direct_tried stays false: the next write tries again */
    if (fd >= 0 && !same_file(fd, file->fd)) {
        (void)close(fd); /* the name is another file's now */
        fd = -1;
    }
    file->direct_tried = true;
    file->direct_fd = fd;
    return fd;
}

static int write_sync(int dir_fd, const struct disk_op *op)
{
    struct disk_file *file = op->file;
    int fd = direct_fd(dir_fd, file);
    bool aligned = (uintptr_t)op->data % DISK_ALIGN == 0 && op->len % DISK_ALIGN == 0 &&
                   op->offset % DISK_ALIGN == 0;
    if (fd >= 0 && aligned) {
        int failed = write_ahead(fd, op);
        if (failed != EINVAL)
            return failed;
        /* This file system opens with O_DIRECT but will not write with it. */
        (void)close(fd); /* nothing was written through it */
        file->direct_fd = -1;
    }
    int failed = write_ahead(file->fd, op);
    return failed ? failed : sync_data(file->fd);
}

static struct disk_file *file_new(int fd, const char *name)
{
    struct disk_file *file = mem_zalloc(sizeof(*file));
    file->fd = fd;
    file->direct_fd = -1;
    memcpy(file->name, name, strlen(name) + 1);
    return file;
}

void disk_file_close(struct disk_file *file)
{
    (void)close(file->fd); /* what had to be durable was synced before */
    if (file->direct_fd >= 0)
        (void)close(file->direct_fd);
    mem_free(file);
}

/* The zeros of a piece, past the page cache if *direct is a descriptor that takes them. */
static int write_piece(const struct disk_file *file, int *direct, const void *zeros, size_t len,
                       uint64_t offset)
{
    int failed = *direct >= 0 ? write_all(*direct, zeros, len, offset) : EINVAL;
    if (failed != EINVAL)
        return failed;
    if (*direct >= 0)
        (void)close(*direct); /* this file system opens with O_DIRECT but will not write with it */
    *direct = -1;
    return write_all(file->fd, zeros, len, offset);
}

/*
 * After fallocate alone the first write to each place changes the extent from unwritten to written,
 * with a commit of the file system's journal: 70 to 130 microseconds beside the write's 150 to 280
 * (docs/decisions/0098-segments-are-filled-with-zeros-for-small-commits-only.md). Through the page
 * cache the zeros would cost as much CPU as half of the puts that fill the file.
 */
static int write_zeros(int dir_fd, struct disk_file *file, uint64_t len)
{
    int direct =
        disk_file_descriptor(dir_fd, file->name, O_RDWR | O_DIRECT); /* or -1: it only saves time */
    if (direct >= 0 && !same_file(direct, file->fd)) {
        (void)close(direct); /* the name is another file's now */
        direct = -1;
    }
    char *zeros = mem_aligned(DISK_ALIGN, ZEROS_BYTES);
    memset(zeros, 0, ZEROS_BYTES);
    int failed = 0;
    for (uint64_t at = 0; at < len && !failed; at += ZEROS_BYTES) {
        size_t piece = len - at < ZEROS_BYTES ? (size_t)(len - at) : ZEROS_BYTES;
        failed = write_piece(file, &direct, zeros, piece, at);
    }
    mem_free(zeros);
    if (direct >= 0)
        (void)close(direct); /* synced by the other one */
    return failed;
}

/* Reserves the room, contiguous if possible, so that a full disk is known now (*out_failed). False:
 * the file system cannot reserve. */
static bool take_room(const struct disk_file *file, uint64_t len, int *out_failed)
{
    int failed;
    do
        failed = fallocate(file->fd, 0, 0, (off_t)len) ? errno : 0;
    while (failed == EINTR);
    *out_failed = 0;
    if (failed == EOPNOTSUPP || failed == ENOSYS || failed == EINVAL)
        return false;
    *out_failed = failed;
    return true;
}

/* Fills a new file with zeros, durable with its name. */
static int fill_file(int dir_fd, struct disk_file *file, const struct disk_op *op)
{
    int failed;
    bool taken = take_room(file, op->len, &failed);
    if (!failed && !(op->reserve && taken))
        failed = write_zeros(dir_fd, file, op->len);
    if (!failed)
        failed = disk_file_sync(file->fd);
    (void)posix_fadvise(file->fd, 0, (off_t)op->len, POSIX_FADV_DONTNEED); /* only a hint */
    return failed ? failed : disk_file_sync(dir_fd);
}

static int make_file(int dir_fd, struct disk_op *op)
{
    int fd = create_file(dir_fd, op->name);
    if (fd < 0)
        return errno;
    struct disk_file *file = file_new(fd, op->name);
    int failed = fill_file(dir_fd, file, op);
    if (failed) {
        disk_file_close(file);
        (void)unlinkat(dir_fd, op->name, 0); /* the first error is reported */
        return failed;
    }
    op->file = file;
    return 0;
}

static int replace_file(int dir_fd, struct disk_op *op)
{
    char name[DISK_NAME_MAX + 8];
    (void)snprintf(name, sizeof(name), "%s.tmp", op->name); /* fits */
    int fd = create_file(dir_fd, name);
    if (fd < 0)
        return errno;
    int failed = write_given(fd, op);
    if (!failed)
        failed = disk_file_sync(fd);
    if (close(fd) && !failed)
        failed = errno;
    if (!failed && renameat(dir_fd, name, dir_fd, op->name))
        failed = errno;
    if (failed) {
        (void)unlinkat(dir_fd, name, 0); /* the first error is reported */
        return failed;
    }
    return disk_file_sync(dir_fd);
}

static int remove_file(int dir_fd, const struct disk_op *op)
{
    if (unlinkat(dir_fd, op->name, 0) && errno != ENOENT)
        return errno;
    return disk_file_sync(dir_fd);
}

static int rename_file(int dir_fd, const struct disk_op *op)
{
    if (renameat(dir_fd, op->name, dir_fd, op->data))
        return errno;
    return disk_file_sync(dir_fd);
}

/* True if no other process holds the file and it has no other hard link; false if unknown. */
static bool is_ours_alone(int fd)
{
    struct stat status;
    return disk_file_lock(fd, F_WRLCK) == 0 && fstat(fd, &status) == 0 && status.st_nlink == 1;
}

/* Writes the new beginning and gives the new name, durably. *out_renamed: it has that name. */
static int begin_anew(int dir_fd, int fd, const struct disk_op *op, bool *out_renamed)
{
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* only a hint: nobody reads that again */
    int failed = write_all(fd, op->data, op->len, 0);
    if (!failed)
        failed = sync_data(fd);
    if (!failed && renameat(dir_fd, op->name, dir_fd, op->to_name))
        failed = errno;
    *out_renamed = !failed;
    if (!failed)
        failed = disk_file_sync(dir_fd);
    return failed ? failed : disk_file_lock(fd, F_UNLCK);
}

static int reuse_file(int dir_fd, struct disk_op *op)
{
    bool renamed = false;
    int failed = ENOSPC; /* it is of no use, and removed */
    int fd = disk_file_descriptor(dir_fd, op->name, O_RDWR);
    if (fd >= 0 && is_ours_alone(fd))
        failed = begin_anew(dir_fd, fd, op, &renamed);
    if (!failed)
        op->file = file_new(fd, op->to_name);
    else if (fd >= 0)
        (void)close(fd); /* nothing was written, or it failed already */
    return disk_file_err(failed) == ERR_DISK_FULL && !renamed ? remove_file(dir_fd, op) : failed;
}

static int sync_file(int dir_fd, const struct disk_op *op)
{
    bool named = op->name[0] != '\0';
    int failed = named ? disk_file_sync(op->file->fd) : sync_data(op->file->fd);
    return failed || !named ? failed : disk_file_sync(dir_fd);
}

/* Reads leave no access time, where that may be asked for (our own files): some 20 ns each. */
static int open_without_atime(int dir_fd, const char *name)
{
    int fd = disk_file_descriptor(dir_fd, name, O_RDWR | O_NOATIME);
    return fd < 0 && errno == EPERM ? disk_file_descriptor(dir_fd, name, O_RDWR) : fd;
}

enum err disk_file_open(int dir_fd, const char *name, enum disk_cache cache,
                        struct disk_file **out_file)
{
    int fd = open_without_atime(dir_fd, name);
    if (fd < 0 && (errno == EACCES || errno == EROFS))
        fd = disk_file_descriptor(dir_fd, name, O_RDONLY); /* enough to verify */
    if (fd < 0)
        return disk_file_err(errno);
    struct disk_file *file = file_new(fd, name);
    file->fresh = cache == DISK_FRESH;
    if (file->fresh)
        (void)direct_fd(dir_fd, file); /* without it: the page cache is dropped before reading */
    *out_file = file;
    return OK;
}

void disk_file_exact(struct disk_file *file)
{
    (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM); /* only a hint */
}

/* Of one call Linux takes no more than its window for reading ahead, which has 128 KiB or more. */
void disk_file_fetch(struct disk_file *file, uint64_t offset, uint64_t len)
{
    for (uint64_t done = 0; done < len && !file->fresh; done += FETCH_BYTES) {
        uint64_t some = len - done < FETCH_BYTES ? len - done : FETCH_BYTES;
        (void)posix_fadvise(file->fd, (off_t)(offset + done), (off_t)some, POSIX_FADV_WILLNEED);
    }
}

/* `direct`: past the page cache if there is a descriptor for that, and if the file system does not
   refuse. */
static enum err read_bytes(struct disk_file *file, bool direct, uint64_t offset, void *at,
                           size_t len, size_t *out_len)
{
    int fd = file->fd;
    bool aligned =
        (uintptr_t)at % DISK_ALIGN == 0 && len % DISK_ALIGN == 0 && offset % DISK_ALIGN == 0;
    if (direct && file->direct_fd >= 0 && aligned)
        fd = file->direct_fd;
    else if (file->fresh)
        (void)posix_fadvise(fd, (off_t)offset, (off_t)len, POSIX_FADV_DONTNEED); /* best effort */
    size_t got = 0;
    while (got < len) {
        ssize_t more = pread(fd, (char *)at + got, len - got, (off_t)(offset + got));
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0 && errno == EINVAL && fd != file->fd) {
            /* This file system opens with O_DIRECT but will not read with it, or not this much. */
            fd = file->fd;
            (void)posix_fadvise(fd, (off_t)offset, (off_t)len, POSIX_FADV_DONTNEED); /* as above */
            continue;
        }
        if (more < 0)
            return ERR_IO;
        if (more == 0)
            break;
        got += (size_t)more;
        if (got % DISK_ALIGN != 0)
            fd = file->fd; /* an unaligned end of the file cannot be read with O_DIRECT */
    }
    *out_len = got;
    return OK;
}

enum err disk_file_read(struct disk_file *file, uint64_t offset, void *at, size_t len,
                        size_t *out_len)
{
    return read_bytes(file, file->fresh, offset, at, len, out_len);
}

static enum err read_file(int dir_fd, struct disk_op *op)
{
    bool opens = !op->file;
    enum disk_cache cache = op->fresh ? DISK_FRESH : DISK_CACHED;
    enum err err = opens ? disk_file_open(dir_fd, op->name, cache, &op->file) : OK;
    if (err)
        return err;
    CHECK(op->file);
    if (opens && op->exact)
        disk_file_exact(op->file);
    if (opens && op->direct)
        (void)direct_fd(dir_fd, op->file); /* or none: the read is an ordinary one */
    if (op->ahead) /* together with the read's own bytes: one piece for the disk */
        disk_file_fetch(op->file, op->offset, op->len + op->ahead);
    return read_bytes(op->file, op->file->fresh || op->direct, op->offset, op->into, op->len,
                      &op->got);
}

void disk_file_perform(int dir_fd, struct disk_op *op)
{
    int64_t start_us = clock_monotonic_us();
    int failed = 0;
    enum err err = OK;
    if (op->prepare)
        op->prepare(op);
    switch (op->verb) {
    case DISK_WRITE_SYNC: failed = write_sync(dir_fd, op); break;
    case DISK_WRITE: failed = write_all(op->file->fd, op->data, op->len, op->offset); break;
    case DISK_SYNC: failed = sync_file(dir_fd, op); break;
    case DISK_MAKE: failed = make_file(dir_fd, op); break;
    case DISK_REPLACE: failed = replace_file(dir_fd, op); break;
    case DISK_REMOVE: failed = remove_file(dir_fd, op); break;
    case DISK_RENAME: failed = rename_file(dir_fd, op); break;
    case DISK_REUSE: failed = reuse_file(dir_fd, op); break;
    case DISK_READ: err = read_file(dir_fd, op); break;
    }
    op->sys_errno = failed;
    op->err = failed ? disk_file_err(failed) : err;
    if (op->inspect && !op->err)
        op->inspect(op);
    op->took_us = clock_monotonic_us() - start_us;
}
