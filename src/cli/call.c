/*
 * Calls of the server, and the messages about calls that it refuses: they name the option of the
 * command that caused it, and the value of a limit that was exceeded.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/typo.h"
#include "cli/answer.h"
#include "cli/cli.h"
#include "cli/limits.h"
#include "cli/raw_json.h"
#include "cli/text.h"

/* ---- refusals ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/*
 * The index of the option that was given for the server's `field`: --if-exists for "if_exists",
 * --tag for "tags[0]", --success-status for "target.success.status", --target-timeout for
 * "target.timeout"; -1: none was.
 */
static int option_of(const struct cli *cli, const char *field)
{
    static const char target[] = "target.";
    char name[TYPO_WORD_MAX]; /* a longer one is of no option */
    bool inner = strncmp(field, target, strlen(target)) == 0;
    field += inner ? strlen(target) : 0;
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(field, "["), field); /* truncated */
    bool headers = strncmp(name, "headers.", strlen("headers.")) == 0;
    name[headers ? strlen("headers") : strlen(name)] = '\0'; /* of one header */
    for (char *at = name; *at; at++)
        *at = *at == '_' || *at == '.' ? '-' : *at;
    for (int i = 0; cli->options && cli->options[i].name; i++) {
        const char *option = cli->options[i].name;
        size_t len = strlen(option);
        bool one_of = strncmp(option, name, len) == 0 && strcmp(name + len, "s") == 0;
        bool of_target = inner && strncmp(option, "target-", strlen("target-")) == 0 &&
                         strcmp(option + strlen("target-"), name) == 0;
        if (cli->given[i] && (strcmp(option, name) == 0 || one_of || of_target))
            return i;
    }
    return -1;
}

/* May a value hold a user and password, a token or a key? */
static bool is_secret(const char *option, const char *value)
{
    return strcmp(option, "url") == 0 || strcmp(option, "sign") == 0 || strstr(value, "://");
}

/* "--due 'tomorrow': " if an option of the command is what `field` names, else "field: ". The value
 * of one that may be given several times is not known to be the one that is at fault. */
static void add_fault(const struct cli *cli, const char *field, struct buf *line)
{
    enum { SHOWN_MAX = 60 }; /* columns of a value */
    int option = option_of(cli, field);
    if (option < 0) {
        text_add_safe(line, bytes_str(field));
        buf_add_str(line, *field ? ": " : "");
        return;
    }
    const char *name = cli->options[option].name;
    if (strchr(field, '[') || strcmp(name, "header") == 0 || is_secret(name, cli->given[option])) {
        buf_addf(line, "--%s: ", name);
        return;
    }
    struct buf safe = {0};
    text_add_safe(&safe, bytes_str(cli->given[option]));
    buf_addf(line, "--%s '", name);
    text_add_cut(line, buf_bytes(&safe), SHOWN_MAX);
    buf_add_str(line, "': ");
    buf_fini(&safe);
}

/* "the job is delayed: ", from the server, and what this command can do about it: the server's own
 * words are of HTTP. */
static void add_state(const struct cli *cli, const char *detail, struct buf *line)
{
    static const char before[] = "the job is ";
    const char *colon = strchr(detail, ':');
    if (colon && strncmp(detail, before, strlen(before)) == 0) {
        text_add_safe(line, bytes_of(detail, (size_t)(colon - detail)));
        buf_add_str(line, ": ");
    }
    buf_add_str(line, cli->state_hint);
}

/*
 * Is a value of the command line none, which `later` could have found as well? If a key of the
 * configuration does not allow it, this server refuses it: another one may take the same value.
 */
static bool is_bad_value(int status, const json_t *problem)
{
    return status == 400 && *text_of(problem, "field") && !*text_of(problem, "config_key");
}

int cli_refusal(struct cli *cli, int status, const json_t *problem)
{
    struct buf line = {0}, limit = {0};
    const char *detail = text_of(problem, "detail"), *code = text_of(problem, "code");
    bool over_limit = strcmp(code, "batch_too_large") == 0 || strcmp(code, "body_too_large") == 0 ||
                      strcmp(text_of(problem, "config_key"), "limits.batch_jobs") == 0;
    bool expected = cli->expects && strcmp(code, cli->expects) == 0;
    if (!cli->quiet && !expected && !(cli->may_halve && over_limit)) {
        add_fault(cli, text_of(problem, "field"), &line);
        if (cli->state_hint && strcmp(code, "wrong_state") == 0)
            add_state(cli, detail, &line);
        else
            text_add_safe(&line, bytes_str(*detail ? detail : text_of(problem, "title")));
        if (line.len == 0)
            buf_addf(&line, "the server answered %d", status);
        limits_add_named(cli, detail, &limit);
        if (*code || limit.len > 0)
            buf_addf(&line, " (%s%s%.*s)", code, *code && limit.len > 0 ? "; " : "", (int)limit.len,
                     limit.at ? limit.at : "");
        cli_message(cli, "%.*s", (int)line.len, line.at);
    }
    buf_fini(&limit);
    buf_fini(&line);
    cli->over_limit = over_limit; /* last, because reading the limit's value was a call, too */
    cli->expected = expected;
    if (status == 404)
        return EXIT_NOTHING;
    if (status == 409 || status == 412)
        return EXIT_CONFLICT;
    return is_bad_value(status, problem) ? EXIT_USAGE : EXIT_REFUSED;
}

