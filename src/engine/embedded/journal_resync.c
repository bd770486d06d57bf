/*
 * A resync: gives an image of each job to the journal, and looks up each unfinished row in the
 * queue. The queue is served meanwhile.
 *
 *     begins ─▶ delayed and buried jobs ─▶ other jobs in memory ─▶ unfinished rows ─▶ ends
 *                          │                        │                    │
 *                          └───────── numbers: GET one by one ◀──────────┘
 *                                     ├─▶ IMAGES
 *                                     └─▶ no such job: ABSENT
 *
 * Why it is exact. An image is the state of a job at the moment when it is given, after all batches
 * that were given before. Batches that follow may repeat older changes, but end with the same
 * state, because records contain states, not differences (core/event.h). A GET whose job changed
 * while its body was read is repeated, so each image is of its moment.
 *
 * No job is missed. A job that stays delayed with the same due time, or stays buried, while such
 * jobs are listed, is in that list, in memory or far. Any other job has changed meanwhile, so its
 * number was noted; or it became due, or was ready or reserved: such a job stays in memory until it
 * changes, and is found there. A job that is pushed meanwhile gets its row from its own batch.
 *
 * Rows without a job are found exactly, too. When rows are read, the database has all changes up to
 * the beginning of that step. So an unfinished row whose job has not ended since either has a job,
 * or is wrong.
 *
 * After a crash, the database may have images of changes that were not durable. So a resync ends
 * only when the database has everything that was durable when the last image was given; until then
 * the database notes that a resync is running, and the next start begins it again.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "core/far.h"
#include "engine/embedded/parts.h"
#include "engine/resync_rows.h"
#include "store/record.h"

enum {
    SLOTS = 64,          /* GETs at once */
    WANTED_MAX = 4096,   /* noted numbers above which listing pauses */
    MOVED_MAX = 65536,   /* noted numbers above which moved jobs are not noted: listing restarts */
    LIST_JOBS = 200,     /* of a page */
    VISIT_PLACES = 2048, /* jobs in memory that are checked in a turn */
    GETS_A_TURN = 128,   /* GETs in a turn … */
    BYTES_A_TURN = 1 << 18, /* … and bytes of their images */
    ROWS_A_TURN = 512,
    DONE_BYTES = 64 * 1024,     /* of numbers that were got, and are still in the buffer */
    HELD_MAX = 4 * 1024 * 1024, /* bytes in the journal: the log must not wait for images */
    LOG_US = 10 * 1000 * 1000,
    NAMED_MAX = 10,        /* jobs, and rows, that are logged by name */
    REJOIN_US = 10 * 1000, /* between checks whether the journal has stopped */
};

enum step {
    STEP_NONE,
    STEP_REJOINS, /* the journal was stopped: it begins again */
    STEP_BEGINS,
    STEP_LISTS,
    STEP_MEMORY,
    STEP_ROWS,
    STEP_DRAINS, /* all has been given */
    STEP_ENDS,   /* and is being committed */
};

/* A GET under way. */
struct resync_slot {
    struct ticket ticket;
    struct journal_resync *owner;
    bool busy, of_row;
    bool again;    /* must be looked up by its id, too */
    bool changed;  /* its job has changed, or one of that id was pushed */
    uint64_t seq;  /* 0: of an id */
    size_t id_len; /* of a row */
    char id[JOB_ID_MAX];
};

struct journal_resync {
    struct embedded *embedded;
    enum step step;
    struct resync_status status;
    struct resync_slot slots[SLOTS];
    struct ticket page;   /* of topics, or of a topic's jobs in the state */
    bool asked;           /* … has no answer yet */
    bool topic_done;      /* the next topic must be requested */
    enum job_state state; /* which of the topic's jobs are listed: delayed ones, then buried ones */
    size_t topic_len;
    char topic[TOPIC_NAME_MAX];
    struct buf cursor; /* of the page */
    uint32_t place;    /* where visit_memory() continues */
    struct buf wanted; // uint64_t: numbers of jobs to get
    size_t wanted_at;  /* bytes of it that are done */
    bool overflowed;   /* some moved jobs were not noted */
    struct resync_rows rows;
    uint64_t target;    /* the batch that the database must have at the end */
    uint64_t resyncs;   /* journal_status::resyncs at the beginning */
    size_t given_bytes; /* in this turn */
    unsigned gets;      /* the same */
    int64_t logged_us;
};

