/*
 * SIGHUP: reads the command line and the configuration file again, and applies the settings that
 * can be changed while jobs are served.
 */
#ifndef LATERD_LATERD_RELOAD_H
#define LATERD_LATERD_RELOAD_H

#include "laterd/command_line.h"

/*
 * Applies the log level and the time limit of a drain; a wrong configuration changes nothing. Logs
 * `reloaded` or `reload_failed`.
 * Main thread. Waits for the disk that holds the file: if that hangs, no turn is done meanwhile,
 * and in an election the term may end (member_verbs::holds() then prevents that jobs are handed
 * out). Accepted because only an operator's signal leads here.
 */
void reload(struct command_line *line);

#endif
