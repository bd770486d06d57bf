#include "server/config/laterd_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/typo.h"

const char laterd_help[] =
    "Usage: laterd [-c FILE] [--data-dir DIR] [--http ADDR:PORT[,DIALECT]]...\n"
    "              [--beanstalk ADDR:PORT]... [--sdmq ADDR:PORT]... [--no-persist]\n"
    "       laterd --beanstalkd [OPTIONS OF BEANSTALKD]\n"
    "\n"
    "A delay queue: hand it a job now, get it back at its due time, at least once.\n"
    "\n"
    "  -c, --config FILE    read this configuration; see laterd --print-config\n"
    "      --data-dir DIR   keep jobs here (default /var/lib/laterd)\n"
    "      --http ADDR:PORT[,DIALECT]\n"
    "                       listen here instead of where the configuration says; may be\n"
    "                       repeated. DIALECT owns the paths outside /v1: delay-queue\n"
    "                       (default), delayqueue-java, sdmq or none. Port 0 takes a free one;\n"
    "                       unix:/path[,DIALECT] is a unix socket\n"
    "      --beanstalk ADDR:PORT\n"
    "                       listen here for clients of beanstalkd (default 127.0.0.1:11300);\n"
    "                       may be repeated; unix:/path is a unix socket.\n"
    "                       --beanstalk none: nowhere; --http none likewise\n"
    "      --sdmq ADDR:PORT listen here for clients of sdmq, usually on port 6355 (default\n"
    "                       nowhere); may be repeated; unix:/path is a unix socket\n"
    "      --no-persist     keep nothing on disk: jobs are gone when laterd ends\n"
    "      --check-config   say whether the configuration is good, and exit\n"
    "      --print-config   print a commented sample with every key, and exit\n"
    "      --import-config FILE\n"
    "                       read the Go server's configuration (dialect delay-queue), print\n"
    "                       laterd's that does the same, and exit\n"
    "  -V, --version        print the version, and exit\n"
    "  -h, --help           print this, and exit\n"
    "      --beanstalkd     as the first argument: the others are those of beanstalkd;\n"
    "                       see laterd --beanstalkd -h\n"
    "\n"
    "Example: laterd --data-dir ./data        then: later push orders --delay 30m '{\"id\":7}'\n"
    "From beanstalkd: later import beanstalkd DIR brings its jobs over.\n"
    "Signals: SIGTERM and SIGINT end laterd, what is under way is answered first; a\n"
    "second one ends it at once.\n"
    "SIGUSR1: take no more jobs, and go on with those that are there.\n"
    "SIGHUP: read log_level and drain_seconds of the configuration again.\n"
    "More: laterd(8), later(1), http://127.0.0.1:9277/v1/openapi.json\n";

/* The options of the command line, which replace those of the file after that was read. */
struct given {
    const char *data_dir;
    struct {
        const char *at[CONFIG_LISTENERS_MAX + 1]; /* one too many is kept: config refuses it */
        unsigned count;
    } addresses[PROTOCOL_KINDS];
};

/* --data-dir overrides the file's, which is kept for the log. */
static enum err put_data_dir(struct config *config, const char *data_dir,
                             struct laterd_options *options, struct config_error *error)
{
    if (!data_dir[0] || strlen(data_dir) >= sizeof(config->data_dir)) {
        (void)snprintf(error->text, sizeof(error->text),
                       "--data-dir: the name of the directory must have 1 to %zu bytes",
                       sizeof(config->data_dir) - 1);
        return ERR_INVALID;
    }
    if (config->data_dir_given && strcmp(config->data_dir, data_dir) != 0)
        memcpy(options->file_data_dir, config->data_dir, sizeof(config->data_dir));
    memcpy(config->data_dir, data_dir, strlen(data_dir) + 1);
    return OK;
}

static enum err put_over(struct config *config, const struct given *given,
                         struct laterd_options *options, struct config_error *error)
{
    enum err err = given->data_dir ? put_data_dir(config, given->data_dir, options, error) : OK;
    for (enum protocol_kind kind = 0; kind < PROTOCOL_KINDS; kind++) {
        if (given->addresses[kind].count)
            config->listeners[kind].count = 0;
        for (unsigned i = 0; i < given->addresses[kind].count && !err; i++)
            err = config_add_listener(config, kind, given->addresses[kind].at[i], error);
    }
    options->sets_data_dir = given->data_dir || config->data_dir_given;
    return err ? err : config_check(config, error);
}

static enum err refuse(struct config_error *error, const char *text)
{
    (void)snprintf(error->text, sizeof(error->text), "%s", text);
    return ERR_INVALID;
}

