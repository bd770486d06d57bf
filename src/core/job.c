/*
 * Jobs' states, names and ids. The table below has all permitted transitions.
 */
#include "core/job.h"

#include "base/check.h"
#include "base/decimal.h"

enum {
    ID_STEP = 4, /* bytes */
    SIZES = (JOB_ID_MAX + ID_STEP - 1) / ID_STEP + 1,
};

_Static_assert(sizeof(struct job) == 84, "docs/performance.md says what a job takes");
_Static_assert(_Alignof(struct job) == ID_STEP, "else a size of the pool would not do");

#define MAY(state) (1u << (state))

static const uint8_t moves[JOB_STATES] = {
    [JOB_GONE] = MAY(JOB_DELAYED) | MAY(JOB_READY) | MAY(JOB_BURIED),
    [JOB_DELAYED] = MAY(JOB_READY) | MAY(JOB_RESERVED) | MAY(JOB_GONE),
    [JOB_READY] = MAY(JOB_RESERVED) | MAY(JOB_GONE),
    [JOB_RESERVED] = MAY(JOB_DELAYED) | MAY(JOB_READY) | MAY(JOB_BURIED) | MAY(JOB_GONE),
    [JOB_BURIED] = MAY(JOB_READY) | MAY(JOB_RESERVED) | MAY(JOB_GONE),
};

bool job_may_move(enum job_state from, enum job_state to)
{
    return from < JOB_STATES && to < JOB_STATES && (moves[from] & MAY(to)) != 0;
}

void job_move(struct job *job, enum job_state to)
{
    CHECK(job_may_move((enum job_state)job->state, to));
    job->state = (uint8_t)to;
}

void job_restore(struct job *job, enum job_state state)
{
    CHECK(state > JOB_GONE && state < JOB_STATES);
    job->state = (uint8_t)state;
}

void job_pool_init(struct pool *jobs)
{
    pool_init_sizes(jobs, sizeof(struct job), ID_STEP, SIZES);
}

uint32_t job_take(struct pool *jobs, size_t id_len)
{
    CHECK(id_len <= JOB_ID_MAX);
    return pool_take_sized(jobs, (uint32_t)(id_len + ID_STEP - 1) / ID_STEP);
}

void job_id_set(struct job *job, struct bytes id)
{
    CHECK(id.len <= JOB_ID_MAX);
    job->id_len = (uint8_t)id.len;
    if (id.len)
        memcpy(job + 1, id.at, id.len);
}

const char *job_state_name(enum job_state state)
{
    static const char *const names[JOB_STATES] = {
        [JOB_GONE] = "gone",         [JOB_DELAYED] = "delayed", [JOB_READY] = "ready",
        [JOB_RESERVED] = "reserved", [JOB_BURIED] = "buried",
    };
    return state < JOB_STATES ? names[state] : "unknown";
}

/* An at sign and a number as the server writes it: no leading zero, not 0, in range. */
static bool is_server_made(struct bytes text, uint64_t *out_seq)
{
    if (text.len < 2 || text.at[0] != '@' || text.at[1] == '0')
        return false;
    return bytes_to_u64(bytes_of(text.at + 1, text.len - 1), out_seq);
}

bool job_ref_parse(struct bytes text, struct job_ref *out_ref)
{
    if (text.len == 0 || text.len > JOB_ID_MAX)
        return false;
    uint64_t seq;
    if (is_server_made(text, &seq))
        *out_ref = (struct job_ref){.seq = seq};
    else
        *out_ref = (struct job_ref){.id = text};
    return true;
}

struct bytes job_ref_text(const struct job_ref *ref, char *room)
{
    if (ref->id.len)
        return ref->id;
    char digits[DECIMAL_U64_DIGITS], *end = digits + sizeof(digits);
    const char *first = decimal_put_before(end, ref->seq);
    size_t count = (size_t)(end - first);
    room[0] = '@';
    memcpy(room + 1, first, count);
    return bytes_of(room, 1 + count);
}
