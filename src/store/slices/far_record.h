/*
 * The record of a far job, as it lies in a slice: all that a JOB record says, in some 60 bytes and
 * what the client sent. Kind 9; docs/disk-format.md draws it.
 *
 * Pure. The decoder trusts no byte: the content has the sum that was made from the client's bytes,
 * all else a sum of its own, so that one record can be believed without what lies around it.
 */
#ifndef LATERD_STORE_FAR_RECORD_H
#define LATERD_STORE_FAR_RECORD_H

#include "store/record.h"

enum {
    FAR_HEAD_MAX = RECORD_JOB_HEAD, /* bytes in front of content type and body, at most */
    FAR_RECORD_MIN = 32,            /* bytes of a record, at least */
};

/* Can the job be kept in a slice? Only one that nobody has reserved. */
bool far_record_fits(const struct event *job);

/* Bytes of the job's record; a multiple of eight, at least FAR_RECORD_MIN. */
size_t far_record_bytes(const struct event *job);
/* Writes it; `len` is far_record_bytes(job), and far_record_fits(job). */
void far_record_encode(const struct event *job, size_t len, void *record);

/* The same in two steps, for who knows the content's sum: first what is in front of the content. */
struct far_draft {
    char head[FAR_HEAD_MAX];
    size_t head_len;
    size_t len; /* of the record: far_record_bytes(job) */
};
void far_record_begin(const struct event *job, struct far_draft *out_draft);
/* Then all of it, draft->len bytes. `content_sum` is that of the job's record in the log:
   record::body_sum, if record_body_good(). */
void far_record_end(const struct event *job, const struct far_draft *draft, uint64_t content_sum,
                    void *record);

/* Reads `len` bytes, which the record says it has, into record->event and what belongs to it;
   record->event.kind is EVENT_JOB. False: it is none. */
bool far_record_decode(const char *at, size_t len, struct record *record);
/* The same for who wants the job alone, with its content: false also if that has not its sum.
   `out_job` borrows from the record and `retry_us`; event::record is not known here. */
bool far_record_read(const char *at, size_t len, int64_t retry_us[static RETRY_STEPS_MAX],
                     struct event *out_job);
/* The same for who has just written the record: no sum is looked at, and the retry waits are not
   read. */
bool far_record_glance(const char *at, size_t len, struct event *out_job);
/* As record_open(), for a record of this kind. ERR_DAMAGED. */
enum err far_record_open(const char *at, size_t len, const struct body_place *place,
                         struct body_content *out_content) MUST_USE;

#endif
