/*
 * Sends a command on a topic, or on all topics, to every partition, and makes one answer of theirs.
 * Commands that show jobs or topics ask all partitions at once, for one slice after the other,
 * until the next ones would change nothing in the answer. Kicking and clearing ask some partitions
 * at a time, each for a share of `max`, so that no more than `max` jobs change. If `max` is too
 * small for a share for each partition, all partitions are first asked how many such jobs they
 * have, and then only those that have some are asked to change them. If `max` is more than may be
 * requested at once nothing is counted, to save these calls. The next kick of the same topic uses
 * what is left of the counts, if they suffice for it; if they turn out to be wrong, all partitions
 * are asked.
 */
#include "engine/redis/fanout.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "engine/redis/fanout_parts.h"

enum {
    SWEEP_MAX = 40,     /* jobs kicked or cleared by one call: about a millisecond */
    SWEEPS_AT_ONCE = 16 /* calls that kick or clear */
};

static bool sweeps(const struct fanout *fanout)
{
    return fanout->cmd.kind == CMD_KICK_TOPIC || fanout->cmd.kind == CMD_CLEAR_TOPIC;
}

/* `max` is too small for a full share for each partition, and may be requested at once. Jobs that
   lie in order of time cannot be counted for one topic. */
static bool counts_first(const struct fanout *fanout)
{
    uint32_t partitions = fanout->space->partitions;
    uint32_t max = fanout->cmd.topic.max;
    return sweeps(fanout) && !fanout_by_time(fanout->state) && partitions > 1 &&
           max < (uint64_t)SWEEP_MAX * partitions && max <= SWEEP_MAX * SWEEPS_AT_ONCE;
}

struct fanout *fanout_new(const struct script_space *space, const struct cmd *cmd)
{
    struct fanout *fanout = mem_zalloc(sizeof(*fanout) + space->partitions * sizeof(struct part));
    fanout->space = space;
    fanout->cmd = *cmd;
    fanout->cmd.topic.topic = arena_copy(&fanout->arena, cmd->topic.topic);
    fanout->page_after = fanout->cmd.topic.topic;
    fanout->state = cmd->topic.state;
    fanout->cmd.topic.backwards = cmd->kind == CMD_LIST && cmd->topic.backwards;
    if (cmd->kind == CMD_KICK_TOPIC && fanout->state != JOB_DELAYED)
        fanout->state =
            JOB_BURIED; /* of a kick of any: if there are none, the delayed ones follow */
    fanout->counts = counts_first(fanout);
    fanout->page_max = cmd->kind == CMD_PEEK ? 1 : fanout_least(cmd->topic.max, SCRIPT_HEADS_MAX);
    if (cmd->kind == CMD_LIST || cmd->kind == CMD_PEEK)
        fanout->jobs = mem_alloc((fanout->page_max + 1) * sizeof(*fanout->jobs));
    if (cmd->kind == CMD_DUE) {
        size_t bytes = cmd->topic.until_count * sizeof(int64_t);
        int64_t *until_us = arena_alloc(&fanout->arena, bytes);
        fanout->due = arena_alloc(&fanout->arena, bytes);
        memset(fanout->due, 0, bytes);
        memcpy(until_us, cmd->topic.until_us, bytes);
        fanout->cmd.topic.until_us = until_us;
    }
    if (cmd->kind == CMD_LIST && cmd->topic.cursor.len)
        fanout->err = fanout_begin_at_cursor(fanout, cmd->topic.cursor);
    fanout->cmd.topic.cursor = (struct bytes){0}; /* borrowed for this call */
    return fanout;
}

void fanout_free(struct fanout *fanout, struct discard *discard)
{
    if (!fanout)
        return;
    for (uint32_t i = 0; i < fanout->space->partitions; i++)
        buf_fini(&fanout->parts[i].from);
    mem_free(fanout->jobs);
    mem_free(fanout->topics);
    mem_free(fanout->shown);
    if (discard)
        arena_fini_deferred(&fanout->arena, discard);
    else
        arena_fini(&fanout->arena);
    mem_free(fanout);
}

bool fanout_wants(const struct fanout *fanout, uint32_t partition)
{
    CHECK(partition < fanout->space->partitions);
    if (fanout->err || fanout->parts[partition].state != PART_IDLE)
        return false;
    if (sweeps(fanout) && !fanout->counts)
        return fanout->calls < SWEEPS_AT_ONCE &&
               fanout->changed + fanout->shares < fanout->cmd.topic.max;
    return true;
}

