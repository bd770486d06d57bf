#include "laterd/service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "laterd/complain.h"
#include "laterd/election.h"
#include "os/clock.h"
#include "os/notify.h"
#include "os/signals.h"
#include "sink/webhook/secrets.h"

enum {
    LOCKED_AGAIN_US = 50 * 1000, /* until another process lets go of the store */
    RAISED_AGAIN_US = 20 * 1000, /* until the service has a higher epoch for us */
    OPENING_US = 200 * 1000,     /* a longer opening is logged, and answered by a waiting server, */
    OPENING_TURN_US = 10 * 1000, /* which does turns this often, … */
    OPENING_TURNS = 3, /* … as many as one request takes: it is accepted, read and answered */
    OPENING_NOTIFY_US = 1000 * 1000,     /* between notifications of the service manager */
    LEAVING_US = 10 * 1000,              /* between looks at sinks that are ending */
    LEAVING_LONG_US = 5 * 1000 * 1000,   /* leaving_long is logged after this time, … */
    LEAVING_AGAIN_US = 60 * 1000 * 1000, /* … and again after this */
    ENDING_US = 5 * 1000 * 1000, /* service_end() waits for the sinks' threads this long, … */
    ENDING_AGAIN_US = 1000,      /* … and looks at them this often */
    ENDING_GATHERS = 256, /* of the loop, without waiting, for outcomes that a sink has given */
    FAILED_REST_US = 10 * 1000 * 1000, /* without taking part, after an opening failed */
};

static struct member *member_of(const struct service *service)
{
    return service->line->election.member;
}

/* ---- the parts ---- */

/* The webhook sink costs nothing until a job is sent. */
static int make_webhook(struct service *service)
{
    struct webhook_options options = assemble_webhook(&service->line->config, service->platform);
    service->platform->webhook = webhook_new(&options);
    return service->platform->webhook ? 0 : complain_system("make the sender of webhooks");
}

static struct server_options server_options(const struct service *service)
{
    const struct command_line *line = service->line;
    struct server_options options = assemble_server(&line->config, service->platform);
    options.probe = secrets_probe;
    options.member = line->election.member;
    options.advertise = line->election.advertise;
    options.led_epoch = service->epoch;
    memcpy(options.listeners, service->listeners->what, sizeof(options.listeners));
    return options;
}

static void make_server(struct service *service)
{
    struct server_options options = server_options(service);
    engine_offer(&service->engine, &options);
    options.restore = service->engine.redis ? engine_redis_restore(service->engine.redis)
                                            : laterd_journal_restore(&service->line->journal);
    options.journal = service->engine.redis ? engine_redis_journal_control(service->engine.redis)
                                            : embedded_journal_control(service->engine.embedded);
    service->server = server_new(&options);
}

/* ---- while a store is opened ---- */

/* A server whose engine refuses all commands. */
static void make_waiting_server(struct service *service)
{
    const struct sink_table *brokers = service->platform->brokers;
    service->epoch = 0;
    service->platform->brokers = NULL;
    struct server_options options = server_options(service);
    service->platform->brokers = brokers;
    waiting_init(&service->waiting, member_of(service), service->line->election.advertise);
    options.engine = &service->waiting.engine;
    options.waits = true;
    service->server = server_new(&options);
}

/* Ends the process in the middle of the recovery, as kill -9 could: the next start reads it
   again. */
_Noreturn static void stop_opening(struct service *service)
{
    log_event(LOG_INFO, "stopped", "pid=%d while=\"%s\"", (int)getpid(), service->recovering.text);
    notify_manager("STOPPING=1\nSTATUS=stopped while recovering");
    election_close(&service->line->election);
    exit(EXIT_SUCCESS);
}

static void notify_systemd(struct service *service, int64_t now_us)
{
    char state[RECOVERING_ROOM + 64];
    if (service->notified_us && now_us - service->notified_us < OPENING_NOTIFY_US)
        return;
    service->notified_us = now_us;
    (void)snprintf(state, sizeof(state), "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=%s",
                   service->recovering.text);
    notify_manager(state);
}