static struct journal_feed *feed_of(const struct journal_resync *resync)
{
    return &resync->embedded->feed;
}

static int64_t now_of(const struct journal_resync *resync)
{
    return resync->embedded->loop->now_us;
}

static void fail(struct journal_resync *resync, const char *why);

/* ---- batches for the journal ---- */

static struct journal_batch *new_batch(struct journal_resync *resync, enum journal_batch_kind kind,
                                       size_t len)
{
    struct journal_batch *batch = mem_zalloc(sizeof(*batch) + BATCH_HEAD + len);
    batch->kind = kind;
    batch->number = feed_of(resync)->given + 1;
    batch->clock_us = now_of(resync);
    batch->payload_bytes = (uint32_t)len;
    batch->records = len > 0;
    batch->bytes = BATCH_HEAD + len;
    return batch;
}

static void give(struct journal_resync *resync, struct journal_batch *batch)
{
    struct journal_feed *feed = feed_of(resync);
    feed->held_bytes += batch->bytes;
    resync->given_bytes += batch->bytes;
    feed->journal->verbs->give(feed->journal, batch);
}

static void give_event(struct journal_resync *resync, enum journal_batch_kind kind,
                       const struct event *event)
{
    size_t len = record_bytes(event);
    struct journal_batch *batch = new_batch(resync, kind, len);
    record_encode(event, len, batch->at + BATCH_HEAD);
    give(resync, batch);
}

static void give_image(struct journal_resync *resync, const struct job_view *job)
{
    struct event event = {
        .kind = EVENT_JOB,
        .job = {.seq = job->ref.seq,
                .state = job->state,
                .priority = job->priority,
                .due_us = job->due_us,
                .failures = job->failures,
                .counts = job->counts},
        .id = job->ref.id,
        .topic = job->topic,
        .ttr_us = job->ttr_us,
        .created_us = job->created_us,
        .order = job->order,
        .delay_s = job->delay_s,
        .retry_us = job->retry_us,
        .retry_count = job->retry_count,
        .body_kind = job->body_kind,
        .content_type = job->content_type,
        .body = job->body,
        .properties = job->properties,
    };
    if (event.job.state == JOB_RESERVED)
        event.job.state = JOB_READY; /* the same to the tables, and without a lease */
    give_event(resync, JOURNAL_IMAGES, &event);
    resync->status.jobs++;
}

static void give_absent(struct journal_resync *resync, const struct resync_slot *slot)
{
    /* A GONE record always has a number; here only the id, as in the table, matters. */
    struct event event = {.kind = EVENT_GONE,
                          .job.seq = 1,
                          .end = END_DELETED,
                          .id = bytes_of(slot->id, slot->id_len)};
    give_event(resync, JOURNAL_ABSENT, &event);
    if (resync->status.closed++ < NAMED_MAX)
        log_event(LOG_INFO, "journal_row_closed", "id=\"%.*s\" why=\"no such job is in the queue\"",
                  (int)(bytes_is_utf8(event.id) ? event.id.len : 0), event.id.at);
}

/* ---- jobs ---- */

static void want(struct journal_resync *resync, uint64_t seq)
{
    buf_add(&resync->wanted, &seq, sizeof(seq));
}

static size_t wanted_count(const struct journal_resync *resync)
{
    return (resync->wanted.len - resync->wanted_at) / sizeof(uint64_t);
}

