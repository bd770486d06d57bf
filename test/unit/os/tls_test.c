/*
 * TLS under a stream, against OpenSSL's own server in the same thread: only a server that proves
 * what it is is talked to, and no byte that was decrypted ahead is forgotten.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#ifdef LATERD_NO_TLS

int main(void)
{
    return 0;
}

#else

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/listen.h"
#include "os/loop.h"
#include "os/tls.h"

enum { TURNS_MAX = 20000, RECORD_BYTES = 15 * 1000, BIG_BYTES = 300 * 1000 };

static char dir[] = "/tmp/laterd-tls-XXXXXX";
static char certificate[64], key[64], other[64];

struct bed {
    struct os_clock clock;
    struct os_loop *os;
    struct loop *loop;
    struct stream *stream;
    struct tls *tls;
    struct buf got;
    bool opened, half, gone;
    char error[160];
    int listen_fd, far_fd;
    SSL_CTX *context;
    SSL *ssl;
    struct buf far_got, far_out;
};

static void opened(struct stream *stream)
{
    ((struct bed *)stream->user)->opened = true;
}

static size_t input(struct stream *stream, struct bytes bytes)
{
    buf_add_bytes(&((struct bed *)stream->user)->got, bytes);
    return bytes.len;
}

static void gone(struct stream *stream, bool half)
{
    struct bed *bed = stream->user;
    bed->half |= half;
    if (half)
        return;
    (void)snprintf(bed->error, sizeof(bed->error), "%s", stream->error);
    bed->gone = true;
    bed->stream = NULL;
}

static const struct stream_handler handler = {.opened = opened, .input = input, .gone = gone};

static void make_certificate(const char *name, const char *host, char *path)
{
    char command[512];
    (void)snprintf(path, 64, "%s/%s.pem", dir, name);
    (void)snprintf(command, sizeof(command),
                   "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=%s -addext "
                   "subjectAltName=%s -keyout %s/%s.key -out %s 2>/dev/null",
                   name, host, dir, name, path);
    assert_int_equal(system(command), 0);
}

static int make_files(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(dir));
    make_certificate("good", "IP:127.0.0.1,DNS:localhost", certificate);
    make_certificate("other", "DNS:other.example", other);
    (void)snprintf(key, sizeof(key), "%s/good.key", dir);
    return 0;
}

static int remove_files(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    return system(command);
}

/* A server with the certificate, and a client that trusts `ca`. */
static void open_bed(struct bed *bed, const char *cert, const char *cert_key, const char *ca)
{
    struct sockaddr_in address = {0};
    socklen_t len = sizeof(address);
    struct tls_error error;
    *bed = (struct bed){.far_fd = -1};
    os_clock_init(&bed->clock);
    bed->os = os_loop_new(&bed->clock.clock, 0);
    bed->loop = os_loop_port(bed->os);
    assert_int_equal(listen_open("127.0.0.1:0", &bed->listen_fd), OK);
    assert_int_equal(getsockname(bed->listen_fd, (struct sockaddr *)&address, &len), 0);
    bed->context = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate_chain_file(bed->context, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(bed->context, cert_key, SSL_FILETYPE_PEM), 1);
    struct tls_options options = {.keys = "redis.tls_", .ca = ca, .certificate = "", .key = ""};
    assert_int_equal(tls_client_new(&options, &bed->tls, &error), OK);
    struct stream_options stream = {.host = "127.0.0.1",
                                    .port = ntohs(address.sin_port),
                                    .tls = bed->tls,
                                    .timeout_us = 5000000,
                                    .silent_s = 60,
                                    .handler = &handler,
                                    .user = bed};
    bed->stream = bed->loop->verbs->connect(bed->loop, &stream);
}

static void close_bed(struct bed *bed)
{
    if (bed->stream)
        stream_close(bed->stream, STREAM_DROP);
    os_loop_free(bed->os);
    tls_free(bed->tls);
    SSL_free(bed->ssl);
    SSL_CTX_free(bed->context);
    (void)close(bed->listen_fd);
    if (bed->far_fd >= 0)
        (void)close(bed->far_fd);
    buf_fini(&bed->got);
    buf_fini(&bed->far_got);
    buf_fini(&bed->far_out);
}

