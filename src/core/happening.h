/*
 * An entry of a job's history ("happening"): shared by the core, the store and the protocols.
 */
#ifndef LATERD_CORE_HAPPENING_H
#define LATERD_CORE_HAPPENING_H

#include "core/job.h"

/* On disk: never change a number. */
enum happening_kind {
    HAPPENED_PUSHED = 1,
    HAPPENED_REPLACED, /* another job with its id was pushed in its place */
    HAPPENED_RESERVED,
    HAPPENED_RELEASED,
    HAPPENED_UNDELIVERED, /* its client never received it: it was released */
    HAPPENED_ABANDONED,   /* its consumer's connection ended */
    HAPPENED_TIMED_OUT,   /* its ttr ran out */
    HAPPENED_BURIED,      /* set aside by its consumer, or because its body is damaged */
    HAPPENED_KICKED,
    HAPPENED_RUN, /* made due now */
    HAPPENED_RESCHEDULED,
    HAPPENED_FINISHED,
    HAPPENED_DELETED,
};
enum { HAPPENINGS = HAPPENED_DELETED + 1 };

/* One thing that happened to one job. Bytes are borrowed. */
struct happening {
    enum happening_kind what;
    enum job_state state; /* of the job from then on; GONE: it has none any more */
    bool promised;        /* as event::promised, of the event that it goes with */
    uint16_t code;        /* of the note */
    uint64_t seq;
    int64_t at_us;
    int64_t time_us;    /* RESERVED: when its ttr runs out; DELAYED, READY: its due time; else 0 */
    uint64_t lease;     /* RESERVED; else 0 */
    struct bytes id;    /* empty: the server made it */
    struct bytes topic; /* PUSHED; else empty */
    struct bytes note;  /* RELEASED, BURIED: as cmd_job::note; RESERVED: the client; or empty */
};

enum { HAPPENING_BY_MAX = 64 }; /* bytes of who reserved a job; less than JOB_NOTE_MAX */

#endif