/* Handles the look-up of a row. A restored job has its row's id, and no longer its old number. */
static void row_answered(struct journal_resync *resync, struct resync_slot *slot, enum err err)
{
    if (err != ERR_NOT_FOUND || slot->changed)
        return;
    if (!slot->seq) {
        give_absent(resync, slot);
        return;
    }
    slot->seq = 0;
    slot->again = true;
}

/* False: it has ended; or another job has its id, without an event of this one. */
static bool is_there(const struct journal_resync *resync, uint64_t seq)
{
    const struct core *core = resync->embedded->core;
    const struct job_ref ref = {.seq = seq};
    uint64_t places[FAR_CANDIDATES_MAX];
    return core_holds(core, &ref) || core_far_find(core, &ref, places) > 0;
}

static void image_answered(struct journal_resync *resync, const struct resync_slot *slot,
                           const struct reply *reply)
{
    if (reply->err == ERR_NOT_FOUND || !is_there(resync, slot->seq))
        return;
    if (slot->changed)
        want(resync, slot->seq);
    else if (reply->err == OK && reply->count)
        give_image(resync, reply->jobs);
    else if (reply->err == ERR_DAMAGED && resync->status.unread++ < NAMED_MAX)
        log_event(LOG_ERROR, "journal_job_unread",
                  "job=@%llu error=%s hint=\"its row stays as it is\"",
                  (unsigned long long)slot->seq, err_name(reply->err));
    else if (reply->err != OK && reply->err != ERR_DAMAGED)
        fail(resync, err_text(reply->err));
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct resync_slot *slot = LIST_ENTRY(ticket, struct resync_slot, ticket);
    struct journal_resync *resync = slot->owner;
    slot->busy = false;
    resync->embedded->busy = true;
    if (slot->of_row)
        row_answered(resync, slot, reply->err);
    else
        image_answered(resync, slot, reply);
}

static struct resync_slot *free_slot(struct journal_resync *resync)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (!resync->slots[i].busy && !resync->slots[i].again)
            return &resync->slots[i];
    }
    return NULL;
}

static bool is_idle(const struct journal_resync *resync)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (resync->slots[i].busy || resync->slots[i].again)
            return false;
    }
    return true;
}

static bool has_room(const struct journal_resync *resync)
{
    return feed_of(resync)->held_bytes < HELD_MAX && resync->given_bytes < BYTES_A_TURN &&
           resync->gets < GETS_A_TURN;
}

static void get(struct journal_resync *resync, struct resync_slot *slot)
{
    struct cmd cmd = {.kind = CMD_GET, .job.ref = {.seq = slot->seq}};
    if (!slot->seq)
        cmd.job.ref.id = bytes_of(slot->id, slot->id_len);
    slot->ticket = (struct ticket){.answered = answered};
    slot->owner = resync;
    slot->busy = true;
    slot->again = slot->changed = false;
    resync->gets++;
    (void)embedded_submit(resync->embedded, &cmd, &slot->ticket);
}

static void get_again(struct journal_resync *resync)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (resync->slots[i].again && !resync->slots[i].busy)
            get(resync, &resync->slots[i]);
    }
}

static void get_wanted(struct journal_resync *resync)
{
    struct resync_slot *slot;
    get_again(resync);
    while (wanted_count(resync) && has_room(resync) && (slot = free_slot(resync))) {
        memcpy(&slot->seq, resync->wanted.at + resync->wanted_at, sizeof(slot->seq));
        resync->wanted_at += sizeof(slot->seq);
        slot->of_row = false;
        slot->id_len = 0;
        get(resync, slot);
    }
    if (resync->wanted_at == resync->wanted.len ||
        (resync->wanted_at >= DONE_BYTES && resync->wanted_at >= resync->wanted.len / 2)) {
        buf_drop(&resync->wanted, resync->wanted_at); /* moves no more bytes than were handled */
        resync->wanted_at = 0;
    }
    if (wanted_count(resync) && feed_of(resync)->held_bytes < HELD_MAX && free_slot(resync))
        resync->embedded->busy = true;
}

