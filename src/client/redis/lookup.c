/*
 * Owns the threads, which are detached: one that DNS holds up ends when that gives up, long after
 * everybody has forgotten it, or with the process.
 */
#include "client/redis/lookup.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"

enum {
    UNDER_WAY_MAX = 64,      /* a DNS that hangs must not cost us more */
    STACK_BYTES = 512 * 1024 /* what resolves names may be somebody's plug-in */
};

struct question {
    struct redis_address address;
    unsigned which;
    int fd;
};

static atomic_uint under_way;

/* ---- on the thread, or for digits on ours ---- */

static struct lookup_answer look_up(const struct redis_address *address, unsigned which, int flags)
{
    struct lookup_answer answer = {0};
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found = NULL;
    char port[8];
    unsigned count = 1; /* no error, no empty list */
    (void)snprintf(port, sizeof(port), "%u", address->port);
    answer.error = getaddrinfo(address->host, port, &hints, &found);
    if (answer.error)
        return answer;
    for (const struct addrinfo *one = found->ai_next; one; one = one->ai_next)
        count++;
    const struct addrinfo *chosen = found;
    for (unsigned i = which % count; i > 0; i--)
        chosen = chosen->ai_next;
    memcpy(&answer.address, chosen->ai_addr, chosen->ai_addrlen);
    answer.len = chosen->ai_addrlen;
    freeaddrinfo(found);
    return answer;
}

static void *answer_question(void *ctx)
{
    struct question *question = ctx;
    struct lookup_answer answer = look_up(&question->address, question->which, AI_ADDRCONFIG);
    /* A packet is sent whole or not at all; not at all if nobody waits any more. */
    (void)send(question->fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)close(question->fd);
    mem_free(question);
    atomic_fetch_sub(&under_way, 1);
    return NULL;
}

/* ---- on ours ---- */

bool lookup_numeric(const struct redis_address *address, struct lookup_answer *out_answer)
{
    struct lookup_answer answer = look_up(address, 0, AI_NUMERICHOST | AI_NUMERICSERV);
    if (answer.error)
        return false;
    *out_answer = answer;
    return true;
}

/* Signals are the main thread's. */
static int start_thread(struct question *question)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    (void)sigfillset(&all);               /* cannot fail */
    (void)pthread_attr_init(&attributes); /* on Linux, neither can these: */
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, &attributes, answer_question, question);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return failed;
}

int lookup_start(const struct redis_address *address, unsigned which)
{
    int pair[2];
    if (atomic_load(&under_way) >= UNDER_WAY_MAX) {
        errno = EAGAIN;
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -1;
    struct question *question = mem_alloc(sizeof(*question));
    *question = (struct question){.address = *address, .which = which, .fd = pair[1]};
    atomic_fetch_add(&under_way, 1);
    int failed = start_thread(question);
    if (!failed)
        return pair[0];
    atomic_fetch_sub(&under_way, 1);
    mem_free(question);
    (void)close(pair[0]);
    (void)close(pair[1]);
    errno = failed;
    return -1;
}

bool lookup_take(int fd, struct lookup_answer *out_answer)
{
    struct lookup_answer answer;
    if (recv(fd, &answer, sizeof(answer), MSG_DONTWAIT) != sizeof(answer))
        return false;
    *out_answer = answer;
    return true;
}
