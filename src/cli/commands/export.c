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

static void clear_progress(const struct exporting *all)
{
    if (all->progress)
        (void)fputs("\r\x1b[K", stderr);
}

static void show_progress(const struct exporting *all)
{
    char room[TEXT_ROOM];
    if (all->progress)
        (void)fprintf(stderr, "\r%s jobs ", count_text(all->jobs, room));
}

/* False: standard output takes no more. */
static int flush_out(struct exporting *all)
{
    cli_flush(&all->out);
    if (!ferror(stdout))
        return EXIT_DONE;
    clear_progress(all);
    cli_message(all->cli, "cannot write the output: %s", strerror(errno));
    return EXIT_REFUSED;
}

static int add_job(struct exporting *all, struct bytes job)
{
    buf_add_str(&all->out, "{\"job\":");
    raw_json_add_line(&all->out, job);
    buf_add_str(&all->out, "}\n");
    all->jobs++;
    if (all->out.len < OUT_BYTES)
        return EXIT_DONE;
    show_progress(all);
    return flush_out(all);
}

/* ---- answers, as they came ---- */

/* A reader of the items of the array that a member is. */
static bool open_items(struct bytes object, const char *key, struct json *out_json)
{
    struct json_value array = json_find(object, key);
    json_init(out_json, array.text, ANSWER_DEPTH);
    return array.kind == JSON_KIND_ARRAY && json_open(out_json, JSON_KIND_ARRAY);
}

static int strange(const struct exporting *all)
{
    clear_progress(all);
    cli_message(all->cli, "the server's answer is none that this `later` knows");
    return EXIT_REFUSED;
}

static int ask(struct exporting *all, const char *method, const char *target, struct bytes body,
               struct bytes *out_answer)
{
    struct client_request request = {
        .method = method,
        .target = bytes_str(target),
        .content_type = body.len ? "application/json" : NULL,
        .body = body,
    };
    return cli_call_raw(all->cli, &request, out_answer);
}

/* ---- jobs ---- */

static void report_damaged(struct exporting *all, struct bytes id, const char *why)
{
    struct buf line = {0};
    clear_progress(all);
    buf_add_str(&line, "job ");
    text_add_safe(&line, id, false);
    buf_addf(&line, " is left out: %s", why);
    cli_message(all->cli, "%.*s", (int)line.len, line.at);
    buf_fini(&line);
    all->damaged++;
}

/* A job that has no room in an answer with others, or could not be shown then. */
static int get_alone(struct exporting *all, struct bytes id)
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
        all->cli->quiet = true;
        all->cli->refused_status = 0; /* an answer of no laterd is refused without one */
        code = ask(all, "GET", target.at, (struct bytes){0}, &job);
        all->cli->quiet = false;
        if (code != EXIT_REFUSED || all->cli->refused_status != 503)
            break;
    }
    buf_fini(&target);
    if (code == EXIT_NOTHING) {
        all->ended++;
        return EXIT_DONE;
    }
    if (code == EXIT_REFUSED && all->cli->refused_status == 500) {
        report_damaged(all, id, "its body is damaged");
        return EXIT_DONE;
    }
    if (code == EXIT_DONE)
        return add_job(all, job);
    if (code == EXIT_REFUSED && all->cli->refused_status == 0)
        return strange(all);
    clear_progress(all);
    if (exit_is_refusal(code))
        cli_message(all->cli, "the server does not show a job (%d)", all->cli->refused_status);
    else
        cli_message(all->cli, "%s", all->cli->client.error);
    return code;
}

/* EXIT_NOTHING: the job is to be asked for alone, once this answer has been read. */
static int take_result(struct exporting *all, struct bytes result)
{
    struct json_value job = json_find(result, "job");
    int64_t status = 0;
    struct json_value number = json_find(result, "status");
    if (job.kind == JSON_KIND_OBJECT)
        return add_job(all, job.text);
    if (!json_int(&number, &status))
        return strange(all);
    if (status != 404)
        return EXIT_NOTHING;
    all->ended++;
    return EXIT_DONE;
}

/* The ids of the request, in its order, for the jobs that must be asked for again. */
static int take_results(struct exporting *all, struct bytes answer)
{
    struct json items, ids;
    struct json_value item, one;
    struct buf alone = {0}; /* size_t: length of an id, and the id */
    int code = EXIT_DONE;
    bool same =
        open_items(answer, "results", &items) && open_items(buf_bytes(&all->wanted), "jobs", &ids);
    while (same && code == EXIT_DONE && json_item(&ids, &one)) {
        if (!json_item(&items, &item)) { /* no job is left out without a word */
            same = false;
            break;
        }
        struct json_value name = json_find(one.text, "id");
        struct bytes id = json_text(&name, &all->scratch);
        code = take_result(all, item.text);
        if (code != EXIT_NOTHING)
            continue;
        code = EXIT_DONE;
        buf_add(&alone, &id.len, sizeof(id.len));
        buf_add_bytes(&alone, id);
    }
    if (!same)
        code = strange(all);
    for (size_t at = 0; at < alone.len && code == EXIT_DONE;) {
        size_t len;
        memcpy(&len, alone.at + at, sizeof(len));
        code = get_alone(all, bytes_of(alone.at + at + sizeof(len), len));
        at += sizeof(len) + len;
    }
    buf_fini(&alone);
    arena_reset(&all->scratch);
    return code;
}

