#include "engine/waiting/waiting.h"

#include <stdio.h>
#include <string.h>

static struct waiting_engine *self(const struct engine *engine)
{
    return (struct waiting_engine *)(void *)(uintptr_t)engine; /* its first member */
}

/* "the leader is http://…", why there is none, or the progress: a clause, valid until the next
   call. */
static const char *reason_of(struct waiting_engine *waiting)
{
    struct member_view view;
    if (waiting->recovers)
        return waiting->recovers;
    waiting->member->verbs->look(waiting->member, &view);
    const char *more = view.connected ? "nobody leads yet" : view.why;
    if (view.role == MEMBER_LEADING)
        more = "this laterd is about to lead";
    if (view.leader[0] && strcmp(view.leader, waiting->own) == 0) {
        more = "an earlier life of this laterd led, and its session has not ended yet";
        view.leader[0] = '\0';
    }
    (void)snprintf(waiting->why, sizeof(waiting->why), "%s%s",
                   view.leader[0] ? "the leader is " : "", view.leader[0] ? view.leader : more);
    return waiting->why;
}

static void use_budget(struct engine *engine, struct budget *budget)
{
    (void)engine;
    (void)budget; /* there is no work */
}

static void begin(struct engine *engine)
{
    (void)engine;
}

static enum err health(const struct engine *engine)
{
    return self(engine)->recovers ? ERR_RECOVERING : ERR_NOT_LEADER;
}

static enum submitted submit(struct engine *engine, const struct cmd *cmd, struct ticket *ticket)
{
    struct reply reply = {.err = health(engine), .kind = cmd->kind, .why = reason_of(self(engine))};
    if (ticket)
        ticket->answered(ticket, &reply);
    return SUBMIT_ANSWERED;
}

static void cancel(struct engine *engine, struct ticket *ticket)
{
    (void)engine;
    (void)ticket; /* all are answered at once */
}

static int64_t end(struct engine *engine)
{
    (void)engine;
    return INT64_MAX;
}

static void observe_settings(struct engine *engine, struct settings_observer *observer)
{
    (void)engine;
    (void)observer; /* they are not known here */
}

static void describe(const struct engine *engine, struct metric_sink *sink)
{
    if (sink->reason)
        sink->reason(sink, reason_of(self(engine)));
    if (sink->fact)
        sink->fact(sink, &(struct fact){.name = "engine", .type = FACT_TEXT, .text = "waiting"});
}

static const struct engine_verbs verbs = {
    .use_budget = use_budget,
    .begin = begin,
    .submit = submit,
    .cancel = cancel,
    .match = begin,
    .end = end,
    .drain = begin,
    .health = health,
    .observe_settings = observe_settings,
    .describe = describe,
};

void waiting_init(struct waiting_engine *waiting, const struct member *member, const char *own)
{
    *waiting = (struct waiting_engine){.engine.verbs = &verbs, .member = member, .own = own};
}

void waiting_recovers(struct waiting_engine *waiting, const char *how_far)
{
    waiting->recovers = how_far;
}
