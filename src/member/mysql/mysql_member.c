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
#include <errno.h>
#include <mariadb/errmsg.h>
#include <mariadb/mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/time_us.h"
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
    MYSQL *mysql; /* NULL: not connected */
    bool made;    /* the table is there */
    bool connected;
    char why[MEMBER_WHY_MAX];
};

static void set_why(struct mysql_member *row, const char *what)
{
    const char *text = row->mysql ? mysql_error(row->mysql) : "out of memory";
    (void)snprintf(row->why, sizeof(row->why), "%s %.90s: %.110s", what, row->url.hosts, text);
    for (char *at = row->why; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == '"')
            *at = '\''; /* the text is quoted in the log and in JSON */
    }
}

static void disconnect(struct mysql_member *row)
{
    interrupt_forget(&row->interrupt);
    if (row->mysql)
        mysql_close(row->mysql);
    row->mysql = NULL;
    row->connected = false;
}

static void set_options(struct mysql_member *row)
{
    const struct member_options *options = member_thread_options(row->thread);
    unsigned seconds = (unsigned)((options->timeout_us / TENURE_PARTS + 999999) / 1000000);
    const char *ca;
    char why[CA_FILE_WHY_MAX];
    unsigned no = 0;
    my_bool yes = 1, verify = row->verify;
    (void)mysql_options(row->mysql, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    (void)mysql_options(row->mysql, MYSQL_OPT_READ_TIMEOUT, &seconds);
    (void)mysql_options(row->mysql, MYSQL_OPT_WRITE_TIMEOUT, &seconds);
    (void)mysql_options(row->mysql, MYSQL_OPT_LOCAL_INFILE, &no); /* no server reads our files */
    (void)mysql_options(row->mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (row->tls)
        (void)mysql_options(row->mysql, MYSQL_OPT_SSL_ENFORCE, &yes);
    (void)mysql_options(row->mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    if (row->verify && ca_file_find(options->ca, &ca, why) == OK) /* lacks_ca() was false */
        (void)mysql_options(row->mysql, MYSQL_OPT_SSL_CA, ca);
}

/* True: the server's certificate must be verified, but the file of authorities is missing. */
static bool lacks_ca(struct mysql_member *row)
{
    const char *path;
    char why[CA_FILE_WHY_MAX];
    if (!row->verify || ca_file_find(member_thread_options(row->thread)->ca, &path, why) == OK)
        return false;
    (void)snprintf(row->why, sizeof(row->why), "member.ca: %s", why);
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
static bool find_user(struct mysql_member *row)
{
    const char *text = member_thread_options(row->thread)->url_text;
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
        (void)snprintf(row->why, sizeof(row->why), "member.url: %.200s", error.text);
        return false;
    }
    take_password(&now);
    memcpy(row->url.user, now.user, sizeof(now.user));
    memcpy(row->url.password, now.password, sizeof(now.password));
    return true;
}

static bool connect_now(struct mysql_member *row)
{
    if (row->mysql)
        return true;
    if (lacks_ca(row) || !find_user(row))
        return false;
    row->mysql = mysql_init(NULL);
    if (!row->mysql) {
        set_why(row, "cannot reach MySQL at");
        return false;
    }
    set_options(row);
    struct mysql_address address = {.host = row->url.host,
                                    .user = row->url.user,
                                    .password = row->url.password,
                                    .database = row->url.path + 1,
                                    .port = row->url.port};
    if (interrupt_connect(&row->interrupt, row->mysql, &address, 0) &&
        interrupt_watch(&row->interrupt, row->mysql) &&
        mysql_autocommit(row->mysql, 1) == 0) /* whatever the server's default is */
        return true;
    set_why(row, mysql_errno(row->mysql) == CR_SSL_CONNECTION_ERROR
                     ? "cannot agree on TLS, as member.url and member.ca require, with MySQL at"
                     : "cannot reach MySQL at");
    disconnect(row);
    return false;
}

/* ---- questions ---- */

static bool query(struct mysql_member *row, const char *sql)
{
    if (mysql_real_query(row->mysql, sql, strlen(sql)) == 0)
        return true;
    set_why(row, "MySQL refused at");
    disconnect(row); /* after any error, so that the next request gets a new connection */
    return false;
}

static bool make_table(struct mysql_member *row)
{
    row->made = row->made ||
                query(row, "CREATE TABLE IF NOT EXISTS laterd_member("
                           "name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,"
                           "epoch BIGINT UNSIGNED NOT NULL,count BIGINT UNSIGNED NOT NULL,"
                           "timeout_ms INT UNSIGNED NOT NULL,"
                           "holder VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
                           "url VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
                           "updated TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP "
                           "ON UPDATE CURRENT_TIMESTAMP) ENGINE=InnoDB");
    return row->made;
}

/* Quoted, for SQL; `room` has 2 * MEMBER_URL_MAX + 3. */
static const char *quote(struct mysql_member *row, const char *text, char *room)
{
    room[0] = '\'';
    unsigned long len = mysql_real_escape_string(row->mysql, room + 1, text, strlen(text));
    room[1 + len] = '\'';
    room[2 + len] = '\0';
    return room;
}

static void write_sql(struct mysql_member *row, const struct claim_request *request,
                      char sql[SQL_MAX])
{
    enum { QUOTED = 2 * MEMBER_URL_MAX + 3 };
    char name[QUOTED], holder[QUOTED], url[QUOTED];
    const struct claim_row *to = &request->to;
    (void)quote(row, member_thread_options(row->thread)->name, name);
    (void)quote(row, to->holder, holder);
    (void)quote(row, to->url, url);
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
        .timeout_us = (int64_t)(number_of(columns[2]) % 3600000) * 1000,
    };
    (void)snprintf(row->holder, sizeof(row->holder), "%s", columns[3] ? columns[3] : "");
    (void)snprintf(row->url, sizeof(row->url), "%s", columns[4] ? columns[4] : "");
}

static bool read_row(struct mysql_member *row, struct claim_row *out_row)
{
    char sql[SQL_MAX], name[2 * MEMBER_NAME_MAX + 3];
    (void)snprintf(sql, sizeof(sql),
                   "SELECT epoch,count,timeout_ms,holder,url FROM laterd_member WHERE name=%s",
                   quote(row, member_thread_options(row->thread)->name, name));
    if (!query(row, sql))
        return false;
    MYSQL_RES *result = mysql_store_result(row->mysql);
    if (!result) {
        set_why(row, "MySQL refused at");
        disconnect(row);
        return false;
    }
    MYSQL_ROW columns = mysql_fetch_row(result);
    *out_row = (struct claim_row){.exists = false};
    if (columns)
        take_row(columns, out_row);
    mysql_free_result(result);
    return true;
}

static bool answer(struct mysql_member *row, const struct claim_request *request,
                   struct claim_answer *out_answer)
{
    char sql[SQL_MAX];
    *out_answer = (struct claim_answer){.done = false};
    if (!connect_now(row) || !make_table(row))
        return false;
    if (request->write) {
        write_sql(row, request, sql);
        if (!query(row, sql))
            return false;
        out_answer->done = mysql_affected_rows(row->mysql) == 1;
    }
    return out_answer->done || read_row(row, &out_answer->row);
}

static void ask(struct mysql_member *row)
{
    struct claim_answer got;
    const struct claim_request *question = claim_request(&row->claim, member_now_us());
    row->connected = answer(row, question, &got);
    if (row->connected) {
        row->why[0] = '\0';
        claim_answered(&row->claim, &got, member_now_us());
        return;
    }
    row->made = false; /* the table may have been dropped: try to create it again */
    claim_unanswered(&row->claim, member_now_us());
    if (!row->mysql)
        row->claim.next_us += CONNECT_AGAIN_US;
}

/* ---- the thread ---- */

static int64_t next_us(const struct mysql_member *row)
{
    const struct tenure *tenure = &row->claim.tenure;
    int64_t at_us = claim_next_us(&row->claim);
    return tenure->leading ? time_earlier(at_us, tenure->deadline_us) : at_us;
}

/* Writes the resignation, so that others need not wait for the time-out; limited in time. */
static void give_back(struct mysql_member *row)
{
    int64_t until_us = member_now_us() + CLOSE_US;
    if (!row->connected)
        return;
    claim_resign(&row->claim, 2 * CLOSE_US, member_now_us());
    while (claim_is_held(&row->claim) && row->connected && member_now_us() < until_us)
        ask(row);
}

static void run(struct member_thread *thread, void *user)
{
    struct mysql_member *row = user;
    row->thread = thread;
    (void)mysql_thread_init();
    for (;;) {
        struct member_requests wishes = member_requests(thread);
        if (wishes.close)
            break;
        int64_t now_us = member_now_us();
        (void)claim_expire(&row->claim, now_us);
        if (wishes.above)
            claim_raise(&row->claim, wishes.above, now_us);
        if (wishes.resign)
            claim_resign(&row->claim, wishes.rest_us, now_us);
        if (claim_next_us(&row->claim) <= now_us)
            ask(row);
        member_publish(thread, &row->claim.tenure, claim_leader(&row->claim), row->connected,
                       row->why);
        member_sleep(thread, next_us(row));
    }
    give_back(row);
    disconnect(row);
    mysql_thread_end();
}

static void interrupt(void *user)
{
    struct mysql_member *row = user;
    interrupt_now(&row->interrupt);
}

static void free_row(struct mysql_member *row)
{
    interrupt_fini(&row->interrupt);
    mem_free(row);
}

static void ended(void *user)
{
    free_row(user);
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

static enum err read_options(const struct member_options *options, struct mysql_member *row,
                             struct member_error *out_error)
{
    enum err err = member_url_read(options->url, "mysql", PORT, &row->url, out_error);
    if (err)
        return err;
    const char *wrong = NULL, *query_text = row->url.query;
    row->verify = strcmp(query_text, "tls=verify") == 0;
    row->tls = row->verify || strcmp(query_text, "tls=on") == 0;
    if (query_text[0] && !row->tls)
        wrong = "url: behind the '?' there may be tls=on or tls=verify";
    else if (row->url.host_count > 1)
        wrong = "url: name one host only: with several servers two laterds could both lead";
    else if (row->url.path[0] != '/' || !row->url.path[1] || !is_name(row->url.path + 1))
        wrong = "url: the database is missing: mysql://user@host/database";
    else if (!row->url.user[0])
        wrong = "url: the user is missing: mysql://user@host/database";
    if (wrong) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "%s", wrong);
        return ERR_INVALID;
    }
    take_password(&row->url);
    claim_init(&row->claim, options, member_now_us());
    return OK;
}

static enum err check(const struct member_options *options, struct member_error *out_error)
{
    struct mysql_member *row = mem_zalloc(sizeof(*row));
    enum err err = read_options(options, row, out_error);
    const char *path;
    char why[CA_FILE_WHY_MAX];
    if (!err && row->verify) {
        err = ca_file_find(options->ca, &path, why);
        if (err)
            (void)snprintf(out_error->text, sizeof(out_error->text), "ca: %s", why);
    }
    mem_free(row);
    return err;
}

static enum err open_member(const struct member_options *options, struct member **out_member,
                            struct member_error *out_error)
{
    struct mysql_member *row = mem_zalloc(sizeof(*row));
    interrupt_init(&row->interrupt);
    enum err err = read_options(options, row, out_error);
    if (!err && mysql_library_init(0, NULL, NULL)) { /* once, before there are threads of it */
        (void)snprintf(out_error->text, sizeof(out_error->text), "libmariadb cannot be used");
        err = ERR_IO;
    }
    if (err) {
        free_row(row);
        return err;
    }
    struct member *member = member_thread_open(&(struct member_thread_options){
        .member = options, .user = row, .run = run, .interrupt = interrupt, .ended = ended});
    if (member) {
        *out_member = member;
        return OK;
    }
    (void)snprintf(out_error->text, sizeof(out_error->text), "%s", strerror(errno));
    free_row(row);
    return ERR_IO;
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
