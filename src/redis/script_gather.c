/*
 * A command on a topic, or on all, asks every partition; here one answer is made of theirs.
 * Showing asks all partitions at once, a slice each until they have no more that matters; kicking
 * and clearing go from one partition to the next, so that no more than `max` jobs change.
 *
 * Invariant: `jobs` and `topics` are sorted, and hold no more than a page (all topics, if all are
 * asked for).
 */
#include "base/check.h"
#include "base/codec.h"
#include "base/mem.h"
#include "redis/script_parts.h"

enum { SWEEP_MAX = 500 }; /* jobs kicked or cleared by one call: a few milliseconds */

enum part_state { PART_IDLE, PART_ASKED, PART_DONE };

struct part {
    enum part_state state;
    bool absent;     /* it does not know the topic, or does not use it */
    struct buf from; /* where its slice goes on; empty: from the start */
};

/* A job on the page and what orders it there. */
struct ordered {
    int64_t first;
    int64_t second;
    struct job_view view;
};

struct script_gather {
    const struct script_space *space;
    struct cmd cmd; /* its topic is our own copy */
    struct arena arena;
    enum err err;
    bool found; /* a partition knows the topic */
    bool more;
    bool in_all;          /* PAUSE: in every partition, for one uses the topic */
    enum job_state state; /* KICK_TOPIC: which ones; CLEAR_TOPIC LIST PEEK: as asked */
    uint32_t page_max;
    uint32_t asked;   /* calls under way */
    uint32_t changed; /* KICK_TOPIC, CLEAR_TOPIC: jobs so far */
    uint32_t part;    /* KICK_TOPIC, CLEAR_TOPIC: whose turn it is */
    struct ordered *jobs;
    uint32_t job_count;
    struct topic_view *topics;
    uint32_t topic_count, topic_cap;
    struct bytes last; /* TOPICS: a partition has more after this name; empty: none has */
    struct part parts[];
};

static const struct lateness no_lateness;