static int send_wanted(struct exporting *all)
{
    struct bytes answer;
    if (all->wanted_count == 0)
        return EXIT_DONE;
    buf_add_str(&all->wanted, "]}");
    int code = ask(all, "POST", "/v1/get", buf_bytes(&all->wanted), &answer);
    if (code == EXIT_DONE)
        code = take_results(all, answer);
    else if (code == EXIT_NOTHING)
        cli_message(all->cli, "this laterd is too old to be exported: it has no /v1/get");
    all->wanted.len = 0;
    all->wanted_count = 0;
    all->wanted_bytes = 0;
    return code == EXIT_NOTHING ? EXIT_REFUSED : code;
}

static int want(struct exporting *all, const struct json_value *id, int64_t body_bytes)
{
    uint64_t most = limits_of(all->cli, LIMIT_BATCH);
    int code = EXIT_DONE;
    bool large = body_bytes > GET_BODY;
    if (all->wanted_count >= (most < GET_JOBS ? most : GET_JOBS) || large ||
        all->wanted_bytes + (size_t)body_bytes > GET_BYTES)
        code = send_wanted(all);
    if (code == EXIT_DONE && large) {
        code = get_alone(all, json_text(id, &all->scratch));
        arena_reset(&all->scratch);
        return code;
    }
    buf_add_str(&all->wanted, all->wanted_count ? ",{\"id\":\"" : "{\"jobs\":[{\"id\":\"");
    buf_add_bytes(&all->wanted, id->text);
    buf_add_str(&all->wanted, "\"}");
    all->wanted_count++;
    all->wanted_bytes += (size_t)body_bytes;
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
static bool met_before(struct exporting *all, const struct json_value *id, bool reserved)
{
    uint64_t hash = hash_of(id->text.at, id->text.len);
    if (reserved && !all->again)
        buf_add(&all->reserved, &hash, sizeof(hash));
    return all->again && all->reserved.len &&
           bsearch(&hash, all->reserved.at, all->reserved.len / sizeof(hash), sizeof(hash),
                   by_hash) != NULL;
}

static int take_page(struct exporting *all, bool reserved)
{
    struct json items;
    struct json_value item;
    int code = EXIT_DONE;
    if (!open_items(buf_bytes(&all->page), "jobs", &items))
        return strange(all);
    while (code == EXIT_DONE && json_item(&items, &item)) {
        struct json_value id = json_find(item.text, "id"),
                          bytes = json_find(item.text, "body_bytes");
        int64_t body_bytes = 0;
        if (id.kind != JSON_KIND_STRING || !json_int(&bytes, &body_bytes))
            return strange(all);
        if (!met_before(all, &id, reserved))
            code = want(all, &id, body_bytes);
    }
    return code == EXIT_DONE ? send_wanted(all) : code;
}

/* The next page of `path`, which ends with "?" or "&", into all->page. */
static int get_page(struct exporting *all, const char *path, struct bytes cursor)
{
    struct buf target = {0};
    struct bytes answer;
    buf_addf(&target, "%slimit=%llu%s", path, (unsigned long long)limits_of(all->cli, LIMIT_LIST),
             cursor.len > 0 ? "&cursor=" : "");
    url_add_part(&target, cursor);
    buf_add_char(&target, '\0');
    int code = ask(all, "GET", target.at, (struct bytes){0}, &answer);
    buf_fini(&target);
    all->page.len = 0;
    if (code == EXIT_DONE)
        buf_add_bytes(&all->page, answer);
    return code;
}

/* Goes through all pages of `path`. */
static int walk(struct exporting *all, const char *path, int (*take)(struct exporting *, bool),
                bool flag)
{
    struct buf cursor = {0};
    int code;
    do {
        code = get_page(all, path, buf_bytes(&cursor));
        struct json_value next = {.kind = JSON_KIND_NULL};
        if (code == EXIT_DONE)
            next = json_find(buf_bytes(&all->page), "cursor");
        cursor.len = 0;
        if (next.kind == JSON_KIND_STRING) /* copied: the page may move */
            buf_add_bytes(&cursor, json_text(&next, &all->scratch));
        arena_reset(&all->scratch);
        if (code == EXIT_DONE)
            code = take(all, flag);
    } while (code == EXIT_DONE && cursor.len > 0);
    buf_fini(&cursor);
    return code;
}

static int take_jobs(struct exporting *all)
{
    static const char *const states[] = {"reserved", "buried", "delayed", "ready", "reserved"};
    enum { COUNT = sizeof(states) / sizeof(states[0]) };
    struct buf page = all->page; /* the page of topics, which is gone through still */
    int code = EXIT_DONE;
    all->page = (struct buf){0};
    all->reserved.len = 0;
    for (size_t i = 0; i < COUNT && code == EXIT_DONE; i++) {
        char after[40];
        all->again = i == COUNT - 1;
        if (all->again && all->reserved.len)
            qsort(all->reserved.at, all->reserved.len / sizeof(uint64_t), sizeof(uint64_t),
                  by_hash);
        (void)snprintf(after, sizeof(after), "/jobs?state=%s&", states[i]); /* it fits */
        char *path = cli_target("/v1/topics/", all->topic, after);
        code = walk(all, path, take_page, i == 0);
        mem_free(path);
    }
    buf_fini(&all->page);
    all->page = page;
    return code;
}

/* ---- topics ---- */

static void add_member(struct exporting *all, struct bytes topic, const char *key)
{
    struct json_value value = json_find(topic, key);
    if (value.kind == JSON_KIND_NULL)
        return;
    bool quoted = value.kind == JSON_KIND_STRING;
    buf_addf(&all->out, ",\"%s\":%s", key, quoted ? "\"" : "");
    buf_add_bytes(&all->out, value.text);
    buf_add_str(&all->out, quoted ? "\"" : "");
}

/* A topic's own line, then its jobs. */
static int take_topic(struct exporting *all, const char *name)
{
    struct bytes topic;
    char *target = cli_target("/v1/topics/", name, "");
    all->topic = name;
    all->cli->subject = name;
    int code = ask(all, "GET", target, (struct bytes){0}, &topic);
    mem_free(target);
    if (code == EXIT_DONE) {
        struct json_value value = json_find(topic, "name");
        buf_add_str(&all->out, "{\"topic\":{\"name\":\"");
        buf_add_bytes(&all->out, value.text);
        buf_add_char(&all->out, '"');
        add_member(all, topic, "paused");
        add_member(all, topic, "paused_until");
        add_member(all, topic, "settings");
        buf_add_str(&all->out, "}}\n");
        all->topics++;
        code = take_jobs(all);
    }
    all->cli->subject = NULL;
    return code;
}

/* Topics of a page that may have gone since are passed over. */
static int take_topics(struct exporting *all, bool unused)
{
    struct json items;
    struct json_value item;
    struct arena arena = {0};
    int code = EXIT_DONE;
    (void)unused;
    if (!open_items(buf_bytes(&all->page), "topics", &items))
        return strange(all);
    all->cli->expects = "not_found";
    while (code == EXIT_DONE && json_item(&items, &item)) {
        struct buf name = {0};
        struct json_value value = json_find(item.text, "name");
        buf_add_bytes(&name, json_text(&value, &arena));
        buf_add_char(&name, '\0');
        code = take_topic(all, name.at);
        code = code == EXIT_NOTHING ? EXIT_DONE : code;
        buf_fini(&name);
        arena_reset(&arena);
    }
    all->cli->expects = NULL;
    arena_fini(&arena);
    return code;
}

/* ---- the command ---- */

static void add_start(struct exporting *all)
{
    buf_add_str(&all->out, "{\"later\":{\"format\":1,\"time\":\"");
    rfc3339_add(&all->out, clock_wall_us());
    buf_addf(&all->out, "\",\"version\":\"%s\"}}\n", LATERD_VERSION);
}

static int finish(struct exporting *all)
{
    char jobs[TEXT_ROOM];
    buf_addf(&all->out,
             "{\"end\":{\"topics\":%llu,\"jobs\":%llu,\"ended\":%llu,\"damaged\":%llu}}\n",
             (unsigned long long)all->topics, (unsigned long long)all->jobs,
             (unsigned long long)all->ended, (unsigned long long)all->damaged);
    int code = flush_out(all);
    clear_progress(all);
    if (code != EXIT_DONE)
        return code;
    (void)fprintf(stderr, "%s job%s of %llu topic%s exported; %llu ended meanwhile, %llu damaged\n",
                  count_text(all->jobs, jobs), plural(all->jobs), (unsigned long long)all->topics,
                  plural(all->topics), (unsigned long long)all->ended,
                  (unsigned long long)all->damaged);
    return all->damaged ? EXIT_WRONG : EXIT_DONE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct exporting all = {.cli = cli, .progress = isatty(STDERR_FILENO) != 0};
    cli_only_words(cli, argc, argv, 0, INT32_MAX);
    if (cli->terminal)
        cli_bad_value(cli,
                      "the jobs go to standard output: send it to a file or to `later import`");
    add_start(&all);
    int code = EXIT_DONE;
    cli->repeats = true; /* a slow reader lets the connection become idle, and be closed */
    if (optind == argc)
        code = walk(&all, "/v1/topics?", take_topics, false);
    for (int i = optind; i < argc && code == EXIT_DONE; i++)
        code = take_topic(&all, argv[i]);
    if (code == EXIT_DONE)
        code = finish(&all);
    else
        clear_progress(&all);
    buf_fini(&all.out);
    buf_fini(&all.page);
    buf_fini(&all.wanted);
    buf_fini(&all.reserved);
    arena_fini(&all.scratch);
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