void journal_resync_note_event(struct embedded *embedded, const struct event *event)
{
    struct journal_resync *resync = embedded->feed.resync;
    if (event->kind != EVENT_JOB && event->kind != EVENT_MOVE && event->kind != EVENT_GONE)
        return;
    for (unsigned i = 0; i < SLOTS; i++) {
        struct resync_slot *slot = &resync->slots[i];
        bool same = slot->seq ? slot->seq == event->job.seq
                              : bytes_eq(bytes_of(slot->id, slot->id_len), event->id);
        slot->changed |= slot->busy && same;
    }
    bool looks = resync->step == STEP_LISTS || resync->step == STEP_MEMORY;
    if (looks && event->kind == EVENT_MOVE) {
        if (wanted_count(resync) < MOVED_MAX)
            want(resync, event->job.seq);
        else
            resync->overflowed = true;
    }
}

/* Images may be given twice. */
static void start_listing(struct journal_resync *resync)
{
    resync->overflowed = false;
    resync->topic_done = true;
    resync->topic_len = 0;
    resync->cursor.len = 0;
    resync->place = 0;
    resync->status.jobs = 0;
    resync->step = STEP_LISTS;
}

/* ---- delayed and buried jobs, in memory or not, and ready ones that are not ---- */

/* The state that is listed after this one; JOB_GONE: none. Ready jobs in memory are found there:
   none of them departs meanwhile (far.c). */
static enum job_state state_after(const struct journal_resync *resync, enum job_state state)
{
    struct bytes topic = bytes_of(resync->topic, resync->topic_len);
    if (state == JOB_BURIED)
        return JOB_GONE;
    bool far = state == JOB_DELAYED && core_far_count(resync->embedded->core, topic, JOB_READY) > 0;
    return far ? JOB_READY : JOB_BURIED;
}

static void page_answered(struct ticket *ticket, const struct reply *reply)
{
    struct journal_resync *resync = LIST_ENTRY(ticket, struct journal_resync, page);
    resync->asked = false;
    resync->embedded->busy = true;
    if (reply->err == ERR_NOT_FOUND) { /* the topic has gone, and all its jobs */
        resync->topic_done = true;
    } else if (reply->err) {
        fail(resync, err_text(reply->err));
    } else if (reply->kind == CMD_TOPICS && reply->count == 0) {
        resync->step = STEP_MEMORY;
    } else if (reply->kind == CMD_TOPICS) {
        resync->topic_len = reply->topics->name.len;
        memcpy(resync->topic, reply->topics->name.at, resync->topic_len);
        resync->topic_done = false;
        resync->state = JOB_DELAYED;
        resync->cursor.len = 0;
    } else {
        for (uint32_t i = 0; i < reply->count; i++)
            want(resync, reply->jobs[i].ref.seq);
        resync->cursor.len = 0;
        buf_add_bytes(&resync->cursor, reply->cursor);
        if (reply->cursor.len)
            return;
        resync->state = state_after(resync, resync->state);
        resync->topic_done = resync->state == JOB_GONE;
    }
}

static void list_jobs(struct journal_resync *resync)
{
    if (resync->asked || wanted_count(resync) >= WANTED_MAX)
        return;
    struct buf cursor = {0}; /* the answer may come before submit returns, and changes ours */
    buf_add_bytes(&cursor, buf_bytes(&resync->cursor));
    char topic[TOPIC_NAME_MAX];
    memcpy(topic, resync->topic, resync->topic_len);
    struct cmd cmd = {.kind = CMD_TOPICS,
                      .topic = {.topic = bytes_of(topic, resync->topic_len), .max = 1}};
    if (!resync->topic_done) {
        cmd.kind = CMD_LIST;
        cmd.topic.max = LIST_JOBS;
        cmd.topic.state = resync->state;
        cmd.topic.cursor = buf_bytes(&cursor);
    }
    resync->page = (struct ticket){.answered = page_answered};
    resync->asked = true;
    (void)embedded_submit(resync->embedded, &cmd, &resync->page);
    buf_fini(&cursor);
}

