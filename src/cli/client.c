#include "cli/client.h"

#include <arpa/inet.h>
#include <assert.h>
#include <curl/curl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

enum {
    POLL_MS = 60000,
    RECEIVE_BYTES = 256 * 1024,
    SEND_BYTES = 512 * 1024, /* a batch of a bulk push in one piece */
};

static_assert(sizeof(((struct client *)NULL)->reason) >= CURL_ERROR_SIZE, "libcurl writes so much");

/* An option of the handle. It fails only for one that this libcurl was built without. */
#define SET(client, option, value)                                                                 \
    CHECK(curl_easy_setopt((client)->easy, option, value) == CURLE_OK)

/* ---- where the server is ---- */

static enum err invalid(struct client *client, const char *what, const char *why)
{
    const char *at = strrchr(what, '@'); /* a password before it is not shown */
    (void)snprintf(client->error, sizeof(client->error), "'%s%.200s' is not a server: %s",
                   at ? "…" : "", at ? at : what, why); /* cut short if need be */
    return ERR_INVALID;
}

/* Is the host this machine? Then no proxy is used, whatever the environment says. */
static bool is_loopback(const char *host)
{
    struct in_addr four;
    size_t len = strlen(host), tail = strlen(".localhost");
    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return strcmp(host, "[::1]") == 0 || strcasecmp(host, "localhost") == 0 ||
           (len > tail && strcasecmp(host + len - tail, ".localhost") == 0);
}

static void set_text(struct buf *out, const char *text, size_t len)
{
    buf_add(out, text, len);
    buf_add_char(out, '\0');
}

static void set_base(struct client *client, const char *url)
{
    size_t len = strlen(url);
    while (len > 0 && url[len - 1] == '/')
        len--;
    set_text(&client->base, url, len);
    set_text(&client->name, url, len);
}

static enum err use_socket(struct client *client, const char *url)
{
    if (strcmp(url, "unix:") == 0)
        return invalid(client, url, "give unix:/run/laterd.sock");
    SET(client, CURLOPT_UNIX_SOCKET_PATH, url + strlen("unix:"));
    SET(client, CURLOPT_PROXY, "");
    set_text(&client->base, "http://localhost", strlen("http://localhost"));
    set_text(&client->name, url, strlen(url));
    return OK;
}

