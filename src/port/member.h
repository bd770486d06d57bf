/*
 * Who leads, and with which epoch: of several laterds that could serve the same jobs one does, and
 * the others wait. Implemented by ZooKeeper (member/zookeeper), by a row in MySQL (member/mysql), a
 * key in Redis (member/redis_member) and by "alone" (member/alone), which always leads.
 *
 * The contract
 * M1 Epochs are small (from 1) and grow with each time that somebody begins to lead; none is ever
 *    given twice, unless the coordination service loses what it knows: see raise().
 * M2 Who leads does so until a deadline, in CLOCK_BOOTTIME of its machine, which goes on while the
 *    machine is suspended and is never set. The deadline is two thirds of the session time-out
 *    after the *sending* of the last question that was answered; nobody else leads before the whole
 *    time-out after that. The third between is for clocks that run differently, and for what was
 *    checked just before the deadline and leaves just after it.
 * M3 What only a leader may do (hand out a job, acknowledge a change) is checked by holds() just
 *    before it leaves the process. After the deadline it is false, whether or not anybody has told
 *    us yet: so it is for a process that was stopped and wakes.
 * M4 What may be under way beyond M3 is fenced where the data are: by the lock and the epoch of the
 *    embedded store, by Redis' own transitions.
 *
 * An implementation has a thread of its own, so that its session lives while the loop's thread
 * recovers a store, and tells the loop's thread by loop_verbs::post. All calls of it, but for
 * holds(), and all calls that it makes, are on the loop's thread.
 */
#ifndef LATERD_PORT_MEMBER_H
#define LATERD_PORT_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "port/loop.h"

enum member_role { MEMBER_WAITING, MEMBER_LEADING };

/* Why the last term of ours ended: what there is to do depends on it. */
enum member_loss {
    LOSS_NONE,       /* we lead, or never did */
    LOSS_UNANSWERED, /* the deadline passed: the service did not answer, or too late */
    LOSS_PAUSED,     /* the same, and this process did not run when it passed */
    LOSS_EXPIRED,    /* the service ended the session before the deadline */
    LOSS_DELETED,    /* our node or row is gone, and the session lives: somebody deleted it */
    LOSS_TAKEN,      /* the row has another's name, or an epoch that we did not write */
    LOSS_RESIGNED,   /* we wished it */
};

enum { MEMBER_URL_MAX = 256, MEMBER_WHY_MAX = 240, MEMBER_NAME_MAX = 64 };

/* What is known now. */
struct member_view {
    enum member_role role;
    enum member_loss loss;
    bool connected;              /* the coordination service answers */
    uint64_t epoch;              /* LEADING: ours; WAITING: the newest that was seen, 0: none */
    int64_t role_us;             /* for how long the role has been this */
    uint64_t terms;              /* how often we began to lead */
    char leader[MEMBER_URL_MAX]; /* where its clients reach the one who leads; "": not known */
    char why[MEMBER_WHY_MAX];    /* a clause for people: why it is not connected, or waits; or "" */
};

struct member {
    const struct member_verbs *verbs;
    /* The user sets these two. The role, the epoch or what is known of the leader is another. */
    void (*changed)(struct member *member);
    void *user;
};

struct member_verbs {
    void (*look)(const struct member *member, struct member_view *out_view);
    /* Do we lead with this epoch, and is the deadline ahead? Reads CLOCK_BOOTTIME; waits for
       nothing; from any thread. O(1), tens of nanoseconds. */
    bool (*holds)(const struct member *member, uint64_t epoch);
    /*
     * While LEADING: the store says that epochs have been up to `above` already, so ours is to be
     * higher. `changed` comes with the new one (or because we do not lead any more). So the service
     * may lose its counter (a node deleted by hand, a Redis that came back empty), and epochs still
     * grow.
     */
    void (*raise)(struct member *member, uint64_t above);
    /* Leads no longer, from now on, and lets others; takes part again after `rest_us` (0 … 1 h). */
    void (*resign)(struct member *member, int64_t rest_us);
    /* Resigns and ends its thread: waits for the service, but not longer than about a second. */
    void (*close)(struct member *member);
};

/* Strings are borrowed as long as the member is open. */
struct member_options {
    const char *url;       /* where the coordination service is; may hold a password */
    const char *ca;        /* over TLS: the file of the authorities; "": those of the system */
    const char *name;      /* of what is led: all who give the same take part in one election */
    const char *advertise; /* where clients reach us: told to others as member_view::leader */
    int64_t timeout_us;    /* of the session, 1 s … 60 s */
    uint64_t instance;     /* random: who we are among those who take part */
    struct loop *loop;     /* NULL for member_plugin::check */
};

struct member_error {
    char text[MEMBER_WHY_MAX]; /* a clause without passwords: "url: the port is missing" */
};

/* What a plugin (laterd-zookeeper.so, laterd-member-mysql.so) defines, and member/ for itself. */
enum { MEMBER_PLUGIN_ABI = 3 };
#define MEMBER_PLUGIN_SYMBOL "laterd_member_plugin"

struct member_plugin {
    uint32_t abi;        /* MEMBER_PLUGIN_ABI */
    const char *version; /* LATERD_VERSION */
    const char *scheme;  /* of its URLs */
    const char *library; /* what it was linked with, for the log */
    /* Are the options right, as far as that can be told without the network? ERR_INVALID, or
       ERR_NOT_FOUND: a file that they name cannot be read now. */
    enum err (*check)(const struct member_options *options, struct member_error *out_error);
    /* Begins to take part, on a thread of its own. Never waits for the network; that the service is
       away is no error. ERR_INVALID, ERR_IO: out_error. */
    enum err (*open)(const struct member_options *options, struct member **out_member,
                     struct member_error *out_error);
};

#endif
