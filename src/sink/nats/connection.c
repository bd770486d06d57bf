/*
 * The connection to NATS: its options, opening and closing. libnats has threads of its own, whose
 * callbacks set flags under nats::mutex; the broker's thread reads them.
 *
 * While libnats reconnects, it would keep published messages in memory and send them later, after
 * dispatch/ has sent them again: ReconnectBufSize 1 makes it refuse them instead (0 means 8 MB in
 * 3.4.1).
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/time_us.h"
#include "sink/broker_url.h"
#include "sink/nats/parts.h"

enum {
    CONNECT_MS = 2000,    /* for all addresses together, if none answers, … */
    CONNECT_MIN_MS = 500, /* … but for each at least this: connecting cannot be interrupted, so
                             laterd's shutdown waits for it, 5 s at most */
    RECONNECT_MS = 200,
    REST_MAX_MS = 5000,
};

static const struct broker_url_kind url_kind = {.plain = "nats", .tls = "nats+tls", .port = 4222};

/* ---- called by libnats' threads ---- */

static void take_why(struct nats *nats, natsConnection *connection)
{
    const char *text = NULL;
    natsStatus status = natsConnection_GetLastError(connection, &text);
    if (status != NATS_OK)
        (void)snprintf(nats->why, sizeof(nats->why), "%.150s",
                       text && text[0] ? text : natsStatus_GetText(status));
}

static void on_connected(natsConnection *connection, void *closure)
{
    struct nats *nats = closure;
    (void)connection;
    (void)pthread_mutex_lock(&nats->mutex);
    nats->connected = true;
    (void)pthread_mutex_unlock(&nats->mutex);
    jetstream_wake(nats);
}

static void on_disconnected(natsConnection *connection, void *closure)
{
    struct nats *nats = closure;
    (void)pthread_mutex_lock(&nats->mutex);
    nats->connected = false;
    nats->dropped = true;
    (void)snprintf(nats->why, sizeof(nats->why), "the connection ended");
    take_why(nats, connection);
    (void)pthread_mutex_unlock(&nats->mutex);
    jetstream_wake(nats);
}

static void on_closed(natsConnection *connection, void *closure)
{
    struct nats *nats = closure;
    (void)pthread_mutex_lock(&nats->mutex);
    nats->connected = false;
    nats->dropped = nats->closed = true;
    take_why(nats, connection);
    (void)pthread_mutex_unlock(&nats->mutex);
    jetstream_wake(nats);
}

/* Without this callback libnats would write to standard error. */
static void on_error(natsConnection *connection, natsSubscription *subscription, natsStatus status,
                     void *closure)
{
    const struct nats *nats = closure;
    (void)connection;
    (void)subscription;
    log_event(LOG_DEBUG, "nats_library", "name=%s error=\"%s\"", nats->options.name,
              natsStatus_GetText(status));
}

/* ---- options ---- */

static void option_text(const struct broker_url *url, struct bytes name,
                        char room[BROKER_WORD_BYTES])
{
    struct bytes value = broker_url_option(url, name); /* shorter than the query, which fits */
    (void)snprintf(room, BROKER_WORD_BYTES, "%.*s", (int)value.len, value.at);
}

/* Sets the credentials: files that the URL names, a token, or user and password. */
static natsStatus set_user(natsOptions *options, const struct broker_url *url)
{
    char credentials[BROKER_WORD_BYTES], seed[BROKER_WORD_BYTES];
    option_text(url, BYTES("credentials"), credentials);
    option_text(url, BYTES("nkey"), seed);
    if (credentials[0])
        return natsOptions_SetUserCredentialsFromFiles(options, credentials, NULL);
    if (seed[0])
        return natsOptions_SetNKeyFromSeed(options, url->user, seed);
    if (url->user[0] && !url->password[0])
        return natsOptions_SetToken(options, url->user);
    return url->user[0] ? natsOptions_SetUserInfo(options, url->user, url->password) : NATS_OK;
}

