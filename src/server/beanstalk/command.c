/*
 * Executes each command of beanstalkd's protocol: most are submitted to the engine, some are
 * answered at once. Converts seconds to microseconds, and tubes to topics.
 */
#include "base/mem.h"
#include "server/beanstalk/survey.h"

enum {
    FORGET_NS = 300,  /* work for removing one watched tube from the table */
    WATCH_MAX = 4000, /* tubes that one connection may watch … */
    WATCH_FEW = 16,   /* … and so many even above limits.memory_bytes: they take about as much as
                         the connection itself, and a worker must be able to begin */
    SECOND_US = 1000 * 1000,
    PLACES_PER_NS = 1,   /* watched tubes handled in one ns */
    NAME_NS = 5,         /* work for naming one watched tube to the engine */
    LISTED_AT_ONCE = 64, /* watched tubes that are listed at once; of more a survey is made */
    LISTED_BYTE_NS = 2,  /* work for a byte of their names */
    /* Nothing behind a put of a larger body is read until that is stored: a client that sends many
       of them must not fill the memory of the log (BACKLOG_MAX), after which puts are refused. */
    LONE_PUT_BYTES = 1024 * 1024,
    DEADLINE_MARGIN_US = SECOND_US, /* before a reservation ends: no reserve of its holder waits */
};

static struct beanstalk_tubes *tubes_of(const struct beanstalk_session *beanstalk)
{
    return &beanstalk_server(beanstalk)->beanstalk.tubes;
}

static struct beanstalk_reservation *reservation_of(const struct beanstalk_session *beanstalk,
                                                    uint64_t id)
{
    return beanstalk_reservations_find(&beanstalk_server(beanstalk)->beanstalk.reservations,
                                       beanstalk->held, id);
}

static int64_t later_us(const struct beanstalk_session *beanstalk, uint32_t delay_s)
{
    return beanstalk_server(beanstalk)->loop->now_us + (int64_t)delay_s * SECOND_US;
}

static void ask(struct beanstalk_session *beanstalk, const struct beanstalk_request *request,
                const struct cmd *cmd)
{
    beanstalk_submit(beanstalk_pending_new(beanstalk, request->cmd, request->id), cmd);
}

/* ---- producers ---- */

static void put(struct beanstalk_session *beanstalk, const struct beanstalk_request *request)
{
    struct cmd cmd = {
        .kind = CMD_PUSH,
        .push = {.topic = beanstalk->used->name,
                 .due_us = later_us(beanstalk, request->delay_s),
                 .ttr_us = (int64_t)(request->ttr_s ? request->ttr_s : 1) * SECOND_US,
                 .priority = request->priority,
                 .order = ORDER_ARRIVAL,
                 .body_kind = BODY_BYTES,
                 .brief = true,
                 .body = request->body},
    };
    struct buf *collected = &beanstalk->codec.body;
    if (collected->len && request->body.at == collected->at)
        cmd.push.memory = collected;
    beanstalk_is_producer(beanstalk);
    struct beanstalk_pending *pending = beanstalk_pending_new(beanstalk, request->cmd, request->id);
    if (request->body.len > LONE_PUT_BYTES)
        pending->pending.state = PENDING_EXCLUSIVE;
    beanstalk_submit(pending, &cmd);
}

static void use(struct beanstalk_session *beanstalk, struct bytes name)
{
    struct beanstalk_tube *tube;
    enum err err = beanstalk_tubes_get_or_create(tubes_of(beanstalk), name, &tube);
    if (err) {
        beanstalk_word(beanstalk, beanstalk_word_of(err));
        return;
    }
    tube->users++; /* before the old one loses its user: they may be the same */
    beanstalk->used->users--;
    beanstalk_tubes_drop_unused(tubes_of(beanstalk), beanstalk->used);
    beanstalk->used = tube;
    struct pipeline_text text = pipeline_begin_now(&beanstalk->pipeline);
    beanstalk_encode_using(text.out, tube->name);
    pipeline_end_now(&beanstalk->pipeline, text);
}

