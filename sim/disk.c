#include "sim/disk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"

enum { SECTOR = 512, NAMES_MAX = 64, HISTORY_MAX = 16 };

struct content {
    char *at;
    uint64_t len;
};

struct unsynced {
    struct unsynced *next;
    uint64_t offset;
    size_t len;
    char bytes[];
};

struct node {
    struct node *next; /* sim_disk::nodes */
    unsigned handles;
    struct content cache;   /* what reads see */
    struct content device;  /* what fresh reads see */
    struct content synced;  /* what survives for sure */
    struct unsynced *first; /* since the last sync, in order */
    struct unsynced **last;
};

struct disk_file {
    struct node *node;
    bool fresh;
};

struct names {
    unsigned count;
    struct {
        char name[DISK_NAME_MAX];
        struct node *node;
    } of[NAMES_MAX];
};

struct sim_disk {
    struct disk port;
    struct node *nodes;
    struct names now;
    struct names history[HISTORY_MAX]; /* [0] is durable; later ones may be after a cut */
    unsigned history_count;
    struct queue lanes[LANE_COUNT];
    struct queue ended;
    bool eager, locked, cut, starved;
    uint64_t points, cut_at, fail_at;
    int fail_errno;
    char bad_name[DISK_NAME_MAX]; /* sim_disk_bad */
    uint64_t bad_start, bad_end;
    uint64_t capacity;
    unsigned files_open;
    bool cold;        /* nothing is in memory … */
    int64_t *now_us;  /* … and reading in the turn moves this, if not NULL, … */
    int64_t read_us;  /* … so much on */
    uint64_t shuffle; /* state of the random order in which reads end; 0: as submitted */
};

static struct sim_disk *of_port(struct disk *disk)
{
    return (struct sim_disk *)disk; /* its first member */
}

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* One more primitive. Returns 0, or the errno it fails with. */
static int point(struct sim_disk *disk)
{
    uint64_t number = disk->points++;
    if (number >= disk->cut_at)
        disk->cut = true;
    if (disk->cut)
        return EIO;
    return number == disk->fail_at ? disk->fail_errno : 0;
}

/* ---- contents ---- */

static void content_write(struct content *content, uint64_t offset, const void *data, size_t len)
{
    if (len == 0)
        return;
    if (offset + len > content->len) {
        content->at = mem_realloc(content->at, offset + len);
        memset(content->at + content->len, 0, offset + len - content->len);
        content->len = offset + len;
    }
    CHECK(content->at); /* for clang's analyzer */
    memcpy(content->at + offset, data, len);
}

static void content_copy(struct content *to, const struct content *from)
{
    mem_free(to->at);
    *to = (struct content){0};
    content_write(to, 0, from->at, from->len);
}

static void forget_unsynced(struct node *node)
{
    while (node->first) {
        struct unsynced *dead = node->first;
        node->first = dead->next;
        mem_free(dead);
    }
    node->last = &node->first;
}

static struct node *node_new(struct sim_disk *disk)
{
    struct node *node = mem_zalloc(sizeof(*node));
    node->last = &node->first;
    node->next = disk->nodes;
    disk->nodes = node;
    return node;
}

static void node_free(struct node *node)
{
    forget_unsynced(node);
    mem_free(node->cache.at);
    mem_free(node->device.at);
    mem_free(node->synced.at);
    mem_free(node);
}

static void node_write(struct node *node, uint64_t offset, const void *data, size_t len)
{
    struct unsynced *write = mem_alloc(sizeof(*write) + len);
    *write = (struct unsynced){.offset = offset, .len = len};
    memcpy(write->bytes, data, len);
    *node->last = write;
    node->last = &write->next;
    content_write(&node->cache, offset, data, len);
    content_write(&node->device, offset, data, len);
}

static void node_sync(struct node *node)
{
    for (const struct unsynced *write = node->first; write; write = write->next)
        content_write(&node->synced, write->offset, write->bytes, write->len);
    forget_unsynced(node);
}

/* What a kernel does when a sync fails: the pages are called clean, and are lost. */
static void node_lose(struct node *node)
{
    forget_unsynced(node);
    content_copy(&node->device, &node->synced);
}

