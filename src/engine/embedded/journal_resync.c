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
    NAMED_MAX = 10,              /* jobs, and rows, that are logged by name */
    REJOIN_US = 10 * 1000,       /* between checks whether the journal has stopped */
    ROWS_AGAIN_US = 1000 * 1000, /* after rows could not be read */
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
    struct restore_reader reader;
    struct restore_run *run; /* reads rows; NULL: none */
    bool arrived;
    int64_t rows_us;    /* not begun before */
    uint64_t target;    /* the batch that the database must have at the end */
    uint64_t resyncs;   /* journal_status::resyncs at the beginning */
    size_t given_bytes; /* in this turn */
    unsigned gets;      /* the same */
    int64_t logged_us;
};

static struct journal_feed *feed_of(const struct journal_resync *all)
{
    return &all->embedded->feed;
}

static int64_t now_of(const struct journal_resync *all)
{
    return all->embedded->loop->now_us;
}

static void fail(struct journal_resync *all, const char *why);

/* ---- batches for the journal ---- */

static struct journal_batch *new_batch(struct journal_resync *all, enum journal_batch_kind kind,
                                       size_t len)
{
    struct journal_batch *batch = mem_zalloc(sizeof(*batch) + BATCH_HEAD + len);
    batch->kind = kind;
    batch->number = feed_of(all)->given + 1;
    batch->clock_us = now_of(all);
    batch->payload_bytes = (uint32_t)len;
    batch->records = len > 0;
    batch->bytes = BATCH_HEAD + len;
    return batch;
}

static void give(struct journal_resync *all, struct journal_batch *batch)
{
    struct journal_feed *feed = feed_of(all);
    feed->held_bytes += batch->bytes;
    all->given_bytes += batch->bytes;
    feed->journal->verbs->give(feed->journal, batch);
}

static void give_event(struct journal_resync *all, enum journal_batch_kind kind,
                       const struct event *event)
{
    size_t len = record_bytes(event);
    struct journal_batch *batch = new_batch(all, kind, len);
    record_encode(event, len, batch->at + BATCH_HEAD);
    give(all, batch);
}

static void give_image(struct journal_resync *all, const struct job_view *job)
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
    give_event(all, JOURNAL_IMAGES, &event);
    all->status.jobs++;
}

static void give_absent(struct journal_resync *all, const struct resync_slot *slot)
{
    /* A GONE record always has a number; here only the id, as in the table, matters. */
    struct event event = {.kind = EVENT_GONE,
                          .job.seq = 1,
                          .end = END_DELETED,
                          .id = bytes_of(slot->id, slot->id_len)};
    give_event(all, JOURNAL_ABSENT, &event);
    if (all->status.closed++ < NAMED_MAX)
        log_event(LOG_INFO, "journal_row_closed", "id=\"%.*s\" why=\"no such job is in the queue\"",
                  (int)(bytes_is_utf8(event.id) ? event.id.len : 0), event.id.at);
}

/* ---- jobs ---- */

static void want(struct journal_resync *all, uint64_t seq)
{
    buf_add(&all->wanted, &seq, sizeof(seq));
}

static size_t wanted_count(const struct journal_resync *all)
{
    return (all->wanted.len - all->wanted_at) / sizeof(uint64_t);
}

/* Handles the look-up of a row. A restored job has its row's id, and no longer its old number. */
static void row_answered(struct journal_resync *all, struct resync_slot *slot, enum err err)
{
    if (err != ERR_NOT_FOUND || slot->changed)
        return;
    if (!slot->seq) {
        give_absent(all, slot);
        return;
    }
    slot->seq = 0;
    slot->again = true;
}

/* False: it has ended; or another job has its id, without an event of this one. */
static bool is_there(const struct journal_resync *all, uint64_t seq)
{
    const struct core *core = all->embedded->core;
    const struct job_ref ref = {.seq = seq};
    uint64_t places[FAR_CANDIDATES_MAX];
    return core_holds(core, &ref) || core_far_find(core, &ref, places) > 0;
}

static void image_answered(struct journal_resync *all, const struct resync_slot *slot,
                           const struct reply *reply)
{
    if (reply->err == ERR_NOT_FOUND || !is_there(all, slot->seq))
        return;
    if (slot->changed)
        want(all, slot->seq);
    else if (reply->err == OK && reply->count)
        give_image(all, reply->jobs);
    else if (reply->err == ERR_DAMAGED && all->status.unread++ < NAMED_MAX)
        log_event(LOG_ERROR, "journal_job_unread",
                  "job=@%llu error=%s hint=\"its row stays as it is\"",
                  (unsigned long long)slot->seq, err_name(reply->err));
    else if (reply->err != OK && reply->err != ERR_DAMAGED)
        fail(all, err_text(reply->err));
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct resync_slot *slot = LIST_ENTRY(ticket, struct resync_slot, ticket);
    struct journal_resync *all = slot->owner;
    slot->busy = false;
    all->embedded->busy = true;
    if (slot->of_row)
        row_answered(all, slot, reply->err);
    else
        image_answered(all, slot, reply);
}