/* The first line of a text, which a port for clients of beanstalkd answers, and some proxies. */
static void add_first_line(const struct client_answer *answer, struct buf *out)
{
    enum { SHOWN_MAX = 200 };
    struct bytes body = answer->body;
    if (!bytes_starts(answer->content_type, BYTES("text/plain")) && answer->content_type.len > 0)
        return;
    while (body.len && (*body.at == '\n' || *body.at == '\r'))
        body = bytes_of(body.at + 1, body.len - 1);
    const char *end = body.len ? memchr(body.at, '\n', body.len) : NULL;
    size_t len = end ? (size_t)(end - body.at) : body.len;
    while (len && body.at[len - 1] == '\r')
        len--;
    if (len > 0)
        buf_add_str(out, ": ");
    text_add_safe(out, bytes_of(body.at, len < SHOWN_MAX ? len : SHOWN_MAX));
}

/* A refusal that is no problem document of /v1: the answer comes from another server, or from a
 * proxy. */
static int refused_by_other(struct cli *cli, const struct client_request *request,
                            const struct client_answer *answer)
{
    struct buf line = {0};
    struct bytes location = answer->location;
    bool redirected = location.len > 0, known = cli->client.has_credentials;
    if (location.len > request->target.len &&
        bytes_eq(bytes_of(location.at + location.len - request->target.len, request->target.len),
                 request->target))
        location.len -= request->target.len;
    add_first_line(answer, &line);
    if (redirected)
        text_add_safe(&line, location);
    const char *text = line.at ? line.at : "";
    int len = (int)line.len;
    if (answer->status == 400 && bytes_starts(answer->body, BYTES("This is laterd's port for ")))
        cli_message(cli, "%s speaks another protocol%.*s", cli->client.name.at, len, text);
    else if (redirected)
        cli_message(cli, "%s sends us to another address (%d): give that as --server: %.*s",
                    cli->client.name.at, answer->status, len, text);
    else if (answer->status == 401 && known)
        cli_message(cli, "%s does not accept the user or token (401)%.*s", cli->client.name.at, len,
                    text);
    else if (answer->status == 401)
        cli_message(cli,
                    "%s asks for a user or a token (401): --user-file, --token-file, LATER_USER or "
                    "LATER_TOKEN%.*s",
                    cli->client.name.at, len, text);
    else if (answer->status == 407)
        cli_message(
            cli,
            "the environment's proxy asks for a user (407): http://NAME:PASSWORD@HOST:PORT%.*s",
            len, text);
    else
        cli_message(cli, "the server answered %d%.*s (at %s is another server, or a proxy)",
                    answer->status, len, text, cli->client.name.at);
    buf_fini(&line);
    return EXIT_REFUSED;
}

/* ---- calls ---- */

void cli_begin(struct cli *cli)
{
    if (cli->has_client)
        return;
    access_resolve(&cli->access, cli);
    cli->has_client = true;
    if (client_init(&cli->client, &cli->access.client))
        cli_bad_value(cli, "%s", cli->client.error);
}

/* Has the server not even a call that every laterd has? */
static bool has_no_stats(struct cli *cli)
{
    struct client_answer answer;
    struct client_request request = {
        .method = "GET",
        .target = BYTES("/v1/stats"),
        .body = BYTES(""),
        .connect_us = cli->timeout_us,
        .timeout_us = cli->timeout_us,
    };
    return client_call(&cli->client, &request, &answer) == OK && answer.status == 404;
}

/* There is no such call: does the server's URL end with the prefix of all paths? Otherwise it is an
 * older server, behind a proxy whose prefix ends like that. */
static void check_prefix(struct cli *cli)
{
    static const char version[] = "/v1";
    const char *name = cli->client.name.at;
    size_t len = strlen(name), cut = strlen(version);
    if (len <= cut || strcmp(name + len - cut, version) != 0 || !has_no_stats(cli))
        return;
    cli->subject = NULL;
    cli_bad_value(cli, "'%s' is not a server: give it without %s at its end, %.*s", name, version,
                  (int)(len - cut), name);
}

