/*
 * The places of the notes of failed attempts: for each job that has notes, the last JOB_NOTES_MAX,
 * by the job's number. 72 bytes a job and 8 to 22 in the hash table; nothing for jobs without
 * notes. The engine stores the texts. Single-threaded.
 */
#ifndef LATERD_CORE_NOTES_H
#define LATERD_CORE_NOTES_H

#include "base/map.h"
#include "base/pool.h"
#include "core/event.h"

struct job_notes {
    uint64_t seq;
    uint64_t where[JOB_NOTES_MAX]; /* [number % JOB_NOTES_MAX]; 0: there is none, or it is lost */
    int64_t last_us;
    uint16_t bytes[JOB_NOTES_MAX]; /* of the records there */
    uint16_t last_code;
    uint32_t last; /* number of the newest; 0: not in use */
};

struct notes {
    struct pool pool; // struct job_notes
    struct map by_seq;
};

void notes_init(struct notes *notes);
void notes_fini(struct notes *notes);
struct job_notes *notes_find(const struct notes *notes, uint64_t seq); /* or NULL */
/* The number of the oldest note that is kept. */
static inline uint32_t notes_oldest(const struct job_notes *of_job)
{
    return of_job->last > JOB_NOTES_MAX ? of_job->last - JOB_NOTES_MAX + 1 : 1;
}

#endif
