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

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "base/mem.h"
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
    if (bed->listen_fd >= 0)
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
    if (!bed->ssl)
        return;
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

/* ---- listeners ---- */

enum { HANDSHAKE_US = 5 * 1000 * 1000 };

/* A listener, whose clients are `stream`s of the bed, and a client by OpenSSL alone. */
struct listening {
    struct bed bed; /* .tls is the listener's */
    struct acceptor acceptor;
    unsigned accepted;
};

static void client_came(struct acceptor *acceptor, struct stream *stream, unsigned listener)
{
    struct listening *listening = LIST_ENTRY(acceptor, struct listening, acceptor);
    assert_int_equal(listener, 7);
    listening->accepted++;
    listening->bed.stream = stream;
    stream->handler = &handler;
    stream->user = &listening->bed;
}

/* `ca`: who clients must be known to; empty: they are not asked. */
static void listen_by_tls(struct listening *listening, const char *ca, int64_t timeout_us)
{
    struct sockaddr_in address = {0};
    socklen_t len = sizeof(address);
    struct tls_error error;
    struct bed *bed = &listening->bed;
    struct tls_options options = {.keys = "tls_", .ca = ca, .certificate = certificate, .key = key};
    *listening = (struct listening){.acceptor.accepted = client_came};
    os_clock_init(&bed->clock);
    bed->os = os_loop_new(&bed->clock.clock, 0);
    bed->loop = os_loop_port(bed->os);
    bed->loop->acceptor = &listening->acceptor;
    assert_int_equal(tls_server_new(&options, &bed->tls, &error), OK);
    assert_int_equal(listen_open("127.0.0.1:0", &bed->listen_fd), OK);
    assert_int_equal(getsockname(bed->listen_fd, (struct sockaddr *)&address, &len), 0);
    os_loop_listen_tls(bed->os, bed->listen_fd, 7, bed->tls, timeout_us);
    bed->listen_fd = -1; /* the loop's */
    bed->far_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(bed->far_fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(fcntl(bed->far_fd, F_SETFL, O_NONBLOCK), 0);
}

/* The client begins its handshake. `cert` NULL: it has none. */
static void begin_client(struct bed *bed, const char *ca, const char *cert, const char *cert_key)
{
    bed->context = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_load_verify_file(bed->context, ca), 1);
    SSL_CTX_set_verify(bed->context, SSL_VERIFY_PEER, NULL);
    if (cert) {
        assert_int_equal(SSL_CTX_use_certificate_chain_file(bed->context, cert), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(bed->context, cert_key, SSL_FILETYPE_PEM), 1);
    }
    bed->ssl = SSL_new(bed->context);
    (void)SSL_set_fd(bed->ssl, bed->far_fd);
    assert_int_equal(SSL_set1_host(bed->ssl, "localhost"), 1);
    SSL_set_connect_state(bed->ssl);
}

static void end_listening(struct listening *listening)
{
    listening->bed.listen_fd = -1;
    close_bed(&listening->bed);
}

static bool far_has_gone(struct bed *bed)
{
    char room[64];
    return recv(bed->far_fd, room, sizeof(room), MSG_PEEK) == 0 || errno == ECONNRESET;
}

static void a_listener_talks_to_its_clients_by_tls(void **state)
{
    (void)state;
    struct listening listening;
    struct bed *bed = &listening.bed;
    struct buf big = {0};
    listen_by_tls(&listening, "", HANDSHAKE_US);
    begin_client(bed, certificate, NULL, NULL);
    buf_add_str(&bed->far_out, "hello");
    UNTIL(bed, bytes_eq(buf_bytes(&bed->got), BYTES("hello")));
    assert_int_equal(listening.accepted, 1);
    assert_false(bed->opened); /* that is of those that we open */
    for (int i = 0; i < BIG_BYTES; i++)
        buf_add_char(&big, (char)i);
    stream_send(bed->stream, &big);
    UNTIL(bed, bed->far_got.len == BIG_BYTES);
    for (int i = 0; i < BIG_BYTES; i++)
        assert_int_equal(bed->far_got.at[i], (char)i);
    for (int i = 0; i < BIG_BYTES; i++)
        buf_add_char(&bed->far_out, (char)(i / 3));
    UNTIL(bed, bed->got.len == 5 + BIG_BYTES);
    for (int i = 0; i < BIG_BYTES; i++)
        assert_int_equal(bed->got.at[5 + i], (char)(i / 3));
    buf_fini(&big);
    end_listening(&listening);
}

/* What the client writes from now on is kept; the record of `text` is returned, as raw bytes. */
static struct buf raw_record(struct bed *bed, const char *text)
{
    struct buf raw = {0};
    char *at = NULL;
    BIO *kept = BIO_new(BIO_s_mem());
    SSL_set0_wbio(bed->ssl, kept);
    assert_int_equal(SSL_write(bed->ssl, text, (int)strlen(text)), (int)strlen(text));
    long len = BIO_get_mem_data(kept, &at);
    buf_add(&raw, at, (size_t)len);
    return raw;
}

