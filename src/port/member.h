/*
 * Leader election: of several laterds that could serve the same jobs one leads, with an epoch, and
 * the others wait. Implemented with ZooKeeper (member/zookeeper), a row in MySQL (member/mysql), a
 * key in Redis (member/redis_member), and by "alone" (member/alone), which always leads.
 *
 * The contract
 * M1 Epochs are numbers from 1 that grow with each term of a leader; no epoch is used twice, unless
 *    the coordination service loses its data: see raise().
 * M2 A leader leads until a deadline, in CLOCK_BOOTTIME of its machine, which goes on while the
 *    machine is suspended and is never set. The deadline is two thirds of the session time-out
 *    after the *sending* of the last request that was answered; no other laterd leads before the
 *    whole time-out after that. The third in between allows for clocks that run at different
 *    speeds, and for what was checked just before the deadline and is sent just after it.
 * M3 What only a leader may do (hand out a job, acknowledge a change) is checked by holds() just
 *    before it leaves the process. After the deadline holds() is false even if no other thread has
 *    run since, as in a process that was stopped and continues.
 * M4 What is already under way when M3 is checked is fenced where the data are: by the lock and the
 *    epoch of the embedded store, by the state checks of Redis' scripts.
 *
 * An implementation has a thread of its own, so that its session lives while the loop's thread
 * recovers a store; it reports to the loop's thread by loop_verbs::post. All its functions except
 * holds(), and all its callbacks, are called on the loop's thread.
 */
#ifndef LATERD_PORT_MEMBER_H
#define LATERD_PORT_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "port/loop.h"

enum member_role { MEMBER_WAITING, MEMBER_LEADING };

/* Why our last term ended; the hint in the log depends on it. */
enum member_loss {
    LOSS_NONE,       /* we lead, or never led */
    LOSS_UNANSWERED, /* the deadline passed: the service did not answer, or too late */
    LOSS_PAUSED,     /* the same, and this process did not run when it passed */
    LOSS_EXPIRED,    /* the service ended the session before the deadline */
    LOSS_DELETED,    /* our node or row is gone, though the session lives: it was deleted by hand */
    LOSS_TAKEN,      /* the row has another holder, or an epoch that we did not write */
    LOSS_RESIGNED,   /* resign() was called */
};

enum { MEMBER_URL_MAX = 256, MEMBER_WHY_MAX = 240, MEMBER_NAME_MAX = 64 };

/* What is known now. */
struct member_view {
    enum member_role role;
    enum member_loss loss;
    bool connected;              /* the coordination service answers */
    uint64_t epoch;              /* LEADING: ours; WAITING: the newest that was seen, 0: none */
    int64_t role_us;             /* for how long it has had this role */
    uint64_t terms;              /* how many terms of ours have begun */
    char leader[MEMBER_URL_MAX]; /* the URL where clients reach the leader; "": not known */
    char why[MEMBER_WHY_MAX];    /* a clause for people: why it is not connected, or waits; or "" */
};

struct member {
    const struct member_verbs *verbs;
    /* Set by the user. Called when the role, the epoch or what is known of the leader changed. */
    void (*changed)(struct member *member);
    void *user;
};

struct member_verbs {
    void (*look)(const struct member *member, struct member_view *out_view);
    /* True: we lead with this epoch, and the deadline has not passed. Reads CLOCK_BOOTTIME; never
       waits; any thread. O(1), tens of nanoseconds. */
    bool (*holds)(const struct member *member, uint64_t epoch);
    /*
     * While LEADING: asks for an epoch above `above`, because the store was led with epochs up to
     * it. `changed` is called when we have one (or no longer lead). So epochs grow even if the
     * service loses its counter (a node deleted by hand, a Redis that came back empty).
     */
    void (*raise)(struct member *member, uint64_t above);
    /* Ends our term now, so that others may lead; takes part again after `rest_us` (0 … 1 h). */
    void (*resign)(struct member *member, int64_t rest_us);
    /* Resigns, ends the thread and frees the member. Waits for the service, up to about a
       second. */
    void (*close)(struct member *member);
};

/* Strings are borrowed for as long as the member is open. */
struct member_options {
    const char *url;      /* where the coordination service is; may hold a password */
    const char *url_text; /* as configured: may be a reference (sink/reference.h) to that URL, which
                             is read again for the user and password of each connection */
    const char *ca;       /* over TLS: the file of the authorities; "": those of the system */
    const char *name;     /* of the election: all laterds with this name take part in it */
    const char *advertise; /* the URL where clients reach us: member_view::leader of the others */
    int64_t timeout_us;    /* of the session, 1 s … 60 s */
    uint64_t instance;     /* random: identifies this process in the election */
    struct loop *loop;     /* NULL for member_plugin::check */
};

struct member_error {
    char text[MEMBER_WHY_MAX]; /* a clause without passwords: "url: the port is missing" */
};

/* Defined by a plugin (laterd-zookeeper.so, laterd-member-mysql.so), or built into member/. */
enum { MEMBER_PLUGIN_ABI = 5 };
#define MEMBER_PLUGIN_SYMBOL "laterd_member_plugin"

struct member_plugin {
    uint32_t abi;        /* MEMBER_PLUGIN_ABI */
    const char *version; /* LATERD_VERSION */
    const char *scheme;  /* of its URLs */
    const char *library; /* what it was linked with, for the log */
    /* Checks the options without using the network. ERR_INVALID: out_error says what is wrong.
       ERR_NOT_FOUND: a file that they name cannot be read now. */
    enum err (*check)(const struct member_options *options, struct member_error *out_error);
    /* Begins to take part, on a thread of its own. Never waits for the network; a service that is
       unreachable is no error. ERR_INVALID, ERR_IO: out_error says why. */
    enum err (*open)(const struct member_options *options, struct member **out_member,
                     struct member_error *out_error);
};

#endif
