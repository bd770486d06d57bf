/*
 * later topic: the settings of a topic. `set` changes what its options name and leaves the rest: it
 * reads the settings and writes them on condition that their version is unchanged, so that a change
 * by another client in between is reported (exit 3) instead of lost.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "cli/show.h"
#include "cli/text.h"

enum {
    PUT_SEEN_TRIES = 20, /* 2 s, in which every daemon on Redis learns of a change */
    PRECONDITION_FAILED = 412
};

/* Options without a letter. */
enum {
    O_SUCCESS_BODY = 256,
    O_SUCCESS_STATUS,
    O_TARGET_TIMEOUT,
    O_CONCURRENCY,
    O_RATE,
    O_BURST,
    O_KEY_CONCURRENCY,
    O_KEY_RATE,
    O_ORDER,
    O_JITTER,
    O_PAUSED,
    O_RESUMED,
    O_IF_VERSION
};

struct topic {
    struct cli *cli;
    const char *verb, *name;
    const char *file;       /* of settings; NULL: those that there are */
    const char *if_version; /* as given; NULL: not given */
    json_t *changes;        /* of the settings */
    json_t *target;         /* changes of their target */
    char header[64];        /* cli::header */
    bool yes;
};

/* What there is, and its version; 0: none. */
struct found {
    json_t *settings;
    json_int_t version;
};

static const struct option options[] = {
    {"file", required_argument, NULL, 'f'},
    {"url", required_argument, NULL, 'u'},
    {"header", required_argument, NULL, 'H'},
    {"sign", required_argument, NULL, 'S'},
    {"success-body", required_argument, NULL, O_SUCCESS_BODY},
    {"success-status", required_argument, NULL, O_SUCCESS_STATUS},
    {"target-timeout", required_argument, NULL, O_TARGET_TIMEOUT},
    {"retry", required_argument, NULL, 'r'},
    {"attempts", required_argument, NULL, 'a'},
    {"ttr", required_argument, NULL, 'T'},
    {"jitter", required_argument, NULL, O_JITTER},
    {"concurrency", required_argument, NULL, O_CONCURRENCY},
    {"rate", required_argument, NULL, O_RATE},
    {"burst", required_argument, NULL, O_BURST},
    {"key-concurrency", required_argument, NULL, O_KEY_CONCURRENCY},
    {"key-rate", required_argument, NULL, O_KEY_RATE},
    {"order", required_argument, NULL, O_ORDER},
    {"paused", no_argument, NULL, O_PAUSED},
    {"resumed", no_argument, NULL, O_RESUMED},
    {"if-version", required_argument, NULL, O_IF_VERSION},
    {"yes", no_argument, NULL, 'y'},
    CLI_OPTIONS,
};

static void set_text(const struct topic *topic, json_t *object, const char *key, const char *option)
{
    json_object_set_new(object, key, cli_string(topic->cli, option, optarg));
}

static json_t *number(const struct topic *topic, const char *option, uint64_t max)
{
    return json_integer((json_int_t)cli_number(topic->cli, option, optarg, max));
}

/* A number such as 0.2; the server has its range. */
static json_t *share(const struct topic *topic, const char *option)
{
    char *end;
    double number = strtod(optarg, &end);
    json_t *share = *optarg && !*end ? json_real(number) : NULL; /* NULL: infinite, too */
    if (!share)
        cli_bad_value(topic->cli, "%s '%s' is not a number such as 0.2", option, optarg);
    return share;
}

/* A member that is an object or an array, made if it is not there. */
static json_t *inner(json_t *object, const char *key, json_t *(*make)(void))
{
    json_t *there = json_object_get(object, key);
    if (!there) {
        there = make();
        json_object_set_new(object, key, there);
    }
    return there;
}

static void target_option(struct topic *topic, int c)
{
    json_t *target = topic->target;
    switch (c) {
    case 'u': set_text(topic, target, "url", "--url"); break;
    case 'H': cli_header(topic->cli, inner(target, "headers", json_object), optarg); break;
    case 'S':
        json_array_append_new(inner(target, "sign", json_array),
                              cli_string(topic->cli, "--sign", optarg));
        break;
    case O_SUCCESS_BODY:
        set_text(topic, inner(target, "success", json_object), "body", "--success-body");
        break;
    case O_SUCCESS_STATUS:
        set_text(topic, inner(target, "success", json_object), "status", "--success-status");
        break;
    case O_TARGET_TIMEOUT:
        json_object_set_new(target, "timeout",
                            cli_duration(topic->cli, "--target-timeout", optarg));
        break;
    default: break;
    }
}

