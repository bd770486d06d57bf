/*
 * The records of beanstalkd's binlog, one at a time out of bytes in memory. Pure.
 *
 * A binlog directory holds files binlog.N, N counting up, and a file `lock`. A file is a version (4
 * bytes), then records, then zeros: its room is taken when it is made. All numbers are in the
 * machine's own order and alignment, which is little-endian here; beanstalkd writes no checksum.
 * A record of version 7 (beanstalkd 1.12 and 1.13):
 *
 *     4   length of the tube's name; 0: a short record, about a job that an earlier one was whole
 *         on in this or an older file
 *     n   the tube's name
 *     80  the job: 0 id (8) · 8 priority (4) · 16 delay (8) · 24 ttr (8) · 32 length of the body,
 *         CR LF included (4) · 40 created (8) · 48 deadline (8) · 56 how often reserved, timed out,
 *         released, buried, kicked (4 each) · 76 state (1); the gaps between are padding
 *     m   whole record only: the body and CR LF
 *
 * Times are nanoseconds, since 1970 for created and deadline. Version 5 (older: 1.12 still reads
 * it) has microseconds, 8 bytes for the name's length, and no padding behind the state: 77 bytes.
 * A record of id 0 ends the file.
 *
 * A job's newest record has its state. Compaction writes a complete record again into the newest
 * file, so a short record may be found whose complete one was deleted: it is ignored. Reservations
 * are not logged; a record may still have the state reserved, which means ready.
 */
#ifndef LATERD_PROTO_BEANSTALK_BINLOG_H
#define LATERD_PROTO_BEANSTALK_BINLOG_H

#include "base/bytes.h"
#include "base/err.h"

enum {
    BINLOG_VERSION_BYTES = 4,
    BINLOG_NAME_MAX = 200,          /* bytes of a tube's name */
    BINLOG_HEAD_MAX = 8 + 200 + 80, /* bytes of a record before its body, in any version */
    BINLOG_END_BYTES = 2,           /* the CR LF behind a body */
};

enum binlog_state {
    BINLOG_GONE = 0,
    BINLOG_READY = 1,
    BINLOG_RESERVED = 2,
    BINLOG_BURIED = 3,
    BINLOG_DELAYED = 4,
};

struct binlog_record {
    uint64_t id;
    struct bytes tube; /* borrowed; empty: a short record */
    enum binlog_state state;
    uint32_t priority;
    int64_t due_us; /* DELAYED; rounded up, so that nothing comes early */
    int64_t ttr_us;
    int64_t created_us;
    uint32_t body_len; /* without its CR LF; also of a short record, where none follows */
    uint32_t head_len; /* bytes before the body */
};

/* ERR_EMPTY: no file yet, only zeros; ERR_AGAIN: too few bytes; ERR_UNSUPPORTED: another
   version. */
enum err binlog_version(struct bytes in, uint32_t *out_version) MUST_USE;

/*
 * Decodes the record at the beginning of `in`; its body need not be in `in`. ERR_EMPTY: there are
 * no more records in this file. ERR_AGAIN: more bytes are needed, at most BINLOG_HEAD_MAX in all.
 * ERR_CORRUPT: not a record of beanstalkd.
 */
enum err binlog_decode(uint32_t version, struct bytes in,
                       struct binlog_record *out_record) MUST_USE;

/* True: the body in the file ends with CR LF. One torn by a power cut ends with zeros. */
bool binlog_body_whole(struct bytes body_and_end);

#endif
