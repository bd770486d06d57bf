/*
 * The headers of a message that control its job: x-delay, as the archived delayed-message plugin
 * interpreted it, and x-laterd-id, x-laterd-if-exists, x-laterd-cancel. Pure.
 */
#ifndef LATERD_SINK_AMQP_DELAY_H
#define LATERD_SINK_AMQP_DELAY_H

#include <amqp.h>

#include "port/intake.h"

/*
 * A number of any integer type, a float or decimal (truncated), or a text of digits with or without
 * a sign; in milliseconds. False: none of these, which means no delay, as in the plugin.
 */
bool rabbit_delay_read(const amqp_field_value_t *value, int64_t *out_ms);

/* The value of x-delay in the message that is sent on: with its sign inverted, as the plugin
   did. */
amqp_field_value_t rabbit_delay_turned(int64_t ms);

/* A longer delay is cut to 100 years: dates end with the year 9999. */
#define RABBIT_DELAY_MOST_MS ((int64_t)100 * 365 * 86400 * 1000)

/*
 * Sets delay, id, if_exists and cancel from the headers, and inverts x-delay there if the message
 * is delayed. A message with an id replaces the job of that id, unless x-laterd-if-exists says
 * otherwise. Returns NULL, or why the message cannot become a job.
 */
const char *rabbit_headers_take(amqp_table_t *headers, struct intake_message *out_message);

#endif
