#include "server/intake.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/settings/job_properties.h"
#include "proto/settings/schedule.h"
#include "proto/settings/topic_settings.h"
#include "server/door.h"

enum {
    TAKE_MAX = 200,         /* messages at once; then others have their turn */
    MESSAGE_NS = 3000,      /* work for one, besides the engine's, … */
    BYTES_PER_NS = 4,       /* … and for so many bytes of it */
    CONFIGURE_US = 1000000, /* after a failure */
    CONFIGURES_SILENT = 3,  /* failures in a row without a line in the log: one may be brief */
    SLOTS = 4096,           /* of messages with ids, by hash */
    BEHIND_MAX = 500,       /* of those that wait, looked at in one turn */
    LOG_US = 10000000,      /* refused messages have lines in the log … */
    LOG_MAX = 10,           /* … this many in that time */
};

/* One message on its way to be a job. */
struct intake_push {
    struct ticket ticket;
    struct list place; // server_intake::pushes or ::behind
    struct server_intake *owner;
    struct intake_message *message;
};

/* Of messages with ids of the same hash: mostly those of one id. */
struct slot {
    uint64_t later_run; /* the newest run in which one was LATER; 0: none */
    uint32_t taken;     /* those that are not settled: in server_intake::pushes or ::behind */
    bool pending;       /* one of them, the oldest, is in ::pushes */
};

struct server_intake {
    struct list place; // server::intakes
    struct server *server;
    struct server_intake_options options;
    struct intake *intake;
    struct list pushes; // intake_push::place: submitted
    struct list behind; // intake_push::place: they wait for an older one of their id
    struct timer go_on; /* armed: some of them may have waited long enough */
    struct slot slots[SLOTS];
    bool stopped;
    struct buf properties;
    struct ticket configure; /* of the topic's target */
    bool configuring;
    unsigned refusals; /* of it, in a row */
    enum err refusal;  /* the last one that the log has */
    struct timer again;
    int64_t log_from_us; /* since when `lines` are counted */
    unsigned lines;      /* in the log, of refused messages */
    uint64_t unlogged;   /* since the last of these lines */
};

/* ---- the topic's target ---- */

/* Logs a refusal that lasts, and then another one: jobs wait in the topic, and go nowhere. */
static void note_refusal(struct server_intake *intake, enum err err)
{
    if (intake->refusals < CONFIGURES_SILENT)
        intake->refusals++;
    if (intake->refusals < CONFIGURES_SILENT || intake->refusal == err)
        return;
    intake->refusal = err;
    log_event(LOG_WARN, "amqp_in_topic_refused",
              "name=%s topic=%s broker=%s error=\"%s\" hint=\"jobs of this topic are sent nowhere "
              "until it has its target; it is tried again each second\"",
              intake->options.name, intake->options.topic, intake->options.broker, err_text(err));
}

static void configured(struct ticket *ticket, const struct reply *reply)
{
    struct server_intake *intake = LIST_ENTRY(ticket, struct server_intake, configure);
    struct loop *loop = intake->server->loop;
    intake->configuring = false;
    if (reply->err == OK)
        log_event(LOG_INFO, "amqp_in_topic", "name=%s topic=%s broker=%s retry=standard",
                  intake->options.name, intake->options.topic, intake->options.broker);
    else if (reply->err != ERR_VERSION) { /* it has settings: the operator's */
        note_refusal(intake, reply->err);
        loop_arm(loop, &intake->again, loop->now_us + CONFIGURE_US);
    }
}

/* Gives the topic a target setting, unless it has settings already. Each job's routing is in its
 * properties; the routing key here is for jobs that were pushed otherwise. */
static void configure(struct timer *timer)
{
    struct server_intake *intake = LIST_ENTRY(timer, struct server_intake, again);
    const struct ladder *ladder = ladder_find(BYTES("standard"));
    struct topic_settings settings = {
        .target = {.type = TARGET_AMQP,
                   .broker = bytes_str(intake->options.broker),
                   .amqp = {.routing_key = BYTES("{key}")}},
        .has_retry = true,
        .retry = {.count = ladder->count, .ladder = ladder},
        .jitter_permille = 200,
    };
    struct buf text = {0};
    for (unsigned i = 0; i < ladder->count; i++)
        settings.retry.waits_us[i] = (int64_t)ladder->waits_s[i] * 1000000;
    topic_settings_write(&settings, &text);
    struct cmd cmd = {.kind = CMD_CONFIGURE_TOPIC,
                      .topic = {.topic = bytes_str(intake->options.topic),
                                .settings = buf_bytes(&text),
                                .if_version = true}};
    intake->configure.answered = configured;
    intake->configuring = true;
    (void)server_submit(intake->server, &principal_server, &cmd, &intake->configure);
    buf_fini(&text);
}

/* ---- messages ---- */

