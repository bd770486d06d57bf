/*
 * laterd: puts the parts together (clock, disk, engine, network, server), runs turns until it is
 * told to stop, and ends politely. Called as beanstalkd, it reads that program's command line.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/disk.h"
#include "os/listen.h"
#include "os/memory_limit.h"
#include "os/net.h"
#include "os/notify.h"
#include "os/signals.h"
#include "os/user.h"
#include "os/worker.h"
#include "os/zone.h"
#ifndef LATERD_NO_REDIS
#include "engine/redis/redis.h"
#endif
#include "engine/embedded/embedded.h"
#include "server/config/beanstalkd_options.h"
#include "server/config/config.h"
#include "server/config/import_config.h"
#include "server/config/laterd_options.h"
#include "server/server.h"

enum {
    EXIT_USAGE = 2,
    INLINE_COMMIT_US = 2000, /* a disk that takes longer is left to its own thread */
};

struct program {
    struct config config;
    struct os_clock clock;
    struct os_disk *disk;
    struct os_worker *worker;
    struct os_net *net;
    struct embedded *embedded; /* this, or: */
    struct redis_engine *redis;
    struct server *server;
    struct buf hosts; /* names of ours that HTTP clients may use */
    struct server_listener listens[NET_LISTENERS_MAX];
    int listeners[NET_LISTENERS_MAX]; /* their sockets */
    unsigned listener_count;
    bool check_only;
    bool persist;
    char file_data_dir[CONFIG_TEXT_MAX]; /* of the configuration, if --data-dir named another */
    bool as_beanstalkd;                  /* with that program's command line and exit codes */
    const char *user;   /* to become, once the listeners are open; NULL = stay who we are */
    int exit_status;    /* of a start that failed */
    int64_t give_up_us; /* draining: not beyond this */
    int argc;           /* the command line, for reload() */
    char **argv;
    unsigned reloads;      /* SIGHUPs that were heeded */
    uint64_t memory_bytes; /* what limits.memory_bytes comes to */
};

/* A line on standard error, behind the name that we were called by: laterd, or beanstalkd. */
__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(stderr, "%s: ", program_invocation_short_name);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
}

/* Why a start fails is told by laterd's exit status 1, or by that of beanstalkd. */
static enum err failed(struct program *program, enum err err, int beanstalkd_status)
{
    program->exit_status = program->as_beanstalkd ? beanstalkd_status : EXIT_FAILURE;
    return err;
}

/* ---- the command line ---- */

