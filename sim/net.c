#include "sim/net.h"

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"

/* Both ends of one connection. The server's part ends with `gone` or close(). */
struct net_conn {
    struct list place; // sim_net::conns
    struct sim_net *net;
    unsigned listener;
    void *user;
    struct buf to_server; /* sent by the peer, not shown yet */
    struct buf shown;     /* shown to the server, not used yet */
    struct buf kept;      /* sent by the server, not taken by the peer's window yet */
    struct buf received;
    size_t window;
    bool opened, shut, shut_told, leaving_told, reset, again, server_closed, lingering,
        owned_by_test;
};

struct sim_peer {
    struct net_conn conn;
};

enum { SHOW_BYTES = 256 * 1024 }; /* at most so many new ones in a gather, as os/net reads */

struct sim_net {
    struct net net;
    struct sim_random random;
    struct list conns; // net_conn::place
    bool split;
    bool listening;
};

static struct sim_net *self(struct net *net)
{
    return (struct sim_net *)net; /* its first member */
}

static void conn_free(struct net_conn *conn)
{
    list_remove(&conn->place);
    buf_fini(&conn->to_server);
    buf_fini(&conn->shown);
    buf_fini(&conn->kept);
    buf_fini(&conn->received);
    mem_free((struct sim_peer *)conn);
}

/* The window lets some kept bytes through. True: all of them, and there were some. */
static bool conn_flow(struct net_conn *conn)
{
    size_t count = conn->kept.len < conn->window ? conn->kept.len : conn->window;
    if (count == 0 || conn->reset)
        return false;
    buf_add(&conn->received, conn->kept.at, count);
    buf_drop(&conn->kept, count);
    if (conn->window != SIZE_MAX)
        conn->window -= count;
    return conn->kept.len == 0;
}

static void conn_show(struct net_conn *conn, struct net_handler *handler)
{
    if (conn->shown.len && !conn->again)
        return; /* what was left is used first */
    size_t count = conn->to_server.len < SHOW_BYTES ? conn->to_server.len : SHOW_BYTES;
    if (conn->shown.len)
        count = 0;
    if (count > 1 && conn->net->split)
        count = 1 + (size_t)sim_random_below(&conn->net->random, count);
    if (count == 0 && !conn->again)
        return;
    conn->again = false;
    buf_add(&conn->shown, conn->to_server.at, count);
    buf_drop(&conn->to_server, count);
    if (conn->shown.len == 0)
        return;
    struct buf now = conn->shown; /* the handler may close the connection */
    conn->shown = (struct buf){0};
    size_t used = handler->input(handler, conn->user, buf_bytes(&now));
    CHECK(used <= now.len);
    if (!conn->server_closed)
        buf_add(&conn->shown, now.at + used, now.len - used);
    conn->again = conn->again && conn->shown.len > 0;
    buf_fini(&now);
}

static void conn_gather(struct net_conn *conn, struct net_handler *handler)
{
    if (conn->server_closed)
        return;
    if (!conn->opened) {
        conn->opened = true;
        conn->user = handler->opened(handler, conn, conn->listener);
    }
    if (conn->reset) {
        conn->server_closed = true;
        handler->gone(handler, conn->user, false);
        return;
    }
    if (conn_flow(conn))
        handler->drained(handler, conn->user);
    if (!conn->server_closed)
        conn_show(conn, handler);
    if (!conn->shut || conn->server_closed)
        return;
    bool shown_all = conn->to_server.len == 0 && conn->shown.len == 0;
    if (!shown_all && conn->shown.len && !conn->leaving_told) {
        conn->leaving_told = true;
        handler->leaving(handler, conn->user);
    }
    if (shown_all && !conn->shut_told) {
        conn->shut_told = true;
        handler->gone(handler, conn->user, true);
    }
}

static void net_sleep(struct net *base, int64_t until_us)
{
    (void)base;
    (void)until_us;
}

/* Who was served goes to the end of the list, so that the others are first when it was cut. */
static bool net_gather(struct net *base, struct net_handler *handler)
{
    struct sim_net *net = self(base);
    struct list served;
    list_init(&served);
    while (!list_empty(&net->conns) && !handler->spent(handler)) {
        struct net_conn *conn = LIST_ENTRY(net->conns.next, struct net_conn, place);
        list_remove(&conn->place);
        list_add_tail(&served, &conn->place);
        conn_gather(conn, handler);
        if (conn->server_closed && conn->lingering)
            (void)conn_flow(conn);
        if (conn->server_closed && !conn->owned_by_test)
            conn_free(conn);
    }
    bool cut = !list_empty(&net->conns);
    while (!list_empty(&served)) {
        struct list *node = served.next;
        list_remove(node);
        list_add_tail(&net->conns, node);
    }
    return cut;
}

