/*
 *     begins ─▶ jobs, bucket by bucket, of all partitions ─▶ unfinished rows ─▶ caught up ─▶ ends
 *
 * Why it is exact: the script that looks a job up makes its entry (or the entry that it does not
 * exist) in the same atomic step, in order with the entries of changes. After that entry MySQL has
 * the job as the queue had it at that moment, and later entries change it further. Each job that
 * exists during the whole resync gets an entry; one that is pushed meanwhile has its own. A row
 * that is unfinished when rows are read, and whose job does not exist when it is looked up, is
 * wrong, or will be ended by an entry that is under way.
 *
 * An HSCAN cursor is only valid on one server. So a partition that was opened again, perhaps on
 * another server, is scanned from its beginning.
 *
 * Invariants: at most one call to each partition is under way. Calls of an earlier resync are
 * recognized by `run`, and their answers ignored.
 */
#include "engine/redis/journal_resync.h"

#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/redis/journal_feed.h"
#include "store/format.h"

enum {
    FIELDS = 400,                   /* fields of buckets that one call scans */
    IDS_MAX = 64,                   /* rows whose jobs one call looks up */
    LOOKS_MAX = 256,                /* look-ups by number under way at once */
    ROWS_AT_ONCE = 512,             /* taken at a look */
    WAITING_MOST = 2 * 1024 * 1024, /* bytes of entries of a partition, or a share of max_lag */
    ROOM_PARTS = 4,
    AGAIN_US = 100 * 1000, /* after a call that failed, or while no more entries may be made */
    SILENT_US = 60 * 1000 * 1000, /* without a journal in a partition: then the resync fails */
    ROWS_AGAIN_US = 1000 * 1000,
    LOG_US = 10 * 1000 * 1000,
    PLACE_BYTES = 48,
};

enum step {
    STEP_NONE,
    STEP_REJOINS, /* the journal was stopped: waits until it is opened again */
    STEP_BEGINS,  /* waits until its cursor is known */
    STEP_JOBS,
    STEP_ROWS,
    STEP_DRAINS, /* all entries are made; waits until MySQL has them */
    STEP_ENDS,
};

struct resync_stream {
    struct redis_resync *owner;
    uint32_t partition;
    uint64_t run;   /* of the call under way */
    bool pending;   /* one is */
    bool done;      /* all its jobs have entries */
    bool asks_rows; /* the call is of rows */
    char place[PLACE_BYTES];
    int64_t opened_us; /* partition::opened_us when it was begun */
    int64_t not_before_us;
    int64_t failing_us; /* when the call under way was sent, … */
    bool failing;       /* … or, if those before it have failed, the first of these */
    uint64_t target;    /* its last entry */
    struct buf ids;     /* bytes of ids to look for, … */
    struct buf lengths; // uint32_t: … and their lengths
    uint32_t call_ids;  /* of the call */
};

struct redis_resync {
    struct redis_journal_feed *feed;
    struct resync_stream *streams; /* NULL: never begun */
    enum step step;
    uint64_t run; /* grows with each */
    struct resync_status status;
    struct restore_reader reader;
    const struct restore_verbs *rows; /* of: */
    struct restore_run *rows_run;     /* NULL: not reading rows */
    bool arrived;
    bool rows_read; /* all are taken */
    int64_t rows_us;
    uint32_t looks;   /* under way */
    uint64_t resyncs; /* journal_status::resyncs when it began */
    int64_t logged_us;
    char why[240];
};

/* The look-up of a row's job by its number. */
struct number_look {
    struct redis_resync *owner;
    uint64_t run;
    size_t id_len;
    char id[];
};

static int64_t now_of(const struct redis_resync *all)
{
    return all->feed->options.loop->now_us;
}

static uint32_t count_of(const struct redis_resync *all)
{
    return all->feed->options.space->partitions;
}

static void log_counts(struct redis_resync *all, enum log_level level, const char *event)
{
    const struct resync_status *status = &all->status;
    all->logged_us = now_of(all);
    log_event(level, event, "jobs=%llu of=%llu rows=%llu closed=%llu ms=%lld%s%s%s",
              (unsigned long long)status->jobs, (unsigned long long)status->jobs_total,
              (unsigned long long)status->rows, (unsigned long long)status->closed,
              (long long)((now_of(all) - status->begun_us) / 1000), status->why[0] ? " why=\"" : "",
              status->why, status->why[0] ? "\"" : "");
}

/* ---- its end ---- */

static void close_rows(struct redis_resync *all)
{
    if (all->rows_run)
        all->rows->close(all->rows_run);
    all->rows_run = NULL;
}

