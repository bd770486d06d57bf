/*
 * The head of a job as it lies in Redis (docs/redis-layout.md): the one description from which the
 * offsets in C and the words HEAD.… in the scripts are made. Numbers are little-endian; there are
 * no gaps; topic, id and waits of the schedule follow. Whoever changes it changes what is stored,
 * and raises SCRIPT_LAYOUT.
 *
 * In a script (script_text.c replaces them when the text is made, so they cost nothing there):
 *     HEAD.DUE              where the field begins, as string.sub and struct.unpack count: from 1
 *     HEAD.DUE_END          its last byte
 *     HEAD.STATE_TO_LEASE   the format of these fields for struct.pack and struct.unpack, quoted
 *     HEAD.DUE_FORMAT       that of one field
 *     HEAD.BYTES, HEAD.TOPIC  the length of all fields, and what begins behind them
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
    FIELD(RETRIES, "B", 1)                                                                         \
    FIELD(ID_LEN, "B", 1)                                                                          \
    FIELD(PRIORITY, "I4", 4)                                                                       \
    FIELD(DELAY_S, "I4", 4)                                                                        \
    FIELD(DUE, "I8", 8)                                                                            \
    FIELD(SEQ, "I8", 8)                                                                            \
    FIELD(CREATED, "I8", 8)                                                                        \
    FIELD(TTR, "I8", 8)                                                                            \
    FIELD(TOPIC_LEN, "B", 1)                                                                       \
    FIELD(BODY_KIND, "B", 1)                                                                       \
    FIELD(TYPE_LEN, "B", 1)                                                                        \
    FIELD(UNUSED, "B", 1)                                                                          \
    FIELD(BODY_LEN, "I4", 4)                                                                       \
    FIELD(CONTENT_SUM, "I8", 8)

#define JOB_HEAD_MEMBER(name, format, bytes) char name[bytes];
struct job_head_bytes {
    JOB_HEAD_FIELDS(JOB_HEAD_MEMBER)
};
#undef JOB_HEAD_MEMBER

/* JOB_HEAD_DUE and the like: offsets, from 0. */
#define JOB_HEAD_OFFSET(name, format, bytes)                                                       \
    JOB_HEAD_##name = offsetof(struct job_head_bytes, name),
enum { JOB_HEAD_FIELDS(JOB_HEAD_OFFSET) JOB_HEAD_BYTES = sizeof(struct job_head_bytes) };
#undef JOB_HEAD_OFFSET

#endif
