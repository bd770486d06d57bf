/*
 * The record of a far job in a slice (kind 9): everything that a JOB record of the log has, in
 * about 60 bytes plus what the client sent. docs/disk-format.md has the layout.
 *
 * Pure; any thread. The decoder trusts no byte. A record has two checksums, one of the content
 * (made from the client's bytes when they arrived) and one of everything else, so a single record
 * can be verified without the rest of its block.
 */
#ifndef LATERD_STORE_FAR_RECORD_H
#define LATERD_STORE_FAR_RECORD_H

#include "store/record.h"

enum {
    FAR_HEAD_MAX = RECORD_JOB_HEAD, /* bytes in front of content type and body, at most */
    FAR_RECORD_MIN = 32,            /* bytes of the shortest record */
};

/* Can the job be stored in a slice? Only if it is not reserved. */
bool far_record_fits(const struct event *job);

/* Bytes of the job's record; a multiple of eight, at least FAR_RECORD_MIN. */
size_t far_record_bytes(const struct event *job);
/* Writes it; `len` is far_record_bytes(job), and far_record_fits(job). */
void far_record_encode(const struct event *job, size_t len, void *record);

/* far_record_encode() in two steps, for a caller that knows the content's checksum already. Step 1:
   the head, which lies in front of the content. */
struct far_draft {
    char head[FAR_HEAD_MAX];
    size_t head_len;
    size_t len; /* of the record: far_record_bytes(job) */
};
void far_record_begin(const struct event *job, struct far_draft *out_draft);
/* Step 2: writes the whole record, draft->len bytes. `content_sum` is record::body_sum of the job's
   record in the log, for which record_body_good() was true. Returns the offset of the client's id,
   which the topic's name follows. */
size_t far_record_end(const struct event *job, const struct far_draft *draft, uint64_t content_sum,
                      void *record);

/* Decodes a record of `len` bytes (its own length field) into *record; record->event.kind is
   EVENT_JOB. False: not a valid record. Does not verify the content's checksum. */
bool far_record_decode(const char *at, size_t len, struct record *record);
/* As far_record_decode(), but returns only the job, and verifies the content's checksum. `out_job`
   borrows from the record and from `retry_us`; out_job->record is not set. */
bool far_record_read(const char *at, size_t len, int64_t retry_us[static RETRY_STEPS_MAX],
                     struct event *out_job);
/* The job's number, of a record of `len` bytes, FAR_RECORD_MIN at least. For a hint: it verifies
   nothing. */
uint64_t far_record_seq(const char *at, size_t len);
/* As far_record_read(), for a caller that has just written the record: verifies no checksum and
   does not read the retry waits. */
bool far_record_glance(const char *at, size_t len, struct event *out_job);
/* As record_open(), for a record of this kind. ERR_DAMAGED. */
enum err far_record_open(const char *at, size_t len, const struct body_place *place,
                         struct body_content *out_content) MUST_USE;

#endif
