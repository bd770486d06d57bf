/*
 * Invariants: an entry is in its queue and in `by_seq`; a queue with entries is in `by_key`; only
 * the first entry of a queue has a shipment that was sent. An entry without shipment is a job in
 * the engine's queue: it is due at `due_us` or later, and is recognized by its number, so that it
 * keeps its place whatever came meanwhile.
 *
 * A first entry whose job does not come (deleted, buried by hand, rescheduled) is looked up by
 * CMD_GET some seconds after its time. At the start of a lane the topic's jobs are listed: those
 * that failed hold their keys, and so do those that are reserved, because an earlier process may
 * have reserved them.
 */
#include "dispatch/key_order.h"

#include <xxhash.h>

#include "base/check.h"
#include "base/mem.h"
#include "dispatch/pump_parts.h"
#include "dispatch/rank_heap.h"
#include "proto/settings/job_properties.h"

enum {
    SHORT_US = 2000000,   /* jobs wait in memory if the one before comes within this */
    AWAY_US = 20000000,   /* how long a job is put off, unless its turn comes before … */
    AWAY_EACH_US = 2000,  /* … and longer for each job before it, so that not all come at once */
    RETURN_US = 1000000,  /* how long a job is given back for: past times would all become equal */
    OVERDUE_US = 3000000, /* a job that is this late is looked up, … */
    FOUND_READY_MOST = 2, /* … and if it is found ready, after twice as long, so often */
    PAGE = 100,           /* jobs in a page of a listing */
    CALL_NS = 800,
    LOOK_MOST = 64,
    LOOK_NS = 10,
    AGAIN_US = 100000, /* jobs are put off for at least this long */
    FORGET_LEAST = 64, /* entries that a restart handles in one turn, whatever the budget */
    FORGET_NS = 200,
    TRIM_NS = 50 * 1000, /* for freeing a chunk of entries or of queues */
};

struct key_entry {
    uint32_t number; /* in key_order::entries */
    uint64_t seq;
    int64_t due_us;    /* without shipment: when its job is due */
    int64_t place_us;  /* its due time relative to the first one's, when both are given back */
    struct list place; // key_queue::entries
    struct key_queue *queue;
    struct shipment *shipment; /* NULL: the job is in the engine's queue */
    bool away;                 /* the job was put off until due_us, or until it is kicked */
    bool waits;                /* its shipment waits behind the first one: counted as held */
    uint8_t found_ready;       /* look-ups in a row that found it so, up to FOUND_READY_MOST */
};

struct key_queue {
    uint32_t number; /* in key_order::queues */
    size_t key_len;
    char *key;
    uint64_t hash;
    struct key_order *order;
    struct list entries; // key_entry::place, first come first
    struct timer timer;  /* expires when the first one is overdue */
    struct ticket ticket;
    uint64_t asked;   /* the number of the job that is looked up */
    uint32_t held;    /* number of its entries that wait in memory */
    struct list call; // pump::calls: its first job is to be kicked
    bool pending;
};

enum scan_state { SCAN_LIST, SCAN_PENDING, SCAN_DONE };

/* The listing of the topic's jobs at the start. */
struct key_scan {
    enum scan_state state;
    enum job_state listed; /* DELAYED, READY, RESERVED */
    struct buf cursor;
    /* Jobs that must be read one by one, when all are listed: jobs are not listed in the order in
       which they came. */
    struct rank_heap found;
    struct ticket ticket;
    struct timer timer;
    uint32_t forget; /* the entry that a restart handles next; POOL_NONE: all are done */
};

struct key_order {
    struct pump *pump;
    struct lane *lane; /* NULL: it has ended, and its entries are dropped in slices */
    struct list ended; // pump::ended_orders
    struct pool entries, queues;
    struct map by_seq, by_key;
    uint32_t held; /* shipments that wait for another of their key */
    uint64_t held_bytes;
    struct key_scan scan;
};

/* ---- entries and queues ---- */

static bool seq_is(const void *ctx, uint32_t number, const void *key)
{
    return ((const struct key_entry *)pool_at(ctx, number))->seq == *(const uint64_t *)key;
}

static bool key_is(const void *ctx, uint32_t number, const void *key)
{
    const struct key_queue *queue = pool_at(ctx, number);
    return bytes_eq(bytes_of(queue->key, queue->key_len), *(const struct bytes *)key);
}

