/*
 * The parts of a job that have no column in sdmq's table, as the JSON of the column extend_data;
 * and the conversion of a row back to a push. Pure.
 *
 *     {"laterd":1,"priority":1024,"failures":0,"us":250,"retry_ms":[60000],"ttr_ms":1500,
 *      "content_type":"text/plain","body":"base64","order":"arrival","properties":"{…}"}
 *
 * Only `laterd`, `priority`, `failures` and `us` (the due time's microseconds below the millisecond
 * that `delay` gives) are always there. `properties` is the text that engines keep, as one string,
 * so that no database rewrites it. `body` is how the column has the body: json, base64, or, left
 * out, as text.
 */
#ifndef LATERD_JOURNAL_EXTEND_H
#define LATERD_JOURNAL_EXTEND_H

#include "journal/group.h"

struct extend {
    uint32_t priority;
    uint16_t failures;
    uint16_t us; /* of the due time, below the millisecond */
    int64_t ttr_us;
    const int64_t *retry_us; /* borrowed, as all bytes */
    uint8_t retry_count;
    enum ready_order order;
    bool json;   /* the body is the text of a JSON value */
    bool base64; /* the body is not UTF-8: its column has it in base64 */
    struct bytes content_type;
    struct bytes properties;
};

/* Made from a JOB event, and from later changes in the job's entry. */
struct extend extend_of(const struct event *event, const struct group_job *job);
void extend_write(struct buf *out, const struct extend *extend);

/* The parts of a job's properties that have columns of their own; empty, or -1: not set. */
struct extend_names {
    struct bytes bizkey, subtopic;
    int64_t create_ms; /* the time of creation that its client gave */
};
/* Borrowed from the properties, or in the arena if it had escapes. */
struct extend_names extend_names(struct bytes properties, struct arena *arena);

/* A row as the table has it. NULL columns are empty; numbers are then 0. */
struct extend_row {
    struct bytes id, bizkey, topic, subtopic, body, extend_data;
    int64_t delay_ms, create_ms, ttl_s;
    int status;
};

/*
 * Makes the push of a row that laterd or sdmq has written. Its bytes are borrowed from the row, or
 * are in the arena. Its properties are always valid for job_properties_read(), whatever the columns
 * of sdmq's row contain: invalid bytes of labels become '?', and a bizkey or subtopic that is too
 * long is cut. ERR_INVALID: out_why says what cannot be read. O(bytes of the row).
 */
enum err extend_push(const struct extend_row *row, struct arena *arena, struct cmd_push *out_push,
                     const char **out_why) MUST_USE;

/* True: if `push`, made by extend_push() of this row, were pushed at now_us, laterd would write the
   same row again, except for create_time and update_time. */
bool extend_is_written(const struct extend_row *row, const struct cmd_push *push, int64_t now_us);

#endif
