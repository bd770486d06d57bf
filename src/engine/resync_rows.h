/*
 * The unfinished rows of a journal, one after the other, for the resync of an engine, which
 * compares them with its jobs. If they cannot be read, it begins again with the first one a second
 * later. Zeroed: no query is under way. Single-threaded.
 */
#ifndef LATERD_ENGINE_RESYNC_ROWS_H
#define LATERD_ENGINE_RESYNC_ROWS_H

#include "port/journal_control.h"
#include "port/restore.h"

struct resync_rows {
    struct restore_reader reader;
    const struct restore_verbs *verbs; /* of `run` */
    struct restore_run *run;           /* NULL: no query is under way */
    bool arrived;                      /* there may be rows to take, or the query has ended */
    int64_t begin_us;                  /* the next query does not begin before */
    void (*came)(void *owner);         /* `arrived` was set; NULL: nobody is told */
    void *owner;
};

/* Begins the query, if it may begin yet and the journal takes it: `run` is set then. */
void resync_rows_begin(struct resync_rows *rows, struct restore *restore, int64_t now_us,
                       struct resync_status *status);
/* True: resync_rows_take() may have a row. Sets resync_status::rows_total. */
bool resync_rows_arrived(const struct resync_rows *rows, struct resync_status *status);
/* The next row, counted in resync_status::rows, to be given back by resync_rows_settle(). NULL:
   none now; resync_rows_end() says whether more come. */
struct restore_row *resync_rows_take(struct resync_rows *rows, struct resync_status *status);
void resync_rows_settle(struct resync_rows *rows, struct restore_row *row);
/* True: all rows were taken. Else more come; or, without a `run`, reading has failed, for the
   reason in resync_status::why, and resync_rows_begin() must follow. */
bool resync_rows_end(struct resync_rows *rows, int64_t now_us, struct resync_status *status);
/* All rows must be read once more, in a second. */
void resync_rows_restart(struct resync_rows *rows, int64_t now_us);
/* Ends the query, if one is under way. All rows must be settled. */
void resync_rows_close(struct resync_rows *rows);

#endif
