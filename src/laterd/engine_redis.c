/* The Redis engine's part of engine.h. Built with REDIS=0 it refuses that engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time_us.h"
#include "laterd/complain.h"
#include "laterd/engine.h"
#include "laterd/redis_login.h"
#include "os/tls.h"
#include "sink/reference.h"

#ifdef LATERD_NO_REDIS

enum err engine_redis_check(const struct config *config)
{
    (void)config; /* engine_redis_open() refuses */
    return OK;
}

enum err engine_redis_read_files(const struct config *config, struct redis_login *out_login)
{
    (void)config;
    (void)out_login;
    return OK;
}

int engine_redis_open(const struct command_line *line, const struct platform *platform,
                      struct laterd_engine *engine)
{
    (void)platform;
    (void)engine;
    complain("engine = redis: this laterd was built without Redis");
    return command_line_failed(line, EXIT_FAILURE);
}

int64_t engine_redis_stand_by(const struct command_line *line, const struct platform *platform,
                              struct laterd_engine *engine)
{
    (void)line;
    (void)platform;
    (void)engine;
    return INT64_MAX;
}

void engine_redis_stop(struct redis_engine *redis)
{
    (void)redis; /* there is none */
}

void engine_redis_close(struct laterd_engine *engine)
{
    (void)engine;
}

struct engine *engine_redis_port(struct redis_engine *redis)
{
    (void)redis;
    return NULL;
}

struct restore *engine_redis_restore(struct redis_engine *redis)
{
    (void)redis;
    return NULL;
}

struct journal_control *engine_redis_journal_control(struct redis_engine *redis)
{
    (void)redis;
    return NULL;
}

uint32_t engine_redis_partitions(const struct redis_engine *redis)
{
    (void)redis;
    return 0;
}

#else

enum err engine_redis_check(const struct config *config)
{
    struct redis_url url;
    struct redis_error error = {.text = ""};
    if (reference_is(config->redis_url))
        return OK; /* engine_redis_read_files() reads it */
    enum err err = redis_url_read(bytes_str(config->redis_url), &url, &error);
    if (err)
        complain("%s%s", config_place_text(config_place(config, "redis", "url")).text, error.text);
    return err;
}

static enum err make_tls(const struct config *config, struct tls **out_tls,
                         struct redis_error *out_error)
{
    struct tls_options options = {.keys = "redis.tls_",
                                  .ca = config->tls_ca,
                                  .certificate = config->tls_certificate,
                                  .key = config->tls_key};
    struct tls_error error = {.text = ""};
    enum err err = tls_client_new(&options, out_tls, &error);
    (void)snprintf(out_error->text, sizeof(out_error->text), "%s", error.text);
    return err;
}

/* Of the key that the error begins with. */
static struct config_place_text place_of(const struct config *config, const char *error)
{
    static const char *const keys[] = {"tls_ca", "tls_certificate", "tls_key", "sentinel_password"};
    struct config_place place = config_place(config, "redis", "url");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char begin[40];
        int len = snprintf(begin, sizeof(begin), "redis.%s", keys[i]);
        if (strncmp(error, begin, (size_t)len) == 0 && config_place(config, "redis", keys[i]).path)
            place = config_place(config, "redis", keys[i]);
    }
    return config_place_text(place);
}

/* Passwords may come from the environment, where no configuration file shows them. */
enum err engine_redis_read_files(const struct config *config, struct redis_login *out_login)
{
    struct redis_error error = {.text = ""};
    struct tls *tls = NULL;
    *out_login = (struct redis_login){
        .url = config->redis_url,
        .sentinel_password = config->sentinel_password,
        .default_password = getenv("LATERD_REDIS_PASSWORD"),
        .default_sentinel_password = getenv("LATERD_REDIS_SENTINEL_PASSWORD"),
    };
    enum err err = redis_login_read(out_login, &error);
    if (!err && out_login->now.url.tls && make_tls(config, &tls, &error))
        err = ERR_NOT_FOUND;
    if (err)
        complain("%s%s", place_of(config, error.text).text, error.text);
    tls_free(tls);
    return err;
}

/* ---- user and passwords that were replaced ---- */

static void connection_ended(void *owner)
{
    redis_login_again(owner);
}

/* A standby that was given up, perhaps for the former password, is made again at once. */
static void log_in_changed(struct redis_login *login)
{
    struct laterd_engine *engine = login->owner;
    engine->standby_at_us = 0;
    if (engine->redis)
        redis_engine_log_in_as(engine->redis, &login->now.url);
}

static void log_in_unread(struct redis_login *login, const char *why)
{
    (void)login;
    log_event(LOG_WARN, "redis_password_unread", "reason=\"%s\" hint=\"%s\"", why,
              "user and passwords stay those that laterd had before");
}

/* ---- opening ---- */

/* What to open it with. */
static enum err prepare(const struct command_line *line, const struct platform *platform,
                        struct laterd_engine *engine, struct redis_options *out_options,
                        struct redis_error *out_error)
{
    struct redis_login *login = engine->login;
    const struct redis_secrets *now = &login->now;
    (void)snprintf(engine->label, sizeof(engine->label), "%s, process %d", platform->host,
                   (int)getpid());
    login->loop = platform->loop;
    login->changed = log_in_changed;
    login->unread = log_in_unread;
    login->owner = engine;
    if (now->url.tls && !engine->tls) {
        enum err err = make_tls(&line->config, &engine->tls, out_error);
        if (err)
            return err;
    }
    *out_options = assemble_redis(&line->config, platform, &now->url, now->sentinel_password);
    out_options->tls = engine->tls;
    out_options->connection_ended = connection_ended;
    out_options->owner = login;
    out_options->journal = engine->journal;
    out_options->label = engine->label;
    return OK;
}

