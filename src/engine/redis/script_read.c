/*
 * Reads what the scripts answer. Whatever Redis sends is checked before it is believed: an answer
 * that is not one of ours is ERR_CORRUPT, a body that is not what was pushed ERR_DAMAGED.
 */
#include "base/codec.h"
#include "base/hash.h"
#include "engine/redis/script_parts.h"

/* Flags of an answer, as scripts/common.lua has them. */
enum { KEPT = 1, REPLACED = 2, MORE = 4, MARKED = 16, LOST = 32, SHARED = 64 };

enum { FIRST_BYTES = 12 }; /* of a topic, in a reserve's answer */

/* Of times and spans: no script of ours gives one beyond. */
static bool in_range(uint64_t us)
{
    return us <= (uint64_t)SCRIPT_FOREVER;
}

static enum err read_first(const struct script_space *space, uint32_t partition, struct bytes part,
                           struct script_answer *out_answer)
{
    static const enum err errors[] = {
        OK,        ERR_NOT_FOUND, ERR_EXISTS,     ERR_STALE_LEASE, ERR_WRONG_STATE,
        ERR_EMPTY, ERR_INVALID,   ERR_JOBS_LIMIT, ERR_TOPICS_LIMIT};
    if (part.len != SCRIPT_ANSWER_BYTES)
        return ERR_CORRUPT;
    uint8_t err = get_u8(part.at), state = get_u8(part.at + 1), flags = get_u8(part.at + 2);
    if (err >= sizeof(errors) / sizeof(errors[0]) || state >= JOB_STATES)
        return ERR_CORRUPT;
    uint64_t next_us = get_u64(part.at + 8), now_us = get_u64(part.at + 24);
    if (!in_range(now_us) || !in_range(next_us))
        return ERR_CORRUPT;
    *out_answer = (struct script_answer){
        .err = errors[err],
        .state = (enum job_state)state,
        .kept = flags & KEPT,
        .replaced = flags & REPLACED,
        .more = flags & MORE,
        .marked = flags & MARKED,
        .shared = flags & SHARED,
        .lost = flags & LOST,
        .count = get_u32(part.at + 4),
        .now_us = now_us ? script_time_out(space, partition, (int64_t)now_us) : 0,
        .next_us = next_us ? script_time_out(space, partition, (int64_t)next_us) : 0,
        .seq = get_u64(part.at + 16),
    };
    return OK;
}

static bool retries_in_range(const char *at, uint8_t count)
{
    for (uint8_t i = 0; i < count; i++) {
        if (!in_range(get_u64(at + 8 * (size_t)i)))
            return false;
    }
    return true;
}

static bool times_in_range(const char *head)
{
    return in_range(get_u64(head + JOB_HEAD_UNTIL)) && in_range(get_u64(head + JOB_HEAD_DUE)) &&
           in_range(get_u64(head + JOB_HEAD_CREATED)) && in_range(get_u64(head + JOB_HEAD_TTR));
}

static const int64_t *read_retries(const char *at, uint8_t count, struct arena *arena)
{
    if (!count)
        return NULL;
    int64_t *waits_us = arena_alloc(arena, count * sizeof(*waits_us));
    for (uint8_t i = 0; i < count; i++)
        waits_us[i] = (int64_t)get_u64(at + 8 * (size_t)i);
    return waits_us;
}

