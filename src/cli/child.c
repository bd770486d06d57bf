#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

/*
 * A file in memory, from its beginning. A pipe would have to be filled while the command reads, and
 * a command that does not read would be an error.
 */
static int file_of(struct bytes input)
{
    int fd = memfd_create("job", MFD_CLOEXEC);
    size_t done = 0;
    while (fd >= 0 && done < input.len) {
        ssize_t wrote = write(fd, input.at + done, input.len - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            int why = wrote < 0 ? errno : ENOSPC;
            (void)close(fd); /* it is of no use */
            errno = why;
            return -1;
        }
        done += (size_t)wrote;
    }
    if (fd >= 0)
        CHECK(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

/* Between fork and exec: what is safe there only. */
_Noreturn static void become(const char *command, int input, const sigset_t *mask)
{
    (void)setsid();                             /* cannot fail: it leads no group yet */
    (void)sigprocmask(SIG_SETMASK, mask, NULL); /* cannot fail: the arguments are right */
    (void)signal(SIGXFSZ, SIG_DFL);             /* later ignores it */
    bool reads = dup2(input, STDIN_FILENO) >= 0;
    (void)close_range(STDERR_FILENO + 1, ~0U, 0); /* those of libcurl would keep connections open */
    if (reads)                                    /* the copy stays open in what is executed */
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(CHILD_NOT_EXECUTABLE);
}

enum err child_start(struct child *child, const char *command, struct bytes input,
                     const sigset_t *mask)
{
    int fd = file_of(input);
    if (fd < 0)
        return ERR_IO;
    pid_t pid = fork();
    if (pid == 0)
        become(command, fd, mask);
    int why = errno;
    (void)close(fd); /* the command has it */
    if (pid < 0) {
        errno = why;
        return ERR_IO;
    }
    *child = (struct child){.pid = pid};
    return OK;
}

bool child_ended(struct child *child)
{
    int status;
    pid_t ended = waitpid(child->pid, &status, WNOHANG);
    CHECK(ended == 0 || ended == child->pid);
    if (ended == 0)
        return false;
    child->status = status;
    child->ended = true;
    return true;
}

void child_signal(const struct child *child, int signal)
{
    if (kill(-child->pid, signal) != 0 && !child->ended) /* else all of it may have ended */
        (void)kill(child->pid, signal); /* it has just been forked, and has no group yet */
}

int child_exit_status(const struct child *child)
{
    return WIFSIGNALED(child->status) ? 128 + WTERMSIG(child->status) : WEXITSTATUS(child->status);
}

void child_add_end(const struct child *child, struct buf *out)
{
    if (WIFSIGNALED(child->status))
        buf_addf(out, "ended by signal %d (%s)", WTERMSIG(child->status),
                 strsignal(WTERMSIG(child->status)));
    else
        buf_addf(out, "exit status %d", WEXITSTATUS(child->status));
}
