#include "engine/redis/journal_feed.h"

#include <sys/random.h>

#include "base/log.h"
#include "base/mem.h"

enum {
    TICK_US = 20 * 1000,
    IDLE_US = 200 * 1000, /* between reads of an idle partition */
    LEASE_US = 5 * 1000 * 1000,
    RENEW_US = 1000 * 1000,
    LOOK_US = 1000 * 1000, /* between calls that only ask for the lag, while nothing is read */
    OPEN_AGAIN_US = 1000 * 1000, /* after a journal that could not be opened */
    LEAVE_US = 1000 * 1000,      /* how long an ending journal may wait for the database */
    HELD_MAX = 8 * 1024 * 1024,  /* bytes that the journal holds and has not committed, at most */
    ENTRIES_FIRST = 32,
    ENTRIES_MOST = 256,
    ENTRIES_LEAST = 2,             /* the anchor, and a new one */
    NO_ENTRIES = 0,                /* the call only asks for the lag */
    DROPPED_MOST = 1000,           /* entries that one call deletes */
    LAG_LOG_US = 10 * 1000 * 1000, /* between journal_behind lines */
};

/* The state in journal.lua's answer to a read. */
enum {
    JOURNAL_THERE = 1,
    JOURNAL_GIVEN_UP = 2,
    JOURNAL_BEHIND = 3, /* as JOURNAL_THERE, but pushes are refused */
};

/* When this batch is committed, the partition is committed up to this entry. */
struct given {
    struct queue_node place; // redis_journal_feed::given
    uint64_t number, entry, mark;
    uint32_t partition;
};

static int64_t now_of(const struct redis_journal_feed *feed)
{
    return feed->options.loop->now_us;
}

static bool leads(const struct redis_journal_feed *feed)
{
    return !feed->leaving && now_of(feed) < feed->lease_until_us;
}

/* A former journal, until its threads have ended. */
struct left_journal {
    struct queue_node place; // redis_journal_feed::left
    struct journal *journal;
    int64_t since_us;
};

/* ---- opening and closing the journal ---- */

static void forget_given(struct redis_journal_feed *feed)
{
    struct queue_node *node;
    while ((node = queue_take(&feed->given)))
        mem_free(LIST_ENTRY(node, struct given, place));
}

/* Ends the journal without waiting for its thread, which may be waiting for the database. */
static void close_journal_later(struct redis_journal_feed *feed, struct journal *journal)
{
    if (journal->verbs->leave(journal, false)) {
        journal->verbs->close(journal, 0);
        return;
    }
    struct left_journal *left = mem_zalloc(sizeof(*left));
    left->journal = journal;
    left->since_us = now_of(feed);
    queue_add(&feed->left, &left->place);
}

static struct left_journal *oldest_left(const struct redis_journal_feed *feed)
{
    return feed->left.first ? LIST_ENTRY(feed->left.first, struct left_journal, place) : NULL;
}

/* Waits for its thread, if this has not ended. */
static void close_oldest_left(struct redis_journal_feed *feed)
{
    struct left_journal *left = oldest_left(feed);
    (void)queue_take(&feed->left);
    left->journal->verbs->close(left->journal, 0);
    mem_free(left);
}

/* Closes former journals whose threads have ended, the oldest first. */
static void close_ended_journals(struct redis_journal_feed *feed)
{
    struct left_journal *left;
    while ((left = oldest_left(feed))) {
        bool late = now_of(feed) - left->since_us >= LEAVE_US;
        if (!left->journal->verbs->leave(left->journal, late))
            return;
        close_oldest_left(feed);
    }
}

/* Entries that it has not committed are read again, by the next writer. */
static void close_journal(struct redis_journal_feed *feed, bool opens_again)
{
    if (!feed->journal)
        return;
    feed->journal->changed = NULL;
    redis_resync_closed(feed->resync, opens_again);
    close_journal_later(feed, feed->journal);
    feed->journal = NULL;
    feed->joined = feed->broken = false;
    feed->held_bytes = 0;
    forget_given(feed);
    redis_restore_closed(&feed->restore);
}

