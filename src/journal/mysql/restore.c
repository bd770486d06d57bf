/*
 * Reads rows back as pushes: port/restore.h. Each run has a thread with a connection of its own,
 * which reads one consistent snapshot by pages of the primary key and passes portions of rows to
 * the loop's thread.
 *
 * A restore must not bring back a job that ended after the snapshot was made. So a run of all rows
 * first waits until the database has every change made before it began, and from its beginning on
 * the engine reports each job that ends: take() leaves their rows out. Both happen on the loop's
 * thread.
 *
 * Lifetimes: a run is used by the server until close(), and by its thread until that has ended,
 * which its last message reports; the later of the two frees it. The mutex protects the fields
 * marked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "journal/extend.h"
#include "journal/mysql/writer.h"
#include "os/thread.h"

enum {
    RUNS_MAX = 8,
    PAGE_ROWS = 500,
    PORTION_ROWS = 64,
    PORTION_BYTES = 256 * 1024,
    AHEAD_BYTES = 4 * 1024 * 1024, /* bytes that a thread reads ahead of take() */
    LARGE_BYTES = PORTION_BYTES,   /* a larger body is the last of its portion */
    LEFT_OUT_MAX = 128,            /* rows that one take() skips at most: each is looked up */
    CATCH_UP_US = 60 * 1000 * 1000,
    AWAY_US = 5 * 1000 * 1000,
    POLL_US = 10 * 1000,
    UNREAD_SAID = 10,
    WHY_MAX = 200,
};

struct portion {
    struct queue_node place;
    struct arena arena;
    struct buf large; /* the large body of its last row, which a push may take over */
    size_t bytes;     /* that it takes, its rows' columns included */
    unsigned count, taken, unsettled;
    struct restore_row rows[PORTION_ROWS];
};

struct restore_run {
    struct list place; // restorer::runs
    struct writer *writer;
    struct restore_reader *reader; /* NULL: closed */
    bool all, skip_overdue, only_ids;
    int64_t now_us;
    uint64_t target; /* the batch that the database must have first */
    struct buf id;   /* of a run of one */
    struct portion *current;
    struct link link; /* the thread's */
    uint64_t unread;  /* rows that no job can be made of; the thread's */
    struct message message;
    /* Under the mutex. */
    struct queue portions; // portion::place
    size_t ahead_bytes;
    bool closed;  /* by its reader: freed when its thread has ended */
    bool stopped; /* the journal ends: the thread must end; the reader frees the run by close() */
    bool finished, posted;
    uint64_t expected; /* rows; 0: not counted yet */
    enum err err;
    char why[WHY_MAX];
};

static struct writer *writer_of(struct restore *restore)
{
    return LIST_ENTRY(restore, struct writer, restorer.restore);
}

static void lock(struct restore_run *run)
{
    (void)pthread_mutex_lock(&run->writer->restorer.mutex);
}

static void unlock(struct restore_run *run)
{
    (void)pthread_mutex_unlock(&run->writer->restorer.mutex);
}

/* Under the mutex. */
static void post(struct restore_run *run)
{
    struct loop *loop = run->writer->loop;
    if (run->posted)
        return;
    run->posted = true;
    loop->verbs->post(loop, &run->message);
}

/* With the mutex locked. True: nothing more must be read. */
static bool is_over(const struct restore_run *run)
{
    return run->closed || run->stopped;
}

static bool is_closed(struct restore_run *run)
{
    lock(run);
    bool over = is_over(run);
    unlock(run);
    return over;
}

static void rest(int64_t us)
{
    struct timespec span = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)nanosleep(&span, NULL); /* shorter does no harm */
}

/* ---- the thread: reading ---- */

static struct portion *new_portion(void)
{
    struct portion *portion = mem_zalloc(sizeof(*portion));
    portion->bytes = sizeof(*portion);
    return portion;
}

static void free_portion(struct portion *portion)
{
    arena_fini(&portion->arena);
    buf_fini(&portion->large);
    mem_free(portion);
}

/* Hands the portion over, and waits until there is room for the next. False: it is closed. */
static bool hand_over(struct restore_run *run, struct portion *portion)
{
    bool closed, full;
    lock(run);
    closed = is_over(run);
    if (!closed) {
        queue_add(&run->portions, &portion->place);
        run->ahead_bytes += portion->bytes;
        post(run);
    }
    unlock(run);
    if (closed)
        free_portion(portion);
    do {
        lock(run);
        closed = is_over(run);
        full = run->ahead_bytes > AHEAD_BYTES && !closed;
        unlock(run);
        if (full)
            rest(POLL_US);
    } while (full);
    return !closed;
}

