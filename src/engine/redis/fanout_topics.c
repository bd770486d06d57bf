/*
 * Sums the figures of topics over all partitions, counts the jobs that are due by given times, and
 * changes a topic (pause, resume, remove) in each partition.
 */
#include "base/check.h"
#include "base/codec.h"
#include "base/mem.h"
#include "engine/redis/fanout_parts.h"

static const struct lateness no_lateness;

/* True: each page of topics also counts the jobs that fall due soon. */
static bool counts_due(const struct fanout *fanout)
{
    return fanout->cmd.kind == CMD_TOPICS && fanout->cmd.topic.stats &&
           fanout->cmd.topic.due_within;
}

/* topic.lua's ARGV[6]. */
static struct bytes option_of(const struct fanout *fanout)
{
    const struct cmd_topic *cmd = &fanout->cmd.topic;
    if (cmd->in_use && !fanout->in_all)
        return BYTES("u");
    if (cmd->must_exist && !fanout->in_all)
        return BYTES("e");
    return counts_due(fanout) ? BYTES("d") : BYTES("");
}

void fanout_encode_topic(struct fanout *fanout, struct buf *out, const struct script_call *call)
{
    const struct cmd_topic *cmd = &fanout->cmd.topic;
    const struct buf *from = &fanout->parts[call->partition].from;
    struct bytes what = BYTES("t"), name = cmd->topic;
    int64_t number = 0;
    if (fanout->cmd.kind == CMD_TOPICS) {
        what = BYTES("l");
        name = from->len ? buf_bytes(from) : cmd->topic;
        if (cmd->stats && !from->len)
            name = (struct bytes){0};
        number =
            cmd->stats ? SCRIPT_TOPICS_PAGE : fanout_least(fanout->page_max, SCRIPT_TOPICS_PAGE);
    } else if (fanout->cmd.kind == CMD_PAUSE) {
        what = BYTES("p");
        number = script_time_in(fanout->space, call->partition, cmd->pause_until_us);
    } else if (fanout->cmd.kind == CMD_RESUME) {
        what = BYTES("u");
    } else if (fanout->cmd.kind == CMD_REMOVE_TOPIC) {
        what = BYTES("x");
    }
    script_begin(out, fanout->space, call, SCRIPT_TOPIC, 5);
    script_add(out, what);
    script_add(out, name);
    script_add_i64(out, number);
    script_add_i64(out, fanout->space->topics_max);
    script_add(out, option_of(fanout));
}

void fanout_encode_due(struct fanout *fanout, struct buf *out, const struct script_call *call)
{
    const struct cmd_topic *cmd = &fanout->cmd.topic;
    struct buf times = {0};
    CHECK(cmd->until_count > 0); /* script_route() */
    for (uint32_t i = 0; i < cmd->until_count; i++) {
        int64_t until_us = script_time_in(fanout->space, call->partition, cmd->until_us[i]);
        fanout_add_big_endian(&times, (uint64_t)until_us + 1, 8);
    }
    script_begin(out, fanout->space, call, SCRIPT_COUNT_DUE, 3);
    script_add(out, buf_bytes(&fanout->parts[call->partition].from));
    script_add_i64(out, SCRIPT_DUE_PAGE / cmd->until_count);
    script_add(out, buf_bytes(&times));
    buf_fini(&times);
}

