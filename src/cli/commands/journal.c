/*
 * The commands about the journal in MySQL: journal restore, journal resync, journal status. The
 * server does the work, because only it sees changes meanwhile, and continues if the command is
 * ended. GET /v1/journal returns the progress.
 */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "cli/pace.h"
#include "cli/show.h"
#include "cli/text.h"

enum { POLL_US = 250 * 1000, POLLS_A_LINE = 8, TRIES = 120, REFUSALS = 8 };

static void rest(void)
{
    struct timespec span = {.tv_nsec = POLL_US * 1000L};
    (void)nanosleep(&span, NULL); /* shorter does no harm */
}

/* ---- words ---- */

static void report_restore(const json_t *answer)
{
    char rows[TEXT_ROOM], created[TEXT_ROOM], kept[TEXT_ROOM], refused[TEXT_ROOM];
    (void)printf("%s row%s: %s restored, %s there already, %s refused, %llu ms\n",
                 count_text(show_count(answer, "rows"), rows), plural(show_count(answer, "rows")),
                 count_text(show_count(answer, "created"), created),
                 count_text(show_count(answer, "kept"), kept),
                 count_text(show_count(answer, "refused"), refused),
                 (unsigned long long)show_count(answer, "ms"));
}

/* Until it is done MySQL may lack rows of jobs that were read. */
static void report_resync(const json_t *answer)
{
    char jobs[TEXT_ROOM], rows[TEXT_ROOM], closed[TEXT_ROOM];
    bool done = strcmp(show_string(answer, "state"), "done") == 0;
    (void)printf(
        "%s job%s %s, %s unfinished row%s compared with the queue, %s without a job marked "
        "deleted, %llu ms\n",
        count_text(show_count(answer, "jobs"), jobs), plural(show_count(answer, "jobs")),
        done ? "written" : "read", count_text(show_count(answer, "rows"), rows),
        plural(show_count(answer, "rows")), count_text(show_count(answer, "closed"), closed),
        (unsigned long long)show_count(answer, "ms"));
}

static void progress_json(json_t *line)
{
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (text)
        (void)fprintf(stderr, "%s\n", text);
    free(text);
    json_decref(line);
}

/* "1,200 of 5,000 jobs", and how long it takes still. */
static void progress_counts(uint64_t done, uint64_t of, const char *what, uint64_t left)
{
    char done_room[TEXT_ROOM], of_room[TEXT_ROOM];
    (void)fputs(count_text(done, done_room), stderr);
    if (of)
        (void)fprintf(stderr, " of %s", count_text(of, of_room));
    (void)fprintf(stderr, " %s", what);
    if (left)
        (void)fprintf(stderr, ", about %llu s left", (unsigned long long)left);
}

/* Shows the progress in one line on standard error, so that the output is not disturbed. */
static void restore_progress(const struct cli *cli, struct pace *pace, const json_t *part)
{
    uint64_t rows = show_count(part, "rows"), of = show_count(part, "of");
    uint64_t ms = show_count(part, "ms");
    if (cli->json) {
        progress_json(json_pack("{ss sI sI sI}", "progress", "restore", "rows", (json_int_t)rows,
                                "of", (json_int_t)of, "ms", (json_int_t)ms));
        return;
    }
    (void)fputs("later journal: restore: ", stderr);
    if (!rows && !of) /* it catches up with the queue first, and counts */
        (void)fputs("waits for MySQL", stderr);
    else
        progress_counts(rows, of, "rows", pace_left_s(pace, rows, of, ms));
    (void)fputc('\n', stderr);
}

/* The same. `answer`: all of GET /v1/journal. */
static void resync_progress(const struct cli *cli, struct pace *pace, const json_t *answer,
                            const json_t *part)
{
    static const char *const counts[] = {"jobs", "of", "rows", "rows_of", "ms"};
    const char *step = show_string(part, "step");
    struct buf error = {0};
    uint64_t jobs = show_count(part, "jobs"), of = show_count(part, "of");
    uint64_t rows = show_count(part, "rows"), rows_of = show_count(part, "rows_of");
    if (cli->json) {
        json_t *line = json_pack("{ss ss}", "progress", "resync", "step", step);
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && line; i++)
            json_object_set_new(line, counts[i],
                                json_integer((json_int_t)show_count(part, counts[i])));
        progress_json(line);
        return;
    }
    (void)fputs("later journal: resync: ", stderr);
    if (strcmp(step, "jobs") == 0)
        progress_counts(jobs, of, "jobs read", pace_left_s(pace, jobs, of, show_count(part, "ms")));
    else if (strcmp(step, "rows") == 0 && (rows || rows_of))
        progress_counts(rows, rows_of, "unfinished rows compared with the queue",
                        pace_left_s(pace, rows, rows_of, show_count(part, "ms")));
    else if (strcmp(step, "rows") == 0)
        (void)fputs("all jobs read, waits for MySQL to commit their rows", stderr);
    else if (strcmp(step, "commits") == 0)
        (void)fputs("all rows compared, waits for MySQL to commit the last of them", stderr);
    else
        (void)fputs("waits for the journal to begin again", stderr);
    if (*show_safe(answer, "error", &error))
        (void)fprintf(stderr, " (the journal does not write: %s)", error.at);
    (void)fputc('\n', stderr);
    buf_fini(&error);
}

