#include "laterd/member_log.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

enum {
    START_US = 1000 * 1000,      /* after the start: no member_away before this */
    AGAIN_US = 60 * 1000 * 1000, /* between member_away lines */
};

void member_log_init(struct member_log *log, const char *service, const char *own, int64_t now_us)
{
    *log = (struct member_log){.service = service, .own = own, .begun_us = now_us};
}

void member_log_term_ended(struct member_log *log, uint64_t epoch)
{
    log->lost = epoch;
}

/* ---- the service is unreachable ---- */

static void report_away(const struct member_log *log, const struct member_view *view,
                        int64_t now_us)
{
    const char *hint =
        view->role == MEMBER_LEADING
            ? "this laterd serves until two thirds of member.timeout have passed since the last "
              "answer: look at the service, and at the network between"
            : "without it nobody begins to lead: start it, look at the network between and at "
              "member.url; the runbook in docs/high-availability.md says what to do if it is lost";
    log_event(LOG_WARN, "member_away", "service=%s away_s=%lld why=\"%s\" hint=\"%s\"",
              log->service, (long long)(now_us - log->away_us) / 1000000,
              view->why[0] ? view->why : "it does not answer", hint);
}

static int64_t look_at_connection(struct member_log *log, const struct member_view *view,
                                  int64_t now_us)
{
    if (view->connected) {
        if (log->away_us)
            log_event(LOG_INFO, "member_back", "service=%s away_s=%lld", log->service,
                      (long long)(now_us - log->away_us) / 1000000);
        log->was_connected = true;
        log->away_us = 0;
        return INT64_MAX;
    }
    if (!log->was_connected && now_us < log->begun_us + START_US)
        return log->begun_us + START_US;
    if (!log->away_us) {
        log->away_us = log->was_connected ? now_us : log->begun_us;
        log->report_us = now_us;
    }
    if (log->report_us <= now_us) {
        report_away(log, view, now_us);
        log->report_us = now_us + AGAIN_US;
    }
    return log->report_us;
}

/* ---- a term has ended ---- */

static const struct loss_text {
    const char *why, *hint;
} losses[] = {
    [LOSS_NONE] = {"this laterd has begun another term", "nothing is to be done"},
    [LOSS_UNANSWERED] =
        {"no answer came within two thirds of member.timeout",
         "look at the coordination service, its disk and the network between; if it is slow or "
         "away for as long now and then, raise member.timeout"},
    [LOSS_PAUSED] =
        {"this process did not run until the deadline had passed",
         "look for what paused it: SIGSTOP, a suspended or migrated machine, swapping, a limit of "
         "processor time; raise member.timeout if such pauses cannot be avoided"},
    [LOSS_EXPIRED] =
        {"the coordination service has ended the session",
         "raise member.timeout, or the service's own limit of it (maxSessionTimeout), and look at "
         "pauses of the service"},
    [LOSS_DELETED] =
        {"the node or row that says that this laterd leads was deleted by hand",
         "another laterd leads next, or this one again; to move the lead, stop the leader "
         "(SIGTERM) and delete nothing"},
    [LOSS_TAKEN] =
        {"the row that says that this laterd leads was written by another",
         "the service has lost what it had acknowledged (a failover, a restored backup), or the "
         "row was changed by hand; the laterd with the highest epoch is the one that leads"},
    [LOSS_RESIGNED] = {"this laterd has resigned", "the reason is in a line before"},
};

static void report_lost(struct member_log *log, const struct member_view *view)
{
    const struct loss_text *text = &losses[view->loss];
    bool away = view->loss == LOSS_UNANSWERED && !view->connected && view->why[0];
    log_event(LOG_WARN, "leads_no_longer", "epoch=%llu newest_epoch=%llu why=\"%s\" hint=\"%s\"",
              (unsigned long long)log->lost, (unsigned long long)view->epoch,
              away ? view->why : text->why, text->hint);
    log->lost = 0;
}

/* ---- another leads ---- */

static void look_at_leader(struct member_log *log, const struct member_view *view)
{
    if (view->role == MEMBER_LEADING)
        log->leader_epoch = 0;
    if (view->role == MEMBER_LEADING || !view->leader[0] ||
        (log->leader_epoch == view->epoch && strcmp(log->leader, view->leader) == 0))
        return;
    log->leader_epoch = view->epoch;
    (void)snprintf(log->leader, sizeof(log->leader), "%s", view->leader);
    if (strcmp(view->leader, log->own) == 0)
        log_event(
            LOG_INFO, "waits", "leader=%s epoch=%llu why=\"%s\" hint=\"%s\"", view->leader,
            (unsigned long long)view->epoch,
            "this is our own URL: an earlier life of this laterd led, and ended without "
            "giving the lead back (kill -9, a crash, a power cut)",
            "nothing is to be done: its session ends member.timeout after its last sign of "
            "life, then this one or another begins to lead. If epoch goes on growing, another "
            "laterd has the same member.advertise: give each its own");
    else
        log_event(LOG_INFO, "waits", "leader=%s epoch=%llu", view->leader,
                  (unsigned long long)view->epoch);
}

int64_t member_log_update(struct member_log *log, const struct member_view *view, int64_t now_us)
{
    /* A view that still says LEADING with that epoch is old: the next one has the reason. */
    if (log->lost && (view->role != MEMBER_LEADING || view->epoch != log->lost))
        report_lost(log, view);
    look_at_leader(log, view);
    return look_at_connection(log, view, now_us);
}