enum { READ_AGAIN_US = 1000 * 1000 };

/* Redis has refused us, perhaps because the password was replaced while nothing was connected.
   True: a file has another one. */
static bool has_other_login(struct redis_login *login, unsigned changes)
{
    int64_t until_us = loop_update_time(login->loop) + READ_AGAIN_US;
    while (login->reading && login->loop->now_us < until_us)
        loop_turn(login->loop, until_us);
    return login->changes != changes;
}

static enum err open_anew(const struct command_line *line, const struct platform *platform,
                          struct laterd_engine *engine, struct redis_error *out_error)
{
    struct redis_options options;
    unsigned changes = engine->login->changes;
    enum err err = prepare(line, platform, engine, &options, out_error);
    if (err)
        return err;
    err = redis_engine_open(&options, &engine->redis, out_error);
    if (err != ERR_UNSUPPORTED || !has_other_login(engine->login, changes))
        return err;
    err = prepare(line, platform, engine, &options, out_error);
    return err ? err : redis_engine_open(&options, &engine->redis, out_error);
}

/* True: the queue has another number of partitions than was supposed. The standby was ended, and
   the next one will be made with that number. */
static bool has_other_partitions(struct laterd_engine *engine)
{
    engine->queue_partitions = engine->redis ? redis_engine_queue_partitions(engine->redis) : 0;
    if (!engine->queue_partitions)
        return false;
    redis_engine_free(engine->redis);
    engine->redis = NULL;
    engine->standby = engine->standby_logged = false;
    return true;
}

int engine_redis_open(const struct command_line *line, const struct platform *platform,
                      struct laterd_engine *engine)
{
    struct redis_error error = {.text = ""};
    enum err err = OK;
    if (engine->redis) {
        engine->standby = false;
        err = redis_engine_take_over(engine->redis, &error);
        if (err && has_other_partitions(engine)) /* it leads before its standby has learnt that */
            err = open_anew(line, platform, engine, &error);
    } else {
        err = open_anew(line, platform, engine, &error);
    }
    if (!err)
        return 0;
    complain("cannot use Redis: %s", error.text);
    return command_line_failed(line, EXIT_FAILURE);
}

/* ---- the standby of a laterd that waits to lead ---- */

enum { STANDBY_AGAIN_US = 30 * 1000 * 1000, LOOK_AGAIN_US = 2000 * 1000 };

static void discard_standby(struct laterd_engine *engine, const char *why, int64_t now_us)
{
    log_event(LOG_ERROR, "standby_unfit", "reason=\"%s\" hint=\"%s\"", why,
              "this laterd waits to lead, and could not serve with this Redis: correct that; it "
              "is tried again twice a minute");
    redis_engine_free(engine->redis);
    engine->redis = NULL;
    engine->standby = engine->standby_logged = false;
    engine->standby_at_us = now_us + STANDBY_AGAIN_US;
    engine->look_at_us = now_us + LOOK_AGAIN_US;
}

/* There is none, until the time returned. Nothing connects meanwhile, so no connection that ends
   has the files read again: perhaps the password that was refused is replaced there. */
static int64_t wait_without_standby(struct laterd_engine *engine, int64_t now_us)
{
    if (engine->look_at_us <= now_us) {
        engine->look_at_us = now_us + LOOK_AGAIN_US;
        redis_login_again(engine->login);
    }
    return time_earlier(engine->look_at_us, engine->standby_at_us);
}

static enum err make_standby(const struct command_line *line, const struct platform *platform,
                             struct laterd_engine *engine, struct redis_error *out_error)
{
    struct redis_options options;
    enum err err = prepare(line, platform, engine, &options, out_error);
    if (err)
        return err;
    options.standby = true;
    if (engine->queue_partitions)
        options.partitions = engine->queue_partitions;
    err = redis_engine_new(&options, &engine->redis, out_error);
    engine->standby = !err;
    return err;
}

int64_t engine_redis_stand_by(const struct command_line *line, const struct platform *platform,
                              struct laterd_engine *engine)
{
    struct redis_error error = {.text = ""};
    int64_t now_us = platform->loop->now_us;
    enum err err = OK;
    if (!engine->redis && now_us < engine->standby_at_us)
        return wait_without_standby(engine, now_us);
    if (!engine->redis)
        err = make_standby(line, platform, engine, &error);
    if (!err)
        err = redis_engine_started(engine->redis, &error);
    if (err && err != ERR_AGAIN && has_other_partitions(engine))
        return now_us;
    if (err && err != ERR_AGAIN) {
        discard_standby(engine, error.text, now_us);
        return engine->standby_at_us;
    }
    if (!err && !engine->standby_logged)
        log_event(LOG_INFO, "standby_ready", "prefix=%s partitions=%u", line->config.redis_prefix,
                  redis_engine_partitions(engine->redis));
    engine->standby_logged = engine->standby_logged || !err;
    struct engine *port = redis_engine_port(engine->redis);
    return port->verbs->end(port); /* sends what the turn has brought */
}

void engine_redis_stop(struct redis_engine *redis)
{
    redis_engine_stop(redis);
}

void engine_redis_close(struct laterd_engine *engine)
{
    redis_engine_free(engine->redis);
    if (engine->login)
        redis_login_stop(engine->login);
}

struct engine *engine_redis_port(struct redis_engine *redis)
{
    return redis_engine_port(redis);
}

struct restore *engine_redis_restore(struct redis_engine *redis)
{
    return redis_engine_restore(redis);
}

struct journal_control *engine_redis_journal_control(struct redis_engine *redis)
{
    return redis_engine_journal_control(redis);
}

uint32_t engine_redis_partitions(const struct redis_engine *redis)
{
    return redis_engine_partitions(redis);
}

#endif
