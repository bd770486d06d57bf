/*
 * The target of a topic's due jobs, and what counts as received: types shared by the codec of
 * settings (proto/settings), dispatch/ and the sinks. Bytes are borrowed from the maker of the
 * struct; nothing changes once it is made, so that threads may read it.
 */
#ifndef LATERD_CORE_TARGET_H
#define LATERD_CORE_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum target_type {
    TARGET_NONE, /* consumers fetch the jobs */
    TARGET_HTTP,
    TARGET_AMQP,
    TARGET_KAFKA,
    TARGET_NATS,
    TARGET_REDIS,
    TARGET_TYPES
};

/* The words of the types in settings and in the configuration; NULL behind the last. */
static inline const char *const *target_type_words(void)
{
    static const char *const words[TARGET_TYPES + 1] = {
        [TARGET_NONE] = "none",   [TARGET_HTTP] = "http", [TARGET_AMQP] = "amqp",
        [TARGET_KAFKA] = "kafka", [TARGET_NATS] = "nats", [TARGET_REDIS] = "redis",
    };
    return words;
}

static inline const char *target_type_name(enum target_type type)
{
    return target_type_words()[type];
}

enum {
    TARGET_HEADERS_MAX = 32,
    TARGET_SECRETS_MAX = 4,
    TARGET_BURY_ON_MAX = 32,
    TARGET_URL_MAX = 2048,  /* bytes */
    TARGET_PATH_MAX = 1024, /* the same, of a file's name or a reference to a secret */
};

struct target_header {
    struct bytes name, value;
};

enum target_encoding {
    ENCODING_PLAIN,
    ENCODING_CLOUDEVENTS, /* CloudEvents 1.0, binary mode */
};

struct target_http {
    struct bytes url;         /* http: or https:; empty: each job brings its own */
    struct bytes unix_socket; /* a path: connect there, whatever the URL's host is; or empty */
    int64_t timeout_us;       /* of a whole exchange; 0: push.timeout */
    struct bytes sign[TARGET_SECRETS_MAX]; /* references ($NAME or file:PATH), newest first */
    uint8_t sign_count;
    uint16_t success_first, success_last; /* statuses; 200 and 299 unless set */
    struct bytes success_body; /* trimmed of ASCII space, any case; empty: whatever it is */
    uint16_t bury_on[TARGET_BURY_ON_MAX]; /* statuses that bury at once */
    uint8_t bury_on_count;
    enum target_encoding encoding;
    struct bytes event_type;           /* CLOUDEVENTS: ce-type */
    struct bytes ca, certificate, key; /* files; empty: the system's authorities, none, none */
};

struct target_amqp {
    struct bytes exchange, routing_key; /* both may be empty; {topic} and {key} are filled in */
};

struct target_kafka {
    struct bytes topic; /* {topic} and {key} are filled in */
    bool has_partition; /* false: the job's key chooses it */
    int32_t partition;
};

struct target_nats {
    struct bytes subject; /* {topic} and {key} are filled in */
};

enum target_redis_kind { TARGET_REDIS_STREAM, TARGET_REDIS_LIST };

struct target_redis {
    enum target_redis_kind kind;
    struct bytes key;
    uint64_t maxlen; /* STREAM: the approximate number of entries kept; 0: all */
};

struct target {
    enum target_type type;
    struct bytes broker; /* all but HTTP: the NAME of its [broker.NAME] in the configuration */
    struct target_header headers[TARGET_HEADERS_MAX]; /* sent with each job */
    uint8_t header_count;
    union {
        struct target_http http;
        struct target_amqp amqp;
        struct target_kafka kafka;
        struct target_nats nats;
        struct target_redis redis;
    };
};

#endif
