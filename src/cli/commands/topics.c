/*
 * The commands about topics: topics list pause resume.
 */
#include "base/mem.h"
#include "cli/limits.h"
#include "cli/show.h"
#include "cli/text.h"
#include "core/job.h"

enum { PAGES_MAX = 100000 }; /* bounds a listing that would never end */

/* A count with separators as a cell. */
static void count_cell(struct table *table, const json_t *object, const char *key)
{
    char room[TEXT_ROOM];
    table_cell_str(table, count_text(show_count(object, key), room));
}

static void topic_row(struct table *table, const json_t *topic)
{
    show_cell(table, topic, "name");
    for (enum job_state state = JOB_DELAYED; state < JOB_STATES; state++)
        count_cell(table, topic, job_state_name(state));
    count_cell(table, topic, "waiters");
    table_cell_str(table, json_is_true(json_object_get(topic, "paused")) ? "paused" : "");
}

static void table_head(struct table *table, const char *const *names, unsigned count)
{
    table->columns = count;
    for (unsigned i = 0; i < count; i++)
        table_cell_str(table, names[i]);
}

/*
 * Walks through a listing page by page: calls `row` for each member of the array `key`. The next
 * page is requested with the last one's cursor.
 */
struct listing {
    struct cli *cli;
    const char *path;    /* ready for "limit=…&cursor=…" */
    const char *array;   /* the member that holds the rows */
    uint64_t left;       /* rows still wanted */
    struct table *table; /* NULL: none */
    void (*row)(struct table *table, const json_t *item);
    void (*print)(const json_t *item); /* instead of a table's row; NULL: a table */
    bool refused;                      /* a page was refused, which was printed */
};

static void listing_page(struct listing *listing, const json_t *answer, uint64_t *out_rows)
{
    const json_t *items = json_object_get(answer, listing->array);
    const json_t *item;
    size_t i;
    json_array_foreach(items, i, item)
    {
        if (listing->left == 0)
            break;
        listing->left--;
        (*out_rows)++;
        if (listing->print)
            listing->print(item);
        else
            listing->row(listing->table, item);
    }
}

static int listing_run(struct listing *listing)
{
    struct buf out = {0}, cursor = {0};
    int code = EXIT_DONE;
    uint64_t rows = 0;
    for (unsigned page = 0; page < PAGES_MAX && !ferror(stdout) && listing->left > 0; page++) {
        json_t *answer = NULL;
        code = limits_get_page(listing->cli, listing->path, buf_bytes(&cursor), listing->left,
                               &answer);
        listing->refused = code != EXIT_DONE;
        if (listing->refused)
            break;
        listing_page(listing, answer, &rows);
        if (!listing->print && rows > 0)
            table_write(listing->table, &out);
        cli_flush(&out);
        cursor.len = 0;
        buf_add_str(&cursor, show_string(answer, "cursor"));
        json_decref(answer);
        if (cursor.len == 0)
            break;
    }
    buf_fini(&cursor);
    buf_fini(&out);
    table_fini(listing->table);
    return code == EXIT_DONE && rows == 0 ? EXIT_NOTHING : code;
}

/* A line of "name count" pairs of an object's members. */
static void topic_line(struct buf *out, const char *label, const json_t *object, const char *keys)
{
    buf_addf(out, "%-9s", label);
    while (*keys) {
        size_t len = strcspn(keys, " ");
        char key[TEXT_ROOM], room[TEXT_ROOM];
        (void)snprintf(key, sizeof(key), "%.*s", (int)len, keys); /* the keys below fit */
        const json_t *value = json_object_get(object, key);
        if (json_is_real(value))
            buf_addf(out, " %s %.1f ", key, json_real_value(value));
        else
            buf_addf(out, " %s %s ", key, count_text(show_count(object, key), room));
        keys += len + (keys[len] == ' ');
    }
    out->at[out->len - 1] = '\n';
}

/* A time of the server, if it is there. */
static void topic_time(struct buf *out, const char *label, const json_t *topic, const char *key)
{
    if (!json_object_get(topic, key))
        return;
    buf_addf(out, "%-9s ", label);
    show_time(topic, key, out);
    buf_add_char(out, '\n');
}

