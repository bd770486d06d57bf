/*
 * later import: the jobs of a stopped beanstalkd, from its binlog directory, pushed over /v1.
 *
 * A job's new id is made of the log's fingerprint and the old number and is pushed with
 * if_exists keep, so an import that was interrupted can be run again. Jobs go in windows by old
 * number, and within a window tube by tube, so that batches are full although each goes to one
 * topic; a ready job's due time is when it was created, so the order of all jobs stays what it was.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/import_log.h"
#include "cli/show.h"
#include "cli/text.h"
#include "proto/base64.h"
#include "proto/json.h"
#include "proto/moment.h"

enum {
    BATCH_JOBS = 500,         /* below the server's usual limits.batch_jobs of 1,000 */
    BATCH_BYTES = 512 * 1024, /* a batch is sent before it grows larger */
    WINDOW_JOBS = 16384,      /* taken by tube instead of by number */
    TTR_LEAST_US = 1000000,   /* as beanstalkd itself has it */
};

struct import {
    struct cli *cli;
    struct import_log log;
    const char *prefix; /* NULL: of the fingerprint */
    char room[32];      /* for that one */
    const char *map_path;
    FILE *map;
    bool dry_run;
    bool progress;
    struct buf body;
    struct buf batch;                          /* NDJSON */
    const struct import_job *sent[BATCH_JOBS]; /* the jobs in it, all of one tube */
    uint32_t count;
    uint64_t created, kept, refused, torn;
};

static void end_progress(const struct import *import)
{
    if (import->progress)
        (void)fputs("\r\x1b[K", stderr);
}

static void show_progress(const struct import *import)
{
    char done[TEXT_ROOM], all[TEXT_ROOM];
    if (import->progress)
        (void)fprintf(
            stderr, "\r%s of %s jobs ",
            count_text(import->created + import->kept + import->refused + import->torn, done),
            count_text(import->log.job_count, all));
}

static void say_line(void *ctx, const char *line)
{
    cli_say(ctx, "%s", line);
}

/* ---- a batch ---- */

static void add_job(struct import *import, const struct import_job *job)
{
    struct buf *out = &import->batch;
    struct bytes body = buf_bytes(&import->body);
    int64_t ttr_us = job->ttr_us < TTR_LEAST_US ? TTR_LEAST_US : job->ttr_us;
    buf_add_str(out, "{\"id\":\"");
    buf_add_str(out, import->prefix);
    buf_add_u64(out, job->id);
    buf_addf(out, "\",\"if_exists\":\"keep\",\"priority\":%u,\"ttr\":%lld", job->priority,
             (long long)(ttr_us / 1000 + (ttr_us % 1000 != 0)));
    if (job->state == BINLOG_BURIED) {
        buf_add_str(out, ",\"state\":\"buried\"");
    } else {
        buf_add_str(out, ",\"due\":\"");
        moment_add(out, job->due_us);
        buf_add_char(out, '"');
    }
    if (bytes_is_utf8(body)) {
        buf_add_str(out, ",\"body\":");
        json_add_text(out, body, JSON_STYLE_PLAIN);
    } else {
        buf_add_str(out, ",\"body_base64\":\"");
        base64_write(out, body);
        buf_add_char(out, '"');
    }
    buf_add_str(out, "}\n");
    import->sent[import->count++] = job;
}

static void say_job(const struct import *import, const struct import_job *job, struct bytes why)
{
    end_progress(import);
    cli_say(import->cli, "job %llu of tube %s: %.*s", (unsigned long long)job->id,
            import_log_tube(&import->log, job->tube)->name, (int)why.len, why.len ? why.at : "");
}

/* A job that the server has: the old number and the new id, for programs and for the map. */
static void tell(const struct import *import, const struct import_job *job, const json_t *answer)
{
    const char *id = show_string(answer, "id");
    if (import->map)
        (void)fprintf(import->map, "%llu\t%s\n", (unsigned long long)job->id, id);
    if (!import->cli->json)
        return;
    json_t *line = json_pack("{sI ss ss ss ss}", "old", (json_int_t)job->id, "id", id, "topic",
                             import_log_tube(&import->log, job->tube)->name, "state",
                             show_string(answer, "state"), "result", show_string(answer, "result"));
    cli_print_json(line);
    json_decref(line);
}

