/* [broker.NAME] of type redis. Not a plugin file: laterd's own Redis client needs no library. */
#ifndef LATERD_LATERD_BROKER_REDIS_H
#define LATERD_LATERD_BROKER_REDIS_H

#include "sink/plugin.h"

/* The same interface as a plugin's laterd_plugin. In a build with REDIS=0 its check() refuses. */
extern const struct plugin broker_redis;

#endif
