/*
 * More of model_test.c: lives in which delayed, ready and buried jobs depart to slices, and come
 * back as an engine has them come: when they fall due, when they are to be handed out, and for
 * commands that name them or go through their topic. For it alone.
 */
#ifndef LATERD_TEST_CORE_MODEL_FAR_H
#define LATERD_TEST_CORE_MODEL_FAR_H

#include "base/far_hash.h"
#include "core/far.h"
#include "core/front.h"
#include "core/replay.h"
#include "core_model_replies.h"
#include "far_ends.h"

enum { FAR_KEY = 99 };

#define FAR_PLACES (UINT64_C(1) << 32) /* from here on places are in slices */

/* In every third life. */
static inline bool has_far(void)
{
    return life->seed % 3 == 0;
}

static inline uint64_t buried_stay(void)
{
    return life->seed % 2 ? BURIED_STAY : 0;
}

static inline uint64_t ready_stay(void)
{
    return life->seed % 2 ? READY_STAY : 0;
}

/* Of the jobs in memory, is one in this state too many? */
static inline bool too_many(enum job_state state)
{
    uint64_t count = 0;
    for (uint64_t seq = 1; seq < life->seq_next; seq++)
        count += life->jobs[seq].state == state && !life->is_far[seq];
    return count > (state == JOB_READY ? ready_stay() : buried_stay());
}

/* Of ready ones it depends on their places, unless all may. */
static inline bool may_depart(const struct model_job *job, int64_t after_us, bool *out_must)
{
    bool few = job->state == JOB_READY && ready_stay() > 0;
    bool may = (job->state == JOB_DELAYED && job->due_us > after_us) ||
               ((job->state == JOB_BURIED || job->state == JOB_READY) && too_many(job->state));
    may = may && job->last_note_us == 0;
    *out_must = may && !few;
    return may;
}

static inline struct event record_event(uint64_t seq) /* as a store would have read it */
{
    const struct model_job *job = &life->jobs[seq];
    return (struct event){.kind = EVENT_JOB,
                          .job.seq = seq,
                          .id = id_text(job->id),
                          .ttr_us = job->ttr_us,
                          .created_us = job->created_us,
                          .retry_us = job->waits_us,
                          .retry_count = job->wait_count,
                          .order = job->order,
                          .body = bytes_of("12345", job->body_len)};
}

static inline void keep_record(uint64_t seq, const struct event *event, uint64_t where)
{
    struct kept *kept = &life->records[seq];
    *kept = (struct kept){.event = *event};
    kept->event.id = id_text(life->jobs[seq].id);
    kept->event.topic = topic_name(life->jobs[seq].topic);
    memcpy(kept->waits_us, event->retry_us, event->retry_count * sizeof(int64_t));
    kept->event.retry_us = kept->waits_us;
    kept->event.record = (struct stored){.where = where, .bytes = 7};
}

/* Some job departs, if it may; now and then it changes between the two steps. */
static inline void step_depart(void)
{
    uint64_t oldest = life->seq_next > 60 ? life->seq_next - 60 : 1;
    uint64_t seq = oldest + below(life->seq_next - oldest + 1);
    struct model_job *job = &life->jobs[seq];
    int64_t after_us = life->now_us + (int64_t)below(2) * 500;
    struct event event = record_event(seq), out;
    if (life->is_far[seq] || job->where == 0 || job->where >= FAR_PLACES)
        return; /* or its record is in a slice: nobody offers it */
    bool must, may = may_depart(job, after_us, &must);
    MUST(!core_spill(life->core, &event, job->where + 5000, after_us, &out)); /* not there */
    if (!core_spill(life->core, &event, job->where, after_us, &out)) {
        MUST(!must);
        return;
    }
    MUST(may && out.job.due_us == job->due_us && out.job.priority == job->priority);
    MUST(out.job.state == job->state);
    keep_record(seq, &out, FAR_PLACES + ++life->where);
    struct stored place = life->records[seq].event.record;
    if (below(6) == 0) {
        struct cmd touch = {.kind = CMD_RESCHEDULE, .job = {.ref.seq = seq}};
        life->replied = false;
        if (job->state != JOB_DELAYED)
            MUST(core_relocate(life->core, &event, job->where));
        else
            (void)core_apply(life->core, life->now_us, &touch, life);
        MUST(!core_depart(life->core, seq, place));
        return;
    }
    MUST(core_depart(life->core, seq, place));
    MUST(!core_depart(life->core, seq, place));
    MUST(core_is_far(life->core, seq, place.where));
    life->is_far[seq] = true;
    job->where = place.where;
}