static uint64_t seq_hash(uint64_t seq)
{
    return seq * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

static struct key_entry *entry_find(const struct key_order *order, uint64_t seq)
{
    uint32_t number = map_find(&order->by_seq, seq_hash(seq), &seq);
    return number == MAP_NONE ? NULL : pool_at(&order->entries, number);
}

static void queue_overdue(struct timer *timer);

static struct key_queue *queue_of(struct key_order *order, struct bytes key)
{
    uint64_t hash = XXH3_64bits_withSeed(key.at, key.len, order->pump->options.random);
    uint32_t number = map_find(&order->by_key, hash, &key);
    if (number != MAP_NONE)
        return pool_at(&order->queues, number);
    number = pool_take(&order->queues);
    struct key_queue *queue = pool_at(&order->queues, number);
    *queue = (struct key_queue){.number = number, .hash = hash, .order = order, .key_len = key.len};
    queue->key = mem_alloc(key.len + 1);
    memcpy(queue->key, key.at, key.len);
    queue->timer.expired = queue_overdue;
    list_init(&queue->entries);
    list_init(&queue->call);
    map_add(&order->by_key, hash, number);
    return queue;
}

static struct key_entry *last_of(const struct key_queue *queue)
{
    return LIST_ENTRY(queue->entries.prev, struct key_entry, place);
}

static struct key_entry *entry_add(struct key_order *order, struct bytes key, uint64_t seq)
{
    struct key_queue *queue = queue_of(order, key);
    uint32_t number = pool_take(&order->entries);
    struct key_entry *entry = pool_at(&order->entries, number);
    *entry = (struct key_entry){.number = number, .seq = seq, .queue = queue};
    entry->place_us = list_empty(&queue->entries) ? 0 : last_of(queue)->place_us + 1;
    list_add_tail(&queue->entries, &entry->place);
    order->pump->counts.keyed++;
    map_add(&order->by_seq, seq_hash(seq), number);
    return entry;
}

static struct key_entry *first_of(const struct key_queue *queue)
{
    return list_empty(&queue->entries) ? NULL
                                       : LIST_ENTRY(queue->entries.next, struct key_entry, place);
}

static void queue_free(struct key_queue *queue)
{
    struct key_order *order = queue->order;
    struct pump *pump = order->pump;
    if (queue->pending)
        pump->options.door->cancel(pump->options.door, &queue->ticket);
    loop_cancel(pump->options.loop, &queue->timer);
    list_remove(&queue->call);
    map_remove(&order->by_key, queue->hash, queue->number);
    mem_free(queue->key);
    queue->key = NULL;
    pool_give(&order->queues, queue->number);
}

static void entry_remove(struct key_entry *entry)
{
    struct key_order *order = entry->queue->order;
    order->pump->counts.keyed--;
    list_remove(&entry->place);
    map_remove(&order->by_seq, seq_hash(entry->seq), entry->number);
    entry->queue = NULL;
    pool_give(&order->entries, entry->number);
}

/* ---- which jobs may be sent ---- */

/* Its shipment waits in memory behind the first one of its key. */
static void hold(struct key_entry *entry)
{
    struct key_queue *queue = entry->queue;
    if (entry->waits)
        return;
    entry->waits = true;
    queue->held++;
    queue->order->held++;
    queue->order->held_bytes += entry->shipment->bytes;
}

static void end_hold(struct key_entry *entry)
{
    struct key_queue *queue = entry->queue;
    if (!entry->waits)
        return;
    entry->waits = false;
    queue->held--;
    queue->order->held--;
    queue->order->held_bytes -= entry->shipment->bytes;
}

/* Adds it to pump::ready: it is sent when there is a slot. */
static void make_ready(struct key_entry *entry)
{
    struct shipment *shipment = entry->shipment;
    end_hold(entry);
    if (shipment->state != SHIP_HELD)
        return;
    shipment_make_ready(shipment);
    pump_wake(shipment->pump);
}

/*
 * The latest due time that is before those of all jobs behind this one that were put off already,
 * and that will not come soon and be put off again. Only LOOK_MOST of them are read: jobs further
 * behind may come before it if another process takes over at this moment.
 */
static int64_t before_those_behind(const struct key_entry *entry, int64_t now_us)
{
    const struct list *node = entry->place.next;
    for (int i = 1; i <= LOOK_MOST && node != &entry->queue->entries; i++, node = node->next) {
        const struct key_entry *behind = LIST_ENTRY(node, struct key_entry, place);
        if (!behind->shipment && behind->due_us > now_us + AGAIN_US + i)
            return behind->due_us - i;
    }
    return INT64_MAX;
}

/*
 * The due time with which a job is put off. If the first job of the key is due at a known time: a
 * microsecond later for each job before this one, whether or not those were given back yet, so that
 * the order survives this process. Else its turn is not known: it is put off for long, and kicked
 * when it becomes the first.
 */
static int64_t due_behind(const struct key_entry *entry)
{
    const struct key_queue *queue = entry->queue;
    const struct key_entry *first = first_of(queue);
    const struct key_entry *before = LIST_ENTRY(entry->place.prev, struct key_entry, place);
    int64_t now_us = pump_now(queue->order->pump), places = entry->place_us - first->place_us;
    bool known = !first->shipment && first->due_us > now_us;
    int64_t due_us = known ? first->due_us + places : now_us + AWAY_US + places * AWAY_EACH_US;
    if (!before->shipment && before->due_us <= now_us)
        due_us += AWAY_US; /* that one will come soon, and be put off before this one */
    if (!before->shipment && due_us <= before->due_us)
        due_us = before->due_us + 1;
    int64_t latest_us = before_those_behind(entry, now_us);
    return due_us < latest_us ? due_us : latest_us;
}

static bool waits_long(const struct key_queue *queue)
{
    const struct key_entry *first = first_of(queue);
    return !first->shipment && first->due_us - pump_now(queue->order->pump) > SHORT_US;
}

/*
 * If several daemons share the queue, no job waits in memory. Were all daemons killed, the leases
 * of the waiting jobs would expire. That counts as an attempt of each, and of several jobs that
 * have failed nobody could tell any more which one comes first.
 */
static uint32_t held_max(const struct key_order *order)
{
    return order->pump->options.shared ? 0 : HELD_MAX;
}

/* True: the jobs that wait in memory have reached `times` times their limit of places, or bytes. */
static bool holds(const struct key_order *order, unsigned times)
{
    uint64_t bytes_max = order->pump->options.memory_bytes / HELD_BYTES_PART;
    return order->held > times * held_max(order) || order->held_bytes > times * bytes_max;
}

/*
 * True: no further job of this key may wait in memory. The places are shared: if one key had all of
 * them, nothing more would be reserved, no other key would be served, and a first job that failed
 * could never come again.
 */
static bool has_its_share(const struct key_queue *queue)
{
    const struct key_order *order = queue->order;
    return holds(order, 2) ||
           (holds(order, 1) && queue->held > held_max(order) / map_count(&order->by_key));
}

int64_t key_order_return_us(const struct shipment *shipment)
{
    const struct key_entry *entry = shipment->entry;
    return pump_now(shipment->pump) + RETURN_US + entry->place_us -
           first_of(entry->queue)->place_us;
}

static void put_off(struct key_entry *entry)
{
    struct shipment *shipment = entry->shipment;
    bool ends = shipment->pump->draining || lane_is_others(shipment->lane);
    if (shipment->state != SHIP_HELD || shipment->pending)
        return;
    entry->away = !ends;
    shipment_return(shipment, ends ? 0 : due_behind(entry)); /* calls key_order_left() */
}

/* Entries of a key were gone through: it may have a hundred thousand. */
static void spend_looks(struct pump *pump, unsigned looks)
{
    pump->counts.key_looks += looks;
    budget_spend(pump->options.budget, (int64_t)looks * LOOK_NS);
}

/* Puts off all waiting jobs: at the next start, jobs that were not given back are ordered behind
 * those that were. Mostly none waits: those behind a job that failed are put off as they come. */
static void put_off_all(struct key_queue *queue)
{
    struct pump *pump = queue->order->pump;
    struct list *node = first_of(queue)->place.next;
    unsigned looks = 0;
    for (; node != &queue->entries && queue->held; node = node->next, looks++) {
        struct key_entry *entry = LIST_ENTRY(node, struct key_entry, place);
        if (entry->shipment)
            put_off(entry);
    }
    spend_looks(pump, looks);
}

/* When the first one, which is in the engine's queue, is looked up. A topic that is paused, or
   whose receiver takes no more, may have many keys whose jobs wait. */
static int64_t look_up_us(const struct key_entry *first)
{
    return time_add(first->due_us, (int64_t)OVERDUE_US << first->found_ready);
}

/* To be called when the front of the queue has changed. */
static void queue_go(struct key_queue *queue)
{
    struct pump *pump = queue->order->pump;
    struct key_entry *first = first_of(queue);
    if (!first) {
        queue_free(queue);
        return;
    }
    if (first->shipment) {
        loop_cancel(pump->options.loop, &queue->timer);
        make_ready(first);
        return;
    }
    loop_arm(pump->options.loop, &queue->timer, look_up_us(first));
    if (first->away && first->due_us > pump_now(pump)) {
        list_remove(&queue->call);
        list_add_tail(&pump->calls, &queue->call);
        pump_wake(pump);
    } else if (waits_long(queue)) {
        put_off_all(queue);
    }
}

/* Kicks the first job, unless it is ready already, or was rescheduled by a client. */
static void call_first(struct key_queue *queue)
{
    struct pump *pump = queue->order->pump;
    struct key_entry *first = first_of(queue);
    list_remove(&queue->call);
    if (!queue->order->lane || !first || first->shipment || !first->away)
        return;
    struct cmd cmd = {
        .kind = CMD_RUN,
        .job = {.ref.seq = first->seq, .has_due = true, .due_us = first->due_us, .brief = true}};
    first->away = false;
    first->due_us = pump_now(pump);
    loop_arm(pump->options.loop, &queue->timer, look_up_us(first));
    (void)pump_submit(pump, &cmd, NULL); /* if this fails, the job is looked up when overdue */
}

bool key_order_arrive(struct key_order *order, struct shipment *shipment)
{
    struct key_entry *entry = entry_find(order, shipment->end.ref.seq);
    if (!entry)
        entry = entry_add(order, shipment->delivery.key, shipment->end.ref.seq);
    struct shipment *former = entry->shipment;
    if (former) { /* a client released it, or its lease has expired before we noticed */
        end_hold(entry);
        former->entry = NULL;
        former->lease_us = 0; /* so that it is not sent any more, if it was not yet */
    }
    entry->away = false;
    entry->shipment = shipment;
    shipment->entry = entry;
    struct key_queue *queue = entry->queue;
    if (first_of(queue) == entry) {
        loop_cancel(order->pump->options.loop, &queue->timer);
        return true;
    }
    hold(entry);
    bool alone = queue->held == 1; /* usual: those before it were put off when they came */
    if (waits_long(queue) && !alone)
        put_off_all(queue);
    else if (waits_long(queue) || has_its_share(queue))
        put_off(entry);
    return false;
}

void key_order_left(struct shipment *shipment, int64_t due_us)
{
    struct key_entry *entry = shipment->entry;
    struct key_queue *queue = entry->queue;
    struct lane *lane = queue->order->lane;
    bool first = first_of(queue) == entry;
    shipment->entry = NULL;
    end_hold(entry);
    entry->shipment = NULL;
    entry->due_us = due_us;
    entry->found_ready = 0;
    if (due_us <= 0)
        entry_remove(entry);
    if (first)
        queue_go(queue);
    if (lane->why == HELD_KEYS)
        lane_want(lane);
}

bool key_order_open(const struct key_order *order)
{
    return order->scan.state == SCAN_DONE &&
           order->held < 3 * HELD_MAX; /* above 2 * HELD_MAX jobs are put off */
}

/* ---- a job that does not come ---- */

static void note_found(struct key_entry *first, const struct job_view *job, int64_t now_us)
{
    first->due_us = job->state == JOB_DELAYED ? job->due_us : now_us;
    if (job->state == JOB_READY && first->found_ready < FOUND_READY_MOST)
        first->found_ready++; /* not of a job that another daemon sends, which ends soon */
}

static void looked(struct ticket *ticket, const struct reply *reply)
{
    struct key_queue *queue = LIST_ENTRY(ticket, struct key_queue, ticket);
    struct pump *pump = queue->order->pump;
    struct key_entry *first = first_of(queue);
    queue->pending = false;
    if (!queue->order->lane || !first || first->shipment)
        return;
    const struct job_view *job = reply->err ? NULL : &reply->jobs[0];
    bool same = job && job->ref.seq == first->seq;
    if (first->seq != queue->asked)
        ; /* that one came and ended meanwhile */
    else if (reply->err && reply->err != ERR_NOT_FOUND)
        first->due_us = pump_now(pump); /* the engine could not answer: looked up again */
    else if (!same || job->state == JOB_BURIED || job->state == JOB_GONE)
        entry_remove(first);
    else
        note_found(first, job, pump_now(pump));
    queue_go(queue);
}

static void queue_overdue(struct timer *timer)
{
    struct key_queue *queue = LIST_ENTRY(timer, struct key_queue, timer);
    struct key_entry *first = first_of(queue);
    if (!queue->order->lane || !first || first->shipment || queue->pending)
        return;
    queue->pending = true;
    queue->asked = first->seq;
    queue->ticket = (struct ticket){.answered = looked};
    struct cmd cmd = {.kind = CMD_GET, .job.ref.seq = first->seq};
    (void)pump_submit(queue->order->pump, &cmd, &queue->ticket);
}

/* ---- the start ---- */

static void scan_later(struct key_order *order, int64_t at_us)
{
    order->scan.state = SCAN_LIST;
    loop_arm(order->pump->options.loop, &order->scan.timer, at_us);
}

/*
 * True: the job gets a place in its key's queue at the start: it has failed, was put off behind
 * others, is reserved, or (on a shared engine) was reserved by a daemon that was killed.
 */
static bool has_place(const struct key_order *order, const struct job_view *job)
{
    bool had = job->attempt && order->pump->options.shared;
    return job->failures || job->counts.releases || had || job->state == JOB_RESERVED;
}

static void scan_page(struct key_order *order, const struct reply *reply)
{
    struct key_scan *scan = &order->scan;
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct job_view *job = &reply->jobs[i];
        /* A job that failed held its key, and so was before all that were put off behind it. */
        if (has_place(order, job))
            rank_heap_add(&scan->found,
                          (struct ranked_job){.rank_us = job->failures ? 0 : job->due_us,
                                              .seq = job->ref.seq});
    }
    scan->cursor.len = 0;
    buf_add_bytes(&scan->cursor, reply->cursor);
    if (!scan->cursor.len)
        scan->listed++;
}

