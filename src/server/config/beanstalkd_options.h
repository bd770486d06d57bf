/*
 * beanstalkd's command line, for `laterd --beanstalkd …` and for a laterd that is called by the
 * name beanstalkd: what its options mean in laterd's configuration. The defaults are those of
 * beanstalkd 1.12; docs/operations.md says where a value cannot mean the same.
 */
#ifndef LATERD_SERVER_CONFIG_BEANSTALKD_OPTIONS_H
#define LATERD_SERVER_CONFIG_BEANSTALKD_OPTIONS_H

#include "server/config/config.h"

/*
 * The version reported to beanstalkd's clients, by `-v` and in the key `version` of stats: the
 * version whose commands laterd implements. It has only two numbers, because clients append ".0"
 * and parse the result as a semantic version (fivebeans does). `-v` also prints laterd's own
 * version.
 */
#define BEANSTALKD_VERSION "1.13"

/* Exit codes of beanstalkd that laterd uses in its place. */
enum {
    BEANSTALKD_EXIT_USAGE = 5,
    BEANSTALKD_EXIT_DIRECTORY = 10, /* the -b directory cannot be used */
    BEANSTALKD_EXIT_NO_USER = 33,   /* -u: there is no such user */
    BEANSTALKD_EXIT_NO_RIGHT = 34,  /* -u: only root may become another user */
    BEANSTALKD_EXIT_LISTEN = 111,
};

enum beanstalkd_wish { BEANSTALKD_RUN, BEANSTALKD_SHOW_HELP, BEANSTALKD_SHOW_VERSION };

struct beanstalkd_options {
    enum beanstalkd_wish wish;
    bool persist;     /* -b was given */
    const char *user; /* -u: borrowed from argv; NULL = keep our user */
    char notice[128]; /* a message: a value was replaced by another one; or empty */
};

extern const char beanstalkd_help[];

/* Is the program called beanstalkd, or is --beanstalkd its first argument? */
bool beanstalkd_wanted(int argc, char **argv);

/* Fills in a configuration that holds the defaults. ERR_INVALID. Uses getopt's globals. */
enum err beanstalkd_options_read(int argc, char **argv, struct config *config,
                                 struct beanstalkd_options *out_options,
                                 struct config_error *out_error) MUST_USE;

/* Finds a file of beanstalkd's log, "binlog.17", in a directory, and returns its name. */
bool beanstalkd_binlog_find(const char *directory, char *out_name, size_t name_bytes);

#endif
