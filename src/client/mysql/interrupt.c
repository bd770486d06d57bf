#include "client/mysql/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of the library while it connects: for TLS and look-ups. */
enum { CONNECT_STACK_BYTES = 512 * 1024 };

void interrupt_init(struct interrupt *interrupt)
{
    *interrupt = (struct interrupt){.fd = -1};
    (void)pthread_mutex_init(&interrupt->mutex, NULL); /* cannot fail on Linux */
}

void interrupt_fini(struct interrupt *interrupt)
{
    interrupt_forget(interrupt);
    (void)pthread_mutex_destroy(&interrupt->mutex);
}

/* Makes interrupt_now() end what waits for `socket` (-1: nothing). It has a descriptor of its own,
 * because the library closes the socket whenever a call fails. False: it was interrupted already.
 */
static bool set_socket(struct interrupt *interrupt, int socket)
{
    int own = socket < 0 ? -1 : fcntl(socket, F_DUPFD_CLOEXEC, 0); /* -1: time-outs end it */
    (void)pthread_mutex_lock(&interrupt->mutex);
    int before = interrupt->fd;
    bool interrupted = interrupt->interrupted;
    interrupt->fd = own;
    (void)pthread_mutex_unlock(&interrupt->mutex);
    if (before >= 0)
        (void)close(before); /* nothing was written through it */
    return !interrupted;
}

static bool is_interrupted(struct interrupt *interrupt)
{
    (void)pthread_mutex_lock(&interrupt->mutex);
    bool interrupted = interrupt->interrupted;
    (void)pthread_mutex_unlock(&interrupt->mutex);
    return interrupted;
}

void interrupt_now(struct interrupt *interrupt)
{
    (void)pthread_mutex_lock(&interrupt->mutex);
    interrupt->interrupted = true;
    if (interrupt->fd >= 0)
        (void)shutdown(interrupt->fd, SHUT_RDWR); /* the other side may have closed it already */
    (void)pthread_mutex_unlock(&interrupt->mutex);
}

void interrupt_allow(struct interrupt *interrupt)
{
    (void)pthread_mutex_lock(&interrupt->mutex);
    interrupt->interrupted = false;
    (void)pthread_mutex_unlock(&interrupt->mutex);
}

/* Waits for what the library waits for, as bits MYSQL_WAIT_…, and returns what has come. */
static int wait_for(struct interrupt *interrupt, MYSQL *mysql, int wanted)
{
    struct pollfd socket = {.fd = (int)mysql_get_socket(mysql)};
    bool limited = wanted & MYSQL_WAIT_TIMEOUT;
    int ready = 0, came = 0;
    socket.events = (short)((wanted & MYSQL_WAIT_READ ? POLLIN : 0) |
                            (wanted & MYSQL_WAIT_WRITE ? POLLOUT : 0) |
                            (wanted & MYSQL_WAIT_EXCEPT ? POLLPRI : 0));
    if (set_socket(interrupt, socket.fd))
        do
            ready = poll(&socket, 1, limited ? (int)mysql_get_timeout_value_ms(mysql) : -1);
        while (ready < 0 && errno == EINTR);
    if (ready > 0 && !is_interrupted(interrupt)) {
        came = socket.revents & (POLLIN | POLLHUP | POLLERR) ? MYSQL_WAIT_READ : 0;
        came |= socket.revents & (POLLOUT | POLLHUP | POLLERR) ? MYSQL_WAIT_WRITE : 0;
        came |= socket.revents & POLLPRI ? MYSQL_WAIT_EXCEPT : 0;
        return came & wanted;
    }
    errno = ETIMEDOUT; /* the library's message has it */
    return MYSQL_WAIT_TIMEOUT;
}

/* The library's blocking call cannot be interrupted before there is a connection. */
bool interrupt_connect(struct interrupt *interrupt, MYSQL *mysql,
                       const struct mysql_address *address, unsigned long flags)
{
    MYSQL *connected = NULL;
    size_t stack_bytes = CONNECT_STACK_BYTES;
    (void)mysql_options(mysql, MYSQL_OPT_NONBLOCK, &stack_bytes);
    int wanted =
        mysql_real_connect_start(&connected, mysql, address->host, address->user, address->password,
                                 address->database, address->port, address->socket, flags);
    while (wanted)
        wanted = mysql_real_connect_cont(&connected, mysql, wait_for(interrupt, mysql, wanted));
    return connected != NULL;
}

bool interrupt_watch(struct interrupt *interrupt, MYSQL *mysql)
{
    return set_socket(interrupt, (int)mysql_get_socket(mysql));
}

void interrupt_forget(struct interrupt *interrupt)
{
    (void)set_socket(interrupt, -1); /* it is closed in either case */
}
