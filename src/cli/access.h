/*
 * How `later` reaches its server: the general options and the environment become client_options.
 * An option counts before the URL's user, and that before the environment. Secrets are read from
 * files or the environment, because everybody may read a command line.
 */
#ifndef LATERD_CLI_ACCESS_H
#define LATERD_CLI_ACCESS_H

#include "cli/client.h"

struct cli;

/* Options without a letter. */
enum {
    ACCESS_CACERT = 1024, /* above those of commands */
    ACCESS_CERT,
    ACCESS_KEY,
    ACCESS_INSECURE,
    ACCESS_TOKEN_FILE,
    ACCESS_USER_FILE,
};

#define ACCESS_OPTIONS                                                                             \
    {"cacert", required_argument, NULL, ACCESS_CACERT},                                            \
        {"cert", required_argument, NULL, ACCESS_CERT},                                            \
        {"key", required_argument, NULL, ACCESS_KEY},                                              \
        {"insecure", no_argument, NULL, ACCESS_INSECURE},                                          \
        {"token-file", required_argument, NULL, ACCESS_TOKEN_FILE},                                \
    {                                                                                              \
        "user-file", required_argument, NULL, ACCESS_USER_FILE                                     \
    }

/* For the help of the program and of each command. */
extern const char access_help[];

struct access {
    struct client_options client;
    const char *token_file, *user_file; /* NULL: not given */
    struct buf server;                  /* the URL that was given, NUL-terminated */
    struct buf token, user;             /* as they are used, NUL-terminated */
    bool warned; /* of --insecure, by the other connection of the same command */
};

/* The server of LATER_SERVER, or the usual one. */
void access_init(struct access *access);
void access_fini(struct access *access);

/* The URL of --server, of which the password is covered in the command line. */
void access_server(struct access *access, char *url);

/* One of ACCESS_…; others are left alone. */
void access_option(struct access *access, int option, const char *value);

/*
 * A secret, one line of text, from a variable of the environment (NULL: it is not set), or from the
 * file that an option names. It lies in `out`, NUL-terminated. Bad usage ends the program.
 */
const char *access_secret_variable(const struct cli *cli, const char *name, struct buf *out);
const char *access_secret_file(const struct cli *cli, const char *option, const char *path,
                               struct buf *out);

/* Reads files and environment, once before the first call. Bad usage ends the program. */
void access_resolve(struct access *access, const struct cli *cli);

/* Is there a user or a token, wherever it comes from? */
bool access_has_secret(const struct access *access);

#endif
