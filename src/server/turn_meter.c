#include "server/turn_meter.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

enum {
    SHOWN_US = 100, /* shorter parts of a stage are not logged */
    LOG_EVERY_US = 1000 * 1000,
};

void turn_meter_begin(struct turn_meter *meter, struct clock *clock, int64_t clock_us)
{
    meter->clock = clock;
    meter->stage = STAGE_BEGIN;
    memset(meter->took_us, 0, sizeof(meter->took_us));
    meter->clock_us = clock_us;
    meter->faults = clock->page_faults ? clock->page_faults(clock) : 0;
    meter->began_us = meter->looked_us = clock->cpu_us(clock);
}

void turn_meter_read(struct turn_meter *meter, enum turn_stage stage)
{
    int64_t now_us = meter->clock->cpu_us(meter->clock);
    meter->took_us[meter->stage] += now_us - meter->looked_us;
    meter->stage = stage;
    meter->looked_us = now_us;
}

void turn_meter_parts(const struct turn_meter *meter, char out_text[static TURN_PARTS_BYTES])
{
    static const char *const names[TURN_STAGES] = {
        [STAGE_BEGIN] = "begin",     [STAGE_GATHER] = "gather",
        [STAGE_BATCHES] = "batches", [STAGE_EXPIRE] = "expire",
        [STAGE_REQUEUE] = "requeue", [STAGE_PUSH] = "push",
        [STAGE_MATCH] = "match",     [STAGE_FLUSH] = "flush",
        [STAGE_END] = "end",         [STAGE_FLUSH_DURABLE] = "flush_durable",
        [STAGE_SETTLE] = "settle",
    };
    size_t len = 0;
    out_text[0] = '\0';
    for (unsigned i = 0; i < TURN_STAGES; i++) {
        if (meter->took_us[i] >= SHOWN_US)
            len += (size_t)snprintf(out_text + len, TURN_PARTS_BYTES - len, "%s%s:%lld",
                                    len ? "," : "", names[i], (long long)meter->took_us[i]);
    }
}

static void log_long(struct turn_meter *meter, int64_t took_us)
{
    struct clock *clock = meter->clock;
    char parts[TURN_PARTS_BYTES];
    int64_t now_us = clock->now_us(clock);
    bool soon = meter->logged_us && now_us - meter->logged_us < LOG_EVERY_US;
    if (soon && took_us <= meter->logged_took_us) {
        meter->unlogged++;
        return;
    }
    uint64_t faults = clock->page_faults ? clock->page_faults(clock) - meter->faults : 0;
    turn_meter_parts(meter, parts);
    log_event(LOG_INFO, "long_turn",
              "cpu_us=%lld clock_us=%lld stages=%s page_faults=%llu unlogged=%llu",
              (long long)took_us, (long long)(now_us - meter->clock_us), parts,
              (unsigned long long)faults, (unsigned long long)meter->unlogged);
    meter->logged_us = now_us;
    meter->logged_took_us = took_us;
    meter->unlogged = 0;
}

int64_t turn_meter_end(struct turn_meter *meter)
{
    turn_meter_look(meter, STAGE_BEGIN);
    int64_t took_us = meter->looked_us - meter->began_us;
    if (took_us > TURN_LONG_US)
        log_long(meter, took_us);
    return took_us;
}
