/*
 * Writes the engine's reply to a command as beanstalkd does. Called when the reply comes, perhaps
 * turns after the command: all that is needed is in the beanstalk_pending.
 */
#include "base/mem.h"
#include "server/beanstalk/pages.h"
#include "server/beanstalk/survey.h"

enum beanstalk_word beanstalk_word_of(enum err err)
{
    switch (err) {
    case ERR_NOT_FOUND:
    case ERR_STALE_LEASE:
    case ERR_WRONG_STATE: return BEANSTALK_NOT_FOUND;
    case ERR_EMPTY: return BEANSTALK_TIMED_OUT;
    case ERR_DRAINING: return BEANSTALK_DRAINING;
    case ERR_TOO_LARGE: return BEANSTALK_JOB_TOO_BIG;
    case ERR_JOBS_LIMIT:
    case ERR_TOPICS_LIMIT:
    case ERR_WAITERS_LIMIT:
    case ERR_MEMORY_LIMIT:
    case ERR_DISK_LIMIT:
    case ERR_DISK_FULL:
    case ERR_JOURNAL_DOWN:
    case ERR_JOURNAL_BEHIND:
    case ERR_AGAIN: return BEANSTALK_OUT_OF_MEMORY;
    case OK:
    case ERR_EXISTS:
    case ERR_INVALID:
    case ERR_STORE_FAILED:
    case ERR_DAMAGED:
    case ERR_IO:
    case ERR_CORRUPT:
    case ERR_LOCKED:
    case ERR_VERSION:
    case ERR_UNSUPPORTED:
    case ERR_PUSHED_TOPIC:
    case ERR_JOB_TARGET:
    case ERR_NOT_EMPTY:
    case ERR_NOT_LEADER:
    case ERR_RECOVERING:
    case ERR_COUNT: break;
    }
    return BEANSTALK_INTERNAL_ERROR;
}

static void refused(const struct beanstalk_pending *pending, enum err err, struct buf *out)
{
    bool waited =
        pending->cmd == BEANSTALK_RESERVE || pending->cmd == BEANSTALK_RESERVE_WITH_TIMEOUT;
    if (pending->cmd == BEANSTALK_KICK && err == ERR_NOT_FOUND)
        beanstalk_encode_kicked(out, 0); /* nothing was ever put into this tube */
    else if (pending->cmd == BEANSTALK_PAUSE_TUBE && err == ERR_NOT_FOUND &&
             beanstalk_tubes_find(&beanstalk_server(pending->session)->beanstalk.tubes,
                                  buf_bytes(&pending->tube)))
        beanstalk_encode(out, BEANSTALK_PAUSED); /* the same: there is nothing to pause */
    else if (waited && err == ERR_EMPTY && pending->deadline_soon)
        beanstalk_encode(out, BEANSTALK_DEADLINE_SOON);
    else if (pending->cmd == BEANSTALK_PUT && (err == ERR_NOT_LEADER || err == ERR_RECOVERING))
        beanstalk_encode(out, BEANSTALK_DRAINING); /* "the client should try another server" */
    else if (waited && err == ERR_DRAINING)
        beanstalk_encode(out, BEANSTALK_TIMED_OUT); /* DRAINING is for put alone */
    else
        beanstalk_encode(out, beanstalk_word_of(err));
}

/* A touch that finds the lease ended ends the reservation, and one that was refused for another
   reason has not extended it. A release, bury or delete that was refused so has mostly not ended
   it, and the client may send it again. */
static void keep_or_forget(const struct beanstalk_pending *pending, enum err err)
{
    struct beanstalk_session *beanstalk = pending->session;
    struct beanstalk_reservations *reservations =
        &beanstalk_server(beanstalk)->beanstalk.reservations;
    struct beanstalk_reservation *reservation =
        beanstalk_reservations_find(reservations, beanstalk->held, pending->id);
    int64_t before_us = pending->ended.until_us; /* of a touch */
    if (pending->cmd != BEANSTALK_TOUCH && !err_ends_lease(err))
        beanstalk_reservations_put_back(reservations, beanstalk->held, &pending->ended);
    if (pending->cmd != BEANSTALK_TOUCH || !reservation)
        return;
    if (err_ends_lease(err))
        beanstalk_reservations_drop(reservations, reservation);
    else if (before_us < reservation->until_us)
        beanstalk_reservations_extend(reservation, before_us);
}

struct beanstalk_reservation *beanstalk_take(struct beanstalk_pending *pending,
                                             const struct job_view *job)
{
    struct beanstalk_session *beanstalk = pending->session;
    pending->id = job->ref.seq;
    beanstalk_is_worker(beanstalk);
    if (!beanstalk->held)
        beanstalk->held = mem_zalloc(sizeof(*beanstalk->held));
    return beanstalk_reservations_add(&beanstalk_server(beanstalk)->beanstalk.reservations,
                                      beanstalk->held, job);
}

