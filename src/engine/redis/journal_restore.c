/*
 * Invariants: at most one call to each partition is under way (`asked`), so that they are executed
 * in order; calls for single rows are separate. A run that has failed returns no more rows. A row
 * whose job is looked up in Redis is in its run's `looks`, and moves to `fit` when it can be
 * pushed.
 *
 * Each push makes an entry, and pushes may be faster than MySQL: beyond journal.max_lag all pushes
 * would be refused, or the journal given up. So a row waits (`next`) while its partition's entries
 * exceed half of that; pushes since the last report of the lag are counted in addition.
 */
#include "engine/redis/journal_restore.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/mem.h"
#include "engine/redis/journal_feed.h"

enum {
    SPAN_US = 15 * 1000 * 1000, /* Redis ends a restore that is not renewed for this long */
    RENEW_US = 1000 * 1000,
    AGAIN_US = 200 * 1000,          /* after a call that failed */
    SILENT_US = 10 * 1000 * 1000,   /* the restore fails if Redis does not answer for this long, */
    AWAY_US = 5 * 1000 * 1000,      /* … if the journal does not write for this long, */
    CATCH_UP_US = 60 * 1000 * 1000, /* … or if it has not caught up in this time */
    LOOKS_MAX = 256,                /* look-ups of rows under way at once */
    END_BYTES = 128,                /* Redis' memory for the record of a job that ended */
    ENTRY_BYTES = 160,              /* of an entry, without its job's bytes */
    WHY_MAX = 240,
};

enum phase {
    BEGINS,     /* in all partitions */
    CATCHES_UP, /* MySQL does */
    READS,
};

/* The two answers of GO_ON and BEGIN that are no error. */
enum { HAS_ENDED = 0, GOES_ON = 1, IS_FULL = 2 };

struct restore_stream {
    struct redis_restore *restore;
    uint32_t partition;
    struct script_restore call; /* that is under way, */
    bool pending;               /* if one is */
    bool begun;                 /* the run under way, after `begun`: */
    uint64_t target;            /* entry */
    int64_t not_before_us, renewed_us;
    bool left;                      /* there may be a restore to end: … */
    uint64_t of;                    /* … this one; 0: any */
    uint64_t pushed, pushed_before; /* bytes since the feed's last request, and before that */
    uint32_t look;                  /* number of the feed's requests */
};

/* Not the journal's own struct of the same name, which only the journal knows. */
struct restore_run {
    struct list place; // redis_restore::runs
    struct redis_restore *owner;
    struct restore_reader *reader;
    struct restore_query query; /* its id in: */
    struct buf id;
    enum phase phase;
    uint64_t mark; /* identifies it in Redis; 0: a run for one job */
    int64_t begun_us, answered_us, wrote_us;
    /* The reader's verbs; the journal may be closed before the run. NULL: not reading yet. */
    const struct restore_verbs *journal;
    struct restore_reader journal_reader;
    struct restore_run *journal_run; /* NULL: not begun */
    struct list looks;               // look::place
    struct queue fit;                // look::next
    uint32_t look_count;             /* of both */
    struct restore_row *next;        /* taken, but not returned yet: its partition is full */
    int64_t next_us;                 /* since when */
    bool failed;
    char why[WHY_MAX];
};

/* A row whose job is being looked up. */
struct look {
    struct list place;
    struct queue_node next;
    struct restore_run *run; /* NULL: it was closed */
    struct restore_row *row;
};

static int64_t now_of(const struct redis_restore *restore)
{
    return restore->feed->options.loop->now_us;
}

static void arrived(struct restore_run *run)
{
    run->reader->arrived(run->reader);
}

static void fail(struct restore_run *run, const char *why)
{
    if (run->failed)
        return;
    run->failed = true;
    (void)snprintf(run->why, sizeof(run->why), "%s", why);
    arrived(run);
}

/* The run of all jobs; NULL: there is none, or it has failed. */
static struct restore_run *run_of_all(const struct redis_restore *restore)
{
    for (struct list *at = restore->runs.next; at != &restore->runs; at = at->next) {
        struct restore_run *run = LIST_ENTRY(at, struct restore_run, place);
        if (run->mark && !run->failed)
            return run;
    }
    return NULL;
}

/* ---- partitions ---- */