/* Its rest may take seconds, or never come: nothing can be done before, and the loop sleeps. */
static void half_a_record_is_waited_for_asleep(void **state)
{
    (void)state;
    struct listening listening;
    struct bed *bed = &listening.bed;
    listen_by_tls(&listening, "", HANDSHAKE_US);
    begin_client(bed, certificate, NULL, NULL);
    buf_add_str(&bed->far_out, "hello");
    UNTIL(bed, bed->got.len == 5);
    struct buf raw = raw_record(bed, ", world");
    size_t halves[] = {3, raw.len / 2, raw.len}; /* within the header, within the body */
    for (size_t sent = 0, i = 0; i < sizeof(halves) / sizeof(halves[0]); sent = halves[i++]) {
        ssize_t count = (ssize_t)(halves[i] - sent);
        assert_int_equal(send(bed->far_fd, raw.at + sent, (size_t)count, MSG_NOSIGNAL), count);
        if (halves[i] == raw.len)
            break;
        for (int turns = 0; turns < 3; turns++) /* they are received */
            loop_turn(bed->loop, bed->loop->clock->now_us(bed->loop->clock) + 1000);
        int64_t begun_us = os_boot_us();
        loop_turn(bed->loop, bed->loop->clock->now_us(bed->loop->clock) + 50 * 1000);
        assert_true(os_boot_us() - begun_us > 40 * 1000);
    }
    UNTIL(bed, bytes_eq(buf_bytes(&bed->got), BYTES("hello, world")));
    buf_fini(&raw);
    end_listening(&listening);
}

/* OpenSSL's memory counts against limits.memory_bytes, and a connection's share of it against
 * limits.buffer_bytes. */
static void p8_what_tls_takes_is_counted(void **state)
{
    (void)state;
    struct listening listening;
    struct bed *bed = &listening.bed;
    listen_by_tls(&listening, "", HANDSHAKE_US);
    size_t before = mem_used();
    struct tls_session *session = tls_begin(bed->tls, bed->far_fd, NULL);
    size_t session_bytes = mem_used() - before, held = tls_held_bytes(session);
    tls_end(session);
    assert_int_equal(mem_used(), before);
    assert_true(session_bytes > 1024);
    begin_client(bed, certificate, NULL, NULL);
    buf_add_str(&bed->far_out, "hello");
    UNTIL(bed, bytes_eq(buf_bytes(&bed->got), BYTES("hello")));
    assert_true(stream_held(bed->stream) >= held);
    end_listening(&listening);
}

/* It has ended its sending, and reads on. */
static void a_client_may_end_its_side_and_still_read(void **state)
{
    (void)state;
    struct listening listening;
    struct bed *bed = &listening.bed;
    struct buf late = {0};
    listen_by_tls(&listening, "", HANDSHAKE_US);
    begin_client(bed, certificate, NULL, NULL);
    buf_add_str(&bed->far_out, "a question");
    UNTIL(bed, bed->got.len == 10);
    (void)SSL_shutdown(bed->ssl);
    UNTIL(bed, bed->half);
    assert_false(bed->gone);
    buf_add_str(&late, "the answer");
    stream_send(bed->stream, &late);
    stream_close(bed->stream, STREAM_LINGER);
    bed->stream = NULL;
    UNTIL(bed, bytes_eq(buf_bytes(&bed->far_got), BYTES("the answer")));
    UNTIL(bed, SSL_get_shutdown(bed->ssl) & SSL_RECEIVED_SHUTDOWN); /* and it is told of the end */
    buf_fini(&late);
    end_listening(&listening);
}

static void a_client_that_knows_another_authority_is_never_seen(void **state)
{
    (void)state;
    struct listening listening;
    struct bed *bed = &listening.bed;
    listen_by_tls(&listening, "", HANDSHAKE_US);
    begin_client(bed, other, NULL, NULL);
    UNTIL(bed, SSL_get_verify_result(bed->ssl) != X509_V_OK);
    UNTIL(bed, os_loop_count(bed->os) == 0);
    assert_int_equal(listening.accepted, 0);
    end_listening(&listening);
}

