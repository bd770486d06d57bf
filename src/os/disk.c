/*
 * Owns the directory's file descriptor, the lock and the threads: one that commits, one for all
 * other changes, and some that read. A commit costs one write to the file, one to the eventfd and
 * the futex that wakes the thread.
 *
 * Writes that must be durable go past the page cache (O_DIRECT | O_DSYNC) where the file system
 * takes that: one system call instead of write and fdatasync, and nothing is copied. Elsewhere they
 * are pwrite and fdatasync. A failed sync is reported as it is and never tried again: the kernel
 * has marked the pages clean, and a second sync would lie.
 *
 * Invariants: a file is written by one lane at a time, so its descriptors need no lock. Nothing is
 * opened through a symbolic link, and what is made is new: users who can write to the directory
 * must not be able to have us write elsewhere.
 */
#include "os/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"
#include "os/mailbox.h"
#include "os/thread.h"
#include "port/clock.h"

enum {
    ZEROS_BYTES = 1024 * 1024,
    ZEROS_PIECE = 64 * 1024, /* of those behind a commit */
    FETCH_BYTES = 128 * 1024,
    READERS = 4, /* threads of LANE_READ, the number of concurrent reads */
};

struct disk_file {
    int fd;
    int direct_fd; /* -1: not opened, or refused */
    bool direct_tried;
    bool fresh;
    char name[DISK_NAME_MAX];
};

struct lane {
    struct os_disk *disk;
    pthread_t threads[READERS];
    unsigned started;    /* threads that run */
    unsigned most;       /* threads at most: one, which keeps the order, or READERS */
    struct mailbox todo; // disk_op::place
};

struct os_disk {
    struct disk port;
    int dir_fd;
    int lock_fd;
    struct lane lanes[LANE_COUNT];
    struct mailbox ended;    // disk_op::place: done is to be called
    char *zeros;             /* ZEROS_PIECE of them, to be written behind commits */
    bool nowait_unsupported; /* by preadv2() here */
    unsigned under_way;      /* submitted, `done` not called yet; owner's thread only */
};

static struct os_disk *of_port(struct disk *disk)
{
    return (struct os_disk *)disk; /* its first member */
}

/* True: the process or the system has no descriptor left, which is no fault of the disk. */
static bool no_descriptor(int number)
{
    return number == EMFILE || number == ENFILE;
}

static enum err err_of_errno(int number)
{
    return number == ENOSPC || number == EDQUOT || number == EFBIG ? ERR_DISK_FULL
           : number == ENOENT                                      ? ERR_NOT_FOUND
           : no_descriptor(number)                                 ? ERR_AGAIN
                                                                   : ERR_IO;
}

/* ---- opening ---- */

