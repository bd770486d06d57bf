/*
 * First the tubes that connections use or watch, then the engine's topics, a page at a time.
 * Commands must not be submitted from the engine's answer, so the next page is requested in the
 * next slice. Of `list-tubes-watched` only the tubes that its own connection watches: nothing
 * behind the command is read meanwhile, so they stay the same.
 */
#include "server/beanstalk/survey.h"

#include "base/mem.h"
#include "server/beanstalk/pages.h"

enum {
    PAGE_TOPICS = 1000,
    SLICE_TUBES = 64,        /* after so many the budget is looked at */
    TUBE_NS = 40,            /* work for one tube, or one topic that is looked up among them, … */
    NAME_BYTE_NS = 2,        /* … and for each byte of a name that is listed */
    LONG_NAMES = 256 * 1024, /* bytes of a list that the worker writes */
};

static struct server *server_of(const struct beanstalk_survey *survey)
{
    return beanstalk_server(survey->pending->session);
}

static void count_tube(struct beanstalk_survey *survey, struct bytes name)
{
    survey->tubes++;
    if (survey->pending->cmd == BEANSTALK_STATS)
        return;
    beanstalk_yaml_list_add(&survey->names, name);
    budget_spend(&server_of(survey)->budget, (int64_t)name.len * NAME_BYTE_NS);
}

static bool is_of_watched(const struct beanstalk_survey *survey)
{
    return survey->pending->cmd == BEANSTALK_LIST_TUBES_WATCHED;
}

/* The next tube, and moves tube_next behind it. NULL: all are seen. */
static const struct beanstalk_tube *next_tube(struct beanstalk_survey *survey)
{
    const struct beanstalk_session *beanstalk = survey->pending->session;
    const struct beanstalk_tube *tube = NULL;
    uint32_t next = survey->tube_next;
    if (!is_of_watched(survey)) {
        tube = beanstalk_tubes_next(&server_of(survey)->beanstalk.tubes, next);
        next = tube ? tube->number : 0;
    } else if (next < beanstalk->watch_count) {
        tube = beanstalk->watched[next];
    }
    survey->tube_next = tube ? next + 1 : UINT32_MAX;
    return tube;
}

static void see_tubes(struct beanstalk_survey *survey)
{
    struct server *server = server_of(survey);
    const struct beanstalk_tube *tube;
    while ((tube = next_tube(survey)) != NULL) {
        count_tube(survey, tube->name);
        budget_spend(&server->budget, TUBE_NS);
        if (survey->tubes % SLICE_TUBES == 0 && budget_spent(&server->budget))
            return;
    }
}

static void see_topics(struct beanstalk_survey *survey, const struct reply *reply)
{
    struct server *server = server_of(survey);
    survey->err = reply->err;
    survey->topics_seen = reply->err || !reply->more;
    for (uint32_t i = 0; !reply->err && i < reply->count; i++) {
        const struct topic_view *topic = &reply->topics[i];
        if (beanstalk_is_tube(topic) &&
            !beanstalk_tubes_find(&server->beanstalk.tubes, topic->name))
            count_tube(survey, topic->name);
    }
    budget_spend(&server->budget, (int64_t)reply->count * TUBE_NS);
    if (!reply->err && reply->count) {
        survey->after.len = 0;
        buf_add_bytes(&survey->after, reply->topics[reply->count - 1].name);
    }
    if (reply->stats)
        survey->stats = *reply->stats;
}

static void queue_next_step(struct beanstalk_survey *survey)
{
    struct list *surveys = &server_of(survey)->beanstalk.surveys;
    if (list_empty(&survey->place))
        list_add_tail(surveys, &survey->place);
    server_of(survey)->turn_again = true; /* the engine may have answered at a turn's end */
    buffers_changed(&survey->pending->session->pipeline.session);
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct beanstalk_pending *pending =
        LIST_ENTRY(ticket, struct beanstalk_pending, pending.ticket);
    see_topics(pending->survey, reply);
    queue_next_step(pending->survey);
}

