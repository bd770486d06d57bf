#include "server/requeue.h"

#include "base/mem.h"

enum { REQUEUE_NS = 1500 }; /* work for one job */

/* The reservations of one client that has gone. */
struct requeue {
    struct list place;     // server::requeues
    struct buf deliveries; // struct unsent_job
    size_t next;           /* in `deliveries` */
    struct beanstalk_holder *held;
    uint64_t sent;
    int64_t ended_us;
    enum session_end end;
};

/* The job may have timed out meanwhile: then there is nothing to give back. */
static void release(struct server *server, uint64_t seq, uint64_t lease, enum release_why why)
{
    struct cmd cmd = {
        .kind = CMD_RELEASE,
        .job = {.ref.seq = seq, .lease = lease, .why = why},
    };
    budget_spend(&server->budget, REQUEUE_NS);
    (void)server_submit(server, &principal_server, &cmd, NULL);
}

static struct requeue *add(struct server *server)
{
    struct requeue *requeue = mem_zalloc(sizeof(*requeue));
    requeue->ended_us = server->loop->now_us;
    list_add_tail(&server->requeues, &requeue->place);
    server->turn_again = true; /* the requeue stage may be over; consumers may wait for the jobs */
    return requeue;
}

void requeue_deliveries(struct server *server, struct buf *deliveries, uint64_t sent)
{
    if (deliveries->len) {
        struct requeue *requeue = add(server);
        requeue->deliveries = *deliveries;
        requeue->sent = sent;
        *deliveries = (struct buf){0};
        (void)requeue_step(server); /* usually the budget allows all of them now */
    } else {
        buf_fini(deliveries);
    }
}

void requeue_reserved(struct server *server, struct beanstalk_holder *held, uint64_t sent,
                      enum session_end end)
{
    if (!held)
        return;
    struct requeue *requeue = add(server);
    requeue->held = held;
    requeue->sent = sent;
    requeue->end = end;
    (void)requeue_step(server); /* the same */
}

/*
 * True: the answer certainly did not reach the client. A reset soon after it was sent means that
 * the client had closed before reading it; after reading everything it would have sent a FIN.
 */
static bool undelivered(const struct requeue *requeue,
                        const struct beanstalk_reservation *reservation)
{
    if (requeue->end == SESSION_ORDERLY || reservation->end == 0)
        return false;
    if (reservation->end > requeue->sent)
        return true;
    int64_t reserved_us = reservation->until_us - reservation->ttr_us;
    return requeue->end == SESSION_RESET && requeue->ended_us - reserved_us <= RESET_SOON_US;
}

/* Gives one job back. False: none is left. */
static bool step(struct server *server, struct requeue *requeue)
{
    struct beanstalk_holder *held = requeue->held;
    if (held && held->count) {
        /* The last one is the cheapest to remove. */
        struct beanstalk_reservation *reservation = held->heap[held->count - 1];
        uint64_t seq = reservation->seq, lease = reservation->lease;
        bool lost = undelivered(requeue, reservation);
        if (reservation->until_us > requeue->ended_us) { /* else it has timed out */
            server->counts.undelivered += lost;
            server->counts.abandoned += !lost;
        }
        beanstalk_reservations_drop(&server->beanstalk.reservations, reservation);
        release(server, seq, lease, lost ? RELEASE_UNDELIVERED : RELEASE_ABANDONED);
        return true;
    }
    if (requeue->next == requeue->deliveries.len)
        return false;
    struct unsent_job delivery;
    memcpy(&delivery, requeue->deliveries.at + requeue->next, sizeof(delivery));
    requeue->next += sizeof(delivery);
    if (delivery.end > requeue->sent) {
        server->counts.undelivered++;
        release(server, delivery.seq, delivery.lease, RELEASE_UNDELIVERED);
    }
    return true;
}

static void requeue_free(struct server *server, struct requeue *requeue)
{
    list_remove(&requeue->place);
    discard_buf(&server->discard, &requeue->deliveries);
    if (requeue->held)
        beanstalk_holder_fini(requeue->held, &server->discard);
    mem_free(requeue->held);
    mem_free(requeue);
}

bool requeue_step(struct server *server)
{
    while (!list_empty(&server->requeues)) {
        struct requeue *requeue = LIST_ENTRY(server->requeues.next, struct requeue, place);
        while (step(server, requeue)) {
            if (budget_spent(&server->budget))
                return true;
        }
        requeue_free(server, requeue);
    }
    return false;
}

void requeue_all(struct server *server)
{
    server->budget.left_ns = BUDGET_UNLIMITED;
    (void)requeue_step(server); /* all of them: the budget is unlimited here */
}