/* A descriptor of a regular file of the directory, or -1 and errno. */
static int open_file(const struct os_disk *disk, const char *name, int flags)
{
    struct stat status;
    int fd = openat(disk->dir_fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
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
static int create_file(const struct os_disk *disk, const char *name)
{
    int fd = open_file(disk, name, O_RDWR | O_CREAT | O_EXCL);
    if (fd >= 0 || errno != EEXIST)
        return fd;
    if (unlinkat(disk->dir_fd, name, 0) && errno != ENOENT)
        return -1;
    return open_file(disk, name, O_RDWR | O_CREAT | O_EXCL);
}

/* Locks all of a file: F_RDLCK, F_WRLCK or F_UNLCK. Returns 0 or an errno, at once. */
static int lock_file(int fd, short type)
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

/* True: nothing was written, so the data may be written alone. Any other error is final: it may
 * come from the sync, and a second sync would not report it again. */
static bool can_retry_without_zeros(int failed)
{
    return failed == EINTR || failed == EINVAL || failed == ENOSPC || failed == EDQUOT;
}

/* Writes the data, and op->zeros zeros behind it, which are already in the file and may be left
 * out. */
static int write_ahead(const struct os_disk *disk, int fd, const struct disk_op *op)
{
    struct iovec pieces[1 + DISK_ZEROS_MAX / ZEROS_PIECE];
    int count = 0;
    CHECK(op->zeros <= DISK_ZEROS_MAX);
    pieces[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)op->data, .iov_len = op->len};
    for (size_t left = op->zeros; left > 0; left -= pieces[count++].iov_len)
        pieces[count] = (struct iovec){.iov_base = disk->zeros,
                                       .iov_len = left < ZEROS_PIECE ? left : ZEROS_PIECE};
    ssize_t wrote = count > 1 ? pwritev(fd, pieces, count, (off_t)op->offset) : 0;
    if (wrote < 0 && !can_retry_without_zeros(errno))
        return errno;
    size_t done = wrote < 0 ? 0 : (size_t)wrote;
    if (done >= op->len)
        return 0;
    return write_all(fd, (const char *)op->data + done, op->len - done, op->offset + done);
}

static int sync_fd(int fd, bool data_only)
{
    int failed;
    do
        failed = data_only ? fdatasync(fd) : fsync(fd);
    while (failed && errno == EINTR);
    return failed ? errno : 0;
}

/* A descriptor past the page cache, or -1 where the file system has none. */
static int direct_fd(struct os_disk *disk, struct disk_file *file)
{
    if (file->direct_tried)
        return file->direct_fd;
    int fd = open_file(disk, file->name, O_RDWR | O_DIRECT | O_DSYNC);
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

static int write_sync(struct os_disk *disk, const struct disk_op *op)
{
    struct disk_file *file = op->file;
    int fd = direct_fd(disk, file);
    bool aligned = (uintptr_t)op->data % DISK_ALIGN == 0 && op->len % DISK_ALIGN == 0 &&
                   op->offset % DISK_ALIGN == 0;
    if (fd >= 0 && aligned) {
        int failed = write_ahead(disk, fd, op);
        if (failed != EINVAL)
            return failed;
        /* This file system opens with O_DIRECT but will not write with it. */
        (void)close(fd); /* nothing was written through it */
        file->direct_fd = -1;
    }
    int failed = write_ahead(disk, file->fd, op);
    return failed ? failed : sync_fd(file->fd, true);
}

static struct disk_file *file_new(int fd, const char *name)
{
    struct disk_file *file = mem_zalloc(sizeof(*file));
    file->fd = fd;
    file->direct_fd = -1;
    memcpy(file->name, name, strlen(name) + 1);
    return file;
}

static void file_free(struct disk_file *file)
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
static int write_zeros(struct os_disk *disk, struct disk_file *file, uint64_t len)
{
    int direct = open_file(disk, file->name, O_RDWR | O_DIRECT); /* or -1: it only saves time */
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
static int fill_file(struct os_disk *disk, struct disk_file *file, const struct disk_op *op)
{
    int failed;
    bool taken = take_room(file, op->len, &failed);
    if (!failed && !(op->reserve && taken))
        failed = write_zeros(disk, file, op->len);
    if (!failed)
        failed = sync_fd(file->fd, false);
    (void)posix_fadvise(file->fd, 0, (off_t)op->len, POSIX_FADV_DONTNEED); /* only a hint */
    return failed ? failed : sync_fd(disk->dir_fd, false);
}

static int make_file(struct os_disk *disk, struct disk_op *op)
{
    int fd = create_file(disk, op->name);
    if (fd < 0)
        return errno;
    struct disk_file *file = file_new(fd, op->name);
    int failed = fill_file(disk, file, op);
    if (failed) {
        file_free(file);
        (void)unlinkat(disk->dir_fd, op->name, 0); /* the first error is reported */
        return failed;
    }
    op->file = file;
    return 0;
}

static int replace_file(struct os_disk *disk, const struct disk_op *op)
{
    char name[DISK_NAME_MAX + 8];
    (void)snprintf(name, sizeof(name), "%s.tmp", op->name); /* fits */
    int fd = create_file(disk, name);
    if (fd < 0)
        return errno;
    int failed = write_all(fd, op->data, op->len, 0);
    if (!failed)
        failed = sync_fd(fd, false);
    if (close(fd) && !failed)
        failed = errno;
    if (!failed && renameat(disk->dir_fd, name, disk->dir_fd, op->name))
        failed = errno;
    if (failed) {
        (void)unlinkat(disk->dir_fd, name, 0); /* the first error is reported */
        return failed;
    }
    return sync_fd(disk->dir_fd, false);
}

static int remove_file(struct os_disk *disk, const struct disk_op *op)
{
    if (unlinkat(disk->dir_fd, op->name, 0) && errno != ENOENT)
        return errno;
    return sync_fd(disk->dir_fd, false);
}

static int rename_file(struct os_disk *disk, const struct disk_op *op)
{
    if (renameat(disk->dir_fd, op->name, disk->dir_fd, op->data))
        return errno;
    return sync_fd(disk->dir_fd, false);
}

/* True if no other process holds the file and it has no other hard link; false if unknown. */
static bool is_ours_alone(int fd)
{
    struct stat status;
    return lock_file(fd, F_WRLCK) == 0 && fstat(fd, &status) == 0 && status.st_nlink == 1;
}

/* Writes the new beginning and gives the new name, durably. *out_renamed: it has that name. */
static int begin_anew(struct os_disk *disk, int fd, const struct disk_op *op, bool *out_renamed)
{
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* only a hint: nobody reads that again */
    int failed = write_all(fd, op->data, op->len, 0);
    if (!failed)
        failed = sync_fd(fd, true);
    if (!failed && renameat(disk->dir_fd, op->name, disk->dir_fd, op->to_name))
        failed = errno;
    *out_renamed = !failed;
    if (!failed)
        failed = sync_fd(disk->dir_fd, false);
    return failed ? failed : lock_file(fd, F_UNLCK);
}

static int reuse_file(struct os_disk *disk, struct disk_op *op)
{
    bool renamed = false;
    int failed = ENOSPC; /* it is of no use, and removed */
    int fd = open_file(disk, op->name, O_RDWR);
    if (fd >= 0 && is_ours_alone(fd))
        failed = begin_anew(disk, fd, op, &renamed);
    if (!failed)
        op->file = file_new(fd, op->to_name);
    else if (fd >= 0)
        (void)close(fd); /* nothing was written, or it failed already */
    return err_of_errno(failed) == ERR_DISK_FULL && !renamed ? remove_file(disk, op) : failed;
}

static int sync_file(struct os_disk *disk, const struct disk_op *op)
{
    int failed = sync_fd(op->file->fd, op->name[0] == '\0');
    return failed || op->name[0] == '\0' ? failed : sync_fd(disk->dir_fd, false);
}

/* Reads leave no access time, where that may be asked for (our own files): some 20 ns each. */
static int open_without_atime(const struct os_disk *disk, const char *name)
{
    int fd = open_file(disk, name, O_RDWR | O_NOATIME);
    return fd < 0 && errno == EPERM ? open_file(disk, name, O_RDWR) : fd;
}

static enum err disk_open(struct disk *port, const char *name, bool fresh,
                          struct disk_file **out_file)
{
    struct os_disk *disk = of_port(port);
    int fd = open_without_atime(disk, name);
    if (fd < 0 && (errno == EACCES || errno == EROFS))
        fd = open_file(disk, name, O_RDONLY); /* enough to verify */
    if (fd < 0)
        return err_of_errno(errno);
    struct disk_file *file = file_new(fd, name);
    file->fresh = fresh;
    if (fresh)
        (void)direct_fd(disk, file); /* without it: the page cache is dropped before reading */
    *out_file = file;
    return OK;
}

static enum err disk_read(struct disk *disk, struct disk_file *file, uint64_t offset, void *at,
                          size_t len, size_t *out_len)
{
    (void)disk;
    CHECK(file);
    int fd = file->fd;
    bool aligned =
        (uintptr_t)at % DISK_ALIGN == 0 && len % DISK_ALIGN == 0 && offset % DISK_ALIGN == 0;
    if (file->fresh && file->direct_fd >= 0 && aligned)
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

static enum err read_file(struct os_disk *disk, struct disk_op *op)
{
    enum err err = op->file ? OK : disk_open(&disk->port, op->name, op->fresh, &op->file);
    if (err)
        return err;
    CHECK(op->file);
    if (op->alone) /* a hint: else Linux reads 128 KiB for some hundred bytes */
        (void)posix_fadvise(op->file->fd, 0, 0, POSIX_FADV_RANDOM);
    return disk_read(&disk->port, op->file, op->offset, op->into, op->len, &op->got);
}

static void perform(struct os_disk *disk, struct disk_op *op)
{
    int64_t start_us = clock_monotonic_us();
    int failed = 0;
    enum err err = OK;
    if (op->prepare)
        op->prepare(op);
    switch (op->verb) {
    case DISK_WRITE_SYNC: failed = write_sync(disk, op); break;
    case DISK_WRITE: failed = write_all(op->file->fd, op->data, op->len, op->offset); break;
    case DISK_SYNC: failed = sync_file(disk, op); break;
    case DISK_MAKE: failed = make_file(disk, op); break;
    case DISK_REPLACE: failed = replace_file(disk, op); break;
    case DISK_REMOVE: failed = remove_file(disk, op); break;
    case DISK_RENAME: failed = rename_file(disk, op); break;
    case DISK_REUSE: failed = reuse_file(disk, op); break;
    case DISK_READ: err = read_file(disk, op); break;
    }
    op->sys_errno = failed;
    op->err = failed ? err_of_errno(failed) : err;
    if (op->inspect && !op->err)
        op->inspect(op);
    op->took_us = clock_monotonic_us() - start_us;
}

/* ---- threads ---- */

static struct disk_op *of_place(struct queue_node *place)
{
    return LIST_ENTRY(place, struct disk_op, place);
}

static void *lane_main(void *arg)
{
    struct lane *lane = arg;
    struct queue_node *place;
    while ((place = mailbox_wait(&lane->todo))) {
        perform(lane->disk, of_place(place));
        mailbox_post(&lane->disk->ended, place);
    }
    return NULL;
}

/* If no thread can be started, the other threads of the lane do the work; if the lane has none,
 * submit() does. */
static void lane_start(struct lane *lane)
{
    if (!thread_start(&lane->threads[lane->started], lane_main, lane))
        lane->started++;
}

/* ---- the port ---- */

static enum err disk_lock(struct disk *port, enum disk_access access)
{
    struct os_disk *disk = of_port(port);
    short type = F_WRLCK;
    int fd = open_file(disk, "LOCK", O_RDWR | O_CREAT);
    if (fd < 0 && access == DISK_TO_READ && (errno == EROFS || errno == EACCES)) {
        type = F_RDLCK;
        fd = open_file(disk, "LOCK", O_RDONLY);
        if (fd < 0 && errno == ENOENT)
            return OK; /* a process that writes would have made one */
    }
    if (fd < 0)
        return err_of_errno(errno);
    int failed = lock_file(fd, type);
    if (failed) {
        (void)close(fd); /* nothing was written */
        return failed == EAGAIN || failed == EACCES ? ERR_LOCKED : ERR_IO;
    }
    disk->lock_fd = fd;
    return OK;
}

static void disk_unlock(struct disk *port)
{
    struct os_disk *disk = of_port(port);
    if (disk->lock_fd >= 0)
        (void)close(disk->lock_fd); /* which gives back the lock */
    disk->lock_fd = -1;
}

static enum err disk_list(struct disk *port, void (*each)(void *ctx, const char *name), void *ctx)
{
    int fd = openat(of_port(port)->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_of_errno(errno);
    DIR *dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd); /* only read */
        return ERR_IO;
    }
    errno = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < DISK_NAME_MAX)
            each(ctx, entry->d_name);
        errno = 0;
    }
    enum err err = errno ? ERR_IO : OK;
    (void)closedir(dir); /* only read */
    return err;
}

static void disk_close(struct disk *disk, struct disk_file *file)
{
    (void)disk;
    if (file)
        file_free(file);
}

static enum err disk_hold(struct disk *disk, struct disk_file *file)
{
    (void)disk;
    int failed = lock_file(file->fd, F_RDLCK); /* without locks nobody uses a file again */
    return failed == EAGAIN || failed == EACCES ? ERR_AGAIN : OK;
}

static enum err disk_size(struct disk *disk, struct disk_file *file, uint64_t *out_bytes)
{
    (void)disk;
    struct stat status;
    if (fstat(file->fd, &status))
        return ERR_IO;
    *out_bytes = (uint64_t)status.st_size;
    return OK;
}

/* glibc's preadv2() may end a thread that is cancelled, and what it does for that where there are
   several is a sixth of a read of some hundred bytes. Nobody cancels threads here. */
static ssize_t read_nowait(int fd, const struct iovec *room, uint64_t offset)
{
    enum { HALF = 32 }; /* the system takes an offset in halves where a long is one */
    return (ssize_t)syscall(SYS_preadv2, fd, room, 1UL, (unsigned long)offset,
                            (unsigned long)(offset >> HALF), RWF_NOWAIT);
}

static enum err disk_read_cached(struct disk *port, struct disk_file *file, uint64_t offset,
                                 void *at, size_t len, size_t *out_len)
{
    struct os_disk *disk = of_port(port);
    struct iovec room = {.iov_base = at, .iov_len = len};
    if (disk->nowait_unsupported || file->fresh)
        return ERR_AGAIN;
    ssize_t got = read_nowait(file->fd, &room, offset);
    if (got == (ssize_t)len) {
        *out_len = len;
        return OK;
    }
    disk->nowait_unsupported =
        got < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL);
    return ERR_AGAIN;
}

