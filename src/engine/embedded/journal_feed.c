/*
 * Feeds the journal: a follower of the log passes its batches on unchanged, and its cursor is what
 * the database has committed. The cursor in the database decides, because it is changed in one
 * transaction with the rows; the follower's cursor only follows it.
 *
 *     follower's cursor ≤ done (committed there) ≤ given ≤ durable here
 *
 * Costs the turn a copy of each batch, but for large ones, which the disk's threads read once more
 * for it; records are decoded on the journal's thread.
 */
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/far.h"
#include "engine/embedded/parts.h"

enum {
    HELD_MAX = 8 * 1024 * 1024,    /* bytes that the journal holds and has not committed, at most */
    READ_BYTES = 256 * 1024,       /* of the log, read in a turn */
    LARGE_BYTES = 256 * 1024,      /* batches above this are not copied */
    LAG_CHECK_US = 100 * 1000,     /* between measurements of the lag */
    LAG_LOG_US = 10 * 1000 * 1000, /* between journal_behind lines, while pushes are refused */
};

static struct embedded *of_callbacks(struct follower_callbacks *callbacks)
{
    return LIST_ENTRY(callbacks, struct embedded, feed.callbacks);
}

/* With `room` bytes behind it. */
static struct journal_batch *new_batch(const struct batch_head *head, size_t room)
{
    struct journal_batch *batch = mem_alloc(sizeof(*batch) + room);
    *batch = (struct journal_batch){
        .kind = JOURNAL_CHANGES,
        .numbered = true,
        .number = head->number,
        .clock_us = head->clock_us,
        .payload_bytes = head->payload_bytes,
        .records = head->record_count,
        .bytes = BATCH_HEAD + head->payload_bytes,
    };
    return batch;
}

static void hand_over(struct journal_feed *feed, struct journal_batch *batch)
{
    feed->held_bytes += batch->bytes;
    feed->given = batch->number;
    feed->journal->verbs->give(feed->journal, batch);
}

static void give(struct follower_callbacks *callbacks, const struct batch_head *head,
                 const char *batch)
{
    struct journal_batch *copy = new_batch(head, BATCH_HEAD + head->payload_bytes);
    memcpy(copy->at, batch, copy->bytes);
    hand_over(&of_callbacks(callbacks)->feed, copy);
}

static void give_large(struct follower_callbacks *callbacks, const struct batch_head *head,
                       char *bytes)
{
    struct journal_batch *batch = new_batch(head, 0);
    batch->apart = bytes;
    hand_over(&of_callbacks(callbacks)->feed, batch);
}

/* ---- comparing log and database ---- */

static void stop(struct journal_feed *feed, const char *why)
{
    feed->broken = true;
    feed->refuses = feed->options.refuse;
    log_event(LOG_ERROR, "journal_out_of_step",
              "reason=\"%s\" mysql_batch=%llu log_batch=%llu hint=\"the journal writes nothing "
              "more; to bring it to what the queue holds: later journal resync\"",
              why, (unsigned long long)feed->done,
              (unsigned long long)follower_cursor(feed->follower));
    feed->journal->verbs->stop(feed->journal, why);
}

/* Gives the journal a batch without changes, which moves its cursor to the log's end. */
static void give_empty(struct embedded *embedded)
{
    struct journal_feed *feed = &embedded->feed;
    struct journal_batch *batch = mem_zalloc(sizeof(*batch) + BATCH_HEAD);
    batch->numbered = true;
    batch->number = store_synced(embedded->store);
    batch->clock_us = embedded->loop->now_us;
    batch->bytes = BATCH_HEAD;
    CHECK(batch->number > feed->done); /* else the follower could continue at the cursor */
    hand_over(feed, batch);
}

/*
 * The log behind the cursor was deleted. The follower stays dropped until the cursor has been
 * moved: if laterd or the database ends meanwhile, the next start does the same again.
 */
static void begin_at_end(struct embedded *embedded)
{
    struct journal_feed *feed = &embedded->feed;
    feed->begins = follower_state(feed->follower) == FOLLOWER_DROPPED &&
                   !follower_resume(feed->follower, feed->done);
    if (feed->begins)
        give_empty(embedded);
}

/* The database had no cursor of this store, because the journal is new, or because an operator has
   deleted it to begin again: jobs that are no longer in the log get no rows until they change. */
