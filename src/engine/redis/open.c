/* Opens the engine, has a standby serve, and ends it, by running turns until that is done. */
#include "engine/redis/engine_parts.h"

/* Runs a turn of the loop and of the engine. */
static void turn_alone(struct redis_engine *redis)
{
    struct engine *port = redis_engine_port(redis);
    loop_turn(redis->options.loop, port->verbs->end(port));
    port->verbs->match(port);
}

static enum err wait_until_started(struct redis_engine *redis, struct redis_error *out_error)
{
    enum err err;
    while ((err = redis_engine_started(redis, out_error)) == ERR_AGAIN)
        turn_alone(redis);
    return err;
}

enum err redis_engine_take_over(struct redis_engine *redis, struct redis_error *out_error)
{
    redis_engine_serve(redis);
    return wait_until_started(redis, out_error);
}

/* After an error *out_partitions is redis_engine_queue_partitions(). */
static enum err open_once(const struct redis_options *options, struct redis_engine **out_redis,
                          uint32_t *out_partitions, struct redis_error *out_error)
{
    *out_partitions = 0;
    enum err err = redis_engine_new(options, out_redis, out_error);
    if (err)
        return err;
    err = wait_until_started(*out_redis, out_error);
    if (err) {
        *out_partitions = redis_engine_queue_partitions(*out_redis);
        if (!*out_partitions) /* else none was opened; or, in a cluster, a new first one */
            redis_engine_stop(*out_redis);
        redis_engine_free(*out_redis);
        *out_redis = NULL;
    }
    return err;
}

enum err redis_engine_open(const struct redis_options *options, struct redis_engine **out_redis,
                           struct redis_error *out_error)
{
    struct redis_options again = *options;
    uint32_t queue = 0;
    enum err err = open_once(options, out_redis, &queue, out_error);
    again.partitions = queue;
    return err && queue ? open_once(&again, out_redis, &queue, out_error) : err;
}

void redis_engine_stop(struct redis_engine *redis)
{
    if (!redis)
        return;
    redis_engine_leave(redis);
    while (!redis_engine_left(redis))
        turn_alone(redis);
}