/* ---- the watch list ---- */

static void answer_watching(struct beanstalk_session *beanstalk)
{
    struct pipeline_text text = pipeline_begin_now(&beanstalk->pipeline);
    beanstalk_encode_watching(text.out, beanstalk->watch_count);
    pipeline_end_now(&beanstalk->pipeline, text);
}

/* Its place in the watch list; the count if it is not there. */
static uint32_t watch_place(const struct beanstalk_session *beanstalk,
                            const struct beanstalk_tube *tube)
{
    uint32_t place = 0;
    while (place < beanstalk->watch_count && beanstalk->watched[place] != tube)
        place++;
    budget_spend(&beanstalk_server(beanstalk)->budget, place / PLACES_PER_NS);
    return place;
}

static void watch_add(struct beanstalk_session *beanstalk, struct beanstalk_tube *tube)
{
    if (beanstalk->watch_count == beanstalk->watch_cap) {
        bool inside = beanstalk->watched == &beanstalk->one;
        beanstalk->watch_cap *= 4;
        beanstalk->watched = mem_realloc(inside ? NULL : beanstalk->watched,
                                         beanstalk->watch_cap * sizeof(struct beanstalk_tube *));
        if (inside)
            beanstalk->watched[0] = beanstalk->one;
    }
    beanstalk->watched[beanstalk->watch_count++] = tube;
    tube->watchers++;
}

static void watch(struct beanstalk_session *beanstalk, struct bytes name)
{
    struct beanstalk_tube *tube;
    enum err err = OK;
    if (beanstalk->watch_count >= WATCH_FEW)
        err = server_admit_memory(beanstalk_server(beanstalk));
    if (!err)
        err = beanstalk_tubes_get_or_create(tubes_of(beanstalk), name, &tube);
    if (!err && watch_place(beanstalk, tube) == beanstalk->watch_count) {
        if (beanstalk->watch_count < WATCH_MAX)
            watch_add(beanstalk, tube);
        else
            err = ERR_TOPICS_LIMIT;
        beanstalk_tubes_drop_unused(tubes_of(beanstalk), tube);
    }
    if (err)
        beanstalk_word(beanstalk, beanstalk_word_of(err));
    else
        answer_watching(beanstalk);
}

static void ignore(struct beanstalk_session *beanstalk, struct bytes name)
{
    struct beanstalk_tube *tube = beanstalk_tubes_find(tubes_of(beanstalk), name);
    uint32_t place = watch_place(beanstalk, tube);
    if (place < beanstalk->watch_count) {
        if (beanstalk->watch_count == 1) {
            beanstalk_word(beanstalk, BEANSTALK_NOT_IGNORED);
            return;
        }
        beanstalk->watched[place] = beanstalk->watched[--beanstalk->watch_count];
        tube->watchers--;
        beanstalk_tubes_drop_unused(tubes_of(beanstalk), tube);
    }
    answer_watching(beanstalk);
}

void beanstalk_forget_tubes(struct beanstalk_session *beanstalk)
{
    struct beanstalk_tubes *tubes = tubes_of(beanstalk);
    budget_spend(&beanstalk_server(beanstalk)->budget, (int64_t)beanstalk->watch_count * FORGET_NS);
    beanstalk->used->users--;
    beanstalk_tubes_drop_unused(tubes, beanstalk->used);
    for (uint32_t i = 0; i < beanstalk->watch_count; i++) {
        beanstalk->watched[i]->watchers--;
        beanstalk_tubes_drop_unused(tubes, beanstalk->watched[i]);
    }
    if (beanstalk->watched != &beanstalk->one)
        mem_free(beanstalk->watched);
}

/* ---- workers ---- */

/*
 * Leaves out the tubes whose jobs laterd sends to a target. If all are, they stay, and the reserve
 * is refused.
 */