/* An answer that is no refusal. */
static int call(struct cli *cli, struct client_request *request, struct client_answer *out_answer)
{
    cli_begin(cli);
    cli->over_limit = false; /* cli_refusal() may set it */
    request->connect_us = cli->timeout_us;
    if (__builtin_add_overflow(cli->timeout_us, cli->wait_us, &request->timeout_us))
        request->timeout_us = INT64_MAX;
    enum err err = client_call(&cli->client, request, out_answer);
    if (err && cli->repeats && cli->client.lost)
        err = client_call(&cli->client, request, out_answer);
    if (err) {
        if (!cli->client.interrupted)
            cli_message(cli, "%s", cli->client.error);
        return EXIT_UNREACHABLE;
    }
    if (out_answer->status >= 200 && out_answer->status <= 299)
        return EXIT_DONE;
    cli->refused_status = out_answer->status;
    cli->expected = false; /* cli_refusal() may set it, too */
    json_t *value = json_loadb(out_answer->body.at, out_answer->body.len, JSON_DECODE_ANY, NULL);
    bool is_problem = json_is_string(json_object_get(value, "code"));
    bool no_call = out_answer->status == 404 && strcmp(text_of(value, "code"), "no_such_path") == 0;
    if (no_call && !cli->quiet && !cli->expects) /* an older server may not have the call */
        check_prefix(cli); /* it invalidates the answer's bytes, but not `value` */
    int code = is_problem ? cli_refusal(cli, out_answer->status, value)
                          : refused_by_other(cli, request, out_answer);
    json_decref(value);
    return code;
}

static int not_v1(const struct cli *cli)
{
    cli_message(cli, "%s does not speak /v1: is it a laterd?", cli->client.name.at);
    return EXIT_REFUSED;
}

int cli_call_bytes(struct cli *cli, struct client_request *request, json_t **out_answer)
{
    struct client_answer answer;
    int code = call(cli, request, &answer);
    if (code != EXIT_DONE)
        return code;
    struct buf text = {0};
    raw_json_pack_bodies(&text, answer.body);
    json_t *value = json_loadb(text.at, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    buf_fini(&text);
    if ((!value && answer.status != 204) ||
        !answer_is_of_laterd(request->method, request->target, value)) {
        json_decref(value);
        return not_v1(cli);
    }
    *out_answer = value;
    return EXIT_DONE;
}

int cli_call_raw(struct cli *cli, struct client_request *request, struct bytes *out_body)
{
    struct client_answer answer;
    int code = call(cli, request, &answer);
    if (code != EXIT_DONE)
        return code;
    if (answer.body.len == 0 ? answer.status != 204 : *answer.body.at != '{')
        return not_v1(cli);
    *out_body = answer.body;
    return EXIT_DONE;
}

int cli_call(struct cli *cli, const char *method, const char *target, json_t *body,
             json_t **out_answer)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    CHECK(!body || text);
    struct client_request request = {
        .method = method,
        .target = bytes_str(target),
        .content_type = text ? "application/json" : NULL,
        .body = bytes_str(text ? text : ""),
        .header = cli->header,
    };
    int code = cli_call_bytes(cli, &request, out_answer);
    free(text); /* jansson's */
    json_decref(body);
    return code;
}

/* Takes ownership of `target`. */
static int call_about(struct cli *cli, const char *subject, const char *method, char *target,
                      json_t *body, json_t **out_answer)
{
    const char *before = cli->subject;
    cli->subject = subject;
    int code = cli_call(cli, method, target, body, out_answer);
    cli->subject = before;
    mem_free(target);
    return code;
}

int cli_call_topic(struct cli *cli, const char *method, const char *topic, const char *after,
                   json_t *body, json_t **out_answer)
{
    char *target = cli_target("/v1/topics/", topic, after);
    return call_about(cli, topic, method, target, body, out_answer);
}

int cli_call_job(struct cli *cli, const char *method, const char *id, const char *after,
                 json_t *body, json_t **out_answer)
{
    return call_about(cli, id, method, cli_target("/v1/jobs/", id, after), body, out_answer);
}

int cli_call_job_text(struct cli *cli, const char *method, const char *id, const char *after,
                      struct bytes text, json_t **out_answer)
{
    const char *before = cli->subject;
    char *target = cli_target("/v1/jobs/", id, after);
    struct client_request request = {.method = method,
                                     .target = bytes_str(target),
                                     .content_type = "application/json",
                                     .body = text};
    cli->subject = id;
    int code = cli_call_bytes(cli, &request, out_answer);
    cli->subject = before;
    mem_free(target);
    return code;
}

int cli_get_of_job(struct cli *cli, int argc, char **argv, const char *after, json_t **out_answer)
{
    cli_only_words(cli, argc, argv, 1, 1);
    return cli_call_job(cli, "GET", argv[optind], after, NULL, out_answer);
}

char *cli_target(const char *before, const char *part, const char *after)
{
    struct buf target = {0};
    buf_add_str(&target, before);
    url_add_part(&target, bytes_str(part));
    buf_add_str(&target, after);
    buf_add_char(&target, '\0');
    return target.at;
}