/* Prints laterd's configuration for one of the Go server's; an exit status. */
static int import_config(const char *path)
{
    struct buf out = {0};
    struct config_error error;
    enum err err = import_config_file(path, &out, &error);
    if (err)
        complain("%s", error.text);
    else
        (void)fwrite(out.at, 1, out.len, stdout);
    buf_fini(&out);
    return err == ERR_INVALID ? EXIT_USAGE : err ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Exits for --help and the like. */
static enum err read_arguments(struct program *program, int argc, char **argv)
{
    struct laterd_options options;
    struct config_error error;
    enum err err = laterd_options_read(argc, argv, &program->config, &options, &error);
    if (err) {
        if (error.text[0])
            complain("%s", error.text);
        else
            (void)fputs("Try: laterd --help\n", stderr);
        return err;
    }
    switch (options.wish) {
    case LATERD_RUN: break;
    case LATERD_CHECK_CONFIG: program->check_only = true; break;
    case LATERD_PRINT_CONFIG: {
        struct buf sample = {0};
        config_print(&sample);
        (void)fwrite(sample.at, 1, sample.len, stdout);
        exit(EXIT_SUCCESS);
    }
    case LATERD_IMPORT_CONFIG: exit(import_config(options.import_config));
    case LATERD_SHOW_VERSION: (void)puts("laterd " LATERD_VERSION); exit(EXIT_SUCCESS);
    case LATERD_SHOW_HELP: (void)fputs(laterd_help, stdout); exit(EXIT_SUCCESS);
    }
    program->persist = options.persist;
    memcpy(program->file_data_dir, options.file_data_dir, sizeof(options.file_data_dir));
    return OK;
}

/* Exits for -h and -v. */
static enum err read_beanstalkd_arguments(struct program *program, int argc, char **argv)
{
    struct beanstalkd_options options;
    struct config_error error;
    enum err err = beanstalkd_options_read(argc, argv, &program->config, &options, &error);
    if (err) {
        complain("%s", error.text);
        (void)fputs(beanstalkd_help, stderr);
        return err;
    }
    switch (options.wish) {
    case BEANSTALKD_RUN: break;
    case BEANSTALKD_SHOW_HELP: (void)fputs(beanstalkd_help, stdout); exit(EXIT_SUCCESS);
    case BEANSTALKD_SHOW_VERSION:
        (void)puts("beanstalkd " BEANSTALKD_VERSION " (laterd " LATERD_VERSION ")");
        exit(EXIT_SUCCESS);
    }
    if (options.notice[0])
        complain("%s", options.notice);
    program->persist = options.persist;
    program->user = options.user;
    return OK;
}

static enum err check_address(const char *address, const char *example)
{
    enum err err = listen_check(address);
    if (err)
        complain("\"%s\" is no address to listen on: write 127.0.0.1:%s, "
                 "[::1]:%s (ports are 0 to 65535) or unix:/path",
                 address, example, example);
    return err;
}

static enum err check_addresses(const struct config *config)
{
    enum err err = OK;
    for (unsigned i = 0; i < config->http_count && !err; i++)
        err = check_address(config->http[i].address, "9277");
    for (unsigned i = 0; i < config->beanstalk_count && !err; i++)
        err = check_address(config->beanstalk[i], "11300");
    return err;
}

static enum err set_zone(const struct config *config)
{
    enum err err = zone_set(config->time_zone);
    if (err)
        complain("server.time_zone = %s: this machine's time zone data has no zone of that name "
                 "(names are such as Europe/Berlin, Asia/Shanghai or UTC)",
                 config->time_zone);
    return err;
}

/* ---- the parts ---- */

static void add_listener(struct program *program, int fd, struct server_listener what)
{
    char name[LISTEN_ADDR_MAX];
    listen_name(fd, name, sizeof(name));
    what.any_host = strncmp(name, "unix:", 5) == 0; /* no browser connects to a file */
    program->listeners[program->listener_count] = fd;
    program->listens[program->listener_count++] = what;
}

/*
 * Sockets that the service manager opened take the place of those that the configuration has of
 * their protocol. One whose name begins with "beanstalk" is for beanstalkd's protocol, and so are
 * all when there is no HTTP; the others speak HTTP, and take the configured dialects in order.
 */
static void take_passed(struct program *program)
{
    enum { PASSED_MAX = NET_LISTENERS_MAX - CONFIG_HTTP_MAX - CONFIG_BEANSTALK_MAX };
    struct listen_passed passed[PASSED_MAX];
    struct config *config = &program->config;
    unsigned count = listen_passed(passed, PASSED_MAX);
    unsigned http = 0;
    for (unsigned i = 0; i < count; i++) {
        struct server_listener what = {.protocol = PROTOCOL_BEANSTALK};
        if (config->http_count && strncmp(passed[i].name, "beanstalk", 9) != 0) {
            unsigned like = http < config->http_count ? http : config->http_count - 1;
            what.protocol = PROTOCOL_HTTP;
            what.dialect = config->http[like].dialect;
            http++;
        }
        add_listener(program, passed[i].fd, what);
    }
    if (http)
        config->http_count = 0;
    if (count > http)
        config->beanstalk_count = 0;
}

static enum err open_listener(struct program *program, const char *address,
                              struct server_listener what)
{
    int fd;
    enum err err = listen_open(address, &fd);
    if (!err) {
        add_listener(program, fd, what);
        return OK;
    }
    bool taken = err == ERR_IO && errno == EADDRINUSE;
    bool beanstalk = what.protocol == PROTOCOL_BEANSTALK;
    const char *why = err == ERR_IO          ? strerror(errno)
                      : err == ERR_NOT_FOUND ? "no host has this name"
                                             : "this is no address to listen on";
    complain("cannot listen on %s%s: %s", address, beanstalk ? " for clients of beanstalkd" : "",
             why);
    if (taken && beanstalk)
        complain("is a beanstalkd running? Stop it, or %s",
                 program->as_beanstalkd ? "give another port with -p"
                                        : "give another address with --beanstalk 127.0.0.1:PORT, "
                                          "or do without with --beanstalk none");
    else if (taken)
        complain("is another laterd running? Stop it, or give another address with --http "
                 "127.0.0.1:PORT, or in the configuration (http, under [server])");
    return failed(program, err, BEANSTALKD_EXIT_LISTEN);
}

/* HTTP first: who reads the log for the port finds that of HTTP in the first line. */
static enum err open_listeners(struct program *program)
{
    const struct config *config = &program->config;
    enum err err = OK;
    config_known_hosts(config, &program->hosts);
    take_passed(program);
    for (unsigned i = 0; i < config->http_count && !err; i++) {
        struct server_listener what = {.protocol = PROTOCOL_HTTP,
                                       .dialect = config->http[i].dialect};
        err = open_listener(program, config->http[i].address, what);
    }
    for (unsigned i = 0; i < config->beanstalk_count && !err; i++) {
        struct server_listener what = {.protocol = PROTOCOL_BEANSTALK};
        err = open_listener(program, config->beanstalk[i], what);
    }
    return err;
}

static enum err become_user(struct program *program)
{
    if (!program->user)
        return OK;
    enum err err = user_become(program->user);
    if (err == ERR_NOT_FOUND) {
        complain("there is no user \"%s\"", program->user);
        return failed(program, err, BEANSTALKD_EXIT_NO_USER);
    }
    if (err)
        complain("cannot become the user \"%s\": %s", program->user, strerror(errno));
    return err ? failed(program, err, BEANSTALKD_EXIT_NO_RIGHT) : OK;
}

/* Nobody's jobs are left behind in a log that we would not read. */
static enum err refuse_binlog(struct program *program)
{
    char name[64];
    const char *dir = program->config.data_dir;
    if (!program->persist || !beanstalkd_binlog_find(dir, name, sizeof(name)))
        return OK;
    complain("%s holds a log of beanstalkd (%s), which laterd does not go on with: start with "
             "another directory%s, then bring the jobs over with: later import beanstalkd %s",
             dir, name, program->config.http_count ? "" : " and --http 127.0.0.1:9277", dir);
    return failed(program, ERR_UNSUPPORTED, BEANSTALKD_EXIT_DIRECTORY);
}

/* limits.memory_bytes, or three quarters of what the system leaves us; says which. */
static void find_memory_limit(struct program *program)
{
    const struct config *config = &program->config;
    struct memory_limit limit;
    memory_limit_find("", memory_of_machine(), &limit);
    program->memory_bytes = (uint64_t)config->memory_bytes;
    if (!program->memory_bytes)
        program->memory_bytes = limit.bytes / 4 * 3;
    log_event(program->memory_bytes > limit.bytes ? LOG_WARN : LOG_INFO, "memory_limit",
              "bytes=%llu from=%s available=%llu available_by=%s%s",
              (unsigned long long)program->memory_bytes,
              config->memory_bytes ? "limits.memory_bytes" : "three_quarters_of_available",
              (unsigned long long)limit.bytes, limit.source,
              program->memory_bytes > limit.bytes
                  ? " hint=\"the system ends laterd before the limit is reached\""
                  : "");
}

static void complain_store(const char *dir, enum err err, const struct store_error *error)
{
    const char *colon = error->text[0] ? ": " : "";
    if (!error->file[0]) {
        complain("cannot open the store in %s: %s%s%s", dir, err_text(err), colon, error->text);
        return;
    }
    complain("cannot open the store in %s: %s", dir, err_text(err));
    complain("%s, byte %llu%s%s", error->file, (unsigned long long)error->offset, colon,
             error->text);
}

static struct core_limits core_limits(const struct program *program)
{
    const struct config *config = &program->config;
    return (struct core_limits){
        .jobs = (uint64_t)config->jobs,
        .topics = (uint32_t)config->topics,
        .waiters = (uint32_t)config->waiters,
        .memory_bytes = program->memory_bytes,
    };
}

/* So that clients cannot choose names that fall together in a hash table. */
static uint64_t random_number(int64_t now_us)
{
    uint64_t number;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        number = (uint64_t)now_us; /* never fails or blocks this long after boot */
    return number;
}

#ifdef LATERD_NO_REDIS

static enum err check_redis(const struct config *config)
{
    (void)config; /* open_redis says it */
    return OK;
}

static enum err open_redis(struct program *program)
{
    complain("engine = redis: this laterd was built without Redis");
    return failed(program, ERR_UNSUPPORTED, EXIT_FAILURE);
}

static void close_redis(struct program *program)
{
    (void)program; /* there is none */
}

static int redis_fd(const struct program *program)
{
    (void)program;
    return -1;
}

static struct engine *redis_port(struct program *program)
{
    (void)program;
    return NULL;
}

#else

/* What can be told without asking anybody. */
static enum err check_redis(const struct config *config)
{
    struct redis_url url;
    struct redis_error error = {.text = ""};
    if (config->engine != ENGINE_REDIS)
        return OK;
    enum err err = redis_url_read(bytes_str(config->redis_url), &url, &error);
    if (err)
        complain("%s", error.text);
    return err;
}

static enum err refuse_redis(struct program *program, const struct redis_error *error, enum err err)
{
    complain("cannot use Redis: %s", error->text);
    return failed(program, err, EXIT_FAILURE);
}

static enum err open_redis(struct program *program)
{
    const struct config *config = &program->config;
    struct redis_error error = {.text = ""};
    struct redis_options options = {
        .tls = {.ca = config->tls_ca,
                .certificate = config->tls_certificate,
                .key = config->tls_key},
        .sentinel_user = config->sentinel_user,
        .sentinel_password = config->sentinel_password,
        .prefix = config->redis_prefix,
        .partitions = (uint32_t)config->redis_partitions,
        .timeout_us = config->redis_timeout_us,
        .wait_replicas = (unsigned)config->redis_wait_replicas,
        .jobs_max = (uint64_t)config->jobs,
        .topics_max = (uint32_t)config->topics,
        .waiters_max = (uint32_t)config->waiters,
        .clock = &program->clock.clock,
    };
    const char *password = getenv("LATERD_REDIS_PASSWORD");
    const char *sentinel_password = getenv("LATERD_REDIS_SENTINEL_PASSWORD");
    enum err err = redis_url_read(bytes_str(config->redis_url), &options.url, &error);
    if (err)
        return refuse_redis(program, &error, err);
    if (password && !options.url.password[0])
        (void)snprintf(options.url.password, sizeof(options.url.password), "%s", password);
    if (sentinel_password && !config->sentinel_password[0])
        options.sentinel_password = sentinel_password;
    err = redis_engine_open(&options, &program->redis, &error);
    return err ? refuse_redis(program, &error, err) : OK;
}

static void close_redis(struct program *program)
{
    redis_engine_close(program->redis);
}

static int redis_fd(const struct program *program)
{
    return redis_engine_fd(program->redis);
}

static struct engine *redis_port(struct program *program)
{
    return redis_engine_port(program->redis);
}

#endif

/* Such a directory is used all the same: in containers it is often the only one there is. */
static void warn_if_exposed(const struct program *program)
{
    struct os_disk_owner owner;
    if (os_disk_exposed(program->disk, &owner))
        log_event(LOG_WARN, "data_dir_exposed",
                  "dir=%s owner=%ld mode=%04o hint=\"others can replace files of the store: "
                  "chown it to laterd's user, chmod 0700\"",
                  program->config.data_dir, (long)owner.uid, (unsigned)owner.mode);
}

/* Few descriptors: most are for connections. */
static uint32_t store_files_max(void)
{
    enum { FILES_MIN = 4, FILES_MAX = 64, PART = 16 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / PART > FILES_MAX)
        return FILES_MAX;
    return limit.rlim_cur / PART < FILES_MIN ? FILES_MIN : (uint32_t)(limit.rlim_cur / PART);
}

static enum err open_embedded(struct program *program)
{
    const struct config *config = &program->config;
    struct store_error error = {.text = ""};
    struct embedded_options options = {
        .limits = core_limits(program),
        .store =
            {
                .segment_bytes = (uint64_t)config->segment_bytes,
                .max_bytes = (uint64_t)config->max_bytes,
                .recent_bytes = (uint64_t)config->recent_bytes,
                .buffered = config->durability != DURABILITY_SYNC,
                .interval_us = config->interval_us,
                .inline_us = INLINE_COMMIT_US,
                .files_max = store_files_max(),
                .body_max = (uint32_t)(config->body_bytes > config->job_bytes ? config->body_bytes
                                                                              : config->job_bytes),
                .now_us = program->clock.clock.now_us(&program->clock.clock),
            },
        .durability = config->durability,
        .now_us = program->clock.clock.now_us(&program->clock.clock),
    };
    options.hash_key = random_number(options.now_us);
    options.lease_first = random_number(options.now_us) >> 2; /* far from the end of 64 bits */
    if (program->persist) {
        if (os_disk_new(config->data_dir, &program->disk)) {
            complain("cannot use %s as the data directory: %s", config->data_dir, strerror(errno));
            return failed(program, ERR_IO, BEANSTALKD_EXIT_DIRECTORY);
        }
        options.store.disk = os_disk_port(program->disk);
        warn_if_exposed(program);
    }
    enum err err = embedded_open(&options, &program->embedded, &error);
    if (err) {
        complain_store(config->data_dir, err, &error);
        return failed(program, err, BEANSTALKD_EXIT_DIRECTORY);
    }
    if (error.text[0])
        log_event(LOG_WARN, "store_notice", "file=%s offset=%llu text=\"%s\"", error.file,
                  (unsigned long long)error.offset, error.text);
    return OK;
}

static enum err open_engine(struct program *program)
{
    if (program->config.engine == ENGINE_REDIS)
        return open_redis(program);
    return open_embedded(program);
}

static void log_opened(const struct program *program)
{
    struct core_totals totals;
    struct store_stats stats = {0};
    if (program->redis) {
        log_event(LOG_INFO, "redis_opened", "prefix=%s partitions=%lld",
                  program->config.redis_prefix, (long long)program->config.redis_partitions);
        return;
    }
    core_totals(embedded_core(program->embedded), &totals);
    if (embedded_store(program->embedded))
        store_stats(embedded_store(program->embedded), &stats);
    log_event(LOG_INFO, "store_opened",
              "dir=%s delayed=%llu ready=%llu reserved=%llu buried=%llu segments=%llu ms=%lld "
              "dropped_tail_bytes=%llu",
              program->persist ? program->config.data_dir : "none",
              (unsigned long long)totals.jobs[JOB_DELAYED],
              (unsigned long long)totals.jobs[JOB_READY],
              (unsigned long long)totals.jobs[JOB_RESERVED],
              (unsigned long long)totals.jobs[JOB_BURIED], (unsigned long long)stats.segments,
              (long long)(stats.recovery_us / 1000), (unsigned long long)stats.dropped_tail_bytes);
}

static void make_server(struct program *program)
{
    const struct config *config = &program->config;
    int64_t now_us = program->clock.clock.now_us(&program->clock.clock);
    const struct core_limits limits = core_limits(program);
    struct server_options options = {
        .clock = &program->clock.clock,
        .net = os_net_port(program->net),
        .worker = os_worker_port(program->worker),
        .hosts = buf_bytes(&program->hosts),
        .embedded = program->embedded,
        .engine = program->redis ? redis_port(program) : NULL,
        .api =
            {
                .body_bytes = (uint32_t)config->body_bytes,
                .json_depth = (uint32_t)config->json_depth,
                .batch_jobs = (uint32_t)config->batch_jobs,
                .reserve_topics = (uint32_t)config->reserve_topics,
                .wait_us = config->wait_us,
                .block_us = config->block_us,
                .ttr_us = config->ttr_us,
                .ttr_max_us = config->ttr_max_us,
                .east_us = zone_east_us,
                .jobs = limits.jobs,
                .topics = limits.topics,
                .waiters = limits.waiters,
                .memory_bytes = program->redis ? 0 : limits.memory_bytes,
                .disk_bytes = (uint64_t)config->max_bytes,
            },
        .http =
            {
                .line_bytes = (uint32_t)config->line_bytes,
                .headers = (uint32_t)config->headers,
                .header_bytes = (uint32_t)config->header_bytes,
                .body_bytes = (uint64_t)config->request_bytes,
            },
        .beanstalk_body_bytes = (uint32_t)config->job_bytes,
        .limits = limits,
        .connections_max = (uint32_t)config->connections,
        .buffer_bytes = (uint64_t)config->buffer_bytes,
        .idle_us = config->idle_us,
        .request_us = config->request_us,
        .metrics_topics = (uint32_t)config->metrics_topics,
        .turn_cpu = config->turn_cpu != 0,
        .hash_key = random_number(now_us),
        .instance = random_number(now_us),
    };
    memcpy(options.listeners, program->listens, sizeof(program->listens));
    program->server = server_new(&options);
    for (unsigned i = 0; i < program->listener_count; i++)
        os_net_listen(program->net, program->listeners[i], i);
}

static void log_listening(const struct program *program)
{
    for (unsigned i = 0; i < program->listener_count; i++) {
        const struct server_listener *what = &program->listens[i];
        char name[LISTEN_ADDR_MAX];
        listen_name(program->listeners[i], name, sizeof(name));
        if (what->protocol == PROTOCOL_BEANSTALK)
            log_event(LOG_INFO, "listening", "addr=%s protocol=beanstalk", name);
        else
            log_event(LOG_INFO, "listening", "addr=%s protocol=http dialect=%s", name,
                      api_dialect_name(what->dialect));
    }
}

/* A connection is a descriptor: take as many as we are allowed. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* else we live with what there is */
    }
}

