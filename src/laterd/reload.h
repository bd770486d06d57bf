/*
 * SIGHUP: the command line and the file are read again, and what can be changed while jobs are
 * served is taken over.
 */
#ifndef LATERD_LATERD_RELOAD_H
#define LATERD_LATERD_RELOAD_H

#include "laterd/command_line.h"

/*
 * Takes over the log level, and how long a drain may take; a configuration that is wrong changes
 * nothing. Says in the log what was done.
 */
void reload(struct command_line *line);

#endif
