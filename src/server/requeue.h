/*
 * Reservations whose client has gone are given back here, in slices: one client may have held a
 * million jobs.
 */
#ifndef LATERD_SERVER_REQUEUE_H
#define LATERD_SERVER_REQUEUE_H

#include "server/session.h"

/* A reservation on its way to an HTTP client. */
struct unsent_job {
    uint64_t seq;
    uint64_t lease;
    uint64_t end; /* where its answer ends, as session_end() counts */
};

/*
 * An HTTP client has gone: gives back what stands in answers that end behind `sent` (see
 * session_sent). Takes over the bytes of `deliveries` (struct unsent_job), which is empty
 * afterwards.
 */
void requeue_deliveries(struct server *server, struct buf *deliveries, uint64_t sent);

/*
 * A beanstalkd client has gone: gives back all that it held. Takes over `held` (may be NULL);
 * `sent` and `end` tell what it may not have received: for that the attempt does not count (P6).
 */
void requeue_reserved(struct server *server, struct beanstalk_holder *held, uint64_t sent,
                      enum session_end end);

/* For turn.c: goes on as far as the budget goes. True: there is more to do. */
bool requeue_step(struct server *server);
/* Gives back all that is left: the end. */
void requeue_all(struct server *server);

#endif
