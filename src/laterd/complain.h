/* What laterd tells the person who started it, on standard error, before its log begins. */
#ifndef LATERD_LATERD_COMPLAIN_H
#define LATERD_LATERD_COMPLAIN_H

#include <stdlib.h>

#include "base/err.h"

/* laterd's exit status for a command line or a configuration that is wrong, in place of
   EXIT_FAILURE: starting it again does not help. */
enum { EXIT_WRONG_CONFIG = 2 };

/* The exit status of options that were checked: ERR_NOT_FOUND is a file or a variable that cannot
   be read now, but perhaps at the next start. */
static inline int exit_status_of(enum err err)
{
    if (!err)
        return EXIT_SUCCESS;
    return err == ERR_NOT_FOUND ? EXIT_FAILURE : EXIT_WRONG_CONFIG;
}

/* One line behind the name that we were called by: laterd, or beanstalkd. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

#endif
