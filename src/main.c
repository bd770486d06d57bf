/*
 * laterd: reads the command line, assembles the parts (src/laterd opens what belongs to the
 * operating system, server/assemble makes the options of each part from the configuration), runs
 * turns until it gets a stop signal, and shuts down.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time_us.h"
#include "laterd/command_line.h"
#include "laterd/complain.h"
#include "laterd/listeners.h"
#include "laterd/process.h"
#include "laterd/reload.h"
#include "laterd/service.h"
#include "os/clock.h"
#include "os/heap_return.h"
#include "os/loop.h"
#include "os/notify.h"
#include "os/signals.h"
#include "os/standard_streams.h"
#include "os/worker.h"
#include "os/zone.h"

struct program {
    struct command_line line;
    struct platform platform;
    struct os_clock clock;
    struct os_worker *worker;
    struct os_loop *loop;
    struct listeners listeners;
    struct service service;
    struct heap_return heap_return;
    int signal_fd;
    unsigned reloads;   /* SIGHUPs that were handled */
    int64_t give_up_us; /* the end of the drain, even if not all clients are answered */
};

/* ---- starting ---- */

static void prepare(struct program *program)
{
    process_raise_limits();
    os_clock_init(&program->clock);
    program->platform.clock = &program->clock.clock;
    program->platform.east_us = zone_east_us;
    program->platform.store_files_max =
        assemble_store_files(&program->line.config, process_descriptors());
    process_find_memory(&program->line.config, &program->platform);
    process_find_host(&program->platform);
    process_randomize(&program->platform);
}

/* As start(). */
static int make_loop(struct program *program)
{
    unsigned descriptors = engine_descriptors(&program->line, &program->platform);
    program->loop = os_loop_new(program->platform.clock, descriptors);
    if (!program->loop)
        return complain_system("make the event loop");
    program->worker = os_worker_new();
    if (!program->worker)
        return complain_system("make the worker");
    program->platform.loop = os_loop_port(program->loop);
    program->platform.worker = os_worker_port(program->worker);
    os_loop_wake_by(program->loop, program->signal_fd);
    os_loop_wake_by(program->loop, os_worker_eventfd(program->worker));
    return 0;
}

static void log_start(const struct command_line *line)
{
    log_event(LOG_INFO, "starting", "version=%s pid=%d", LATERD_VERSION, (int)getpid());
    if (line->file_data_dir[0])
        log_event(LOG_WARN, "data_dir_overridden", "dir=%s by=--data-dir store.data_dir=%s",
                  line->config.data_dir, line->file_data_dir);
    if (line->config.engine == ENGINE_REDIS && line->sets_data_dir)
        log_event(LOG_WARN, "data_dir_unused", "dir=%s hint=\"%s\"", line->config.data_dir,
                  "with engine = redis all is kept in Redis: remove store.data_dir, or --data-dir");
    else if (!line->persist && line->sets_data_dir)
        log_event(LOG_WARN, "data_dir_unused", "dir=%s hint=\"%s\"", line->config.data_dir,
                  "with --no-persist all jobs are gone when laterd ends: remove that, or "
                  "store.data_dir and --data-dir");
}

/*
 * Opens the listeners first, before anything is logged: a port that is in use is the most frequent
 * error, and should be the only message. A recovery, which may take long, comes later.
 */
static int listen_as_user(struct program *program)
{
    int status = engine_refuse_binlog(&program->line);
    if (!status)
        status = listeners_open(&program->line, &program->listeners);
    return status ? status : process_become_user(&program->line);
}

/* Returns 0, or the exit status; finish() must be called in either case. */
static int start(struct program *program)
{
    program->service = (struct service){
        .line = &program->line, .platform = &program->platform, .listeners = &program->listeners};
    program->signal_fd = signals_catch();
    int status =
        program->signal_fd < 0 ? complain_system("catch signals") : listen_as_user(program);
    if (status)
        return status;
    log_start(&program->line);
    prepare(program);
    program->platform.brokers = &program->line.brokers.table;
    status = make_loop(program);
    program->service.loop = program->loop;
    if (!status)
        status = service_begin(&program->service);
    if (status)
        return status;
    listeners_watch(&program->listeners, program->loop, false);
    listeners_log(&program->listeners);
    notify_manager("READY=1\nSTATUS=serving");
    return 0;
}

/* ---- running and ending ---- */

static void drain(struct program *program)
{
    struct server *server = program->service.server;
    log_event(LOG_INFO, "draining", "connections=%u limit_s=%lld", server_sessions(server),
              (long long)(program->line.config.drain_us / 1000000));
    notify_manager("STOPPING=1\nSTATUS=draining");
    program->give_up_us = server->loop->now_us + program->line.config.drain_us;
    server_drain(server);
}

/* Handles each signal once; run() handles a second stop signal. */
static void handle_signals(struct program *program)
{
    if (signals_reloads() != program->reloads) {
        program->reloads = signals_reloads();
        reload(&program->line);
    }
    struct server *server = program->service.server;
    if (signals_refuse() && !server->refusing_pushes) {
        log_event(LOG_INFO, "refusing_pushes", "signal=SIGUSR1");
        notify_manager("STATUS=refusing pushes");
        server_refuse_pushes(server);
    }
    if (signals_count() && !server->draining)
        drain(program);
}

/*
 * Runs turns until a stop signal, and then until all clients are answered, or the drain's time is
 * over. In an election the server is replaced whenever we begin or stop to lead.
 */
static bool run(struct program *program)
{
    struct service *service = &program->service;
    program->give_up_us = INT64_MAX;
    while (!server_drained(service->server) &&
           program->platform.loop->now_us < program->give_up_us) {
        bool draining = service->server->draining;
        int64_t next_us = server_turn(service->server);
        handle_signals(program);
        if (service->server->draining && !draining)
            continue; /* turns tell the rest, and send the answers of parked polls */
        if (signals_count() > 1)
            return false;
        if (service->server->draining && !server_leads(service->server))
            return true;
        if (!draining)
            next_us = time_earlier(next_us, service_update(service));
        int64_t heap_us =
            heap_return_turn(&program->heap_return, program->platform.loop->now_us, mem_used());
        next_us = time_earlier(next_us, heap_us);
        server_sleep(service->server, time_earlier(next_us, program->give_up_us));
    }
    return true;
}

#define AT_ONCE "hint=\"a second stop signal; nothing that was answered is lost\""

/* Frees everything, or ends the process with `status` beside the thread of a sink that hangs (see
 * service_end()). May wait for a disk, the journal's MySQL or the election's service. Signals
 * are not handled meanwhile, except by signals_end_at_second(). */
static void finish(struct program *program, int status)
{
    signals_end_at_second(AT_ONCE, EXIT_FAILURE);
    service_end(&program->service, status);
    os_loop_free(program->loop);
    os_worker_free(program->worker);
}

int main(int argc, char **argv)
{
    static struct program program;
    const struct command_line *line = &program.line;
    int status;
    standard_streams_occupy();
    process_set_heap();
    if (!command_line_read(argc, argv, &program.line, &status))
        return status;
    log_level_set(line->config.log_level);
    status = start(&program);
    if (status) {
        finish(&program, status);
        return status;
    }
    if (!run(&program)) {
        log_event(LOG_WARN, "stopped_at_once", AT_ONCE);
        return EXIT_FAILURE;
    }
    finish(&program, EXIT_SUCCESS);
    log_event(LOG_INFO, "stopped", "pid=%d", (int)getpid());
    return EXIT_SUCCESS;
}
