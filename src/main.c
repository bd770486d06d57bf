/*
 * laterd: puts the parts together (clock, disk, engine, network, server), runs turns until it is
 * told to stop, and ends politely.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/disk.h"
#include "os/listen.h"
#include "os/net.h"
#include "os/notify.h"
#include "os/signals.h"
#include "server/config.h"
#include "server/embedded.h"
#include "server/server.h"

enum {
    EXIT_USAGE = 2,
    INLINE_COMMIT_US = 2000, /* a disk that takes longer is left to its own thread */
};

struct program {
    struct config config;
    struct os_clock clock;
    struct os_disk *disk;
    struct os_net *net;
    struct embedded *embedded;
    struct server *server;
    struct server_listener listens[NET_LISTENERS_MAX];
    int listeners[NET_LISTENERS_MAX]; /* their sockets */
    unsigned listener_count;
    bool check_only;
    bool persist;
};

static const char help[] =
    "Usage: laterd [-c FILE] [--data-dir DIR] [--http ADDR:PORT[,DIALECT]]...\n"
    "\n"
    "A delay queue: hand it a job now, get it back at its due time, at least once.\n"
    "\n"
    "  -c, --config FILE    read this configuration; see laterd --print-config\n"
    "      --data-dir DIR   keep jobs here (default /var/lib/laterd)\n"
    "      --http ADDR:PORT[,DIALECT]\n"
    "                       listen here instead of where the configuration says; may be\n"
    "                       repeated. DIALECT owns the paths outside /v1: delay-queue\n"
    "                       (default), delayqueue-java or none. Port 0 takes a free one.\n"
    "      --no-persist     keep nothing on disk: jobs are gone when laterd ends\n"
    "      --check-config   say whether the configuration is good, and exit\n"
    "      --print-config   print a commented sample with every key, and exit\n"
    "      --version        print the version, and exit\n"
    "      --help           print this, and exit\n"
    "\n"
    "Example: laterd --data-dir ./data        then: later push orders --delay 30m '{\"id\":7}'\n"
    "Signals: SIGTERM and SIGINT end politely; a second one ends at once.\n"
    "More: laterd(8), later(1), http://127.0.0.1:9277/v1/openapi.json\n";

static void complain(const char *what)
{
    (void)fprintf(stderr, "laterd: %s\n", what);
}

/* ---- the command line ---- */

/* What the command line says goes before what the configuration file says. */
static enum err override(struct config *config, const char *data_dir, const char *const *http,
                         unsigned http_count)
{
    struct config_trouble trouble;
    if (data_dir && strlen(data_dir) >= sizeof(config->data_dir)) {
        complain("the name of the data directory is too long");
        return ERR_INVALID;
    }
    if (data_dir)
        memcpy(config->data_dir, data_dir, strlen(data_dir) + 1);
    if (http_count)
        config->http_count = 0;
    enum err err = OK;
    for (unsigned i = 0; i < http_count && !err; i++)
        err = config_add_http(config, http[i], &trouble);
    if (!err)
        err = config_check(config, &trouble);
    if (err)
        complain(trouble.text);
    return err;
}

/* Exits for --help and the like. The configuration file is read first, whatever the order. */
static enum err read_arguments(struct program *program, int argc, char **argv)
{
    enum { DATA_DIR = 256, HTTP, NO_PERSIST, CHECK, PRINT, VERSION, HELP };
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"data-dir", required_argument, NULL, DATA_DIR},
        {"http", required_argument, NULL, HTTP},
        {"no-persist", no_argument, NULL, NO_PERSIST},
        {"check-config", no_argument, NULL, CHECK},
        {"print-config", no_argument, NULL, PRINT},
        {"version", no_argument, NULL, VERSION},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    struct config_trouble trouble;
    const char *data_dir = NULL;
    const char *http[CONFIG_HTTP_MAX];
    unsigned http_count = 0;
    int option;

    while ((option = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            if (config_read(&program->config, optarg, &trouble)) {
                complain(trouble.text);
                return ERR_INVALID;
            }
            break;
        case DATA_DIR: data_dir = optarg; break;
        case HTTP:
            if (http_count == CONFIG_HTTP_MAX) {
                complain("too many --http");
                return ERR_INVALID;
            }
            http[http_count++] = optarg;
            break;
        case NO_PERSIST: program->persist = false; break;
        case CHECK: program->check_only = true; break;
        case PRINT: {
            struct buf sample = {0};
            config_print(&sample);
            (void)fwrite(sample.at, 1, sample.len, stdout);
            exit(EXIT_SUCCESS);
        }
        case VERSION: (void)puts("laterd " LATERD_VERSION); exit(EXIT_SUCCESS);
        case HELP: (void)fputs(help, stdout); exit(EXIT_SUCCESS);
        default: (void)fputs("Try: laterd --help\n", stderr); return ERR_INVALID;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "laterd: what is \"%s\"? Try: laterd --help\n", argv[optind]);
        return ERR_INVALID;
    }
    return override(&program->config, data_dir, http, http_count);
}

