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

static void print_line(const struct importing *all, const char *why)
{
    import_push_end_progress(all->push);
    cli_message(all->cli, "line %llu: %s", (unsigned long long)all->line, why);
}

/* ---- topics ---- */

/* A call about the topic: of the request its method, body and header are given. */
static int topic_call(struct importing *all, const char *name, const char *after,
                      struct client_request *request, struct bytes *out_answer)
{
    char *target = cli_target("/v1/topics/", name, after);
    request->target = bytes_str(target);
    request->content_type = request->body.len ? "application/json" : NULL;
    all->cli->subject = name;
    int code = cli_call_raw(all->cli, request, out_answer);
    all->cli->subject = NULL;
    mem_free(target);
    return code;
}

/* The topic's settings as the server has them; not an object: it has none. An exit code. */
static int find_settings(struct importing *all, const char *name, struct json_value *out_there)
{
    struct client_request get = {.method = "GET"};
    struct bytes answer = {0};
    *out_there = (struct json_value){.kind = JSON_KIND_NULL};
    all->cli->expects = "not_found";
    int code = topic_call(all, name, "", &get, &answer);
    all->cli->expects = NULL;
    if (code == EXIT_DONE)
        *out_there = json_find(answer, "settings");
    return code == EXIT_NOTHING ? EXIT_DONE : code;
}

static void compare(struct importing *all, const char *name, struct bytes there,
                    struct bytes settings)
{
    all->same += bytes_eq(there, settings);
    all->differing += !bytes_eq(there, settings);
    if (bytes_eq(there, settings))
        return;
    all->cli->subject = name;
    print_line(all, "the topic has other settings here, which are kept");
    all->cli->subject = NULL;
}

/* Waits until this server has the settings: if another laterd has set them, it has them a moment
   later. */
static int await_settings(struct importing *all, const char *name, struct json_value *out_there)
{
    enum { TRIES = 30 };
    const struct timespec nap = {.tv_nsec = 100000000};
    int code = EXIT_DONE;
    for (int i = 0; i < TRIES; i++) {
        code = find_settings(all, name, out_there);
        if (code != EXIT_DONE || out_there->kind == JSON_KIND_OBJECT)
            break;
        (void)nanosleep(&nap, NULL); /* interrupted: sooner */
    }
    return code;
}

/* Keeps existing settings, and reports them if they differ. */
static int configure(struct importing *all, const char *name, struct bytes settings)
{
    struct client_request put = {.method = "PUT", .body = settings, .header = "If-None-Match: *"};
    struct bytes answer = {0};
    struct json_value there;
    int code = find_settings(all, name, &there);
    if (code != EXIT_DONE)
        return code;
    if (there.kind != JSON_KIND_OBJECT) {
        all->cli->expects = "version";
        /* As they were: what they refer to may be put there later. */
        code = topic_call(all, name, "?check_secrets=false", &put, &answer);
        all->cli->expects = NULL;
        all->configured += code == EXIT_DONE;
        if (code == EXIT_DONE)
            return code;
        if (code == EXIT_CONFLICT && all->cli->refused_status == PRECONDITION_FAILED)
            code = await_settings(all, name, &there);
    }
    if (code == EXIT_DONE && there.kind == JSON_KIND_OBJECT) {
        compare(all, name, there.text, settings);
        return code;
    }
    if (code == EXIT_DONE)
        print_line(all, "the topic has settings here, and they could not be read");
    else if (!exit_is_refusal(code) && code != EXIT_CONFLICT)
        return code;
    all->topics_refused++; /* which was printed; its jobs are pushed nevertheless */
    return EXIT_DONE;
}

