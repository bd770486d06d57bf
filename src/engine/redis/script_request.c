/*
 * Invariants: a call is in its partition's `calls` until done() was called or it was dropped, and
 * its answer has come. It is in `unsent`, `roomless` or a node's group exactly while it is on no
 * connection and no reply is held; in `roomless` while all places of the ring are taken; in a group
 * until the turn's end.
 */
#include "engine/redis/script_request.h"
#include "engine/redis/script_request_parts.h"

#include <string.h>

#include "base/mem.h"
#include "client/redis/resp.h"
#include "engine/redis/clock_sync.h"

enum {
    SLICE_BYTES =
        256 * 1024,    /* waiting bytes that a turn sends at most: a MiB takes milliseconds */
    CALL_BYTES = 1024, /* added for each call */
    GIVE_UP_MAX = 100, /* calls that are given up at a time */
    SPARE_CALLS = 1024,
    SPARE_REQUEST_BYTES = 16 * 1024,
};

/* ---- calls ---- */

static void request_open(const struct partition *partition)
{
    const struct script_requests *calls = partition->requests;
    calls->options.to_open(calls->options.owner, (uint32_t)(partition - calls->partitions));
}

/* Takes the lowest free place. Its old answer in Redis is overwritten, which costs less than a new
 * one, so that Redis keeps as few answers as there were calls at once. False: all are taken. */
static bool ring_take(struct partition *partition, uint32_t *out_place)
{
    uint32_t words = partition->places / 64;
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = (partition->ring_from + i) % words;
        uint64_t free = ~partition->ring_taken[word];
        if (free) {
            partition->ring_taken[word] |= free & -free;
            *out_place = 64 * word + (uint32_t)__builtin_ctzll(free);
            return true;
        }
    }
    if (partition->places < SCRIPT_RING && partition->places_wanted == partition->places) {
        partition->places_wanted = 4 * partition->places;
        request_open(partition);
    }
    return false;
}

static void ring_give(struct partition *partition, uint32_t place)
{
    partition->ring_taken[place / 64] &= ~(UINT64_C(1) << place % 64);
}

static bool has_place(const struct script_request *call)
{
    return call->in_ring && call->id.place < SCRIPT_RING;
}

void script_request_wait(struct script_request *call, int64_t for_us)
{
    struct script_requests *calls = call->calls;
    struct partition *partition = script_request_partition(call);
    call->retry_at_us = script_request_now(call) + for_us;
    list_remove(&call->unsent);
    list_add_tail(&partition->unsent, &call->unsent);
    if (!calls->left)
        loop_arm_by(calls->options.loop, &partition->retry, call->retry_at_us);
}

/* Gives free places to the calls that wait for one, in their order. */
static void share_places(struct partition *partition)
{
    uint32_t place;
    while (!list_empty(&partition->roomless) && ring_take(partition, &place)) {
        struct script_request *call =
            LIST_ENTRY(partition->roomless.next, struct script_request, unsent);
        call->id.place = place;
        script_set_place(call->request.at, call->request.len, place);
        script_request_wait(call, 0);
    }
}

void script_request_free(struct script_request *call)
{
    struct script_requests *calls = call->calls;
    if (has_place(call))
        ring_give(script_request_partition(call), call->id.place);
    list_remove(&call->place);
    list_remove(&call->unsent);
    list_remove(&call->held);
    share_places(script_request_partition(call));
    if (call->reply)
        freeReplyObject(call->reply);
    call->reply = NULL;
    call->request.len = 0;
    if (calls->spare_count == SPARE_CALLS || call->request.cap > SPARE_REQUEST_BYTES) {
        buf_fini(&call->request);
        mem_free(call);
        return;
    }
    call->next_spare = calls->spare;
    calls->spare = call;
    calls->spare_count++;
}

static struct script_request *script_request_take(struct script_requests *calls)
{
    struct script_request *call = calls->spare;
    if (!call)
        return mem_zalloc(sizeof(*call));
    calls->spare = call->next_spare;
    calls->spare_count--;
    struct buf room = call->request;
    *call = (struct script_request){.request = room};
    return call;
}

