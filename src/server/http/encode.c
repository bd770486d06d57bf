#include "server/http/encode.h"

#include "base/mem.h"
#include "core/happening.h"
#include "core/lateness.h"
#include "server/offload.h"

enum {
    LONG_TEXTS = 64 * 1024, /* texts above this, together, go to the worker */
    JOB_BYTES = 32,         /* a job's numbers, which are quick to write, count as so many; … */
    HAPPENING_BYTES = 128,  /* … those of an entry of a history, its times above all, … */
    TOPIC_BYTES = 512,      /* … and of a topic */
    NS_PER_BYTE = 2,        /* copied into fresh memory: most of it are page faults */
    BYTES_OF_SOURCE = 4,    /* memory for each byte of an answer that has other sources */
    BYTES_OF_TEXT = 8,      /* memory for each byte of a text: its copy, and six if it is escaped */
};

/* Owns all that its work touches. */
struct encoding {
    struct offload offload;
    struct request *request; /* NULL: the client has gone */
    bool in_use;             /* by the worker */
    struct arena arena;
    struct response_format format;
    struct reply reply;          /* its jobs are in the arena, or in reply.hold */
    struct encode_source source; /* .write: it, and no reply */
    size_t text_bytes, held_bytes;
    int64_t now_us; /* of the reply */
    struct bytes date;
    struct buf out;
};

/* What the answer shows of the jobs, and of what happened to one: bodies, but also what clients
 * made long. A turn takes as long to write a thousand short bodies with their long labels. */
static size_t text_bytes(const struct reply *reply)
{
    size_t bytes = 0;
    for (uint32_t i = 0; reply->jobs && i < reply->count; i++) {
        const struct job_view *job = &reply->jobs[i];
        bytes += JOB_BYTES + job->body.len + job->properties.len + job->ref.id.len +
                 job->topic.len + job->retry_count * sizeof(int64_t);
    }
    for (uint32_t i = 0; i < reply->happening_count; i++)
        bytes += HAPPENING_BYTES + reply->happenings[i].note.len + reply->happenings[i].topic.len;
    for (uint32_t i = 0; reply->kind == CMD_TOPICS && i < reply->count; i++)
        bytes += TOPIC_BYTES + reply->topics[i].name.len;
    return bytes;
}

bool encode_is_long(const struct server *server, const struct reply *reply)
{
    return server->worker && !reply->err && text_bytes(reply) > LONG_TEXTS;
}

static void release_hold(struct encoding *encoding)
{
    if (encoding->reply.hold)
        encoding->reply.hold->release(encoding->reply.hold);
    encoding->reply.hold = NULL;
}

static void free_it(struct encoding *encoding)
{
    struct discard *discard = &encoding->offload.server->discard;
    release_hold(encoding);
    arena_fini_deferred(&encoding->arena, discard);
    discard_buf(discard, &encoding->out);
    mem_free(encoding);
}

static void run(struct work *work)
{
    struct encoding *encoding = LIST_ENTRY(work, struct encoding, offload.work);
    const struct encode_source *source = &encoding->source;
    if (source->write)
        source->write(source->from, &encoding->format, encoding->date, &encoding->out);
    else
        api_reply(&encoding->format, &encoding->reply, encoding->now_us, encoding->date,
                  &encoding->out);
    release_hold(encoding); /* here: giving megabytes back takes its time */
    arena_fini(&encoding->arena);
}

static void done(struct work *work)
{
    struct encoding *encoding = LIST_ENTRY(work, struct encoding, offload.work);
    encoding->in_use = false;
    offload_done(&encoding->offload);
    if (encoding->request)
        request_encoded(encoding->request, &encoding->out); /* frees it */
    else
        free_it(encoding);
}

static const struct job_note *copy_notes(struct arena *arena, const struct job_view *job)
{
    if (job->note_count == 0)
        return NULL;
    struct job_note *notes = arena_alloc(arena, job->note_count * sizeof(*notes));
    for (unsigned i = 0; i < job->note_count; i++) {
        notes[i] = job->notes[i];
        notes[i].text = arena_copy(arena, notes[i].text);
    }
    return notes;
}

