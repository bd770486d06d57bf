#include "server/config/config.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>

#include "base/check.h"
#include "core/core.h"
#include "proto/http/host.h"
#include "server/config/config_parts.h"

#define NUMBER(field) offsetof(struct config, field)
#define WORD(field)   offsetof(struct config, field)
#define DAY           ((int64_t)86400 * 1000000)
#define GIB           ((int64_t)1 << 30)

const struct config_key config_keys[] = {
    {"server", "http", KIND_LISTENER, PROTOCOL_HTTP, 0, 0, "127.0.0.1:9277,delay-queue",
     "Where to listen, and which dialect owns / there: delay-queue, delayqueue-java or none "
     "(only /v1). May be given several times. unix:/path is an address, too; none is no HTTP."},
    {"server", "beanstalk", KIND_LISTENER, PROTOCOL_BEANSTALK, 0, 0, "127.0.0.1:11300",
     "Where to listen for clients of beanstalkd. May be given several times; none is nowhere."},
    {"server", "hosts", KIND_HOSTS, 0, 0, 0, "",
     "Names that HTTP clients call this server by, without ports, between commas; may be given "
     "several times. A request that names another host is refused (403), unless it is an IP "
     "address, localhost, or a name in server.http. *: any name, which lets web pages in."},
    {"server", "log_level", KIND_LEVEL, 0, 0, 0, "info", "debug, info, warn or error."},
    {"server", "drain_seconds", KIND_SECONDS, NUMBER(drain_us), 0, DAY, "10",
     "After SIGTERM, how long clients have to take their answers."},
    {"server", "metrics_topics", KIND_COUNT, NUMBER(metrics_topics), 0, 10000, "100",
     "Topics shown one by one in /metrics; totals are always over all."},
    {"server", "turn_cpu", KIND_COUNT, NUMBER(turn_cpu), 0, 1, "0",
     "1: turn_seconds in /metrics is processor time, for two system calls more a turn; "
     "0: it goes by the clock."},
    {"server", "time_zone", KIND_WORD, WORD(time_zone), 0, 0, "",
     "Zone of the dates that clients of the dialect delayqueue-java send without one, such as "
     "Asia/Shanghai. If this is empty it is the machine's."},
    {"store", "data_dir", KIND_DIR, 0, 0, 0, "/var/lib/laterd", "Where jobs are kept."},
    {"store", "durability", KIND_DURABILITY, 0, 0, 0, "sync",
     "When a change is answered: sync (it is on disk), interval:50ms (the system has it, and it is "
     "on disk 50 ms later) or os (the system has it)."},
    {"store", "segment_bytes", KIND_BYTES, NUMBER(segment_bytes), 262144, GIB, "16M",
     "Size of one log file."},
    {"store", "max_bytes", KIND_BYTES, NUMBER(max_bytes), 0, INT64_MAX, "0",
     "All log files together; pushes are refused beyond it. 0: as much as the disk has."},
    {"store", "recent_bytes", KIND_BYTES, NUMBER(recent_bytes), 0, 64 * GIB, "16M",
     "Memory for the newest bodies, so that young jobs are handed out without a disk read."},
    {"limits", "jobs", KIND_COUNT, NUMBER(jobs), 1, 2000000000, "100000000",
     "Live jobs. The embedded engine holds up to 268435455."},
    {"limits", "topics", KIND_COUNT, NUMBER(topics), 1, 10000000, "100000",
     "Topics. Idle ones make room for new ones."},
    {"limits", "waiters", KIND_COUNT, NUMBER(waiters), 1, 10000000, "100000",
     "Reserves that wait for a job at the same time."},
    {"limits", "memory_bytes", KIND_BYTES, NUMBER(memory_bytes), 0, INT64_MAX, "0",
     "Heap in use beyond which pushes are refused. 0: three quarters of what the machine, or our "
     "control group, has."},
    {"limits", "buffer_bytes", KIND_BYTES, NUMBER(buffer_bytes), 0, INT64_MAX, "0",
     "Memory of all connections' buffers together: beyond it connections are closed, the largest "
     "first. 0: a quarter of memory_bytes."},
    {"limits", "body_bytes", KIND_BYTES, NUMBER(body_bytes), 0, CONFIG_BODY_MAX, "1M",
     "Body of a job."},
    {"limits", "json_depth", KIND_COUNT, NUMBER(json_depth), 2, 128, "32",
     "Nesting of JSON in a request."},
    {"limits", "batch_jobs", KIND_COUNT, NUMBER(batch_jobs), 1, 100000, "1000",
     "Jobs in one push, one finish or one reserve."},
    {"limits", "reserve_topics", KIND_COUNT, NUMBER(reserve_topics), 1, 10000, "64",
     "Topics in one reserve."},
    {"limits", "connections", KIND_COUNT, NUMBER(connections), 1, 1000000, "10000",
     "Open connections; further ones get 503."},
    {"limits", "line_bytes", KIND_BYTES, NUMBER(line_bytes), 64, 1 << 20, "8K",
     "HTTP request line."},
    {"limits", "headers", KIND_COUNT, NUMBER(headers), 4, 1000, "64", "Headers of a request."},
    {"limits", "header_bytes", KIND_BYTES, NUMBER(header_bytes), 256, 1 << 20, "16K",
     "Headers of a request together."},
    {"limits", "request_bytes", KIND_BYTES, NUMBER(request_bytes), 256, GIB, "8M",
     "Body of a request, for instance of a batch of pushes."},
    {"limits", "idle_seconds", KIND_SECONDS, NUMBER(idle_us), 1000, 7 * DAY, "300",
     "A connection that asks nothing is closed after this."},
    {"limits", "request_seconds", KIND_SECONDS, NUMBER(request_us), 1000, DAY, "30",
     "A request must be whole within this, and a second more for each 64K of it; an answer must be "
     "taken, or at least 64K of it each time."},
    {"limits", "wait_seconds", KIND_SECONDS, NUMBER(wait_us), 0, DAY, "600",
     "Longest wait of a reserve in /v1."},
    {"limits", "ttr_seconds", KIND_SECONDS, NUMBER(ttr_max_us), 1000000, 36500 * DAY, "365d",
     "Longest ttr a push may ask for."},
    {"defaults", "ttr", KIND_SECONDS, NUMBER(ttr_us), 1000, 36500 * DAY, "60s",
     "Time to run of jobs pushed through /v1 that do not say."},
    {"defaults", "block_timeout", KIND_SECONDS, NUMBER(block_us), 0, DAY, "178s",
     "How long /pop of the delay-queue dialect waits for a job."},
    {"beanstalk", "job_bytes", KIND_BYTES, NUMBER(job_bytes), 0, CONFIG_BODY_MAX, "65535",
     "Body of a job that a client of beanstalkd puts; limits.body_bytes is for all others."},
    {"engine", "engine", KIND_ENGINE, 0, 0, 0, "embedded",
     "Where the queue lives: embedded (here, in store.data_dir) or redis (in a Redis that any "
     "number of laterds share)."},
    {"redis", "url", KIND_URL, 0, 0, 0, "redis://127.0.0.1:6379",
     "redis://[user:password@]host:port/db, unix:///path, redis+sentinel://h1,h2,h3/name/db or "
     "redis+cluster://h1,h2,h3; with rediss over TLS. The environment's LATERD_REDIS_PASSWORD is "
     "the password if this has none."},
    {"redis", "prefix", KIND_PREFIX, 0, 0, 0, "laterd",
     "Begins the names of all keys: one for each queue that shares a Redis."},
    {"redis", "partitions", KIND_COUNT, NUMBER(redis_partitions), 1, 1024, "16",
     "Parts of the queue that a cluster can spread. Set once: the queue remembers it."},
    {"redis", "timeout", KIND_SECONDS, NUMBER(redis_timeout_us), 50000, 60000000, "2s",
     "A command that Redis has not answered by then is answered: not now."},
    {"redis", "wait_replicas", KIND_COUNT, NUMBER(redis_wait_replicas), 0, 100, "0",
     "A change is acknowledged when so many replicas have it, too (Redis' WAIT)."},
    {"redis", "tls_ca", KIND_WORD, WORD(tls_ca), 0, 0, "",
     "With rediss://: the file of the authorities that Redis' certificate may come from. If this "
     "is empty they are those of the system."},
    {"redis", "tls_certificate", KIND_WORD, WORD(tls_certificate), 0, 0, "",
     "The file of the certificate by which laterd proves who it is, if Redis asks."},
    {"redis", "tls_key", KIND_WORD, WORD(tls_key), 0, 0, "",
     "The file of its key, not encrypted. If this is empty it is in the file of the certificate."},
    {"redis", "sentinel_user", KIND_WORD, WORD(sentinel_user), 0, 0, "",
     "Who laterd is to the sentinels, if they ask; user and password in the url are the servers'."},
    {"redis", "sentinel_password", KIND_SECRET, WORD(sentinel_password), 0, 0, "",
     "The sentinels' password. If this is empty it is the environment's "
     "LATERD_REDIS_SENTINEL_PASSWORD."},
};
const size_t config_key_count = sizeof(config_keys) / sizeof(config_keys[0]);
static_assert(sizeof(config_keys) / sizeof(config_keys[0]) <= CONFIG_KEYS_MAX, "room for places");