/* ---- resync ---- */

/* Gets the status. The server may restart meanwhile; it then continues the resync. An error that
 * stays, or is another, is printed by one call more. */
static int ask_status(struct cli *cli, json_t **out_answer)
{
    bool passes = true;
    cli->quiet = true;
    for (unsigned tries = 1; passes && tries < TRIES; tries++) {
        int code = cli_call(cli, "GET", "/v1/journal", NULL, out_answer);
        passes = code == EXIT_UNREACHABLE || (code == EXIT_REFUSED && cli->refused_status == 503);
        if (passes)
            rest();
        else if (code == EXIT_DONE)
            break;
    }
    cli->quiet = false;
    return *out_answer ? EXIT_DONE : cli_call(cli, "GET", "/v1/journal", NULL, out_answer);
}

static int end_resync(struct cli *cli, const json_t *part)
{
    const char *state = show_string(part, "state");
    if (strcmp(state, "done") != 0) {
        struct buf why = {0};
        cli_message(cli, "the resync failed: %s", show_safe(part, "why", &why));
        buf_fini(&why);
        return EXIT_REFUSED;
    }
    if (cli->json)
        cli_print_json(part);
    else
        report_resync(part);
    if (!show_count(part, "unread"))
        return EXIT_DONE;
    cli_message(cli, "bodies of %llu jobs cannot be read: the server's log names them",
                (unsigned long long)show_count(part, "unread"));
    return EXIT_WRONG;
}

static int begin_resync(struct cli *cli, bool show)
{
    json_t *answer = NULL;
    int code = cli_call(cli, "POST", "/v1/journal/resync", json_object(), &answer);
    if (code == EXIT_DONE && show && cli->json)
        cli_print_json(json_object_get(answer, "resync"));
    else if (code == EXIT_DONE && show)
        (void)puts("the resync has begun: later journal status shows how far it is");
    json_decref(answer);
    return code;
}

/*
 * Requests the resync again, after it ended before MySQL had noted its beginning. The journal may
 * not be open yet; then the next poll tries again. But another server may write it now, or there
 * may be none any more: a conflict that stays is the result.
 */
static int begin_again(struct cli *cli, unsigned *refusals)
{
    cli->quiet = *refusals + 1 < REFUSALS;
    int code = begin_resync(cli, false);
    cli->quiet = false;
    *refusals = code == EXIT_CONFLICT ? *refusals + 1 : 0;
    return *refusals < REFUSALS ? EXIT_DONE : code;
}

static int wait_for_resync(struct cli *cli)
{
    unsigned refusals = 0;
    struct pace pace = {.count = 0};
    for (unsigned polls = 0;; polls++) {
        json_t *answer = NULL;
        int code = ask_status(cli, &answer);
        if (code != EXIT_DONE)
            return code;
        const json_t *part = json_object_get(answer, "resync");
        const char *state = show_string(part, "state");
        bool none = strcmp(state, "none") == 0;
        bool runs = none || strcmp(state, "running") == 0;
        if (none)
            code = begin_again(cli, &refusals);
        if (runs && polls % POLLS_A_LINE == POLLS_A_LINE - 1)
            resync_progress(cli, &pace, answer, part);
        if (!runs)
            code = end_resync(cli, part);
        json_decref(answer);
        if (!runs || code != EXIT_DONE)
            return code;
        rest();
    }
}

static int resync(struct cli *cli, bool no_wait)
{
    int code = begin_resync(cli, no_wait);
    return code != EXIT_DONE || no_wait ? code : wait_for_resync(cli);
}

/* ---- status ---- */

static void show_part(const json_t *answer, const char *what, void (*report)(const json_t *))
{
    const json_t *part = json_object_get(answer, what);
    struct buf state = {0}, why = {0};
    bool some = *show_safe(part, "why", &why);
    (void)printf("%s: %s%s%s\n", what, show_safe(part, "state", &state), some ? ": " : "", why.at);
    if (strcmp(state.at, "none") != 0)
        report(part);
    buf_fini(&state);
    buf_fini(&why);
}

