#include "laterd/complain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(stderr, "%s: ", program_invocation_short_name);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
}

int complain_system(const char *what)
{
    bool full = errno == EMFILE || errno == ENFILE;
    complain("cannot %s: %s%s", what, strerror(errno),
             full ? "; raise the limit of open files (LimitNOFILE= of the unit, ulimit -n)" : "");
    return EXIT_FAILURE;
}