/* ---- values ---- */

static const struct {
    const char *name;
    int64_t us;
} units[] = {{"us", 1},       {"ms", 1000},      {"s", 1000000},
             {"m", 60000000}, {"h", 3600000000}, {"d", 86400000000}};

/* Takes a number and, if there is one, its unit off the front. */
static bool take_part(struct bytes *text, int64_t unit_us, int64_t *out_us)
{
    size_t digits = 0, letters;
    uint64_t number;
    while (digits < text->len && text->at[digits] >= '0' && text->at[digits] <= '9')
        digits++;
    if (!bytes_to_u64(bytes_of(text->at, digits), &number) || number > INT64_MAX)
        return false;
    for (letters = digits; letters < text->len; letters++) {
        if (text->at[letters] >= '0' && text->at[letters] <= '9')
            break;
    }
    struct bytes unit = bytes_of(text->at + digits, letters - digits);
    bool known = unit.len == 0 && letters == text->len;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]) && unit.len; i++) {
        if (bytes_eq(unit, bytes_str(units[i].name))) {
            unit_us = units[i].us;
            known = true;
        }
    }
    *text = bytes_of(text->at + letters, text->len - letters);
    return known && !__builtin_mul_overflow((int64_t)number, unit_us, out_us);
}

bool config_duration(struct bytes text, int64_t unit_us, int64_t *out_us)
{
    int64_t total_us = 0, part_us;
    bool bare = true; /* a bare number must be the whole */
    for (size_t i = 0; i < text.len; i++)
        bare = bare && text.at[i] >= '0' && text.at[i] <= '9';
    if (text.len == 0)
        return false;
    while (text.len) {
        if (!bare && text.at[text.len - 1] >= '0' && text.at[text.len - 1] <= '9')
            return false; /* "1h30": of what? */
        if (!take_part(&text, unit_us, &part_us) ||
            __builtin_add_overflow(total_us, part_us, &total_us))
            return false;
    }
    *out_us = total_us;
    return true;
}