static void reserved(struct beanstalk_pending *pending, const struct job_view *job, struct buf *out)
{
    struct beanstalk_session *beanstalk = pending->session;
    struct beanstalk_reservation *reservation = beanstalk_take(pending, job);
    beanstalk_encode_reserved(out, job->ref.seq, job->body);
    if (out == &beanstalk->pipeline.session.out) { /* else it is looked up again: delivered() */
        reservation->end = session_end(&beanstalk->pipeline.session);
        pending->noted = true;
    }
}

static void stats_job(const struct beanstalk_pending *pending, const struct job_view *job,
                      struct buf *out)
{
    struct server *server = beanstalk_server(pending->session);
    struct buf *yaml = &server->beanstalk.yaml;
    beanstalk_yaml_job(yaml, job, server->loop->now_us);
    beanstalk_encode_ok(out, buf_bytes(yaml));
    buf_reset(yaml, YAML_SPARE_BYTES);
}

static void stats(const struct beanstalk_pending *pending, struct buf *out)
{
    struct server *server = beanstalk_server(pending->session);
    struct buf *yaml = &server->beanstalk.yaml;
    beanstalk_stats_page(server, &pending->survey->stats, pending->survey->tubes, yaml);
    beanstalk_encode_ok(out, buf_bytes(yaml));
    buf_reset(yaml, YAML_SPARE_BYTES);
}

static void list_tubes(const struct beanstalk_pending *pending, struct buf *out)
{
    beanstalk_encode_ok(out, buf_bytes(&pending->survey->names));
    buf_fini(&pending->survey->names); /* here: the answer may wait for older ones */
}

/* False: there is no such tube. */
static bool stats_tube(const struct beanstalk_pending *pending, const struct reply *reply,
                       struct buf *out)
{
    struct server *server = beanstalk_server(pending->session);
    struct buf *yaml = &server->beanstalk.yaml;
    if (!beanstalk_tube_page(server, buf_bytes(&pending->tube), reply, yaml))
        return false;
    beanstalk_encode_ok(out, buf_bytes(yaml));
    buf_reset(yaml, YAML_SPARE_BYTES);
    return true;
}

void beanstalk_answer(struct beanstalk_pending *pending, const struct reply *reply, struct buf *out)
{
    if (pending->cmd == BEANSTALK_STATS_TUBE && reply->err == ERR_NOT_FOUND &&
        stats_tube(pending, reply, out))
        return; /* a tube that is used or watched, and was never put into */
    if (reply->err) {
        keep_or_forget(pending, reply->err);
        refused(pending, reply->err, out);
        return;
    }
    const struct job_view *job = reply->jobs;
    switch (pending->cmd) {
    case BEANSTALK_PUT: beanstalk_encode_inserted(out, job->ref.seq); break;
    case BEANSTALK_RESERVE:
    case BEANSTALK_RESERVE_WITH_TIMEOUT:
    case BEANSTALK_RESERVE_JOB: reserved(pending, job, out); break;
    case BEANSTALK_PEEK:
    case BEANSTALK_PEEK_READY:
    case BEANSTALK_PEEK_DELAYED:
    case BEANSTALK_PEEK_BURIED: beanstalk_encode_found(out, job->ref.seq, job->body); break;
    case BEANSTALK_STATS_JOB: stats_job(pending, job, out); break;
    case BEANSTALK_DELETE: beanstalk_encode(out, BEANSTALK_DELETED); break;
    case BEANSTALK_RELEASE: /* a retry schedule that is used up buries the job */
        beanstalk_encode(out, job->state == JOB_BURIED ? BEANSTALK_BURIED : BEANSTALK_RELEASED);
        break;
    case BEANSTALK_BURY: beanstalk_encode(out, BEANSTALK_BURIED); break;
    case BEANSTALK_TOUCH: beanstalk_encode(out, BEANSTALK_TOUCHED); break;
    case BEANSTALK_KICK: beanstalk_encode_kicked(out, reply->count); break;
    case BEANSTALK_KICK_JOB: beanstalk_encode(out, BEANSTALK_KICKED_JOB); break;
    case BEANSTALK_PAUSE_TUBE: beanstalk_encode(out, BEANSTALK_PAUSED); break;
    case BEANSTALK_STATS: stats(pending, out); break;
    case BEANSTALK_LIST_TUBES:
    case BEANSTALK_LIST_TUBES_WATCHED: list_tubes(pending, out); break;
    case BEANSTALK_STATS_TUBE:
        if (!stats_tube(pending, reply, out))
            beanstalk_encode(out, BEANSTALK_NOT_FOUND);
        break;
    case BEANSTALK_USE:
    case BEANSTALK_WATCH:
    case BEANSTALK_IGNORE:
    case BEANSTALK_LIST_TUBE_USED:
    case BEANSTALK_QUIT:
    case BEANSTALK_CMDS: break; /* the engine is not asked */
    }
}
