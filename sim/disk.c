/*
 * The simulated disk: the operations, the queues and the port. Each operation is a sequence of
 * primitives, and power may be cut between any two of them.
 */
#include "sim/disk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/disk_parts.h"

static struct sim_disk *of_port(struct disk *disk)
{
    return (struct sim_disk *)disk; /* its first member */
}

/* Counts one primitive. Returns 0, or the errno with which it fails. */
static int point(struct sim_disk *disk)
{
    uint64_t number = disk->points++;
    if (number >= disk->cut_at)
        disk->cut = true;
    if (disk->cut)
        return EIO;
    return number == disk->fail_at ? disk->fail_errno : 0;
}
/* ---- operations: each returns 0 or an errno ---- */

uint64_t sim_disk_used(const struct sim_disk *disk)
{
    uint64_t used = 0;
    for (unsigned i = 0; i < disk->now.count; i++)
        used += disk->now.of[i].node->cache.len;
    return used;
}

uint64_t sim_disk_zeros(const struct sim_disk *disk)
{
    return disk->zeros_bytes;
}

void sim_disk_takes(struct sim_disk *disk, int64_t us)
{
    disk->takes_us = us;
}

uint64_t sim_disk_removed_open(const struct sim_disk *disk)
{
    return disk->removed_open;
}

/* 0: it may be written. */
static int admit_write(struct sim_disk *disk, const struct node *node,
                       const struct disk_bytes *bytes)
{
    uint64_t end = bytes->offset + bytes->len + bytes->zeros;
    uint64_t more = end > node->cache.len ? end - node->cache.len : 0;
    int failed = point(disk);
    if (failed)
        return failed;
    bool full = disk->capacity && more > 0 && sim_disk_used(disk) + more > disk->capacity;
    return full ? ENOSPC : 0;
}

static int do_write(struct sim_disk *disk, struct node *node, const struct disk_bytes *bytes)
{
    int failed = admit_write(disk, node, bytes);
    if (failed)
        return failed;
    node_show(node, bytes);
    node_keep(node, bytes);
    return 0;
}

static int do_sync(struct sim_disk *disk, struct node *node)
{
    int failed = point(disk);
    if (!failed)
        node_sync(node);
    else if (!disk->cut)
        node_lose(node);
    return failed;
}

static int do_sync_names(struct sim_disk *disk)
{
    int failed = point(disk);
    if (!failed)
        sim_disk_sync_names(disk);
    return failed;
}

static int do_name(struct sim_disk *disk, const char *name, struct node *node)
{
    int failed = point(disk);
    if (failed)
        return failed;
    sim_disk_set_name(disk, name, node);
    sim_disk_remember_names(disk);
    return 0;
}

/* Makes only this write durable, as O_DSYNC does, not earlier ones of the file. */
static int write_sync(struct sim_disk *disk, const struct disk_op *op)
{
    struct node *node = op->file->node;
    const struct disk_bytes bytes = {
        .offset = op->offset, .data = op->data, .len = op->len, .zeros = op->zeros};
    int failed = admit_write(disk, node, &bytes);
    if (failed)
        return failed;
    disk->zeros_bytes += op->zeros;
    node_show(node, &bytes);
    failed = point(disk);
    if (failed && disk->cut) {
        node_keep(node, &bytes);
        return failed;
    }
    if (!failed) {
        node_sync_range(node, op->offset, op->len);
        content_write(&node->synced, op->offset, op->data, op->len);
        return 0;
    }
    node_device_lost(node); /* it has not this write, which the cache still shows */
    for (const struct unsynced *write = node->first; write; write = write->next)
        content_apply(&node->device, write);
    return failed;
}

static struct disk_file *file_new(struct sim_disk *disk, struct node *node, bool fresh)
{
    struct disk_file *file = mem_alloc(sizeof(*file));
    *file = (struct disk_file){.node = node, .fresh = fresh};
    node->handles++;
    disk->files_open++;
    return file;
}

static void close_file(struct sim_disk *disk, struct disk_file *file)
{
    file->node->handles--;
    file->node->holders -= file->holds;
    disk->files_open--;
    mem_free(file);
    sim_disk_collect(disk);
}

static int make_file(struct sim_disk *disk, struct disk_op *op)
{
    if (disk->starved)
        return EMFILE;
    struct node *node = node_new(disk);
    int failed = do_name(disk, op->name, node);
    if (!failed) {
        failed = do_write(disk, node, &(struct disk_bytes){.zeros = op->len});
        disk->zeros_bytes += op->reserve ? 0 : op->len;
    }
    if (!failed)
        failed = do_sync(disk, node);
    if (!failed)
        failed = do_sync_names(disk);
    if (failed) {
        if (!disk->cut && sim_disk_find(disk, op->name) == node) {
            sim_disk_set_name(disk, op->name, NULL);
            sim_disk_remember_names(disk);
        }
        return failed;
    }
    op->file = file_new(disk, node, false);
    return 0;
}

