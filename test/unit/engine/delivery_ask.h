/*
 * What the tests of delivery_bed.h ask of their one bed, and what its observer was told.
 */
#ifndef LATERD_TEST_DELIVERY_ASK_H
#define LATERD_TEST_DELIVERY_ASK_H

#include "delivery_bed.h"

static struct delivery_bed bed;

static inline struct cmd a_push(const char *id, struct bytes properties, struct bytes body)
{
    return (struct cmd){.kind = CMD_PUSH,
                        .push = {.id = bytes_str(id),
                                 .topic = BYTES("t"),
                                 .ttr_us = DELIVERY_TTR_US,
                                 .if_exists = IF_EXISTS_REPLACE,
                                 .content_type = BYTES("text/plain"),
                                 .body = body,
                                 .properties = properties}};
}

static inline enum err of_job(enum cmd_kind kind, const char *id)
{
    struct cmd cmd = {.kind = kind, .job.ref.id = bytes_str(id)};
    return delivery_do(&bed, &cmd);
}

/* What an observer was told last of topics "t0" to "t9". */
static struct told {
    struct settings_observer observer;
    uint64_t version[10];
    char text[10][32];
    size_t len[10];
    unsigned calls;
} told;

static inline void settings_told(struct settings_observer *observer, struct bytes topic,
                                 uint64_t version, struct bytes settings)
{
    assert_ptr_equal(observer, &told.observer);
    unsigned number = (unsigned)(topic.at[1] - '0');
    assert_true(version > told.version[number]);
    assert_true(settings.len < sizeof(told.text[0]));
    told.version[number] = version;
    told.len[number] = settings.len;
    if (settings.len)
        memcpy(told.text[number], settings.at, settings.len);
    told.calls++;
}

static inline void observe(void)
{
    told = (struct told){.observer.changed = settings_told};
    bed.engine->verbs->observe_settings(bed.engine, &told.observer);
}

#endif
