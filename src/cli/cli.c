#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/typo.h"
#include "cli/answer.h"
#include "cli/limits.h"
#include "cli/raw_json.h"
#include "cli/text.h"

static void help(const struct command *command)
{
    bool asks = !command->offline;
    (void)printf(
        "usage: later %s%s%s\n\n%s.\n\n%s\n"
        "Also: %s-j, --json         output for programs\n"
        "%s"
        "      -h, --help         this text\n%s",
        command->name, *command->synopsis ? " " : "", command->synopsis, command->summary,
        command->help,
        asks ? "-s, --server URL   the server (LATER_SERVER; http://127.0.0.1:9277)\n      " : "",
        asks ? "      -t, --timeout D    wait at most D for an answer (10s)\n" : "",
        asks ? access_help : "");
}

/* How many long options begin like `word` ("--de" or "--de=5"), which getopt lets people cut. */
static unsigned meant(const struct option *options, const char *word)
{
    unsigned count = 0;
    size_t len = strcspn(word + 2, "=");
    for (const struct option *at = options; at->name; at++)
        count += strncmp(at->name, word + 2, len) == 0;
    return count;
}

/* Prints getopt's error in one line, and ends the program. */
_Noreturn static void bad_option(const struct cli *cli, char **argv, const struct option *options,
                                 int found)
{
    const char *word = argv[optind - 1];
    if (found == ':')
        cli_usage(cli, "%s needs a value", word);
    for (const struct option *at = options; at->name && optopt != 0; at++) {
        if (at->val == optopt) /* a known letter: its value is wrong */
            cli_usage(cli, "--%s takes no value", at->name);
    }
    if (optopt != 0)
        cli_usage(cli, "there is no option -%c", optopt);
    if (meant(options, word) > 1)
        cli_usage(cli, "%s could be several options: write it out", word);
    size_t len = strcspn(word, "=");
    char name[TYPO_WORD_MAX];
    (void)snprintf(name, sizeof(name), "%.*s", (int)len,
                   word); /* a long option that is similar to no known one */
    struct typo typo = {.word = name + 2};
    for (const struct option *at = options; at->name && len > 2; at++)
        typo_add(&typo, at->name);
    if (typo.meant)
        cli_usage(cli, "there is no option %.*s; did you mean --%s?", (int)len, word, typo.meant);
    cli_usage(cli, "there is no option %.*s", (int)len, word);
}

static void take_timeout(struct cli *cli, const char *text)
{
    cli->timeout_us = cli_duration_us(cli, "--timeout", text);
    if (cli->timeout_us == 0)
        cli_bad_value(
            cli, "--timeout %s leaves no time for an answer: write a duration such as 10s", text);
}

/* Of what getopt has read: a refusal by the server names it. */
static void note_given(struct cli *cli, int option)
{
    for (size_t i = 0; cli->options[i].name; i++) {
        CHECK(i < GIVEN_ROOM);
        if (cli->options[i].val == option)
            cli->given[i] = optarg;
    }
}

int cli_option(struct cli *cli, int argc, char **argv, const struct option *options)
{
    /* '+': options for all commands end at the command; ':': getopt prints nothing. */
    char shorts[80] = "+:";
    size_t len = 2;
    if (cli->command) {
        memcpy(shorts, ":", 2);
        len = 1;
    }
    for (const struct option *at = options; at->name; at++) {
        if (at->val > 127) /* has no short form */
            continue;
        CHECK(len + 3 < sizeof(shorts));
        shorts[len++] = (char)at->val;
        if (at->has_arg == required_argument)
            shorts[len++] = ':';
    }
    if (cli->options != options)
        memset(cli->given, 0, sizeof(cli->given));
    cli->options = options;
    for (;;) {
        int option = getopt_long(argc, argv, shorts, options, NULL);
        note_given(cli, option);
        switch (option) {
        case 's': cli->access.client.url = optarg; break;
        case 'j': cli->json = true; break;
        case 't': take_timeout(cli, optarg); break;
        case 'h':
            if (!cli->command)
                return option; /* main has the list of commands */
            help(cli->command);
            exit(EXIT_DONE);
        case '?':
        case ':': bad_option(cli, argv, options, option);
        default:
            if (option < ACCESS_CACERT)
                return option;
            access_option(&cli->access, option, optarg);
        }
    }
}

static void print_message(const struct cli *cli, const char *format, va_list args)
{
    (void)fflush(stdout); /* so that the two streams come in order on a terminal */
    (void)fprintf(stderr, "later%s%s: ", cli->command ? " " : "",
                  cli->command ? cli->command->name : "");
    if (cli->subject && *cli->subject) {
        struct buf name = {0};
        text_add_safe(&name, bytes_str(cli->subject), false);
        (void)fprintf(stderr, "%.*s: ", (int)name.len, name.at ? name.at : "");
        buf_fini(&name);
    }
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
}

