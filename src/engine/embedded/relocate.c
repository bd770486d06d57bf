/*
 * The store's callbacks to the core during recovery and cleaning: jobs whose records are in a
 * segment that is to be deleted are appended to the log again.
 */
#include "base/log.h"
#include "core/replay.h"
#include "engine/embedded/parts.h"
#include "store/far.h"

enum {
    RELOCATE_BUDGET = 4096,   /* jobs checked in a turn while cleaning a damaged segment */
    TOPICS_BUDGET = 256,      /* topics checked in a turn while cleaning */
    LOG_AGE_US = 1000 * 1000, /* between log lines with the progress of an opening */
};

static enum err replay(struct store_callbacks *callbacks, const struct event *event)
{
    return core_replay(LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core, event);
}

static void replay_prefetch(struct store_callbacks *callbacks, const struct job_ref *ref)
{
    core_prefetch(LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core, ref);
}

static void replay_clock(struct store_callbacks *callbacks, int64_t clock_us)
{
    core_replay_clock(LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core, clock_us);
}

/* Logs the progress every LOG_AGE_US, not every so many bytes, which may take long on a slow disk.
   Nothing is logged in the first LOG_AGE_US. */
static void log_opening(struct embedded *embedded, const struct store_opening *opening,
                        int64_t now_us)
{
    if (embedded->opening.logged_us && now_us >= embedded->opening.logged_us &&
        now_us - embedded->opening.logged_us < LOG_AGE_US)
        return;
    if (embedded->opening.logged_us)
        log_event(LOG_INFO, "recovering", "part=%s done_bytes=%llu of_bytes=%llu",
                  opening->indexes ? "indexes" : "log", (unsigned long long)opening->done_bytes,
                  (unsigned long long)opening->all_bytes);
    embedded->opening.logged_us = now_us;
}

static enum err replay_progress(struct store_callbacks *callbacks,
                                const struct store_opening *opening)
{
    struct embedded *embedded = LIST_ENTRY(callbacks, struct embedded, store_callbacks);
    log_opening(embedded, opening, callbacks->clock_us(callbacks));
    const struct opening_report *to = &embedded->opening;
    return to->report ? to->report(to->owner, opening) : OK;
}

static void replay_finding(struct store_callbacks *callbacks, const char *line)
{
    (void)callbacks;
    log_event(LOG_ERROR, "store_damaged", "text=\"%s\"", line);
}

static void relocate(struct store_callbacks *callbacks, const struct event *event, uint64_t where)
{
    (void)core_relocate(LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core, event,
                        where); /* false: the job has gone or moved, nothing to relocate */
}

static enum changed_verdict relocate_changed(struct store_callbacks *callbacks,
                                             const struct event *event, uint64_t where,
                                             int64_t due_after_us)
{
    return core_relocate_changed(LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core,
                                 event, where, due_after_us);
}

static bool relocate_unread(struct store_callbacks *callbacks, uint64_t first, uint64_t end,
                            uint32_t *cursor)
{
    struct core *core = LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core;
    return core_relocate_unread(core, first, end, cursor, RELOCATE_BUDGET);
}

static bool move_unread(void *store, uint64_t where)
{
    return store_move_unread(store, where);
}

static bool relocate_moves(struct store_callbacks *callbacks, uint32_t *cursor)
{
    struct embedded *embedded = LIST_ENTRY(callbacks, struct embedded, store_callbacks);
    return core_relocate_moves(embedded->core, move_unread, embedded->store, cursor,
                               RELOCATE_BUDGET);
}

static bool relocate_rest(struct store_callbacks *callbacks, uint64_t first, uint64_t end,
                          uint32_t *cursor)
{
    struct core *core = LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core;
    return core_relocate_topics(core, first, end, cursor, TOPICS_BUDGET);
}

static void store_notice(struct store_callbacks *callbacks, enum store_notice notice,
                         const struct store_error *error)
{
    static const struct {
        enum log_level level;
        const char *event;
    } lines[] = {
        [STORE_UNREAD] = {LOG_WARN, "segment_unread"},
        [STORE_DAMAGED] = {LOG_ERROR, "segment_damaged"},
        [STORE_SET_ASIDE] = {LOG_ERROR, "segment_set_aside"},
        [STORE_FAR_WAITS] = {LOG_WARN, "far_jobs_wait"},
        [STORE_FOLLOWER_DROPPED] = {LOG_ERROR, "follower_dropped"},
    };
    (void)callbacks;
    log_event(lines[notice].level, lines[notice].event, "file=%s offset=%llu text=\"%s\"",
              error->file, (unsigned long long)error->offset, error->text);
}

void relocate_callbacks(struct store_callbacks *callbacks)
{
    callbacks->replay = replay;
    callbacks->prefetch = replay_prefetch;
    callbacks->clock = replay_clock;
    callbacks->progress = replay_progress;
    callbacks->finding = replay_finding;
    callbacks->relocate = relocate;
    callbacks->relocate_changed = relocate_changed;
    callbacks->relocate_unread = relocate_unread;
    callbacks->relocate_moves = relocate_moves;
    callbacks->relocate_rest = relocate_rest;
    callbacks->notice = store_notice;
}
