#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/typo.h"
#include "cli/raw_json.h"
#include "cli/text.h"

static void help(const struct command *command)
{
    bool asks = !command->offline;
    (void)printf(
        "usage: later %s%s%s\n\n%s.\n\n%s\n"
        "Also: %s-j, --json         output for programs\n"
        "%s"
        "      -h, --help         this text\n%s",
        command->name, *command->synopsis ? " " : "", command->synopsis, command->summary,
        command->help,
        asks ? "-s, --server URL   the server (LATER_SERVER; http://127.0.0.1:9277)\n      " : "",
        asks ? "      -t, --timeout D    wait at most D for an answer (10s)\n" : "",
        asks ? access_help : "");
}

/* How many long options begin like `word` ("--de" or "--de=5"), which getopt lets people cut. */
static unsigned meant(const struct option *options, const char *word)
{
    unsigned count = 0;
    size_t len = strcspn(word + 2, "=");
    for (const struct option *at = options; at->name; at++)
        count += strncmp(at->name, word + 2, len) == 0;
    return count;
}

/* Prints getopt's error in one line, and ends the program. */
_Noreturn static void bad_option(const struct cli *cli, char **argv, const struct option *options,
                                 int found)
{
    const char *word = argv[optind - 1];
    if (found == ':')
        cli_usage(cli, "%s needs a value", word);
    for (const struct option *at = options; at->name && optopt != 0; at++) {
        if (at->val == optopt) /* a known letter: its value is wrong */
            cli_usage(cli, "--%s takes no value", at->name);
    }
    if (optopt != 0)
        cli_usage(cli, "there is no option -%c", optopt);
    if (meant(options, word) > 1)
        cli_usage(cli, "%s could be several options: write it out", word);
    size_t len = strcspn(word, "=");
    struct typo typo;
    typo_begin(&typo, word + 2, len > 2 ? len - 2 : 0);
    for (const struct option *at = options; at->name && len > 2; at++)
        typo_add(&typo, at->name);
    if (typo.meant)
        cli_usage(cli, "there is no option %.*s; did you mean --%s?", (int)len, word, typo.meant);
    cli_usage(cli, "there is no option %.*s", (int)len, word);
}

static void take_timeout(struct cli *cli, const char *text)
{
    cli->timeout_us = cli_duration_us(cli, "--timeout", text);
    if (cli->timeout_us == 0)
        cli_bad_value(
            cli, "--timeout %s leaves no time for an answer: write a duration such as 10s", text);
}

/* Of what getopt has read: a refusal by the server names it. */
static void note_given(struct cli *cli, int option)
{
    for (size_t i = 0; cli->options[i].name; i++) {
        CHECK(i < GIVEN_ROOM);
        if (cli->options[i].val == option)
            cli->given[i] = optarg;
    }
}

int cli_option(struct cli *cli, int argc, char **argv, const struct option *options)
{
    /* '+': options for all commands end at the command; ':': getopt prints nothing. */
    char shorts[80] = "+:";
    size_t len = 2;
    if (cli->command) {
        memcpy(shorts, ":", 2);
        len = 1;
    }
    for (const struct option *at = options; at->name; at++) {
        if (at->val > 127) /* has no short form */
            continue;
        CHECK(len + 3 < sizeof(shorts));
        shorts[len++] = (char)at->val;
        if (at->has_arg == required_argument)
            shorts[len++] = ':';
    }
    if (cli->options != options)
        memset(cli->given, 0, sizeof(cli->given));
    cli->options = options;
    for (;;) {
        int option = getopt_long(argc, argv, shorts, options, NULL);
        note_given(cli, option);
        switch (option) {
        case 's': access_server(&cli->access, optarg); break;
        case 'j': cli->json = true; break;
        case 't': take_timeout(cli, optarg); break;
        case 'h':
            if (!cli->command)
                return option; /* main has the list of commands */
            help(cli->command);
            cli_end_shown(cli);
        case 'V': cli_show_version(cli);
        case '?':
        case ':': bad_option(cli, argv, options, option);
        default:
            if (option < ACCESS_CACERT)
                return option;
            access_option(&cli->access, option, optarg);
        }
    }
}

