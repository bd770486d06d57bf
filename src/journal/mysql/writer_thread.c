/*
 * The writer's thread: connects, takes the cursor, and commits group after group, until the
 * connection fails or it is over. All here is called on that thread.
 */
#include <stdio.h>
#include <time.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/mem.h"
#include "journal/mysql/writer.h"

enum {
    BACKOFF_FIRST_US = 100 * 1000,
    BACKOFF_MOST_US = 10 * 1000 * 1000,
    IDLE_US = 5 * 1000 * 1000,       /* without batches: then the connection is checked */
    LOG_AGAIN_US = 60 * 1000 * 1000, /* between log lines of the same error */
};

/* With the mutex locked. Sleeps until a batch is given, the thread must end, or the time has
   come. */
static void wait_until(struct writer *writer, int64_t until_us)
{
    struct timespec until = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    writer->waiting = true;
    (void)pthread_cond_timedwait(&writer->given, &writer->mutex, &until); /* or it is over */
    writer->waiting = false;
}

/* Under the mutex. */
static void look_at_oldest(struct writer *writer)
{
    struct queue_node *first = writer->held.first ? writer->held.first : writer->inbox.first;
    writer->status.oldest_us = first ? writer_batch(first)->clock_us : 0;
}

static void set_epoch(struct writer *writer, uint64_t epoch)
{
    writer->epoch = epoch;
    writer_lock(writer);
    writer->status.epoch = epoch;
    writer_unlock(writer);
}

/* ---- connecting ---- */

static enum link_result out_of_step(struct writer *writer, const char *why)
{
    writer_lock(writer);
    bool ends = writer->closing;
    writer_unlock(writer);
    writer_set_phase(writer, JOURNAL_FENCED, why, "");
    if (ends) /* the next writer continues */
        log_event(LOG_INFO, "journal_left", "reason=\"%s\"", why);
    else
        log_event(LOG_ERROR, "journal_fenced",
                  "reason=\"%s\" hint=\"this laterd writes nothing more to MySQL; see that only "
                  "one runs on this queue, then restart it, or: later journal resync\"",
                  why);
    return LINK_ROW; /* see writer_run() */
}

/*
 * Batches that were committed, after all, are held no longer: up to the cursor; of a group that was
 * just committed all, since images and their like move no cursor. Where it is not known whether
 * such a group without changes was committed, doing it again does no harm.
 */
static void drop_held(struct writer *writer, uint64_t done, bool all)
{
    struct queue dropped = {0};
    struct queue_node *node;
    writer_lock(writer);
    while ((node = writer->held.first) && (all || writer_batch(node)->number <= done)) {
        queue_add(&dropped, queue_take(&writer->held));
        writer->status.held_bytes -= writer_batch(node)->bytes;
    }
    look_at_oldest(writer);
    writer->status.done = done;
    writer->done = done;
    writer_unlock(writer);
    writer_free_batches(
        &dropped); /* many MiB take milliseconds, for which the loop must not wait */
}

/* Without the mutex. */
static void add_to_group(struct writer *writer, const struct journal_batch *batch)
{
    if (group_add(&writer->group, batch))
        log_event(LOG_ERROR, "journal_batch_unread",
                  "batch=%llu hint=\"a record of it cannot be decoded: look at the store with "
                  "later verify\"",
                  (unsigned long long)batch->number);
    if (writer->streams && batch->numbered) {
        struct writer_stream *stream = &writer->streams[batch->stream];
        stream->at = (struct journal_stream){.entry = batch->entry, .mark = batch->mark};
        stream->moved = true;
    }
}

static void reset_group(struct writer *writer)
{
    group_reset(&writer->group);
    for (uint32_t i = 0; i < writer->begin.streams; i++)
        writer->streams[i].moved = false;
}

static void regroup(struct writer *writer)
{
    reset_group(writer);
    for (struct queue_node *node = writer->held.first; node; node = node->next)
        add_to_group(writer, writer_batch(node));
}

static enum journal_lead lead_of(const struct writer *writer)
{
    return writer->lead ? writer->lead(writer->lead_owner) : JOURNAL_LEAD_NONE;
}

/* session_place::may_take */
static bool may_take(void *owner)
{
    return lead_of(owner) != JOURNAL_LEAD_NOT_OURS;
}

/*
 * The row was deleted on a connection that was not lost since the last commit: so the server has
 * all that it had. Of a log only: that a cursor stands in streams its feed says again.
 */