/*
 * Left to itself, glibc raises the size from which a block has pages of its own up to 32 MiB, and
 * memory below that comes back only when nothing lies above it. Fixed, large tables and buffers go
 * back to the system when they are freed, as chunks of pools do by themselves. Up to 4 MiB that are
 * free at the heap's end are kept, so that buffers which come and go do not ask the system each
 * time.
 */
static void set_heap(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 128 * 1024); /* another libc may know neither, and need not */
    (void)mallopt(M_TRIM_THRESHOLD, 4 * 1024 * 1024);
}

static enum err start(struct program *program)
{
    raise_descriptors();
    find_memory_limit(program);
    int signal_fd = signals_catch();
    enum err err = refuse_binlog(program);
    if (!err)
        err = open_listeners(program); /* a taken port is told before a long recovery */
    if (!err)
        err = become_user(program);
    if (!err)
        err = open_engine(program);
    if (err)
        return err;
    log_opened(program);
    program->net =
        os_net_new(&program->clock.clock, program->disk ? store_descriptors(store_files_max()) : 0);
    program->worker = os_worker_new();
    if (!program->net || !program->worker || signal_fd < 0) {
        complain("%s", strerror(errno));
        return ERR_IO;
    }
    /* The kernel may round our wake-ups by 50 µs to save power; due times are worth more. */
    (void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    os_net_watch(program->net, signal_fd);
    os_net_watch(program->net, os_worker_eventfd(program->worker));
    if (program->disk)
        os_net_watch(program->net, os_disk_eventfd(program->disk));
    if (program->redis)
        os_net_watch(program->net, redis_fd(program));
    make_server(program);
    log_listening(program);
    notify_manager("READY=1\nSTATUS=serving");
    return OK;
}

/* ---- running and ending ---- */

/*
 * SIGHUP: reads the command line and the file again, and takes over what can be changed while jobs
 * are served: the log level, and how long a drain may take. A configuration that is wrong changes
 * nothing.
 */
static void reload(struct program *program)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    struct config config;
    struct laterd_options options;
    struct config_error error = {.text = ""};
    if (program->as_beanstalkd) {
        log_event(LOG_WARN, "reload_ignored",
                  "signal=SIGHUP hint=\"in the place of beanstalkd there is no file to read\"");
        return;
    }
    config_init(&config);
    optind = 0; /* getopt begins anew */
    if (laterd_options_read(program->argc, program->argv, &config, &options, &error)) {
        log_event(LOG_ERROR, "reload_failed", "error=\"%s\" hint=\"nothing was changed\"",
                  error.text);
        return;
    }
    program->config.log_level = config.log_level;
    program->config.drain_us = config.drain_us;
    log_level_set(LOG_INFO); /* this line is the answer to the signal: it is always shown */
    log_event(LOG_INFO, "reloaded",
              "log_level=%s drain_s=%lld hint=\"all other keys need a restart\"",
              levels[config.log_level], (long long)(config.drain_us / 1000000));
    log_level_set(config.log_level);
}

