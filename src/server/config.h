/*
 * The configuration: an INI file, then the command line over it. Every key is one row of a table
 * in config.c, which is also what `laterd --print-config` and docs/config.md come from.
 */
#ifndef LATERD_SERVER_CONFIG_H
#define LATERD_SERVER_CONFIG_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"
#include "core/cmd.h"
#include "proto/api.h"

enum { CONFIG_HTTP_MAX = 16, CONFIG_TEXT_MAX = 512 };

struct config_http {
    char address[128];
    enum api_dialect dialect;
};

/* All numbers are int64_t so that one table can fill them; units last, as everywhere. */
struct config {
    struct config_http http[CONFIG_HTTP_MAX];
    unsigned http_count;
    char data_dir[CONFIG_TEXT_MAX];
    enum log_level log_level;
    enum durability durability;
    int64_t interval_us;
    int64_t drain_us;
    int64_t metrics_topics;
    int64_t segment_bytes, max_bytes, recent_bytes;
    int64_t jobs, topics, waiters, memory_bytes;
    int64_t body_bytes, json_depth, batch_jobs, reserve_topics;
    int64_t connections, line_bytes, headers, header_bytes, request_bytes;
    int64_t idle_us, request_us, wait_us, ttr_max_us;
    int64_t ttr_us, block_us;
};

/* What is wrong with a file or an argument, ready to be shown. */
struct config_trouble {
    char text[CONFIG_TEXT_MAX];
};

void config_init(struct config *config); /* the defaults */

/* Reads a file over what is there. ERR_NOT_FOUND, ERR_IO, ERR_INVALID. */
enum err config_read(struct config *config, const char *path,
                     struct config_trouble *out_trouble) MUST_USE;

/* "127.0.0.1:9277" or "127.0.0.1:8080,delayqueue-java". The first call drops the default. */
enum err config_add_http(struct config *config, const char *value,
                         struct config_trouble *out_trouble) MUST_USE;

/* What no single key can tell: values that do not fit together. */
enum err config_check(const struct config *config, struct config_trouble *out_trouble) MUST_USE;

/* A commented sample with every key and its default. */
void config_print(struct buf *out);

/* "90", "90s", "1h30m", "250ms" → microseconds; a bare number counts in `unit_us`. */
bool config_duration(struct bytes text, int64_t unit_us, int64_t *out_us);
/* "1048576", "64K", "32M", "2G" (powers of 1024). */
bool config_bytes(struct bytes text, int64_t *out_bytes);

#endif