static uint32_t without_pushed(struct server *server, struct bytes *topics, uint32_t count)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct bytes topic = topics[i];
        if (!server_is_pushed(server, topic))
            topics[left++] = topic;
    }
    return left ? left : count; /* then nothing was moved */
}

/*
 * A reserve of a consumer with a reservation that is about to end does not wait beyond that: the
 * wait is cut to the beginning of the margin, and if it ends without a job the answer is
 * DEADLINE_SOON. A ready job comes first.
 */
static void reserve(struct beanstalk_session *beanstalk, const struct beanstalk_request *request)
{
    struct server *server = beanstalk_server(beanstalk);
    bool timed = request->cmd == BEANSTALK_RESERVE_WITH_TIMEOUT && request->timeout_s != UINT32_MAX;
    int64_t wait_us = timed ? (int64_t)request->timeout_s * SECOND_US : INT64_MAX;
    const struct beanstalk_reservation *soonest = beanstalk_reservations_soonest(
        &server->beanstalk.reservations, beanstalk->held, server->loop->now_us);
    beanstalk_is_worker(beanstalk);
    if (session_state_left(beanstalk->pipeline.session.state))
        wait_us = 0;
    struct beanstalk_pending *pending = beanstalk_pending_new(beanstalk, request->cmd, 0);
    if (soonest && soonest->until_us - DEADLINE_MARGIN_US - server->loop->now_us <= wait_us) {
        wait_us = soonest->until_us - DEADLINE_MARGIN_US - server->loop->now_us;
        pending->deadline_soon = true;
    }
    pending->waits = wait_us > 0;
    struct bytes *topics = &beanstalk->watched[0]->name;
    uint32_t count = beanstalk->watch_count;
    if (beanstalk->watch_count > 1) {
        arena_reset(&server->scratch);
        topics = arena_alloc(&server->scratch, beanstalk->watch_count * sizeof(*topics));
        budget_spend(&server->budget, (int64_t)beanstalk->watch_count * NAME_NS);
        for (uint32_t i = 0; i < beanstalk->watch_count; i++)
            topics[i] = beanstalk->watched[i]->name;
        count = without_pushed(server, topics, count);
    }
    struct cmd cmd = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = topics,
                    .topic_count = count,
                    .max = 1,
                    .bound = true,
                    .wait_us = wait_us > 0 ? wait_us : 0},
    };
    beanstalk_submit(pending, &cmd);
}

/* Commands behind this one, which may come before its answer, must not see the reservation. */
static void end_reservation(struct beanstalk_pending *pending,
                            struct beanstalk_reservation *reservation)
{
    pending->ended = (struct beanstalk_lease){.seq = reservation->seq,
                                              .lease = reservation->lease,
                                              .ttr_us = reservation->ttr_us,
                                              .until_us = reservation->until_us};
    beanstalk_reservations_drop(&beanstalk_server(pending->session)->beanstalk.reservations,
                                reservation);
}

/* RELEASE, BURY and TOUCH need the reservation; other clients are refused without asking the
 * engine. */
static void holder_only(struct beanstalk_session *beanstalk,
                        const struct beanstalk_request *request)
{
    struct beanstalk_reservation *reservation = reservation_of(beanstalk, request->id);
    if (!reservation) {
        beanstalk_word(beanstalk, BEANSTALK_NOT_FOUND);
        return;
    }
    struct beanstalk_pending *pending = beanstalk_pending_new(beanstalk, request->cmd, request->id);
    struct cmd cmd = {
        .job = {.ref.seq = reservation->seq, .lease = reservation->lease, .brief = true}};
    if (request->cmd == BEANSTALK_TOUCH) {
        cmd.kind = CMD_TOUCH;
        reservation->end = 0; /* a client that touches a job has received it */
        pending->ended.until_us = reservation->until_us;
        beanstalk_reservations_extend(reservation, beanstalk_server(beanstalk)->loop->now_us +
                                                       reservation->ttr_us);
    } else {
        cmd.kind = request->cmd == BEANSTALK_BURY ? CMD_BURY : CMD_RELEASE;
        cmd.job.has_priority = true;
        cmd.job.priority = request->priority;
        cmd.job.has_delay = request->delay_s > 0; /* else by its retry schedule, if it has one */
        cmd.job.due_us = later_us(beanstalk, request->delay_s);
        end_reservation(pending, reservation);
    }
    beanstalk_submit(pending, &cmd);
}