struct sim_pieces {
    struct disk_pieces pieces;
    struct sim_disk *disk;
    struct node *node;
    int failed;
};

static void put_piece(struct disk_pieces *pieces, const void *data, size_t len, uint64_t offset)
{
    struct sim_pieces *to = (struct sim_pieces *)pieces; /* its first member */
    if (!to->failed)
        to->failed = do_write(to->disk, to->node,
                              &(struct disk_bytes){.offset = offset, .data = data, .len = len});
}

static int write_given(struct sim_disk *disk, struct node *node, struct disk_op *op)
{
    if (!op->give)
        return do_write(disk, node, &(struct disk_bytes){.data = op->data, .len = op->len});
    struct sim_pieces to = {.pieces.put = put_piece, .disk = disk, .node = node};
    op->give(op, &to.pieces);
    return to.failed;
}

static int replace_file(struct sim_disk *disk, struct disk_op *op)
{
    char name[DISK_NAME_MAX];
    if (disk->starved)
        return EMFILE;
    (void)snprintf(name, sizeof(name), "%.50s.tmp", op->name); /* names are short */
    struct node *node = node_new(disk);
    int failed = do_name(disk, name, node);
    if (!failed)
        failed = write_given(disk, node, op);
    if (!failed)
        failed = do_sync(disk, node);
    if (!failed)
        failed = point(disk);
    if (!failed) { /* the rename is one step */
        sim_disk_set_name(disk, name, NULL);
        sim_disk_set_name(disk, op->name, node);
        sim_disk_remember_names(disk);
        return do_sync_names(disk);
    }
    if (!disk->cut && sim_disk_find(disk, name) == node) {
        sim_disk_set_name(disk, name, NULL);
        sim_disk_remember_names(disk);
    }
    return failed;
}

static int remove_file(struct sim_disk *disk, const struct disk_op *op)
{
    const struct node *node = sim_disk_find(disk, op->name);
    disk->removed_open += node && node->handles > 0;
    int failed = sim_disk_find(disk, op->name) ? do_name(disk, op->name, NULL) : point(disk);
    return failed ? failed : do_sync_names(disk);
}

static int rename_file(struct sim_disk *disk, const struct disk_op *op)
{
    struct node *node = sim_disk_find(disk, op->name);
    int failed = point(disk);
    if (failed || !node)
        return failed ? failed : ENOENT;
    sim_disk_set_name(disk, op->name, NULL);
    sim_disk_set_name(disk, op->data, node);
    sim_disk_remember_names(disk);
    return do_sync_names(disk);
}

/* Writes and syncs the header, renames, syncs the name: power may be cut before each of the four.
 */
static int reuse_file(struct sim_disk *disk, struct disk_op *op)
{
    struct node *node = sim_disk_find(disk, op->name);
    if (!node || node->holders > 0 || disk->starved)
        return remove_file(disk, op);
    struct disk_file *file = file_new(disk, node, false);
    struct disk_op head = {.file = file, .data = op->data, .len = op->len};
    int failed = write_sync(disk, &head);
    if (!failed)
        failed = point(disk);
    if (!failed) {
        sim_disk_set_name(disk, op->name, NULL);
        sim_disk_set_name(disk, op->to_name, node);
        sim_disk_remember_names(disk);
        failed = do_sync_names(disk);
    }
    if (!failed) {
        op->file = file;
        return 0;
    }
    close_file(disk, file);
    bool full = failed == ENOSPC && sim_disk_find(disk, op->name) == node;
    return full ? remove_file(disk, op) : failed;
}

static enum err err_of_errno(int number)
{
    return number == 0                            ? OK
           : number == ENOSPC                     ? ERR_DISK_FULL
           : number == EMFILE || number == ENFILE ? ERR_AGAIN
                                                  : ERR_IO;
}

static enum err disk_open(struct disk *port, const char *name, enum disk_cache cache,
                          struct disk_file **out_file)
{
    struct sim_disk *disk = of_port(port);
    int failed = disk->starved ? EMFILE : point(disk);
    if (failed)
        return err_of_errno(failed);
    struct node *node = sim_disk_find(disk, name);
    if (!node)
        return ERR_NOT_FOUND;
    *out_file = file_new(disk, node, cache == DISK_FRESH);
    return OK;
}