/* ---- all others ---- */

static void want_job(void *ctx, const struct job *job)
{
    if (job->state != JOB_DELAYED && job->state != JOB_BURIED)
        want(ctx, job->seq);
}

static void visit_memory(struct journal_resync *resync)
{
    if (wanted_count(resync) >= WANTED_MAX)
        return;
    resync->embedded->busy = true;
    if (core_visit(resync->embedded->core, &resync->place, VISIT_PLACES, want_job, resync))
        return;
    if (resync->overflowed)
        start_listing(resync);
    else
        resync->step = STEP_ROWS;
}

/* ---- rows ---- */

static void rows_came(void *owner)
{
    struct journal_resync *resync = owner;
    resync->embedded->busy = true;
}

/* Looks up the job of a row: at once if it is in memory, else by a GET. */
static void look_up_row(struct journal_resync *resync, struct resync_slot *slot,
                        const struct restore_row *row)
{
    const struct core *core = resync->embedded->core;
    struct bytes id = row->push.id;
    struct job_ref ref = {.id = row->seq ? BYTES("") : id, .seq = row->seq};
    if (!id.len || id.len > JOB_ID_MAX || core_holds(core, &ref) ||
        core_holds(core, &(struct job_ref){.id = id}))
        return; /* no job can have this id: no job has this row, and no restore uses it */
    slot->of_row = true;
    slot->seq = row->seq;
    slot->id_len = id.len;
    memcpy(slot->id, id.at, id.len);
    get(resync, slot);
}

static void take_rows(struct journal_resync *resync)
{
    struct resync_rows *rows = &resync->rows;
    struct journal *journal = feed_of(resync)->journal;
    struct resync_slot *slot;
    if (!rows->run) {
        resync_rows_begin(rows, journal->verbs->restore(journal), now_of(resync), &resync->status);
        return;
    }
    if (!resync_rows_arrived(rows, &resync->status))
        return;
    bool dry = false;
    for (unsigned i = 0; i < ROWS_A_TURN && !dry && has_room(resync) && (slot = free_slot(resync));
         i++) {
        struct restore_row *row = resync_rows_take(rows, &resync->status);
        dry = !row;
        if (dry)
            break;
        look_up_row(resync, slot, row);
        resync_rows_settle(rows, row);
    }
    if (!dry) { /* else the journal's word, or an answer, begins a turn */
        resync->embedded->busy |=
            feed_of(resync)->held_bytes < HELD_MAX && free_slot(resync) != NULL;
        return;
    }
    if (resync_rows_end(rows, now_of(resync), &resync->status))
        resync->step = STEP_DRAINS;
    resync->embedded->busy |= !rows->run; /* the next step, or when to begin again */
}

/* ---- its life ---- */

static void log_counts(struct journal_resync *resync, enum log_level level, const char *event)
{
    const struct resync_status *status = &resync->status;
    resync->logged_us = now_of(resync);
    log_event(level, event, "jobs=%llu of=%llu rows=%llu closed=%llu unread=%llu ms=%lld%s%s%s",
              (unsigned long long)status->jobs, (unsigned long long)status->jobs_total,
              (unsigned long long)status->rows, (unsigned long long)status->closed,
              (unsigned long long)status->unread,
              (long long)((now_of(resync) - status->begun_us) / 1000),
              status->why[0] ? " why=\"" : "", status->why, status->why[0] ? "\"" : "");
}

