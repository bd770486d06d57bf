/*
 * Preloaded into a process, makes each read of 4 KiB and more at a place of a file take longer, as
 * a slow disk does: as many milliseconds as the file that SLOW_READ_FILE names says, which is
 * looked at again meanwhile; none if it is not there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, LOOK_MS = 5, NS_PER_MS = 1000000 };

static long wanted_ms(void)
{
    const char *path = getenv("SLOW_READ_FILE");
    FILE *file = path ? fopen(path, "re") : NULL;
    char line[16] = "";
    if (!file)
        return 0;
    long ms = fgets(line, sizeof(line), file) ? strtol(line, NULL, 10) : 0;
    (void)fclose(file); /* only read from */
    return ms;
}

static long now_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

/* Measured: on a busy machine each sleep takes far longer than it should. */
ssize_t pread(int file, void *at, size_t len, off_t offset)
{
    const struct timespec wait = {.tv_nsec = LOOK_MS * NS_PER_MS};
    long begun_ms = now_ms();
    while (len >= BLOCK && now_ms() - begun_ms < wanted_ms())
        (void)nanosleep(&wait, NULL);
    return (ssize_t)syscall(SYS_pread64, file, at, len, offset);
}

ssize_t pread64(int file, void *at, size_t len, off_t offset)
{
    return pread(file, at, len, offset);
}
