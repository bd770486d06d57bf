/*
 * Decodes the scripts' answers. Everything is checked: an invalid answer is ERR_CORRUPT, a body
 * that does not match its checksum ERR_DAMAGED.
 */
#include "base/codec.h"
#include "base/hash.h"
#include "engine/redis/script_parts.h"

/* Flags of an answer, as scripts/common.lua has them. */
enum {
    KEPT = 1,
    REPLACED = 2,
    MORE = 4,
    LOOK = 8,
    MARKED = 16,
    LOST = 32,
    SHARED = 64,
    MISSED = 128
};

enum { FIRST_BYTES = 13 }; /* of a topic, in a reserve's answer */

/* Is it a valid time or duration? */
static bool in_range(uint64_t us)
{
    return us <= (uint64_t)SCRIPT_FOREVER;
}

static enum err read_first(const struct script_space *space, uint32_t partition, struct bytes part,
                           struct script_answer *out_answer)
{
    static const enum err errors[] = {OK,
                                      ERR_NOT_FOUND,
                                      ERR_EXISTS,
                                      ERR_STALE_LEASE,
                                      ERR_WRONG_STATE,
                                      ERR_EMPTY,
                                      ERR_INVALID,
                                      ERR_JOBS_LIMIT,
                                      ERR_TOPICS_LIMIT,
                                      ERR_VERSION,
                                      ERR_JOURNAL_BEHIND,
                                      ERR_NOT_FOUND,    /* ENDED */
                                      ERR_STALE_LEASE}; /* LAPSED */
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
        .look = flags & LOOK,
        .missed = flags & MISSED,
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

static const int64_t *read_retries(const char *at, uint8_t count, struct arena *arena)
{
    if (!count)
        return NULL;
    int64_t *waits_us = arena_alloc(arena, count * sizeof(*waits_us));
    for (uint8_t i = 0; i < count; i++)
        waits_us[i] = (int64_t)get_u64(at + 8 * (size_t)i);
    return waits_us;
}

/* A number of up to eight bytes, little-endian. */
static uint64_t get_small(const char *at, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = bytes; i > 0; i--)
        number = number << 8 | (unsigned char)at[i - 1];
    return number;
}

/* A decoded record, of any form. */
struct record {
    uint8_t form, id_len, topic_len, retry_count, type_len;
    uint32_t priority, delay_s, body_len;
    uint64_t ttr_us, due_us, created_us, content_sum;
    const char *names; /* topic, id, retry delays */
};

static void read_compact(const char *at, uint64_t seq, struct record *record)
{
    record->created_us = seq + JOB_AHEAD_BASE - get_u16(at + JOB_COMPACT_AHEAD);
    record->content_sum = get_u64(at + JOB_COMPACT_CONTENT_SUM);
    record->names = at + JOB_COMPACT_BYTES;
}

static void read_short(const char *at, uint64_t seq, struct record *record)
{
    record->priority = get_u16(at + JOB_SHORT_PRIORITY);
    record->ttr_us = get_u16(at + JOB_SHORT_TTR) * UINT64_C(1000000);
    record->delay_s = (uint32_t)get_small(at + JOB_SHORT_DELAY_S, 3);
    record->due_us = get_small(at + JOB_SHORT_DUE, 7);
    if (record->form & JOB_IS_COMPACT) {
        read_compact(at, seq, record);
        return;
    }
    record->created_us = get_small(at + JOB_SHORT_CREATED, 7);
    record->content_sum = get_u64(at + JOB_SHORT_CONTENT_SUM);
    record->names = at + JOB_SHORT_BYTES;
}

static void read_long(const char *at, struct record *record)
{
    record->priority = get_u32(at + JOB_LONG_PRIORITY);
    record->ttr_us = get_small(at + JOB_LONG_TTR, 7);
    record->delay_s = get_u32(at + JOB_LONG_DELAY_S);
    record->due_us = get_small(at + JOB_LONG_DUE, 7);
    record->created_us = get_small(at + JOB_LONG_CREATED, 7);
    record->content_sum = get_u64(at + JOB_LONG_CONTENT_SUM);
    record->type_len = get_u8(at + JOB_LONG_TYPE_LEN);
    record->body_len = get_u32(at + JOB_LONG_BODY_LEN);
    record->names = at + JOB_LONG_BYTES;
}

