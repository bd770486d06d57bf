/*
 * A command on a topic, or on all, asks every partition; here one answer is made of theirs.
 * Showing asks all partitions at once, a slice each until they have no more that matters; kicking
 * and clearing ask some at a time, each for a share of `max`, so that no more than `max` jobs
 * change. If `max` is too small for a share of each partition, all are first asked at once how many
 * such jobs they have, and then only those that have some. For more than can be asked for at once
 * the calls that count would be too many: nothing is counted.
 *
 * Invariant: `jobs` and `topics` are sorted, and hold no more than a page (all topics, if all are
 * asked for).
 */
#include "base/check.h"
#include "base/codec.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "engine/redis/script_parts.h"
#include "port/engine.h"

enum {
    SWEEP_MAX = 40,      /* jobs kicked or cleared by one call: about a millisecond */
    SWEEPS_AT_ONCE = 16, /* calls that kick or clear */
    HEADS_AT_ONCE = 100  /* jobs shown by one call: the same */
};

enum part_state { PART_IDLE, PART_ASKED, PART_DONE };

struct part {
    enum part_state state;
    bool absent;     /* it does not know the topic, or does not use it */
    uint32_t share;  /* KICK_TOPIC, CLEAR_TOPIC: of `max`, of the call under way */
    uint32_t known;  /* KICK_TOPIC, CLEAR_TOPIC: jobs that were counted; 0: none, or not counted */
    struct buf from; /* where its slice goes on; empty: from the start */
};

/* A job on the page and what orders it there. */
struct ordered {
    int64_t first;
    int64_t second;
    struct job_view view;
};

struct fanout {
    const struct script_space *space;
    struct cmd cmd; /* its topic is our own copy */
    struct arena arena;
    enum err err;
    bool found;           /* a partition knows the topic */
    bool more;            /* REMOVE_TOPIC: a partition keeps it */
    bool in_all;          /* PAUSE: in every partition, for one has or uses the topic */
    enum job_state state; /* KICK_TOPIC: which ones; CLEAR_TOPIC LIST PEEK: as asked */
    uint32_t page_max;
    uint32_t asked;      /* calls under way */
    uint32_t changed;    /* KICK_TOPIC, CLEAR_TOPIC: jobs so far */
    uint32_t shares;     /* KICK_TOPIC, CLEAR_TOPIC: of all calls under way */
    bool counts;         /* KICK_TOPIC, CLEAR_TOPIC: jobs are counted, none is changed yet */
    bool goes_on;        /* LIST: behind `after`, where the page before ended */
    struct cursor after; /* see ordered_of() */
    struct ordered *jobs;
    uint32_t job_count;
    struct topic_view *topics;
    uint32_t topic_count, topic_cap;
    uint64_t due_within[STATS_SPANS]; /* TOPICS, all */
    uint64_t *due;                    /* DUE: by each of cmd.topic.until_us, which is ours */
    struct bytes last; /* TOPICS: a partition has more after this name; empty: none has */
    struct part parts[];
};

static const struct lateness no_lateness;

