#include "server/door.h"

#include "base/mem.h"
#include "proto/settings/job_properties.h"
#include "server/push_url.h"
#include "server/server.h"

enum {
    LOOK_UP_NS = 60,   /* work for looking up the settings of one topic */
    READ_URL_NS = 1000 /* and for reading what deliveries need of a job */
};

const struct principal principal_server = {.protocol = PROTOCOL_KINDS};

/* ---- pushes ---- */

/*
 * The schedule of a job without one of its own, in a topic with these settings. Without any
 * schedule a failed job is ready again at once; but jobs of topics with a target get the schedule
 * of the Standard Webhooks.
 */
static struct schedule schedule_for(const struct server *server,
                                    const struct topic_settings *settings)
{
    struct schedule fallback = server->retry;
    const char *why;
    if (fallback.count == 0 && settings->target.type != TARGET_NONE)
        (void)schedule_read_words(BYTES("standard"), &fallback, &why); /* cannot fail */
    return topic_settings_schedule(settings, &fallback);
}

/* A command on its way to the engine. */
struct admission {
    struct server *server;
    const struct principal *principal;
    const struct cmd *cmd;      /* the client's, or `filled` */
    const char *why;            /* of a refusal, for people; NULL: the error says it all */
    struct cmd filled;          /* the client's, and what it did not set */
    struct schedule schedule;   /* of the push `filled` */
    char url_why[PUSH_URL_WHY]; /* room for `why` */
};

static bool is_client(const struct principal *principal)
{
    return principal->protocol != PROTOCOL_KINDS;
}

static enum err refuse_target(struct admission *admission, const char *why)
{
    admission->why = why;
    return ERR_JOB_TARGET;
}

/*
 * With push.job_targets = any, the first job with a URL of its own gives its topic a target
 * setting, if the topic has no settings: otherwise the job would wait for consumers.
 */
static void make_pushed(struct server *server, struct bytes topic)
{
    struct cmd cmd = {.kind = CMD_CONFIGURE_TOPIC,
                      .topic = {.topic = topic,
                                .settings = BYTES("{\"target\":{\"type\":\"http\"}}"),
                                .if_version = true}};
    (void)server->engine->verbs->submit(server->engine, &cmd, NULL);
}

static bool has_target(const struct topic_settings *settings, enum target_type type)
{
    return settings && settings->target.type == type;
}

/* False: deliveries to the job's URL can never be allowed; out_why says why. */
static bool may_be_reached(struct server *server, struct bytes properties, char *out_why)
{
    struct job_properties read;
    struct arena scratch = {0};
    const char *key;
    budget_spend(&server->budget, READ_URL_NS);
    bool may = job_properties_read(properties, &scratch, &read, NULL) != OK || !read.url.len ||
               push_url_may_be_reached(server->options.config, read.url, out_why, &key);
    arena_fini(&scratch);
    return may;
}

/* Checks whether the job may have a URL, or a route, of its own. Jobs that come from elsewhere,
 * such as the journal, are there already: their deliveries fail, but they are not lost. */
static enum err admit_target(struct admission *admission, const struct topic_settings *settings)
{
    struct server *server = admission->server;
    const struct cmd_push *push = &admission->cmd->push;
    enum config_job_targets policy = server->options.config->job_targets;
    if (policy == JOB_TARGETS_OFF)
        return refuse_target(admission, "push.job_targets is off");
    if (push->own_route && !has_target(settings, TARGET_AMQP))
        return refuse_target(admission, "the topic's settings have no target of type amqp");
    if (!push->own_target)
        return OK;
    bool sends = has_target(settings, TARGET_HTTP);
    if (!sends && (settings || policy == JOB_TARGETS_TOPIC))
        return refuse_target(
            admission, "the topic's settings have no target of type http (see push.job_targets)");
    bool to_unix = sends && settings->target.http.unix_socket.len > 0; /* whatever the URL says */
    if (!to_unix && is_client(admission->principal) &&
        !may_be_reached(server, push->properties, admission->url_why))
        return refuse_target(admission, admission->url_why);
    if (!sends)
        make_pushed(server, push->topic);
    return OK;
}

/* Fills in what the job does not set, from its topic's settings or [defaults]; once, when it is
 * pushed: a change of settings only concerns later jobs. */