static natsStatus set_tls(natsOptions *options, const struct broker_options *ours,
                          const struct broker_url *url)
{
    natsStatus status = NATS_OK;
    if (!url->tls)
        return NATS_OK;
    status = natsOptions_SetSecure(options, true);
    if (status == NATS_OK && ours->ca[0])
        status = natsOptions_LoadCATrustedCertificates(options, ours->ca);
    if (status == NATS_OK && ours->certificate[0])
        status = natsOptions_LoadCertificatesChain(options, ours->certificate, ours->key);
    return status;
}

static natsStatus set_times(natsOptions *options, const struct broker_options *ours,
                            unsigned host_count)
{
    int64_t timeout_ms = ours->timeout_us / 1000, heartbeat_ms = ours->heartbeat_us / 1000;
    int64_t connect_ms = host_count > 1 ? CONNECT_MS / host_count : CONNECT_MS;
    connect_ms = connect_ms < CONNECT_MIN_MS ? CONNECT_MIN_MS : connect_ms;
    natsStatus status =
        natsOptions_SetTimeout(options, timeout_ms < connect_ms ? timeout_ms : connect_ms);
    if (status == NATS_OK && heartbeat_ms > 0)
        status = natsOptions_SetPingInterval(options, heartbeat_ms);
    if (status == NATS_OK)
        status = natsOptions_SetMaxPingsOut(options, 1);
    if (status == NATS_OK)
        status = natsOptions_SetReconnectWait(options, RECONNECT_MS);
    if (status == NATS_OK)
        status = natsOptions_SetMaxReconnect(options, -1); /* without a limit */
    if (status == NATS_OK)
        status = natsOptions_SetReconnectBufSize(options, 1);
    if (status == NATS_OK)
        status = natsOptions_SetWriteDeadline(options, timeout_ms);
    return status;
}

static natsStatus set_callbacks(natsOptions *options, struct nats *nats)
{
    natsStatus status = natsOptions_SetErrorHandler(options, on_error, nats);
    if (status == NATS_OK)
        status = natsOptions_SetDisconnectedCB(options, on_disconnected, nats);
    if (status == NATS_OK)
        status = natsOptions_SetReconnectedCB(options, on_connected, nats);
    if (status == NATS_OK)
        status = natsOptions_SetClosedCB(options, on_closed, nats);
    if (status == NATS_OK)
        status = natsOptions_SetRetryOnFailedConnect(options, true, on_connected, nats);
    return status;
}

/* `nats` NULL: only checks that the options can be made. Returns NULL: out_status says why. */
static natsOptions *make_options(const struct broker_options *ours, const struct broker_url *url,
                                 struct nats *nats, natsStatus *out_status)
{
    const char *servers[BROKER_HOSTS_MAX];
    natsOptions *options = NULL;
    for (unsigned i = 0; i < url->host_count; i++)
        servers[i] = url->hosts[i];
    natsStatus status = natsOptions_Create(&options);
    if (status == NATS_OK)
        status = natsOptions_SetServers(options, servers, (int)url->host_count);
    if (status == NATS_OK)
        status = natsOptions_SetName(options, "laterd");
    if (status == NATS_OK)
        status = set_user(options, url);
    if (status == NATS_OK)
        status = set_tls(options, ours, url);
    if (status == NATS_OK)
        status = set_times(options, ours, url->host_count);
    if (status == NATS_OK && nats)
        status = set_callbacks(options, nats);
    *out_status = status;
    if (status == NATS_OK)
        return options;
    natsOptions_Destroy(options);
    return NULL;
}

/* True: a file that the options name cannot be read now. */
static bool lacks_file(const struct broker_options *options)
{
    const char *const files[] = {options->ca, options->certificate, options->key};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (files[i][0] && access(files[i], R_OK))
            return true;
    }
    return false;
}

enum err jetstream_check(const struct broker_options *options, struct broker_error *out_error)
{
    struct broker_url url;
    struct broker_url_error error;
    natsStatus status;
    if (broker_url_check(options->url, &url_kind, &url, &error)) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "%s", error.text);
        return ERR_INVALID;
    }
    natsOptions *made = make_options(options, &url, NULL, &status);
    if (!made) {
        (void)snprintf(out_error->text, sizeof(out_error->text),
                       "libnats refuses its options (check ca, certificate and key): %.100s",
                       natsStatus_GetText(status));
        return url.tls && lacks_file(options) ? ERR_NOT_FOUND : ERR_INVALID;
    }
    natsOptions_Destroy(made);
    return OK;
}

