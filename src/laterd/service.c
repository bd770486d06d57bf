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
    OPENING_US = 200 * 1000,     /* an opening that takes longer is told of, … */
    OPENING_TURN_US = 10 * 1000, /* … in turns of the server, as often as that … */
    OPENING_TURNS = 3, /* … of which a request takes that many: accepted, heard, answered … */
    LEAVING_US = 10 * 1000,              /* sinks that are ending are looked at so often */
    LEAVING_LONG_US = 5 * 1000 * 1000,   /* such that take longer are told of … */
    LEAVING_AGAIN_US = 60 * 1000 * 1000, /* … and again */
    ENDING_US = 5 * 1000 * 1000,   /* the end of laterd waits so long for sinks' threads … */
    ENDING_AGAIN_US = 1000,        /* … and looks at them so often */
    OPENING_TELL_US = 1000 * 1000, /* … and to the service manager */
    FAILED_REST_US = 10 * 1000 * 1000,
};

static struct member *member_of(const struct service *service)
{
    return service->line->election.member;
}

/* ---- what is served with ---- */

/* Costs nothing until a job is sent. */
static int make_webhook(struct service *service)
{
    struct webhook_options options = assemble_webhook(&service->line->config, service->platform);
    service->platform->webhook = webhook_new(&options);
    if (service->platform->webhook)
        return 0;
    complain("%s", strerror(errno));
    return EXIT_FAILURE;
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

/* It refuses all. */
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

/* What was read is read again by the next start; a kill -9 is no worse. */
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
    if (service->told_us && now_us - service->told_us < OPENING_TELL_US)
        return;
    service->told_us = now_us;
    (void)snprintf(state, sizeof(state), "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=%s",
                   service->recovering.text);
    notify_manager(state);
}

/* From now on HTTP is answered. */
static void serve_opening(struct service *service)
{
    char http[LISTEN_ADDR_MAX] = "";
    listeners_http(service->listeners, http);
    log_event(LOG_INFO, "recovering_long", "http=%s hint=\"%s\"", http[0] ? http : "none",
              "/readyz tells how far it is; all else is refused until it serves");
    make_waiting_server(service);
    listeners_watch(service->listeners, service->loop, true);
}

/* In an election: may the opening still end in serving? */
static bool term_goes_on(const struct service *service)
{
    const struct member *member = service->engine.member;
    return !member || member->verbs->holds(member, service->epoch);
}

/* embedded_options::opening: called by what runs in this thread, and so between turns. */
static enum err opening_goes_on(void *owner, const struct store_opening *opening)
{
    struct service *service = owner;
    int64_t now_us = os_boot_us();
    recovering_note(&service->recovering, opening, now_us);
    if (signals_count())
        stop_opening(service);
    if (!term_goes_on(service))
        return ERR_NOT_LEADER;
    if (now_us - service->recovering.begun_us < OPENING_US ||
        now_us - service->turned_us < OPENING_TURN_US)
        return OK;
    service->turned_us = now_us;
    if (!service->server)
        serve_opening(service);
    waiting_recovers(&service->waiting, service->recovering.text);
    notify_systemd(service, now_us);
    for (int i = 0; i < OPENING_TURNS; i++) {
        /* not at all, but for what has come */
        server_sleep(service->server, loop_look_at_clock(service->platform->loop));
        (void)server_turn(service->server);
    }
    return OK;
}

/* ---- all of it ---- */

/* What the engine is told before it is opened, or stands by. */
static void prepare_engine(struct service *service)
{
    struct command_line *line = service->line;
    service->engine.progress = opening_goes_on;
    service->engine.progress_owner = service;
    service->engine.journal =
        laterd_journal_maker(&line->journal, &line->config, service->platform->loop);
}