static void submit_topics(struct beanstalk_survey *survey)
{
    const struct session *session = &survey->pending->session->pipeline.session;
    struct server *server = session->server;
    struct cmd cmd = {
        .kind = CMD_TOPICS,
        .topic = {.topic = buf_bytes(&survey->after),
                  .max = PAGE_TOPICS,
                  .stats = survey->pending->cmd == BEANSTALK_STATS},
    };
    (void)server_submit(server, &session->principal, &cmd, &survey->pending->pending.ticket);
}

/* ---- a long list ---- */

static void free_it(struct beanstalk_survey *survey, struct discard *discard)
{
    buf_fini(&survey->after);
    discard_buf(discard, &survey->names);
    discard_buf(discard, &survey->answer);
    mem_free(survey);
}

/* On the worker's thread: the names are copied into fresh memory. */
static void write_list(struct work *work)
{
    struct beanstalk_survey *survey = LIST_ENTRY(work, struct beanstalk_survey, offload.work);
    beanstalk_encode_ok(&survey->answer, buf_bytes(&survey->names));
}

static void list_written(struct work *work)
{
    struct beanstalk_survey *survey = LIST_ENTRY(work, struct beanstalk_survey, offload.work);
    struct discard *discard = &survey->offload.server->discard;
    offload_done(&survey->offload);
    survey->in_use = false;
    if (!survey->pending) {
        free_it(survey, discard);
        return;
    }
    struct buf answer = survey->answer;
    survey->answer = (struct buf){0};
    discard_buf(discard, &survey->names); /* here: the answer may wait for older ones */
    pipeline_end_long(&survey->pending->pending, &answer); /* frees the survey, now or later */
    discard_buf(discard, &answer);
}

/* False: the list is short, or there is no worker. */
static bool begin_writing(struct beanstalk_survey *survey)
{
    struct server *server = server_of(survey);
    if (survey->err || survey->names.len <= LONG_NAMES || !server->worker)
        return false;
    survey->in_use = true;
    /* Both texts, although the connection counts the names as well: its client may leave. */
    offload_submit(&survey->offload, server, survey->names.cap + survey->names.len, write_list,
                   list_written);
    return true;
}

/* ---- slices ---- */

/* One slice. The survey is in no list. */
static void step(struct beanstalk_survey *survey)
{
    if (survey->tube_next != UINT32_MAX) {
        see_tubes(survey);
        queue_next_step(survey);
    } else if (!survey->topics_seen) {
        submit_topics(survey);
    } else if (!begin_writing(survey)) {
        beanstalk_answered(survey->pending,
                           &(struct reply){.kind = CMD_TOPICS, .err = survey->err});
    }
}

void beanstalk_survey_begin(struct beanstalk_pending *pending)
{
    struct beanstalk_survey *survey = mem_zalloc(sizeof(*survey));
    survey->pending = pending;
    pending->survey = survey;
    pending->pending.state = PENDING_EXCLUSIVE;
    pending->pending.ticket.answered = answered;
    list_init(&survey->place);
    survey->topics_seen = is_of_watched(survey); /* they are not asked for */
    if (pending->cmd != BEANSTALK_STATS)
        beanstalk_yaml_list(&survey->names);
    queue_next_step(survey);
    (void)beanstalk_surveys_step(server_of(survey)); /* the rest is done in the next turns */
}

bool beanstalk_surveys_step(struct server *server)
{
    struct list *surveys = &server->beanstalk.surveys;
    while (!list_empty(surveys)) {
        struct beanstalk_survey *survey = LIST_ENTRY(surveys->next, struct beanstalk_survey, place);
        list_remove(&survey->place);
        step(survey);
        if (budget_spent(&server->budget))
            break;
    }
    return !list_empty(surveys);
}

void beanstalk_survey_free(struct beanstalk_survey *survey)
{
    if (!survey)
        return;
    struct discard *discard = &server_of(survey)->discard;
    list_remove(&survey->place);
    survey->pending = NULL;
    if (!survey->in_use || offload_withdraw(&survey->offload)) /* else list_written() does it */
        free_it(survey, discard);
}