/* Why nothing is sent to its target, and what to look at. */
static const char *held_text(const char *why)
{
    static const struct {
        const char *why;
        const char *text;
    } held[] = {
        {"paused", "it is paused, as said above, or the server ends"},
        {"sink",
         "nothing sends to it now: its [broker.NAME] is not configured, or away (see the log)"},
        {"breaker", "its receiver fails, or asked to wait, and is tried again within minutes"},
        {"host", "push.host_concurrency, of all topics: enough is under way to its receiver"},
        {"topic", "its concurrency: enough is under way (it begins with one, and grows)"},
        {"rate", "its rate; of a receiver that is named: push.host_rate, of all topics"},
        {"share", "push.concurrency: other topics have their share"},
        {"keys", "too many jobs wait for another of their key"},
        {"others", "order by key: another laterd sends it, or is about to (push.ordered)"},
        {"error", "the store does not answer: tried again soon"},
    };
    for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++) {
        if (strcmp(held[i].why, why) == 0)
            return held[i].text;
    }
    return "for a reason that this program does not know";
}

static void topic_held(const json_t *topic, struct buf *out)
{
    buf_addf(out, "held      %s", held_text(show_string(topic, "held")));
    if (json_object_get(topic, "held_by")) {
        buf_add_str(out, ": ");
        show_value(topic, "held_by", out);
    }
    buf_add_char(out, '\n');
}

/* All of one topic. */
static void topic_show(const json_t *topic, struct buf *out)
{
    buf_add_str(out, "topic     ");
    show_value(topic, "name", out);
    buf_add_str(out, json_is_true(json_object_get(topic, "paused")) ? "  PAUSED\n" : "\n");
    topic_time(out, "until", topic, "paused_until");
    show_settings(topic, out);
    if (json_object_get(topic, "held"))
        topic_held(topic, out);
    topic_line(out, "jobs", topic, "delayed ready reserved buried");
    topic_time(out, "next due", topic, "next_due");
    topic_time(out, "oldest", topic, "oldest_ready");
    topic_line(out, "clients", topic, "waiters");
    if (json_object_get(topic, "rates"))
        topic_line(out, "a second", json_object_get(topic, "rates"), "pushed reserved finished");
    topic_line(out, "totals", json_object_get(topic, "totals"),
               "pushed reserved finished deleted timeouts released buried kicked");
    show_lateness(topic, 9, out);
}

/* The first job of a list that has failed; NULL: none has. */
static const json_t *first_failed(const json_t *list)
{
    const json_t *job;
    size_t i;
    json_array_foreach(json_object_get(list, "jobs"), i, job)
    {
        if (json_object_get(job, "last_failure"))
            return job;
    }
    return NULL;
}

/* Why a job of the topic failed last, of those that `query` lists. Nothing if a call is not
 * answered: what else there is has been read. */
static void add_failed(struct cli *cli, const char *topic, const char *query, const char *label,
                       struct buf *out)
{
    json_t *list = NULL, *job = NULL;
    cli->quiet = true;
    (void)cli_call_topic(cli, "GET", topic, query, NULL, &list); /* no list: no job */
    const json_t *found = first_failed(list);
    if (found) /* it may be gone */
        (void)cli_call_job(cli, "GET", show_string(found, "id"), "", NULL, &job);
    cli->quiet = false;
    const json_t *failure = json_object_get(job, "last_failure");
    if (failure) {
        buf_addf(out, "%-10s", label);
        show_value(job, "id", out);
        buf_add_str(out, ", failed ");
        show_failure(failure, out);
        buf_add_char(out, '\n');
    }
    json_decref(list);
    json_decref(job);
}

static void add_failures(struct cli *cli, const char *name, const json_t *topic, struct buf *out)
{
    /* Those that wait for their next attempt are usually among the next to be due. */
    if (show_count(topic, "delayed") > 0)
        add_failed(cli, name, "/jobs?state=delayed&limit=20", "retrying", out);
    /* The one that was due last, on Redis the one that was buried last. */
    if (show_count(topic, "buried") > 0)
        add_failed(cli, name, "/jobs?state=buried&order=desc&limit=1", "buried", out);
}