static int open_all(struct service *service)
{
    struct command_line *line = service->line;
    prepare_engine(service);
    service->recovering = (struct recovering){0};
    service->turned_us = service->told_us = 0;
    int status = engine_open(line, service->platform, &service->engine);
    if (!status)
        status = brokers_open(&line->brokers, &line->config, service->platform->loop);
    if (!status)
        status = make_webhook(service);
    laterd_journal_led(&line->journal, service->engine.member, service->epoch);
    if (!status)
        status = laterd_journal_open(&line->journal, &line->config, service->engine.embedded,
                                     service->platform->loop);
    if (status)
        return status;
    engine_log(&service->engine, line);
    engine_watch(&service->engine, service->loop);
    return 0;
}

/* Tells the threads of all sinks to end. */
static void stop_sinks(struct service *service)
{
    brokers_stop(&service->line->brokers);
    service->left_webhook = service->platform->webhook;
    service->platform->webhook = NULL;
    if (service->left_webhook)
        service->left_webhook->verbs->stop(service->left_webhook, 0);
    service->leaving = true;
    service->left_us = os_boot_us();
    service->leaving_told_us = 0;
}

/* All but the server. What is under way is given back before, to the server. Waits for their
   threads: each has been told to end before the first is waited for. */
static void close_sinks(struct service *service)
{
    if (!service->leaving)
        stop_sinks(service);
    brokers_close_intakes(&service->line->brokers);
    if (service->left_webhook)
        service->left_webhook->verbs->close(service->left_webhook, 0);
    service->left_webhook = NULL;
    brokers_close(&service->line->brokers, 0);
    service->leaving = false;
}

/* After which another process may open the store. */
static void close_engine(struct service *service)
{
    engine_close(&service->engine);
    service->platform->disk = NULL;
}

static void close_journal(struct service *service)
{
    laterd_journal_close(&service->line->journal);
}

/* After close_engine(). Its thread may wait for MySQL: it ends in later turns, see has_left(). */
static void leave_journal(struct service *service)
{
    service->journal_us = os_boot_us();
}

static bool journal_has_left(struct service *service)
{
    if (service->journal_us &&
        laterd_journal_leave(&service->line->journal, os_boot_us() - service->journal_us))
        service->journal_us = 0;
    return !service->journal_us;
}

static int begin_serving(struct service *service)
{
    int status = open_all(service);
    if (status)
        return status;
    server_free(service->server); /* of a long opening */
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
    if (!service->said_locked)
        log_event(
            LOG_WARN, "store_locked", "dir=%s hint=\"%s\"", service->line->config.data_dir,
            "another laterd has it open still, perhaps one that is stopped or hangs: this one "
            "leads and waits for it; end that process, or fence its machine");
    service->said_locked = true;
}

/* Our term of this epoch is over: the reason is told when the member's view has it. */
static void log_term_ended(struct service *service)
{
    log_event(
        LOG_WARN, "opening_given_up", "epoch=%llu while=\"%s\" hint=\"%s\"",
        (unsigned long long)service->epoch,
        service->recovering.text[0] ? service->recovering.text : "opening",
        "the term ended before all was opened: leads_no_longer says why. Nothing is wrong with "
        "what was being opened, and whoever leads next opens it");
    member_log_lost(&service->member_log, service->epoch);
    service->member_news = true;
}

/* It could not be opened: why decides what comes next. Sinks that were opened have nothing of the
   engine, and end in later turns: their threads may wait for a broker. */
static void wait_on(struct service *service, struct member *member)
{
    bool ended = !member->verbs->holds(member, service->epoch);
    enum engine_opening opening = ended ? OPENING_TERM_ENDED : service->engine.opening;
    waiting_recovers(&service->waiting, NULL);
    uint64_t led_epoch = service->engine.led_epoch;
    int64_t now_us = service->platform->loop->now_us;
    stop_sinks(service);
    close_engine(service);
    leave_journal(service);
    if (opening == OPENING_TERM_ENDED)
        log_term_ended(service);
    service->epoch = 0;
    if (opening == OPENING_LOCKED) {
        log_locked(service);
        service->open_at_us = now_us + LOCKED_AGAIN_US;
    } else if (opening == OPENING_LOWER_EPOCH) {
        log_event(LOG_INFO, "epoch_raised", "store_epoch=%llu", (unsigned long long)led_epoch);
        member->verbs->raise(member, led_epoch);
        service->open_at_us = now_us + RAISED_AGAIN_US;
    } else if (opening == OPENING_FAILED) {
        log_event(LOG_ERROR, "cannot_lead", "rest_s=%d hint=\"%s\"", FAILED_REST_US / 1000000,
                  "the reason is in the line before; another laterd may try meanwhile");
        member->verbs->resign(member, FAILED_REST_US);
    }
}

