/*
 * The work loop of `later pop --exec`: takes one job after another, runs a command with its body on
 * standard input, renews the job's lease while the command runs, and finishes the job if it
 * succeeded, else releases it, with the command's exit status as the code.
 *
 * SIGTERM, SIGINT and SIGHUP end the loop: a wait for a job at once, a command that runs is waited
 * for; a second signal ends the command by SIGTERM. There is one set of signals, so the state is
 * static.
 */
#ifndef LATERD_CLI_CONSUME_H
#define LATERD_CLI_CONSUME_H

#include "cli/cli.h"

struct consume_options {
    const char *command; /* for sh -c */
    json_t *topics;      /* array of names; borrowed */
    int64_t wait_us;     /* for each job */
    int64_t delay_us;    /* of a job that is released; -1: as its retry schedule says */
    int64_t limit_us;    /* then a command is ended; 0: it may run forever */
    uint64_t jobs_max;
    bool forever; /* goes on if no job comes or the server cannot be reached, until a signal */
};

/*
 * Exit code: EXIT_DONE: all commands succeeded; EXIT_NOTHING: no job came; EXIT_WRONG: a command
 * failed, also if a signal ended the loop; else of the call that failed, which was printed. With
 * `forever`: EXIT_DONE after a signal. *out_none, always set: no job came, and the caller must say
 * so.
 */
int consume_run(struct cli *cli, const struct consume_options *options, bool *out_none);

#endif