static int topics_run(struct cli *cli, int argc, char **argv)
{
    static const char *const names[] = {"TOPIC",  "DELAYED", "READY", "RESERVED",
                                        "BURIED", "WAITING", ""};
    struct table table = {.right = {false, true, true, true, true, true}};
    table_head(&table, names, 7);
    cli_only_words(cli, argc, argv, 0, 1);
    if (optind == argc) {
        struct listing listing = {.cli = cli,
                                  .path = "/v1/topics?",
                                  .array = "topics",
                                  .left = UINT64_MAX,
                                  .table = &table,
                                  .row = topic_row,
                                  .print = cli->json ? cli_print_stats : NULL};
        int code = listing_run(&listing);
        if (code == EXIT_NOTHING && !listing.refused && !cli->json)
            cli_message(cli, "there are no topics: the first push into one makes it");
        return code;
    }
    json_t *answer = NULL;
    int code = cli_call_topic(cli, "GET", argv[optind], "", NULL, &answer);
    struct buf out = {0};
    if (code == EXIT_DONE && cli->json) {
        cli_print_stats(answer);
    } else if (code == EXIT_DONE) {
        topic_show(answer, &out);
        add_failures(cli, argv[optind], answer, &out);
    }
    cli_flush(&out);
    buf_fini(&out);
    table_fini(&table);
    json_decref(answer);
    return code;
}

const struct command command_topics = {
    .name = "topics",
    .synopsis = "[TOPIC]",
    .summary = "Show the topics with their counts by state, or one in full",
    .help =
        "WAITING counts consumers that wait for a job; of a topic with a target that is laterd.\n"
        "DELAYED counts also jobs that were due and were put off, because their key or the\n"
        "receiver of their own URL had no room; putting one off counts as released in totals.\n"
        "Rates are those of the last ten seconds.\n"
        "\nOf one topic in full, one buried job is named, with why it failed last, and one that\n"
        "waits for its next attempt, if it is among the 20 that are due first; `later attempts`\n"
        "and `later list --state buried` have more. Exit 1 if there is no topic, or not this one.\n"
        "With --json, one topic a line, with all its figures.\n"
        "\nExamples:\n"
        "  later topics\n"
        "  later topics mail --json | jq\n",
    .run = topics_run,
};

static void list_row(struct table *table, const json_t *job)
{
    show_cell(table, job, "id");
    show_cell(table, job, "state");
    show_time_cell(table, job, "due_ms");
    show_cell(table, job, "priority");
    show_cell(table, job, "attempt");
}

/* And how it failed last; `later attempts` has the reasons. */
static void list_buried_row(struct table *table, const json_t *job)
{
    const json_t *failure = json_object_get(job, "last_failure");
    struct bytes time = bytes_str(show_string(failure, "time"));
    list_row(table, job);
    show_cell(table, failure, "code");
    table_cell(table, time.len > 19 ? bytes_of(time.at, 19) : time);
}

/* The same with the job's labels. */
static void list_labels_row(struct table *table, const json_t *job)
{
    list_row(table, job);
    show_cell(table, job, "biz_key");
    show_cell(table, job, "subtopic");
    show_cell(table, job, "tags");
}

/* As it is, for other programs: ids have no control characters. */
static void print_id(const json_t *job)
{
    (void)puts(show_string(job, "id"));
}

/* It has no job of that state: in which others it has some. */
static void report_other_states(struct cli *cli, const char *topic, const char *state)
{
    const char *other = NULL;
    json_t *answer = NULL;
    struct buf line = {0};
    char room[TEXT_ROOM];
    cli->quiet = true;
    int code = cli_call_topic(cli, "GET", topic, "", NULL, &answer);
    cli->quiet = false;
    for (enum job_state i = JOB_DELAYED; code == EXIT_DONE && i < JOB_STATES; i++) {
        const char *name = job_state_name(i);
        uint64_t jobs = show_count(answer, name);
        if (jobs == 0 || strcmp(name, state) == 0)
            continue;
        buf_addf(&line, "%s%s %s", other ? ", " : "; ", count_text(jobs, room), name);
        other = name;
    }
    if (other)
        buf_addf(&line, ": later list --state %s", other);
    cli_message(cli, "no job is %s%.*s%s%s", state, (int)line.len, line.at ? line.at : "",
                other ? " " : "", other ? topic : "");
    buf_fini(&line);
    json_decref(answer);
}

