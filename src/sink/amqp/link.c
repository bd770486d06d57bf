#include "sink/amqp/link.h"

#include <amqp_framing.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "os/ca_file.h"
#include "sink/broker_thread.h"
#include "sink/reference.h"

enum { CHANNELS_MAX = 64, FRAME_BYTES = 131072 };

static struct timeval timeval_of(int64_t us)
{
    return (struct timeval){.tv_sec = us / 1000000, .tv_usec = us % 1000000};
}

void rabbit_link_init(struct rabbit_link *link, const struct broker_options *options,
                      const char *purpose)
{
    *link = (struct rabbit_link){.options = options, .purpose = purpose, .fd = -1};
    (void)pthread_mutex_init(&link->mutex, NULL); /* cannot fail on Linux */
    (void)snprintf(link->why, sizeof(link->why), "it is not connected yet");
}

void rabbit_link_fini(struct rabbit_link *link)
{
    rabbit_link_close(link, false);
    (void)pthread_mutex_destroy(&link->mutex);
}

/* ---- reasons ---- */

static void add_text(struct rabbit_link *link, const char *what, int code, amqp_bytes_t text)
{
    (void)snprintf(link->why, sizeof(link->why), "%s: %d %.*s", what, code,
                   text.len > 150 ? 150 : (int)text.len, (const char *)text.bytes);
}

/* What RabbitMQ has said itself stays. */
static void explain(struct rabbit_link *link, const char *what, int status)
{
    if (link->told)
        return;
    (void)snprintf(link->why, sizeof(link->why), "%s: %s", what, amqp_error_string2(status));
}

/* True: RabbitMQ closed the connection for something that it was sent. */
static bool is_refusal(const amqp_connection_close_t *end)
{
    return end->reply_code != AMQP_CONNECTION_FORCED; /* that one: RabbitMQ stops */
}

bool rabbit_link_explain(struct rabbit_link *link, const char *what, amqp_rpc_reply_t reply)
{
    switch (reply.reply_type) {
    case AMQP_RESPONSE_NORMAL: return true;
    case AMQP_RESPONSE_NONE:
    case AMQP_RESPONSE_LIBRARY_EXCEPTION: explain(link, what, reply.library_error); break;
    case AMQP_RESPONSE_SERVER_EXCEPTION:
        if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
            const amqp_connection_close_t *end = reply.reply.decoded;
            add_text(link, what, end->reply_code, end->reply_text);
            link->told = true;
            /* Not the answer to the call, which is NOT_ALLOWED (too many channels), but to a
               message that was sent before it. */
            link->refused = is_refusal(end) && end->reply_code != AMQP_NOT_ALLOWED;
        } else if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
            const amqp_channel_close_t *end = reply.reply.decoded;
            add_text(link, what, end->reply_code, end->reply_text);
        } else {
            (void)snprintf(link->why, sizeof(link->why), "%s: an unknown answer", what);
        }
        break;
    }
    return false;
}

/* ---- opening ---- */

enum err rabbit_url_check(const char *url, struct broker_error *out_error)
{
    struct amqp_connection_info info;
    struct buf copy = {0};
    if (reference_is(url))
        return OK;
    buf_add(&copy, url, strlen(url) + 1);
    int status = amqp_parse_url(copy.at, &info); /* writes NULs into it */
    buf_fini(&copy);
    if (!status)
        return OK;
    (void)snprintf(out_error->text, sizeof(out_error->text),
                   "url: must be amqp://user:password@host:port/vhost, or amqps://…, with special "
                   "characters percent-encoded");
    return ERR_INVALID;
}

static bool set_tls(struct rabbit_link *link, amqp_socket_t *socket)
{
    const struct broker_options *options = link->options;
    const char *key = options->key[0] ? options->key : options->certificate;
    const char *ca;
    char why[CA_FILE_WHY_MAX];
    if (ca_file_find(options->ca, &ca, why)) {
        (void)snprintf(link->why, sizeof(link->why), "ca: %s", why);
        return false;
    }
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 1);
    int status = amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
    if (status)
        explain(link, "TLS 1.2", status);
    else if ((status = amqp_ssl_socket_set_cacert(socket, ca)) != 0)
        explain(link, ca, status);
    else if (options->certificate[0] &&
             (status = amqp_ssl_socket_set_key(socket, options->certificate, key)) != 0)
        explain(link, options->certificate, status);
    return status == 0;
}

static void set_fd(struct rabbit_link *link, int fd)
{
    (void)pthread_mutex_lock(&link->mutex);
    link->fd = fd;
    (void)pthread_mutex_unlock(&link->mutex);
}

