/*
 * How much processor time processes have used: the servers under load, and ourselves.
 */
#ifndef LATERD_CLI_BENCH_CPU_USAGE_H
#define LATERD_CLI_BENCH_CPU_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct usage {
    uint64_t cpu_us;       /* user and system time of all threads, ended ones too */
    uint64_t switches;     /* times a thread went to sleep, of threads that still live */
    uint64_t memory_bytes; /* resident */
};

/* Adds one process' figures. False: there is no such process. */
bool usage_add(pid_t pid, struct usage *usage);

/* Our own user and system time. */
uint64_t usage_own_us(void);

#endif
