/*
 * The names of the servers are looked up before libnats does it on the broker's thread, where
 * nothing limits how long that takes. A thread for each name shares only its look-up with us, and
 * ends when the resolver returns, perhaps long after we have stopped to wait.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "os/thread.h"
#include "sink/nats/parts.h"

enum { ASKED_AGAIN_MS = 10 /* whether a name is answered */ };

struct name_look_up {
    char name[BROKER_HOST_BYTES];
    atomic_bool answered; /* found or not; libnats asks again, usually as fast */
    atomic_int users;     /* its thread, and the broker's */
    bool has_thread;      /* false: none could be started, and the look-up is tried again */
};

static void drop(struct name_look_up *up)
{
    if (up && atomic_fetch_sub(&up->users, 1) == 1)
        mem_free(up);
}

static void *look_up(void *arg)
{
    struct name_look_up *up = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(up->name, NULL, &hints, &found) == 0)
        freeaddrinfo(found);
    atomic_store(&up->answered, true);
    drop(up);
    return NULL;
}

static struct name_look_up *start(const char *name)
{
    struct name_look_up *up = mem_zalloc(sizeof(*up));
    (void)snprintf(up->name, sizeof(up->name), "%s", name);
    atomic_init(&up->users, 2);
    up->has_thread = thread_start_detached(look_up, up) == 0;
    if (!up->has_thread)
        atomic_store(&up->users, 1);
    return up;
}

/* Of "host:port"; empty: it is an address, which need not be looked up. */
static void name_of(const char *host, char room[BROKER_HOST_BYTES])
{
    struct in_addr address;
    const char *colon = strrchr(host, ':');
    (void)snprintf(room, BROKER_HOST_BYTES, "%.*s",
                   (int)(colon ? (size_t)(colon - host) : strlen(host)), host);
    if (room[0] == '[' || inet_pton(AF_INET, room, &address) == 1)
        room[0] = '\0';
}

/* The look-up of the n-th server: one that is still under way, or a new one. NULL: it needs
   none. */
static struct name_look_up *find(struct nats *nats, unsigned n, const char *host)
{
    char name[BROKER_HOST_BYTES];
    struct name_look_up *up = nats->look_ups[n];
    name_of(host, name);
    if (up && (strcmp(up->name, name) != 0 || atomic_load(&up->answered) || !up->has_thread)) {
        drop(up);
        up = NULL;
    }
    if (!up && name[0])
        up = start(name);
    nats->look_ups[n] = up;
    return up;
}

static bool all_answered(const struct nats *nats, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (nats->look_ups[i] && !atomic_load(&nats->look_ups[i]->answered))
            return false;
    }
    return true;
}

bool jetstream_look_up(struct nats *nats, struct broker_url *url, int64_t limit_us)
{
    int64_t until_us = broker_now_us() + limit_us, ignored_us;
    unsigned kept = 0;
    for (unsigned i = 0; i < url->host_count; i++)
        (void)find(nats, i, url->hosts[i]);
    while (!all_answered(nats, url->host_count) && broker_now_us() < until_us &&
           !broker_closing(nats->thread, &ignored_us))
        (void)poll(NULL, 0, ASKED_AGAIN_MS);
    for (unsigned i = 0; i < url->host_count; i++) {
        if (nats->look_ups[i] && !atomic_load(&nats->look_ups[i]->answered))
            continue;
        if (kept != i)
            memcpy(url->hosts[kept], url->hosts[i], sizeof(url->hosts[kept]));
        kept++;
    }
    nats->left_out = kept < url->host_count;
    url->host_count = kept;
    return kept > 0;
}

void jetstream_forget_look_ups(struct nats *nats)
{
    for (unsigned i = 0; i < BROKER_HOSTS_MAX; i++) {
        drop(nats->look_ups[i]);
        nats->look_ups[i] = NULL;
    }
}
