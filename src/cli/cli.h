/*
 * What every command of `later` shares: the table of commands, the common options, the call to the
 * server and the exit codes. A command's `run` gets its own argc and argv (argv[0] is its name)
 * and answers with an exit code. Bad usage ends the program at once, from wherever it is seen.
 *
 *     cli.c     options, messages, output
 *     values.c  the values of options
 *     call.c    calls of the server, and what is said of a refused one
 */
#ifndef LATERD_CLI_CLI_H
#define LATERD_CLI_CLI_H

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>

#include "cli/access.h"

enum cli_exit {
    EXIT_DONE = 0,
    EXIT_NOTHING = 1,     /* no such job or topic; no job came */
    EXIT_USAGE = 2,       /* the command line is wrong, or a value in it: whoever finds that */
    EXIT_CONFLICT = 3,    /* the id is taken, the lease is stale, the state does not allow it */
    EXIT_REFUSED = 4,     /* the server refused it: a limit, a rule of its own, a full disk */
    EXIT_UNREACHABLE = 5, /* no connection, or no answer in time */
    EXIT_WRONG = 6,       /* something is damaged, refused, or not whole: see `later --help` */
};

/* The server has refused the request itself, not for how things are there. */
static inline bool exit_is_refusal(int code)
{
    return code == EXIT_REFUSED || code == EXIT_USAGE;
}

struct cli;

struct command {
    const char *name;
    const char *synopsis; /* what follows the name */
    const char *summary;  /* one line */
    const char *help;     /* options and examples */
    bool offline;         /* needs no server: its help leaves out the options for that */
    int (*run)(struct cli *cli, int argc, char **argv);
};

extern const struct command command_cluster, command_journal, command_push, command_pop,
    command_get, command_rm, command_finish, command_release, command_touch, command_bury,
    command_kick, command_run, command_reschedule, command_topics, command_list, command_pause,
    command_resume, command_stats, command_top, command_verify, command_salvage, command_bench,
    command_import, command_clear, command_delete_topic, command_topic, command_attempts,
    command_replay, command_backup, command_restore, command_export, command_history, command_due;

enum { GIVEN_ROOM = 64 /* options of a command */ };

struct cli {
    const struct command *command; /* NULL: main is still reading the options before it */
    const char *subject;           /* what the command works on, for its messages; NULL: nothing */
    struct access access;
    bool json;           /* output for programs */
    bool quiet;          /* failed calls print nothing: see client.error */
    bool terminal;       /* standard output is one */
    bool repeats;        /* calls change nothing: after a lost connection they are repeated once */
    bool may_halve;      /* a refusal for limits.batch_jobs is not printed: see limits.h */
    bool over_limit;     /* the last refusal was for that */
    int refused_status;  /* of the last refusal */
    const char *header;  /* sent with the next calls, a whole line; NULL: none */
    const char *expects; /* the code of another refusal that is not printed; NULL: none */
    bool expected;       /* the last refusal was that one */
    const char *state_hint; /* printed instead of the server's text if a job is in a wrong state for
                               the call; NULL: the server's */
    int64_t timeout_us;     /* to connect, and for an answer */
    int64_t wait_us;        /* additional time for a call in which the server waits */
    const struct option *options; /* of the command */
    const char
        *given[GIVEN_ROOM]; /* by an option's place there: the value that it was given last */
    json_t *limits;         /* the server's limits, for limits.h */
    bool limits_read;
    bool has_client;
    struct client client;
};

/* Every command's table of long options ends with these. */
#define CLI_OPTIONS                                                                                \
    ACCESS_OPTIONS, {"server", required_argument, NULL, 's'}, {"json", no_argument, NULL, 'j'},    \
        {"timeout", required_argument, NULL, 't'}, {"help", no_argument, NULL, 'h'},               \
        {"version", no_argument, NULL, 'V'},                                                       \
    {                                                                                              \
        NULL, 0, NULL, 0                                                                           \
    }

/*
 * getopt_long() that handles the common options itself; -1 at the end. Options and words may be
 * mixed, but before the command, where the first word ends them and 'h' is returned to the caller.
 */
int cli_option(struct cli *cli, int argc, char **argv, const struct option *options);

/*
 * Both print what is wrong on standard error, and end the program with EXIT_USAGE. cli_usage() is
 * for words and options that are missing, unknown, too many or do not go together: it shows how the
 * command is written. cli_bad_value() is for the value of one that is right: its line alone says
 * what to do.
 */
