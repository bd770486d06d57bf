/* Names in a broker with parts taken from the job: "orders.{topic}". Pure. */
#ifndef LATERD_SINK_FILL_H
#define LATERD_SINK_FILL_H

#include "port/sink.h"

/*
 * Writes `text` into the room, terminated by NUL, with the job's topic for {topic} and its key for
 * {key}; other braces stay. False: it does not fit, or contains a NUL. O(length).
 */
bool sink_fill(struct bytes text, const struct delivery *delivery, char *room, size_t room_bytes);

#endif