/* What signals ask for, once for each; a second stop signal is run()'s to see. */
static void handle_signals(struct program *program)
{
    struct server *server = program->server;
    if (signals_reloads() != program->reloads) {
        program->reloads = signals_reloads();
        reload(program);
    }
    if (signals_refuse() && !server->refusing_pushes) {
        log_event(LOG_INFO, "refusing_pushes", "signal=SIGUSR1");
        notify_manager("STATUS=refusing pushes");
        server_refuse_pushes(server);
    }
    if (signals_count() && !server->draining) {
        log_event(LOG_INFO, "draining", "connections=%u limit_s=%lld", server_sessions(server),
                  (long long)(program->config.drain_us / 1000000));
        notify_manager("STOPPING=1\nSTATUS=draining");
        program->give_up_us = server->now_us + program->config.drain_us;
        server_drain(server);
    }
}

/* Turns until a stop signal; then politely on until all are answered, but not for ever. */
static bool run(struct program *program)
{
    struct server *server = program->server;
    program->give_up_us = INT64_MAX;
    while (!server_drained(server) && server->now_us < program->give_up_us) {
        bool draining = server->draining;
        int64_t next_us = server_turn(server);
        handle_signals(program);
        if (server->draining && !draining)
            continue; /* the parked polls have their answers; a turn sends them */
        if (signals_count() > 1)
            return false;
        server_sleep(server, next_us < program->give_up_us ? next_us : program->give_up_us);
    }
    return true;
}