static bool log_in(struct rabbit_link *link, const struct amqp_connection_info *info)
{
    char name[96];
    (void)snprintf(name, sizeof(name), "laterd %s %s", link->options->name, link->purpose);
    amqp_table_entry_t blocked = {.key = amqp_cstring_bytes("connection.blocked"),
                                  .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}};
    amqp_table_entry_t cancels = {.key = amqp_cstring_bytes("consumer_cancel_notify"),
                                  .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}};
    amqp_table_entry_t can[] = {blocked, cancels};
    amqp_table_entry_t entries[] = {
        {.key = amqp_cstring_bytes("capabilities"),
         .value = {.kind = AMQP_FIELD_KIND_TABLE,
                   .value.table = {.num_entries = 2, .entries = can}}},
        {.key = amqp_cstring_bytes("connection_name"),
         .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(name)}},
    };
    const amqp_table_t properties = {.num_entries = 2, .entries = entries};
    int heartbeat_s = (int)(link->options->heartbeat_us / 1000000);
    return rabbit_link_explain(link, "it refuses the log-in",
                               amqp_login_with_properties(link->state, info->vhost, CHANNELS_MAX,
                                                          FRAME_BYTES, heartbeat_s, &properties,
                                                          AMQP_SASL_METHOD_PLAIN, info->user,
                                                          info->password));
}

static bool connect_to(struct rabbit_link *link, const struct amqp_connection_info *info)
{
    struct timeval timeout = timeval_of(link->options->timeout_us);
    link->state = amqp_new_connection();
    amqp_socket_t *socket = NULL;
    if (link->state)
        socket = info->ssl ? amqp_ssl_socket_new(link->state) : amqp_tcp_socket_new(link->state);
    if (!socket) {
        (void)snprintf(link->why, sizeof(link->why), "there is no memory for a connection");
        return false;
    }
    if (info->ssl && !set_tls(link, socket))
        return false;
    (void)amqp_set_handshake_timeout(link->state, &timeout); /* of one that is new: cannot fail */
    (void)amqp_set_rpc_timeout(link->state, &timeout);
    int status = amqp_socket_open_noblock(socket, info->host, info->port, &timeout);
    if (status) {
        explain(link, "it cannot be reached", status);
        return false;
    }
    set_fd(link, amqp_get_sockfd(link->state));
    return log_in(link, info);
}

bool rabbit_link_open(struct rabbit_link *link)
{
    struct buf url = {0};
    struct amqp_connection_info info;
    link->told = false;
    bool good = reference_read(link->options->url, &url, link->why, sizeof(link->why)) == OK;
    if (good && amqp_parse_url(url.at, &info)) {
        (void)snprintf(link->why, sizeof(link->why), "its url is not amqp://… or amqps://…");
        good = false;
    }
    good = good && connect_to(link, &info);
    buf_fini(&url);
    link->blocked = link->refused = link->held = false;
    if (!good)
        rabbit_link_close(link, false);
    return good;
}

void rabbit_link_close(struct rabbit_link *link, bool in_order)
{
    struct timeval soon = timeval_of(1000000);
    if (!link->state)
        return;
    if (in_order && !link->blocked) {
        (void)amqp_set_rpc_timeout(link->state, &soon);
        (void)amqp_connection_close(link->state, AMQP_REPLY_SUCCESS); /* it ends in any case */
    }
    set_fd(link, -1);
    (void)amqp_destroy_connection(link->state); /* the same */
    link->state = NULL;
    atomic_store(&link->sending_since_us, 0);
}

bool rabbit_link_open_channel(struct rabbit_link *link, amqp_channel_t channel, bool confirms)
{
    rabbit_link_let_go(link); /* the call below waits for an answer */
    rabbit_link_begin_send(link);
    (void)amqp_channel_open(link->state, channel); /* the reply says it */
    bool good = rabbit_link_explain(link, "it opens no channel", amqp_get_rpc_reply(link->state));
    if (good && confirms) {
        (void)amqp_confirm_select(link->state, channel); /* the same */
        good = rabbit_link_explain(link, "it confirms nothing", amqp_get_rpc_reply(link->state));
    }
    atomic_store(&link->sending_since_us, 0);
    return good;
}

/* ---- frames ---- */

