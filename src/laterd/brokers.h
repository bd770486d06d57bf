/*
 * The brokers that the configuration names: loads the plugin of each type that is named, opens a
 * sink for each [broker.NAME], and closes them.
 */
#ifndef LATERD_LATERD_BROKERS_H
#define LATERD_LATERD_BROKERS_H

#include "server/config/config.h"
#include "server/intake.h"
#include "sink/plugin.h"

struct brokers {
    const struct plugin *plugins[TARGET_TYPES]; /* NULL: not loaded */
    struct sink_entry entries[CONFIG_BROKERS_MAX];
    struct sink_table table;
    struct server_intake *intakes[CONFIG_AMQP_IN_MAX];
    unsigned intake_count;
};

/*
 * Loads the plugins that the configuration needs and has them check the options; opens nothing.
 * Returns 0, or the exit status: the reason is on standard error, with the package to install if a
 * library is missing.
 */
int brokers_load(const struct config *config, struct brokers *out_brokers);

/*
 * What brokers_load() would refuse as wrong of a configuration that was read again, as far as the
 * plugins that are loaded can tell; reads no reference. ERR_INVALID: the reason is on standard
 * error.
 */
enum err brokers_check(const struct brokers *loaded, const struct config *config) MUST_USE;

/* Opens a sink for each. 0, or the exit status. Options borrow from `config`. */
int brokers_open(struct brokers *brokers, const struct config *config, struct loop *loop);

/* Opens an intake for each [amqp_in.NAME]. As brokers_open(); `server` is borrowed. */
int brokers_open_intakes(struct brokers *brokers, const struct config *config,
                         struct server *server);

/*
 * brokers_stop() makes all sinks and intakes end, and returns at once. brokers_stopped(), to be
 * called about ten times a second, is true when their threads have ended, so that closing them does
 * not wait. While it is false, *out_name is the name of one that has not ended, of its
 * [broker.NAME] or [amqp_in.NAME]; valid until that is closed.
 */
void brokers_stop(struct brokers *brokers);
bool brokers_stopped(struct brokers *brokers, struct bytes *out_name);

/*
 * After brokers_stop(), when the loop gets no more turns: closes those that have no thread or whose
 * thread has ended, without waiting; deliveries in progress are `done`. False: not all could be
 * closed; *out_name and how often to call it as in brokers_stopped(). The others stay as they are.
 */
bool brokers_close_stopped(struct brokers *brokers, struct bytes *out_name);

/* Before the server is freed. */
void brokers_close_intakes(struct brokers *brokers);

/* Closes the sinks; deliveries in progress are `done` as UNSENT. Plugins stay loaded. */
void brokers_close(struct brokers *brokers, int64_t grace_us);

#endif