static enum intake_verdict verdict_of(enum err err, bool cancel)
{
    switch (err) {
    case OK: return INTAKE_STORED;
    case ERR_NOT_FOUND: return cancel ? INTAKE_STORED : INTAKE_REFUSED; /* it was deleted already */
    case ERR_EXISTS:
    case ERR_INVALID:
    case ERR_TOO_LARGE:
    case ERR_JOB_TARGET:
    case ERR_UNSUPPORTED: return INTAKE_REFUSED;
    case ERR_STALE_LEASE:
    case ERR_WRONG_STATE:
    case ERR_EMPTY:
    case ERR_JOBS_LIMIT:
    case ERR_TOPICS_LIMIT:
    case ERR_WAITERS_LIMIT:
    case ERR_MEMORY_LIMIT:
    case ERR_DISK_LIMIT:
    case ERR_DISK_FULL:
    case ERR_STORE_FAILED:
    case ERR_DRAINING:
    case ERR_DAMAGED:
    case ERR_IO:
    case ERR_CORRUPT:
    case ERR_LOCKED:
    case ERR_AGAIN:
    case ERR_VERSION:
    case ERR_PUSHED_TOPIC:
    case ERR_NOT_EMPTY:
    case ERR_JOURNAL_DOWN:
    case ERR_JOURNAL_BEHIND:
    case ERR_NOT_LEADER:
    case ERR_RECOVERING:
    case ERR_COUNT: break;
    }
    return INTAKE_LATER;
}

/*
 * Messages with the same id keep their order. A message waits until the older one was answered. If
 * that answer was LATER, this message is answered LATER as well, even if it could be stored now:
 * the older one comes again, and would otherwise replace this one, or undo its cancellation. Ids
 * that share a slot wait for each other, which does no harm. NULL: the message has no id.
 */
static struct slot *slot_of(struct server_intake *intake, const struct intake_message *message)
{
    struct bytes id = message->id;
    return id.len ? &intake->slots[hash_of(id.at, id.len) % SLOTS] : NULL;
}

/* Many may be refused at once, of which a few lines tell enough; the metrics count all. */
static void log_refused(struct server_intake *intake, const struct intake_message *message,
                        const char *why)
{
    int64_t now_us = intake->server->loop->now_us;
    if (now_us - intake->log_from_us >= LOG_US) {
        intake->log_from_us = now_us;
        intake->lines = 0;
    }
    if (intake->lines == LOG_MAX) {
        intake->unlogged++;
        return;
    }
    intake->lines++;
    if (message->refused)
        log_event(LOG_WARN, "amqp_in_refused", "name=%s exchange=\"%.*s\" why=\"%s\" more=%llu",
                  intake->options.name, (int)message->from.len, message->from.at, why,
                  (unsigned long long)intake->unlogged);
    else
        log_event(LOG_WARN, "amqp_in_refused", "name=%s why=\"%s\" more=%llu", intake->options.name,
                  why, (unsigned long long)intake->unlogged);
    intake->unlogged = 0;
}

static void settle(struct server_intake *intake, struct intake_message *message, enum err err)
{
    enum intake_verdict verdict = verdict_of(err, message->cancel);
    intake->server->counts.intake[verdict]++;
    struct slot *slot = slot_of(intake, message);
    if (slot) {
        slot->taken--;
        slot->pending = false;
        if (verdict == INTAKE_LATER && slot->later_run < message->run)
            slot->later_run = message->run;
    }
    if (!list_empty(&intake->behind))
        loop_arm(intake->server->loop, &intake->go_on, intake->server->loop->now_us);
    if (verdict == INTAKE_REFUSED)
        log_refused(intake, message, message->refused ? message->refused : err_text(err));
    intake->intake->verbs->settle(intake->intake, message, verdict);
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct intake_push *push = LIST_ENTRY(ticket, struct intake_push, ticket);
    struct server_intake *intake = push->owner;
    list_remove(&push->place);
    settle(intake, push->message, reply->err);
    mem_free(push);
}

static struct cmd delete_of(const struct intake_message *message)
{
    return (struct cmd){.kind = CMD_DELETE, .job = {.ref.id = message->id, .brief = true}};
}

static struct cmd push_of(const struct server_intake *intake, const struct intake_message *message)
{
    return (struct cmd){
        .kind = CMD_PUSH,
        .push = {.id = message->id,
                 .topic = bytes_str(intake->options.topic),
                 .due_us = time_add(intake->server->loop->now_us, message->delay_us),
                 .ttr_us = intake->server->options.config->ttr_us,
                 .brief = true,
                 .if_exists = message->if_exists,
                 .durability = DURABILITY_SYNC, /* the broker forgets it then */
                 .content_type = message->content_type,
                 .body = message->body,
                 .memory = message->memory,
                 .properties = buf_bytes(&intake->properties)},
    };
}

/* OK, or why it cannot be submitted now, or ever; its properties are then in intake->properties. */
static enum err prepare(struct server_intake *intake, const struct intake_message *message)
{
    struct job_properties properties = {.amqp = message->amqp};
    struct settings_problem unwanted; /* the result says enough */
    const struct slot *slot = slot_of(intake, message);
    if (intake->server->draining)
        return ERR_DRAINING;
    if (slot && slot->later_run == message->run)
        return ERR_AGAIN;
    enum err err = server_admit_memory(intake->server);
    intake->properties.len = 0;
    return err ? err : job_properties_write(&properties, &intake->properties, &unwanted);
}

