/*
 * later push: one job from the command line, or many from a file, one a line. Many go in batches
 * (bulk.h); each line's own result counts, and a refused line does not stop the rest.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/body.h"
#include "cli/bulk.h"
#include "cli/limits.h"
#include "cli/raw_json.h"
#include "cli/show.h"
#include "cli/text.h"

struct push {
    struct cli *cli;
    const char *topic;
    char *target;
    const char *body;
    json_t *fields; /* the fields given by options, for every job */
    bool raw_json;
    bool ndjson;
    bool lines;
};

/* Options without a letter; those of all commands are below. */
enum { BIZ_KEY = 256, SUBTOPIC, TAG, EXTEND_DATA };

static const struct option options[] = {
    {"id", required_argument, NULL, 'i'},
    {"delay", required_argument, NULL, 'd'},
    {"due", required_argument, NULL, 'u'},
    {"ttr", required_argument, NULL, 'T'},
    {"priority", required_argument, NULL, 'p'},
    {"retry", required_argument, NULL, 'r'},
    {"if-exists", required_argument, NULL, 'e'},
    {"content-type", required_argument, NULL, 'c'},
    {"json-body", no_argument, NULL, 'J'},
    {"lines", no_argument, NULL, 'l'},
    {"url", required_argument, NULL, 'U'},
    {"key", required_argument, NULL, 'k'},
    {"header", required_argument, NULL, 'H'},
    {"level", required_argument, NULL, 'L'},
    {"ndjson", no_argument, NULL, 'n'},
    {"biz-key", required_argument, NULL, BIZ_KEY},
    {"subtopic", required_argument, NULL, SUBTOPIC},
    {"tag", required_argument, NULL, TAG},
    {"extend-data", required_argument, NULL, EXTEND_DATA},
    CLI_OPTIONS,
};

static void set(struct push *push, const char *key, json_t *value)
{
    json_object_set_new(push->fields, key, value);
}

static void add_header(struct push *push, char *text)
{
    json_t *headers = json_object_get(push->fields, "headers");
    if (!headers) {
        headers = json_object();
        json_object_set_new(push->fields, "headers", headers);
    }
    cli_header(push->cli, headers, text);
}

static void add_tag(struct push *push, const char *text)
{
    json_t *tags = json_object_get(push->fields, "tags");
    json_t *tag = cli_string(push->cli, "--tag", text);
    if (!tags) {
        tags = json_array();
        json_object_set_new(push->fields, "tags", tags);
    }
    json_array_append_new(tags, tag);
}

static void options_of(struct push *push, int argc, char **argv)
{
    const struct cli *cli = push->cli;
    for (int c; (c = cli_option(push->cli, argc, argv, options)) != -1;) {
        switch (c) {
        case 'i': set(push, "id", cli_string(cli, "--id", optarg)); break;
        case 'd': set(push, "delay", cli_duration(cli, "--delay", optarg)); break;
        case 'u': set(push, "due", cli_time(cli, "--due", optarg)); break;
        case 'T': set(push, "ttr", cli_duration(cli, "--ttr", optarg)); break;
        case 'p':
            set(push, "priority",
                json_integer((json_int_t)cli_number(cli, "--priority", optarg, UINT32_MAX)));
            break;
        case 'r': set(push, "retry", cli_retry(cli, optarg)); break;
        case 'e': set(push, "if_exists", cli_string(cli, "--if-exists", optarg)); break;
        case 'c': set(push, "content_type", cli_string(cli, "--content-type", optarg)); break;
        case 'U': set(push, "url", cli_string(cli, "--url", optarg)); break;
        case 'k': set(push, "key", cli_string(cli, "--key", optarg)); break;
        case 'H': add_header(push, optarg); break;
        case BIZ_KEY: set(push, "biz_key", cli_string(cli, "--biz-key", optarg)); break;
        case SUBTOPIC: set(push, "subtopic", cli_string(cli, "--subtopic", optarg)); break;
        case TAG: add_tag(push, optarg); break;
        case EXTEND_DATA: set(push, "extend_data", cli_string(cli, "--extend-data", optarg)); break;
        case 'L':
            set(push, "level", json_integer((json_int_t)cli_number(cli, "--level", optarg, 18)));
            break;
        case 'J': push->raw_json = true; break;
        case 'l': push->lines = true; break;
        case 'n': push->ndjson = true; break;
        default: break;
        }
    }
}