static void stop(struct redis_journal_feed *feed, const struct feed_stream *stream, const char *why)
{
    feed->broken = true;
    log_event(
        LOG_ERROR, "journal_out_of_step",
        "reason=\"%s\" partition=%u mysql_entry=%llu redis_entry=%llu hint=\"the journal "
        "writes nothing more, and pushes go on only until journal.max_lag; to bring it to what "
        "the queue holds: later journal resync; if Redis has lost jobs that MySQL has, see "
        "docs/journal.md first\"",
        why, stream->partition, (unsigned long long)stream->entry,
        (unsigned long long)stream->last);
    feed->journal->verbs->stop(feed->journal, why);
}

static void note_given(struct feed_stream *stream)
{
    struct redis_journal_feed *feed = stream->feed;
    struct given *given = mem_zalloc(sizeof(*given));
    given->number = feed->number;
    given->entry = stream->entry;
    given->mark = stream->mark;
    given->partition = stream->partition;
    queue_add(&feed->given, &given->place);
}

/* Gives the journal a batch without changes, which sets MySQL's position in this stream. */
static void give_place(struct feed_stream *stream)
{
    struct redis_journal_feed *feed = stream->feed;
    struct journal_batch *batch =
        journal_entry_position(stream->partition, stream->entry, stream->mark, now_of(feed));
    batch->number = ++feed->number;
    feed->held_bytes += batch->bytes;
    feed->journal->verbs->give(feed->journal, batch);
    note_given(stream);
}

static void begin_at(struct feed_stream *stream, const struct journal_stream *at)
{
    stream->entry = stream->committed = at->entry;
    stream->mark = stream->committed_mark = at->mark;
    stream->dropped = 0;
    stream->look_us = 0;
    stream->has_head = false;
}

/*
 * The journal's cursor is known: reading begins at its positions. If the cursor's row was deleted
 * while this daemon was the writer, only this daemon knows the positions, and sets them in the new
 * cursor.
 */
static void join(struct redis_journal_feed *feed)
{
    uint32_t count = feed->options.space->partitions;
    struct journal_stream *at = mem_zalloc(count * sizeof(*at));
    bool goes_on = feed->status.made && feed->knows_positions;
    feed->journal->verbs->streams(feed->journal, at);
    feed->number = feed->status.done;
    feed->joined = true;
    for (uint32_t i = 0; i < count; i++) {
        struct feed_stream *stream = &feed->streams[i];
        if (goes_on)
            at[i] =
                (struct journal_stream){.entry = stream->committed, .mark = stream->committed_mark};
        begin_at(stream, &at[i]);
        if (goes_on && stream->entry)
            give_place(stream);
    }
    mem_free(at);
    feed->knows_positions = false;
    if (goes_on)
        log_event(
            LOG_WARN, "journal_cursor_made",
            "hint=\"the cursor's row was deleted while this laterd wrote; it goes on where it "
            "was. To begin again, end laterd before\"");
    else if (feed->status.made)
        log_event(LOG_WARN, "journal_begins",
                  "hint=\"jobs that were pushed before the journal have no row until they change; "
                  "later journal resync gives them one\"");
    redis_resync_joined(feed->resync);
}

static void take_done(struct redis_journal_feed *feed)
{
    struct queue_node *node;
    while ((node = feed->given.first)) {
        struct given *given = LIST_ENTRY(node, struct given, place);
        if (given->number > feed->status.done)
            return;
        feed->streams[given->partition].committed = given->entry;
        feed->streams[given->partition].committed_mark = given->mark;
        (void)queue_take(&feed->given);
        mem_free(given);
    }
}

static void status_changed(struct journal *journal)
{
    struct redis_journal_feed *feed = journal->user;
    journal->verbs->status(journal, &feed->status);
    feed->held_bytes = feed->status.held_bytes;
    if (!feed->status.known)
        return;
    if (!feed->joined)
        join(feed);
    take_done(feed);
}

static void open_journal(struct redis_journal_feed *feed)
{
    struct journal_begin begin = {.streams = feed->options.space->partitions};
    struct journal *journal = feed->options.maker->make(feed->options.maker);
    feed->open_us = now_of(feed) + OPEN_AGAIN_US;
    if (!journal)
        return;
    memcpy(begin.store, feed->identity, sizeof(begin.store));
    begin.resync = redis_resync_wants(feed->resync);
    begin.at_us = now_of(feed);
    feed->journal = journal;
    feed->status = (struct journal_status){.phase = JOURNAL_AWAY};
    feed->handovers++;
    journal->user = feed;
    journal->changed = status_changed;
    journal->verbs->begin(journal, &begin);
    redis_restore_opened(&feed->restore);
}

