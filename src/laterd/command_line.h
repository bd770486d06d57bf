/*
 * The command line and the configuration that it names, read and checked as a whole before anything
 * is opened. Called as beanstalkd, laterd reads that program's command line and ends with its exit
 * codes.
 */
#ifndef LATERD_LATERD_COMMAND_LINE_H
#define LATERD_LATERD_COMMAND_LINE_H

#include "laterd/brokers.h"
#include "laterd/election.h"
#include "laterd/journal.h"
#include "server/config/config.h"

struct command_line {
    int argc; /* as given: borrowed, and read again by reload() */
    char **argv;
    struct config config;
    struct brokers brokers;        /* their plugins are loaded; none is open */
    struct laterd_journal journal; /* the same */
    struct election election;      /* its plugin is loaded; it is not open */
    bool as_beanstalkd;
    bool persist;                        /* false: nothing is kept on disk */
    const char *user;                    /* to become; NULL: stay who we are. Borrowed from argv */
    char file_data_dir[CONFIG_TEXT_MAX]; /* of the configuration, if --data-dir named another */
    bool sets_data_dir;                  /* one of them names one */
};

/*
 * True: laterd is to run. False: there is nothing to run; all is said (an error, on standard error;
 * a help text, a version, a sample or a verdict, on standard output), and the process is to end
 * with *out_status. Sets the process's time zone. Uses getopt's globals.
 */
bool command_line_read(int argc, char **argv, struct command_line *out_line,
                       int *out_status) MUST_USE;

/* Addresses and URLs of a configuration that config_check() takes. ERR_INVALID: the reason is on
   standard error. Opens nothing. */
enum err command_line_check(const struct config *config) MUST_USE;

/* The exit status of a start that failed: beanstalkd has one for each reason, laterd has 1. */
int command_line_failed(const struct command_line *line, int beanstalkd_status);

#endif