static void began(struct restore_stream *stream, struct restore_run *run,
                  const struct script_answer *answer)
{
    int state = (int)answer->state; /* no job's */
    if (answer->more)
        return; /* a restore left by another daemon must be ended first */
    if (state != GOES_ON) {
        fail(run, "there is no journal in Redis: it was given up");
        return;
    }
    stream->begun = true;
    stream->target = answer->seq;
    stream->renewed_us = now_of(stream->restore);
}

static void went_on(struct restore_run *run, const struct script_answer *answer)
{
    int state = (int)answer->state;
    if (state == HAS_ENDED)
        fail(run,
             "Redis does not know of it any more: another laterd has taken over the journal, it "
             "was given up, Redis has lost something, or this laterd stood still");
    else if (state == IS_FULL)
        fail(run, "more jobs have ended meanwhile than journal.max_lag has room for: begin again "
                  "when the queue is quieter");
}

static void answered(void *owner, struct script_request *request, enum err err,
                     const struct bytes *parts, uint32_t count)
{
    struct restore_stream *stream = owner;
    struct redis_restore *restore = stream->restore;
    struct restore_run *run = run_of_all(restore);
    struct script_answer answer;
    struct script_parts received = {.partition = stream->partition, .at = parts, .count = count};
    (void)request;
    stream->pending = false;
    if (!err)
        err = script_read_answer(restore->feed->options.space, &received, &answer);
    if (err) {
        stream->not_before_us = now_of(restore) + AGAIN_US;
        return;
    }
    if (stream->call.step == SCRIPT_RESTORE_END) {
        stream->left = stream->left && (answer.more || stream->of != stream->call.restore);
        return;
    }
    if (!run || run->mark != stream->call.restore)
        return;
    run->answered_us = now_of(restore);
    if (stream->call.step == SCRIPT_RESTORE_BEGIN)
        began(stream, run, &answer);
    else
        went_on(run, &answer);
}

/* The answer to BEGIN is kept in Redis: else a resent BEGIN could begin a second time, and jobs
 * that ended before that would not be recorded. */
static void ask(struct restore_stream *stream, enum script_restore_step step, uint64_t of)
{
    const struct journal_feed_options *options = &stream->restore->feed->options;
    bool begins = step == SCRIPT_RESTORE_BEGIN;
    struct script_request *request =
        begins ? script_requests_new(options->calls, stream->partition)
               : script_requests_new_unkept(options->calls, stream->partition);
    stream->call = (struct script_restore){
        .step = step,
        .restore = of,
        .span_us = SPAN_US,
        .most = script_journal_share(options->space) / END_BYTES + 1,
    };
    script_encode_restore(&request->request, options->space, &request->id, &stream->call);
    request->changes = begins;
    stream->pending = true;
    if (step == SCRIPT_RESTORE_GO_ON)
        stream->renewed_us = now_of(stream->restore);
    script_requests_send(request, stream, answered);
}

static void look_at_stream(struct restore_stream *stream, const struct restore_run *run)
{
    int64_t now_us = now_of(stream->restore);
    if (stream->pending || now_us < stream->not_before_us)
        return;
    if (run && !stream->begun) {
        stream->left = false; /* BEGIN ends another restore */
        ask(stream, SCRIPT_RESTORE_BEGIN, run->mark);
    } else if (run && now_us - stream->renewed_us >= RENEW_US) {
        ask(stream, SCRIPT_RESTORE_GO_ON, run->mark);
    } else if (!run && stream->left) {
        ask(stream, SCRIPT_RESTORE_END, stream->of);
    }
}

static void leave_to_end(struct redis_restore *restore, uint64_t of)
{
    for (uint32_t i = 0; i < restore->feed->options.space->partitions; i++) {
        restore->streams[i].begun = false;
        restore->streams[i].left = true;
        restore->streams[i].of = of;
    }
}

/* ---- a run of all jobs: until its rows are read ---- */

static bool has_begun(const struct redis_restore *restore)
{
    bool begun = true;
    for (uint32_t i = 0; i < restore->feed->options.space->partitions; i++)
        begun = begun && restore->streams[i].begun;
    return begun;
}

static bool is_caught_up(const struct redis_restore *restore)
{
    bool there = restore->feed->joined;
    for (uint32_t i = 0; i < restore->feed->options.space->partitions; i++)
        there = there && redis_journal_has(restore->feed, i) >= restore->streams[i].target;
    return there;
}

static void journal_arrived(struct restore_reader *reader)
{
    arrived(LIST_ENTRY(reader, struct restore_run, journal_reader));
}

