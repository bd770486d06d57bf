/*
 * Passes settings of topics, which are kept in partition 0 (scripts/settings.lua), to the engine's
 * observer: all settings before the engine serves, then each change of any daemon. Our own changes
 * are passed on when Redis has answered. Changes of others are noticed by the answer to our
 * heartbeat, which has the number of changes; then the new ones are read, one page per call, one
 * call at a time. So no call is made while nothing changes.
 *
 * Whenever partition 0 is opened again, Redis may have other settings (it was restored, or a
 * replica has taken over), so all are read in pages, and differences are passed on. The same if
 * only the key is lost; then `lost` is set until there are settings again.
 *
 * Invariants: a topic is in `all` and `by_name` exactly while it has settings, as far as known; its
 * text is kept for a later observer. One thread.
 */
#ifndef LATERD_ENGINE_REDIS_SETTINGS_SYNC_H
#define LATERD_ENGINE_REDIS_SETTINGS_SYNC_H

#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "engine/redis/script_request.h"
#include "port/engine.h"
#include "port/loop.h"

struct settings_sync_options {
    const struct script_space *space;
    struct script_requests *calls;
    struct loop *loop;
};

struct settings_sync {
    struct settings_sync_options options;
    struct settings_observer *observer; /* or NULL, until there is one */
    struct pool topics;                 /* struct known_settings */
    struct map by_name;
    struct list all;  // known_settings::place; first those that were in no page of this round
    uint64_t changes; /* the last change that is known */
    uint64_t own;     /* how many of our own changes were answered, or may have been executed */
    uint64_t asked_own;
    bool loaded;       /* all settings were read once */
    bool stale;        /* all must be read again */
    bool existed;      /* the key, since partition 0 was opened: a heartbeat, or a change of ours */
    bool lost;         /* the key was lost, and there are no settings since */
    bool pending;      /* a call is under way, or the rest of what was read last */
    bool reopened;     /* partition 0 was opened since the first page */
    bool walks;        /* it reads all settings, … */
    uint64_t walk_own; /* … since `own` was this, … */
    uint32_t round;    /* … for the n-th time, … */
    uint64_t walked;   /* … of which this was the last change when it began */
    uint64_t walked_version;
    struct timer sweep;         /* all was read: what was in no page is removed when this expires */
    struct buf from;            /* where the next page begins: a cursor of … */
    const struct node *read_at; /* … this node, which no other node understands */
    uint64_t pages;             /* calls so far */
};

void settings_sync_init(struct settings_sync *sync, const struct settings_sync_options *options);
void settings_sync_fini(struct settings_sync *sync);

/* Registers the observer, and passes it all known settings before this returns; NULL: none.
 * O(topics with settings). */
void settings_sync_observe(struct settings_sync *sync, struct settings_observer *observer);

/* Are all settings known as of the last heartbeat's answer? */
bool settings_sync_is_whole(const struct settings_sync *sync);
/* Has the topic settings, as far as known? */
bool settings_sync_has(const struct settings_sync *sync, struct bytes topic);
/* A heartbeat was answered, with this number of changes. */
void settings_sync_heartbeat(struct settings_sync *sync, uint64_t changes);

/* Partition 0 was opened. */
void settings_sync_opened(struct settings_sync *sync);

/*
 * A change of ours was answered: these are the topic's settings since `version` (empty: it has
 * none). `resent`: it may have been executed earlier, and others may have changed the settings
 * since.
 */
void settings_sync_changed(struct settings_sync *sync, struct bytes topic, uint64_t version,
                           struct bytes settings, bool resent);

#endif
