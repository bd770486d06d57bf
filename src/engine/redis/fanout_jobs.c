/*
 * Merges the jobs that all partitions show into one page. Each partition is asked for one slice
 * after the other, until no further slice can have a job that belongs on the page.
 */
#include "base/check.h"
#include "base/mem.h"
#include "engine/redis/fanout_parts.h"

enum { HEADS_AT_ONCE = 100 /* jobs shown by one call: about a millisecond */ };

static struct listing listing_of(const struct fanout *fanout)
{
    return (struct listing){
        .engine = CURSOR_REDIS,
        .state = (uint8_t)fanout->state,
        .backwards = fanout->cmd.topic.backwards,
        .topic = fanout->cmd.topic.topic,
    };
}

/* The cursor's place, in the form of scripts/job.lua, in a set that has the jobs of a topic side by
 * side. */
static void add_cursor_place(const struct fanout *fanout, struct buf *out)
{
    static const char letters[JOB_STATES] = {
        [JOB_DELAYED] = 'w', [JOB_READY] = 'r', [JOB_BURIED] = 'b'};
    const struct cursor *after = &fanout->after;
    struct bytes topic = fanout->cmd.topic.topic;
    buf_add_char(out, letters[fanout->state]);
    buf_add_char(out, (char)topic.len);
    buf_add_bytes(out, topic);
    if (fanout->state == JOB_DELAYED) {
        fanout_add_big_endian(out, (uint64_t)after->first, 8);
        fanout_add_big_endian(out, (uint64_t)after->second, 4);
    } else if (fanout->state == JOB_READY) {
        fanout_add_big_endian(out, (uint64_t)after->first, 4);
        fanout_add_big_endian(out, (uint64_t)after->second, 8);
    } else {
        fanout_add_big_endian(out, (uint64_t)after->first, 8);
    }
    fanout_add_big_endian(out, after->seq, 8);
    if (fanout->state == JOB_DELAYED && !fanout->cmd.topic.backwards)
        buf_add_char(out, '\xff'); /* sorts after any rank that may follow */
}

/* Begins the page where the last one ended. walk.lua has the format of the place to continue at. */
enum err fanout_begin_at_cursor(struct fanout *fanout, struct bytes cursor)
{
    struct listing listing = listing_of(fanout);
    enum err err = cursor_read(&listing, cursor, &fanout->after);
    const struct cursor *after = &fanout->after;
    if (!err && (after->first < 0 || after->second < 0 || after->seq > INT64_MAX))
        err = ERR_INVALID; /* not a cursor that a script has returned */
    if (err)
        return err;
    fanout->goes_on = true;
    for (uint32_t i = 0; i < fanout->space->partitions; i++) {
        struct buf *from = &fanout->parts[i].from;
        if (fanout_by_time(fanout->state)) {
            buf_add_i64(from, after->first);
            buf_add_char(from, ' ');
        } else {
            add_cursor_place(fanout, from);
        }
    }
    return OK;
}

void fanout_encode_list(struct fanout *fanout, struct buf *out, const struct script_call *call)
{
    const struct cmd_topic *cmd = &fanout->cmd.topic;
    bool peeks = fanout->cmd.kind == CMD_PEEK;
    bool leaves_out =
        fanout->goes_on &&
        fanout_by_time(fanout->state); /* otherwise no job before the cursor is shown */
    script_begin(out, fanout->space, call, SCRIPT_LIST, 8);
    script_add(out, peeks ? BYTES("p") : BYTES("l"));
    script_add_i64(out, fanout->state);
    script_add(out, cmd->topic);
    script_add(out, buf_bytes(&fanout->parts[call->partition].from));
    script_add_i64(out, leaves_out ? fanout->after.first : -1);
    script_add_i64(out, leaves_out ? (int64_t)fanout->after.seq : 0);
    script_add_i64(out, fanout_least(fanout->page_max, HEADS_AT_ONCE));
    script_add(out, cmd->backwards ? BYTES("r") : BYTES(""));
}

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

/* Compares by the order of the page, which may be backwards. */
static int order_of(const struct fanout *fanout, const struct ordered *a, const struct ordered *b)
{
    return fanout->cmd.topic.backwards ? compare(b, a) : compare(a, b);
}

/*
 * Delayed jobs by due time and priority, ready ones as they would be taken, reserved ones by the
 * end of their ttr, buried ones by the time of their burial. All by the clocks of their partitions:
 * a page may be continued by another daemon, or later, with another estimate of how far these are
 * ahead, and a cursor that was converted by the one and back by the other would leave jobs out.
 * (So where a cluster's servers differ, clients may see due times out of order by the difference.)
 * The cursor has the last job's `first`, `second` and number.
 */
static struct ordered ordered_of(const struct fanout *fanout, const struct script_head *head)
{
    struct ordered ordered = {.first = head->since_us, .view = head->view};
    if (fanout->state == JOB_DELAYED) {
        ordered.first = head->due_us;
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
    copy.notes = NULL; /* only GET shows them */
    copy.note_count = 0;
    copy.properties = arena_copy(arena, view->properties);
    copy.retry_us =
        view->retry_count ? (const int64_t *)(const void *)arena_copy(arena, waits).at : NULL;
    return copy;
}

/* Puts the job on the page if it belongs there; if the page is full its last job is removed. */
static void offer(struct fanout *fanout, const struct script_head *head)
{
    struct ordered ordered = ordered_of(fanout, head);
    uint32_t low = 0, high = fanout->job_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = order_of(fanout, &ordered, &fanout->jobs[middle]);
        if (order == 0)
            return; /* already on the page: the job moved between two slices */
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
    fanout->job_count = fanout_least(fanout->job_count + 1, fanout->page_max);
}

/* The time up to which a search in order of time has shown all jobs (backwards: down to which).
   False: it is not known. */
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

/* The search is past that time. Jobs of one instant come in any order, so it must be past all of
 * them. */
static bool has_passed(const struct fanout *fanout, const struct part *part, int64_t at_us)
{
    int64_t reached_us;
    return read_reached(part, &reached_us) &&
           (fanout->cmd.topic.backwards ? reached_us < at_us : reached_us > at_us);
}

/* True: the partition's next slice may have a job that belongs on the page. `last` is the last job
 * that it has shown. */
static bool matters(struct fanout *fanout, const struct part *part, const struct ordered *last)
{
    if (fanout->cmd.kind == CMD_PEEK)
        return !last;
    if (fanout->job_count < fanout->page_max)
        return true;
    const struct ordered *end = &fanout->jobs[fanout->page_max - 1];
    bool before = fanout_by_time(fanout->state) ? !has_passed(fanout, part, end->first)
                                                : !last || order_of(fanout, last, end) < 0;
    fanout->more = fanout->more || !before;
    return before;
}

enum err fanout_take_jobs(struct fanout *fanout, struct part *part,
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
        head.view.state = fanout->state; /* a due job that is not promoted yet still is in the set
                                            of delayed ones */
        offer(fanout, &head);
    }
    part->from.len = 0;
    buf_add_bytes(&part->from, parts[1]);
    if (answer->more && matters(fanout, part, shown ? &last : NULL))
        part->state = PART_IDLE;
    return OK;
}

void fanout_reply_jobs(struct fanout *fanout, struct reply *reply)
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
