/*
 * Which partition executes a command: that of the job's id or number, any for a new job without an
 * id, all for what is about topics. Refuses what no script can execute.
 */
#include "base/hash.h"
#include "engine/redis/script_parts.h"

static enum script_route route_ref(const struct script_space *space, const struct job_ref *ref,
                                   uint32_t *out_partition)
{
    uint64_t number = ref->id.len ? hash_of(ref->id.at, ref->id.len) : ref->seq;
    *out_partition = (uint32_t)(number % space->partitions);
    return SCRIPT_ONE;
}

static enum script_route refuse(enum err *out_err)
{
    *out_err = ERR_INVALID;
    return SCRIPT_REFUSED;
}

/* Is it beyond the range of times in Redis, but not "never"? */
static bool is_too_late(int64_t due_us)
{
    return due_us >= SCRIPT_FOREVER && due_us != INT64_MAX;
}

static bool is_topic(struct bytes name)
{
    return name.len > 0 && name.len <= TOPIC_NAME_MAX;
}

static enum script_route route_push(const struct script_space *space, const struct cmd_push *push,
                                    uint32_t *out_partition, enum err *out_err)
{
    struct job_ref ref;
    if (push->id.len && (!job_ref_parse(push->id, &ref) || !ref.id.len))
        return refuse(out_err); /* too long, or of the form of ids that the server gives */
    if (!is_topic(push->topic) || push->content_type.len > CONTENT_TYPE_MAX ||
        push->retry_count > RETRY_STEPS_MAX || push->body.len > UINT32_MAX ||
        push->properties.len > JOB_PROPERTIES_MAX || push->ttr_us < 1)
        return refuse(out_err);
    if (is_too_late(push->due_us)) {
        *out_err = ERR_UNSUPPORTED;
        return SCRIPT_REFUSED;
    }
    return push->id.len ? route_ref(space, &ref, out_partition) : SCRIPT_ANY;
}

static enum script_route route_reserve(const struct cmd_reserve *reserve, enum err *out_err)
{
    if (reserve->topic_count > SCRIPT_TOPICS_MAX) {
        *out_err = ERR_UNSUPPORTED;
        return SCRIPT_REFUSED;
    }
    for (uint32_t i = 0; i < reserve->topic_count; i++) {
        if (!is_topic(reserve->topics[i]))
            return refuse(out_err);
    }
    return SCRIPT_READY;
}

static enum script_route route_topic(const struct cmd *cmd, enum err *out_err)
{
    enum job_state state = cmd->topic.state;
    bool shows = cmd->kind == CMD_PEEK || cmd->kind == CMD_LIST || cmd->kind == CMD_CLEAR_TOPIC;
    if (shows && (state <= JOB_GONE || state >= JOB_STATES))
        return refuse(out_err);
    if (cmd->kind == CMD_DUE && (!cmd->topic.until_count || cmd->topic.until_count > DUE_TIMES_MAX))
        return refuse(out_err);
    if (cmd->kind != CMD_TOPICS && cmd->kind != CMD_DUE && !is_topic(cmd->topic.topic))
        return refuse(out_err);
    return SCRIPT_ALL;
}

enum script_route script_route(const struct script_space *space, const struct cmd *cmd,
                               uint32_t *out_partition, enum err *out_err)
{
    if (cmd->kind == CMD_CONFIGURE_TOPIC) {
        *out_partition = 0;
        bool fits = is_topic(cmd->topic.topic) && cmd->topic.settings.len <= TOPIC_SETTINGS_MAX;
        return fits ? SCRIPT_ONE : refuse(out_err);
    }
    switch (cmd_traits(cmd->kind)->subject) {
    case CMD_ON_NEW_JOB: return route_push(space, &cmd->push, out_partition, out_err);
    case CMD_ON_READY_JOBS: return route_reserve(&cmd->reserve, out_err);
    case CMD_ON_JOB:
        if (cmd->kind == CMD_RESCHEDULE && cmd->job.has_body &&
            (cmd->job.content_type.len > CONTENT_TYPE_MAX || cmd->job.body.len > UINT32_MAX))
            return refuse(out_err);
        if (cmd->job.note.len > JOB_NOTE_MAX)
            return refuse(out_err);
        if ((cmd->job.has_due || cmd->job.has_delay) && is_too_late(cmd->job.due_us)) {
            *out_err = ERR_UNSUPPORTED;
            return SCRIPT_REFUSED;
        }
        return route_ref(space, &cmd->job.ref, out_partition);
    case CMD_ON_TOPICS: return route_topic(cmd, out_err);
    }
    return refuse(out_err);
}
