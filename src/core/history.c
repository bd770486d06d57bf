/*
 * Reports what happens to jobs, for their history, always after the event: after a crash a report
 * may be missing, but none is false.
 */
#include "core/core_internal.h"

/* Must the answer wait until the event is durable? Not for reservations, nor if the clock caused
 * it. */
static bool is_promised(enum happening_kind what)
{
    return what != HAPPENED_RESERVED && what != HAPPENED_TIMED_OUT;
}

void core_emit_happening(struct core *core, const struct job *job, enum happening_kind what,
                         const struct job_note *why)
{
    bool reserved = job->state == JOB_RESERVED;
    bool waits = job->state == JOB_DELAYED || job->state == JOB_READY;
    struct happening happening = {
        .what = what,
        .state = (enum job_state)job->state,
        .promised = is_promised(what),
        .seq = job->seq,
        .at_us = core->now_us,
        .time_us = reserved ? job_until_us(&core->extras, job)
                   : waits  ? job->due_us
                            : 0,
        .lease = reserved ? job_lease(&core->extras, job) : 0,
        .id = job->id_len ? job_id(job) : (struct bytes){0},
    };
    if (what == HAPPENED_PUSHED)
        happening.topic = topics_at(&core->topics, job->topic)->name;
    if (why) {
        happening.note = why->text;
        happening.code = why->code;
    }
    core->sink->happened(core->sink, &happening);
}

void core_emit_replaced(struct core *core, uint64_t old_seq, const struct job *job)
{
    core->sink->happened(core->sink, &(struct happening){.what = HAPPENED_REPLACED,
                                                         .state = JOB_GONE,
                                                         .promised = true,
                                                         .seq = old_seq,
                                                         .at_us = core->now_us,
                                                         .id = job_id(job)});
}