static size_t form_bytes(uint8_t form)
{
    if (form & JOB_IS_LONG)
        return JOB_LONG_BYTES;
    return form & JOB_IS_COMPACT ? JOB_COMPACT_BYTES : JOB_SHORT_BYTES;
}

/* Decodes the record of job `seq`, and removes it from the part. The rest is the job's content or,
 * unless `whole`, the content's length. */
static enum err take_record(struct bytes *part, uint64_t seq, bool whole, struct record *out_record)
{
    struct record record = {.form = part->len ? get_u8(part->at) : 0};
    bool is_long = record.form & JOB_IS_LONG;
    size_t bytes = form_bytes(record.form);
    if (!(record.form & JOB_IS_RECORD) || part->len < bytes ||
        (is_long && (record.form & JOB_IS_COMPACT)))
        return ERR_CORRUPT;
    record.id_len = get_u8(part->at + JOB_LONG_ID_LEN);
    record.topic_len = get_u8(part->at + JOB_LONG_TOPIC_LEN);
    record.retry_count = get_u8(part->at + JOB_LONG_RETRIES);
    bytes += (size_t)record.topic_len + record.id_len + 8u * record.retry_count;
    if (part->len < bytes)
        return ERR_CORRUPT;
    if (is_long)
        read_long(part->at, &record);
    else
        read_short(part->at, seq, &record);
    *part = bytes_of(part->at + bytes, part->len - bytes);
    if (!whole && part->len != (is_long ? 0 : 2))
        return ERR_CORRUPT;
    if (!is_long)
        record.body_len = whole ? (uint32_t)part->len : get_u16(part->at);
    if (!in_range(record.due_us) || !in_range(record.created_us) || !in_range(record.ttr_us))
        return ERR_CORRUPT;
    *out_record = record;
    return OK;
}

static bool is_state(uint8_t state)
{
    return state == JOB_DELAYED || state == JOB_RESERVED || state == JOB_BURIED;
}

/* In the header of an answer, where waiting jobs that are due are shown as ready. */
static bool is_state_seen(uint8_t state)
{
    return is_state(state) || state == JOB_READY;
}

/* Applies a job's head: what has changed since it was pushed. ERR_CORRUPT. */
static enum err apply_head(const struct script_space *space, uint32_t partition, const char *at,
                           struct script_head *head)
{
    struct job_view *view = &head->view;
    uint8_t state = get_u8(at + JOB_HEAD_STATE);
    uint64_t until_us = get_u64(at + JOB_HEAD_UNTIL), due_us = get_u64(at + JOB_HEAD_DUE);
    if (!is_state(state) || !in_range(until_us) || !in_range(due_us))
        return ERR_CORRUPT;
    view->state = (enum job_state)state;
    view->priority = get_u32(at + JOB_HEAD_PRIORITY);
    view->delay_s = get_u32(at + JOB_HEAD_DELAY_S);
    view->due_us = script_time_out(space, partition, (int64_t)due_us);
    view->until_us =
        state == JOB_RESERVED ? script_time_out(space, partition, (int64_t)until_us) : 0;
    view->lease = get_u64(at + JOB_HEAD_LEASE);
    view->attempt = get_u16(at + JOB_HEAD_RESERVES);
    view->failures = get_u16(at + JOB_HEAD_FAILURES);
    view->counts.reserves = get_u16(at + JOB_HEAD_RESERVES);
    view->counts.timeouts = get_u16(at + JOB_HEAD_TIMEOUTS);
    view->counts.releases = get_u16(at + JOB_HEAD_RELEASES);
    view->counts.buries = get_u16(at + JOB_HEAD_BURIES);
    view->counts.kicks = get_u16(at + JOB_HEAD_KICKS);
    head->since_us = (int64_t)until_us;
    head->due_us = (int64_t)due_us;
    if (!(get_u8(at + JOB_HEAD_FLAGS) & SCRIPT_ARRIVAL))
        head->rank_us = (int64_t)due_us;
    return OK;
}

