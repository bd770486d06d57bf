#include "proto/settings/schedule.h"

#include <stdio.h>

#include "base/check.h"
#include "base/rfc3339.h"

#define MINUTE 60
#define HOUR   3600

enum { SECOND_US = 1000000, DOUBLINGS_MAX = 62 };
#define WAIT_MAX_US (RFC3339_MAX_US / 2)

/*
 * Sources: alipay: opendocs.alipay.com/open/270/105902, the waits before the 2nd … 8th notice,
 * whose first one other texts give as 4m; zing and notify: the call-backs of a delay service and of
 * a payment gateway, the former counting from the first due time in the original; standard:
 * github.com/standard-webhooks/standard-webhooks, "retries"; rocketmq: messageDelayLevel of Apache
 * RocketMQ 4, from level 1.
 */
static const struct ladder ladders[] = {
    {"alipay",
     "Alipay's payment notices",
     7,
     {2 * MINUTE, 10 * MINUTE, 10 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, 15 * HOUR}},
    {"alipay-4m",
     "Alipay's payment notices with 4 minutes first",
     7,
     {4 * MINUTE, 10 * MINUTE, 10 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, 15 * HOUR}},
    {"zing", "HTTP call-backs of a delay service", 5, {5, 10, MINUTE, 5 * MINUTE, 30 * MINUTE}},
    {"notify",
     "notices of a payment gateway",
     9,
     {15, 3 * MINUTE, 10 * MINUTE, 30 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, 15 * HOUR}},
    {"standard",
     "the Standard Webhooks specification",
     9,
     {5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR}},
    {"rocketmq",
     "Apache RocketMQ's delay levels",
     DELAY_LEVELS,
     {1, 5, 10, 30, MINUTE, 2 * MINUTE, 3 * MINUTE, 4 * MINUTE, 5 * MINUTE, 6 * MINUTE, 7 * MINUTE,
      8 * MINUTE, 9 * MINUTE, 10 * MINUTE, 20 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR}},
};

enum { LADDERS = sizeof(ladders) / sizeof(ladders[0]) };

const struct ladder *ladder_at(unsigned place)
{
    return place < LADDERS ? &ladders[place] : NULL;
}

const struct ladder *ladder_find(struct bytes name)
{
    for (unsigned i = 0; i < LADDERS; i++) {
        if (bytes_eq(name, bytes_str(ladders[i].name)))
            return &ladders[i];
    }
    return NULL;
}

int64_t delay_level_us(unsigned level)
{
    const struct ladder *ladder = ladder_find(BYTES("rocketmq"));
    CHECK(ladder && level >= 1 && level <= DELAY_LEVELS);
    return (int64_t)ladder->waits_s[level - 1] * SECOND_US;
}

static void climb(const struct ladder *ladder, struct schedule *out_schedule)
{
    out_schedule->ladder = ladder;
    out_schedule->count = ladder->count;
    for (unsigned i = 0; i < ladder->count; i++)
        out_schedule->waits_us[i] = (int64_t)ladder->waits_s[i] * SECOND_US;
}

/* ---- reading ---- */

static bool read_step(struct settings_reader *reader)
{
    struct schedule *schedule = reader->into;
    if (schedule->count == RETRY_STEPS_MAX)
        return settings_bad(reader, "the retry schedule has more than %d steps", RETRY_STEPS_MAX);
    if (!settings_duration(reader, 0, WAIT_MAX_US, &schedule->waits_us[schedule->count]))
        return false;
    schedule->count++;
    return true;
}

static bool read_name(struct settings_reader *reader, struct schedule *schedule)
{
    struct bytes name;
    char list[120] = "";
    size_t len = 0;
    if (!settings_text(reader, 64, &name))
        return false;
    const struct ladder *ladder = ladder_find(name);
    if (ladder) {
        climb(ladder, schedule);
        return true;
    }
    for (unsigned i = 0; i < LADDERS && len < sizeof(list); i++)
        len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "",
                                ladders[i].name);
    return settings_bad(reader,
                        "no schedule has that name: waits are a list, [\"1m\",\"10m\"], and "
                        "the names are %s",
                        list);
}

/* ---- the formula, as Google Cloud Tasks has it ---- */

enum { FORMULA_MIN, FORMULA_MAX, FORMULA_DOUBLINGS, FORMULA_ATTEMPTS, FORMULA_FIELDS };

struct formula {
    int64_t min_us, max_us, doublings, attempts;
};

static bool read_min(struct settings_reader *reader)
{
    struct formula *formula = reader->into;
    return settings_duration(reader, 0, WAIT_MAX_US, &formula->min_us);
}

static bool read_max(struct settings_reader *reader)
{
    struct formula *formula = reader->into;
    return settings_duration(reader, 0, WAIT_MAX_US, &formula->max_us);
}

static bool read_doublings(struct settings_reader *reader)
{
    struct formula *formula = reader->into;
    return settings_number(reader, 0, DOUBLINGS_MAX, &formula->doublings);
}