/* Takes user and password out of the URL. False: they hold control characters. */
static bool take_user(struct client *client, CURLU *parts)
{
    char *user = NULL, *password = NULL;
    CURLUcode bad_user = curl_url_get(parts, CURLUPART_USER, &user, CURLU_URLDECODE);
    CURLUcode bad_password = curl_url_get(parts, CURLUPART_PASSWORD, &password, CURLU_URLDECODE);
    bool good = (!bad_user || bad_user == CURLUE_NO_USER) &&
                (!bad_password || bad_password == CURLUE_NO_PASSWORD);
    if (good && user) {
        SET(client, CURLOPT_USERNAME, user);
        SET(client, CURLOPT_PASSWORD, password ? password : "");
        SET(client, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
        client->has_credentials = true;
    }
    curl_free(user);
    curl_free(password);
    (void)curl_url_set(parts, CURLUPART_USER, NULL, 0);     /* cannot fail: it is taken away */
    (void)curl_url_set(parts, CURLUPART_PASSWORD, NULL, 0); /* as above */
    return good;
}

static bool has_part(CURLU *parts, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(parts, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return has;
}

/* The parts of a URL with a scheme. */
static enum err use_parts(struct client *client, const char *given, CURLU *parts)
{
    char *scheme = NULL, *host = NULL, *url = NULL, port[8];
    enum err err = OK;
    (void)snprintf(port, sizeof(port), "%d", CLIENT_PORT); /* it fits */
    if (!take_user(client, parts))
        err = invalid(client, given, "the user or the password is no text");
    else if (curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) ||
             (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        err = invalid(client, given, "give http://HOST:PORT, https://HOST or unix:PATH");
    else if (has_part(parts, CURLUPART_QUERY) || has_part(parts, CURLUPART_FRAGMENT))
        err = invalid(client, given, "a URL of a server ends with its path");
    else if (strcmp(scheme, "http") == 0 && !has_part(parts, CURLUPART_PORT) &&
             curl_url_set(parts, CURLUPART_PORT, port, 0))
        err = invalid(client, given, "it takes no port");
    else if (curl_url_get(parts, CURLUPART_HOST, &host, 0) ||
             curl_url_get(parts, CURLUPART_URL, &url, 0))
        err = invalid(client, given, "it has no host");
    if (!err && is_loopback(host))
        SET(client, CURLOPT_PROXY, "");
    if (!err)
        set_base(client, url);
    curl_free(scheme);
    curl_free(host);
    curl_free(url);
    return err;
}

/* A port alone, which libcurl would take for an address of four bytes: 9277 is 0.0.36.61. */
static enum err refuse_port(struct client *client, const char *given)
{
    char why[64];
    (void)snprintf(why, sizeof(why), "give http://127.0.0.1:%.5s", given); /* it fits */
    return invalid(client, given, why);
}

static enum err use_url(struct client *client, const char *given)
{
    enum { PORT_DIGITS = 5 };
    struct buf text = {0};
    size_t digits = strspn(given, "0123456789");
    if (strncmp(given, "unix:", 5) == 0)
        return use_socket(client, given);
    if (digits > 0 && digits <= PORT_DIGITS && given[digits] == '\0')
        return refuse_port(client, given);
    buf_add_str(&text, strstr(given, "://") ? "" : "http://");
    buf_add_str(&text, given);
    buf_add_char(&text, '\0');
    CURLU *parts = curl_url();
    CHECK(parts);
    CURLUcode bad = curl_url_set(parts, CURLUPART_URL, text.at, 0);
    enum err err = bad ? invalid(client, given, "give http://HOST:PORT, https://HOST or unix:PATH")
                       : use_parts(client, given, parts);
    curl_url_cleanup(parts);
    buf_fini(&text);
    return err;
}

/* ---- options ---- */

static enum err use_user(struct client *client, const char *user)
{
    if (!strchr(user, ':')) {
        (void)snprintf(client->error, sizeof(client->error),
                       "the user is given as NAME:PASSWORD"); /* it fits */
        return ERR_INVALID;
    }
    SET(client, CURLOPT_USERPWD, user);
    SET(client, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    client->has_credentials = true;
    return OK;
}

static void use_token(struct client *client, const char *token)
{
    SET(client, CURLOPT_USERPWD, NULL);
    SET(client, CURLOPT_XOAUTH2_BEARER, token);
    SET(client, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    client->has_credentials = true;
}

static void use_tls(struct client *client, const struct client_options *options)
{
    SET(client, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2); /* or newer */
    if (options->cacert) {
        SET(client, CURLOPT_CAINFO, options->cacert);
        /* In place of the system's: its directory would be looked at as well, if there is one. */
        (void)curl_easy_setopt(client->easy, CURLOPT_CAPATH, NULL);
    }
    if (options->cert) {
        SET(client, CURLOPT_SSLCERT, options->cert);
        SET(client, CURLOPT_SSLKEY, options->key ? options->key : options->cert);
    }
    SET(client, CURLOPT_SSL_VERIFYPEER, options->insecure ? 0L : 1L);
    SET(client, CURLOPT_SSL_VERIFYHOST, options->insecure ? 0L : 2L);
}

/* libcurl is about to send the request. The second time it would be sent again: see client.h. */
static int on_send(void *ctx, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
    struct client *client = ctx;
    (void)remote_ip, (void)local_ip, (void)remote_port, (void)local_port;
    return client->sent++ == 0 ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

static size_t on_body(char *at, size_t size, size_t count, void *ctx)
{
    struct client *client = ctx;
    if (client->body.len + size * count > CLIENT_ANSWER_MAX)
        return 0;
    buf_add(&client->body, at, size * count);
    return size * count;
}

static void set_defaults(struct client *client)
{
    SET(client, CURLOPT_NOSIGNAL, 1L); /* SIGALRM and SIGPIPE are not libcurl's business */
    SET(client, CURLOPT_ERRORBUFFER, client->reason);
    SET(client, CURLOPT_USERAGENT, "later/" LATERD_VERSION);
    SET(client, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    SET(client, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(client, CURLOPT_PATH_AS_IS, 1L);    /* a topic may be called ".." */
    SET(client, CURLOPT_TCP_KEEPALIVE, 1L); /* a long poll is silent for minutes */
    SET(client, CURLOPT_BUFFERSIZE, (long)RECEIVE_BYTES);
    SET(client, CURLOPT_UPLOAD_BUFFERSIZE, (long)SEND_BYTES);
    SET(client, CURLOPT_WRITEFUNCTION, on_body);
    SET(client, CURLOPT_WRITEDATA, client);
    SET(client, CURLOPT_PREREQFUNCTION, on_send);
    SET(client, CURLOPT_PREREQDATA, client);
}

enum err client_init(struct client *client, const struct client_options *options)
{
    *client = (struct client){0};
    CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    client->easy = curl_easy_init();
    client->multi = curl_multi_init();
    CHECK(client->easy && client->multi);
    set_defaults(client);
    use_tls(client, options);
    enum err err = use_url(client, options->url);
    if (!err && options->token)
        use_token(client, options->token);
    else if (!err && options->user)
        err = use_user(client, options->user);
    return err;
}

void client_fini(struct client *client)
{
    curl_easy_cleanup(client->easy);
    if (client->multi)
        (void)curl_multi_cleanup(client->multi); /* fails only for a bad handle */
    buf_fini(&client->base);
    buf_fini(&client->name);
    buf_fini(&client->url);
    buf_fini(&client->body);
    client->easy = client->multi = NULL;
}

/* ---- what went wrong ---- */

/* Writes client->error: "WHAT URL: WHY", and what to do if there is something. */
static void explain(struct client *client, const char *what, const char *why, const char *hint)
{
    (void)snprintf(client->error, sizeof(client->error), "%s %s: %s%s%s", what, client->name.at,
                   why, *hint ? "; " : "", hint); /* cut short if need be: it is for people */
}

static long long value_of(struct client *client, CURLINFO info)
{
    curl_off_t value = 0;
    CHECK(curl_easy_getinfo(client->easy, info, &value) == CURLE_OK);
    return value;
}

/* What curl goes by. */
static bool has_proxy(void)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                        "ALL_PROXY"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return true;
    }
    return false;
}

static void explain_connect(struct client *client, const char *why)
{
    long number = 0;
    CHECK(curl_easy_getinfo(client->easy, CURLINFO_OS_ERRNO, &number) == CURLE_OK);
    char *host = NULL;
    CURLU *parts = curl_url();
    bool direct = !has_proxy();
    if (!direct && parts && !curl_url_set(parts, CURLUPART_URL, client->base.at, 0) &&
        !curl_url_get(parts, CURLUPART_HOST, &host, 0))
        direct = strncmp(client->name.at, "unix:", 5) == 0 || strstr(why, host);
    curl_free(host);
    curl_url_cleanup(parts);
    if (direct)
        explain(client, "cannot connect to", number ? strerror((int)number) : why,
                "does laterd run there? --server or LATER_SERVER says where");
    else
        explain(client, "cannot connect to", why, "the environment's proxy was asked");
}

/* The connection is there no more, or was never whole. */
static void explain_lost(struct client *client, const char *why)
{
    if (strstr(why, "CONNECT tunnel failed"))
        explain(client, "cannot connect to", why, "the environment's proxy was asked");
    else if (client->sent > 0)
        explain(client, "lost", "it closed the connection without an answer",
                "whether it did what was asked is not known");
    else
        explain(client, "lost", why, "");
    client->lost = client->sent > 0;
}

static void explain_tls(struct client *client, CURLcode code, const char *why)
{
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        explain(client, "does not trust the certificate of", why,
                "--cacert FILE says whom to trust, --insecure trusts anybody");
    else if (code == CURLE_SSL_CONNECT_ERROR && strstr(why, "wrong version number"))
        explain(client, "no TLS from", "it speaks something else", "is it an http:// server?");
    else
        explain(client, "no TLS with", why, "");
}

static void explain_failure(struct client *client, CURLcode code)
{
    const char *why = *client->reason ? client->reason : curl_easy_strerror(code);
    switch ((int)code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        explain(client, "cannot find", why, "--server or LATER_SERVER says where laterd is");
        break;
    case CURLE_COULDNT_RESOLVE_PROXY:
        explain(client, "cannot find the proxy to", why, "see the environment's …_proxy");
        break;
    case CURLE_COULDNT_CONNECT: explain_connect(client, why); break;
    case CURLE_OPERATION_TIMEDOUT:
        if (value_of(client, CURLINFO_PRETRANSFER_TIME_T) == 0)
            explain(client, "cannot connect to", "the time is up (--timeout)", "");
        else
            explain(client, "no answer from", "the time is up (--timeout)", "");
        break;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE: explain_tls(client, code, why); break;
    case CURLE_ABORTED_BY_CALLBACK: /* on_send() */
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE: explain_lost(client, why); break;
    case CURLE_WRITE_ERROR: explain(client, "bad answer from", "it is too long", ""); break;
    default: explain(client, "bad answer from", why, "is it a laterd?");
    }
}

/* ---- a call ---- */

/* The request that is set up, from beginning to end. */
static CURLcode perform(struct client *client)
{
    int running = 1, left;
    CURLMcode bad = curl_multi_add_handle(client->multi, client->easy);
    while (!bad && running) {
        bad = curl_multi_perform(client->multi, &running);
        if (bad || !running)
            break;
        struct curl_waitfd keys = {.fd = client->watch_fd, .events = CURL_WAIT_POLLIN};
        bad = curl_multi_poll(client->multi, &keys, client->watch ? 1 : 0, POLL_MS, NULL);
        if (client->watch && keys.revents)
            client->interrupted = client->watch();
        if (client->interrupted) { /* an answer that is there is taken: it may hold a job */
            (void)curl_multi_perform(client->multi, &running);
            break;
        }
    }
    const CURLMsg *end = curl_multi_info_read(client->multi, &left);
    CURLcode code = end ? end->data.result : CURLE_ABORTED_BY_CALLBACK;
    (void)curl_multi_remove_handle(client->multi, client->easy); /* fails for one not in it */
    return code;
}

static struct curl_slist *headers_of(const struct client_request *request)
{
    struct buf type = {0};
    buf_addf(&type, "Content-Type:%s%s", request->content_type ? " " : "",
             request->content_type ? request->content_type : "");
    buf_add_char(&type, '\0');
    struct curl_slist *headers = curl_slist_append(NULL, "Expect:"); /* no 100-continue */
    CHECK(headers && curl_slist_append(headers, type.at));
    buf_fini(&type);
    CHECK(!request->header || curl_slist_append(headers, request->header));
    return headers;
}

/* Rounded up: libcurl takes 0 for "no limit", and no more than an int holds. */
static long milliseconds(int64_t us)
{
    return us / 1000 < INT_MAX ? (long)(us / 1000 + 1) : INT_MAX;
}

static void set_request(struct client *client, const struct client_request *request)
{
    bool has_body = request->content_type || strcmp(request->method, "POST") == 0;
    client->url.len = 0;
    buf_add_str(&client->url, client->base.at);
    buf_add_bytes(&client->url, request->target);
    buf_add_char(&client->url, '\0');
    SET(client, CURLOPT_URL, client->url.at);
    SET(client, CURLOPT_HTTPGET, 1L);
    if (has_body) {
        SET(client, CURLOPT_POSTFIELDS, request->body.len > 0 ? request->body.at : "");
        SET(client, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
    }
    SET(client, CURLOPT_CUSTOMREQUEST, request->method);
    SET(client, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(request->connect_us));
    SET(client, CURLOPT_TIMEOUT_MS, milliseconds(request->timeout_us));
}

enum err client_call(struct client *client, const struct client_request *request,
                     struct client_answer *out_answer)
{
    struct curl_slist *headers = headers_of(request);
    client->body.len = 0;
    client->sent = 0;
    client->lost = false;
    client->reason[0] = client->error[0] = '\0';
    set_request(client, request);
    SET(client, CURLOPT_HTTPHEADER, headers);
    CURLcode code = perform(client);
    SET(client, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    if (code) {
        explain_failure(client, code);
        return ERR_IO;
    }
    long status = 0;
    const char *type = NULL, *location = NULL;
    CHECK(curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK);
    CHECK(curl_easy_getinfo(client->easy, CURLINFO_CONTENT_TYPE, &type) == CURLE_OK);
    CHECK(curl_easy_getinfo(client->easy, CURLINFO_REDIRECT_URL, &location) == CURLE_OK);
    *out_answer = (struct client_answer){.status = (int)status,
                                         .content_type = bytes_str(type ? type : ""),
                                         .location = bytes_str(location ? location : ""),
                                         .body = buf_bytes(&client->body)};
    return OK;
}
