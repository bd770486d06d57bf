/*
 * later import: the command line of all importers, and the one for a stopped beanstalkd, from its
 * binlog directory; import/redis.h and import/ndjson.h are the others.
 *
 * A job's new id is made of the log's fingerprint and the old number and is pushed with
 * if_exists keep, so an import that was interrupted can be run again. Jobs are pushed in windows of
 * their numbers in the log, and within a window tube by tube: a batch goes to one topic, and so it
 * is full all the same. The order of all jobs stays what it was, because a ready job's due time is
 * when it was created.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/argv_secret.h"
#include "cli/import/log.h"
#include "cli/import/ndjson.h"
#include "cli/import/push.h"
#include "cli/import/redis.h"
#include "cli/text.h"

enum { WINDOW_JOBS = 16384 /* taken by tube instead of by number */ };

struct import {
    struct cli *cli;
    struct import_push push;
    struct import_log log;
    const char *prefix; /* NULL: of the fingerprint */
    char room[32];      /* for that one */
    bool dry_run;
    struct buf body;
    struct buf id; /* the new one */
};

static void print_line(void *ctx, const char *line)
{
    cli_message(ctx, "%s", line);
}

static int push_job(struct import *import, const struct import_job *job)
{
    const struct import_tube *tube = import_log_tube(&import->log, job->tube);
    enum err err = import_log_body(&import->log, job, &import->body);
    if (err == ERR_IO) {
        cli_message(import->cli, "cannot read %s: %s", import->log.directory, strerror(errno));
        return EXIT_REFUSED;
    }
    import->id.len = 0;
    buf_add_str(&import->id, import->prefix);
    buf_add_u64(&import->id, job->id);
    struct bytes id = buf_bytes(&import->id);
    size_t prefix_len = strlen(import->prefix);
    struct import_item item = {
        .topic = bytes_str(tube->name),
        .old_id = bytes_of(id.at + prefix_len, id.len - prefix_len),
        .id = id,
        .body = buf_bytes(&import->body),
        .due_us = job->due_us,
        .ttr_us = job->ttr_us,
        .priority = job->priority,
        .buried = job->state == BINLOG_BURIED,
    };
    if (err) {
        import_push_report(&import->push, item.old_id, item.topic,
                           BYTES("its body is torn; it is left out"));
        import->push.left_out++;
        return EXIT_DONE;
    }
    return import_push_add(&import->push, &item);
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
        code = import_push_send(&import->push);
    import_push_end_progress(&import->push);
    if (code != EXIT_DONE)
        cli_message(import->cli, "stopped before the end: run it again, what is there is kept");
    return code;
}

