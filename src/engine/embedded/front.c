/*
 * Loads ready jobs that are far and will be handed out next: consumers wait for a topic whose first
 * ready job is not in memory. The records of its first ready jobs are read, from the page cache at
 * once, else by the disk's threads, and the jobs arrive in the core, to stay. The core hands out
 * nothing out of order, so they may arrive in any order.
 *
 * Records that cannot be read are logged, skipped, and tried again later.
 */
#include "core/front.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/far.h"
#include "engine/embedded/parts.h"
#include "store/far.h"

enum {
    READS_MAX = 256,              /* under way at a time */
    READS_TOPIC_MAX = 128,        /* … for one topic */
    HOLD_US = 2000,               /* so that who wants many gets more than the first that comes */
    TOPICS_TURN = 8,              /* topics in a turn: some 10 µs each, without reading */
    LOOK_NS = 20,                 /* work for looking whether a record is being read already … */
    READ_NS = 1000,               /* … for reading a record from the page cache … */
    ARRIVE_NS = 1000,             /* … for taking it in */
    RETRY_US = 30 * 1000 * 1000,  /* before unreadable records are tried again, at least, … */
    RETRY_TIMES = 9,              /* … and so many times as long as it took to try them */
    REPORT_US = 60 * 1000 * 1000, /* between log lines about unreadable records */
};

/* Reads of one topic that were begun together. */
struct front_batch {
    uint32_t reads;        /* that have not been taken, and … */
    uint32_t reading;      /* … those of them that have not ended */
    int64_t hold_until_us; /* until then those that have ended wait for the others */
};

struct front_read {
    struct list link;
    struct embedded *embedded;
    struct front_batch *batch;
    struct far_fetch fetch;
    uint32_t topic;
    uint64_t seq;
};

static void read_ended(struct far_fetch *fetch)
{
    struct front_read *read = fetch->owner;
    read->batch->reading--;
    list_remove(&read->link);
    list_add_tail(&read->embedded->fronts.whole, &read->link);
    read->embedded->busy = true; /* a read from the page cache ends after this turn's work */
}

static void end(struct front_read *read)
{
    store_far_fetch_end(read->embedded->store, &read->fetch);
    list_remove(&read->link);
    read->embedded->fronts.count--;
    if (--read->batch->reads == 0)
        mem_free(read->batch);
    mem_free(read);
}

/* The records of one topic that are being read, or have been. */
struct under_way {
    uint64_t where[READS_TOPIC_MAX];
    uint32_t count;
};

static struct under_way under_way_of(const struct fronts *fronts, uint32_t topic)
{
    const struct list *const lists[] = {&fronts->reading, &fronts->whole};
    struct under_way found;
    found.count = 0;
    for (unsigned i = 0; i < 2; i++)
        for (const struct list *at = lists[i]->next; at != lists[i]; at = at->next) {
            const struct front_read *read = LIST_ENTRY(at, const struct front_read, link);
            if (read->topic == topic && found.count < READS_TOPIC_MAX)
                found.where[found.count++] = read->fetch.where;
        }
    return found;
}

static bool is_under_way(const struct under_way *under_way, uint64_t where)
{
    for (uint32_t i = 0; i < under_way->count; i++)
        if (under_way->where[i] == where)
            return true;
    return false;
}

static void begin(struct embedded *embedded, struct front_batch *batch, uint32_t topic,
                  uint64_t seq, uint64_t where)
{
    struct front_read *read = mem_zalloc(sizeof(*read));
    *read = (struct front_read){
        .embedded = embedded,
        .batch = batch,
        .fetch = {.where = where, .done = read_ended, .owner = read},
        .topic = topic,
        .seq = seq,
    };
    batch->reads++;
    batch->reading++;
    list_add_tail(&embedded->fronts.reading, &read->link);
    embedded->fronts.count++;
    store_far_fetch(embedded->store, &read->fetch);
}

/* Counted from the last one of a series that failed: a disk may take seconds for each, and those
 * behind them wait. If the first were tried again before all had been, nothing behind them would be
 * read. One that fails when the series is over leaves the time as it is. */
static void retry_later(struct fronts *fronts, int64_t now_us)
{
    if (fronts->retry_at_us <= now_us)
        return; /* more are to be tried again now */
    if (fronts->retry_at_us == INT64_MAX)
        fronts->unread_us = now_us;
    else if (now_us - fronts->failed_us > RETRY_US)
        return;
    fronts->failed_us = now_us;
    fronts->retry_at_us = now_us + RETRY_US + (now_us - fronts->unread_us) * RETRY_TIMES;
}

static void report_unread(struct embedded *embedded, uint64_t seq, enum err err)
{
    struct fronts *fronts = &embedded->fronts;
    int64_t now_us = embedded->loop->now_us;
    retry_later(fronts, now_us);
    if (now_us < fronts->report_us)
        return;
    fronts->report_us = now_us + REPORT_US;
    log_event(LOG_ERROR, "ready_job_unread",
              "job=@%llu error=\"%s\" hint=\"its record cannot be read: others are handed out "
              "before it, and it is tried again after %d s or more; look at the disk\"",
              (unsigned long long)seq, err_text(err), RETRY_US / 1000000);
}