static void far_poll(struct bed *bed)
{
    char room[16384];
    size_t count = 0;
    if (bed->far_fd < 0) {
        bed->far_fd = accept4(bed->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (bed->far_fd < 0)
            return;
        bed->ssl = SSL_new(bed->context);
        (void)SSL_set_fd(bed->ssl, bed->far_fd);
        SSL_set_accept_state(bed->ssl);
    }
    if (SSL_read_ex(bed->ssl, room, sizeof(room), &count) == 1)
        buf_add(&bed->far_got, room, count);
    if (bed->far_out.len &&
        SSL_write_ex(bed->ssl, bed->far_out.at,
                     bed->far_out.len < sizeof(room) ? bed->far_out.len : sizeof(room),
                     &count) == 1)
        buf_drop(&bed->far_out, count);
}

#define UNTIL(bed, condition)                                                                      \
    do {                                                                                           \
        for (int turns = 0; !(condition) && turns < TURNS_MAX; turns++) {                          \
            far_poll(bed);                                                                         \
            loop_turn((bed)->loop, (bed)->loop->clock->now_us((bed)->loop->clock) + 500);          \
        }                                                                                          \
        assert_true(condition);                                                                    \
    } while (0)

static void a_server_that_proves_what_it_is_is_talked_to(void **state)
{
    (void)state;
    struct bed bed;
    struct buf hello = {0};
    open_bed(&bed, certificate, key, certificate);
    buf_add_str(&hello, "hello"); /* before the handshake: it is kept */
    stream_send(bed.stream, &hello);
    UNTIL(&bed, bed.opened && bytes_eq(buf_bytes(&bed.far_got), BYTES("hello")));
    for (int i = 0; i < BIG_BYTES; i++) {
        if (i == RECORD_BYTES) /* one record, larger than what is read at first */
            UNTIL(&bed, bed.got.len == RECORD_BYTES);
        buf_add_char(&bed.far_out, (char)i);
    }
    UNTIL(&bed, bed.got.len == BIG_BYTES);
    for (int i = 0; i < BIG_BYTES; i++)
        assert_int_equal(bed.got.at[i], (char)i);
    (void)SSL_shutdown(bed.ssl);
    UNTIL(&bed, bed.half);
    buf_fini(&hello);
    close_bed(&bed);
}

static void one_of_an_unknown_authority_is_left(void **state)
{
    (void)state;
    struct bed bed;
    open_bed(&bed, certificate, key, other);
    UNTIL(&bed, bed.gone);
    assert_non_null(strstr(bed.error, "TLS: the certificate: self"));
    assert_false(bed.opened);
    close_bed(&bed);
}

static void one_that_is_another_host_is_left(void **state)
{
    (void)state;
    struct bed bed;
    char other_key[64];
    (void)snprintf(other_key, sizeof(other_key), "%s/other.key", dir);
    open_bed(&bed, other, other_key, other);
    UNTIL(&bed, bed.gone);
    assert_non_null(strstr(bed.error, "TLS: the certificate: IP address mismatch"));
    assert_false(bed.opened);
    close_bed(&bed);
}

static void a_file_that_cannot_be_used_is_named(void **state)
{
    (void)state;
    struct tls *tls = NULL;
    struct tls_error error;
    struct tls_options options = {
        .keys = "redis.tls_", .ca = certificate, .certificate = "/nowhere.pem", .key = ""};
    assert_int_equal(tls_client_new(&options, &tls, &error), ERR_IO);
    assert_non_null(strstr(error.text, "redis.tls_certificate = /nowhere.pem: "));
    assert_null(tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_proves_what_it_is_is_talked_to),
        cmocka_unit_test(one_of_an_unknown_authority_is_left),
        cmocka_unit_test(one_that_is_another_host_is_left),
        cmocka_unit_test(a_file_that_cannot_be_used_is_named),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}

#endif