static void finish(struct program *program)
{
    server_free(program->server);
    embedded_close(program->embedded);
    close_redis(program);
    buf_fini(&program->hosts);
    os_net_free(program->net);
    os_disk_free(program->disk);
    os_worker_free(program->worker);
}

int main(int argc, char **argv)
{
    static struct program program = {.persist = true, .exit_status = EXIT_FAILURE};
    set_heap();
    config_init(&program.config);
    program.argc = argc;
    program.argv = argv;
    program.as_beanstalkd = beanstalkd_wanted(argc, argv);
    if (program.as_beanstalkd) {
        if (read_beanstalkd_arguments(&program, argc, argv))
            return BEANSTALKD_EXIT_USAGE;
    } else if (read_arguments(&program, argc, argv) || check_addresses(&program.config) ||
               check_redis(&program.config)) {
        return EXIT_USAGE;
    }
    if (set_zone(&program.config))
        return EXIT_USAGE;
    if (program.check_only) {
        (void)puts("laterd: the configuration is good");
        return EXIT_SUCCESS;
    }
    log_level_set(program.config.log_level);
    os_clock_init(&program.clock);
    log_event(LOG_INFO, "starting", "version=%s pid=%d", LATERD_VERSION, (int)getpid());
    if (program.file_data_dir[0])
        log_event(LOG_WARN, "data_dir_overridden", "dir=%s by=--data-dir store.data_dir=%s",
                  program.config.data_dir, program.file_data_dir);
    if (start(&program)) {
        finish(&program);
        return program.exit_status;
    }
    if (!run(&program)) {
        log_event(LOG_WARN, "stopped_at_once",
                  "hint=\"a second stop signal; the next start "
                  "recovers the log\"");
        return EXIT_FAILURE;
    }
    finish(&program);
    log_event(LOG_INFO, "stopped", "pid=%d", (int)getpid());
    return EXIT_SUCCESS;
}