static bool sweeps(const struct script_gather *gather)
{
    return gather->cmd.kind == CMD_KICK_TOPIC || gather->cmd.kind == CMD_CLEAR_TOPIC;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* A listing of delayed jobs begins where the cursor is; the others are not in order of due time. */
static void begin_at_cursor(struct script_gather *gather)
{
    const struct cmd_topic *cmd = &gather->cmd.topic;
    if (gather->cmd.kind != CMD_LIST || gather->state != JOB_DELAYED ||
        cmd->after_due_us == INT64_MIN)
        return;
    for (uint32_t i = 0; i < gather->space->partitions; i++) {
        struct buf *from = &gather->parts[i].from;
        buf_add_i64(from, script_time_in(gather->space, i, cmd->after_due_us));
        buf_add_str(from, " 0");
    }
}

struct script_gather *script_gather_new(const struct script_space *space, const struct cmd *cmd)
{
    struct script_gather *gather =
        mem_zalloc(sizeof(*gather) + space->partitions * sizeof(struct part));
    gather->space = space;
    gather->cmd = *cmd;
    gather->cmd.topic.topic = arena_copy(&gather->arena, cmd->topic.topic);
    gather->state = cmd->topic.state;
    if (cmd->kind == CMD_KICK_TOPIC && gather->state != JOB_DELAYED)
        gather->state = JOB_BURIED; /* none there, and any will do: then the delayed ones */
    gather->page_max = cmd->kind == CMD_PEEK ? 1 : least(cmd->topic.max, SCRIPT_HEADS_MAX);
    if (cmd->kind == CMD_LIST || cmd->kind == CMD_PEEK)
        gather->jobs = mem_alloc((gather->page_max + 1) * sizeof(*gather->jobs));
    begin_at_cursor(gather);
    return gather;
}

void script_gather_free(struct script_gather *gather)
{
    if (!gather)
        return;
    for (uint32_t i = 0; i < gather->space->partitions; i++)
        buf_fini(&gather->parts[i].from);
    mem_free(gather->jobs);
    mem_free(gather->topics);
    arena_fini(&gather->arena);
    mem_free(gather);
}

bool script_gather_wants(const struct script_gather *gather, uint32_t partition)
{
    CHECK(partition < gather->space->partitions);
    if (gather->err || gather->parts[partition].state != PART_IDLE)
        return false;
    if (sweeps(gather))
        return partition == gather->part && gather->changed < gather->cmd.topic.max;
    return true;
}

bool script_gather_done(const struct script_gather *gather)
{
    if (gather->asked)
        return false;
    for (uint32_t i = 0; i < gather->space->partitions; i++) {
        if (script_gather_wants(gather, i))
            return false;
    }
    return true;
}

/* ---- asking ---- */

static void add_state(struct buf *out, enum job_state state)
{
    script_add_i64(out, state);
}

static void ask_list(struct script_gather *gather, struct buf *out, const struct script_call *call)
{
    const struct cmd_topic *cmd = &gather->cmd.topic;
    bool peeks = gather->cmd.kind == CMD_PEEK;
    bool from_start = peeks || cmd->after_due_us == INT64_MIN;
    bool in_order = peeks || gather->state == JOB_DELAYED;
    script_begin(out, gather->space, call, SCRIPT_LIST, 7);
    script_add(out, peeks ? BYTES("p") : BYTES("l"));
    add_state(out, gather->state);
    script_add(out, cmd->topic);
    script_add(out, buf_bytes(&gather->parts[call->partition].from));
    script_add_i64(
        out, from_start ? -1 : script_time_in(gather->space, call->partition, cmd->after_due_us));
    script_add_i64(out, from_start ? 0 : (int64_t)cmd->after_seq);
    script_add_i64(out, in_order ? gather->page_max : SCRIPT_HEADS_MAX);
}

static void ask_sweep(struct script_gather *gather, struct buf *out, const struct script_call *call)
{
    const struct cmd_topic *cmd = &gather->cmd.topic;
    script_begin(out, gather->space, call, SCRIPT_SWEEP, 5);
    script_add(out, gather->cmd.kind == CMD_KICK_TOPIC ? BYTES("k") : BYTES("c"));
    add_state(out, gather->state);
    script_add(out, cmd->topic);
    script_add(out, buf_bytes(&gather->parts[call->partition].from));
    script_add_i64(out, least(cmd->max - gather->changed, SWEEP_MAX));
}

static void ask_topic(struct script_gather *gather, struct buf *out, const struct script_call *call)
{
    const struct cmd_topic *cmd = &gather->cmd.topic;
    const struct buf *from = &gather->parts[call->partition].from;
    struct bytes what = BYTES("t"), name = cmd->topic;
    int64_t number = 0;
    if (gather->cmd.kind == CMD_TOPICS) {
        what = BYTES("l");
        name = from->len ? buf_bytes(from) : cmd->topic;
        if (cmd->all && !from->len)
            name = (struct bytes){0};
        number = cmd->all ? SCRIPT_TOPICS_PAGE : least(gather->page_max, SCRIPT_TOPICS_PAGE);
    } else if (gather->cmd.kind == CMD_PAUSE) {
        what = BYTES("p");
        number = script_time_in(gather->space, call->partition, cmd->pause_until_us);
    } else if (gather->cmd.kind == CMD_RESUME) {
        what = BYTES("u");
    }
    script_begin(out, gather->space, call, SCRIPT_TOPIC, 5);
    script_add(out, what);
    script_add(out, name);
    script_add_i64(out, number);
    script_add_i64(out, gather->space->topics_max);
    script_add(out, cmd->brief                       ? BYTES("b")
                    : cmd->in_use && !gather->in_all ? BYTES("u")
                                                     : (struct bytes){0});
}

void script_gather_ask(struct script_gather *gather, struct buf *out,
                       const struct script_call *call)
{
    CHECK(script_gather_wants(gather, call->partition));
    gather->parts[call->partition].state = PART_ASKED;
    gather->asked++;
    if (sweeps(gather))
        ask_sweep(gather, out, call);
    else if (gather->jobs)
        ask_list(gather, out, call);
    else
        ask_topic(gather, out, call);
}

/* ---- jobs ---- */

static int order_of(const struct ordered *a, const struct ordered *b)
{
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->second != b->second)
        return a->second < b->second ? -1 : 1;
    if (a->view.ref.seq != b->view.ref.seq)
        return a->view.ref.seq < b->view.ref.seq ? -1 : 1;
    return 0;
}

