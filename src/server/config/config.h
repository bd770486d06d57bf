/*
 * The configuration: an INI file, then the command line over it. Every key is one row of the table
 * in config_keys.c, which is also what `laterd --print-config` and docs/config.md come from.
 */
#ifndef LATERD_SERVER_CONFIG_CONFIG_H
#define LATERD_SERVER_CONFIG_CONFIG_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"
#include "core/cmd.h"
#include "core/target.h"
#include "proto/api/api.h"
#include "proto/settings/schedule.h"
#include "server/protocol.h"
#include "sink/address_rule.h"

enum {
    CONFIG_LISTENERS_MAX = 16, /* of a protocol */
    CONFIG_ADDRESS_MAX = 128,
    CONFIG_TEXT_MAX = 512,
    CONFIG_PREFIX_MAX = 65,
    CONFIG_WORD_MAX = 256,
    CONFIG_RATE_MAX = 32,
    CONFIG_HOSTS_MAX = 2048,
    CONFIG_KEYS_MAX = 128,      /* rows of the table */
    CONFIG_BODY_MAX = 64 << 20, /* bytes of a job, whatever its limit is set to */
    CONFIG_NAME_MAX = 33,       /* of a named section, with its NUL */
    CONFIG_BROKERS_MAX = 16,
    CONFIG_AMQP_IN_MAX = 16,
};

/* Where the queue lives. */
enum config_engine { ENGINE_EMBEDDED, ENGINE_REDIS };

/* Which jobs may be pushed with a URL of their own. */
enum config_job_targets { JOB_TARGETS_TOPIC, JOB_TARGETS_ANY, JOB_TARGETS_OFF };

/* [journal]: numbers of the words of its keys. */
enum { JOURNAL_MODE_AFTER, JOURNAL_MODE_BEFORE };
enum { JOURNAL_ON_LAG_REFUSE, JOURNAL_ON_LAG_DETACH };
enum { JOURNAL_LOG_ALL, JOURNAL_LOG_ENDS };

/* push.ordered: are topics with order by key sent here? */
enum {
    ORDERED_AUTO, /* those that this daemon has among those that share the queue */
    ORDERED_ON,   /* all */
    ORDERED_OFF,  /* none */
};