/* Handles a frame of channel 0. False: the connection was closed. */
static bool take_of_connection(struct rabbit_link *link, const amqp_frame_t *frame)
{
    if (frame->frame_type != AMQP_FRAME_METHOD)
        return true;
    if (frame->payload.method.id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *end = frame->payload.method.decoded;
        amqp_connection_close_ok_t bye = {.dummy = 0};
        add_text(link, "it closed the connection", end->reply_code, end->reply_text);
        link->told = true;
        link->refused = is_refusal(end);
        (void)amqp_send_method(link->state, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &bye);
        return false;
    }
    if (frame->payload.method.id == AMQP_CONNECTION_BLOCKED_METHOD) {
        const amqp_connection_blocked_t *blocked = frame->payload.method.decoded;
        link->blocked = true;
        (void)snprintf(link->why, sizeof(link->why), "it takes no messages now: %.*s",
                       blocked->reason.len > 100 ? 100 : (int)blocked->reason.len,
                       (const char *)blocked->reason.bytes);
    } else if (frame->payload.method.id == AMQP_CONNECTION_UNBLOCKED_METHOD) {
        link->blocked = false;
    }
    return true;
}

enum rabbit_next rabbit_link_next(struct rabbit_link *link, amqp_frame_t *out_frame)
{
    struct timeval at_once = {.tv_sec = 0};
    for (;;) {
        int status = amqp_simple_wait_frame_noblock(link->state, out_frame, &at_once);
        if (status == AMQP_STATUS_TIMEOUT)
            return RABBIT_NOTHING;
        if (status) {
            explain(link, "the connection was lost", status);
            return RABBIT_BROKEN;
        }
        if (out_frame->channel != 0)
            return RABBIT_FRAME;
        if (!take_of_connection(link, out_frame))
            return RABBIT_BROKEN;
    }
}

void rabbit_link_release(struct rabbit_link *link)
{
    amqp_maybe_release_buffers(link->state);
}

static void sleep_on(struct rabbit_link *link, short events, int other_fd, int most_ms)
{
    struct pollfd fds[2] = {{.fd = amqp_get_sockfd(link->state), .events = events},
                            {.fd = other_fd, .events = POLLIN}};
    if (amqp_frames_enqueued(link->state) || amqp_data_in_buffer(link->state))
        return;
    (void)poll(fds, 2, most_ms); /* whatever the result, the caller reads again */
}

void rabbit_link_sleep(struct rabbit_link *link, int other_fd, int most_ms)
{
    sleep_on(link, POLLIN, other_fd, most_ms);
}

void rabbit_link_sleep_until_writable(struct rabbit_link *link, int most_ms)
{
    sleep_on(link, POLLIN | POLLOUT, -1, most_ms);
}

void rabbit_sleep_on(int fd, int most_ms)
{
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    (void)poll(&watched, 1, most_ms); /* as above */
}

bool rabbit_link_writable(const struct rabbit_link *link)
{
    struct pollfd fd = {.fd = amqp_get_sockfd(link->state), .events = POLLOUT};
    return poll(&fd, 1, 0) > 0; /* also true if broken: the next call reports that */
}

static void set_cork(struct rabbit_link *link, int cork)
{
    int fd = amqp_get_sockfd(link->state);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CORK, &cork, sizeof(cork)); /* only an optimization */
    link->held = cork;
}

void rabbit_link_hold(struct rabbit_link *link)
{
    if (!link->held)
        set_cork(link, 1);
}

void rabbit_link_let_go(struct rabbit_link *link)
{
    if (link->held)
        set_cork(link, 0);
}

void rabbit_link_begin_send(struct rabbit_link *link)
{
    atomic_store(&link->sending_since_us, (long long)broker_now_us());
}

bool rabbit_link_end_send(struct rabbit_link *link, int status)
{
    atomic_store(&link->sending_since_us, 0);
    if (status)
        explain(link, "the connection was lost", status);
    return status == 0;
}

bool rabbit_link_keep_alive(struct rabbit_link *link)
{
    const amqp_frame_t heartbeat = {.frame_type = AMQP_FRAME_HEARTBEAT};
    int64_t every_us = (int64_t)amqp_get_heartbeat(link->state) * 1000000 / 2;
    int64_t now_us = broker_now_us();
    if (!every_us || now_us - link->kept_alive_us < every_us)
        return true;
    link->kept_alive_us = now_us;
    rabbit_link_begin_send(link);
    return rabbit_link_end_send(link, amqp_send_frame(link->state, &heartbeat));
}

int64_t rabbit_link_stuck_us(const struct rabbit_link *link)
{
    long long since_us = atomic_load(&link->sending_since_us);
    return since_us ? broker_now_us() - since_us : 0;
}

void rabbit_link_interrupt(struct rabbit_link *link)
{
    (void)pthread_mutex_lock(&link->mutex);
    if (link->fd >= 0)
        (void)shutdown(link->fd, SHUT_RDWR); /* it may be broken already */
    (void)pthread_mutex_unlock(&link->mutex);
}
