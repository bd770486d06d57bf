/*
 * Preloaded into a process, makes each read of 4 KiB and more at a place of a file take
 * SLOW_READ_MS milliseconds longer, as a slow disk does.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, NS_PER_MS = 1000000 };

ssize_t pread(int file, void *at, size_t len, off_t offset)
{
    const char *text = getenv("SLOW_READ_MS");
    long ms = text ? strtol(text, NULL, 10) : 0;
    if (len >= BLOCK && ms > 0) {
        struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS};
        (void)nanosleep(&wait, NULL);
    }
    return (ssize_t)syscall(SYS_pread64, file, at, len, offset);
}

ssize_t pread64(int file, void *at, size_t len, off_t offset)
{
    return pread(file, at, len, offset);
}
