/*
 * The settings of all topics, in memory: what the engine's settings_observer tells, read by the
 * codec of settings. Look-ups by topic are for the door (defaults of a push, is the topic pushed?),
 * for GET /v1/topics/{t}, and for the pump.
 *
 * What the engine tells is kept as text and read later: at the next look-up, or in registry_step(),
 * a slice a turn, so that 100,000 topics with settings make no turn long. A topic costs its name,
 * its text and some 150 bytes; settings that were read are kept for the last REGISTRY_KEPT topics
 * looked up, and for whoever holds them. Settings that cannot be read are logged with the topic and
 * count as none.
 *
 * One thread.
 */
#ifndef LATERD_DISPATCH_REGISTRY_H
#define LATERD_DISPATCH_REGISTRY_H

#include "base/budget.h"
#include "port/engine.h"
#include "proto/settings/topic_settings.h"

struct registry;

enum { REGISTRY_KEPT = 1024 };

/* topic_settings_read(), or a test's. */
typedef enum err settings_read(struct bytes text, struct arena *scratch,
                               struct topic_settings *out_settings,
                               struct settings_problem *out_problem);

struct registry_options {
    uint64_t hash_key; /* random */
    settings_read *read;
};

/* Settings that were read, for as long as somebody holds them: they do not change or move. */
struct settings_kept {
    struct topic_settings settings;
    uint64_t version;
    uint32_t holders;
};

/* Who acts on settings; there is one. */
struct registry_listener {
    /* From registry_step(): the topic's settings are these now. `kept` NULL: it has none, or they
       cannot be read. Hold it to keep it. May look up, and may not call registry_step(). */
    void (*changed)(struct registry_listener *listener, struct bytes topic,
                    struct settings_kept *kept);
};

struct registry *registry_new(const struct registry_options *options);
void registry_free(struct registry *registry); /* nobody holds settings any more */

/* For engine_verbs::observe_settings. */
struct settings_observer *registry_observer(struct registry *registry);

/* From now on, and not of what was told by steps before. Borrowed. */
void registry_listen(struct registry *registry, struct registry_listener *listener);

/*
 * The topic's settings, good until the next call of the registry; NULL: it has none, or they cannot
 * be read. `out_version`, if not NULL, is set when there are settings. O(1), and reading them if
 * they are new or were not looked up for long (some microseconds).
 */
const struct topic_settings *registry_find(struct registry *registry, struct bytes topic,
                                           uint64_t *out_version);

/* The same to keep; NULL as above. Ended by registry_drop(). */
struct settings_kept *registry_hold(struct registry *registry, struct bytes topic);
void settings_hold(struct settings_kept *kept);                            /* one holder more */
void registry_drop(struct registry *registry, struct settings_kept *kept); /* NULL: nothing */

/* As the engine has them, readable or not. False: it has none. Good until the next step. */
bool registry_text(const struct registry *registry, struct bytes topic, struct bytes *out_text,
                   uint64_t *out_version);

/* Has it a target (even one that is paused)? Consumers cannot reserve its jobs. O(1). */
bool registry_is_pushed(struct registry *registry, struct bytes topic);

uint32_t registry_count(const struct registry *registry); /* topics with settings */

/* For the turn: reads what is new and tells the listener. True: there is more. Without budget
   (NULL) all of it. */
bool registry_step(struct registry *registry, struct budget *budget);
/* Is there something for registry_step() to do? O(1). */
bool registry_wants_step(const struct registry *registry);

#endif
