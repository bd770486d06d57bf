/*
 * What the stages of turns take, to find out why one was long. Measured with `server.turn_cpu = 1`
 * only, in processor time of the main thread: a system call at each change of stage, and three more
 * for each turn (the processor time at its beginning and end, page faults at its beginning).
 * A turn above TURN_LONG_US is logged as `long_turn`: once a second, and meanwhile if it is longer
 * than the last one that was logged.
 */
#ifndef LATERD_SERVER_TURN_METER_H
#define LATERD_SERVER_TURN_METER_H

#include <stdint.h>

#include "port/clock.h"

enum { TURN_LONG_US = 5000 };

/* In the order of a turn (turn.c). */
enum turn_stage {
    STAGE_BEGIN,
    STAGE_GATHER,
    STAGE_BATCHES,
    STAGE_EXPIRE,
    STAGE_REQUEUE,
    STAGE_PUSH,
    STAGE_MATCH,
    STAGE_FLUSH,
    STAGE_END,
    STAGE_FLUSH_DURABLE, /* the second flush */
    STAGE_SETTLE,
    TURN_STAGES
};

/* A zeroed one does not measure. */
struct turn_meter {
    struct clock *clock; /* NULL: nothing is measured */
    enum turn_stage stage;
    int64_t began_us, looked_us; /* processor time */
    int64_t clock_us;            /* at the turn's beginning */
    uint64_t faults;             /* the same */
    int64_t took_us[TURN_STAGES];
    int64_t logged_us;      /* by the clock; 0: never */
    int64_t logged_took_us; /* that turn's processor time */
    uint64_t unlogged;      /* long turns since then */
};

/* A turn begins at `clock_us`. `clock` has `cpu_us`. */
void turn_meter_begin(struct turn_meter *meter, struct clock *clock, int64_t clock_us);
void turn_meter_read(struct turn_meter *meter, enum turn_stage stage); /* of one that measures */

/* The stage before `stage` ends. */
static inline void turn_meter_look(struct turn_meter *meter, enum turn_stage stage)
{
    if (meter->clock)
        turn_meter_read(meter, stage);
}

/* The turn ends; returns its processor time in microseconds. */
int64_t turn_meter_end(struct turn_meter *meter);

/* Writes "name:us" of each stage that took 100 us or more, with commas between them. */
enum { TURN_PARTS_BYTES = 512 };
void turn_meter_parts(const struct turn_meter *meter, char out_text[static TURN_PARTS_BYTES]);

#endif