/* Removes the optional fields in front of a job: a letter, a length, and so many bytes. */
static enum err take_front(struct bytes *part, struct script_head *head)
{
    while (part->len > 3 && part->at[0] >= 'a' && part->at[0] <= 'z') { /* no number begins so */
        size_t len = get_u16(part->at + 1);
        if (part->len - 3 < len)
            return ERR_CORRUPT;
        struct bytes text = bytes_of(part->at + 3, len);
        switch (part->at[0]) {
        case 'p': head->properties = text; break;
        case 'n': head->last_note = text; break;
        case 'a': head->notes = text; break;
        case 'r': break; /* its record is in a part of its own: see take_job() */
        default: return ERR_CORRUPT;
        }
        *part = bytes_of(text.at + len, part->len - 3 - len);
    }
    return OK;
}

enum { NOTE_LAST_BYTES = 10, NOTE_BYTES = 12 }; /* time and code; and the length of the text */

static bool read_note(const struct script_space *space, uint32_t partition, struct bytes text,
                      struct job_note *out_note)
{
    if (text.len < NOTE_LAST_BYTES || !in_range(get_u64(text.at)))
        return false;
    *out_note = (struct job_note){
        .at_us = script_time_out(space, partition, (int64_t)get_u64(text.at)),
        .code = get_u16(text.at + 8),
    };
    return true;
}

/* Decodes the notes up to the first invalid one. */
static void read_notes(const struct script_space *space, uint32_t partition, struct arena *arena,
                       struct script_head *head)
{
    struct job_note last, *notes = NULL;
    struct job_view *view = &head->view;
    struct bytes rest = head->notes;
    if (read_note(space, partition, head->last_note, &last)) {
        view->last_code = last.code;
        view->last_note_us = last.at_us;
    }
    while (rest.len >= NOTE_BYTES && view->note_count < JOB_NOTES_MAX) {
        size_t len = get_u16(rest.at + NOTE_LAST_BYTES);
        if (!notes)
            notes = arena_alloc(arena, JOB_NOTES_MAX * sizeof(*notes));
        struct job_note *note = &notes[view->note_count];
        if (rest.len - NOTE_BYTES < len || !read_note(space, partition, rest, note))
            break;
        note->text = bytes_of(rest.at + NOTE_BYTES, len);
        rest = bytes_of(note->text.at + len, rest.len - NOTE_BYTES - len);
        view->note_count++;
    }
    view->notes = notes;
}

/* The bytes of a job in an answer. */
struct job_text {
    struct bytes front, rest; /* `rest`: the record, if it is in a part of its own */
};