/* False: the server takes no job at all now, so that there is no sense in going on. */
static bool take_result(struct import *import, const struct import_job *job, const json_t *result)
{
    const json_t *problem = json_object_get(result, "problem"),
                 *answer = json_object_get(result, "job");
    if (!problem) {
        bool kept = strcmp(show_string(answer, "result"), "kept") == 0;
        import->kept += kept;
        import->created += !kept;
        tell(import, job, answer);
        return true;
    }
    struct buf why = {0};
    import->refused++;
    show_line_problem(problem, &why);
    say_job(import, job, buf_bytes(&why));
    buf_fini(&why);
    return show_count(result, "status") < 429; /* 429, 503, 507: a limit of the whole server */
}

static int send_batch(struct import *import)
{
    json_t *answer = NULL;
    if (import->count == 0)
        return EXIT_DONE;
    const struct import_tube *tube = import_log_tube(&import->log, import->sent[0]->tube);
    char *target = cli_target("/v1/topics/", tube->name, "/jobs");
    struct client_request request = {
        .method = "POST",
        .target = bytes_str(target),
        .content_type = "application/x-ndjson",
        .body = buf_bytes(&import->batch),
        .timeout_us = import->cli->timeout_us,
    };
    int code = cli_call_bytes(import->cli, &request, &answer);
    const json_t *results = json_object_get(answer, "results"), *result;
    bool goes_on = true;
    size_t i;
    json_array_foreach(results, i, result)
    {
        if (i < import->count)
            goes_on = take_result(import, import->sent[i], result) && goes_on;
    }
    if (code == EXIT_DONE && json_array_size(results) != import->count) {
        cli_say(import->cli, "the server answered for %zu jobs of %u", json_array_size(results),
                import->count);
        code = EXIT_REFUSED;
    }
    json_decref(answer);
    mem_free(target);
    import->batch.len = 0;
    import->count = 0;
    show_progress(import);
    return code == EXIT_DONE && !goes_on ? EXIT_REFUSED : code;
}

static int push_job(struct import *import, const struct import_job *job)
{
    int code = EXIT_DONE;
    enum err err = import_log_body(&import->log, job, &import->body);
    if (err == ERR_IO) {
        cli_say(import->cli, "cannot read %s: %s", import->log.directory, strerror(errno));
        return EXIT_REFUSED;
    }
    if (err) {
        say_job(import, job, BYTES("its body is torn; it is left out"));
        import->torn++;
        return EXIT_DONE;
    }
    if (import->count > 0 &&
        (import->count == BATCH_JOBS || import->batch.len + import->body.len > BATCH_BYTES ||
         import->sent[0]->tube != job->tube))
        code = send_batch(import);
    if (code == EXIT_DONE)
        add_job(import, job);
    return code;
}

/* ---- all of it ---- */

