/*
 * The plugin for a row in MySQL or MariaDB: a struct claim on our own thread, using the blocking
 * calls of libmariadb, which a close interrupts if they last. The row is in a table that is created
 * if it does not exist:
 *
 *     laterd_member(name, epoch, count, timeout_ms, holder, url, updated)
 *
 * `updated` is for people; this code never reads a clock of the server (member/claim.h says why). A
 * write is one UPDATE whose WHERE has the epoch and the count that were read, so of two candidates
 * only one changes the row.
 *
 * libmariadb's time-outs are whole seconds: a request without an answer is given up after a third
 * of the session's time-out, and at least a second.
 */
#include <mariadb/errmsg.h>
#include <mariadb/mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "client/mysql/interrupt.h"
#include "member/claim.h"
#include "member/member_thread.h"
#include "member/member_url.h"
#include "os/ca_file.h"
#include "sink/reference.h"

enum { PORT = 3306, SQL_MAX = 2048, CONNECT_AGAIN_US = 200 * 1000, CLOSE_US = 900 * 1000 };

struct mysql_member {
    struct member_thread *thread;
    struct member_url url;
    bool tls, verify;
    struct claim claim;
    struct interrupt interrupt;
    MYSQL *connection; /* NULL: not connected */
    bool made;         /* the table is there */
    bool connected;
    char why[MEMBER_WHY_MAX];
};

static void set_why(struct mysql_member *mysql, const char *what)
{
    const char *text = mysql->connection ? mysql_error(mysql->connection) : "out of memory";
    int len =
        snprintf(mysql->why, sizeof(mysql->why), "%s %.90s: %.110s", what, mysql->url.hosts, text);
    if (len < 0) /* else it was written, and cut if it is longer */
        mysql->why[0] = '\0';
}

static void disconnect(struct mysql_member *mysql)
{
    interrupt_forget(&mysql->interrupt);
    if (mysql->connection)
        mysql_close(mysql->connection);
    mysql->connection = NULL;
    mysql->connected = false;
}

