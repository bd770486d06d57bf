/*
 * What tests do to the simulated disk: cuts, failures, damage, a full or a cold disk; and what they
 * read from it.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/disk_parts.h"

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
    struct sim_random random = {seed};
    unsigned state = (unsigned)(sim_random_next(&random) % disk->history_count);
    names_copy(&disk->now, sim_disk_history(disk, state));
    sim_disk_sync_names(disk);
    for (struct node *node = disk->nodes; node; node = node->next)
        node_resolve(node, &random);
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

void sim_disk_direct(struct sim_disk *disk, bool direct)
{
    disk->direct = direct;
}

uint64_t sim_disk_direct_reads(const struct sim_disk *disk)
{
    return disk->direct_reads;
}

void sim_disk_read_waits(struct sim_disk *disk, int64_t *now_us, int64_t read_us)
{
    disk->now_us = now_us;
    disk->read_us = read_us;
}

void sim_disk_shuffle_reads(struct sim_disk *disk, uint64_t seed)
{
    disk->shuffle.state = seed;
}

void sim_disk_capacity(struct sim_disk *disk, uint64_t bytes)
{
    disk->capacity = bytes;
}

bool sim_disk_flip(struct sim_disk *disk, const char *name, uint64_t bit)
{
    struct node *node = sim_disk_find(disk, name);
    if (!node || bit / 8 >= node->synced.len)
        return false;
    char mask = (char)(1 << bit % 8);
    struct content *contents[] = {&node->synced, &node->cache, &node->device};
    for (unsigned i = 0; i < 2u + node->apart; i++) {
        char *at = content_bytes(contents[i]) + bit / 8;
        *at = (char)(*at ^ mask);
    }
    return true;
}

bool sim_disk_delete(struct sim_disk *disk, const char *name)
{
    if (!sim_disk_find(disk, name))
        return false;
    sim_disk_set_name(disk, name, NULL);
    sim_disk_sync_names(disk);
    return true;
}

const char *sim_disk_file(const struct sim_disk *disk, const char *name, uint64_t *out_bytes)
{
    struct node *node = sim_disk_find(disk, name);
    if (!node)
        return NULL;
    struct content *device = node_device(node);
    *out_bytes = device->len;
    return device->len ? content_bytes(device) : "";
}

void sim_disk_put(struct sim_disk *disk, const char *name, const void *data, size_t len)
{
    struct node *node = node_new(disk);
    content_write(&node->cache, 0, data, len);
    content_write(&node->synced, 0, data, len);
    sim_disk_set_name(disk, name, node);
    sim_disk_sync_names(disk);
}