/* The server that waits goes on until the engine is open: opening one on Redis takes turns. */
static void lead(struct service *service, struct member *member, uint64_t epoch)
{
    struct server *waiting = service->server;
    int64_t begun_us = os_boot_us();
    service->epoch = service->platform->epoch = epoch;
    service->engine.member = member;
    if (open_all(service)) {
        wait_on(service, member);
        return;
    }
    server_free(waiting);
    make_server(service);
    if (brokers_open_intakes(&service->line->brokers, &service->line->config, service->server))
        log_event(LOG_ERROR, "intake_failed", "hint=\"the reason is in the line before\"");
    service->said_locked = false;
    log_event(LOG_INFO, "leads", "epoch=%llu opened_ms=%lld", (unsigned long long)epoch,
              (long long)(os_boot_us() - begun_us) / 1000);
    notify_manager("STATUS=serving");
}

static void look_at_log(struct service *service, struct member *member)
{
    struct member_view view;
    member->verbs->look(member, &view);
    service->member_news = false;
    service->log_at_us =
        member_log_look(&service->member_log, &view, service->platform->loop->now_us);
}

/*
 * LEAVING. Nothing of what was not sent yet is sent: it is dropped with its connections. Sinks may
 * be in a call that waits for a broker, with deliveries of the server that led: it stays until they
 * have ended, and the engine for its tickets; another server answers meanwhile that it waits.
 */
static void stop_leading(struct service *service, struct member *member)
{
    member_log_lost(&service->member_log, service->epoch);
    look_at_log(service, member);
    stop_sinks(service);
    service->left = service->server;
    server_leave(service->left);
    wait_for_turn(service);
}

/* After it others may open the store. */
static void finish_leaving(struct service *service)
{
    int64_t took_us = os_boot_us() - service->left_us;
    close_sinks(service);
    if (!service->left)
        return; /* it could not be opened: wait_on() has closed the rest */
    server_free(service->left);
    service->left = NULL;
    close_engine(service);
    leave_journal(service);
    log_event(LOG_INFO, "leader_closed", "closed_ms=%lld", (long long)took_us / 1000);
}

/* False: *out_name says one that has not ended. */
static bool has_left(struct service *service, struct bytes *out_name)
{
    struct sink *webhook = service->left_webhook;
    bool brokers = brokers_stopped(&service->line->brokers, out_name); /* asked in any case */
    if (!webhook || webhook->verbs->stopped(webhook))
        return brokers;
    *out_name = BYTES("webhooks");
    return false;
}

/* It cannot serve before those have ended: so others are to, if it is elected meanwhile. */
static void stay_out(struct service *service, struct member *member, struct bytes name)
{
    struct member_view view;
    int64_t now_us = os_boot_us(), took_us = now_us - service->left_us;
    if (took_us < LEAVING_LONG_US)
        return;
    if (!service->leaving_told_us || now_us - service->leaving_told_us >= LEAVING_AGAIN_US) {
        service->leaving_told_us = now_us;
        log_event(
            LOG_WARN, "leaving_long", "waits_for=\"%.*s\" ms=%lld hint=\"%s\"", (int)name.len,
            name.at, (long long)took_us / 1000,
            service->journal_us
                ? "its thread has not ended since the engine was closed: it waits "
                  "for MySQL or a name server. Until it has, this laterd answers that "
                  "it waits and gives the lead back; restart it if that lasts"
            : service->left
                ? "its thread has not ended since the lead was lost: it waits for a broker or "
                  "a name server. Until it has, this laterd keeps its store open, answers "
                  "that it waits and gives the lead back; restart it if that lasts"
                : "its thread has not ended since not all could be opened: it waits for a "
                  "broker or a name server. Until it has, this laterd answers that it waits "
                  "and gives the lead back; restart it if that lasts");
    }
    member->verbs->look(member, &view);
    if (view.role == MEMBER_LEADING)
        member->verbs->resign(member, FAILED_REST_US);
}

