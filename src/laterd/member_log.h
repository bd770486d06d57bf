/*
 * What the log says of an election: that the coordination service is away, who leads instead of us,
 * and why a term of ours has ended. Each line says what to do.
 */
#ifndef LATERD_LATERD_MEMBER_LOG_H
#define LATERD_LATERD_MEMBER_LOG_H

#include "port/member.h"

struct member_log {
    const char *service; /* "zookeeper", "mysql" or "redis"; borrowed */
    const char *own;     /* our URL, or ""; borrowed */
    int64_t begun_us;
    bool was_connected;    /* since then, at least once */
    int64_t away_us;       /* since when it has been away; 0: it is not, or that is not said */
    int64_t report_us;     /* AWAY: that it still is */
    uint64_t lost;         /* a term whose end is to be told; 0: none */
    uint64_t leader_epoch; /* who leads was said with this epoch; 0: not said */
    char leader[MEMBER_URL_MAX]; /* and this URL */
};

/* Times are the loop's. `own`: where clients reach us, as the service is told, or "". */
void member_log_init(struct member_log *log, const char *service, const char *own, int64_t now_us);

/* Our term of this epoch is over. Told by member_log_look() when the member's view says why. */
void member_log_lost(struct member_log *log, uint64_t epoch);

/* Says what is new in `view`. To be called when that may have changed, and at the time that it
   returns; INT64_MAX: none. */
int64_t member_log_look(struct member_log *log, const struct member_view *view, int64_t now_us);

#endif
