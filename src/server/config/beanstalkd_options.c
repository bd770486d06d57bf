#include "server/config/beanstalkd_options.h"

#include <dirent.h>
#include <getopt.h>
#include <stdio.h>

enum {
    SEGMENT_ALIGN = 4096,
    SEGMENT_LEAST = 262144,
    SEGMENT_MOST = 1 << 30,
    MANY = 1000000, /* beanstalkd has no limits but those of the system */
    SYNC_MOST_MS = 86400 * 1000,
};

const char beanstalkd_help[] =
    "Use: beanstalkd [OPTIONS]      or: laterd --beanstalkd [OPTIONS]\n"
    "\n"
    "laterd as a replacement of beanstalkd, with beanstalkd's options:\n"
    " -b DIR   keep jobs in this directory (default is to keep them in memory alone)\n"
    " -f MS    answer when the system has a job, and sync every MS milliseconds (default is\n"
    "          50ms, at most a day); with -f0 a job is on disk before it is answered\n"
    " -F       never sync\n"
    " -l ADDR  listen on this address or host, or on unix:PATH (default is 0.0.0.0)\n"
    " -p PORT  listen on this port (default is 11300)\n"
    " -u USER  become this user, and its primary group\n"
    " -z BYTES the largest job (default is 65535); at most 67108864\n"
    " -s BYTES the size of each log file (default is 10485760); rounded up to a multiple of\n"
    "          4096, at least 262144 and at most 1073741824\n"
    " -v       show the version\n"
    " -V       log more: what laterd does; twice: everything\n"
    " -h       show this help\n"
    " -c, -n   nothing, as in beanstalkd\n"
    "and one of laterd's own:\n"
    " --http ADDR:PORT[,DIALECT]\n"
    "          speak HTTP here as well; may be repeated\n"
    "\n"
    "More: laterd(8)\n";

bool beanstalkd_wanted(int argc, char **argv)
{
    if (argc < 1)
        return false;
    const char *slash = strrchr(argv[0], '/');
    return strcmp(slash ? slash + 1 : argv[0], "beanstalkd") == 0 ||
           (argc > 1 && strcmp(argv[1], "--beanstalkd") == 0);
}

static void set_defaults(struct config *config)
{
    config->listeners[PROTOCOL_HTTP].count = 0;
    config->listeners[PROTOCOL_BEANSTALK].count = 1;
    config->durability = DURABILITY_INTERVAL;
    config->interval_us = 50000;
    config->segment_bytes = 10485760;
    config->job_bytes = 65535;
    config->log_level = LOG_WARN;
    config->connections = MANY;
    config->topics = MANY;
    config->waiters = MANY;
}

static enum err set_directory(struct config *config, const char *value, struct config_error *error)
{
    size_t len = strlen(value);
    if (len == 0 || len >= sizeof(config->data_dir)) {
        (void)snprintf(error->text, sizeof(error->text), "not a directory: %.300s", value);
        return ERR_INVALID;
    }
    memcpy(config->data_dir, value, len + 1);
    return OK;
}

/* Sets the value of -f MS, -z BYTES or -s BYTES, as `option` says. */
static enum err set_size(struct config *config, int option, const char *value,
                         struct beanstalkd_options *options, struct config_error *error)
{
    uint64_t number;
    if (!bytes_to_u64(bytes_str(value), &number) || number > INT64_MAX / 1000) {
        (void)snprintf(error->text, sizeof(error->text), "invalid size: %.300s", value);
        return ERR_INVALID;
    }
    if (option == 'f') {
        if (number > SYNC_MOST_MS)
            number = SYNC_MOST_MS;
        config->durability = number ? DURABILITY_INTERVAL : DURABILITY_SYNC;
        config->interval_us = (int64_t)number * 1000;
    } else if (option == 's') {
        if (number > SEGMENT_MOST)
            number = SEGMENT_MOST;
        if (number < SEGMENT_LEAST)
            number = SEGMENT_LEAST;
        number = (number + SEGMENT_ALIGN - 1) / SEGMENT_ALIGN * SEGMENT_ALIGN;
        config->segment_bytes = (int64_t)number;
    } else {
        if (number > CONFIG_BODY_MAX) {
            number = CONFIG_BODY_MAX;
            (void)snprintf(options->notice, sizeof(options->notice),
                           "maximum job size was set to %d: laterd writes a job in one piece, "
                           "and takes no larger one",
                           CONFIG_BODY_MAX);
        }
        config->job_bytes = (int64_t)number;
    }
    return OK;
}