static void clients_must_prove_who_they_are_if_asked_to(void **state)
{
    (void)state;
    struct listening listening;
    struct bed *bed = &listening.bed;
    char other_key[64];
    (void)snprintf(other_key, sizeof(other_key), "%s/other.key", dir);
    const struct {
        const char *certificate, *key;
        bool good;
    } cases[] = {{certificate, key, true}, {other, other_key, false}, {NULL, NULL, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        listen_by_tls(&listening, certificate, HANDSHAKE_US);
        begin_client(bed, certificate, cases[i].certificate, cases[i].key);
        buf_add_str(&bed->far_out, "hello");
        if (cases[i].good)
            UNTIL(bed, bed->got.len == 5);
        else
            UNTIL(bed, SSL_is_init_finished(bed->ssl) && os_loop_count(bed->os) == 0);
        assert_int_equal(listening.accepted, cases[i].good);
        end_listening(&listening);
    }
}

/* Who is accepted then would have nobody to tell: the server may be gone. */
static void a_handshake_ends_with_the_listening(void **state)
{
    (void)state;
    struct listening listening;
    struct bed *bed = &listening.bed;
    listen_by_tls(&listening, "", HANDSHAKE_US);
    begin_client(bed, certificate, NULL, NULL);
    for (int turns = 0; turns < TURNS_MAX && os_loop_count(bed->os) == 0; turns++)
        loop_turn(bed->loop, bed->loop->clock->now_us(bed->loop->clock) + 500);
    assert_int_equal(os_loop_count(bed->os), 1);
    bed->loop->verbs->stop_listening(bed->loop);
    bed->loop->acceptor = NULL;
    for (int turns = 0; turns < 100; turns++) {
        if (!far_has_gone(bed))
            far_poll(bed);
        loop_turn(bed->loop, bed->loop->clock->now_us(bed->loop->clock) + 500);
    }
    assert_true(far_has_gone(bed));
    assert_int_equal(os_loop_count(bed->os), 0);
    assert_int_equal(listening.accepted, 0);
    end_listening(&listening);
}

static void what_is_no_tls_is_closed(void **state)
{
    (void)state;
    struct listening listening;
    struct bed *bed = &listening.bed;
    static const char text[] = "GET / HTTP/1.1\r\n\r\n";
    listen_by_tls(&listening, "", HANDSHAKE_US);
    assert_int_equal(send(bed->far_fd, text, sizeof(text), MSG_NOSIGNAL), sizeof(text));
    for (int turns = 0; turns < TURNS_MAX && !bed->gone; turns++) {
        loop_turn(bed->loop, bed->loop->clock->now_us(bed->loop->clock) + 500);
        bed->gone = turns > 10 && os_loop_count(bed->os) == 0;
    }
    assert_true(bed->gone);
    assert_int_equal(listening.accepted, 0);
    end_listening(&listening);
}

static void a_handshake_that_does_not_go_on_is_given_up(void **state)
{
    (void)state;
    struct listening listening;
    struct bed *bed = &listening.bed;
    listen_by_tls(&listening, "", 1000);
    bool was_there = false;
    for (int turns = 0; turns < TURNS_MAX && !bed->gone; turns++) {
        loop_turn(bed->loop, bed->loop->clock->now_us(bed->loop->clock) + 500);
        was_there |= os_loop_count(bed->os) == 1;
        bed->gone = was_there && os_loop_count(bed->os) == 0;
    }
    assert_true(bed->gone && far_has_gone(bed));
    assert_int_equal(listening.accepted, 0);
    end_listening(&listening);
}

static void a_listeners_files_must_fit(void **state)
{
    (void)state;
    struct tls *tls = NULL;
    struct tls_error error;
    struct tls_options options = {.keys = "tls_", .ca = "", .certificate = "", .key = ""};
    assert_int_equal(tls_server_new(&options, &tls, &error), ERR_IO);
    assert_string_equal(error.text, "tls_certificate is missing");
    options.certificate = other;
    options.key = key; /* of another certificate */
    assert_int_equal(tls_server_new(&options, &tls, &error), ERR_IO);
    assert_non_null(strstr(error.text, "tls_key = "));
    options.certificate = certificate;
    options.ca = "/nowhere.pem";
    assert_int_equal(tls_server_new(&options, &tls, &error), ERR_IO);
    assert_string_equal(error.text, "tls_ca = /nowhere.pem: No such file or directory");
    assert_null(tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_what_tls_takes_is_counted),
        cmocka_unit_test(a_listener_talks_to_its_clients_by_tls),
        cmocka_unit_test(half_a_record_is_waited_for_asleep),
        cmocka_unit_test(a_client_may_end_its_side_and_still_read),
        cmocka_unit_test(a_client_that_knows_another_authority_is_never_seen),
        cmocka_unit_test(clients_must_prove_who_they_are_if_asked_to),
        cmocka_unit_test(a_handshake_ends_with_the_listening),
        cmocka_unit_test(what_is_no_tls_is_closed),
        cmocka_unit_test(a_handshake_that_does_not_go_on_is_given_up),
        cmocka_unit_test(a_listeners_files_must_fit),
        cmocka_unit_test(a_server_that_proves_what_it_is_is_talked_to),
        cmocka_unit_test(one_of_an_unknown_authority_is_left),
        cmocka_unit_test(one_that_is_another_host_is_left),
        cmocka_unit_test(a_file_that_cannot_be_used_is_named),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}

#endif