static bool sweeps(const struct fanout *fanout)
{
    return fanout->cmd.kind == CMD_KICK_TOPIC || fanout->cmd.kind == CMD_CLEAR_TOPIC;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Jobs in this state lie in order of time, other topics' between them; else in that of places. */
static bool by_time(enum job_state state)
{
    return state == JOB_RESERVED;
}

/* There would not be a share for each partition, nor for more than are asked at once. Jobs in order
   of time cannot be counted. */
static bool counts_first(const struct fanout *fanout)
{
    uint32_t partitions = fanout->space->partitions;
    uint32_t max = fanout->cmd.topic.max;
    return sweeps(fanout) && !by_time(fanout->state) && partitions > 1 &&
           max < (uint64_t)SWEEP_MAX * partitions && max <= SWEEP_MAX * SWEEPS_AT_ONCE;
}

static struct listing listing_of(const struct fanout *fanout)
{
    return (struct listing){
        .engine = CURSOR_REDIS,
        .state = (uint8_t)fanout->state,
        .backwards = fanout->cmd.topic.backwards,
        .topic = fanout->cmd.topic.topic,
    };
}

static void add_big_endian(struct buf *out, uint64_t number, unsigned bytes)
{
    while (bytes-- > 0)
        buf_add_char(out, (char)(number >> (8 * bytes)));
}

/* The cursor's place, as scripts/job.lua makes it, in a set where a topic's jobs lie together. */
static void add_cursor_place(const struct fanout *fanout, uint32_t partition, struct buf *out)
{
    static const char letters[JOB_STATES] = {
        [JOB_DELAYED] = 'w', [JOB_READY] = 'r', [JOB_BURIED] = 'b'};
    const struct cursor *after = &fanout->after;
    struct bytes topic = fanout->cmd.topic.topic;
    buf_add_char(out, letters[fanout->state]);
    buf_add_char(out, (char)topic.len);
    buf_add_bytes(out, topic);
    if (fanout->state == JOB_DELAYED) {
        int64_t due_us = script_time_in(fanout->space, partition, after->first);
        add_big_endian(out, (uint64_t)due_us, 8);
        add_big_endian(out, (uint64_t)after->second, 4);
    } else if (fanout->state == JOB_READY) {
        add_big_endian(out, (uint64_t)after->first, 4);
        add_big_endian(out, (uint64_t)after->second, 8);
    } else {
        add_big_endian(out, (uint64_t)after->first, 8);
    }
    add_big_endian(out, after->seq, 8);
    if (fanout->state == JOB_DELAYED && !fanout->cmd.topic.backwards)
        buf_add_char(out, '\xff'); /* behind the rank that may follow */
}

/* The page begins where the last one ended. walk.lua says how a place to go on at is spelled. */
static enum err begin_at_cursor(struct fanout *fanout, struct bytes cursor)
{
    struct listing listing = listing_of(fanout);
    enum err err = cursor_read(&listing, cursor, &fanout->after);
    const struct cursor *after = &fanout->after;
    if (!err && (after->first < 0 || after->second < 0 || after->seq > INT64_MAX))
        err = ERR_INVALID; /* made up: no script would have said so */
    if (err)
        return err;
    fanout->goes_on = true;
    for (uint32_t i = 0; i < fanout->space->partitions; i++) {
        struct buf *from = &fanout->parts[i].from;
        if (by_time(fanout->state)) {
            buf_add_i64(from, after->first);
            buf_add_char(from, ' ');
        } else {
            add_cursor_place(fanout, i, from);
        }
    }
    return OK;
}

struct fanout *fanout_new(const struct script_space *space, const struct cmd *cmd)
{
    struct fanout *fanout = mem_zalloc(sizeof(*fanout) + space->partitions * sizeof(struct part));
    fanout->space = space;
    fanout->cmd = *cmd;
    fanout->cmd.topic.topic = arena_copy(&fanout->arena, cmd->topic.topic);
    fanout->state = cmd->topic.state;
    fanout->cmd.topic.backwards = cmd->kind == CMD_LIST && cmd->topic.backwards;
    if (cmd->kind == CMD_KICK_TOPIC && fanout->state != JOB_DELAYED)
        fanout->state = JOB_BURIED; /* none there, and any will do: then the delayed ones */
    fanout->counts = counts_first(fanout);
    fanout->page_max = cmd->kind == CMD_PEEK ? 1 : least(cmd->topic.max, SCRIPT_HEADS_MAX);
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
        fanout->err = begin_at_cursor(fanout, cmd->topic.cursor);
    fanout->cmd.topic.cursor = (struct bytes){0}; /* borrowed for this call */
    return fanout;
}

void fanout_free(struct fanout *fanout)
{
    if (!fanout)
        return;
    for (uint32_t i = 0; i < fanout->space->partitions; i++)
        buf_fini(&fanout->parts[i].from);
    mem_free(fanout->jobs);
    mem_free(fanout->topics);
    arena_fini(&fanout->arena);
    mem_free(fanout);
}

bool fanout_wants(const struct fanout *fanout, uint32_t partition)
{
    CHECK(partition < fanout->space->partitions);
    if (fanout->err || fanout->parts[partition].state != PART_IDLE)
        return false;
    if (sweeps(fanout) && !fanout->counts)
        return fanout->asked < SWEEPS_AT_ONCE &&
               fanout->changed + fanout->shares < fanout->cmd.topic.max;
    return true;
}

bool fanout_done(const struct fanout *fanout)
{
    if (fanout->asked)
        return false;
    for (uint32_t i = 0; i < fanout->space->partitions; i++) {
        if (fanout_wants(fanout, i))
            return false;
    }
    return true;
}

/* ---- asking ---- */

static void add_state(struct buf *out, enum job_state state)
{
    script_add_i64(out, state);
}

static void ask_list(struct fanout *fanout, struct buf *out, const struct script_call *call)
{
    const struct cmd_topic *cmd = &fanout->cmd.topic;
    bool peeks = fanout->cmd.kind == CMD_PEEK;
    bool leaves_out =
        fanout->goes_on && by_time(fanout->state); /* else nothing before the cursor comes */
    script_begin(out, fanout->space, call, SCRIPT_LIST, 8);
    script_add(out, peeks ? BYTES("p") : BYTES("l"));
    add_state(out, fanout->state);
    script_add(out, cmd->topic);
    script_add(out, buf_bytes(&fanout->parts[call->partition].from));
    script_add_i64(out, leaves_out ? fanout->after.first : -1);
    script_add_i64(out, leaves_out ? (int64_t)fanout->after.seq : 0);
    script_add_i64(out, least(fanout->page_max, HEADS_AT_ONCE));
    script_add(out, cmd->backwards ? BYTES("r") : BYTES(""));
}

static void ask_sweep(struct fanout *fanout, struct buf *out, const struct script_call *call)
{
    const struct cmd_topic *cmd = &fanout->cmd.topic;
    struct part *part = &fanout->parts[call->partition];
    part->share = least(cmd->max - fanout->changed - fanout->shares,
                        part->known ? least(part->known, SWEEP_MAX) : SWEEP_MAX);
    if (fanout->counts)
        part->share = 0;
    fanout->shares += part->share;
    script_begin(out, fanout->space, call, SCRIPT_SWEEP, 5);
    script_add(out, fanout->cmd.kind == CMD_KICK_TOPIC ? BYTES("k") : BYTES("c"));
    add_state(out, fanout->state);
    script_add(out, cmd->topic);
    script_add(out, buf_bytes(&part->from));
    script_add_i64(out, part->share);
}

/* What falls due is counted with each page of all topics. */
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

static void ask_topic(struct fanout *fanout, struct buf *out, const struct script_call *call)
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
        number = cmd->stats ? SCRIPT_TOPICS_PAGE : least(fanout->page_max, SCRIPT_TOPICS_PAGE);
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

static void ask_due(struct fanout *fanout, struct buf *out, const struct script_call *call)
{
    const struct cmd_topic *cmd = &fanout->cmd.topic;
    struct buf times = {0};
    CHECK(cmd->until_count > 0); /* script_route() */
    for (uint32_t i = 0; i < cmd->until_count; i++) {
        int64_t until_us = script_time_in(fanout->space, call->partition, cmd->until_us[i]);
        add_big_endian(&times, (uint64_t)until_us + 1, 8);
    }
    script_begin(out, fanout->space, call, SCRIPT_COUNT_DUE, 3);
    script_add(out, buf_bytes(&fanout->parts[call->partition].from));
    script_add_i64(out, SCRIPT_DUE_PAGE / cmd->until_count);
    script_add(out, buf_bytes(&times));
    buf_fini(&times);
}

void fanout_ask(struct fanout *fanout, struct buf *out, const struct script_call *call)
{
    CHECK(fanout_wants(fanout, call->partition));
    fanout->parts[call->partition].state = PART_ASKED;
    fanout->asked++;
    if (sweeps(fanout))
        ask_sweep(fanout, out, call);
    else if (fanout->jobs)
        ask_list(fanout, out, call);
    else if (fanout->due)
        ask_due(fanout, out, call);
    else
        ask_topic(fanout, out, call);
}

/* ---- jobs ---- */

static int compare(const struct ordered *a, const struct ordered *b)
{
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->second != b->second)
        return a->second < b->second ? -1 : 1;
    if (a->view.ref.seq != b->view.ref.seq)
        return a->view.ref.seq < b->view.ref.seq ? -1 : 1;
    return 0;
}