/* As service_look(). */
static int64_t look_at_role(struct service *service, struct member *member)
{
    struct member_view view;
    struct bytes name;
    if (service->epoch) {
        if (!member->verbs->holds(member, service->epoch))
            stop_leading(service, member);
        return service->leaving ? service->platform->loop->now_us : INT64_MAX;
    }
    if (service->leaving && !has_left(service, &name)) {
        stay_out(service, member, name);
        return service->platform->loop->now_us + LEAVING_US;
    }
    if (service->leaving)
        finish_leaving(service);
    if (!journal_has_left(service)) {
        stay_out(service, member, BYTES("journal"));
        return service->platform->loop->now_us + LEAVING_US;
    }
    if (service->open_at_us > service->platform->loop->now_us)
        return service->open_at_us;
    member->verbs->look(member, &view);
    /* It may be a term that has ended, which its thread does not know yet. */
    if (view.role != MEMBER_LEADING || !member->verbs->holds(member, view.epoch)) {
        prepare_engine(service);
        return engine_stand_by(service->line, service->platform, &service->engine);
    }
    lead(service, member, view.epoch);
    return service->platform->loop->now_us; /* a turn of the new server; or see when it is next */
}

int64_t service_look(struct service *service)
{
    struct member *member = member_of(service);
    if (!member)
        return INT64_MAX;
    if (service->member_news || service->platform->loop->now_us >= service->log_at_us)
        look_at_log(service, member);
    int64_t next_us = look_at_role(service, member);
    return next_us < service->log_at_us ? next_us : service->log_at_us;
}

static void member_changed(struct member *member)
{
    struct service *service = member->user;
    service->member_news = true;
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

/* Asks all of them again and again: those that hang have to be interrupted. */
static bool sinks_end(struct service *service, struct bytes *out_name)
{
    int64_t until_us = os_boot_us() + ENDING_US;
    if (!service->leaving)
        stop_sinks(service);
    while (!has_left(service, out_name)) {
        if (os_boot_us() >= until_us)
            return false;
        (void)usleep(ENDING_AGAIN_US);
    }
    return true;
}

/*
 * A thread waits for a name server, say, and nothing breaks that. What it uses cannot be freed: the
 * store is closed, so that nothing is lost, and the process ends with the thread. Jobs that it has
 * not confirmed stay reserved, and are sent again when their time is up.
 */
_Noreturn static void end_beside(struct service *service, struct bytes name, int status)
{
    log_event(LOG_WARN, "ended_beside_thread", "waits_for=\"%.*s\" ms=%d hint=\"%s\"",
              (int)name.len, name.at, ENDING_US / 1000,
              "its thread has not ended: it waits for a broker or a name server. Nothing is lost; "
              "what it had not confirmed is sent again");
    engine_leave(&service->engine);
    laterd_journal_led(&service->line->journal, NULL, 0);
    election_close(&service->line->election);
    log_event(LOG_INFO, "stopped", "pid=%d", (int)getpid());
    _exit(status);
}

void service_end(struct service *service, int status)
{
    struct bytes name = BYTES("");
    if (!sinks_end(service, &name))
        end_beside(service, name, status);
    close_sinks(service);
    server_free(service->left);
    server_free(service->server);
    engine_leave(&service->engine);
    laterd_journal_led(&service->line->journal, NULL, 0);
    election_close(&service->line->election); /* now another one may … */
    close_engine(service);  /* … and waits neither until the jobs are freed nor for MySQL: */
    close_journal(service); /* what that lacks is in the log, or in Redis */
}