static struct resync_slot *free_slot(struct journal_resync *all)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (!all->slots[i].busy && !all->slots[i].again)
            return &all->slots[i];
    }
    return NULL;
}

static bool is_idle(const struct journal_resync *all)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (all->slots[i].busy || all->slots[i].again)
            return false;
    }
    return true;
}

static bool has_room(const struct journal_resync *all)
{
    return feed_of(all)->held_bytes < HELD_MAX && all->given_bytes < BYTES_A_TURN &&
           all->gets < GETS_A_TURN;
}

static void get(struct journal_resync *all, struct resync_slot *slot)
{
    struct cmd cmd = {.kind = CMD_GET, .job.ref = {.seq = slot->seq}};
    if (!slot->seq)
        cmd.job.ref.id = bytes_of(slot->id, slot->id_len);
    slot->ticket = (struct ticket){.answered = answered};
    slot->owner = all;
    slot->busy = true;
    slot->again = slot->changed = false;
    all->gets++;
    (void)embedded_submit(all->embedded, &cmd, &slot->ticket);
}

static void get_again(struct journal_resync *all)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (all->slots[i].again && !all->slots[i].busy)
            get(all, &all->slots[i]);
    }
}

static void get_wanted(struct journal_resync *all)
{
    struct resync_slot *slot;
    get_again(all);
    while (wanted_count(all) && has_room(all) && (slot = free_slot(all))) {
        memcpy(&slot->seq, all->wanted.at + all->wanted_at, sizeof(slot->seq));
        all->wanted_at += sizeof(slot->seq);
        slot->of_row = false;
        slot->id_len = 0;
        get(all, slot);
    }
    if (all->wanted_at == all->wanted.len ||
        (all->wanted_at >= DONE_BYTES && all->wanted_at >= all->wanted.len / 2)) {
        buf_drop(&all->wanted, all->wanted_at); /* moves no more bytes than were handled */
        all->wanted_at = 0;
    }
    if (wanted_count(all) && feed_of(all)->held_bytes < HELD_MAX && free_slot(all))
        all->embedded->busy = true;
}

void journal_resync_note_event(struct embedded *embedded, const struct event *event)
{
    struct journal_resync *all = embedded->feed.resync;
    if (event->kind != EVENT_JOB && event->kind != EVENT_MOVE && event->kind != EVENT_GONE)
        return;
    for (unsigned i = 0; i < SLOTS; i++) {
        struct resync_slot *slot = &all->slots[i];
        bool same = slot->seq ? slot->seq == event->job.seq
                              : bytes_eq(bytes_of(slot->id, slot->id_len), event->id);
        slot->changed |= slot->busy && same;
    }
    bool looks = all->step == STEP_LISTS || all->step == STEP_MEMORY;
    if (looks && event->kind == EVENT_MOVE) {
        if (wanted_count(all) < MOVED_MAX)
            want(all, event->job.seq);
        else
            all->overflowed = true;
    }
}

/* Images may be given twice. */
static void start_listing(struct journal_resync *all)
{
    all->overflowed = false;
    all->topic_done = true;
    all->topic_len = 0;
    all->cursor.len = 0;
    all->place = 0;
    all->status.jobs = 0;
    all->step = STEP_LISTS;
}

/* ---- delayed and buried jobs, in memory or not, and ready ones that are not ---- */

/* The state that is listed after this one; JOB_GONE: none. Ready jobs in memory are found there:
   none of them departs meanwhile (far.c). */
static enum job_state state_after(const struct journal_resync *all, enum job_state state)
{
    struct bytes topic = bytes_of(all->topic, all->topic_len);
    if (state == JOB_BURIED)
        return JOB_GONE;
    bool far = state == JOB_DELAYED && core_far_count(all->embedded->core, topic, JOB_READY) > 0;
    return far ? JOB_READY : JOB_BURIED;
}

