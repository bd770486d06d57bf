/*
 * Standard input, output and error that the process was started without (`later push … >&-`): the
 * first file or socket that is opened would get such a number, and what is printed would go there.
 */
#ifndef LATERD_OS_STANDARD_STREAMS_H
#define LATERD_OS_STANDARD_STREAMS_H

/* Occupies those that are closed; reading or writing them fails with EBADF, as before. To be called
 * before anything is opened. */
void standard_streams_occupy(void);

#endif
