/*
 * A restoring belongs to the server, not to its request: it ends when all its rows are pushed and
 * their pushes are answered. A row is settled as soon as its push is submitted, because an engine
 * keeps nothing of a command; only a ticket and the job's id remain, at most PUSHES_MAX.
 *
 * A push that fails because of its row is counted, and the first ten are logged; one that fails
 * because the server takes no more jobs ends the restore, which can be begun again.
 */
#include "server/http/restore.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/settings/job_properties.h"
#include "server/admin/pages.h"

enum {
    PUSHES_MAX = 1024, /* that are not answered */
    ROW_NS = 1500,     /* work for a row, without the engine's */
    NAMED_MAX = 10,    /* refused rows that are logged each */
    ID_ROOM = JOB_ID_MAX + 1,
    PROGRESS_US = 10 * 1000 * 1000,
};

struct restoring {
    struct restore_reader reader;
    struct list place; // server::restores, always
    struct server *server;
    struct request *request; /* NULL: its client has gone */
    struct restore_run *run;
    bool single;  /* of one id */
    bool lookup;  /* only looks up whether the job has finished; pushes nothing */
    bool arrived; /* the reader may have something */
    bool failed;  /* no further row is pushed */
    struct restore_tally tally;
    struct restore_tally published; /* as it was added to the server's sums */
    uint32_t waiting;               /* pushes that are not answered */
    int64_t begun_us, logged_us;
    enum restore_end end; /* of the row that a lookup found */
    char why[256];
    struct list pushes; // restore_push::place
    size_t id_len;
    char id[ID_ROOM]; /* of a single one */
};

struct restore_push {
    struct ticket ticket;
    struct list place; // restoring::pushes
    struct restoring *owner;
    struct restore_cost cost;
    char id[]; /* of the job, for the log */
};

/* ---- the end ---- */

static void restoring_free(struct restoring *restoring)
{
    struct restore *restore = restoring->server->options.restore;
    while (!list_empty(&restoring->pushes)) {
        struct restore_push *push = LIST_ENTRY(restoring->pushes.next, struct restore_push, place);
        server_cancel(restoring->server, &push->ticket);
        list_remove(&push->place);
        mem_free(push);
    }
    if (restoring->run)
        restore->verbs->close(restoring->run);
    list_remove(&restoring->place);
    if (restoring->request)
        restoring->request->more = (struct long_command){.kind = LONG_NONE};
    mem_free(restoring);
}

/* `status` is for /v1: sdmq's clients get 200 always. */
static void refuse(struct request *request, int status, const char *code, struct bytes text)
{
    bool sdmq = request->format.dialect == DIALECT_SDMQ;
    struct problem problem = {.status = sdmq ? 200 : status, .err = ERR_INVALID, .code = code};
    size_t len = text.len < sizeof(problem.detail) ? text.len : sizeof(problem.detail) - 1;
    memcpy(problem.detail, text.at, len);
    request_refuse(request, &problem);
}

static void answer_lookup(struct restoring *restoring)
{
    struct request *request = restoring->request;
    if (restoring->end == RESTORE_FINISHED) {
        struct buf text = {0};
        buf_addf(&text, "任务 %.*s 已经完成", (int)restoring->id_len, restoring->id);
        refuse(request, 409, "finished", buf_bytes(&text));
        buf_fini(&text);
        return;
    }
    /* A look-up in the journal that fails is no error of the command: the job does not exist. */
    request_answer(request, &(struct reply){.err = ERR_NOT_FOUND, .kind = CMD_DELETE});
}

static void answer(struct restoring *restoring)
{
    struct request *request = restoring->request;
    struct server *server = restoring->server;
    if (restoring->lookup) {
        answer_lookup(restoring);
    } else if (restoring->failed) {
        refuse(request, 503, "restore_failed", bytes_str(restoring->why));
    } else if (restoring->single && restoring->tally.rows == 0) {
        refuse(request, 404, "not_found",
               request->format.dialect == DIALECT_SDMQ
                   ? BYTES("Job不存在!")
                   : BYTES("the journal has no job with this id"));
    } else {
        struct api_restored restored = {.took_us = server->loop->now_us - restoring->begun_us,
                                        .rows = restoring->tally.rows,
                                        .created = restoring->tally.created,
                                        .kept = restoring->tally.kept,
                                        .refused = restoring->tally.refused,
                                        .single = restoring->single};
        struct pipeline_text text = request_begin(request);
        api_restored(&request->format, &restored, server_date(server), text.out);
        request_done(request, text);
    }
}

