#include "server/target_test.h"

#include "base/mem.h"

struct target_test {
    struct pump_test test;
    struct request *request;
    bool pending; /* the pump has it */
};

void target_test_free(struct target_test *test)
{
    if (!test)
        return;
    if (test->pending)
        pump_test_cancel(http_server(test->request->http)->push.pump, &test->test);
    mem_free(test);
}

static void done(struct pump_test *pump_test, const struct outcome *outcome)
{
    static const char *const words[OUTCOME_KINDS] = {
        [OUTCOME_DELIVERED] = "delivered", [OUTCOME_FAILED] = "failed",
        [OUTCOME_REFUSED] = "refused",     [OUTCOME_GONE] = "gone",
        [OUTCOME_UNSENT] = "unsent",
    };
    struct target_test *test = LIST_ENTRY(pump_test, struct target_test, test);
    struct request *request = test->request;
    struct server *server = http_server(request->http);
    struct api_test_result result = {
        .outcome = words[outcome->kind],
        .code = outcome->code,
        .note = {.reason = outcome->reason,
                 .address = outcome->address,
                 .took_us = outcome->took_us,
                 .response = outcome->response},
    };
    test->pending = false;
    struct pipeline_text text = request_begin(request);
    api_test_reply(&request->format, &result, server_date(server), text.out);
    request_done(request, text, true); /* which frees the test */
    server->turn_again = true;
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

void target_test_begin(struct request *request, const struct cmd_push *push)
{
    struct server *server = http_server(request->http);
    struct target_test *test = mem_zalloc(sizeof(*test));
    test->request = request;
    test->test = (struct pump_test){.done = done,
                                    .topic = push->topic,
                                    .content_type = push->content_type,
                                    .body = push->body,
                                    .body_kind = push->body_kind};
    request->test = test;
    enum err err = pump_test_send(server->push.pump, &test->test);
    test->pending = !err;
    if (!err)
        return;
    struct problem problem = problem_of(err);
    problem.err = err;
    request_refuse(request, &problem);
}
