/* What laterd tells the person who started it, on standard error, before its log begins. */
#ifndef LATERD_LATERD_COMPLAIN_H
#define LATERD_LATERD_COMPLAIN_H

/* laterd's exit status for a command line or a configuration that is wrong, in place of
   EXIT_FAILURE: starting it again does not help. */
enum { EXIT_WRONG_CONFIG = 2 };

/* One line behind the name that we were called by: laterd, or beanstalkd. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

#endif
