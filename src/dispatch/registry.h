/*
 * The settings of all topics, in memory: received from the engine by a settings_observer, and
 * decoded by the settings codec. Look-ups by topic are for the door (defaults of a push, is the
 * topic pushed?), for GET /v1/topics/{t}, and for the pump.
 *
 * Settings are kept as text and decoded later: at the next look-up, or in registry_step(), a slice
 * a turn, so that 100,000 topics with settings make no turn long. A topic costs its name, its text
 * and some 150 bytes; decoded settings are kept for the last REGISTRY_KEPT topics looked up, and
 * while they are held. Settings that cannot be decoded are logged with the topic and count as none.
 *
 * Single-threaded.
 */
#ifndef LATERD_DISPATCH_REGISTRY_H
#define LATERD_DISPATCH_REGISTRY_H

#include "base/budget.h"
#include "port/engine.h"
#include "proto/settings/topic_settings.h"

struct registry;

enum { REGISTRY_KEPT = 1024 };

/* topic_settings_read(), or a replacement in a test. */
typedef enum err settings_read(struct bytes text, struct arena *scratch,
                               struct topic_settings *out_settings,
                               struct settings_problem *out_problem);

struct registry_options {
    uint64_t hash_key; /* random */
    settings_read *read;
};

/* Decoded settings, reference-counted; they do not change or move. */
struct settings_kept {
    struct topic_settings settings;
    uint64_t version;
    uint32_t holders;
};

/* Is notified of changed settings. There is one listener. */
struct registry_listener {
    /* Called by registry_step(): the topic's settings are these now. `kept` NULL: it has none, or
       they cannot be decoded. Call settings_hold() to keep it. May look up settings, but must not
       call registry_step(). */
    void (*changed)(struct registry_listener *listener, struct bytes topic,
                    struct settings_kept *kept);
};

/* The options are copied. Never NULL. */
struct registry *registry_new(const struct registry_options *options);
void registry_free(struct registry *registry); /* no settings may be held */

/* For engine_verbs::observe_settings. */
struct settings_observer *registry_observer(struct registry *registry);

/* Sets the listener, which is called for changes from now on. Borrowed. */
void registry_listen(struct registry *registry, struct registry_listener *listener);

/*
 * The topic's settings, valid until the next call of the registry; NULL: it has none, or they
 * cannot be decoded. `out_version`, if not NULL, is set when there are settings. O(1), plus some
 * microseconds to decode them if they are new or were not looked up for long.
 */
const struct topic_settings *registry_find(struct registry *registry, struct bytes topic,
                                           uint64_t *out_version);

/* The same, held until settings_drop(); NULL as above. */
struct settings_kept *registry_hold(struct registry *registry, struct bytes topic);
void settings_hold(struct settings_kept *kept); /* one more holder */
void settings_drop(struct settings_kept *kept); /* one holder less; NULL: nothing */

/* The text of the settings, decodable or not, valid until the next step. False: none. */
bool registry_text(const struct registry *registry, struct bytes topic, struct bytes *out_text,
                   uint64_t *out_version);

/* True: the topic has a target (even a paused one), so consumers cannot reserve its jobs. O(1). */
bool registry_is_pushed(struct registry *registry, struct bytes topic);

uint32_t registry_count(const struct registry *registry); /* topics with settings */

/* Once a turn: decodes new settings and calls the listener, until the budget is spent (NULL: all of
   them). True: there is more. */
bool registry_step(struct registry *registry, struct budget *budget);
/* For tests: has registry_step() something to do? O(1). */
bool registry_wants_step(const struct registry *registry);

#endif
