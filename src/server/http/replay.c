/*
 * An answered() callback must not submit commands: it adds the replay to server::replays, and the
 * next step is made from there. A page is listed, the numbers of matching jobs are noted, and then
 * these are kicked.
 */
#include "server/http/replay.h"

#include "base/check.h"
#include "base/mem.h"

enum {
    PAGE_JOBS = 100,
    KICK_NS = 1500, /* work for one kick */
    CURSOR_MAX = 512,
};

struct replay_kick {
    struct ticket ticket;
    struct replay *replay;
    uint64_t seq;
    bool pending; /* with the engine */
};

struct replay {
    struct list place; // server::replays, while it does not wait for the engine
    struct request *request;
    struct replay_counts counts;
    struct api_replay filter; /* .topic is `name` */
    enum err err;             /* of a kick that the engine could not do */
    bool ended;               /* the list has no further page */
    uint32_t matches;         /* in `kicks` */
    uint32_t submitted;       /* of them */
    uint32_t waiting;         /* not answered */
    size_t cursor_len;
    char cursor[CURSOR_MAX];
    char name[TOPIC_NAME_MAX];
    struct replay_kick kicks[PAGE_JOBS];
};

void replay_free(struct replay *replay)
{
    if (!replay)
        return;
    list_remove(&replay->place);
    replay->request->http->pipeline.working_bytes -= sizeof(*replay);
    mem_free(replay);
}

void replay_cancel(struct replay *replay)
{
    struct server *server = http_server(replay->request->http);
    for (uint32_t i = 0; i < replay->submitted; i++) {
        if (replay->kicks[i].pending)
            server_cancel(server, &replay->kicks[i].ticket);
        replay->kicks[i].pending = false;
    }
}

static void wake(struct replay *replay)
{
    struct server *server = http_server(replay->request->http);
    list_add_tail(&server->replays, &replay->place);
    server->turn_again = true;
}

static void answer(struct replay *replay, enum err err)
{
    struct request *request = replay->request;
    if (err) {
        request_answer(request, &(struct reply){.err = err, .kind = CMD_KICK_TOPIC});
        return; /* the replay may have been freed */
    }
    struct pipeline_text text = request_begin(request);
    api_replay_reply(&request->format, &replay->counts, server_date(http_server(request->http)),
                     text.out);
    request_done(request, text);
}

/* ---- a page ---- */

static bool matches(const struct api_replay *filter, const struct job_view *job)
{
    if (filter->has_code && (job->last_note_us == 0 || job->last_code < filter->code_first ||
                             job->last_code > filter->code_last))
        return false;
    return !filter->has_time || (job->last_note_us != 0 && job->last_note_us >= filter->from_us &&
                                 job->last_note_us < filter->to_us);
}

static void listed(struct ticket *ticket, const struct reply *reply)
{
    struct request *request = LIST_ENTRY(ticket, struct request, pending.ticket);
    struct replay *replay = request->more.replay;
    uint64_t left = replay->filter.max - replay->counts.kicked;
    if (reply->err) {
        /* An idle topic may be forgotten once its last job is no longer buried. */
        answer(replay, reply->err == ERR_NOT_FOUND && replay->counts.looked_at ? OK : reply->err);
        return;
    }
    replay->matches = replay->submitted = 0;
    replay->ended = reply->cursor.len == 0;
    CHECK(reply->cursor.len <= sizeof(replay->cursor) && reply->count <= PAGE_JOBS);
    replay->cursor_len = reply->cursor.len;
    if (reply->cursor.len)
        memcpy(replay->cursor, reply->cursor.at, reply->cursor.len);
    for (uint32_t i = 0; i < reply->count; i++) {
        if (matches(&replay->filter, &reply->jobs[i]) && replay->matches == left) {
            replay->counts.more = true; /* at least this one */
            break;
        }
        replay->counts.looked_at++;
        if (matches(&replay->filter, &reply->jobs[i]))
            replay->kicks[replay->matches++] =
                (struct replay_kick){.replay = replay, .seq = reply->jobs[i].ref.seq};
    }
    wake(replay);
}

static void list_page(struct replay *replay)
{
    struct pending *pending = &replay->request->pending;
    struct cmd cmd = {
        .kind = CMD_LIST,
        .topic = {.topic = replay->filter.topic,
                  .state = JOB_BURIED,
                  .cursor = bytes_of(replay->cursor, replay->cursor_len),
                  .max = PAGE_JOBS},
    };
    pending->state = PENDING_EXCLUSIVE;
    pipeline_submit(pending, &cmd);
}

/* ---- its kicks ---- */

static void kicked(struct ticket *ticket, const struct reply *reply)
{
    struct replay_kick *kick = LIST_ENTRY(ticket, struct replay_kick, ticket);
    struct replay *replay = kick->replay;
    kick->pending = false;
    replay->waiting--;
    if (reply->err == OK)
        replay->counts.kicked++;
    else if (reply->err != ERR_NOT_FOUND &&
             reply->err != ERR_WRONG_STATE) /* another client has changed the job */
        replay->err = reply->err;
    if (replay->waiting == 0 && list_empty(&replay->place))
        wake(replay);
}

static void kick_next(struct replay *replay)
{
    struct session *session = &replay->request->http->pipeline.session;
    struct replay_kick *kick = &replay->kicks[replay->submitted++];
    struct cmd cmd = {.kind = CMD_KICK, .job = {.ref.seq = kick->seq, .brief = true}};
    kick->ticket = (struct ticket){.answered = kicked, .brief = true};
    kick->pending = true;
    replay->waiting++;
    budget_spend(&session->server->budget, KICK_NS);
    (void)server_submit(session->server, &session->principal, &cmd, &kick->ticket);
}

/* Makes all possible steps. True: the budget is spent, and it must continue in the next turn. */
static bool step(struct list *item)
{
    struct replay *replay = LIST_ENTRY(item, struct replay, place);
    struct server *server = http_server(replay->request->http);
    for (unsigned steps = 0; replay->submitted < replay->matches && !replay->err; steps++) {
        if (steps > 0 && budget_spent(&server->budget)) {
            list_remove(&replay->place); /* as below; server_step_each() puts it back */
            return true;
        }
        kick_next(replay);
    }
    list_remove(&replay->place); /* a kick that was answered at once may have put it there */
    if (replay->waiting)
        return false;
    if (replay->err || replay->ended || replay->counts.more) {
        answer(replay, replay->err);
        return false;
    }
    if (replay->counts.kicked == replay->filter.max) {
        replay->counts.more = true; /* there is another page */
        answer(replay, OK);
        return false;
    }
    list_page(replay);
    return false;
}

void replay_begin(struct request *request, const struct api_replay *filter)
{
    struct replay *replay = mem_zalloc(sizeof(*replay));
    CHECK(filter->topic.len <= sizeof(replay->name));
    memcpy(replay->name, filter->topic.at, filter->topic.len);
    replay->filter = *filter;
    replay->filter.topic = bytes_of(replay->name, filter->topic.len);
    replay->request = request;
    list_init(&replay->place);
    request->more = (struct long_command){.kind = LONG_REPLAY, .replay = replay};
    request->http->pipeline.working_bytes += sizeof(*replay);
    request->pending.ticket.answered = listed;
    list_page(replay);
}

bool replays_step(struct server *server)
{
    return server_step_each(server, &server->replays, step);
}