static int push_one(struct push *push)
{
    struct buf body = {0}, job = {0};
    json_t *answer = NULL;
    body_read(push->cli, push->body, push->raw_json, &body);
    if (limits_body_over(push->cli, body.len)) {
        buf_fini(&body);
        return EXIT_REFUSED;
    }
    body_add_good(push->cli, push->fields, buf_bytes(&body), push->raw_json, &job);
    buf_fini(&body);
    struct client_request request = {.method = "POST",
                                     .target = bytes_str(push->target),
                                     .content_type = "application/json",
                                     .body = buf_bytes(&job)};
    bool chosen = json_object_get(push->fields, "if_exists") != NULL;
    push->cli->expects = chosen ? NULL : "exists";
    int code = cli_call_bytes(push->cli, &request, &answer);
    push->cli->expects = NULL;
    buf_fini(&job);
    if (code == EXIT_CONFLICT && !chosen)
        cli_message(push->cli,
                    "a job with this id lives (exists): --if-exists keep leaves it as it "
                    "is, --if-exists replace puts this one in its place");
    if (code == EXIT_DONE && push->cli->json) {
        cli_print_json(answer);
    } else if (code == EXIT_DONE) {
        struct buf line = {0};
        show_value(answer, "id", &line);
        buf_add_char(&line, '\n');
        cli_flush(&line);
        buf_fini(&line);
    }
    json_decref(answer);
    return code;
}

struct many {
    struct push *push;
    struct bulk bulk;
    uint64_t line;                /* of the input, empty ones too */
    uint64_t numbers[BULK_LINES]; /* of the lines in the batch */
    uint64_t taken, refused;
    bool progress;
};

/* Reports a line that is not pushed, on a line of its own beside the progress. */
static void refuse(struct many *many, uint64_t number, struct bytes why)
{
    if (many->progress)
        (void)fputs("\r\x1b[K", stderr);
    cli_message(many->push->cli, "line %llu: %.*s", (unsigned long long)number, (int)why.len,
                why.at);
    many->refused++;
}

/* Counts the result of a line, and shows it if it was refused. */
static void take_result(void *ctx, unsigned line, const json_t *result)
{
    struct many *many = ctx;
    const json_t *problem = json_object_get(result, "problem");
    if (problem) {
        struct buf why = {0};
        show_line_problem(problem, &why);
        refuse(many, many->numbers[line], why.at ? buf_bytes(&why) : BYTES(""));
        buf_fini(&why);
    }
    many->taken += problem == NULL;
    if (many->push->cli->json)
        cli_print_json(result);
}

static int send_lines(struct many *many)
{
    unsigned count = many->bulk.count;
    int code = bulk_send(&many->bulk, bytes_str(many->push->target));
    if (code != EXIT_DONE && many->bulk.sent < count) /* so that the rest can be pushed later */
        cli_message(many->push->cli, "stopped: not known to be pushed from line %llu on",
                    (unsigned long long)many->numbers[many->bulk.sent]);
    if (many->progress && count > 0)
        (void)fprintf(stderr, "\r%llu pushed, %llu refused ", (unsigned long long)many->taken,
                      (unsigned long long)many->refused);
    return code;
}

/* Adds a line of input to the batch. Options set the fields that the line lacks. */
static void add_line(struct many *many, struct bytes line)
{
    const struct push *push = many->push;
    struct bulk *bulk = &many->bulk;
    const char *why;
    if (push->lines && !body_add_object(push->fields, line, push->raw_json, &bulk->text, &why)) {
        refuse(many, many->line, bytes_str(why));
        return;
    }
    many->numbers[bulk->count] = many->line;
    if (push->ndjson && !raw_json_merge(&bulk->text, line, push->fields))
        buf_add_bytes(&bulk->text, line); /* the server reports the error of this line */
    buf_add_char(&bulk->text, '\n');
    bulk_add(bulk);
}