/* What `later list` was asked for. */
struct list_wish {
    const char *state, *order;
    bool labels, ids;
};

static void list_options(struct cli *cli, int argc, char **argv, struct list_wish *wish,
                         uint64_t *out_limit)
{
    enum { ORDER = 256 };
    static const struct option options[] = {
        {"state", required_argument, NULL, 'S'},   {"ids", no_argument, NULL, 'i'},
        {"limit", required_argument, NULL, 'n'},   {"labels", no_argument, NULL, 'L'},
        {"order", required_argument, NULL, ORDER}, CLI_OPTIONS};
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        switch (c) {
        case 'S': wish->state = optarg; break;
        case 'L': wish->labels = true; break;
        case 'i': wish->ids = true; break;
        case ORDER: wish->order = optarg; break;
        case 'n': *out_limit = cli_number(cli, "--limit", optarg, INT64_MAX); break;
        default: break;
        }
    }
    cli_words(cli, argc, argv, 1, 1);
    if (!cli_is_state(wish->state))
        cli_bad_value(cli, "--state is delayed, ready, reserved or buried, not '%s'", wish->state);
    if (strcmp(wish->order, "asc") != 0 && strcmp(wish->order, "desc") != 0)
        cli_bad_value(cli, "--order is asc or desc, not '%s'", wish->order);
    if (*out_limit == 0)
        cli_bad_value(cli, "--limit is at least 1");
    if (wish->ids && (wish->labels || cli->json))
        cli_usage(cli, "--ids, --labels or --json, only one of them");
}

/* Sets the columns, and what fills them. */
static void list_columns(const struct list_wish *wish, struct table *table, struct listing *listing)
{
    static const char *const names[] = {"ID", "STATE", "DUE", "PRIORITY", "ATTEMPTS"};
    static const char *const of_buried[] = {"ID",       "STATE", "DUE",         "PRIORITY",
                                            "ATTEMPTS", "CODE",  "FAILED (UTC)"};
    static const char *const of_labels[] = {"ID",       "STATE",   "DUE",      "PRIORITY",
                                            "ATTEMPTS", "BIZ KEY", "SUBTOPIC", "TAGS"};
    listing->row = list_row;
    if (wish->labels) {
        table_head(table, of_labels, sizeof(of_labels) / sizeof(of_labels[0]));
        listing->row = list_labels_row;
    } else if (strcmp(wish->state, "buried") == 0) {
        table_head(table, of_buried, sizeof(of_buried) / sizeof(of_buried[0]));
        table->right[5] = true;
        listing->row = list_buried_row;
    } else {
        table_head(table, names, sizeof(names) / sizeof(names[0]));
    }
}

static int list_run(struct cli *cli, int argc, char **argv)
{
    struct table table = {.right = {false, false, false, true, true}};
    struct listing listing = {.cli = cli, .array = "jobs", .left = 100, .table = &table};
    struct list_wish wish = {.state = "delayed", .order = "asc"};
    list_options(cli, argc, argv, &wish, &listing.left);
    list_columns(&wish, &table, &listing);
    listing.print = wish.ids ? print_id : cli->json ? cli_print_json : NULL;
    struct buf query = {0};
    buf_addf(&query, "/jobs?state=%s&%s%s", wish.state, wish.labels ? "properties=true&" : "",
             strcmp(wish.order, "desc") == 0 ? "order=desc&" : "");
    buf_add_char(&query, '\0');
    char *path = cli_target("/v1/topics/", argv[optind], query.at);
    listing.path = path;
    cli->subject = argv[optind];
    int code = listing_run(&listing);
    if (code == EXIT_NOTHING && !listing.refused && !cli->json)
        report_other_states(cli, argv[optind], wish.state);
    cli->subject = NULL;
    mem_free(path);
    buf_fini(&query);
    return code;
}