static void scan_job(struct key_order *order, const struct job_view *job)
{
    struct pump *pump = order->pump;
    struct job_properties properties;
    arena_reset(&pump->scratch);
    if (!has_place(order, job) || job->state == JOB_BURIED || entry_find(order, job->ref.seq) ||
        job_properties_read(job->properties, &pump->scratch, &properties, NULL) ||
        !properties.key.len)
        return;
    struct key_entry *entry = entry_add(order, properties.key, job->ref.seq);
    entry->due_us = job->state == JOB_RESERVED ? pump_now(pump) : job->due_us;
    queue_go(entry->queue);
}

/* True: all jobs were listed. */
static bool is_listed(const struct key_scan *scan)
{
    return scan->listed > JOB_RESERVED;
}

static void scan_answered(struct ticket *ticket, const struct reply *reply)
{
    struct key_order *order = LIST_ENTRY(ticket, struct key_order, scan.ticket);
    struct key_scan *scan = &order->scan;
    int64_t now_us = pump_now(order->pump);
    scan->state = SCAN_LIST;
    if (reply->err && reply->err != ERR_NOT_FOUND) {
        scan_later(order, now_us + SHORT_US / 4);
        return;
    }
    if (is_listed(scan)) {
        rank_heap_drop(&scan->found);
        if (!reply->err)
            scan_job(order, &reply->jobs[0]);
    } else if (reply->err) {
        scan->listed = JOB_BURIED; /* no such topic: it has no jobs */
    } else {
        scan_page(order, reply);
    }
    if (is_listed(scan) && scan->found.count == 0) {
        scan->state = SCAN_DONE;
        rank_heap_fini(&scan->found);
        buf_fini(&scan->cursor);
        lane_want(order->lane);
        return;
    }
    scan_later(order, now_us);
    pump_wake(order->pump);
}

