#include "journal/mysql/writer.h"

#include <stdio.h>
#include <time.h>

#include "base/list.h"
#include "base/mem.h"
#include "journal/mysql/plugin.h"
#include "os/thread.h"
#include "port/clock.h"

enum { JOIN_US = 1000 * 1000 }; /* after the grace time: then the thread is interrupted */

static struct writer *self(struct journal *journal)
{
    return LIST_ENTRY(journal, struct writer, journal);
}

int64_t writer_now_us(void)
{
    return clock_monotonic_us();
}

void writer_post(struct writer *writer)
{
    if (writer->posted)
        return;
    writer->posted = true;
    writer->loop->verbs->post(writer->loop, &writer->message);
}

void writer_free_batches(struct queue *queue)
{
    struct queue_node *node;
    while ((node = queue_take(queue)))
        journal_batch_free(writer_batch(node));
}

void writer_set_phase(struct writer *writer, enum journal_phase phase, const char *why,
                      const char *advice)
{
    writer_lock(writer);
    writer->status.phase = phase;
    (void)snprintf(writer->status.why, sizeof(writer->status.why), "%s", why);
    (void)snprintf(writer->status.advice, sizeof(writer->status.advice), "%s", advice);
    writer_post(writer);
    writer_unlock(writer);
}

/* ---- the loop's side ---- */

void writer_release(struct writer *writer)
{
    if (!writer->closed || writer->posted || !restorer_idle(&writer->restorer))
        return; /* a message is under way, and makes this call again */
    restorer_fini(&writer->restorer);
    writer_free_batches(&writer->inbox);
    writer_free_batches(&writer->held);
    group_fini(&writer->group);
    buf_fini(&writer->sql);
    mem_free(writer->picked);
    mem_free(writer->streams);
    link_fini(&writer->link);
    (void)pthread_cond_destroy(&writer->given);
    (void)pthread_mutex_destroy(&writer->mutex);
    mem_free(writer);
}

static void status_arrived(struct message *message)
{
    struct writer *writer = LIST_ENTRY(message, struct writer, message);
    writer_lock(writer);
    writer->posted = false;
    writer_unlock(writer);
    if (writer->closed)
        writer_release(writer);
    else if (writer->journal.changed)
        writer->journal.changed(&writer->journal);
}

static void journal_begin(struct journal *journal, const struct journal_begin *begin)
{
    struct writer *writer = self(journal);
    writer->begin = *begin;
    memcpy(writer->group.store, begin->store, sizeof(begin->store));
    if (begin->streams)
        writer->streams = mem_zalloc(begin->streams * sizeof(*writer->streams));
    int failed = thread_start(&writer->thread, writer_run, writer);
    writer->started = failed == 0;
    if (failed)
        writer_set_phase(writer, JOURNAL_REFUSES, "the system has no thread left for it", "");
}

/* Frees everything, after the thread has ended. */
static void forget_all(struct writer *writer)
{
    writer_free_batches(&writer->inbox);
    writer_free_batches(&writer->held);
    link_allow(&writer->link);
    group_reset(&writer->group);
    mem_free(writer->streams);
    writer->streams = NULL;
    writer->inbox_records = 0;
    writer->started = writer->stopping = writer->over = false;
    writer->taken = writer->writes = false;
    writer->logged_us = 0;
    struct journal_status *status = &writer->status;
    status->phase = JOURNAL_AWAY;
    status->known = status->made = status->resyncing = false;
    status->held_bytes = 0;
    status->oldest_us = 0;
    status->why[0] = status->advice[0] = '\0';
}

static bool journal_again(struct journal *journal, const struct journal_begin *begin)
{
    struct writer *writer = self(journal);
    writer_lock(writer);
    writer->stopping = true;
    (void)pthread_cond_signal(&writer->given);
    bool over = writer->over || !writer->started;
    writer_unlock(writer);
    if (!over) {
        link_interrupt(&writer->link);
        return false;
    }
    if (writer->started)
        (void)pthread_join(writer->thread, NULL); /* it has ended */
    writer_lock(writer);
    forget_all(writer);
    writer_unlock(writer);
    journal_begin(journal, begin);
    return true;
}

static void journal_give(struct journal *journal, struct journal_batch *batch)
{
    struct writer *writer = self(journal);
    writer_lock(writer);
    if (writer->stopping || writer->status.phase == JOURNAL_FENCED) {
        writer_unlock(writer);
        journal_batch_free(batch);
        return;
    }
    bool was_empty = !writer->inbox.first, was_few = writer->inbox_records < GROUP_RECORDS;
    if (was_empty)
        writer->inbox_since_us = writer_now_us();
    queue_add(&writer->inbox, &batch->place);
    writer->inbox_records += batch->records;
    writer->status.held_bytes += batch->bytes;
    if (!writer->status.oldest_us)
        writer->status.oldest_us = batch->clock_us;
    bool enough = was_few && writer->inbox_records >= GROUP_RECORDS;
    if (writer->waiting && (was_empty || enough))
        (void)pthread_cond_signal(&writer->given);
    writer_unlock(writer);
}