/* Begins to read rows. An error: *out_why says why not. */
static enum err read_rows(struct restore_run *run, const char **out_why)
{
    struct journal *journal = run->owner->feed->journal;
    struct restore *restore = journal->verbs->restore(journal);
    run->phase = READS;
    run->journal = restore->verbs;
    return restore->verbs->begin(restore, &run->query, &run->journal_reader, &run->journal_run,
                                 out_why);
}

static void describe_not_written(const struct redis_journal_feed *feed, char *room, size_t bytes)
{
    const char *why = feed->broken ? "it is out of step with Redis, and has to begin again: "
                                     "docs/journal.md says how, and what a resync would do"
                                   : feed->status.why;
    (void)snprintf(room, bytes, "the journal does not write to MySQL now%s%.180s",
                   why[0] ? ": " : "", why[0] ? why : ", the log says why");
}

static void look_at_run(struct restore_run *run)
{
    struct redis_restore *restore = run->owner;
    int64_t now_us = now_of(restore);
    char room[WHY_MAX];
    const char *why = "";
    if (run->phase == BEGINS && has_begun(restore)) {
        run->phase = CATCHES_UP;
        run->begun_us = run->wrote_us = now_us;
    }
    if (run->phase == BEGINS && now_us - run->answered_us > SILENT_US)
        fail(run, "Redis does not answer");
    if (run->phase != CATCHES_UP)
        return;
    if (redis_journal_writes(restore->feed))
        run->wrote_us = now_us;
    if (is_caught_up(restore)) {
        if (read_rows(run, &why))
            fail(run, why);
    } else if (now_us - run->wrote_us > AWAY_US) {
        describe_not_written(restore->feed, room, sizeof(room));
        fail(run, room);
    } else if (now_us - run->begun_us > CATCH_UP_US) {
        fail(run, "the journal is too far behind: wait until laterd_journal_lag_batches is small");
    }
}

/* ---- rows of jobs that this queue named by their numbers ---- */

static void looked(void *owner, struct script_request *request, enum err err,
                   const struct bytes *parts, uint32_t count)
{
    struct look *look = owner;
    struct restore_run *run = look->run;
    struct script_answer answer;
    struct script_parts received = {
        .partition = request->id.partition, .at = parts, .count = count};
    if (!run) {
        mem_free(look);
        return;
    }
    if (!err)
        err = script_read_answer(run->owner->feed->options.space, &received, &answer);
    if (!err)
        err = answer.err;
    list_remove(&look->place);
    look->row->lives = !err && answer.state;
    if (!err && (!answer.state || !run->mark)) {
        queue_add(&run->fit, &look->next);
    } else {
        run->journal->settle(run->journal_run, look->row);
        run->look_count--;
        mem_free(look);
    }
    if (err)
        fail(run, err == ERR_STALE_LEASE ? "Redis does not know of it any more"
                                         : "Redis does not answer");
    arrived(run);
}

static void look_for(struct restore_run *run, struct restore_row *row)
{
    const struct journal_feed_options *options = &run->owner->feed->options;
    struct look *look = mem_zalloc(sizeof(*look));
    struct script_request *request = script_requests_new_unkept(
        options->calls, (uint32_t)(row->seq % options->space->partitions));
    struct script_restore ask = {
        .step = SCRIPT_RESTORE_LOOK, .restore = run->mark, .seq = row->seq};
    look->run = run;
    look->row = row;
    list_add_tail(&run->looks, &look->place);
    run->look_count++;
    script_encode_restore(&request->request, options->space, &request->id, &ask);
    script_requests_send(request, look, looked);
}

static void forget_looks(struct restore_run *run)
{
    struct queue_node *node;
    if (run->next)
        run->journal->settle(run->journal_run, run->next);
    while (!list_empty(&run->looks)) {
        struct look *look = LIST_ENTRY(run->looks.next, struct look, place);
        list_remove(&look->place);
        run->journal->settle(run->journal_run, look->row);
        look->run = NULL; /* its answer frees it */
    }
    while ((node = queue_take(&run->fit))) {
        struct look *look = LIST_ENTRY(node, struct look, next);
        run->journal->settle(run->journal_run, look->row);
        mem_free(look);
    }
}

/* ---- no faster than MySQL ---- */

