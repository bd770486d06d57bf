#include "journal/mysql/link.h"

#include <mariadb/errmsg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "journal/schema.h"
#include "journal/sql.h"
#include "journal/url_find.h"
#include "os/ca_file.h"

enum {
    PACKET_LEAST = 64 * 1024,
    PACKET_HEAD = 16,
};

/* ---- classification of errors ---- */

struct meaning {
    unsigned errnum;
    enum link_result result;
    const char *hint;
};

/* Errors that are not listed count as errors of a row, which splitting the group finds. */
static const struct meaning meanings[] = {
    {1205, LINK_AWAY, "another transaction holds locks on the journal's tables: end it"},
    {1206, LINK_AWAY, "the lock table is full: raise innodb_buffer_pool_size"},
    {1213, LINK_AWAY, "a deadlock with another transaction; it is tried again"},
    {1040, LINK_AWAY, "too many connections: raise max_connections"},
    {1203, LINK_AWAY, "too many connections of this user: raise max_user_connections"},
    {1226, LINK_AWAY, "the user's resource limits are reached: raise them"},
    {1290, LINK_AWAY,
     "the server is read-only: make it writable, or let journal.url name the "
     "primary"},
    {1792, LINK_AWAY, "the transaction is read-only: look at transaction_read_only"},
    {1836, LINK_AWAY, "the server is in read-only mode: make it writable"},
    {1053, LINK_AWAY, "the server is shutting down"},
    {1077, LINK_AWAY, "the server is shutting down"},
    {1317, LINK_AWAY, "somebody ended the statement; it is tried again"},
    {1927, LINK_AWAY, "somebody ended the connection; it is made again"},
    {4031, LINK_AWAY, "the connection was idle for longer than wait_timeout; it is made again"},
    {1969, LINK_AWAY, "max_statement_time is too short for the journal's statements: raise it"},
    {3024, LINK_AWAY, "max_execution_time is too short for the journal's statements: raise it"},
    {1158, LINK_AWAY, "the network failed"},
    {1159, LINK_AWAY, "the network failed"},
    {1160, LINK_AWAY, "the network failed"},
    {1161, LINK_AWAY, "the network failed"},
    {1021, LINK_AWAY, "the server's disk is full: make room there"},
    {1114, LINK_AWAY, "the table or the server's disk is full: make room there"},
    {1026, LINK_AWAY, "the server cannot write to its disk: look at its error log"},
    {1030, LINK_AWAY, "the storage engine failed: look at the server's error log and disk"},
    {1034, LINK_AWAY, "the server cannot write to its disk: look at its error log"},
    {1037, LINK_AWAY, "the server has no memory left"},
    {1041, LINK_AWAY, "the server has no memory left"},
    {1180, LINK_AWAY, "COMMIT failed: look at the server's error log and disk"},
    {1181, LINK_AWAY, "ROLLBACK failed: look at the server's error log and disk"},
    {1044, LINK_REFUSED, "grant the user SELECT, INSERT and UPDATE on the database"},
    {1045, LINK_REFUSED, "look at the user and password of journal.url, or at journal.password"},
    {1698, LINK_REFUSED, "look at the user and password of journal.url, or at journal.password"},
    {1130, LINK_REFUSED, "let the user connect from this host"},
    {1046, LINK_REFUSED, "look at the database of journal.url"},
    {1049, LINK_REFUSED, "make the database, or look at journal.url"},
    {1054, LINK_REFUSED, "somebody has changed the journal's tables"},
    {1064, LINK_REFUSED, "this server is too old: MariaDB 10.2 or MySQL 8.0.17 is needed"},
    {1142, LINK_REFUSED, "grant the user SELECT, INSERT and UPDATE on the journal's tables"},
    {1143, LINK_REFUSED, "grant the user SELECT, INSERT and UPDATE on the journal's tables"},
    {1146, LINK_REFUSED, "a table is missing: it is made again if the user may CREATE"},
    {1227, LINK_REFUSED, "grant the user what it needs"},
    {1273, LINK_REFUSED, "this server is too old: MariaDB 10.2 or MySQL 8.0.17 is needed"},
    {1932, LINK_REFUSED, "a table is damaged: look at the server's error log"},
    {1194, LINK_REFUSED, "a table is damaged: repair it"},
    {1195, LINK_REFUSED, "a table is damaged: repair it"},
    {CR_NET_PACKET_TOO_LARGE, LINK_ROW, "raise max_allowed_packet"},
    {1153, LINK_ROW, "raise max_allowed_packet"},
    {CR_SSL_CONNECTION_ERROR, LINK_AWAY,
     "look at the tls of journal.url, at journal.ca, and at "
     "the server's certificate"},
    {CR_SERVER_GONE_ERROR, LINK_AWAY,
     "the connection ended: was MySQL restarted, or is wait_timeout short; it is made again"},
    {CR_SERVER_LOST, LINK_AWAY,
     "no answer, or the connection ended: is MySQL slow, frozen or down; look at its load and at "
     "journal.timeout"},
    {CR_CONN_HOST_ERROR, LINK_AWAY, "is MySQL running, and is the host of journal.url right"},
    {CR_CONNECTION_ERROR, LINK_AWAY,
     "is MySQL running, and is the host or socket of journal.url right"},
    {CR_UNKNOWN_HOST, LINK_AWAY, "the host of journal.url has no address"},
    {CR_UNKNOWN_ERROR, LINK_AWAY, "look at the files that journal.url and journal.password name"},
};