static int pause_topic(struct importing *all, const char *name, const struct json_value *until)
{
    struct buf body = {0};
    struct bytes answer;
    int64_t until_us = 0;
    buf_add_str(&body, "{\"create\":true");
    if (until->kind == JSON_KIND_STRING &&
        rfc3339_read(json_text(until, &all->scratch), &until_us)) {
        int64_t span_us = until_us - clock_wall_us();
        if (span_us <= 0) {
            buf_fini(&body);
            return EXIT_DONE; /* it is over */
        }
        buf_addf(&body, ",\"for\":\"%lldus\"", (long long)span_us);
    }
    buf_add_char(&body, '}');
    struct client_request request = {.method = "POST", .body = buf_bytes(&body)};
    int code =
        all->options->dry_run ? EXIT_DONE : topic_call(all, name, "/pause", &request, &answer);
    all->paused += code == EXIT_DONE;
    buf_fini(&body);
    return code;
}

static int take_topic(struct importing *all, struct bytes topic)
{
    struct json_value name = json_find(topic, "name"), settings = json_find(topic, "settings"),
                      paused = json_find(topic, "paused"), until = json_find(topic, "paused_until");
    struct buf text = {0};
    int code = EXIT_DONE;
    if (name.kind != JSON_KIND_STRING) {
        print_line(all, "the topic has no name");
        all->bad++;
        return EXIT_DONE;
    }
    all->topics++;
    buf_add_bytes(&text, json_text(&name, &all->scratch));
    buf_add_char(&text, '\0');
    all->with_settings += settings.kind == JSON_KIND_OBJECT;
    if (!all->options->dry_run && settings.kind == JSON_KIND_OBJECT)
        code = configure(all, text.at, settings.text);
    if (code == EXIT_DONE && paused.kind == JSON_KIND_BOOL && bytes_eq(paused.text, BYTES("true")))
        code = pause_topic(all, text.at, &until);
    buf_fini(&text);
    return code;
}

/* ---- jobs ---- */

static int take_job(struct importing *all, struct bytes job)
{
    struct ndjson_job found;
    const char *why;
    all->text.len = 0;
    all->job_lines++;
    if (ndjson_push_line(job, all->options->prefix, &all->scratch, &all->text, &found, &why)) {
        print_line(all, why);
        all->bad++;
        return EXIT_DONE;
    }
    all->jobs++;
    if (all->options->dry_run) {
        all->push->renamed += found.renamed;
        all->push->reserved += found.reserved;
        all->push->noted += found.noted;
        return EXIT_DONE;
    }
    int code = EXIT_DONE;
    if (!bytes_eq(buf_bytes(&all->topic), found.topic)) {
        code = import_push_send(all->push); /* its topic is all->topic */
        all->topic.len = 0;
        buf_add_bytes(&all->topic, found.topic);
    }
    struct import_item item = {
        .topic = buf_bytes(&all->topic),
        .old_id = found.old_id,
        .id = found.id,
        .line = buf_bytes(&all->text),
        .renamed = found.renamed,
        .reserved = found.reserved,
        .noted = found.noted,
    };
    return code == EXIT_DONE ? import_push_add(all->push, &item) : code;
}

/* ---- lines ---- */

/* Compares the number of jobs that the export had with the lines of them that were here. */
static void take_end(struct importing *all, struct bytes end)
{
    struct json_value jobs = json_find(end, "jobs");
    int64_t stated = 0;
    char why[120];
    all->ended = json_int(&jobs, &stated);
    if (stated <= 0 || (uint64_t)stated <= all->job_lines)
        return;
    (void)snprintf(why, sizeof(why), "the export had %lld job%s, and %llu of them are here",
                   (long long)stated, plural((uint64_t)stated),
                   (unsigned long long)all->job_lines); /* it fits */
    print_line(all, why);
    all->missing += (uint64_t)stated - all->job_lines;
}

