/*
 * later export: all jobs and topics of a queue, on whatever engine, as a line of JSON each.
 *
 * Bodies must come out as they were pushed, so answers are cut where our own reader says and copied
 * as they are; nothing is made into numbers and written again. Memory: a page of a listing, an
 * answer, and eight bytes for each job that is reserved.
 *
 * Jobs move while this looks. Of each topic those in one state are listed after another, reserved
 * ones first and last, in the order in which jobs move when nobody ends them. A job that
 * is missed all the same was taken after the reserved were first listed, and given back before they
 * were listed again; while its topic is paused no job is missed. One that is met twice is
 * the same job with the same id: an import keeps the first.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/rfc3339.h"
#include "cli/cli.h"
#include "cli/limits.h"
#include "cli/raw_json.h"
#include "cli/text.h"
#include "port/clock.h"
#include "proto/json.h"

enum {
    GET_JOBS = 500,         /* asked for at once */
    GET_BYTES = 512 * 1024, /* of their bodies */
    GET_BODY = 48 * 1024,   /* a job with a larger one is asked for alone */
    OUT_BYTES = 256 * 1024, /* written at once */
    TRIES = 30,             /* for an answer, a second apart, of a server that is busy */
    ANSWER_DEPTH = JSON_DEPTH_MAX,
};

struct exporting {
    struct cli *cli;
    const char *topic; /* of the jobs under way */
    struct buf out;
    struct buf page;     /* of a listing, copied: its ids are asked for */
    struct buf wanted;   /* the request for jobs that is being made */
    struct buf reserved; /* uint64_t: hashes of ids of jobs that were reserved */
    unsigned wanted_count;
    size_t wanted_bytes; /* of their bodies */
    struct arena scratch;
    bool again; /* reserved jobs are listed for the second time */
    bool progress;
    uint64_t topics, jobs, ended, damaged;
};

/* ---- out ---- */

static void clear_progress(const struct exporting *exporting)
{
    if (exporting->progress)
        (void)fputs("\r\x1b[K", stderr);
}

static void show_progress(const struct exporting *exporting)
{
    char room[TEXT_ROOM];
    if (exporting->progress)
        (void)fprintf(stderr, "\r%s jobs ", count_text(exporting->jobs, room));
}

/* False: standard output takes no more. */
static int flush_out(struct exporting *exporting)
{
    cli_flush(&exporting->out);
    if (!ferror(stdout))
        return EXIT_DONE;
    clear_progress(exporting);
    cli_message(exporting->cli, "cannot write the output: %s", strerror(errno));
    return EXIT_REFUSED;
}

static int add_job(struct exporting *exporting, struct bytes job)
{
    buf_add_str(&exporting->out, "{\"job\":");
    raw_json_add_line(&exporting->out, job);
    buf_add_str(&exporting->out, "}\n");
    exporting->jobs++;
    if (exporting->out.len < OUT_BYTES)
        return EXIT_DONE;
    show_progress(exporting);
    return flush_out(exporting);
}

/* ---- answers, as they came ---- */

/* A reader of the items of the array that a member is. */
static bool open_items(struct bytes object, const char *key, struct json *out_json)
{
    struct json_value array = json_find(object, key);
    json_init(out_json, array.text, ANSWER_DEPTH);
    return array.kind == JSON_KIND_ARRAY && json_open(out_json, JSON_KIND_ARRAY);
}

static int strange(const struct exporting *exporting)
{
    clear_progress(exporting);
    cli_message(exporting->cli, "the server's answer is none that this `later` knows");
    return EXIT_REFUSED;
}

static int ask(struct exporting *exporting, const char *method, const char *target,
               struct bytes body, struct bytes *out_answer)
{
    struct client_request request = {
        .method = method,
        .target = bytes_str(target),
        .content_type = body.len ? "application/json" : NULL,
        .body = body,
    };
    return cli_call_raw(exporting->cli, &request, out_answer);
}