void script_request_finish(struct script_request *call, enum err err, const struct bytes *parts,
                           uint32_t count)
{
    void *owner = call->owner;
    call->owner = NULL;
    if (owner)
        call->done(owner, call, err, parts, count);
}

/* A late server may still execute a call that has failed. Its answer must not overwrite that of a
 * newer call, so these start elsewhere in the ring. */
static void leave_place(const struct script_request *call)
{
    if (call->resent && has_place(call))
        script_request_partition(call)->ring_from = (call->id.place / 64 + 1) % CALL_RING_WORDS;
}

void script_request_fail(struct script_request *call, enum err err)
{
    call->calls->failed += err != OK;
    leave_place(call);
    script_request_finish(call, err, NULL, 0);
    script_request_free(call);
}

/* ---- sending ---- */

static struct loading *loading_of(struct script_requests *calls, const struct node *node)
{
    return &calls->loading[node - calls->options.topology->nodes];
}

static void loaded(struct link_call *last, redisReply *reply)
{
    struct loading *loading = LIST_ENTRY(last, struct loading, last);
    loading->under_way = false;
    loading->refused = reply && reply->type == REDIS_REPLY_ERROR;
    if (reply)
        freeReplyObject(reply);
}

void script_requests_load(struct script_requests *calls, struct node *node)
{
    struct loading *loading = loading_of(calls, node);
    struct buf *out = link_out(&node->link);
    if (loading->under_way)
        return;
    loading->under_way = true;
    for (enum script_kind kind = 0; kind < SCRIPT_COUNT; kind++) {
        resp_begin(out, 3);
        resp_add_str(out, "SCRIPT");
        resp_add_str(out, "LOAD");
        resp_add(out, script_text(calls->options.space, kind));
        if (kind + 1 < SCRIPT_COUNT)
            script_request_expect_nothing(node); /* if it fails, so does the script's first call */
    }
    link_expect(&node->link, &loading->last);
}

bool script_requests_scripts_refused(struct script_requests *calls, const struct node *node)
{
    return loading_of(calls, node)->refused;
}

struct request_group *script_requests_group(struct script_requests *calls, const struct node *node)
{
    return &calls->groups[node - calls->options.topology->nodes];
}

void script_request_is_sent(struct script_request *call, struct node *node)
{
    struct script_requests *calls = call->calls;
    struct replicas *replicas = script_requests_replicas(calls, node);
    list_remove(&call->unsent);
    call->sent_to = node;
    call->on_link.sent_us = script_request_now(call);
    if (calls->options.wait_replicas && call->changes)
        list_add_tail(&replicas->gathered, &call->held);
    if (call->probes)
        replicas->probe = replicas->shortage_logged;
}

void script_request_send_to(struct script_request *call, struct node *node)
{
    clock_sync_bound_again(call);
    script_request_is_sent(call, node);
    buf_add_bytes(link_out(&node->link), buf_bytes(&call->request));
    link_expect(&node->link, &call->on_link);
    link_flush_early(&node->link);
}

bool script_request_may_go(struct script_request *call, const struct node *node)
{
    struct partition *partition = script_request_partition(call);
    bool there = topology_node(call->calls->options.topology, partition->slot) == node &&
                 partition->open_at == node;
    if (!there) {
        list_remove(&call->unsent);
        list_add_tail(&partition->unsent, &call->unsent);
    }
    return there;
}

void script_request_mark_importing(struct script_request *call, bool importing)
{
    call->importing = importing;
    script_mark_importing(call->request.at, call->request.len, importing);
}

