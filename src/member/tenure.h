/*
 * The deadline of who leads: what is common to all ways to elect. Pure: time is an argument, in
 * microseconds of CLOCK_BOOTTIME.
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
    uint64_t led;          /* our last one */
    uint64_t terms;        /* how often it began */
    int64_t deadline_us;
    int64_t since_us; /* when `leading` changed last */
    int64_t timeout_us;
};

enum { TENURE_PARTS = 3 }; /* ask each third of the time-out; lead for two thirds */

/* Who notices the passing of a deadline so late was not running when it passed; or so late, if it
   was waiting for an answer: MySQL is waited for up to a third of the time-out, or a second. */
#define TENURE_LATE_US       INT64_C(250000)
#define TENURE_LATE_ASKED_US INT64_C(1000000)

/* `timeout_us`: of the session. */
void tenure_init(struct tenure *tenure, int64_t timeout_us, int64_t now_us);

/*
 * We lead with `epoch`, as an answer to a question that was sent at `sent_us` says. False: not with
 * this one: the deadline has passed already, or the epoch is of a term of ours that has ended.
 */
bool tenure_begin(struct tenure *tenure, uint64_t epoch, int64_t sent_us, int64_t now_us);
/* The same of a later answer, while leading; `epoch` may have risen. False: too late, it ended. */
bool tenure_extend(struct tenure *tenure, uint64_t epoch, int64_t sent_us, int64_t now_us);
/* Nothing if it does not lead. */
void tenure_end(struct tenure *tenure, enum member_loss loss, int64_t now_us);
/* Ends it if the deadline has passed. True: it has just ended. */
bool tenure_expire(struct tenure *tenure, int64_t now_us);
/* The same, when an answer has come or was lost: until now it may have been waited for. */
bool tenure_expire_asked(struct tenure *tenure, int64_t now_us);
/* Somebody leads, or led, with this one. */
void tenure_note_epoch(struct tenure *tenure, uint64_t epoch);

static inline bool tenure_holds(const struct tenure *tenure, int64_t now_us)
{
    return tenure->leading && now_us < tenure->deadline_us;
}

#endif