_Noreturn void cli_usage(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void cli_bad_value(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Between `min` and `max` words are left after the options, or it is bad usage. */
void cli_words(const struct cli *cli, int argc, char **argv, int min, int max);
/* For a command without options of its own: the common ones are handled, and the words counted. */
void cli_only_words(struct cli *cli, int argc, char **argv, int min, int max);

/* An option's value, or bad usage. */
int64_t cli_duration_us(const struct cli *cli, const char *option, const char *text);
/* The same for the server. */
json_t *cli_duration(const struct cli *cli, const char *option, const char *text);
/* A duration as JSON, exactly: milliseconds, or a text such as "1500us". */
json_t *cli_duration_json(int64_t us);
uint64_t cli_number(const struct cli *cli, const char *option, const char *text, uint64_t max);
/* A time: epoch milliseconds if it is all digits, else the server reads it as RFC 3339. */
json_t *cli_time(const struct cli *cli, const char *option, const char *text);
/* Is it the name of a state of jobs, such as "delayed"? */
bool cli_is_state(const char *text);
/* A value that is not UTF-8 is bad usage, too. */
void cli_utf8(const struct cli *cli, const char *option, const char *text);
/*
 * The value as a string of JSON, never NULL. Use it for texts of the command line instead of
 * json_string(), which is NULL for a text that is not UTF-8: json_object_set_new() would then leave
 * the member out, for example the lease of a finish.
 */
json_t *cli_string(const struct cli *cli, const char *option, const char *text);

/* A retry schedule: the name of one, an object of JSON, or waits such as 0,2m,10m. */
json_t *cli_retry(const struct cli *cli, const char *text);
/* "Name: value" of the command line into an object of headers; there the value is covered then. */
void cli_header(const struct cli *cli, json_t *headers, char *text);

/* "later CMD: …" on standard error. */
void cli_message(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, also while cli->quiet. */
void cli_warn(const struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints why a store or backup cannot be opened, by errno. Returns an exit code. */
int cli_cannot_open(const struct cli *cli, const char *path);

/* Makes the client if there is none yet; a call does so, too. Bad options end the program. */
void cli_begin(struct cli *cli);

/*
 * Calls the server, and takes ownership of `body` (may be NULL). A refusal is printed on standard
 * error, with the option that is at fault and the limit's value, and is the exit code; EXIT_DONE:
 * *out_answer is the answer, to be json_decref-ed, or NULL (204). A job's body in it that is not a
 * string is the string "body_json": see raw_json.h.
 */
int cli_call(struct cli *cli, const char *method, const char *target, json_t *body,
             json_t **out_answer);
/* The same with bytes as they are; used by the pushes. The request's times are set here. */
int cli_call_bytes(struct cli *cli, struct client_request *request, json_t **out_answer);
/*
 * The same, and the answer's bytes as they came: jansson would change bodies of jobs (numbers,
 * members that are there twice). Borrowed until the next call; empty: 204.
 */
int cli_call_raw(struct cli *cli, struct client_request *request, struct bytes *out_body);
/* Prints a refusal of a call, or of one item of it, and returns its exit code. `problem`: NULL if
 * there is none. */
int cli_refusal(struct cli *cli, int status, const json_t *problem);
/* `before`, the part with everything odd escaped, `after`: to be freed by the caller. */
char *cli_target(const char *before, const char *part, const char *after);
/* cli_call() of the URL of a topic, or of a job, followed by `after`. The topic, or the job's id,
 * is cli->subject meanwhile. */
int cli_call_topic(struct cli *cli, const char *method, const char *topic, const char *after,
                   json_t *body, json_t **out_answer);
int cli_call_job(struct cli *cli, const char *method, const char *id, const char *after,
                 json_t *body, json_t **out_answer);
/* The same, with a text of JSON that is sent as it is. */
int cli_call_job_text(struct cli *cli, const char *method, const char *id, const char *after,
                      struct bytes text, json_t **out_answer);
/* For a command whose only word is a job's id: cli_call_job() with GET. */
int cli_get_of_job(struct cli *cli, int argc, char **argv, const char *after, json_t **out_answer);

/* One line of JSON on standard output. A job's body is as the server sent it. */
void cli_print_json(const json_t *value);
void cli_add_json(const json_t *value, struct buf *out); /* the same line, appended */
/* The same with 15 digits of a number, so that 3.2 is not 3.2000000000000002: for the server's own
 * figures. Bodies of jobs need every digit. */
void cli_print_stats(const json_t *value);
/* All of `out` to standard output, and `out` is empty again. */
void cli_flush(struct buf *out);
/* Has standard output taken all that was printed? False: that it has not is printed. A full disk or
 * a closed pipe behind it must not look like success. */
bool cli_shown(const struct cli *cli);
/* Prints the version and ends the program. */
_Noreturn void cli_show_version(const struct cli *cli);
/* Ends the program behind a help or the like: EXIT_DONE if cli_shown(), else EXIT_REFUSED. */
_Noreturn void cli_end_shown(const struct cli *cli);

#endif
