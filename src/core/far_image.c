/*
 * The image of all that is known of far jobs, which a store keeps from a stop in order to the next
 * start. It is of all jobs whose records lie in slices, those that have come back to memory too:
 * which of them the core has in memory after a start, the log says.
 */
#include "base/check.h"
#include "base/codec.h"
#include "core/core_internal.h"

enum {
    PART_FILES = 0,
    PART_COUNTS = CORE_FAR_IMAGE_PARTS - 1,
    COUNTS_HEAD = 3 * sizeof(uint64_t), /* the next number, topics, jobs with ids */
    TOPIC_COUNTS = 2 * sizeof(uint64_t),
};

_Static_assert((int)CORE_FAR_IMAGE_PARTS == FAR_IMAGE_PARTS + 2, "files, the index, counts");

/* ---- writing ---- */

/* Those that came back count as far as long as the image is made (`add`), and then no more. */
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
        if (state == JOB_READY)
            whole = false;
        else if (add)
            whole = core_add_far(core, job, state) && whole;
        else
            core_take_far(core, job, state);
    }
    return whole;
}

static void add_u64(struct buf *out, uint64_t number)
{
    char room[sizeof(number)];
    put_u64(room, number);
    buf_add(out, room, sizeof(room));
}

static bool has_far(const struct topic *topic)
{
    return topic->far[JOB_DELAYED] || topic->far[JOB_BURIED];
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
        buf_add_char(out, (char)topic->name.len);
        buf_add_bytes(out, topic->name);
    }
}

bool core_far_image(struct core *core, const struct far_places *places, uint32_t part,
                    struct buf *out)
{
    bool whole = true;
    CHECK(part < CORE_FAR_IMAGE_PARTS);
    if (part == PART_FILES) {
        /* `out` has taken its own by now; and of ready jobs there is an order, too. */
        if (!core_has_memory(core) || core->far.in_state[JOB_READY] > 0)
            return false;
        whole = count_those_in_memory(core, places, true);
        far_index_image_files(&core->far.places, out);
    } else if (part < PART_COUNTS) {
        far_index_image_part(&core->far.places, part - 1, out);
    } else {
        write_counts(core, out);
    }
    if (part == PART_COUNTS || !whole)
        (void)count_those_in_memory(core, places, false);
    return whole;
}

/* ---- reading ---- */

struct far_topic_counts {
    uint64_t delayed, buried;
    struct bytes name;
};

/* False: there is no more, or what is there cannot be. */
static bool next_topic(struct bytes *rest, struct far_topic_counts *out_topic)
{
    if (rest->len < TOPIC_COUNTS + 2)
        return false;
    size_t name_len = get_u8(rest->at + TOPIC_COUNTS), len = TOPIC_COUNTS + 1 + name_len;
    if (name_len == 0 || name_len > TOPIC_NAME_MAX || len > rest->len)
        return false;
    *out_topic = (struct far_topic_counts){
        .delayed = get_u64(rest->at),
        .buried = get_u64(rest->at + sizeof(uint64_t)),
        .name = bytes_of(rest->at + TOPIC_COUNTS + 1, name_len),
    };
    *rest = bytes_of(rest->at + len, rest->len - len);
    return out_topic->delayed <= CORE_JOBS_MAX && out_topic->buried <= CORE_JOBS_MAX;
}

/* Are there as many as the index has entries? */
static bool counts_possible(const struct core *core, struct bytes rest, uint64_t topics,
                            uint64_t with_id)
{
    struct far_topic_counts topic;
    uint64_t jobs = 0;
    for (uint64_t i = 0; i < topics; i++) {
        if (!next_topic(&rest, &topic))
            return false;
        jobs += topic.delayed + topic.buried;
        if (jobs > CORE_JOBS_MAX - core->jobs.count)
            return false;
    }
    return rest.len == 0 && with_id <= jobs && core->far.places.count == jobs + with_id;
}

static bool take_counts(struct core *core, const struct far_places *places, struct bytes image)
{
    struct far_topic_counts counts;
    if (image.len < COUNTS_HEAD)
        return false;
    uint64_t seq_next = get_u64(image.at), topics = get_u64(image.at + 8);
    uint64_t with_id = get_u64(image.at + 16);
    struct bytes rest = bytes_of(image.at + COUNTS_HEAD, image.len - COUNTS_HEAD);
    if (!far_index_taken(&core->far.places) || !counts_possible(core, rest, topics, with_id))
        return false;
    for (uint64_t i = 0; i < topics && next_topic(&rest, &counts); i++) {
        struct topic *topic;
        enum err err = topics_get_or_create(&core->topics, counts.name, &topic);
        CHECK(!err); /* while replaying there may be any number of topics */
        core_count_far(core, topic,
                       &(struct far_count){.state = JOB_DELAYED, .jobs = counts.delayed});
        core_count_far(core, topic,
                       &(struct far_count){.state = JOB_BURIED, .jobs = counts.buried});
    }
    core->far.with_id += with_id;
    core_number_from(core, seq_next, 0);
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
    else
        good = core->replaying && take_counts(core, places, image);
    if (good)
        return OK;
    core_far_image_drop(core);
    return ERR_CORRUPT;
}

void core_far_image_drop(struct core *core)
{
    CHECK(core->far.count == 0);
    far_index_fini(&core->far.places);
    far_index_init(&core->far.places);
}