/* Begins to answer HTTP during the opening. */
static void serve_while_opening(struct service *service)
{
    char http[LISTEN_ADDR_MAX] = "";
    listeners_http(service->listeners, http);
    log_event(LOG_INFO, "recovering_long", "http=%s hint=\"%s\"", http[0] ? http : "none",
              "/readyz tells how far it is; all else is refused until it serves");
    make_waiting_server(service);
    listeners_watch(service->listeners, service->loop, true);
}

/* False: in an election, our term has ended. */
static bool term_holds(const struct service *service)
{
    const struct member *member = service->engine.member;
    return !member || member->verbs->holds(member, service->epoch);
}

/* embedded_options::opening: called on this thread, between turns. */
static enum err on_opening_progress(void *owner, const struct store_opening *opening)
{
    struct service *service = owner;
    int64_t now_us = os_boot_us();
    recovering_note(&service->recovering, opening, now_us);
    if (signals_count())
        stop_opening(service);
    if (!term_holds(service))
        return ERR_NOT_LEADER;
    if (now_us - service->recovering.begun_us < OPENING_US ||
        now_us - service->last_turn_us < OPENING_TURN_US)
        return OK;
    service->last_turn_us = now_us;
    if (!service->server)
        serve_while_opening(service);
    waiting_recovers(&service->waiting, service->recovering.text);
    notify_systemd(service, now_us);
    for (int i = 0; i < OPENING_TURNS; i++) {
        /* a past time: only collects events, does not sleep */
        server_sleep(service->server, loop_update_time(service->platform->loop));
        (void)server_turn(service->server);
    }
    return OK;
}

/* ---- opening and closing ---- */

/* Sets what engine_open() and engine_stand_by() need. */
static void prepare_engine(struct service *service)
{
    struct command_line *line = service->line;
    service->engine.progress = on_opening_progress;
    service->engine.progress_owner = service;
    service->engine.login = &line->login;
    service->engine.journal =
        laterd_journal_maker(&line->journal, &line->config, service->platform->loop);
}

static int open_parts(struct service *service)
{
    struct command_line *line = service->line;
    prepare_engine(service);
    service->recovering = (struct recovering){0};
    service->last_turn_us = service->notified_us = 0;
    int status = engine_open(line, service->platform, &service->engine);
    if (!status)
        status = brokers_open(&line->brokers, &line->config, service->platform->loop);
    if (!status)
        status = make_webhook(service);
    laterd_journal_set_leader(&line->journal, service->engine.member, service->epoch);
    if (!status)
        status = laterd_journal_open(&line->journal, &line->config, service->engine.embedded,
                                     service->platform->loop);
    if (status)
        return status;
    engine_log(&service->engine, line);
    engine_watch(&service->engine, service->loop);
    return 0;
}

/* Makes the threads of all sinks end, without waiting for them. */
static void stop_sinks(struct service *service)
{
    brokers_stop(&service->line->brokers);
    service->former_webhook = service->platform->webhook;
    service->platform->webhook = NULL;
    if (service->former_webhook)
        service->former_webhook->verbs->stop(service->former_webhook, 0);
    service->leaving = true;
    service->leaving_since_us = os_boot_us();
    service->leaving_logged_us = 0;
}

/* Closes all sinks, before the server that gets back their deliveries is freed. Waits for their
   threads, all of which are stopped before the first one is waited for. */
static void close_sinks(struct service *service)
{
    if (!service->leaving)
        stop_sinks(service);
    brokers_close_intakes(&service->line->brokers);
    if (service->former_webhook)
        service->former_webhook->verbs->close(service->former_webhook, 0);
    service->former_webhook = NULL;
    brokers_close(&service->line->brokers, 0);
    service->leaving = false;
}

/* Afterwards another process may open the store. */
static void close_engine(struct service *service)
{
    engine_close(&service->engine);
    service->platform->disk = NULL;
}

static void close_journal(struct service *service)
{
    laterd_journal_close(&service->line->journal);
}

/* After close_engine(). The journal's thread may wait for MySQL: it ends in later turns, see
 * journal_has_ended(). */
static void close_journal_later(struct service *service)
{
    service->journal_us = os_boot_us();
}

static bool journal_has_ended(struct service *service)
{
    if (service->journal_us &&
        laterd_journal_leave(&service->line->journal, os_boot_us() - service->journal_us))
        service->journal_us = 0;
    return !service->journal_us;
}