/* Cancels all that is under way; afterwards the step is STEP_NONE. */
static void drop_all(struct journal_resync *resync)
{
    const struct engine_verbs *verbs = resync->embedded->engine.verbs;
    for (unsigned i = 0; i < SLOTS; i++) {
        if (resync->slots[i].busy)
            verbs->cancel(&resync->embedded->engine, &resync->slots[i].ticket);
        resync->slots[i].busy = resync->slots[i].again = false;
    }
    if (resync->asked)
        verbs->cancel(&resync->embedded->engine, &resync->page);
    resync->asked = false;
    resync_rows_close(&resync->rows);
    buf_fini(&resync->wanted);
    buf_fini(&resync->cursor);
    resync->wanted_at = 0;
    resync->step = STEP_NONE;
    resync->status.ended_us = now_of(resync);
    feed_of(resync)->resyncing = false;
}

/* Rows that were written are correct, the others unchanged: the journal stays marked. */
static void fail(struct journal_resync *resync, const char *why)
{
    (void)snprintf(resync->status.why, sizeof(resync->status.why), "%s", why);
    resync->status.state = RESYNC_FAILED;
    log_counts(resync, LOG_ERROR, "journal_resync_failed");
}

static void begin_steps(struct journal_resync *resync)
{
    struct core_totals totals;
    core_totals(resync->embedded->core, &totals);
    resync->status.jobs_total = 0;
    for (unsigned state = 0; state < JOB_STATES; state++)
        resync->status.jobs_total += totals.jobs[state];
    resync->rows.begin_us = 0;
    resync->resyncs = feed_of(resync)->status.resyncs;
    start_listing(resync);
    log_event(LOG_INFO, "journal_resync_begins", "jobs=%llu",
              (unsigned long long)resync->status.jobs_total);
    give(resync, new_batch(resync, JOURNAL_RESYNC_BEGINS, 0));
}

/* The journal was stopped: it begins again at the present end of the log, once that is durable. */
static void rejoin(struct journal_resync *resync)
{
    struct embedded *embedded = resync->embedded;
    struct journal_feed *feed = feed_of(resync);
    uint64_t at = follower_cursor(feed->follower);
    if (store_synced(embedded->store) < at)
        return;
    struct journal_begin begin = {.batch = at, .resync = true, .at_us = now_of(resync)};
    memcpy(begin.store, store_identity(embedded->store), sizeof(begin.store));
    if (!feed->journal->verbs->again(feed->journal, &begin))
        return;
    feed->joined = feed->begins = feed->broken = false;
    feed->held_bytes = 0;
    feed->lacking_us = 0;
    feed->journal->verbs->status(feed->journal, &feed->status);
    resync->step = STEP_BEGINS;
}

static void end(struct journal_resync *resync)
{
    struct journal_feed *feed = feed_of(resync);
    if (resync->step == STEP_DRAINS && is_idle(resync) && !wanted_count(resync)) {
        resync->target = resync->target ? resync->target : store_batch(resync->embedded->store);
        if (feed->given < resync->target || feed->held_bytes >= HELD_MAX)
            return; /* the next batches begin a turn */
        give(resync, new_batch(resync, JOURNAL_RESYNC_ENDS, 0));
        resync->step = STEP_ENDS;
    }
    if (resync->step != STEP_ENDS || feed->status.resyncs == resync->resyncs)
        return;
    resync->status.state = RESYNC_DONE;
    drop_all(resync);
    log_counts(resync, LOG_INFO, "journal_resynced");
}

void journal_resync_turn(struct embedded *embedded)
{
    struct journal_resync *resync = embedded->feed.resync;
    const struct journal_feed *feed = &embedded->feed;
    if (!resync || resync->step == STEP_NONE)
        return;
    resync->given_bytes = 0;
    resync->gets = 0;
    if (resync->step == STEP_REJOINS)
        rejoin(resync);
    else if (feed->broken || feed->status.phase == JOURNAL_FENCED)
        fail(resync, feed->status.why[0] ? feed->status.why : "the journal was stopped");
    else if (resync->step == STEP_BEGINS && feed->joined && !feed->begins)
        begin_steps(resync);
    if (resync->status.state == RESYNC_FAILED) { /* now, or while something was answered */
        drop_all(resync);
        return;
    }
    switch (resync->step) {
    case STEP_LISTS: list_jobs(resync); break;
    case STEP_MEMORY: visit_memory(resync); break;
    case STEP_ROWS: take_rows(resync); break;
    case STEP_NONE:
    case STEP_REJOINS:
    case STEP_BEGINS:
    case STEP_DRAINS:
    case STEP_ENDS: break;
    }
    get_wanted(resync);
    end(resync);
    if (resync->step != STEP_NONE && now_of(resync) - resync->logged_us >= LOG_US)
        log_counts(resync, LOG_INFO, "journal_resyncing");
}