static void copy_jobs(struct encoding *encoding, const struct reply *reply)
{
    struct arena *arena = &encoding->arena;
    struct job_view *jobs = arena_alloc(arena, reply->count * sizeof(*jobs));
    for (uint32_t i = 0; i < reply->count; i++) {
        struct job_view *job = &jobs[i];
        *job = reply->jobs[i];
        struct bytes waits = bytes_of(job->retry_us, job->retry_count * sizeof(int64_t));
        job->ref.id = arena_copy(arena, job->ref.id);
        job->topic = arena_copy(arena, job->topic);
        job->retry_us = (const int64_t *)(const void *)arena_copy(arena, waits).at;
        job->content_type = arena_copy(arena, job->content_type);
        job->body = arena_copy(arena, job->body);
        job->properties = arena_copy(arena, job->properties);
        job->notes = copy_notes(arena, job);
    }
    encoding->reply.jobs = jobs;
}

static void copy_happenings(struct encoding *encoding, const struct reply *reply)
{
    struct arena *arena = &encoding->arena;
    struct happening *happenings = arena_alloc(arena, reply->happening_count * sizeof(*happenings));
    for (uint32_t i = 0; i < reply->happening_count; i++) {
        happenings[i] = reply->happenings[i];
        happenings[i].id = arena_copy(arena, happenings[i].id);
        happenings[i].topic = arena_copy(arena, happenings[i].topic);
        happenings[i].note = arena_copy(arena, happenings[i].note);
    }
    encoding->reply.happenings = happenings;
}

static void copy_topics(struct encoding *encoding, const struct reply *reply)
{
    struct arena *arena = &encoding->arena;
    struct topic_view *topics = arena_alloc(arena, reply->count * sizeof(*topics));
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct lateness *from = reply->topics[i].lateness;
        topics[i] = reply->topics[i];
        topics[i].name = arena_copy(arena, topics[i].name);
        if (from) {
            struct lateness *lateness = arena_alloc(arena, sizeof(*lateness));
            *lateness = *from;
            topics[i].lateness = lateness;
        }
    }
    encoding->reply.topics = topics;
}

static void keep_reply(struct encoding *encoding, const struct reply *reply)
{
    encoding->reply = *reply;
    encoding->reply.cursor = arena_copy(&encoding->arena, reply->cursor);
    if (reply->hold) {
        reply->hold->taken = true;
        return;
    }
    if (reply->happening_count)
        copy_happenings(encoding, reply);
    else if (reply->kind == CMD_TOPICS)
        copy_topics(encoding, reply);
    else
        copy_jobs(encoding, reply);
    budget_spend(&encoding->request->http->pipeline.session.server->budget,
                 (int64_t)encoding->text_bytes * NS_PER_BYTE);
}

static struct encoding *encoding_new(struct request *request, size_t bytes, size_t held_bytes)
{
    struct server *server = http_server(request->http);
    struct encoding *encoding = mem_zalloc(sizeof(*encoding));
    encoding->request = request;
    encoding->in_use = true;
    encoding->format = request->format;
    encoding->text_bytes = bytes;
    encoding->held_bytes = held_bytes;
    encoding->now_us = server->loop->now_us;
    request->encoding = encoding;
    buffers_changed(&request->http->pipeline.session);
    return encoding;
}

static void submit(struct encoding *encoding, unsigned times)
{
    struct server *server = http_server(encoding->request->http);
    encoding->date = arena_copy(&encoding->arena, server_date(server));
    offload_submit(&encoding->offload, server, encoding->text_bytes * times, run, done);
}

void encode_begin(struct request *request, const struct reply *reply)
{
    size_t bytes = text_bytes(reply);
    struct encoding *encoding = encoding_new(request, bytes, bytes);
    keep_reply(encoding, reply);
    if (encoding->arena.held > encoding->held_bytes)
        encoding->held_bytes = encoding->arena.held;
    submit(encoding, BYTES_OF_TEXT);
}

void encode_begin_source(struct request *request, const struct encode_source *source,
                         struct arena *arena)
{
    struct bytes from = arena_copy(arena, bytes_of(source->from, source->from_bytes));
    struct encoding *encoding = encoding_new(request, source->bytes, arena->held);
    encoding->source = *source;
    encoding->source.from = from.at;
    encoding->arena = *arena;
    *arena = (struct arena){0};
    submit(encoding, BYTES_OF_SOURCE);
}

void encode_free(struct encoding *encoding)
{
    if (!encoding)
        return;
    encoding->request = NULL;
    if (offload_withdraw(&encoding->offload) || !encoding->in_use) /* else done() does it */
        free_it(encoding);
}

size_t encode_bytes(const struct encoding *encoding)
{
    return encoding->held_bytes;
}