static int take_line(struct importing *all, struct bytes line)
{
    static const struct {
        const char *name;
        int (*take)(struct importing *all, struct bytes value);
    } kinds[] = {{"job", take_job}, {"topic", take_topic}};
    struct json json;
    struct json_value name = {.kind = JSON_KIND_NULL}, value;
    json_init(&json, line, JSON_DEPTH_MAX);
    bool whole = json_open(&json, JSON_KIND_OBJECT) && json_member(&json, &name, &value) &&
                 value.kind == JSON_KIND_OBJECT;
    for (size_t i = 0; whole && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (bytes_eq(name.text, bytes_str(kinds[i].name)))
            return kinds[i].take(all, value.text);
    }
    if (whole && bytes_eq(name.text, BYTES("end"))) {
        take_end(all, value.text);
        return EXIT_DONE;
    }
    struct json_value format = {.kind = JSON_KIND_NULL};
    if (whole && bytes_eq(name.text, BYTES("later")))
        format = json_find(value.text, "format");
    if (bytes_eq(format.text, BYTES("1"))) {
        bool cut = all->started && !all->ended; /* several exports may stand in one file */
        if (cut)
            print_line(all, "the last line of the export before this one is missing");
        all->cut = all->cut || cut;
        all->started = true;
        all->ended = false;
        all->job_lines = 0;
        return EXIT_DONE;
    }
    if (format.text.len) {
        print_line(all, "a newer `later` wrote this: take that one to import it");
        return EXIT_REFUSED;
    }
    all->bad++;
    if (!all->started) {
        print_line(all, "an export does not begin like this: nothing is read from here on");
        return EXIT_WRONG;
    }
    print_line(all, json.wrong ? json.wrong : "this is no line of an export");
    return EXIT_DONE;
}

/* Reads until there is a whole line. An exit code; EXIT_NOTHING: it was the last. */
static int next_line(struct importing *all, struct bytes *out_line)
{
    for (;;) {
        const char *from = all->input.at + all->looked;
        const char *end =
            all->looked < all->input.len ? memchr(from, '\n', all->input.len - all->looked) : NULL;
        if (end) {
            *out_line = bytes_of(all->input.at, (size_t)(end - all->input.at));
            return EXIT_DONE;
        }
        all->looked = all->input.len;
        if (all->at_end && all->input.len == 0)
            return EXIT_NOTHING;
        if (all->at_end || all->input.len > LINE_MAX_BYTES) {
            all->line++;
            print_line(all,
                       all->at_end ? "the file ends within this line" : "the line is too long");
            return EXIT_WRONG;
        }
        buf_reserve(&all->input, READ_BYTES);
        ssize_t len = read(all->fd, all->input.at + all->input.len, READ_BYTES);
        if (len < 0 && errno != EINTR) {
            cli_message(all->cli, "cannot read %s: %s", all->options->path, strerror(errno));
            return EXIT_REFUSED;
        }
        all->at_end = len == 0;
        all->input.len += len > 0 ? (size_t)len : 0;
    }
}

/* Lines of what was read are taken before more is read, so that bytes are moved once for each. */
static int take_lines(struct importing *all)
{
    struct bytes line;
    size_t taken = 0;
    int code = EXIT_DONE;
    while (code == EXIT_DONE) {
        const char *from = all->input.at + taken;
        const char *end =
            taken < all->input.len ? memchr(from, '\n', all->input.len - taken) : NULL;
        if (!end) {
            buf_drop(&all->input, taken);
            taken = 0;
            all->looked = 0;
            code = next_line(all, &line);
            if (code != EXIT_DONE)
                return code;
        } else {
            line = bytes_of(from, (size_t)(end - from));
        }
        all->line++;
        taken += line.len + 1;
        if (all->line == 1)
            line = body_without_mark(line);
        if (line.len)
            code = take_line(all, line);
        arena_reset(&all->scratch);
    }
    return code;
}

/* ---- the report ---- */

static void report_json(const struct importing *all)
{
    const struct import_push *push = all->push;
    json_t *line = json_pack(
        "{sb sI sI sI sI sI sI sI sI sI sI sI sI sI sI sI sI}", "dry_run", all->options->dry_run,
        "topics", (json_int_t)all->topics, "with_settings", (json_int_t)all->with_settings,
        "configured", (json_int_t)all->configured, "same_settings", (json_int_t)all->same,
        "other_settings", (json_int_t)all->differing, "paused", (json_int_t)all->paused,
        "topics_refused", (json_int_t)all->topics_refused, "jobs", (json_int_t)all->jobs, "created",
        (json_int_t)push->created, "kept", (json_int_t)push->kept, "refused",
        (json_int_t)push->refused, "bad_lines", (json_int_t)all->bad, "missing",
        (json_int_t)all->missing, "renamed", (json_int_t)push->renamed, "reserved",
        (json_int_t)push->reserved, "notes_left_out", (json_int_t)push->noted);
    cli_print_json(line);
    json_decref(line);
}

