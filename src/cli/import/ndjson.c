#include "cli/import/ndjson.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rfc3339.h"
#include "cli/body.h"
#include "cli/import/ndjson_line.h"
#include "cli/show.h"
#include "cli/text.h"
#include "port/clock.h"
#include "proto/json.h"

enum {
    READ_BYTES = 256 * 1024,
    LINE_MAX_BYTES = 1 << 30, /* six times the largest body there can be, and some */
    PRECONDITION_FAILED = 412,
};

struct importing {
    struct cli *cli;
    struct import_push *push;
    const struct import_ndjson_options *options;
    int fd;
    struct buf input; /* bytes that were read and not handled yet */
    size_t looked;    /* of it, for the end of a line */
    bool at_end;      /* of the file */
    uint64_t line;    /* number of the line under way */
    struct buf topic; /* of the open batch */
    struct buf text;  /* a push */
    struct arena scratch;
    bool started, ended;                    /* the first and the last line were there */
    bool cut;                               /* an export before it has no last line */
    uint64_t topics, with_settings, paused; /* in the export; pauses that are not over */
    uint64_t configured, same, differing, topics_refused; /* with settings: what became of them */
    uint64_t jobs, bad;
    uint64_t job_lines, missing; /* of the export under way; of all exports */
};

static void print_line(const struct importing *importing, const char *why)
{
    import_push_end_progress(importing->push);
    cli_message(importing->cli, "line %llu: %s", (unsigned long long)importing->line, why);
}

/* ---- topics ---- */

/* A call about the topic: of the request its method, body and header are given. */
static int topic_call(struct importing *importing, const char *name, const char *after,
                      struct client_request *request, struct bytes *out_answer)
{
    char *target = cli_target("/v1/topics/", name, after);
    request->target = bytes_str(target);
    request->content_type = request->body.len ? "application/json" : NULL;
    importing->cli->subject = name;
    int code = cli_call_raw(importing->cli, request, out_answer);
    importing->cli->subject = NULL;
    mem_free(target);
    return code;
}

/* The topic's settings as the server has them; not an object: it has none. An exit code. */
static int find_settings(struct importing *importing, const char *name,
                         struct json_value *out_there)
{
    struct client_request get = {.method = "GET"};
    struct bytes answer = {0};
    *out_there = (struct json_value){.kind = JSON_KIND_NULL};
    importing->cli->expects = "not_found";
    int code = topic_call(importing, name, "", &get, &answer);
    importing->cli->expects = NULL;
    if (code == EXIT_DONE)
        *out_there = json_find(answer, "settings");
    return code == EXIT_NOTHING ? EXIT_DONE : code;
}

static void compare(struct importing *importing, const char *name, struct bytes there,
                    struct bytes settings)
{
    importing->same += bytes_eq(there, settings);
    importing->differing += !bytes_eq(there, settings);
    if (bytes_eq(there, settings))
        return;
    importing->cli->subject = name;
    print_line(importing, "the topic has other settings here, which are kept");
    importing->cli->subject = NULL;
}

/* Waits until this server has the settings: if another laterd has set them, it has them a moment
   later. */
static int await_settings(struct importing *importing, const char *name,
                          struct json_value *out_there)
{
    enum { TRIES = 30 };
    const struct timespec nap = {.tv_nsec = 100000000};
    int code = EXIT_DONE;
    for (int i = 0; i < TRIES; i++) {
        code = find_settings(importing, name, out_there);
        if (code != EXIT_DONE || out_there->kind == JSON_KIND_OBJECT)
            break;
        (void)nanosleep(&nap, NULL); /* interrupted: sooner */
    }
    return code;
}

/* Keeps existing settings, and reports them if they differ. */
static int configure(struct importing *importing, const char *name, struct bytes settings)
{
    struct client_request put = {.method = "PUT", .body = settings, .header = "If-None-Match: *"};
    struct bytes answer = {0};
    struct json_value there;
    int code = find_settings(importing, name, &there);
    if (code != EXIT_DONE)
        return code;
    if (there.kind != JSON_KIND_OBJECT) {
        importing->cli->expects = "version";
        /* As they were: what they refer to may be put there later. */
        code = topic_call(importing, name, "?check_secrets=false", &put, &answer);
        importing->cli->expects = NULL;
        importing->configured += code == EXIT_DONE;
        if (code == EXIT_DONE)
            return code;
        if (code == EXIT_CONFLICT && importing->cli->refused_status == PRECONDITION_FAILED)
            code = await_settings(importing, name, &there);
    }
    if (code == EXIT_DONE && there.kind == JSON_KIND_OBJECT) {
        compare(importing, name, there.text, settings);
        return code;
    }
    if (code == EXIT_DONE)
        print_line(importing, "the topic has settings here, and they could not be read");
    else if (!exit_is_refusal(code) && code != EXIT_CONFLICT)
        return code;
    importing->topics_refused++; /* which was printed; its jobs are pushed nevertheless */
    return EXIT_DONE;
}