enum err script_read_head(const struct script_space *space, struct bytes part, int64_t now_us,
                          struct arena *arena, struct script_head *out_head)
{
    if (part.len < SCRIPT_HEAD_BYTES)
        return ERR_CORRUPT;
    const char *at = part.at;
    uint8_t state = get_u8(at + JOB_HEAD_STATE), retry_count = get_u8(at + JOB_HEAD_RETRIES),
            id_len = get_u8(at + JOB_HEAD_ID_LEN);
    uint8_t topic_len = get_u8(at + JOB_HEAD_TOPIC_LEN);
    if (part.len != (size_t)SCRIPT_HEAD_BYTES + topic_len + id_len + 8u * retry_count ||
        (state != JOB_DELAYED && state != JOB_RESERVED && state != JOB_BURIED))
        return ERR_CORRUPT;
    const char *topic = at + SCRIPT_HEAD_BYTES, *retries = topic + topic_len + id_len;
    if (!times_in_range(at) || !retries_in_range(retries, retry_count) ||
        get_u8(at + JOB_HEAD_BODY_KIND) > BODY_JSON)
        return ERR_CORRUPT;
    int64_t due_us = (int64_t)get_u64(at + JOB_HEAD_DUE),
            until_us = (int64_t)get_u64(at + JOB_HEAD_UNTIL);
    int64_t created_us = (int64_t)get_u64(at + JOB_HEAD_CREATED),
            ttr_us = (int64_t)get_u64(at + JOB_HEAD_TTR);
    uint64_t seq = get_u64(at + JOB_HEAD_SEQ);
    uint32_t partition = (uint32_t)(seq % space->partitions);
    *out_head = (struct script_head){
        .content_sum = get_u64(at + JOB_HEAD_CONTENT_SUM),
        .rank_us = get_u8(at + JOB_HEAD_FLAGS) & SCRIPT_ARRIVAL ? created_us : due_us,
        .since_us = until_us,
        .view =
            {
                .ref = {.id = bytes_of(topic + topic_len, id_len), .seq = seq},
                .topic = bytes_of(topic, topic_len),
                .state = (enum job_state)state,
                .priority = get_u32(at + JOB_HEAD_PRIORITY),
                .due_us = script_time_out(space, partition, due_us),
                .until_us = state == JOB_RESERVED ? script_time_out(space, partition, until_us) : 0,
                .ttr_us = ttr_us < SCRIPT_FOREVER ? ttr_us : INT64_MAX,
                .created_us = script_time_out(space, partition, created_us),
                .delay_s = get_u32(at + JOB_HEAD_DELAY_S),
                .lease = get_u64(at + JOB_HEAD_LEASE),
                .attempt = get_u16(at + JOB_HEAD_RESERVES),
                .failures = get_u16(at + JOB_HEAD_FAILURES),
                .counts = {.reserves = get_u16(at + JOB_HEAD_RESERVES),
                           .timeouts = get_u16(at + JOB_HEAD_TIMEOUTS),
                           .releases = get_u16(at + JOB_HEAD_RELEASES),
                           .buries = get_u16(at + JOB_HEAD_BURIES),
                           .kicks = get_u16(at + JOB_HEAD_KICKS)},
                .retry_us = read_retries(retries, retry_count, arena),
                .retry_count = retry_count,
                .body_kind = (enum body_kind)get_u8(at + JOB_HEAD_BODY_KIND),
                .content_type_len = get_u8(at + JOB_HEAD_TYPE_LEN),
                .body_len = get_u32(at + JOB_HEAD_BODY_LEN),
            },
    };
    if (state == JOB_DELAYED && out_head->view.due_us <= now_us)
        out_head->view.state = JOB_READY;
    return OK;
}

enum err script_read_content(struct bytes part, struct script_head *head)
{
    struct job_view *job = &head->view;
    if (part.len != (size_t)job->content_type_len + job->body_len)
        return ERR_DAMAGED;
    struct bytes body = bytes_of(part.at + job->content_type_len, job->body_len);
    uint64_t sum = hash_of(body.at, body.len);
    if (job->content_type_len)
        sum = hash_seeded(part.at, job->content_type_len, sum);
    if (sum != head->content_sum)
        return ERR_DAMAGED;
    job->content_type = bytes_of(part.at, job->content_type_len);
    job->body = body;
    return OK;
}

/* The last part of a reserve's answer: see script_first(). */
static enum err take_firsts(struct script_parts *parts, struct script_answer *answer)
{
    if (parts->count < 2 || parts->count % 2 != 0)
        return ERR_CORRUPT;
    answer->firsts = parts->at[--parts->count];
    return answer->firsts.len % FIRST_BYTES ? ERR_CORRUPT : OK;
}

enum script_first script_first(const struct script_space *space, uint32_t partition,
                               const struct script_answer *answer, uint32_t place,
                               struct script_rank *out_rank)
{
    const uint64_t none = UINT64_MAX;
    if (answer->firsts.len < FIRST_BYTES * ((size_t)place + 1))
        return SCRIPT_UNSEEN;
    const char *at = answer->firsts.at + FIRST_BYTES * (size_t)place;
    uint64_t rank_us = __builtin_bswap64(get_u64(at + 4));
    if (!in_range(rank_us)) /* no job has such a rank */
        return rank_us == none ? SCRIPT_NONE : SCRIPT_UNSEEN;
    *out_rank = (struct script_rank){
        .priority = __builtin_bswap32(get_u32(at)),
        .us = script_time_out(space, partition, (int64_t)rank_us),
    };
    return SCRIPT_FIRST;
}

/* Damaged jobs are left out; any other error is that of the whole answer. */
static enum err read_jobs(const struct script_space *space, const struct script_parts *parts,
                          struct arena *arena, struct script_answer *answer)
{
    struct reply *reply = &answer->reply;
    bool bodies = cmd_traits(reply->kind)->shows_bodies;
    uint32_t step = bodies ? 2 : 1, good = 0;
    if (parts->count < 1 + step || (parts->count - 1) % step != 0)
        return ERR_CORRUPT;
    struct job_view *jobs = arena_alloc(arena, (parts->count - 1) / step * sizeof(*jobs));
    for (uint32_t i = 1; i < parts->count; i += step) {
        struct script_head head;
        enum err err = script_read_head(space, parts->at[i], answer->now_us, arena, &head);
        if (err)
            return err;
        if (bodies && script_read_content(parts->at[i + 1], &head))
            continue;
        jobs[good++] = head.view;
    }
    reply->err = good ? OK : ERR_DAMAGED;
    reply->jobs = jobs;
    reply->count = good;
    return OK;
}

/* The head of a job that was pushed: as it was sent, with what the script made of it. An answer
 * ends with the bytes that the head lacks. */