static void pause_option(const struct topic *topic, bool paused)
{
    const json_t *before = json_object_get(topic->changes, "paused");
    if (before && json_is_true(before) != paused)
        cli_usage(topic->cli, "--paused or --resumed, not both");
    json_object_set_new(topic->changes, "paused", json_boolean(paused));
}

static void options_of(struct topic *topic, int argc, char **argv)
{
    json_t *changes = topic->changes;
    for (int c; (c = cli_option(topic->cli, argc, argv, options)) != -1;) {
        switch (c) {
        case 'f': topic->file = optarg; break;
        case 'r': json_object_set_new(changes, "retry", cli_retry(topic->cli, optarg)); break;
        case 'a': json_object_set_new(changes, "attempts", number(topic, "--attempts", 65)); break;
        case 'T':
            json_object_set_new(changes, "ttr", cli_duration(topic->cli, "--ttr", optarg));
            break;
        case O_JITTER: json_object_set_new(changes, "jitter", share(topic, "--jitter")); break;
        case O_CONCURRENCY:
            json_object_set_new(changes, "concurrency", number(topic, "--concurrency", UINT32_MAX));
            break;
        case O_RATE: set_text(topic, changes, "rate", "--rate"); break;
        case O_BURST:
            json_object_set_new(changes, "burst", number(topic, "--burst", UINT32_MAX));
            break;
        case O_KEY_CONCURRENCY:
            json_object_set_new(changes, "key_concurrency",
                                number(topic, "--key-concurrency", UINT32_MAX));
            break;
        case O_KEY_RATE: set_text(topic, changes, "key_rate", "--key-rate"); break;
        case O_ORDER: set_text(topic, changes, "order", "--order"); break;
        case O_PAUSED:
        case O_RESUMED: pause_option(topic, c == O_PAUSED); break;
        case O_IF_VERSION: topic->if_version = optarg; break;
        case 'y': topic->yes = true; break;
        default: target_option(topic, c); break;
        }
    }
}

/* ---- the calls ---- */

static int call(struct topic *topic, const char *method, const char *after, json_t *body,
                json_t **out_answer)
{
    return cli_call_topic(topic->cli, method, topic->name, after, body, out_answer);
}

/* A topic that is not there has no settings, which is no error here. */
static int find(struct topic *topic, struct found *out_found)
{
    json_t *answer = NULL;
    topic->cli->expects = "not_found";
    int code = call(topic, "GET", "", NULL, &answer);
    topic->cli->expects = NULL;
    *out_found = (struct found){0};
    if (code != EXIT_DONE)
        return code == EXIT_NOTHING ? EXIT_DONE : code;
    out_found->settings = json_incref(json_object_get(answer, "settings"));
    out_found->version = json_integer_value(json_object_get(answer, "version"));
    json_decref(answer);
    return EXIT_DONE;
}

/* For a verb that has nothing to do without the topic: its name may be mistyped. */
static int check_there(struct topic *topic)
{
    json_t *answer = NULL;
    int code = call(topic, "GET", "", NULL, &answer);
    json_decref(answer);
    return code;
}

static json_t *read_file(const struct topic *topic)
{
    bool standard = strcmp(topic->file, "-") == 0;
    FILE *file = standard ? stdin : fopen(topic->file, "re");
    json_error_t error;
    if (!file)
        cli_bad_value(topic->cli, "cannot read %s: %s", topic->file, strerror(errno));
    json_t *settings = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    if (!standard)
        (void)fclose(file); /* only read from */
    if (!json_is_object(settings))
        cli_bad_value(topic->cli, "%s: this is not an object of JSON%s%s",
                      standard ? "standard input" : topic->file, settings ? "" : ": ",
                      settings ? "" : error.text);
    return settings;
}

