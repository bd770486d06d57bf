/*
 * A beanstalkd binlog directory, read for import: first the state of every job (no bodies), then
 * one body after another. Owns the directory's lock from open to close, so that no beanstalkd
 * starts on it meanwhile; writes nothing there.
 *
 * Memory: about 150 bytes for each job that is live at one time, whatever its body.
 */
#ifndef LATERD_CLI_IMPORT_LOG_H
#define LATERD_CLI_IMPORT_LOG_H

#include "base/map.h"
#include "base/pool.h"
#include "proto/beanstalk/binlog.h"

struct import_tube {
    char *name;
    uint64_t jobs[BINLOG_DELAYED + 1]; /* live ones, by state; filled in when all is read */
};

struct import_job {
    uint64_t id;
    uint32_t tube;
    uint32_t priority;
    int64_t due_us; /* DELAYED: when; else when it was created */
    int64_t ttr_us;
    int64_t created_us;
    uint64_t body_at; /* in its file */
    uint32_t body_len;
    uint32_t file; /* index of import_log::files */
    enum binlog_state state;
};

struct import_log {
    void (*print_line)(void *ctx, const char *line); /* a damaged place, for people */
    void *ctx;
    const char *directory;
    int lock;        /* -1: the directory has no lock file */
    uint64_t *files; /* their numbers, ascending */
    uint32_t file_count;
    struct pool tubes;       // struct import_tube
    struct map by_name;      /* tubes */
    struct pool pool;        // struct import_job, while reading
    struct map by_id;        /* of the pool */
    struct import_job *jobs; /* the live ones, by id */
    uint32_t job_count;
    uint64_t bad;         /* damaged places */
    uint64_t bad_bytes;   /* that were skipped for them */
    uint32_t fingerprint; /* of the log: the same for a copy, and while nobody adds to it */
    int body_fd;          /* the file that the last body came from */
    uint32_t body_file;
};

/*
 * Locks and lists. `directory`, say and ctx are borrowed until close. ERR_LOCKED: a beanstalkd has
 * it. ERR_NOT_FOUND: no binlog there. ERR_IO: errno.
 */
enum err import_log_open(struct import_log *log, const char *directory) MUST_USE;
void import_log_close(struct import_log *log);

/* Reads all records, fills in jobs and tubes. Damage is reported, counted and skipped. */
enum err import_log_read(struct import_log *log) MUST_USE;

/* The tube of import_job::tube. Valid until close. */
const struct import_tube *import_log_tube(const struct import_log *log, uint32_t number);

/* The body in place of what `out` holds. ERR_CORRUPT: torn. ERR_IO: errno. */
enum err import_log_body(struct import_log *log, const struct import_job *job,
                         struct buf *out) MUST_USE;

#endif