/* Of one call Linux takes no more than its window for reading ahead, which has 128 KiB or more. */
static void disk_fetch(struct disk *disk, struct disk_file *file, uint64_t offset, uint64_t len)
{
    (void)disk;
    for (uint64_t done = 0; done < len && !file->fresh; done += FETCH_BYTES) {
        uint64_t some = len - done < FETCH_BYTES ? len - done : FETCH_BYTES;
        (void)posix_fadvise(file->fd, (off_t)(offset + done), (off_t)some, POSIX_FADV_WILLNEED);
    }
}

static uint64_t disk_room(struct disk *port)
{
    struct statvfs status;
    if (fstatvfs(of_port(port)->dir_fd, &status))
        return UINT64_MAX;
    return (uint64_t)status.f_bavail * status.f_frsize;
}

static void disk_run(struct disk *disk, struct disk_op *op)
{
    perform(of_port(disk), op);
    if (op->done)
        op->done(op);
}

static void disk_submit(struct disk *port, struct disk_op *op)
{
    struct os_disk *disk = of_port(port);
    struct lane *lane = &disk->lanes[op->lane];
    if (lane->started < lane->most)
        lane_start(lane); /* one more with each operation, until all are there */
    disk->under_way++;
    if (!lane->started)
        perform(disk, op);
    mailbox_post(lane->started ? &lane->todo : &disk->ended, &op->place);
}