/* Sets the condition: the version that `set` has read, or that of --if-version. */
static void set_condition(struct topic *topic, json_int_t version)
{
    if (topic->if_version) {
        unsigned long long asked =
            cli_number(topic->cli, "--if-version", topic->if_version, INT64_MAX);
        version = (json_int_t)asked;
    } else if (topic->file) {
        return; /* a file replaces all settings */
    }
    if (version)
        (void)snprintf(topic->header, sizeof(topic->header), "If-Match: \"%lld\"",
                       (long long)version);
    else
        (void)snprintf(topic->header, sizeof(topic->header), "If-None-Match: *");
    topic->cli->header = topic->header;
}

static void print_settings(const struct found *found)
{
    if (!found->settings) {
        (void)printf("no settings\n");
        return;
    }
    (void)printf("version %lld\n", (long long)found->version);
    (void)json_dumpf(found->settings, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    (void)putchar('\n');
}

static void wait_a_little(void)
{
    struct timespec span = {.tv_nsec = 100000000};
    (void)nanosleep(&span, NULL); /* shorter does no harm */
}

/*
 * Prints the settings as the server has them now, normalized (10m as 600s) and perhaps changed by
 * others. With several daemons on one Redis, this one may not have them yet.
 */
static int print_what_holds(struct topic *topic, json_int_t version)
{
    struct found found;
    for (unsigned tries = 1;; tries++) {
        int code = find(topic, &found);
        if (code != EXIT_DONE)
            return code;
        if (found.version >= version || tries == PUT_SEEN_TRIES)
            break;
        json_decref(found.settings);
        wait_a_little();
    }
    if (found.version < version)
        (void)printf("version %lld\n", (long long)version); /* it is set; we do not see it */
    else
        print_settings(&found);
    json_decref(found.settings);
    return EXIT_DONE;
}

/* Of a change. */
static int print_answer(struct topic *topic, json_t *answer)
{
    json_int_t version = json_integer_value(json_object_get(answer, "version"));
    int code = EXIT_DONE;
    if (topic->cli->json)
        cli_print_json(answer);
    else if (version)
        code = print_what_holds(topic, version);
    else
        (void)printf("no settings\n");
    json_decref(answer);
    return code;
}

/* The server's words on that are of HTTP's headers. */
static void report_other_version(struct topic *topic)
{
    struct cli *cli = topic->cli;
    struct found found = {0};
    cli->quiet = true;
    int code = topic->if_version ? find(topic, &found) : EXIT_DONE;
    cli->quiet = false;
    cli->subject = topic->name;
    if (!topic->if_version)
        cli_message(cli, "somebody else has set them meanwhile, nothing was changed: run it again");
    else if (code == EXIT_DONE && found.version)
        cli_message(cli, "the settings have version %lld, not %s", (long long)found.version,
                    topic->if_version);
    else
        cli_message(cli, "the settings do not have version %s", topic->if_version);
    cli->subject = NULL;
    json_decref(found.settings);
}

/* Writes all settings, on the condition that set_condition() has set. */
static int put(struct topic *topic, json_t *settings)
{
    struct cli *cli = topic->cli;
    json_t *answer = NULL;
    cli->expects = "version";
    int code = call(topic, "PUT", "", settings, &answer);
    cli->expects = cli->header = NULL;
    if (code == EXIT_CONFLICT && cli->refused_status == PRECONDITION_FAILED)
        report_other_version(topic);
    return code == EXIT_DONE ? print_answer(topic, answer) : code;
}

static void apply(struct topic *topic, json_t *settings)
{
    if (json_is_false(json_object_get(topic->changes, "paused"))) {
        json_object_del(settings, "paused");
        json_object_del(settings, "paused_why");
        json_object_del(topic->changes, "paused");
    }
    json_object_update(settings, topic->changes);
    if (json_object_size(topic->target) == 0)
        return;
    json_t *target = inner(settings, "target", json_object);
    if (!json_object_get(target, "type"))
        json_object_set_new(target, "type", json_string("http"));
    /* Two options set one member; each leaves the other's part unchanged. */
    json_t *success = json_object_get(topic->target, "success");
    if (success)
        json_object_update_missing(success, json_object_get(target, "success"));
    json_object_update(target, topic->target);
}

static int set_run(struct topic *topic)
{
    struct found found = {0};
    if (!topic->file && json_object_size(topic->changes) + json_object_size(topic->target) == 0)
        cli_usage(topic->cli, "say what to set, such as --retry alipay, or give --file");
    int code = topic->file ? EXIT_DONE : find(topic, &found);
    if (code != EXIT_DONE)
        return code;
    json_t *settings = topic->file      ? read_file(topic)
                       : found.settings ? json_deep_copy(found.settings)
                                        : json_object();
    apply(topic, settings);
    set_condition(topic, found.version);
    code = put(topic, settings);
    json_decref(found.settings);
    return code;
}

static int unset_run(struct topic *topic)
{
    int code = check_there(topic);
    if (code != EXIT_DONE)
        return code;
    if (topic->if_version)
        set_condition(topic, 0);
    return put(topic, json_object());
}

static int show_run(struct topic *topic)
{
    json_t *answer = NULL;
    int code = call(topic, "GET", "", NULL, &answer);
    if (code != EXIT_DONE)
        return code;
    struct found found = {.settings = json_object_get(answer, "settings"),
                          .version = json_integer_value(json_object_get(answer, "version"))};
    bool there = found.settings;
    if (topic->cli->json)
        cli_print_stats(answer);
    else
        print_settings(&found);
    json_decref(answer);
    return there ? EXIT_DONE : EXIT_NOTHING;
}

/* The server says the same of a topic that is not there. */
static int report_no_target(struct topic *topic)
{
    struct cli *cli = topic->cli;
    int code = check_there(topic);
    if (code != EXIT_DONE)
        return code;
    cli->subject = topic->name;
    cli_message(cli,
                "the topic has no target with a URL (no_target): set one by `later topic set`");
    cli->subject = NULL;
    return EXIT_CONFLICT;
}

static int test_run(struct topic *topic, const char *body)
{
    json_t *answer = NULL, *fields = json_object();
    if (body)
        json_object_set_new(fields, "body", cli_string(topic->cli, "BODY", body));
    topic->cli->wait_us = INT64_C(600) * 1000000; /* as long as a target may take */
    topic->cli->expects = "no_target";
    int code = call(topic, "POST", "/test", fields, &answer);
    topic->cli->expects = NULL;
    if (code == EXIT_CONFLICT && topic->cli->expected)
        return report_no_target(topic);
    if (code != EXIT_DONE)
        return code;
    bool delivered = strcmp(show_string(answer, "outcome"), "delivered") == 0;
    if (topic->cli->json) {
        cli_print_json(answer);
    } else {
        static const char *const keys[] = {"outcome", "code", "reason",
                                           "address", "ms",   "response"};
        struct buf out = {0};
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
            struct buf value = {0};
            if (strcmp(keys[i], "response") == 0)
                show_response(answer, &value);
            else
                show_value(answer, keys[i], &value);
            if (value.len) {
                buf_addf(&out, "%-9s ", keys[i]);
                text_add_safe_lines(&out, buf_bytes(&value));
                buf_add_char(&out, '\n');
            }
            buf_fini(&value);
        }
        cli_flush(&out);
        buf_fini(&out);
    }
    json_decref(answer);
    return delivered ? EXIT_DONE : EXIT_REFUSED;
}

