/*
 * The format of a job in Redis (docs/redis-layout.md). This is the only definition: the offsets in
 * C and the constants in the scripts are made from it. Numbers are little-endian; there is no
 * padding. A change here changes what is stored, and must raise SCRIPT_LAYOUT.
 *
 * A job has a record and a head. The record is written when the job is pushed, and again only if
 * its body is replaced. It has one of three forms: compact (28 bytes, for ordinary jobs), short or
 * long; then follow topic, id, the waits of the schedule (8 bytes each), content type and body. A
 * body longer than JOB_INLINE_MAX is in a field of its own; properties always are. The head has the
 * fields that change; it exists from the first change on, and overrides those of the record.
 *
 * Scripts use these constants, with HEAD, COMPACT, SHORT or LONG before the dot (script_text.c
 * replaces them when it makes the text, so they cost nothing at run time):
 *     HEAD.DUE              first byte of the field, counted from 1 as in string.sub, struct.unpack
 *     HEAD.DUE_END          its last byte
 *     HEAD.STATE_TO_LEASE   the format of these fields for struct.pack and struct.unpack, quoted
 *     HEAD.DUE_FORMAT       the format of one field
 *     HEAD.BYTES, LONG.TOPIC  the length of all fields; the first byte behind them
 */
#ifndef LATERD_ENGINE_REDIS_JOB_HEAD_H
#define LATERD_ENGINE_REDIS_JOB_HEAD_H

#include <stddef.h>

/* FIELD(name, format, bytes). */
#define JOB_HEAD_FIELDS(FIELD)                                                                     \
    FIELD(STATE, "B", 1)                                                                           \
    FIELD(FLAGS, "B", 1)                                                                           \
    FIELD(RESERVES, "H", 2)                                                                        \
    FIELD(UNTIL, "I8", 8)                                                                          \
    FIELD(LEASE, "I8", 8)                                                                          \
    FIELD(HOLDER, "c8", 8)                                                                         \
    FIELD(FAILURES, "H", 2)                                                                        \
    FIELD(TIMEOUTS, "H", 2)                                                                        \
    FIELD(RELEASES, "H", 2)                                                                        \
    FIELD(BURIES, "H", 2)                                                                          \
    FIELD(KICKS, "H", 2)                                                                           \
    FIELD(PRIORITY, "I4", 4)                                                                       \
    FIELD(DELAY_S, "I4", 4)                                                                        \
    FIELD(DUE, "I8", 8)

/* The first fields of the compact and the short form. TTR: in seconds. */
#define JOB_BRIEF_FIELDS(FIELD)                                                                    \
    FIELD(FORM, "B", 1)                                                                            \
    FIELD(ID_LEN, "B", 1)                                                                          \
    FIELD(TOPIC_LEN, "B", 1)                                                                       \
    FIELD(RETRIES, "B", 1)                                                                         \
    FIELD(PRIORITY, "H", 2)                                                                        \
    FIELD(TTR, "H", 2)                                                                             \
    FIELD(DELAY_S, "I3", 3)                                                                        \
    FIELD(DUE, "I7", 7)

/* For jobs without content type, with a body of at most JOB_INLINE_MAX bytes, a ttr in whole
 * seconds, and numbers that fit into these fields. The body is the rest of the record. AHEAD: the
 * job's number, which is a time, minus the time of its creation, plus JOB_AHEAD_BASE. */
#define JOB_COMPACT_FIELDS(FIELD)                                                                  \
    JOB_BRIEF_FIELDS(FIELD)                                                                        \
    FIELD(AHEAD, "H", 2)                                                                           \
    FIELD(CONTENT_SUM, "c8", 8)

/* The same for jobs whose CREATED does not follow from AHEAD: jobs that were created elsewhere, or
 * whose number is too far ahead of that time, which happens for a while after a restart of Redis,
 * and where very many numbers are used. */
