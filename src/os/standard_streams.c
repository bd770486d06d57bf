#include "os/standard_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* O_PATH: it can be neither read nor written. A new descriptor gets the lowest number that is free:
 * this one, because those below are open. Commands that we run find it closed, as we did. */
void standard_streams_occupy(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/", O_PATH | O_CLOEXEC); /* no descriptor is free: then none is opened */
    }
}
