/* /v1/cluster and its metrics: which laterd leads, as far as this one knows. */
#include "port/member.h"
#include "server/admin/pages.h"
#include "server/server.h"

/* Without an election all daemons on a Redis serve, and none leads. */
static const char *role_of(const struct server_options *options, const struct member_view *view)
{
    if (!options->member && options->config->engine == ENGINE_REDIS)
        return "active";
    return view->role == MEMBER_LEADING ? "leading" : "waiting";
}

void cluster_write(struct server *server, const struct reply *topics, struct buf *out)
{
    (void)topics;
    const struct server_options *options = &server->options;
    struct member_view view = {.role = MEMBER_LEADING, .connected = true};
    if (options->member)
        options->member->verbs->look(options->member, &view);
    else
        view.role_us = server->loop->now_us - server->started_us;
    bool serves = server_leads(server) && !options->waits;
    const char *self = options->advertise ? options->advertise : "";
    const char *role = role_of(options, &view);
    const char *leader = view.role == MEMBER_LEADING ? self : view.leader;
    if (strcmp(role, "active") == 0)
        leader = "";
    buf_addf(out, "{\"election\":%s,\"role\":\"%s\",\"serving\":%s",
             options->member ? "true" : "false", role, serves ? "true" : "false");
    buf_addf(out, ",\"epoch\":%llu,\"role_ms\":%lld,\"terms\":%llu,\"connected\":%s",
             (unsigned long long)view.epoch, (long long)(view.role_us / 1000),
             (unsigned long long)view.terms, view.connected ? "true" : "false");
    page_add_text(out, "name", options->member ? options->config->member_name : "");
    page_add_text(out, "self", self);
    page_add_text(out, "leader", leader);
    page_add_text(out, "why", view.why);
    buf_add_str(out, "}\n");
}

void cluster_describe(struct server *server, struct metric_sink *sink)
{
    const struct server_options *options = &server->options;
    struct member_view view;
    if (!options->member)
        return;
    options->member->verbs->look(options->member, &view);
    metric_gauge(sink, "member_leads", "1 if this laterd leads and serves, 0 if it waits.",
                 server_leads(server) && !options->waits);
    metric_gauge(sink, "member_epoch", "Of the leader, the newest that is known here.", view.epoch);
    metric_gauge(sink, "member_connected", "1 if the coordination service answers.",
                 view.connected);
    metric_gauge(sink, "member_role_seconds", "For how long it leads, or waits.",
                 (uint64_t)(view.role_us / 1000000));
    metric_counter(sink, "member_terms_total", "How often this laterd began to lead.", view.terms);
}
