/*
 * Sets the options of an easy handle, and explains failures. Peer and host are always verified;
 * redirects are never followed; sockets are made only in open_socket(), which applies the address
 * rule.
 */
#include "sink/webhook/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rfc3339.h"
#include "port/clock.h"

enum {
    IDLE_TRANSFERS_MAX = 512,
    RECEIVE_BYTES = 4096,
    URL_KEPT_BYTES = 4096,
    CERTIFICATE_BYTES_MAX = 256 * 1024,
    SHORTAGE_LOG_US = 60 * 1000 * 1000, /* a shortage is logged no more often than this */
};

void exchange_free(struct exchange *exchange)
{
    answer_fini(&exchange->answer);
    mem_free(exchange);
}

/* ---- descriptors ---- */

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* True: the system has no descriptor left, so files, sockets and name look-ups fail, and no
   receiver is to blame. */
static bool lacks_descriptors(void)
{
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return is_shortage(errno);
    (void)close(fd); /* nothing was written */
    return false;
}

/* ---- what libcurl knows of a transfer ---- */

static int64_t info_us(const struct transfer *transfer, CURLINFO info)
{
    curl_off_t us = 0;
    (void)transfer->sender->curl->easy_getinfo(transfer->easy, info, &us);
    return us;
}

static long info_long(const struct transfer *transfer, CURLINFO info)
{
    long value = 0;
    (void)transfer->sender->curl->easy_getinfo(transfer->easy, info, &value);
    return value;
}

/* ---- libcurl's callbacks ---- */

/* CHECKs that libcurl accepts the option, because some are security rules. The loaded libcurl
   supports all of them. */
#define SET(transfer, option, value)                                                               \
    do {                                                                                           \
        CURLcode set = (transfer)->sender->curl->easy_setopt((transfer)->easy, option, value);     \
        CHECK(set == CURLE_OK);                                                                    \
    } while (0)

static bool is_allowed(const struct sender *sender, const struct sockaddr *address)
{
    uint8_t bytes[ADDRESS_BYTES];
    uint16_t port;
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof(v4));
        address_of_v4((const uint8_t *)&v4.sin_addr, bytes);
        port = ntohs(v4.sin_port);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof(v6));
        memcpy(bytes, &v6.sin6_addr, sizeof(bytes));
        port = ntohs(v6.sin6_port);
    } else {
        return false;
    }
    return address_rule_allows_address(sender->options->rule, bytes) &&
           address_rule_allows_port(sender->options->rule, port);
}

/* The address of a proxy is set by the operator, and always allowed; the proxy must filter
   targets. */
static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *transfer = user;
    const struct sender *sender = transfer->sender;
    bool allowed = transfer->to_unix ? address->family == AF_UNIX
                   : sender->options->proxy[0]
                       ? address->family == AF_INET || address->family == AF_INET6
                       : is_allowed(sender, &address->addr);
    if (purpose != CURLSOCKTYPE_IPCXN || !allowed) {
        transfer->refused_by_rule = true;
        atomic_fetch_add_explicit(&sender->counts->refused, 1, memory_order_relaxed);
        return CURL_SOCKET_BAD;
    }
    transfer->tried_address = true;
    atomic_fetch_add_explicit(&sender->counts->connections, 1, memory_order_relaxed);
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0 && is_shortage(errno))
        transfer->no_descriptor = true;
    return fd;
}

static size_t take_header(char *at, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    struct bytes line = bytes_of(at, size * count);
    struct answer *answer = &transfer->exchange->answer;
    bool more = answer_header(answer, line, transfer->sender->curl->getdate, clock_wall_us());
    if (bytes_starts(line, BYTES("HTTP/")))
        silence_heard(&transfer->sender->silence, info_long(transfer, CURLINFO_LOCAL_PORT), line,
                      clock_monotonic_us());
    if (answer->stray) /* its body would be taken for the answer to the next request */
        SET(transfer, CURLOPT_FORBID_REUSE, 1L);
    return more ? line.len : 0;
}

static size_t take_body(char *at, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    struct bytes bytes = bytes_of(at, size * count);
    return answer_body(&transfer->exchange->answer, bytes) ? bytes.len : 0;
}

/* ---- handles ---- */

