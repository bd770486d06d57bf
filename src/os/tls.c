/*
 * Owns what OpenSSL allocates. OpenSSL keeps errors in a queue of each thread, which must be empty
 * before each call, because SSL_get_error() reads it.
 */
#include "os/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifdef LATERD_NO_TLS

static enum err refuse_all(struct tls_error *out_error)
{
    (void)snprintf(out_error->text, sizeof(out_error->text),
                   "TLS is configured, but this laterd was built without TLS: install a build with "
                   "it, or use a TLS tunnel, or no TLS on a private network");
    return ERR_UNSUPPORTED;
}

enum err tls_client_new(const struct tls_options *options, struct tls **out_tls,
                        struct tls_error *out_error)
{
    (void)options, (void)out_tls;
    return refuse_all(out_error);
}

enum err tls_server_new(const struct tls_options *options, struct tls **out_tls,
                        struct tls_error *out_error)
{
    (void)options, (void)out_tls;
    return refuse_all(out_error);
}

void tls_free(struct tls *tls)
{
    (void)tls;
}

struct tls_session *tls_begin(struct tls *tls, int fd, const char *host)
{
    (void)tls, (void)fd, (void)host;
    return NULL;
}

void tls_end(struct tls_session *session)
{
    (void)session;
}

ssize_t tls_send(struct tls_session *session, const void *at, size_t len)
{
    (void)session, (void)at, (void)len;
    return -1;
}

ssize_t tls_receive(struct tls_session *session, void *room, size_t room_bytes)
{
    (void)session, (void)room, (void)room_bytes;
    return -1;
}

bool tls_needs_input(const struct tls_session *session)
{
    (void)session;
    return false;
}

bool tls_has_pending(const struct tls_session *session)
{
    (void)session;
    return false;
}

enum tls_handshake_result tls_handshake(struct tls_session *session)
{
    (void)session;
    return TLS_FAILED;
}

size_t tls_held_bytes(const struct tls_session *session)
{
    (void)session;
    return 0;
}

void tls_close_notify(struct tls_session *session)
{
    (void)session;
}

const char *tls_error(const struct tls_session *session)
{
    (void)session;
    return "";
}

void tls_count_memory(void)
{
}

#else

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include "base/mem.h"

/* What a session takes without buffers, and with both, which hold a record each: estimates. */
enum { SESSION_BYTES = 24 * 1024, SESSION_FULL_BYTES = SESSION_BYTES + 2 * 17 * 1024 };

struct tls {
    SSL_CTX *context;
};

struct tls_session {
    SSL *ssl;
    bool waits;
    char error[128];
};

/* ---- memory ---- */

static void *count_alloc(size_t size_bytes, const char *file, int line)
{
    (void)file, (void)line;
    return mem_alloc(size_bytes);
}

static void *count_realloc(void *old, size_t size_bytes, const char *file, int line)
{
    (void)file, (void)line;
    return mem_realloc(old, size_bytes);
}

static void count_free(void *at, const char *file, int line)
{
    (void)file, (void)line;
    mem_free(at);
}

/* OpenSSL refuses once it has allocated memory: after an earlier call of this, or because another
 * library of this process uses it. Then its memory is not counted. */
void tls_count_memory(void)
{
    (void)CRYPTO_set_mem_functions(count_alloc, count_realloc, count_free);
}

static const char *last_error(void)
{
    unsigned long error = ERR_peek_last_error();
    const char *reason = error ? ERR_reason_error_string(error) : NULL;
    return reason ? reason : strerror(errno);
}

/* Of a file that cannot be opened OpenSSL says no more than "system lib". */
static enum err refuse(const struct tls_options *options, struct tls_error *error, const char *key,
                       const char *file)
{
    const char *why = file[0] && access(file, R_OK) ? strerror(errno) : last_error();
    (void)snprintf(error->text, sizeof(error->text), "%.40s%s = %.200s: %.100s", options->keys, key,
                   file, why);
    return ERR_IO;
}

/* Makes an encrypted key an error: by default OpenSSL would ask for a password on the terminal. */
static int no_password(char *room, int room_bytes, int writing, void *ctx)
{
    (void)room, (void)room_bytes, (void)writing, (void)ctx;
    return -1;
}

/* Loads the certificate and key that prove who we are. */
static enum err load_certificate(SSL_CTX *context, const struct tls_options *options,
                                 struct tls_error *error)
{
    if (SSL_CTX_use_certificate_chain_file(context, options->certificate) != 1)
        return refuse(options, error, "certificate", options->certificate);
    const char *key = options->key[0] ? options->key : options->certificate;
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        return refuse(options, error, "key", key);
    return OK;
}

static enum err set_up_client(SSL_CTX *context, const struct tls_options *options,
                              struct tls_error *error)
{
    int good = options->ca[0] ? SSL_CTX_load_verify_file(context, options->ca)
                              : SSL_CTX_set_default_verify_paths(context);
    if (!good)
        return refuse(options, error, "ca", options->ca);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    return options->certificate[0] ? load_certificate(context, options, error) : OK;
}

static enum err set_up_server(SSL_CTX *context, const struct tls_options *options,
                              struct tls_error *error)
{
    static const unsigned char id[] = "laterd";                /* sessions of ours may be resumed */
    (void)SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS); /* most clients are idle mostly */
    (void)SSL_CTX_set_session_id_context(context, id, sizeof(id) - 1); /* it is short enough */
    (void)SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);       /* costs us more than them */
    if (!options->certificate[0]) {
        (void)snprintf(error->text, sizeof(error->text), "%.40scertificate is missing",
                       options->keys);
        return ERR_IO;
    }
    enum err err = load_certificate(context, options, error);
    if (err || !options->ca[0])
        return err;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(options->ca); /* for clients to choose */
    if (!names || !SSL_CTX_load_verify_file(context, options->ca)) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return refuse(options, error, "ca", options->ca);
    }
    SSL_CTX_set_client_CA_list(context, names);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return OK;
}