static int by_tube(const void *a, const void *b)
{
    const struct import_job *left = a, *right = b;
    if (left->tube != right->tube)
        return left->tube < right->tube ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

static int push_all(struct import *import)
{
    struct import_log *log = &import->log;
    int code = EXIT_DONE;
    for (uint32_t start = 0; code == EXIT_DONE && start < log->job_count; start += WINDOW_JOBS) {
        uint32_t count =
            log->job_count - start < WINDOW_JOBS ? log->job_count - start : WINDOW_JOBS;
        qsort(log->jobs + start, count, sizeof(*log->jobs), by_tube);
        for (uint32_t i = 0; code == EXIT_DONE && i < count; i++)
            code = push_job(import, &log->jobs[start + i]);
    }
    if (code == EXIT_DONE)
        code = send_batch(import);
    end_progress(import);
    if (code != EXIT_DONE)
        cli_say(import->cli, "stopped before the end: run it again, what is there is kept");
    return code;
}

static json_t *tubes_json(const struct import_log *log)
{
    json_t *tubes = json_array();
    for (uint32_t i = 0; i < log->tubes.used; i++) {
        const struct import_tube *tube = import_log_tube(log, i);
        json_array_append_new(tubes, json_pack("{ss sI sI sI}", "name", tube->name, "ready",
                                               (json_int_t)tube->jobs[BINLOG_READY], "delayed",
                                               (json_int_t)tube->jobs[BINLOG_DELAYED], "buried",
                                               (json_int_t)tube->jobs[BINLOG_BURIED]));
    }
    return tubes;
}

static void report_json(const struct import *import)
{
    json_t *line = json_pack("{sb ss sI sI sI sI sI sI so}", "dry_run", import->dry_run, "prefix",
                             import->prefix, "jobs", (json_int_t)import->log.job_count, "created",
                             (json_int_t)import->created, "kept", (json_int_t)import->kept,
                             "refused", (json_int_t)import->refused, "damaged",
                             (json_int_t)(import->log.bad + import->torn), "skipped_bytes",
                             (json_int_t)import->log.bad_bytes, "tubes", tubes_json(&import->log));
    cli_print_json(line);
    json_decref(line);
}

static void add_count(struct table *table, uint64_t count)
{
    char room[TEXT_ROOM];
    table_cell_str(table, count_text(count, room));
}

static void report_tubes(const struct import_log *log)
{
    struct table table = {.columns = 4, .right = {[1] = true, [2] = true, [3] = true}};
    struct buf out = {0};
    static const char *const heads[] = {"TUBE", "READY", "DELAYED", "BURIED"};
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        table_cell_str(&table, heads[i]);
    for (uint32_t i = 0; i < log->tubes.used; i++) {
        const struct import_tube *tube = import_log_tube(log, i);
        if (tube->jobs[BINLOG_READY] + tube->jobs[BINLOG_DELAYED] + tube->jobs[BINLOG_BURIED] == 0)
            continue;
        table_cell_str(&table, tube->name);
        add_count(&table, tube->jobs[BINLOG_READY]);
        add_count(&table, tube->jobs[BINLOG_DELAYED]);
        add_count(&table, tube->jobs[BINLOG_BURIED]);
    }
    table_write(&table, &out);
    cli_flush(&out);
    table_fini(&table);
    buf_fini(&out);
}

static void report(const struct import *import)
{
    if (import->cli->json) {
        report_json(import);
        return;
    }
    if (import->log.job_count > 0)
        report_tubes(&import->log);
    if (import->dry_run)
        (void)printf("%u job%s; ids would begin with %s; nothing was sent\n", import->log.job_count,
                     plural(import->log.job_count), import->prefix);
    else
        (void)printf("%llu imported, %llu there already, %llu refused; ids begin with %s\n",
                     (unsigned long long)import->created, (unsigned long long)import->kept,
                     (unsigned long long)import->refused, import->prefix);
}

/* Opens and reads the directory; what is wrong with it has been said. */
static int read_log(struct import *import, const char *directory)
{
    struct cli *cli = import->cli;
    enum err err = import_log_open(&import->log, directory);
    if (!err)
        err = import_log_read(&import->log);
    if (err == ERR_LOCKED)
        cli_say(cli, "a beanstalkd has %s open: stop it first", directory);
    else if (err == ERR_NOT_FOUND)
        cli_say(cli, "there is no beanstalkd binlog in %s", directory);
    else if (err)
        cli_say(cli, "cannot read %s: %s", directory, strerror(errno));
    if (err)
        return err == ERR_LOCKED      ? EXIT_CONFLICT
               : err == ERR_NOT_FOUND ? EXIT_NOTHING
                                      : EXIT_REFUSED;
    if (!import->prefix) {
        (void)snprintf(import->room, sizeof(import->room), "bs-%08x-",
                       import->log.fingerprint); /* it fits */
        import->prefix = import->room;
    }
    return EXIT_DONE;
}

static int push_log(struct import *import)
{
    if (import->map_path) {
        import->map = fopen(import->map_path, "we");
        if (!import->map) {
            cli_say(import->cli, "cannot write %s: %s", import->map_path, strerror(errno));
            return EXIT_REFUSED;
        }
    }
    int code = push_all(import);
    if (import->map && (ferror(import->map) | fclose(import->map)) != 0) {
        cli_say(import->cli, "cannot write all of %s", import->map_path);
        code = code == EXIT_DONE ? EXIT_REFUSED : code;
    }
    return code;
}

static int import_beanstalkd(struct import *import, const char *directory)
{
    import->log.say = say_line;
    import->log.ctx = import->cli;
    int code = read_log(import, directory);
    if (code == EXIT_DONE) {
        if (!import->dry_run)
            code = push_log(import);
        report(import);
        if (code == EXIT_DONE && import->refused > 0)
            code = EXIT_REFUSED;
        if (code == EXIT_DONE && import->log.bad + import->torn > 0)
            code = EXIT_WRONG;
    }
    import_log_close(&import->log);
    buf_fini(&import->body);
    buf_fini(&import->batch);
    return code;
}

/* What may stand in an id without being escaped anywhere. */
static void check_prefix(const struct cli *cli, const char *prefix)
{
    for (const char *at = prefix; *at; at++) {
        if (!((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') ||
              (*at >= 'A' && *at <= 'Z') || strchr("-._", *at)))
            cli_usage(cli, "--prefix takes letters, digits, - . and _");
    }
    if (*prefix == '\0' || strlen(prefix) > 200)
        cli_usage(cli, "--prefix is 1 to 200 bytes long");
}

static int run(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"dry-run", no_argument, NULL, 'n'},
                                            {"map", required_argument, NULL, 'm'},
                                            {"prefix", required_argument, NULL, 'p'},
                                            CLI_OPTIONS};
    struct import import = {.cli = cli};
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        switch (c) {
        case 'n': import.dry_run = true; break;
        case 'm': import.map_path = optarg; break;
        case 'p':
            check_prefix(cli, optarg);
            import.prefix = optarg;
            break;
        default: break;
        }
    }
    cli_words(cli, argc, argv, 2, 2);
    if (strcmp(argv[optind], "beanstalkd") != 0)
        cli_usage(cli, "'%s' cannot be imported: only beanstalkd", argv[optind]);
    import.progress = isatty(STDERR_FILENO) != 0 && !cli->json;
    return import_beanstalkd(&import, argv[optind + 1]);
}