/* ---- jobs ---- */

static void report_damaged(struct exporting *exporting, struct bytes id, const char *why)
{
    struct buf line = {0};
    clear_progress(exporting);
    buf_add_str(&line, "job ");
    text_add_safe(&line, id);
    buf_addf(&line, " is left out: %s", why);
    cli_message(exporting->cli, "%.*s", (int)line.len, line.at);
    buf_fini(&line);
    exporting->damaged++;
}

/* A job that has no room in an answer with others, or could not be shown then. */
static int get_alone(struct exporting *exporting, struct bytes id)
{
    struct buf target = {0};
    struct bytes job = {0};
    const struct timespec second = {.tv_sec = 1};
    int code = EXIT_DONE;
    buf_add_str(&target, "/v1/jobs/");
    url_add_part(&target, id);
    buf_add_char(&target, '\0');
    for (unsigned tries = 0; tries < TRIES; tries++) {
        if (tries)
            (void)nanosleep(&second, NULL); /* interrupted: sooner */
        exporting->cli->quiet = true;
        exporting->cli->refused_status = 0; /* an answer of no laterd is refused without one */
        code = ask(exporting, "GET", target.at, (struct bytes){0}, &job);
        exporting->cli->quiet = false;
        if (code != EXIT_REFUSED || exporting->cli->refused_status != 503)
            break;
    }
    buf_fini(&target);
    if (code == EXIT_NOTHING) {
        exporting->ended++;
        return EXIT_DONE;
    }
    if (code == EXIT_REFUSED && exporting->cli->refused_status == 500) {
        report_damaged(exporting, id, "its body is damaged");
        return EXIT_DONE;
    }
    if (code == EXIT_DONE)
        return add_job(exporting, job);
    if (code == EXIT_REFUSED && exporting->cli->refused_status == 0)
        return strange(exporting);
    clear_progress(exporting);
    if (exit_is_refusal(code))
        cli_message(exporting->cli, "the server does not show a job (%d)",
                    exporting->cli->refused_status);
    else
        cli_message(exporting->cli, "%s", exporting->cli->client.error);
    return code;
}

/* EXIT_NOTHING: the job is to be asked for alone, once this answer has been read. */
static int take_result(struct exporting *exporting, struct bytes result)
{
    struct json_value job = json_find(result, "job");
    int64_t status = 0;
    struct json_value number = json_find(result, "status");
    if (job.kind == JSON_KIND_OBJECT)
        return add_job(exporting, job.text);
    if (!json_int(&number, &status))
        return strange(exporting);
    if (status != 404)
        return EXIT_NOTHING;
    exporting->ended++;
    return EXIT_DONE;
}

/* The ids of the request, in its order, for the jobs that must be asked for again. */
static int take_results(struct exporting *exporting, struct bytes answer)
{
    struct json items, ids;
    struct json_value item, one;
    struct buf alone = {0}; /* size_t: length of an id, and the id */
    int code = EXIT_DONE;
    bool same = open_items(answer, "results", &items) &&
                open_items(buf_bytes(&exporting->wanted), "jobs", &ids);
    while (same && code == EXIT_DONE && json_item(&ids, &one)) {
        if (!json_item(&items, &item)) { /* no job is left out without a word */
            same = false;
            break;
        }
        struct json_value name = json_find(one.text, "id");
        struct bytes id = json_text(&name, &exporting->scratch);
        code = take_result(exporting, item.text);
        if (code != EXIT_NOTHING)
            continue;
        code = EXIT_DONE;
        buf_add(&alone, &id.len, sizeof(id.len));
        buf_add_bytes(&alone, id);
    }
    if (!same)
        code = strange(exporting);
    for (size_t at = 0; at < alone.len && code == EXIT_DONE;) {
        size_t len;
        memcpy(&len, alone.at + at, sizeof(len));
        code = get_alone(exporting, bytes_of(alone.at + at + sizeof(len), len));
        at += sizeof(len) + len;
    }
    buf_fini(&alone);
    arena_reset(&exporting->scratch);
    return code;
}

