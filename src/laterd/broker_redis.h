/* [broker.NAME] of type redis. No plugin: the client is our own, and in laterd already. */
#ifndef LATERD_LATERD_BROKER_REDIS_H
#define LATERD_LATERD_BROKER_REDIS_H

#include "sink/plugin.h"

/* As a plugin's laterd_plugin. With REDIS=0 its check() refuses. */
extern const struct plugin broker_redis;

#endif
