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
#include "engine/resync_rows.h"
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
    struct resync_rows rows;
    bool rows_read;   /* all are taken */
    bool look_failed; /* of a row: then all rows are read again */
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

static int64_t now_of(const struct redis_resync *resync)
{
    return resync->feed->options.loop->now_us;
}

static uint32_t count_of(const struct redis_resync *resync)
{
    return resync->feed->options.space->partitions;
}

static void log_counts(struct redis_resync *resync, enum log_level level, const char *event)
{
    const struct resync_status *status = &resync->status;
    resync->logged_us = now_of(resync);
    log_event(level, event, "jobs=%llu of=%llu rows=%llu closed=%llu ms=%lld%s%s%s",
              (unsigned long long)status->jobs, (unsigned long long)status->jobs_total,
              (unsigned long long)status->rows, (unsigned long long)status->closed,
              (long long)((now_of(resync) - status->begun_us) / 1000),
              status->why[0] ? " why=\"" : "", status->why, status->why[0] ? "\"" : "");
}

/* ---- its end ---- */

static void drop_all(struct redis_resync *resync)
{
    resync_rows_close(&resync->rows);
    resync->run++; /* late answers will be ignored */
    resync->looks = 0;
    for (uint32_t i = 0; i < count_of(resync); i++) {
        buf_fini(&resync->streams[i].ids);
        buf_fini(&resync->streams[i].lengths);
    }
    resync->step = STEP_NONE;
    resync->status.ended_us = now_of(resync);
}