/* Sets the options that all exchanges share. */
static void set_constants(struct transfer *transfer)
{
    const struct webhook_options *options = transfer->sender->options;
    SET(transfer, CURLOPT_NOSIGNAL, 1L);
    /* Without it a time-out during a name look-up would wait for the resolver's thread. */
    SET(transfer, CURLOPT_QUICK_EXIT, 1L);
    SET(transfer, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(transfer, CURLOPT_FOLLOWLOCATION, 0L);
    SET(transfer, CURLOPT_PROXY, options->proxy); /* "": no proxy, not even the environment's */
    /* Else the environment's no_proxy could bypass the proxy, and so the filter of targets. */
    SET(transfer, CURLOPT_NOPROXY, "");
    SET(transfer, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(transfer, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    SET(transfer, CURLOPT_HTTP09_ALLOWED, 0L);
    SET(transfer, CURLOPT_SSL_VERIFYPEER, 1L);
    SET(transfer, CURLOPT_SSL_VERIFYHOST, 2L);
    SET(transfer, CURLOPT_POST, 1L);
    SET(transfer, CURLOPT_BUFFERSIZE, (long)RECEIVE_BYTES);
    SET(transfer, CURLOPT_MAXAGE_CONN, (long)SILENCE_AGE_S);
    SET(transfer, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(transfer, CURLOPT_OPENSOCKETDATA, transfer);
    SET(transfer, CURLOPT_HEADERFUNCTION, take_header);
    SET(transfer, CURLOPT_HEADERDATA, transfer);
    SET(transfer, CURLOPT_WRITEFUNCTION, take_body);
    SET(transfer, CURLOPT_WRITEDATA, transfer);
    SET(transfer, CURLOPT_ERRORBUFFER, transfer->error);
    SET(transfer, CURLOPT_PRIVATE, transfer);
}

static void transfer_free(struct transfer *transfer)
{
    const struct curl_api *curl = transfer->sender->curl;
    if (transfer->easy)
        curl->easy_cleanup(transfer->easy);
    curl->url_cleanup(transfer->url);
    buf_fini(&transfer->url_text);
    request_fini(&transfer->request);
    mem_free(transfer);
}

/* NULL: libcurl has no memory. */
static struct transfer *transfer_take(struct sender *sender)
{
    struct transfer *transfer = sender->idle;
    if (transfer) {
        sender->idle = transfer->next;
        sender->idle_count--;
        return transfer;
    }
    transfer = mem_zalloc(sizeof(*transfer));
    transfer->sender = sender;
    request_init(&transfer->request);
    transfer->easy = sender->curl->easy_init();
    if (!transfer->easy) {
        transfer_free(transfer);
        return NULL;
    }
    set_constants(transfer);
    return transfer;
}

/* Files and sockets are the exchange's own, so such a handle is not used again. */
static void transfer_put(struct sender *sender, struct transfer *transfer)
{
    transfer->exchange = NULL;
    if (transfer->has_files || transfer->to_unix || sender->idle_count == IDLE_TRANSFERS_MAX) {
        transfer_free(transfer);
        return;
    }
    buf_reset(&transfer->request.text, URL_KEPT_BYTES);
    transfer->next = sender->idle;
    sender->idle = transfer;
    sender->idle_count++;
}

void sender_fini(struct sender *sender)
{
    while (sender->idle) {
        struct transfer *transfer = sender->idle;
        sender->idle = transfer->next;
        transfer_free(transfer);
    }
    secrets_forget(&sender->secrets);
}

/* ---- outcomes ---- */

static void end_as(struct exchange *exchange, enum outcome_kind kind, const char *reason)
{
    if (reason != exchange->reason)
        (void)snprintf(exchange->reason, sizeof(exchange->reason), "%s", reason);
    exchange->outcome.kind = kind;
    exchange->outcome.reason = bytes_str(exchange->reason);
}

static void explain(struct exchange *exchange, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void explain(struct exchange *exchange, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(exchange->reason, sizeof(exchange->reason), format, arguments);
    va_end(arguments);
}

/* The attempt does not count: nothing was sent, and the receiver has no part in it. */
static void end_in_shortage(struct sender *sender, struct exchange *exchange)
{
    int64_t now_us = clock_wall_us();
    if (!sender->shortage_us || now_us - sender->shortage_us >= SHORTAGE_LOG_US) {
        sender->shortage_us = now_us;
        log_event(LOG_WARN, "webhooks_short",
                  "hint=\"the system has no descriptor left for webhooks, which wait: raise the "
                  "limit of open files (ulimit -n), or lower limits.connections\"");
    }
    end_as(exchange, OUTCOME_UNSENT, "the system has no descriptor left");
}

/* ---- the URL ---- */

static char *url_part(const struct transfer *transfer, CURLUPart part, unsigned flags)
{
    char *text = NULL;
    return transfer->sender->curl->url_get(transfer->url, part, &text, flags) == CURLUE_OK ? text
                                                                                           : NULL;
}

/* Checks the URL and stores its parts. Returns NULL, or why nothing can ever be sent to it. */
static const char *examine_url(struct transfer *transfer)
{
    const struct curl_api *curl = transfer->sender->curl;
    char *scheme = url_part(transfer, CURLUPART_SCHEME, 0);
    char *user = url_part(transfer, CURLUPART_USER, 0);
    char *password = url_part(transfer, CURLUPART_PASSWORD, 0);
    char *host = url_part(transfer, CURLUPART_HOST, 0);
    char *port = url_part(transfer, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    uint64_t number = 0;
    const char *problem = NULL;
    transfer->over_tls = scheme && strcmp(scheme, "https") == 0;
    if (!scheme || (strcmp(scheme, "http") != 0 && !transfer->over_tls))
        problem = "the URL must begin with http:// or https://";
    else if (user || password)
        problem = "the URL must not have a user or password; set a header instead";
    else if (!host || !port || !bytes_to_u64(bytes_str(port), &number) || number > UINT16_MAX)
        problem = "the URL is malformed";
    transfer->port = (uint16_t)number;
    if (!problem)
        (void)snprintf(transfer->host, sizeof(transfer->host), "%.50s:%u", host, transfer->port);
    curl->free(scheme);
    curl->free(user);
    curl->free(password);
    curl->free(host);
    curl->free(port);
    return problem;
}

/* The URL is parsed only once, by libcurl, so that the checked host is the one connected to. */
static const char *set_url(struct transfer *transfer, struct bytes url)
{
    const struct curl_api *curl = transfer->sender->curl;
    if (transfer->url && bytes_eq(buf_bytes(&transfer->url_text), url))
        return NULL;
    curl->url_cleanup(transfer->url);
    transfer->url = curl->url();
    transfer->host[0] = '\0';
    buf_reset(&transfer->url_text, URL_KEPT_BYTES);
    buf_add_bytes(&transfer->url_text, url);
    buf_add_char(&transfer->url_text, '\0');
    const char *problem = NULL;
    if (url.len == 0)
        problem = "there is no URL: neither the job nor its topic has one";
    else if (url.len > TARGET_URL_MAX || memchr(url.at, '\0', url.len) || !transfer->url ||
             curl->url_set(transfer->url, CURLUPART_URL, transfer->url_text.at, 0) != CURLUE_OK)
        problem = "the URL is malformed";
    else
        problem = examine_url(transfer);
    transfer->url_text.len--; /* without the NUL */
    if (problem) {
        curl->url_cleanup(transfer->url);
        transfer->url = NULL;
        return problem;
    }
    SET(transfer, CURLOPT_CURLU, transfer->url);
    return NULL;
}

/* ---- begin ---- */

static bool is_listed(const char *lines, struct bytes path)
{
    while (*lines) {
        size_t len = strcspn(lines, "\n");
        if (bytes_eq(bytes_of(lines, len), path))
            return true;
        lines += len + (lines[len] == '\n');
    }
    return false;
}

enum { PATH_ROOM = TARGET_PATH_MAX + 1 };

/* As a C string in *room; NULL: empty, or longer than a file's name may be. */
static const char *text_of(struct bytes bytes, char room[static PATH_ROOM])
{
    if (bytes.len == 0 || bytes.len >= PATH_ROOM)
        return NULL;
    memcpy(room, bytes.at, bytes.len);
    room[bytes.len] = '\0';
    return room;
}

/* Appends a file. False: it cannot be read, or is longer than any certificate. */
static bool read_file(const char *path, struct buf *out)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    buf_reserve(out, CERTIFICATE_BYTES_MAX);
    size_t len = fread(out->at + out->len, 1, CERTIFICATE_BYTES_MAX, file);
    bool good = len < CERTIFICATE_BYTES_MAX && !ferror(file);
    (void)fclose(file); /* only read from */
    out->len += len;
    return good;
}

/*
 * libcurl reuses a connection if the certificate has the same path, even if the file has changed or
 * the key is another one; for a certificate in memory it compares the bytes. So it gets the
 * certificate in memory, with the path of the key appended, which PEM readers skip.
 */
static void set_certificate(struct transfer *transfer, const char *path, struct bytes key)
{
    struct buf text = {0};
    bool by_path =
        !strstr(transfer->sender->curl->version_info(CURLVERSION_NOW)->ssl_version, "OpenSSL") ||
        !read_file(path, &text); /* libcurl reports what is wrong with the file */
    if (by_path) {
        SET(transfer, CURLOPT_SSLCERT, path);
    } else {
        buf_add_char(&text, '\n');
        buf_add_bytes(&text, key);
        buf_add_char(&text, '\n');
        struct curl_blob blob = {.data = text.at, .len = text.len, .flags = CURL_BLOB_COPY};
        SET(transfer, CURLOPT_SSLCERT_BLOB, &blob);
    }
    buf_fini(&text);
}

/*
 * Replaces the system's authorities, also their directory (CAPATH), which many builds of libcurl
 * search as well. libcurl must not cache what it has read: otherwise it would not notice for a day
 * that the file has changed.
 */
static void set_authorities(struct transfer *transfer, const char *path)
{
    const struct curl_api *curl = transfer->sender->curl;
    SET(transfer, CURLOPT_CAINFO, path);
    CURLcode code = curl->easy_setopt(transfer->easy, CURLOPT_CAPATH, (char *)NULL);
    CHECK(code == CURLE_OK || code == CURLE_NOT_BUILT_IN || code == CURLE_UNKNOWN_OPTION);
    (void)curl->easy_setopt(transfer->easy, CURLOPT_CA_CACHE_TIMEOUT, 0L); /* or it keeps nothing */
}

/* True: not a regular file. Opening a pipe or a device could block the thread of all webhooks
   forever, and a file that text_of() left out would be replaced by the system's. A missing file
   returns false: libcurl reports it. */
static bool is_no_file(struct bytes name)
{
    char room[PATH_ROOM];
    struct stat status;
    const char *path = text_of(name, room);
    return path ? stat(path, &status) == 0 && !S_ISREG(status.st_mode) : name.len > 0;
}

/* False: one of them is not a regular file, and the exchange has ended. */
static bool set_files(struct transfer *transfer, struct exchange *exchange)
{
    const struct target_http *http = &exchange->delivery->target->http;
    char room[PATH_ROOM];
    const char *path;
    if (is_no_file(http->ca) || is_no_file(http->certificate) || is_no_file(http->key)) {
        end_as(exchange, OUTCOME_FAILED,
               "ca, certificate or key of the target cannot be used: it is not a regular file");
        return false;
    }
    transfer->has_files = http->ca.len || http->certificate.len || http->key.len;
    if ((path = text_of(http->ca, room)))
        set_authorities(transfer, path);
    if ((path = text_of(http->certificate, room)))
        set_certificate(transfer, path, http->key);
    if ((path = text_of(http->key.len ? http->key : http->certificate, room)))
        SET(transfer, CURLOPT_SSLKEY, path);
    return true;
}

/* NULL, or why it is not allowed. */
static const char *set_route(struct transfer *transfer, const struct target_http *http)
{
    const struct webhook_options *options = transfer->sender->options;
    char room[PATH_ROOM];
    transfer->to_unix = http->unix_socket.len > 0;
    if (transfer->to_unix) {
        if (!is_listed(options->unix_sockets, http->unix_socket))
            return "not allowed: push.unix_sockets does not list this socket";
        SET(transfer, CURLOPT_UNIX_SOCKET_PATH, text_of(http->unix_socket, room));
        SET(transfer, CURLOPT_PROXY, "");
    } else if (!address_rule_allows_port(options->rule, transfer->port)) {
        return "not allowed: push.ports does not have the port of this URL";
    }
    return NULL;
}

static long milliseconds(int64_t us)
{
    int64_t ms = (us + 999) / 1000;
    return ms < 1 ? 1 : ms > INT32_MAX ? INT32_MAX : (long)ms;
}

static int64_t timeout_of(const struct sender *sender, const struct delivery *delivery)
{
    return delivery->timeout_us > 0 ? delivery->timeout_us : sender->options->timeout_us;
}

static void set_request(struct transfer *transfer, const struct delivery *delivery)
{
    const struct sender *sender = transfer->sender;
    int64_t timeout_us = timeout_of(sender, delivery);
    int64_t connect_us = sender->options->connect_timeout_us;
    bool new = silence_wants_new(&sender->silence, transfer->host, clock_monotonic_us());
    /* Nobody would use it before the receiver is trusted again: it would only push connections of
       other receivers out, and one without any answer yet is not known to be silent. */
    SET(transfer, CURLOPT_FORBID_REUSE, new ? 1L : 0L);
    SET(transfer, CURLOPT_FRESH_CONNECT, new ? 1L : 0L);
    SET(transfer, CURLOPT_HTTPHEADER, transfer->request.list);
    SET(transfer, CURLOPT_POSTFIELDS, delivery->body.len ? delivery->body.at : "");
    SET(transfer, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)delivery->body.len);
    SET(transfer, CURLOPT_TIMEOUT_MS, milliseconds(timeout_us));
    SET(transfer, CURLOPT_CONNECTTIMEOUT_MS,
        milliseconds(connect_us < timeout_us ? connect_us : timeout_us));
}

bool exchange_begin(struct sender *sender, struct exchange *exchange)
{
    struct delivery *delivery = exchange->delivery;
    const struct target_http *http = &delivery->target->http;
    struct secret_problem secret;
    answer_init(&exchange->answer, http, sender->options->response_bytes);
    exchange->outcome = (struct outcome){.untried = true, .retry_after_us = -1};
    struct transfer *transfer = transfer_take(sender);
    if (!transfer) {
        end_as(exchange, OUTCOME_UNSENT, "libcurl has no memory");
        return false;
    }
    transfer->exchange = exchange;
    transfer->refused_by_rule = false;
    transfer->tried_address = false;
    transfer->no_descriptor = false;
    transfer->has_files = false;
    transfer->to_unix = false;
    transfer->error[0] = '\0';
    const char *problem = set_url(transfer, delivery->url);
    if (!problem)
        problem = set_route(transfer, http);
    memcpy(exchange->address, transfer->host, sizeof(exchange->address));
    exchange->outcome.address = bytes_str(exchange->address);
    if (problem) {
        end_as(exchange, OUTCOME_REFUSED, problem);
    } else if (request_make(&transfer->request, delivery, clock_wall_us() / 1000000,
                            &sender->secrets, &secret)) {
        if (lacks_descriptors())
            end_in_shortage(sender, exchange);
        else
            end_as(exchange, OUTCOME_FAILED, secret.text);
    } else if (set_files(transfer, exchange)) {
        set_request(transfer, delivery);
        exchange->transfer = transfer;
        exchange->begun_us = clock_monotonic_us();
        exchange->outcome.untried = false;
        atomic_fetch_add_explicit(&sender->counts->requests, 1, memory_order_relaxed);
        return true;
    }
    transfer_put(sender, transfer);
    return false;
}

/* ---- end ---- */

static void explain_timeout(const struct transfer *transfer, struct exchange *exchange)
{
    char room[DURATION_ROOM];
    int64_t timeout_us = timeout_of(transfer->sender, exchange->delivery);
    int64_t connect_us = transfer->sender->options->connect_timeout_us;
    bool looked_up = info_us(transfer, CURLINFO_NAMELOOKUP_TIME_T) > 0;
    if (info_us(transfer, CURLINFO_PRETRANSFER_TIME_T) == 0)
        explain(exchange, "%s within %s",
                looked_up ? "no connection" : "the name was not looked up",
                duration_print(connect_us < timeout_us ? connect_us : timeout_us, room));
    else if (info_long(transfer, CURLINFO_RESPONSE_CODE))
        explain(exchange, "answered %ld, but not completely within %s",
                info_long(transfer, CURLINFO_RESPONSE_CODE), duration_print(timeout_us, room));
    else
        explain(exchange, "no answer within %s", duration_print(timeout_us, room));
}

static void explain_no_connection(struct transfer *transfer, struct exchange *exchange)
{
    long error = info_long(transfer, CURLINFO_OS_ERRNO);
    if (transfer->refused_by_rule && !transfer->tried_address) {
        explain(exchange,
                "not allowed: the address is not public, and push.allow does not list it");
        exchange->outcome.unhealthy = false;
        exchange->outcome.untried = true;
    } else {
        explain(exchange, "no connection%s%s", error ? ": " : "",
                error ? strerror((int)error) : "");
    }
}

/* libcurl's text of the error, without control characters. */
static const char *detail(struct transfer *transfer, CURLcode result)
{
    for (char *at = transfer->error; *at; at++) {
        if (*at < ' ' || *at > '~')
            *at = ' ';
    }
    return transfer->error[0] ? transfer->error : transfer->sender->curl->easy_strerror(result);
}

static void explain_lost(const struct transfer *transfer, struct exchange *exchange)
{
    long proxy = info_long(transfer, CURLINFO_HTTP_CONNECTCODE);
    if (proxy && (proxy < 200 || proxy > 299))
        explain(exchange, "push.proxy answered %ld", proxy);
    else if (strstr(transfer->error, "chunked-encoding"))
        explain(exchange, "the answer is not HTTP");
    else if (exchange->answer.header_bytes)
        explain(exchange, "the connection was closed in the middle of the answer");
    else
        explain(exchange, "the connection was closed without an answer");
}

/* Sets the reason of an exchange without a complete answer. */
static void explain_failure(struct transfer *transfer, struct exchange *exchange, CURLcode result)
{
    exchange->outcome.kind = OUTCOME_FAILED;
    exchange->outcome.unhealthy = true;
    switch ((int)result) {
    case CURLE_COULDNT_RESOLVE_HOST:
        explain(exchange, "the name %.*s does not resolve",
                (int)(strrchr(exchange->address, ':') - exchange->address), exchange->address);
        break;
    case CURLE_COULDNT_RESOLVE_PROXY:
        explain(exchange, "the name of push.proxy does not resolve");
        break;
    case CURLE_COULDNT_CONNECT: explain_no_connection(transfer, exchange); break;
    case CURLE_OPERATION_TIMEDOUT: explain_timeout(transfer, exchange); break;
    case CURLE_PEER_FAILED_VERIFICATION:
        explain(exchange, "its certificate is not accepted: %.160s", detail(transfer, result));
        break;
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
        explain(exchange, "ca, certificate or key of the target cannot be used: %.140s",
                detail(transfer, result));
        exchange->outcome.unhealthy = false;
        exchange->outcome.untried = true;
        break;
    case CURLE_SSL_CONNECT_ERROR:
        explain(exchange, "TLS failed: %.180s", detail(transfer, result));
        break;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY: explain(exchange, "the answer is not HTTP"); break;
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: explain_lost(transfer, exchange); break;
    default: explain(exchange, "%.200s", detail(transfer, result)); break;
    }
    exchange->outcome.reason = bytes_str(exchange->reason);
}

/* Of one that failed. True: it was not sent because the system had no descriptor left. */
static bool is_unsent(const struct transfer *transfer)
{
    return info_us(transfer, CURLINFO_PRETRANSFER_TIME_T) == 0 &&
           (transfer->no_descriptor || lacks_descriptors());
}

void exchange_end(struct sender *sender, struct exchange *exchange, CURLcode result)
{
    struct transfer *transfer = exchange->transfer;
    struct answer *answer = &exchange->answer;
    struct outcome *outcome = &exchange->outcome;
    outcome->took_us = info_us(transfer, CURLINFO_TOTAL_TIME_T);
    outcome->response = buf_bytes(&answer->kept);
    outcome->code = (uint16_t)info_long(transfer, CURLINFO_RESPONSE_CODE);
    if (result == CURLE_OPERATION_TIMEDOUT && !answer->header_bytes)
        silence_timed_out(&sender->silence, info_long(transfer, CURLINFO_LOCAL_PORT),
                          transfer->host, exchange->begun_us, clock_monotonic_us());
    if (answer->flooded) {
        end_as(exchange, OUTCOME_FAILED, "the answer has more than 64 KiB of headers");
        outcome->unhealthy = true;
    } else if (result == CURLE_OK || answer->cut) {
        answer_judge(answer, outcome->code, outcome, exchange->reason);
    } else if (is_unsent(transfer)) {
        end_in_shortage(sender, exchange);
    } else {
        explain_failure(transfer, exchange, result);
    }
    atomic_fetch_add_explicit(&sender->counts->response_bytes, answer->body_bytes,
                              memory_order_relaxed);
    exchange->transfer = NULL;
    transfer_put(sender, transfer);
}

void exchange_abandon(struct sender *sender, struct exchange *exchange, const char *why)
{
    if (exchange->transfer)
        transfer_put(sender, exchange->transfer);
    exchange->transfer = NULL;
    exchange->outcome = (struct outcome){.retry_after_us = -1};
    end_as(exchange, OUTCOME_UNSENT, why);
}
