/*
 * The medium of the simulated disk: the contents of files (in the cache, on the device, synced),
 * the names, and the effect of a power cut or a failed sync on both.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/disk_parts.h"

enum { SECTOR = 512 };

/* ---- contents ---- */

/* Memory behind `len` is zero. */
static void make_room(struct content *content, uint64_t bytes)
{
    if (bytes <= content->room)
        return;
    uint64_t room = bytes > 2 * content->room ? bytes : 2 * content->room;
    char *at = mem_zalloc(room);
    if (content->len)
        memcpy(at, content->at, content->len);
    mem_free(content->at);
    content->at = at;
    content->room = room;
}

/* Bytes of `data` without pages of zeros at the end, but at least `least`. */
static size_t without_zeros(const char *data, size_t len, uint64_t least)
{
    static const char zeros[4096];
    while (len >= least + sizeof(zeros) &&
           memcmp(data + len - sizeof(zeros), zeros, sizeof(zeros)) == 0)
        len -= sizeof(zeros);
    return len;
}

/* Does not write zeros at the end: most of a file is preallocated, and they would use memory. */
void content_write(struct content *content, uint64_t offset, const void *data, size_t len)
{
    uint64_t end = offset + len;
    if (len == 0)
        return;
    make_room(content, end);
    CHECK(content->at); /* for clang's analyzer, which cannot prove it */
    if (end > content->len)
        len = without_zeros(data, len, offset < content->len ? content->len - offset : 0);
    memcpy(content->at + offset, data, len);
    if (end > content->len)
        content->len = end;
}

void content_copy(struct content *to, const struct content *from)
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

struct node *node_new(struct sim_disk *disk)
{
    struct node *node = mem_zalloc(sizeof(*node));
    node->last = &node->first;
    node->next = disk->nodes;
    disk->nodes = node;
    return node;
}

void node_free(struct node *node)
{
    forget_unsynced(node);
    mem_free(node->cache.at);
    mem_free(node->device.at);
    mem_free(node->synced.at);
    mem_free(node);
}

void node_write(struct node *node, uint64_t offset, const void *data, size_t len)
{
    struct unsynced *write = mem_alloc(sizeof(*write) + len);
    *write = (struct unsynced){.offset = offset, .len = len};
    memcpy(write->bytes, data, len);
    *node->last = write;
    node->last = &write->next;
    content_write(&node->cache, offset, data, len);
    content_write(&node->device, offset, data, len);
}

void node_sync(struct node *node)
{
    for (const struct unsynced *write = node->first; write; write = write->next)
        content_write(&node->synced, write->offset, write->bytes, write->len);
    forget_unsynced(node);
}

void node_sync_range(struct node *node, uint64_t offset, size_t len)
{
    struct unsynced **at = &node->first;
    while (*at) {
        struct unsynced *write = *at;
        if (write->offset >= offset + len || offset >= write->offset + write->len) {
            at = &write->next;
            continue;
        }
        content_write(&node->synced, write->offset, write->bytes, write->len);
        *at = write->next;
        mem_free(write);
    }
    node->last = at;
}

void node_lose(struct node *node)
{
    forget_unsynced(node);
    content_copy(&node->device, &node->synced);
}

void node_resolve(struct node *node, struct sim_random *random)
{
    for (const struct unsynced *write = node->first; write; write = write->next) {
        uint64_t fate = sim_random_next(random) % 4;
        for (size_t at = 0; at < write->len && fate != 0; at += SECTOR) {
            size_t len = write->len - at < SECTOR ? write->len - at : SECTOR;
            if (fate == 1 || (fate == 2 && sim_random_next(random) % 2) ||
                (fate == 3 && at < write->len / 2))
                content_write(&node->synced, write->offset + at, write->bytes + at, len);
        }
    }
    forget_unsynced(node);
    content_copy(&node->device, &node->synced);
    content_copy(&node->cache, &node->synced);
}

/* ---- names ---- */

struct node *sim_disk_find(const struct sim_disk *disk, const char *name)
{
    for (unsigned i = 0; i < disk->now.count; i++)
        if (strcmp(disk->now.of[i].name, name) == 0)
            return disk->now.of[i].node;
    return NULL;
}

void sim_disk_set_name(struct sim_disk *disk, const char *name, struct node *node)
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

void sim_disk_remember_names(struct sim_disk *disk)
{
    if (disk->history_count ==
        HISTORY_MAX) { /* the oldest state is dropped, as if the next one were durable */
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

void sim_disk_collect(struct sim_disk *disk)
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

void sim_disk_sync_names(struct sim_disk *disk)
{
    disk->history[0] = disk->now;
    disk->history_count = 1;
    sim_disk_collect(disk);
}