/* Updates the counts for pages and metrics; sums grow by the difference to the last call. */
static void publish(struct restoring *restoring)
{
    struct restore_counts *counts = &restoring->server->restored;
    const struct restore_verbs *verbs = restoring->server->options.restore->verbs;
    const struct restore_tally *now = &restoring->tally, *before = &restoring->published;
    counts->all.rows += now->rows - before->rows;
    counts->all.created += now->created - before->created;
    counts->all.kept += now->kept - before->kept;
    counts->all.refused += now->refused - before->refused;
    restoring->published = *now;
    if (restoring->single || restoring->lookup)
        return;
    counts->last = *now;
    counts->failed = restoring->failed;
    if (!counts->of && restoring->run && verbs->expected)
        counts->of = verbs->expected(restoring->run);
}

static void log_counts(const struct restoring *restoring, const char *event)
{
    const struct restore_counts *counts = &restoring->server->restored;
    int64_t took_us = restoring->server->loop->now_us - restoring->begun_us;
    char of[32] = "", facts[200];
    if (!restoring->single && counts->of)
        (void)snprintf(of, sizeof(of), " of=%llu", (unsigned long long)counts->of);
    (void)snprintf(
        facts, sizeof(facts), "rows=%llu created=%llu kept=%llu refused=%llu%s ms=%lld",
        (unsigned long long)restoring->tally.rows, (unsigned long long)restoring->tally.created,
        (unsigned long long)restoring->tally.kept, (unsigned long long)restoring->tally.refused, of,
        (long long)(took_us / 1000)); /* it fits */
    if (restoring->failed)
        log_event(LOG_ERROR, event, "%s why=\"%s\" hint=\"%s\"", facts, restoring->why,
                  "what was pushed stays: correct the reason and begin the restore again");
    else
        log_event(LOG_INFO, event, "%s", facts);
}

/* All is pushed and answered. Frees it. */
static void finish(struct restoring *restoring)
{
    if (!restoring->lookup)
        publish(restoring);
    if (!restoring->lookup && !restoring->single) {
        restoring->server->restored.runs = false;
        restoring->server->restored.ended_us = restoring->server->loop->now_us;
    }
    if (!restoring->lookup)
        log_counts(restoring, restoring->failed ? "restore_failed" : "restored");
    struct request *request = restoring->request;
    if (request) {
        request->more = (struct long_command){.kind = LONG_NONE};
        answer(restoring);
        restoring->request = NULL;
    }
    restoring_free(restoring);
}

static void fail(struct restoring *restoring, const char *why)
{
    if (restoring->failed)
        return;
    restoring->failed = true;
    size_t len = strnlen(why, sizeof(restoring->why) - 1);
    memcpy(restoring->why, why, len);
    restoring->why[len] = '\0';
}

/* ---- pushes ---- */

/* True: later pushes would fail, too, so that the restore must end. */
static bool is_for_all(enum err err)
{
    int status = api_status(err);
    return status == 429 || status == 503 || status == 507 || status == 500;
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct restore_push *push = LIST_ENTRY(ticket, struct restore_push, ticket);
    struct restoring *restoring = push->owner;
    list_remove(&push->place);
    restoring->waiting--;
    restoring->server->turn_again = true; /* the next rows, or the end */
    if (push->cost.bytes && restoring->run && (reply->err || reply->kept))
        restoring->server->options.restore->verbs->push_skipped(restoring->run, &push->cost);
    if (reply->err == ERR_NOT_FOUND) { /* its job has ended meanwhile: no row of this restore */
        mem_free(push);
        return;
    }
    restoring->tally.rows++; /* now: a count that was shown never goes down */
    if (reply->err == OK) {
        restoring->tally.kept += reply->kept;
        restoring->tally.created += !reply->kept;
    } else if (reply->err == ERR_STALE_LEASE) {
        fail(restoring, "the queue no longer knows this restore: begin it again");
    } else if (is_for_all(reply->err)) {
        fail(restoring, err_text(reply->err));
    } else if (restoring->tally.refused++ < NAMED_MAX) {
        log_event(LOG_WARN, "restore_refused", "id=\"%s\" error=%s why=\"%s\"", push->id,
                  err_name(reply->err), reply->why ? reply->why : err_text(reply->err));
    }
    mem_free(push);
}

/* True: the job has a URL of its own, so that the door must check whether that is allowed. */
static bool has_own_target(struct bytes text)
{
    struct job_properties properties;
    struct arena scratch = {0};
    bool has = text.len && job_properties_read(text, &scratch, &properties, NULL) == OK &&
               properties.url.len;
    arena_fini(&scratch);
    return has;
}