static void drop_all(struct redis_resync *all)
{
    close_rows(all);
    all->run++; /* late answers will be ignored */
    all->looks = 0;
    for (uint32_t i = 0; i < count_of(all); i++) {
        buf_fini(&all->streams[i].ids);
        buf_fini(&all->streams[i].lengths);
    }
    all->step = STEP_NONE;
    all->status.ended_us = now_of(all);
}

static void fail(struct redis_resync *all, const char *why)
{
    (void)snprintf(all->status.why, sizeof(all->status.why), "%s", why);
    all->status.state = RESYNC_FAILED;
    drop_all(all);
    log_counts(all, LOG_ERROR, "journal_resync_failed");
}

/* ---- calls of a partition ---- */

static const struct partition *partition_of(const struct resync_stream *stream)
{
    return &stream->owner->feed->options.calls->partitions[stream->partition];
}

static void from_start(struct resync_stream *stream)
{
    stream->done = false;
    stream->place[0] = '0';
    stream->place[1] = '\0';
    stream->opened_us = partition_of(stream)->opened_us;
}

static uint32_t ids_waiting(const struct resync_stream *stream)
{
    return (uint32_t)(stream->lengths.len / sizeof(uint32_t));
}

static void drop_front(struct buf *buf, size_t bytes)
{
    if (!bytes)
        return;
    memmove(buf->at, buf->at + bytes, buf->len - bytes);
    buf->len -= bytes;
}

static void jobs_entered(struct resync_stream *stream, const struct script_answer *answer,
                         struct bytes place)
{
    struct redis_resync *all = stream->owner;
    all->status.jobs += answer->count;
    if (partition_of(stream)->opened_us != stream->opened_us) {
        from_start(stream);
        return;
    }
    stream->done = !answer->more;
    if (place.len < PLACE_BYTES) {
        memcpy(stream->place, place.at, place.len);
        stream->place[place.len] = '\0';
    }
    if (!answer->count) /* MySQL must catch up first, or the buckets are nearly empty */
        stream->not_before_us =
            all->feed->options.loop->now_us + (answer->more ? AGAIN_US / 10 : 0);
}

static void rows_entered(struct resync_stream *stream, const struct script_answer *answer,
                         uint64_t looked)
{
    struct redis_resync *all = stream->owner;
    size_t bytes = 0;
    if (looked > stream->call_ids)
        return;
    for (size_t i = 0; i < looked; i++) {
        uint32_t len;
        memcpy(&len, stream->lengths.at + i * sizeof(len), sizeof(len));
        bytes += len;
    }
    drop_front(&stream->ids, bytes);
    drop_front(&stream->lengths, (size_t)looked * sizeof(uint32_t));
    all->status.closed += answer->count;
    if (answer->more)
        stream->not_before_us = now_of(all) + AGAIN_US;
}

static void step_stream(struct resync_stream *stream);

static void answered(void *owner, struct script_request *request, enum err err,
                     const struct bytes *parts, uint32_t count)
{
    struct resync_stream *stream = owner;
    struct redis_resync *all = stream->owner;
    struct script_answer answer;
    struct script_parts received = {.partition = stream->partition, .at = parts, .count = count};
    (void)request;
    stream->pending = false;
    if (stream->run != all->run)
        return;
    if (!err)
        err = script_read_answer(all->feed->options.space, &received, &answer);
    if (!err)
        err = answer.err;
    int state = err ? 0 : (int)answer.state; /* no job's */
    if (err || state != 1 || count < 2) {
        stream->not_before_us = now_of(all) + AGAIN_US;
        stream->failing = true;
        if (now_of(all) - stream->failing_us > SILENT_US)
            fail(all, err ? "Redis does not answer, or moves a slot"
                          : "there is no journal in Redis: it was given up");
        return;
    }
    stream->failing = false;
    stream->target = answer.seq;
    if (stream->asks_rows)
        rows_entered(stream, &answer, script_resync_looked(parts, count));
    else
        jobs_entered(stream, &answer, parts[1]);
    step_stream(stream);
}