void cli_message(const struct cli *cli, const char *format, ...)
{
    va_list args;
    if (cli->quiet)
        return;
    va_start(args, format);
    print_message(cli, format, args);
    va_end(args);
}

void cli_warn(const struct cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message(cli, format, args);
    va_end(args);
}

int cli_cannot_open(const struct cli *cli, const char *path)
{
    int why = errno;
    cli_message(cli, "cannot open %s: %s%s", path, strerror(why),
                why == EACCES || why == EPERM ? "; run it as laterd's user, or as root" : "");
    return why == ENOENT || why == ENOTDIR ? EXIT_NOTHING : EXIT_REFUSED;
}

void cli_usage(const struct cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message(cli, format, args);
    va_end(args);
    if (cli->command)
        (void)fprintf(stderr, "usage: later %s%s%s\n       later %s --help has examples\n",
                      cli->command->name, *cli->command->synopsis ? " " : "",
                      cli->command->synopsis, cli->command->name);
    else
        (void)fputs("usage: later [--server URL] [--json] [--timeout D] COMMAND [options] …\n"
                    "       later --help lists the commands\n",
                    stderr);
    exit(EXIT_USAGE);
}

void cli_bad_value(const struct cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message(cli, format, args);
    va_end(args);
    exit(EXIT_USAGE);
}

void cli_words(const struct cli *cli, int argc, char **argv, int min, int max)
{
    if (argc - optind < min) {
        struct buf name = {0};
        text_add_argument(&name, cli->command->synopsis, (unsigned)(argc - optind));
        cli_usage(cli, "%.*s is missing", (int)name.len, name.at ? name.at : "");
    }
    if (argc - optind > max)
        cli_usage(cli, "one word too many: '%s'", argv[optind + max]);
}

/* Is it a duration that only has too large a number? */
static bool is_long_duration(const char *text)
{
    struct buf small = {0};
    int64_t us;
    for (const char *at = text; *at; at++) {
        bool repeated = at > text && isdigit((unsigned char)*at) && isdigit((unsigned char)at[-1]);
        if (!repeated)
            buf_add_char(&small, *at);
    }
    buf_add_char(&small, '\0');
    bool is = duration_parse(small.at, &us) == OK;
    buf_fini(&small);
    return is;
}

int64_t cli_duration_us(const struct cli *cli, const char *option, const char *text)
{
    int64_t us;
    uint64_t bare;
    if (duration_parse(text, &us) == OK)
        return us;
    if (number_parse(text, 0, INT64_MAX, &bare) == OK)
        cli_bad_value(cli, "%s %s of what? write %ss, %sm, %sh or %sms", option, text, text, text,
                      text, text);
    if (is_long_duration(text))
        cli_bad_value(cli, "%s '%s' is too long", option, text);
    cli_bad_value(
        cli, "%s '%s' is not a duration such as 250ms, 30s, 1h30m or 3650d (us, ms, s, m, h, d, w)",
        option, text);
}

uint64_t cli_number(const struct cli *cli, const char *option, const char *text, uint64_t max)
{
    uint64_t number;
    if (number_parse(text, 0, max, &number))
        cli_bad_value(cli, "%s '%s' is not a number up to %llu", option, text,
                      (unsigned long long)max);
    return number;
}

void cli_utf8(const struct cli *cli, const char *option, const char *text)
{
    if (!bytes_is_utf8(bytes_str(text)))
        cli_bad_value(cli, "%s is not UTF-8", option);
}

json_t *cli_string(const struct cli *cli, const char *option, const char *text)
{
    cli_utf8(cli, option, text);
    json_t *string = json_string(text);
    CHECK(string);
    return string;
}

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
        text_add_safe(line, bytes_str(field), false);
        buf_add_str(line, *field ? ": " : "");
        return;
    }
    const char *name = cli->options[option].name;
    if (strchr(field, '[') || strcmp(name, "header") == 0 || is_secret(name, cli->given[option])) {
        buf_addf(line, "--%s: ", name);
        return;
    }
    struct buf safe = {0};
    text_add_safe(&safe, bytes_str(cli->given[option]), false);
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
        text_add_safe(line, bytes_of(detail, (size_t)(colon - detail)), false);
        buf_add_str(line, ": ");
    }
    buf_add_str(line, cli->state_hint);
}