static const struct meaning *meaning_of(unsigned errnum)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (meanings[i].errnum == errnum)
            return &meanings[i];
    }
    return NULL;
}

const char *link_hint(unsigned errnum)
{
    const struct meaning *meaning = meaning_of(errnum);
    return meaning ? meaning->hint : "it is tried again";
}

static enum link_result failed(struct link *link)
{
    link->errnum = mysql_errno(&link->mysql);
    (void)snprintf(link->error, sizeof(link->error), "%s", mysql_error(&link->mysql));
    for (char *at = link->error; *at; at++)
        *at = *at == '"' ? '\'' : (unsigned char)*at < ' ' ? ' ' : *at;
    const struct meaning *meaning = meaning_of(link->errnum);
    if (meaning)
        return meaning->result;
    bool of_library = link->errnum >= CR_MIN_ERROR && link->errnum < 3000;
    return of_library || link->errnum == 0 ? LINK_AWAY : LINK_ROW;
}

void link_forget_error(struct link *link)
{
    link->errnum = 0;
    link->error[0] = '\0';
}

static enum link_result succeeded(struct link *link)
{
    link_forget_error(link);
    return LINK_DONE;
}

/* ---- the connection ---- */

void link_init(struct link *link)
{
    *link = (struct link){.open = false};
    interrupt_init(&link->interrupt);
}

void link_fini(struct link *link)
{
    link_close(link);
    interrupt_fini(&link->interrupt);
}

void link_interrupt(struct link *link)
{
    interrupt_now(&link->interrupt);
}

void link_allow(struct link *link)
{
    interrupt_allow(&link->interrupt);
}

void link_close(struct link *link)
{
    if (!link->open)
        return;
    interrupt_forget(&link->interrupt);
    mysql_close(&link->mysql);
    link->open = false;
}

/* True: the server's certificate must be verified, but the file of authorities is missing, which
 * may be temporary. */
static bool lacks_ca(struct link *link, const struct link_options *options)
{
    const char *path;
    char why[CA_FILE_WHY_MAX];
    if (options->url.tls != JOURNAL_TLS_VERIFY || ca_file_find(options->ca, &path, why) == OK)
        return false;
    link->errnum = CR_SSL_CONNECTION_ERROR;
    (void)snprintf(link->error, sizeof(link->error), "journal.ca: %s", why);
    return true;
}