#define JOB_SHORT_FIELDS(FIELD)                                                                    \
    JOB_BRIEF_FIELDS(FIELD)                                                                        \
    FIELD(CREATED, "I7", 7)                                                                        \
    FIELD(CONTENT_SUM, "c8", 8)

/* For all other jobs. TTR: in microseconds. */
#define JOB_LONG_FIELDS(FIELD)                                                                     \
    FIELD(FORM, "B", 1)                                                                            \
    FIELD(ID_LEN, "B", 1)                                                                          \
    FIELD(TOPIC_LEN, "B", 1)                                                                       \
    FIELD(RETRIES, "B", 1)                                                                         \
    FIELD(PRIORITY, "I4", 4)                                                                       \
    FIELD(TTR, "I7", 7)                                                                            \
    FIELD(DELAY_S, "I4", 4)                                                                        \
    FIELD(DUE, "I7", 7)                                                                            \
    FIELD(CREATED, "I7", 7)                                                                        \
    FIELD(CONTENT_SUM, "c8", 8)                                                                    \
    FIELD(TYPE_LEN, "B", 1)                                                                        \
    FIELD(BODY_LEN, "I4", 4)

#define JOB_MEMBER(name, format, bytes) char name[bytes];
struct job_head_bytes {
    JOB_HEAD_FIELDS(JOB_MEMBER)
};
struct job_compact_bytes {
    JOB_COMPACT_FIELDS(JOB_MEMBER)
};
struct job_short_bytes {
    JOB_SHORT_FIELDS(JOB_MEMBER)
};
struct job_long_bytes {
    JOB_LONG_FIELDS(JOB_MEMBER)
};
#undef JOB_MEMBER

/* JOB_HEAD_DUE and the like: offsets, from 0. */
#define JOB_HEAD_OFFSET(name, format, bytes)                                                       \
    JOB_HEAD_##name = offsetof(struct job_head_bytes, name),
#define JOB_COMPACT_OFFSET(name, format, bytes)                                                    \
    JOB_COMPACT_##name = offsetof(struct job_compact_bytes, name),
#define JOB_SHORT_OFFSET(name, format, bytes)                                                      \
    JOB_SHORT_##name = offsetof(struct job_short_bytes, name),
#define JOB_LONG_OFFSET(name, format, bytes)                                                       \
    JOB_LONG_##name = offsetof(struct job_long_bytes, name),
enum { JOB_HEAD_FIELDS(JOB_HEAD_OFFSET) JOB_HEAD_BYTES = sizeof(struct job_head_bytes) };
enum {
    JOB_COMPACT_FIELDS(JOB_COMPACT_OFFSET) JOB_COMPACT_BYTES = sizeof(struct job_compact_bytes)
};
enum { JOB_SHORT_FIELDS(JOB_SHORT_OFFSET) JOB_SHORT_BYTES = sizeof(struct job_short_bytes) };
enum { JOB_LONG_FIELDS(JOB_LONG_OFFSET) JOB_LONG_BYTES = sizeof(struct job_long_bytes) };
#undef JOB_HEAD_OFFSET
#undef JOB_COMPACT_OFFSET
#undef JOB_SHORT_OFFSET
#undef JOB_LONG_OFFSET

/* Bits of FORM. The first byte of a head never has JOB_IS_RECORD. */
enum {
    JOB_IS_LONG = 1,
    JOB_IN_ARRIVAL = 2,
    JOB_IS_JSON = 4,
    JOB_IS_APART = 8,        /* content type and body are in a field of their own */
    JOB_HAS_PROPERTIES = 16, /* properties are in a field of their own */
    JOB_IS_COMPACT = 32,     /* never with JOB_IS_LONG */
    JOB_IS_RECORD = 128,
};

enum {
    JOB_INLINE_MAX = 1024, /* bytes of content type and body */
    JOB_AHEAD_BASE = 1024, /* numbers are behind by less than this: see SCRIPT_PARTITIONS_MAX */
    JOB_SUM_BYTES = 8,     /* length of the XXH3-64 in front of properties */
};

#endif
