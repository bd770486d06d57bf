/*
 * The election by a row: one record in a table of MySQL, or one key in Redis, that is changed only
 * by compare-and-set. Pure: the owner sends the requests to the service, and passes the time
 * (CLOCK_BOOTTIME, microseconds). Each candidate, and the leader, has one struct claim.
 *
 * The row has its holder, the holder's epoch, and a count that the holder increments every third of
 * the time-out. The clock of the service is never read: a candidate takes the row over when epoch
 * and count have stayed the same for the whole time-out *by its own clock, since it first read
 * them*. The holder leads for two thirds of the time-out, from before it sent them. So a step of a
 * wall clock never makes two leaders, and the service need not support expiry.
 *
 *     read ──▶ holder is empty (it resigned), or we (an answer was lost) ──▶ claim: epoch + 1
 *       ▲  └─▶ somebody's, the same for a time-out                       ──▶ claim: epoch + 1
 *       └──── every 25 ms, 100 ms after an answer that did not come
 *     leading: count + 1 each third of the time-out; a count that we did not write ends it
 *
 * A missing row is treated like a held one, for a whole time-out: it may have been deleted by hand,
 * and its leader may not know that yet. Invariant: one request at a time.
 */
#ifndef LATERD_MEMBER_CLAIM_H
#define LATERD_MEMBER_CLAIM_H

#include "member/tenure.h"
#include "port/member.h"

enum { CLAIM_HOLDER_MAX = 40 };

struct claim_row {
    bool exists;
    uint64_t epoch, count;
    int64_t timeout_us;            /* of the session of its holder: claim_timeout_us() */
    char holder[CLAIM_HOLDER_MAX]; /* "": the last holder has resigned */
    char url[MEMBER_URL_MAX];      /* where clients reach the holder */
};

/* The time-out that a row has in milliseconds; below an hour, whatever somebody has written there.
 */
static inline int64_t claim_timeout_us(uint64_t timeout_ms)
{
    return (int64_t)(timeout_ms % 3600000) * 1000;
}

/* A request to the service. */
struct claim_request {
    bool write;          /* false: only read the row */
    bool make;           /* write: insert the row if it does not exist; else update it … */
    uint64_t from_epoch; /* … if it still has this epoch … */
    uint64_t from_count; /* … and this count */
    struct claim_row to;
};

/* What the service answered. */
struct claim_answer {
    bool done;            /* the write was done, so the row is claim_request::to now */
    struct claim_row row; /* the row as it is now */
};

struct claim {
    struct tenure tenure;
    char holder[CLAIM_HOLDER_MAX]; /* our name as holder */
    char url[MEMBER_URL_MAX];
    struct claim_row row;         /* as it was read last */
    bool known;                   /* `row` was read */
    int64_t seen_us;              /* when it was first read with these values */
    int64_t next_us;              /* when to send the next request */
    int64_t sent_us;              /* when the request under way was sent */
    bool pending;                 /* a request is under way … */
    struct claim_request request; /* … this one */
    uint64_t above;               /* our epochs must be higher than this: claim_raise() */
    int64_t rest_until_us;
};

/* Strings are copied, and cut if they are too long. */
void claim_init(struct claim *claim, const struct member_options *options, int64_t now_us);

/* When to call claim_request(); INT64_MAX: a request is under way. */
int64_t claim_next_us(const struct claim *claim);
/* The next request, to be sent now; then claim_answered() or claim_unanswered() must be called. */
const struct claim_request *claim_request(struct claim *claim, int64_t now_us);
void claim_answered(struct claim *claim, const struct claim_answer *answer, int64_t now_us);
/* No answer, or an error: the request may have been done or not. */
void claim_unanswered(struct claim *claim, int64_t now_us);

/* Ends the tenure if its deadline has passed. True: it has just ended. */
bool claim_expire(struct claim *claim, int64_t now_us);
/* member_verbs::raise and ::resign. */
void claim_raise(struct claim *claim, uint64_t above, int64_t now_us);
void claim_resign(struct claim *claim, int64_t rest_us, int64_t now_us);
/* True: the row may still name us as holder, so a resignation has to be written. */
bool claim_is_held(const struct claim *claim);
/* The URL of the leader, if it is not us; "": not known. */
const char *claim_leader(const struct claim *claim);

#endif
