/*
 * When the cleaner works: is cleaning the oldest segment worth what it writes?
 */
#include "store/log/cleaner_parts.h"

enum {
    SEGMENTS_LEAST = 4, /* below so many nothing is cleaned, unless wholly dead */
    SLACK_SEGMENTS = 2,
    WAIT_TIMES = 8,
    DISTANT_SHARE = 16, /* less than so much of the log, or of a segment, is not worth a round */
    FOLLOWER_BYTES = 1024 * 1024 * 1024,  /* if options do not say */
    CHECKPOINT_BYTES = 256 * 1024 * 1024, /* the same */
};

/* Bytes of the segments that can be cleaned: all but the last. Asked each turn: no walk. */
static uint64_t log_bytes(const struct cleaner *cleaner)
{
    return segments_bytes(cleaner->segments) - segments_unused(cleaner->segments);
}

/*
 * What cleaning all of the log would free, as far as can be told: it is packed as tight as it gets
 * when every segment ends with half a record's worth of waste.
 */
static uint64_t gain_bytes(const struct cleaner *cleaner)
{
    uint64_t segment_bytes = cleaner->options->segment_bytes;
    uint64_t live_jobs = segments_live_jobs(cleaner->segments);
    uint64_t live_bytes = segments_live_bytes(cleaner->segments);
    uint64_t record = live_jobs ? live_bytes / live_jobs : 0;
    uint64_t waste = BLOCK + (record < segment_bytes / 2 ? record / 2 : segment_bytes / 4);
    uint64_t told_bytes = segments_told_bytes(cleaner->segments);
    uint64_t live = live_bytes + told_bytes;
    live += live / 32; /* headers, padding */
    uint64_t packed = (live / (segment_bytes - waste) + 1) * segment_bytes;
    uint64_t used = log_bytes(cleaner);
    return used > packed ? used - packed : 0;
}

/* Of records that must be in the log: of live jobs, and of what is so of slices. */
static uint64_t needed_bytes(const struct cleaner *cleaner)
{
    return segments_live_bytes(cleaner->segments) + segments_told_bytes(cleaner->segments);
}

/* Bytes of the log that hold no such record: what has died, waste and padding. */
static uint64_t dead_bytes(const struct cleaner *cleaner)
{
    uint64_t used = log_bytes(cleaner) + segments_tail(cleaner->segments)->end;
    uint64_t live_bytes = needed_bytes(cleaner);
    return used > live_bytes ? used - live_bytes : 0;
}

/* What relocating what is needed of a segment takes: a batch for each turn or full batch, all
   padded. */
static uint64_t relocate_bytes(const struct segment *segment)
{
    uint64_t live_bytes = segment->live_bytes + segment->told_bytes;
    uint64_t batches = segment->size_bytes / CLEANER_TURN_BYTES + 2 * (live_bytes / BATCH_FULL);
    return batch_bytes(live_bytes) + batches * BLOCK;
}

/*
 * On a full disk: is there something to gain, and room to gain it? Going round the whole log may be
 * needed to get at it, because the dead may lie in the middle. If a round is over, the next one
 * waits until more has died.
 *
 * Ends eat the room that cleaning needs. So when there is hardly more of it than the oldest segment
 * takes, that one is cleaned for the little that it gives: while a segment's live jobs fit into
 * what is left, the room of all that dies will come back.
 */
static bool worth_it_full(struct cleaner *cleaner, const struct segment *oldest)
{
    uint64_t segment_bytes = cleaner->options->segment_bytes;
    uint64_t need = relocate_bytes(oldest);
    uint64_t slack = segment_bytes / 4 + 4 * BLOCK; /* for ends while the cleaner is at work */
    bool low = segments_lack(cleaner->segments, need + slack, oldest->record_max) > 0;
    uint64_t lack = low ? segments_lack(cleaner->segments, need, oldest->record_max) : 0;
    uint64_t step = low ? segment_bytes / 8 : segment_bytes / 2;
    uint64_t dead = dead_bytes(cleaner);
    segments_cleaner_wants(cleaner->segments, lack);
    if (lack || (!low && gain_bytes(cleaner) < step))
        return false;
    if (oldest->batch_first >= cleaner->round_end) {
        if (!cleaner->round_over && cleaner->round_end) {
            cleaner->round_over = true;
            cleaner->round_dead = dead;
        }
        if (cleaner->round_over && dead < cleaner->round_dead + step)
            return false;
        cleaner->round_over = false;
        cleaner->round_end = log_batch(cleaner->log) + 1;
    }
    return true;
}

uint64_t cleaner_bytes_appended(const struct cleaner *cleaner)
{
    const struct segment *tail = segments_tail(cleaner->segments);
    return log_bytes_written(cleaner->log) + log_backlog_bytes(cleaner->log) +
           log_open_bytes(cleaner->log, tail);
}