/* After a power cut: each unsynced write is there, is not, or is in part. */
static void node_resolve(struct node *node, uint64_t *seed)
{
    for (const struct unsynced *write = node->first; write; write = write->next) {
        uint64_t fate = next_random(seed) % 4;
        for (size_t at = 0; at < write->len && fate != 0; at += SECTOR) {
            size_t len = write->len - at < SECTOR ? write->len - at : SECTOR;
            if (fate == 1 || (fate == 2 && next_random(seed) % 2) ||
                (fate == 3 && at < write->len / 2))
                content_write(&node->synced, write->offset + at, write->bytes + at, len);
        }
    }
    forget_unsynced(node);
    content_copy(&node->device, &node->synced);
    content_copy(&node->cache, &node->synced);
}

/* ---- names ---- */

static struct node *find(const struct sim_disk *disk, const char *name)
{
    for (unsigned i = 0; i < disk->now.count; i++)
        if (strcmp(disk->now.of[i].name, name) == 0)
            return disk->now.of[i].node;
    return NULL;
}

static void set_name(struct sim_disk *disk, const char *name, struct node *node)
{
    struct names *names = &disk->now;
    unsigned i = 0;
    while (i < names->count && strcmp(names->of[i].name, name) != 0)
        i++;
    if (i == names->count) {
        CHECK(names->count < NAMES_MAX && strlen(name) < DISK_NAME_MAX);
        names->count++;
        memcpy(names->of[i].name, name, strlen(name) + 1);
    }
    names->of[i].node = node;
    if (!node)
        names->of[i] = names->of[--names->count];
}

static void remember_names(struct sim_disk *disk)
{
    if (disk->history_count == HISTORY_MAX) { /* the oldest possible one is durable by now */
        memmove(&disk->history[0], &disk->history[1], sizeof(disk->history[0]) * (HISTORY_MAX - 1));
        disk->history_count--;
    }
    disk->history[disk->history_count++] = disk->now;
}

static bool named(const struct names *names, const struct node *node)
{
    for (unsigned i = 0; i < names->count; i++)
        if (names->of[i].node == node)
            return true;
    return false;
}

static void collect(struct sim_disk *disk)
{
    struct node **link = &disk->nodes;
    while (*link) {
        struct node *node = *link;
        bool wanted = node->handles > 0 || named(&disk->now, node);
        for (unsigned i = 0; i < disk->history_count; i++)
            wanted = wanted || named(&disk->history[i], node);
        if (wanted) {
            link = &node->next;
        } else {
            *link = node->next;
            node_free(node);
        }
    }
}

static void sync_names(struct sim_disk *disk)
{
    disk->history[0] = disk->now;
    disk->history_count = 1;
    collect(disk);
}

/* ---- operations: each returns 0 or an errno ---- */

uint64_t sim_disk_used(const struct sim_disk *disk)
{
    uint64_t used = 0;
    for (unsigned i = 0; i < disk->now.count; i++)
        used += disk->now.of[i].node->cache.len;
    return used;
}

static int do_write(struct sim_disk *disk, struct node *node, uint64_t offset, const void *data,
                    size_t len)
{
    int failed = point(disk);
    if (failed)
        return failed;
    uint64_t more = offset + len > node->cache.len ? offset + len - node->cache.len : 0;
    if (disk->capacity && more > 0 && sim_disk_used(disk) + more > disk->capacity)
        return ENOSPC;
    node_write(node, offset, data, len);
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
        sync_names(disk);
    return failed;
}

static int do_name(struct sim_disk *disk, const char *name, struct node *node)
{
    int failed = point(disk);
    if (failed)
        return failed;
    set_name(disk, name, node);
    remember_names(disk);
    return 0;
}

