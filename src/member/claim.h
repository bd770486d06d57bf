/*
 * The election by a row: one record in a table of MySQL, or one key in Redis, that is only ever
 * changed from what was read (compare and set). Pure: who owns it asks the service, and tells it
 * the time (CLOCK_BOOTTIME, microseconds). A candidate or a leader is one struct claim.
 *
 * The row says who holds it, with which epoch, and a count that the holder raises each third of the
 * time-out. The clock of the service is never read: a candidate takes the row over when epoch and
 * count have stayed the same for the whole time-out *by its own clock, since it saw them first*.
 * The holder counted from before they were written, and only to two thirds. So no step of any wall
 * clock makes two leaders, and a service that cannot expire anything will do.
 *
 *     read ──▶ holder is empty (it resigned), or we (an answer was lost) ──▶ claim: epoch + 1
 *       ▲  └─▶ somebody's, the same for a time-out                       ──▶ claim: epoch + 1
 *       └──── every 25 ms, 100 ms after an answer that did not come
 *     leading: count + 1 each third of the time-out; a count that we did not write ends it
 *
 * A row that is not there is waited for as long as one that is held: it may have been deleted by
 * hand under a leader who does not know yet. Invariant: one question at a time.
 */
#ifndef LATERD_MEMBER_CLAIM_H
#define LATERD_MEMBER_CLAIM_H

#include "member/tenure.h"
#include "port/member.h"

enum { CLAIM_HOLDER_MAX = 40 };

struct claim_row {
    bool there;
    uint64_t epoch, count;
    int64_t timeout_us;            /* of the session of its holder */
    char holder[CLAIM_HOLDER_MAX]; /* "": nobody, the last one has resigned */
    char url[MEMBER_URL_MAX];      /* where its clients reach the holder */
};

/* What is to be asked of the service. */
struct claim_ask {
    bool write;          /* else the row is only read */
    bool make;           /* write: there is none yet; else it must still have … */
    uint64_t from_epoch; /* … this epoch … */
    uint64_t from_count; /* … and this count */
    struct claim_row to;
};

/* What the service answered. */
struct claim_answer {
    bool done;            /* the write was done; row is claim_ask::to then */
    struct claim_row row; /* as it is now */
};

struct claim {
    struct tenure tenure;
    char holder[CLAIM_HOLDER_MAX]; /* we */
    char url[MEMBER_URL_MAX];
    struct claim_row row; /* as it was read last */
    bool known;           /* it was read */
    int64_t seen_us;      /* when it was first seen as it is */
    int64_t next_us;      /* when to ask next */
    int64_t sent_us;      /* the question under way */
    bool asked;           /* there is one */
    struct claim_ask ask; /* it */
    uint64_t above;       /* epochs of ours are to be higher: see claim_raise() */
    int64_t rest_until_us;
};

/* Strings are copied, and cut if they are too long. */
void claim_init(struct claim *claim, const struct member_options *options, int64_t now_us);

/* When claim_ask() is wanted; INT64_MAX: a question is under way. */
int64_t claim_next_us(const struct claim *claim);
/* The next question, which is sent now. It is answered, or lost. */
const struct claim_ask *claim_ask(struct claim *claim, int64_t now_us);
void claim_answered(struct claim *claim, const struct claim_answer *answer, int64_t now_us);
/* No answer came, or an error: nobody knows whether it was done. */
void claim_lost(struct claim *claim, int64_t now_us);

/* Ends the tenure if its deadline has passed. True: it has just ended. */
bool claim_expire(struct claim *claim, int64_t now_us);
/* member_verbs::raise and ::resign. */
void claim_raise(struct claim *claim, uint64_t above, int64_t now_us);
void claim_resign(struct claim *claim, int64_t rest_us, int64_t now_us);
/* Is there a row of ours, that others will wait for? So a resignation is still to be written. */
bool claim_is_held(const struct claim *claim);
/* Where the leader is, if it is not us; "": not known. */
const char *claim_leader(const struct claim *claim);

#endif
