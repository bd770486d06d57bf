/*
 * Opens the engine that the configuration asks for. Only here and in server/assemble.h is it
 * known which one it is.
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
struct tls;

/* What engine_open() may meet in an election, and says nothing of. */
enum engine_opening {
    OPENING_FAILED,      /* said on standard error */
    OPENING_LOCKED,      /* another process has the store open still */
    OPENING_LOWER_EPOCH, /* the store was led with our epoch or a higher one: led_epoch */
    OPENING_TERM_ENDED,  /* we lead no longer: nothing is wrong with what was being opened */
};

struct laterd_engine {
    struct os_disk *disk;      /* NULL: nothing is kept, or it is kept elsewhere */
    struct os_loop *loop;      /* that watches it: see engine_watch() */
    struct embedded *embedded; /* this, or: */
    struct redis_engine *redis;
    char label[96];                /* of that: by which people know this daemon */
    struct journal_maker *journal; /* set before engine_open(): the Redis engine's; or NULL */
    struct tls *tls;               /* of connections to Redis; NULL: none */
    const struct member *member;   /* with an election, set before engine_open(): fences the disk */
    /* embedded_options::opening, set before engine_open(), too. */
    enum err (*progress)(void *owner, const struct store_opening *opening);
    void *progress_owner;
    struct fence *fence;         /* of it; NULL: none */
    enum engine_opening opening; /* why engine_open() has failed */
    uint64_t led_epoch;          /* OPENING_LOWER_EPOCH: the store's */
    bool left;                   /* engine_leave() was called */
    bool standby;                /* `redis` does not serve yet: see engine_stand_by() */
    bool standby_said;           /* that it is ready was logged */
    int64_t standby_at_us;       /* none is made before this, after one that could not be */
};

/* What can be told of the configuration without opening anything; says what is wrong. */
enum err engine_check(const struct config *config) MUST_USE;

/* Nobody's jobs are left behind in a log of beanstalkd that we would not read. As engine_open. */
int engine_refuse_binlog(const struct command_line *line) MUST_USE;

/*
 * Opens it on platform->loop, and the data directory if it has one: then platform->disk is set. 0,
 * or the exit status of a start that failed, which has been said on standard error; close it all
 * the same.
 */
int engine_open(const struct command_line *line, struct platform *platform,
                struct laterd_engine *out_engine) MUST_USE;

/*
 * Of one that waits to lead, with engine = redis: has connections, scripts and partitions ready, so
 * that engine_open() takes one round trip. What would keep it from serving is logged. To be called
 * after each turn of the server that waits; waits for nothing. Returns when it wants to be called
 * next; INT64_MAX: after the next turn.
 */
int64_t engine_stand_by(const struct command_line *line, const struct platform *platform,
                        struct laterd_engine *engine);

/* A line in the log: what was found there. */
void engine_log(const struct laterd_engine *engine, const struct command_line *line);

/* Fills in the engine of the server's options. */
void engine_offer(const struct laterd_engine *engine, struct server_options *options);

/* Descriptors that it will have, for os_loop_new: before it is opened. */
unsigned engine_descriptors(const struct command_line *line, const struct platform *platform);

/* Has the descriptors that the engine waits for watched. */
void engine_watch(struct laterd_engine *engine, struct os_loop *loop);

/* Gives up the jobs: another process may serve them. engine_close() frees what is left, and may
   wait for a journal's thread. After the server, which gives back to it what did not reach its
   clients. */
void engine_leave(struct laterd_engine *engine);

/* Zeroes it, after engine_leave() if that was not called; may be opened again then. Before the
   loop. */
void engine_close(struct laterd_engine *engine);

/* ---- of the Redis engine, for engine.c (engine_redis.c; nothing of it with REDIS=0) ---- */

enum err engine_redis_check(const struct config *config) MUST_USE;
int engine_redis_open(const struct command_line *line, const struct platform *platform,
                      struct laterd_engine *engine) MUST_USE;
int64_t engine_redis_stand_by(const struct command_line *line, const struct platform *platform,
                              struct laterd_engine *engine);
void engine_redis_stop(struct redis_engine *redis);
void engine_redis_free(struct redis_engine *redis);
struct engine *engine_redis_port(struct redis_engine *redis);
/* NULL: this daemon writes no journal. */
struct restore *engine_redis_restore(struct redis_engine *redis);
struct journal_control *engine_redis_journal_control(struct redis_engine *redis);

#endif