/* "127.0.0.1" and "11300" are one address in laterd; "::1" needs its brackets. */
static enum err set_address(struct config *config, const char *host, const char *port,
                            struct config_error *error)
{
    bool local = strncmp(host, "unix:", 5) == 0;
    bool bare_v6 = !local && host[0] != '[' && strchr(host, ':');
    uint64_t number;
    if (!local && (!bytes_to_u64(bytes_str(port), &number) || number > 65535)) {
        (void)snprintf(error->text, sizeof(error->text), "invalid port: %.300s", port);
        return ERR_INVALID;
    }
    char *address = config->listeners[PROTOCOL_BEANSTALK].at[0].address;
    int len = snprintf(address, CONFIG_ADDRESS_MAX, "%s%s%s%s%s", bare_v6 ? "[" : "", host,
                       bare_v6 ? "]" : "", local ? "" : ":", local ? "" : port);
    if (len < 0 || len >= CONFIG_ADDRESS_MAX) {
        (void)snprintf(error->text, sizeof(error->text), "the address is too long: %.300s", host);
        return ERR_INVALID;
    }
    return OK;
}

static void add_verbosity(struct config *config)
{
    if (config->log_level > LOG_DEBUG)
        config->log_level = (enum log_level)(config->log_level - 1);
}

static enum err refuse_option(int option, char **argv, struct config_error *error)
{
    const char *why = option == ':' ? "flag requires an argument" : "unknown flag";
    if (optopt > 0 && optopt < 256) /* a letter; getopt does not return other options */
        (void)snprintf(error->text, sizeof(error->text), "%s: -%c", why, optopt);
    else
        (void)snprintf(error->text, sizeof(error->text), "%s: %.300s", why, argv[optind - 1]);
    return ERR_INVALID;
}

enum err beanstalkd_options_read(int argc, char **argv, struct config *config,
                                 struct beanstalkd_options *out_options,
                                 struct config_error *out_error)
{
    enum { HTTP = 256, BEANSTALKD };
    static const struct option long_options[] = {
        {"http", required_argument, NULL, HTTP},
        {"beanstalkd", no_argument, NULL, BEANSTALKD},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    struct beanstalkd_options options = {.wish = BEANSTALKD_RUN};
    const char *host = "0.0.0.0", *port = "11300";
    enum err err = OK;
    int option;

    set_defaults(config);
    opterr = 0; /* the words are ours */
    while (!err &&
           (option = getopt_long(argc, argv, ":b:f:Fl:p:u:z:s:vVhcn", long_options, NULL)) != -1) {
        switch (option) {
        case 'b':
            options.persist = true;
            err = set_directory(config, optarg, out_error);
            break;
        case 'f':
        case 'z':
        case 's': err = set_size(config, option, optarg, &options, out_error); break;
        case 'F':
            config->durability = DURABILITY_OS;
            config->interval_us = 0;
            break;
        case 'l': host = optarg; break;
        case 'p': port = optarg; break;
        case 'u': options.user = optarg; break;
        case 'V': add_verbosity(config); break;
        case HTTP: err = config_add_listener(config, PROTOCOL_HTTP, optarg, out_error); break;
        case 'c': /* as in beanstalkd, these mean nothing any more */
        case 'n':
        case BEANSTALKD: break;
        case 'h':
        case 'v':
            options.wish = option == 'h' ? BEANSTALKD_SHOW_HELP : BEANSTALKD_SHOW_VERSION;
            *out_options = options;
            return OK; /* other options do not matter */
        default: err = refuse_option(option, argv, out_error); break;
        }
    }
    if (!err && optind < argc) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "unknown argument: %.300s",
                       argv[optind]);
        err = ERR_INVALID;
    }
    if (!err)
        err = set_address(config, host, port, out_error);
    if (!err)
        *out_options = options;
    return err;
}

bool beanstalkd_binlog_find(const char *directory, char *out_name, size_t name_bytes)
{
    DIR *dir = opendir(directory);
    bool found = false;
    uint64_t number;
    if (!dir)
        return false; /* opening it later reports the error */
    for (struct dirent *entry = readdir(dir); entry && !found; entry = readdir(dir)) {
        found = strncmp(entry->d_name, "binlog.", 7) == 0 &&
                bytes_to_u64(bytes_str(entry->d_name + 7), &number);
        if (found)
            (void)snprintf(out_name, name_bytes, "%s", entry->d_name);
    }
    (void)closedir(dir);
    return found;
}
