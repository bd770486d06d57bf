/*
 * A leader's terms and their deadline: common to all ways to elect. Pure: time is an argument, in
 * microseconds of CLOCK_BOOTTIME. All calls are O(1).
 *
 *     WAITING ──begin──▶ LEADING ──extend──▶ LEADING
 *        ▲                  │ end; or the deadline passes
 *        └──────────────────┘
 */
#ifndef LATERD_MEMBER_TENURE_H
#define LATERD_MEMBER_TENURE_H

#include <stdbool.h>
#include <stdint.h>

#include "port/member.h"

struct tenure {
    bool leading;
    enum member_loss loss; /* of the last term */
    uint64_t epoch;        /* ours while leading, else the newest that was seen */
    uint64_t led;          /* the epoch of our last term */
    uint64_t terms;        /* how many terms of ours have begun */
    int64_t deadline_us;
    int64_t since_us; /* when `leading` changed last */
    int64_t timeout_us;
};

enum { TENURE_PARTS = 3 }; /* ask each third of the time-out; lead for two thirds */

/* A process that notices later than this that the deadline has passed, did not run when it passed
   (LOSS_PAUSED). The second limit is for a thread that waited for an answer: for MySQL that takes
   up to a third of the time-out, or a second. */
#define TENURE_LATE_US         INT64_C(250000)
#define TENURE_LATE_REQUEST_US INT64_C(1000000)

/* `timeout_us`: of the session. */
void tenure_init(struct tenure *tenure, int64_t timeout_us, int64_t now_us);

/*
 * Begins a term with `epoch`, after the answer to a request that was sent at `sent_us`. False: it
 * did not begin: the deadline has passed already, or the epoch is that of an ended term of ours.
 */
bool tenure_begin(struct tenure *tenure, uint64_t epoch, int64_t sent_us, int64_t now_us);
/* Extends the term after a later answer; `epoch` may have risen. False: too late, it has ended. */
bool tenure_extend(struct tenure *tenure, uint64_t epoch, int64_t sent_us, int64_t now_us);
/* The service has agreed to another time-out, in an answer to a request that was sent behind that
   at `sent_us`. If it is shorter, so is the term that goes on; it may end at once. */
void tenure_set_timeout(struct tenure *tenure, int64_t timeout_us, int64_t sent_us, int64_t now_us);
/* Ends the term; does nothing if not leading. */
void tenure_end(struct tenure *tenure, enum member_loss loss, int64_t now_us);
/* Ends the term if the deadline has passed. True: it has just ended. */
bool tenure_expire(struct tenure *tenure, int64_t now_us);
/* The same after a request was answered or lost: the thread may have waited for it until now. */
bool tenure_expire_after_request(struct tenure *tenure, int64_t now_us);
/* When the owner has to wake up: at `at_us`, or at the deadline of the term, if that is earlier. */
static inline int64_t tenure_wake_us(const struct tenure *tenure, int64_t at_us)
{
    return tenure->leading && tenure->deadline_us < at_us ? tenure->deadline_us : at_us;
}
/* Notes an epoch that another laterd leads, or led, with. */
void tenure_note_epoch(struct tenure *tenure, uint64_t epoch);

#endif
