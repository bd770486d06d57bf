/*
 * One connection to MySQL or MariaDB: blocking calls of libmariadb, each with a time-out, and what
 * an error means for who writes. One thread, but for link_interrupt().
 */
#ifndef LATERD_JOURNAL_MYSQL_LINK_H
#define LATERD_JOURNAL_MYSQL_LINK_H

#include <mariadb/mysql.h>
#include <pthread.h>

#include "base/bytes.h"
#include "base/err.h"
#include "journal/url.h"

enum link_result {
    LINK_DONE,
    LINK_AWAY,    /* not now: another try, perhaps over a new connection, may do it */
    LINK_REFUSED, /* all of the kind would fail: tables, rights, disk; an operator must look */
    LINK_ROW,     /* this statement's values are not taken; nothing of it was done */
};

struct link_options {
    struct journal_url url;
    char ca[JOURNAL_WORD_MAX]; /* file; empty: the system's */
    unsigned timeout_s;        /* 1 … 600, to connect; of a statement twice as long */
};

struct link {
    MYSQL mysql;
    bool open, mariadb;
    size_t packet_max; /* bytes of a statement */
    unsigned errnum;   /* of the last call; 0: it was DONE */
    char error[256];   /* … in the server's or the library's words; "": it was DONE */
    pthread_mutex_t mutex;
    int fd; /* under the mutex: of the open connection; -1: none */
};

void link_init(struct link *link);
void link_fini(struct link *link);

/* Connects and sets the session: waits up to `timeout_s`, and twice that for each of three
   statements. Of a closed one only; after another result than DONE it is closed. */
enum link_result link_open(struct link *link, const struct link_options *options);
void link_close(struct link *link); /* of a closed one: nothing */

/* Runs one statement without rows. *out_changed: rows that it matched or inserted; written if DONE.
   All calls below wait for the server, up to the time-out of a statement. */
enum link_result link_run(struct link *link, struct bytes sql, uint64_t *out_changed);
/* After a statement that failed, whose error stays: is the transaction that was started still
   there? Some errors roll back all of it. */
bool link_in_transaction(struct link *link);
/* Runs a query; its whole result, for mysql_free_result(). NULL: link->errnum. */
MYSQL_RES *link_query(struct link *link, const char *sql, enum link_result *out_result);
enum link_result link_ping(struct link *link);
/* The last call's error was expected, and is no reason for what fails next. */
void link_forget_error(struct link *link);

/* What an operator should do about an error. A clause. */
const char *link_hint(unsigned errnum);

/* From any thread: what the link waits for fails soon. */
void link_interrupt(struct link *link);

#endif