/* `later delete-topic` does that, with a confirmation. */
static int delete_run(struct topic *topic)
{
    static char name[] = "delete-topic", yes[] = "--yes", end[] = "--";
    char *words[] = {name, topic->yes ? yes : end, topic->yes ? end : (char *)topic->name,
                     topic->yes ? (char *)topic->name : NULL, NULL};
    optind = 0;
    return command_delete_topic.run(topic->cli, topic->yes ? 4 : 3, words);
}

/* Else `unset --url` would take away all settings. */
static void check_options(const struct topic *topic)
{
    bool changes =
        topic->file || json_object_size(topic->changes) > 0 || json_object_size(topic->target) > 0;
    if (strcmp(topic->verb, "set") == 0)
        return;
    if (changes)
        cli_usage(topic->cli, "options for settings are those of set, not of %s%s", topic->verb,
                  strcmp(topic->verb, "unset") == 0 ? ", which takes all settings away" : "");
    if (topic->if_version && strcmp(topic->verb, "unset") != 0)
        cli_usage(topic->cli, "--if-version is for set and unset, not for %s", topic->verb);
}

static bool is_verb(const char *word)
{
    static const char *const verbs[] = {"set", "show", "unset", "test", "delete"};
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(word, verbs[i]) == 0)
            return true;
    }
    return false;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct topic topic = {.cli = cli, .changes = json_object(), .target = json_object()};
    int code = EXIT_USAGE;
    options_of(&topic, argc, argv);
    if (argc - optind == 1 && !is_verb(argv[optind]))
        cli_usage(cli, "set, show, unset, test or delete '%s'?", argv[optind]);
    cli_words(cli, argc, argv, 2, 3);
    topic.verb = argv[optind];
    topic.name = argv[optind + 1];
    const char *body = argc - optind > 2 ? argv[optind + 2] : NULL;
    check_options(&topic);
    if (body && strcmp(topic.verb, "test") != 0)
        cli_usage(cli, "one topic at a time");
    if (strcmp(topic.verb, "set") == 0)
        code = set_run(&topic);
    else if (strcmp(topic.verb, "show") == 0)
        code = show_run(&topic);
    else if (strcmp(topic.verb, "unset") == 0)
        code = unset_run(&topic);
    else if (strcmp(topic.verb, "test") == 0)
        code = test_run(&topic, body);
    else if (strcmp(topic.verb, "delete") == 0)
        code = delete_run(&topic);
    else
        cli_usage(cli, "there is set, show, unset, test and delete, not '%s'", topic.verb);
    json_decref(topic.changes);
    json_decref(topic.target);
    return code;
}