static void print_message(const struct cli *cli, const char *format, va_list args)
{
    (void)fflush(stdout); /* so that the two streams come in order on a terminal */
    (void)fprintf(stderr, "later%s%s: ", cli->command ? " " : "",
                  cli->command ? cli->command->name : "");
    if (cli->subject && *cli->subject) {
        struct buf name = {0};
        text_add_safe(&name, bytes_str(cli->subject));
        (void)fprintf(stderr, "%.*s: ", (int)name.len, name.at ? name.at : "");
        buf_fini(&name);
    }
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
}

void cli_message(const struct cli *cli, const char *format, ...)
{
    va_list args;
    if (cli->quiet)
        return;
    va_start(args, format);
    print_message(cli, format, args);
    va_end(args);
}

void cli_warn(const struct cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message(cli, format, args);
    va_end(args);
}

int cli_cannot_open(const struct cli *cli, const char *path)
{
    int why = errno;
    cli_message(cli, "cannot open %s: %s%s", path, strerror(why),
                why == EACCES || why == EPERM ? "; run it as laterd's user, or as root" : "");
    return why == ENOENT || why == ENOTDIR ? EXIT_NOTHING : EXIT_REFUSED;
}

void cli_usage(const struct cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message(cli, format, args);
    va_end(args);
    if (cli->command)
        (void)fprintf(stderr, "usage: later %s%s%s\n       later %s --help has examples\n",
                      cli->command->name, *cli->command->synopsis ? " " : "",
                      cli->command->synopsis, cli->command->name);
    else
        (void)fputs("usage: later [--server URL] [--json] [--timeout D] COMMAND [options] …\n"
                    "       later --help lists the commands\n",
                    stderr);
    exit(EXIT_USAGE);
}

void cli_bad_value(const struct cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_message(cli, format, args);
    va_end(args);
    exit(EXIT_USAGE);
}

void cli_words(const struct cli *cli, int argc, char **argv, int min, int max)
{
    if (argc - optind < min) {
        struct buf name = {0};
        text_add_argument(&name, cli->command->synopsis, (unsigned)(argc - optind));
        cli_usage(cli, "%.*s is missing", (int)name.len, name.at ? name.at : "");
    }
    if (argc - optind > max)
        cli_usage(cli, "one word too many: '%s'", argv[optind + max]);
}

void cli_only_words(struct cli *cli, int argc, char **argv, int min, int max)
{
    static const struct option options[] = {CLI_OPTIONS};
    while (cli_option(cli, argc, argv, options) != -1)
        continue; /* it handles them */
    cli_words(cli, argc, argv, min, max);
}

void cli_add_json(const json_t *value, struct buf *out)
{
    const json_t *body = json_object_get(value, "body_json");
    if (body) {
        json_t *rest = json_copy((json_t *)(uintptr_t)value); /* it changes nothing in it */
        (void)json_object_del(rest, "body_json");             /* it is there */
        raw_json_add_object(out, rest, "body",
                            bytes_of(json_string_value(body), json_string_length(body)));
        json_decref(rest);
    } else {
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        CHECK(text);
        buf_add_str(out, text);
        free(text); /* jansson's */
    }
    buf_add_char(out, '\n');
}

void cli_print_json(const json_t *value)
{
    struct buf out = {0};
    cli_add_json(value, &out);
    (void)fwrite(out.at, 1, out.len, stdout); /* main looks at ferror at the end */
    buf_fini(&out);
}

void cli_print_stats(const json_t *value)
{
    (void)json_dumpf(value, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15));
    (void)putchar('\n');
}

void cli_flush(struct buf *out)
{
    if (out->len > 0)
        (void)fwrite(out->at, 1, out->len, stdout); /* main looks at ferror at the end */
    (void)fflush(stdout);
    out->len = 0;
}

bool cli_shown(const struct cli *cli)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    cli_message(cli, "cannot write the output");
    return false;
}

void cli_end_shown(const struct cli *cli)
{
    exit(cli_shown(cli) ? EXIT_DONE : EXIT_REFUSED);
}

void cli_show_version(const struct cli *cli)
{
    (void)printf("later %s\n", LATERD_VERSION);
    cli_end_shown(cli);
}
