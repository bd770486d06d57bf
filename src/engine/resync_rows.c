#include "engine/resync_rows.h"

#include <stdio.h>

#include "base/list.h"

enum { AGAIN_US = 1000 * 1000 }; /* after rows could not be read */

static void rows_came(struct restore_reader *reader)
{
    struct resync_rows *rows = LIST_ENTRY(reader, struct resync_rows, reader);
    rows->arrived = true;
    if (rows->came)
        rows->came(rows->owner);
}

void resync_rows_begin(struct resync_rows *rows, struct restore *restore, int64_t now_us,
                       struct resync_status *status)
{
    struct restore_query query = {.only_ids = true, .now_us = now_us};
    const char *why;
    if (now_us < rows->begin_us)
        return;
    rows->verbs = restore->verbs;
    rows->reader.arrived = rows_came;
    rows->arrived = false;
    status->rows = 0;
    if (rows->verbs->begin(restore, &query, &rows->reader, &rows->run, &why) != OK) {
        rows->run = NULL;
        rows->begin_us = now_us + AGAIN_US;
    }
}

bool resync_rows_arrived(const struct resync_rows *rows, struct resync_status *status)
{
    if (!rows->run || !rows->arrived)
        return false;
    status->rows_total = rows->verbs->expected ? rows->verbs->expected(rows->run) : 0;
    return true;
}

struct restore_row *resync_rows_take(struct resync_rows *rows, struct resync_status *status)
{
    struct restore_row *row = rows->verbs->take(rows->run);
    if (row)
        status->rows++;
    else
        rows->arrived = false;
    return row;
}

void resync_rows_settle(struct resync_rows *rows, struct restore_row *row)
{
    rows->verbs->settle(rows->run, row);
}

bool resync_rows_end(struct resync_rows *rows, int64_t now_us, struct resync_status *status)
{
    enum err err = OK;
    const char *why = "";
    if (!rows->verbs->ended(rows->run, &err, &why))
        return false;
    (void)snprintf(status->why, sizeof(status->why), "%s", err ? why : "");
    if (err) {
        status->rows = 0;
        resync_rows_restart(rows, now_us);
        return false;
    }
    resync_rows_close(rows);
    return true;
}

void resync_rows_restart(struct resync_rows *rows, int64_t now_us)
{
    resync_rows_close(rows);
    rows->begin_us = now_us + AGAIN_US;
}

void resync_rows_close(struct resync_rows *rows)
{
    if (rows->run)
        rows->verbs->close(rows->run);
    rows->run = NULL;
}
