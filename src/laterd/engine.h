/*
 * Opens the engine that the configuration chooses. Only this file and server/assemble.h know which
 * one it is.
 */
#ifndef LATERD_LATERD_ENGINE_H
#define LATERD_LATERD_ENGINE_H

#include "laterd/command_line.h"
#include "os/disk.h"
#include "os/loop.h"
#include "server/assemble.h"

struct fence;
struct member;
struct redis_engine;
struct restore;
struct journal_control;
struct journal_maker;
struct redis_login;
struct tls;

/* Why engine_open() has failed. In an election only the first is reported on standard error. */
enum engine_opening {
    OPENING_FAILED,      /* reported on standard error */
    OPENING_LOCKED,      /* another process still has the store open */
    OPENING_LOWER_EPOCH, /* the store was led with our epoch or a higher one: store_epoch */
    OPENING_TERM_ENDED,  /* we no longer lead; the store is not at fault */
};

struct laterd_engine {
    struct os_disk *disk;       /* of the embedded engine; NULL: nothing is kept on disk */
    char *data_dir;             /* its absolute path, from malloc(); NULL: not known */
    struct os_loop *loop;       /* watches `disk`: see engine_watch() */
    struct embedded *embedded;  /* NULL: it is the Redis engine */
    struct redis_engine *redis; /* NULL: it is the embedded engine */
    char label[96];             /* of this daemon, for people: Redis engine only */
    /* These five are set before engine_open(): */
    struct redis_login *login;     /* of the Redis engine, and what engine_read_files() has read */
    struct journal_maker *journal; /* of the Redis engine; NULL: no journal */
    const struct member *member;   /* in an election: fences the disk; else NULL */
    enum err (*progress)(void *owner, const struct store_opening *opening);
    void *progress_owner; /* of embedded_options::opening */

    struct tls *tls;             /* of connections to Redis; NULL: none */
    uint32_t queue_partitions;   /* a standby's queue in Redis has so many; 0: as configured */
    struct fence *fence;         /* in front of `disk`; NULL: no election */
    enum engine_opening opening; /* why engine_open() has failed */
    uint64_t store_epoch;        /* OPENING_LOWER_EPOCH: the store's */
    bool stopped;                /* engine_stop() was called */
    bool standby;                /* `redis` does not serve yet: see engine_stand_by() */
    bool standby_logged;         /* standby_ready was logged */
    int64_t standby_at_us;       /* after a failure: do not try again before this time … */
    int64_t look_at_us;          /* … and when to look for another password meanwhile */
};

/* Checks the configuration without opening anything; the error is on standard error. */
enum err engine_check(const struct config *config) MUST_USE;

/* Reads the files and variables that the configuration names (redis.url, redis.tls_ca and others),
   and with them our user and passwords for Redis. `config` must have passed engine_check();
   *out_login borrows from it. ERR_NOT_FOUND: a file or variable cannot be read or used;
   ERR_INVALID: its content is wrong. The error is on standard error. Call it before other threads
   exist. */
enum err engine_read_files(const struct config *config, struct redis_login *out_login) MUST_USE;

/* Refuses to start with a beanstalkd log in the data directory, whose jobs we would not serve.
   Returns as engine_open(). */
int engine_refuse_binlog(const struct command_line *line) MUST_USE;

/*
 * Opens the engine on platform->loop, and the data directory if it has one: then platform->disk is
 * set. Returns 0, or the exit status, with the reason on standard error (but see `opening`); call
 * engine_close() in either case. May take minutes while a store is recovered.
 */
int engine_open(const struct command_line *line, struct platform *platform,
                struct laterd_engine *out_engine) MUST_USE;

/*
 * With engine = redis, on a laterd that waits to lead: prepares connections, scripts and
 * partitions, so that engine_open() takes one round trip, and logs what would keep it from serving.
 * To be called after each turn of the waiting server; does not wait. Returns when it must be called
 * next; INT64_MAX: after the next turn.
 */
int64_t engine_stand_by(const struct command_line *line, const struct platform *platform,
                        struct laterd_engine *engine);

/* Logs store_opened or redis_opened, with what was found there. */
void engine_log(const struct laterd_engine *engine, const struct command_line *line);

/* Sets options->engine. */
void engine_offer(const struct laterd_engine *engine, struct server_options *options);

/* The number of descriptors that the engine will need, for os_loop_new(). */
unsigned engine_descriptors(const struct command_line *line, const struct platform *platform);

/* Makes the loop watch the engine's descriptors. */
void engine_watch(struct laterd_engine *engine, struct os_loop *loop);

/* Stops serving the jobs, so that another process may. engine_close() frees the rest, and may wait
   for a journal's thread. Call after server_free(), which gives back jobs that did not reach their
   clients. */
void engine_stop(struct laterd_engine *engine);

/* Calls engine_stop() if that was not done, frees everything and zeroes the struct, which may then
   be opened again. Before the loop is freed. */
void engine_close(struct laterd_engine *engine);

/* ---- the Redis engine's part, for engine.c; see engine_redis.c ---- */

/* Each is as the function of the same name above, for engine = redis. In a build with REDIS=0
   engine_redis_open() refuses, and there is never a `redis`. */
enum err engine_redis_check(const struct config *config) MUST_USE;
enum err engine_redis_read_files(const struct config *config,
                                 struct redis_login *out_login) MUST_USE;
int engine_redis_open(const struct command_line *line, const struct platform *platform,
                      struct laterd_engine *engine) MUST_USE;
int64_t engine_redis_stand_by(const struct command_line *line, const struct platform *platform,
                              struct laterd_engine *engine);
void engine_redis_stop(struct redis_engine *redis);    /* as engine_stop(); NULL does nothing */
void engine_redis_close(struct laterd_engine *engine); /* its part of engine_close() */
struct engine *engine_redis_port(struct redis_engine *redis);
/* NULL: this daemon writes no journal. */
struct restore *engine_redis_restore(struct redis_engine *redis);
struct journal_control *engine_redis_journal_control(struct redis_engine *redis);
uint32_t engine_redis_partitions(const struct redis_engine *redis);

#endif