/* The format: optional fields; number; head, if there is one; record. */
static enum err read_head(const struct script_space *space, struct job_text text, bool whole,
                          int64_t now_us, struct arena *arena, struct script_head *out_head)
{
    struct bytes part = text.front;
    struct record record;
    struct script_head front = {.has_properties = false};
    const char *changed = NULL;
    enum err err = take_front(&part, &front);
    if (err || part.len <= 8)
        return ERR_CORRUPT;
    uint64_t seq = __builtin_bswap64(get_u64(part.at));
    part = bytes_of(part.at + 8, part.len - 8);
    if (!(get_u8(part.at) & JOB_IS_RECORD)) {
        if (part.len < JOB_HEAD_BYTES)
            return ERR_CORRUPT;
        changed = part.at;
        part = bytes_of(part.at + JOB_HEAD_BYTES, part.len - JOB_HEAD_BYTES);
    }
    if (part.len == 0)
        part = text.rest;
    err = take_record(&part, seq, whole, &record);
    if (err)
        return err;
    const char *id = record.names + record.topic_len, *retries = id + record.id_len;
    if (!retries_in_range(retries, record.retry_count))
        return ERR_CORRUPT;
    uint32_t partition = (uint32_t)(seq % space->partitions);
    int64_t due_us = (int64_t)record.due_us, created_us = (int64_t)record.created_us;
    *out_head = (struct script_head){
        .content_sum = record.content_sum,
        .content = whole ? part : (struct bytes){0},
        .has_properties = record.form & JOB_HAS_PROPERTIES,
        .properties = front.properties,
        .last_note = front.last_note,
        .notes = front.notes,
        .order = record.form & JOB_IN_ARRIVAL ? ORDER_ARRIVAL : ORDER_DUE,
        .due_us = due_us,
        .rank_us = record.form & JOB_IN_ARRIVAL ? created_us : due_us,
        .view =
            {
                .ref = {.id = bytes_of(id, record.id_len), .seq = seq},
                .topic = bytes_of(record.names, record.topic_len),
                .state = JOB_DELAYED,
                .priority = record.priority,
                .due_us = script_time_out(space, partition, due_us),
                .ttr_us =
                    (int64_t)record.ttr_us < SCRIPT_FOREVER ? (int64_t)record.ttr_us : INT64_MAX,
                .created_us = script_time_out(space, partition, created_us),
                .delay_s = record.delay_s,
                .retry_us = read_retries(retries, record.retry_count, arena),
                .retry_count = record.retry_count,
                .body_kind = record.form & JOB_IS_JSON ? BODY_JSON : BODY_BYTES,
                .content_type_len = record.type_len,
                .body_len = record.body_len,
            },
    };
    read_notes(space, partition, arena, out_head);
    if (changed)
        err = apply_head(space, partition, changed, out_head);
    if (out_head->view.state == JOB_DELAYED && out_head->view.due_us <= now_us)
        out_head->view.state = JOB_READY;
    return err;
}

enum err script_read_head(const struct script_space *space, struct bytes part, bool whole,
                          int64_t now_us, struct arena *arena, struct script_head *out_head)
{
    return read_head(space, (struct job_text){.front = part}, whole, now_us, arena, out_head);
}

/* The job at *place of the answer's parts, which is moved to the last one of the job. */
static struct job_text take_job(const struct script_parts *parts, uint32_t *place)
{
    struct job_text text = {.front = parts->at[*place]};
    if (text.front.len && text.front.at[0] == 'r' && *place + 1 < parts->count)
        text.rest = parts->at[++*place];
    return text;
}

static enum err read_properties(const struct script_head *head, struct bytes *out_properties)
{
    struct bytes part = head->properties;
    *out_properties = (struct bytes){0};
    if (!head->has_properties)
        return OK;
    if (part.len <= JOB_SUM_BYTES || part.len > JOB_SUM_BYTES + JOB_PROPERTIES_MAX)
        return ERR_DAMAGED;
    struct bytes found = bytes_of(part.at + JOB_SUM_BYTES, part.len - JOB_SUM_BYTES);
    if (hash_of(found.at, found.len) != get_u64(part.at))
        return ERR_DAMAGED;
    *out_properties = found;
    return OK;
}

enum err script_read_content(struct script_head *head)
{
    struct job_view *job = &head->view;
    struct bytes part = head->content, properties;
    if (read_properties(head, &properties))
        return ERR_DAMAGED;
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
    job->properties = properties;
    return OK;
}

/* The last part of a reserve's answer: see script_first(). */
static enum err take_firsts(struct script_parts *parts, struct script_answer *answer)
{
    if (parts->count < 2)
        return ERR_CORRUPT;
    answer->firsts = parts->at[--parts->count];
    return answer->firsts.len % FIRST_BYTES ? ERR_CORRUPT : OK;
}

enum script_first script_first(const struct script_space *space, uint32_t partition,
                               const struct script_answer *answer, uint32_t place,
                               struct script_rank *out_rank, uint32_t *out_close)
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
    *out_close = get_u8(at + 12);
    return SCRIPT_FIRST;
}