static int pause_topic(struct importing *importing, const char *name,
                       const struct json_value *until)
{
    struct buf body = {0};
    struct bytes answer;
    int64_t until_us = 0;
    buf_add_str(&body, "{\"create\":true");
    if (until->kind == JSON_KIND_STRING &&
        rfc3339_read(json_text(until, &importing->scratch), &until_us)) {
        int64_t span_us = until_us - clock_wall_us();
        if (span_us <= 0) {
            buf_fini(&body);
            return EXIT_DONE; /* it is over */
        }
        buf_addf(&body, ",\"for\":\"%lldus\"", (long long)span_us);
    }
    buf_add_char(&body, '}');
    struct client_request request = {.method = "POST", .body = buf_bytes(&body)};
    int code = importing->options->dry_run
                   ? EXIT_DONE
                   : topic_call(importing, name, "/pause", &request, &answer);
    importing->paused += code == EXIT_DONE;
    buf_fini(&body);
    return code;
}

static int take_topic(struct importing *importing, struct bytes topic)
{
    struct json_value name = json_find(topic, "name"), settings = json_find(topic, "settings"),
                      paused = json_find(topic, "paused"), until = json_find(topic, "paused_until");
    struct buf text = {0};
    int code = EXIT_DONE;
    if (name.kind != JSON_KIND_STRING) {
        print_line(importing, "the topic has no name");
        importing->bad++;
        return EXIT_DONE;
    }
    importing->topics++;
    buf_add_bytes(&text, json_text(&name, &importing->scratch));
    buf_add_char(&text, '\0');
    importing->with_settings += settings.kind == JSON_KIND_OBJECT;
    if (!importing->options->dry_run && settings.kind == JSON_KIND_OBJECT)
        code = configure(importing, text.at, settings.text);
    if (code == EXIT_DONE && paused.kind == JSON_KIND_BOOL && bytes_eq(paused.text, BYTES("true")))
        code = pause_topic(importing, text.at, &until);
    buf_fini(&text);
    return code;
}

/* ---- jobs ---- */

static int take_job(struct importing *importing, struct bytes job)
{
    struct ndjson_job found;
    const char *why;
    importing->text.len = 0;
    importing->job_lines++;
    if (ndjson_push_line(job, importing->options->prefix, &importing->scratch, &importing->text,
                         &found, &why)) {
        print_line(importing, why);
        importing->bad++;
        return EXIT_DONE;
    }
    importing->jobs++;
    if (importing->options->dry_run) {
        importing->push->renamed += found.renamed;
        importing->push->reserved += found.reserved;
        importing->push->noted += found.noted;
        return EXIT_DONE;
    }
    int code = EXIT_DONE;
    if (!bytes_eq(buf_bytes(&importing->topic), found.topic)) {
        code = import_push_send(importing->push); /* its topic is all->topic */
        importing->topic.len = 0;
        buf_add_bytes(&importing->topic, found.topic);
    }
    struct import_item item = {
        .topic = buf_bytes(&importing->topic),
        .old_id = found.old_id,
        .id = found.id,
        .line = buf_bytes(&importing->text),
        .renamed = found.renamed,
        .reserved = found.reserved,
        .noted = found.noted,
    };
    return code == EXIT_DONE ? import_push_add(importing->push, &item) : code;
}

/* ---- lines ---- */

/* Compares the number of jobs that the export had with the lines of them that were here. */
static void take_end(struct importing *importing, struct bytes end)
{
    struct json_value jobs = json_find(end, "jobs");
    int64_t stated = 0;
    char why[120];
    importing->ended = json_int(&jobs, &stated);
    if (stated <= 0 || (uint64_t)stated <= importing->job_lines)
        return;
    (void)snprintf(why, sizeof(why), "the export had %lld job%s, and %llu of them are here",
                   (long long)stated, plural((uint64_t)stated),
                   (unsigned long long)importing->job_lines); /* it fits */
    print_line(importing, why);
    importing->missing += (uint64_t)stated - importing->job_lines;
}

