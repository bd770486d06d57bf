/*
 * The sending half of `later import`: jobs from wherever, pushed over /v1 in batches, each batch to
 * one topic. Every push says if_exists keep, so an import that stopped can be run again. Owns the
 * open batch, the map file and the counts.
 */
#ifndef LATERD_CLI_IMPORT_PUSH_H
#define LATERD_CLI_IMPORT_PUSH_H

#include "cli/bulk.h"
#include "proto/settings/job_properties.h"

/* All bytes are borrowed for the call, but the topic until the batch is sent. */
struct import_item {
    struct bytes topic;
    struct bytes old_id; /* what the old server called it, for messages and the map */
    struct bytes id;
    struct bytes body;
    int64_t due_us;
    int64_t ttr_us;
    uint32_t priority;
    const struct job_properties *labels; /* those it has are pushed; NULL: none */
    bool buried;                         /* then it has no due time */
    bool no_ttr;                         /* the server's default is meant */
    bool renamed, reserved, noted;       /* what is counted of it, if it is created */
    /* The whole push as JSON, with its end of line, instead of the labels, the other fields and the
       body; or empty. It must say if_exists keep. */
    struct bytes line;
};

struct import_push {
    struct cli *cli;
    const char *place; /* "tube" or "topic", for messages */
    bool old_numbers;  /* old ids are numbers, in JSON too */
    bool progress;     /* on standard error */
    uint64_t total;    /* for the progress; 0: unknown */
    uint64_t left_out; /* counted by the caller */
    uint64_t created, kept, refused;
    uint64_t renamed, reserved, noted; /* of those that were created */
    const char *map_path;              /* NULL: no map is wanted */
    FILE *map;
    struct bulk batch;
    struct buf old; /* the old ids of its jobs, one after another */
    size_t old_ends[BULK_LINES];
    struct import_mark {
        bool renamed, reserved, noted;
    } marks[BULK_LINES];
    struct bytes topic;
    bool refused_all; /* the server accepts no job at all now: the import ends */
};

/* All return exit codes; errors have been printed. */
int import_push_open(struct import_push *push); /* the map */
int import_push_add(struct import_push *push, const struct import_item *item);
int import_push_send(struct import_push *push); /* the open batch, though it is not full */
int import_push_close(struct import_push *push, int code); /* `code`, if all went well here */

/* "job 7 of tube mail: WHY" on standard error. */
void import_push_report(const struct import_push *push, struct bytes old_id, struct bytes topic,
                        struct bytes why);
void import_push_end_progress(const struct import_push *push);
/* "3000 imported, 0 there already, 0 refused" on standard output, which scripts read; `prefix`: of
 * the new ids, or "". */
void import_push_print_counts(const struct import_push *push, const char *prefix);
/* "3000 jobs; nothing was sent" instead, after a dry run: the number as there, without commas. */
void import_push_print_dry_run(uint64_t jobs, const char *prefix);

#endif