static void push_row(struct restoring *restoring, const struct restore_row *row)
{
    struct bytes id = bytes_is_utf8(row->push.id) ? row->push.id : (struct bytes){0};
    struct restore_push *push = mem_alloc(sizeof(*push) + id.len + 1);
    struct cmd cmd = {.kind = CMD_PUSH, .push = row->push};
    cmd.push.own_target = has_own_target(row->push.properties);
    cmd.push.if_exists = IF_EXISTS_KEEP;
    cmd.push.number = row->seq;
    cmd.push.brief = true;
    *push =
        (struct restore_push){.ticket = {.answered = answered, .brief = true}, .owner = restoring};
    push->cost = row->cost;
    if (id.len)
        memcpy(push->id, id.at, id.len);
    push->id[id.len] = '\0';
    list_add_tail(&restoring->pushes, &push->place);
    restoring->waiting++;
    (void)server_submit(restoring->server, &principal_server, &cmd, &push->ticket);
}

/* ---- rows ---- */

static void arrived(struct restore_reader *reader)
{
    struct restoring *restoring = LIST_ENTRY(reader, struct restoring, reader);
    restoring->arrived = true;
    restoring->server->turn_again = true;
}

static void take_row(struct restoring *restoring, struct restore_row *row)
{
    restoring->end = row->end;
    restoring->tally.kept += row->lives;
    if (!restoring->lookup && !restoring->failed && !row->lives)
        push_row(restoring, row);
    else
        restoring->tally.rows++;
    restoring->server->options.restore->verbs->settle(restoring->run, row);
}

static void log_progress(struct restoring *restoring)
{
    int64_t now_us = restoring->server->loop->now_us;
    if (now_us - restoring->logged_us < PROGRESS_US)
        return;
    restoring->logged_us = now_us;
    log_counts(restoring, "restoring");
}

/* True: there is more to do now. May free it. */
static bool step(struct restoring *restoring)
{
    if (!restoring->run)
        return false; /* its delete is not answered yet */
    const struct restore_verbs *verbs = restoring->server->options.restore->verbs;
    struct budget *budget = &restoring->server->budget;
    struct restore_row *row = NULL;
    enum err err = OK;
    const char *why = "";
    for (unsigned rows = 0; restoring->arrived && restoring->waiting < PUSHES_MAX; rows++) {
        if (rows > 0 && budget_spent(budget))
            return true;
        budget_spend(budget, ROW_NS);
        row = verbs->take(restoring->run);
        if (!row)
            break;
        take_row(restoring, row);
    }
    if (!restoring->lookup)
        publish(restoring);
    log_progress(restoring);
    if (restoring->waiting >= PUSHES_MAX)
        return false; /* their answers bring it back */
    restoring->arrived = false;
    if (restoring->waiting || !(verbs->ended(restoring->run, &err, &why) || restoring->failed))
        return false;
    if (err)
        fail(restoring, why);
    finish(restoring);
    return false;
}

bool restores_step(struct server *server)
{
    bool more = false;
    struct list *at = server->restores.next;
    while (at != &server->restores) {
        struct restoring *restoring = LIST_ENTRY(at, struct restoring, place);
        at = at->next;
        more |= step(restoring);
    }
    return more;
}

/* ---- beginning ---- */

static struct restoring *restoring_new(struct request *request, struct bytes id)
{
    struct server *server = http_server(request->http);
    struct restoring *restoring = mem_zalloc(sizeof(*restoring));
    restoring->reader.arrived = arrived;
    restoring->server = server;
    restoring->request = request;
    restoring->single = id.len > 0;
    restoring->begun_us = restoring->logged_us = server->loop->now_us;
    restoring->id_len = id.len < ID_ROOM ? id.len : ID_ROOM;
    if (id.len)
        memcpy(restoring->id, id.at, restoring->id_len);
    list_init(&restoring->pushes);
    list_add_tail(&server->restores, &restoring->place);
    request->more = (struct long_command){.kind = LONG_RESTORE, .restoring = restoring};
    request->pending.state = PENDING_EXCLUSIVE;
    return restoring;
}

/* Begins the query. On an error, *out_why says why, and `restoring` is freed. */
static enum err begin_query(struct restoring *restoring, bool skip_overdue, const char **out_why)
{
    struct server *server = restoring->server;
    struct restore *restore = server->options.restore;
    struct restore_query query = {.id = bytes_of(restoring->id, restoring->id_len),
                                  .skip_overdue = skip_overdue,
                                  .now_us = server->loop->now_us};
    enum err err =
        restore->verbs->begin(restore, &query, &restoring->reader, &restoring->run, out_why);
    if (!err)
        return OK;
    restoring->run = NULL;
    restoring_free(restoring);
    return err;
}

