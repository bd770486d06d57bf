/*
 * Settings of topics: they are kept in partition 0 (scripts/settings.lua), and this is what tells
 * the engine's observer of them: of all that there are before the engine serves, then of each
 * change, whoever made it. Our own are told when Redis has answered. Of others' we learn by the
 * answer to our heartbeat, which says how many changes there were: what is new is fetched, a page a
 * call, one call at a time. So nothing is asked while nothing changes.
 *
 * Whenever partition 0 has been opened again, Redis may have other settings (it was restored, a
 * replica has taken over): all are gone through, in pages, and what differs is told. So it is when
 * the key is lost while all else is there; then `lost` is set until there are settings again.
 *
 * Invariants: a topic is in `all` and `by_name` exactly while it has settings, as far as is known;
 * its text is kept for an observer who comes later. One thread.
 */
#ifndef LATERD_ENGINE_REDIS_SETTINGS_SYNC_H
#define LATERD_ENGINE_REDIS_SETTINGS_SYNC_H

#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "engine/redis/script_request.h"
#include "port/engine.h"

struct settings_sync_options {
    const struct script_space *space;
    struct script_requests *calls;
};

struct settings_sync {
    struct settings_sync_options options;
    struct settings_observer *observer; /* or NULL, until there is one */
    struct pool topics;                 /* struct known_settings */
    struct map by_name;
    struct list all;  // known_settings::place
    uint64_t changes; /* that are known, of those that there were */
    uint64_t own;     /* changes that we made ourselves, or may have */
    uint64_t asked_own;
    bool loaded;     /* all was seen once */
    bool stale;      /* all is to be gone through */
    bool lost;       /* their key went from under us, and there are none since */
    bool asked;      /* a call is under way */
    bool walks;      /* it goes through all: */
    uint32_t round;  /* which time this is */
    uint64_t walked; /* the changes that there were when it began */
    uint64_t walked_version;
    struct buf from; /* where it goes on */
    uint64_t pages;  /* asked for, ever */
};

void settings_sync_init(struct settings_sync *sync, const struct settings_sync_options *options);
void settings_sync_fini(struct settings_sync *sync);

/* From now on it is told, of all that is known before this returns; NULL: nobody is. O(topics with
 * settings). */
void settings_sync_observe(struct settings_sync *sync, struct settings_observer *observer);

/* All settings are known that there were when a heartbeat was answered last. */
bool settings_sync_is_whole(const struct settings_sync *sync);
/* As far as we know, the topic has settings. */
bool settings_sync_has(const struct settings_sync *sync, struct bytes topic);
/* A heartbeat's answer says how many changes there were. */
void settings_sync_heartbeat(struct settings_sync *sync, uint64_t changes);

/* Partition 0 was opened. */
void settings_sync_opened(struct settings_sync *sync);

/*
 * A change of ours was answered: the topic's settings are these since `version` (empty: it has
 * none). `resent`: it may have been done a while ago, and others may have changed it since.
 */
void settings_sync_changed(struct settings_sync *sync, struct bytes topic, uint64_t version,
                           struct bytes settings, bool resent);

#endif
