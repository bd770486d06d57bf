/*
 * The properties of a job, stored besides its body (cmd_push::properties): its URL, key, headers,
 * the AMQP properties of the message it came from, and the labels that its client gave. As JSON, in
 * one fixed form:
 *
 *     {"url":"https://…","key":"order-17","headers":{"X-A":"1"},"amqp":"base64…",
 *      "biz_key":"17","subtopic":"eu","tags":["a","b"],"extend_data":"{…}",
 *      "create_time":1700000000000,"rank":7}
 *
 * Written when a job is pushed; read by dispatch/, journals and the answers of /v1 and sdmq. Pure.
 */
#ifndef LATERD_PROTO_SETTINGS_JOB_PROPERTIES_H
#define LATERD_PROTO_SETTINGS_JOB_PROPERTIES_H

#include "base/err.h"
#include "core/cmd.h"
#include "core/target.h"
#include "proto/settings/settings_reader.h"

enum { JOB_KEY_MAX = 255 }; /* bytes */

/* Labels: information of a client about its job for people and other programs. The queue does not
 * use them, except the rank, which is put into the due time when the job is pushed
 * (job_due_with_rank()). */
enum job_label {
    LABEL_BIZ_KEY,     /* the client's business key of the job */
    LABEL_SUBTOPIC,    /* a part of its topic */
    LABEL_TAGS,        /* words */
    LABEL_EXTEND_DATA, /* any text */
    LABEL_CREATE_TIME, /* its time of creation: epoch milliseconds or RFC 3339 */
    LABEL_RANK,        /* of jobs due in the same millisecond those with a lower rank go first */
    LABEL_COUNT
};

enum {
    JOB_BIZ_KEY_MAX = 128, /* bytes */
    JOB_SUBTOPIC_MAX = 250,
    JOB_TAGS_MAX = 16, /* tags of a job */
    JOB_TAG_MAX = 64,  /* bytes of one */
    JOB_TAGS_TEXT_MAX = JOB_TAGS_MAX * (JOB_TAG_MAX + 1),
    JOB_EXTEND_DATA_MAX = 2000, /* bytes, as the column that sdmq has for it */
};

/* Zeroed: there are none. Bytes are borrowed. */
struct job_properties {
    struct bytes url;  /* http: or https:; empty: the topic's */
    struct bytes key;  /* up to JOB_KEY_MAX bytes */
    struct bytes amqp; /* opaque: see sink/amqp */
    struct bytes biz_key, subtopic, extend_data;
    struct bytes tags; /* with commas between them, which no tag has in it */
    int64_t create_ms; /* since the epoch; 0: not given */
    uint32_t rank;
    uint8_t header_count;
    struct target_header headers[TARGET_HEADERS_MAX];
};

/*
 * Reads what job_properties_write() wrote; empty text: none. As strict as the push that made them.
 * ERR_INVALID: out_problem, unless it is NULL. What is not borrowed from `text` lives in `scratch`.
 */
enum err job_properties_read(struct bytes text, struct arena *scratch,
                             struct job_properties *out_properties,
                             struct settings_problem *out_problem) MUST_USE;

/*
 * Appends them; nothing if there are none. ERR_TOO_LARGE: they would have more than
 * JOB_PROPERTIES_MAX bytes, and nothing was appended; out_problem names the field that has most.
 */
enum err job_properties_write(const struct job_properties *properties, struct buf *out,
                              struct settings_problem *out_problem) MUST_USE;

/* "biz_key" … as the stored form and /v1 name them; LABEL_COUNT: no label has this name. */
enum job_label job_label_named(struct bytes name);

/*
 * Reads the value of one label; refuses an empty text, one with control characters (of extend_data
 * only NUL is refused), one that is too long, a tag with a comma.
 */
bool job_label_read(struct settings_reader *reader, enum job_label label,
                    struct job_properties *properties);

/*
 * Appends the labels there are as members of an object, as job_label_read() reads them; with
 * `times_as_text` the create_time is RFC 3339, else a number. O(their bytes).
 */
void job_labels_write(const struct job_properties *properties, bool times_as_text, struct buf *out);

/*
 * The due time of a job of this rank that is due in the millisecond `due_ms`: the rank, up to 999,
 * is its microseconds. So it is handed out up to 1 ms late, never early, and after those of the
 * same millisecond with a lower rank; due_us / 1000 is still the millisecond.
 */
static inline int64_t job_due_with_rank(int64_t due_ms, uint32_t rank)
{
    return due_ms * 1000 + (rank < 1000 ? rank : 999);
}

/* Refuses an invalid key: it must have 1 … JOB_KEY_MAX bytes without control characters. */
bool job_key_read(struct settings_reader *reader, struct bytes *out_key);

#endif