/* ---- the lease ---- */

/* Notes the writer's label, for people; none if we are the writer: if we lose the lease later,
 * because Redis does not answer, the next writer is unknown. */
static void note_leader(struct redis_journal_feed *feed, struct bytes label, bool ours)
{
    if (ours)
        label = BYTES("");
    else if (!label.len) /* of a version without labels */
        label = BYTES("another one");
    size_t len = label.len < sizeof(feed->leader) ? label.len : sizeof(feed->leader) - 1;
    if (!bytes_is_utf8(label))
        len = 0;
    if (len)
        memcpy(feed->leader, label.at, len);
    feed->leader[len] = '\0';
}

static void lease_answered(void *owner, struct script_request *call, enum err err,
                           const struct bytes *parts, uint32_t count)
{
    struct redis_journal_feed *feed = owner;
    struct script_answer answer;
    struct script_parts received = {.partition = 0, .at = parts, .count = count};
    (void)call;
    feed->lease_pending = false;
    if (err || feed->leaving || script_read_answer(feed->options.space, &received, &answer) ||
        answer.err || count != 3 || parts[1].len != JOURNAL_STORE_BYTES)
        return;
    note_leader(feed, parts[2], answer.state != 0);
    bool same = memcmp(feed->identity, parts[1].at, JOURNAL_STORE_BYTES) == 0;
    memcpy(feed->identity, parts[1].at, JOURNAL_STORE_BYTES);
    if (!same) { /* Redis has lost the queue: this is a new one */
        close_journal(feed, false);
        feed->knows_positions = false;
    }
    feed->lease_until_us = answer.state ? feed->lease_sent_us + LEASE_US : 0;
}

/* Asks for the lease. A queue without an identity gets a new one: an emptied queue is another
 * queue. */
static void request_lease(struct redis_journal_feed *feed, int64_t span_us)
{
    uint8_t identity[JOURNAL_STORE_BYTES];
    if (getrandom(identity, sizeof(identity), 0) != sizeof(identity))
        return;
    struct script_request *call = script_requests_new_unkept(feed->options.calls, 0);
    struct script_lease lease = {
        .span_us = span_us,
        .identity = bytes_of((const char *)identity, sizeof(identity)),
        .label = bytes_str(feed->options.label),
        .refuses = feed->refuses,
    };
    script_encode_journal_lease(&call->request, feed->options.space, &call->id, &lease);
    feed->lease_pending = true;
    feed->reports_lag = false;
    feed->lease_sent_us = now_of(feed);
    script_requests_send(call, feed, lease_answered);
}

/* ---- entries ---- */

/* NULL: the entry is the anchor, the one that was read last. Else why it is not. */
static const char *anchor_mismatch(const struct feed_stream *stream,
                                   const struct journal_entry *first)
{
    if (!first && stream->last < stream->entry)
        return "Redis has lost changes that MySQL has: a failover, or an older save";
    if (!first || first->number > stream->entry)
        return "Redis has deleted entries that MySQL lacks: MySQL is an older copy, Redis has "
               "lost "
               "a key, or the journal was given up, as it was later than journal.max_lag";
    return first->mark == stream->mark
               ? NULL
               : "Redis has other changes than those that MySQL has: a failover, or an older save";
}

/* Gives the entry's batch to the journal. ERR_CORRUPT: laterd has not written this entry. */
static enum err give(struct feed_stream *stream, const struct journal_entry *entry)
{
    struct redis_journal_feed *feed = stream->feed;
    struct journal_batch *batch;
    enum err err =
        journal_entry_batch(feed->options.space, stream->partition, entry, &feed->arena, &batch);
    if (err)
        return err;
    batch->number = ++feed->number;
    feed->held_bytes += batch->bytes;
    feed->journal->verbs->give(feed->journal, batch);
    stream->entry = entry->number;
    stream->mark = entry->mark;
    return OK;
}

