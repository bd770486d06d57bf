/*
 * Gives back reservations whose client has gone, in slices: one client may have held a million
 * jobs.
 */
#ifndef LATERD_SERVER_REQUEUE_H
#define LATERD_SERVER_REQUEUE_H

#include "server/session.h"

/* A reservation whose answer is being sent to an HTTP client. */
struct unsent_job {
    uint64_t seq;
    uint64_t lease;
    uint64_t end; /* where its answer ends, as session_end() counts */
};

/*
 * An HTTP client has gone: gives back the reservations in answers that end behind `sent` (see
 * session_sent). Takes over the bytes of `deliveries` (struct unsent_job) and leaves it empty.
 */
void requeue_deliveries(struct server *server, struct buf *deliveries, uint64_t sent);

/*
 * A beanstalkd client has gone: gives back all that it had reserved. Takes over `held` (may be
 * NULL). `sent` and `end` say which answers it may not have received: for those the attempt does
 * not count (P6).
 */
void requeue_reserved(struct server *server, struct beanstalk_holder *held, uint64_t sent,
                      enum session_end end);

/* For turn.c: continues as far as the budget goes. True: there is more to do. */
bool requeue_step(struct server *server);
/* Gives back everything that is left, at shutdown. */
void requeue_all(struct server *server);

#endif