/* True: it was sent, or is in the group that is sent next. */
static bool try_to_send(struct script_request *call)
{
    struct script_requests *calls = call->calls;
    struct partition *partition = script_request_partition(call);
    struct node *node = topology_node(calls->options.topology, partition->slot);
    if (!node || (partition->open_at != node && !call->urgent))
        return false; /* send_waiting() is called later */
    if (call->retry_at_us > script_request_now(call)) {
        loop_arm_by(calls->options.loop, &partition->retry, call->retry_at_us);
        return false;
    }
    call->addressed = node;
    if (call->importing)
        script_request_mark_importing(call, false);
    clock_sync_bound_again(call);
    if (call->joins && !call->resent) {
        request_group_add(calls, node, call);
    } else {
        request_group_send(calls, node);
        script_request_send_to(call, node);
    }
    return true;
}

/* Tries to send the waiting calls. False: slice_left was used up before. */
static bool send_some(struct partition *partition)
{
    struct script_requests *calls = partition->requests;
    struct list *next;
    for (struct list *at = partition->unsent.next; at != &partition->unsent; at = next) {
        struct script_request *call = LIST_ENTRY(at, struct script_request, unsent);
        int64_t bytes = CALL_BYTES + (int64_t)call->request.len;
        next = at->next;
        if (calls->slice_left <= 0)
            return false;
        if (try_to_send(call))
            calls->slice_left -= bytes;
    }
    return true;
}

/* After a lost connection many MiB may wait. They are sent in bounded parts, one a turn, in their
 * order, and new calls wait behind them. */
static void send_slice(struct script_requests *calls)
{
    struct loop *loop = calls->options.loop;
    while (!list_empty(&calls->behind) && calls->slice_left > 0) {
        struct partition *partition = LIST_ENTRY(calls->behind.next, struct partition, behind);
        bool all = calls->left || send_some(partition);
        list_remove(&partition->behind);
        if (!all)
            list_add_tail(&calls->behind, &partition->behind);
    }
    if (calls->slice_left < SLICE_BYTES)
        loop_arm_by(loop, &calls->next_slice, loop->now_us + 1); /* not in this turn */
}

static void begin_slice(struct timer *timer)
{
    struct script_requests *calls = LIST_ENTRY(timer, struct script_requests, next_slice);
    calls->slice_left = SLICE_BYTES;
    send_slice(calls);
}

static void send_waiting(struct partition *partition)
{
    struct script_requests *calls = partition->requests;
    if (calls->left || list_empty(&partition->unsent))
        return;
    if (list_empty(&partition->behind))
        list_add_tail(&calls->behind, &partition->behind);
    send_slice(calls);
}

static void retry(struct timer *timer)
{
    send_waiting(LIST_ENTRY(timer, struct partition, retry));
}

/* ---- the end of a turn ---- */

void script_requests_flush(struct script_requests *calls)
{
    for (unsigned i = 0; i < calls->options.topology->node_count; i++) {
        struct node *node = &calls->options.topology->nodes[i];
        request_group_send(calls, node);
        if (calls->options.wait_replicas)
            replicas_check(calls, node);
    }
}

/* ---- deadlines ---- */

/* Fails expired calls that were not sent; calls on_timeout() or done() for those that were. Calls
 * are in the order of their deadlines. While Redis hangs all calls of a moment end together: some
 * at a time, so that the loop's budget counts. */
static void give_up_old(struct timer *timer)
{
    struct partition *partition = LIST_ENTRY(timer, struct partition, deadline);
    struct loop *loop = partition->requests->options.loop;
    struct list *next;
    unsigned given_up = 0;
    for (struct list *at = partition->calls.next; at != &partition->calls; at = next) {
        struct script_request *call = LIST_ENTRY(at, struct script_request, place);
        next = at->next;
        if (call->deadline_us > loop->now_us) {
            loop_arm(loop, timer, call->deadline_us);
            return;
        }
        bool roomless = call->in_ring && !has_place(call); /* it cannot have been executed */
        if (given_up == GIVE_UP_MAX) {
            loop_arm(loop, timer, loop->now_us);
            return;
        }
        if (call->at_most_once && !roomless) {
            given_up += call->on_timeout != NULL;
            if (call->on_timeout)
                call->on_timeout(call->owner);
            call->on_timeout = NULL;
            continue;
        }
        bool sent = call->sent_to || call->reply; /* it stays, even if it was given up before */
        given_up += !sent || call->owner;
        if (sent)
            script_request_finish(call, ERR_AGAIN, NULL, 0);
        else
            script_request_fail(call, ERR_AGAIN);
    }
}