static enum err read_file(struct sim_disk *disk, const struct disk_file *file, uint64_t offset,
                          void *at, size_t len, size_t *out_len)
{
    CHECK(file);
    if (point(disk))
        return ERR_IO;
    bool bad = disk->bad_name[0] && sim_disk_find(disk, disk->bad_name) == file->node;
    if (bad && offset < disk->bad_end && offset + len > disk->bad_start)
        return ERR_IO;
    file->node->loose_reads += !file->fresh && !file->exact;
    const struct content *content = file->fresh ? node_device(file->node) : &file->node->cache;
    size_t have = offset < content->len ? (size_t)(content->len - offset) : 0;
    *out_len = have < len ? have : len;
    content_read(content, offset, at, *out_len);
    return OK;
}

static enum err read_op(struct sim_disk *disk, struct disk_op *op)
{
    bool opens = !op->file;
    enum disk_cache cache = op->fresh ? DISK_FRESH : DISK_CACHED;
    enum err err = opens ? disk_open(&disk->port, op->name, cache, &op->file) : OK;
    if (!err && opens)
        op->file->exact = op->exact;
    disk->fetched_bytes += err ? 0 : op->ahead;
    if (err)
        return err;
    struct disk_file file = *op->file;
    bool direct = op->direct && disk->direct;
    file.fresh = file.fresh || direct;
    disk->direct_reads += direct;
    return read_file(disk, &file, op->offset, op->into, op->len, &op->got);
}

static void perform(struct sim_disk *disk, struct disk_op *op)
{
    int failed = 0;
    enum err err = OK;
    CHECK((op->verb == DISK_READ) == (op->lane == LANE_READ));
    if (op->prepare)
        op->prepare(op);
    switch (op->verb) {
    case DISK_WRITE_SYNC:
        CHECK((uintptr_t)op->data % DISK_ALIGN == 0 && op->len % DISK_ALIGN == 0 &&
              op->offset % DISK_ALIGN == 0);
        failed = write_sync(disk, op);
        break;
    case DISK_WRITE:
        failed =
            do_write(disk, op->file->node,
                     &(struct disk_bytes){.offset = op->offset, .data = op->data, .len = op->len});
        break;
    case DISK_SYNC:
        failed = do_sync(disk, op->file->node);
        if (!failed && op->name[0])
            failed = do_sync_names(disk);
        break;
    case DISK_MAKE: failed = make_file(disk, op); break;
    case DISK_REPLACE: failed = replace_file(disk, op); break;
    case DISK_REMOVE: failed = remove_file(disk, op); break;
    case DISK_RENAME: failed = rename_file(disk, op); break;
    case DISK_REUSE: failed = reuse_file(disk, op); break;
    case DISK_READ: err = read_op(disk, op); break;
    }
    op->sys_errno = failed;
    op->err = failed ? err_of_errno(failed) : err;
    if (op->inspect && !op->err)
        op->inspect(op);
    op->took_us = disk->takes_us ? disk->takes_us : 1;
}

/* ---- queues ---- */

static struct disk_op *of_place(struct queue_node *place)
{
    return LIST_ENTRY(place, struct disk_op, place);
}

/* Moves a random operation of those that wait to the front. */
static void shuffle(struct sim_disk *disk, struct queue *queue, unsigned count)
{
    for (uint64_t turns = count ? sim_random_next(&disk->shuffle) % count : 0; turns > 0; turns--)
        queue_add(queue, queue_take(queue));
}

bool sim_disk_step(struct sim_disk *disk, enum disk_lane lane)
{
    if (lane == LANE_READ && disk->shuffle.state)
        shuffle(disk, &disk->lanes[lane], sim_disk_waiting(disk, lane));
    struct queue_node *place = queue_take(&disk->lanes[lane]);
    if (!place)
        return false;
    perform(disk, of_place(place));
    queue_add(&disk->ended, place);
    return true;
}

unsigned sim_disk_waiting(const struct sim_disk *disk, enum disk_lane lane)
{
    unsigned count = 0;
    for (const struct queue_node *at = disk->lanes[lane].first; at; at = at->next)
        count++;
    return count;
}

/* ---- the port ---- */

static enum err disk_lock(struct disk *port, enum disk_access access)
{
    struct sim_disk *disk = of_port(port);
    (void)access; /* the simulated directory is always writable */
    if (point(disk))
        return ERR_IO;
    if (disk->locked)
        return ERR_LOCKED;
    disk->locked = true;
    return OK;
}

static void disk_unlock(struct disk *port)
{
    of_port(port)->locked = false;
}

static enum err disk_list(struct disk *port, void (*each)(void *ctx, const char *name), void *ctx)
{
    struct sim_disk *disk = of_port(port);
    if (point(disk))
        return ERR_IO;
    for (unsigned i = 0; i < disk->now.count; i++)
        each(ctx, disk->now.of[i].name);
    return OK;
}