static void page_answered(struct ticket *ticket, const struct reply *reply)
{
    struct journal_resync *all = LIST_ENTRY(ticket, struct journal_resync, page);
    all->asked = false;
    all->embedded->busy = true;
    if (reply->err == ERR_NOT_FOUND) { /* the topic has gone, and all its jobs */
        all->topic_done = true;
    } else if (reply->err) {
        fail(all, err_text(reply->err));
    } else if (reply->kind == CMD_TOPICS && reply->count == 0) {
        all->step = STEP_MEMORY;
    } else if (reply->kind == CMD_TOPICS) {
        all->topic_len = reply->topics->name.len;
        memcpy(all->topic, reply->topics->name.at, all->topic_len);
        all->topic_done = false;
        all->state = JOB_DELAYED;
        all->cursor.len = 0;
    } else {
        for (uint32_t i = 0; i < reply->count; i++)
            want(all, reply->jobs[i].ref.seq);
        all->cursor.len = 0;
        buf_add_bytes(&all->cursor, reply->cursor);
        if (reply->cursor.len)
            return;
        all->state = state_after(all, all->state);
        all->topic_done = all->state == JOB_GONE;
    }
}

static void list_jobs(struct journal_resync *all)
{
    if (all->asked || wanted_count(all) >= WANTED_MAX)
        return;
    struct buf cursor = {0}; /* the answer may come before submit returns, and changes ours */
    buf_add_bytes(&cursor, buf_bytes(&all->cursor));
    char topic[TOPIC_NAME_MAX];
    memcpy(topic, all->topic, all->topic_len);
    struct cmd cmd = {.kind = CMD_TOPICS,
                      .topic = {.topic = bytes_of(topic, all->topic_len), .max = 1}};
    if (!all->topic_done) {
        cmd.kind = CMD_LIST;
        cmd.topic.max = LIST_JOBS;
        cmd.topic.state = all->state;
        cmd.topic.cursor = buf_bytes(&cursor);
    }
    all->page = (struct ticket){.answered = page_answered};
    all->asked = true;
    (void)embedded_submit(all->embedded, &cmd, &all->page);
    buf_fini(&cursor);
}

/* ---- all others ---- */

static void want_job(void *ctx, const struct job *job)
{
    if (job->state != JOB_DELAYED && job->state != JOB_BURIED)
        want(ctx, job->seq);
}

static void visit_memory(struct journal_resync *all)
{
    if (wanted_count(all) >= WANTED_MAX)
        return;
    all->embedded->busy = true;
    if (core_visit(all->embedded->core, &all->place, VISIT_PLACES, want_job, all))
        return;
    if (all->overflowed)
        start_listing(all);
    else
        all->step = STEP_ROWS;
}

/* ---- rows ---- */

static void rows_arrived(struct restore_reader *reader)
{
    struct journal_resync *all = LIST_ENTRY(reader, struct journal_resync, reader);
    all->arrived = true;
    all->embedded->busy = true;
}

static const struct restore_verbs *rows_of(const struct journal_resync *all,
                                           struct restore **out_restore)
{
    struct journal *journal = feed_of(all)->journal;
    *out_restore = journal->verbs->restore(journal);
    return (*out_restore)->verbs;
}

static void close_rows(struct journal_resync *all)
{
    struct restore *restore;
    if (all->run)
        rows_of(all, &restore)->close(all->run);
    all->run = NULL;
}

static void begin_rows(struct journal_resync *all)
{
    struct restore *restore;
    const struct restore_verbs *verbs = rows_of(all, &restore);
    struct restore_query query = {.only_ids = true, .now_us = now_of(all)};
    const char *why;
    if (now_of(all) < all->rows_us)
        return;
    all->reader.arrived = rows_arrived;
    all->arrived = false;
    if (verbs->begin(restore, &query, &all->reader, &all->run, &why) != OK) {
        all->run = NULL;
        all->rows_us = now_of(all) + ROWS_AGAIN_US;
    }
}

/* Looks up the job of a row: at once if it is in memory, else by a GET. */
static void look_up_row(struct journal_resync *all, struct resync_slot *slot,
                        const struct restore_row *row)
{
    const struct core *core = all->embedded->core;
    struct bytes id = row->push.id;
    struct job_ref ref = {.id = row->seq ? BYTES("") : id, .seq = row->seq};
    all->status.rows++;
    if (!id.len || id.len > JOB_ID_MAX || core_holds(core, &ref) ||
        core_holds(core, &(struct job_ref){.id = id}))
        return; /* no job can have this id: no job has this row, and no restore uses it */
    slot->of_row = true;
    slot->seq = row->seq;
    slot->id_len = id.len;
    memcpy(slot->id, id.at, id.len);
    get(all, slot);
}