static int64_t number(const char *text)
{
    return text ? strtoll(text, NULL, 10) : 0;
}

static struct bytes column(struct portion *portion, MYSQL_ROW row, const unsigned long *lengths,
                           unsigned i)
{
    struct bytes bytes =
        row[i] ? arena_copy(&portion->arena, bytes_of(row[i], lengths[i])) : bytes_of("", 0);
    portion->bytes += bytes.len;
    return bytes;
}

static struct bytes body_column(struct portion *portion, MYSQL_ROW row,
                                const unsigned long *lengths, unsigned i)
{
    if (!row[i] || lengths[i] <= LARGE_BYTES)
        return column(portion, row, lengths, i);
    buf_reserve_to(&portion->large, lengths[i], lengths[i]);
    buf_add(&portion->large, row[i], lengths[i]);
    portion->bytes += lengths[i];
    return buf_bytes(&portion->large);
}

/* The engine would have to copy the body in the turn otherwise. It lies there already, or in the
   arena, if it was in base64. */
static void set_apart(struct portion *portion, struct cmd_push *push)
{
    if (push->body.len <= LARGE_BYTES)
        return;
    if (push->body.at != portion->large.at) {
        portion->large.len = 0;
        buf_add_bytes(&portion->large, push->body);
    }
    push->body = buf_bytes(&portion->large);
    push->memory = &portion->large;
}

#define COLUMNS "id,bizkey,topic,subtopic,body,extend_data,delay,create_time,ttl,status"

static enum restore_end end_of(int status)
{
    switch (status) {
    case STATUS_FINISHED: return RESTORE_FINISHED;
    case STATUS_DELETED: return RESTORE_DELETED;
    default: return RESTORE_LIVES;
    }
}

/* Adds the row to the portion, unless it is left out. */
static void add_row(struct restore_run *run, struct portion *portion, MYSQL_ROW row,
                    const unsigned long *lengths)
{
    struct restore_row *out = &portion->rows[portion->count];
    const char *why = "";
    if (run->only_ids) {
        out->push.id = column(portion, row, lengths, 0);
        portion->count++;
        return;
    }
    struct extend_row in = {.id = column(portion, row, lengths, 0),
                            .bizkey = column(portion, row, lengths, 1),
                            .topic = column(portion, row, lengths, 2),
                            .subtopic = column(portion, row, lengths, 3),
                            .body = body_column(portion, row, lengths, 4),
                            .extend_data = column(portion, row, lengths, 5),
                            .delay_ms = number(row[6]),
                            .create_ms = number(row[7]),
                            .ttl_s = number(row[8]),
                            .status = (int)number(row[9])};
    if (extend_push(&in, &portion->arena, &out->push, &why)) {
        if (run->unread++ < UNREAD_SAID)
            log_event(LOG_WARN, "restore_row_unread", "id=\"%.*s\" why=\"%s\"",
                      (int)(bytes_is_utf8(in.id) ? in.id.len : 0), in.id.at, why);
        return;
    }
    if (run->skip_overdue && out->push.due_us < run->now_us)
        return;
    set_apart(portion, &out->push);
    out->end = end_of(in.status);
    out->written = extend_is_written(&in, &out->push, run->now_us);
    portion->count++;
}

/* Reads the rows of one query. *out_count: how many there were; last_id is that of the last. */
static enum link_result read_rows(struct restore_run *run, struct bytes sql, struct buf *last_id,
                                  unsigned *out_count)
{
    struct portion *portion = NULL;
    MYSQL *mysql = &run->link.mysql;
    MYSQL_ROW row;
    bool on = true;
    *out_count = 0;
    if (mysql_real_query(mysql, sql.at, (unsigned long)sql.len))
        return LINK_AWAY;
    MYSQL_RES *rows = mysql_use_result(mysql);
    if (!rows)
        return LINK_AWAY;
    while (on && (row = mysql_fetch_row(rows))) {
        const unsigned long *lengths = mysql_fetch_lengths(rows);
        if (!portion)
            portion = new_portion();
        add_row(run, portion, row, lengths);
        last_id->len = 0;
        buf_add(last_id, row[0], lengths[0]);
        (*out_count)++;
        if (portion->count == PORTION_ROWS || portion->bytes >= PORTION_BYTES) {
            on = hand_over(run, portion);
            portion = NULL;
        }
    }
    bool failed = mysql_errno(mysql) != 0;
    if (portion && (failed || !on))
        free_portion(portion);
    else if (portion)
        on = hand_over(run, portion);
    mysql_free_result(rows);
    return failed || !on ? LINK_AWAY : LINK_DONE;
}