/* Drops a slice of the entries from before a restart; those with shipments stay the first ones. */
static void forget_some(struct key_order *order)
{
    struct key_scan *scan = &order->scan;
    struct budget *budget = order->pump->options.budget;
    for (unsigned i = 0; i < FORGET_LEAST || !budget_spent(budget); i++) {
        budget_spend(budget, FORGET_NS);
        scan->forget = pool_next(&order->entries, scan->forget);
        if (scan->forget == POOL_NONE)
            return;
        struct key_entry *entry = pool_at(&order->entries, scan->forget++);
        if (!entry->queue || entry->shipment)
            continue;
        struct key_queue *queue = entry->queue;
        entry_remove(entry);
        if (!first_of(queue))
            queue_free(queue);
    }
}

static void scan_step(struct timer *timer)
{
    struct key_order *order = LIST_ENTRY(timer, struct key_order, scan.timer);
    struct key_scan *scan = &order->scan;
    if (scan->forget != POOL_NONE) {
        forget_some(order);
        scan_later(order, pump_now(order->pump) + 1); /* not in this turn */
        return;
    }
    struct cmd cmd = {.kind = CMD_LIST,
                      .topic = {.topic = lane_name(order->lane),
                                .state = scan->listed,
                                .max = PAGE,
                                .cursor = buf_bytes(&scan->cursor)}};
    if (is_listed(scan))
        cmd = (struct cmd){.kind = CMD_GET, .job.ref.seq = scan->found.at[0].seq};
    scan->state = SCAN_PENDING;
    scan->ticket = (struct ticket){.answered = scan_answered};
    (void)pump_submit(order->pump, &cmd, &scan->ticket);
}

