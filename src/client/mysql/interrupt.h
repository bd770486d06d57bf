/*
 * Lets another thread end what waits for a connection to MySQL or MariaDB: the connect, and later
 * calls of libmariadb that block. A look-up of the host's name cannot be ended: the library does
 * it by itself, and has no option that gives it an address and keeps the name to verify.
 *
 * Of the thread that uses the connection, except for interrupt_now() and interrupt_allow().
 */
#ifndef LATERD_CLIENT_MYSQL_INTERRUPT_H
#define LATERD_CLIENT_MYSQL_INTERRUPT_H

#include <mariadb/mysql.h>
#include <pthread.h>
#include <stdbool.h>

struct interrupt {
    pthread_mutex_t mutex; /* of what follows */
    int fd;                /* a duplicate of the connection's socket; -1: none */
    bool interrupted;
};

struct mysql_address {
    const char *host; /* NULL: `socket` */
    const char *user, *password, *database;
    const char *socket; /* a file; NULL: host and port */
    unsigned port;
};

void interrupt_init(struct interrupt *interrupt);
void interrupt_fini(struct interrupt *interrupt);

/* Makes the call that waits fail soon, and all that follow, until interrupt_allow(). Any thread. */
void interrupt_now(struct interrupt *interrupt);
void interrupt_allow(struct interrupt *interrupt); /* any thread */

/* Connects, with the options that `mysql` has and with the library's `flags` (CLIENT_…); waits
   up to MYSQL_OPT_CONNECT_TIMEOUT. False: mysql_error() says why. */
bool interrupt_connect(struct interrupt *interrupt, MYSQL *mysql,
                       const struct mysql_address *address, unsigned long flags);
/* After interrupt_connect(): interrupt_now() ends later calls, too. False: it was called already.
 */
bool interrupt_watch(struct interrupt *interrupt, MYSQL *mysql);
/* Before mysql_close(), and before calls that are not to be interrupted. */
void interrupt_forget(struct interrupt *interrupt);

#endif