/* The line that set a value, for errors that are found later; path NULL: no file did. */
struct config_place {
    const char *path; /* borrowed from config_read's caller */
    unsigned line;
    bool bare_time; /* the value is a time without its unit */
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

/* What every named section begins with: [broker.NAME], [amqp_in.NAME]. */
struct config_named {
    char name[CONFIG_NAME_MAX];
    struct config_place place; /* of its [line] */
};

/* [broker.NAME]: where targets of a type other than HTTP are. Numbers and words as in config. */
struct config_broker {
    struct config_named named;
    unsigned url_line; /* where its url is, in the file of named.place */
    enum target_type type;
    char url[CONFIG_WORD_MAX]; /* or $NAME, file:PATH; may hold a password: not for the log */
    char ca[CONFIG_WORD_MAX], certificate[CONFIG_WORD_MAX], key[CONFIG_WORD_MAX];
    int64_t window;
    int64_t heartbeat_us, timeout_us;
};

/* [amqp_in.NAME]: a queue of RabbitMQ whose messages become jobs. */
struct config_amqp_in {
    struct config_named named;
    char broker[CONFIG_NAME_MAX]; /* a [broker.NAME] of type amqp */
    char queue[CONFIG_WORD_MAX], target[CONFIG_WORD_MAX], topic[CONFIG_WORD_MAX];
    int64_t prefetch;
};

/* All numbers are int64_t so that one table can fill them; units last, as everywhere. */
struct config {
    bool again; /* its files were read once before: set between config_init() and config_read() */
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
    int64_t horizon_us, checkpoint_bytes, ready_in_memory, buried_in_memory, history_us;
    int64_t jobs, topics, waiters, memory_bytes, buffer_bytes;
    int64_t body_bytes, json_depth, batch_jobs, reserve_topics;
    int64_t connections, line_bytes, headers, header_bytes, request_bytes;
    int64_t idle_us, request_us, wait_us, ttr_max_us;
    int64_t ttr_us, block_us, attempts;
    char retry[CONFIG_WORD_MAX]; /* as schedule_read_words() reads it */
    enum config_job_targets job_targets;
    char sdmq_host[CONFIG_WORD_MAX]; /* empty: the machine's first address */
    int64_t sdmq_machine, sdmq_clear_all;
    int64_t job_bytes; /* of beanstalkd clients; body_bytes is of all others */
    enum config_engine engine;
    char redis_url[CONFIG_TEXT_MAX]; /* may be a reference, or hold a password: not for the log */
    char redis_prefix[CONFIG_PREFIX_MAX];
    char time_zone[CONFIG_WORD_MAX]; /* "Europe/Berlin"; empty: the machine's */
    char tls_ca[CONFIG_WORD_MAX], tls_certificate[CONFIG_WORD_MAX], tls_key[CONFIG_WORD_MAX];
    char sentinel_user[CONFIG_WORD_MAX];
    char sentinel_password[CONFIG_WORD_MAX]; /* the same */
    int64_t push_timeout_us, push_connect_us, push_response_bytes;
    int64_t push_concurrency, push_host_concurrency, push_breaker_failures;
    char push_host_rate[CONFIG_RATE_MAX]; /* as rate_read() reads it; "0": no limit */
    int64_t push_retry_after_max_us, push_disable_after_us, push_ordered;
    struct address_rule push_rule;            /* push.allow and push.ports */
    char push_proxy[CONFIG_WORD_MAX];         /* may hold a password: not for the log */
    char push_unix_sockets[CONFIG_HOSTS_MAX]; /* paths, a line end behind each */
    char journal_url[CONFIG_WORD_MAX], journal_password[CONFIG_WORD_MAX]; /* not for the log */
    char journal_ca[CONFIG_WORD_MAX];
    int64_t journal_mode, journal_on_lag, journal_log; /* see above */
    int64_t journal_lag_bytes, journal_lag_us, journal_timeout_us, journal_east_s;
    char member_url[CONFIG_WORD_MAX]; /* may be a reference, or hold a password: not for the log */
    char member_ca[CONFIG_WORD_MAX];
    char member_name[CONFIG_WORD_MAX], member_advertise[CONFIG_WORD_MAX];
    int64_t member_timeout_us;
    int64_t redis_partitions, redis_order, redis_timeout_us, redis_wait_replicas;
    struct config_place places[CONFIG_KEYS_MAX]; /* of the rows; see config_place */
    struct config_broker brokers[CONFIG_BROKERS_MAX];
    unsigned broker_count;
    struct config_amqp_in amqp_ins[CONFIG_AMQP_IN_MAX];
    unsigned amqp_in_count;
};

/* What is wrong with a file or an argument, ready to be shown. */
struct config_error {
    char text[CONFIG_TEXT_MAX];
};

void config_init(struct config *config); /* the defaults; owns nothing, so nothing ends it */

/*
 * Reads a file, overriding what is set. `path` is borrowed for as long as there is a copy of
 * *config. ERR_NOT_FOUND: there is no such file; ERR_IO: it cannot be opened; ERR_INVALID: a line
 * is wrong, and *config has the lines before it. Waits for the disk, and for who writes to a pipe;
 * with config::again a pipe, which is empty then, is ERR_INVALID. O(length × keys)
 */
enum err config_read(struct config *config, const char *path,
                     struct config_error *out_error) MUST_USE;

/*
 * Adds a listener of the protocol: "127.0.0.1:9277", or "127.0.0.1:8080,delayqueue-java" if it has
 * dialects. "none", or nothing, removes all listeners of that protocol. ERR_INVALID.
 */
enum err config_add_listener(struct config *config, enum protocol_kind protocol, const char *value,
                             struct config_error *out_error) MUST_USE;

/* Checks what concerns several keys: values that contradict each other, and missing values.
   ERR_INVALID: out_error has the first error. Opens nothing. */
enum err config_check(const struct config *config, struct config_error *out_error) MUST_USE;

/*
 * Appends warnings about values that are allowed but probably not intended, in a configuration that
 * has passed config_check(): a line each, beginning with the place if a file set it.
 */
void config_add_warnings(const struct config *config, struct buf *out);

/* Appends the names of the keys whose values differ, between blanks: "store.segment_bytes
   broker.NAME.url"; of a named section that only one has, "broker.NAME". `out` is empty before. */
void config_add_differences(const struct config *a, const struct config *b, struct buf *out);

/* Where a key was set. There must be such a key; a listener has its own place. */
struct config_place config_place(const struct config *config, const char *section,
                                 const char *name);

/* "laterd.conf:7: ", to begin an error with; "" if no file set it. */
struct config_place_text {
    char text[192];
};
struct config_place_text config_place_text(struct config_place place);

/* "amqp" … as `type` of [broker.NAME] has it; NULL: there is no broker of this type. */
const char *config_broker_type(enum target_type type);

/* The broker of this name; NULL: there is none. */
const struct config_broker *config_broker(const struct config *config, struct bytes name);

/* All names of this server, those it listens on included, as host_is_known() reads them. */
void config_known_hosts(const struct config *config, struct buf *out);

/* The schedule of jobs that have none in topics that have none; of no steps: there is none. */
struct schedule config_default_retry(const struct config *config);

/* A commented sample with every key and its default. */
void config_print(struct buf *out);

/* "90", "90s", "1h30m", "250ms" → microseconds, in the units of duration_read(); a bare number
   counts in `unit_us`. False: it is no duration, or beyond 2^63 - 1 microseconds; nothing is
   written. */
bool config_duration(struct bytes text, int64_t unit_us, int64_t *out_us);
/* "1048576", "64K", "32M", "2G", "1T", or "64KiB" and so on (powers of 1024). False: it is no size,
   or beyond 2^63 - 1 bytes; nothing is written. "64KB" is none: it is 64000 bytes to some. */
bool config_bytes(struct bytes text, int64_t *out_bytes);

#endif