static void ask(struct resync_stream *stream, bool of_rows)
{
    const struct journal_feed_options *options = &stream->owner->feed->options;
    struct bytes ids[IDS_MAX];
    uint64_t share = script_journal_share(options->space) / ROOM_PARTS;
    struct script_resync resync = {
        .from = bytes_str(stream->place),
        .fields = FIELDS,
        .waiting_most = share && share < WAITING_MOST ? share : WAITING_MOST,
        .ids = of_rows ? ids : NULL,
    };
    size_t at = 0;
    while (of_rows && resync.id_count < ids_waiting(stream) && resync.id_count < IDS_MAX) {
        uint32_t len;
        memcpy(&len, stream->lengths.at + resync.id_count * sizeof(len), sizeof(len));
        ids[resync.id_count++] = bytes_of(stream->ids.at + at, len);
        at += len;
    }
    stream->call_ids = resync.id_count;
    stream->asks_rows = of_rows;
    stream->run = stream->owner->run;
    stream->pending = true;
    if (!stream->failing)
        stream->failing_us = now_of(stream->owner);
    struct script_request *call = script_requests_new_unkept(options->calls, stream->partition);
    script_encode_resync(&call->request, options->space, &call->id, &resync);
    script_requests_send(call, stream, answered);
}

static void step_stream(struct resync_stream *stream)
{
    struct redis_resync *all = stream->owner;
    if (stream->pending || now_of(all) < stream->not_before_us)
        return;
    if (all->step == STEP_JOBS && !stream->done)
        ask(stream, false);
    else if (all->step == STEP_ROWS && ids_waiting(stream))
        ask(stream, true);
}

/* ---- rows ---- */

static void rows_arrived(struct restore_reader *reader)
{
    LIST_ENTRY(reader, struct redis_resync, reader)->arrived = true; /* the feed looks soon */
}

/* Adds an id to look up, in the id's partition. */
static void want_id(struct redis_resync *all, struct bytes id)
{
    struct cmd cmd = {.kind = CMD_GET, .job.ref.id = id};
    uint32_t partition = 0, len = (uint32_t)id.len;
    enum err ignored;
    if (script_route(all->feed->options.space, &cmd, &partition, &ignored) != SCRIPT_ONE)
        return; /* no job can have this id */
    buf_add_bytes(&all->streams[partition].ids, id);
    buf_add(&all->streams[partition].lengths, &len, sizeof(len));
}

static void number_looked(void *owner, struct script_request *request, enum err err,
                          const struct bytes *parts, uint32_t count)
{
    struct number_look *look = owner;
    struct redis_resync *all = look->owner;
    struct script_answer answer;
    struct script_parts received = {
        .partition = request->id.partition, .at = parts, .count = count};
    if (look->run == all->run) {
        all->looks--;
        if (!err)
            err = script_read_answer(all->feed->options.space, &received, &answer);
        if (!err)
            err = answer.err;
        if (err) /* then all rows are read again */
            all->rows_us = INT64_MAX;
        else if (!answer.state)
            want_id(all, bytes_of(look->id, look->id_len));
    }
    mem_free(look);
}

static void look_for_number(struct redis_resync *all, uint64_t seq, struct bytes id)
{
    const struct journal_feed_options *options = &all->feed->options;
    struct script_request *call =
        script_requests_new_unkept(options->calls, (uint32_t)(seq % options->space->partitions));
    struct script_restore restore = {.step = SCRIPT_RESTORE_LOOK, .seq = seq};
    struct number_look *look = mem_alloc(sizeof(*look) + id.len);
    *look = (struct number_look){.owner = all, .run = all->run, .id_len = id.len};
    memcpy(look->id, id.at, id.len);
    all->looks++;
    script_encode_restore(&call->request, options->space, &call->id, &restore);
    script_requests_send(call, look, number_looked);
}

static void begin_rows(struct redis_resync *all)
{
    struct journal *journal = all->feed->journal;
    struct restore *restore = journal->verbs->restore(journal);
    struct restore_query query = {.only_ids = true, .now_us = now_of(all)};
    const char *why;
    if (now_of(all) < all->rows_us)
        return;
    all->rows = restore->verbs;
    all->reader.arrived = rows_arrived;
    all->arrived = all->rows_read = false;
    all->status.rows = 0;
    if (all->rows->begin(restore, &query, &all->reader, &all->rows_run, &why) != OK) {
        all->rows_run = NULL;
        all->rows_us = now_of(all) + ROWS_AGAIN_US;
    }
}

static bool has_room_for_rows(const struct redis_resync *all)
{
    bool room = all->looks < LOOKS_MAX;
    for (uint32_t i = 0; i < count_of(all); i++)
        room = room && ids_waiting(&all->streams[i]) < 4 * IDS_MAX;
    return room;
}

static void end_rows(struct redis_resync *all)
{
    enum err err = OK;
    const char *why = "";
    if (!all->rows->ended(all->rows_run, &err, &why))
        return;
    all->rows_read = !err;
    all->status.why[0] = '\0';
    if (err) {
        (void)snprintf(all->status.why, sizeof(all->status.why), "%s", why);
        all->rows_us = now_of(all) + ROWS_AGAIN_US;
    }
    close_rows(all);
}