static unsigned disk_poll(struct disk *port)
{
    struct os_disk *disk = of_port(port);
    if (disk->under_way == 0)
        return 0;
    struct queue_node *place = mailbox_take_all(&disk->ended);
    unsigned count = 0;
    while (place) {
        struct disk_op *op = of_place(place);
        place = place->next; /* `done` may submit it again */
        disk->under_way--;
        count++;
        op->done(op);
    }
    return count;
}

static void disk_wait(struct disk *port)
{
    struct os_disk *disk = of_port(port);
    if (disk->under_way > 0)
        mailbox_wait_filled(&disk->ended);
}

static const struct disk_verbs verbs = {
    .lock = disk_lock,
    .unlock = disk_unlock,
    .list = disk_list,
    .open = disk_open,
    .close = disk_close,
    .hold = disk_hold,
    .size = disk_size,
    .read = disk_read,
    .read_cached = disk_read_cached,
    .fetch = disk_fetch,
    .room = disk_room,
    .run = disk_run,
    .submit = disk_submit,
    .poll = disk_poll,
    .wait = disk_wait,
};

/* ---- life ---- */

enum err os_disk_new(const char *directory, struct os_disk **out_disk)
{
    bool made = mkdir(directory, 0700) == 0;
    if (!made && errno != EEXIST)
        return ERR_IO;
    int dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return ERR_IO;
    if (made) { /* the directory's own name must survive a power cut */
        int parent_fd = openat(dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (parent_fd >= 0) {
            (void)sync_fd(parent_fd, false); /* some file systems refuse; nothing else to do */
            (void)close(parent_fd);
        }
    }
    struct os_disk *disk = mem_zalloc(sizeof(*disk));
    if (!mailbox_init(&disk->ended, true)) {
        int saved = errno;
        (void)close(dir_fd);
        mem_free(disk);
        errno = saved;
        return ERR_IO;
    }
    disk->port.verbs = &verbs;
    disk->zeros = mem_aligned(DISK_ALIGN, ZEROS_PIECE);
    memset(disk->zeros, 0, ZEROS_PIECE);
    disk->dir_fd = dir_fd;
    disk->lock_fd = -1;
    for (int i = 0; i < LANE_COUNT; i++) {
        disk->lanes[i].disk = disk;
        disk->lanes[i].most = i == LANE_READ ? READERS : 1;
        (void)mailbox_init(&disk->lanes[i].todo, false); /* needs no descriptor */
    }
    *out_disk = disk;
    return OK;
}

void os_disk_free(struct os_disk *disk)
{
    if (!disk)
        return;
    CHECK(disk->under_way == 0);
    for (int i = 0; i < LANE_COUNT; i++) {
        struct lane *lane = &disk->lanes[i];
        mailbox_close(&lane->todo);
        for (unsigned thread = 0; thread < lane->started; thread++)
            (void)pthread_join(lane->threads[thread], NULL);
        mailbox_fini(&lane->todo);
    }
    mailbox_fini(&disk->ended);
    disk_unlock(&disk->port);
    (void)close(disk->dir_fd);
    mem_free(disk->zeros);
    mem_free(disk);
}

bool os_disk_exposed(const struct os_disk *disk, struct os_disk_owner *out_owner)
{
    struct stat status;
    if (fstat(disk->dir_fd, &status))
        return false;
    bool stranger = status.st_uid != 0 && status.st_uid != geteuid();
    if (!stranger && !(status.st_mode & (S_IWGRP | S_IWOTH)))
        return false;
    *out_owner = (struct os_disk_owner){.uid = status.st_uid, .mode = status.st_mode & 07777};
    return true;
}

int os_disk_may_write(const struct os_disk *disk, struct os_disk_owner *out_owner)
{
    static const struct {
        const char *name;
        int mode;
    } needed[] = {{".", W_OK | X_OK}, {"LOCK", R_OK | W_OK}};
    struct stat status;
    *out_owner = (struct os_disk_owner){.uid = geteuid()};
    for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
        if (!faccessat(disk->dir_fd, needed[i].name, needed[i].mode, AT_EACCESS) || errno == ENOENT)
            continue;
        int failed = errno;
        if (!fstatat(disk->dir_fd, needed[i].name, &status, 0))
            *out_owner =
                (struct os_disk_owner){.uid = status.st_uid, .mode = status.st_mode & 07777};
        return failed;
    }
    return 0;
}

struct disk *os_disk_port(struct os_disk *disk)
{
    return &disk->port;
}

int os_disk_eventfd(const struct os_disk *disk)
{
    return mailbox_fd(&disk->ended);
}
