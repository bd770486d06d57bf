/*
 * Between two answers clocks drift apart by less than 1/800: ours approaches the system's by 1/1000
 * after a step (os/clock.c), and crystals differ by less than the rest. A difference within that
 * bound is not a leap, and is adopted.
 */
#include "engine/redis/queue_clock.h"

#include "engine/redis/script_parts.h"

enum {
    DRIFT = 800,               /* the drift is at most 1/800: 1,250 ppm */
    DRIFT_MOST_US = 90 * 1000, /* however long ago the last answer was */
    DRIFTS_US = 5 * 1000,      /* outside the bounds: the clock should be read */
    HOLD_US = 3 * 1000 * 1000,
    NEW_US = 2 * 1000 * 1000, /* two heartbeats, by which we learn that it was set */
    SLOW_MOST = 3,            /* slow answers before the clock is set by one */
};

static int64_t tolerance_us(const struct queue_clock *clock, int64_t now_us)
{
    int64_t drift_us = (now_us - clock->agreed_us) / DRIFT;
    return QUEUE_CLOCK_CLOSE_US + (drift_us < DRIFT_MOST_US ? drift_us : DRIFT_MOST_US);
}

void queue_clock_bound(const struct queue_clock *clock, int64_t now_us, struct script_call *call)
{
    int64_t tolerated_us = tolerance_us(clock, now_us);
    int64_t queue_us = now_us + clock->least_us - tolerated_us;
    int64_t least_us = queue_us - clock->shift_us;
    int64_t most_us = now_us + clock->most_us + tolerated_us - clock->shift_us;
    bool possible = clock->known && queue_us > 0 && least_us > 0 && most_us < SCRIPT_FOREVER;
    call->least_us = possible ? least_us : 0;
    call->most_us = possible ? most_us : SCRIPT_FOREVER;
    call->queue_us = possible ? queue_us : 0;
}

enum queue_clock_suspect queue_clock_compare(struct queue_clock *clock,
                                             const struct script_call *call, int64_t queue_us,
                                             int64_t sent_us, int64_t read_us)
{
    int64_t least_us = queue_us - read_us, most_us = queue_us - sent_us;
    int64_t top_us = call->queue_us + (call->most_us - call->least_us);
    if (!clock->known || !call->queue_us)
        return CLOCK_AGREES; /* nothing is known yet; `open` comes first and reads the clock */
    if (queue_us <= call->queue_us)
        return CLOCK_LEAPT;
    if (queue_us >= top_us) /* the answer may have taken that long */
        return read_us - sent_us < QUEUE_CLOCK_CLOSE_US ? CLOCK_LEAPT : CLOCK_DRIFTS;
    if (least_us > clock->most_us + DRIFTS_US || most_us < clock->least_us - DRIFTS_US)
        return CLOCK_DRIFTS;
    clock->agreed_us = read_us;
    clock->agreed_sent_us = sent_us;
    clock->to_set = false; /* times are told by the estimate that expects that it was set */
    clock->slow.count = 0; /* they were of a leap that is over */
    clock->may_have_stood_still = false;
    clock->others_may_set_until_us = 0;
    if (most_us < clock->most_us && most_us >= clock->least_us)
        clock->most_us = most_us;
    /* The turn's time is before the answer was read: the least is for queue_clock_read() to say. */
    return clock->most_us - clock->least_us > 2 * (read_us - sent_us) + QUEUE_CLOCK_CLOSE_US
               ? CLOCK_DRIFTS
               : CLOCK_AGREES;
}

static enum queue_clock_verdict adopt(struct queue_clock *clock,
                                      const struct queue_clock_reading *reading)
{
    *clock = (struct queue_clock){
        .known = true,
        .least_us = reading->clock.queue_us - reading->read_us,
        .most_us = reading->clock.queue_us - reading->sent_us,
        .agreed_us = reading->read_us,
        .agreed_sent_us = reading->sent_us,
        .adopted_us = reading->read_us,
        .shift_us = reading->clock.shift_us,
        .set_count = reading->clock.set_count,
    };
    return CLOCK_ADOPTED;
}