const struct command command_import = {
    .name = "import",
    .synopsis = "[options] beanstalkd DIR",
    .summary = "Bring the jobs of a stopped beanstalkd into the server",
    .help =
        "DIR is what beanstalkd had as -b. It is only read, and locked meanwhile.\n\n"
        "  -n, --dry-run       count what is there, send nothing\n"
        "  -m, --map FILE      write each job's old number and new id, a tab between\n"
        "  -p, --prefix TEXT   new ids are TEXT and the old number (of the log's first bytes)\n"
        "\nJobs keep tube, priority, due time, ttr, body, order, and whether they are buried.\n"
        "What was reserved is ready. Counts of reserves, releases and so on are not kept.\n"
        "An import that stopped can be run again: what is there is kept, not doubled. Let\n"
        "consumers begin when it is done, else a finished job would come again.\n"
        "\nExit 0: all is there. 1: no binlog in DIR. 3: a beanstalkd has it open. 4: the server\n"
        "refused jobs, or DIR cannot be read. 5: no connection: run it again. 6: parts of the log\n"
        "are damaged; all else is there.\n"
        "\nExamples:\n"
        "  later import beanstalkd /var/lib/beanstalkd --dry-run\n"
        "  later import beanstalkd /var/lib/beanstalkd --map ids.tsv\n",
    .run = run,
};