static void disk_close(struct disk *port, struct disk_file *file)
{
    if (file)
        close_file(of_port(port), file);
}

static enum err disk_hold(struct disk *port, struct disk_file *file)
{
    (void)port;
    file->node->holders += !file->holds;
    file->holds = true;
    return OK;
}

static enum err disk_size(struct disk *port, struct disk_file *file, uint64_t *out_bytes)
{
    if (point(of_port(port)))
        return ERR_IO;
    *out_bytes = file->node->cache.len;
    return OK;
}

static enum err disk_read(struct disk *port, struct disk_file *file, uint64_t offset, void *at,
                          size_t len, size_t *out_len)
{
    struct sim_disk *disk = of_port(port);
    if (disk->cold && disk->now_us)
        *disk->now_us += disk->read_us;
    return read_file(disk, file, offset, at, len, out_len);
}

static enum err disk_read_cached(struct disk *port, struct disk_file *file, uint64_t offset,
                                 void *at, size_t len, size_t *out_len)
{
    if (of_port(port)->cold)
        return ERR_AGAIN;
    return read_file(of_port(port), file, offset, at, len, out_len);
}

static bool disk_is_direct(struct disk *port, const struct disk_file *file)
{
    (void)file;
    return of_port(port)->direct;
}

static void disk_exact(struct disk *disk, struct disk_file *file)
{
    (void)disk;
    file->exact = true;
}

static void disk_fetch(struct disk *port, struct disk_file *file, uint64_t offset, uint64_t len)
{
    (void)file;
    (void)offset;
    of_port(port)->fetched_bytes += len;
}

uint64_t sim_disk_loose_reads(const struct sim_disk *disk, const char *name)
{
    const struct node *node = sim_disk_find(disk, name);
    return node ? node->loose_reads : 0;
}

uint64_t sim_disk_fetched(const struct sim_disk *disk)
{
    return disk->fetched_bytes;
}

static uint64_t disk_room(struct disk *port)
{
    const struct sim_disk *disk = of_port(port);
    uint64_t used = sim_disk_used(disk);
    if (!disk->capacity)
        return UINT64_MAX;
    return disk->capacity > used ? disk->capacity - used : 0;
}

static void disk_run(struct disk *disk, struct disk_op *op)
{
    perform(of_port(disk), op);
    if (op->done)
        op->done(op);
}

static void disk_submit(struct disk *disk, struct disk_op *op)
{
    queue_add(&of_port(disk)->lanes[op->lane], &op->place);
}

static unsigned disk_poll(struct disk *port)
{
    struct sim_disk *disk = of_port(port);
    unsigned count = 0;
    if (disk->eager)
        for (int lane = 0; lane < LANE_COUNT; lane++)
            while (sim_disk_step(disk, (enum disk_lane)lane))
                continue;
    struct queue_node *place;
    while ((place = queue_take(&disk->ended))) {
        struct disk_op *op = of_place(place);
        count++;
        op->done(op);
    }
    return count;
}

static void disk_wait(struct disk *port)
{
    struct sim_disk *disk = of_port(port);
    for (int lane = 0; lane < LANE_COUNT && !disk->ended.first; lane++)
        (void)sim_disk_step(disk, (enum disk_lane)lane); /* false: no operation waits there */
}

static const struct disk_verbs verbs = {
    .lock = disk_lock,
    .unlock = disk_unlock,
    .list = disk_list,
    .open = disk_open,
    .close = disk_close,
    .hold = disk_hold,
    .size = disk_size,
    .read = disk_read,
    .read_cached = disk_read_cached,
    .is_direct = disk_is_direct,
    .exact = disk_exact,
    .fetch = disk_fetch,
    .room = disk_room,
    .run = disk_run,
    .submit = disk_submit,
    .poll = disk_poll,
    .wait = disk_wait,
};

/* ---- creation and end ---- */

struct sim_disk *sim_disk_new(void)
{
    struct sim_disk *disk = mem_zalloc(sizeof(*disk));
    disk->port.verbs = &verbs;
    disk->history_count = 1;
    disk->cut_at = UINT64_MAX;
    disk->fail_at = UINT64_MAX;
    return disk;
}

void sim_disk_free(struct sim_disk *disk)
{
    if (!disk)
        return;
    CHECK(disk->files_open == 0);
    while (disk->nodes) {
        struct node *dead = disk->nodes;
        disk->nodes = dead->next;
        node_free(dead);
    }
    mem_free(disk);
}

struct disk *sim_disk_port(struct sim_disk *disk)
{
    return &disk->port;
}

void sim_disk_eager(struct sim_disk *disk, bool eager)
{
    disk->eager = eager;
}

uint64_t sim_disk_points(const struct sim_disk *disk)
{
    return disk->points;
}
