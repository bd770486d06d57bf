/* Error messages on standard error for the person who started laterd, before its log begins. */
#ifndef LATERD_LATERD_COMPLAIN_H
#define LATERD_LATERD_COMPLAIN_H

#include <stdlib.h>

#include "base/err.h"

/* The exit status for a wrong command line or configuration: unlike after EXIT_FAILURE, starting
   laterd again does not help. */
enum { EXIT_WRONG_CONFIG = 2 };

/* The exit status for the result of checking options. ERR_NOT_FOUND: a file or variable that cannot
   be read now may be readable at the next start. */
static inline int exit_status_of(enum err err)
{
    if (!err)
        return EXIT_SUCCESS;
    return err == ERR_NOT_FOUND ? EXIT_FAILURE : EXIT_WRONG_CONFIG;
}

/* Prints one line, after the name that we were started by: laterd, or beanstalkd. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/* Prints "cannot WHAT" with the system's reason, which is errno, and what to do about it. Returns
   the exit status. */
int complain_system(const char *what);

#endif
