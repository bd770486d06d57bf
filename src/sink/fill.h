/* Names in a broker with parts taken from the job: "orders.{topic}". Pure. */
#ifndef LATERD_SINK_FILL_H
#define LATERD_SINK_FILL_H

#include "port/sink.h"

/*
 * Writes `text` into the room, with the job's topic for {topic} and its key for {key}; other braces
 * stay. False: it does not fit. O(length).
 */
bool sink_fill_bytes(struct bytes text, const struct delivery *delivery, char *room,
                     size_t room_bytes, size_t *out_len);
/* The same, terminated by NUL. Also false: it contains a NUL. */
bool sink_fill(struct bytes text, const struct delivery *delivery, char *room, size_t room_bytes);

#endif