static enum err check_addresses(const struct config *config)
{
    for (unsigned i = 0; i < config->http_count; i++) {
        if (!listen_check(config->http[i].address))
            continue;
        (void)fprintf(stderr,
                      "laterd: \"%s\" is no address to listen on: write 127.0.0.1:9277, "
                      "[::1]:9277 (ports are 0 to 65535) or unix:/path\n",
                      config->http[i].address);
        return ERR_INVALID;
    }
    return OK;
}

/* ---- the parts ---- */

static enum err open_listeners(struct program *program)
{
    const struct config *config = &program->config;
    unsigned passed = listen_passed();
    if (passed > NET_LISTENERS_MAX)
        passed = NET_LISTENERS_MAX;
    for (unsigned i = 0; i < passed; i++) { /* they take the dialects in order */
        unsigned like = i < config->http_count ? i : config->http_count - 1;
        program->listens[i].dialect = config->http[like].dialect;
        program->listeners[i] = LISTEN_PASSED_FIRST + (int)i;
    }
    program->listener_count = passed;
    for (unsigned i = 0; i < config->http_count && !passed; i++) {
        const struct config_http *http = &config->http[i];
        enum err err = listen_open(http->address, &program->listeners[i]);
        if (err) {
            (void)fprintf(stderr, "laterd: cannot listen on %s: %s\n", http->address,
                          strerror(errno));
            return err;
        }
        program->listens[i].dialect = http->dialect;
        program->listener_count++;
    }
    return OK;
}

static int64_t three_quarters_of_memory(void)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES);
    int64_t page_bytes = sysconf(_SC_PAGE_SIZE);
    return pages > 0 && page_bytes > 0 ? pages / 4 * 3 * page_bytes : INT64_MAX;
}

static void complain_store(const char *dir, enum err err, const struct store_trouble *trouble)
{
    struct buf text = {0};
    buf_addf(&text, "laterd: cannot open the store in %s: %s", dir, err_text(err));
    if (trouble->file[0])
        buf_addf(&text, "\nlaterd: %s, byte %llu", trouble->file,
                 (unsigned long long)trouble->offset);
    if (trouble->text[0])
        buf_addf(&text, ": %s", trouble->text);
    (void)fprintf(stderr, "%.*s\n", (int)text.len, text.at);
    buf_fini(&text);
}

static struct core_limits core_limits(const struct config *config)
{
    return (struct core_limits){
        .jobs = (uint64_t)config->jobs,
        .topics = (uint32_t)config->topics,
        .waiters = (uint32_t)config->waiters,
        .memory_bytes =
            (uint64_t)(config->memory_bytes ? config->memory_bytes : three_quarters_of_memory()),
    };
}

static enum err open_engine(struct program *program)
{
    const struct config *config = &program->config;
    struct store_trouble trouble = {.text = ""};
    struct embedded_options options = {
        .limits = core_limits(config),
        .store =
            {
                .segment_bytes = (uint64_t)config->segment_bytes,
                .max_bytes = (uint64_t)config->max_bytes,
                .recent_bytes = (uint64_t)config->recent_bytes,
                .buffered = config->durability != DURABILITY_SYNC,
                .interval_us = config->interval_us,
                .inline_us = INLINE_COMMIT_US,
                .body_max = (uint32_t)config->body_bytes,
                .now_us = program->clock.clock.now_us(&program->clock.clock),
            },
        .durability = config->durability,
        .now_us = program->clock.clock.now_us(&program->clock.clock),
    };
    if (getrandom(&options.hash_key, sizeof(options.hash_key), 0) < 0)
        options.hash_key = (uint64_t)options.now_us; /* never blocks this long after boot */
    if (program->persist) {
        if (os_disk_new(config->data_dir, &program->disk)) {
            (void)fprintf(stderr, "laterd: cannot use %s as the data directory: %s\n",
                          config->data_dir, strerror(errno));
            return ERR_IO;
        }
        options.store.disk = os_disk_port(program->disk);
    }
    enum err err = embedded_open(&options, &program->embedded, &trouble);
    if (err)
        complain_store(config->data_dir, err, &trouble);
    else if (trouble.text[0])
        log_event(LOG_WARN, "store_notice", "file=%s offset=%llu text=\"%s\"", trouble.file,
                  (unsigned long long)trouble.offset, trouble.text);
    return err;
}