/* What getopt answers for an option that has no letter. */
enum {
    LISTEN = 256, /* and the protocol */
    DATA_DIR = LISTEN + PROTOCOL_KINDS,
    BEANSTALKD,
    NO_PERSIST,
    CHECK,
    PRINT,
    IMPORT,
};

/* The long option that the `len` bytes of `word` are probably a typing mistake for, or NULL. */
static const char *meant_option(const struct option *options, const char *word, size_t len)
{
    struct typo typo;
    if (len < 3)
        return NULL;
    typo_begin(&typo, word + 2, len - 2);
    for (; options->name; options++)
        typo_add(&typo, options->name);
    return typo.meant;
}

/* `found`: getopt's result. One letter of several in `word` is named alone. */
static enum err refuse_option(struct config_error *error, int found, const char *word,
                              const struct option *options)
{
    char letter[] = {'-', (char)optopt, '\0'};
    bool alone = strncmp(word, "--", 2) != 0 && optopt > 0 && optopt < LISTEN;
    const char *name = alone ? letter : word;
    int len = (int)strcspn(name, "=");
    bool no_value = found != ':' && !alone && optopt != 0; /* it is known, and was given one */
    bool unknown = found != ':' && !no_value;
    const char *meant = unknown && !alone ? meant_option(options, name, (size_t)len) : NULL;
    int shown = len > 300 ? 300 : len;
    if (meant)
        (void)snprintf(error->text, sizeof(error->text),
                       "there is no option %.*s; did you mean --%s?", shown, name, meant);
    else
        (void)snprintf(error->text, sizeof(error->text), "%s%.*s%s; see laterd --help",
                       unknown ? "there is no option " : "", shown, name,
                       found == ':' ? " needs a value"
                       : no_value   ? " takes no value"
                                    : "");
    return ERR_INVALID;
}

static void add_address(struct given *given, enum protocol_kind kind, const char *address)
{
    if (given->addresses[kind].count <= CONFIG_LISTENERS_MAX)
        given->addresses[kind].at[given->addresses[kind].count++] = address;
}

enum err laterd_options_read(int argc, char **argv, struct config *config,
                             struct laterd_options *out_options, struct config_error *out_error)
{
    static const struct option long_options[] = {
        {"config", required_argument, NULL, 'c'},
        {"data-dir", required_argument, NULL, DATA_DIR},
        {"http", required_argument, NULL, LISTEN + PROTOCOL_HTTP},
        {"beanstalk", required_argument, NULL, LISTEN + PROTOCOL_BEANSTALK},
        {"sdmq", required_argument, NULL, LISTEN + PROTOCOL_SDMQ},
        {"beanstalkd", no_argument, NULL, BEANSTALKD},
        {"no-persist", no_argument, NULL, NO_PERSIST},
        {"check-config", no_argument, NULL, CHECK},
        {"print-config", no_argument, NULL, PRINT},
        {"import-config", required_argument, NULL, IMPORT},
        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct laterd_options options = {.wish = LATERD_RUN, .persist = true};
    struct given given = {.data_dir = NULL};
    int option;

    opterr = 0; /* getopt would begin its messages with the program's path */
    while ((option = getopt_long(argc, argv, ":c:hV", long_options, NULL)) != -1) {
        if (option >= LISTEN && option < LISTEN + PROTOCOL_KINDS) {
            add_address(&given, (enum protocol_kind)(option - LISTEN), optarg);
            continue;
        }
        switch (option) {
        case 'c':
            if (config_read(config, optarg, out_error))
                return ERR_INVALID;
            options.config_file = optarg;
            options.config_files++;
            break;
        case DATA_DIR: given.data_dir = optarg; break;
        case BEANSTALKD: return refuse(out_error, "--beanstalkd must be the first argument");
        case NO_PERSIST: options.persist = false; break;
        case CHECK: options.wish = LATERD_CHECK_CONFIG; break;
        case IMPORT:
            options.wish = LATERD_IMPORT_CONFIG;
            options.import_config = optarg;
            *out_options = options;
            return OK;
        case PRINT:
        case 'V':
        case 'h': /* other options do not matter */
            options.wish = option == PRINT ? LATERD_PRINT_CONFIG
                           : option == 'V' ? LATERD_SHOW_VERSION
                                           : LATERD_SHOW_HELP;
            *out_options = options;
            return OK;
        default: return refuse_option(out_error, option, argv[optind - 1], long_options);
        }
    }
    if (optind < argc) {
        (void)snprintf(out_error->text, sizeof(out_error->text),
                       "what is \"%.300s\"? A configuration is given with -c FILE, a directory for "
                       "the jobs with --data-dir DIR; see laterd --help",
                       argv[optind]);
        return ERR_INVALID;
    }
    enum err err = put_over(config, &given, &options, out_error);
    if (!err)
        *out_options = options;
    return err;
}
