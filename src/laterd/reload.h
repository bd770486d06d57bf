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
 * On the main thread, which waits for the file's disk meanwhile: on one that hangs no turn is done
 * until it answers, and in an election the term may end (member_verbs::holds() sees to it that
 * nothing is handed out then). Only an operator's signal leads here.
 */
void reload(struct command_line *line);

#endif