/* By due time, as every listing is; of a peek, as its jobs would be taken. */
static struct ordered ordered_of(const struct script_gather *gather, const struct script_head *head)
{
    struct ordered ordered = {.first = head->view.due_us, .view = head->view};
    if (gather->cmd.kind == CMD_PEEK && gather->state == JOB_READY) {
        ordered.first = head->view.priority;
        ordered.second = head->rank_us;
    } else if (gather->cmd.kind == CMD_PEEK && gather->state == JOB_BURIED) {
        ordered.first = head->since_us;
    }
    return ordered;
}

static struct job_view copy_view(struct arena *arena, const struct job_view *view)
{
    struct job_view copy = *view;
    struct bytes waits = bytes_of(view->retry_us, view->retry_count * sizeof(int64_t));
    copy.ref.id = arena_copy(arena, view->ref.id);
    copy.topic = arena_copy(arena, view->topic);
    copy.content_type = arena_copy(arena, view->content_type);
    copy.body = arena_copy(arena, view->body);
    copy.retry_us =
        view->retry_count ? (const int64_t *)(const void *)arena_copy(arena, waits).at : NULL;
    return copy;
}

/* Puts the job on the page if it comes before its end; the page's last one may go for it. */
static void offer(struct script_gather *gather, const struct script_head *head)
{
    struct ordered ordered = ordered_of(gather, head);
    uint32_t low = 0, high = gather->job_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = order_of(&ordered, &gather->jobs[middle]);
        if (order == 0)
            return; /* seen already: it moved while the slices went by */
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    gather->more = gather->more || gather->job_count == gather->page_max;
    if (low == gather->page_max)
        return;
    memmove(&gather->jobs[low + 1], &gather->jobs[low],
            (gather->job_count - low) * sizeof(*gather->jobs));
    gather->jobs[low] = ordered;
    gather->jobs[low].view = copy_view(&gather->arena, &ordered.view);
    gather->job_count = least(gather->job_count + 1, gather->page_max);
}

/* Could the partition's next slice bring a job that belongs on the page? */
static bool matters(struct script_gather *gather, uint32_t shown, int64_t last_us)
{
    if (gather->cmd.kind == CMD_PEEK)
        return shown == 0;
    if (gather->state != JOB_DELAYED || gather->job_count < gather->page_max)
        return true;
    if (last_us <= gather->jobs[gather->page_max - 1].first)
        return true; /* jobs due at one instant come in any order */
    gather->more = true;
    return false;
}

static enum err take_jobs(struct script_gather *gather, struct part *part,
                          const struct script_answer *answer, const struct bytes *parts,
                          uint32_t count)
{
    bool peeks = gather->cmd.kind == CMD_PEEK;
    uint32_t shown = peeks ? (count > 2) : count - 2;
    int64_t last_us = INT64_MIN;
    if (count < 2 || (peeks && count != 2 && count != 4))
        return ERR_CORRUPT;
    for (uint32_t i = 0; i < shown; i++) {
        struct script_head head;
        enum err err =
            script_read_head(gather->space, parts[2 + i], answer->now_us, &gather->arena, &head);
        if (!err && peeks)
            err = script_read_content(parts[3], &head);
        if (err == ERR_DAMAGED)
            gather->err = ERR_DAMAGED;
        else if (err)
            return err;
        last_us = head.view.due_us;
        head.view.state = gather->state; /* a due job that nobody promoted yet is where it is */
        offer(gather, &head);
    }
    part->from.len = 0;
    buf_add_bytes(&part->from, parts[1]);
    if (answer->more && matters(gather, shown, last_us))
        part->state = PART_IDLE;
    return OK;
}

/* ---- topics ---- */

