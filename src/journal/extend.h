/*
 * What a job has that sdmq's columns have no room for, as the JSON of extend_data, and a row read
 * back as a push. Pure.
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

/* Of a JOB event, with what the job's entry says later than it. */
struct extend extend_of(const struct event *event, const struct group_job *job);
void extend_write(struct buf *out, const struct extend *extend);

/* What of a job's properties has a column of its own; empty, or -1: it has none. */
struct extend_names {
    struct bytes bizkey, subtopic;
    int64_t create_ms; /* when its client says that it was made */
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
 * The job of a row, of ours or of sdmq's. What is not borrowed from the row lies in the arena. Its
 * properties are such that job_properties_read() takes them, whatever the columns of sdmq's row
 * have: bytes that no label may have are '?', a bizkey or subtopic that is too long is cut.
 * ERR_INVALID: out_why says what cannot be read. O(bytes of the row).
 */
enum err extend_push(const struct extend_row *row, struct arena *arena, struct cmd_push *out_push,
                     const char **out_why) MUST_USE;

/* Is that what a row of ours would be if `push`, which extend_push() made of it, was pushed at
   now_us? But for create_time, which stays that of the first push, and update_time. */
bool extend_is_written(const struct extend_row *row, const struct cmd_push *push, int64_t now_us);

#endif
