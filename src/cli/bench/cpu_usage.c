#include "cli/bench/cpu_usage.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Reads a small file of /proc as text. */
static bool slurp(const char *path, char *room, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t len = fread(room, 1, size - 1, file);
    room[len] = '\0';
    (void)fclose(file); /* only read from */
    return len > 0;
}

/* Field `number` (from 3, the state) of a stat line; the name before it may hold anything. */
static uint64_t stat_field(const char *text, unsigned number)
{
    const char *at = strrchr(text, ')');
    for (unsigned i = 2; at && i < number; i++) {
        at = strchr(at + 1, ' ');
    }
    return at ? strtoull(at, NULL, 10) : 0;
}

static uint64_t switches_of(pid_t pid)
{
    char path[64], text[4096];
    uint64_t sum = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid); /* it fits */
    DIR *tasks = opendir(path);
    if (!tasks)
        return 0;
    for (const struct dirent *task; (task = readdir(tasks));) {
        if (task->d_name[0] == '.' || strlen(task->d_name) > 12)
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%.12s/status", (int)pid,
                       task->d_name); /* it fits */
        if (!slurp(path, text, sizeof(text)))
            continue; /* the thread has just ended */
        const char *at = strstr(text, "\nvoluntary_ctxt_switches:");
        sum += at ? strtoull(at + 25, NULL, 10) : 0;
    }
    (void)closedir(tasks); /* only read from */
    return sum;
}

bool usage_add(pid_t pid, struct usage *usage)
{
    char path[64], text[1024];
    clockid_t clock;
    struct timespec used;
    /* The process' CPU clock, because /proc/PID/stat has the same sum in ticks of 10 ms. */
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return false;
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid); /* it fits */
    if (!slurp(path, text, sizeof(text)))
        return false;
    usage->cpu_us += (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
    usage->memory_bytes += stat_field(text, 24) * (uint64_t)sysconf(_SC_PAGESIZE);
    usage->switches += switches_of(pid);
    return true;
}

uint64_t usage_own_us(void)
{
    struct rusage own;
    (void)getrusage(RUSAGE_SELF, &own); /* cannot fail for ourselves */
    return (uint64_t)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(own.ru_utime.tv_usec + own.ru_stime.tv_usec);
}
