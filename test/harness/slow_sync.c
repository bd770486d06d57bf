/*
 * Preloaded into a process, makes each write that waits for the disk take longer, as a slow disk
 * does: as many milliseconds as the file that SLOW_SYNC_FILE names says, none if it is not there;
 * as long as the file says so, if it says "hold".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_MS = 1000000, LOOK_MS = 5 };

static void sleep_ms(long ms)
{
    struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS};
    (void)nanosleep(&wait, NULL);
}

static void wait_for_disk(void)
{
    const char *path = getenv("SLOW_SYNC_FILE");
    for (;;) {
        FILE *file = path ? fopen(path, "re") : NULL;
        char line[16] = "";
        if (!file)
            return;
        long ms = fgets(line, sizeof(line), file) ? strtol(line, NULL, 10) : 0;
        (void)fclose(file); /* only read from */
        bool holds = strncmp(line, "hold", 4) == 0;
        sleep_ms(holds ? LOOK_MS : ms);
        if (!holds)
            return;
    }
}

static int waits(int file)
{
    return fcntl(file, F_GETFL) & O_DSYNC;
}

ssize_t pwrite(int file, const void *at, size_t len, off_t offset)
{
    if (waits(file))
        wait_for_disk();
    return (ssize_t)syscall(SYS_pwrite64, file, at, len, offset);
}

ssize_t pwrite64(int file, const void *at, size_t len, off_t offset)
{
    return pwrite(file, at, len, offset);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset)
{
    if (waits(file))
        wait_for_disk();
    return (ssize_t)syscall(SYS_pwritev, file, parts, count, offset, 0);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off_t offset)
{
    return pwritev(file, parts, count, offset);
}

int fdatasync(int file)
{
    wait_for_disk();
    return (int)syscall(SYS_fdatasync, file);
}