/* Only this write is made durable, as O_DSYNC does; others of the file stay as they are. */
static int write_sync(struct sim_disk *disk, const struct disk_op *op)
{
    struct node *node = op->file->node;
    struct unsynced **before = node->last;
    int failed = do_write(disk, node, op->offset, op->data, op->len);
    if (failed)
        return failed;
    failed = point(disk);
    if (failed && disk->cut)
        return failed;
    mem_free(*before);
    *before = NULL;
    node->last = before;
    if (!failed) {
        content_write(&node->synced, op->offset, op->data, op->len);
        return 0;
    }
    content_copy(&node->device, &node->synced); /* lost; the cache shows it all the same */
    for (const struct unsynced *write = node->first; write; write = write->next)
        content_write(&node->device, write->offset, write->bytes, write->len);
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

static int make_file(struct sim_disk *disk, struct disk_op *op)
{
    if (disk->starved)
        return EMFILE;
    struct node *node = node_new(disk);
    int failed = do_name(disk, op->name, node);
    if (!failed) {
        char *zeros = mem_zalloc(op->len);
        failed = do_write(disk, node, 0, zeros, op->len);
        mem_free(zeros);
    }
    if (!failed)
        failed = do_sync(disk, node);
    if (!failed)
        failed = do_sync_names(disk);
    if (failed) {
        if (!disk->cut && find(disk, op->name) == node) {
            set_name(disk, op->name, NULL);
            remember_names(disk);
        }
        return failed;
    }
    op->file = file_new(disk, node, false);
    return 0;
}

static int replace_file(struct sim_disk *disk, const struct disk_op *op)
{
    char name[DISK_NAME_MAX];
    (void)snprintf(name, sizeof(name), "%.50s.tmp", op->name); /* names are short */
    struct node *node = node_new(disk);
    int failed = do_name(disk, name, node);
    if (!failed)
        failed = do_write(disk, node, 0, op->data, op->len);
    if (!failed)
        failed = do_sync(disk, node);
    if (!failed)
        failed = point(disk);
    if (!failed) { /* the rename: one step */
        set_name(disk, name, NULL);
        set_name(disk, op->name, node);
        remember_names(disk);
        return do_sync_names(disk);
    }
    if (!disk->cut && find(disk, name) == node) {
        set_name(disk, name, NULL);
        remember_names(disk);
    }
    return failed;
}

static int remove_file(struct sim_disk *disk, const struct disk_op *op)
{
    int failed = find(disk, op->name) ? do_name(disk, op->name, NULL) : point(disk);
    return failed ? failed : do_sync_names(disk);
}

static int rename_file(struct sim_disk *disk, const struct disk_op *op)
{
    struct node *node = find(disk, op->name);
    int failed = point(disk);
    if (failed || !node)
        return failed ? failed : ENOENT;
    set_name(disk, op->name, NULL);
    set_name(disk, op->data, node);
    remember_names(disk);
    return do_sync_names(disk);
}

static enum err err_of_errno(int number)
{
    return number == 0                            ? OK
           : number == ENOSPC                     ? ERR_DISK_FULL
           : number == EMFILE || number == ENFILE ? ERR_AGAIN
                                                  : ERR_IO;
}

static enum err disk_open(struct disk *port, const char *name, bool fresh,
                          struct disk_file **out_file)
{
    struct sim_disk *disk = of_port(port);
    int failed = disk->starved ? EMFILE : point(disk);
    if (failed)
        return err_of_errno(failed);
    struct node *node = find(disk, name);
    if (!node)
        return ERR_NOT_FOUND;
    *out_file = file_new(disk, node, fresh);
    return OK;
}

static enum err read_file(struct sim_disk *disk, const struct disk_file *file, uint64_t offset,
                          void *at, size_t len, size_t *out_len)
{
    CHECK(file);
    if (point(disk))
        return ERR_IO;
    bool bad = disk->bad_name[0] && find(disk, disk->bad_name) == file->node;
    if (bad && offset < disk->bad_end && offset + len > disk->bad_start)
        return ERR_IO;
    const struct content *content = file->fresh ? &file->node->device : &file->node->cache;
    size_t have = offset < content->len ? (size_t)(content->len - offset) : 0;
    *out_len = have < len ? have : len;
    if (*out_len)
        memcpy(at, content->at + offset, *out_len);
    return OK;
}

static enum err read_op(struct sim_disk *disk, struct disk_op *op)
{
    enum err err = op->file ? OK : disk_open(&disk->port, op->name, op->fresh, &op->file);
    if (!err)
        err = read_file(disk, op->file, op->offset, op->into, op->len, &op->got);
    return err;
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
    case DISK_WRITE: failed = do_write(disk, op->file->node, op->offset, op->data, op->len); break;
    case DISK_SYNC:
        failed = do_sync(disk, op->file->node);
        if (!failed && op->name[0])
            failed = do_sync_names(disk);
        break;
    case DISK_MAKE: failed = make_file(disk, op); break;
    case DISK_REPLACE: failed = replace_file(disk, op); break;
    case DISK_REMOVE: failed = remove_file(disk, op); break;
    case DISK_RENAME: failed = rename_file(disk, op); break;
    case DISK_READ: err = read_op(disk, op); break;
    }
    op->sys_errno = failed;
    op->err = failed ? err_of_errno(failed) : err;
    if (op->inspect && !op->err)
        op->inspect(op);
    op->took_us = 1;
}

/* ---- queues ---- */

static struct disk_op *of_place(struct queue_node *place)
{
    return LIST_ENTRY(place, struct disk_op, place);
}

