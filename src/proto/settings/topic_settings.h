/*
 * The settings of a topic as JSON, the form in which clients send them and engines store them.
 * Pure.
 *
 *     {"target":{"type":"http","url":"https://shop.example/hook","headers":{"X-A":"1"},
 *                "timeout":"15s","sign":["$HOOK_NEW","$HOOK_OLD"],
 *                "success":{"status":"2xx","body":"success"},"bury_on":[400],
 *                "encoding":"plain"},
 *      "retry":"alipay","attempts":8,"jitter":0.2,"ttr":"60s",
 *      "concurrency":20,"rate":"100/s","burst":100,"order":"none",
 *      "key_concurrency":1,"key_rate":"1/s",
 *      "paused":false}
 */
#ifndef LATERD_PROTO_SETTINGS_TOPIC_SETTINGS_H
#define LATERD_PROTO_SETTINGS_TOPIC_SETTINGS_H

#include "base/arena.h"
#include "base/err.h"
#include "core/cmd.h"
#include "core/target.h"
#include "proto/settings/schedule.h"

enum order_kind {
    ORDER_NONE,   /* many jobs at once, in any order */
    ORDER_BY_KEY, /* one job of each key at a time; the next one waits until it has ended */
};

enum { JITTER_DEFAULT_PERMILLE = 200, PAUSED_WHY_MAX = 200 };

/* Bytes are borrowed from the text or the arena that it was read with. */
struct topic_settings {
    struct target target;
    /* Of jobs that are pushed without a schedule of their own: */
    bool has_retry;
    struct schedule retry;    /* as given; after the last of its delays the job is buried */
    uint16_t attempts_max;    /* attempts at most; 0: as many as the schedule has; 1: no second
                                 attempt, allowed only with a target: then deliveries look at it
                                 here, while the schedule of a job cannot say "never again" */
    int64_t ttr_us;           /* of jobs that are pushed without one; 0: the server's */
    uint16_t jitter_permille; /* of a wait, more or less; deliveries only; 200 unless set */
    /* Of deliveries: */
    uint32_t concurrency;     /* under way at once; 0: push.concurrency */
    uint32_t rate_count;      /* at most this many deliveries … */
    int64_t rate_us;          /* … within this time; 0: no limit */
    uint32_t burst;           /* at once, of those; 0: rate_count, at least 1 */
    uint32_t key_concurrency; /* the same for the jobs of one key; 0: no limit */
    uint32_t key_rate_count;
    int64_t key_rate_us;
    enum order_kind order;
    bool paused; /* nothing is sent: the target answered 410, or failed for push.disable_after */
    struct bytes paused_why; /* "gone", "failing", or an operator's text */
};

/*
 * Reads settings. Strict: an unknown field is refused by its name. ERR_INVALID: out_problem. What
 * is not borrowed from `text` lives in `scratch`.
 */
enum err topic_settings_read(struct bytes text, struct arena *scratch,
                             struct topic_settings *out_settings,
                             struct settings_problem *out_problem) MUST_USE;

/* Appends them as JSON, in one fixed form, from which the same settings are read. */
void topic_settings_write(const struct topic_settings *settings, struct buf *out);

/*
 * The schedule of a job that is pushed without one: the settings' own, with their attempts; else
 * `fallback`, which is the server's, with their attempts. count 0: no schedule, again at once and
 * without a limit (but see attempts_max 1).
 */
struct schedule topic_settings_schedule(const struct topic_settings *settings,
                                        const struct schedule *fallback);

#endif
