#include "server/beanstalk/long_body.h"

#include "base/mem.h"
#include "server/offload.h"

enum { LONG_BYTES = 128 * 1024 }; /* the engine reads such bodies apart, and lends them */

/* Owns all that its work touches. */
struct long_body {
    struct offload offload;
    struct beanstalk_pending *pending; /* NULL: the client has gone */
    bool in_use;                       /* by the worker */
    bool reserved;                     /* else it is shown only */
    uint64_t id;
    struct bytes body;
    struct reply_hold *hold; /* of the body's memory; NULL once it is given back */
    struct buf answer;
};

static void release_hold(struct long_body *body)
{
    if (body->hold)
        body->hold->release(body->hold);
    body->hold = NULL;
}

static void free_it(struct long_body *body)
{
    release_hold(body);
    discard_buf(&body->offload.server->discard, &body->answer);
    mem_free(body);
}

static void run(struct work *work)
{
    struct long_body *body = LIST_ENTRY(work, struct long_body, offload.work);
    if (body->reserved)
        beanstalk_encode_reserved(&body->answer, body->id, body->body);
    else
        beanstalk_encode_found(&body->answer, body->id, body->body);
    release_hold(body); /* here: giving megabytes back takes its time */
}

static void done(struct work *work)
{
    struct long_body *body = LIST_ENTRY(work, struct long_body, offload.work);
    struct beanstalk_pending *pending = body->pending;
    struct discard *discard = &body->offload.server->discard;
    offload_done(&body->offload);
    body->in_use = false;
    if (!pending) {
        free_it(body);
        return;
    }
    struct buf answer = body->answer;
    body->answer = (struct buf){0};
    pending->long_body = NULL;
    long_body_free(body);
    pipeline_end_long(&pending->pending, &answer); /* frees the pending, now or later */
    discard_buf(discard, &answer);
}

static bool is_long(const struct beanstalk_pending *pending, const struct reply *reply)
{
    bool shown = cmd_traits(reply->kind)->shows_bodies && pending->cmd != BEANSTALK_STATS_JOB;
    return shown && !reply->err && reply->hold && reply->jobs[0].body.len > LONG_BYTES;
}

bool long_body_begin(struct beanstalk_pending *pending, const struct reply *reply)
{
    struct server *server = beanstalk_server(pending->session);
    if (!server->worker || !is_long(pending, reply))
        return false;
    const struct job_view *job = &reply->jobs[0];
    struct pipeline *pipeline = &pending->session->pipeline;
    struct long_body *body = mem_zalloc(sizeof(*body));
    body->pending = pending;
    body->in_use = true;
    body->reserved = cmd_traits(reply->kind)->takes_jobs;
    body->id = job->ref.seq;
    body->body = job->body;
    body->hold = reply->hold;
    reply->hold->taken = true;
    if (body->reserved)
        beanstalk_take(pending, job);
    if (pending->pending.state == PENDING_PARKED) /* it waits for no job any more */
        pending->pending.state = PENDING_EXCLUSIVE;
    pending->long_body = body;
    pipeline->working_bytes += job->body.len;
    buffers_changed(&pipeline->session);
    /* The body and its copy, although the connection counts one: its client may leave. */
    offload_submit(&body->offload, server, 2 * job->body.len, run, done);
    return true;
}

void long_body_free(struct long_body *body)
{
    if (!body)
        return;
    body->pending->session->pipeline.working_bytes -= body->body.len;
    body->pending = NULL;
    if (offload_withdraw(&body->offload) || !body->in_use) /* else done() does it */
        free_it(body);
}