/* Handles the record of the job that was read, or the error. */
static void take(struct embedded *embedded, const struct front_read *read, enum err err,
                 const struct event *event)
{
    budget_spend(embedded->budget, ARRIVE_NS);
    if (!err && event->job.seq != read->seq)
        err = ERR_DAMAGED;
    if (!err && !core_front_arrive(embedded->core, event))
        err = ERR_DAMAGED; /* a record of another job; or the job is no longer far */
    if (err && core_is_far(embedded->core, read->seq, read->fetch.where)) {
        report_unread(embedded, read->seq, err);
        core_front_unread(embedded->core, read->topic, read->seq, read->fetch.where);
    }
}

static bool is_held(const struct front_read *read, int64_t now_us)
{
    return read->batch->reading > 0 && now_us < read->batch->hold_until_us;
}

/* Passes records that the disk's threads have read to the core. */
static void take_whole(struct embedded *embedded)
{
    const struct list *whole = &embedded->fronts.whole;
    unsigned steps = 0;
    for (struct list *at = whole->next, *next; at != whole; at = next) {
        struct front_read *read = LIST_ENTRY(at, struct front_read, link);
        next = at->next;
        if (is_held(read, embedded->loop->now_us))
            continue;
        if (steps++ > 0 && budget_spent(embedded->budget)) {
            embedded->busy = true;
            break;
        }
        take(embedded, read, read->fetch.err, &read->fetch.event);
        end(read);
    }
}

/* Loads the first jobs of one topic. True: some have arrived, or begin to be read. */
static bool bring(struct embedded *embedded, const struct core_front *front)
{
    struct fronts *fronts = &embedded->fronts;
    struct under_way under_way = under_way_of(fronts, front->topic);
    struct front_batch *batch = NULL;
    struct far_room room;
    struct event event;
    uint32_t reads = under_way.count;
    bool any = front->count == 0;
    budget_spend(embedded->budget, (int64_t)(fronts->count + front->count) * LOOK_NS);
    for (uint32_t i = 0; i < front->count; i++) {
        struct front_read read = {
            .topic = front->topic,
            .seq = front->jobs[i].seq,
            .fetch.where = front->jobs[i].where,
        };
        if (i >= CORE_FRONT_LEAST && budget_spent(embedded->budget))
            break;
        if (is_under_way(&under_way, read.fetch.where))
            continue;
        enum err err = ERR_AGAIN;
        if (!batch) { /* else those behind it are not in memory either, as a rule */
            budget_spend(embedded->budget, READ_NS);
            err = store_far_cached(embedded->store, read.fetch.where, &room, &event);
        }
        if (err != ERR_AGAIN) {
            take(embedded, &read, err, &event);
            any = embedded->busy = true;
            continue;
        }
        if (fronts->count >= READS_MAX || reads >= READS_TOPIC_MAX)
            break;
        if (!batch) {
            batch = mem_zalloc(sizeof(*batch));
            batch->hold_until_us = front->many ? embedded->loop->now_us + HOLD_US : 0;
        }
        begin(embedded, batch, read.topic, read.seq, read.fetch.where);
        reads++;
        any = true;
    }
    embedded->busy |= front->count == 0; /* stale entries were removed: try again */
    return any;
}

/* Loads jobs of hungry topics in rotation, until one comes again that has all its reads under
   way. */
static void bring_some(struct embedded *embedded)
{
    struct core_front front;
    uint32_t waits = UINT32_MAX;
    bool any = false;
    for (unsigned topics = 0;
         topics < TOPICS_TURN && core_front(embedded->core, &front) && front.topic != waits;
         topics++) {
        if (bring(embedded, &front))
            any = true;
        else if (waits == UINT32_MAX)
            waits = front.topic;
        if (budget_spent(embedded->budget))
            break;
    }
    /* Others may be wanted, too. If nothing was begun the end of a read starts a turn. */
    embedded->busy |= any && budget_spent(embedded->budget) && core_front_wanted(embedded->core);
}

static bool works(const struct embedded *embedded)
{
    return embedded->has_far && !store_failed(embedded->store);
}

void front_turn(struct embedded *embedded)
{
    struct fronts *fronts = &embedded->fronts;
    if (!works(embedded))
        return;
    if (fronts->retry_at_us <= embedded->loop->now_us) {
        bool more = core_front_retry(embedded->core);
        fronts->retry_at_us = more ? embedded->loop->now_us : INT64_MAX;
    }
    take_whole(embedded);
    bring_some(embedded);
}

int64_t front_next_us(const struct embedded *embedded)
{
    const struct fronts *fronts = &embedded->fronts;
    int64_t next_us = fronts->retry_at_us;
    if (!works(embedded))
        return INT64_MAX;
    for (const struct list *at = fronts->whole.next; at != &fronts->whole; at = at->next) {
        int64_t until_us = LIST_ENTRY(at, const struct front_read, link)->batch->hold_until_us;
        next_us = time_earlier(next_us, until_us);
    }
    return next_us;
}

void fronts_init(struct fronts *fronts)
{
    list_init(&fronts->reading);
    list_init(&fronts->whole);
    fronts->retry_at_us = INT64_MAX;
    fronts->report_us = INT64_MIN;
}

void front_fail_all(struct embedded *embedded)
{
    struct list *const lists[] = {&embedded->fronts.reading, &embedded->fronts.whole};
    for (unsigned i = 0; i < 2; i++)
        while (!list_empty(lists[i]))
            end(LIST_ENTRY(lists[i]->next, struct front_read, link));
    CHECK(embedded->fronts.count == 0);
}
