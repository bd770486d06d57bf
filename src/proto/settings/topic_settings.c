#include "proto/settings/topic_settings.h"

#include "base/rfc3339.h"
#include "proto/settings/rate.h"
#include "proto/settings/target_codec.h"

enum {
    SECOND_US = 1000000,
    CONCURRENCY_MAX = 100000,
    PERMILLE = 1000,
};

static struct topic_settings *of(struct settings_reader *reader)
{
    return reader->into;
}

/* ---- fields ---- */

static bool read_target(struct settings_reader *reader)
{
    return target_read(reader, &of(reader)->target);
}

static bool read_retry(struct settings_reader *reader)
{
    of(reader)->has_retry = true;
    if (!schedule_read(reader, &of(reader)->retry))
        return false;
    return of(reader)->retry.count > 0 ||
           settings_bad(reader, "give at least one wait; \"attempts\":1 is for a target that is "
                                "tried once");
}

static bool read_attempts(struct settings_reader *reader)
{
    int64_t number;
    if (!settings_number(reader, 1, RETRY_STEPS_MAX + 1, &number))
        return false;
    of(reader)->attempts_max = (uint16_t)number;
    return true;
}

static bool read_ttr(struct settings_reader *reader)
{
    return settings_duration(reader, 1, TTR_MAX_US, &of(reader)->ttr_us);
}

/* Reads a number from 0 to 1, rounded to three digits, because some clients write 0.2 with 17. */
static bool read_jitter(struct settings_reader *reader)
{
    struct bytes text = reader->value.text;
    unsigned parts = 0, unit = PERMILLE; /* ten thousandths */
    bool good = reader->value.kind == JSON_KIND_NUMBER &&
                (text.at[0] == '0' || text.at[0] == '1') && (text.len == 1 || text.at[1] == '.');
    if (good)
        parts = text.at[0] == '1' ? 10 * PERMILLE : 0;
    for (size_t i = 2; good && i < text.len; i++) {
        good = text.at[i] >= '0' && text.at[i] <= '9';
        parts += good ? unit * (unsigned)(text.at[i] - '0') : 0;
        unit /= 10;
    }
    if (!good || parts > 10 * PERMILLE)
        return settings_bad(reader, "this must be a number from 0 to 1, such as 0.2");
    of(reader)->jitter_permille = (uint16_t)((parts + 5) / 10);
    return true;
}

static bool read_count(struct settings_reader *reader, int64_t most, uint32_t *out_count)
{
    int64_t number;
    if (!settings_number(reader, 1, most, &number))
        return false;
    *out_count = (uint32_t)number;
    return true;
}

static bool read_concurrency(struct settings_reader *reader)
{
    return read_count(reader, CONCURRENCY_MAX, &of(reader)->concurrency);
}

static bool read_key_concurrency(struct settings_reader *reader)
{
    return read_count(reader, CONCURRENCY_MAX, &of(reader)->key_concurrency);
}

/* "100/s" "5/m" "1/10s" */
static bool read_jobs_in_time(struct settings_reader *reader, uint32_t *out_count, int64_t *out_us)
{
    bool is_text = reader->value.kind == JSON_KIND_STRING;
    if (!is_text || !rate_read(json_text(&reader->value, reader->scratch), out_count, out_us))
        return settings_bad(reader, "this must be a number of jobs in a time, such as \"100/s\", "
                                    "\"5/m\" or \"1/10s\"; the time is 1ms … 1d");
    return true;
}

static bool read_rate(struct settings_reader *reader)
{
    return read_jobs_in_time(reader, &of(reader)->rate_count, &of(reader)->rate_us);
}

static bool read_key_rate(struct settings_reader *reader)
{
    return read_jobs_in_time(reader, &of(reader)->key_rate_count, &of(reader)->key_rate_us);
}

static bool read_burst(struct settings_reader *reader)
{
    return read_count(reader, RATE_MAX, &of(reader)->burst);
}

static const char *const orders[] = {[ORDER_NONE] = "none", [ORDER_BY_KEY] = "key", NULL};

static bool read_order(struct settings_reader *reader)
{
    unsigned place;
    if (!settings_word(reader, orders, &place))
        return false;
    of(reader)->order = (enum order_kind)place;
    return true;
}

static bool read_paused(struct settings_reader *reader)
{
    return settings_bool(reader, &of(reader)->paused);
}

static bool read_paused_why(struct settings_reader *reader)
{
    struct bytes *why = &of(reader)->paused_why;
    if (!settings_text(reader, PAUSED_WHY_MAX, why))
        return false;
    return bytes_is_printable(*why) || settings_bad(reader, "this has control characters");
}

static const struct settings_field fields[] = {
    {"target", read_target},
    {"retry", read_retry},
    {"attempts", read_attempts},
    {"ttr", read_ttr},
    {"jitter", read_jitter},
    {"concurrency", read_concurrency},
    {"rate", read_rate},
    {"burst", read_burst},
    {"key_concurrency", read_key_concurrency},
    {"key_rate", read_key_rate},
    {"order", read_order},
    {"paused", read_paused},
    {"paused_why", read_paused_why},
};