bool fanout_done(const struct fanout *fanout)
{
    if (fanout->calls)
        return false;
    for (uint32_t i = 0; i < fanout->space->partitions; i++) {
        if (fanout_wants(fanout, i))
            return false;
    }
    return true;
}

/* ---- asking ---- */

static void ask_sweep(struct fanout *fanout, struct buf *out, const struct script_call *call)
{
    const struct cmd_topic *cmd = &fanout->cmd.topic;
    struct part *part = &fanout->parts[call->partition];
    part->share = fanout_least(cmd->max - fanout->changed - fanout->shares,
                               part->known ? fanout_least(part->known, SWEEP_MAX) : SWEEP_MAX);
    if (fanout->counts)
        part->share = 0;
    fanout->shares += part->share;
    part->touched = part->touched || !fanout->counts;
    script_begin(out, fanout->space, call, SCRIPT_SWEEP, 5);
    script_add(out, fanout->cmd.kind == CMD_KICK_TOPIC ? BYTES("k") : BYTES("c"));
    script_add_i64(out, fanout->state);
    script_add(out, cmd->topic);
    script_add(out, buf_bytes(&part->from));
    script_add_i64(out, part->share);
}

void fanout_encode(struct fanout *fanout, struct buf *out, const struct script_call *call)
{
    CHECK(fanout_wants(fanout, call->partition));
    fanout->parts[call->partition].state = PART_CALLED;
    fanout->calls++;
    if (sweeps(fanout))
        ask_sweep(fanout, out, call);
    else if (fanout->jobs)
        fanout_encode_list(fanout, out, call);
    else if (fanout->due)
        fanout_encode_due(fanout, out, call);
    else
        fanout_encode_topic(fanout, out, call);
}

/* ---- kicking and clearing ---- */

/* True: a partition has more jobs, or was not asked. */
static bool has_part_left(const struct fanout *fanout)
{
    for (uint32_t i = 0; i < fanout->space->partitions; i++) {
        if (fanout->parts[i].state != PART_DONE)
            return true;
    }
    return false;
}

/* All partitions have counted: those that have some are asked to change them. */
static void end_counting(struct fanout *fanout)
{
    fanout->counts = false;
    fanout->counted = true;
    for (uint32_t i = 0; i < fanout->space->partitions; i++)
        fanout->parts[i].state = fanout->parts[i].known ? PART_IDLE : PART_DONE;
}

/* All partitions are asked from the start, for jobs in this state. */
static void begin(struct fanout *fanout, enum job_state state)
{
    fanout->state = state;
    fanout->counts = counts_first(fanout);
    fanout->counted = fanout->directed = false;
    for (uint32_t i = 0; i < fanout->space->partitions; i++) {
        struct part *part = &fanout->parts[i];
        part->state = PART_IDLE;
        part->from.len = 0;
        part->known = part->changed = 0;
    }
}

void fanout_direct(struct fanout *fanout, const struct fanout_counts *counts)
{
    struct bytes topic = fanout->cmd.topic.topic;
    uint32_t partitions = fanout->space->partitions;
    uint64_t sum = 0;
    if (!fanout->counts || fanout->cmd.kind != CMD_KICK_TOPIC || counts->state != fanout->state ||
        counts->topic != hash_of(topic.at, topic.len) || fanout->cmd.topic.max == 0)
        return; /* max 0: all are asked, only to learn whether the topic exists */
    for (uint32_t i = 0; i < partitions; i++)
        sum += counts->jobs[i];
    if (sum < fanout->cmd.topic.max)
        return;
    fanout->counts = false;
    fanout->directed = true;
    for (uint32_t i = 0; i < partitions; i++) {
        fanout->parts[i].known = counts->jobs[i];
        fanout->parts[i].state = counts->jobs[i] ? PART_IDLE : PART_DONE;
    }
}

void fanout_keep_counts(const struct fanout *fanout, struct fanout_counts *counts)
{
    struct bytes topic = fanout->cmd.topic.topic;
    if (fanout->cmd.kind != CMD_KICK_TOPIC || fanout->err || !(fanout->counted || fanout->directed))
        return;
    counts->topic = hash_of(topic.at, topic.len);
    counts->state = fanout->state;
    for (uint32_t i = 0; i < fanout->space->partitions; i++) {
        const struct part *part = &fanout->parts[i];
        bool left = part->state != PART_DONE && part->known > part->changed;
        counts->jobs[i] = left ? part->known - part->changed : 0;
    }
}

bool fanout_touched(const struct fanout *fanout, uint32_t partition)
{
    return fanout->parts[partition].touched;
}