static json_t *tubes_json(const struct import_log *log)
{
    json_t *tubes = json_array();
    for (uint32_t i = pool_next(&log->tubes, 0); i != POOL_NONE;
         i = pool_next(&log->tubes, i + 1)) {
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
    json_t *line = json_pack(
        "{sb ss sI sI sI sI sI sI so}", "dry_run", import->dry_run, "prefix", import->prefix,
        "jobs", (json_int_t)import->log.job_count, "created", (json_int_t)import->push.created,
        "kept", (json_int_t)import->push.kept, "refused", (json_int_t)import->push.refused,
        "damaged", (json_int_t)(import->log.bad + import->push.left_out), "skipped_bytes",
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
    for (uint32_t i = pool_next(&log->tubes, 0); i != POOL_NONE;
         i = pool_next(&log->tubes, i + 1)) {
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
        import_push_print_dry_run(import->log.job_count, import->prefix);
    else
        import_push_print_counts(&import->push, import->prefix);
}

/* Opens and reads the directory; what is wrong with it has been said. */
static int read_log(struct import *import, const char *directory)
{
    struct cli *cli = import->cli;
    enum err err = import_log_open(&import->log, directory);
    if (!err)
        err = import_log_read(&import->log);
    if (err == ERR_LOCKED)
        cli_message(cli, "a beanstalkd has %s open: stop it first", directory);
    else if (err == ERR_NOT_FOUND)
        cli_message(cli, "there is no beanstalkd binlog in %s", directory);
    else if (err)
        cli_message(cli, "cannot read %s: %s", directory, strerror(errno));
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
    import->push.total = import->log.job_count;
    int code = import_push_open(&import->push);
    return code == EXIT_DONE ? import_push_close(&import->push, push_all(import)) : code;
}

static int import_beanstalkd(struct import *import, const char *directory)
{
    import->push.place = "tube";
    import->push.old_numbers = true;
    import->log.print_line = print_line;
    import->log.ctx = import->cli;
    int code = read_log(import, directory);
    if (code == EXIT_DONE) {
        if (!import->dry_run)
            code = push_log(import);
        report(import);
        if (code == EXIT_DONE && import->push.refused > 0)
            code = EXIT_REFUSED;
        if (code == EXIT_DONE && import->log.bad + import->push.left_out > 0)
            code = EXIT_WRONG;
    }
    import_log_close(&import->log);
    buf_fini(&import->body);
    buf_fini(&import->id);
    return code;
}

/* What may stand in an id without being escaped anywhere. */
static void check_prefix(const struct cli *cli, const char *prefix)
{
    for (const char *at = prefix; *at; at++) {
        if (!((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') ||
              (*at >= 'A' && *at <= 'Z') || strchr("-._", *at)))
            cli_bad_value(cli, "--prefix takes letters, digits, - . and _");
    }
    if (*prefix == '\0' || strlen(prefix) > 200)
        cli_bad_value(cli, "--prefix is 1 to 200 bytes long");
}

/* The words that only one kind of source knows must not be given to the other. */
static int run_redis(struct import *import, struct import_redis_options *options, char *url)
{
    struct buf copy = {0};
    static const struct redis_names usual = {
        .bucket = "dq_bucket_%d", .queue = "dq_queue_%s", .prefix = "io.sdmq"};
    struct redis_names *names = &options->names;
    names->bucket = names->bucket ? names->bucket : usual.bucket;
    names->queue = names->queue ? names->queue : usual.queue;
    names->prefix = names->prefix ? names->prefix : usual.prefix;
    if (!redis_names_good(names))
        cli_bad_value(import->cli, "--bucket-name must have one %%d, --queue-name one %%s, and "
                                   "--key-prefix some letters");
    argv_take_url(url, &copy);
    options->url = copy.at;
    options->prefix = import->prefix;
    options->dry_run = import->dry_run;
    int code = import_redis(&import->push, options);
    buf_fini(&copy);
    return code;
}

/* Is one of the options given that only Redis has? */
static bool is_for_redis(const struct import_redis_options *redis, const char *layout)
{
    const struct redis_names *names = &redis->names;
    return layout || names->bucket || names->queue || names->prefix || redis->password_file;
}

static int run_source(struct import *import, struct import_redis_options *redis, const char *layout,
                      char **words)
{
    struct cli *cli = import->cli;
    if (strcmp(words[0], "beanstalkd") == 0) {
        if (is_for_redis(redis, layout))
            cli_usage(cli, "a beanstalkd has no layout, no names of keys and no password");
        return import_beanstalkd(import, words[1]);
    }
    if (strcmp(words[0], "redis") != 0)
        cli_usage(cli,
                  "'%s' is no source: there are 'beanstalkd DIR', 'redis URL', or an export's FILE "
                  "alone",
                  words[0]);
    if (!layout || redis_layout_read(layout, &redis->names.layout))
        cli_bad_value(cli, "--layout must be delay-queue, sdmq or delayqueue-java");
    return run_redis(import, redis, words[1]);
}

/* The first word of the two forms that have two. */
static bool is_source(const char *word)
{
    return word && (strcmp(word, "beanstalkd") == 0 || strcmp(word, "redis") == 0);
}

/* What `later export` wrote: a file, or standard input. */
static int run_export(struct import *import, const struct import_redis_options *redis,
                      const char *layout, const char *path)
{
    struct cli *cli = import->cli;
    struct import_ndjson_options options = {
        .path = path ? path : "-", .prefix = import->prefix, .dry_run = import->dry_run};
    if (is_for_redis(redis, layout))
        cli_usage(cli, "an export has no layout, no names of keys and no password");
    if (strcmp(options.path, "-") == 0 && isatty(STDIN_FILENO))
        cli_usage(cli,
                  "what is to be imported: beanstalkd DIR, redis URL, FILE of an export, or an "
                  "export on standard input");
    return import_ndjson(&import->push, &options);
}

static int run(struct cli *cli, int argc, char **argv)
{
    enum { BUCKET_NAME = 256, QUEUE_NAME, KEY_PREFIX, PASSWORD_FILE };
    static const struct option options[] = {
        {"dry-run", no_argument, NULL, 'n'},
        {"map", required_argument, NULL, 'm'},
        {"prefix", required_argument, NULL, 'p'},
        {"layout", required_argument, NULL, 'l'},
        {"bucket-name", required_argument, NULL, BUCKET_NAME},
        {"queue-name", required_argument, NULL, QUEUE_NAME},
        {"key-prefix", required_argument, NULL, KEY_PREFIX},
        {"password-file", required_argument, NULL, PASSWORD_FILE},
        CLI_OPTIONS};
    struct import import = {.cli = cli, .push.cli = cli};
    struct import_redis_options redis = {.url = NULL};
    const char *layout = NULL;
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        switch (c) {
        case 'n': import.dry_run = true; break;
        case 'm': import.push.map_path = optarg; break;
        case 'p':
            check_prefix(cli, optarg);
            import.prefix = optarg;
            break;
        case 'l': layout = optarg; break;
        case BUCKET_NAME: redis.names.bucket = optarg; break;
        case QUEUE_NAME: redis.names.queue = optarg; break;
        case KEY_PREFIX: redis.names.prefix = optarg; break;
        case PASSWORD_FILE: redis.password_file = optarg; break;
        default: break;
        }
    }
    import.push.progress = isatty(STDERR_FILENO) != 0 && !cli->json;
    if (argc - optind < 2 && !is_source(argv[optind])) /* argv ends with NULL */
        return run_export(&import, &redis, layout, argv[optind]);
    if (argc - optind < 2)
        cli_usage(cli, "%s is missing", strcmp(argv[optind], "redis") == 0 ? "URL" : "DIR");
    cli_words(cli, argc, argv, 2, 2);
    return run_source(&import, &redis, layout, argv + optind);
}

const struct command command_import = {
    .name = "import",
    .synopsis = "[options] [FILE] | beanstalkd DIR | redis --layout LAYOUT URL",
    .summary = "Bring in the jobs of an export, or of an older server",
    .help =
        "FILE, or standard input: what `later export` wrote, from any engine.\n"
        "beanstalkd DIR: the binlog of a stopped beanstalkd, what it had as -b.\n"
        "redis URL: what an older delay queue server keeps in Redis; stop it first.\n"
        "The old ones are only read; DIR is locked meanwhile.\n\n"
        "  -n, --dry-run       count what is there, send nothing\n"
        "  -m, --map FILE      write each job's old and new id, a tab between\n"
        "  -p, --prefix TEXT   new ids are TEXT and the old one (beanstalkd: TEXT is of the log's\n"
        "                      first bytes; redis: there is none, ids stay what they are; export:\n"
        "                      of jobs whose id the server made: x, number and time)\n"
        "  -l, --layout L      redis: delay-queue, sdmq or delayqueue-java\n"
        "      --bucket-name P, --queue-name P\n"
        "                      delay-queue: as its configuration says (dq_bucket_%d, dq_queue_%s)\n"
        "      --key-prefix T  sdmq: as its configuration says (io.sdmq)\n"
        "      --password-file F   redis: its password is the file's one line\n"
        "                      (LATER_REDIS_PASSWORD)\n"
        "\nURL: redis://[user:password@]host[:port]/DB or unix:///path; delay-queue's usual\n"
        "database is 1. Jobs keep topic or tube, priority, due time, ttr, body, and whether they "
        "are\n"
        "buried; ready ones their order. What beanstalkd had reserved is ready; of redis, it "
        "comes\n"
        "when its ttr ends. Counts of reserves, releases and so on are not kept.\n"
        "Of an export, jobs keep those and all else that /v1 shows, but for the reasons of failed\n"
        "attempts; topics their settings, unless they have others here, and their pauses.\n"
        "An import that stopped can be run again: what is there is kept, not doubled. Let\n"
        "consumers begin when it is done, else a finished job would come again.\n"
        "\nExit 0: all is there. 1: no binlog in DIR, nothing of this layout in Redis. 3: a\n"
        "beanstalkd has it open. 4: the server refused jobs, or DIR cannot be read. 5: no\n"
        "connection: run it again. 6: parts are missing, damaged or foreign; all else is there.\n"
        "\nExamples:\n"
        "  later export -s old:9277 | later import -s new:9277\n"
        "  later import beanstalkd /var/lib/beanstalkd --dry-run\n"
        "  later import beanstalkd /var/lib/beanstalkd --map ids.tsv\n"
        "  later import redis --layout delay-queue redis://127.0.0.1:6379/1 --dry-run\n",
    .run = run,
};