int cli_refusal(struct cli *cli, int status, const json_t *problem)
{
    struct buf line = {0}, limit = {0};
    const char *detail = text_of(problem, "detail"), *code = text_of(problem, "code");
    bool over_limit = strcmp(code, "batch_too_large") == 0 || strcmp(code, "body_too_large") == 0 ||
                      (status == 400 && strstr(detail, "limits.batch_jobs"));
    bool expected = cli->expects && strcmp(code, cli->expects) == 0;
    if (!cli->quiet && !expected && !(cli->may_halve && over_limit)) {
        add_fault(cli, text_of(problem, "field"), &line);
        if (cli->state_hint && strcmp(code, "wrong_state") == 0)
            add_state(cli, detail, &line);
        else
            text_add_safe(&line, bytes_str(*detail ? detail : text_of(problem, "title")), false);
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
    return status == 409 || status == 412 ? EXIT_CONFLICT : EXIT_REFUSED;
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
    text_add_safe(out, bytes_of(body.at, len < SHOWN_MAX ? len : SHOWN_MAX), false);
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
        text_add_safe(&line, location, false);
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
        cli_message(cli, "the server answered %d%.*s (%s is no laterd, or what stands before it)",
                    answer->status, len, text, cli->client.name.at);
    buf_fini(&line);
    return EXIT_REFUSED;
}

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
    cli->expected = false; /* cli_refusal() may set it */
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

int cli_get_of_job(struct cli *cli, int argc, char **argv, const char *after, json_t **out_answer)
{
    static const struct option options[] = {CLI_OPTIONS};
    while (cli_option(cli, argc, argv, options) != -1)
        continue; /* only the common ones */
    cli_words(cli, argc, argv, 1, 1);
    char *target = cli_target("/v1/jobs/", argv[optind], after);
    cli->subject = argv[optind];
    int code = cli_call(cli, "GET", target, NULL, out_answer);
    cli->subject = NULL;
    mem_free(target);
    return code;
}

json_t *cli_time(const struct cli *cli, const char *option, const char *text)
{
    uint64_t number;
    if (number_parse(text, 0, INT64_MAX, &number) == OK)
        return json_integer((json_int_t)number);
    return cli_string(cli, option, text);
}

/* "0s,2m,10m", or with blanks between, as defaults.retry may have them: an array of milliseconds.
 */
static json_t *waits_of(const struct cli *cli, const char *text)
{
    json_t *waits = json_array();
    char part[TEXT_ROOM];
    for (;;) {
        size_t len = strcspn(text, ", ");
        if (len >= sizeof(part))
            cli_bad_value(cli, "--retry is a list of durations such as 0,2m,10m");
        memcpy(part, text, len);
        part[len] = '\0';
        json_array_append_new(waits, json_integer(cli_duration_us(cli, "--retry", part) / 1000));
        text += len;
        if (*text == '\0')
            return waits;
        text += strspn(text, " ");
        text += *text == ',';
        text += strspn(text, " ");
    }
}

json_t *cli_retry(const struct cli *cli, const char *text)
{
    json_error_t error;
    if (text[0] == '{') {
        json_t *formula = json_loads(text, 0, &error);
        if (!formula)
            cli_bad_value(cli, "--retry is not JSON: %s", error.text);
        return formula;
    }
    bool name = (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z');
    return name ? cli_string(cli, "--retry", text) : waits_of(cli, text);
}

void cli_header(const struct cli *cli, json_t *headers, const char *text)
{
    const char *colon = strchr(text, ':');
    if (!colon || colon == text)
        cli_bad_value(cli, "--header is 'Name: value', not '%s'", text);
    struct buf name = {0};
    buf_add(&name, text, (size_t)(colon - text));
    buf_add_char(&name, '\0');
    colon += 1 + strspn(colon + 1, " ");
    if (json_object_set_new(headers, name.at, cli_string(cli, "--header", colon)) != 0)
        cli_bad_value(cli, "--header is not UTF-8"); /* its name is not */
    buf_fini(&name);
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

void cli_add_json(const json_t *value, struct buf *out)
{
    const json_t *body = json_object_get(value, "body_json");
    if (body) {
        json_t *rest = json_copy((json_t *)(uintptr_t)value); /* it changes nothing in it */
        (void)json_object_del(rest, "body_json");             /* it is there */
        raw_json_add_object(out, rest, "body",
                            bytes_of(json_string_value(body), json_string_length(body)));
        json_decref(rest);
    } else {
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        CHECK(text);
        buf_add_str(out, text);
        free(text); /* jansson's */
    }
    buf_add_char(out, '\n');
}

void cli_print_json(const json_t *value)
{
    struct buf out = {0};
    cli_add_json(value, &out);
    (void)fwrite(out.at, 1, out.len, stdout); /* main looks at ferror at the end */
    buf_fini(&out);
}

void cli_print_stats(const json_t *value)
{
    (void)json_dumpf(value, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15));
    (void)putchar('\n');
}

void cli_flush(struct buf *out)
{
    if (out->len > 0)
        (void)fwrite(out->at, 1, out->len, stdout); /* main looks at ferror at the end */
    (void)fflush(stdout);
    out->len = 0;
}