static uint64_t checkpoint_limit(const struct cleaner *cleaner)
{
    uint64_t bytes = cleaner->options->checkpoint_bytes;
    return bytes ? bytes : CHECKPOINT_BYTES;
}

bool cleaner_wants_checkpoint(const struct cleaner *cleaner)
{
    return cleaner->options->horizon_us > 0 && cleaner->store->callbacks->spill &&
           log_bytes(cleaner) > checkpoint_limit(cleaner) && !segments_full(cleaner->segments);
}

bool cleaner_is_behind(const struct cleaner *cleaner)
{
    return cleaner_wants_checkpoint(cleaner) &&
           log_bytes(cleaner) > checkpoint_limit(cleaner) + checkpoint_limit(cleaner) / 4;
}

/*
 * Far jobs are to leave the log when nothing more is written, too: slowly, and once. A job that a
 * round has left in the log does not become far later, so the next round comes when half as much
 * that is new has come since this one began.
 */
static bool in_idle_round(const struct cleaner *cleaner, const struct segment *oldest)
{
    return oldest->batch_first <= cleaner->idle_end ||
           log_new_bytes(cleaner->log) >= cleaner->idle_bytes;
}

/*
 * After opening: were the log gone through in any case, what is near would be written once more at
 * each start. So a first round comes at once only if many jobs of the log could leave it.
 */
static void begin_rounds(struct cleaner *cleaner)
{
    if (cleaner->opened)
        return;
    cleaner->opened = true;
    if (cleaner->store->distant_bytes < log_bytes(cleaner) / DISTANT_SHARE)
        cleaner->idle_bytes = log_new_bytes(cleaner->log) + log_bytes(cleaner) / 2;
}

/*
 * Where hardly a job leaves for many that are written again, those are near: they will end where
 * they are. So it is done more seldom, and what it writes is a fraction of what comes.
 */
uint64_t cleaner_wait_times(const struct cleaner *cleaner, uint64_t copied_bytes,
                            uint64_t departed_bytes)
{
    bool few = departed_bytes < copied_bytes / DISTANT_SHARE;
    return few && cleaner_wants_checkpoint(cleaner) ? WAIT_TIMES : 1;
}

/*
 * What is relocated at such a cleaning is written once more: so it goes no faster than new bytes
 * come, or than time passes.
 */
static bool worth_a_checkpoint(struct cleaner *cleaner, const struct segment *oldest)
{
    if (!cleaner_wants_checkpoint(cleaner))
        return false;
    begin_rounds(cleaner);
    if (log_bytes_written(cleaner->log) >= cleaner->checkpoint_from)
        return true;
    if (cleaner->store->now_us < cleaner->idle_us || !in_idle_round(cleaner, oldest))
        return false;
    if (oldest->batch_first > cleaner->idle_end) {
        uint64_t times = cleaner->wait_times ? cleaner->wait_times : 1;
        cleaner->idle_end = log_batch(cleaner->log);
        cleaner->idle_bytes = log_new_bytes(cleaner->log) + log_bytes(cleaner) / 2 * times;
    }
    return true;
}

int64_t cleaner_idle_next_us(const struct cleaner *cleaner)
{
    const struct segment *oldest = segments_first(cleaner->segments);
    const struct segment *next = oldest ? segments_after(cleaner->segments, oldest) : NULL;
    bool wants = next && next->state == SEGMENT_HEADED && !cleaner->store->failed &&
                 cleaner_wants_checkpoint(cleaner) && in_idle_round(cleaner, oldest);
    return wants ? cleaner->idle_us : INT64_MAX;
}

bool cleaner_worth_it(struct cleaner *cleaner, const struct segment *oldest)
{
    uint64_t segment_bytes = cleaner->options->segment_bytes;
    if (cleaner->options->never_cleans)
        return false;
    if (oldest->live_jobs == 0 && oldest->told_bytes < oldest->size_bytes / 2)
        return true;
    if (segments_full(cleaner->segments))
        return worth_it_full(cleaner, oldest);
    uint64_t used = log_bytes(cleaner) + segment_bytes;
    if (worth_a_checkpoint(cleaner, oldest))
        return true;
    return used > SEGMENTS_LEAST * segment_bytes &&
           used > 2 * needed_bytes(cleaner) + SLACK_SEGMENTS * segment_bytes;
}

bool cleaner_let_go(struct cleaner *cleaner, uint64_t batch)
{
    struct followers *followers = cleaner->store->followers;
    uint64_t limit = cleaner->options->follower_bytes;
    if (!followers_need(followers, batch))
        return true;
    if (!segments_full(cleaner->segments) && log_bytes(cleaner) <= (limit ? limit : FOLLOWER_BYTES))
        return false;
    followers_drop(followers, batch);
    return true;
}