static void begin_without_cursor(struct embedded *embedded)
{
    struct core_totals totals;
    uint64_t jobs = 0;
    begin_at_end(embedded);
    core_totals(embedded->core, &totals);
    for (unsigned state = 0; state < JOB_STATES; state++)
        jobs += totals.jobs[state];
    if (jobs)
        log_event(
            LOG_WARN, "journal_begins",
            "jobs=%llu hint=\"jobs that were pushed before have no row until they change, or: "
            "later journal resync\"",
            (unsigned long long)jobs);
}

/* The database's cursor is known: continues from it, or reports why that is impossible. */
static void join(struct embedded *embedded)
{
    struct journal_feed *feed = &embedded->feed;
    bool dropped = follower_state(feed->follower) == FOLLOWER_DROPPED;
    feed->joined = true;
    feed->given = feed->done;
    if (feed->done > store_synced(embedded->store))
        stop(feed, "the database has batches that this log does not have: it is an older copy");
    else if (feed->status.made && (dropped || feed->done >= follower_cursor(feed->follower)))
        begin_without_cursor(embedded);
    else if (feed->done < follower_cursor(feed->follower))
        stop(feed, "the database has lost batches that it had committed");
    else if (dropped && !follower_resume(feed->follower, feed->done))
        stop(feed, "the log was not kept for the journal any longer");
    else
        follower_ack(feed->follower, feed->done);
    if (feed->status.resyncing && !feed->broken)
        journal_resync_resume(embedded);
}

static void note_state(struct embedded *embedded);

static void status_changed(struct journal *journal)
{
    struct embedded *embedded = journal->user;
    struct journal_feed *feed = &embedded->feed;
    struct journal_status *status = &feed->status;
    journal->verbs->status(journal, status);
    feed->held_bytes = status->held_bytes;
    feed->down = status->phase != JOURNAL_WRITES;
    note_state(embedded);
    if (!status->known)
        return;
    bool moved = feed->done != status->done;
    feed->done = status->done;
    if (!feed->joined)
        join(embedded);
    else if (feed->begins && moved && !feed->broken)
        begin_at_end(embedded);
    else if (!feed->broken)
        follower_ack(feed->follower, feed->done);
}

/* ---- the lag ---- */

/* The time of the oldest change that the database lacks; 0: it has all. */
static int64_t oldest_lacking_us(const struct journal_feed *feed)
{
    return feed->joined ? feed->status.oldest_us : feed->lacking_us;
}

static bool too_late(const struct embedded *embedded)
{
    const struct journal_feed *feed = &embedded->feed;
    int64_t oldest_us = oldest_lacking_us(feed);
    return feed->broken || follower_lag_bytes(feed->follower) > feed->options.max_lag_bytes ||
           (oldest_us && embedded->loop->now_us - oldest_us > feed->options.max_lag_us);
}

static void detach(struct embedded *embedded)
{
    if (!embedded->feed.broken)
        stop(&embedded->feed, "it was later than journal.max_lag, and journal.on_lag is detach");
}

static void check_lag(struct embedded *embedded)
{
    struct journal_feed *feed = &embedded->feed;
    int64_t now_us = embedded->loop->now_us;
    if (now_us < feed->lag_check_us)
        return;
    feed->lag_check_us = now_us + LAG_CHECK_US;
    bool lacking = follower_cursor(feed->follower) < store_synced(embedded->store);
    if (lacking && !feed->lacking_us)
        feed->lacking_us = now_us;
    bool late = too_late(embedded), was = feed->refuses;
    if (late && !feed->options.refuse)
        detach(embedded);
    feed->refuses = late && feed->options.refuse;
    if (feed->broken)
        return; /* it was logged before */
    if (feed->refuses && (!was || now_us >= feed->report_us)) {
        feed->report_us = now_us + LAG_LOG_US;
        log_event(LOG_ERROR, "journal_behind",
                  "lag_bytes=%llu reason=\"%s\" hint=\"pushes are refused until MySQL has caught "
                  "up; bring it back, or raise journal.max_lag\"",
                  (unsigned long long)follower_lag_bytes(feed->follower), feed->status.why);
    } else if (was && !feed->refuses) {
        log_event(LOG_INFO, "journal_caught_up", "hint=\"pushes are taken again\"");
    }
}

/* ---- for the engine ---- */

