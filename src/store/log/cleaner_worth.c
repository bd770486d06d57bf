/*
 * When the cleaner works: is cleaning the oldest segment worth what it writes?
 */
#include "store/log/cleaner_parts.h"

enum {
    SEGMENTS_LEAST = 4, /* with fewer segments only those without live jobs are cleaned */
    SLACK_SEGMENTS = 2,
    WAIT_TIMES = 8,
    DISTANT_SHARE = 16, /* less than 1/16 of the log, or of a segment, is not worth a round */
    FOLLOWER_BYTES = 1024 * 1024 * 1024,  /* the default of options.follower_bytes */
    CHECKPOINT_BYTES = 256 * 1024 * 1024, /* of options.checkpoint_bytes */
    SHORT_US = 5 * 60 * 1000000,          /* between two rounds for want of memory */
};

/* Bytes of the segments that can be cleaned: all but the last. O(1), because each turn calls it. */
static uint64_t log_bytes(const struct cleaner *cleaner)
{
    return segments_bytes(cleaner->segments) - segments_unused(cleaner->segments);
}

/* What there is in segments that are larger than usual. */
struct large {
    uint64_t bytes, live_bytes, live_jobs, slice_log_bytes;
    uint64_t gain; /* what their files have more than their live records take */
};

/* O(segments), while there are such segments. */
static struct large large_segments(const struct cleaner *cleaner)
{
    struct large large = {0};
    const struct segments *segments = cleaner->segments;
    const struct segment *tail = segments_tail(segments);
    uint64_t usual = cleaner->options->segment_bytes;
    if (segments_copies_max(segments) == 0)
        return large;
    for (const struct segment *at = segments_first(segments); at;
         at = segments_after(segments, at)) {
        if (at->size_bytes <= usual)
            continue;
        uint64_t live = at->live_bytes + at->slice_log_bytes;
        uint64_t kept = live + live / 32 + usual / 4;
        uint64_t bytes = at == tail || at->state == SEGMENT_STALLED ? 0 : at->size_bytes;
        large.bytes += bytes; /* as in log_bytes() */
        large.live_bytes += at->live_bytes;
        large.live_jobs += at->live_jobs;
        large.slice_log_bytes += at->slice_log_bytes;
        large.gain += bytes > kept ? bytes - kept : 0;
    }
    return large;
}

/*
 * An estimate of what cleaning all of the log would free. It assumes that at the end of each
 * segment half a record's length cannot be used. A record that is larger than a segment has a file
 * that fits.
 */
static uint64_t gain_bytes(const struct cleaner *cleaner)
{
    struct large large = large_segments(cleaner);
    uint64_t segment_bytes = cleaner->options->segment_bytes;
    uint64_t live_jobs = segments_live_jobs(cleaner->segments) - large.live_jobs;
    uint64_t live_bytes = segments_live_bytes(cleaner->segments) - large.live_bytes;
    uint64_t record = live_jobs ? live_bytes / live_jobs : 0;
    uint64_t waste = BLOCK + (record < segment_bytes / 2 ? record / 2 : segment_bytes / 4);
    uint64_t slice_log_bytes = segments_slice_log_bytes(cleaner->segments) - large.slice_log_bytes;
    uint64_t live = live_bytes + slice_log_bytes;
    live += live / 32; /* headers, padding */
    uint64_t packed = (live / (segment_bytes - waste) + 1) * segment_bytes;
    uint64_t used = log_bytes(cleaner) - large.bytes;
    return (used > packed ? used - packed : 0) + large.gain;
}

/* Bytes of the records that the log needs: of live jobs, and about slices. */
static uint64_t needed_bytes(const struct cleaner *cleaner)
{
    return segments_live_bytes(cleaner->segments) + segments_slice_log_bytes(cleaner->segments);
}

/* Bytes of the log without such a record: dead records, waste and padding. */
static uint64_t dead_bytes(const struct cleaner *cleaner)
{
    uint64_t used = log_bytes(cleaner) + segments_tail(cleaner->segments)->end;
    uint64_t live_bytes = needed_bytes(cleaner);
    return used > live_bytes ? used - live_bytes : 0;
}

