/*
 * How much memory this process may use before the kernel ends it: the machine's memory, or less
 * when the process runs in a control group (a container, a unit with MemoryMax=) with a limit.
 *
 * Called once at the start, before there are threads.
 */
#ifndef LATERD_OS_MEMORY_LIMIT_H
#define LATERD_OS_MEMORY_LIMIT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct memory_limit {
    uint64_t bytes;        /* UINT64_MAX: unknown */
    char source[PATH_MAX]; /* the file that has the limit, "machine" or "unknown" */
};

/*
 * Finds the smallest of `machine_bytes` (0: unknown), of memory.max and memory.high (cgroup v2) and
 * of memory.limit_in_bytes (v1), of our own group and of all its visible ancestors. Files are
 * looked for under `root`: "" for the real ones. O(depth of the group).
 */
void memory_limit_find(const char *root, uint64_t machine_bytes, struct memory_limit *out_limit);

/* The machine's memory; 0: unknown. */
uint64_t memory_of_machine(void);

/* ---- pure, for the above and its tests ---- */

enum cgroup_version { CGROUP_V1, CGROUP_V2 };

/*
 * Our group's path ("/a/b") in the hierarchy that has the memory controller (v1), or in the one of
 * v2, from the text of /proc/self/cgroup. False: there is no such hierarchy.
 */
bool cgroup_path(struct bytes proc_cgroup, enum cgroup_version version, struct bytes *out_path);

/* Reads the number in a limit file. False: no limit ("max"), or not a number. */
bool cgroup_limit(struct bytes file, uint64_t *out_bytes);

#endif