static enum err fill_in(struct admission *admission)
{
    struct server *server = admission->server;
    const struct cmd_push *push = &admission->cmd->push;
    const struct topic_settings *settings = NULL;
    bool lacks_schedule = push->retry_count == 0 && !push->retry_given;
    if (server->registry && registry_count(server->registry)) {
        budget_spend(&server->budget, LOOK_UP_NS);
        settings = registry_find(server->registry, push->topic, NULL);
    }
    if (push->own_target || push->own_route) {
        enum err err = admit_target(admission, settings);
        if (err)
            return err;
    }
    if (!settings && !(lacks_schedule && server->retry.count))
        return OK;
    struct cmd_push *filled = &admission->filled.push;
    admission->filled = *admission->cmd;
    if (lacks_schedule) {
        struct schedule *schedule = &admission->schedule;
        *schedule = settings ? schedule_for(server, settings) : server->retry;
        filled->retry_us = schedule->waits_us;
        filled->retry_count = schedule->count;
    }
    if (settings && settings->ttr_us && push->ttr_is_default) {
        int64_t most_us = server->options.api.ttr_max_us;
        filled->ttr_us = settings->ttr_us < most_us ? settings->ttr_us : most_us;
    }
    admission->cmd = &admission->filled;
    return OK;
}

/* ---- reserves ---- */

/* Refuses reserves of clients on topics with a target: their jobs are sent there. */
static enum err admit_reserve(struct server *server, const struct principal *principal,
                              const struct cmd_reserve *reserve)
{
    if (!is_client(principal) || !server->registry || registry_count(server->registry) == 0)
        return OK;
    budget_spend(&server->budget, (int64_t)reserve->topic_count * LOOK_UP_NS);
    for (uint32_t i = 0; i < reserve->topic_count; i++) {
        if (registry_is_pushed(server->registry, reserve->topics[i]))
            return ERR_PUSHED_TOPIC;
    }
    return OK;
}

/* ---- the door ---- */

/* The history of jobs has the name of who reserves one. */
static void fill_in_name(struct admission *admission)
{
    const struct cmd *cmd = admission->cmd;
    struct bytes name = bytes_str(admission->principal->name);
    admission->filled = *cmd;
    if (cmd->kind == CMD_RESERVE)
        admission->filled.reserve.by = name;
    else if (cmd->kind == CMD_RESERVE_JOB)
        admission->filled.job.by = name;
    admission->cmd = &admission->filled;
}

/* Checks what is refused before the engine; the engine may refuse, too: limits.jobs, a full
   disk. */
static enum err admit(struct admission *admission)
{
    struct server *server = admission->server;
    const struct cmd *cmd = admission->cmd;
    enum err err = OK;
    if (cmd->kind == CMD_PUSH)
        return server->refusing_pushes ? ERR_DRAINING : fill_in(admission);
    if (cmd->kind == CMD_RESERVE)
        err = admit_reserve(server, admission->principal, &cmd->reserve);
    if (!err && admission->principal->name)
        fill_in_name(admission);
    return err;
}

/* True: the command needs no checks here. True for nearly all commands if no topic has settings, so
   that they cost nothing then. */
static bool is_plain(const struct server *server, const struct principal *principal,
                     const struct cmd *cmd)
{
    bool takes = cmd->kind == CMD_RESERVE || cmd->kind == CMD_RESERVE_JOB;
    if (takes && principal->name)
        return false;
    if (cmd->kind != CMD_PUSH && cmd->kind != CMD_RESERVE)
        return true;
    bool own = cmd->kind == CMD_PUSH && (cmd->push.own_target || cmd->push.own_route);
    return !own && !server->refusing_pushes && server->retry.count == 0 &&
           (!server->registry || registry_count(server->registry) == 0);
}

__attribute__((noinline)) /* a schedule takes much of the stack */
static enum submitted
submit_admitted(struct server *server, const struct principal *principal, const struct cmd *cmd,
                struct ticket *ticket)
{
    struct admission admission; /* read by the engine during submit; too large to be zeroed */
    admission.server = server;
    admission.principal = principal;
    admission.cmd = cmd;
    admission.why = NULL;
    enum err err = admit(&admission);
    if (err) {
        if (ticket)
            ticket->answered(ticket,
                             &(struct reply){.err = err, .why = admission.why, .kind = cmd->kind});
        return SUBMIT_ANSWERED;
    }
    return server->engine->verbs->submit(server->engine, admission.cmd, ticket);
}

enum submitted server_submit(struct server *server, const struct principal *principal,
                             const struct cmd *cmd, struct ticket *ticket)
{
    server->counts.commands[principal->protocol][cmd->kind]++;
    if (is_plain(server, principal, cmd))
        return server->engine->verbs->submit(server->engine, cmd, ticket);
    return submit_admitted(server, principal, cmd, ticket);
}

bool server_is_pushed(struct server *server, struct bytes topic)
{
    return server->registry && registry_count(server->registry) &&
           registry_is_pushed(server->registry, topic);
}

void server_cancel(struct server *server, struct ticket *ticket)
{
    server->engine->verbs->cancel(server->engine, ticket);
}

enum err server_health(const struct server *server)
{
    if (server->draining || server->refusing_pushes)
        return ERR_DRAINING;
    return server->engine->verbs->health(server->engine);
}

enum err server_admit_memory(const struct server *server)
{
    uint64_t max = server->options.limits.memory_bytes;
    return max && mem_used() > max ? ERR_MEMORY_LIMIT : OK;
}