static inline void bring_back(uint64_t seq, bool visits)
{
    MUST(core_arrive(life->core, &life->records[seq].event));
    if (!visits) /* it is there, and stays */
        MUST(!core_arrive(life->core, &life->records[seq].event));
    life->is_far[seq] = false;
    life->jobs[seq].buried_rank = --life->front_rank; /* the first of its topic, if it is buried */
    if (visits)
        life->visitors[life->visitor_count++] = seq;
}

/* The far job of this name, after a look whether the core finds its place; 0: none is far. */
static inline uint64_t far_named(const struct job_ref *ref)
{
    uint64_t places[FAR_CANDIDATES_MAX];
    uint32_t count = core_far_find(life->core, ref, places);
    uint32_t of_none = core_holds(life->core, ref) ? 0 : count;
    MUST(core_far_only(life->core, ref, true, places) == of_none);
    MUST(core_far_only(life->core, ref, false, places) == of_none);
    (void)core_far_find(life->core, ref, places);
    uint64_t found = 0;
    for (uint64_t seq = 1; seq < life->seq_next; seq++) {
        if (!life->is_far[seq])
            continue;
        bool named = ref->id.len ? bytes_eq(ref->id, id_text(life->jobs[seq].id)) : seq == ref->seq;
        bool candidate = false;
        for (uint32_t i = 0; i < count; i++)
            candidate = candidate || places[i] == life->jobs[seq].where;
        MUST(candidate || !named); /* it is found */
        if (named)
            found = seq;
    }
    return found;
}

/* What an engine does before a command that names a job. */
static inline void bring_named(const struct job_ref *ref)
{
    uint64_t found = far_named(ref);
    if (found)
        bring_back(found, true);
}

/* Or it deletes the job where it is, if that is all. */
static inline bool ends_far(const struct cmd *cmd)
{
    uint64_t seq = cmd->kind == CMD_DELETE && below(4) ? far_named(&cmd->job.ref) : 0;
    if (!seq)
        return false;
    const struct event *event = &life->records[seq].event;
    const struct model_job *job = &life->jobs[seq];
    bool plain = job->state == JOB_DELAYED && job->due_us > life->now_us && !cmd->job.lease;
    bool ended = core_delete_far(life->core, life->now_us, cmd, event, life);
    MUST(ended == plain);
    MUST(ended != core_is_far(life->core, seq, event->record.where));
    life->is_far[seq] = !ended;
    return ended;
}

static inline void bring_topic(struct bytes topic)
{
    for (uint64_t seq = 1; seq < life->seq_next; seq++) {
        if (life->is_far[seq] && bytes_eq(topic, topic_name(life->jobs[seq].topic)))
            bring_back(seq, true);
    }
    MUST(core_far_count(life->core, topic, JOB_DELAYED) == 0);
    MUST(core_far_count(life->core, topic, JOB_READY) == 0);
    MUST(core_far_count(life->core, topic, JOB_BURIED) == 0);
}