static void set_options(struct mysql_member *mysql)
{
    const struct member_options *options = member_thread_options(mysql->thread);
    unsigned seconds = (unsigned)((options->timeout_us / TENURE_PARTS + 999999) / 1000000);
    const char *ca;
    char why[CA_FILE_WHY_MAX];
    unsigned no = 0;
    my_bool yes = 1, verify = mysql->verify;
    (void)mysql_options(mysql->connection, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    (void)mysql_options(mysql->connection, MYSQL_OPT_READ_TIMEOUT, &seconds);
    (void)mysql_options(mysql->connection, MYSQL_OPT_WRITE_TIMEOUT, &seconds);
    (void)mysql_options(mysql->connection, MYSQL_OPT_LOCAL_INFILE, &no); /* no server reads files */
    (void)mysql_options(mysql->connection, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (mysql->tls)
        (void)mysql_options(mysql->connection, MYSQL_OPT_SSL_ENFORCE, &yes);
    (void)mysql_options(mysql->connection, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    if (mysql->verify && ca_file_find(options->ca, &ca, why) == OK) /* lacks_ca() was false */
        (void)mysql_options(mysql->connection, MYSQL_OPT_SSL_CA, ca);
}

/* True: the server's certificate must be verified, but the file of authorities is missing. */
static bool lacks_ca(struct mysql_member *mysql)
{
    const char *path;
    char why[CA_FILE_WHY_MAX];
    if (!mysql->verify || ca_file_find(member_thread_options(mysql->thread)->ca, &path, why) == OK)
        return false;
    (void)snprintf(mysql->why, sizeof(mysql->why), "member.ca: %s", why);
    return true;
}

/* Without a password in the URL it is the environment's. */
static void take_password(struct member_url *url)
{
    const char *password = getenv("LATERD_MEMBER_PASSWORD");
    if (password && !url->password[0])
        (void)snprintf(url->password, sizeof(url->password), "%s", password);
}

/* False: the URL is in a file that cannot be read now. A password that was replaced there is used
 * from now on; all else of the URL is as it was at the start. */
static bool find_user(struct mysql_member *mysql)
{
    const char *text = member_thread_options(mysql->thread)->url_text;
    struct member_url now;
    struct member_error error = {.text = ""};
    struct buf plain = {0};
    if (!reference_is(text))
        return true;
    enum err err = reference_read(text, &plain, error.text, sizeof(error.text));
    if (!err)
        err = member_url_read(plain.at, "mysql", PORT, &now, &error);
    buf_fini(&plain);
    if (err) {
        (void)snprintf(mysql->why, sizeof(mysql->why), "member.url: %.200s", error.text);
        return false;
    }
    take_password(&now);
    memcpy(mysql->url.user, now.user, sizeof(now.user));
    memcpy(mysql->url.password, now.password, sizeof(now.password));
    return true;
}

static bool connect_now(struct mysql_member *mysql)
{
    if (mysql->connection)
        return true;
    if (lacks_ca(mysql) || !find_user(mysql))
        return false;
    mysql->connection = mysql_init(NULL);
    if (!mysql->connection) {
        set_why(mysql, "cannot reach MySQL at");
        return false;
    }
    set_options(mysql);
    struct mysql_address address = {.host = mysql->url.host,
                                    .user = mysql->url.user,
                                    .password = mysql->url.password,
                                    .database = mysql->url.path + 1,
                                    .port = mysql->url.port};
    if (interrupt_connect(&mysql->interrupt, mysql->connection, &address, 0) &&
        interrupt_watch(&mysql->interrupt, mysql->connection) &&
        mysql_autocommit(mysql->connection, 1) == 0) /* whatever the server's default is */
        return true;
    set_why(mysql, mysql_errno(mysql->connection) == CR_SSL_CONNECTION_ERROR
                       ? "cannot agree on TLS, as member.url and member.ca require, with MySQL at"
                       : "cannot reach MySQL at");
    disconnect(mysql);
    return false;
}

/* ---- questions ---- */

static bool query(struct mysql_member *mysql, const char *sql)
{
    if (mysql_real_query(mysql->connection, sql, strlen(sql)) == 0)
        return true;
    set_why(mysql, "MySQL refused at");
    disconnect(mysql); /* after any error, so that the next request gets a new connection */
    return false;
}

static bool make_table(struct mysql_member *mysql)
{
    mysql->made = mysql->made ||
                  query(mysql, "CREATE TABLE IF NOT EXISTS laterd_member("
                               "name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,"
                               "epoch BIGINT UNSIGNED NOT NULL,count BIGINT UNSIGNED NOT NULL,"
                               "timeout_ms INT UNSIGNED NOT NULL,"
                               "holder VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
                               "url VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
                               "updated TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP "
                               "ON UPDATE CURRENT_TIMESTAMP) ENGINE=InnoDB");
    return mysql->made;
}

/* Quoted, for SQL; `room` has 2 * MEMBER_URL_MAX + 3. */
static const char *quote(struct mysql_member *mysql, const char *text, char *room)
{
    room[0] = '\'';
    unsigned long len = mysql_real_escape_string(mysql->connection, room + 1, text, strlen(text));
    room[1 + len] = '\'';
    room[2 + len] = '\0';
    return room;
}

static void write_sql(struct mysql_member *mysql, const struct claim_request *request,
                      char sql[SQL_MAX])
{
    enum { QUOTED = 2 * MEMBER_URL_MAX + 3 };
    char name[QUOTED], holder[QUOTED], url[QUOTED];
    const struct claim_row *to = &request->to;
    (void)quote(mysql, member_thread_options(mysql->thread)->name, name);
    (void)quote(mysql, to->holder, holder);
    (void)quote(mysql, to->url, url);
    if (request->make)
        (void)snprintf(sql, SQL_MAX,
                       "INSERT IGNORE INTO laterd_member(name,epoch,count,timeout_ms,holder,url) "
                       "VALUES(%s,%llu,%llu,%lld,%s,%s)",
                       name, (unsigned long long)to->epoch, (unsigned long long)to->count,
                       (long long)(to->timeout_us / 1000), holder, url);
    else
        (void)snprintf(sql, SQL_MAX,
                       "UPDATE laterd_member SET epoch=%llu,count=%llu,timeout_ms=%lld,holder=%s,"
                       "url=%s WHERE name=%s AND epoch=%llu AND count=%llu",
                       (unsigned long long)to->epoch, (unsigned long long)to->count,
                       (long long)(to->timeout_us / 1000), holder, url, name,
                       (unsigned long long)request->from_epoch,
                       (unsigned long long)request->from_count);
}

/* A column as a number; 0 if it is not a number, which this code never writes. */
static uint64_t number_of(const char *text)
{
    uint64_t number;
    return text && bytes_to_u64(bytes_str(text), &number) ? number : 0;
}

static void take_row(MYSQL_ROW columns, struct claim_row *row)
{
    *row = (struct claim_row){
        .exists = true,
        .epoch = number_of(columns[0]),
        .count = number_of(columns[1]),
        .timeout_us = claim_timeout_us(number_of(columns[2])),
    };
    (void)snprintf(row->holder, sizeof(row->holder), "%s", columns[3] ? columns[3] : "");
    (void)snprintf(row->url, sizeof(row->url), "%s", columns[4] ? columns[4] : "");
}

static bool read_row(struct mysql_member *mysql, struct claim_row *out_row)
{
    char sql[SQL_MAX], name[2 * MEMBER_NAME_MAX + 3];
    (void)snprintf(sql, sizeof(sql),
                   "SELECT epoch,count,timeout_ms,holder,url FROM laterd_member WHERE name=%s",
                   quote(mysql, member_thread_options(mysql->thread)->name, name));
    if (!query(mysql, sql))
        return false;
    MYSQL_RES *result = mysql_store_result(mysql->connection);
    if (!result) {
        set_why(mysql, "MySQL refused at");
        disconnect(mysql);
        return false;
    }
    MYSQL_ROW columns = mysql_fetch_row(result);
    *out_row = (struct claim_row){.exists = false};
    if (columns)
        take_row(columns, out_row);
    mysql_free_result(result);
    return true;
}

static bool answer(struct mysql_member *mysql, const struct claim_request *request,
                   struct claim_answer *out_answer)
{
    char sql[SQL_MAX];
    *out_answer = (struct claim_answer){.done = false};
    if (!connect_now(mysql) || !make_table(mysql))
        return false;
    if (request->write) {
        write_sql(mysql, request, sql);
        if (!query(mysql, sql))
            return false;
        out_answer->done = mysql_affected_rows(mysql->connection) == 1;
    }
    return out_answer->done || read_row(mysql, &out_answer->row);
}

static void ask(struct mysql_member *mysql)
{
    struct claim_answer got;
    const struct claim_request *question = claim_request(&mysql->claim, member_now_us());
    mysql->connected = answer(mysql, question, &got);
    if (mysql->connected) {
        mysql->why[0] = '\0';
        claim_answered(&mysql->claim, &got, member_now_us());
        return;
    }
    mysql->made = false; /* the table may have been dropped: try to create it again */
    claim_unanswered(&mysql->claim, member_now_us());
    if (!mysql->connection)
        mysql->claim.next_us += CONNECT_AGAIN_US;
}

/* ---- the thread ---- */

/* Writes the resignation, so that others need not wait for the time-out; limited in time. */
static void give_back(struct mysql_member *mysql)
{
    int64_t until_us = member_now_us() + CLOSE_US;
    if (!mysql->connected)
        return;
    claim_resign(&mysql->claim, 2 * CLOSE_US, member_now_us());
    while (claim_is_held(&mysql->claim) && mysql->connected && member_now_us() < until_us)
        ask(mysql);
}

static void run(struct member_thread *thread, void *user)
{
    struct mysql_member *mysql = user;
    mysql->thread = thread;
    (void)mysql_thread_init();
    for (;;) {
        struct member_requests requests = member_requests(thread);
        if (requests.close)
            break;
        int64_t now_us = member_now_us();
        (void)claim_expire(&mysql->claim, now_us);
        if (requests.above)
            claim_raise(&mysql->claim, requests.above, now_us);
        if (requests.resign)
            claim_resign(&mysql->claim, requests.rest_us, now_us);
        if (claim_next_us(&mysql->claim) <= now_us)
            ask(mysql);
        member_publish(thread, &mysql->claim.tenure, claim_leader(&mysql->claim), mysql->connected,
                       mysql->why);
        member_sleep(thread, tenure_wake_us(&mysql->claim.tenure, claim_next_us(&mysql->claim)));
    }
    give_back(mysql);
    disconnect(mysql);
    mysql_thread_end();
}

static void interrupt(void *user)
{
    struct mysql_member *mysql = user;
    interrupt_now(&mysql->interrupt);
}

static void ended(void *user)
{
    struct mysql_member *mysql = user;
    interrupt_fini(&mysql->interrupt);
    mem_free(mysql);
}

/* ---- the plugin ---- */

static bool is_name(const char *text)
{
    for (; *text; text++) {
        if (*text == '/' || *text == '`')
            return false;
    }
    return true;
}

static enum err read_options(const struct member_options *options, struct mysql_member *mysql,
                             struct member_error *out_error)
{
    enum err err = member_url_read(options->url, "mysql", PORT, &mysql->url, out_error);
    if (err)
        return err;
    const char *wrong = NULL, *query_text = mysql->url.query;
    mysql->verify = strcmp(query_text, "tls=verify") == 0;
    mysql->tls = mysql->verify || strcmp(query_text, "tls=on") == 0;
    if (query_text[0] && !mysql->tls)
        wrong = "url: behind the '?' there may be tls=on or tls=verify";
    else if (mysql->url.host_count > 1)
        wrong = "url: name one host only: with several servers two laterds could both lead";
    else if (mysql->url.path[0] != '/' || !mysql->url.path[1] || !is_name(mysql->url.path + 1))
        wrong = "url: the database is missing: mysql://user@host/database";
    else if (!mysql->url.user[0])
        wrong = "url: the user is missing: mysql://user@host/database";
    if (wrong) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "%s", wrong);
        return ERR_INVALID;
    }
    take_password(&mysql->url);
    claim_init(&mysql->claim, options, member_now_us());
    return OK;
}

static enum err check(const struct member_options *options, struct member_error *out_error)
{
    struct mysql_member *mysql = mem_zalloc(sizeof(*mysql));
    enum err err = read_options(options, mysql, out_error);
    const char *path;
    char why[CA_FILE_WHY_MAX];
    if (!err && mysql->verify) {
        err = ca_file_find(options->ca, &path, why);
        if (err)
            (void)snprintf(out_error->text, sizeof(out_error->text), "ca: %s", why);
    }
    mem_free(mysql);
    return err;
}

static enum err open_member(const struct member_options *options, struct member **out_member,
                            struct member_error *out_error)
{
    struct mysql_member *mysql = mem_zalloc(sizeof(*mysql));
    interrupt_init(&mysql->interrupt);
    enum err err = read_options(options, mysql, out_error);
    if (!err && mysql_library_init(0, NULL, NULL)) { /* once, before there are threads of it */
        (void)snprintf(out_error->text, sizeof(out_error->text), "libmariadb cannot be used");
        err = ERR_IO;
    }
    if (err) {
        ended(mysql);
        return err;
    }
    return member_thread_open(
        &(struct member_thread_options){
            .member = options, .user = mysql, .run = run, .interrupt = interrupt, .ended = ended},
        out_member, out_error);
}

extern const struct member_plugin laterd_member_plugin;
__attribute__((visibility("default"))) const struct member_plugin laterd_member_plugin = {
    .abi = MEMBER_PLUGIN_ABI,
    .version = LATERD_VERSION,
    .scheme = "mysql",
    .library = "libmariadb " MARIADB_PACKAGE_VERSION,
    .check = check,
    .open = open_member,
};