static void show_lag(const json_t *lag)
{
    char entries[TEXT_ROOM], bytes[TEXT_ROOM], span[TEXT_ROOM];
    int64_t seconds = (int64_t)show_count(lag, "seconds");
    if (!show_count(lag, "entries"))
        (void)puts("lag: MySQL has all changes");
    else
        (void)printf("lag: %s change%s, %s, the oldest %s old\n",
                     count_text(show_count(lag, "entries"), entries),
                     plural(show_count(lag, "entries")), size_text(show_count(lag, "bytes"), bytes),
                     seconds ? duration_text(seconds * 1000000, span) : "less than a second");
}

/* A line for each partition with a lag or an error, or only their number. */
static void show_partitions(const json_t *partitions)
{
    char entries[TEXT_ROOM], bytes[TEXT_ROOM];
    const json_t *partition;
    size_t i;
    if (json_array_size(partitions))
        (void)printf("partitions: this daemon writes all %zu\n", json_array_size(partitions));
    json_array_foreach(partitions, i, partition)
    {
        if (json_is_null(json_object_get(partition, "entries")))
            (void)printf("partition %zu: lag not known yet\n", i);
        if (show_count(partition, "entries"))
            (void)printf("partition %zu: %s change%s not in MySQL, %s%s\n", i,
                         count_text(show_count(partition, "entries"), entries),
                         plural(show_count(partition, "entries")),
                         size_text(show_count(partition, "bytes"), bytes),
                         json_is_true(json_object_get(partition, "refuses_pushes"))
                             ? ", pushes are refused"
                             : "");
    }
}

/* In which state it is, who writes it, and why it does not. */
static void show_state(const json_t *answer)
{
    static const char *const words[][2] = {{"out_of_step", "out of step"},
                                           {"elsewhere", "another daemon writes it"}};
    char span[TEXT_ROOM];
    struct buf state_room = {0}, room = {0}, mode = {0};
    const char *state = show_safe(answer, "state", &state_room);
    const char *writer = show_safe(answer, "writer", &room);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        state = strcmp(state, words[i][0]) == 0 ? words[i][1] : state;
    (void)printf("journal: %s%s%s, for %s (mode %s)\n", state, *writer ? ": " : "", writer,
                 duration_text((int64_t)show_count(answer, "state_ms") * 1000, span),
                 show_safe(answer, "mode", &mode));
    if (*show_safe(answer, "error", &room))
        (void)printf("error: %s\n", room.at);
    if (*show_safe(answer, "hint", &room))
        (void)printf("what to do: %s\n", room.at);
    buf_fini(&state_room);
    buf_fini(&room);
    buf_fini(&mode);
}

/* Shows the journal's health. An earlier version's answer lacks it. */
static void show_health(const json_t *answer)
{
    if (!*show_string(answer, "state"))
        return;
    show_state(answer);
    if (json_is_object(json_object_get(answer, "lag")))
        show_lag(json_object_get(answer, "lag"));
    else if (strcmp(show_string(answer, "state"), "elsewhere") != 0)
        (void)puts("lag: not known yet");
    if (json_is_true(json_object_get(answer, "refuses_pushes")))
        (void)puts("pushes: refused until MySQL has caught up (journal_behind)");
    show_partitions(json_object_get(answer, "partitions"));
    if (json_is_integer(json_object_get(answer, "cursor")))
        (void)printf("cursor: batch %llu, epoch %llu\n",
                     (unsigned long long)show_count(answer, "cursor"),
                     (unsigned long long)show_count(answer, "epoch"));
    if (show_count(answer, "rejected"))
        (void)printf("rejected: %llu row%s that MySQL refused, in laterd_journal_rejected\n",
                     (unsigned long long)show_count(answer, "rejected"),
                     plural(show_count(answer, "rejected")));
}

static int show_status(struct cli *cli)
{
    json_t *answer = NULL;
    int code = cli_call(cli, "GET", "/v1/journal", NULL, &answer);
    if (code != EXIT_DONE)
        return code;
    if (cli->json) {
        cli_print_json(answer);
    } else if (!json_is_true(json_object_get(answer, "journal"))) {
        (void)puts("this server has no journal: set url under [journal] and restart laterd");
    } else {
        show_health(answer);
        show_part(answer, "restore", report_restore);
        show_part(answer, "resync", report_resync);
    }
    json_decref(answer);
    return EXIT_DONE;
}

/* ---- restore ---- */

/* The restore's request is answered at the end. Meanwhile this thread, with its own connection,
 * shows the progress. */
struct watch {
    struct cli cli;
    struct pace pace;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool over;
};

static bool wait_for_end(struct watch *watch)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until); /* cannot fail on Linux */
    until.tv_sec += 2;
    (void)pthread_mutex_lock(&watch->mutex);
    if (!watch->over)
        (void)pthread_cond_timedwait(&watch->changed, &watch->mutex, &until); /* or it is over */
    bool over = watch->over;
    (void)pthread_mutex_unlock(&watch->mutex);
    return over;
}