static bool refuse(struct settings_problem *problem, const char *field, const char *detail)
{
    memset(problem, 0, sizeof(*problem));
    problem->code = "bad_field";
    memcpy(problem->field, field, strlen(field));
    memcpy(problem->detail, detail, strlen(detail));
    return false;
}

/* Do the fields fit one another? */
static bool fits(const struct topic_settings *settings, struct settings_problem *problem)
{
    if (settings->burst && settings->rate_us == 0)
        return refuse(problem, "burst", "burst is a part of rate: give rate, too");
    if (settings->attempts_max == 1 && settings->has_retry)
        return refuse(problem, "attempts", "with one attempt there is no retry: leave one out");
    if (settings->attempts_max == 1 && settings->target.type == TARGET_NONE)
        return refuse(problem, "attempts",
                      "without a target this must be 2 … 65: consumers bury what they will not try "
                      "again");
    if (settings->paused_why.len && !settings->paused)
        return refuse(problem, "paused_why", "this goes with \"paused\":true");
    return true;
}

/* The settings of a topic that has none. */
static struct topic_settings no_settings(void)
{
    return (struct topic_settings){.jitter_permille = JITTER_DEFAULT_PERMILLE};
}

enum err topic_settings_read(struct bytes text, struct arena *scratch,
                             struct topic_settings *out_settings,
                             struct settings_problem *out_problem)
{
    struct topic_settings settings = no_settings();
    struct settings_reader reader;
    settings_reader_init(&reader, scratch, "", out_problem);
    if (text.len > TOPIC_SETTINGS_MAX) {
        (void)settings_bad(&reader, "the settings have %zu bytes, the limit is %d", text.len,
                           TOPIC_SETTINGS_MAX);
        return ERR_INVALID;
    }
    if (!settings_object(&reader, text, fields, sizeof(fields) / sizeof(fields[0]), &settings,
                         NULL) ||
        !fits(&settings, out_problem))
        return ERR_INVALID;
    *out_settings = settings;
    return OK;
}

/* ---- writing ---- */

static void add_jitter(unsigned permille, struct buf *out)
{
    settings_add_key(out, "jitter");
    if (permille == PERMILLE) {
        buf_add_char(out, '1');
        return;
    }
    buf_add_char(out, '0');
    if (permille)
        buf_add_char(out, '.');
    for (unsigned unit = PERMILLE / 10; permille; unit /= 10) {
        buf_add_char(out, (char)('0' + permille / unit));
        permille %= unit;
    }
}

static void add_rate(const char *name, uint32_t count, int64_t us, struct buf *out)
{
    char room[DURATION_ROOM];
    settings_add_key(out, name);
    buf_add_char(out, '"');
    buf_add_u64(out, count);
    buf_add_char(out, '/');
    if (us == SECOND_US)
        buf_add_char(out, 's');
    else if (us == INT64_C(60) * SECOND_US)
        buf_add_char(out, 'm');
    else
        buf_add_str(out, duration_print(us, room));
    buf_add_char(out, '"');
}

void topic_settings_write(const struct topic_settings *settings, struct buf *out)
{
    buf_add_char(out, '{');
    if (settings->target.type != TARGET_NONE) {
        settings_add_key(out, "target");
        target_write(&settings->target, out);
    }
    if (settings->has_retry) {
        settings_add_key(out, "retry");
        schedule_write(&settings->retry, out);
    }
    if (settings->attempts_max)
        settings_add_number(out, "attempts", settings->attempts_max);
    if (settings->ttr_us)
        settings_add_duration(out, "ttr", settings->ttr_us);
    if (settings->jitter_permille != JITTER_DEFAULT_PERMILLE)
        add_jitter(settings->jitter_permille, out);
    if (settings->concurrency)
        settings_add_number(out, "concurrency", settings->concurrency);
    if (settings->rate_us)
        add_rate("rate", settings->rate_count, settings->rate_us, out);
    if (settings->burst)
        settings_add_number(out, "burst", settings->burst);
    if (settings->key_concurrency)
        settings_add_number(out, "key_concurrency", settings->key_concurrency);
    if (settings->key_rate_us)
        add_rate("key_rate", settings->key_rate_count, settings->key_rate_us, out);
    if (settings->order != ORDER_NONE)
        settings_add_text(out, "order", bytes_str(orders[settings->order]));
    if (settings->paused) {
        settings_add_key(out, "paused");
        buf_add_str(out, "true");
    }
    if (settings->paused_why.len)
        settings_add_text(out, "paused_why", settings->paused_why);
    buf_add_char(out, '}');
}

struct schedule topic_settings_schedule(const struct topic_settings *settings,
                                        const struct schedule *fallback)
{
    struct schedule schedule = settings->has_retry ? settings->retry : *fallback;
    if (settings->attempts_max > 1)
        schedule_limit(&schedule, settings->attempts_max);
    else if (settings->attempts_max == 1)
        schedule.count = 0;
    return schedule;
}
