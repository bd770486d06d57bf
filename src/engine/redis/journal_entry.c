#include "engine/redis/journal_entry.h"

#include "base/codec.h"
#include "base/hash.h"
#include "base/mem.h"
#include "engine/redis/script_parts.h"
#include "store/format.h"
#include "store/record.h"

/* Offsets of the format in scripts/entry.lua. */
enum {
    ENTRY_NUMBER = 1,
    ENTRY_BYTES_EVER = 9,
    ENTRY_AT = 17,
    ENTRY_WHAT = 24,
    ENTRY_TEXT = 25,
    MOVE_STATE = 8,
    MOVE_FAILURES = 9,
    MOVE_PRIORITY = 11,
    MOVE_DUE = 15,
    MOVE_ID = 22,
    NAME_BYTES = 8,
    FIELD_BYTES = 49,
    GIVEN_UP_BYTES = 33,
};

static uint64_t get_us(const char *at)
{
    return get_u32(at) | (uint64_t)get_u16(at + 4) << 32 | (uint64_t)get_u8(at + 6) << 48;
}

static uint64_t get_name(const char *at)
{
    return __builtin_bswap64(get_u64(at));
}

enum err journal_entry_read(const struct script_space *space, uint32_t partition,
                            struct bytes member, struct journal_entry *out_entry)
{
    if (member.len < ENTRY_TEXT || member.at[0] != 'j')
        return ERR_CORRUPT;
    *out_entry = (struct journal_entry){
        .number = get_name(member.at + ENTRY_NUMBER),
        .at_us = script_time_out(space, partition, (int64_t)get_us(member.at + ENTRY_AT)),
        .mark = hash_of(member.at, member.len),
        .what = member.at[ENTRY_WHAT],
        .text = bytes_of(member.at + ENTRY_TEXT, member.len - ENTRY_TEXT),
    };
    return OK;
}

enum err journal_field_read(struct bytes field, struct journal_field *out_field)
{
    if (field.len != FIELD_BYTES && field.len != GIVEN_UP_BYTES)
        return ERR_CORRUPT;
    uint64_t all = get_u64(field.at + 8), taken = get_u64(field.at + 16);
    *out_field = (struct journal_field){.last = get_u64(field.at),
                                        .waiting_bytes = all > taken ? all - taken : 0};
    return OK;
}

/* A damaged body is written to the row as it is. */
static void take_content(struct script_head *head)
{
    struct job_view *view = &head->view;
    if (script_read_content(head) == OK || head->content.len < view->content_type_len)
        return;
    view->content_type = bytes_of(head->content.at, view->content_type_len);
    view->body = bytes_of(head->content.at + view->content_type_len,
                          head->content.len - view->content_type_len);
}

static enum err read_job(const struct script_space *space, const struct journal_entry *entry,
                         struct arena *arena, struct event *event)
{
    struct script_head head;
    enum err err = script_read_head(space, entry->text, true, entry->at_us, arena, &head);
    if (err)
        return err;
    take_content(&head);
    const struct job_view *view = &head.view;
    if (!view->topic.len || view->topic.len > TOPIC_NAME_MAX ||
        view->content_type.len > CONTENT_TYPE_MAX || view->retry_count > RETRY_STEPS_MAX)
        return ERR_CORRUPT;
    *event = (struct event){
        .kind = EVENT_JOB,
        .job = {.seq = view->ref.seq,
                .state = view->state,
                .priority = view->priority,
                .due_us = view->due_us,
                .failures = view->failures,
                .counts = view->counts},
        .id = view->ref.id,
        .topic = view->topic,
        .ttr_us = view->ttr_us,
        .created_us = view->created_us,
        .order = head.order,
        .delay_s = view->delay_s,
        .retry_us = view->retry_us,
        .retry_count = view->retry_count,
        .body_kind = view->body_kind,
        .content_type = view->content_type,
        .body = view->body,
        .properties = view->properties,
    };
    return OK;
}

static enum err read_move(const struct script_space *space, uint32_t partition,
                          const struct journal_entry *entry, struct event *event)
{
    const char *at = entry->text.at;
    if (entry->text.len < MOVE_ID || get_u8(at + MOVE_STATE) == JOB_GONE ||
        get_u8(at + MOVE_STATE) >= JOB_STATES)
        return ERR_CORRUPT;
    *event = (struct event){
        .kind = EVENT_MOVE,
        .job = {.seq = get_name(at),
                .state = (enum job_state)get_u8(at + MOVE_STATE),
                .failures = get_u16(at + MOVE_FAILURES),
                .priority = get_u32(at + MOVE_PRIORITY),
                .due_us = script_time_out(space, partition, (int64_t)get_us(at + MOVE_DUE))},
        .id = bytes_of(at + MOVE_ID, entry->text.len - MOVE_ID),
    };
    if (event->job.state == JOB_DELAYED && event->job.due_us <= entry->at_us)
        event->job.state = JOB_READY;
    return OK;
}

static enum err read_end(const struct journal_entry *entry, struct event *event)
{
    if (entry->text.len < NAME_BYTES)
        return ERR_CORRUPT;
    *event = (struct event){
        .kind = EVENT_GONE,
        .job.seq = get_name(entry->text.at),
        .end = entry->what == 'f' ? END_FINISHED : END_DELETED,
        .id = bytes_of(entry->text.at + NAME_BYTES, entry->text.len - NAME_BYTES),
    };
    return OK;
}

enum err journal_entry_batch(const struct script_space *space, uint32_t partition,
                             const struct journal_entry *entry, struct arena *arena,
                             struct journal_batch **out_batch)
{
    struct event event;
    enum err err = OK;
    bool begins = entry->what == 'o';
    switch (entry->what) {
    case 'c':
    case 'p': err = read_job(space, entry, arena, &event); break;
    case 'm': err = read_move(space, partition, entry, &event); break;
    case 'f':
    case 'g':
    case 'd': err = read_end(entry, &event); break;
    case 'o': break;
    default: return ERR_CORRUPT;
    }
    if (err || (!begins && (event.id.len > JOB_ID_MAX || !event.job.seq)))
        return ERR_CORRUPT;
    size_t len = begins ? 0 : record_bytes(&event);
    struct journal_batch *batch = mem_zalloc(sizeof(*batch) + BATCH_HEAD + len);
    batch->kind = entry->what == 'c'   ? JOURNAL_IMAGES
                  : entry->what == 'g' ? JOURNAL_ABSENT
                                       : JOURNAL_CHANGES;
    batch->numbered = true;
    batch->clock_us = entry->at_us;
    batch->payload_bytes = (uint32_t)len;
    batch->records = !begins;
    batch->bytes = BATCH_HEAD + len;
    batch->stream = partition;
    batch->entry = entry->number;
    batch->mark = entry->mark;
    if (!begins)
        record_encode(&event, len, batch->at + BATCH_HEAD);
    *out_batch = batch;
    return OK;
}

struct journal_batch *journal_entry_position(uint32_t partition, uint64_t entry, uint64_t mark,
                                             int64_t now_us)
{
    struct journal_batch *batch = mem_zalloc(sizeof(*batch) + BATCH_HEAD);
    batch->clock_us = now_us;
    batch->bytes = BATCH_HEAD;
    batch->stream = partition;
    batch->entry = entry;
    batch->mark = mark;
    return batch;
}