/* Bytes that relocating a segment's needed records takes: a batch for each turn and for each
   BATCH_FULL, all padded. */
static uint64_t relocate_bytes(const struct segment *segment)
{
    uint64_t live_bytes = segment->live_bytes + segment->slice_log_bytes;
    uint64_t batches = segment->size_bytes / CLEANER_TURN_BYTES + 2 * (live_bytes / BATCH_FULL);
    return batch_bytes(live_bytes) + batches * BLOCK;
}

/*
 * Is so little room left that the oldest segment should be cleaned while it can be? *out_lack: how
 * large one more file must be for that; 0: none is needed. The copies of a large segment get files
 * for which room is kept, and ends of jobs need another one behind them.
 */
static bool is_low(const struct cleaner *cleaner, const struct segment *oldest, uint64_t *out_lack)
{
    const struct segments *segments = cleaner->segments;
    uint64_t segment_bytes = cleaner->options->segment_bytes;
    uint64_t slack = segment_bytes / 4 + 4 * BLOCK; /* for ends while the cleaner is at work */
    uint64_t need = relocate_bytes(oldest), record_max = oldest->record_max;
    if (segments_copies(segments, oldest) > 0) {
        uint64_t room = segments_spare_room(segments);
        *out_lack = room < slack ? slack + 2 * BLOCK : 0;
        return room < segment_bytes + slack;
    }
    bool low = segments_lack(segments, need + slack, record_max) > 0;
    *out_lack = low ? segments_lack(segments, need, record_max) : 0;
    return low;
}

/*
 * On a full disk: will cleaning free enough, and is there room to write the copies? Dead records
 * may be in the middle of the log, so a round over all of it may be needed. After a round the next
 * one waits until more records have died.
 *
 * Records of jobs that end use up the room that cleaning needs for copies. As long as the live jobs
 * of one segment fit into the room that is left, the room of all dead records can still be freed;
 * after that nothing can. So when the room is nearly down to what the copies of the oldest segment
 * take, that segment is cleaned even for a small gain.
 */
