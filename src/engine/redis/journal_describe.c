/* The health of the journal of a queue in Redis, as this daemon sees it: for GET /v1/journal and
 * /metrics. */
#include <stdio.h>

#include "engine/redis/journal_feed.h"

static int64_t now_of(const struct redis_journal_feed *feed)
{
    return feed->options.loop->now_us;
}

/* ---- the lag ---- */

/* The time, by our clock, of the oldest change that MySQL lacks; 0: it has all. */
static int64_t oldest_lacking_us(const struct redis_journal_feed *feed)
{
    int64_t oldest_us = feed->joined ? feed->status.oldest_us : 0;
    for (uint32_t i = 0; !feed->joined && i < feed->options.space->partitions; i++) {
        const struct feed_stream *stream = &feed->streams[i];
        if (!feed_stream_has_reported(stream) || !stream->first_us)
            continue;
        if (!oldest_us || stream->first_us < oldest_us)
            oldest_us = stream->first_us;
    }
    return oldest_us;
}

int64_t redis_journal_lag_us(const struct redis_journal_feed *feed)
{
    int64_t oldest_us = oldest_lacking_us(feed), now_us = now_of(feed);
    return oldest_us && now_us > oldest_us ? now_us - oldest_us : 0;
}

static void look_at_partition(const struct redis_journal_feed *feed, uint32_t partition,
                              struct journal_partition *out_partition)
{
    const struct feed_stream *stream = &feed->streams[partition];
    uint64_t lacks = stream->last > stream->committed ? stream->last - stream->committed : 0;
    *out_partition = (struct journal_partition){
        .entry = feed->joined ? stream->committed : 0,
        .knows_lag = feed_stream_has_reported(stream),
        .refuses_pushes = feed_stream_refuses(stream),
    };
    if (!out_partition->knows_lag)
        return;
    out_partition->lag_entries = feed->joined ? lacks : stream->waiting;
    out_partition->lag_bytes = stream->waiting_bytes;
}

/* Sums the lag of the partitions that have reported it: a lower bound while others have not. If the
 * sum is 0 and some have not reported, the lag is unknown. */
static void look_at_lag(const struct redis_journal_feed *feed, struct journal_health *health)
{
    bool all = true;
    for (uint32_t i = 0; i < health->partitions; i++) {
        struct journal_partition partition;
        look_at_partition(feed, i, &partition);
        all = all && partition.knows_lag;
        health->lag_entries += partition.lag_entries;
        health->lag_bytes += partition.lag_bytes;
    }
    health->knows_lag = all || health->lag_entries;
    if (health->knows_lag)
        health->lag_us = redis_journal_lag_us(feed);
    else
        health->lag_bytes = 0;
}

/* ---- how it is ---- */

static enum journal_state state_of(const struct redis_journal_feed *feed)
{
    if (feed->journal && feed->broken)
        return JOURNAL_STATE_OUT_OF_STEP;
    if (feed->journal && feed->status.phase == JOURNAL_FENCED)
        return JOURNAL_STATE_FENCED;
    if (feed->journal && feed->status.phase == JOURNAL_WRITES)
        return JOURNAL_STATE_WRITES;
    return feed->journal || !feed->leader[0] ? JOURNAL_STATE_WAITS : JOURNAL_STATE_ELSEWHERE;
}

void redis_journal_note_state(struct redis_journal_feed *feed)
{
    enum journal_state state = state_of(feed);
    if (feed->state == state && feed->state_us)
        return;
    feed->state = state;
    feed->state_us = now_of(feed);
}

static const char *error_of(const struct redis_journal_feed *feed, enum journal_state state)
{
    if (state == JOURNAL_STATE_WRITES || state == JOURNAL_STATE_ELSEWHERE)
        return "";
    if (feed->journal)
        return feed->status.why;
    return redis_journal_leads(feed) ? "the journal cannot be opened"
                                     : "no daemon is known to have the lease of the journal";
}

static const char *hint_of(const struct redis_journal_feed *feed, enum journal_state state)
{
    switch (state) {
    case JOURNAL_STATE_OUT_OF_STEP:
        return "to bring it to what the queue holds: later journal resync; if Redis has lost jobs "
               "that MySQL has, see docs/journal.md first";
    case JOURNAL_STATE_FENCED: return "it takes the cursor again by itself";
    case JOURNAL_STATE_ELSEWHERE: return "ask the daemon that writes it";
    case JOURNAL_STATE_WAITS:
        if (feed->journal)
            return feed->status.advice;
        return redis_journal_leads(feed) ? "the log says why: journal_not_opened"
                                         : "it is given within seconds, once Redis answers";
    case JOURNAL_STATE_WRITES: break;
    }
    return "";
}

static void look_at_health(const struct redis_journal_feed *feed, struct journal_health *out_health)
{
    enum journal_state state = state_of(feed);
    *out_health = (struct journal_health){
        .state = state,
        .since_us = feed->state_us ? feed->state_us : now_of(feed),
        .partitions = feed->journal ? feed->options.space->partitions : 0,
    };
    (void)snprintf(out_health->error, sizeof(out_health->error), "%s", error_of(feed, state));
    (void)snprintf(out_health->hint, sizeof(out_health->hint), "%s", hint_of(feed, state));
    if (state == JOURNAL_STATE_ELSEWHERE)
        (void)snprintf(out_health->writer, sizeof(out_health->writer), "%s", feed->leader);
    if (!feed->journal)
        return;
    out_health->refuses_pushes = feed->refuses;
    out_health->knows_cursor = feed->status.known;
    out_health->cursor = feed->status.done;
    out_health->epoch = feed->status.epoch;
    out_health->rejected = feed->status.rejected;
    look_at_lag(feed, out_health);
}

void redis_journal_describe(const struct redis_journal_feed *feed, struct metric_sink *sink)
{
    if (!feed->streams)
        return;
    if (sink->metric)
        metric_gauge(sink, "journal_leads", "1 on the daemon that writes the journal.",
                     feed->journal != NULL);
    if (sink->metric && feed->journal) {
        struct journal_health health;
        look_at_health(feed, &health);
        journal_health_describe(&health, sink);
    }
    journal_describe(&feed->status, sink);
    redis_resync_describe(feed->resync, sink);
    if (sink->warning && feed->broken)
        sink->warning(sink, "journal out of step", 1);
}

/* ---- journal_control_verbs ---- */

static struct redis_journal_feed *of_control(const struct journal_control *control)
{
    return LIST_ENTRY((struct journal_control *)control, struct redis_journal_feed, control);
}

static enum err control_resync(struct journal_control *control, const char **out_why)
{
    return redis_resync_begin(of_control(control)->resync, out_why);
}

static void control_resync_status(const struct journal_control *control,
                                  struct resync_status *out_status)
{
    redis_resync_status(of_control(control)->resync, out_status);
}

static void control_health(const struct journal_control *control, struct journal_health *out_health)
{
    look_at_health(of_control(control), out_health);
}

static void control_partition(const struct journal_control *control, uint32_t partition,
                              struct journal_partition *out_partition)
{
    look_at_partition(of_control(control), partition, out_partition);
}

static const struct journal_control_verbs control_verbs = {
    .resync = control_resync,
    .resync_status = control_resync_status,
    .health = control_health,
    .partition = control_partition,
};

struct journal_control *redis_journal_control(struct redis_journal_feed *feed)
{
    feed->control.verbs = &control_verbs;
    return feed->resync ? &feed->control : NULL;
}
