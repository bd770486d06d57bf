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

/* Memory behind `len` is zero; so is what of `len` has no room yet. */
static void make_room(struct content *content, uint64_t bytes)
{
    if (bytes <= content->room)
        return;
    uint64_t room = bytes > 2 * content->room ? bytes : 2 * content->room;
    room = content->len > room ? content->len : room;
    char *at = mem_zalloc(room);
    if (content->room)
        memcpy(at, content->at, content->room);
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

static void content_grow(struct content *content, uint64_t end)
{
    if (end > content->len)
        content->len = end;
}

/* Does not write zeros at the end: most of a file is preallocated, and they would use memory. */
void content_write(struct content *content, uint64_t offset, const void *data, size_t len)
{
    uint64_t end = offset + len;
    if (len == 0)
        return;
    if (end > content->len)
        len = without_zeros(data, len, offset < content->len ? content->len - offset : 0);
    make_room(content, offset + len);
    if (len)
        memcpy(content->at + offset, data, len);
    content_grow(content, end);
}

static void content_zero(struct content *content, uint64_t offset, size_t len)
{
    if (len == 0)
        return;
    uint64_t end = offset + len;
    uint64_t kept = content->room < content->len ? content->room : content->len;
    kept = kept < end ? kept : end;
    if (offset < kept)
        memset(content->at + offset, 0, kept - offset);
    make_room(content, end);
    content_grow(content, end);
}

void content_read(const struct content *content, uint64_t offset, void *at, size_t len)
{
    size_t have = offset < content->room ? (size_t)(content->room - offset) : 0;
    have = have < len ? have : len;
    if (have)
        memcpy(at, content->at + offset, have);
    memset((char *)at + have, 0, len - have);
}

char *content_bytes(struct content *content)
{
    make_room(content, content->len);
    return content->at;
}

void content_copy(struct content *to, const struct content *from)
{
    uint64_t kept = from->len < from->room ? from->len : from->room;
    mem_free(to->at);
    *to = (struct content){0};
    content_write(to, 0, from->at, kept);
    content_grow(to, from->len);
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

struct content *node_device(struct node *node)
{
    return node->apart ? &node->device : &node->cache;
}

void node_device_lost(struct node *node)
{
    content_copy(&node->device, &node->synced);
    node->apart = true;
}

void node_show(struct node *node, const struct disk_bytes *bytes)
{
    struct content *contents[] = {&node->cache, &node->device};
    for (unsigned i = 0; i < 1u + node->apart; i++) {
        content_write(contents[i], bytes->offset, bytes->data, bytes->len);
        content_zero(contents[i], bytes->offset + bytes->len, bytes->zeros);
    }
}

void node_keep(struct node *node, const struct disk_bytes *bytes)
{
    struct unsynced *write = mem_alloc(sizeof(*write) + bytes->len);
    *write = (struct unsynced){.offset = bytes->offset, .len = bytes->len, .zeros = bytes->zeros};
    if (bytes->len)
        memcpy(write->bytes, bytes->data, bytes->len);
    *node->last = write;
    node->last = &write->next;
}

void content_apply(struct content *content, const struct unsynced *write)
{
    content_write(content, write->offset, write->bytes, write->len);
    content_zero(content, write->offset + write->len, write->zeros);
}

void node_sync(struct node *node)
{
    for (const struct unsynced *write = node->first; write; write = write->next)
        content_apply(&node->synced, write);
    forget_unsynced(node);
}

void node_sync_range(struct node *node, uint64_t offset, size_t len)
{
    struct unsynced **at = &node->first;
    while (*at) {
        struct unsynced *write = *at;
        if (write->offset >= offset + len || offset >= write->offset + write->len + write->zeros) {
            at = &write->next;
            continue;
        }
        content_apply(&node->synced, write);
        *at = write->next;
        mem_free(write);
    }
    node->last = at;
}

void node_lose(struct node *node)
{
    forget_unsynced(node);
    node_device_lost(node);
}

/* A sector of a write, some or all of which may be zeros that were not kept. */
static void resolve_sector(struct node *node, const struct unsynced *write, size_t at, size_t len)
{
    char sector[SECTOR] = "";
    size_t kept = at < write->len ? write->len - at : 0;
    if (kept)
        memcpy(sector, write->bytes + at, kept < len ? kept : len);
    content_write(&node->synced, write->offset + at, sector, len);
}

void node_resolve(struct node *node, struct sim_random *random)
{
    for (const struct unsynced *write = node->first; write; write = write->next) {
        uint64_t fate = sim_random_next(random) % 4;
        size_t all = write->len + write->zeros;
        for (size_t at = 0; at < all && fate != 0; at += SECTOR) {
            size_t len = all - at < SECTOR ? all - at : SECTOR;
            if (fate == 1 || (fate == 2 && sim_random_next(random) % 2) ||
                (fate == 3 && at < all / 2))
                resolve_sector(node, write, at, len);
        }
    }
    forget_unsynced(node);
    content_copy(&node->cache, &node->synced);
    node->apart = false;
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

struct names *sim_disk_history(struct sim_disk *disk, unsigned number)
{
    return &disk->history[(disk->history_first + number) % HISTORY_MAX];
}

void names_copy(struct names *to, const struct names *from)
{
    to->count = from->count;
    memcpy(to->of, from->of, from->count * sizeof(from->of[0]));
}

void sim_disk_remember_names(struct sim_disk *disk)
{
    if (disk->history_count == HISTORY_MAX) { /* as if the state behind the oldest were durable */
        disk->history_first++;
        disk->history_count--;
    }
    names_copy(sim_disk_history(disk, disk->history_count++), &disk->now);
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
            wanted = wanted || named(sim_disk_history(disk, i), node);
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
    disk->history_first = 0;
    disk->history_count = 1;
    names_copy(&disk->history[0], &disk->now);
    sim_disk_collect(disk);
}
