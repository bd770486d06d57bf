#include "server/offload.h"

#include "server/server.h"

static void begin(struct offload *offload)
{
    struct server *server = offload->server;
    list_remove(&offload->waiting);
    server->buffers.work_bytes += offload->bytes;
    server->worker->verbs->submit(server->worker, &offload->work);
}

/* One at least is always under way, however large it is. */
static bool may_begin(const struct server *server, const struct offload *offload)
{
    return server->buffers.work_bytes == 0 || buffers_admit_work(&server->buffers, offload->bytes);
}

void offload_submit(struct offload *offload, struct server *server, size_t bytes,
                    void (*run)(struct work *work), void (*done)(struct work *work))
{
    offload->work = (struct work){.run = run, .done = done};
    offload->server = server;
    offload->bytes = bytes;
    list_init(&offload->waiting);
    if (list_empty(&server->offloads) && may_begin(server, offload))
        begin(offload);
    else
        list_add_tail(&server->offloads, &offload->waiting);
}

bool offload_withdraw(struct offload *offload)
{
    bool waited = !list_empty(&offload->waiting);
    list_remove(&offload->waiting);
    return waited;
}

void offload_done(struct offload *offload)
{
    struct server *server = offload->server;
    server->buffers.work_bytes -= offload->bytes;
    while (!list_empty(&server->offloads)) {
        struct offload *first = LIST_ENTRY(server->offloads.next, struct offload, waiting);
        if (!may_begin(server, first))
            break;
        begin(first);
    }
}