bool config_bytes(struct bytes text, int64_t *out_bytes)
{
    static const char suffixes[] = "KMGT";
    unsigned shift = 0;
    uint64_t number;
    if (text.len && text.at[text.len - 1] == 'B') /* "64KB", "64KiB" are what people write */
        text.len--;
    if (text.len && text.at[text.len - 1] == 'i')
        text.len--;
    for (unsigned i = 0; i < 4 && text.len; i++) {
        if (text.at[text.len - 1] == suffixes[i])
            shift = 10 * (i + 1);
    }
    if (shift)
        text.len--;
    if (!bytes_to_u64(text, &number) || number > (uint64_t)INT64_MAX >> shift)
        return false;
    *out_bytes = (int64_t)(number << shift);
    return true;
}

static bool is_none(const char *value)
{
    return value[0] == '\0' || strcmp(value, "none") == 0;
}

/* The dialect behind the comma, if there is one; false: there is none of this name. */
static bool read_dialect(const char *comma, enum api_dialect *out_dialect,
                         struct config_error *out_error)
{
    const char *name = comma ? comma + 1 + strspn(comma + 1, " ") : "delay-queue";
    for (enum api_dialect i = 0; i < DIALECT_COUNT; i++) {
        if (strcmp(name, api_dialect_name(i)) == 0) {
            *out_dialect = i;
            return true;
        }
    }
    (void)snprintf(out_error->text, sizeof(out_error->text),
                   "http: unknown dialect \"%s\"; known are delay-queue, delayqueue-java and none",
                   name);
    return false;
}

enum err config_add_listener(struct config *config, enum protocol_kind protocol, const char *value,
                             struct config_error *out_error)
{
    const struct protocol *speaks = &protocols[protocol];
    struct config_listeners *listeners = &config->listeners[protocol];
    if (is_none(value)) {
        listeners->count = 0;
        return OK;
    }
    const char *comma = speaks->dialects ? strchr(value, ',') : NULL;
    size_t len = comma ? (size_t)(comma - value) : strlen(value);
    if (listeners->count == CONFIG_LISTENERS_MAX || len == 0 || len >= CONFIG_ADDRESS_MAX) {
        (void)snprintf(out_error->text, sizeof(out_error->text),
                       "%s: not an address, or more than %d of them: %s", speaks->option,
                       CONFIG_LISTENERS_MAX, value);
        return ERR_INVALID;
    }
    struct config_listener *listener = &listeners->at[listeners->count];
    if (speaks->dialects && !read_dialect(comma, &listener->dialect, out_error))
        return ERR_INVALID;
    memcpy(listener->address, value, len);
    listener->address[len] = '\0';
    listeners->count++;
    return OK;
}