static void journal_status(struct journal *journal, struct journal_status *out_status)
{
    struct writer *writer = self(journal);
    writer_lock(writer);
    *out_status = writer->status;
    writer_unlock(writer);
}

static void journal_streams(struct journal *journal, struct journal_stream *out_streams)
{
    struct writer *writer = self(journal);
    for (uint32_t i = 0; i < writer->begin.streams; i++)
        out_streams[i] = writer->streams[i].begun;
}

static void journal_stop(struct journal *journal, const char *why)
{
    struct writer *writer = self(journal);
    writer_lock(writer);
    writer->stopping = true;
    (void)pthread_cond_signal(&writer->given);
    writer_unlock(writer);
    writer_set_phase(writer, JOURNAL_STOPPED, why, "");
}

static void join(struct writer *writer, int64_t grace_us)
{
    if (!writer->started || thread_join_within(writer->thread, grace_us + JOIN_US))
        return;
    link_interrupt(&writer->link);
    (void)pthread_join(writer->thread, NULL);
}

/* Returns whether the thread is over. */
static bool request_end(struct writer *writer, int64_t grace_us)
{
    writer_lock(writer);
    writer->closing = true;
    writer->until_us = writer_now_us() + grace_us;
    (void)pthread_cond_signal(&writer->given);
    bool over = writer->over || !writer->started;
    writer_unlock(writer);
    return over;
}

static bool journal_leave(struct journal *journal, bool at_once)
{
    struct writer *writer = self(journal);
    bool over = request_end(writer, 0), read = restorer_leave(&writer->restorer);
    if (at_once && !over)
        link_interrupt(&writer->link);
    return over && read;
}

static void journal_close(struct journal *journal, int64_t grace_us)
{
    struct writer *writer = self(journal);
    writer_lock(writer);
    if (!writer->connected)
        grace_us = 0; /* it cannot write what it has: the log keeps that */
    writer_unlock(writer);
    (void)request_end(writer, grace_us);
    restorer_stop(&writer->restorer);
    join(writer, grace_us);
    writer->closed = true;
    writer_release(writer);
}

enum link_result writer_has(struct writer *writer, uint64_t batch)
{
    writer_lock(writer);
    bool has = writer->status.known && writer->status.done >= batch;
    bool writes = writer->status.phase == JOURNAL_WRITES;
    writer_unlock(writer);
    return has ? LINK_DONE : writes ? LINK_ROW : LINK_AWAY;
}

static struct restore *journal_restore(struct journal *journal)
{
    return &self(journal)->restorer.restore;
}

static void journal_ended(struct journal *journal, struct bytes id, uint64_t seq)
{
    struct writer *writer = self(journal);
    char room[JOURNAL_ID_ROOM];
    if (!id.len)
        id = bytes_of(room, journal_id_write(seq, writer->begin.store, room));
    restorer_ended(&writer->restorer, id);
}

static const struct journal_verbs verbs = {
    .begin = journal_begin,
    .again = journal_again,
    .give = journal_give,
    .status = journal_status,
    .streams = journal_streams,
    .stop = journal_stop,
    .restore = journal_restore,
    .ended = journal_ended,
    .leave = journal_leave,
    .close = journal_close,
};

struct journal *writer_new(const struct journal_options *options,
                           const struct link_options *link_options, const char *host)
{
    static const uint8_t nobody[JOURNAL_STORE_BYTES];
    struct writer *writer = mem_zalloc(sizeof(*writer));
    pthread_condattr_t attributes;
    writer->journal.verbs = &verbs;
    writer->loop = options->loop;
    writer->link_options = *link_options;
    writer->at_once = options->at_once;
    writer->lead = options->lead;
    writer->lead_owner = options->owner;
    (void)snprintf(writer->host, sizeof(writer->host), "%s", host);
    writer->place = (struct sql_place){.host = writer->host, .east_s = options->east_s};
    group_init(&writer->group, nobody, options->log_all);
    link_init(&writer->link);
    restorer_init(&writer->restorer);
    writer->message.arrived = status_arrived;
    /* None of these can fail on Linux. */
    (void)pthread_mutex_init(&writer->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&writer->given, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return &writer->journal;
}