/* All rows were looked up, or reading them failed. */
static void end_rows(struct journal_resync *all)
{
    struct restore *restore;
    const char *why = "";
    enum err err = OK;
    const struct restore_verbs *verbs = rows_of(all, &restore);
    if (!verbs->ended(all->run, &err, &why))
        return;
    if (err) {
        (void)snprintf(all->status.why, sizeof(all->status.why), "%s", why);
        all->status.rows = 0;
        all->rows_us = now_of(all) + ROWS_AGAIN_US;
    } else {
        all->status.why[0] = '\0';
        all->step = STEP_DRAINS;
    }
    close_rows(all);
    all->embedded->busy = true;
}

static void take_rows(struct journal_resync *all)
{
    struct restore *restore;
    const struct restore_verbs *verbs = rows_of(all, &restore);
    struct restore_row *row = NULL;
    struct resync_slot *slot = NULL;
    if (!all->run) {
        begin_rows(all);
        return;
    }
    if (!all->arrived)
        return;
    all->status.rows_total = verbs->expected ? verbs->expected(all->run) : 0;
    bool dry = false;
    for (unsigned i = 0; i < ROWS_A_TURN && !dry && has_room(all) && (slot = free_slot(all)); i++) {
        row = verbs->take(all->run);
        dry = !row;
        if (dry)
            break;
        look_up_row(all, slot, row);
        verbs->settle(all->run, row);
    }
    if (!dry) { /* else the journal's word, or an answer, begins a turn */
        all->embedded->busy |= feed_of(all)->held_bytes < HELD_MAX && free_slot(all) != NULL;
        return;
    }
    all->arrived = false;
    end_rows(all);
}

/* ---- its life ---- */

static void log_counts(struct journal_resync *all, enum log_level level, const char *event)
{
    const struct resync_status *status = &all->status;
    all->logged_us = now_of(all);
    log_event(level, event, "jobs=%llu of=%llu rows=%llu closed=%llu unread=%llu ms=%lld%s%s%s",
              (unsigned long long)status->jobs, (unsigned long long)status->jobs_total,
              (unsigned long long)status->rows, (unsigned long long)status->closed,
              (unsigned long long)status->unread,
              (long long)((now_of(all) - status->begun_us) / 1000), status->why[0] ? " why=\"" : "",
              status->why, status->why[0] ? "\"" : "");
}

/* Cancels all that is under way; afterwards the step is STEP_NONE. */
static void drop_all(struct journal_resync *all)
{
    const struct engine_verbs *verbs = all->embedded->engine.verbs;
    for (unsigned i = 0; i < SLOTS; i++) {
        if (all->slots[i].busy)
            verbs->cancel(&all->embedded->engine, &all->slots[i].ticket);
        all->slots[i].busy = all->slots[i].again = false;
    }
    if (all->asked)
        verbs->cancel(&all->embedded->engine, &all->page);
    all->asked = false;
    close_rows(all);
    buf_fini(&all->wanted);
    buf_fini(&all->cursor);
    all->wanted_at = 0;
    all->step = STEP_NONE;
    all->status.ended_us = now_of(all);
    feed_of(all)->resyncing = false;
}

/* Rows that were written are correct, the others unchanged: the journal stays marked. */
static void fail(struct journal_resync *all, const char *why)
{
    (void)snprintf(all->status.why, sizeof(all->status.why), "%s", why);
    all->status.state = RESYNC_FAILED;
    log_counts(all, LOG_ERROR, "journal_resync_failed");
}

static void begin_steps(struct journal_resync *all)
{
    struct core_totals totals;
    core_totals(all->embedded->core, &totals);
    all->status.jobs_total = 0;
    for (unsigned state = 0; state < JOB_STATES; state++)
        all->status.jobs_total += totals.jobs[state];
    all->rows_us = 0;
    all->resyncs = feed_of(all)->status.resyncs;
    start_listing(all);
    log_event(LOG_INFO, "journal_resync_begins", "jobs=%llu",
              (unsigned long long)all->status.jobs_total);
    give(all, new_batch(all, JOURNAL_RESYNC_BEGINS, 0));
}

/* The journal was stopped: it begins again at the present end of the log, once that is durable. */
static void rejoin(struct journal_resync *all)
{
    struct embedded *embedded = all->embedded;
    struct journal_feed *feed = feed_of(all);
    uint64_t at = follower_cursor(feed->follower);
    if (store_synced(embedded->store) < at)
        return;
    struct journal_begin begin = {.batch = at, .resync = true, .at_us = now_of(all)};
    memcpy(begin.store, store_identity(embedded->store), sizeof(begin.store));
    if (!feed->journal->verbs->again(feed->journal, &begin))
        return;
    feed->joined = feed->begins = feed->broken = false;
    feed->held_bytes = 0;
    feed->lacking_us = 0;
    feed->journal->verbs->status(feed->journal, &feed->status);
    all->step = STEP_BEGINS;
}

