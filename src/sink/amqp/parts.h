/* Internal declarations of this plugin. */
#ifndef LATERD_SINK_AMQP_PARTS_H
#define LATERD_SINK_AMQP_PARTS_H

#include "sink/plugin.h"

/* As plugin::open. */
enum err rabbit_publisher_open(const struct broker_options *options, struct sink **out_sink,
                               struct broker_error *out_error) MUST_USE;

/* As plugin::open_intake. */
enum err rabbit_consumer_open(const struct intake_options *options, struct intake **out_intake,
                              struct broker_error *out_error) MUST_USE;

#endif
