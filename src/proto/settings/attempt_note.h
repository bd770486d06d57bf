/*
 * The note of a failed attempt, stored besides its time and code (cmd_job::note), as JSON:
 *
 *     {"reason":"the receiver answered 503","address":"192.0.2.7:443","ms":12,"response":"busy"}
 *
 * A consumer that releases or buries may give a reason; a delivery has all fields. Pure.
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
    struct bytes address;  /* of a delivery: where it was sent; or empty */
    int64_t took_us;       /* of a delivery: from sending to the answer; -1: not known */
    struct bytes response; /* the beginning of the answer's body, any bytes; or empty */
};

/*
 * Appends the note, at most JOB_NOTE_MAX bytes: reason and address are cut to NOTE_REASON_MAX and
 * OUTCOME_ADDRESS_MAX, the response to what is left. Appends nothing if all fields are empty.
 */
void attempt_note_write(const struct attempt_note *note, struct buf *out);

/* Reads what attempt_note_write() wrote. ERR_INVALID: it is another text. */
enum err attempt_note_read(struct bytes text, struct arena *scratch,
                           struct attempt_note *out_note) MUST_USE;

#endif
