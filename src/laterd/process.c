#include "laterd/process.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "base/log.h"
#include "laterd/complain.h"
#include "os/heap_return.h"
#include "os/listen.h"
#include "os/memory_limit.h"
#include "os/tls.h"
#include "os/user.h"
#include "server/config/beanstalkd_options.h"

/*
 * By default glibc raises the size from which a block is mapped by itself up to 32 MiB, and returns
 * smaller blocks to the system only from the end of the heap, all at once. With a fixed size, large
 * tables and buffers are returned to the system when they are freed; os/heap_return.h returns the
 * rest.
 */
void process_set_heap(void)
{
    heap_return_begin();
    tls_count_memory();
}

static void raise_limit(int resource)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(resource, &limit); /* if it fails, the old limit stays */
    }
}

void process_raise_limits(void)
{
    raise_limit(RLIMIT_NOFILE);
    raise_limit(RLIMIT_FSIZE);
    /* The kernel may round our wake-ups by 50 µs to save power; due times are worth more. */
    (void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
}

uint64_t process_descriptors(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) ? 0 : limit.rlim_cur;
}

void process_find_memory(const struct config *config, struct platform *platform)
{
    struct memory_limit limit;
    memory_limit_find("", memory_of_machine(), &limit);
    platform->memory_available = limit.bytes;
    uint64_t bytes = assemble_memory_bytes(config, platform);
    log_event(bytes > limit.bytes ? LOG_WARN : LOG_INFO, "memory_limit",
              "bytes=%llu from=%s available=%llu available_by=%s%s", (unsigned long long)bytes,
              config->memory_bytes ? "limits.memory_bytes" : "three_quarters_of_available",
              (unsigned long long)limit.bytes, limit.source,
              bytes > limit.bytes ? " hint=\"the system will kill laterd before this limit is "
                                    "reached: lower limits.memory_bytes\""
                                  : "");
}

static uint64_t random_number(int64_t now_us)
{
    uint64_t number;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        number = (uint64_t)now_us; /* never fails or blocks this long after boot */
    return number;
}

void process_find_host(struct platform *platform)
{
    listen_first_address(platform->host, sizeof(platform->host));
}

void process_randomize(struct platform *platform)
{
    int64_t now_us = platform->clock->now_us(platform->clock);
    platform->hash_key = random_number(now_us);
    platform->lease_key = random_number(now_us);
    platform->instance = random_number(now_us);
}

int process_become_user(const struct command_line *line)
{
    if (!line->user)
        return 0;
    enum err err = user_become(line->user);
    if (!err)
        return 0;
    if (err == ERR_NOT_FOUND) {
        complain("there is no user \"%s\"", line->user);
        return command_line_failed(line, BEANSTALKD_EXIT_NO_USER);
    }
    complain("cannot become the user \"%s\": %s", line->user, strerror(errno));
    return command_line_failed(line, BEANSTALKD_EXIT_NO_RIGHT);
}
