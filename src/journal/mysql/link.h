/*
 * One connection to MySQL or MariaDB: blocking calls of libmariadb, each with a time-out, and the
 * classification of errors. One thread only, except link_interrupt().
 */
#ifndef LATERD_JOURNAL_MYSQL_LINK_H
#define LATERD_JOURNAL_MYSQL_LINK_H

#include <mariadb/mysql.h>

#include "base/bytes.h"
#include "base/err.h"
#include "client/mysql/interrupt.h"
#include "journal/url.h"

enum link_result {
    LINK_DONE,
    LINK_AWAY,    /* temporary: try again, perhaps over a new connection */
    LINK_REFUSED, /* all such statements would fail (tables, privileges, disk): needs an operator */
    LINK_ROW,     /* the values of this statement were refused; it has changed nothing */
};

struct link_options {
    struct journal_url url; /* as it was at the start */
    /* As configured: the user and password are read again at each connection. Borrowed for as long
       as the process runs. */
    const char *url_text, *password_text;
    char ca[JOURNAL_WORD_MAX]; /* file; empty: the system's */
    unsigned timeout_s;        /* 1 … 600, to connect; a statement may take twice as long */
};

struct link {
    MYSQL mysql;
    bool open, mariadb;
    size_t packet_max; /* bytes of a statement */
    unsigned errnum;   /* of the last call; 0: it was DONE */
    char error[256];   /* the text of the server or the library; "": it was DONE */
    struct interrupt interrupt;
};

void link_init(struct link *link);
void link_fini(struct link *link);

/* Connects and sets up the session: waits up to timeout_s, and twice that for each of three
   statements. The link must be closed; after another result than DONE it is closed again. */
enum link_result link_open(struct link *link, const struct link_options *options);
void link_close(struct link *link); /* does nothing to a closed link */

/* Runs one statement without rows. *out_changed: rows that it matched or inserted; written if DONE.
   All calls below wait for the server, up to the time-out of a statement. */
enum link_result link_run(struct link *link, struct bytes sql, uint64_t *out_changed);
/* After a statement that failed (its error is kept): true: the transaction is still open. Some
   errors roll it back. */
bool link_in_transaction(struct link *link);
/* Runs a query and returns its complete result, for mysql_free_result(). NULL: see link->errnum. */
MYSQL_RES *link_query(struct link *link, const char *sql, enum link_result *out_result);
/* Whether the connection still works. Never ROW. */
enum link_result link_ping(struct link *link);
/* Clears the error of the last call, which was expected. */
void link_forget_error(struct link *link);

/* What an operator should do about an error. A clause. */
const char *link_hint(unsigned errnum);

/* Makes the call that the link waits in fail soon (but for a look-up of the host's name), and all
   that follow, until link_allow(). Any thread. */
void link_interrupt(struct link *link);
void link_allow(struct link *link);

#endif
