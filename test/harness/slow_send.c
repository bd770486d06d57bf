/*
 * Preloaded into a process, makes each send take SLOW_SEND_US microseconds of processor time longer
 * for each 4 KiB that it took, as on a machine whose memory is slow to get. laterd sends by
 * syscall() (os/stream.c).
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
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

static void spend_for(long sent)
{
    const char *text = getenv("SLOW_SEND_US");
    long us = text ? strtol(text, NULL, 10) : 0;
    long until_ns = sent > 0 ? now_ns() + sent / PAGE * us * NS_PER_US : 0;
    while (until_ns && now_ns() < until_ns)
        ;
}

long syscall(long number, ...)
{
    static long (*next)(long, ...);
    long words[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        words[i] = va_arg(list, long);
    va_end(list);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    long result = next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (number == SYS_sendto)
        spend_for(result);
    return result;
}