static bool worth_it_full(struct cleaner *cleaner, const struct segment *oldest)
{
    uint64_t segment_bytes = cleaner->options->segment_bytes;
    uint64_t lack;
    bool low = is_low(cleaner, oldest, &lack);
    uint64_t step = low ? segment_bytes / 8 : segment_bytes / 2;
    uint64_t dead = dead_bytes(cleaner);
    segments_cleaner_wants(cleaner->segments, lack);
    if (lack || (!low && gain_bytes(cleaner) < step))
        return false;
    if (oldest->batch_first >= cleaner->pace.round_end) {
        if (!cleaner->pace.round_over && cleaner->pace.round_end) {
            cleaner->pace.round_over = true;
            cleaner->pace.round_dead = dead;
        }
        if (cleaner->pace.round_over && dead < cleaner->pace.round_dead + step)
            return false;
        cleaner->pace.round_over = false;
        cleaner->pace.round_end = log_batch(cleaner->log) + 1;
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

bool cleaner_may_want_checkpoint(const struct cleaner *cleaner, uint64_t room)
{
    uint64_t max_bytes = cleaner->options->max_bytes;
    return cleaner->options->horizon_us > 0 &&
           (max_bytes == 0 || max_bytes > checkpoint_limit(cleaner) + room);
}

bool cleaner_is_behind(const struct cleaner *cleaner)
{
    return cleaner_wants_checkpoint(cleaner) &&
           log_bytes(cleaner) > checkpoint_limit(cleaner) + checkpoint_limit(cleaner) / 4;
}

/*
 * While memory is short pushes are refused, so no new records begin a round. But jobs that the last
 * one has left in the log, because they were due soon, may be ready now, and could leave memory.
 */
static bool wants_memory(const struct cleaner *cleaner)
{
    struct store_callbacks *callbacks = cleaner->store->callbacks;
    return cleaner->store->now_us >= cleaner->pace.short_us && callbacks->memory_left &&
           callbacks->memory_left(callbacks) == 0;
}

/*
 * Far jobs should leave the log in an idle store as well: slowly, in one round. A job that stayed
 * in the log was not far, and its due time only comes nearer: another round at once would find no
 * more. So the next round begins when the records appended since the begin of this one are half as
 * large as the log, or when memory is short.
 */
static bool in_idle_round(const struct cleaner *cleaner, const struct segment *oldest)
{
    return oldest->batch_first <= cleaner->pace.idle_end ||
           log_new_bytes(cleaner->log) >= cleaner->pace.idle_bytes || wants_memory(cleaner);
}

/*
 * After opening: the first round begins at once only if many jobs could leave the log. Otherwise
 * each start would copy the jobs that are due soon once more.
 */
static void begin_rounds(struct cleaner *cleaner)
{
    if (cleaner->pace.opened)
        return;
    cleaner->pace.opened = true;
    if (cleaner->store->distant_bytes < log_bytes(cleaner) / DISTANT_SHARE)
        cleaner->pace.idle_bytes = log_new_bytes(cleaner->log) + log_bytes(cleaner) / 2;
}

/*
 * If few jobs leave for many that are copied, most are due soon and will end in the log. Then
 * rounds are less frequent, so that they write a fraction of what clients write.
 */
uint64_t cleaner_wait_times(const struct cleaner *cleaner, uint64_t copied_bytes,
                            uint64_t departed_bytes)
{
    bool few = departed_bytes < copied_bytes / DISTANT_SHARE;
    return few && cleaner_wants_checkpoint(cleaner) ? WAIT_TIMES : 1;
}

/*
 * Should the segment be cleaned to move far jobs out of the log? Each cleaning copies records, so
 * the rate is limited: by the rate of new bytes, or in an idle store by time.
 */
static bool worth_a_checkpoint(struct cleaner *cleaner, const struct segment *oldest)
{
    if (!cleaner_wants_checkpoint(cleaner))
        return false;
    begin_rounds(cleaner);
    if (log_bytes_written(cleaner->log) >= cleaner->pace.checkpoint_from)
        return true;
    if (cleaner->store->now_us < cleaner->pace.idle_us || !in_idle_round(cleaner, oldest))
        return false;
    if (oldest->batch_first > cleaner->pace.idle_end) {
        uint64_t times = cleaner->pace.wait_times ? cleaner->pace.wait_times : 1;
        cleaner->pace.idle_end = log_batch(cleaner->log);
        cleaner->pace.short_us = cleaner->store->now_us + SHORT_US;
        cleaner->pace.idle_bytes = log_new_bytes(cleaner->log) + log_bytes(cleaner) / 2 * times;
    }
    return true;
}

int64_t cleaner_idle_next_us(const struct cleaner *cleaner)
{
    const struct segment *oldest = segments_first(cleaner->segments);
    const struct segment *next = oldest ? segments_after(cleaner->segments, oldest) : NULL;
    bool wants = next && next->state == SEGMENT_HEADED && !cleaner->store->failed &&
                 cleaner_wants_checkpoint(cleaner) && in_idle_round(cleaner, oldest);
    return wants ? cleaner->pace.idle_us : INT64_MAX;
}

bool cleaner_worth_it(struct cleaner *cleaner, const struct segment *oldest)
{
    uint64_t segment_bytes = cleaner->options->segment_bytes;
    if (cleaner->options->never_cleans)
        return false;
    if (oldest->live_jobs == 0 && oldest->slice_log_bytes < oldest->size_bytes / 2)
        return true;
    if (!segments_copies_fit(cleaner->segments, oldest))
        return false; /* the log would wait for a file that cannot be made */
    if (segments_full(cleaner->segments))
        return worth_it_full(cleaner, oldest);
    if (segments_copies_max(cleaner->segments) > 0)
        cleaner->pace.round_end = 0; /* one that brought room was worth it, though it copied much */
    cleaner->pace.round_over = cleaner->pace.round_over && cleaner->pace.round_end > 0;
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
