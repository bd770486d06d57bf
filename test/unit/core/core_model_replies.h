/*
 * What the core says while it lives, against the model: its events, which are kept, and its
 * replies. For model_test.c alone.
 */
#ifndef LATERD_TEST_CORE_MODEL_REPLIES_H
#define LATERD_TEST_CORE_MODEL_REPLIES_H

#include <string.h>

#include "core_model_rules.h"

/* ---- events ---- */

/* A new job's record takes the place of one of another job with its id. */
static void give_place(struct model_job *job, uint64_t where)
{
    struct model_job *other = life->jobs;
    while (other->where != where)
        other++;
    other->where = 0;
    job->where = where;
}

static struct stored keep_event(struct event_sink *sink, const struct event *event)
{
    (void)sink;
    MUST(life->event_count < EVENTS_MAX);
    struct kept *kept = &life->events[life->event_count++];
    kept->event = *event;
    memcpy(kept->id, event->id.len ? event->id.at : "", event->id.len);
    memcpy(kept->topic, event->topic.len ? event->topic.at : "", event->topic.len);
    kept->event.id.at = kept->id;
    kept->event.topic.at = kept->topic;
    kept->event.retry_us = kept->waits_us;
    if (event->retry_count)
        memcpy(kept->waits_us, event->retry_us, event->retry_count * sizeof(int64_t));
    struct model_job *job = &life->jobs[event->job.seq];
    if (event->kind == EVENT_JOB && job->where == 0 && event->record.where)
        give_place(job, event->record.where);
    if (event->kind == EVENT_GONE || event->kind == EVENT_JOB)
        MUST(event->record.where == job->where); /* the engine learns which record dies */
    if (event->kind == EVENT_GONE)
        job->where = 0;
    if (event->kind == EVENT_MOVE && event->job.state == JOB_BURIED)
        job->buried_rank = ++life->rank;
    if (event->kind == EVENT_NOTE || event->kind == EVENT_SETTINGS)
        kept->event.body = bytes_of("12345", event->body.len); /* as all of them are */
    if (event_has_place(event) && event->kind != EVENT_JOB) {
        life->lives[++life->where] = true;
        life->live_count++;
        kept->event.record = (struct stored){.where = life->where, .bytes = 9};
        return kept->event.record;
    }
    if (event->kind != EVENT_JOB)
        return (struct stored){0};
    job->where = ++life->where;
    kept->event.record = (struct stored){.where = job->where, .bytes = 7};
    return kept->event.record;
}

static void place_died(struct event_sink *sink, struct stored record)
{
    (void)sink;
    MUST(record.bytes == 9 && life->lives[record.where]); /* once */
    life->lives[record.where] = false;
    life->live_count--;
}

/* ---- replies ---- */

static void check_view(uint64_t seq, const struct job_view *view)
{
    const struct model_job *job = &life->jobs[seq];
    MUST(view->ref.seq == seq);
    MUST(bytes_eq(view->ref.id, id_text(job->id)));
    MUST(bytes_eq(view->topic, topic_name(job->topic)));
    MUST(view->state == job->state);
    MUST(view->priority == job->priority);
    MUST(view->due_us == job->due_us);
    MUST(view->until_us == job->until_us);
    MUST(view->ttr_us == job->ttr_us);
    MUST(view->lease == job->lease);
    MUST(view->failures == job->failures);
    MUST(view->retry_count == job->wait_count);
    MUST(view->body_len == job->body_len);
    MUST(view->where == job->where);
    MUST(view->last_code == job->last_code && view->last_note_us == job->last_note_us);
    MUST(memcmp(&view->counts, &job->counts, sizeof(job->counts)) == 0);
}

/* Jobs were handed out: they must be the ones, in order, and as many as possible. */
static void check_taken(const struct reply *reply, const struct model_waiter *waiter)
{
    const int *topics = waiter->topics;
    int count = waiter->topic_count;
    bool listed = waiter->listed;
    uint32_t max = waiter->max;
    MUST(reply->count >= 1 && reply->count <= max);
    for (uint32_t i = 0; i < reply->count; i++) {
        uint64_t seq = choose(topics, count, listed);
        MUST(seq != 0);
        struct model_job *job = &life->jobs[seq];
        MUST(job->due_us <= life->now_us); /* P3 */
        model_lease(job, waiter->bound);
        check_view(seq, &reply->jobs[i]);
    }
    uint64_t next = choose(topics, count, listed);
    MUST(reply->count == max || next == 0 || life->is_far[next]);
}

/* Is the waiter the first to have parked on some topic that has a job for it? */
static bool is_its_turn(const struct model_waiter *waiter)
{
    for (int i = 0; i < waiter->topic_count; i++) {
        bool first = best_of(waiter->topics[i]) != 0;
        for (int w = 0; w < WAITERS_MAX && first; w++) {
            const struct model_waiter *other = &life->waiters[w];
            for (int t = 0; t < other->topic_count; t++) {
                if (other->parked && other->order < waiter->order &&
                    other->topics[t] == waiter->topics[i])
                    first = false;
            }
        }
        if (first)
            return true;
    }
    return false;
}

static void waiter_answered(struct model_waiter *waiter, const struct reply *reply)
{
    MUST(waiter->parked);
    bool over = waiter->until_us <= life->now_us;
    if (reply->err) {
        MUST(reply->err == ERR_EMPTY && over);
        MUST(choose(waiter->topics, waiter->topic_count, waiter->listed) == 0);
    } else {
        MUST(over || is_its_turn(waiter));
        check_taken(reply, waiter);
    }
    waiter->parked = false;
}

static void receive(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    (void)callbacks;
    if (ctx != life) {
        waiter_answered(ctx, reply);
        return;
    }
    MUST(!life->replied);
    life->replied = true;
    life->reply = *reply;
    life->reply.jobs = life->views;
    MUST(reply->count <= 64);
    if (reply->jobs && reply->count)
        memcpy(life->views, reply->jobs, reply->count * sizeof(*reply->jobs));
    for (uint32_t i = 0; reply->jobs && i < reply->count; i++) { /* borrowed until we return */
        memcpy(life->ids[i], reply->jobs[i].ref.id.at, reply->jobs[i].ref.id.len);
        life->views[i].ref.id.at = life->ids[i];
    }
    if (reply->cursor.len)
        memcpy(life->cursor, reply->cursor.at, CURSOR_BYTES);
    life->reply.cursor.at = life->cursor;
}

#endif