/* The answer may have been slow, and tell little: what is known from before stays known, but for
 * the drift since. */
static enum queue_clock_verdict agree(struct queue_clock *clock,
                                      const struct queue_clock_reading *reading,
                                      int64_t tolerated_us)
{
    struct queue_clock before = *clock;
    (void)adopt(clock, reading);
    clock->adopted_us = before.adopted_us;
    clock->put_back = before.put_back;
    bool drifted = clock->least_us > before.most_us || clock->most_us < before.least_us;
    int64_t drift_us = drifted ? tolerated_us : 0;
    if (before.least_us - drift_us > clock->least_us)
        clock->least_us = before.least_us - drift_us;
    if (before.most_us + drift_us < clock->most_us)
        clock->most_us = before.most_us + drift_us;
    return CLOCK_KEPT;
}

/* Is Redis' own clock what it was? */
static bool is_unleapt(const struct queue_clock *clock, const struct queue_clock_reading *reading,
                       int64_t tolerated_us)
{
    int64_t moved_us = reading->clock.shift_us - clock->shift_us;
    int64_t least_us = reading->clock.queue_us - reading->read_us - moved_us;
    int64_t most_us = reading->clock.queue_us - reading->sent_us - moved_us;
    return least_us <= clock->most_us + tolerated_us && most_us >= clock->least_us - tolerated_us;
}

/*
 * We have set the clock back, and another daemon has undone that, while Redis' own has not leapt:
 * it is ours that stood still. `set_us` shows that only if answers are fast, compared with how long
 * it stood still. Without this both would set the clock in turn, and later each time by a round
 * trip.
 */
static bool is_overruled(const struct queue_clock *clock, const struct queue_clock_reading *reading,
                         int64_t tolerated_us)
{
    int64_t ahead_us = reading->clock.queue_us - reading->read_us - clock->most_us;
    int64_t own_us = reading->clock.queue_us - reading->clock.shift_us;
    if (reading->clock.set_count <= clock->put_back.set_count)
        return false; /* it is from before ours, of which there is no answer yet */
    return reading->clock.set_count > clock->set_count && clock->put_back.by_us < HOLD_US &&
           reading->read_us - clock->put_back.at_us < HOLD_US && ahead_us > 0 &&
           ahead_us <= clock->put_back.by_us + 2 * tolerated_us &&
           own_us - reading->read_us <= clock->put_back.own_most_us + tolerated_us &&
           own_us - reading->sent_us >= clock->put_back.own_least_us - tolerated_us;
}

/*
 * Does the reading follow from another daemon's setting of the clock? Either Redis' own clock has
 * not leapt; or it leapt after the last answer that agreed, and was set after that leap, so less
 * time has passed since. Otherwise it has leapt once more after it was set.
 */
static bool follows_from_set(const struct queue_clock *clock,
                             const struct queue_clock_reading *reading, int64_t tolerated_us)
{
    int64_t since_set_us = reading->clock.queue_us - reading->clock.set_us;
    return is_unleapt(clock, reading, tolerated_us) ||
           (since_set_us >= 0 &&
            since_set_us <= reading->read_us - clock->agreed_sent_us + 2 * tolerated_us);
}

/* The script does not set the clock if it would be outside of the bounds, as when the request is
 * late. Else each attempt would make the estimate later by its round trip. */
static void undo_unless_set(struct queue_clock *clock, const struct queue_clock_reading *reading)
{
    if (clock->to_set && reading->clock.set_count == clock->to_set_count) {
        clock->least_us = clock->unset_least_us;
        clock->most_us = clock->unset_most_us;
    }
    clock->to_set = false;
}

/* Bounds of how far Redis' own clock is ahead of ours, in slow.least_us and slow.most_us: by this
 * reading and by the slow ones before it, unless it has leapt once more since. */