static struct restore_stream *stream_of(const struct restore_run *run,
                                        const struct restore_row *row)
{
    struct cmd cmd = {.kind = CMD_PUSH, .push = row->push};
    uint32_t partition = 0;
    enum err ignored;
    if (script_route(run->owner->feed->options.space, &cmd, &partition, &ignored) != SCRIPT_ONE)
        partition = 0; /* it will be refused */
    return &run->owner->streams[partition];
}

static uint64_t entry_bytes(const struct cmd_push *push)
{
    return ENTRY_BYTES + push->body.len + push->properties.len;
}

static bool has_room(const struct restore_stream *stream, const struct restore_row *row)
{
    const struct redis_journal_feed *feed = stream->restore->feed;
    uint64_t most = script_journal_share(feed->options.space) / 2;
    uint64_t waiting =
        redis_journal_waiting(feed, stream->partition) + stream->pushed_before + stream->pushed;
    return !waiting || waiting + entry_bytes(&row->push) <= most;
}

/* The row, if it may be pushed now; else it waits. */
static struct restore_row *hand_out(struct restore_run *run, struct restore_row *row)
{
    struct restore_stream *stream = stream_of(run, row);
    row->push.written = run->mark && row->written;
    if (run->mark && !row->written && !has_room(stream, row)) {
        if (!run->next)
            run->next_us = now_of(run->owner);
        run->next = row;
        return NULL;
    }
    run->next = NULL;
    row->cost = (struct restore_cost){.place = stream->partition,
                                      .look = stream->look,
                                      .bytes = row->push.written ? 0 : entry_bytes(&row->push)};
    stream->pushed += row->cost.bytes;
    row->push.restore = run->mark;
    return row;
}

static void look_at_next(struct restore_run *run)
{
    if (has_room(stream_of(run, run->next), run->next))
        arrived(run);
    else if (now_of(run->owner) - run->next_us > CATCH_UP_US)
        fail(run,
             "the journal was too far behind for a minute, so no more is restored: begin again "
             "when laterd_journal_lag_batches is small");
}

bool redis_restore_is_running(const struct redis_restore *restore)
{
    return run_of_all(restore) != NULL;
}

void redis_restore_looks(struct redis_restore *restore, uint32_t partition)
{
    struct restore_stream *stream = &restore->streams[partition];
    stream->pushed_before = stream->pushed;
    stream->pushed = 0;
    stream->look++;
}

/* ---- restore_verbs ---- */

/* OK: we are the writer. A run for all jobs waits for a journal that has just begun. */
static enum err may_begin(struct redis_restore *restore, bool all)
{
    const struct redis_journal_feed *feed = restore->feed;
    bool leads = redis_journal_leads(feed);
    if (!leads && feed->leader[0]) {
        (void)snprintf(
            restore->why, sizeof(restore->why),
            "this laterd does not write the journal, so it does not read it: ask the one "
            "that does, %.100s (its laterd_journal_leads is 1)",
            feed->leader);
        return ERR_NOT_LEADER;
    }
    if (all && run_of_all(restore)) {
        (void)snprintf(restore->why, sizeof(restore->why), "a restore is under way");
        return ERR_AGAIN;
    }
    if (!leads || feed->broken || (!all && !feed->journal)) {
        describe_not_written(feed, restore->why, sizeof(restore->why));
        return ERR_AGAIN;
    }
    return OK;
}

static struct restore_run *new_run(struct redis_restore *restore, const struct restore_query *query,
                                   struct restore_reader *reader)
{
    struct restore_run *run = mem_zalloc(sizeof(*run));
    run->owner = restore;
    run->reader = reader;
    buf_add_bytes(&run->id, query->id);
    run->query = *query;
    run->query.id = buf_bytes(&run->id);
    run->journal_reader.arrived = journal_arrived;
    run->begun_us = run->answered_us = now_of(restore);
    list_init(&run->looks);
    list_add_tail(&restore->runs, &run->place);
    return run;
}

static void free_run(struct restore_run *run)
{
    list_remove(&run->place);
    buf_fini(&run->id);
    mem_free(run);
}

static enum err begin(struct restore *port, const struct restore_query *query,
                      struct restore_reader *reader, struct restore_run **out_run,
                      const char **out_why)
{
    struct redis_restore *restore = LIST_ENTRY(port, struct redis_restore, restore);
    uint64_t mark = 0;
    bool all = query->id.len == 0;
    *out_why = restore->why;
    enum err err = may_begin(restore, all);
    if (err)
        return err;
    while (all && !mark) {
        if (getrandom(&mark, sizeof(mark), 0) != sizeof(mark)) {
            (void)snprintf(restore->why, sizeof(restore->why), "the system gives no random number");
            return ERR_AGAIN;
        }
    }
    struct restore_run *run = new_run(restore, query, reader);
    run->mark = mark;
    if (all)
        leave_to_end(restore, mark);
    else
        err = read_rows(run, out_why);
    if (err) {
        free_run(run);
        return err;
    }
    *out_run = run;
    return OK;
}