static enum link_result make_again(struct writer *writer, struct session_refusal *refusal)
{
    struct session_cursor cursor = {.epoch = writer->epoch + 1, .batch = writer->done};
    struct session_place place = {.sql = &writer->place, .at_us = writer->group.at_us};
    enum link_result result =
        session_make_cursor(&writer->link, &writer->begin, &place, &cursor, refusal);
    if (result != LINK_DONE)
        return result;
    log_event(LOG_WARN, "journal_cursor_made",
              "epoch=%llu hint=\"the cursor's row was deleted while this laterd wrote; it goes on "
              "where it was. If rows of jobs were deleted, too: later journal resync\"",
              (unsigned long long)cursor.epoch);
    set_epoch(writer, cursor.epoch);
    return LINK_DONE;
}

/*
 * Another writer has taken the cursor. It may be a former leader that noticed its end late: if the
 * election says that it must not write, and it has not written, we take the cursor back and write
 * what is held. A resync writes without moving the cursor: one that is not ours counts as a write.
 * ROW: the cursor cannot be taken back.
 */
static enum link_result retake(struct writer *writer, struct session_refusal *refusal)
{
    struct session_cursor cursor = {0};
    bool there = false, resyncing = false;
    if (lead_of(writer) != JOURNAL_LEAD_OURS)
        return LINK_ROW;
    enum link_result result =
        session_read_cursor(&writer->link, writer->begin.store, &there, &cursor);
    if (result == LINK_DONE)
        result = session_read_resync(&writer->link, writer->begin.store, &resyncing);
    if (result != LINK_DONE)
        return result;
    if (!there)
        return make_again(writer, refusal);
    if (cursor.batch != writer->done || (resyncing && !writer->status.resyncing))
        return LINK_ROW;
    result = session_raise_epoch(&writer->link, writer->begin.store, &cursor);
    if (result != LINK_DONE)
        return result == LINK_ROW ? LINK_REFUSED : result;
    log_event(LOG_WARN, "journal_retaken",
              "epoch=%llu before=%llu hint=\"another laterd had taken the cursor, and has written "
              "nothing; this one leads\"",
              (unsigned long long)cursor.epoch, (unsigned long long)writer->epoch);
    set_epoch(writer, cursor.epoch);
    return LINK_DONE;
}

/* After a lost connection: finds out which of the held batches the database has. */
static enum link_result continue_cursor(struct writer *writer, struct session_refusal *refusal)
{
    struct session_cursor cursor = {0};
    bool there = false;
    enum link_result result =
        session_read_cursor(&writer->link, writer->begin.store, &there, &cursor);
    if (result != LINK_DONE)
        return result;
    if (!there)
        return out_of_step(
            writer, "the cursor is gone: somebody deleted it, or another queue has the tables");
    if (cursor.epoch != writer->epoch) {
        result = retake(writer, refusal);
        if (result != LINK_DONE)
            return result == LINK_ROW ? out_of_step(writer, "another laterd writes for this queue")
                                      : result;
    }
    if (cursor.batch < writer->done)
        return out_of_step(writer, "MySQL has lost what it had committed: a failover, or an older "
                                   "copy of it");
    drop_held(writer, cursor.batch, false);
    return LINK_DONE;
}

/* Reads the positions in streams, before the cursor is published; no lock is needed until then. */
static enum link_result read_streams(struct writer *writer)
{
    uint32_t count = writer->begin.streams;
    struct journal_stream *at = mem_zalloc(count * sizeof(*at));
    enum link_result result = session_read_streams(&writer->link, &writer->begin, at);
    for (uint32_t i = 0; i < count; i++)
        writer->streams[i].begun = at[i];
    mem_free(at);
    return result;
}

static enum link_result begin_cursor(struct writer *writer, struct session_refusal *refusal)
{
    struct session_cursor cursor = {0};
    bool resyncing = false;
    struct session_place place = {
        .sql = &writer->place, .at_us = writer->begin.at_us, .may_take = may_take, .owner = writer};
    enum link_result result =
        session_take_cursor(&writer->link, &writer->begin, &place, &cursor, refusal);
    if (result == LINK_DONE && writer->begin.streams)
        result = read_streams(writer);
    if (result == LINK_DONE)
        result = session_read_resync(&writer->link, writer->begin.store, &resyncing);
    if (result != LINK_DONE)
        return result;
    writer->taken = true;
    set_epoch(writer, cursor.epoch);
    writer->done = cursor.batch;
    writer_lock(writer);
    writer->status.known = true;
    writer->status.made = cursor.made;
    writer->status.resyncing = resyncing;
    writer->status.done = cursor.batch;
    writer_unlock(writer);
    log_event(LOG_INFO, "journal_joined", "mysql_batch=%llu epoch=%llu new=%d",
              (unsigned long long)cursor.batch, (unsigned long long)cursor.epoch, cursor.made);
    return LINK_DONE;
}

