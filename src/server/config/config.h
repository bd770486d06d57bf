/*
 * The configuration: an INI file, then the command line over it. Every key is one row of a table
 * in config.c, which is also what `laterd --print-config` and docs/config.md come from.
 */
#ifndef LATERD_SERVER_CONFIG_CONFIG_H
#define LATERD_SERVER_CONFIG_CONFIG_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"
#include "core/cmd.h"
#include "proto/api/api.h"
#include "server/protocol.h"

enum {
    CONFIG_LISTENERS_MAX = 16, /* of a protocol */
    CONFIG_ADDRESS_MAX = 128,
    CONFIG_TEXT_MAX = 512,
    CONFIG_PREFIX_MAX = 65,
    CONFIG_WORD_MAX = 256,
    CONFIG_HOSTS_MAX = 2048,
    CONFIG_KEYS_MAX = 64,       /* rows of the table */
    CONFIG_BODY_MAX = 64 << 20, /* bytes of a job, whatever its limit is set to */
};

/* Where the queue lives. */
enum config_engine { ENGINE_EMBEDDED, ENGINE_REDIS };

/* The line that set a value, for errors that are found later; path NULL: no file did. */
struct config_place {
    const char *path; /* borrowed from config_read's caller */
    unsigned line;
};

struct config_listener {
    char address[CONFIG_ADDRESS_MAX];
    enum api_dialect dialect; /* of a protocol that has some */
    struct config_place place;
};

struct config_listeners {
    struct config_listener at[CONFIG_LISTENERS_MAX];
    unsigned count;
};

/* All numbers are int64_t so that one table can fill them; units last, as everywhere. */
struct config {
    struct config_listeners listeners[PROTOCOL_KINDS];
    char hosts[CONFIG_HOSTS_MAX]; /* between spaces; see config_known_hosts */
    char data_dir[CONFIG_TEXT_MAX];
    bool data_dir_given; /* by a file: it is not the default */
    enum log_level log_level;
    enum durability durability;
    int64_t interval_us;
    int64_t drain_us;
    int64_t metrics_topics;
    int64_t turn_cpu;
    int64_t segment_bytes, max_bytes, recent_bytes;
    int64_t jobs, topics, waiters, memory_bytes, buffer_bytes;
    int64_t body_bytes, json_depth, batch_jobs, reserve_topics;
    int64_t connections, line_bytes, headers, header_bytes, request_bytes;
    int64_t idle_us, request_us, wait_us, ttr_max_us;
    int64_t ttr_us, block_us;
    int64_t job_bytes; /* of beanstalkd clients; body_bytes is of all others */
    enum config_engine engine;
    char redis_url[CONFIG_TEXT_MAX]; /* may hold a password: not for the log */
    char redis_prefix[CONFIG_PREFIX_MAX];
    char time_zone[CONFIG_WORD_MAX]; /* "Europe/Berlin"; empty: the machine's */
    char tls_ca[CONFIG_WORD_MAX], tls_certificate[CONFIG_WORD_MAX], tls_key[CONFIG_WORD_MAX];
    char sentinel_user[CONFIG_WORD_MAX];
    char sentinel_password[CONFIG_WORD_MAX]; /* not for the log, either */
    int64_t redis_partitions, redis_timeout_us, redis_wait_replicas;
    struct config_place places[CONFIG_KEYS_MAX]; /* of the rows; see config_place */
};

/* What is wrong with a file or an argument, ready to be shown. */
struct config_error {
    char text[CONFIG_TEXT_MAX];
};

void config_init(struct config *config); /* the defaults */

/*
 * Reads a file over what is there. `path` is borrowed for as long as there is a copy of *config.
 * ERR_NOT_FOUND, ERR_IO, ERR_INVALID.
 */
enum err config_read(struct config *config, const char *path,
                     struct config_error *out_error) MUST_USE;

/*
 * One listener more of the protocol: "127.0.0.1:9277", or "127.0.0.1:8080,delayqueue-java" if it
 * has dialects. "none", or nothing, takes away all of that protocol that there were. ERR_INVALID.
 */
enum err config_add_listener(struct config *config, enum protocol_kind protocol, const char *value,
                             struct config_error *out_error) MUST_USE;

/* What no single key can tell: values that do not fit together. */
enum err config_check(const struct config *config, struct config_error *out_error) MUST_USE;

/* Where a key was set. There must be such a key; a listener has its own place. */
struct config_place config_place(const struct config *config, const char *section,
                                 const char *name);

/* "laterd.conf:7: ", to begin an error with; "" if no file set it. */
struct config_place_text {
    char text[192];
};
struct config_place_text config_place_text(struct config_place place);

/* All names of this server, those it listens on included, as host_is_known() reads them. */
void config_known_hosts(const struct config *config, struct buf *out);

/* A commented sample with every key and its default. */
void config_print(struct buf *out);

/* "90", "90s", "1h30m", "250ms" → microseconds; a bare number counts in `unit_us`. */
bool config_duration(struct bytes text, int64_t unit_us, int64_t *out_us);
/* "1048576", "64K", "32M", "2G" (powers of 1024). */
bool config_bytes(struct bytes text, int64_t *out_bytes);

#endif
