/*
 * Loads ready jobs that are far and will be handed out next: consumers wait for a topic whose first
 * ready job is not in memory. The records of its first ready jobs are read, from the page cache at
 * once, else by the disk's threads, and the jobs arrive in the core, to stay. The core hands out
 * nothing out of order, so they may arrive in any order.
 *
 * Records that cannot be read are logged, skipped, and tried again later.
 */
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/embedded/parts.h"

enum {
    READS_MAX = 128,              /* under way at a time; more are begun when half have ended */
    HOLD_US = 2000,               /* so that who wants many gets more than the first that comes */
    TOPICS_TURN = 8,              /* topics in a turn: some 10 µs each, besides reading */
    READ_NS = 1000,               /* work for reading a record from the page cache … */
    ARRIVE_NS = 1000,             /* … for taking it in */
    RETRY_US = 30 * 1000 * 1000,  /* before an unreadable record is tried again */
    REPORT_US = 60 * 1000 * 1000, /* between log lines about unreadable records */
};

struct front_read {
    struct list link;
    struct embedded *embedded;
    struct far_fetch fetch;
    uint32_t topic;
    uint64_t seq;
};

static void read_ended(struct far_fetch *fetch)
{
    struct front_read *read = fetch->owner;
    list_remove(&read->link);
    list_add_tail(&read->embedded->fronts.whole, &read->link);
    read->embedded->busy = true; /* a read from the page cache ends after this turn's work */
}

static void end(struct front_read *read)
{
    store_far_fetch_end(read->embedded->store, &read->fetch);
    list_remove(&read->link);
    read->embedded->fronts.count--;
    mem_free(read);
}

static bool is_under_way(const struct fronts *fronts, uint64_t where)
{
    const struct list *const lists[] = {&fronts->reading, &fronts->whole};
    for (unsigned i = 0; i < 2; i++)
        for (const struct list *at = lists[i]->next; at != lists[i]; at = at->next)
            if (LIST_ENTRY(at, const struct front_read, link)->fetch.where == where)
                return true;
    return false;
}

static void begin(struct embedded *embedded, uint32_t topic, uint64_t seq, uint64_t where)
{
    struct front_read *read = mem_zalloc(sizeof(*read));
    *read = (struct front_read){
        .embedded = embedded,
        .fetch = {.where = where, .done = read_ended, .owner = read},
        .topic = topic,
        .seq = seq,
    };
    list_add_tail(&embedded->fronts.reading, &read->link);
    embedded->fronts.count++;
    store_far_fetch(embedded->store, &read->fetch);
}

static void report_unread(struct embedded *embedded, uint64_t seq, enum err err)
{
    struct fronts *fronts = &embedded->fronts;
    int64_t now_us = embedded->loop->now_us;
    if (fronts->retry_at_us == INT64_MAX)
        fronts->retry_at_us = now_us + RETRY_US;
    if (now_us < fronts->report_us)
        return;
    fronts->report_us = now_us + REPORT_US;
    log_event(LOG_ERROR, "ready_job_unread",
              "job=@%llu error=\"%s\" hint=\"its record cannot be read: others are handed out "
              "before it, and it is tried again every %d s; look at the disk\"",
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

static bool holds(const struct embedded *embedded)
{
    return !list_empty(&embedded->fronts.reading) &&
           embedded->loop->now_us < embedded->fronts.hold_until_us;
}

/* What the disk's threads have read. */
static void take_whole(struct embedded *embedded)
{
    struct list *whole = &embedded->fronts.whole;
    if (holds(embedded))
        return;
    for (unsigned steps = 0; !list_empty(whole) && (steps == 0 || !budget_spent(embedded->budget));
         steps++) {
        struct front_read *read = LIST_ENTRY(whole->next, struct front_read, link);
        take(embedded, read, read->fetch.err, &read->fetch.event);
        end(read);
    }
    embedded->busy |= !list_empty(whole);
}

/* Loads the first jobs of one topic. True: some have arrived, or are being read. */
static bool bring(struct embedded *embedded, const struct core_front *front)
{
    struct far_room room;
    struct event event;
    bool cold = false, any = front->count == 0;
    for (uint32_t i = 0; i < front->count && embedded->fronts.count < READS_MAX &&
                         (i < CORE_FRONT_LEAST || !budget_spent(embedded->budget));
         i++) {
        struct front_read read = {
            .topic = front->topic,
            .seq = front->jobs[i].seq,
            .fetch.where = front->jobs[i].where,
        };
        if (is_under_way(&embedded->fronts, read.fetch.where))
            continue;
        enum err err = ERR_AGAIN;
        if (!cold) { /* else those behind it are not in memory either, as a rule */
            budget_spend(embedded->budget, READ_NS);
            err = store_far_cached(embedded->store, read.fetch.where, &room, &event);
        }
        cold = err == ERR_AGAIN;
        if (cold && list_empty(&embedded->fronts.reading))
            embedded->fronts.hold_until_us = embedded->loop->now_us + (front->many ? HOLD_US : 0);
        if (cold)
            begin(embedded, read.topic, read.seq, read.fetch.where);
        else
            take(embedded, &read, err, &event);
        any = true;
        embedded->busy |= !cold;
    }
    embedded->busy |= front->count == 0; /* stale entries were removed: try again */
    return any;
}

void front_turn(struct embedded *embedded)
{
    struct fronts *fronts = &embedded->fronts;
    struct core_front front;
    if (!embedded->has_far || store_failed(embedded->store))
        return;
    if (fronts->retry_at_us <= embedded->loop->now_us) {
        bool more = core_front_retry(embedded->core);
        fronts->retry_at_us = more ? embedded->loop->now_us : INT64_MAX;
    }
    take_whole(embedded);
    unsigned topics = 0;
    while (topics < TOPICS_TURN && (topics == 0 || !budget_spent(embedded->budget)) &&
           fronts->count <= READS_MAX / 2 && core_front(embedded->core, &front) &&
           bring(embedded, &front))
        topics++;
    /* Other topics may be wanted, too. Without progress the end of a read starts a turn. */
    embedded->busy |=
        topics > 0 && budget_spent(embedded->budget) && core_front_wanted(embedded->core);
}

int64_t front_next_us(const struct embedded *embedded)
{
    const struct fronts *fronts = &embedded->fronts;
    bool held = !list_empty(&fronts->whole) && holds(embedded);
    return held && fronts->hold_until_us < fronts->retry_at_us ? fronts->hold_until_us
                                                               : fronts->retry_at_us;
}

void fronts_init(struct fronts *fronts)
{
    list_init(&fronts->reading);
    list_init(&fronts->whole);
    fronts->retry_at_us = INT64_MAX;
    fronts->report_us = INT64_MIN;
    fronts->hold_until_us = INT64_MIN;
}

void front_give_up_all(struct embedded *embedded)
{
    struct list *const lists[] = {&embedded->fronts.reading, &embedded->fronts.whole};
    for (unsigned i = 0; i < 2; i++)
        while (!list_empty(lists[i]))
            end(LIST_ENTRY(lists[i]->next, struct front_read, link));
    CHECK(embedded->fronts.count == 0);
}
