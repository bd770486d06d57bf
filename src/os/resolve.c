#include "os/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "os/thread.h"
#include "port/loop.h"

struct name_look_up {
    struct message message;
    struct shared_mailbox *mailbox;
    struct resolver *resolver; /* NULL: it has ended. Read by the owner's thread only */
    struct list place;         // resolver::look_ups or waiting
    struct list queries;       // name_query::place
    char name[RESOLVER_NAME_MAX];
    /* The answer: */
    int error; /* of getaddrinfo() */
    struct addrinfo *found;
};

/* ---- on the thread ---- */

static void *look_up(void *arg)
{
    struct name_look_up *up = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct shared_mailbox *mailbox = up->mailbox;
    up->error = getaddrinfo(up->name, NULL, &hints, &up->found);
    mailbox_post(&mailbox->mailbox, &up->message.place);
    shared_mailbox_drop(mailbox);
    return NULL;
}

/* ---- on the owner's thread ---- */

static void set_port(struct socket_address *address, uint16_t port)
{
    if (address->any.ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)&address->any)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)(void *)&address->any)->sin6_port = htons(port);
}

static struct socket_address choose(const struct name_look_up *up, const struct name_query *query)
{
    struct socket_address address = {0};
    unsigned count = 0;
    for (const struct addrinfo *one = up->found; one; one = one->ai_next)
        count++;
    CHECK(count > 0); /* no error, no empty list */
    const struct addrinfo *chosen = up->found;
    for (unsigned i = query->attempt % count; i > 0; i--)
        chosen = chosen->ai_next;
    memcpy(&address.any, chosen->ai_addr, chosen->ai_addrlen);
    address.len = chosen->ai_addrlen;
    set_port(&address, query->port);
    return address;
}

static void look_up_free(struct name_look_up *up)
{
    if (up->found)
        freeaddrinfo(up->found);
    mem_free(up);
}

static void answer_queries(struct name_look_up *up)
{
    while (!list_empty(&up->queries)) {
        struct name_query *query = LIST_ENTRY(up->queries.next, struct name_query, place);
        list_remove(&query->place);
        query->of = NULL;
        if (up->error) {
            query->answered(query, NULL, gai_strerror(up->error));
        } else {
            struct socket_address address = choose(up, query);
            query->answered(query, &address, NULL);
        }
    }
}

static void start_waiting(struct resolver *resolver);

/* Called by the loop's gather(). */
static void arrived(struct message *message)
{
    struct name_look_up *up = LIST_ENTRY(message, struct name_look_up, message);
    struct resolver *resolver = up->resolver;
    list_remove(&up->place);
    if (resolver) {
        resolver->threads--;
        start_waiting(resolver);
    }
    answer_queries(up);
    look_up_free(up);
}

static void start(struct resolver *resolver, struct name_look_up *up)
{
    list_remove(&up->place);
    list_add_tail(&resolver->look_ups, &up->place);
    resolver->threads++;
    shared_mailbox_share(resolver->mailbox);
    if (thread_start_detached(look_up, up) == 0)
        return;
    up->error = EAI_AGAIN;
    mailbox_post(&resolver->mailbox->mailbox, &up->message.place);
    shared_mailbox_drop(resolver->mailbox);
}

/* Starts look-ups while threads are free; drops those whose queries were all cancelled. */
static void start_waiting(struct resolver *resolver)
{
    while (!list_empty(&resolver->waiting) && resolver->threads < RESOLVER_THREADS) {
        struct name_look_up *up = LIST_ENTRY(resolver->waiting.next, struct name_look_up, place);
        if (!list_empty(&up->queries)) {
            start(resolver, up);
            continue;
        }
        list_remove(&up->place);
        look_up_free(up);
    }
}

/* A look-up of this name that has queries. One whose queries were all cancelled took too long: a
 * new query gets a new look-up. */
static struct name_look_up *find(struct list *among, const char *name)
{
    for (struct list *node = among->next; node != among; node = node->next) {
        struct name_look_up *up = LIST_ENTRY(node, struct name_look_up, place);
        if (!list_empty(&up->queries) && strcmp(up->name, name) == 0)
            return up;
    }
    return NULL;
}

static struct name_look_up *make(struct resolver *resolver, const char *name)
{
    struct name_look_up *up = mem_zalloc(sizeof(*up));
    up->message.arrived = arrived;
    up->mailbox = resolver->mailbox;
    up->resolver = resolver;
    list_init(&up->queries);
    list_add_tail(&resolver->waiting, &up->place);
    (void)snprintf(up->name, sizeof(up->name), "%s", name);
    return up;
}

void resolver_look_up(struct resolver *resolver, struct name_query *query, const char *name)
{
    CHECK(!query->of && strlen(name) < RESOLVER_NAME_MAX);
    struct name_look_up *up = find(&resolver->look_ups, name);
    if (!up)
        up = find(&resolver->waiting, name);
    if (!up)
        up = make(resolver, name);
    query->of = up;
    list_add_tail(&up->queries, &query->place);
    start_waiting(resolver);
}

void resolver_cancel(struct name_query *query)
{
    if (!query->of)
        return;
    query->of = NULL;
    list_remove(&query->place);
}

void resolver_init(struct resolver *resolver, struct shared_mailbox *mailbox)
{
    *resolver = (struct resolver){.mailbox = mailbox};
    list_init(&resolver->look_ups);
    list_init(&resolver->waiting);
}

void resolver_fini(struct resolver *resolver)
{
    while (!list_empty(&resolver->look_ups)) {
        struct name_look_up *up = LIST_ENTRY(resolver->look_ups.next, struct name_look_up, place);
        CHECK(list_empty(&up->queries));
        up->resolver = NULL;
        list_remove(&up->place);
    }
    while (!list_empty(&resolver->waiting)) {
        struct name_look_up *up = LIST_ENTRY(resolver->waiting.next, struct name_look_up, place);
        CHECK(list_empty(&up->queries));
        list_remove(&up->place);
        look_up_free(up);
    }
}

bool address_of_digits(const char *text, uint16_t port, struct socket_address *out_address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found = NULL;
    if (getaddrinfo(text, NULL, &hints, &found)) /* looks up nothing, so takes no time */
        return false;
    struct socket_address address = {.len = found->ai_addrlen};
    memcpy(&address.any, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    set_port(&address, port);
    *out_address = address;
    return true;
}