static void log_opened(const struct program *program)
{
    struct core_totals totals;
    struct store_stats stats = {0};
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

/* How far local time is east of UTC now: the delayqueue-java dialect's dates name no zone. */
static int64_t local_zone_us(void)
{
    struct tm local;
    time_t now = time(NULL);
    return localtime_r(&now, &local) ? (int64_t)local.tm_gmtoff * 1000000 : 0;
}

static void make_server(struct program *program)
{
    const struct config *config = &program->config;
    struct server_options options = {
        .clock = &program->clock.clock,
        .net = os_net_port(program->net),
        .embedded = program->embedded,
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
                .zone_us = local_zone_us(),
            },
        .http =
            {
                .line_bytes = (uint32_t)config->line_bytes,
                .headers = (uint32_t)config->headers,
                .header_bytes = (uint32_t)config->header_bytes,
                .body_bytes = (uint64_t)config->request_bytes,
            },
        .limits = core_limits(config),
        .connections_max = (uint32_t)config->connections,
        .idle_us = config->idle_us,
        .request_us = config->request_us,
        .metrics_topics = (uint32_t)config->metrics_topics,
    };
    memcpy(options.listeners, program->listens, sizeof(program->listens));
    program->server = server_new(&options);
    for (unsigned i = 0; i < program->listener_count; i++) {
        char name[LISTEN_ADDR_MAX];
        os_net_listen(program->net, program->listeners[i], i);
        listen_name(program->listeners[i], name, sizeof(name));
        log_event(LOG_INFO, "listening", "addr=%s dialect=%s", name,
                  api_dialect_name(program->listens[i].dialect));
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

static enum err start(struct program *program)
{
    raise_descriptors();
    int signal_fd = signals_catch();
    enum err err = open_listeners(program); /* a taken port is told before a long recovery */
    if (!err)
        err = open_engine(program);
    if (err)
        return err;
    log_opened(program);
    program->net = os_net_new(&program->clock.clock);
    if (!program->net || signal_fd < 0) {
        complain(strerror(errno));
        return ERR_IO;
    }
    /* The kernel may round our wake-ups by 50 µs to save power; due times are worth more. */
    (void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    os_net_watch(program->net, signal_fd);
    if (program->disk)
        os_net_watch(program->net, os_disk_eventfd(program->disk));
    make_server(program);
    notify_manager("READY=1\nSTATUS=serving");
    return OK;
}

/* ---- running and ending ---- */

/* Turns until a stop signal; then politely on until all are answered, but not for ever. */
static bool run(struct program *program)
{
    struct server *server = program->server;
    int64_t give_up_us = INT64_MAX;
    while (!server_drained(server) && server->now_us < give_up_us) {
        int64_t next_us = server_turn(server);
        if (signals_count() && give_up_us == INT64_MAX) {
            log_event(LOG_INFO, "draining", "connections=%u limit_s=%lld", server_sessions(server),
                      (long long)(program->config.drain_us / 1000000));
            notify_manager("STOPPING=1\nSTATUS=draining");
            give_up_us = server->now_us + program->config.drain_us;
            server_drain(server);
            continue; /* the parked polls have their answers; a turn sends them */
        }
        if (signals_count() > 1)
            return false;
        server_sleep(server, next_us < give_up_us ? next_us : give_up_us);
    }
    return true;
}

static void finish(struct program *program)
{
    server_free(program->server);
    embedded_close(program->embedded);
    os_net_free(program->net);
    os_disk_free(program->disk);
}

int main(int argc, char **argv)
{
    static struct program program = {.persist = true};
    config_init(&program.config);
    if (read_arguments(&program, argc, argv))
        return EXIT_USAGE;
    if (check_addresses(&program.config))
        return EXIT_USAGE;
    if (program.check_only) {
        (void)puts("laterd: the configuration is good");
        return EXIT_SUCCESS;
    }
    log_level_set(program.config.log_level);
    os_clock_init(&program.clock);
    log_event(LOG_INFO, "starting", "version=%s pid=%d", LATERD_VERSION, (int)getpid());
    if (start(&program)) {
        finish(&program);
        return EXIT_FAILURE;
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
