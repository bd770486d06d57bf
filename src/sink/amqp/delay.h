/*
 * The headers of a message that say when it is due and what it is to its job: x-delay as the
 * archived delayed-message plugin read it, and x-laterd-id, x-laterd-if-exists, x-laterd-cancel.
 * Pure.
 */
#ifndef LATERD_SINK_AMQP_DELAY_H
#define LATERD_SINK_AMQP_DELAY_H

#include <amqp.h>

#include "port/intake.h"

/*
 * A number of any integer type, a float or decimal (truncated), or a text of digits with or without
 * a sign; in milliseconds. False: it is none of these, which the plugin took for no delay.
 */
bool rabbit_delay_read(const amqp_field_value_t *value, int64_t *out_ms);

/* What it becomes when the message goes on: its sign turned, as a signed integer. */
amqp_field_value_t rabbit_delay_turned(int64_t ms);

/* Longest delay that is kept: 10,000 years would not fit a date. */
#define RABBIT_DELAY_MOST_MS ((int64_t)100 * 365 * 86400 * 1000)

/*
 * Fills in delay, id, if_exists and cancel from the headers, and turns x-delay there if the message
 * is delayed. A message with an id replaces the job of that id unless it says otherwise. NULL:
 * good; else why the message can be no job.
 */
const char *rabbit_headers_take(amqp_table_t *headers, struct intake_message *out_message);

#endif