static void take_together(struct queue_clock *clock, const struct queue_clock_reading *reading)
{
    int64_t own_us = reading->clock.queue_us - reading->clock.shift_us;
    int64_t least_us = own_us - reading->read_us, most_us = own_us - reading->sent_us;
    int64_t drift_us = (reading->read_us - clock->slow.read_us) / DRIFT;
    int64_t former_least_us = clock->slow.least_us - drift_us;
    int64_t former_most_us = clock->slow.most_us + drift_us;
    if (clock->slow.count && least_us <= former_most_us && most_us >= former_least_us) {
        least_us = former_least_us > least_us ? former_least_us : least_us;
        most_us = former_most_us < most_us ? former_most_us : most_us;
    }
    clock->slow.least_us = least_us;
    clock->slow.most_us = most_us;
    clock->slow.read_us = reading->read_us;
}

/*
 * Never early: from the most that it can show to the least that it should. So it may be late by the
 * round trip; not by half of it, since nobody knows how much of it was the way there. Another
 * daemon that knows better would set it ahead again: early for those that have told times by it. So
 * if the answer took longer than usual, the clock is read once more, and the fastest ones count.
 */
static enum queue_clock_verdict set(struct queue_clock *clock,
                                    const struct queue_clock_reading *reading, int64_t *out_by_us)
{
    int64_t usual_us = clock->most_us - clock->least_us + QUEUE_CLOCK_CLOSE_US;
    take_together(clock, reading);
    int64_t unsure_us = clock->slow.most_us - clock->slow.least_us;
    if (unsure_us > usual_us && clock->slow.count++ < SLOW_MOST)
        return CLOCK_TO_READ;
    *out_by_us = clock->least_us - (clock->slow.most_us + reading->clock.shift_us);
    clock->slow.count = 0;
    clock->put_back.by_us = -*out_by_us;
    clock->put_back.at_us = reading->read_us;
    clock->put_back.own_least_us = clock->slow.least_us;
    clock->put_back.own_most_us = clock->slow.most_us;
    clock->put_back.set_count = reading->clock.set_count;
    clock->others_may_set_until_us = 0;
    clock->to_set = true;
    clock->to_set_count = reading->clock.set_count;
    clock->unset_least_us = clock->least_us;
    clock->unset_most_us = clock->most_us;
    clock->most_us = clock->least_us;
    clock->least_us -= unsure_us;
    return CLOCK_TO_SET;
}

enum queue_clock_verdict queue_clock_read(struct queue_clock *clock,
                                          const struct queue_clock_reading *reading,
                                          int64_t *out_by_us)
{
    int64_t least_us = reading->clock.queue_us - reading->read_us;
    int64_t most_us = reading->clock.queue_us - reading->sent_us;
    int64_t tolerated_us = tolerance_us(clock, reading->read_us);
    *out_by_us = 0;
    if (!clock->known)
        return adopt(clock, reading);
    if (reading->created)
        clock->set_count = reading->clock.set_count;
    undo_unless_set(clock, reading);
    if (least_us <= clock->most_us + tolerated_us && most_us >= clock->least_us - tolerated_us)
        return agree(clock, reading, tolerated_us);
    *out_by_us = most_us - clock->most_us; /* about */
    if (is_overruled(clock, reading, tolerated_us))
        return adopt(clock, reading);
    bool is_new = reading->read_us - clock->adopted_us < NEW_US;
    bool is_set = reading->clock.set_count > clock->set_count &&
                  follows_from_set(clock, reading, tolerated_us);
    bool is_behind = reading->clock.set_us > reading->read_us + clock->most_us + tolerated_us;
    if (is_set && (is_new || is_behind))
        return adopt(clock, reading);
    if ((clock->may_have_stood_still || is_new) && reading->clock.set_count >= clock->set_count) {
        if (!clock->others_may_set_until_us)
            clock->others_may_set_until_us = reading->read_us + HOLD_US;
        return reading->read_us < clock->others_may_set_until_us ? CLOCK_KEPT
                                                                 : adopt(clock, reading);
    }
    return set(clock, reading, out_by_us);
}
