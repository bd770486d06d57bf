/*
 * How model_test.c asks the core, and some of its steps: topics' settings, what lives besides jobs,
 * and the model's first jobs. For it alone.
 */
#ifndef LATERD_TEST_CORE_MODEL_STEPS_H
#define LATERD_TEST_CORE_MODEL_STEPS_H

#include "core_model_far.h"

static enum err apply(const struct cmd *cmd)
{
    life->replied = false;
    if (ends_far(cmd)) {
        MUST(life->replied);
        return life->reply.err;
    }
    before_command(cmd);
    (void)core_apply(life->core, life->now_us, cmd, life);
    MUST(life->replied);
    after_command(cmd);
    return life->reply.err;
}

static inline uint64_t soonest_delayed(int topic)
{
    uint64_t soonest = 0;
    for (uint64_t i = 1; i < life->seq_next; i++) {
        const struct model_job *job = &life->jobs[i];
        if (job->state == JOB_DELAYED && job->topic == topic &&
            (!soonest || job->due_us < life->jobs[soonest].due_us))
            soonest = i;
    }
    return soonest;
}

static inline uint64_t oldest_buried(int topic)
{
    uint64_t oldest = 0;
    for (uint64_t i = 1; i < life->seq_next; i++) {
        const struct model_job *job = &life->jobs[i];
        if (job->state == JOB_BURIED && job->topic == topic &&
            (!oldest || job->buried_rank < life->jobs[oldest].buried_rank))
            oldest = i;
    }
    return oldest;
}

static inline void step_configure(void)
{
    int topic = (int)below(TOPICS);
    uint64_t *version = &life->settings_version[topic];
    struct cmd cmd = {.kind = CMD_CONFIGURE_TOPIC,
                      .topic = {.topic = topic_name(topic),
                                .settings = bytes_of("12345", below(6)),
                                .if_version = below(2),
                                .version = below(2) ? *version : below(life->seq_next)}};
    bool stale = cmd.topic.if_version && cmd.topic.version != *version;
    MUST(apply(&cmd) == (stale ? ERR_VERSION : OK));
    if (!stale && (*version || cmd.topic.settings.len)) {
        uint64_t next = life->seq_next++;
        *version = cmd.topic.settings.len ? next : 0;
    }
    MUST(life->reply.version == *version);
}

/* What lives besides jobs is as many notes and settings as there should be. */
static inline void check_places(void)
{
    unsigned count = 0;
    for (uint64_t i = 1; i < life->seq_next; i++) {
        const struct model_job *job = &life->jobs[i];
        unsigned notes = job->notes < JOB_NOTES_MAX ? job->notes : JOB_NOTES_MAX;
        count += job->state != JOB_GONE ? notes : 0;
    }
    for (int i = 0; i < TOPICS; i++)
        count += life->settings_version[i] != 0;
    MUST(life->live_count == count);
}

static inline void step_peek(void)
{
    static uint64_t (*const first[JOB_STATES])(int) = {
        [JOB_DELAYED] = soonest_delayed,
        [JOB_READY] = best_of,
        [JOB_BURIED] = oldest_buried,
    };
    int topic = (int)below(TOPICS);
    enum job_state state = (enum job_state)(1 + below(JOB_STATES - 1));
    if (state == JOB_RESERVED || life->paused_until_us[topic])
        return; /* best_of() knows nothing of a paused topic; peek shows its jobs */
    struct cmd cmd = {.kind = CMD_PEEK, .topic = {.topic = topic_name(topic), .state = state}};
    uint64_t expected = first[state](topic);
    enum err err = apply(&cmd);
    MUST(err == (expected ? OK : ERR_NOT_FOUND));
    if (expected)
        check_view(expected, &life->views[0]);
}

static inline void step_relocate(void)
{
    uint64_t seq = 1 + below(life->seq_next);
    struct model_job *job = &life->jobs[seq];
    uint64_t where = below(4) ? job->where : 1;
    bool expected = job->state != JOB_GONE && !life->is_far[seq] && where == job->where;
    struct event event = {
        .kind = EVENT_JOB, .job.seq = seq, .body = bytes_of("12345", job->body_len)};
    bool carried = core_relocate(life->core, &event, where);
    MUST(carried == expected);
    for (uint32_t cursor = 0; below(8) == 0;)
        if (!core_relocate_topics(life->core, 0, UINT64_MAX, &cursor, 1 + (uint32_t)below(5)))
            break;
}

#endif