static bool read_attempts(struct settings_reader *reader)
{
    struct formula *formula = reader->into;
    return settings_number(reader, 2, RETRY_STEPS_MAX + 1, &formula->attempts);
}

static const struct settings_field formula_fields[FORMULA_FIELDS] = {
    [FORMULA_MIN] = {"min", read_min},
    [FORMULA_MAX] = {"max", read_max},
    [FORMULA_DOUBLINGS] = {"doublings", read_doublings},
    [FORMULA_ATTEMPTS] = {"attempts", read_attempts},
};

/* min, 2 min, 4 min … 2^doublings min; from there on it grows by 2^doublings min; at most max. */
static void follow(const struct formula *formula, struct schedule *out_schedule)
{
    int64_t wait_us = formula->min_us, grown_us = formula->min_us;
    for (int64_t i = 0; i < formula->attempts - 1; i++) {
        out_schedule->waits_us[i] = wait_us < formula->max_us ? wait_us : formula->max_us;
        if (i <= formula->doublings)
            grown_us = wait_us;        /* which doubles it */
        if (wait_us < formula->max_us) /* both are at most WAIT_MAX_US: no overflow */
            wait_us += grown_us;
    }
    out_schedule->count = (uint8_t)(formula->attempts - 1);
}

static bool read_formula(struct settings_reader *reader, struct schedule *schedule)
{
    struct formula formula = {.max_us = HOUR * (int64_t)SECOND_US, .doublings = DOUBLINGS_MAX};
    uint32_t given;
    if (!settings_inner_object(reader, formula_fields, FORMULA_FIELDS, &formula, &given))
        return false;
    if (!(given >> FORMULA_MIN & 1) || !(given >> FORMULA_ATTEMPTS & 1))
        return settings_bad(reader, "a formula needs at least min and attempts: "
                                    "{\"min\":\"10s\",\"max\":\"5m\",\"doublings\":3,"
                                    "\"attempts\":10}");
    if (formula.min_us > formula.max_us)
        return settings_bad(reader, "min is larger than max, which is 1h unless it is given");
    follow(&formula, schedule);
    return true;
}

bool schedule_read(struct settings_reader *reader, struct schedule *out_schedule)
{
    void *outer = reader->into;
    struct schedule schedule = {0};
    bool good = false;
    switch (reader->value.kind) {
    case JSON_KIND_STRING: good = read_name(reader, &schedule); break;
    case JSON_KIND_OBJECT: good = read_formula(reader, &schedule); break;
    case JSON_KIND_ARRAY:
        reader->into = &schedule;
        good = settings_items(reader, read_step);
        reader->into = outer;
        break;
    case JSON_KIND_NULL:
    case JSON_KIND_BOOL:
    case JSON_KIND_NUMBER:
        return settings_bad(reader,
                            "the retry schedule must be an array of durations, the name of "
                            "a schedule, or an object with min, max, doublings and attempts");
    }
    if (good)
        *out_schedule = schedule;
    return good;
}

static bool is_between(char c)
{
    return c == ' ' || c == ',' || c == '\t';
}

bool schedule_read_words(struct bytes text, struct schedule *out_schedule, const char **out_why)
{
    struct schedule schedule = {0};
    const struct ladder *ladder = ladder_find(text);
    if (ladder)
        climb(ladder, &schedule);
    for (size_t i = 0; !ladder && i < text.len;) {
        size_t start = i;
        while (i < text.len && !is_between(text.at[i]))
            i++;
        struct bytes word = bytes_of(text.at + start, i - start);
        i++;
        if (word.len == 0)
            continue;
        if (schedule.count == RETRY_STEPS_MAX) {
            *out_why = "a retry schedule has at most 64 steps";
            return false;
        }
        int64_t *wait_us = &schedule.waits_us[schedule.count++];
        if (!duration_read(word, wait_us) || *wait_us > WAIT_MAX_US) {
            *out_why = "a retry schedule is a list of durations such as "
                       "\"2m 10m 1h\", or the name of one, such as alipay or standard";
            return false;
        }
    }
    *out_schedule = schedule;
    return true;
}

void schedule_write(const struct schedule *schedule, struct buf *out)
{
    if (schedule->ladder) {
        json_add_text(out, bytes_str(schedule->ladder->name), JSON_STYLE_PLAIN);
        return;
    }
    buf_add_char(out, '[');
    for (unsigned i = 0; i < schedule->count; i++) {
        if (i)
            buf_add_char(out, ',');
        settings_put_duration(out, schedule->waits_us[i]);
    }
    buf_add_char(out, ']');
}

void schedule_limit(struct schedule *schedule, unsigned attempts)
{
    if (attempts == 0)
        return;
    CHECK(attempts >= 2 && attempts <= RETRY_STEPS_MAX + 1);
    int64_t last_us = schedule->count ? schedule->waits_us[schedule->count - 1] : 0;
    while (schedule->count < attempts - 1)
        schedule->waits_us[schedule->count++] = last_us;
    schedule->count = (uint8_t)(attempts - 1);
}
