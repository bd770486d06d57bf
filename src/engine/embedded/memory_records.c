#include "engine/embedded/memory_records.h"

struct job_record {
    uint32_t content_type_len;
    uint32_t properties_len;
    char bytes[]; /* content type, body, properties */
};

struct note_record {
    struct note_head head;
    uint32_t len;
    char text[];
};

static struct stored keep_job(struct blocks *blocks, const struct event *event)
{
    size_t size = sizeof(struct job_record) + event->content_type.len + event->body.len +
                  event->properties.len;
    struct stored stored = {blocks_take(blocks, size), (uint32_t)size};
    struct job_record *record = blocks_at(blocks, stored.where);
    record->content_type_len = (uint32_t)event->content_type.len;
    record->properties_len = (uint32_t)event->properties.len;
    char *end = bytes_put(record->bytes, event->content_type);
    end = bytes_put(end, event->body);
    (void)bytes_put(end, event->properties);
    return stored;
}

static struct stored keep_note(struct blocks *blocks, const struct event *event)
{
    size_t size = sizeof(struct note_record) + event->body.len;
    struct stored stored = {blocks_take(blocks, size), (uint32_t)size};
    struct note_record *record = blocks_at(blocks, stored.where);
    record->head = event->note;
    record->len = (uint32_t)event->body.len;
    (void)bytes_put(record->text, event->body);
    return stored;
}

struct stored memory_records_keep(struct memory_records *records, const struct event *event)
{
    if (event->kind == EVENT_JOB || event->kind == EVENT_GONE)
        memory_records_forget(records, event->record.where);
    if (event->kind == EVENT_JOB)
        return keep_job(&records->blocks, event);
    if (event->kind == EVENT_NOTE)
        return keep_note(&records->blocks, event);
    return (struct stored){0};
}

void memory_records_forget(struct memory_records *records, uint64_t where)
{
    blocks_give(&records->blocks, where);
}

void memory_records_read(const struct memory_records *records, const struct body_place *place,
                         struct body_content *out_content)
{
    if (place->is_note) {
        const struct note_record *note = blocks_at(&records->blocks, place->where);
        *out_content =
            (struct body_content){.note = note->head, .body = bytes_of(note->text, note->len)};
        return;
    }
    const struct job_record *job = blocks_at(&records->blocks, place->where);
    const char *body = job->bytes + job->content_type_len;
    *out_content = (struct body_content){
        .content_type = bytes_of(job->bytes, job->content_type_len),
        .body = bytes_of(body, place->body_len),
        .properties = bytes_of(body + place->body_len, job->properties_len),
    };
}

bool memory_records_trim(struct memory_records *records)
{
    return blocks_trim(&records->blocks);
}

void memory_records_init(struct memory_records *records)
{
    blocks_init(&records->blocks);
}

void memory_records_fini(struct memory_records *records)
{
    blocks_fini(&records->blocks);
}
