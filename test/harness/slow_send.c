/*
 * Preloaded into a process, makes each send() take SLOW_SEND_US microseconds of processor time
 * longer for each 4 KiB that it took, as on a machine whose memory is slow to get.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, NS_PER_S = 1000000000, NS_PER_US = 1000 };

static long now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

ssize_t send(int socket, const void *at, size_t len, int flags)
{
    const char *text = getenv("SLOW_SEND_US");
    long us = text ? strtol(text, NULL, 10) : 0;
    ssize_t sent = (ssize_t)syscall(SYS_sendto, socket, at, len, flags, NULL, 0);
    long until_ns = sent > 0 ? now_ns() + sent / PAGE * us * NS_PER_US : 0;
    while (until_ns && now_ns() < until_ns)
        ;
    return sent;
}