struct key_order *key_order_new(struct lane *lane)
{
    struct key_order *order = mem_zalloc(sizeof(*order));
    order->pump = lane->pump;
    order->lane = lane;
    list_init(&order->ended);
    pool_init(&order->entries, sizeof(struct key_entry));
    pool_init(&order->queues, sizeof(struct key_queue));
    map_init(&order->by_seq, seq_is, &order->entries);
    map_init(&order->by_key, key_is, &order->queues);
    order->scan.forget = POOL_NONE;
    order->scan.listed = JOB_DELAYED;
    order->scan.timer.expired = scan_step;
    scan_later(order, pump_now(lane->pump));
    return order;
}

void key_order_restart(struct key_order *order)
{
    struct pump *pump = order->pump;
    struct key_scan *scan = &order->scan;
    if (scan->state == SCAN_PENDING)
        pump->options.door->cancel(pump->options.door, &scan->ticket);
    scan->listed = JOB_DELAYED;
    scan->cursor.len = scan->found.count = 0;
    scan->forget = 0;
    scan_later(order, pump_now(pump));
}

/* ---- the end ---- */

/* Its entries and queues have gone, or the pump ends. */
static void free_order(struct key_order *order)
{
    list_remove(&order->ended);
    rank_heap_fini(&order->scan.found);
    buf_fini(&order->scan.cursor);
    map_fini(&order->by_seq);
    map_fini(&order->by_key);
    pool_fini(&order->entries);
    pool_fini(&order->queues);
    mem_free(order);
}

