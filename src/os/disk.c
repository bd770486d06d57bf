/*
 * Owns the directory's file descriptor, the lock and the threads: one that commits, one for all
 * other changes, and some that read. A commit costs one write to the file, one to the eventfd and
 * the futex that wakes the thread.
 *
 * Invariant: a file is written by one lane at a time, so its descriptors need no lock.
 */
#include "os/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"
#include "os/disk_file.h"
#include "os/mailbox.h"
#include "os/thread.h"

enum {
    READERS = 4, /* threads of LANE_READ, the number of concurrent reads */
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
    bool nowait_unsupported; /* by preadv2() here */
    unsigned under_way;      /* submitted, `done` not called yet; owner's thread only */
};

static struct os_disk *of_port(struct disk *disk)
{
    return (struct os_disk *)disk; /* its first member */
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
        disk_file_perform(lane->disk->dir_fd, of_place(place));
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
    int fd = disk_file_descriptor(disk->dir_fd, "LOCK", O_RDWR | O_CREAT);
    if (fd < 0 && access == DISK_TO_READ && (errno == EROFS || errno == EACCES)) {
        type = F_RDLCK;
        fd = disk_file_descriptor(disk->dir_fd, "LOCK", O_RDONLY);
        if (fd < 0 && errno == ENOENT)
            return OK; /* a process that writes would have made one */
    }
    if (fd < 0)
        return disk_file_err(errno);
    int failed = disk_file_lock(fd, type);
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
        return disk_file_err(errno);
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

static enum err disk_open(struct disk *disk, const char *name, enum disk_cache cache,
                          struct disk_file **out_file)
{
    return disk_file_open(of_port(disk)->dir_fd, name, cache, out_file);
}

static enum err disk_read(struct disk *disk, struct disk_file *file, uint64_t offset, void *at,
                          size_t len, size_t *out_len)
{
    (void)disk;
    CHECK(file);
    return disk_file_read(file, offset, at, len, out_len);
}

static void disk_close(struct disk *disk, struct disk_file *file)
{
    (void)disk;
    if (file)
        disk_file_close(file);
}

static enum err disk_hold(struct disk *disk, struct disk_file *file)
{
    (void)disk;
    int failed = disk_file_lock(file->fd, F_RDLCK); /* without locks nobody uses a file again */
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

static bool disk_is_direct(struct disk *disk, const struct disk_file *file)
{
    (void)disk;
    return file->direct_fd >= 0;
}

static void disk_exact(struct disk *disk, struct disk_file *file)
{
    (void)disk;
    disk_file_exact(file);
}

static void disk_fetch(struct disk *disk, struct disk_file *file, uint64_t offset, uint64_t len)
{
    (void)disk;
    disk_file_fetch(file, offset, len);
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
    disk_file_perform(of_port(disk)->dir_fd, op);
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
        disk_file_perform(disk->dir_fd, op);
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
    .is_direct = disk_is_direct,
    .exact = disk_exact,
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
            (void)disk_file_sync(parent_fd); /* some file systems refuse; nothing else to do */
            (void)close(parent_fd);
        }
    }
    struct os_disk *disk = mem_zalloc(sizeof(*disk));
    if (!mailbox_init(&disk->ended)) {
        int saved = errno;
        (void)close(dir_fd);
        mem_free(disk);
        errno = saved;
        return ERR_IO;
    }
    disk->port.verbs = &verbs;
    disk->dir_fd = dir_fd;
    disk->lock_fd = -1;
    for (int i = 0; i < LANE_COUNT; i++) {
        disk->lanes[i].disk = disk;
        disk->lanes[i].most = i == LANE_READ ? READERS : 1;
        mailbox_init_unwatched(&disk->lanes[i].todo);
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

/* As os_disk_may_write(), of one file. */
static int may_use(const struct os_disk *disk, const char *name, int mode,
                   struct os_disk_owner *out_owner)
{
    struct stat status;
    *out_owner = (struct os_disk_owner){.uid = geteuid()};
    if (!faccessat(disk->dir_fd, name, mode, AT_EACCESS) || errno == ENOENT)
        return 0;
    int failed = errno;
    if (!fstatat(disk->dir_fd, name, &status, 0))
        *out_owner = (struct os_disk_owner){.uid = status.st_uid, .mode = status.st_mode & 07777};
    return failed;
}

int os_disk_may_write(const struct os_disk *disk, struct os_disk_owner *out_owner)
{
    int failed = may_use(disk, ".", W_OK | X_OK, out_owner);
    return failed ? failed : may_use(disk, "LOCK", R_OK | W_OK, out_owner);
}

int os_disk_may_create(const struct os_disk *disk)
{
    int fd = disk_file_descriptor(disk->dir_fd, "LOCK", O_RDWR | O_CREAT);
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
        return 0;
    }
    bool never = errno == ENOENT || errno == EACCES || errno == EPERM || errno == EROFS;
    return never ? errno : 0; /* others have words of their own when the store is opened */
}

int os_disk_may_use(const struct os_disk *disk, const char *name, struct os_disk_owner *out_owner)
{
    return may_use(disk, name, R_OK | W_OK, out_owner);
}

struct disk *os_disk_port(struct os_disk *disk)
{
    return &disk->port;
}

int os_disk_eventfd(const struct os_disk *disk)
{
    return mailbox_fd(&disk->ended);
}