static bool is_closing(struct writer *writer)
{
    writer_lock(writer);
    bool closing = writer->closing;
    writer_unlock(writer);
    return closing;
}

/* True: the writer is ending, and must not take the cursor any more: it would fence the next
   one. */
static bool ends_untaken(struct writer *writer)
{
    return !writer->taken && is_closing(writer);
}

/* Reports WRITES once something was written on this connection: a read-only or full server accepts
 * connections, too. */
static void report_writes(struct writer *writer)
{
    if (writer->writes)
        return;
    writer->writes = true;
    writer_set_phase(writer, JOURNAL_WRITES, "", "");
    log_event(LOG_INFO, "journal_writes", "server=\"%s\" database=%s",
              mysql_get_server_info(&writer->link.mysql), writer->link_options.url.database);
    writer->logged_us = 0;
}

/* The cursor is known. What is held is the best probe: its commit will tell, see committed(). */
static enum link_result begin_writing(struct writer *writer, bool wrote)
{
    enum link_result result = LINK_DONE;
    regroup(writer);
    writer_lock(writer);
    writer->status.connections++;
    writer_unlock(writer);
    if (writer->held.first)
        return LINK_DONE;
    if (!wrote)
        result = writer_probe(writer);
    if (result == LINK_DONE)
        report_writes(writer);
    return result;
}

static void set_connected(struct writer *writer, bool connected)
{
    writer_lock(writer);
    writer->connected = connected;
    writer_unlock(writer);
}

static enum link_result connect_once(struct writer *writer, struct session_refusal *refusal)
{
    bool taken = writer->taken;
    writer->writes = false;
    enum link_result result = link_open(&writer->link, &writer->link_options);
    set_connected(writer, result == LINK_DONE);
    if (result == LINK_DONE && !ends_untaken(writer))
        result = session_check_tables(&writer->link, writer->begin.streams > 0, refusal);
    if (ends_untaken(writer)) /* checked last, because each query before may have taken long */
        return LINK_AWAY;
    if (result == LINK_DONE)
        result = taken ? continue_cursor(writer, refusal) : begin_cursor(writer, refusal);
    return result == LINK_DONE ? begin_writing(writer, !taken) : result;
}

/* ---- writing ---- */

/* Under the mutex: is there a group to be written now? */
static bool is_due(const struct writer *writer, int64_t now_us)
{
    return writer->inbox.first &&
           (writer->at_once || writer->closing || writer->inbox_records >= GROUP_RECORDS ||
            now_us - writer->inbox_since_us >= GROUP_US);
}

/* Under the mutex: has it nothing more to do? */
static bool is_over(const struct writer *writer)
{
    return writer->stopping || (writer->closing && ((!writer->inbox.first && !writer->held.first) ||
                                                    writer_now_us() >= writer->until_us));
}

/* Nothing is held: takes what makes a group. False: it is over; *out_idle: nothing came for a
 * while. */
static bool take(struct writer *writer, bool *out_idle)
{
    struct queue_node *node;
    unsigned records = 0;
    int64_t now_us = writer_now_us(), idle_us = now_us + IDLE_US;
    writer_lock(writer);
    while (!is_over(writer) && !is_due(writer, now_us) && now_us < idle_us) {
        wait_until(writer, writer->inbox.first ? writer->inbox_since_us + GROUP_US : idle_us);
        now_us = writer_now_us();
    }
    bool over = is_over(writer);
    *out_idle = !writer->inbox.first;
    while (!over && records < GROUP_RECORDS && (node = queue_take(&writer->inbox))) {
        records += writer_batch(node)->records;
        writer->inbox_records -= writer_batch(node)->records;
        queue_add(&writer->held, node);
    }
    writer->inbox_since_us = now_us - GROUP_US; /* the rest has waited long enough */
    writer_unlock(writer);
    regroup(writer); /* decodes them: the loop must not wait for that */
    return !over;
}

static void committed(struct writer *writer)
{
    writer_lock(writer);
    writer->status.groups++;
    writer->status.job_rows += writer->job_rows;
    writer->status.log_rows += writer->log_rows;
    writer->status.rejected += writer->rejected;
    writer->status.resyncs += writer->group.resync_ends;
    if (writer->group.resync_begins || writer->group.resync_ends)
        writer->status.resyncing = !writer->group.resync_ends;
    writer_unlock(writer);
    drop_held(writer, writer_group_end(writer), true);
    reset_group(writer);
    report_writes(writer);
    writer_lock(writer);
    writer_post(writer);
    writer_unlock(writer);
}