static struct restore_row *take(struct restore_run *run)
{
    struct restore_row *row = NULL;
    if (run->phase != READS || run->failed)
        return NULL;
    if (run->next)
        return hand_out(run, run->next);
    struct queue_node *node = queue_take(&run->fit);
    if (node) {
        struct look *look = LIST_ENTRY(node, struct look, next);
        row = look->row;
        run->look_count--;
        mem_free(look);
    }
    while (!row && run->look_count < LOOKS_MAX) {
        row = run->journal->take(run->journal_run);
        if (!row)
            return NULL;
        if (row->seq) {
            look_for(run, row);
            row = NULL;
        }
    }
    return row ? hand_out(run, row) : NULL;
}

static void settle(struct restore_run *run, struct restore_row *row)
{
    run->journal->settle(run->journal_run, row);
}

/* The push made no entry. Pushes before the last request but one are not counted any more. */
static void push_skipped(struct restore_run *run, const struct restore_cost *cost)
{
    struct restore_stream *stream = &run->owner->streams[cost->place];
    if (cost->look == stream->look)
        stream->pushed -= cost->bytes;
    else if (cost->look + 1 == stream->look)
        stream->pushed_before -= cost->bytes;
    if (run->next && has_room(stream_of(run, run->next), run->next))
        arrived(run);
}

static bool ended(const struct restore_run *run, enum err *out_err, const char **out_why)
{
    *out_err = run->failed ? ERR_AGAIN : OK;
    *out_why = run->why;
    if (run->failed)
        return true;
    if (run->phase != READS || run->look_count || run->next)
        return false;
    return run->journal->ended(run->journal_run, out_err, out_why);
}

static uint64_t expected(const struct restore_run *run)
{
    bool reads = run->journal_run && run->journal && run->journal->expected;
    return reads ? run->journal->expected(run->journal_run) : 0;
}

static void close_run(struct restore_run *run)
{
    forget_looks(run);
    if (run->journal_run)
        run->journal->close(run->journal_run);
    if (run->mark)
        leave_to_end(run->owner, run->mark);
    free_run(run);
}

static const struct restore_verbs verbs = {
    .begin = begin,
    .take = take,
    .settle = settle,
    .push_skipped = push_skipped,
    .ended = ended,
    .expected = expected,
    .close = close_run,
};

/* ---- for the feed ---- */

void redis_restore_init(struct redis_restore *restore, struct redis_journal_feed *feed)
{
    *restore = (struct redis_restore){.restore.verbs = &verbs, .feed = feed};
    list_init(&restore->runs);
}

void redis_restore_start(struct redis_restore *restore)
{
    uint32_t count = restore->feed->options.space->partitions;
    restore->streams = mem_zalloc(count * sizeof(*restore->streams));
    for (uint32_t i = 0; i < count; i++)
        restore->streams[i] = (struct restore_stream){.restore = restore, .partition = i};
}

void redis_restore_fini(struct redis_restore *restore)
{
    CHECK(list_empty(&restore->runs));
    mem_free(restore->streams);
    restore->streams = NULL;
}

void redis_restore_look(struct redis_restore *restore)
{
    struct restore_run *run = run_of_all(restore);
    if (!redis_journal_leads(restore->feed)) {
        redis_restore_closed(restore);
        return;
    }
    for (uint32_t i = 0; i < restore->feed->options.space->partitions; i++)
        look_at_stream(&restore->streams[i], run);
    if (run)
        look_at_run(run);
    if (run && run->next && !run->failed)
        look_at_next(run);
}

void redis_restore_opened(struct redis_restore *restore)
{
    if (!run_of_all(restore)) /* else BEGIN ends the others */
        leave_to_end(restore, 0);
}

void redis_restore_closed(struct redis_restore *restore)
{
    for (struct list *at = restore->runs.next; at != &restore->runs; at = at->next)
        fail(LIST_ENTRY(at, struct restore_run, place),
             "this laterd does not write the journal any more: the log says why");
}
