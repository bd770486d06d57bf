#include "laterd/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "laterd/complain.h"
#include "laterd/engine.h"
#include "os/listen.h"
#include "os/zone.h"
#include "server/config/beanstalkd_options.h"
#include "server/config/import_config.h"
#include "server/config/laterd_options.h"

int command_line_failed(const struct command_line *line, int beanstalkd_status)
{
    return line->as_beanstalkd ? beanstalkd_status : EXIT_FAILURE;
}

/* Prints laterd's configuration for one of the Go server's; an exit status. */
static int import_config(const char *path)
{
    struct buf out = {0};
    struct config_error error;
    enum err err = import_config_file(path, &out, &error);
    if (err)
        complain("%s", error.text);
    else
        (void)fwrite(out.at, 1, out.len, stdout);
    buf_fini(&out);
    return err == ERR_INVALID ? EXIT_WRONG_CONFIG : err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void print_sample(void)
{
    struct buf sample = {0};
    config_print(&sample);
    (void)fwrite(sample.at, 1, sample.len, stdout);
    buf_fini(&sample);
}

enum { LISTENER_TEXT_MAX = CONFIG_ADDRESS_MAX + 256 };

/* "FILE:LINE: server.http = ADDRESS", or "--http ADDRESS". */
static const char *listener_text(enum protocol_kind kind, const struct config_listener *listener,
                                 char room[static LISTENER_TEXT_MAX])
{
    bool from_file = listener->place.path;
    (void)snprintf(room, LISTENER_TEXT_MAX, "%s%s%s%s%s", config_place_text(listener->place).text,
                   from_file ? "server." : "--", protocols[kind].option, from_file ? " = " : " ",
                   listener->address);
    return room;
}

static enum err check_address(enum protocol_kind kind, const struct config_listener *listener)
{
    char text[LISTENER_TEXT_MAX];
    const char *port = protocols[kind].port;
    enum err err = listen_check(listener->address);
    if (err)
        complain("%s: this is not an address to listen on: write 127.0.0.1:%s, "
                 "[::1]:%s, 0.0.0.0:%s for all of this machine's, or unix:/path (ports are 0 to "
                 "65535)",
                 listener_text(kind, listener, text), port, port, port);
    return err;
}

/* The second of the two cannot be opened: the system would say so, but --check-config opens
   nothing. Port 0 is another port each time. */
static bool is_same_address(const struct config_listener *a, const struct config_listener *b)
{
    const char *port = strrchr(a->address, ':');
    bool is_path = strncmp(a->address, "unix:", strlen("unix:")) == 0;
    return strcmp(a->address, b->address) == 0 && (is_path || !port || strcmp(port, ":0") != 0);
}

/* Compares a listener with those before it. ERR_INVALID: one has the same address. */
static enum err check_twice(const struct config *config, enum protocol_kind kind, unsigned at)
{
    const struct config_listener *listener = &config->listeners[kind].at[at];
    for (enum protocol_kind other = 0; other <= kind; other++) {
        const struct config_listeners *others = &config->listeners[other];
        for (unsigned i = 0; i < (other == kind ? at : others->count); i++) {
            if (!is_same_address(listener, &others->at[i]))
                continue;
            char text[LISTENER_TEXT_MAX];
            bool swap = !listener->place.path && others->at[i].place.path; /* it is the default */
            complain("%s: server.%s has this address, too: give one of the two another port",
                     swap ? listener_text(other, &others->at[i], text)
                          : listener_text(kind, listener, text),
                     protocols[swap ? kind : other].option);
            return ERR_INVALID;
        }
    }
    return OK;
}

static enum err check_addresses(const struct config *config)
{
    enum err err = OK;
    for (enum protocol_kind kind = 0; kind < PROTOCOL_KINDS; kind++) {
        const struct config_listeners *listeners = &config->listeners[kind];
        for (unsigned i = 0; i < listeners->count && !err; i++)
            err = check_address(kind, &listeners->at[i]);
    }
    return err;
}

/* Not with sockets of the service manager: they take the place of addresses, which are not opened
 * then. */
static enum err check_all_twice(const struct command_line *line, const struct config *config)
{
    enum err err = OK;
    if (line->passed)
        return OK;
    for (enum protocol_kind kind = 0; kind < PROTOCOL_KINDS; kind++) {
        for (unsigned i = 0; i < config->listeners[kind].count && !err; i++)
            err = check_twice(config, kind, i);
    }
    return err;
}

/* As far as the configuration itself says. */
static enum err check_words(const struct command_line *line, const struct config *config)
{
    enum err err = check_addresses(config);
    if (!err)
        err = engine_check(config);
    return err ? err : check_all_twice(line, config);
}

static void warn(const struct config *config)
{
    struct buf lines = {0};
    config_add_warnings(config, &lines);
    struct bytes rest = bytes_of(lines.at, lines.len);
    while (rest.len) {
        const char *end = memchr(rest.at, '\n', rest.len);
        size_t len = (size_t)(end - rest.at);
        complain("%.*s", (int)len, rest.at);
        rest = bytes_of(end + 1, rest.len - len - 1);
    }
    buf_fini(&lines);
}

/* `err`: what zone_set() or zone_check() returned. */
static enum err complain_zone(enum err err, const struct config *config)
{
    if (err)
        complain("%sserver.time_zone = %s: this machine's time zone data has no zone of that name "
                 "(names are such as Europe/Berlin, Asia/Shanghai or UTC)",
                 config_place_text(config_place(config, "server", "time_zone")).text,
                 config->time_zone);
    return err;
}

enum err command_line_check(const struct command_line *running, const struct config *config)
{
    enum err err = check_words(running, config);
    if (!err)
        err = complain_zone(zone_check(config->time_zone), config);
    if (!err)
        err = brokers_check(&running->brokers, config);
    if (!err)
        err = laterd_journal_check(&running->journal, config);
    return err ? err : election_check(&running->election, config);
}

/* At a start the log says it (data_dir_unused). */
static void warn_of_data_dir(const struct command_line *line)
{
    struct config_place place = config_place(&line->config, "store", "data_dir");
    bool on_redis = line->config.engine == ENGINE_REDIS;
    if ((on_redis || !line->persist) && line->sets_data_dir)
        complain("%swarning: %s is not used: %s keeps nothing on this disk",
                 config_place_text(place).text, place.path ? "store.data_dir" : "--data-dir",
                 on_redis ? "engine = redis" : "--no-persist");
}

/* Names the file: who forgets -c would take the check of the defaults for one of theirs. */
static void report_good(const struct laterd_options *options)
{
    if (options->config_files == 0)
        (void)puts("laterd: the defaults and the command line are good; no file was checked, for "
                   "none was given: -c FILE");
    else if (options->config_files == 1)
        (void)printf("laterd: the configuration in %s is good\n", options->config_file);
    else
        (void)printf("laterd: the configuration in the %u files up to %s is good\n",
                     options->config_files, options->config_file);
}

/* Of laterd's own command line. */
static bool read_laterd(struct command_line *line, int *out_status)
{
    struct laterd_options options;
    struct config_error error;
    *out_status = EXIT_WRONG_CONFIG;
    if (laterd_options_read(line->argc, line->argv, &line->config, &options, &error)) {
        complain("%s", error.text);
        return false;
    }
    line->persist = options.persist;
    line->sets_data_dir = options.sets_data_dir;
    memcpy(line->file_data_dir, options.file_data_dir, sizeof(options.file_data_dir));
    *out_status = EXIT_SUCCESS;
    switch (options.wish) {
    case LATERD_RUN:
    case LATERD_CHECK_CONFIG: break;
    case LATERD_PRINT_CONFIG: print_sample(); return false;
    case LATERD_IMPORT_CONFIG: *out_status = import_config(options.import_config); return false;
    case LATERD_SHOW_VERSION: (void)puts("laterd " LATERD_VERSION); return false;
    case LATERD_SHOW_HELP: (void)fputs(laterd_help, stdout); return false;
    }
    *out_status = EXIT_WRONG_CONFIG;
    if (check_words(line, &line->config) ||
        complain_zone(zone_set(line->config.time_zone), &line->config))
        return false;
    if ((*out_status = exit_status_of(engine_read_files(&line->config, &line->login))) != 0)
        return false;
    if ((*out_status = brokers_load(&line->config, &line->brokers)) != 0 ||
        (*out_status = laterd_journal_load(&line->config, &line->journal)) != 0)
        return false;
    if ((*out_status = election_load(&line->config, &line->election)) != 0)
        return false;
    warn(&line->config);
    *out_status = EXIT_SUCCESS;
    if (options.wish == LATERD_CHECK_CONFIG) {
        warn_of_data_dir(line);
        report_good(&options);
    }
    return options.wish == LATERD_RUN;
}

/* Of beanstalkd's, which cannot name a file. */
static bool read_beanstalkd(struct command_line *line, int *out_status)
{
    struct beanstalkd_options options;
    struct config_error error;
    *out_status = BEANSTALKD_EXIT_USAGE;
    if (beanstalkd_options_read(line->argc, line->argv, &line->config, &options, &error)) {
        complain("%s", error.text);
        (void)fputs(beanstalkd_help, stderr);
        return false;
    }
    *out_status = EXIT_SUCCESS;
    switch (options.wish) {
    case BEANSTALKD_RUN: break;
    case BEANSTALKD_SHOW_HELP: (void)fputs(beanstalkd_help, stdout); return false;
    case BEANSTALKD_SHOW_VERSION:
        (void)puts("beanstalkd " BEANSTALKD_VERSION " (laterd " LATERD_VERSION ")");
        return false;
    }
    if (options.notice[0])
        complain("%s", options.notice);
    line->persist = options.persist;
    line->user = options.user;
    *out_status = EXIT_WRONG_CONFIG;
    return complain_zone(zone_set(line->config.time_zone), &line->config) == OK;
}

bool command_line_read(int argc, char **argv, struct command_line *out_line, int *out_status)
{
    *out_line = (struct command_line){
        .argc = argc, .argv = argv, .persist = true, .passed = getenv("LISTEN_FDS") != NULL};
    config_init(&out_line->config);
    out_line->as_beanstalkd = beanstalkd_wanted(argc, argv);
    bool runs = out_line->as_beanstalkd ? read_beanstalkd(out_line, out_status)
                                        : read_laterd(out_line, out_status);
    /* A part of a configuration in a file would be taken for all of it. */
    if (!runs && (fflush(stdout) != 0 || ferror(stdout)) && *out_status == EXIT_SUCCESS) {
        complain_system("write the output");
        *out_status = EXIT_FAILURE;
    }
    return runs;
}