/* Logs the first failed read of the log; it is tried again in the next turn, and the journal
   waits. */
static void note_read(struct journal_feed *feed, enum err err)
{
    bool unread = err != OK && err != ERR_AGAIN;
    if (unread && !feed->unread)
        log_event(LOG_ERROR, "journal_log_unread",
                  "batch=%llu error=%s hint=\"the disk cannot read the log, so MySQL gets nothing "
                  "more; look at the disk, and at the store with later verify\"",
                  (unsigned long long)feed->done, err_name(err));
    if (err != ERR_AGAIN)
        feed->unread = unread;
}

void journal_feed_turn(struct embedded *embedded)
{
    struct journal_feed *feed = &embedded->feed;
    bool more = true;
    check_lag(embedded);
    journal_resync_turn(embedded);
    note_state(embedded);
    if (!feed->joined || feed->begins || feed->broken)
        return;
    if (follower_state(feed->follower) == FOLLOWER_DROPPED) {
        stop(feed, "the log was not kept for the journal any longer");
        return;
    }
    if (feed->held_bytes >= HELD_MAX)
        return; /* the journal's next callback starts a turn */
    enum err err = follower_read(feed->follower, &feed->callbacks, READ_BYTES, &more);
    note_read(feed, err);
    if (!err && more)
        embedded->busy = true;
}

bool journal_feed_stops(const struct embedded *embedded)
{
    const struct journal_feed *feed = &embedded->feed;
    return feed->options.before && (feed->down || feed->broken);
}

/* True: the command renews a lease, or gives back a job that was not delivered. If it were refused,
   the lease would expire, which counts as a failure of the job. */
static bool spares_job(const struct cmd *cmd)
{
    return cmd->kind == CMD_TOUCH ||
           (cmd->kind == CMD_RELEASE && cmd->job.why == RELEASE_UNDELIVERED);
}

enum err journal_feed_admit(const struct embedded *embedded, const struct cmd *cmd)
{
    const struct cmd_traits *traits = cmd_traits(cmd->kind);
    if (journal_feed_stops(embedded) && (traits->changes || traits->takes_jobs) && !spares_job(cmd))
        return ERR_JOURNAL_DOWN;
    return embedded->feed.refuses && cmd->kind == CMD_PUSH ? ERR_JOURNAL_BEHIND : OK;
}

enum err journal_feed_health(const struct embedded *embedded)
{
    if (journal_feed_stops(embedded))
        return ERR_JOURNAL_DOWN;
    return embedded->feed.refuses ? ERR_JOURNAL_BEHIND : OK;
}

uint64_t journal_feed_gate(const struct embedded *embedded, uint64_t batch)
{
    const struct journal_feed *feed = &embedded->feed;
    return feed->options.before && feed->done < batch ? feed->done : batch;
}

/* ---- how it is ---- */

static enum journal_state state_of(const struct journal_feed *feed)
{
    if (feed->broken || feed->status.phase == JOURNAL_STOPPED)
        return JOURNAL_STATE_OUT_OF_STEP;
    if (feed->status.phase == JOURNAL_FENCED)
        return JOURNAL_STATE_FENCED;
    return feed->down ? JOURNAL_STATE_WAITS : JOURNAL_STATE_WRITES;
}

/* Updates state and state_us; to be called whenever the state may have changed. */
static void note_state(struct embedded *embedded)
{
    struct journal_feed *feed = &embedded->feed;
    enum journal_state state = state_of(feed);
    if (feed->state == state && feed->state_us)
        return;
    feed->state = state;
    feed->state_us = embedded->loop->now_us;
}

static const char *hint_of(const struct journal_feed *feed, enum journal_state state)
{
    switch (state) {
    case JOURNAL_STATE_OUT_OF_STEP:
        return "to bring it to what the queue holds: later journal resync";
    case JOURNAL_STATE_FENCED:
        return "see that only one laterd runs on this queue, then restart it, or: later journal "
               "resync";
    case JOURNAL_STATE_WAITS: return feed->status.advice;
    case JOURNAL_STATE_WRITES:
    case JOURNAL_STATE_ELSEWHERE: break;
    }
    return "";
}