static inline void before_command(const struct cmd *cmd)
{
    life->visitor_count = 0;
    enum cmd_subject subject = cmd_traits(cmd->kind)->subject;
    if (subject == CMD_ON_JOB)
        bring_named(&cmd->job.ref);
    else if (subject == CMD_ON_NEW_JOB && cmd->push.id.len)
        bring_named(&(struct job_ref){.id = cmd->push.id});
    else if (subject == CMD_ON_TOPICS && cmd->kind != CMD_PAUSE)
        bring_topic(cmd->topic.topic);
}

/* Those that the command has left as they were depart again. */
static inline void after_command(const struct cmd *cmd)
{
    for (uint32_t i = 0; i < life->visitor_count; i++) {
        uint64_t seq = life->visitors[i];
        bool left = core_depart(life->core, seq, life->records[seq].event.record);
        bool looks = cmd->kind == CMD_GET || cmd->kind == CMD_LIST || cmd->kind == CMD_PEEK;
        MUST(left || !looks);
        life->is_far[seq] = left;
    }
}

/* As a slice is loaded: before its first job is due. */
static inline void bring_due(void)
{
    for (uint64_t seq = 1; seq < life->seq_next; seq++) {
        bool soon = life->jobs[seq].due_us <= life->now_us + (int64_t)below(100);
        if (!life->is_far[seq] || life->jobs[seq].state != JOB_DELAYED || !soon)
            continue;
        const struct event *event = &life->records[seq].event;
        MUST(core_near(life->core, event));
        MUST(!core_is_far(life->core, seq, event->record.where) ||
             event->job.due_us <= life->now_us);
        life->is_far[seq] = core_is_far(life->core, seq, event->record.where);
    }
}

/* Jobs that came near, and have fallen due, leave memory again by themselves. */
static inline void note_departed(void)
{
    for (uint64_t seq = 1; seq < life->seq_next; seq++) {
        const struct model_job *job = &life->jobs[seq];
        if (life->is_far[seq] || job->where < FAR_PLACES ||
            !core_is_far(life->core, seq, job->where))
            continue;
        MUST(job->state == JOB_READY);
        life->is_far[seq] = true;
    }
}

/* Ready jobs that somebody waits for come, some at a time. False: nobody waits for any. */
static inline bool feed_fronts(void)
{
    struct core_front front;
    bool any = false;
    for (unsigned i = 0; core_front(life->core, &front); i++) {
        MUST(i < 1000);
        for (uint32_t job = 0; job < front.count && (job == 0 || below(4)); job++) {
            uint64_t seq = front.jobs[job].seq;
            MUST(life->is_far[seq] && life->jobs[seq].state == JOB_READY);
            MUST(life->records[seq].event.record.where == front.jobs[job].where);
            MUST(core_front_arrive(life->core, &life->records[seq].event));
            life->is_far[seq] = false;
        }
        any = true;
    }
    return any;
}

static inline void match_all(void)
{
    do {
        while (core_match(life->core, life->now_us, 1000))
            ;
    } while (feed_fronts());
}

/* A store loads what is due, and that leaves again as it did before. */
static inline void load_due(struct core *copy)
{
    for (uint64_t seq = 1; seq < life->seq_next; seq++) {
        const struct event *event = &life->records[seq].event;
        if (life->is_far[seq] && event->job.state == JOB_DELAYED &&
            event->job.due_us <= life->now_us)
            MUST(core_near(copy, event));
    }
}

static inline void replay_all_far(struct core *copy)
{
    core_far_begin(copy, below(2) ? life->seq_next : 0, NULL);
    for (uint64_t seq = 1; seq < life->seq_next; seq++) {
        const struct event *event = &life->records[seq].event;
        struct far_job far = {.seq = seq,
                              .id_hash = far_hash_id(FAR_KEY, event->id),
                              .where = event->record.where,
                              .topic = event->topic,
                              .state = event->job.state,
                              .priority = event->job.priority,
                              .rank_us = event_rank_us(event)};
        if (life->is_far[seq])
            MUST(core_replay_far(copy, &far, 1) == OK);
    }
    MUST(end_far(copy) == OK);
}

#endif