static int begin_serving(struct service *service)
{
    int status = open_parts(service);
    if (status)
        return status;
    server_free(service->server); /* the waiting server of a long opening; or NULL */
    make_server(service);
    return brokers_open_intakes(&service->line->brokers, &service->line->config, service->server);
}

/* ---- an election ---- */

static void wait_for_turn(struct service *service)
{
    make_waiting_server(service);
    notify_manager("STATUS=waiting for its turn to lead");
}

static void log_locked(struct service *service)
{
    if (!service->locked_logged)
        log_event(
            LOG_WARN, "store_locked", "dir=%s hint=\"%s\"", service->line->config.data_dir,
            "another process still has the store open, perhaps a laterd that is stopped or hangs: "
            "this one leads and waits for it; end that process, or fence its machine");
    service->locked_logged = true;
}

/* Our term ended while the engine was being opened; leads_no_longer is logged when the member's
   view has the reason. */
static void log_term_ended(struct service *service)
{
    log_event(
        LOG_WARN, "opening_given_up", "epoch=%llu while=\"%s\" hint=\"%s\"",
        (unsigned long long)service->epoch,
        service->recovering.text[0] ? service->recovering.text : "opening",
        "the term ended before all was opened: see leads_no_longer for the reason. The store is "
        "not damaged; the next leader opens it");
    member_log_term_ended(&service->member_log, service->epoch);
    service->member_dirty = true;
}

/* Opening failed: closes what was opened, and decides by the reason when to try again. Sinks have
   no jobs of the engine yet, and end in later turns, because their threads may wait for a broker.
 */
static void handle_failed_opening(struct service *service, struct member *member)
{
    bool ended = !member->verbs->holds(member, service->epoch);
    enum engine_opening opening = ended ? OPENING_TERM_ENDED : service->engine.opening;
    waiting_recovers(&service->waiting, NULL);
    uint64_t store_epoch = service->engine.store_epoch;
    int64_t now_us = service->platform->loop->now_us;
    stop_sinks(service);
    close_engine(service);
    close_journal_later(service);
    if (opening == OPENING_TERM_ENDED)
        log_term_ended(service);
    service->epoch = 0;
    if (opening == OPENING_LOCKED) {
        log_locked(service);
        service->open_at_us = now_us + LOCKED_AGAIN_US;
    } else if (opening == OPENING_LOWER_EPOCH) {
        log_event(LOG_INFO, "epoch_raised", "store_epoch=%llu", (unsigned long long)store_epoch);
        member->verbs->raise(member, store_epoch);
        service->open_at_us = now_us + RAISED_AGAIN_US;
    } else if (opening == OPENING_FAILED) {
        log_event(LOG_ERROR, "cannot_lead", "rest_s=%d hint=\"%s\"", FAILED_REST_US / 1000000,
                  "the reason is in the line before; another laterd may try meanwhile");
        member->verbs->resign(member, FAILED_REST_US);
    }
}

/* We lead: opens everything. The waiting server stays until the engine is open, because opening one
   on Redis takes turns. */
static void lead(struct service *service, struct member *member, uint64_t epoch)
{
    struct server *waiting = service->server;
    int64_t begun_us = os_boot_us();
    service->epoch = service->platform->epoch = epoch;
    service->engine.member = member;
    if (open_parts(service)) {
        handle_failed_opening(service, member);
        return;
    }
    server_free(waiting);
    make_server(service);
    if (brokers_open_intakes(&service->line->brokers, &service->line->config, service->server))
        log_event(LOG_ERROR, "intake_failed", "hint=\"the reason is in the line before\"");
    service->locked_logged = false;
    log_event(LOG_INFO, "leads", "epoch=%llu opened_ms=%lld", (unsigned long long)epoch,
              (long long)(os_boot_us() - begun_us) / 1000);
    notify_manager("STATUS=serving");
}

static void update_member_log(struct service *service, struct member *member)
{
    struct member_view view;
    member->verbs->look(member, &view);
    service->member_dirty = false;
    service->log_at_us =
        member_log_update(&service->member_log, &view, service->platform->loop->now_us);
}

/*
 * We no longer lead: LEAVING begins. Replies that were not sent are dropped with their connections.
 * Threads of sinks may be in a call that waits for a broker, with deliveries of the former server:
 * that server stays until they have ended, and the engine too, for the server's tickets. Meanwhile
 * a waiting server answers.
 */