static int take_line(struct importing *importing, struct bytes line)
{
    static const struct {
        const char *name;
        int (*take)(struct importing *importing, struct bytes value);
    } kinds[] = {{"job", take_job}, {"topic", take_topic}};
    struct json json;
    struct json_value name = {.kind = JSON_KIND_NULL}, value;
    json_init(&json, line, JSON_DEPTH_MAX);
    bool whole = json_open(&json, JSON_KIND_OBJECT) && json_member(&json, &name, &value) &&
                 value.kind == JSON_KIND_OBJECT;
    for (size_t i = 0; whole && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (bytes_eq(name.text, bytes_str(kinds[i].name)))
            return kinds[i].take(importing, value.text);
    }
    if (whole && bytes_eq(name.text, BYTES("end"))) {
        take_end(importing, value.text);
        return EXIT_DONE;
    }
    struct json_value format = {.kind = JSON_KIND_NULL};
    if (whole && bytes_eq(name.text, BYTES("later")))
        format = json_find(value.text, "format");
    if (bytes_eq(format.text, BYTES("1"))) {
        bool cut =
            importing->started && !importing->ended; /* several exports may stand in one file */
        if (cut)
            print_line(importing, "the last line of the export before this one is missing");
        importing->cut = importing->cut || cut;
        importing->started = true;
        importing->ended = false;
        importing->job_lines = 0;
        return EXIT_DONE;
    }
    if (format.text.len) {
        print_line(importing, "a newer `later` wrote this: take that one to import it");
        return EXIT_REFUSED;
    }
    importing->bad++;
    if (!importing->started) {
        print_line(importing, "an export does not begin like this: nothing is read from here on");
        return EXIT_WRONG;
    }
    print_line(importing, json.wrong ? json.wrong : "this is no line of an export");
    return EXIT_DONE;
}

/* Reads until there is a whole line. An exit code; EXIT_NOTHING: it was the last. */
static int next_line(struct importing *importing, struct bytes *out_line)
{
    for (;;) {
        const char *from = importing->input.at + importing->looked;
        const char *end = importing->looked < importing->input.len
                              ? memchr(from, '\n', importing->input.len - importing->looked)
                              : NULL;
        if (end) {
            *out_line = bytes_of(importing->input.at, (size_t)(end - importing->input.at));
            return EXIT_DONE;
        }
        importing->looked = importing->input.len;
        if (importing->at_end && importing->input.len == 0)
            return EXIT_NOTHING;
        if (importing->at_end || importing->input.len > LINE_MAX_BYTES) {
            importing->line++;
            print_line(importing, importing->at_end ? "the file ends within this line"
                                                    : "the line is too long");
            return EXIT_WRONG;
        }
        buf_reserve(&importing->input, READ_BYTES);
        ssize_t len = read(importing->fd, importing->input.at + importing->input.len, READ_BYTES);
        if (len < 0 && errno != EINTR) {
            cli_message(importing->cli, "cannot read %s: %s", importing->options->path,
                        strerror(errno));
            return EXIT_REFUSED;
        }
        importing->at_end = len == 0;
        importing->input.len += len > 0 ? (size_t)len : 0;
    }
}

/* Lines of what was read are taken before more is read, so that bytes are moved once for each. */
static int take_lines(struct importing *importing)
{
    struct bytes line;
    size_t taken = 0;
    int code = EXIT_DONE;
    while (code == EXIT_DONE) {
        const char *from = importing->input.at + taken;
        const char *end =
            taken < importing->input.len ? memchr(from, '\n', importing->input.len - taken) : NULL;
        if (!end) {
            buf_drop(&importing->input, taken);
            taken = 0;
            importing->looked = 0;
            code = next_line(importing, &line);
            if (code != EXIT_DONE)
                return code;
        } else {
            line = bytes_of(from, (size_t)(end - from));
        }
        importing->line++;
        taken += line.len + 1;
        if (importing->line == 1)
            line = body_without_mark(line);
        if (line.len)
            code = take_line(importing, line);
        arena_reset(&importing->scratch);
    }
    return code;
}

/* ---- the report ---- */

static void report_json(const struct importing *importing)
{
    const struct import_push *push = importing->push;
    json_t *line = json_pack(
        "{sb sI sI sI sI sI sI sI sI sI sI sI sI sI sI sI sI}", "dry_run",
        importing->options->dry_run, "topics", (json_int_t)importing->topics, "with_settings",
        (json_int_t)importing->with_settings, "configured", (json_int_t)importing->configured,
        "same_settings", (json_int_t)importing->same, "other_settings",
        (json_int_t)importing->differing, "paused", (json_int_t)importing->paused, "topics_refused",
        (json_int_t)importing->topics_refused, "jobs", (json_int_t)importing->jobs, "created",
        (json_int_t)push->created, "kept", (json_int_t)push->kept, "refused",
        (json_int_t)push->refused, "bad_lines", (json_int_t)importing->bad, "missing",
        (json_int_t)importing->missing, "renamed", (json_int_t)push->renamed, "reserved",
        (json_int_t)push->reserved, "notes_left_out", (json_int_t)push->noted);
    cli_print_json(line);
    json_decref(line);
}