static int send_wanted(struct exporting *exporting)
{
    struct bytes answer;
    if (exporting->wanted_count == 0)
        return EXIT_DONE;
    buf_add_str(&exporting->wanted, "]}");
    int code = ask(exporting, "POST", "/v1/get", buf_bytes(&exporting->wanted), &answer);
    if (code == EXIT_DONE)
        code = take_results(exporting, answer);
    else if (code == EXIT_NOTHING)
        cli_message(exporting->cli, "this laterd is too old to be exported: it has no /v1/get");
    exporting->wanted.len = 0;
    exporting->wanted_count = 0;
    exporting->wanted_bytes = 0;
    return code == EXIT_NOTHING ? EXIT_REFUSED : code;
}

static int want(struct exporting *exporting, const struct json_value *id, int64_t body_bytes)
{
    uint64_t most = limits_of(exporting->cli, LIMIT_BATCH);
    int code = EXIT_DONE;
    bool large = body_bytes > GET_BODY;
    if (exporting->wanted_count >= (most < GET_JOBS ? most : GET_JOBS) || large ||
        exporting->wanted_bytes + (size_t)body_bytes > GET_BYTES)
        code = send_wanted(exporting);
    if (code == EXIT_DONE && large) {
        code = get_alone(exporting, json_text(id, &exporting->scratch));
        arena_reset(&exporting->scratch);
        return code;
    }
    buf_add_str(&exporting->wanted,
                exporting->wanted_count ? ",{\"id\":\"" : "{\"jobs\":[{\"id\":\"");
    buf_add_bytes(&exporting->wanted, id->text);
    buf_add_str(&exporting->wanted, "\"}");
    exporting->wanted_count++;
    exporting->wanted_bytes += (size_t)body_bytes;
    return code;
}

/* ---- listings ---- */

static int by_hash(const void *left, const void *right)
{
    uint64_t a, b;
    memcpy(&a, left, sizeof(a));
    memcpy(&b, right, sizeof(b));
    return a < b ? -1 : a > b;
}

/* Is it a job that was met when reserved ones were listed first? */
static bool met_before(struct exporting *exporting, const struct json_value *id, bool reserved)
{
    uint64_t hash = hash_of(id->text.at, id->text.len);
    if (reserved && !exporting->again)
        buf_add(&exporting->reserved, &hash, sizeof(hash));
    return exporting->again && exporting->reserved.len &&
           bsearch(&hash, exporting->reserved.at, exporting->reserved.len / sizeof(hash),
                   sizeof(hash), by_hash) != NULL;
}

static int take_page(struct exporting *exporting, bool reserved)
{
    struct json items;
    struct json_value item;
    int code = EXIT_DONE;
    if (!open_items(buf_bytes(&exporting->page), "jobs", &items))
        return strange(exporting);
    while (code == EXIT_DONE && json_item(&items, &item)) {
        struct json_value id = json_find(item.text, "id"),
                          bytes = json_find(item.text, "body_bytes");
        int64_t body_bytes = 0;
        if (id.kind != JSON_KIND_STRING || !json_int(&bytes, &body_bytes))
            return strange(exporting);
        if (!met_before(exporting, &id, reserved))
            code = want(exporting, &id, body_bytes);
    }
    return code == EXIT_DONE ? send_wanted(exporting) : code;
}

/* The next page of `path`, which ends with "?" or "&", into all->page. */
static int get_page(struct exporting *exporting, const char *path, struct bytes cursor)
{
    struct buf target = {0};
    struct bytes answer;
    buf_addf(&target, "%slimit=%llu%s", path,
             (unsigned long long)limits_of(exporting->cli, LIMIT_LIST),
             cursor.len > 0 ? "&cursor=" : "");
    url_add_part(&target, cursor);
    buf_add_char(&target, '\0');
    int code = ask(exporting, "GET", target.at, (struct bytes){0}, &answer);
    buf_fini(&target);
    exporting->page.len = 0;
    if (code == EXIT_DONE)
        buf_add_bytes(&exporting->page, answer);
    return code;
}