/* Handles an answer: the anchor, and the entries that follow it. */
static void take_entries(struct feed_stream *stream, const struct bytes *parts, uint32_t count)
{
    struct redis_journal_feed *feed = stream->feed;
    uint64_t before = feed->number;
    const char *why = NULL;
    arena_reset(&feed->arena);
    if (stream->entry && !count)
        why = anchor_mismatch(stream, NULL);
    for (uint32_t i = 0; i < count && !why; i++) {
        struct journal_entry entry;
        if (i == 0 && stream->has_head && !parts[0].len)
            continue; /* the anchor */
        if (journal_entry_read(feed->options.space, stream->partition, parts[i], &entry))
            why = "Redis has an entry that laterd has not written";
        else if (i == 0 && stream->entry)
            why = anchor_mismatch(stream, &entry);
        else if (stream->entry && entry.number != stream->entry + 1)
            why = "the journal was given up meanwhile: it was later than journal.max_lag";
        else if (give(stream, &entry))
            why = "Redis has an entry that cannot be read";
    }
    if (feed->number != before)
        note_given(stream);
    if (why)
        stop(feed, stream, why);
    else if (count && parts[count - 1].len >= FEED_HEAD_BYTES) {
        memcpy(stream->head, parts[count - 1].at, FEED_HEAD_BYTES);
        stream->has_head = true;
    }
}

/* Adapts how many entries are read at a time. The script limits their bytes, but an answer may
 * still be too large. */
static void tune(struct feed_stream *stream, enum err err)
{
    if (err && stream->at_once >= 2 * ENTRIES_LEAST)
        stream->at_once /= 2;
    else if (!err && stream->at_once < ENTRIES_MOST)
        stream->at_once *= 2;
}

static void ask_stream(struct feed_stream *stream, uint32_t max);

static bool reads(const struct redis_journal_feed *feed)
{
    return feed->joined && !feed->broken && feed->held_bytes < HELD_MAX;
}

/* The journal of the partition was given up: deletes its entries in any case, because otherwise no
 * journal could ever begin there again. */
static void given_up(struct feed_stream *stream, bool more)
{
    struct redis_journal_feed *feed = stream->feed;
    if (feed->joined && !feed->broken && stream->entry)
        stop(feed, stream, "it was given up: later than journal.max_lag, or Redis has lost a key");
    if (more) {
        ask_stream(stream, NO_ENTRIES);
        return;
    }
    log_event(
        LOG_WARN, "journal_given_up",
        "partition=%u hint=\"what changed meanwhile is not in MySQL; entries are written from "
        "now on\"",
        stream->partition);
    stream->waiting = stream->waiting_bytes = 0;
    stream->first_us = 0;
    stream->refuses = false;
    stream->not_before_us = now_of(feed) + LOOK_US;
    feed->options.given_up(feed->options.owner, stream->partition);
}

static void lag_answered(struct feed_stream *stream, const struct script_answer *answer,
                         const struct bytes *parts, uint32_t count)
{
    struct redis_journal_feed *feed = stream->feed;
    struct journal_field field;
    int state = (int)answer->state; /* of the journal, and not of a job */
    if (state == JOURNAL_GIVEN_UP) {
        given_up(stream, answer->more);
        return;
    }
    bool there = state == JOURNAL_THERE || state == JOURNAL_BEHIND;
    if (!there || journal_field_read(parts[1], &field)) {
        if (feed->joined && !feed->broken)
            stop(feed, stream, "Redis has lost the partition's journal");
        return;
    }
    stream->refuses = state == JOURNAL_BEHIND;
    stream->reported = stream->handover;
    stream->last = field.last;
    stream->waiting_bytes = field.waiting_bytes;
    stream->waiting = answer->count;
    if (stream->asks_lag)
        stream->first_us = answer->count ? answer->next_us : 0;
    if (stream->asks_lag || !feed->joined || feed->broken)
        return;
    take_entries(stream, parts + 2, count - 2);
    stream->look_us = answer->more || count > 3 ? 0 : now_of(feed) + IDLE_US;
    if (answer->more && reads(feed))
        ask_stream(stream, stream->at_once);
}

