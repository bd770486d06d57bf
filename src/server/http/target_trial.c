#include "server/http/target_trial.h"

#include <stdio.h>

#include "base/mem.h"

struct target_trial {
    struct pump_trial pump_trial;
    struct request *request;
    bool pending; /* the pump has it */
};

void target_trial_free(struct target_trial *trial)
{
    if (!trial)
        return;
    if (trial->pending)
        pump_trial_cancel(&trial->pump_trial);
    mem_free(trial);
}

static void done(struct pump_trial *pump_trial, const struct outcome *outcome)
{
    struct target_trial *trial = LIST_ENTRY(pump_trial, struct target_trial, pump_trial);
    struct request *request = trial->request;
    struct server *server = http_server(request->http);
    struct api_test_result result = {
        .outcome = outcome_name(outcome->kind),
        .code = outcome->code,
        .note = {.reason = outcome->reason,
                 .address = outcome->address,
                 .took_us = outcome->took_us,
                 .response = outcome->response},
    };
    trial->pending = false;
    struct pipeline_text text = request_begin(request);
    api_test_reply(&request->format, &result, server_date(server), text.out);
    request_done(request, text); /* which frees the trial */
    server->turn_again = true;
}

/* There is no sink for the topic's target: names the section of the configuration that is missing,
 * or has another type. */
static void name_section(struct server *server, struct bytes topic, struct problem *problem)
{
    struct settings_kept *kept = registry_hold(server->registry, topic);
    const struct target *target = kept ? &kept->settings.target : NULL;
    const char *type = target ? config_broker_type(target->type) : NULL;
    if (type) {
        const struct config_broker *broker = config_broker(server->options.config, target->broker);
        if (!broker)
            (void)snprintf(problem->detail, sizeof(problem->detail),
                           "there is no [broker.%.*s] in the configuration here",
                           (int)target->broker.len, target->broker.at);
        else if (broker->type != target->type)
            (void)snprintf(problem->detail, sizeof(problem->detail),
                           "[broker.%.*s] has the type %s here, and the target has the type %s",
                           (int)target->broker.len, target->broker.at,
                           config_broker_type(broker->type), type);
    }
    settings_drop(kept);
}

static struct problem problem_of(enum err err)
{
    switch ((int)err) {
    case ERR_NOT_FOUND:
        return (struct problem){
            .status = 409, .code = "no_target", .detail = "the topic's settings have no target"};
    case ERR_INVALID:
        return (struct problem){.status = 409,
                                .code = "no_target",
                                .detail =
                                    "the topic's target has no url: its jobs bring their own"};
    case ERR_UNSUPPORTED:
        return (struct problem){.status = 501,
                                .code = err_name(err),
                                .detail = "nothing here sends to targets of this type, or to this "
                                          "broker: see the log of the start"};
    case ERR_DRAINING:
        return (struct problem){
            .status = 503, .code = err_name(err), .detail = "the server is draining"};
    default:
        return (struct problem){.status = 503,
                                .code = err_name(ERR_AGAIN),
                                .detail = "not now: the broker is away, or too much is under way"};
    }
}

void target_trial_begin(struct request *request, const struct cmd_push *push)
{
    struct server *server = http_server(request->http);
    struct target_trial *trial = mem_zalloc(sizeof(*trial));
    trial->request = request;
    trial->pump_trial = (struct pump_trial){.done = done,
                                            .topic = push->topic,
                                            .content_type = push->content_type,
                                            .body = push->body,
                                            .body_kind = push->body_kind};
    request->more = (struct long_command){.kind = LONG_TRIAL, .trial = trial};
    enum err err = pump_trial_send(server->pump_stage.pump, &trial->pump_trial);
    trial->pending = !err;
    if (!err)
        return;
    struct problem problem = problem_of(err);
    problem.err = err;
    if (err == ERR_UNSUPPORTED)
        name_section(server, push->topic, &problem);
    request_refuse(request, &problem);
}
