/*
 * The states are cleared in the order in which jobs go through them, so that a job which becomes
 * ready meanwhile is still found. A job that is pushed, or goes back to an earlier state, may stay.
 *
 * An answered() callback must not submit commands: it adds the clearing to server::clearings, and
 * clearings_step() continues it.
 */
#include "server/http/clearing.h"

#include "base/check.h"
#include "base/mem.h"

/* The next command. */
enum clearing_step { STEP_LOOK, STEP_UNSET, STEP_JOBS, STEP_REMOVE };

struct clearing {
    struct list place; // server::clearings, while it does not wait for the engine
    struct request *request;
    bool begun;         /* there was such a topic */
    enum cmd_kind kind; /* CLEAR_TOPIC or REMOVE_TOPIC */
    enum clearing_step step;
    bool if_empty;        /* REMOVE_TOPIC: not if it holds jobs */
    bool if_version;      /* the same: only if its settings have this version */
    uint64_t version;     /* that one */
    enum job_state state; /* JOBS: the one under way */
    uint32_t left;        /* CLEAR_TOPIC: jobs that may still be deleted */
    uint32_t done;        /* jobs deleted */
    size_t name_len;
    char name[TOPIC_NAME_MAX];
};

void clearing_free(struct clearing *clearing)
{
    if (!clearing)
        return;
    list_remove(&clearing->place);
    mem_free(clearing);
}

static struct bytes name_of(const struct clearing *clearing)
{
    return bytes_of(clearing->name, clearing->name_len);
}

static void answer(const struct clearing *clearing, enum err err, const struct reply *last)
{
    struct reply reply = {.err = err,
                          .kind = clearing->kind,
                          .count = clearing->done,
                          .more = last->more,
                          .version = last->version};
    request_answer(clearing->request, &reply); /* which may free the clearing */
}

static bool is_empty(const struct topic_view *topic)
{
    uint64_t jobs = 0;
    for (enum job_state state = JOB_DELAYED; state < JOB_STATES; state++)
        jobs += topic->jobs[state];
    return jobs == 0;
}

/*
 * Settings are removed only if the topic has some, because an engine may not support settings. (If
 * another client sets some at this moment, the topic stays, with them.)
 */
static bool has_settings(const struct clearing *clearing)
{
    struct bytes text;
    uint64_t version;
    return registry_text(http_server(clearing->request->http)->registry, name_of(clearing), &text,
                         &version);
}

static void begin_jobs(struct clearing *clearing)
{
    clearing->step = clearing->if_empty ? STEP_REMOVE : STEP_JOBS;
    clearing->state = JOB_DELAYED;
}

static void begin_unset(struct clearing *clearing)
{
    clearing->step = STEP_UNSET;
    if (!clearing->if_version && !has_settings(clearing))
        begin_jobs(clearing);
}

/* One state's slice is done. False: the request is answered. */
static bool cleared(struct clearing *clearing, const struct reply *reply)
{
    bool removes = clearing->kind == CMD_REMOVE_TOPIC;
    clearing->done += reply->count;
    clearing->left -= removes ? 0 : reply->count;
    if (!reply->more)
        clearing->state++;
    bool clear = clearing->state == JOB_STATES;
    if (!removes && (clear || clearing->left == 0)) {
        answer(clearing, OK, &(struct reply){.more = !clear});
        return false;
    }
    if (clear)
        clearing->step = STEP_REMOVE;
    return true;
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct request *request = LIST_ENTRY(ticket, struct request, pending.ticket);
    struct clearing *clearing = request->more.clearing;
    struct server *server = http_server(request->http);
    bool gone = reply->err == ERR_NOT_FOUND && clearing->begun; /* evicted, as it was idle */
    bool unset = clearing->step == STEP_UNSET && reply->err == ERR_NOT_FOUND;
    if (!unset && (gone || reply->err || clearing->step == STEP_REMOVE)) {
        answer(clearing, gone ? OK : reply->err, reply);
        return;
    }
    if (clearing->step == STEP_LOOK && !is_empty(&reply->topics[0])) {
        answer(clearing, ERR_NOT_EMPTY, reply);
        return;
    }
    clearing->begun |= !unset;
    if (clearing->step == STEP_LOOK)
        begin_unset(clearing);
    else if (clearing->step == STEP_UNSET)
        begin_jobs(clearing);
    else if (!cleared(clearing, reply))
        return;
    list_add_tail(&server->clearings, &clearing->place);
    server->turn_again = true;
}

static void step(struct clearing *clearing)
{
    static const enum cmd_kind kinds[] = {[STEP_LOOK] = CMD_TOPIC,
                                          [STEP_UNSET] = CMD_CONFIGURE_TOPIC,
                                          [STEP_JOBS] = CMD_CLEAR_TOPIC,
                                          [STEP_REMOVE] = CMD_REMOVE_TOPIC};
    struct pending *pending = &clearing->request->pending;
    struct cmd cmd = {
        .kind = kinds[clearing->step],
        .topic = {.topic = name_of(clearing),
                  .state = clearing->state,
                  .max = clearing->left,
                  .brief = true,
                  .if_version = clearing->if_version,
                  .version = clearing->version},
    };
    pending->state = PENDING_EXCLUSIVE; /* until the next command is submitted */
    pipeline_submit(pending, &cmd);
}

void clearing_begin(struct request *request, const struct cmd *cmd)
{
    struct bytes name = cmd->topic.topic;
    struct clearing *clearing = mem_zalloc(sizeof(*clearing));
    CHECK(name.len <= sizeof(clearing->name));
    clearing->request = request;
    clearing->kind = cmd->kind;
    clearing->if_empty = cmd->topic.if_empty;
    clearing->if_version = cmd->topic.if_version;
    clearing->version = cmd->topic.version;
    clearing->left = cmd->kind == CMD_REMOVE_TOPIC ? UINT32_MAX : cmd->topic.max;
    clearing->name_len = name.len;
    memcpy(clearing->name, name.at, name.len);
    list_init(&clearing->place);
    request->more = (struct long_command){.kind = LONG_CLEARING, .clearing = clearing};
    request->pending.ticket.answered = answered;
    if (clearing->if_empty)
        clearing->step = STEP_LOOK;
    else if (clearing->kind == CMD_REMOVE_TOPIC)
        begin_unset(clearing);
    else
        begin_jobs(clearing);
    step(clearing);
}

static bool step_item(struct list *item)
{
    step(LIST_ENTRY(item, struct clearing, place));
    return false;
}

bool clearings_step(struct server *server)
{
    return server_step_each(server, &server->clearings, step_item);
}
