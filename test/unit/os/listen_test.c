/* What stands at the path of a Unix socket when a server begins to listen there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/listen.h"

enum { LONGEST_S = 20 };

static char dir[] = "/tmp/laterd-listen-XXXXXX";
static char path[sizeof(dir) + 8];
static char address[sizeof(path) + 8];

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    (void)snprintf(path, sizeof(path), "%s/s", dir);
    (void)snprintf(address, sizeof(address), "unix:%s", path);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return unlink(path) || rmdir(dir);
}

/* A client that does not wait. */
static int dial(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    memcpy(to.sun_path, path, strlen(path) + 1);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static void an_ended_servers_socket_is_replaced_and_a_live_ones_is_not(void **state)
{
    int first, second;
    (void)state;
    assert_int_equal(listen_open(address, &first), OK);
    assert_int_equal(listen_open(address, &second), ERR_IO);
    assert_int_equal(errno, EADDRINUSE);
    (void)close(first); /* its file stays */
    assert_int_equal(listen_open(address, &second), OK);
    int client = dial();
    assert_true(client >= 0);
    (void)close(client);
    (void)close(second);
}

/* A process that is stopped, for example. */
static void a_live_server_that_accepts_nobody_is_not_waited_for(void **state)
{
    int first, second, clients[64], count = 0;
    (void)state;
    assert_int_equal(listen_open(address, &first), OK);
    assert_int_equal(listen(first, 1), 0); /* its queue is full soon */
    while (count < 64 && (clients[count] = dial()) >= 0)
        count++;
    assert_in_range(count, 1, 63);
    (void)alarm(LONGEST_S);
    assert_int_equal(listen_open(address, &second), ERR_IO);
    assert_int_equal(errno, EADDRINUSE);
    (void)alarm(0);
    while (count > 0)
        (void)close(clients[--count]);
    (void)close(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ended_servers_socket_is_replaced_and_a_live_ones_is_not),
        cmocka_unit_test(a_live_server_that_accepts_nobody_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
