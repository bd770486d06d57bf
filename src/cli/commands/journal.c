/*
 * The commands about the journal in MySQL: journal restore, journal resync, journal status. The
 * server does what they ask for, because only it knows what changes meanwhile; it goes on if they
 * are ended. GET /v1/journal says how far it is.
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

static void report_resync(const json_t *answer)
{
    char jobs[TEXT_ROOM], rows[TEXT_ROOM], closed[TEXT_ROOM];
    (void)printf(
        "%s job%s written, %s unfinished row%s checked, %s without a job closed, %llu ms\n",
        count_text(show_count(answer, "jobs"), jobs), plural(show_count(answer, "jobs")),
        count_text(show_count(answer, "rows"), rows), plural(show_count(answer, "rows")),
        count_text(show_count(answer, "closed"), closed),
        (unsigned long long)show_count(answer, "ms"));
}

/* What is under way, in one line on standard error: it does not disturb who reads the output. */
static void show_progress(const struct cli *cli, struct pace *pace, const char *what,
                          const json_t *part, const char *member)
{
    char done_room[TEXT_ROOM], of_room[TEXT_ROOM];
    uint64_t done = show_count(part, member), of = show_count(part, "of");
    uint64_t left = pace_left_s(pace, done, of, show_count(part, "ms"));
    if (cli->json) {
        json_t *line = json_pack("{ss sI sI sI}", "progress", what, member, (json_int_t)done, "of",
                                 (json_int_t)of, "ms", (json_int_t)show_count(part, "ms"));
        char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
        if (text)
            (void)fprintf(stderr, "%s\n", text);
        free(text);
        json_decref(line);
        return;
    }
    if (!done && !of) { /* it catches up with the queue first, and counts */
        (void)fprintf(stderr, "later journal: %s: waits for MySQL\n", what);
        return;
    }
    (void)fprintf(stderr, "later journal: %s: %s", what, count_text(done, done_room));
    if (of)
        (void)fprintf(stderr, " of %s", count_text(of, of_room));
    (void)fprintf(stderr, " %s", member);
    if (left)
        (void)fprintf(stderr, ", about %llu s left", (unsigned long long)left);
    (void)fputc('\n', stderr);
}

/* ---- resync ---- */

/* The server may start again meanwhile: it goes on with the resync then. */
static int ask_status(struct cli *cli, unsigned *tries, json_t **out_answer)
{
    int code;
    do {
        code = cli_call(cli, "GET", "/v1/journal", NULL, out_answer);
        if (code != EXIT_UNREACHABLE && !(code == EXIT_REFUSED && cli->refused_status == 503))
            return code;
        rest();
    } while (++*tries < TRIES);
    return code;
}

static int end_resync(struct cli *cli, const json_t *part)
{
    const char *state = show_string(part, "state");
    if (strcmp(state, "done") != 0) {
        cli_message(cli, "the resync failed: %s", show_string(part, "why"));
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

static int begin_resync(struct cli *cli)
{
    json_t *answer = NULL;
    int code = cli_call(cli, "POST", "/v1/journal/resync", json_object(), &answer);
    json_decref(answer);
    return code;
}

/*
 * One that ended before MySQL knew of its beginning is asked for again. The journal may not be
 * there yet: then the next poll tries again. But another server may write it now, or there may be
 * none any more: a conflict that stays is the answer.
 */
static int begin_again(struct cli *cli, unsigned *refusals)
{
    cli->quiet = *refusals + 1 < REFUSALS;
    int code = begin_resync(cli);
    cli->quiet = false;
    *refusals = code == EXIT_CONFLICT ? *refusals + 1 : 0;
    return *refusals < REFUSALS ? EXIT_DONE : code;
}

static int wait_for_resync(struct cli *cli)
{
    unsigned tries = 0, refusals = 0;
    struct pace pace = {.count = 0};
    for (unsigned polls = 0;; polls++) {
        json_t *answer = NULL;
        cli->quiet = tries + 1 < TRIES;
        int code = ask_status(cli, &tries, &answer);
        cli->quiet = false;
        if (code != EXIT_DONE)
            return code;
        tries = 0;
        const json_t *part = json_object_get(answer, "resync");
        const char *state = show_string(part, "state");
        bool none = strcmp(state, "none") == 0;
        bool runs = none || strcmp(state, "running") == 0;
        if (none)
            code = begin_again(cli, &refusals);
        if (runs && polls % POLLS_A_LINE == POLLS_A_LINE - 1)
            show_progress(cli, &pace, "resync", part, "jobs");
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
    int code = begin_resync(cli);
    return code != EXIT_DONE || no_wait ? code : wait_for_resync(cli);
}

/* ---- status ---- */

static void show_part(const json_t *answer, const char *what, void (*report)(const json_t *))
{
    const json_t *part = json_object_get(answer, what);
    const char *state = show_string(part, "state"), *why = show_string(part, "why");
    (void)printf("%s: %s%s%s\n", what, state, *why ? ": " : "", why);
    if (strcmp(state, "none") != 0)
        report(part);
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
        show_part(answer, "restore", report_restore);
        show_part(answer, "resync", report_resync);
    }
    json_decref(answer);
    return EXIT_DONE;
}

/* ---- restore ---- */

/* Its request is answered at the end. Meanwhile this thread, which has a connection of its own,
   shows how far it is. */
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
            show_progress(&watch->cli, &watch->pace, "restore", part, "rows");
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
        json_object_set_new(body, "id", json_string(id));
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
    .summary = "Bring jobs back from the journal in MySQL, or the journal to what the queue holds",
    .help =
        "  -E, --no-expire    restore: leave out those whose due time is past\n"
        "  -W, --no-wait      resync: only begin it\n"
        "\nrestore pushes what the journal has as unfinished: all, or this one. What is there is\n"
        "kept, so it is harmless twice and beside pushes.\n"
        "\nresync writes the rows of all jobs as the queue holds them, and ends unfinished rows\n"
        "whose jobs are not there; then the journal goes on. For a journal that is out of step:\n"
        "given up, or MySQL or laterd's directory came back from an older copy. Jobs are pushed\n"
        "and taken meanwhile.\n"
        "\nBoth are done by the server, which goes on if this command is ended; a resync also "
        "after\n"
        "a restart. How far it is comes on standard error every two seconds (with --json as\n"
        "JSON), and by status.\n"
        "\nExit 1 if the journal has no such job, 3 if there is no journal, one of the two is\n"
        "under way, or another server on the same Redis writes the journal, 4 if MySQL is away\n"
        "or it failed, 6 if the queue refused rows, or bodies cannot be read: its log says why.\n"
        "\nExamples:\n"
        "  later journal restore\n"
        "  later journal restore order-17\n"
        "  later journal resync\n",
    .run = run,
};
