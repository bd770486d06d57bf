/*
 * The interface of a broker's client that is a shared object: laterd-amqp.so, laterd-kafka.so …
 * laterd loads one at start if the configuration has a broker of its type (laterd/brokers.c), so
 * that the libraries of unused types need not be installed.
 *
 * A plugin defines one symbol, `laterd_plugin`. It may call the functions of laterd that are listed
 * in tools/plugin-symbols.txt: the heap (base/mem), buffers, the log, CHECK, and
 * sink/broker_thread. Everything else it reaches by the verbs of loop and sink. It must be built
 * together with its laterd: one of another abi or version is refused.
 *
 * open() is called on the main thread, before the first turn, and must not wait for the network.
 */
#ifndef LATERD_SINK_PLUGIN_H
#define LATERD_SINK_PLUGIN_H

#include "base/err.h"
#include "port/intake.h"
#include "port/loop.h"
#include "port/sink.h"

enum { PLUGIN_ABI = 6 };
#define PLUGIN_SYMBOL "laterd_plugin"

/* One [broker.NAME]. Strings are valid for as long as the process runs. */
struct broker_options {
    const char *name;
    const char *url;                    /* or $NAME, file:PATH: see sink/reference.h */
    const char *ca, *certificate, *key; /* files, or "" */
    uint32_t window;                    /* unconfirmed messages at most */
    int64_t heartbeat_us, timeout_us;
    struct loop *loop;
};

/* One [amqp_in.NAME]. Strings as above. */
struct intake_options {
    const char *name;
    struct broker_options broker;
    const char *queue;
    const char *target; /* exchange; "<exchange>" in it is the message's own */
    uint32_t prefetch;  /* messages that are not settled, at most */
    uint32_t body_max;  /* bytes; larger ones are refused */
};

struct broker_error {
    char text[240]; /* a clause without passwords: "url: the port is missing" */
};

struct plugin {
    uint32_t abi;        /* PLUGIN_ABI */
    const char *version; /* LATERD_VERSION */
    enum target_type type;
    const char *library; /* name and version of what it was linked with, for the log */
    /* Checks the options without using the network. ERR_INVALID: out_error. ERR_NOT_FOUND: a file
       that they name cannot be read now; it is tried again when connecting; out_error. ERR_IO: a
       file cannot be used, and open() needs it; out_error. */
    enum err (*check)(const struct broker_options *options, struct broker_error *out_error);
    /* Begins to connect, in a thread of its own. ERR_INVALID, ERR_IO: out_error. */
    enum err (*open)(const struct broker_options *options, struct sink **out_sink,
                     struct broker_error *out_error);
    /* The same for an intake; NULL: this type has none. The caller must set its `arrived` before
       the next turn. */
    enum err (*open_intake)(const struct intake_options *options, struct intake **out_intake,
                            struct broker_error *out_error);
};

/* Defined by the plugin. */
__attribute__((visibility("default"))) extern const struct plugin laterd_plugin;

#endif