static void submit(struct intake_push *push)
{
    struct server_intake *intake = push->owner;
    const struct intake_message *message = push->message;
    struct slot *slot = slot_of(intake, message);
    enum err err = prepare(intake, message);
    if (err) {
        settle(intake, push->message, err);
        mem_free(push);
        return;
    }
    list_add_tail(&intake->pushes, &push->place);
    if (slot)
        slot->pending = true;
    struct cmd cmd = message->cancel ? delete_of(message) : push_of(intake, message);
    (void)server_submit(intake->server, &principal_server, &cmd, &push->ticket);
}

static void take_one(struct server_intake *intake, struct intake_message *message)
{
    if (message->refused) {
        settle(intake, message, ERR_INVALID);
        return;
    }
    struct slot *slot = slot_of(intake, message);
    struct intake_push *push = mem_alloc(sizeof(*push));
    *push = (struct intake_push){
        .ticket = {.answered = answered, .brief = true}, .owner = intake, .message = message};
    if (slot && slot->taken++ > 0)
        list_add_tail(&intake->behind, &push->place);
    else
        submit(push);
}

/* The work for one message. */
static void spend(struct server_intake *intake, const struct intake_message *message)
{
    size_t bytes = message->body.len + message->amqp.len;
    budget_spend(&intake->server->budget, MESSAGE_NS + (int64_t)bytes / BYTES_PER_NS);
}

/* Submits those that wait no longer, the oldest of each slot, as far as the budget goes. Of the
   others an answer comes. */
static void go_on(struct timer *timer)
{
    struct server_intake *intake = LIST_ENTRY(timer, struct server_intake, go_on);
    struct loop *loop = intake->server->loop;
    struct list *at = intake->behind.next;
    bool some = false;
    for (unsigned i = 0; i < BEHIND_MAX && at != &intake->behind; i++) {
        struct intake_push *push = LIST_ENTRY(at, struct intake_push, place);
        at = at->next;
        if (slot_of(intake, push->message)->pending)
            continue;
        if (some && budget_spent(&intake->server->budget)) {
            loop_arm(loop, &intake->go_on, loop->now_us);
            return;
        }
        some = true;
        spend(intake, push->message);
        list_remove(&push->place);
        submit(push);
    }
}

/* Takes one at least, and leaves the others to the next call when half of the budget is spent: the
   rest is for clients, whose streams are served after the messages. */
static void arrived(struct intake *from)
{
    struct server_intake *intake = from->user;
    const struct budget *budget = &intake->server->budget;
    int64_t stop_ns = budget->left_ns / 2;
    struct intake_message *message;
    for (unsigned i = 0; i < TAKE_MAX && (message = from->verbs->take(from)); i++) {
        spend(intake, message);
        take_one(intake, message);
        if (budget->left_ns <= stop_ns)
            return;
    }
}

/* ---- beginning and end ---- */

struct server_intake *server_intake_new(struct server *server,
                                        const struct server_intake_options *options,
                                        struct intake *intake)
{
    struct server_intake *ours = mem_zalloc(sizeof(*ours));
    ours->server = server;
    ours->options = *options;
    ours->intake = intake;
    list_init(&ours->pushes);
    list_init(&ours->behind);
    ours->go_on.expired = go_on;
    list_add_tail(&server->intakes, &ours->place);
    ours->again.expired = configure;
    intake->user = ours;
    intake->arrived = arrived;
    loop_arm(server->loop, &ours->again, server->loop->now_us);
    return ours;
}

static void put_back(struct intake_push *push)
{
    list_remove(&push->place);
    settle(push->owner, push->message, ERR_AGAIN);
    mem_free(push);
}

void server_intake_stop(struct server_intake *intake)
{
    if (intake->stopped)
        return;
    intake->stopped = true;
    while (!list_empty(&intake->pushes)) {
        struct intake_push *push = LIST_ENTRY(intake->pushes.next, struct intake_push, place);
        server_cancel(intake->server, &push->ticket);
        put_back(push);
    }
    while (!list_empty(&intake->behind))
        put_back(LIST_ENTRY(intake->behind.next, struct intake_push, place));
    loop_cancel(intake->server->loop, &intake->go_on);
    if (intake->configuring)
        server_cancel(intake->server, &intake->configure);
    intake->configuring = false;
    loop_cancel(intake->server->loop, &intake->again);
    intake->intake->verbs->stop(intake->intake);
}

bool server_intakes_idle(const struct server *server)
{
    for (const struct list *at = server->intakes.next; at != &server->intakes; at = at->next) {
        if (!list_empty(&LIST_ENTRY(at, struct server_intake, place)->pushes))
            return false;
    }
    return true;
}

const char *server_intake_name(const struct server_intake *intake)
{
    return intake->options.name;
}

bool server_intake_stopped(struct server_intake *intake)
{
    return intake->intake->verbs->stopped(intake->intake);
}

void server_intake_free(struct server_intake *intake)
{
    if (!intake)
        return;
    server_intake_stop(intake);
    list_remove(&intake->place);
    intake->intake->verbs->close(intake->intake);
    buf_fini(&intake->properties);
    mem_free(intake);
}