/* The timer is armed for the oldest call, or for one that was answered meanwhile. */
static void set_deadline(struct script_request *call)
{
    struct loop *loop = call->calls->options.loop;
    struct partition *partition = script_request_partition(call);
    call->deadline_us = loop->now_us + call->calls->options.timeout_us;
    if (!timer_is_armed(&partition->deadline))
        loop_arm(loop, &partition->deadline, call->deadline_us);
}

/* ---- calls of the engine ---- */

void script_requests_init(struct script_requests *calls,
                          const struct script_requests_options *options)
{
    char tag[SCRIPT_PREFIX_MAX + 16];
    uint32_t count = options->space->partitions;
    *calls = (struct script_requests){.options = *options};
    list_init(&calls->behind);
    calls->next_slice.expired = begin_slice;
    calls->slice_left = SLICE_BYTES;
    calls->partitions = mem_zalloc(count * sizeof(struct partition));
    for (uint32_t i = 0; i < count; i++) {
        struct partition *partition = &calls->partitions[i];
        partition->requests = calls;
        partition->retry.expired = retry;
        partition->deadline.expired = give_up_old;
        partition->mend.expired = script_request_mend;
        list_init(&partition->calls);
        list_init(&partition->unsent);
        list_init(&partition->roomless);
        list_init(&partition->behind);
        partition->places = partition->places_wanted = SCRIPT_RING_FIRST;
        partition->slot = topology_slot(script_tag(options->space, i, tag));
    }
    calls->loading = mem_zalloc(REDIS_NODES_MAX * sizeof(struct loading));
    calls->replicas = mem_zalloc(REDIS_NODES_MAX * sizeof(struct replicas));
    calls->groups = mem_zalloc(REDIS_NODES_MAX * sizeof(struct request_group));
    calls->apart = options->apart;
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++) {
        calls->loading[i].last.done = loaded;
        request_group_init(&calls->groups[i]);
        replicas_init(&calls->replicas[i], calls, &options->topology->nodes[i]);
    }
}

void script_requests_fini(struct script_requests *calls)
{
    for (uint32_t i = 0; calls->partitions && i < calls->options.space->partitions; i++) {
        struct partition *partition = &calls->partitions[i];
        while (!list_empty(&partition->calls))
            script_request_fail(LIST_ENTRY(partition->calls.next, struct script_request, place),
                                ERR_AGAIN);
        loop_cancel(calls->options.loop, &partition->retry);
        loop_cancel(calls->options.loop, &partition->deadline);
        loop_cancel(calls->options.loop, &partition->mend);
    }
    loop_cancel(calls->options.loop, &calls->next_slice);
    while (calls->spare) {
        struct script_request *call = script_request_take(calls);
        buf_fini(&call->request);
        mem_free(call);
    }
    mem_free(calls->partitions);
    mem_free(calls->replicas);
    mem_free(calls->groups);
    mem_free(calls->loading);
    calls->partitions = NULL;
}

struct script_request *script_requests_new(struct script_requests *calls, uint32_t partition)
{
    struct partition *to = &calls->partitions[partition];
    struct script_request *call = script_requests_new_unkept(calls, partition);
    call->in_ring = true;
    to->used++;
    if (!list_empty(&to->roomless) || !ring_take(to, &call->id.place))
        call->id.place = SCRIPT_RING;
    return call;
}

struct script_request *script_requests_new_unkept(struct script_requests *calls, uint32_t partition)
{
    struct partition *to = &calls->partitions[partition];
    struct script_request *call = script_request_take(calls);
    call->calls = calls;
    call->id = (struct script_call){
        .partition = partition, .number = ++to->number, .now_us = calls->options.loop->now_us};
    clock_sync_bound(call);
    call->on_link.done = script_request_on_link;
    list_init(&call->on_link.place);
    list_init(&call->unsent);
    list_init(&call->held);
    list_add_tail(&to->calls, &call->place);
    return call;
}

