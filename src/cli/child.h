/*
 * A command of the user's, run by sh -c with bytes on its standard input, in a session and a
 * process group of its own: a Ctrl-C at the terminal reaches only `later`, and a signal of
 * child_signal() reaches all that the command has started. One that opens /dev/tty gets an error:
 * in the session of `later`, where its group is in the background, it would be stopped, and wait
 * without an end. One at a time. It inherits the standard output, the standard error and the
 * environment.
 *
 * SIGCHLD is expected to be blocked: the caller learns the end by it, and then asks child_ended().
 */
#ifndef LATERD_CLI_CHILD_H
#define LATERD_CLI_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/err.h"

enum {
    CHILD_NOT_EXECUTABLE = 126, /* sh's exit status: the command cannot be executed, */
    CHILD_NOT_FOUND = 127,      /* or there is none of that name */
};

struct child {
    pid_t pid;
    bool ended;
    int status; /* after its end: as of waitpid() */
};

/* `mask`: the signals that are blocked for the command. ERR_IO: errno says why. `input` may change
 * after. */
enum err child_start(struct child *child, const char *command, struct bytes input,
                     const sigset_t *mask) MUST_USE;
/* Has it ended? Does not wait. To be called until it is true, and not after. */
bool child_ended(struct child *child);
/* To its whole group; nothing if that is gone. */
void child_signal(const struct child *child, int signal);

/* Of one that has ended: its exit status, as a shell gives it: 128 and the signal's number. 0: it
 * succeeded. */
int child_exit_status(const struct child *child);
/* "exit status 3", "ended by signal 9 (Killed)". */
void child_add_end(const struct child *child, struct buf *out);

#endif
