/*
 * The command line and the configuration file that it names, read and checked completely before
 * anything is opened. Started under the name beanstalkd, laterd accepts that program's command line
 * and uses its exit codes.
 */
#ifndef LATERD_LATERD_COMMAND_LINE_H
#define LATERD_LATERD_COMMAND_LINE_H

#include "laterd/brokers.h"
#include "laterd/election.h"
#include "laterd/journal.h"
#include "laterd/redis_login.h"
#include "server/config/config.h"

struct command_line {
    int argc; /* as given: borrowed, and read again by reload() */
    char **argv;
    struct config config;
    struct brokers brokers;        /* their plugins are loaded; none is open */
    struct laterd_journal journal; /* the same */
    struct election election;      /* its plugin is loaded; it is not open */
    struct redis_login login;      /* with engine = redis: was read */
    bool as_beanstalkd;
    bool passed;      /* the service manager opened sockets, in the place of addresses */
    bool persist;     /* false: nothing is kept on disk */
    const char *user; /* to become; NULL: keep ours. Borrowed from argv */
    char file_data_dir[CONFIG_TEXT_MAX]; /* the file's store.data_dir, if --data-dir overrides it */
    bool sets_data_dir;                  /* the file or the command line names a data directory */
};

/*
 * True: start laterd. False: exit with *out_status; the error is on standard error, or the help
 * text, version, sample or result of --check on standard output. Sets the process's time zone. Uses
 * getopt's globals.
 */
bool command_line_read(int argc, char **argv, struct command_line *out_line,
                       int *out_status) MUST_USE;

/*
 * Checks a configuration that was read again and has passed config_check(): would the next start
 * refuse it? No file or variable that it names is read, and no plugin is loaded. ERR_INVALID: the
 * reason is on standard error. Opens nothing.
 */
enum err command_line_check(const struct command_line *running,
                            const struct config *config) MUST_USE;

/* The exit status of a failed start: beanstalkd has one for each reason, laterd always 1. */
int command_line_failed(const struct command_line *line, int beanstalkd_status);

#endif
