/*
 * The log lines of an election: that the coordination service is unreachable, who leads instead of
 * us, and why a term of ours has ended. Each line has a hint what to do.
 */
#ifndef LATERD_LATERD_MEMBER_LOG_H
#define LATERD_LATERD_MEMBER_LOG_H

#include "port/member.h"

struct member_log {
    const char *service; /* "zookeeper", "mysql" or "redis"; borrowed */
    const char *own;     /* our URL, or ""; borrowed */
    int64_t begun_us;
    bool was_connected;    /* at least once since begun_us */
    int64_t away_us;       /* since when the service is unreachable; 0: it is not, or not logged */
    int64_t report_us;     /* away_us is set: when to log member_away again */
    uint64_t lost;         /* the epoch of a term whose end is to be logged; 0: none */
    uint64_t leader_epoch; /* the epoch in the last `waits` line; 0: none */
    char leader[MEMBER_URL_MAX]; /* the leader's URL in that line */
};

/* Times are the loop's. `own`: the URL that we advertise, or "". */
void member_log_init(struct member_log *log, const char *service, const char *own, int64_t now_us);

/* Our term of this epoch has ended. member_log_update() logs it when the view says why. */
void member_log_term_ended(struct member_log *log, uint64_t epoch);

/* Logs what is new in `view`. To be called when the view may have changed, and at the time that it
   returns; INT64_MAX: none. */
int64_t member_log_update(struct member_log *log, const struct member_view *view, int64_t now_us);

#endif