static enum err tls_new(const SSL_METHOD *method,
                        enum err (*set_up)(SSL_CTX *context, const struct tls_options *options,
                                           struct tls_error *error),
                        const struct tls_options *options, struct tls **out_tls,
                        struct tls_error *out_error)
{
    tls_count_memory();
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(method);
    if (!context) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "TLS: %s", last_error());
        return ERR_IO;
    }
    (void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION); /* a version that it knows */
    SSL_CTX_set_default_passwd_cb(context, no_password);
    /* What is still to be sent grows and moves between two tries. */
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    enum err err = set_up(context, options, out_error);
    if (err) {
        SSL_CTX_free(context);
        return err;
    }
    struct tls *tls = mem_alloc(sizeof(*tls));
    tls->context = context;
    *out_tls = tls;
    return OK;
}

enum err tls_client_new(const struct tls_options *options, struct tls **out_tls,
                        struct tls_error *out_error)
{
    return tls_new(TLS_client_method(), set_up_client, options, out_tls, out_error);
}

enum err tls_server_new(const struct tls_options *options, struct tls **out_tls,
                        struct tls_error *out_error)
{
    return tls_new(TLS_server_method(), set_up_server, options, out_tls, out_error);
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    mem_free(tls);
}

/* A numeric address must be in the certificate as an address. */
static bool expect_host(SSL *ssl, const char *host)
{
    struct in6_addr digits;
    bool is_address =
        inet_pton(AF_INET, host, &digits) == 1 || inet_pton(AF_INET6, host, &digits) == 1;
    if (is_address)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct tls_session *tls_begin(struct tls *tls, int fd, const char *host)
{
    SSL *ssl = SSL_new(tls->context);
    if (!ssl || SSL_set_fd(ssl, fd) != 1 || (host && !expect_host(ssl, host))) {
        SSL_free(ssl); /* NULL does nothing */
        return NULL;
    }
    if (host)
        SSL_set_connect_state(ssl);
    else
        SSL_set_accept_state(ssl);
    struct tls_session *session = mem_zalloc(sizeof(*session));
    session->ssl = ssl;
    return session;
}

void tls_end(struct tls_session *session)
{
    if (!session)
        return;
    SSL_free(session->ssl);
    mem_free(session);
}

/* Converts the result of an OpenSSL call to what send() and recv() would return. */
static ssize_t outcome(struct tls_session *session, int returned, size_t done)
{
    int error = returned == 1 ? SSL_ERROR_NONE : SSL_get_error(session->ssl, returned);
    long verified = SSL_get_verify_result(session->ssl);
    session->waits = error == SSL_ERROR_WANT_READ;
    if (error == SSL_ERROR_NONE)
        return (ssize_t)done;
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        errno = EAGAIN;
        return -1;
    }
    if (verified != X509_V_OK)
        (void)snprintf(session->error, sizeof(session->error), "TLS: the certificate: %s",
                       X509_verify_cert_error_string(verified));
    else
        (void)snprintf(session->error, sizeof(session->error), "TLS: %s",
                       error == SSL_ERROR_SYSCALL && errno == 0 ? "it closed the connection"
                                                                : last_error());
    errno = EPROTO;
    return -1;
}

enum tls_handshake_result tls_handshake(struct tls_session *session)
{
    ERR_clear_error();
    errno = 0;
    int returned = SSL_do_handshake(session->ssl);
    ssize_t came_to = outcome(session, returned, 1);
    if (came_to > 0)
        return TLS_DONE;
    if (came_to == 0) { /* closed in the middle of the handshake */
        (void)snprintf(session->error, sizeof(session->error), "TLS: it closed the connection");
        return TLS_FAILED;
    }
    if (errno != EAGAIN)
        return TLS_FAILED;
    return session->waits ? TLS_WANTS_INPUT : TLS_WANTS_ROOM;
}

/* OpenSSL sends a record at a time; a socket takes as much as there is room for. */
ssize_t tls_send(struct tls_session *session, const void *at, size_t len)
{
    size_t all = 0;
    ssize_t sent;
    do {
        size_t some = 0;
        ERR_clear_error();
        errno = 0;
        int returned = SSL_write_ex(session->ssl, (const char *)at + all, len - all, &some);
        sent = outcome(session, returned, some);
        all += sent > 0 ? (size_t)sent : 0;
    } while (sent > 0 && all < len);
    return all ? (ssize_t)all : sent;
}

ssize_t tls_receive(struct tls_session *session, void *room, size_t room_bytes)
{
    size_t got = 0;
    ERR_clear_error();
    errno = 0;
    int returned = SSL_read_ex(session->ssl, room, room_bytes, &got);
    return outcome(session, returned, got);
}

bool tls_needs_input(const struct tls_session *session)
{
    return session->waits;
}

bool tls_has_pending(const struct tls_session *session)
{
    return SSL_pending(session->ssl) > 0; /* SSL_has_pending() is true of half a record, too */
}

size_t tls_held_bytes(const struct tls_session *session)
{
    return SSL_has_pending(session->ssl) || SSL_want_write(session->ssl) ? SESSION_FULL_BYTES
                                                                         : SESSION_BYTES;
}

void tls_close_notify(struct tls_session *session)
{
    ERR_clear_error();
    (void)SSL_shutdown(session->ssl); /* what does not go at once does not go */
}

const char *tls_error(const struct tls_session *session)
{
    return session->error;
}

#endif
