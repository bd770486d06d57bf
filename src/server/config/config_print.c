/*
 * Texts about keys: the range of a value for error messages, and the sample file with the help of
 * each (`laterd --print-config`).
 */
#include <stddef.h>
#include <string.h>

#include "core/core.h"
#include "proto/sdmq/job_id.h"
#include "server/config/config_parts.h"

static void add_size_range(struct buf *out, const struct config_key *key)
{
    buf_add_str(out,
                "bytes, such as 4096, 64K, 32M or 1GiB (units: K M G T, KiB MiB GiB TiB; powers "
                "of 1024), from ");
    config_add_number(out, KIND_BYTES, key->least);
    if (key->most < INT64_MAX) {
        buf_add_str(out, " to ");
        config_add_number(out, KIND_BYTES, key->most);
        return;
    }
    buf_add_str(out, " up");
    if (key->at == offsetof(struct config, journal_lag_bytes)) {
        buf_add_str(out, ", and at least twice store.segment_bytes");
    } else if (key->at == offsetof(struct config, memory_bytes)) {
        buf_add_str(out, ", and 0 or at least ");
        config_add_number(out, KIND_BYTES, CONFIG_MEMORY_MIN);
    }
}

void config_add_range(struct buf *out, const struct config_key *key)
{
    switch (key->kind) {
    case KIND_BYTES: add_size_range(out, key); break;
    case KIND_SECONDS:
    case KIND_LONG_TIME:
        buf_add_str(out,
                    "seconds, or a duration such as 250ms, 1h30m or 365d (units: us ms s m h d "
                    "w), from ");
        config_add_number(out, KIND_SECONDS, key->least);
        buf_add_str(out, " to ");
        config_add_number(out, KIND_SECONDS, key->most);
        break;
    case KIND_HOSTS:
        buf_addf(out, "hosts' names without ports, between commas, or *; %d bytes in all",
                 CONFIG_HOSTS_MAX - 1);
        break;
    case KIND_HOST: buf_addf(out, "up to %d letters, digits and . : - _ [ ]", SDMQ_HOST_MAX); break;
    case KIND_LEVEL: buf_add_str(out, "debug, info, warn or error"); break;
    case KIND_JOB_TARGETS: buf_add_str(out, "topic, any or off"); break;
    case KIND_RATE:
        buf_add_str(out, "a number in a time of 1ms to 1d, such as 100/s, 5/m or 1/10s; or 0");
        break;
    case KIND_RETRY: break; /* the error says it */
    case KIND_CHOICE: buf_addf(out, "one of: %s", config_choice(key)); break;
    case KIND_OFFSET: buf_add_str(out, "an offset such as +00:00, +08:00 or -03:30"); break;
    case KIND_DURABILITY: buf_add_str(out, "sync, os, or interval:1ms to interval:60s"); break;
    case KIND_DIR: buf_add_str(out, "a directory"); break;
    case KIND_ENGINE: buf_add_str(out, "embedded or redis"); break;
    case KIND_URL: buf_add_str(out, "redis://…, up to 511 bytes"); break;
    case KIND_PREFIX: buf_add_str(out, "1 to 64 bytes without { and }"); break;
    case KIND_WORD:
    case KIND_SECRET: buf_addf(out, "up to %d bytes", CONFIG_WORD_MAX - 1); break;
    case KIND_ALLOW:
    case KIND_PORTS: break; /* the error says it */
    case KIND_PATHS:
        buf_add_str(out, "paths that begin with /, up to 107 bytes each, between commas");
        break;
    case KIND_PROXY:
        buf_add_str(out, "http://host:port, or with https or socks5h; up to 255 bytes");
        break;
    case KIND_BROKER_TYPE: buf_add_str(out, "amqp, kafka, nats or redis"); break;
    case KIND_NAME: buf_add_str(out, "the NAME of a section"); break;
    case KIND_LISTENER: buf_add_str(out, "ADDRESS:PORT, unix:/PATH or none"); break;
    case KIND_COUNT:
        if (key->most == 1) {
            buf_add_str(out, "0 or 1");
            break;
        }
        buf_add_str(out, "a whole number from ");
        buf_add_i64(out, key->least);
        buf_add_str(out, " to ");
        buf_add_i64(out, key->most);
        if (key->at == offsetof(struct config, jobs))
            buf_addf(out, " (to %llu with the embedded engine)", (unsigned long long)CORE_JOBS_MAX);
        break;
    }
}

void config_print_help(struct buf *out, const char *help)
{
    size_t column = 0;
    while (*help) {
        size_t word = strcspn(help, " ");
        if (column == 0 || column + word > 92) {
            buf_add_str(out, column ? "\n#" : "#");
            column = 1;
        }
        buf_add_char(out, ' ');
        buf_add(out, help, word);
        column += word + 1;
        help += word + (help[word] == ' ');
    }
    buf_add_char(out, '\n');
}

void config_print_key(struct buf *out, const struct config_key *key)
{
    config_print_help(out, key->help);
    buf_addf(out, ";%s =%s%s\n", key->name, key->initial[0] ? " " : "", key->initial);
}

void config_print(struct buf *out)
{
    const char *section = "";
    buf_add_str(
        out,
        "# laterd's configuration. Every key is here with its default, or an example if it must "
        "be given;\n# take the ; away to set one.\n");
    for (size_t i = 0; i < config_key_count; i++) {
        if (strcmp(section, config_keys[i].section) != 0)
            buf_addf(out, "\n[%s]\n", config_keys[i].section);
        section = config_keys[i].section;
        config_print_key(out, &config_keys[i]);
    }
    config_sections_print(out);
}
