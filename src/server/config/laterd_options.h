/*
 * laterd's own command line. Its options take precedence over the configuration file, whatever the
 * order of the arguments. (beanstalkd_options.h has the other command line.)
 */
#ifndef LATERD_SERVER_CONFIG_LATERD_OPTIONS_H
#define LATERD_SERVER_CONFIG_LATERD_OPTIONS_H

#include "server/config/config.h"

enum laterd_wish {
    LATERD_RUN,
    LATERD_CHECK_CONFIG,
    LATERD_PRINT_CONFIG,
    LATERD_IMPORT_CONFIG,
    LATERD_SHOW_VERSION,
    LATERD_SHOW_HELP,
};

struct laterd_options {
    enum laterd_wish wish;
    bool persist;
    const char *config_file;             /* of the last -c; NULL: there was none. Borrowed */
    unsigned config_files;               /* how many -c there were */
    const char *import_config;           /* LATERD_IMPORT_CONFIG: the file */
    char file_data_dir[CONFIG_TEXT_MAX]; /* the file's, if --data-dir named another; or empty */
    bool sets_data_dir;                  /* one of them names one */
};

extern const char laterd_help[];

/* Sets the options in a configuration that has the defaults. ERR_INVALID: out_error says why. Uses
   getopt's globals: for a second command line the caller first sets optind to 0. */
enum err laterd_options_read(int argc, char **argv, struct config *config,
                             struct laterd_options *out_options,
                             struct config_error *out_error) MUST_USE;

#endif