static void stream_answered(void *owner, struct script_request *call, enum err err,
                            const struct bytes *parts, uint32_t count)
{
    struct feed_stream *stream = owner;
    struct redis_journal_feed *feed = stream->feed;
    struct script_answer answer;
    struct script_parts received = {.partition = stream->partition, .at = parts, .count = count};
    (void)call;
    stream->pending = false;
    if (!err)
        err = script_read_answer(feed->options.space, &received, &answer);
    if (!err)
        err = answer.err;
    tune(stream, err);
    if (err || count < 2)
        stream->not_before_us = now_of(feed) + IDLE_US;
    else if (stream->handover == feed->handovers && feed->journal)
        lag_answered(stream, &answer, parts, count);
}

/* Reads up to `max` entries, and how many wait. */
static void ask_stream(struct feed_stream *stream, uint32_t max)
{
    struct redis_journal_feed *feed = stream->feed;
    struct script_request *call =
        script_requests_new_unkept(feed->options.calls, stream->partition);
    bool known = feed->joined && stream->has_head; /* else the script deletes no entries */
    uint64_t upto = known ? stream->committed : 0;
    if (upto > stream->dropped + DROPPED_MOST && stream->dropped)
        upto = stream->dropped + DROPPED_MOST;
    if (known)
        stream->dropped = upto;
    stream->used = feed->options.calls->partitions[stream->partition].used;
    struct script_entries entries = {
        .from = stream->entry,
        .below = upto,
        .head = bytes_of(stream->head, stream->has_head ? FEED_HEAD_BYTES : 0),
        .max = max,
    };
    script_encode_journal_read(&call->request, feed->options.space, &call->id, &entries);
    stream->pending = true;
    stream->asks_lag = max == NO_ENTRIES;
    stream->looked_us = now_of(feed);
    stream->handover = feed->handovers;
    redis_restore_looks(&feed->restore, stream->partition);
    script_requests_send(call, stream, stream_answered);
}

static bool is_due(const struct feed_stream *stream)
{
    const struct redis_journal_feed *feed = stream->feed;
    return now_of(feed) >= stream->look_us || redis_resync_is_running(feed->resync) ||
           stream->dropped < stream->committed ||
           feed->options.calls->partitions[stream->partition].used != stream->used;
}

static void look_at_stream(struct feed_stream *stream)
{
    const struct redis_journal_feed *feed = stream->feed;
    int64_t look_us = redis_restore_is_running(&feed->restore) ? IDLE_US : LOOK_US;
    if (stream->pending || now_of(feed) < stream->not_before_us)
        return;
    if (reads(feed) && is_due(stream))
        ask_stream(stream, stream->at_once);
    else if (!reads(feed) && now_of(feed) - stream->looked_us >= look_us)
        ask_stream(stream, NO_ENTRIES);
}

/* ---- the lag ---- */

static void report_lag(struct redis_journal_feed *feed, bool was)
{
    if (feed->refuses && (!was || now_of(feed) >= feed->report_us)) {
        feed->report_us = now_of(feed) + LAG_LOG_US;
        log_event(LOG_ERROR, "journal_behind",
                  "lag_s=%llu reason=\"%s\" hint=\"pushes are refused until MySQL has caught up; "
                  "bring it back, or raise journal.max_lag or journal.max_lag_time\"",
                  (unsigned long long)redis_journal_lag_us(feed) / 1000000, feed->status.why);
    } else if (was && !feed->refuses && feed->journal) {
        log_event(LOG_INFO, "journal_caught_up", "hint=\"pushes are taken again\"");
    }
}

/* Logs, and reports to all daemons, that pushes are refused; the scripts refuse by themselves. */
static void look_at_lag(struct redis_journal_feed *feed)
{
    bool was = feed->refuses;
    feed->refuses = false;
    for (uint32_t i = 0; feed->journal && i < feed->options.space->partitions; i++)
        feed->refuses = feed->refuses || feed_stream_refuses(&feed->streams[i]);
    if (feed->refuses != was && feed->journal)
        feed->reports_lag = true;
    if (!feed->broken) /* it was logged before */
        report_lag(feed, was);
}

/* ---- the timer ---- */

