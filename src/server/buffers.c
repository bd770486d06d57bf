#include "server/buffers.h"

#include "base/check.h"
#include "base/log.h"
#include "server/session.h"

enum {
    COUNT_NS = 100, /* work for counting one connection */
    LOG_EVERY_US = 10 * 1000 * 1000,
};

void buffers_init(struct buffers *buffers, uint64_t max_bytes)
{
    *buffers = (struct buffers){.max_bytes = max_bytes, .logged_us = INT64_MIN};
    list_init(&buffers->changed);
    for (unsigned i = 0; i < BUFFERS_SIZES; i++)
        list_init(&buffers->sizes[i]);
}

static struct buffers *of(const struct session *session)
{
    return &session->server->buffers;
}

static unsigned size_of(size_t footprint) /* its power of two */
{
    unsigned size = 63u - (unsigned)__builtin_clzll(footprint);
    return size < BUFFERS_SIZES ? size : BUFFERS_SIZES - 1;
}

/* Takes it out of its list and of the sum. */
static void uncount(struct session *session)
{
    struct buffers *buffers = of(session);
    if (session->footprint == 0)
        return;
    unsigned size = size_of(session->footprint);
    CHECK(buffers->bytes >= session->footprint);
    buffers->bytes -= session->footprint;
    session->footprint = 0;
    list_remove(&session->of_size);
    if (list_empty(&buffers->sizes[size]))
        buffers->occupied &= ~(1ull << size);
}

static void count(struct session *session)
{
    struct buffers *buffers = of(session);
    size_t footprint =
        session->out.cap + stream_held(session->stream) + session->kind->footprint(session);
    uncount(session);
    if (footprint <= BUFFERS_SMALL_BYTES)
        return;
    session->footprint = footprint;
    buffers->bytes += footprint;
    list_add_tail(&buffers->sizes[size_of(footprint)], &session->of_size);
    buffers->occupied |= 1ull << size_of(footprint);
}

void buffers_forget(struct session *session)
{
    uncount(session);
    list_remove(&session->changed);
}

bool buffers_tight(const struct server *server)
{
    const struct buffers *buffers = &server->buffers;
    return buffers->bytes + server_discarded(server) > buffers->max_bytes / 2;
}

/* ---- too much ---- */

static void report_closed(struct server *server, size_t footprint)
{
    struct buffers *buffers = &server->buffers;
    buffers->unlogged++;
    if (buffers->logged_us != INT64_MIN && server->loop->now_us - buffers->logged_us < LOG_EVERY_US)
        return;
    log_event(LOG_WARN, "connections_evicted",
              "count=%llu footprint_bytes=%zu all_bytes=%llu limit_bytes=%llu "
              "hint=\"clients send requests that they do not finish, or take no answers; "
              "limits.buffer_bytes\"",
              (unsigned long long)buffers->unlogged, footprint, (unsigned long long)buffers->bytes,
              (unsigned long long)buffers->max_bytes);
    buffers->logged_us = server->loop->now_us;
    buffers->unlogged = 0;
}

/* The largest, and of those of about its size the one that has done nothing for longest. */
static struct session *victim(const struct buffers *buffers)
{
    CHECK(buffers->occupied); /* without spare buffers the sum is of those in the lists */
    unsigned size = 63u - (unsigned)__builtin_clzll(buffers->occupied);
    return LIST_ENTRY(buffers->sizes[size].next, struct session, of_size);
}

static void evict(struct session *session)
{
    struct server *server = session->server;
    report_closed(server, session->footprint);
    server->counts.evicted++;
    server->turn_again = true; /* its jobs are given back; consumers may wait for them */
    bool answers = session->state != SESSION_CLOSING && session->kind->evict(session);
    if (!answers || !session_flush(session))
        session_free(session, SESSION_DROPPED);
}

void buffers_settle(struct server *server)
{
    struct buffers *buffers = &server->buffers;
    while (!list_empty(&buffers->changed)) {
        struct session *session = LIST_ENTRY(buffers->changed.next, struct session, changed);
        list_remove(&session->changed);
        count(session);
        budget_spend(&server->budget, COUNT_NS);
    }
    /*
     * Whatever the budget, or a turn might add more than it closes. At its beginning the sum was
     * within the limit, and the largest are closed first, so no more are closed than have grown in
     * this turn. Their memory is freed later, by server_trim(). It is not in this sum: closing more
     * connections would not reduce it. While much waits to be freed, turns read less and free
     * more.
     */
    while (buffers->bytes > buffers->max_bytes) {
        sessions_drop_spares(server); /* who is closed may have left one, too */
        if (buffers->bytes > buffers->max_bytes)
            evict(victim(buffers));
    }
}
