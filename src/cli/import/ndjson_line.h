/*
 * A job as `later export` wrote it, as a push for another server: its members are copied as they
 * are, so that a body keeps every byte, or left out, or get another name. Pure.
 */
#ifndef LATERD_CLI_IMPORT_NDJSON_LINE_H
#define LATERD_CLI_IMPORT_NDJSON_LINE_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"

/* What a job's line says, for a push. */
struct ndjson_job {
    struct bytes topic, old_id, id; /* id: the new one */
    bool renamed;                   /* they differ */
    bool reserved;                  /* it was */
    bool noted;                     /* it has notes of failed attempts, which a push cannot bring */
};

/*
 * Appends the push of a job, an object of JSON, to out_line, with its end of line. `prefix`: of the
 * id of one whose id the old server made; NULL: the usual one. ERR_INVALID: it is no such job,
 * *out_why says why, nothing was appended. What it finds lies in `job` or `scratch`. O(length of
 * the job).
 */
enum err ndjson_push_line(struct bytes job, const char *prefix, struct arena *scratch,
                          struct buf *out_line, struct ndjson_job *out_job,
                          const char **out_why) MUST_USE;

#endif