static void *watch_main(void *arg)
{
    struct watch *watch = arg;
    while (!wait_for_end(watch)) {
        json_t *answer = NULL;
        if (cli_call(&watch->cli, "GET", "/v1/journal", NULL, &answer) != EXIT_DONE)
            continue; /* the restore's own answer counts */
        const json_t *part = json_object_get(answer, "restore");
        if (strcmp(show_string(part, "state"), "running") == 0)
            restore_progress(&watch->cli, &watch->pace, part);
        json_decref(answer);
    }
    if (watch->cli.has_client)
        client_fini(&watch->cli.client);
    return NULL;
}

static int call_and_watch(struct cli *cli, json_t *body, json_t **out_answer)
{
    struct watch watch = {
        .cli = *cli, .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    watch.cli.quiet = true;
    watch.cli.access.warned = true; /* the restore's own connection warns */
    bool watched = !cli->has_client && pthread_create(&thread, NULL, watch_main, &watch) == 0;
    cli->wait_us = INT64_C(24) * 3600 * 1000000; /* there may be millions of rows */
    int code = cli_call(cli, "POST", "/v1/restore", body, out_answer);
    (void)pthread_mutex_lock(&watch.mutex);
    watch.over = true;
    (void)pthread_cond_signal(&watch.changed);
    (void)pthread_mutex_unlock(&watch.mutex);
    if (watched)
        (void)pthread_join(thread, NULL);
    return code;
}

static int restore(struct cli *cli, const char *id, bool no_expire)
{
    json_t *body = json_object(), *answer = NULL;
    if (no_expire)
        json_object_set_new(body, "expire", json_false());
    if (id)
        json_object_set_new(body, "id", cli_string(cli, "ID", id));
    cli->subject = id;
    int code = call_and_watch(cli, body, &answer);
    cli->subject = NULL;
    if (code != EXIT_DONE)
        return code;
    bool wrong = show_count(answer, "refused") > 0;
    if (cli->json)
        cli_print_json(answer);
    else
        report_restore(answer);
    json_decref(answer);
    return wrong ? EXIT_WRONG : EXIT_DONE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        {"no-expire", no_argument, NULL, 'E'}, {"no-wait", no_argument, NULL, 'W'}, CLI_OPTIONS};
    bool no_expire = false, no_wait = false;
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        no_expire |= c == 'E';
        no_wait |= c == 'W';
    }
    cli_words(cli, argc, argv, 1, 2);
    const char *verb = argv[optind], *id = optind + 1 < argc ? argv[optind + 1] : NULL;
    bool restores = strcmp(verb, "restore") == 0, resyncs = strcmp(verb, "resync") == 0;
    if (!restores && !resyncs && strcmp(verb, "status") != 0)
        cli_usage(cli, "it is 'later journal restore', 'resync' or 'status', not '%s'", verb);
    if ((!restores && (id || no_expire)) || (!resyncs && no_wait))
        cli_usage(cli, "'later journal %s' takes no %s", verb,
                  !restores && id ? "ID"
                  : no_wait       ? "--no-wait"
                                  : "--no-expire");
    if (restores)
        return restore(cli, id, no_expire);
    return resyncs ? resync(cli, no_wait) : show_status(cli);
}

const struct command command_journal = {
    .name = "journal",
    .synopsis = "restore [--no-expire] [ID] | resync [--no-wait] | status",
    .summary = "Restore jobs from the journal in MySQL, repair the journal, or show its state",
    .help =
        "  -E, --no-expire    restore: leave out those whose due time is past\n"
        "  -W, --no-wait      resync: only begin it\n"
        "\nrestore pushes what the journal has as unfinished: all, or this one. A job that exists\n"
        "is left as it is, so it is harmless twice and beside pushes.\n"
        "\nresync writes the rows of all jobs as the queue holds them, and marks unfinished rows\n"
        "without a job deleted; then the journal goes on. For a journal that is out of step:\n"
        "given up, or MySQL or laterd's directory came back from an older copy. Jobs are pushed\n"
        "and taken meanwhile.\n"
        "\nstatus shows whether the journal writes, and if not why and what to do, what MySQL\n"
        "lacks, and how far a restore and a resync are.\n"
        "\nRestore and resync are done by the server, which goes on if this command is ended; a\n"
        "resync also after a restart. How far it is comes on standard error every two seconds\n"
        "(with --json as JSON), and by status.\n"
        "\nExit 1 if the journal has no such job; of restore and resync 3 if there is no journal,\n"
        "one of the two is under way, or another server on the same Redis writes the journal,\n"
        "4 if MySQL is away or it failed, 6 if the queue refused rows, or bodies cannot be read:\n"
        "its log says why.\n"
        "\nExamples:\n"
        "  later journal status\n"
        "  later journal restore\n"
        "  later journal restore order-17\n"
        "  later journal resync\n",
    .run = run,
};