/* By an index; of the snapshot that is read. */
static enum link_result count_rows(struct restore_run *run)
{
    enum link_result result;
    MYSQL_RES *rows = link_query(
        &run->link, "SELECT COUNT(*) FROM " JOURNAL_JOBS " WHERE status NOT IN(3,4)", &result);
    MYSQL_ROW row = rows ? mysql_fetch_row(rows) : NULL;
    lock(run);
    run->expected = row ? (uint64_t)number(row[0]) : 0;
    unlock(run);
    if (rows)
        mysql_free_result(rows);
    return result;
}

static enum link_result read_all(struct restore_run *run)
{
    static const char *const words[] = {"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                                        "START TRANSACTION WITH CONSISTENT SNAPSHOT"};
    struct buf sql = {0}, last_id = {0};
    enum link_result result = LINK_DONE;
    unsigned count = PAGE_ROWS;
    uint64_t ignored;
    for (unsigned i = 0; i < 2 && result == LINK_DONE; i++)
        result = link_run(&run->link, bytes_str(words[i]), &ignored);
    if (result == LINK_DONE)
        result = count_rows(run);
    while (result == LINK_DONE && count == PAGE_ROWS) {
        sql.len = 0;
        buf_addf(&sql, "SELECT %s FROM " JOURNAL_JOBS " WHERE id>", run->only_ids ? "id" : COLUMNS);
        sql_add_text(&sql, buf_bytes(&last_id));
        buf_addf(&sql, " AND status NOT IN(3,4) ORDER BY id LIMIT %d", PAGE_ROWS);
        result = read_rows(run, buf_bytes(&sql), &last_id, &count);
    }
    buf_fini(&sql);
    buf_fini(&last_id);
    return result;
}

static enum link_result read_one(struct restore_run *run)
{
    struct buf sql = {0}, last_id = {0};
    unsigned count;
    buf_add_str(&sql, "SELECT " COLUMNS " FROM " JOURNAL_JOBS " WHERE id=");
    sql_add_text(&sql, buf_bytes(&run->id));
    enum link_result result = read_rows(run, buf_bytes(&sql), &last_id, &count);
    buf_fini(&sql);
    buf_fini(&last_id);
    return result;
}

/* ---- the thread: its life ---- */

static void set_why(struct restore_run *run, const char *why)
{
    lock(run);
    run->err = ERR_AGAIN;
    (void)snprintf(run->why, sizeof(run->why), "%s", why);
    unlock(run);
}

/* Until the database has what was changed before the run began. False: it does not get there. */
static bool wait_for_target(struct restore_run *run)
{
    int64_t begun_us = writer_now_us(), away_us = begun_us;
    for (;;) {
        enum link_result result = writer_has(run->writer, run->target);
        int64_t now_us = writer_now_us();
        if (result == LINK_DONE)
            return true;
        if (result == LINK_ROW)
            away_us = now_us; /* it writes */
        if (is_closed(run))
            return false;
        if (now_us - away_us > AWAY_US) {
            set_why(run, "the journal does not write to MySQL now: later journal status says why");
            return false;
        }
        if (now_us - begun_us > CATCH_UP_US) {
            set_why(run, "the journal is too far behind: wait until laterd_journal_lag_batches is "
                         "small");
            return false;
        }
        rest(POLL_US);
    }
}

static void read_back(struct restore_run *run)
{
    if (run->all && !wait_for_target(run))
        return;
    enum link_result result = link_open(&run->link, &run->writer->link_options);
    if (result == LINK_DONE)
        result = run->all ? read_all(run) : read_one(run);
    if (result != LINK_DONE && !is_closed(run)) {
        char why[WHY_MAX];
        bool of_link = run->link.open && mysql_errno(&run->link.mysql);
        (void)snprintf(why, sizeof(why), "MySQL: %.160s",
                       of_link ? mysql_error(&run->link.mysql) : run->link.error);
        set_why(run, why);
    }
}

static void *run_main(void *arg)
{
    struct restore_run *run = arg;
    struct restorer *restorer = &run->writer->restorer;
    read_back(run);
    link_close(&run->link);
    mysql_thread_end();
    (void)pthread_mutex_lock(&restorer->mutex);
    run->finished = true;
    post(run);
    restorer->threads--;
    (void)pthread_cond_signal(&restorer->ended);
    (void)pthread_mutex_unlock(&restorer->mutex); /* the run is the loop's alone now */
    return NULL;
}

/* ---- the loop: ends of jobs ---- */

void restorer_ended(struct restorer *restorer, struct bytes id)
{
    id_set_add(&restorer->ends, id);
}

/* ---- the loop: runs ---- */

/* Neither the server nor the thread uses the run any more. */
static void free_run(struct restore_run *run)
{
    struct writer *writer = run->writer;
    struct queue_node *node;
    while ((node = queue_take(&run->portions)))
        free_portion(LIST_ENTRY(node, struct portion, place));
    if (run->current)
        free_portion(run->current);
    list_remove(&run->place);
    link_fini(&run->link);
    buf_fini(&run->id);
    mem_free(run);
    writer_release(writer);
}

static void message_arrived(struct message *message)
{
    struct restore_run *run = LIST_ENTRY(message, struct restore_run, message);
    lock(run);
    run->posted = false;
    bool over = run->closed && run->finished;
    unlock(run);
    if (over)
        free_run(run);
    else if (run->reader)
        run->reader->arrived(run->reader);
}

static struct restore_run *new_run(struct writer *writer, const struct restore_query *query,
                                   struct restore_reader *reader)
{
    struct restore_run *run = mem_zalloc(sizeof(*run));
    char room[JOURNAL_ID_ROOM];
    struct job_ref ref;
    struct bytes id = query->id;
    run->writer = writer;
    run->reader = reader;
    run->all = id.len == 0;
    run->skip_overdue = query->skip_overdue;
    run->only_ids = query->only_ids;
    run->now_us = query->now_us;
    run->message.arrived = message_arrived;
    if (id.len && job_ref_parse(id, &ref) && !ref.id.len) /* "@7" of this store */
        id = bytes_of(room, journal_id_write(ref.seq, writer->begin.store, room));
    buf_add_bytes(&run->id, id);
    link_init(&run->link);
    list_add_tail(&writer->restorer.runs, &run->place);
    if (run->all) {
        writer->restorer.of_all++;
        writer->journal.wants_ended = true;
        run->target = writer->journal.newest ? writer->journal.newest(&writer->journal) : 0;
    }
    return run;
}

static void end_all(struct restore_run *run)
{
    struct restorer *restorer = &run->writer->restorer;
    if (!run->all || --restorer->of_all)
        return;
    run->writer->journal.wants_ended = false;
    id_set_fini(&restorer->ends);
}

static unsigned count_runs(const struct restorer *restorer)
{
    unsigned count = 0;
    for (const struct list *at = restorer->runs.next; at != &restorer->runs; at = at->next)
        count++;
    return count;
}

static enum err begin(struct restore *restore, const struct restore_query *query,
                      struct restore_reader *reader, struct restore_run **out_run,
                      const char **out_why)
{
    struct writer *writer = writer_of(restore);
    pthread_t thread;
    if (count_runs(&writer->restorer) >= RUNS_MAX) {
        *out_why = "too many rows are being looked up in MySQL at the same time";
        return ERR_AGAIN;
    }
    struct restore_run *run = new_run(writer, query, reader);
    (void)pthread_mutex_lock(&writer->restorer.mutex);
    int failed = thread_start(&thread, run_main, run);
    writer->restorer.threads += !failed;
    (void)pthread_mutex_unlock(&writer->restorer.mutex);
    if (failed) {
        end_all(run);
        free_run(run);
        *out_why = "the system has no thread left for it";
        return ERR_AGAIN;
    }
    (void)pthread_detach(thread); /* its last message tells that it has ended */
    *out_run = run;
    return OK;
}

/* The portion that rows are taken from. False: none is there now. */
static bool next_portion(struct restore_run *run)
{
    while (!run->current || run->current->taken == run->current->count) {
        if (run->current && run->current->unsettled)
            return false;
        if (run->current)
            free_portion(run->current);
        lock(run);
        struct queue_node *node = queue_take(&run->portions);
        run->current = node ? LIST_ENTRY(node, struct portion, place) : NULL;
        if (node)
            run->ahead_bytes -= run->current->bytes;
        unlock(run);
        if (!node)
            return false;
    }
    return true;
}

/* Of a job that this store named by its number; else 0. */
static uint64_t number_of(const struct restore_run *run, const struct restore_row *row)
{
    return journal_id_read(row->push.id, run->writer->begin.store);
}

/* True: the job lives, under a number of this store. False: not known; its push checks it. */
static bool lives(const struct restore_run *run, const struct restore_row *row)
{
    const struct journal *journal = &run->writer->journal;
    uint64_t seq = number_of(run, row);
    return seq && journal->lives && journal->lives(journal, seq);
}

/* True: the job lives, or has ended meanwhile, so that its row is skipped. */
static bool is_left_out(const struct restore_run *run, const struct restore_row *row)
{
    return run->all && (row->lives || id_set_has(&run->writer->restorer.ends, row->push.id));
}

static struct restore_row *take(struct restore_run *run)
{
    for (unsigned i = 0; i < LEFT_OUT_MAX; i++) {
        if (!next_portion(run))
            return NULL;
        struct restore_row *row = &run->current->rows[run->current->taken++];
        row->lives = lives(run, row);
        if (is_left_out(run, row))
            continue;
        row->seq = number_of(run, row);
        run->current->unsettled++;
        return row;
    }
    lock(run);
    post(run); /* the next ones are for another turn */
    unlock(run);
    return NULL;
}

static void settle(struct restore_run *run, struct restore_row *row)
{
    (void)row;
    CHECK(run->current && run->current->unsettled > 0);
    run->current->unsettled--;
}

static bool ended(const struct restore_run *run, enum err *out_err, const char **out_why)
{
    struct restorer *restorer = &run->writer->restorer;
    bool taken = !run->current || run->current->taken == run->current->count;
    (void)pthread_mutex_lock(&restorer->mutex);
    bool over = run->finished && !run->portions.first && taken;
    *out_err = run->err;
    *out_why = run->why;
    (void)pthread_mutex_unlock(&restorer->mutex);
    return over;
}

static void close_run(struct restore_run *run)
{
    end_all(run);
    lock(run);
    run->closed = true;
    run->reader = NULL;
    bool over = run->finished && !run->posted;
    unlock(run);
    link_interrupt(&run->link);
    if (over)
        free_run(run);
}

static uint64_t expected(const struct restore_run *run)
{
    struct restorer *restorer = &run->writer->restorer;
    (void)pthread_mutex_lock(&restorer->mutex);
    uint64_t rows = run->expected;
    (void)pthread_mutex_unlock(&restorer->mutex);
    return rows;
}

static const struct restore_verbs verbs = {
    .begin = begin,
    .take = take,
    .settle = settle,
    .ended = ended,
    .expected = expected,
    .close = close_run,
};

/* ---- for the writer ---- */

void restorer_init(struct restorer *restorer)
{
    restorer->restore.verbs = &verbs;
    list_init(&restorer->runs);
    (void)pthread_mutex_init(&restorer->mutex, NULL); /* cannot fail on Linux */
    (void)pthread_cond_init(&restorer->ended, NULL);
}

bool restorer_leave(struct restorer *restorer)
{
    (void)pthread_mutex_lock(&restorer->mutex);
    for (struct list *at = restorer->runs.next; at != &restorer->runs; at = at->next) {
        struct restore_run *run = LIST_ENTRY(at, struct restore_run, place);
        run->stopped = true;
        link_interrupt(&run->link);
    }
    bool ended = restorer->threads == 0;
    (void)pthread_mutex_unlock(&restorer->mutex);
    return ended;
}

void restorer_stop(struct restorer *restorer)
{
    (void)restorer_leave(restorer);
    (void)pthread_mutex_lock(&restorer->mutex);
    while (restorer->threads)
        (void)pthread_cond_wait(&restorer->ended, &restorer->mutex);
    (void)pthread_mutex_unlock(&restorer->mutex);
}

bool restorer_idle(const struct restorer *restorer)
{
    return list_empty(&restorer->runs);
}

void restorer_fini(struct restorer *restorer)
{
    id_set_fini(&restorer->ends);
    (void)pthread_cond_destroy(&restorer->ended);
    (void)pthread_mutex_destroy(&restorer->mutex);
}
