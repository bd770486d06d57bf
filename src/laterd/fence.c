#include "laterd/fence.h"

#include <errno.h>

#include "base/list.h"
#include "base/mem.h"

struct fence {
    struct disk disk; /* first, so that the verbs find the rest */
    struct disk *behind;
    const struct member *member;
    uint64_t epoch;
    struct queue refused; // disk_op::place
};

static struct fence *self(struct disk *disk)
{
    return (struct fence *)disk; /* its first member */
}

static bool may_do(const struct fence *fence, const struct disk_op *op)
{
    return op->verb == DISK_READ || fence->member->verbs->holds(fence->member, fence->epoch);
}

static void refuse(struct disk_op *op)
{
    op->err = ERR_IO;
    op->sys_errno = ESTALE;
    op->took_us = 0;
}

static void fence_run(struct disk *disk, struct disk_op *op)
{
    struct fence *fence = self(disk);
    if (may_do(fence, op)) {
        fence->behind->verbs->run(fence->behind, op);
        return;
    }
    refuse(op);
    if (op->done) /* with run() it may be NULL */
        op->done(op);
}

static void fence_submit(struct disk *disk, struct disk_op *op)
{
    struct fence *fence = self(disk);
    if (may_do(fence, op)) {
        fence->behind->verbs->submit(fence->behind, op);
        return;
    }
    refuse(op);
    queue_add(&fence->refused, &op->place);
}

static unsigned fence_poll(struct disk *disk)
{
    struct fence *fence = self(disk);
    unsigned count = fence->behind->verbs->poll(fence->behind);
    for (struct queue_node *node; (node = queue_take(&fence->refused)) != NULL; count++) {
        struct disk_op *op = LIST_ENTRY(node, struct disk_op, place);
        op->done(op);
    }
    return count;
}

static void fence_wait(struct disk *disk)
{
    struct fence *fence = self(disk);
    if (!fence->refused.first)
        fence->behind->verbs->wait(fence->behind);
}

/* ---- passed through ---- */

static enum err fence_lock(struct disk *disk, enum disk_access access)
{
    struct disk *behind = self(disk)->behind;
    return behind->verbs->lock(behind, access);
}

static void fence_unlock(struct disk *disk)
{
    struct disk *behind = self(disk)->behind;
    behind->verbs->unlock(behind);
}

static enum err fence_list(struct disk *disk, void (*each)(void *ctx, const char *name), void *ctx)
{
    struct disk *behind = self(disk)->behind;
    return behind->verbs->list(behind, each, ctx);
}

static enum err fence_open(struct disk *disk, const char *name, enum disk_cache cache,
                           struct disk_file **out_file)
{
    struct disk *behind = self(disk)->behind;
    return behind->verbs->open(behind, name, cache, out_file);
}

static void fence_close(struct disk *disk, struct disk_file *file)
{
    struct disk *behind = self(disk)->behind;
    behind->verbs->close(behind, file);
}

static enum err fence_hold(struct disk *disk, struct disk_file *file)
{
    struct disk *behind = self(disk)->behind;
    return behind->verbs->hold(behind, file);
}

static enum err fence_size(struct disk *disk, struct disk_file *file, uint64_t *out_bytes)
{
    struct disk *behind = self(disk)->behind;
    return behind->verbs->size(behind, file, out_bytes);
}

static enum err fence_read(struct disk *disk, struct disk_file *file, uint64_t offset, void *at,
                           size_t len, size_t *out_len)
{
    struct disk *behind = self(disk)->behind;
    return behind->verbs->read(behind, file, offset, at, len, out_len);
}

static enum err fence_read_cached(struct disk *disk, struct disk_file *file, uint64_t offset,
                                  void *at, size_t len, size_t *out_len)
{
    struct disk *behind = self(disk)->behind;
    return behind->verbs->read_cached(behind, file, offset, at, len, out_len);
}

static bool fence_is_direct(struct disk *disk, const struct disk_file *file)
{
    struct disk *behind = self(disk)->behind;
    return behind->verbs->is_direct(behind, file);
}

static void fence_exact(struct disk *disk, struct disk_file *file)
{
    struct disk *behind = self(disk)->behind;
    behind->verbs->exact(behind, file);
}

static void fence_fetch(struct disk *disk, struct disk_file *file, uint64_t offset, uint64_t len)
{
    struct disk *behind = self(disk)->behind;
    behind->verbs->fetch(behind, file, offset, len);
}

static uint64_t fence_room(struct disk *disk)
{
    struct disk *behind = self(disk)->behind;
    return behind->verbs->room(behind);
}

static const struct disk_verbs verbs = {
    .lock = fence_lock,
    .unlock = fence_unlock,
    .list = fence_list,
    .open = fence_open,
    .close = fence_close,
    .hold = fence_hold,
    .size = fence_size,
    .read = fence_read,
    .read_cached = fence_read_cached,
    .is_direct = fence_is_direct,
    .exact = fence_exact,
    .fetch = fence_fetch,
    .room = fence_room,
    .run = fence_run,
    .submit = fence_submit,
    .poll = fence_poll,
    .wait = fence_wait,
};

struct fence *fence_new(struct disk *behind, const struct member *member, uint64_t epoch)
{
    struct fence *fence = mem_zalloc(sizeof(*fence));
    fence->disk.verbs = &verbs;
    fence->behind = behind;
    fence->member = member;
    fence->epoch = epoch;
    return fence;
}

void fence_free(struct fence *fence)
{
    mem_free(fence);
}

struct disk *fence_port(struct fence *fence)
{
    return &fence->disk;
}