/* Goes through all pages of `path`. */
static int walk(struct exporting *exporting, const char *path,
                int (*take)(struct exporting *, bool), bool flag)
{
    struct buf cursor = {0};
    int code;
    do {
        code = get_page(exporting, path, buf_bytes(&cursor));
        struct json_value next = {.kind = JSON_KIND_NULL};
        if (code == EXIT_DONE)
            next = json_find(buf_bytes(&exporting->page), "cursor");
        cursor.len = 0;
        if (next.kind == JSON_KIND_STRING) /* copied: the page may move */
            buf_add_bytes(&cursor, json_text(&next, &exporting->scratch));
        arena_reset(&exporting->scratch);
        if (code == EXIT_DONE)
            code = take(exporting, flag);
    } while (code == EXIT_DONE && cursor.len > 0);
    buf_fini(&cursor);
    return code;
}

static int take_jobs(struct exporting *exporting)
{
    static const char *const states[] = {"reserved", "buried", "delayed", "ready", "reserved"};
    enum { COUNT = sizeof(states) / sizeof(states[0]) };
    struct buf page = exporting->page; /* the page of topics, which is gone through still */
    int code = EXIT_DONE;
    exporting->page = (struct buf){0};
    exporting->reserved.len = 0;
    for (size_t i = 0; i < COUNT && code == EXIT_DONE; i++) {
        char after[40];
        exporting->again = i == COUNT - 1;
        if (exporting->again && exporting->reserved.len)
            qsort(exporting->reserved.at, exporting->reserved.len / sizeof(uint64_t),
                  sizeof(uint64_t), by_hash);
        (void)snprintf(after, sizeof(after), "/jobs?state=%s&", states[i]); /* it fits */
        char *path = cli_target("/v1/topics/", exporting->topic, after);
        code = walk(exporting, path, take_page, i == 0);
        mem_free(path);
    }
    buf_fini(&exporting->page);
    exporting->page = page;
    return code;
}

/* ---- topics ---- */

static void add_member(struct exporting *exporting, struct bytes topic, const char *key)
{
    struct json_value value = json_find(topic, key);
    if (value.kind == JSON_KIND_NULL)
        return;
    bool quoted = value.kind == JSON_KIND_STRING;
    buf_addf(&exporting->out, ",\"%s\":%s", key, quoted ? "\"" : "");
    buf_add_bytes(&exporting->out, value.text);
    buf_add_str(&exporting->out, quoted ? "\"" : "");
}

/* A topic's own line, then its jobs. */
static int take_topic(struct exporting *exporting, const char *name)
{
    struct bytes topic;
    char *target = cli_target("/v1/topics/", name, "");
    exporting->topic = name;
    exporting->cli->subject = name;
    int code = ask(exporting, "GET", target, (struct bytes){0}, &topic);
    mem_free(target);
    if (code == EXIT_DONE) {
        struct json_value value = json_find(topic, "name");
        buf_add_str(&exporting->out, "{\"topic\":{\"name\":\"");
        buf_add_bytes(&exporting->out, value.text);
        buf_add_char(&exporting->out, '"');
        add_member(exporting, topic, "paused");
        add_member(exporting, topic, "paused_until");
        add_member(exporting, topic, "settings");
        buf_add_str(&exporting->out, "}}\n");
        exporting->topics++;
        code = take_jobs(exporting);
    }
    exporting->cli->subject = NULL;
    return code;
}