/* On the page. */
static int order_of(const struct fanout *fanout, const struct ordered *a, const struct ordered *b)
{
    return fanout->cmd.topic.backwards ? compare(b, a) : compare(a, b);
}

/*
 * Delayed jobs by due time and priority, ready ones as they would be taken, reserved ones by the
 * end of their ttr, buried ones by the time of their burial. Only due times are on our clock, for
 * clients see them. The cursor is the last one's `first`, `second` and number.
 */
static struct ordered ordered_of(const struct fanout *fanout, const struct script_head *head)
{
    struct ordered ordered = {.first = head->since_us, .view = head->view};
    if (fanout->state == JOB_DELAYED) {
        ordered.first = head->view.due_us;
        ordered.second = head->view.priority;
    } else if (fanout->state == JOB_READY) {
        ordered.first = head->view.priority;
        ordered.second = head->rank_us;
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
    copy.notes = NULL; /* GET alone shows them */
    copy.note_count = 0;
    copy.properties = arena_copy(arena, view->properties);
    copy.retry_us =
        view->retry_count ? (const int64_t *)(const void *)arena_copy(arena, waits).at : NULL;
    return copy;
}

/* Puts the job on the page if it comes before its end; the page's last one may go for it. */
static void offer(struct fanout *fanout, const struct script_head *head)
{
    struct ordered ordered = ordered_of(fanout, head);
    uint32_t low = 0, high = fanout->job_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = order_of(fanout, &ordered, &fanout->jobs[middle]);
        if (order == 0)
            return; /* seen already: it moved while the slices went by */
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    fanout->more = fanout->more || fanout->job_count == fanout->page_max;
    if (low == fanout->page_max)
        return;
    memmove(&fanout->jobs[low + 1], &fanout->jobs[low],
            (fanout->job_count - low) * sizeof(*fanout->jobs));
    fanout->jobs[low] = ordered;
    fanout->jobs[low].view = copy_view(&fanout->arena, &ordered.view);
    fanout->job_count = least(fanout->job_count + 1, fanout->page_max);
}

/* How far a search in order of time has come: nothing before it (backwards: after it) is left.
   False: that is not known. */
static bool read_reached(const struct part *part, int64_t *out_us)
{
    struct bytes from = buf_bytes(&part->from);
    const char *space = from.len ? memchr(from.at, ' ', from.len) : NULL;
    uint64_t at_us;
    if (!space || !bytes_to_u64(bytes_of(from.at, (size_t)(space - from.at)), &at_us) ||
        at_us > (uint64_t)SCRIPT_FOREVER)
        return false;
    *out_us = (int64_t)at_us;
    return true;
}

/* Jobs of one instant come in any order. */
static bool has_passed(const struct fanout *fanout, const struct part *part, int64_t at_us)
{
    int64_t reached_us;
    return read_reached(part, &reached_us) &&
           (fanout->cmd.topic.backwards ? reached_us < at_us : reached_us > at_us);
}

/* Could the partition's next slice bring a job that belongs on the page? `last` was its last. */
static bool matters(struct fanout *fanout, const struct part *part, const struct ordered *last)
{
    if (fanout->cmd.kind == CMD_PEEK)
        return !last;
    if (fanout->job_count < fanout->page_max)
        return true;
    const struct ordered *end = &fanout->jobs[fanout->page_max - 1];
    bool before = by_time(fanout->state) ? !has_passed(fanout, part, end->first)
                                         : !last || order_of(fanout, last, end) < 0;
    fanout->more = fanout->more || !before;
    return before;
}

static enum err take_jobs(struct fanout *fanout, struct part *part,
                          const struct script_answer *answer, const struct bytes *parts,
                          uint32_t count)
{
    bool peeks = fanout->cmd.kind == CMD_PEEK;
    uint32_t shown = count - 2;
    struct ordered last;
    if (count < 2 || (peeks && count > 3))
        return ERR_CORRUPT;
    for (uint32_t i = 0; i < shown; i++) {
        struct script_head head;
        enum err err = script_read_head(fanout->space, parts[2 + i], peeks, answer->now_us,
                                        &fanout->arena, &head);
        if (!err && peeks)
            err = script_read_content(&head);
        if (err == ERR_DAMAGED)
            fanout->err = ERR_DAMAGED;
        else if (err)
            return err;
        last = ordered_of(fanout, &head);
        head.view.state = fanout->state; /* a due job that nobody promoted yet is where it is */
        offer(fanout, &head);
    }
    part->from.len = 0;
    buf_add_bytes(&part->from, parts[1]);
    if (answer->more && matters(fanout, part, shown ? &last : NULL))
        part->state = PART_IDLE;
    return OK;
}

/* ---- topics ---- */

/* Where the name is among the topics, or where it belongs. */
static uint32_t topic_place(const struct fanout *fanout, struct bytes name)
{
    uint32_t low = 0, high = fanout->topic_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bytes_cmp(fanout->topics[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct topic_view *topic_of(struct fanout *fanout, struct bytes name)
{
    uint32_t place = topic_place(fanout, name);
    if (place < fanout->topic_count && bytes_eq(fanout->topics[place].name, name))
        return &fanout->topics[place];
    if (fanout->topic_count == fanout->topic_cap) {
        fanout->topic_cap = fanout->topic_cap ? fanout->topic_cap * 2 : 16;
        fanout->topics = mem_realloc(fanout->topics, fanout->topic_cap * sizeof(*fanout->topics));
    }
    memmove(&fanout->topics[place + 1], &fanout->topics[place],
            (fanout->topic_count - place) * sizeof(*fanout->topics));
    fanout->topics[place] =
        (struct topic_view){.name = arena_copy(&fanout->arena, name), .lateness = &no_lateness};
    fanout->topic_count++;
    return &fanout->topics[place];
}

static int64_t sooner(int64_t a_us, int64_t b_us) /* 0 = none */
{
    if (!a_us || !b_us)
        return a_us ? a_us : b_us;
    return a_us < b_us ? a_us : b_us;
}

/* By our clock; 0 = none. */
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
            of[i] = 0; /* below 0: the hash was lost, and with it how many there had been */
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
    if (of[14] > topic->pauses) /* each partition is paused each time */
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

static enum err take_topics(struct fanout *fanout, struct part *part,
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

static enum err take_due(struct fanout *fanout, struct part *part,
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

/* ---- kicking and clearing ---- */

/* A partition that has more, or was not asked. */
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
    for (uint32_t i = 0; i < fanout->space->partitions; i++)
        fanout->parts[i].state = fanout->parts[i].known ? PART_IDLE : PART_DONE;
}

/* There are no buried jobs, and any will do. */
static void begin_delayed(struct fanout *fanout)
{
    fanout->state = JOB_DELAYED;
    fanout->counts = counts_first(fanout);
    for (uint32_t i = 0; i < fanout->space->partitions; i++) {
        fanout->parts[i].state = PART_IDLE;
        fanout->parts[i].from.len = 0;
        fanout->parts[i].known = 0;
    }
}

static enum err take_sweep(struct fanout *fanout, struct part *part,
                           const struct script_answer *answer, const struct bytes *parts,
                           uint32_t count)
{
    fanout->shares -= part->share;
    if (count < 2 || (answer->count > part->share && !fanout->counts))
        return ERR_CORRUPT;
    if (fanout->counts)
        part->known = answer->count;
    else if (!answer->err)
        fanout->changed += answer->count;
    part->from.len = 0;
    buf_add_bytes(&part->from, parts[1]);
    if (answer->more)
        part->state = PART_IDLE;
    if (fanout->counts && !has_part_left(fanout))
        end_counting(fanout);
    bool any = fanout->cmd.kind == CMD_KICK_TOPIC && fanout->cmd.topic.state == JOB_GONE;
    if (any && fanout->changed == 0 && fanout->state == JOB_BURIED && !has_part_left(fanout))
        begin_delayed(fanout);
    return OK;
}

/* ---- pausing what is there, or in use ---- */

/* Some partitions may not have seen the topic: one that has decides for them. */
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
    CHECK(part->state == PART_ASKED);
    part->state = PART_DONE;
    fanout->asked--;
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
        err = take_jobs(fanout, part, &answer, parts, count);
    else if (!answer.err && fanout->due)
        err = take_due(fanout, part, &answer, parts, count);
    else if (!answer.err && (fanout->cmd.kind == CMD_TOPIC || fanout->cmd.kind == CMD_TOPICS))
        err = take_topics(fanout, part, &answer, parts, count);
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

static void reply_jobs(struct fanout *fanout, struct reply *reply)
{
    struct job_view *views = arena_alloc(&fanout->arena, (fanout->job_count + 1) * sizeof(*views));
    struct cursor end = fanout->after;
    for (uint32_t i = 0; i < fanout->job_count; i++) {
        const struct ordered *job = &fanout->jobs[i];
        views[i] = job->view;
        end = (struct cursor){job->first, job->second, job->view.ref.seq};
    }
    reply->jobs = views;
    reply->count = fanout->job_count;
    if (fanout->cmd.kind == CMD_LIST && fanout->more) {
        struct listing listing = listing_of(fanout);
        reply->cursor = cursor_write(&listing, &end, arena_alloc(&fanout->arena, CURSOR_BYTES));
    }
    if (fanout->cmd.kind == CMD_PEEK && fanout->job_count == 0)
        reply->err = ERR_NOT_FOUND;
}

/* Behind the first name with which a partition's page ended, names may be missing: cut there. */
static void reply_topics(struct fanout *fanout, struct reply *reply)
{
    uint32_t count = fanout->topic_count;
    if (fanout->last.len)
        count = topic_place(fanout, fanout->last) + 1;
    if (fanout->cmd.kind == CMD_TOPICS && !fanout->cmd.topic.stats)
        count = least(count, fanout->page_max);
    reply->topics = fanout->topics;
    reply->count = count;
    reply->more = fanout->last.len || count < fanout->topic_count;
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
        out_reply->more = has_part_left(fanout);
    } else if (fanout->jobs) {
        reply_jobs(fanout, out_reply);
    } else if (kind == CMD_TOPIC || kind == CMD_TOPICS) {
        reply_topics(fanout, out_reply);
    }
}
