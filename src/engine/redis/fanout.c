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
#include "engine/redis/script_parts.h"
#include "port/engine.h"

enum {
    SWEEP_MAX = 500,    /* jobs kicked or cleared by one call: a few milliseconds */
    HEADS_AT_ONCE = 250 /* jobs shown by one call: the same */
};

enum part_state { PART_IDLE, PART_ASKED, PART_DONE };

struct part {
    enum part_state state;
    bool absent;     /* it does not know the topic, or does not use it */
    bool searches;   /* TOPIC: its figures are here, its first delayed job is looked for */
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
    bool found;           /* a partition knows the topic */
    bool more;            /* REMOVE_TOPIC: a partition keeps it */
    bool in_all;          /* PAUSE: in every partition, for one has or uses the topic */
    enum job_state state; /* KICK_TOPIC: which ones; CLEAR_TOPIC LIST PEEK: as asked */
    uint32_t page_max;
    uint32_t asked;   /* calls under way */
    uint32_t changed; /* KICK_TOPIC, CLEAR_TOPIC: jobs so far */
    uint32_t part;    /* KICK_TOPIC, CLEAR_TOPIC: whose turn it is */
    struct ordered *jobs;
    uint32_t job_count;
    struct topic_view *topics;
    uint32_t topic_count, topic_cap;
    uint64_t due_within[FIGURES_SPANS]; /* TOPICS, all */
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

/* Jobs in this state lie in order of time, other topics' between them; else in that of places. */
static bool by_time(enum job_state state)
{
    return state == JOB_DELAYED || state == JOB_RESERVED;
}

/* The cursor's time on the partition's clock: see ordered_of(). */
static int64_t cursor_us(const struct script_gather *gather, uint32_t partition)
{
    int64_t first = gather->cmd.topic.after_due_us;
    return gather->state == JOB_DELAYED ? script_time_in(gather->space, partition, first) : first;
}

static void add_big_endian(struct buf *out, uint64_t number, unsigned bytes)
{
    while (bytes-- > 0)
        buf_add_char(out, (char)(number >> (8 * bytes)));
}

/* The page begins where the last one ended. walk.lua says how a place to go on at is spelled. */
static void begin_at_cursor(struct script_gather *gather)
{
    const struct cmd_topic *cmd = &gather->cmd.topic;
    if (gather->cmd.kind != CMD_LIST || cmd->after_due_us == INT64_MIN)
        return;
    for (uint32_t i = 0; i < gather->space->partitions; i++) {
        struct buf *from = &gather->parts[i].from;
        if (by_time(gather->state)) {
            buf_add_i64(from, cursor_us(gather, i));
            buf_add_char(from, ' ');
            continue;
        }
        buf_add_char(from, gather->state == JOB_READY ? 'r' : 'b');
        buf_add_char(from, (char)cmd->topic.len);
        buf_add_bytes(from, cmd->topic);
        add_big_endian(from, (uint64_t)cmd->after_due_us, gather->state == JOB_READY ? 4 : 8);
        if (gather->state == JOB_READY)
            add_big_endian(from, (uint64_t)cmd->after_rank_us, 8);
        add_big_endian(from, cmd->after_seq, 8);
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
    bool peeks = gather->cmd.kind == CMD_PEEK, searches = gather->cmd.kind == CMD_TOPIC;
    bool from_start = gather->cmd.kind != CMD_LIST || cmd->after_due_us == INT64_MIN;
    bool leaves_out =
        !from_start && by_time(gather->state); /* else nothing before the cursor comes */
    script_begin(out, gather->space, call, SCRIPT_LIST, 7);
    script_add(out, peeks ? BYTES("p") : BYTES("l"));
    add_state(out, searches ? JOB_DELAYED : gather->state);
    script_add(out, cmd->topic);
    script_add(out, buf_bytes(&gather->parts[call->partition].from));
    script_add_i64(out, leaves_out ? cursor_us(gather, call->partition) : -1);
    script_add_i64(out, leaves_out ? (int64_t)cmd->after_seq : 0);
    script_add_i64(out, searches ? 1 : least(gather->page_max, HEADS_AT_ONCE));
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

/* What falls due is counted with the first page of all topics. */
static bool counts_due(const struct script_gather *gather, const struct buf *from)
{
    return gather->cmd.kind == CMD_TOPICS && gather->cmd.topic.all && !from->len;
}

/* topic.lua's ARGV[6]. */
static struct bytes option_of(const struct script_gather *gather, const struct buf *from)
{
    const struct cmd_topic *cmd = &gather->cmd.topic;
    if (cmd->in_use && !gather->in_all)
        return BYTES("u");
    if (cmd->must_exist && !gather->in_all)
        return BYTES("e");
    return counts_due(gather, from) ? BYTES("d") : BYTES("");
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
    } else if (gather->cmd.kind == CMD_REMOVE_TOPIC) {
        what = BYTES("x");
    }
    script_begin(out, gather->space, call, SCRIPT_TOPIC, 5);
    script_add(out, what);
    script_add(out, name);
    script_add_i64(out, number);
    script_add_i64(out, gather->space->topics_max);
    script_add(out, option_of(gather, from));
}

void script_gather_ask(struct script_gather *gather, struct buf *out,
                       const struct script_call *call)
{
    CHECK(script_gather_wants(gather, call->partition));
    gather->parts[call->partition].state = PART_ASKED;
    gather->asked++;
    if (sweeps(gather))
        ask_sweep(gather, out, call);
    else if (gather->jobs || gather->parts[call->partition].searches)
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

/*
 * Delayed jobs by due time, ready ones as they would be taken, reserved ones by the end of their
 * ttr, buried ones by the time of their burial. Only due times are on our clock, for clients see
 * them. The cursor is the last one's `first`, `second` and number.
 */
static struct ordered ordered_of(const struct script_gather *gather, const struct script_head *head)
{
    struct ordered ordered = {.first = head->since_us, .view = head->view};
    if (gather->state == JOB_DELAYED) {
        ordered.first = head->view.due_us;
    } else if (gather->state == JOB_READY) {
        ordered.first = head->view.priority;
        ordered.second = head->rank_us;
    }
    return ordered;
}

static struct job_view copy_view(struct arena *arena, const struct job_view *view)
{
    struct job_view copy = *view;
    struct bytes consumers = bytes_of(view->retry_us, view->retry_count * sizeof(int64_t));
    copy.ref.id = arena_copy(arena, view->ref.id);
    copy.topic = arena_copy(arena, view->topic);
    copy.content_type = arena_copy(arena, view->content_type);
    copy.body = arena_copy(arena, view->body);
    copy.retry_us =
        view->retry_count ? (const int64_t *)(const void *)arena_copy(arena, consumers).at : NULL;
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

/* How far a search in order of time has come: nothing before it is left. 0: that is not known. */
static int64_t reached_us(const struct script_gather *gather, const struct part *part,
                          enum job_state state)
{
    struct bytes from = buf_bytes(&part->from);
    const char *space = from.len ? memchr(from.at, ' ', from.len) : NULL;
    uint64_t at_us;
    if (!space || !bytes_to_u64(bytes_of(from.at, (size_t)(space - from.at)), &at_us) ||
        at_us > (uint64_t)SCRIPT_FOREVER)
        return 0;
    uint32_t partition = (uint32_t)(part - gather->parts);
    return state == JOB_DELAYED ? script_time_out(gather->space, partition, (int64_t)at_us)
                                : (int64_t)at_us;
}

/* Could the partition's next slice bring a job that belongs on the page? `last` was its last. */
static bool matters(struct script_gather *gather, const struct part *part,
                    const struct ordered *last)
{
    if (gather->cmd.kind == CMD_PEEK)
        return !last;
    if (gather->job_count < gather->page_max)
        return true;
    const struct ordered *end = &gather->jobs[gather->page_max - 1];
    bool before = by_time(gather->state) /* jobs of one instant come in any order */
                      ? reached_us(gather, part, gather->state) <= end->first
                      : !last || order_of(last, end) < 0;
    gather->more = gather->more || !before;
    return before;
}

static enum err take_jobs(struct script_gather *gather, struct part *part,
                          const struct script_answer *answer, const struct bytes *parts,
                          uint32_t count)
{
    bool peeks = gather->cmd.kind == CMD_PEEK;
    uint32_t shown = peeks ? (count > 2) : count - 2;
    struct ordered last;
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
        last = ordered_of(gather, &head);
        head.view.state = gather->state; /* a due job that nobody promoted yet is where it is */
        offer(gather, &head);
    }
    part->from.len = 0;
    buf_add_bytes(&part->from, parts[1]);
    if (answer->more && matters(gather, part, shown ? &last : NULL))
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

/* Adds one partition's figures of a topic, in the order of scripts/topic.lua. Returns how many of
 * its jobs are delayed there. */
static uint64_t add_figures(const struct script_gather *gather, const struct part *part,
                            struct topic_view *topic, struct bytes figures, int64_t now_us)
{
    uint64_t of[SCRIPT_FIGURES];
    for (size_t i = 0; i < SCRIPT_FIGURES; i++)
        of[i] = get_u64(figures.at + 8 * i);
    uint64_t gone = of[7] + of[8] + of[9], hang = of[0] + of[2] + of[4];
    topic->jobs[JOB_READY] += of[0];
    topic->jobs[JOB_BURIED] += of[2];
    topic->jobs[JOB_RESERVED] += of[4];
    uint64_t delayed = of[5] > gone + hang ? of[5] - gone - hang : 0;
    topic->jobs[JOB_DELAYED] += delayed;
    topic->urgent += of[1];
    topic->oldest_ready_us = sooner(topic->oldest_ready_us, time_of(gather, part, of[3]));
    topic->pushed += of[5];
    topic->reserved += of[6];
    topic->finished += of[7];
    topic->deleted += of[8];
    topic->timeouts += of[10];
    topic->released += of[11];
    topic->buried += of[12];
    topic->kicked += of[13];
    if (of[14] > topic->pauses) /* each partition is paused each time */
        topic->pauses = of[14];
    int64_t pause_us = time_of(gather, part, of[15]);
    if (now_us >= 0 && pause_us > now_us && pause_us > topic->pause_until_us) {
        topic->pause_until_us = pause_us;
        topic->pause_us = pause_us == INT64_MAX ? INT64_MAX - now_us : (int64_t)of[16];
    }
    return delayed;
}

static bool add_due(struct script_gather *gather, struct bytes counts)
{
    if (counts.len != sizeof(gather->due_within))
        return false;
    for (size_t i = 0; i < FIGURES_SPANS; i++)
        gather->due_within[i] += get_u64(counts.at + 8 * i);
    return true;
}

static enum err take_topics(struct script_gather *gather, struct part *part,
                            const struct script_answer *answer, const struct bytes *parts,
                            uint32_t count)
{
    if (counts_due(gather, &part->from) && !add_due(gather, parts[--count]))
        return ERR_CORRUPT;
    if (count % 2 == 0)
        return ERR_CORRUPT;
    for (uint32_t i = 1; i < count; i += 2) {
        if (parts[i].len == 0 || parts[i].len > TOPIC_NAME_MAX ||
            parts[i + 1].len != 8 * SCRIPT_FIGURES)
            return ERR_CORRUPT;
        uint64_t delayed =
            add_figures(gather, part, topic_of(gather, parts[i]), parts[i + 1], answer->now_us);
        if (gather->cmd.kind == CMD_TOPIC && !gather->cmd.topic.brief && delayed) {
            part->searches = true;
            part->state = PART_IDLE;
            return OK;
        }
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

/* A slice of the search for the topic's first delayed job. It ends where another partition's is
 * sooner. */
static enum err take_search(struct script_gather *gather, struct part *part,
                            const struct script_answer *answer, const struct bytes *parts,
                            uint32_t count)
{
    struct topic_view *topic = &gather->topics[0];
    struct script_head head;
    if (count < 2 || gather->topic_count != 1)
        return ERR_CORRUPT;
    part->from.len = 0;
    buf_add_bytes(&part->from, parts[1]);
    if (count > 2) {
        enum err err =
            script_read_head(gather->space, parts[2], answer->now_us, &gather->arena, &head);
        if (!err)
            topic->next_due_us = sooner(topic->next_due_us, head.view.due_us);
        return err;
    }
    int64_t soonest_us = topic->next_due_us ? topic->next_due_us : INT64_MAX;
    if (answer->more && reached_us(gather, part, JOB_DELAYED) < soonest_us)
        part->state = PART_IDLE;
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

/* ---- pausing what is there, or in use ---- */

/* Some partitions may not have seen the topic: one that has decides for them. */
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
    else if (!answer.err && part->searches)
        err = take_search(gather, part, &answer, parts, count);
    else if (!answer.err && (gather->cmd.kind == CMD_TOPIC || gather->cmd.kind == CMD_TOPICS))
        err = take_topics(gather, part, &answer, parts, count);
    if (err)
        gather->err = err;
    const struct cmd_topic *topic = &gather->cmd.topic;
    bool asks = gather->cmd.kind == CMD_PAUSE && (topic->in_use || topic->must_exist);
    if (gather->cmd.kind == CMD_REMOVE_TOPIC)
        gather->more = gather->more || answer.more;
    if (asks && !gather->in_all && gather->found && script_gather_done(gather))
        pause_in_all(gather);
    return err;
}

static void reply_jobs(struct script_gather *gather, struct reply *reply)
{
    struct job_view *views = arena_alloc(&gather->arena, (gather->job_count + 1) * sizeof(*views));
    reply->next_due_us = gather->cmd.topic.after_due_us;
    reply->next_rank_us = gather->cmd.topic.after_rank_us;
    reply->next_seq = gather->cmd.topic.after_seq;
    for (uint32_t i = 0; i < gather->job_count; i++) {
        views[i] = gather->jobs[i].view;
        reply->next_due_us = gather->jobs[i].first;
        reply->next_rank_us = gather->jobs[i].second;
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

const uint64_t *script_gather_due_within(const struct script_gather *gather)
{
    return gather->due_within;
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
    if (kind == CMD_REMOVE_TOPIC) {
        out_reply->more = gather->more;
    } else if (sweeps(gather)) {
        out_reply->count = gather->changed;
        out_reply->more = gather->more || gather->part < gather->space->partitions;
    } else if (gather->jobs) {
        reply_jobs(gather, out_reply);
    } else if (kind == CMD_TOPIC || kind == CMD_TOPICS) {
        reply_topics(gather, out_reply);
    }
}