/* Clears the refusal of an earlier group. */
static void forget_refusal(struct session_refusal *refusal)
{
    refusal->why[0] = '\0';
    refusal->event = NULL;
    refusal->facts.len = 0;
}

/* Until the connection fails, or it is over (DONE). */
static enum link_result serve(struct writer *writer, struct session_refusal *refusal,
                              int64_t *backoff_us)
{
    bool idle;
    for (;;) {
        if (!writer->held.first && !take(writer, &idle))
            return LINK_DONE;
        enum link_result result = LINK_DONE;
        forget_refusal(refusal);
        if (writer->held.first) {
            result = writer_commit(writer, refusal);
            bool fenced = result == LINK_ROW;
            if (fenced)
                result = retake(writer, refusal);
            if (result == LINK_ROW)
                return out_of_step(writer, refusal->why);
            if (result == LINK_DONE && !fenced)
                committed(writer);
        } else {
            result = link_ping(&writer->link);
        }
        if (result != LINK_DONE)
            return result;
        *backoff_us = BACKOFF_FIRST_US;
    }
}

/* ---- errors ---- */

/* For the status each time; for the log if it is another error than last time, or long ago. */
static void report_error(struct writer *writer, enum link_result result,
                         const struct session_refusal *refusal)
{
    const struct link *link = &writer->link;
    int64_t now_us = writer_now_us();
    char text[JOURNAL_WHY_MAX], advice[JOURNAL_ADVICE_MAX];
    bool refused = result == LINK_REFUSED;
    if (refusal->why[0])
        (void)snprintf(text, sizeof(text), "%s", refusal->why);
    else if (!link->errnum) /* no statement failed */
        (void)snprintf(text, sizeof(text), "the cursor was moved while it was being taken");
    else
        (void)snprintf(text, sizeof(text), "%u: %.150s", link->errnum, link->error);
    if (refusal->event)
        (void)snprintf(advice, sizeof(advice), "do what the log's last line %s says",
                       refusal->event);
    else
        (void)snprintf(advice, sizeof(advice), "%s", link_hint(link->errnum));
    writer_set_phase(writer, refused ? JOURNAL_REFUSES : JOURNAL_AWAY, text, advice);
    if (writer->logged_us && now_us - writer->logged_us < LOG_AGAIN_US &&
        writer->logged_errnum == link->errnum && strcmp(writer->logged_why, refusal->why) == 0)
        return;
    writer->logged_us = now_us;
    writer->logged_errnum = link->errnum;
    memcpy(writer->logged_why, refusal->why, sizeof(refusal->why));
    if (refusal->event)
        log_event(LOG_ERROR, refusal->event, "%.*s", (int)refusal->facts.len, refusal->facts.at);
    else
        log_event(refused ? LOG_ERROR : LOG_WARN, "journal_away", "error=\"%s\" hint=\"%s\"", text,
                  advice);
}

/* False: it is over. */
static bool pause(struct writer *writer, int64_t us)
{
    int64_t until_us = writer_now_us() + us;
    writer_lock(writer);
    while (!writer->closing && !writer->stopping && writer_now_us() < until_us)
        wait_until(writer, until_us);
    bool over = writer->closing || writer->stopping;
    writer_unlock(writer);
    return !over;
}

void *writer_run(void *arg)
{
    struct writer *writer = arg;
    int64_t backoff_us = BACKOFF_FIRST_US;
    (void)mysql_thread_init(); /* it is for libraries older than this one */
    for (bool on = true; on;) {
        struct session_refusal refusal = {.why = ""};
        enum link_result result = connect_once(writer, &refusal);
        if (result == LINK_DONE)
            result = serve(writer, &refusal, &backoff_us);
        on = result == LINK_AWAY || result == LINK_REFUSED;
        if (on && !ends_untaken(writer))
            report_error(writer, result, &refusal);
        buf_fini(&refusal.facts);
        set_connected(writer, false);
        link_close(&writer->link);
        on = on && pause(writer, backoff_us);
        backoff_us = backoff_after(backoff_us, BACKOFF_MOST_US);
    }
    mysql_thread_end();
    writer_lock(writer);
    writer->over = true;
    writer_unlock(writer);
    return NULL;
}