const struct command command_list = {
    .name = "list",
    .synopsis = "[options] TOPIC",
    .summary = "List a topic's jobs of one state, by due time",
    .help =
        "  -S, --state STATE    delayed, ready, reserved or buried (delayed)\n"
        "  -n, --limit N        at most N (100)\n"
        "      --order ORDER    asc, or desc: the last one first (asc)\n"
        "  -L, --labels         with biz key, subtopic and tags; with --json with all that\n"
        "                       was said of the job but its body\n"
        "  -i, --ids            only ids, one a line, for other commands\n"
        "\nBuried ones are shown with the code and time of their last failure; `later attempts`\n"
        "has the reasons.\n"
        "\nExit 1 if there is none. With --json, one job a line.\n"
        "\nExamples:\n"
        "  later list mail\n"
        "  later list mail --order desc --limit 1\n"
        "  later list mail --state buried --json | jq -c '[.id, .last_failure.code]'\n"
        "  later list mail --state buried --ids --limit 1000 | xargs -rd '\\n' later kick --\n",
    .run = list_run,
};

/* Pause and resume differ in a word. */
static int topic_verb(struct cli *cli, const char *topic, const char *after, json_t *body,
                      const char *done)
{
    json_t *answer = NULL;
    int code = cli_call_topic(cli, "POST", topic, after, body, &answer);
    if (code == EXIT_DONE && cli->json && answer)
        cli_print_json(answer);
    else if (code == EXIT_DONE && !cli->json) {
        struct buf out = {0};
        buf_addf(&out, "%s ", done);
        text_add_safe(&out, bytes_str(topic));
        buf_add_char(&out, '\n');
        cli_flush(&out);
        buf_fini(&out);
    }
    json_decref(answer);
    return code;
}

/* The server resumes a topic that is paused for nothing. */
static json_t *pause_span(const struct cli *cli, const char *text)
{
    int64_t us = cli_duration_us(cli, "--for", text);
    if (us < 1000)
        cli_bad_value(cli, "--for is at least 1ms; `later resume` ends a pause");
    return cli_duration_json(us);
}

static int pause_run(struct cli *cli, int argc, char **argv)
{
    enum { CREATE = 256 };
    static const struct option options[] = {
        {"for", required_argument, NULL, 'f'}, {"create", no_argument, NULL, CREATE}, CLI_OPTIONS};
    json_t *body = json_object();
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        if (c == 'f')
            json_object_set_new(body, "for", pause_span(cli, optarg));
        else if (c == CREATE)
            json_object_set_new(body, "create", json_true());
    }
    cli_words(cli, argc, argv, 1, 1);
    cli->expects = "not_found";
    int code = topic_verb(cli, argv[optind], "/pause", body, "paused");
    cli->expects = NULL;
    if (code == EXIT_NOTHING) {
        cli->subject = argv[optind];
        cli_message(cli, "there is no such topic; --create makes it, and pauses it");
        cli->subject = NULL;
    }
    return code;
}

const struct command command_pause = {
    .name = "pause",
    .synopsis = "[--for D] [--create] TOPIC",
    .summary = "Hand out no jobs of a topic for a while",
    .help = "  -f, --for D     for D (until `later resume`)\n"
            "      --create    a topic that does not exist is made, and paused\n"
            "\nJobs can still be pushed. Exit 1 if there is no such topic.\n"
            "\nExamples:\n"
            "  later pause mail --for 10m\n"
            "  later pause new-mail --create\n",
    .run = pause_run,
};

static int resume_run(struct cli *cli, int argc, char **argv)
{
    cli_only_words(cli, argc, argv, 1, 1);
    return topic_verb(cli, argv[optind], "/resume", NULL, "resumed");
}

const struct command command_resume = {
    .name = "resume",
    .synopsis = "TOPIC",
    .summary = "Hand out a paused topic's jobs again",
    .help = "Example:\n"
            "  later resume mail\n",
    .run = resume_run,
};