/* The holder of a job deletes it when it is done; any client may delete a job without a holder. */
static void delete_job(struct beanstalk_session *beanstalk, const struct beanstalk_request *request)
{
    struct cmd cmd = {.kind = CMD_DELETE, .job = {.ref.seq = request->id, .brief = true}};
    struct beanstalk_reservation *reservation = reservation_of(beanstalk, request->id);
    struct beanstalk_pending *pending = beanstalk_pending_new(beanstalk, request->cmd, request->id);
    if (reservation && reservation->until_us > beanstalk_server(beanstalk)->loop->now_us) {
        cmd.job.lease = reservation->lease;
        cmd.job.is_done = true;
    } else {
        cmd.job.if_free = true;
    }
    if (reservation)
        end_reservation(pending, reservation);
    beanstalk_submit(pending, &cmd);
}

/* ---- looking at jobs, kicking, pausing ---- */

static void one_job(struct beanstalk_session *beanstalk, const struct beanstalk_request *request,
                    enum cmd_kind kind)
{
    ask(beanstalk, request, &(struct cmd){.kind = kind, .job.ref.seq = request->id});
}

static void peek(struct beanstalk_session *beanstalk, const struct beanstalk_request *request,
                 enum job_state state)
{
    struct cmd cmd = {.kind = CMD_PEEK, .topic = {.topic = beanstalk->used->name, .state = state}};
    ask(beanstalk, request, &cmd);
}

static void kick(struct beanstalk_session *beanstalk, const struct beanstalk_request *request)
{
    struct cmd cmd = {
        .kind = CMD_KICK_TOPIC,
        .topic = {.topic = beanstalk->used->name, .max = request->bound, .state = JOB_GONE},
    };
    if (request->bound) {
        ask(beanstalk, request, &cmd);
        return;
    }
    struct pipeline_text text = pipeline_begin_now(&beanstalk->pipeline);
    beanstalk_encode_kicked(text.out, 0);
    pipeline_end_now(&beanstalk->pipeline, text);
}

static void pause_tube(struct beanstalk_session *beanstalk, const struct beanstalk_request *request)
{
    struct cmd cmd = {
        .kind = request->delay_s ? CMD_PAUSE : CMD_RESUME,
        .topic = {.topic = request->tube,
                  .pause_until_us = later_us(beanstalk, request->delay_s),
                  .in_use = !beanstalk_tubes_find(tubes_of(beanstalk), request->tube)},
    };
    struct beanstalk_pending *pending = beanstalk_pending_new(beanstalk, request->cmd, request->id);
    buf_add_bytes(&pending->tube, request->tube);
    beanstalk_submit(pending, &cmd);
}

/* ---- answers from our own tables ---- */

static void survey(struct beanstalk_session *beanstalk, const struct beanstalk_request *request)
{
    beanstalk_survey_begin(beanstalk_pending_new(beanstalk, request->cmd, request->id));
}

static void list_used(struct beanstalk_session *beanstalk)
{
    struct pipeline_text text = pipeline_begin_now(&beanstalk->pipeline);
    beanstalk_encode_using(text.out, beanstalk->used->name);
    pipeline_end_now(&beanstalk->pipeline, text);
}