/* Reports the topics of the export, and what was done with their settings. */
static void report_topics(const struct importing *importing)
{
    (void)printf("%llu topic%s: %llu with settings, %llu paused\n",
                 (unsigned long long)importing->topics, plural(importing->topics),
                 (unsigned long long)importing->with_settings,
                 (unsigned long long)importing->paused);
    if (importing->with_settings > 0 && !importing->options->dry_run)
        (void)printf(
            "settings: %llu set, %llu the same here already, %llu other than here and left out\n",
            (unsigned long long)importing->configured, (unsigned long long)importing->same,
            (unsigned long long)importing->differing);
}

static void report(const struct importing *importing)
{
    const struct import_push *push = importing->push;
    bool dry_run = importing->options->dry_run;
    if (importing->cli->json) {
        report_json(importing);
        return;
    }
    report_topics(importing);
    if (dry_run)
        import_push_print_dry_run(importing->jobs, "");
    else
        import_push_print_counts(push, "");
    if (importing->bad)
        (void)printf("%llu bad line%s left out\n", (unsigned long long)importing->bad,
                     plural(importing->bad));
    if (importing->topics_refused)
        (void)printf("settings of %llu topic%s refused\n",
                     (unsigned long long)importing->topics_refused,
                     plural(importing->topics_refused));
    if (push->renamed)
        (void)printf("%llu had an id that the old server made, and %s one of its own%s\n",
                     (unsigned long long)push->renamed,
                     dry_run              ? "would get"
                     : push->renamed == 1 ? "has"
                                          : "have",
                     dry_run ? "" : " now");
    if (push->reserved)
        (void)printf("%llu %s reserved, and %s be taken here at once\n",
                     (unsigned long long)push->reserved, push->reserved == 1 ? "was" : "were",
                     dry_run ? "could" : "can");
    if (push->noted)
        (void)printf("%llu %s reasons of failed attempts, which are not brought over\n",
                     (unsigned long long)push->noted, push->noted == 1 ? "has" : "have");
}

/* ---- all of it ---- */

static int import_all(struct importing *importing)
{
    int code = importing->options->dry_run ? EXIT_DONE : import_push_open(importing->push);
    if (code != EXIT_DONE)
        return code;
    code = take_lines(importing);
    bool read_all = code == EXIT_NOTHING;
    if (read_all || code == EXIT_WRONG) {
        int sent = import_push_send(importing->push);
        code = sent != EXIT_DONE ? sent : read_all ? EXIT_DONE : code;
    }
    import_push_end_progress(importing->push);
    code = import_push_close(importing->push, code);
    if (read_all && !importing->ended) {
        cli_message(importing->cli,
                    "the export's last line is missing: there may be more jobs than these");
        importing->cut = true;
    }
    if (code == EXIT_DONE && (importing->cut || importing->missing > 0))
        code = EXIT_WRONG;
    if (code != EXIT_DONE && code != EXIT_WRONG && !importing->options->dry_run)
        cli_message(importing->cli, "stopped before the end: run it again, what is there is kept");
    report(importing);
    if (code == EXIT_DONE && importing->push->refused + importing->topics_refused > 0)
        code = EXIT_REFUSED;
    return code == EXIT_DONE && importing->bad > 0 ? EXIT_WRONG : code;
}

int import_ndjson(struct import_push *push, const struct import_ndjson_options *options)
{
    struct importing importing = {.cli = push->cli, .push = push, .options = options};
    bool standard = strcmp(options->path, "-") == 0;
    push->place = "topic";
    importing.fd = standard ? STDIN_FILENO : open(options->path, O_RDONLY | O_CLOEXEC);
    struct stat found;
    if (!standard && importing.fd >= 0 && fstat(importing.fd, &found) == 0 &&
        S_ISDIR(found.st_mode))
        cli_bad_value(
            push->cli,
            "%s is a directory, and no export: `later import beanstalkd %s` reads the binlog of "
            "a beanstalkd, `laterd --data-dir %s` a store",
            options->path, options->path, options->path);
    if (importing.fd < 0) {
        cli_message(push->cli, "cannot read %s: %s", options->path, strerror(errno));
        return errno == ENOENT ? EXIT_NOTHING : EXIT_REFUSED;
    }
    int code = import_all(&importing);
    if (!standard)
        (void)close(importing.fd); /* only read */
    buf_fini(&importing.input);
    buf_fini(&importing.topic);
    buf_fini(&importing.text);
    arena_fini(&importing.scratch);
    return code;
}