void script_requests_send(struct script_request *call, void *owner,
                          void (*done)(void *owner, struct script_request *call, enum err err,
                                       const struct bytes *parts, uint32_t count))
{
    const struct script_requests *calls = call->calls;
    call->owner = owner;
    call->done = done;
    set_deadline(call);
    if (call->in_ring && !has_place(call)) {
        list_add_tail(&script_request_partition(call)->roomless, &call->unsent);
        return;
    }
    list_add_tail(&script_request_partition(call)->unsent, &call->unsent);
    if (call->urgent || calls->left || list_empty(&script_request_partition(call)->behind))
        (void)try_to_send(call);
}

void script_requests_node_ready(struct script_requests *calls, struct node *node)
{
    for (uint32_t i = 0; i < calls->options.space->partitions; i++) {
        if (calls->partitions[i].open_at == node)
            script_requests_close(calls,
                                  i); /* the server may have lost its data, or be another one */
    }
    script_requests_load(calls, node);
    script_requests_moved(calls);
}

void script_requests_node_lost(struct script_requests *calls, const struct node *node)
{
    replicas_release(&script_requests_replicas(calls, node)->gathered, ERR_AGAIN);
}

struct node *script_requests_node(const struct script_requests *calls, uint32_t partition)
{
    return topology_node(calls->options.topology, calls->partitions[partition].slot);
}

bool script_requests_is_open(const struct script_requests *calls, uint32_t partition)
{
    const struct node *node = script_requests_node(calls, partition);
    return node && calls->partitions[partition].open_at == node;
}

bool script_requests_lacks_replicas(const struct script_requests *calls, uint32_t partition)
{
    const struct node *node = script_requests_node(calls, partition);
    return node && calls->replicas[node - calls->options.topology->nodes].shortage_logged;
}

void script_requests_open(struct script_requests *calls, uint32_t partition,
                          const struct node *node, uint32_t places)
{
    struct partition *to = &calls->partitions[partition];
    to->open_at = node;
    to->opened_us = calls->options.loop->now_us;
    to->places = places;
    share_places(to);
    for (struct list *at = to->unsent.next; at != &to->unsent; at = at->next)
        LIST_ENTRY(at, struct script_request, unsent)->retry_at_us = 0; /* it may be put right */
    send_waiting(to);
}

uint32_t script_requests_places(const struct script_requests *calls, uint32_t partition)
{
    return calls->partitions[partition].places_wanted;
}

bool script_requests_wants_places(const struct script_requests *calls, uint32_t partition)
{
    const struct partition *to = &calls->partitions[partition];
    return to->places_wanted > to->places;
}

void script_requests_give_up(struct script_requests *calls, uint32_t partition)
{
    struct list *all = &calls->partitions[partition].calls, *next;
    for (struct list *at = all->next; at != all; at = next) {
        struct script_request *call = LIST_ENTRY(at, struct script_request, place);
        next = at->next;
        if (call->at_most_once && call->resent && !call->sent_to && !call->reply)
            script_request_fail(call, ERR_AGAIN);
    }
}

void script_requests_close(struct script_requests *calls, uint32_t partition)
{
    calls->partitions[partition].open_at = NULL;
    request_open(&calls->partitions[partition]);
}

void script_requests_moved(struct script_requests *calls)
{
    for (uint32_t i = 0; i < calls->options.space->partitions; i++)
        send_waiting(&calls->partitions[i]);
}

bool script_requests_pending(const struct script_requests *calls)
{
    for (uint32_t i = 0; i < calls->options.space->partitions; i++) {
        const struct list *all = &calls->partitions[i].calls;
        for (const struct list *at = all->next; at != all; at = at->next) {
            const struct script_request *call = LIST_ENTRY(at, struct script_request, place);
            if (call->at_most_once || call->changes)
                return true;
        }
    }
    return false;
}

void script_requests_leave(struct script_requests *calls)
{
    calls->left = true;
}