static bool is_under_way(const struct server *server)
{
    for (struct list *at = server->restores.next; at != &server->restores; at = at->next) {
        if (!LIST_ENTRY(at, struct restoring, place)->single)
            return true;
    }
    return false;
}

static bool is_resyncing(const struct server *server)
{
    struct journal_control *control = server->options.journal;
    struct resync_status status = {.state = RESYNC_NONE};
    if (control)
        control->verbs->resync_status(control, &status);
    return status.state == RESYNC_RUNS;
}

void resync_begin(struct request *request)
{
    struct server *server = http_server(request->http);
    struct journal_control *control = server->options.journal;
    const char *why = "";
    if (!control) {
        refuse(request, 409, "no_journal",
               BYTES("there is no journal: see [journal] in the configuration"));
        return;
    }
    if (is_under_way(server)) {
        refuse(request, 409, "restore_under_way",
               BYTES("a restore is under way: the log says how far it is (restoring)"));
        return;
    }
    enum err err = control->verbs->resync(control, &why);
    if (err == ERR_EXISTS)
        refuse(request, 409, "resync_under_way", bytes_str(why));
    else if (err == ERR_NOT_LEADER)
        refuse(request, 409, "journal_elsewhere", bytes_str(why));
    else if (err)
        refuse(request, 503, "journal_down", bytes_str(why));
    else {
        struct pipeline_text text = request_begin(request);
        page_write(server, CALL_JOURNAL, &request->format, NULL, text.out);
        request_done_uncounted(request, text);
    }
}

void restore_begin(struct request *request, const struct api_restore *query)
{
    struct server *server = http_server(request->http);
    const char *why = "";
    if (!server->options.restore) {
        refuse(request, 409, "no_journal",
               query->id.len && request->format.dialect == DIALECT_SDMQ
                   ? BYTES("Job不存在! There is no journal to restore it from: see [journal] in "
                           "the configuration")
                   : BYTES("there is no journal to restore from: see [journal] in the "
                           "configuration"));
        return;
    }
    if (query->id.len == 0 && is_under_way(server)) {
        refuse(request, 409, "restore_under_way",
               BYTES("a restore is under way: the log says how far it is (restoring)"));
        return;
    }
    if (is_resyncing(server)) { /* also for a single job: its row may be outdated */
        refuse(request, 409, "resync_under_way",
               BYTES("a resync of the journal is under way, and its rows are not right before it "
                     "has ended: see GET /v1/journal"));
        return;
    }
    struct restoring *restoring = restoring_new(request, query->id);
    enum err err = begin_query(restoring, query->skip_overdue, &why);
    if (!err && query->id.len == 0) {
        struct restore_counts *counts = &server->restored;
        *counts = (struct restore_counts){
            .runs = true, .begun_us = server->loop->now_us, .all = counts->all};
    }
    if (err == ERR_NOT_LEADER)
        refuse(request, 409, "journal_elsewhere", bytes_str(why));
    else if (err)
        refuse(request, 503, "journal_down", bytes_str(why));
}

/* ---- deletes ---- */

static void deleted(struct ticket *ticket, const struct reply *reply)
{
    struct request *request = LIST_ENTRY(ticket, struct request, pending.ticket);
    struct restoring *restoring = request->more.restoring;
    const char *why;
    if (reply->err == ERR_NOT_FOUND && begin_query(restoring, false, &why) == OK)
        return;
    if (reply->err != ERR_NOT_FOUND)
        restoring_free(restoring);
    request_answer(request, reply);
}

void restore_delete(struct request *request, const struct cmd *cmd)
{
    struct server *server = http_server(request->http);
    if (server->options.restore) {
        char room[JOB_TEXT_ID_MAX];
        struct restoring *restoring = restoring_new(request, job_ref_text(&cmd->job.ref, room));
        restoring->lookup = true;
        request->pending.ticket.answered = deleted;
    }
    pipeline_submit(&request->pending, cmd);
}

void restore_forget(struct request *request)
{
    struct restoring *restoring = request->more.restoring;
    request->more = (struct long_command){.kind = LONG_NONE};
    if (!restoring)
        return;
    restoring->request = NULL;
    if (restoring->lookup)
        restoring_free(restoring); /* a look-up without a request has no purpose */
}

void restores_free(struct server *server)
{
    while (!list_empty(&server->restores))
        restoring_free(LIST_ENTRY(server->restores.next, struct restoring, place));
}