/* Brings a random one of those that wait to the front. */
static void shuffle(struct sim_disk *disk, struct queue *queue, unsigned count)
{
    for (uint64_t turns = count ? next_random(&disk->shuffle) % count : 0; turns > 0; turns--)
        queue_add(queue, queue_take(queue));
}

bool sim_disk_step(struct sim_disk *disk, enum disk_lane lane)
{
    if (lane == LANE_READ && disk->shuffle)
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
    (void)access; /* this directory can always be written to */
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
    struct sim_disk *disk = of_port(port);
    if (!file)
        return;
    file->node->handles--;
    disk->files_open--;
    mem_free(file);
    collect(disk);
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
        (void)sim_disk_step(disk, (enum disk_lane)lane); /* false: nothing is under way there */
}

static const struct disk_verbs verbs = {
    .lock = disk_lock,
    .unlock = disk_unlock,
    .list = disk_list,
    .open = disk_open,
    .close = disk_close,
    .size = disk_size,
    .read = disk_read,
    .read_cached = disk_read_cached,
    .room = disk_room,
    .run = disk_run,
    .submit = disk_submit,
    .poll = disk_poll,
    .wait = disk_wait,
};

/* ---- the tests' side ---- */

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

void sim_disk_cut_at(struct sim_disk *disk, uint64_t number)
{
    disk->cut_at = number;
}

bool sim_disk_cut(const struct sim_disk *disk)
{
    return disk->cut;
}

void sim_disk_power(struct sim_disk *disk, uint64_t seed)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        CHECK(!disk->lanes[lane].first);
    CHECK(disk->files_open == 0);
    disk->now = disk->history[next_random(&seed) % disk->history_count];
    sync_names(disk);
    for (struct node *node = disk->nodes; node; node = node->next)
        node_resolve(node, &seed);
    disk->cut = false;
    disk->locked = false;
    disk->cut_at = UINT64_MAX;
}

void sim_disk_kill(struct sim_disk *disk)
{
    disk->cut = false;
    disk->locked = false;
    disk->cut_at = UINT64_MAX;
}

void sim_disk_fail_at(struct sim_disk *disk, uint64_t number, int sys_errno)
{
    disk->fail_at = number;
    disk->fail_errno = sys_errno;
}

void sim_disk_starve(struct sim_disk *disk, bool starved)
{
    disk->starved = starved;
}

void sim_disk_bad(struct sim_disk *disk, const char *name, uint64_t start, uint64_t end)
{
    (void)snprintf(disk->bad_name, sizeof(disk->bad_name), "%s", name); /* names are short */
    disk->bad_start = start;
    disk->bad_end = end;
}

unsigned sim_disk_files_open(const struct sim_disk *disk)
{
    return disk->files_open;
}

void sim_disk_cold(struct sim_disk *disk, bool cold)
{
    disk->cold = cold;
}

void sim_disk_read_waits(struct sim_disk *disk, int64_t *now_us, int64_t read_us)
{
    disk->now_us = now_us;
    disk->read_us = read_us;
}

void sim_disk_shuffle_reads(struct sim_disk *disk, uint64_t seed)
{
    disk->shuffle = seed;
}

void sim_disk_capacity(struct sim_disk *disk, uint64_t bytes)
{
    disk->capacity = bytes;
}

bool sim_disk_flip(struct sim_disk *disk, const char *name, uint64_t bit)
{
    struct node *node = find(disk, name);
    if (!node || bit / 8 >= node->synced.len)
        return false;
    char mask = (char)(1 << bit % 8);
    node->synced.at[bit / 8] = (char)(node->synced.at[bit / 8] ^ mask);
    node->device.at[bit / 8] = (char)(node->device.at[bit / 8] ^ mask);
    node->cache.at[bit / 8] = (char)(node->cache.at[bit / 8] ^ mask);
    return true;
}

bool sim_disk_delete(struct sim_disk *disk, const char *name)
{
    if (!find(disk, name))
        return false;
    set_name(disk, name, NULL);
    sync_names(disk);
    return true;
}

const char *sim_disk_file(const struct sim_disk *disk, const char *name, uint64_t *out_bytes)
{
    const struct node *node = find(disk, name);
    if (!node)
        return NULL;
    *out_bytes = node->device.len;
    return node->device.at ? node->device.at : "";
}

void sim_disk_put(struct sim_disk *disk, const char *name, const void *data, size_t len)
{
    struct node *node = node_new(disk);
    node_write(node, 0, data, len);
    node_sync(node);
    set_name(disk, name, node);
    sync_names(disk);
}