const struct command command_topic = {
    .name = "topic",
    .synopsis = "set|show|unset|test|delete [options] TOPIC [BODY]",
    .summary = "Set or show a topic's settings: target, retry schedule, limits",
    .help =
        "  -r, --retry WHAT          waits such as 1m,10m, or a name: alipay, alipay-4m,\n"
        "                            zing, notify, standard, rocketmq\n"
        "  -a, --attempts N          at most N attempts, then it is buried\n"
        "  -T, --ttr D               of jobs pushed without one\n"
        "  -u, --url URL             send the topic's jobs there when they are due\n"
        "  -H, --header 'N: V'       sent with each; may be given several times, all at once:\n"
        "                            they take the place of those that there were\n"
        "  -S, --sign REF            $NAME or file:/path of a secret, newest first; likewise\n"
        "      --success-body WORD   the answer that counts as received\n"
        "      --success-status S    2xx, 200-204 or 202\n"
        "      --target-timeout D    of one exchange\n"
        "      --concurrency N, --rate 100/s, --burst N, --order key, --jitter 0.2\n"
        "      --key-concurrency N, --key-rate 5/s   of the jobs of one key\n"
        "      --paused, --resumed   nothing is sent, or again\n"
        "  -f, --file FILE           all settings as JSON, from a file or - for standard input\n"
        "      --if-version N        only if they have this version (exit 3 else)\n"
        "  -y, --yes                 delete: do not ask\n"
        "\nset changes what its options name and leaves the rest; with --file it replaces all.\n"
        "It prints the settings that hold then.\n"
        "--file also sets what has no option: a broker as the target, bury_on, cloudevents, ca.\n"
        "unset takes all settings away and leaves the jobs; delete is `later delete-topic`.\n"
        "test sends one delivery now and shows what came back (exit 4 if it was not received).\n"
        "unset and test of a topic that is not there: exit 1. test without a target: exit 3.\n"
        "\nExamples:\n"
        "  later topic set pay --url https://shop.example/hook --retry alipay --sign '$HOOK'\n"
        "  later topic set mail --attempts 5\n"
        "  later topic show pay\n"
        "  later topic test pay '{\"order\":1}'\n"
        "  echo '{\"target\":{\"type\":\"nats\",\"broker\":\"bus\",\"subject\":\"pay\"}}' |\n"
        "      later topic set pay --file -\n",
    .run = run,
};