static bool set_hosts(struct config *config, const char *value)
{
    struct bytes rest = bytes_str(value), name;
    size_t used = strlen(config->hosts);
    while (host_next_name(&rest, &name)) {
        if (!host_is_name(name) || used + name.len + 2 > sizeof(config->hosts))
            return false;
        config->hosts[used++] = ' ';
        memcpy(config->hosts + used, name.at, name.len);
        used += name.len;
        config->hosts[used] = '\0';
    }
    return true;
}

static bool set_level(struct config *config, const char *value)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(value, names[i]) == 0) {
            config->log_level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

static bool set_durability(struct config *config, const char *value)
{
    if (strcmp(value, "sync") == 0) {
        config->durability = DURABILITY_SYNC;
        return true;
    }
    if (strcmp(value, "os") == 0) {
        config->durability = DURABILITY_OS;
        return true;
    }
    if (strncmp(value, "interval:", 9) != 0 ||
        !config_duration(bytes_str(value + 9), 1000, &config->interval_us) ||
        config->interval_us < 1000 || config->interval_us > 60000000)
        return false;
    config->durability = DURABILITY_INTERVAL;
    return true;
}

static bool set_engine(struct config *config, const char *value)
{
    bool redis = strcmp(value, "redis") == 0;
    if (!redis && strcmp(value, "embedded") != 0)
        return false;
    config->engine = redis ? ENGINE_REDIS : ENGINE_EMBEDDED;
    return true;
}

/* A text that fits, and is not empty. */
static bool set_text(char *room, size_t room_bytes, const char *value)
{
    size_t len = strlen(value);
    if (len == 0 || len >= room_bytes)
        return false;
    memcpy(room, value, len + 1);
    return true;
}

/* Braces would make a hash tag of their own, and scatter the keys of a partition over a cluster. */
static bool set_prefix(struct config *config, const char *value)
{
    return !strpbrk(value, "{}") &&
           set_text(config->redis_prefix, sizeof(config->redis_prefix), value);
}

static bool set_word(struct config *config, const struct config_key *key, const char *value)
{
    size_t len = strlen(value);
    if (len >= CONFIG_WORD_MAX)
        return false;
    memcpy((char *)config + key->at, value, len + 1);
    return true;
}

static bool set_number(struct config *config, const struct config_key *key, const char *value)
{
    int64_t number = 0;
    struct bytes text = bytes_str(value);
    uint64_t count;
    bool good = false;
    if (key->kind == KIND_BYTES)
        good = config_bytes(text, &number);
    else if (key->kind == KIND_SECONDS)
        good = config_duration(text, 1000000, &number);
    else if (bytes_to_u64(text, &count) && count <= INT64_MAX)
        good = (number = (int64_t)count, true);
    if (!good || number < key->least || number > key->most)
        return false;
    memcpy((char *)config + key->at, &number, sizeof(number));
    return true;
}

bool config_set(struct config *config, const struct config_key *key, const char *value,
                struct config_error *error)
{
    switch (key->kind) {
    case KIND_LISTENER:
        return config_add_listener(config, (enum protocol_kind)key->at, value, error) == OK;
    case KIND_DIR:
        config->data_dir_given = true;
        return set_text(config->data_dir, sizeof(config->data_dir), value);
    case KIND_URL: return set_text(config->redis_url, sizeof(config->redis_url), value);
    case KIND_PREFIX: return set_prefix(config, value);
    case KIND_WORD:
    case KIND_SECRET: return set_word(config, key, value);
    case KIND_ENGINE: return set_engine(config, value);
    case KIND_HOSTS: return set_hosts(config, value);
    case KIND_LEVEL: return set_level(config, value);
    case KIND_DURABILITY: return set_durability(config, value);
    case KIND_COUNT:
    case KIND_BYTES:
    case KIND_SECONDS: return set_number(config, key, value);
    }
    return false;
}

void config_init(struct config *config)
{
    struct config_error error;
    *config = (struct config){0};
    for (size_t i = 0; i < config_key_count; i++) {
        bool good = config_set(config, &config_keys[i], config_keys[i].initial, &error);
        CHECK(good);
    }
    config->data_dir_given = false;
}

const struct config_key *config_find(const char *section, const char *name)
{
    for (size_t i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].section, section) == 0 && strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    }
    return NULL;
}