/* Reports the topics of the export, and what was done with their settings. */
static void report_topics(const struct importing *all)
{
    (void)printf("%llu topic%s: %llu with settings, %llu paused\n", (unsigned long long)all->topics,
                 plural(all->topics), (unsigned long long)all->with_settings,
                 (unsigned long long)all->paused);
    if (all->with_settings > 0 && !all->options->dry_run)
        (void)printf(
            "settings: %llu set, %llu the same here already, %llu other than here and left out\n",
            (unsigned long long)all->configured, (unsigned long long)all->same,
            (unsigned long long)all->differing);
}

static void report(const struct importing *all)
{
    const struct import_push *push = all->push;
    bool dry_run = all->options->dry_run;
    if (all->cli->json) {
        report_json(all);
        return;
    }
    report_topics(all);
    if (dry_run)
        import_push_print_dry_run(all->jobs, "");
    else
        import_push_print_counts(push, "");
    if (all->bad)
        (void)printf("%llu bad line%s left out\n", (unsigned long long)all->bad, plural(all->bad));
    if (all->topics_refused)
        (void)printf("settings of %llu topic%s refused\n", (unsigned long long)all->topics_refused,
                     plural(all->topics_refused));
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

static int import_all(struct importing *all)
{
    int code = all->options->dry_run ? EXIT_DONE : import_push_open(all->push);
    if (code != EXIT_DONE)
        return code;
    code = take_lines(all);
    bool read_all = code == EXIT_NOTHING;
    if (read_all || code == EXIT_WRONG) {
        int sent = import_push_send(all->push);
        code = sent != EXIT_DONE ? sent : read_all ? EXIT_DONE : code;
    }
    import_push_end_progress(all->push);
    code = import_push_close(all->push, code);
    if (read_all && !all->ended) {
        cli_message(all->cli,
                    "the export's last line is missing: there may be more jobs than these");
        all->cut = true;
    }
    if (code == EXIT_DONE && (all->cut || all->missing > 0))
        code = EXIT_WRONG;
    if (code != EXIT_DONE && code != EXIT_WRONG && !all->options->dry_run)
        cli_message(all->cli, "stopped before the end: run it again, what is there is kept");
    report(all);
    if (code == EXIT_DONE && all->push->refused + all->topics_refused > 0)
        code = EXIT_REFUSED;
    return code == EXIT_DONE && all->bad > 0 ? EXIT_WRONG : code;
}

int import_ndjson(struct import_push *push, const struct import_ndjson_options *options)
{
    struct importing all = {.cli = push->cli, .push = push, .options = options};
    bool standard = strcmp(options->path, "-") == 0;
    push->place = "topic";
    all.fd = standard ? STDIN_FILENO : open(options->path, O_RDONLY | O_CLOEXEC);
    struct stat found;
    if (!standard && all.fd >= 0 && fstat(all.fd, &found) == 0 && S_ISDIR(found.st_mode))
        cli_bad_value(
            push->cli,
            "%s is a directory, and no export: `later import beanstalkd %s` reads the binlog of "
            "a beanstalkd, `laterd --data-dir %s` a store",
            options->path, options->path, options->path);
    if (all.fd < 0) {
        cli_message(push->cli, "cannot read %s: %s", options->path, strerror(errno));
        return errno == ENOENT ? EXIT_NOTHING : EXIT_REFUSED;
    }
    int code = import_all(&all);
    if (!standard)
        (void)close(all.fd); /* only read */
    buf_fini(&all.input);
    buf_fini(&all.topic);
    buf_fini(&all.text);
    arena_fini(&all.scratch);
    return code;
}