/* The index of the topic of that name, or at which it is to be inserted. */
static uint32_t topic_place(const struct fanout *fanout, struct bytes name)
{
    uint32_t low = 0, high = fanout->topic_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bytes_cmp(fanout->topics[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Only pointers are moved: there may be a hundred thousand. */
static struct topic_view *topic_of(struct fanout *fanout, struct bytes name)
{
    uint32_t place = topic_place(fanout, name);
    if (place < fanout->topic_count && bytes_eq(fanout->topics[place]->name, name))
        return fanout->topics[place];
    if (fanout->topic_count == fanout->topic_cap) {
        fanout->topic_cap = fanout->topic_cap ? fanout->topic_cap * 2 : 16;
        fanout->topics = mem_realloc(fanout->topics, fanout->topic_cap * sizeof(*fanout->topics));
    }
    memmove(&fanout->topics[place + 1], &fanout->topics[place],
            (fanout->topic_count - place) * sizeof(*fanout->topics));
    struct topic_view *topic = arena_alloc(&fanout->arena, sizeof(*topic));
    *topic =
        (struct topic_view){.name = arena_copy(&fanout->arena, name), .lateness = &no_lateness};
    fanout->topics[place] = topic;
    fanout->topic_count++;
    return topic;
}

static int64_t sooner(int64_t a_us, int64_t b_us) /* 0 = none */
{
    if (!a_us || !b_us)
        return a_us ? a_us : b_us;
    return a_us < b_us ? a_us : b_us;
}

/* Converts to this daemon's clock; 0 = none. */
static int64_t time_of(const struct fanout *fanout, const struct part *part, uint64_t us)
{
    uint32_t partition = (uint32_t)(part - fanout->parts);
    uint64_t most_us = (uint64_t)SCRIPT_FOREVER;
    if (!us)
        return 0;
    return script_time_out(fanout->space, partition, (int64_t)(us < most_us ? us : most_us));
}

/* Adds one partition's figures of a topic, in the order of scripts/topic.lua. */
static void add_stats(const struct fanout *fanout, const struct part *part,
                      struct topic_view *topic, struct bytes sums, int64_t now_us)
{
    uint64_t of[SCRIPT_FIGURES];
    for (size_t i = 0; i < SCRIPT_FIGURES; i++) {
        of[i] = get_u64(sums.at + 8 * i);
        if (of[i] > INT64_MAX)
            of[i] = 0; /* below 0: the hash was lost, with the counts of jobs made before */
    }
    uint64_t gone = of[7] + of[8] + of[9], hang = of[0] + of[2] + of[4];
    topic->jobs[JOB_READY] += of[0];
    topic->jobs[JOB_BURIED] += of[2];
    topic->jobs[JOB_RESERVED] += of[4];
    topic->jobs[JOB_DELAYED] += of[5] > gone + hang ? of[5] - gone - hang : 0;
    topic->urgent += of[1];
    topic->oldest_ready_us = sooner(topic->oldest_ready_us, time_of(fanout, part, of[3]));
    topic->pushed += of[5];
    topic->reserved += of[6];
    topic->finished += of[7];
    topic->deleted += of[8];
    topic->timeouts += of[10];
    topic->released += of[11];
    topic->buried += of[12];
    topic->kicked += of[13];
    if (of[14] > topic->pauses) /* a pause counts in every partition */
        topic->pauses = of[14];
    int64_t pause_us = time_of(fanout, part, of[15]);
    if (now_us >= 0 && pause_us > now_us && pause_us > topic->pause_until_us) {
        topic->pause_until_us = pause_us;
        topic->pause_us = pause_us == INT64_MAX ? INT64_MAX - now_us : (int64_t)of[16];
    }
    if (fanout->cmd.kind == CMD_TOPIC && !fanout->cmd.topic.brief)
        topic->next_due_us = sooner(topic->next_due_us, time_of(fanout, part, of[17]));
}

static bool add_due(struct fanout *fanout, struct bytes counts)
{
    if (counts.len != sizeof(fanout->due_within))
        return false;
    for (size_t i = 0; i < STATS_SPANS; i++)
        fanout->due_within[i] += get_u64(counts.at + 8 * i);
    return true;
}

enum err fanout_take_topics(struct fanout *fanout, struct part *part,
                            const struct script_answer *answer, const struct bytes *parts,
                            uint32_t count)
{
    if (counts_due(fanout) && !add_due(fanout, parts[--count]))
        return ERR_CORRUPT;
    if (count % 2 == 0)
        return ERR_CORRUPT;
    for (uint32_t i = 1; i < count; i += 2) {
        if (parts[i].len == 0 || parts[i].len > TOPIC_NAME_MAX ||
            parts[i + 1].len != 8 * SCRIPT_FIGURES)
            return ERR_CORRUPT;
        add_stats(fanout, part, topic_of(fanout, parts[i]), parts[i + 1], answer->now_us);
        add_stats(fanout, part, &fanout->sums, parts[i + 1], answer->now_us);
    }
    if (!answer->more || count < 3)
        return OK;
    struct bytes last = parts[count - 2];
    if (fanout->cmd.topic.stats) {
        part->from.len = 0;
        buf_add_bytes(&part->from, last);
        part->state = PART_IDLE;
    } else if (!fanout->last.len || bytes_cmp(last, fanout->last) < 0) {
        fanout->last = arena_copy(&fanout->arena, last);
    }
    return OK;
}

enum err fanout_take_due(struct fanout *fanout, struct part *part,
                         const struct script_answer *answer, const struct bytes *parts,
                         uint32_t count)
{
    uint32_t times = fanout->cmd.topic.until_count;
    if (count != 3 || parts[2].len != 8 * (size_t)times)
        return ERR_CORRUPT;
    for (uint32_t i = 0; i < times; i++)
        fanout->due[i] += get_u64(parts[2].at + 8 * (size_t)i);
    if (!answer->more)
        return OK;
    if (parts[1].len == 0 || parts[1].len > TOPIC_NAME_MAX)
        return ERR_CORRUPT;
    part->from.len = 0;
    buf_add_bytes(&part->from, parts[1]);
    part->state = PART_IDLE;
    return OK;
}

const struct topic_view *fanout_sums(const struct fanout *fanout, uint32_t *out_topics)
{
    *out_topics = fanout->topic_count;
    return &fanout->sums;
}

void fanout_turn_to(struct fanout *fanout, struct bytes after, uint32_t max)
{
    fanout->page_after = after;
    fanout->page_max = fanout_least(max, SCRIPT_HEADS_MAX);
}

/* The index of the first topic of the page. */
static uint32_t page_begin(const struct fanout *fanout)
{
    struct bytes after = fanout->page_after;
    if (fanout->cmd.kind != CMD_TOPICS || !fanout->cmd.topic.stats || !after.len)
        return 0;
    uint32_t place = topic_place(fanout, after);
    bool there = place < fanout->topic_count && bytes_eq(fanout->topics[place]->name, after);
    return place + there;
}

/* A partition's page may have ended before others'. After the least name at which one ended, names
 * may be missing: the answer ends there. */
void fanout_reply_topics(struct fanout *fanout, struct reply *reply)
{
    uint32_t first = page_begin(fanout), end = fanout->topic_count;
    if (fanout->last.len)
        end = topic_place(fanout, fanout->last) + 1;
    if (fanout->cmd.kind == CMD_TOPICS)
        end = first + fanout_least(end - first, fanout->page_max);
    fanout->shown = mem_realloc(fanout->shown, (end - first + 1) * sizeof(*fanout->shown));
    for (uint32_t i = first; i < end; i++)
        fanout->shown[i - first] = *fanout->topics[i];
    reply->topics = fanout->shown;
    reply->count = end - first;
    reply->more = fanout->last.len || end < fanout->topic_count;
    fanout->page_after = (struct bytes){0};
}