/* Damaged jobs are left out; any other error is that of the whole answer. */
static enum err read_jobs(const struct script_space *space, const struct script_parts *parts,
                          struct arena *arena, struct script_answer *answer)
{
    struct reply *reply = &answer->reply;
    bool bodies = cmd_traits(reply->kind)->shows_bodies;
    uint32_t good = 0;
    if (parts->count < 2)
        return ERR_CORRUPT;
    struct job_view *jobs = arena_alloc(arena, (parts->count - 1) * sizeof(*jobs));
    for (uint32_t i = 1; i < parts->count; i++) {
        struct script_head head;
        struct job_text text = take_job(parts, &i);
        enum err err = read_head(space, text, bodies, answer->now_us, arena, &head);
        if (err)
            return err;
        if (bodies && script_read_content(&head))
            continue;
        jobs[good++] = head.view;
    }
    reply->err = good ? OK : ERR_DAMAGED;
    reply->jobs = jobs;
    reply->count = good;
    return OK;
}

/*
 * A job that was pushed: as it was sent, with number and time, which are the end of the answer. Its
 * body is not looked at.
 */
static enum err read_pushed(const struct script_space *space, const struct script_parts *parts,
                            struct arena *arena, struct script_answer *answer)
{
    if (parts->count > 1) /* another job, which was kept */
        return read_jobs(space, parts, arena, answer);
    if (!parts->request.len)
        return ERR_CORRUPT;
    if (answer->kept) /* of a restore, which does not ask what it is */
        return script_pushes_restored(parts->request) ? OK : ERR_CORRUPT;
    struct bytes start = script_argument(parts->request, 2);
    struct bytes rest = script_argument(parts->request, 3);
    size_t len = 8 + start.len + SCRIPT_MADE_BYTES + rest.len;
    char *text = arena_alloc(arena, len);
    put_u64(text, __builtin_bswap64(get_u64(parts->at[0].at + 16)));
    memcpy(text + 8, start.at, start.len);
    if (start.len) /* whichever of the two forms is stored, this one says when it was made */
        text[8] = (char)(text[8] & ~JOB_IS_COMPACT);
    bool made_then = get_u64(parts->at[0].at + 8) != 0; /* and not at the time of the answer */
    memcpy(text + 8 + start.len, parts->at[0].at + (made_then ? 8 : 24), SCRIPT_MADE_BYTES);
    memcpy(text + len - rest.len, rest.at, rest.len);
    struct script_head head;
    enum err err = script_read_head(space, bytes_of(text, len), true, answer->now_us, arena, &head);
    if (err)
        return err;
    if (answer->state == JOB_BURIED)
        head.view.state = JOB_BURIED; /* since it was made */
    struct job_view *job = arena_alloc(arena, sizeof(*job));
    *job = head.view;
    answer->reply.jobs = job;
    answer->reply.count = 1;
    return OK;
}

/*
 * The answer to a finish or delete that was asked for a brief one. A repeated request gets an empty
 * second part. The lease is that of the request: it was the job's.
 */
static enum err read_ended(const struct script_parts *parts, struct arena *arena,
                           struct script_answer *answer)
{
    if (!parts->request.len || !script_asks_briefly(parts->request) ||
        !is_state_seen(answer->state))
        return ERR_CORRUPT;
    struct job_view *job = arena_alloc(arena, sizeof(*job));
    *job = (struct job_view){.ref.seq = answer->seq, .state = answer->state};
    if (!bytes_to_u64(script_argument(parts->request, 5), &job->lease))
        return ERR_CORRUPT;
    answer->reply.jobs = job;
    answer->reply.count = 1;
    return OK;
}