/* ---- opening and ending ---- */

static void be_away(struct nats *nats, const char *why)
{
    char hosts[100] = "", reason[OUTCOME_REASON_MAX];
    struct broker_url url;
    struct broker_url_error error;
    if (!broker_url_find(nats->options.url, &url_kind, &url, &error))
        broker_url_hosts(&url, hosts, sizeof(hosts));
    (void)snprintf(reason, sizeof(reason), "NATS is away (%.90s): %.120s", hosts,
                   why[0] ? why : "it is not connected yet");
    nats->ready = false;
    broker_set_ready(nats->thread, false, reason);
}

static void rest(struct nats *nats)
{
    nats->open_at_us = broker_now_us() + nats->rest_ms * 1000;
    nats->rest_ms = backoff_after(nats->rest_ms, REST_MAX_MS);
}

natsStatus jetstream_make_stream(struct nats *nats)
{
    jsOptions options;
    natsStatus status = jsOptions_Init(&options);
    if (status != NATS_OK)
        return status;
    options.PublishAsync.MaxPending = 1000000; /* never reached: broker_thread limits the window */
    options.PublishAsync.AckHandler = jetstream_on_answer;
    options.PublishAsync.AckHandlerClosure = nats;
    return natsConnection_JetStream(&nats->stream, nats->connection, &options);
}

void jetstream_connect(struct nats *nats)
{
    struct broker_url url;
    struct broker_url_error error;
    natsStatus status = NATS_OK;
    if (broker_url_find(nats->options.url, &url_kind, &url, &error)) {
        be_away(nats, error.text);
        rest(nats);
        return;
    }
    if (!jetstream_look_up(nats, &url, time_earlier(nats->options.timeout_us, CONNECT_MS * 1000))) {
        be_away(nats, "the name server does not answer in time");
        rest(nats);
        return;
    }
    natsOptions *options = make_options(&nats->options, &url, nats, &status);
    nats->connected = nats->dropped = nats->closed = false; /* no callbacks yet */
    if (options)
        status = natsConnection_Connect(&nats->connection, options);
    natsOptions_Destroy(options);
    bool here = status == NATS_OK;
    if (here || (status == NATS_NOT_YET_CONNECTED && !nats->left_out))
        status = jetstream_make_stream(nats);
    if (here)
        on_connected(nats->connection, nats);
    if (status != NATS_OK || !nats->connection) {
        be_away(nats, natsStatus_GetText(status));
        rest(nats);
        jetstream_close(nats);
    }
}

void jetstream_close(struct nats *nats)
{
    jetstream_forget_pushes(nats);
    jsCtx_Destroy(nats->stream);
    natsConnection_Destroy(nats->connection);
    nats->stream = NULL;
    nats->connection = NULL;
}

void jetstream_look_at_connection(struct nats *nats)
{
    char why[sizeof(nats->why)];
    (void)pthread_mutex_lock(&nats->mutex);
    bool connected = nats->connected, dropped = nats->dropped, closed = nats->closed;
    nats->dropped = false;
    memcpy(why, nats->why, sizeof(why));
    (void)pthread_mutex_unlock(&nats->mutex);
    if (dropped) {
        be_away(nats, why);
        jetstream_unsend_all(nats, "the connection to NATS ended before it was acknowledged");
        if (!closed)
            jetstream_forget_lost(nats);
        if (!closed && nats->left_out)
            natsConnection_Close(nats->connection); /* to connect with all servers */
    }
    if (closed) {
        jetstream_close(nats);
        rest(nats);
    } else if (connected && !nats->ready) {
        nats->ready = true;
        nats->rest_ms = REST_MS;
        broker_set_ready(nats->thread, true, "");
    } else if (!connected && !dropped && !nats->ready) {
        be_away(nats, why);
    }
}

bool jetstream_is_closed(struct nats *nats)
{
    (void)pthread_mutex_lock(&nats->mutex);
    bool closed = nats->closed;
    (void)pthread_mutex_unlock(&nats->mutex);
    return closed;
}
