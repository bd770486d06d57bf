/* store_idle_callbacks: callbacks that do nothing. */
#include "store/store.h"

static enum err replay(struct store_callbacks *callbacks, const struct event *event)
{
    (void)callbacks;
    (void)event;
    return OK;
}

static enum err progress(struct store_callbacks *callbacks, const struct store_opening *opening)
{
    (void)callbacks;
    (void)opening;
    return OK;
}

static void finding(struct store_callbacks *callbacks, const char *line)
{
    (void)callbacks;
    (void)line;
}

static void batch_done(struct store_callbacks *callbacks, uint64_t batch)
{
    (void)callbacks;
    (void)batch;
}

static void failed(struct store_callbacks *callbacks, int sys_errno)
{
    (void)callbacks;
    (void)sys_errno;
}

static void relocate(struct store_callbacks *callbacks, const struct event *event, uint64_t where)
{
    (void)callbacks;
    (void)event;
    (void)where;
}

static bool relocate_range(struct store_callbacks *callbacks, uint64_t first, uint64_t end,
                           uint32_t *cursor)
{
    (void)callbacks;
    (void)first;
    (void)end;
    (void)cursor;
    return false;
}

static void notice(struct store_callbacks *callbacks, enum store_notice what,
                   const struct store_error *error)
{
    (void)callbacks;
    (void)what;
    (void)error;
}

const struct store_callbacks store_idle_callbacks = {
    .replay = replay,
    .progress = progress,
    .finding = finding,
    .durable = batch_done,
    .synced = batch_done,
    .failed = failed,
    .relocate = relocate,
    .relocate_unread = relocate_range,
    .relocate_rest = relocate_range,
    .notice = notice,
};