static enum err take_sweep(struct fanout *fanout, struct part *part,
                           const struct script_answer *answer, const struct bytes *parts,
                           uint32_t count)
{
    fanout->shares -= part->share;
    if (count < 2 || (answer->count > part->share && !fanout->counts))
        return ERR_CORRUPT;
    if (fanout->counts) {
        part->known = answer->count;
    } else if (!answer->err) {
        fanout->changed += answer->count;
        part->changed += answer->count;
    }
    part->from.len = 0;
    buf_add_bytes(&part->from, parts[1]);
    if (answer->more)
        part->state = PART_IDLE;
    if (fanout->counts && !has_part_left(fanout))
        end_counting(fanout);
    bool too_few = fanout->changed < fanout->cmd.topic.max;
    if (fanout->directed && too_few && !has_part_left(fanout)) /* the counts were too high */
        begin(fanout, fanout->state);
    bool any = fanout->cmd.kind == CMD_KICK_TOPIC && fanout->cmd.topic.state == JOB_GONE;
    if (any && fanout->changed == 0 && fanout->state == JOB_BURIED && !has_part_left(fanout))
        begin(fanout, JOB_DELAYED); /* no job was buried: the kick takes delayed ones */
    return OK;
}

/* ---- pausing only a topic that exists, or is in use ---- */

/* One partition has the topic, so those that do not know it are asked to pause it as well. */
static void pause_in_all(struct fanout *fanout)
{
    fanout->in_all = true;
    for (uint32_t i = 0; i < fanout->space->partitions; i++)
        fanout->parts[i].state = fanout->parts[i].absent ? PART_IDLE : PART_DONE;
}

/* ---- answers ---- */

enum err fanout_take(struct fanout *fanout, uint32_t partition, const struct bytes *parts,
                     uint32_t count)
{
    struct part *part = &fanout->parts[partition];
    struct script_answer answer;
    CHECK(part->state == PART_CALLED);
    part->state = PART_DONE;
    fanout->calls--;
    enum err err = script_read_answer(
        fanout->space, &(struct script_parts){.partition = partition, .at = parts, .count = count},
        &answer);
    if (err) {
        fanout->err = err;
        return err;
    }
    bool absent = answer.err == ERR_NOT_FOUND;
    part->absent = absent;
    fanout->found = fanout->found || !absent;
    if (answer.err && !absent)
        fanout->err = answer.err;
    if (sweeps(fanout))
        err = take_sweep(fanout, part, &answer, parts, count);
    else if (!absent && fanout->jobs)
        err = fanout_take_jobs(fanout, part, &answer, parts, count);
    else if (!answer.err && fanout->due)
        err = fanout_take_due(fanout, part, &answer, parts, count);
    else if (!answer.err && (fanout->cmd.kind == CMD_TOPIC || fanout->cmd.kind == CMD_TOPICS))
        err = fanout_take_topics(fanout, part, &answer, parts, count);
    if (err)
        fanout->err = err;
    const struct cmd_topic *topic = &fanout->cmd.topic;
    bool asks = fanout->cmd.kind == CMD_PAUSE && (topic->in_use || topic->must_exist);
    if (fanout->cmd.kind == CMD_REMOVE_TOPIC)
        fanout->more = fanout->more || answer.more;
    if (asks && !fanout->in_all && fanout->found && fanout_done(fanout))
        pause_in_all(fanout);
    return err;
}

const uint64_t *fanout_due_within(const struct fanout *fanout)
{
    return fanout->due_within;
}

void fanout_reply(struct fanout *fanout, struct reply *out_reply)
{
    enum cmd_kind kind = fanout->cmd.kind;
    CHECK(fanout_done(fanout));
    *out_reply = (struct reply){.err = fanout->err, .kind = kind};
    if (fanout->err)
        return;
    if (kind == CMD_DUE) {
        out_reply->count = fanout->cmd.topic.until_count;
        out_reply->until_us = fanout->cmd.topic.until_us;
        out_reply->due = fanout->due;
        return;
    }
    if (!fanout->found && kind != CMD_TOPICS) {
        out_reply->err = ERR_NOT_FOUND;
        return;
    }
    if (kind == CMD_REMOVE_TOPIC) {
        out_reply->more = fanout->more;
    } else if (sweeps(fanout)) {
        out_reply->count = fanout->changed;
        out_reply->more = fanout->directed ||
                          has_part_left(fanout); /* partitions that were not asked may have some */
    } else if (fanout->jobs) {
        fanout_reply_jobs(fanout, out_reply);
    } else if (kind == CMD_TOPIC || kind == CMD_TOPICS) {
        fanout_reply_topics(fanout, out_reply);
    }
}
