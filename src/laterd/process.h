/*
 * Process-wide settings and facts: limit of descriptors, memory, user id, random numbers. Each is
 * called once at the start, before there are threads.
 */
#ifndef LATERD_LATERD_PROCESS_H
#define LATERD_LATERD_PROCESS_H

#include "laterd/command_line.h"
#include "server/assemble.h"

/* Makes the C library's heap return freed memory to the system. Before anything is allocated. */
void process_set_heap(void);

/* Raises the limits of open files and of a file's size to the hard limits, and sets the timer slack
 * to one microsecond. */
void process_raise_limits(void);

/* How many descriptors this process may have; 0: not known. */
uint64_t process_descriptors(void);

/* Sets platform's memory limit, and logs what limits.memory_bytes comes to. */
void process_find_memory(const struct config *config, struct platform *platform);

/* Sets platform->host: the address that this machine is known by. */
void process_find_host(struct platform *platform);

/* Sets platform's random numbers, such as hash keys: with fixed ones, clients could choose names
   that collide. */
void process_randomize(struct platform *platform);

/*
 * Becomes line->user, if it is set. Returns 0, or the exit status, with the reason on standard
 * error.
 */
int process_become_user(const struct command_line *line) MUST_USE;

#endif
