#include "server/settings_probe.h"

#include <stdio.h>

#include "proto/settings/topic_settings.h"

/* True: it can be used. */
static bool try_one(reference_probe *probe, enum reference_kind kind, struct bytes reference,
                    struct call *call)
{
    struct problem *problem = &call->problem;
    if (!reference.len || probe(kind, reference, problem->detail, sizeof(problem->detail)) == OK)
        return true;
    call->kind = CALL_PROBLEM;
    problem->status = 400;
    problem->err = OK;
    problem->code = "bad_field";
    problem->allow = NULL;
    return false;
}

static bool try_file(reference_probe *probe, const char *field, struct bytes path,
                     struct call *call)
{
    if (try_one(probe, REFERENCE_FILE, path, call))
        return true;
    (void)snprintf(call->problem.field, sizeof(call->problem.field), "target.%s", field);
    return false;
}

void settings_probe(reference_probe *probe, struct arena *scratch, struct call *call)
{
    struct topic_settings settings;
    struct settings_problem unread;
    const struct target_http *http = &settings.target.http;
    if (call->kind != CALL_CMD || call->cmd.kind != CMD_CONFIGURE_TOPIC || !call->probes)
        return;
    if (topic_settings_read(call->cmd.topic.settings, scratch, &settings, &unread) ||
        settings.target.type != TARGET_HTTP)
        return;
    for (unsigned i = 0; i < http->sign_count; i++) {
        if (try_one(probe, REFERENCE_SIGNING_KEY, http->sign[i], call))
            continue;
        (void)snprintf(call->problem.field, sizeof(call->problem.field), "target.sign[%u]", i);
        return;
    }
    (void)(try_file(probe, "ca", http->ca, call) &&
           try_file(probe, "certificate", http->certificate, call) &&
           try_file(probe, "key", http->key, call));
}