static void take_rows(struct redis_resync *all)
{
    struct restore_row *row = NULL;
    all->status.rows_total = all->rows->expected ? all->rows->expected(all->rows_run) : 0;
    for (unsigned i = 0; i < ROWS_AT_ONCE && has_room_for_rows(all); i++) {
        row = all->rows->take(all->rows_run);
        if (!row) {
            all->arrived = false;
            end_rows(all);
            return;
        }
        struct bytes id = row->push.id;
        all->status.rows++;
        if (row->seq)
            look_for_number(all, row->seq, id);
        else if (id.len && id.len <= JOB_ID_MAX)
            want_id(all, id);
        all->rows->settle(all->rows_run, row);
    }
}

static bool rows_are_done(const struct redis_resync *all)
{
    bool done = all->rows_read && !all->looks;
    for (uint32_t i = 0; i < count_of(all); i++)
        done = done && !ids_waiting(&all->streams[i]) && !all->streams[i].pending;
    return done;
}

static void step_rows(struct redis_resync *all)
{
    if (all->rows_us == INT64_MAX && !all->looks) { /* a look-up was not answered */
        close_rows(all);
        all->rows_read = false;
        all->rows_us = now_of(all) + ROWS_AGAIN_US;
    }
    if (all->rows_us != INT64_MAX && !all->rows_run && !all->rows_read)
        begin_rows(all);
    else if (all->rows_run && all->arrived)
        take_rows(all);
    if (rows_are_done(all) && all->rows_us != INT64_MAX)
        all->step = STEP_DRAINS;
}

/* ---- its steps ---- */

static void give_mark(struct redis_resync *all, enum journal_batch_kind kind)
{
    struct redis_journal_feed *feed = all->feed;
    struct journal_batch *batch = mem_zalloc(sizeof(*batch) + BATCH_HEAD);
    batch->kind = kind;
    batch->number = feed->number + 1;
    batch->clock_us = now_of(all);
    batch->bytes = BATCH_HEAD;
    feed->held_bytes += batch->bytes;
    feed->journal->verbs->give(feed->journal, batch);
}

static void begin_jobs(struct redis_resync *all)
{
    for (uint32_t i = 0; i < count_of(all); i++) {
        struct resync_stream *stream = &all->streams[i];
        from_start(stream);
        stream->not_before_us = 0;
        stream->failing = false;
        stream->target = 0;
    }
    all->rows_us = 0;
    all->rows_read = false;
    all->resyncs = all->feed->status.resyncs;
    all->status.why[0] = '\0';
    all->step = STEP_JOBS;
    give_mark(all, JOURNAL_RESYNC_BEGINS);
    log_event(LOG_INFO, "journal_resync_begins", "partitions=%u", count_of(all));
}

static void step_jobs(struct redis_resync *all)
{
    bool done = true;
    for (uint32_t i = 0; i < count_of(all); i++)
        done = done && all->streams[i].done;
    if (done)
        all->step = STEP_ROWS;
}

static bool is_caught_up(const struct redis_resync *all)
{
    bool there = all->feed->joined;
    for (uint32_t i = 0; i < count_of(all); i++)
        there = there && redis_journal_has(all->feed, i) >= all->streams[i].target;
    return there;
}

static void end(struct redis_resync *all)
{
    if (all->step == STEP_DRAINS && is_caught_up(all)) {
        give_mark(all, JOURNAL_RESYNC_ENDS);
        all->step = STEP_ENDS;
    }
    if (all->step != STEP_ENDS || all->feed->status.resyncs == all->resyncs)
        return;
    all->status.state = RESYNC_DONE;
    drop_all(all);
    log_counts(all, LOG_INFO, "journal_resynced");
}

void redis_resync_look(struct redis_resync *all)
{
    struct redis_journal_feed *feed = all->feed;
    if (all->step == STEP_NONE)
        return;
    bool opens = all->step == STEP_REJOINS || all->step == STEP_BEGINS;
    if (opens && !feed->journal && !redis_journal_leads(feed)) {
        fail(all, "this laterd no longer writes the journal: ask the one that does");
        return;
    }
    if (feed->broken && all->step != STEP_REJOINS) {
        fail(all, "the journal and Redis are out of step again: later journal status says why");
        return;
    }
    if (!feed->journal)
        return; /* it is being opened */
    if (all->step == STEP_BEGINS && feed->joined)
        begin_jobs(all);
    if (all->step == STEP_JOBS)
        step_jobs(all);
    if (all->step == STEP_ROWS)
        step_rows(all);
    for (uint32_t i = 0; i < count_of(all) && all->step != STEP_NONE; i++)
        step_stream(&all->streams[i]);
    end(all);
    if (all->step != STEP_NONE && now_of(all) - all->logged_us >= LOG_US)
        log_counts(all, LOG_INFO, "journal_resyncing");
}

