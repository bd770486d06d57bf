/*
 * Reads retry schedules: a list of waits, the name of a ladder, or a formula. The result is always
 * a list, of up to RETRY_STEPS_MAX steps. Pure.
 */
#ifndef LATERD_PROTO_SETTINGS_SCHEDULE_H
#define LATERD_PROTO_SETTINGS_SCHEDULE_H

#include "core/job.h"
#include "proto/settings/settings_reader.h"

/* A well-known schedule with a name. Names and their waits never change, because settings are
   stored with the name. */
struct ladder {
    const char *name;
    const char *note; /* where it comes from, one clause */
    uint8_t count;
    uint32_t waits_s[20]; /* seconds */
};

/* All of them, in a fixed order; NULL past the end. For tests, besides ladder_find(). */
const struct ladder *ladder_at(unsigned place);
const struct ladder *ladder_find(struct bytes name); /* NULL: there is none */

/* RocketMQ's delay levels, 1 … DELAY_LEVELS, are the steps of its ladder. */
enum { DELAY_LEVELS = 18 };
int64_t delay_level_us(unsigned level);

struct schedule {
    int64_t waits_us[RETRY_STEPS_MAX]; /* [n]: between attempt n + 1 and the next one */
    uint8_t count;                     /* 0: no second attempt is planned */
    const struct ladder *ladder;       /* if it was given by name; else NULL */
};

/*
 * Reads the value that is being read: ["2m", 600000], "alipay", or
 * {"min":"10s","max":"5m","doublings":3,"attempts":10}. A list may be empty.
 */
bool schedule_read(struct settings_reader *reader, struct schedule *out_schedule);

/* The same of text: "alipay", or "2m 10m 1h" with spaces or commas; empty: no steps. False:
 *out_why, static. For configuration and command lines. */
bool schedule_read_words(struct bytes text, struct schedule *out_schedule, const char **out_why);

/* As schedule_read() takes it. */
void schedule_write(const struct schedule *schedule, struct buf *out);

/* Changes it to a schedule of `attempts` attempts, 2 … RETRY_STEPS_MAX + 1: cuts it, or repeats its
   last wait (0 if it has none). 0: does nothing. */
void schedule_limit(struct schedule *schedule, unsigned attempts);

#endif
