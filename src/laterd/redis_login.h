/*
 * The user and the passwords for connections to Redis. The configuration may give them by reference
 * ($NAME, file:PATH). They are read at the start. Those in files are read again whenever a
 * connection has ended, and the next attempt to connect uses what the file has then: a password can
 * be replaced without a restart. That read happens on a thread of its own, because the loop's
 * thread must not wait for a disk.
 *
 * Single-threaded, but for that thread, which shares a struct redis_reading alone.
 */
#ifndef LATERD_LATERD_REDIS_LOGIN_H
#define LATERD_LATERD_REDIS_LOGIN_H

#include "client/redis/url.h"
#include "port/loop.h"

struct redis_reading;

/* What both texts stand for. */
struct redis_secrets {
    struct redis_url url;
    char sentinel_password[REDIS_WORD_MAX]; /* empty: none */
};

struct redis_login {
    /* Set by the owner, and borrowed. As the configuration has them: */
    const char *url;
    const char *sentinel_password; /* "": none */
    /* Passwords where those have none; NULL: none. */
    const char *default_password, *default_sentinel_password;

    struct redis_secrets now; /* as they were read last; all of `url` but user and password as they
                                 were read first */

    /* Set by the owner before redis_login_again(): */
    struct loop *loop;
    void (*changed)(struct redis_login *login); /* of `now`, user or a password */
    /* A file cannot be read, or takes long to be, which is told once until it is: `now` stays.
       `why` begins with the key, "redis.url: " or "redis.sentinel_password: ". */
    void (*unread)(struct redis_login *login, const char *why);
    void *owner;

    unsigned changes; /* how often `changed` was called */

    struct redis_reading *reading; /* under way; NULL: none */
    struct timer look;             /* while one is under way: is it done? … */
    int64_t look_us;               /* … and if not, how long until the next look */
    bool complained;
};

/*
 * Sets `now`. ERR_NOT_FOUND: a variable or a file is missing, unreadable or empty; ERR_INVALID:
 * what it has cannot be a URL, or a password. The error begins with the key, as above. May read a
 * disk: before turns run.
 */
enum err redis_login_read(struct redis_login *login, struct redis_error *out_error) MUST_USE;

/* A connection has ended: begins to read files again, if there are some and it is not under way. */
void redis_login_again(struct redis_login *login);

/* Ends that: nothing is called any more. */
void redis_login_stop(struct redis_login *login);

#endif