static struct bytes pushed_head(const struct script_parts *parts, enum job_state state,
                                struct arena *arena)
{
    enum { ANSWERED_AT = SCRIPT_ANSWER_BYTES - SCRIPT_MADE_BYTES };
    struct bytes start = script_argument(parts->request, 2);
    struct bytes rest = script_argument(parts->request, 3);
    char *head = arena_alloc(arena, start.len + SCRIPT_MADE_BYTES + rest.len);
    memcpy(head, start.at, start.len);
    memcpy(head + start.len, parts->at[0].at + ANSWERED_AT, SCRIPT_MADE_BYTES);
    memcpy(head + start.len + SCRIPT_MADE_BYTES, rest.at, rest.len);
    if (state == JOB_BURIED) { /* since it was made */
        put_u8(head + JOB_HEAD_STATE, JOB_BURIED);
        put_u64(head + JOB_HEAD_UNTIL, get_u64(head + JOB_HEAD_CREATED));
    }
    return bytes_of(head, start.len + SCRIPT_MADE_BYTES + rest.len);
}

static enum err read_pushed(const struct script_space *space, const struct script_parts *parts,
                            struct arena *arena, struct script_answer *answer)
{
    if (parts->count > 1) /* another job, which was kept */
        return read_jobs(space, parts, arena, answer);
    if (!parts->request.len)
        return ERR_CORRUPT;
    const struct bytes both[] = {parts->at[0], pushed_head(parts, answer->state, arena)};
    struct script_parts whole = {.partition = parts->partition, .at = both, .count = 2};
    return read_jobs(space, &whole, arena, answer);
}

/* Numbers grow, and so do the leases of an answer. */
static void see_numbers(const struct script_space *space, uint32_t partition,
                        const struct reply *reply)
{
    if (!reply->count || !reply->jobs)
        return;
    const struct job_view *last = &reply->jobs[reply->count - 1];
    uint64_t number = last->lease > last->ref.seq ? last->lease : last->ref.seq;
    if (number > space->newest[partition] && in_range(number))
        space->newest[partition] = number;
}

enum err script_read(const struct script_space *space, enum cmd_kind kind,
                     const struct script_parts *parts, struct arena *arena,
                     struct script_answer *out_answer)
{
    struct script_answer answer;
    enum err err = script_read_answer(space, parts, &answer);
    if (err)
        return err;
    answer.reply = (struct reply){
        .err = answer.err,
        .kind = kind,
        .state = answer.err == ERR_WRONG_STATE ? answer.state : JOB_GONE,
        .kept = answer.kept,
        .replaced = answer.replaced,
    };
    struct script_parts jobs = *parts;
    if (kind == CMD_RESERVE)
        err = take_firsts(&jobs, &answer);
    if (!err && !answer.err)
        err = kind == CMD_PUSH ? read_pushed(space, parts, arena, &answer)
                               : read_jobs(space, &jobs, arena, &answer);
    if (err)
        return err;
    see_numbers(space, parts->partition, &answer.reply);
    *out_answer = answer;
    return OK;
}

enum err script_read_answer(const struct script_space *space, const struct script_parts *parts,
                            struct script_answer *out_answer)
{
    return parts->count ? read_first(space, parts->partition, parts->at[0], out_answer)
                        : ERR_CORRUPT;
}

int64_t script_clock(const struct bytes *parts, uint32_t count)
{
    uint64_t now_us = count && parts[0].len == SCRIPT_ANSWER_BYTES ? get_u64(parts[0].at + 24) : 0;
    return in_range(now_us) ? (int64_t)now_us : 0;
}

bool script_read_clock(const struct bytes *parts, uint32_t count, int64_t *out_queue_us,
                       int64_t *out_shift_us, uint64_t *out_set_count)
{
    int64_t queue_us = script_clock(parts, count);
    struct bytes text = count == 2 ? parts[1] : (struct bytes){0};
    bool back = text.len && text.at[0] == '-';
    uint64_t shift_us, set_count;
    if (back)
        text = bytes_of(text.at + 1, text.len - 1);
    if (!queue_us || get_u8(parts[0].at) != OK || !script_take_number(&text, &shift_us) ||
        !in_range(shift_us) || text.len == 0 || text.at[0] != ' ' ||
        !bytes_to_u64(bytes_of(text.at + 1, text.len - 1), &set_count) || !in_range(set_count))
        return false;
    *out_queue_us = queue_us;
    *out_shift_us = back ? -(int64_t)shift_us : (int64_t)shift_us;
    *out_set_count = set_count;
    return true;
}

uint32_t script_damaged(const struct script_space *space, const struct script_parts *parts,
                        struct job_view *out_jobs, uint32_t max)
{
    uint32_t found = 0;
    struct arena scratch = {0};
    for (uint32_t i = 1; i + 1 < parts->count && found < max; i += 2) {
        struct script_head head;
        if (!script_read_head(space, parts->at[i], 0, &scratch, &head) &&
            script_read_content(parts->at[i + 1], &head)) {
            head.view.retry_us = NULL; /* it was in the scratch */
            head.view.retry_count = 0;
            out_jobs[found++] = head.view;
        }
    }
    arena_fini(&scratch);
    return found;
}