static void list_watched(struct beanstalk_session *beanstalk,
                         const struct beanstalk_request *request)
{
    if (beanstalk->watch_count > LISTED_AT_ONCE) {
        survey(beanstalk, request);
        return;
    }
    struct buf *yaml = &beanstalk_server(beanstalk)->beanstalk.yaml;
    yaml->len = 0;
    beanstalk_yaml_list(yaml);
    for (uint32_t i = 0; i < beanstalk->watch_count; i++)
        beanstalk_yaml_list_add(yaml, beanstalk->watched[i]->name);
    budget_spend(&beanstalk_server(beanstalk)->budget, (int64_t)yaml->len * LISTED_BYTE_NS);
    struct pipeline_text text = pipeline_begin_now(&beanstalk->pipeline);
    beanstalk_encode_ok(text.out, buf_bytes(yaml));
    buf_reset(yaml, YAML_SPARE_BYTES);
    pipeline_end_now(&beanstalk->pipeline, text);
}

/* ---- commands that need another answer first ---- */

static void stats_tube(struct beanstalk_session *beanstalk, const struct beanstalk_request *request)
{
    struct cmd cmd = {.kind = CMD_TOPIC, .topic = {.topic = request->tube, .brief = true}};
    struct beanstalk_pending *pending = beanstalk_pending_new(beanstalk, request->cmd, request->id);
    buf_add_bytes(&pending->tube, request->tube);
    beanstalk_submit(pending, &cmd);
}

static void reserve_job(struct beanstalk_session *beanstalk,
                        const struct beanstalk_request *request)
{
    ask(beanstalk, request,
        &(struct cmd){.kind = CMD_RESERVE_JOB, .job = {.ref.seq = request->id, .bound = true}});
}

void beanstalk_do(struct beanstalk_session *beanstalk, const struct beanstalk_request *request)
{
    beanstalk_server(beanstalk)->beanstalk.cmds[request->cmd]++;
    switch (request->cmd) {
    case BEANSTALK_PUT: put(beanstalk, request); break;
    case BEANSTALK_USE: use(beanstalk, request->tube); break;
    case BEANSTALK_WATCH: watch(beanstalk, request->tube); break;
    case BEANSTALK_IGNORE: ignore(beanstalk, request->tube); break;
    case BEANSTALK_RESERVE:
    case BEANSTALK_RESERVE_WITH_TIMEOUT: reserve(beanstalk, request); break;
    case BEANSTALK_RESERVE_JOB: reserve_job(beanstalk, request); break;
    case BEANSTALK_RELEASE:
    case BEANSTALK_BURY:
    case BEANSTALK_TOUCH: holder_only(beanstalk, request); break;
    case BEANSTALK_DELETE: delete_job(beanstalk, request); break;
    case BEANSTALK_PEEK:
    case BEANSTALK_STATS_JOB: one_job(beanstalk, request, CMD_GET); break;
    case BEANSTALK_KICK_JOB: one_job(beanstalk, request, CMD_KICK); break;
    case BEANSTALK_PEEK_READY: peek(beanstalk, request, JOB_READY); break;
    case BEANSTALK_PEEK_DELAYED: peek(beanstalk, request, JOB_DELAYED); break;
    case BEANSTALK_PEEK_BURIED: peek(beanstalk, request, JOB_BURIED); break;
    case BEANSTALK_KICK: kick(beanstalk, request); break;
    case BEANSTALK_PAUSE_TUBE: pause_tube(beanstalk, request); break;
    case BEANSTALK_LIST_TUBE_USED: list_used(beanstalk); break;
    case BEANSTALK_LIST_TUBES_WATCHED: list_watched(beanstalk, request); break;
    case BEANSTALK_STATS:
    case BEANSTALK_LIST_TUBES: survey(beanstalk, request); break;
    case BEANSTALK_STATS_TUBE: stats_tube(beanstalk, request); break;
    case BEANSTALK_QUIT: pipeline_stop(&beanstalk->pipeline); break;
    case BEANSTALK_CMDS: break;
    }
}
