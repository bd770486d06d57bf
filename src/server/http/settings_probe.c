#include "server/http/settings_probe.h"

#include <stdio.h>

#include "proto/settings/topic_settings.h"
#include "server/push_url.h"

/* `key`: of the configuration, which does not allow it; or NULL. */
static bool refuse(struct call *call, const char *field, const char *key)
{
    struct problem *problem = &call->problem;
    call->kind = CALL_PROBLEM;
    problem->status = 400;
    problem->err = OK;
    problem->code = "bad_field";
    problem->allow = NULL;
    problem->config_key = key;
    (void)snprintf(problem->field, sizeof(problem->field), "target.%s", field);
    return false;
}

/* Is it one of the paths, with a line end behind each? */
static bool is_listed(const char *paths, struct bytes path)
{
    while (*paths) {
        size_t len = strcspn(paths, "\n");
        if (bytes_eq(bytes_of(paths, len), path))
            return true;
        paths += len + 1;
    }
    return false;
}

/* False: every delivery to that target would end with "not allowed". */
static bool may_be_reached(const struct config *config, const struct target_http *http,
                           struct call *call)
{
    struct problem *problem = &call->problem;
    char why[PUSH_URL_WHY];
    const char *key;
    if (http->unix_socket.len) {
        if (is_listed(config->push_unix_sockets, http->unix_socket))
            return true;
        (void)snprintf(problem->detail, sizeof(problem->detail),
                       "push.unix_sockets does not list this socket");
        return refuse(call, "unix_socket", "push.unix_sockets");
    }
    if (!http->url.len) /* jobs bring their own */
        return true;
    if (push_url_may_be_reached(config, http->url, why, &key))
        return true;
    (void)snprintf(problem->detail, sizeof(problem->detail), "%s", why);
    return refuse(call, "url", key);
}

/* True: it can be used. */
static bool try_one(reference_probe *probe, enum reference_kind kind, const char *field,
                    struct bytes reference, struct call *call)
{
    struct problem *problem = &call->problem;
    if (!reference.len || probe(kind, reference, problem->detail, sizeof(problem->detail)) == OK)
        return true;
    return refuse(call, field, NULL);
}

void settings_probe(reference_probe *probe, const struct config *config, struct arena *scratch,
                    struct call *call)
{
    struct topic_settings settings;
    struct settings_problem unread;
    const struct target_http *http = &settings.target.http;
    if (call->kind != CALL_CMD || call->cmd.kind != CMD_CONFIGURE_TOPIC || !call->probes)
        return;
    if (topic_settings_read(call->cmd.topic.settings, scratch, &settings, &unread) ||
        settings.target.type != TARGET_HTTP)
        return;
    if (!may_be_reached(config, http, call))
        return;
    for (unsigned i = 0; i < http->sign_count; i++) {
        char field[24];
        (void)snprintf(field, sizeof(field), "sign[%u]", i);
        if (!try_one(probe, REFERENCE_SIGNING_KEY, field, http->sign[i], call))
            return;
    }
    (void)(try_one(probe, REFERENCE_FILE, "ca", http->ca, call) &&
           try_one(probe, REFERENCE_FILE, "certificate", http->certificate, call) &&
           try_one(probe, REFERENCE_FILE, "key", http->key, call));
}