void key_order_end(struct key_order *order)
{
    if (!order)
        return;
    struct pump *pump = order->pump;
    CHECK(order->held == 0);
    if (order->scan.state == SCAN_PENDING)
        pump->options.door->cancel(pump->options.door, &order->scan.ticket);
    loop_cancel(pump->options.loop, &order->scan.timer);
    order->scan.state = SCAN_DONE;
    order->scan.forget = 0;
    order->lane = NULL;
    list_add_tail(&pump->ended_orders, &order->ended);
    pump_wake(pump);
}

/* Drops a slice of what is left of an order that has ended. */
static void end_some(struct key_order *order)
{
    if (order->scan.forget != POOL_NONE) {
        forget_some(order);
    } else if (pool_has_spare(&order->entries) || pool_has_spare(&order->queues)) {
        (void)pool_trim(&order->entries);
        (void)pool_trim(&order->queues);
        budget_spend(order->pump->options.budget, TRIM_NS);
    } else {
        free_order(order);
    }
}

void key_orders_free(struct pump *pump)
{
    while (!list_empty(&pump->ended_orders)) {
        struct key_order *order = LIST_ENTRY(pump->ended_orders.next, struct key_order, ended);
        for (uint32_t i = pool_next(&order->queues, 0); i != POOL_NONE;
             i = pool_next(&order->queues, i + 1)) {
            struct key_queue *queue = pool_at(&order->queues, i);
            if (queue->key)
                queue_free(queue);
        }
        free_order(order);
    }
}

/* ---- the turn ---- */

bool key_orders_step(struct pump *pump)
{
    const struct budget *budget = pump->options.budget;
    for (unsigned steps = 0; !list_empty(&pump->calls); steps++) {
        if (steps > 0 && budget_spent(budget))
            return true;
        budget_spend(pump->options.budget, CALL_NS);
        call_first(LIST_ENTRY(pump->calls.next, struct key_queue, call));
    }
    for (unsigned steps = 0; !list_empty(&pump->ended_orders); steps++) {
        if (steps > 0 && budget_spent(budget))
            return true;
        end_some(LIST_ENTRY(pump->ended_orders.next, struct key_order, ended));
    }
    return false;
}