static bool is_brief(enum cmd_kind kind, const struct script_parts *parts)
{
    return (kind == CMD_FINISH || kind == CMD_DELETE) &&
           (parts->count == 1 || parts->at[1].len == 0);
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
    if (kind == CMD_CONFIGURE_TOPIC) {
        answer.reply.version = answer.seq;
        *out_answer = answer;
        return OK;
    }
    if (kind == CMD_RESERVE)
        err = take_firsts(&jobs, &answer);
    if (!err && !answer.err)
        err = kind == CMD_PUSH        ? read_pushed(space, parts, arena, &answer)
              : is_brief(kind, parts) ? read_ended(parts, arena, &answer)
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

static bool take_after_space(struct bytes *text, uint64_t *out_number)
{
    if (text->len == 0 || text->at[0] != ' ')
        return false;
    *text = bytes_of(text->at + 1, text->len - 1);
    return script_take_number(text, out_number) && in_range(*out_number);
}

bool script_read_clock(const struct bytes *parts, uint32_t count, struct script_clock *out_clock)
{
    int64_t queue_us = script_clock(parts, count);
    struct bytes text = count == 2 ? parts[1] : (struct bytes){0};
    bool back = text.len && text.at[0] == '-';
    uint64_t shift_us, set_count, set_us;
    if (back)
        text = bytes_of(text.at + 1, text.len - 1);
    if (!queue_us || get_u8(parts[0].at) != OK || !script_take_number(&text, &shift_us) ||
        !in_range(shift_us) || !take_after_space(&text, &set_count) ||
        !take_after_space(&text, &set_us))
        return false;
    *out_clock = (struct script_clock){
        .queue_us = queue_us,
        .shift_us = back ? -(int64_t)shift_us : (int64_t)shift_us,
        .set_count = set_count,
        .set_us = (int64_t)set_us,
    };
    return true;
}

uint64_t script_settings_mark(const struct bytes *parts, uint32_t count)
{
    return count && parts[0].len == SCRIPT_ANSWER_BYTES ? get_u64(parts[0].at + 8)
                                                        : (uint64_t)SCRIPT_FOREVER;
}

uint64_t script_resync_looked(const struct bytes *parts, uint32_t count)
{
    return count && parts[0].len == SCRIPT_ANSWER_BYTES ? get_u64(parts[0].at + 8) : 0;
}

bool script_journal_behind(const struct bytes *parts, uint32_t count)
{
    return count && parts[0].len == SCRIPT_ANSWER_BYTES && get_u8(parts[0].at + 1) != 0;
}

struct bytes script_settings_of(const struct script_settings *page, uint32_t i,
                                uint64_t *out_version)
{
    struct bytes value = page->at[2 * i + 1];
    *out_version = value.len ? get_u64(value.at) : page->version;
    return value.len ? bytes_of(value.at + 8, value.len - 8) : value;
}

enum err script_read_settings(const struct script_parts *parts, bool all,
                              struct script_settings *out_page)
{
    uint32_t begin = all ? 2 : 1;
    if (!parts->count || parts->at[0].len != SCRIPT_ANSWER_BYTES)
        return ERR_CORRUPT;
    const char *at = parts->at[0].at;
    struct script_settings page = {.err = get_u8(at) ? ERR_INVALID : OK,
                                   .more = get_u8(at + 2) & MORE,
                                   .version = get_u64(at + 8),
                                   .changes = get_u64(at + 16)};
    if (!page.err && (parts->count < begin || (parts->count - begin) % 2))
        return ERR_CORRUPT;
    if (!page.err) {
        page.from = all ? parts->at[1] : page.from;
        page.at = parts->at + begin;
        page.count = (parts->count - begin) / 2;
    }
    for (uint32_t i = 0; i < page.count; i++) {
        struct bytes topic = page.at[2 * i], value = page.at[2 * i + 1];
        if (topic.len == 0 || topic.len > TOPIC_NAME_MAX || (value.len && value.len <= 8) ||
            value.len > 8 + TOPIC_SETTINGS_MAX || (all && !value.len))
            return ERR_CORRUPT;
    }
    *out_page = page;
    return OK;
}

uint32_t script_damaged(const struct script_space *space, const struct script_parts *parts,
                        struct job_view *out_jobs, uint32_t max)
{
    uint32_t found = 0;
    struct arena scratch = {0};
    for (uint32_t i = 1; i < parts->count && found < max; i++) {
        struct script_head head;
        struct job_text text = take_job(parts, &i);
        if (!read_head(space, text, true, 0, &scratch, &head) && script_read_content(&head)) {
            head.view.retry_us = NULL; /* they were in the scratch */
            head.view.retry_count = 0;
            head.view.notes = NULL;
            head.view.note_count = 0;
            out_jobs[found++] = head.view;
        }
    }
    arena_fini(&scratch);
    return found;
}