static void end(struct journal_resync *all)
{
    struct journal_feed *feed = feed_of(all);
    if (all->step == STEP_DRAINS && is_idle(all) && !wanted_count(all)) {
        all->target = all->target ? all->target : store_batch(all->embedded->store);
        if (feed->given < all->target || feed->held_bytes >= HELD_MAX)
            return; /* the next batches begin a turn */
        give(all, new_batch(all, JOURNAL_RESYNC_ENDS, 0));
        all->step = STEP_ENDS;
    }
    if (all->step != STEP_ENDS || feed->status.resyncs == all->resyncs)
        return;
    all->status.state = RESYNC_DONE;
    drop_all(all);
    log_counts(all, LOG_INFO, "journal_resynced");
}

void journal_resync_turn(struct embedded *embedded)
{
    struct journal_resync *all = embedded->feed.resync;
    const struct journal_feed *feed = &embedded->feed;
    if (!all || all->step == STEP_NONE)
        return;
    all->given_bytes = 0;
    all->gets = 0;
    if (all->step == STEP_REJOINS)
        rejoin(all);
    else if (feed->broken || feed->status.phase == JOURNAL_FENCED)
        fail(all, feed->status.why[0] ? feed->status.why : "the journal was stopped");
    else if (all->step == STEP_BEGINS && feed->joined && !feed->begins)
        begin_steps(all);
    if (all->status.state == RESYNC_FAILED) { /* now, or while something was answered */
        drop_all(all);
        return;
    }
    switch (all->step) {
    case STEP_LISTS: list_jobs(all); break;
    case STEP_MEMORY: visit_memory(all); break;
    case STEP_ROWS: take_rows(all); break;
    case STEP_NONE:
    case STEP_REJOINS:
    case STEP_BEGINS:
    case STEP_DRAINS:
    case STEP_ENDS: break;
    }
    get_wanted(all);
    end(all);
    if (all->step != STEP_NONE && now_of(all) - all->logged_us >= LOG_US)
        log_counts(all, LOG_INFO, "journal_resyncing");
}

int64_t journal_resync_next_us(const struct embedded *embedded)
{
    const struct journal_resync *all = embedded->feed.resync;
    if (all && all->step == STEP_REJOINS)
        return now_of(all) + REJOIN_US;
    return all && all->step == STEP_ROWS && !all->run ? all->rows_us : INT64_MAX;
}

static void start(struct journal_resync *all, enum step step)
{
    all->status = (struct resync_status){.state = RESYNC_RUNS, .begun_us = now_of(all)};
    all->logged_us = now_of(all);
    all->target = 0;
    all->step = step;
    feed_of(all)->resyncing = true;
    all->embedded->busy = true;
}

void journal_resync_resume(struct embedded *embedded)
{
    struct journal_resync *all = embedded->feed.resync;
    if (all->step != STEP_NONE)
        return;
    log_event(LOG_INFO, "journal_resync_goes_on",
              "hint=\"the last one was not ended: it begins again\"");
    start(all, STEP_BEGINS);
}

enum err journal_resync_begin(struct embedded *embedded, const char **out_why)
{
    struct journal_resync *all = embedded->feed.resync;
    struct journal_feed *feed = feed_of(all);
    bool stopped = feed->broken || feed->status.phase == JOURNAL_FENCED;
    if (all->step != STEP_NONE) {
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
    start(all, stopped ? STEP_REJOINS : STEP_BEGINS);
    return OK;
}

static enum resync_step step_of(const struct journal_resync *all)
{
    switch (all->step) {
    case STEP_LISTS:
    case STEP_MEMORY: return RESYNC_STEP_JOBS;
    case STEP_ROWS: /* jobs that were found may not have been read yet */
        return wanted_count(all) ? RESYNC_STEP_JOBS : RESYNC_STEP_ROWS;
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
    const struct journal_resync *all = embedded->feed.resync;
    *out_status = all->status;
    out_status->step = step_of(all);
}

void journal_resync_open(struct embedded *embedded)
{
    struct journal_resync *all = mem_zalloc(sizeof(*all));
    all->embedded = embedded;
    embedded->feed.resync = all;
}

void journal_resync_close(struct embedded *embedded)
{
    struct journal_resync *all = embedded->feed.resync;
    embedded->feed.resync = NULL;
    if (!all)
        return;
    drop_all(all);
    mem_free(all);
}

void journal_resync_describe(const struct embedded *embedded, struct metric_sink *sink)
{
    resync_describe(&embedded->feed.resync->status, sink);
}