int64_t journal_resync_next_us(const struct embedded *embedded)
{
    const struct journal_resync *resync = embedded->feed.resync;
    if (resync && resync->step == STEP_REJOINS)
        return now_of(resync) + REJOIN_US;
    return resync && resync->step == STEP_ROWS && !resync->rows.run ? resync->rows.begin_us
                                                                    : INT64_MAX;
}

static void start(struct journal_resync *resync, enum step step)
{
    resync->status = (struct resync_status){.state = RESYNC_RUNS, .begun_us = now_of(resync)};
    resync->logged_us = now_of(resync);
    resync->target = 0;
    resync->step = step;
    feed_of(resync)->resyncing = true;
    resync->embedded->busy = true;
}

void journal_resync_resume(struct embedded *embedded)
{
    struct journal_resync *resync = embedded->feed.resync;
    if (resync->step != STEP_NONE)
        return;
    log_event(LOG_INFO, "journal_resync_goes_on",
              "hint=\"the last one was not ended: it begins again\"");
    start(resync, STEP_BEGINS);
}

enum err journal_resync_begin(struct embedded *embedded, const char **out_why)
{
    struct journal_resync *resync = embedded->feed.resync;
    struct journal_feed *feed = feed_of(resync);
    bool stopped = feed->broken || feed->status.phase == JOURNAL_FENCED;
    if (resync->step != STEP_NONE) {
        *out_why = "a resync is under way";
        return ERR_EXISTS;
    }
    if (!stopped && !feed->joined) {
        *out_why =
            "the journal has not been able to write to MySQL yet: later journal status says why";
        return ERR_AGAIN;
    }
    if (stopped)
        follower_restart(feed->follower);
    start(resync, stopped ? STEP_REJOINS : STEP_BEGINS);
    return OK;
}

static enum resync_step step_of(const struct journal_resync *resync)
{
    switch (resync->step) {
    case STEP_LISTS:
    case STEP_MEMORY: return RESYNC_STEP_JOBS;
    case STEP_ROWS: /* jobs that were found may not have been read yet */
        return wanted_count(resync) ? RESYNC_STEP_JOBS : RESYNC_STEP_ROWS;
    case STEP_DRAINS:
    case STEP_ENDS: return RESYNC_STEP_COMMITS;
    case STEP_NONE:
    case STEP_REJOINS:
    case STEP_BEGINS: break;
    }
    return RESYNC_STEP_WAITS;
}

void journal_resync_status(const struct embedded *embedded, struct resync_status *out_status)
{
    const struct journal_resync *resync = embedded->feed.resync;
    *out_status = resync->status;
    out_status->step = step_of(resync);
}

void journal_resync_open(struct embedded *embedded)
{
    struct journal_resync *resync = mem_zalloc(sizeof(*resync));
    resync->embedded = embedded;
    resync->rows.came = rows_came;
    resync->rows.owner = resync;
    embedded->feed.resync = resync;
}

void journal_resync_close(struct embedded *embedded)
{
    struct journal_resync *resync = embedded->feed.resync;
    embedded->feed.resync = NULL;
    if (!resync)
        return;
    drop_all(resync);
    mem_free(resync);
}

void journal_resync_describe(const struct embedded *embedded, struct metric_sink *sink)
{
    resync_describe(&embedded->feed.resync->status, sink);
}