static void net_send(struct net *base, struct net_conn *conn, struct buf *data)
{
    (void)base;
    buf_add_bytes(&conn->kept, buf_bytes(data));
    data->len = 0;
    (void)conn_flow(conn); /* what goes through at once needs no `drained` */
}

static size_t net_unsent(const struct net *base, const struct net_conn *conn)
{
    (void)base;
    return conn->kept.len;
}

static size_t net_held(const struct net *base, const struct net_conn *conn)
{
    (void)base;
    return conn->shown.cap + conn->kept.cap;
}

static void net_resume(struct net *base, struct net_conn *conn)
{
    (void)base;
    conn->again = true; /* from within input(): conn_show() looks at it afterwards */
}

static void net_close(struct net *base, struct net_conn *conn, bool linger)
{
    (void)base;
    conn->server_closed = true;
    conn->lingering = linger;
    if (!linger)
        conn->kept.len = 0;
}

static void net_stop_listening(struct net *base)
{
    self(base)->listening = false;
}

static const struct net_verbs verbs = {
    .sleep = net_sleep,
    .gather = net_gather,
    .send = net_send,
    .unsent = net_unsent,
    .held = net_held,
    .resume = net_resume,
    .close = net_close,
    .stop_listening = net_stop_listening,
};

struct sim_net *sim_net_new(uint64_t seed)
{
    struct sim_net *net = mem_zalloc(sizeof(*net));
    net->net.verbs = &verbs;
    net->random.state = seed;
    net->listening = true;
    list_init(&net->conns);
    return net;
}

void sim_net_free(struct sim_net *net)
{
    if (!net)
        return;
    while (!list_empty(&net->conns))
        conn_free(LIST_ENTRY(net->conns.next, struct net_conn, place));
    mem_free(net);
}

struct net *sim_net_port(struct sim_net *net)
{
    return &net->net;
}

void sim_net_split(struct sim_net *net, bool split)
{
    net->split = split;
}

void sim_net_listen(struct sim_net *net)
{
    net->listening = true;
    for (struct list *node = net->conns.next; node != &net->conns; node = node->next)
        LIST_ENTRY(node, struct net_conn, place)->server_closed = true;
}

struct sim_peer *sim_net_connect(struct sim_net *net, unsigned listener)
{
    struct sim_peer *peer = mem_zalloc(sizeof(*peer));
    peer->conn.net = net;
    peer->conn.listener = listener;
    peer->conn.window = SIZE_MAX;
    peer->conn.owned_by_test = true;
    peer->conn.server_closed = !net->listening;
    list_add_tail(&net->conns, &peer->conn.place);
    return peer;
}

void sim_peer_free(struct sim_peer *peer)
{
    if (!peer)
        return;
    peer->conn.owned_by_test = false;
    peer->conn.reset = true; /* the next gather tells the server, then frees it */
    if (peer->conn.server_closed)
        conn_free(&peer->conn);
}

void sim_peer_send(struct sim_peer *peer, struct bytes bytes)
{
    if (!peer->conn.server_closed)
        buf_add_bytes(&peer->conn.to_server, bytes);
}

void sim_peer_shut(struct sim_peer *peer)
{
    peer->conn.shut = true;
}

void sim_peer_reset(struct sim_peer *peer)
{
    peer->conn.reset = true;
}

void sim_peer_window(struct sim_peer *peer, size_t bytes)
{
    peer->conn.window = bytes;
}

struct bytes sim_peer_received(const struct sim_peer *peer)
{
    return buf_bytes(&peer->conn.received);
}

void sim_peer_take(struct sim_peer *peer, size_t count)
{
    buf_drop(&peer->conn.received, count);
}

bool sim_peer_closed(const struct sim_peer *peer)
{
    return peer->conn.server_closed;
}

bool sim_net_pending(const struct sim_net *net)
{
    for (const struct list *node = net->conns.next; node != &net->conns; node = node->next) {
        const struct net_conn *conn = LIST_ENTRY(node, struct net_conn, place);
        bool flows = conn->kept.len && conn->window;
        if (conn->server_closed)
            continue;
        bool waits = conn->shown.len && !conn->again; /* for the server to use what was shown */
        bool ends = conn->shut && !(waits ? conn->leaving_told : conn->shut_told);
        if (!conn->opened || conn->reset || conn->again || flows || ends ||
            (conn->to_server.len && !waits))
            return true;
    }
    return false;
}
