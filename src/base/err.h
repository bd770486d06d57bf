/*
 * The one error idiom: whatever can fail for a reason outside the program returns `enum err`,
 * outputs come last, are named `out_…`, and are written only on OK.
 */
#ifndef LATERD_BASE_ERR_H
#define LATERD_BASE_ERR_H

#include <stdbool.h>

#define MUST_USE __attribute__((warn_unused_result))

enum err {
    OK = 0,
    ERR_NOT_FOUND,      /* no such job or topic */
    ERR_EXISTS,         /* a live job has this id */
    ERR_STALE_LEASE,    /* the lease given is not the job's current lease */
    ERR_WRONG_STATE,    /* the job's state does not allow this move */
    ERR_EMPTY,          /* a reserve waited and no job came */
    ERR_INVALID,        /* bad input */
    ERR_TOO_LARGE,      /* body over the limit */
    ERR_JOBS_LIMIT,     /* limits.jobs reached */
    ERR_TOPICS_LIMIT,   /* limits.topics reached and none is idle */
    ERR_WAITERS_LIMIT,  /* limits.waiters reached */
    ERR_MEMORY_LIMIT,   /* limits.memory reached */
    ERR_DISK_LIMIT,     /* store.max_bytes reached */
    ERR_DISK_FULL,      /* the file system has no room */
    ERR_STORE_FAILED,   /* a write or fsync failed: nothing is acknowledged until restart */
    ERR_DRAINING,       /* the server drains: it takes no new jobs, and no consumer waits */
    ERR_DAMAGED,        /* a stored body's checksum does not match */
    ERR_IO,             /* a system call failed; errno says why */
    ERR_CORRUPT,        /* a file is damaged, or not of the expected format */
    ERR_LOCKED,         /* another process holds the directory */
    ERR_AGAIN,          /* not now; nothing is wrong */
    ERR_VERSION,        /* the settings were changed meanwhile: not the version given */
    ERR_UNSUPPORTED,    /* this engine cannot do that */
    ERR_PUSHED_TOPIC,   /* the topic has a target: clients cannot reserve its jobs */
    ERR_JOB_TARGET,     /* jobs may not have targets of their own in this topic */
    ERR_NOT_EMPTY,      /* the topic holds jobs */
    ERR_JOURNAL_DOWN,   /* replies wait for the journal, and it writes nothing now */
    ERR_JOURNAL_BEHIND, /* the journal lags by more than journal.max_lag */
    ERR_NOT_LEADER,     /* this laterd is a standby: another one leads, or none does */
    ERR_RECOVERING,     /* this laterd still reads its store; it serves afterwards */
    ERR_COUNT
};

/* True: the command's lease has ended for good. After other errors it may be as good as before. */
static inline bool err_ends_lease(enum err err)
{
    return err == ERR_STALE_LEASE || err == ERR_NOT_FOUND || err == ERR_WRONG_STATE;
}

/* A stable lower-case word for programs ("stale_lease"), never NULL. */
const char *err_name(enum err err);

/* One English sentence without a full stop, for people. */
const char *err_text(enum err err);

#endif
