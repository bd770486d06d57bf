#include "os/clock.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/log.h"

enum {
    SLEW_PART = 1000,         /* follow a small step by 1/1000 of the time that passes */
    FOLLOW_MAX_US = 10000000, /* a larger one would take hours or years: it is not followed */
    STEP_LOGGED_US = 250000,  /* smaller differences are normal with NTP, and not logged */
};

int64_t os_boot_us(void)
{
    return clock_read_us(CLOCK_BOOTTIME);
}

static bool agree(int64_t apart_us)
{
    return llabs(apart_us) < STEP_LOGGED_US;
}

/*
 * A step is a sudden change of the distance between the clocks (our own slewing is none), and
 * logged once. When the clocks agree again that is logged once, too.
 */
static void log_step(struct os_clock *clock, int64_t apart_us)
{
    bool sudden = !agree(apart_us - clock->apart_us);
    if (sudden && !agree(apart_us)) {
        clock->stepped = true;
        log_event(
            LOG_WARN, "clock_stepped",
            "apart_ms=%lld hint=\"the system's clock was set; delayed jobs keep their delays; "
            "restart laterd to use the new time\"",
            (long long)(apart_us / 1000));
    } else if (clock->stepped && agree(apart_us)) {
        clock->stepped = false;
        log_event(LOG_INFO, "clock_agrees", "apart_ms=%lld", (long long)(apart_us / 1000));
    }
}

int64_t os_clock_advance(struct os_clock *clock, int64_t steady_us, int64_t wall_us)
{
    int64_t passed_us = steady_us - clock->last_steady_us;
    if (passed_us <= 0)
        return clock->last_us;
    int64_t now_us = clock->last_us + passed_us;
    int64_t apart_us = wall_us - now_us;
    log_step(clock, apart_us);
    int64_t slew_us = (clock->slew_rest_us + passed_us) / SLEW_PART;
    clock->slew_rest_us = (clock->slew_rest_us + passed_us) % SLEW_PART;
    if (llabs(apart_us) <= slew_us)
        now_us = wall_us;
    else if (llabs(apart_us) <= FOLLOW_MAX_US)
        now_us += apart_us > 0 ? slew_us : -slew_us;
    clock->last_steady_us = steady_us;
    clock->last_us = now_us;
    clock->apart_us = wall_us - now_us;
    return now_us;
}

static int64_t now_us(struct clock *base)
{
    struct os_clock *clock = (struct os_clock *)base; /* its first member */
    /* CLOCK_BOOTTIME goes on while the machine is suspended: jobs due meanwhile are due at
       resume. */
    return os_clock_advance(clock, clock_read_us(CLOCK_BOOTTIME), clock_read_us(CLOCK_REALTIME));
}

static int64_t cpu_us(struct clock *base)
{
    (void)base;
    return clock_read_us(CLOCK_THREAD_CPUTIME_ID);
}

static uint64_t page_faults(struct clock *base)
{
    struct rusage usage;
    (void)base;
    (void)getrusage(RUSAGE_THREAD, &usage); /* cannot fail for this thread */
    return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

void os_clock_init(struct os_clock *clock)
{
    *clock = (struct os_clock){
        .clock = {.now_us = now_us, .cpu_us = cpu_us, .page_faults = page_faults},
        .last_steady_us = clock_read_us(CLOCK_BOOTTIME),
        .last_us = clock_read_us(CLOCK_REALTIME),
    };
}
