#include "base/err.h"

static const struct {
    const char *name;
    const char *text;
} errs[ERR_COUNT] = {
    [OK] = {"ok", "all is well"},
    [ERR_NOT_FOUND] = {"not_found", "no such job or topic"},
    [ERR_EXISTS] = {"exists", "a live job has this id"},
    [ERR_STALE_LEASE] = {"stale_lease", "another lease, or none, holds this job now"},
    [ERR_WRONG_STATE] = {"wrong_state", "the job's state does not allow this"},
    [ERR_EMPTY] = {"empty", "no job came within the wait"},
    [ERR_INVALID] = {"invalid", "the request is not valid"},
    [ERR_TOO_LARGE] = {"too_large", "the body is over limits.body_bytes"},
    [ERR_JOBS_LIMIT] = {"jobs_limit",
                        "limits.jobs, or on Redis a partition's share of it, is reached"},
    [ERR_TOPICS_LIMIT] =
        {"topics_limit",
         "limits.topics is reached, on Redis in this partition, and no topic is idle"},
    [ERR_WAITERS_LIMIT] = {"waiters_limit", "limits.waiters is reached"},
    [ERR_MEMORY_LIMIT] = {"memory_limit", "limits.memory_bytes, or maxmemory of Redis, is reached"},
    [ERR_DISK_LIMIT] = {"disk_limit", "store.max_bytes is reached"},
    [ERR_DISK_FULL] =
        {"disk_full",
         "the disk, or the limit of a file's size, leaves no room for new jobs: two more files of "
         "store.segment_bytes must fit"},
    [ERR_STORE_FAILED] = {"store_failed", "a disk write failed; restart laterd to recover"},
    [ERR_DRAINING] = {"draining", "the server is draining; try another one, or again later"},
    [ERR_DAMAGED] = {"damaged", "the stored body does not match its checksum"},
    [ERR_IO] = {"io", "the system refused an operation"},
    [ERR_CORRUPT] = {"corrupt", "a file is not what it must be"},
    [ERR_LOCKED] = {"locked", "another process holds the data directory"},
    [ERR_AGAIN] = {"again", "not now: where the jobs are kept there was no answer in time, or too "
                            "much to do; try again"},
    [ERR_VERSION] = {"version", "it was changed meanwhile: read it again, and send its version"},
    [ERR_UNSUPPORTED] = {"unsupported", "this engine cannot do that"},
    [ERR_PUSHED_TOPIC] = {"pushed_topic",
                          "the topic has a target: laterd sends its jobs there; to reserve them, "
                          "set the topic without a target"},
    [ERR_JOB_TARGET] = {"job_target", "a job may not bring a target of its own here"},
    [ERR_NOT_EMPTY] = {"not_empty", "the topic holds jobs"},
    [ERR_JOURNAL_DOWN] = {"journal_down",
                          "the journal's database is away, and journal.mode is before; try again"},
    [ERR_JOURNAL_BEHIND] = {"journal_behind",
                            "the journal's database is later than journal.max_lag; try again"},
    [ERR_NOT_LEADER] = {"not_leader", "this laterd waits for its turn to lead"},
    [ERR_RECOVERING] = {"recovering", "this laterd reads its store, and serves then; try again"},
};

const char *err_name(enum err err)
{
    return (unsigned)err < ERR_COUNT ? errs[err].name : "unknown";
}

const char *err_text(enum err err)
{
    return (unsigned)err < ERR_COUNT ? errs[err].text : "unknown error";
}
