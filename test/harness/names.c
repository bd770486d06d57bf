/*
 * Preloaded into a program that looks up names: simulates a name server.
 *
 *   rebind.test    127.0.0.1 the first time, 127.0.0.66 from then on
 *   both.test      127.0.0.66 and 127.0.0.1
 *   slow.test      no answer for 20 s
 *   late.test      no answer for 1 s, and then it does not exist
 *   gone.test      does not exist
 *   hangs.test     127.0.0.1, but no answer for 20 s while there is a file $NAMES_HANG
 *
 * Each call of time() is an hour later than the one before, so that no address is remembered.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int calls, rebinds;

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += 3600 * (time_t)calls++;
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    struct addrinfo *more;
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&next, &symbol, sizeof(next));
    bool hangs = name && strcmp(name, "hangs.test") == 0;
    if ((name && strcmp(name, "slow.test") == 0) || (hangs && access(getenv("NAMES_HANG"), F_OK) == 0)) {
        sleep(20);
        return EAI_AGAIN;
    }
    if (hangs)
        name = "127.0.0.1";
    if (name && strcmp(name, "late.test") == 0)
        sleep(1);
    if (name && (strcmp(name, "late.test") == 0 || strcmp(name, "gone.test") == 0))
        return EAI_NONAME;
    if (name && strcmp(name, "rebind.test") == 0)
        name = rebinds++ ? "127.0.0.66" : "127.0.0.1";
    if (!name || strcmp(name, "both.test") != 0)
        return next(name, service, hints, out);
    int failed = next("127.0.0.66", service, hints, out);
    if (!failed && next("127.0.0.1", service, hints, &more) == 0)
        (*out)->ai_next = more;
    return failed;
}