static void stop_leading(struct service *service, struct member *member)
{
    member_log_term_ended(&service->member_log, service->epoch);
    update_member_log(service, member);
    stop_sinks(service);
    service->former_server = service->server;
    server_abandon(service->former_server);
    wait_for_turn(service);
}

/* All sinks have ended: closes the rest, after which other processes may open the store. */
static void finish_leaving(struct service *service)
{
    int64_t took_us = os_boot_us() - service->leaving_since_us;
    close_sinks(service);
    service->leaving_logged_us = 0; /* the journal may be waited for next */
    if (!service->former_server)
        return; /* after a failed opening: handle_failed_opening() has closed the rest */
    server_free(service->former_server);
    service->former_server = NULL;
    close_engine(service);
    close_journal_later(service);
    log_event(LOG_INFO, "leader_closed", "closed_ms=%lld", (long long)took_us / 1000);
}

/* False: *out_name is the name of a sink that has not ended. */
static bool sinks_have_ended(struct service *service, struct bytes *out_name)
{
    struct sink *webhook = service->former_webhook;
    bool brokers = brokers_stopped(&service->line->brokers, out_name); /* always: it interrupts */
    if (!webhook || webhook->verbs->stopped(webhook))
        return brokers;
    *out_name = BYTES("webhooks");
    return false;
}

/* Sinks, or the journal, have not ended, so this laterd cannot serve: if it is elected now, it
   resigns, so that another one serves. Logs leaving_long. `since_us`: os_boot_us() when they were
   told to end. */
static void give_lead_back(struct service *service, struct member *member, struct bytes name,
                           int64_t since_us)
{
    struct member_view view;
    int64_t now_us = os_boot_us(), took_us = now_us - since_us;
    if (took_us < LEAVING_LONG_US)
        return;
    if (!service->leaving_logged_us || now_us - service->leaving_logged_us >= LEAVING_AGAIN_US) {
        service->leaving_logged_us = now_us;
        log_event(
            LOG_WARN, "leaving_long", "waits_for=\"%.*s\" ms=%lld hint=\"%s\"", (int)name.len,
            name.at, (long long)took_us / 1000,
            !service->leaving
                ? "its thread has not ended since the engine was closed: it waits for MySQL or a "
                  "name server. Until it ends, this laterd refuses commands and resigns if "
                  "elected; restart it if that lasts"
            : service->former_server
                ? "its thread has not ended since this laterd lost the lead: it waits for a "
                  "broker or a name server. Until it ends, this laterd keeps its store open, "
                  "refuses commands and resigns if elected; restart it if that lasts"
                : "its thread has not ended since an opening failed: it waits for a broker or a "
                  "name server. Until it ends, this laterd refuses commands and resigns if "
                  "elected; restart it if that lasts");
    }
    member->verbs->look(member, &view);
    if (view.role == MEMBER_LEADING)
        member->verbs->resign(member, FAILED_REST_US);
}

/* As service_update(). */
static int64_t update_role(struct service *service, struct member *member)
{
    struct member_view view;
    struct bytes name;
    if (service->epoch) {
        if (!member->verbs->holds(member, service->epoch))
            stop_leading(service, member);
        return service->leaving ? service->platform->loop->now_us : INT64_MAX;
    }
    if (service->leaving && !sinks_have_ended(service, &name)) {
        (void)journal_has_ended(service); /* after a failed opening; ends it if it can */
        give_lead_back(service, member, name, service->leaving_since_us);
        return service->platform->loop->now_us + LEAVING_US;
    }
    if (service->leaving)
        finish_leaving(service);
    if (!journal_has_ended(service)) {
        give_lead_back(service, member, BYTES("journal"), service->journal_us);
        return service->platform->loop->now_us + LEAVING_US;
    }
    if (service->open_at_us > service->platform->loop->now_us)
        return service->open_at_us;
    member->verbs->look(member, &view);
    /* The view may be old, if the member's thread did not run when the term ended. */
    if (view.role != MEMBER_LEADING || !member->verbs->holds(member, view.epoch)) {
        prepare_engine(service);
        return engine_stand_by(service->line, service->platform, &service->engine);
    }
    lead(service, member, view.epoch);
    return service->platform->loop->now_us; /* do a turn of the new server, or decide again */
}

