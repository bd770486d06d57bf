/*
 * The image of the index of far jobs, which a store keeps from a clean close to the next start. It
 * has all jobs whose records lie in slices, including those that are in memory now: after the start
 * the log determines which jobs are in memory. A ready job in memory is in the image as a ready far
 * job, with its entry in the topic's far_ready; that is its state after the start, unless the log
 * has a later record of it.
 */
#include "core/far_image.h"
#include "base/check.h"
#include "base/codec.h"
#include "core/core_internal.h"
#include "core/front.h"

enum {
    PART_FILES = 0,
    PART_COUNTS = FAR_IMAGE_PARTS + 1,
    PART_ORDER, /* the first of ORDER_PARTS */
    ORDER_PARTS = 32,
    COUNTS_HEAD = 3 * sizeof(uint64_t),  /* the next number, topics, jobs with ids */
    TOPIC_COUNTS = 4 * sizeof(uint64_t), /* delayed, buried, ready, urgent */
    ENTRY_BYTES = 28,
};

_Static_assert((int)CORE_FAR_IMAGE_PARTS == (int)PART_ORDER + ORDER_PARTS, "core.h says how many");

/* ---- writing ---- */

/* Its state as a far job: that of its slice, or READY. */
static enum job_state state_as_far(const struct job *job, enum job_state of_slice)
{
    return job->state == JOB_READY ? JOB_READY : of_slice;
}

/* Its state in the index. */
static enum job_state state_in_index(const struct core *core, const struct job *job,
                                     enum job_state of_slice)
{
    return core_is_far_ready(core, job->seq, job->where) ? JOB_READY : of_slice;
}

/* While the image is made, jobs in memory that have a record in a slice count as far, too (`add`);
   afterwards they are subtracted. */
static bool count_those_in_memory(struct core *core, const struct far_places *places, bool add)
{
    bool whole = true;
    for (uint32_t i = pool_next(&core->jobs, 0); i != POOL_NONE;
         i = pool_next(&core->jobs, i + 1)) {
        struct job *job = core_job(core, i);
        enum job_state state = JOB_GONE;
        if (job->state != JOB_GONE)
            state = places->state_at(places->ctx, job->where);
        if (state == JOB_GONE)
            continue;
        if (add)
            whole = core_add_far(core, job, state_as_far(job, state)) && whole;
        else
            core_take_far(core, job, state_in_index(core, job, state));
    }
    return whole;
}

/* Entries that no job is at any more are not in the image, nor are those left out of the order. */
static void tidy_order(struct core *core)
{
    const struct topics *topics = &core->topics;
    while (core_front_retry(core))
        continue;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1))
        core_front_purge(core, topics_at(topics, i));
}

/* Does each ready far job have an entry, and each entry such a job? */
static bool order_is_whole(const struct core *core)
{
    const struct topics *topics = &core->topics;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1))
        if (topics_at(topics, i)->far_ready.count != topics_at(topics, i)->far[JOB_READY])
            return false;
    return true;
}

static void add_u64(struct buf *out, uint64_t number)
{
    char room[sizeof(number)];
    put_u64(room, number);
    buf_add(out, room, sizeof(room));
}

static bool has_far(const struct topic *topic)
{
    return topic->far[JOB_DELAYED] || topic->far[JOB_READY] || topic->far[JOB_BURIED];
}

static uint64_t urgent_entries(const struct far_ready *heap)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < heap->count; i++)
        count += heap->entries[i].priority < PRIORITY_URGENT;
    return count;
}

static void write_counts(const struct core *core, struct buf *out)
{
    const struct topics *topics = &core->topics;
    uint64_t count = 0;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1))
        count += has_far(topics_at(topics, i));
    add_u64(out, core->seq_next);
    add_u64(out, count);
    add_u64(out, core->far.with_id);
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1)) {
        const struct topic *topic = topics_at(topics, i);
        if (!has_far(topic))
            continue;
        add_u64(out, topic->far[JOB_DELAYED]);
        add_u64(out, topic->far[JOB_BURIED]);
        add_u64(out, topic->far[JOB_READY]);
        add_u64(out, urgent_entries(&topic->far_ready));
        buf_add_char(out, (char)topic->name.len);
        buf_add_bytes(out, topic->name);
    }
}