static int push_many(struct push *push)
{
    struct many many = {.push = push, .progress = isatty(STDERR_FILENO) != 0 && !push->cli->json};
    many.bulk = (struct bulk){.cli = push->cli, .take = take_result, .ctx = &many};
    FILE *file = body_open(push->cli, push->body);
    char *line = NULL;
    size_t room = 0;
    int code = EXIT_DONE;
    for (ssize_t len; code == EXIT_DONE && (len = getline(&line, &room, file)) >= 0;) {
        many.line++;
        while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
            len--;
        struct bytes text = bytes_of(line, (size_t)len);
        if (many.line == 1)
            text = body_without_mark(text);
        if (text.len == 0)
            continue;
        if (bulk_full(&many.bulk, text.len))
            code = send_lines(&many);
        if (code == EXIT_DONE)
            add_line(&many, text);
    }
    int read_errno = errno; /* of the last line */
    if (code == EXIT_DONE)
        code = send_lines(&many);
    if (code == EXIT_DONE && ferror(file)) {
        cli_message(push->cli, "cannot read all of %s: %s", push->body, strerror(read_errno));
        code = EXIT_REFUSED;
    }
    if (many.progress)
        (void)fputc('\n', stderr);
    else if (!push->cli->json)
        (void)printf("%llu pushed, %llu refused\n", (unsigned long long)many.taken,
                     (unsigned long long)many.refused);
    free(line); /* getline's */
    bulk_fini(&many.bulk);
    if (file != stdin)
        (void)fclose(file); /* only read from */
    return code == EXIT_DONE && many.refused > 0 ? EXIT_REFUSED : code;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct push push = {.cli = cli, .fields = json_object()};
    options_of(&push, argc, argv);
    bool many = push.lines || push.ndjson;
    if (push.lines && push.ndjson)
        cli_usage(cli, "--lines or --ndjson, not both");
    if (many && json_object_get(push.fields, "id")) /* each would be refused, or replace the last */
        cli_usage(cli, "--id is the id of one job: lines of --ndjson have their own");
    if (!!json_object_get(push.fields, "delay") + !!json_object_get(push.fields, "due") +
            !!json_object_get(push.fields, "level") >
        1)
        cli_usage(cli, "--delay, --due or --level, only one of them");
    cli_words(cli, argc, argv, many ? 1 : 2, 2);
    push.topic = argv[optind];
    push.body = argc - optind > 1 ? argv[optind + 1] : "-";
    push.target = cli_target("/v1/topics/", push.topic, "/jobs");
    int code = many ? push_many(&push) : push_one(&push);
    mem_free(push.target);
    json_decref(push.fields);
    return code;
}

const struct command command_push = {
    .name = "push",
    .synopsis = "[options] TOPIC BODY | @FILE | -",
    .summary = "Put a job, or many, into a topic",
    .help =
        "BODY is the body itself, @FILE a file that holds it, - standard input.\n\n"
        "  -d, --delay D           due D from now: 250ms, 30s, 1h30m, 7d (at once)\n"
        "  -u, --due TIME          due then: 2026-12-24T18:00:00Z, or epoch milliseconds\n"
        "  -i, --id ID             your own id (the server makes one)\n"
        "  -e, --if-exists WHAT    a live job has the id: reject, replace or keep (reject)\n"
        "  -T, --ttr D             time to run: a consumer has D to finish it (60s)\n"
        "  -p, --priority N        lower goes first among due jobs, 0 to 4294967295\n"
        "  -r, --retry D,D,…       waits after failed attempts, or a name (alipay,\n"
        "                          standard, …); then it is buried\n"
        "      --level N           due as RocketMQ's delay level says: 1 (1s) to 18 (2h)\n"
        "      --url URL           laterd sends it there when it is due\n"
        "      --key KEY           deliveries of one key can be kept in order\n"
        "      --header 'N: V'     sent with it; may be given several times\n"
        "      --biz-key TEXT      what the job is about: kept, shown, sent with it\n"
        "      --subtopic TEXT     the same: a part of its topic\n"
        "      --tag TEXT          the same: a word; may be given several times\n"
        "      --extend-data TEXT  the same: any text, up to 2000 bytes\n"
        "  -c, --content-type T    kept with the body\n"
        "  -J, --json-body         BODY is JSON, and is handed out as such\n"
        "  -l, --lines             each line of FILE or standard input is a job's body,\n"
        "                          without its end (LF, CR LF); empty ones are skipped\n"
        "  -n, --ndjson            each line is a whole job as JSON: "
        "{\"body\":…,\"delay\":\"5s\"}\n"
        "                          (up to 500 lines are sent at a time, and the rest at the end)\n"
        "\nPrints the job's id. The job is safe when the command returns: on the server's disk,\n"
        "or in its Redis.\n"
        "\nExamples:\n"
        "  later push mail 'hello' --delay 30s\n"
        "  later push mail @letter.txt --due 2026-12-24T18:00:00Z --id xmas\n"
        "  later push hooks '{\"url\":\"…\"}' --json-body --retry 0,2m,10m,1h\n"
        "  date | later push mail - --delay 1m\n"
        "  later push mail --lines --delay 1h < addresses.txt\n"
        "  later push mail --ndjson jobs.ndjson\n",
    .run = run,
};
