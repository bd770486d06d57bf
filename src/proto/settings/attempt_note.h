/*
 * What is kept of a failed attempt besides its time and code (cmd_job::note), as JSON:
 *
 *     {"reason":"the receiver answered 503","address":"192.0.2.7:443","ms":12,"response":"busy"}
 *
 * A consumer that releases or buries gives a reason; a delivery has all of it. Pure.
 */
#ifndef LATERD_PROTO_SETTINGS_ATTEMPT_NOTE_H
#define LATERD_PROTO_SETTINGS_ATTEMPT_NOTE_H

#include "base/err.h"
#include "core/cmd.h"
#include "proto/settings/settings_reader.h"

enum { NOTE_REASON_MAX = 1024 };

/* Bytes are borrowed. */
struct attempt_note {
    struct bytes reason;   /* why it failed: for people; or empty */
    struct bytes address;  /* of a delivery: that it was sent to; or empty */
    int64_t took_us;       /* of a delivery: from sending to the answer; -1: not known */
    struct bytes response; /* the beginning of the answer's body, any bytes; or empty */
};

/*
 * Appends it, at most JOB_NOTE_MAX bytes: reason and address are cut to NOTE_REASON_MAX and
 * OUTCOME_ADDRESS_MAX, then the response to what is left. Nothing if there is nothing to say.
 */
void attempt_note_write(const struct attempt_note *note, struct buf *out);

/* Reads what attempt_note_write() wrote; ERR_INVALID: it is something else. Lifetimes as usual. */
enum err attempt_note_read(struct bytes text, struct arena *scratch,
                           struct attempt_note *out_note) MUST_USE;

#endif