static void start(struct redis_resync *all, enum step step)
{
    uint32_t count = count_of(all);
    if (!all->streams) {
        all->streams = mem_zalloc(count * sizeof(*all->streams));
        for (uint32_t i = 0; i < count; i++)
            all->streams[i] = (struct resync_stream){.owner = all, .partition = i};
    }
    all->run++;
    all->status = (struct resync_status){.state = RESYNC_RUNS, .begun_us = now_of(all)};
    all->logged_us = now_of(all);
    all->step = step;
}

void redis_resync_joined(struct redis_resync *all)
{
    if (all->step == STEP_REJOINS) {
        all->step = STEP_BEGINS;
    } else if (all->step == STEP_NONE && all->feed->status.resyncing) {
        log_event(LOG_INFO, "journal_resync_goes_on",
                  "hint=\"the last one was not ended: it begins again\"");
        start(all, STEP_BEGINS);
    }
}

/* Not all of its entries are in MySQL: the resync begins again with the next journal. */
static void begin_again(struct redis_resync *all)
{
    int64_t begun_us = all->status.begun_us;
    drop_all(all);
    start(all, STEP_BEGINS);
    all->status.begun_us = begun_us;
    (void)snprintf(all->status.why, sizeof(all->status.why),
                   "another laterd had taken MySQL's cursor: it begins again");
}

void redis_resync_closed(struct redis_resync *all, bool opens_again)
{
    if (all->step == STEP_NONE || all->step == STEP_REJOINS)
        return;
    if (opens_again)
        begin_again(all);
    else
        fail(all,
             "this laterd no longer writes the journal: the one that does continues the resync");
}

bool redis_resync_is_running(const struct redis_resync *all)
{
    return all->step != STEP_NONE;
}

bool redis_resync_wants(const struct redis_resync *all)
{
    return all->step == STEP_REJOINS;
}

/* ---- journal_control_verbs ---- */

enum err redis_resync_begin(struct redis_resync *all, const char **out_why)
{
    struct redis_journal_feed *feed = all->feed;
    *out_why = all->why;
    if (all->step != STEP_NONE) {
        *out_why = "a resync is under way";
        return ERR_EXISTS;
    }
    if (!redis_journal_leads(feed) && feed->leader[0]) {
        (void)snprintf(all->why, sizeof(all->why),
                       "this laterd does not write the journal: ask the one that does, %.100s "
                       "(its laterd_journal_leads is 1)",
                       feed->leader);
        return ERR_NOT_LEADER;
    }
    if (!redis_journal_leads(feed) || !feed->journal || (!feed->joined && !feed->broken)) {
        (void)snprintf(all->why, sizeof(all->why),
                       "the journal has not been able to write to MySQL yet%s%.150s",
                       feed->status.why[0] ? ": " : "", feed->status.why);
        return ERR_AGAIN;
    }
    start(all, feed->broken ? STEP_REJOINS : STEP_BEGINS);
    if (feed->broken)
        redis_journal_reopen(feed);
    return OK;
}

static enum resync_step step_of(const struct redis_resync *all)
{
    switch (all->step) {
    case STEP_JOBS: return RESYNC_STEP_JOBS;
    case STEP_ROWS: return RESYNC_STEP_ROWS;
    case STEP_DRAINS:
    case STEP_ENDS: return RESYNC_STEP_COMMITS;
    case STEP_NONE:
    case STEP_REJOINS:
    case STEP_BEGINS: break;
    }
    return RESYNC_STEP_WAITS;
}

void redis_resync_status(const struct redis_resync *all, struct resync_status *out_status)
{
    *out_status = all->status;
    out_status->step = step_of(all);
}

struct redis_resync *redis_resync_new(struct redis_journal_feed *feed)
{
    struct redis_resync *all = mem_zalloc(sizeof(*all));
    all->feed = feed;
    return all;
}

void redis_resync_free(struct redis_resync *all)
{
    if (!all)
        return;
    CHECK(!all->rows_run); /* the journal was closed before */
    for (uint32_t i = 0; all->streams && i < count_of(all); i++) {
        buf_fini(&all->streams[i].ids);
        buf_fini(&all->streams[i].lengths);
    }
    mem_free(all->streams);
    mem_free(all);
}

void redis_resync_describe(const struct redis_resync *all, struct metric_sink *sink)
{
    resync_describe(&all->status, sink);
}