static void write_entries(const struct far_ready *heap, uint64_t from, uint64_t end,
                          struct buf *out)
{
    buf_reserve(out, (size_t)(end - from) * ENTRY_BYTES);
    for (uint64_t i = from; i < end; i++) {
        const struct far_ready_entry *entry = &heap->entries[i];
        char *at = out->at + out->len;
        put_u32(at, entry->priority);
        put_u64(at + 4, (uint64_t)entry->rank_us);
        put_u64(at + 12, entry->seq);
        put_u64(at + 20, entry->where);
        out->len += ENTRY_BYTES;
    }
}

/* Writes one of ORDER_PARTS parts of all entries: topic by topic, in the order of the heaps. */
static void write_order(const struct core *core, uint32_t part, struct buf *out)
{
    const struct topics *topics = &core->topics;
    uint64_t all = core->far.in_state[JOB_READY], before = 0;
    uint64_t from = all * part / ORDER_PARTS, end = all * (part + 1) / ORDER_PARTS;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE && before < end;
         i = topics_next(topics, i + 1)) {
        const struct far_ready *heap = &topics_at(topics, i)->far_ready;
        uint64_t behind = before + heap->count;
        if (behind > from)
            write_entries(heap, from > before ? from - before : 0,
                          (end < behind ? end : behind) - before, out);
        before = behind;
    }
}

bool core_far_image(struct core *core, const struct far_places *places, uint32_t part,
                    struct buf *out)
{
    bool whole = true;
    CHECK(part < CORE_FAR_IMAGE_PARTS);
    if (part == PART_FILES) {
        if (!core_has_memory(core)) /* `out` has its memory already */
            return false;
        tidy_order(core);
        whole = count_those_in_memory(core, places, true) && order_is_whole(core);
        far_index_image_files(&core->far.places, out);
    } else if (part < PART_COUNTS) {
        far_index_image_part(&core->far.places, part - 1, out);
    } else if (part == PART_COUNTS) {
        write_counts(core, out);
    } else {
        write_order(core, part - PART_ORDER, out);
        whole = core_has_memory(core);
    }
    if (part == CORE_FAR_IMAGE_PARTS - 1 || !whole)
        (void)count_those_in_memory(core, places, false);
    return whole;
}

/* ---- reading ---- */

struct far_topic_counts {
    uint64_t delayed, buried, ready, urgent;
    struct bytes name;
};

/* False: there is no more, or it is invalid. */
static bool next_topic(struct bytes *rest, struct far_topic_counts *out_topic)
{
    if (rest->len < TOPIC_COUNTS + 2)
        return false;
    size_t name_len = get_u8(rest->at + TOPIC_COUNTS), len = TOPIC_COUNTS + 1 + name_len;
    if (name_len == 0 || name_len > TOPIC_NAME_MAX || len > rest->len)
        return false;
    *out_topic = (struct far_topic_counts){
        .delayed = get_u64(rest->at),
        .buried = get_u64(rest->at + 8),
        .ready = get_u64(rest->at + 16),
        .urgent = get_u64(rest->at + 24),
        .name = bytes_of(rest->at + TOPIC_COUNTS + 1, name_len),
    };
    *rest = bytes_of(rest->at + len, rest->len - len);
    return out_topic->delayed <= CORE_JOBS_MAX && out_topic->buried <= CORE_JOBS_MAX &&
           out_topic->ready <= CORE_JOBS_MAX && out_topic->urgent <= out_topic->ready;
}

static struct bytes topics_in(struct bytes counts)
{
    return bytes_of(counts.at + COUNTS_HEAD, counts.len - COUNTS_HEAD);
}

/* Are there as many as the index has entries? */
static bool counts_possible(const struct core *core, struct bytes counts)
{
    if (counts.len < COUNTS_HEAD)
        return false;
    struct far_topic_counts topic;
    struct bytes rest = topics_in(counts);
    uint64_t topics = get_u64(counts.at + 8), with_id = get_u64(counts.at + 16), jobs = 0;
    for (uint64_t i = 0; i < topics; i++) {
        if (!next_topic(&rest, &topic))
            return false;
        jobs += topic.delayed + topic.buried + topic.ready;
        if (jobs > CORE_JOBS_MAX - core->jobs.count)
            return false;
    }
    return rest.len == 0 && with_id <= jobs && core->far.places.count == jobs + with_id;
}

static bool keep_counts(struct core *core, struct bytes counts)
{
    struct far_taking *taking = &core->far.taking;
    if (!far_index_taken(&core->far.places) || !counts_possible(core, counts))
        return false;
    CHECK(taking->counts.len == 0);
    buf_add_bytes(&taking->counts, counts);
    taking->rest = topics_in(buf_bytes(&taking->counts));
    return true;
}