static void fill_health(const struct embedded *embedded, struct journal_health *out_health)
{
    const struct journal_feed *feed = &embedded->feed;
    uint64_t synced = store_synced(embedded->store);
    int64_t oldest_us = oldest_lacking_us(feed), now_us = embedded->loop->now_us;
    enum journal_state state = state_of(feed);
    *out_health = (struct journal_health){
        .state = state,
        .since_us = feed->state_us,
        .refuses_pushes = feed->refuses,
        .knows_cursor = feed->status.known,
        .cursor = feed->status.known ? feed->done : 0,
        .epoch = feed->status.epoch,
        .knows_lag = true,
        .lag_entries = synced > feed->done ? synced - feed->done : 0,
        .lag_bytes = follower_lag_bytes(feed->follower),
        .lag_us = oldest_us && now_us > oldest_us ? now_us - oldest_us : 0,
        .rejected = feed->status.rejected,
    };
    if (state != JOURNAL_STATE_WRITES)
        (void)snprintf(out_health->error, sizeof(out_health->error), "%s", feed->status.why);
    (void)snprintf(out_health->hint, sizeof(out_health->hint), "%s", hint_of(feed, state));
}

void journal_feed_describe(const struct embedded *embedded, struct metric_sink *sink)
{
    const struct journal_feed *feed = &embedded->feed;
    if (!feed->journal)
        return;
    if (sink->metric) {
        struct journal_health health;
        fill_health(embedded, &health);
        journal_health_describe(&health, sink);
    }
    journal_describe(&feed->status, sink);
    journal_resync_describe(embedded, sink);
    if (sink->warning && feed->unread)
        sink->warning(sink, "journal cannot read the log", 1);
    if (sink->warning && (feed->broken || feed->status.phase == JOURNAL_FENCED))
        sink->warning(sink, "journal out of step", 1);
}

static uint64_t newest(const struct journal *journal)
{
    const struct embedded *embedded = journal->user;
    return store_batch(embedded->store);
}

/* False for far jobs, too: they are checked by cmd_push::number when the row is pushed. */
static bool lives(const struct journal *journal, uint64_t seq)
{
    const struct embedded *embedded = journal->user;
    return core_holds(embedded->core, &(struct job_ref){.seq = seq});
}

void journal_feed_ended(struct embedded *embedded, const struct event *event)
{
    struct journal *journal = embedded->feed.journal;
    journal->verbs->ended(journal, event->id, event->job.seq);
}

/* ---- journal_control_verbs ---- */

static struct embedded *of_control(const struct journal_control *control)
{
    return LIST_ENTRY((struct journal_control *)control, struct embedded, feed.control);
}

static enum err control_resync(struct journal_control *control, const char **out_why)
{
    return journal_resync_begin(of_control(control), out_why);
}

static void control_resync_status(const struct journal_control *control,
                                  struct resync_status *out_status)
{
    journal_resync_status(of_control(control), out_status);
}

static void control_health(const struct journal_control *control, struct journal_health *out_health)
{
    fill_health(of_control(control), out_health);
}

static const struct journal_control_verbs control_verbs = {
    .resync = control_resync,
    .resync_status = control_resync_status,
    .health = control_health,
};

struct journal_control *embedded_journal_control(struct embedded *embedded)
{
    return embedded->feed.resync ? &embedded->feed.control : NULL;
}

enum err embedded_follow(struct embedded *embedded, const struct embedded_journal *options)
{
    struct journal_feed *feed = &embedded->feed;
    CHECK(embedded->store && !feed->journal);
    enum err err = follower_open(embedded->store, BYTES("journal"), &feed->follower);
    if (err)
        return err;
    feed->options = *options;
    feed->journal = options->journal;
    feed->control.verbs = &control_verbs;
    feed->callbacks.whole = give;
    feed->callbacks.large = give_large;
    feed->callbacks.large_bytes = LARGE_BYTES;
    feed->down = true;
    feed->status.why[0] = '\0';
    feed->journal->user = embedded;
    feed->journal->changed = status_changed;
    feed->journal->newest = newest;
    feed->journal->lives = lives;
    struct journal_begin begin = {.batch = follower_cursor(feed->follower)};
    memcpy(begin.store, store_identity(embedded->store), sizeof(begin.store));
    journal_resync_open(embedded);
    feed->journal->verbs->begin(feed->journal, &begin);
    return OK;
}

void journal_feed_end(struct embedded *embedded)
{
    if (embedded->feed.journal)
        embedded->feed.journal->changed = NULL;
    embedded->feed.journal = NULL;
}