/* Where the name is among the topics, or where it belongs. */
static uint32_t topic_place(const struct script_gather *gather, struct bytes name)
{
    uint32_t low = 0, high = gather->topic_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bytes_cmp(gather->topics[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct topic_view *topic_of(struct script_gather *gather, struct bytes name)
{
    uint32_t place = topic_place(gather, name);
    if (place < gather->topic_count && bytes_eq(gather->topics[place].name, name))
        return &gather->topics[place];
    if (gather->topic_count == gather->topic_cap) {
        gather->topic_cap = gather->topic_cap ? gather->topic_cap * 2 : 16;
        gather->topics = mem_realloc(gather->topics, gather->topic_cap * sizeof(*gather->topics));
    }
    memmove(&gather->topics[place + 1], &gather->topics[place],
            (gather->topic_count - place) * sizeof(*gather->topics));
    gather->topics[place] =
        (struct topic_view){.name = arena_copy(&gather->arena, name), .lateness = &no_lateness};
    gather->topic_count++;
    return &gather->topics[place];
}

static int64_t sooner(int64_t a_us, int64_t b_us) /* 0 = none */
{
    if (!a_us || !b_us)
        return a_us ? a_us : b_us;
    return a_us < b_us ? a_us : b_us;
}

/* By our clock; 0 = none. */
static int64_t time_of(const struct script_gather *gather, const struct part *part, uint64_t us)
{
    uint32_t partition = (uint32_t)(part - gather->parts);
    uint64_t most_us = (uint64_t)SCRIPT_FOREVER;
    if (!us)
        return 0;
    return script_time_out(gather->space, partition, (int64_t)(us < most_us ? us : most_us));
}

/* Adds one partition's figures of a topic, in the order of scripts/topic.lua. */
static void add_figures(const struct script_gather *gather, const struct part *part,
                        struct topic_view *topic, struct bytes figures, int64_t now_us)
{
    uint64_t of[SCRIPT_FIGURES];
    for (size_t i = 0; i < SCRIPT_FIGURES; i++)
        of[i] = get_u64(figures.at + 8 * i);
    uint64_t gone = of[8] + of[9] + of[10], hang = of[0] + of[2] + of[5];
    topic->jobs[JOB_READY] += of[0];
    topic->jobs[JOB_BURIED] += of[2];
    topic->jobs[JOB_RESERVED] += of[5];
    topic->jobs[JOB_DELAYED] += of[6] > gone + hang ? of[6] - gone - hang : 0;
    topic->urgent += of[1];
    topic->oldest_ready_us = sooner(topic->oldest_ready_us, time_of(gather, part, of[3]));
    topic->next_due_us = sooner(topic->next_due_us, time_of(gather, part, of[4]));
    topic->pushed += of[6];
    topic->reserved += of[7];
    topic->finished += of[8];
    topic->deleted += of[9];
    topic->timeouts += of[11];
    topic->released += of[12];
    topic->buried += of[13];
    topic->kicked += of[14];
    if (of[15] > topic->pauses) /* each partition is paused each time */
        topic->pauses = of[15];
    int64_t pause_us = time_of(gather, part, of[16]);
    if (now_us >= 0 && pause_us > now_us && pause_us > topic->pause_until_us) {
        topic->pause_until_us = pause_us;
        topic->pause_us = pause_us == INT64_MAX ? INT64_MAX - now_us : (int64_t)of[17];
    }
}

static enum err take_topics(struct script_gather *gather, struct part *part,
                            const struct script_answer *answer, const struct bytes *parts,
                            uint32_t count)
{
    if (count % 2 == 0)
        return ERR_CORRUPT;
    for (uint32_t i = 1; i < count; i += 2) {
        if (parts[i].len == 0 || parts[i].len > TOPIC_NAME_MAX ||
            parts[i + 1].len != 8 * SCRIPT_FIGURES)
            return ERR_CORRUPT;
        add_figures(gather, part, topic_of(gather, parts[i]), parts[i + 1], answer->now_us);
    }
    if (!answer->more || count < 3)
        return OK;
    struct bytes last = parts[count - 2];
    if (gather->cmd.topic.all) {
        part->from.len = 0;
        buf_add_bytes(&part->from, last);
        part->state = PART_IDLE;
    } else if (!gather->last.len || bytes_cmp(last, gather->last) < 0) {
        gather->last = arena_copy(&gather->arena, last);
    }
    return OK;
}

/* ---- kicking and clearing ---- */

static enum err take_sweep(struct script_gather *gather, struct part *part,
                           const struct script_answer *answer, const struct bytes *parts,
                           uint32_t count)
{
    if (count < 2)
        return ERR_CORRUPT;
    if (!answer->err)
        gather->changed += answer->count;
    part->from.len = 0;
    buf_add_bytes(&part->from, parts[1]);
    gather->more = answer->more;
    if (answer->more) {
        part->state = PART_IDLE;
        return OK;
    }
    gather->part++;
    bool any = gather->cmd.kind == CMD_KICK_TOPIC && gather->cmd.topic.state == JOB_GONE;
    if (gather->part == gather->space->partitions && any && gather->changed == 0 &&
        gather->state == JOB_BURIED) {
        gather->state = JOB_DELAYED;
        gather->part = 0;
        for (uint32_t i = 0; i < gather->space->partitions; i++) {
            gather->parts[i].state = PART_IDLE;
            gather->parts[i].from.len = 0;
        }
    }
    return OK;
}

/* ---- pausing what is in use ---- */

/* Some partitions may not have used the topic: one that has decides for them. */
static void pause_in_all(struct script_gather *gather)
{
    gather->in_all = true;
    for (uint32_t i = 0; i < gather->space->partitions; i++)
        gather->parts[i].state = gather->parts[i].absent ? PART_IDLE : PART_DONE;
}

/* ---- answers ---- */

enum err script_gather_take(struct script_gather *gather, uint32_t partition,
                            const struct bytes *parts, uint32_t count)
{
    struct part *part = &gather->parts[partition];
    struct script_answer answer;
    CHECK(part->state == PART_ASKED);
    part->state = PART_DONE;
    gather->asked--;
    enum err err = script_read_answer(
        gather->space, &(struct script_parts){.partition = partition, .at = parts, .count = count},
        &answer);
    if (err) {
        gather->err = err;
        return err;
    }
    bool absent = answer.err == ERR_NOT_FOUND;
    part->absent = absent;
    gather->found = gather->found || !absent;
    if (answer.err && !absent)
        gather->err = answer.err;
    if (sweeps(gather))
        err = take_sweep(gather, part, &answer, parts, count);
    else if (!absent && gather->jobs)
        err = take_jobs(gather, part, &answer, parts, count);
    else if (!answer.err && (gather->cmd.kind == CMD_TOPIC || gather->cmd.kind == CMD_TOPICS))
        err = take_topics(gather, part, &answer, parts, count);
    if (err)
        gather->err = err;
    bool asks_use = gather->cmd.kind == CMD_PAUSE && gather->cmd.topic.in_use;
    if (asks_use && !gather->in_all && gather->found && script_gather_done(gather))
        pause_in_all(gather);
    return err;
}

static void reply_jobs(struct script_gather *gather, struct reply *reply)
{
    struct job_view *views = arena_alloc(&gather->arena, (gather->job_count + 1) * sizeof(*views));
    reply->next_due_us = gather->cmd.topic.after_due_us;
    reply->next_seq = gather->cmd.topic.after_seq;
    for (uint32_t i = 0; i < gather->job_count; i++) {
        views[i] = gather->jobs[i].view;
        reply->next_due_us = views[i].due_us;
        reply->next_seq = views[i].ref.seq;
    }
    reply->jobs = views;
    reply->count = gather->job_count;
    reply->more = gather->cmd.kind == CMD_LIST && gather->more;
    if (gather->cmd.kind == CMD_PEEK && gather->job_count == 0)
        reply->err = ERR_NOT_FOUND;
}

/* Behind the first name with which a partition's page ended, names may be missing: cut there. */
static void reply_topics(struct script_gather *gather, struct reply *reply)
{
    uint32_t count = gather->topic_count;
    if (gather->last.len)
        count = topic_place(gather, gather->last) + 1;
    if (gather->cmd.kind == CMD_TOPICS && !gather->cmd.topic.all)
        count = least(count, gather->page_max);
    reply->topics = gather->topics;
    reply->count = count;
    reply->more = gather->last.len || count < gather->topic_count;
}

void script_gather_reply(struct script_gather *gather, struct reply *out_reply)
{
    enum cmd_kind kind = gather->cmd.kind;
    CHECK(script_gather_done(gather));
    *out_reply = (struct reply){.err = gather->err, .kind = kind};
    if (gather->err)
        return;
    if (!gather->found && kind != CMD_TOPICS) {
        out_reply->err = ERR_NOT_FOUND;
        return;
    }
    if (sweeps(gather)) {
        out_reply->count = gather->changed;
        out_reply->more = gather->more || gather->part < gather->space->partitions;
    } else if (gather->jobs) {
        reply_jobs(gather, out_reply);
    } else if (kind == CMD_TOPIC || kind == CMD_TOPICS) {
        reply_topics(gather, out_reply);
    }
}
