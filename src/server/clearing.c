/*
 * The states are cleared in the order in which jobs go through them, so that one which becomes
 * ready meanwhile is met again. A job that is pushed, or goes back to an earlier state, stays.
 *
 * An answered() callback may ask the engine for nothing: it leaves the clearing in
 * server::clearings, and the next step is taken from there.
 */
#include "server/clearing.h"

#include "base/check.h"
#include "base/mem.h"

struct clearing {
    struct list place; // server::clearings, while the engine is asked for nothing
    struct request *request;
    bool begun;           /* there was such a topic */
    enum cmd_kind kind;   /* CLEAR_TOPIC or REMOVE_TOPIC */
    enum job_state state; /* the one under way; JOB_STATES: all are clear */
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

static void answer(const struct clearing *clearing, enum err err, bool more)
{
    struct reply reply = {
        .err = err, .kind = clearing->kind, .count = clearing->done, .more = more};
    request_answer(clearing->request, &reply); /* which may free the clearing */
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct request *request = LIST_ENTRY(ticket, struct request, pending.ticket);
    struct clearing *clearing = request->clearing;
    struct server *server = http_server(request->http);
    bool removes = clearing->kind == CMD_REMOVE_TOPIC;
    bool gone = reply->err == ERR_NOT_FOUND && clearing->begun; /* idle, it made room for others */
    if (gone || reply->err || reply->kind == CMD_REMOVE_TOPIC) {
        answer(clearing, gone ? OK : reply->err, reply->more);
        return;
    }
    clearing->begun = true;
    clearing->done += reply->count;
    clearing->left -= removes ? 0 : reply->count;
    if (!reply->more)
        clearing->state++;
    bool clear = clearing->state == JOB_STATES;
    if (!removes && (clear || clearing->left == 0)) {
        answer(clearing, OK, !clear);
        return;
    }
    list_add_tail(&server->clearings, &clearing->place);
    server->turn_again = true;
}

static void step(struct clearing *clearing)
{
    struct pending *pending = &clearing->request->pending;
    bool clear = clearing->state == JOB_STATES;
    struct cmd cmd = {
        .kind = clear ? CMD_REMOVE_TOPIC : CMD_CLEAR_TOPIC,
        .topic = {.topic = bytes_of(clearing->name, clearing->name_len),
                  .state = clearing->state,
                  .max = clearing->left},
    };
    pending->state = PENDING_EXCLUSIVE; /* the next step may be parked or not */
    pipeline_submit(pending, &cmd);
}

void clearing_begin(struct request *request, const struct cmd *cmd)
{
    struct bytes name = cmd->topic.topic;
    struct clearing *clearing = mem_zalloc(sizeof(*clearing));
    CHECK(name.len <= sizeof(clearing->name));
    clearing->request = request;
    clearing->kind = cmd->kind;
    clearing->state = JOB_DELAYED;
    clearing->left = cmd->kind == CMD_REMOVE_TOPIC ? UINT32_MAX : cmd->topic.max;
    clearing->name_len = name.len;
    memcpy(clearing->name, name.at, name.len);
    list_init(&clearing->place);
    request->clearing = clearing;
    request->pending.ticket.answered = answered;
    step(clearing);
}

bool clearings_go_on(struct server *server)
{
    struct list *last = server->clearings.prev; /* what a step adds waits for the next turn */
    bool left = !list_empty(&server->clearings);
    while (left && !budget_spent(&server->budget)) {
        struct list *first = server->clearings.next;
        left = first != last;
        list_remove(first);
        step(LIST_ENTRY(first, struct clearing, place));
    }
    return left;
}
