/*
 * What laterd asks of the operating system for its own process: descriptors, memory, the user that
 * it becomes, random numbers. Called once at the start, before there are threads.
 */
#ifndef LATERD_LATERD_PROCESS_H
#define LATERD_LATERD_PROCESS_H

#include "laterd/command_line.h"
#include "server/assemble.h"

/* Before anything is allocated: how the C library's heap gives memory back. */
void process_set_heap(void);

/* As many descriptors as we are allowed; wake-ups to the microsecond. */
void process_raise_limits(void);

/* Segments' files that the store may keep open: few, for most descriptors are for connections. */
uint32_t process_store_files(void);

/* Fills in what the machine leaves us, and says in the log what limits.memory_bytes comes to. */
void process_find_memory(const struct config *config, struct platform *platform);

/* Fills in the address that this machine is known by. */
void process_find_host(struct platform *platform);

/* Fills in the random numbers, so that clients cannot choose names that fall together in a table.*/
void process_randomize(struct platform *platform);

/*
 * Becomes line->user, if there is one. 0, or the exit status of a start that failed, which has been
 * said on standard error.
 */
int process_become_user(const struct command_line *line) MUST_USE;

#endif