static void fail(struct redis_resync *resync, const char *why)
{
    (void)snprintf(resync->status.why, sizeof(resync->status.why), "%s", why);
    resync->status.state = RESYNC_FAILED;
    drop_all(resync);
    log_counts(resync, LOG_ERROR, "journal_resync_failed");
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

static void jobs_entered(struct resync_stream *stream, const struct script_answer *answer,
                         struct bytes place)
{
    struct redis_resync *resync = stream->owner;
    resync->status.jobs += answer->count;
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
            resync->feed->options.loop->now_us + (answer->more ? AGAIN_US / 10 : 0);
}

static void rows_entered(struct resync_stream *stream, const struct script_answer *answer,
                         uint64_t looked)
{
    struct redis_resync *resync = stream->owner;
    size_t bytes = 0;
    if (looked > stream->call_ids)
        return;
    for (size_t i = 0; i < looked; i++) {
        uint32_t len;
        memcpy(&len, stream->lengths.at + i * sizeof(len), sizeof(len));
        bytes += len;
    }
    buf_drop(&stream->ids, bytes);
    buf_drop(&stream->lengths, (size_t)looked * sizeof(uint32_t));
    resync->status.closed += answer->count;
    if (answer->more)
        stream->not_before_us = now_of(resync) + AGAIN_US;
}

static void step_stream(struct resync_stream *stream);

static void answered(void *owner, struct script_request *request, enum err err,
                     const struct bytes *parts, uint32_t count)
{
    struct resync_stream *stream = owner;
    struct redis_resync *resync = stream->owner;
    struct script_answer answer;
    struct script_parts received = {.partition = stream->partition, .at = parts, .count = count};
    (void)request;
    stream->pending = false;
    if (stream->run != resync->run)
        return;
    if (!err)
        err = script_read_answer(resync->feed->options.space, &received, &answer);
    if (!err)
        err = answer.err;
    int state = err ? 0 : (int)answer.state; /* no job's */
    if (err || state != 1 || count < 2) {
        stream->not_before_us = now_of(resync) + AGAIN_US;
        stream->failing = true;
        if (now_of(resync) - stream->failing_us > SILENT_US)
            fail(resync, err ? "Redis does not answer, or moves a slot"
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
    struct script_resync args = {
        .from = bytes_str(stream->place),
        .fields = FIELDS,
        .waiting_most = share && share < WAITING_MOST ? share : WAITING_MOST,
        .ids = of_rows ? ids : NULL,
    };
    size_t at = 0;
    while (of_rows && args.id_count < ids_waiting(stream) && args.id_count < IDS_MAX) {
        uint32_t len;
        memcpy(&len, stream->lengths.at + args.id_count * sizeof(len), sizeof(len));
        ids[args.id_count++] = bytes_of(stream->ids.at + at, len);
        at += len;
    }
    stream->call_ids = args.id_count;
    stream->asks_rows = of_rows;
    stream->run = stream->owner->run;
    stream->pending = true;
    if (!stream->failing)
        stream->failing_us = now_of(stream->owner);
    struct script_request *call = script_requests_new_unkept(options->calls, stream->partition);
    script_encode_resync(&call->request, options->space, &call->id, &args);
    script_requests_send(call, stream, answered);
}

static void step_stream(struct resync_stream *stream)
{
    struct redis_resync *resync = stream->owner;
    if (stream->pending || now_of(resync) < stream->not_before_us)
        return;
    if (resync->step == STEP_JOBS && !stream->done)
        ask(stream, false);
    else if (resync->step == STEP_ROWS && ids_waiting(stream))
        ask(stream, true);
}

/* ---- rows ---- */

/* Adds an id to look up, in the id's partition. */
static void want_id(struct redis_resync *resync, struct bytes id)
{
    struct cmd cmd = {.kind = CMD_GET, .job.ref.id = id};
    uint32_t partition = 0, len = (uint32_t)id.len;
    enum err ignored;
    if (script_route(resync->feed->options.space, &cmd, &partition, &ignored) != SCRIPT_ONE)
        return; /* no job can have this id */
    buf_add_bytes(&resync->streams[partition].ids, id);
    buf_add(&resync->streams[partition].lengths, &len, sizeof(len));
}

static void number_looked(void *owner, struct script_request *request, enum err err,
                          const struct bytes *parts, uint32_t count)
{
    struct number_look *look = owner;
    struct redis_resync *resync = look->owner;
    struct script_answer answer;
    struct script_parts received = {
        .partition = request->id.partition, .at = parts, .count = count};
    if (look->run == resync->run) {
        resync->looks--;
        if (!err)
            err = script_read_answer(resync->feed->options.space, &received, &answer);
        if (!err)
            err = answer.err;
        if (err)
            resync->look_failed = true;
        else if (!answer.state)
            want_id(resync, bytes_of(look->id, look->id_len));
    }
    mem_free(look);
}

static void look_for_number(struct redis_resync *resync, uint64_t seq, struct bytes id)
{
    const struct journal_feed_options *options = &resync->feed->options;
    struct script_request *call =
        script_requests_new_unkept(options->calls, (uint32_t)(seq % options->space->partitions));
    struct script_restore restore = {.step = SCRIPT_RESTORE_LOOK, .seq = seq};
    struct number_look *look = mem_alloc(sizeof(*look) + id.len);
    *look = (struct number_look){.owner = resync, .run = resync->run, .id_len = id.len};
    memcpy(look->id, id.at, id.len);
    resync->looks++;
    script_encode_restore(&call->request, options->space, &call->id, &restore);
    script_requests_send(call, look, number_looked);
}

static bool has_room_for_rows(const struct redis_resync *resync)
{
    bool room = resync->looks < LOOKS_MAX;
    for (uint32_t i = 0; i < count_of(resync); i++)
        room = room && ids_waiting(&resync->streams[i]) < 4 * IDS_MAX;
    return room;
}

static void take_rows(struct redis_resync *resync)
{
    for (unsigned i = 0; i < ROWS_AT_ONCE && has_room_for_rows(resync); i++) {
        struct restore_row *row = resync_rows_take(&resync->rows, &resync->status);
        if (!row) {
            resync->rows_read = resync_rows_end(&resync->rows, now_of(resync), &resync->status);
            return;
        }
        struct bytes id = row->push.id;
        if (row->seq)
            look_for_number(resync, row->seq, id);
        else if (id.len && id.len <= JOB_ID_MAX)
            want_id(resync, id);
        resync_rows_settle(&resync->rows, row);
    }
}

static bool rows_are_done(const struct redis_resync *resync)
{
    bool done = resync->rows_read && !resync->looks;
    for (uint32_t i = 0; i < count_of(resync); i++)
        done = done && !ids_waiting(&resync->streams[i]) && !resync->streams[i].pending;
    return done;
}

static void step_rows(struct redis_resync *resync)
{
    struct journal *journal = resync->feed->journal;
    if (resync->look_failed && !resync->looks) {
        resync_rows_restart(&resync->rows, now_of(resync));
        resync->rows_read = resync->look_failed = false;
    }
    if (!resync->look_failed && !resync->rows.run && !resync->rows_read)
        resync_rows_begin(&resync->rows, journal->verbs->restore(journal), now_of(resync),
                          &resync->status);
    else if (resync_rows_arrived(&resync->rows, &resync->status)) /* the feed looks soon */
        take_rows(resync);
    if (rows_are_done(resync) && !resync->look_failed)
        resync->step = STEP_DRAINS;
}

/* ---- its steps ---- */

static void give_mark(struct redis_resync *resync, enum journal_batch_kind kind)
{
    struct redis_journal_feed *feed = resync->feed;
    struct journal_batch *batch = mem_zalloc(sizeof(*batch) + BATCH_HEAD);
    batch->kind = kind;
    batch->number = feed->number + 1;
    batch->clock_us = now_of(resync);
    batch->bytes = BATCH_HEAD;
    feed->held_bytes += batch->bytes;
    feed->journal->verbs->give(feed->journal, batch);
}

static void begin_jobs(struct redis_resync *resync)
{
    for (uint32_t i = 0; i < count_of(resync); i++) {
        struct resync_stream *stream = &resync->streams[i];
        from_start(stream);
        stream->not_before_us = 0;
        stream->failing = false;
        stream->target = 0;
    }
    resync->rows.begin_us = 0;
    resync->rows_read = resync->look_failed = false;
    resync->resyncs = resync->feed->status.resyncs;
    resync->status.why[0] = '\0';
    resync->step = STEP_JOBS;
    give_mark(resync, JOURNAL_RESYNC_BEGINS);
    log_event(LOG_INFO, "journal_resync_begins", "partitions=%u", count_of(resync));
}

static void step_jobs(struct redis_resync *resync)
{
    bool done = true;
    for (uint32_t i = 0; i < count_of(resync); i++)
        done = done && resync->streams[i].done;
    if (done)
        resync->step = STEP_ROWS;
}

static bool is_caught_up(const struct redis_resync *resync)
{
    bool there = resync->feed->joined;
    for (uint32_t i = 0; i < count_of(resync); i++)
        there = there && redis_journal_has(resync->feed, i) >= resync->streams[i].target;
    return there;
}

static void end(struct redis_resync *resync)
{
    if (resync->step == STEP_DRAINS && is_caught_up(resync)) {
        give_mark(resync, JOURNAL_RESYNC_ENDS);
        resync->step = STEP_ENDS;
    }
    if (resync->step != STEP_ENDS || resync->feed->status.resyncs == resync->resyncs)
        return;
    resync->status.state = RESYNC_DONE;
    drop_all(resync);
    log_counts(resync, LOG_INFO, "journal_resynced");
}

void redis_resync_look(struct redis_resync *resync)
{
    struct redis_journal_feed *feed = resync->feed;
    if (resync->step == STEP_NONE)
        return;
    bool opens = resync->step == STEP_REJOINS || resync->step == STEP_BEGINS;
    if (opens && !feed->journal && !redis_journal_leads(feed)) {
        fail(resync, "this laterd no longer writes the journal: ask the one that does");
        return;
    }
    if (feed->broken && resync->step != STEP_REJOINS) {
        fail(resync, "the journal and Redis are out of step again: later journal status says why");
        return;
    }
    if (!feed->journal)
        return; /* it is being opened */
    if (resync->step == STEP_BEGINS && feed->joined)
        begin_jobs(resync);
    if (resync->step == STEP_JOBS)
        step_jobs(resync);
    if (resync->step == STEP_ROWS)
        step_rows(resync);
    for (uint32_t i = 0; i < count_of(resync) && resync->step != STEP_NONE; i++)
        step_stream(&resync->streams[i]);
    end(resync);
    if (resync->step != STEP_NONE && now_of(resync) - resync->logged_us >= LOG_US)
        log_counts(resync, LOG_INFO, "journal_resyncing");
}

static void start(struct redis_resync *resync, enum step step)
{
    uint32_t count = count_of(resync);
    if (!resync->streams) {
        resync->streams = mem_zalloc(count * sizeof(*resync->streams));
        for (uint32_t i = 0; i < count; i++)
            resync->streams[i] = (struct resync_stream){.owner = resync, .partition = i};
    }
    resync->run++;
    resync->status = (struct resync_status){.state = RESYNC_RUNS, .begun_us = now_of(resync)};
    resync->logged_us = now_of(resync);
    resync->step = step;
}

void redis_resync_joined(struct redis_resync *resync)
{
    if (resync->step == STEP_REJOINS) {
        resync->step = STEP_BEGINS;
    } else if (resync->step == STEP_NONE && resync->feed->status.resyncing) {
        log_event(LOG_INFO, "journal_resync_goes_on",
                  "hint=\"the last one was not ended: it begins again\"");
        start(resync, STEP_BEGINS);
    }
}

/* Not all of its entries are in MySQL: the resync begins again with the next journal. */
static void begin_again(struct redis_resync *resync)
{
    int64_t begun_us = resync->status.begun_us;
    drop_all(resync);
    start(resync, STEP_BEGINS);
    resync->status.begun_us = begun_us;
    (void)snprintf(resync->status.why, sizeof(resync->status.why),
                   "another laterd had taken MySQL's cursor: it begins again");
}

void redis_resync_closed(struct redis_resync *resync, bool opens_again)
{
    if (resync->step == STEP_NONE || resync->step == STEP_REJOINS)
        return;
    if (opens_again)
        begin_again(resync);
    else
        fail(resync,
             "this laterd no longer writes the journal: the one that does continues the resync");
}

bool redis_resync_is_running(const struct redis_resync *resync)
{
    return resync->step != STEP_NONE;
}

bool redis_resync_wants(const struct redis_resync *resync)
{
    return resync->step == STEP_REJOINS;
}

/* ---- journal_control_verbs ---- */

enum err redis_resync_begin(struct redis_resync *resync, const char **out_why)
{
    struct redis_journal_feed *feed = resync->feed;
    *out_why = resync->why;
    if (resync->step != STEP_NONE) {
        *out_why = "a resync is under way";
        return ERR_EXISTS;
    }
    if (!redis_journal_leads(feed) && feed->leader[0]) {
        (void)snprintf(resync->why, sizeof(resync->why),
                       "this laterd does not write the journal: ask the one that does, %.100s "
                       "(its laterd_journal_leads is 1)",
                       feed->leader);
        return ERR_NOT_LEADER;
    }
    if (!redis_journal_leads(feed) || !feed->journal || (!feed->joined && !feed->broken)) {
        (void)snprintf(resync->why, sizeof(resync->why),
                       "the journal has not been able to write to MySQL yet%s%.150s",
                       feed->status.why[0] ? ": " : "", feed->status.why);
        return ERR_AGAIN;
    }
    start(resync, feed->broken ? STEP_REJOINS : STEP_BEGINS);
    if (feed->broken)
        redis_journal_reopen(feed);
    return OK;
}

static enum resync_step step_of(const struct redis_resync *resync)
{
    switch (resync->step) {
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

void redis_resync_status(const struct redis_resync *resync, struct resync_status *out_status)
{
    *out_status = resync->status;
    out_status->step = step_of(resync);
}

struct redis_resync *redis_resync_new(struct redis_journal_feed *feed)
{
    struct redis_resync *resync = mem_zalloc(sizeof(*resync));
    resync->feed = feed;
    return resync;
}

void redis_resync_free(struct redis_resync *resync)
{
    if (!resync)
        return;
    CHECK(!resync->rows.run); /* the journal was closed before */
    for (uint32_t i = 0; resync->streams && i < count_of(resync); i++) {
        buf_fini(&resync->streams[i].ids);
        buf_fini(&resync->streams[i].lengths);
    }
    mem_free(resync->streams);
    mem_free(resync);
}

void redis_resync_describe(const struct redis_resync *resync, struct metric_sink *sink)
{
    resync_describe(&resync->status, sink);
}