static void set_tls(struct link *link, const struct link_options *options)
{
    const char *path;
    char why[CA_FILE_WHY_MAX];
    my_bool yes = 1;
    if (options->url.tls == JOURNAL_TLS_OFF)
        return;
    (void)mysql_options(&link->mysql, MYSQL_OPT_SSL_ENFORCE, &yes);
    if (options->url.tls != JOURNAL_TLS_VERIFY)
        return;
    (void)mysql_options(&link->mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
    if (ca_file_find(options->ca, &path, why) == OK) /* lacks_ca() has reported an error before */
        (void)mysql_options(&link->mysql, MYSQL_OPT_SSL_CA, path);
}

static void set_options(struct link *link, const struct link_options *options)
{
    unsigned connect_s = options->timeout_s, statement_s = 2 * options->timeout_s, no = 0;
    (void)mysql_options(&link->mysql, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
    (void)mysql_options(&link->mysql, MYSQL_OPT_READ_TIMEOUT, &statement_s);
    (void)mysql_options(&link->mysql, MYSQL_OPT_WRITE_TIMEOUT, &statement_s);
    (void)mysql_options(&link->mysql, MYSQL_OPT_LOCAL_INFILE, &no);
    (void)mysql_options(&link->mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    set_tls(link, options);
}

static enum link_result set_session(struct link *link)
{
    char names[96];
    enum link_result result;
    uint64_t ignored;
    link->mariadb = strstr(mysql_get_server_info(&link->mysql), "MariaDB") != NULL;
    (void)snprintf(names, sizeof(names), "SET NAMES utf8mb4 COLLATE %s",
                   schema_collation(link->mariadb));
    result = link_run(link, BYTES(SQL_SESSION), &ignored);
    if (result == LINK_DONE)
        result = link_run(link, bytes_str(names), &ignored);
    if (result != LINK_DONE)
        return result;
    MYSQL_RES *rows = link_query(link, "SELECT @@max_allowed_packet", &result);
    MYSQL_ROW row = rows ? mysql_fetch_row(rows) : NULL;
    if (row && row[0])
        link->packet_max = strtoull(row[0], NULL, 10);
    if (link->packet_max < PACKET_LEAST)
        link->packet_max = PACKET_LEAST;
    if (rows)
        mysql_free_result(rows);
    return result;
}

/* False: the file of the URL or the password cannot be read now, or is wrong. */
static bool find_user(struct link *link, const struct link_options *options,
                      struct journal_url *out_url)
{
    char why[JOURNAL_FIND_WHY_MAX];
    if (journal_url_find_user(options->url_text, options->password_text, &options->url, out_url,
                              why) == OK)
        return true;
    link->errnum = CR_UNKNOWN_ERROR;
    (void)snprintf(link->error, sizeof(link->error), "journal.%s", why);
    return false;
}

static bool connect_now(struct link *link, const struct journal_url *url)
{
    struct mysql_address address = {
        .host = url->host[0] ? url->host : NULL,
        .user = url->user,
        .password = url->password,
        .database = url->database,
        .socket = url->socket[0] ? url->socket : NULL,
        .port = url->port,
    };
    return interrupt_connect(&link->interrupt, &link->mysql, &address, CLIENT_FOUND_ROWS);
}

enum link_result link_open(struct link *link, const struct link_options *options)
{
    struct journal_url url;
    CHECK(!link->open);
    if (lacks_ca(link, options) || !find_user(link, options, &url))
        return LINK_AWAY;
    (void)mysql_init(&link->mysql); /* of given memory: it cannot fail */
    link->open = true;
    link->packet_max = 0;
    set_options(link, options);
    if (!connect_now(link, &url)) {
        enum link_result result = failed(link);
        link_close(link);
        return result == LINK_ROW ? LINK_AWAY : result;
    }
    if (!interrupt_watch(&link->interrupt, &link->mysql)) {
        link_close(link);
        link->errnum = CR_SERVER_LOST;
        (void)snprintf(link->error, sizeof(link->error), "the connection is not wanted any more");
        return LINK_AWAY;
    }
    enum link_result result = set_session(link);
    if (result != LINK_DONE)
        link_close(link);
    return result == LINK_ROW ? LINK_REFUSED : result;
}

/* ---- statements ---- */

/* False: the statement is longer than max_allowed_packet: the server would end the connection. */
static bool fits(struct link *link, size_t len)
{
    if (!link->packet_max || len + PACKET_HEAD <= link->packet_max)
        return true;
    link->errnum = CR_NET_PACKET_TOO_LARGE;
    (void)snprintf(link->error, sizeof(link->error),
                   "the statement has %zu bytes, and max_allowed_packet is %zu", len,
                   link->packet_max);
    return false;
}

enum link_result link_run(struct link *link, struct bytes sql, uint64_t *out_changed)
{
    if (!fits(link, sql.len))
        return LINK_ROW;
    if (mysql_real_query(&link->mysql, sql.at, (unsigned long)sql.len))
        return failed(link);
    *out_changed = mysql_affected_rows(&link->mysql); /* before any other call */
    return succeeded(link);
}

bool link_in_transaction(struct link *link)
{
    if (mysql_query(&link->mysql, "DO 0")) {
        (void)failed(link); /* the connection is lost, and with it the transaction */
        return false;
    }
    return link->mysql.server_status & SERVER_STATUS_IN_TRANS;
}

MYSQL_RES *link_query(struct link *link, const char *sql, enum link_result *out_result)
{
    MYSQL_RES *rows = NULL;
    if (!mysql_real_query(&link->mysql, sql, (unsigned long)strlen(sql)))
        rows = mysql_store_result(&link->mysql);
    *out_result = rows ? succeeded(link) : failed(link);
    return rows;
}

enum link_result link_ping(struct link *link)
{
    if (!mysql_ping(&link->mysql))
        return succeeded(link);
    enum link_result result = failed(link);
    return result == LINK_ROW ? LINK_AWAY : result; /* there are no values that it could refuse */
}