bool config_is_section(struct bytes name)
{
    for (size_t i = 0; i < config_key_count; i++) {
        if (bytes_eq(bytes_str(config_keys[i].section), name))
            return true;
    }
    return false;
}

/* ---- what is said of a key ---- */

static void add_bytes(struct buf *out, int64_t bytes)
{
    static const char suffixes[] = "KMGT";
    int i = -1;
    while (i < 3 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        i++;
    }
    buf_add_i64(out, bytes);
    if (i >= 0)
        buf_add_char(out, suffixes[i]);
}

static void add_duration(struct buf *out, int64_t us)
{
    size_t i = sizeof(units) / sizeof(units[0]) - 1;
    while (i > 0 && us % units[i].us)
        i--;
    buf_add_i64(out, us ? us / units[i].us : 0);
    buf_add_str(out, us ? units[i].name : "s");
}

void config_add_number(struct buf *out, enum config_kind kind, int64_t number)
{
    if (kind == KIND_BYTES)
        add_bytes(out, number);
    else if (kind == KIND_SECONDS)
        add_duration(out, number);
    else
        buf_add_i64(out, number);
}

void config_add_range(struct buf *out, const struct config_key *key)
{
    switch (key->kind) {
    case KIND_BYTES:
        buf_add_str(out, "bytes such as 4096, 64K or 32M, from ");
        add_bytes(out, key->least);
        if (key->most == INT64_MAX) {
            buf_add_str(out, " up");
            break;
        }
        buf_add_str(out, " to ");
        add_bytes(out, key->most);
        break;
    case KIND_SECONDS:
        buf_add_str(out, "seconds, or a duration such as 250ms or 1h30m, from ");
        add_duration(out, key->least);
        buf_add_str(out, " to ");
        add_duration(out, key->most);
        break;
    case KIND_HOSTS:
        buf_addf(out, "hosts' names without ports, between commas, or *; %d bytes in all",
                 CONFIG_HOSTS_MAX - 1);
        break;
    case KIND_LEVEL: buf_add_str(out, "debug, info, warn or error"); break;
    case KIND_DURABILITY: buf_add_str(out, "sync, os, or interval:1ms to interval:60s"); break;
    case KIND_DIR: buf_add_str(out, "a directory"); break;
    case KIND_ENGINE: buf_add_str(out, "embedded or redis"); break;
    case KIND_URL: buf_add_str(out, "redis://…, up to 511 bytes"); break;
    case KIND_PREFIX: buf_add_str(out, "1 to 64 bytes without { and }"); break;
    case KIND_WORD:
    case KIND_SECRET: buf_addf(out, "up to %d bytes", CONFIG_WORD_MAX - 1); break;
    case KIND_LISTENER: buf_add_str(out, "ADDRESS:PORT, unix:/PATH or none"); break;
    case KIND_COUNT:
        buf_add_str(out, "a whole number from ");
        buf_add_i64(out, key->least);
        buf_add_str(out, " to ");
        buf_add_i64(out, key->most);
        if (key->at == NUMBER(jobs))
            buf_addf(out, " (to %llu with the embedded engine)", (unsigned long long)CORE_JOBS_MAX);
        break;
    }
}

void config_known_hosts(const struct config *config, struct buf *out)
{
    buf_add_str(out, config->hosts);
    const struct config_listeners *http = &config->listeners[PROTOCOL_HTTP];
    for (unsigned i = 0; i < http->count; i++) {
        struct bytes name = host_without_port(bytes_str(http->at[i].address));
        if (!host_is_name(name))
            continue; /* a path, or an address in brackets */
        buf_add_char(out, ' ');
        buf_add_bytes(out, name);
    }
}

static void print_help(struct buf *out, const char *help)
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

void config_print(struct buf *out)
{
    const char *section = "";
    buf_add_str(out,
                "# laterd's configuration. Every key is here with its default; take the ; away "
                "to set one.\n");
    for (size_t i = 0; i < config_key_count; i++) {
        if (strcmp(section, config_keys[i].section) != 0)
            buf_addf(out, "\n[%s]\n", config_keys[i].section);
        section = config_keys[i].section;
        print_help(out, config_keys[i].help);
        buf_addf(out, ";%s =%s%s\n", config_keys[i].name, config_keys[i].initial[0] ? " " : "",
                 config_keys[i].initial);
    }
}