static void look_at_lease(struct redis_journal_feed *feed)
{
    bool due = feed->reports_lag || now_of(feed) - feed->lease_sent_us >= RENEW_US;
    if (!feed->lease_pending && due)
        request_lease(feed, LEASE_US);
    bool fenced = feed->journal && feed->status.phase == JOURNAL_FENCED;
    if (!leads(feed))
        feed->knows_positions = false; /* another daemon may have been the writer meanwhile */
    else if (fenced && feed->joined)
        feed->knows_positions = !feed->broken;
    if (feed->journal && (fenced || !leads(feed)))
        close_journal(feed, leads(feed));
    else if (!feed->journal && leads(feed) && now_of(feed) >= feed->open_us)
        open_journal(feed);
}

static void tick(struct timer *timer)
{
    struct redis_journal_feed *feed = LIST_ENTRY(timer, struct redis_journal_feed, tick);
    close_ended_journals(feed);
    if (feed->leaving) {
        if (feed->left.first)
            loop_arm(feed->options.loop, &feed->tick, now_of(feed) + TICK_US);
        return;
    }
    look_at_lag(feed);
    look_at_lease(feed);
    redis_journal_note_state(feed);
    for (uint32_t i = 0; feed->journal && i < feed->options.space->partitions; i++)
        look_at_stream(&feed->streams[i]);
    redis_restore_look(&feed->restore);
    redis_resync_look(feed->resync);
    loop_arm(feed->options.loop, &feed->tick, now_of(feed) + TICK_US);
}

/* ---- for the engine ---- */

void redis_journal_init(struct redis_journal_feed *feed, const struct journal_feed_options *options)
{
    *feed = (struct redis_journal_feed){.options = *options, .tick.expired = tick};
    if (!feed->options.label)
        feed->options.label = "";
    if (feed->options.maker)
        feed->resync = redis_resync_new(feed);
    redis_restore_init(&feed->restore, feed);
}

void redis_journal_start(struct redis_journal_feed *feed)
{
    uint32_t count = feed->options.space->partitions;
    if (!feed->options.maker || feed->streams)
        return;
    feed->streams = mem_zalloc(count * sizeof(*feed->streams));
    for (uint32_t i = 0; i < count; i++)
        feed->streams[i] =
            (struct feed_stream){.feed = feed, .partition = i, .at_once = ENTRIES_FIRST};
    redis_restore_start(&feed->restore);
    feed->lease_sent_us = INT64_MIN / 2;
    loop_arm(feed->options.loop, &feed->tick, now_of(feed));
}

void redis_journal_leave(struct redis_journal_feed *feed)
{
    if (!feed->streams || feed->leaving)
        return;
    feed->leaving = true;
    close_journal(feed, false);
    if (feed->lease_until_us)
        request_lease(feed, 0);
}

void redis_journal_fini(struct redis_journal_feed *feed)
{
    loop_cancel(feed->options.loop, &feed->tick);
    close_journal(feed, false);
    while (oldest_left(feed))
        close_oldest_left(feed);
    redis_restore_fini(&feed->restore);
    redis_resync_free(feed->resync);
    feed->resync = NULL;
    arena_fini(&feed->arena);
    mem_free(feed->streams);
    feed->streams = NULL;
}

void redis_journal_reopen(struct redis_journal_feed *feed)
{
    close_journal(feed, false);
    feed->open_us = 0;
}

struct restore *redis_journal_restore(struct redis_journal_feed *feed)
{
    return feed->options.maker ? &feed->restore.restore : NULL;
}

uint64_t redis_journal_has(const struct redis_journal_feed *feed, uint32_t partition)
{
    return feed->joined ? feed->streams[partition].committed : 0;
}

uint64_t redis_journal_waiting(const struct redis_journal_feed *feed, uint32_t partition)
{
    return feed->streams[partition].waiting_bytes;
}

bool redis_journal_leads(const struct redis_journal_feed *feed)
{
    return leads(feed);
}

bool redis_journal_refuses(const struct redis_journal_feed *feed)
{
    return feed->refuses;
}

bool redis_journal_writes(const struct redis_journal_feed *feed)
{
    return feed->joined && !feed->broken && feed->status.phase == JOURNAL_WRITES;
}