static struct topic *topic_named(struct core *core, struct bytes name)
{
    struct topic *topic;
    enum err err = topics_get_or_create(&core->topics, name, &topic);
    CHECK(!err); /* there is no limit of topics during replay */
    return topic;
}

/* The next topic that has an order. False: there is none. */
static bool begin_order(struct core *core)
{
    struct far_taking *taking = &core->far.taking;
    struct far_topic_counts counts;
    do {
        if (!next_topic(&taking->rest, &counts))
            return false;
    } while (counts.ready == 0);
    taking->topic = topic_named(core, counts.name);
    taking->left = counts.ready;
    taking->urgent = counts.urgent;
    if (taking->topic->far_ready.cap > 0)
        return false; /* the topic came before */
    far_ready_begin(&taking->topic->far_ready, (uint32_t)counts.ready);
    return true;
}

static bool take_order(struct core *core, struct bytes image)
{
    struct far_taking *taking = &core->far.taking;
    if (taking->counts.len == 0 || image.len % ENTRY_BYTES)
        return false;
    for (size_t i = 0; i < image.len; i += ENTRY_BYTES) {
        const char *at = image.at + i;
        if (taking->left == 0 && !begin_order(core))
            return false;
        struct far_ready_entry entry = {.priority = get_u32(at),
                                        .rank_us = (int64_t)get_u64(at + 4),
                                        .seq = get_u64(at + 12),
                                        .where = get_u64(at + 20)};
        uint64_t urgent = entry.priority < PRIORITY_URGENT;
        if (urgent > taking->urgent || !far_ready_append(&taking->topic->far_ready, &entry))
            return false;
        taking->urgent -= urgent;
        if (--taking->left == 0 && taking->urgent > 0)
            return false;
    }
    return true;
}

static void count_topic(struct core *core, const struct far_topic_counts *counts)
{
    struct topic *topic = topic_named(core, counts->name);
    core_count_far(core, topic, &(struct far_count){.state = JOB_DELAYED, .jobs = counts->delayed});
    core_count_far(core, topic, &(struct far_count){.state = JOB_BURIED, .jobs = counts->buried});
    core_count_far(
        core, topic,
        &(struct far_count){.state = JOB_READY, .jobs = counts->ready, .urgent = counts->urgent});
}

/* After the last part: sets the counts of the topics. */
static bool take_counts(struct core *core, const struct far_places *places)
{
    struct far_taking *taking = &core->far.taking;
    struct far_topic_counts counts;
    while (taking->rest.len > 0)
        if (!next_topic(&taking->rest, &counts) || counts.ready > 0)
            return false;
    if (taking->left > 0)
        return false;
    struct bytes rest = topics_in(buf_bytes(&taking->counts));
    while (next_topic(&rest, &counts))
        count_topic(core, &counts);
    core->far.with_id += get_u64(taking->counts.at + 16);
    core_number_from(core, get_u64(taking->counts.at), 0);
    buf_fini(&taking->counts);
    *taking = (struct far_taking){.left = 0};
    (void)count_those_in_memory(core, places, false);
    return true;
}

enum err core_far_image_take(struct core *core, const struct far_places *places, uint32_t part,
                             struct bytes image)
{
    struct far_index *index = &core->far.places;
    bool good;
    CHECK(part < CORE_FAR_IMAGE_PARTS && core->far.count == 0);
    if (part == PART_FILES)
        good = far_index_take_files(index, image);
    else if (part < PART_COUNTS)
        good = far_index_take_part(index, part - 1, image);
    else if (part == PART_COUNTS)
        good = core->replaying && keep_counts(core, image);
    else
        good = take_order(core, image);
    if (good && part == CORE_FAR_IMAGE_PARTS - 1)
        good = take_counts(core, places);
    if (good)
        return OK;
    core_far_image_drop(core);
    return ERR_CORRUPT;
}

void core_far_image_drop(struct core *core)
{
    const struct topics *topics = &core->topics;
    CHECK(core->far.count == 0);
    far_index_fini(&core->far.places);
    far_index_init(&core->far.places);
    buf_fini(&core->far.taking.counts);
    core->far.taking = (struct far_taking){.left = 0};
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1))
        far_ready_fini(&topics_at(topics, i)->far_ready);
}