/* Topics of a page that may have gone since are passed over. */
static int take_topics(struct exporting *exporting, bool unused)
{
    struct json items;
    struct json_value item;
    struct arena arena = {0};
    int code = EXIT_DONE;
    (void)unused;
    if (!open_items(buf_bytes(&exporting->page), "topics", &items))
        return strange(exporting);
    exporting->cli->expects = "not_found";
    while (code == EXIT_DONE && json_item(&items, &item)) {
        struct buf name = {0};
        struct json_value value = json_find(item.text, "name");
        buf_add_bytes(&name, json_text(&value, &arena));
        buf_add_char(&name, '\0');
        code = take_topic(exporting, name.at);
        code = code == EXIT_NOTHING ? EXIT_DONE : code;
        buf_fini(&name);
        arena_reset(&arena);
    }
    exporting->cli->expects = NULL;
    arena_fini(&arena);
    return code;
}

/* ---- the command ---- */

static void add_start(struct exporting *exporting)
{
    buf_add_str(&exporting->out, "{\"later\":{\"format\":1,\"time\":\"");
    rfc3339_add(&exporting->out, clock_wall_us());
    buf_addf(&exporting->out, "\",\"version\":\"%s\"}}\n", LATERD_VERSION);
}

static int finish(struct exporting *exporting)
{
    char jobs[TEXT_ROOM];
    buf_addf(&exporting->out,
             "{\"end\":{\"topics\":%llu,\"jobs\":%llu,\"ended\":%llu,\"damaged\":%llu}}\n",
             (unsigned long long)exporting->topics, (unsigned long long)exporting->jobs,
             (unsigned long long)exporting->ended, (unsigned long long)exporting->damaged);
    int code = flush_out(exporting);
    clear_progress(exporting);
    if (code != EXIT_DONE)
        return code;
    (void)fprintf(stderr, "%s job%s of %llu topic%s exported; %llu ended meanwhile, %llu damaged\n",
                  count_text(exporting->jobs, jobs), plural(exporting->jobs),
                  (unsigned long long)exporting->topics, plural(exporting->topics),
                  (unsigned long long)exporting->ended, (unsigned long long)exporting->damaged);
    return exporting->damaged ? EXIT_WRONG : EXIT_DONE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct exporting exporting = {.cli = cli, .progress = isatty(STDERR_FILENO) != 0};
    cli_only_words(cli, argc, argv, 0, INT32_MAX);
    if (cli->terminal)
        cli_bad_value(cli,
                      "the jobs go to standard output: send it to a file or to `later import`");
    add_start(&exporting);
    int code = EXIT_DONE;
    cli->repeats = true; /* a slow reader lets the connection become idle, and be closed */
    if (optind == argc)
        code = walk(&exporting, "/v1/topics?", take_topics, false);
    for (int i = optind; i < argc && code == EXIT_DONE; i++)
        code = take_topic(&exporting, argv[i]);
    if (code == EXIT_DONE)
        code = finish(&exporting);
    else
        clear_progress(&exporting);
    buf_fini(&exporting.out);
    buf_fini(&exporting.page);
    buf_fini(&exporting.wanted);
    buf_fini(&exporting.reserved);
    arena_fini(&exporting.scratch);
    return code;
}

const struct command command_export = {
    .name = "export",
    .synopsis = "[TOPIC…]",
    .summary = "Write all jobs and topics as lines of JSON, on any engine",
    .help =
        "Writes to standard output: a line for each topic, with its settings and its pause, and "
        "one\n"
        "for each of its jobs, with all that /v1 shows of it. `later import` reads that. The last\n"
        "line says how many there were; without it the export is not whole.\n"
        "\nThe queue may work on meanwhile: a job that ends is left out, one that comes may be. "
        "Jobs\n"
        "that are taken and given back meanwhile may be missed: pause a topic for an exact copy.\n"
        "\nExit 1: no such topic. 4: refused. 5: no connection. 6: bodies are damaged; all else "
        "is\n"
        "written.\n"
        "\nExamples:\n"
        "  later export > queue.ndjson\n"
        "  later export -s old:9277 | later import -s new:9277\n"
        "  later export mail | jq -r 'select(.job).job.id'\n",
    .run = run,
};