int64_t service_update(struct service *service)
{
    struct member *member = member_of(service);
    if (!member)
        return INT64_MAX;
    if (service->member_dirty || service->platform->loop->now_us >= service->log_at_us)
        update_member_log(service, member);
    int64_t next_us = update_role(service, member);
    return next_us < service->log_at_us ? next_us : service->log_at_us;
}

static void member_changed(struct member *member)
{
    struct service *service = member->user;
    service->member_dirty = true;
}

/* ---- life ---- */

int service_begin(struct service *service)
{
    struct election *election = &service->line->election;
    if (!election->plugin)
        return begin_serving(service);
    char http[LISTEN_ADDR_MAX] = "";
    listeners_http(service->listeners, http);
    int status = election_open(election, &service->line->config, service->platform->loop,
                               service->platform->instance, http);
    if (status)
        return status;
    member_of(service)->user = service;
    member_of(service)->changed = member_changed;
    member_log_init(&service->member_log, election->plugin->scheme, election->advertise,
                    service->platform->loop->now_us);
    wait_for_turn(service);
    return 0;
}

/* Closes the sinks that need not be waited for. False: *out_name is the name of another. */
static bool close_stopped_sinks(struct service *service, struct bytes *out_name)
{
    struct sink *webhook = service->former_webhook;
    bool all = brokers_close_stopped(&service->line->brokers, out_name);
    if (webhook && !webhook->verbs->stopped(webhook)) {
        *out_name = BYTES("webhooks");
        return false;
    }
    if (webhook)
        webhook->verbs->close(webhook, 0);
    service->former_webhook = NULL;
    return all;
}

/* Calls all of them repeatedly, because those that hang must be interrupted. False: one still
   hangs. */
static bool end_sinks(struct service *service, struct bytes *out_name)
{
    int64_t until_us = os_boot_us() + ENDING_US;
    if (!service->leaving)
        stop_sinks(service);
    while (!close_stopped_sinks(service, out_name)) {
        if (os_boot_us() >= until_us)
            return false;
        (void)usleep(ENDING_AGAIN_US);
    }
    service->leaving = false;
    return true;
}

/* Gives the server's jobs back, except those whose outcome a sink that hangs has told the loop. */
static void give_up_server(struct service *service, struct server *server)
{
    if (!server)
        return;
    struct loop *loop = service->platform->loop;
    loop->verbs->stop_listening(loop);
    server_abandon(server);
    for (int i = 0; i < ENDING_GATHERS; i++) {
        loop_sleep(loop, loop_update_time(loop)); /* a past time: only collects events */
        (void)loop->verbs->gather(loop, NULL);
    }
    server_give_up(server);
}

/*
 * A sink's thread does not end: it waits, for example, for a name server, and such a wait cannot be
 * interrupted. The memory that it uses cannot be freed. So all jobs are given back, the store is
 * closed, and the process ends while the thread still waits.
 */
_Noreturn static void end_beside(struct service *service, struct bytes name, int status)
{
    log_event(LOG_WARN, "ended_beside_thread", "waits_for=\"%.*s\" ms=%d hint=\"%s\"",
              (int)name.len, name.at, ENDING_US / 1000,
              "its thread has not ended: it waits for a broker or a name server. Nothing is lost; "
              "what it had not confirmed is given back, and sent again");
    if (status == EXIT_SUCCESS) { /* else the start failed, and nothing was reserved */
        give_up_server(service, service->former_server);
        give_up_server(service, service->server);
    }
    engine_stop(&service->engine);
    laterd_journal_set_leader(&service->line->journal, NULL, 0);
    election_close(&service->line->election);
    if (status == EXIT_SUCCESS)
        log_event(LOG_INFO, "stopped", "pid=%d", (int)getpid());
    _exit(status);
}

void service_end(struct service *service, int status)
{
    struct bytes name = BYTES("");
    if (!end_sinks(service, &name))
        end_beside(service, name, status);
    server_free(service->former_server);
    server_free(service->server);
    engine_stop(&service->engine);
    laterd_journal_set_leader(&service->line->journal, NULL, 0);
    /* Resign before the slow steps: the next leader need not wait until jobs are freed, nor for
       MySQL. What the journal lacks is in the log, or in Redis. */
    election_close(&service->line->election);
    close_engine(service);
    close_journal(service);
}
