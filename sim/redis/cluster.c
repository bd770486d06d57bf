#include "sim/redis/cluster.h"

#include <stdio.h>

#include "base/check.h"
#include "base/codec.h"
#include "base/mem.h"
#include "sim/redis/server_parts.h"

/* CRC16-XMODEM of one byte, as in the Redis Cluster specification. */
static unsigned crc_of(unsigned byte)
{
    static uint16_t table[256];
    static bool filled;
    for (unsigned i = 0; !filled && i < 256; i++) {
        unsigned crc = i << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
        table[i] = (uint16_t)crc;
    }
    filled = true;
    return table[byte];
}

unsigned sim_cluster_slot(struct bytes key)
{
    const char *open = key.len ? memchr(key.at, '{', key.len) : NULL;
    const char *close = open ? memchr(open + 1, '}', key.len - (size_t)(open + 1 - key.at)) : NULL;
    if (close && close > open + 1)
        key = bytes_of(open + 1, (size_t)(close - open - 1));
    unsigned crc = 0;
    for (size_t i = 0; i < key.len; i++)
        crc = (crc << 8 & 0xffff) ^ crc_of(crc >> 8 ^ (unsigned char)key.at[i]);
    return crc % SIM_CLUSTER_SLOTS;
}

void sim_cluster_init(struct sim_cluster *cluster, struct sim_redis *const *servers, unsigned count,
                      unsigned masters, uint64_t seed)
{
    CHECK(count <= SIM_CLUSTER_NODES_MAX && masters > 0 && masters <= count);
    *cluster = (struct sim_cluster){.count = count, .epoch = masters, .random.state = seed};
    for (unsigned i = 0; i < count; i++) {
        cluster->nodes[i] = servers[i];
        servers[i]->cluster = cluster;
    }
    for (unsigned slot = 0; slot < SIM_CLUSTER_SLOTS; slot++)
        cluster->owner[slot] = (uint8_t)(slot * masters / SIM_CLUSTER_SLOTS);
    memset(cluster->to, SIM_CLUSTER_NONE, sizeof(cluster->to));
}

static unsigned place_of(const struct sim_cluster *cluster, const struct sim_redis *redis)
{
    for (unsigned i = 0; i < cluster->count; i++) {
        if (cluster->nodes[i] == redis)
            return i;
    }
    CHECK(!"the server is in its cluster");
    return 0;
}

/* The owners of slots in this node's map. */
static const uint8_t *owners_by(const struct sim_redis *redis)
{
    const struct sim_cluster *cluster = redis->cluster;
    unsigned us = place_of(cluster, redis);
    return cluster->cut_off[us] ? cluster->kept[us]->owner : cluster->owner;
}

/* ---- checks of slots ---- */

static bool send_to(struct buf *out, const char *how, unsigned slot, const struct sim_redis *node)
{
    buf_addf(out, "-%s %u %s:%u\r\n", how, slot, node->options.host, node->options.port);
    return false;
}

static uint32_t keys_there(const struct sim_redis_conn *conn, const struct bytes *keys,
                           uint32_t count)
{
    uint32_t there = 0;
    for (uint32_t i = 0; i < count; i++)
        there += keyspace_find(&conn->redis->keys, conn->db, keys[i]) != NULL;
    return there;
}

/* The same checks as in getNodeByQuery() of Redis 7.0. */
bool cluster_allows(const struct sim_redis_conn *conn, const struct bytes *keys, uint32_t count,
                    struct buf *out)
{
    const struct sim_cluster *cluster = conn->redis->cluster;
    unsigned slot = sim_cluster_slot(keys[0]), us = place_of(cluster, conn->redis);
    static const char crossed[] = "CROSSSLOT Keys in request don't hash to the same slot";
    static const char again[] = "TRYAGAIN Multiple keys request during rehashing of slot";
    for (uint32_t i = 1; i < count; i++) {
        if (sim_cluster_slot(keys[i]) != slot) {
            resp_error(out, crossed);
            return false;
        }
    }
    uint8_t owner = cluster->owner[slot], to = cluster->to[slot];
    if (owner == SIM_CLUSTER_NONE || cluster->down || cluster->cut_off[us]) {
        resp_error(out, owner == SIM_CLUSTER_NONE ? "CLUSTERDOWN Hash slot not served"
                                                  : "CLUSTERDOWN The cluster is down");
        return false;
    }
    if (owner == us && to == SIM_CLUSTER_NONE)
        return true;
    uint32_t there = keys_there(conn, keys, count);
    bool partial = there < count;
    if (owner == us && partial) {
        if (there == 0)
            return send_to(out, "ASK", slot, cluster->nodes[to]);
        resp_error(out, again);
        return false;
    }
    if (to == us && conn->asking) {
        if (count > 1 && partial)
            resp_error(out, again);
        return count == 1 || !partial;
    }
    return owner == us || send_to(out, "MOVED", slot, cluster->nodes[owner]);
}

bool cluster_allows_channels(const struct sim_redis_conn *conn, const struct bytes *channels,
                             uint32_t count, struct buf *out)
{
    const struct sim_cluster *cluster = conn->redis->cluster;
    unsigned slot = sim_cluster_slot(channels[0]), us = place_of(cluster, conn->redis);
    uint8_t owner = cluster->owner[slot];
    for (uint32_t i = 1; i < count; i++) {
        if (sim_cluster_slot(channels[i]) != slot) {
            resp_error(out, "CROSSSLOT Keys in request don't hash to the same slot");
            return false;
        }
    }
    if (owner == SIM_CLUSTER_NONE || cluster->down || cluster->cut_off[us]) {
        resp_error(out, "CLUSTERDOWN The cluster is down");
        return false;
    }
    return owner == us || send_to(out, "MOVED", slot, cluster->nodes[owner]);
}

/* After a change of slots: ends subscriptions to channels whose slot the server has lost, and
   notifies their clients. */
static void leave_channels(struct sim_cluster *cluster, unsigned node)
{
    struct sim_redis *redis = cluster->nodes[node];
    for (struct list *at = redis->conns.next; at != &redis->conns; at = at->next) {
        struct sim_redis_conn *conn = LIST_ENTRY(at, struct sim_redis_conn, place);
        for (unsigned i = conn->channel_count; i-- > 0;) {
            const struct sim_channel *channel = &conn->channels[i];
            if (channel->sharded && cluster->owner[sim_cluster_slot(channel->name)] != node)
                take_channel(conn, i);
        }
    }
}

/* ---- the map ---- */

static void add_node(struct buf *out, const struct sim_redis *node, unsigned place)
{
    char name[48];
    resp_array(out, 4);
    resp_bulk(out, bytes_str(node->options.host));
    resp_integer(out, node->options.port);
    int len = snprintf(name, sizeof(name), "%040u", place);
    resp_bulk(out, bytes_of(name, (size_t)len));
    resp_array(out, 0);
}

static unsigned run_end(const uint8_t *owners, unsigned first)
{
    const uint64_t eight = UINT64_C(0x0101010101010101) * owners[first];
    unsigned last = first;
    while (last + 8 < SIM_CLUSTER_SLOTS && get_u64(owners + last + 1) == eight)
        last += 8;
    while (last + 1 < SIM_CLUSTER_SLOTS && owners[last + 1] == owners[first])
        last++;
    return last;
}

void cluster_show_slots(const struct sim_redis *redis, struct buf *out)
{
    const struct sim_cluster *cluster = redis->cluster;
    const uint8_t *owners = owners_by(redis);
    size_t rows = 0;
    for (unsigned slot = 0; slot < SIM_CLUSTER_SLOTS; slot = run_end(owners, slot) + 1)
        rows += owners[slot] != SIM_CLUSTER_NONE;
    resp_array(out, rows);
    for (unsigned slot = 0; slot < SIM_CLUSTER_SLOTS; slot = run_end(owners, slot) + 1) {
        if (owners[slot] == SIM_CLUSTER_NONE)
            continue;
        const struct sim_redis *owner = cluster->nodes[owners[slot]];
        resp_array(out, 3 + owner->replica_count);
        resp_integer(out, slot);
        resp_integer(out, run_end(owners, slot));
        add_node(out, owner, owners[slot]);
        for (unsigned i = 0; i < owner->replica_count; i++)
            add_node(out, owner->replicas[i], place_of(cluster, owner->replicas[i]));
    }
}

void cluster_show_info(const struct sim_redis *redis, struct buf *out)
{
    const struct sim_cluster *cluster = redis->cluster;
    const uint8_t *owners = owners_by(redis);
    unsigned us = place_of(cluster, redis), assigned = 0;
    bool fails = cluster->down || cluster->cut_off[us];
    uint64_t epoch = cluster->cut_off[us] ? cluster->kept[us]->epoch : cluster->epoch;
    struct buf text = {0};
    for (unsigned slot = 0; slot < SIM_CLUSTER_SLOTS; slot++)
        assigned += owners[slot] != SIM_CLUSTER_NONE;
    buf_addf(&text,
             "cluster_enabled:1\r\ncluster_state:%s\r\ncluster_slots_assigned:%u\r\n"
             "cluster_current_epoch:%llu\r\n",
             fails ? "fail" : "ok", assigned, (unsigned long long)epoch);
    resp_bulk(out, buf_bytes(&text));
    buf_fini(&text);
}

void cluster_publish(const struct sim_redis *from, struct bytes channel, struct bytes message)
{
    struct sim_cluster *cluster = from->cluster;
    if (cluster->cut_off[place_of(cluster, from)])
        return;
    for (unsigned i = 0; i < cluster->count; i++) {
        bool lost = sim_random_chance(&cluster->random, cluster->lost_per_mille);
        if (cluster->nodes[i] != from && !lost && !cluster->cut_off[i])
            (void)sim_redis_publish(cluster->nodes[i], channel,
                                    message); /* the count is not needed */
    }
}

/* ---- slots that move ---- */

void sim_cluster_begin_move(struct sim_cluster *cluster, unsigned slot, unsigned to)
{
    CHECK(to < cluster->count && to != cluster->owner[slot]);
    cluster->to[slot] = (uint8_t)to;
}

static void log_item(struct sim_redis *to, const struct value *value, const struct value_item *item)
{
    char room[DOUBLE_TEXT_BYTES];
    if (value->kind == VALUE_HASH) {
        struct bytes words[] = {BYTES("hset"), value->name, item->member, buf_bytes(&item->value)};
        log_add(to, value->db, words, 4);
    } else {
        struct bytes words[] = {BYTES("zadd"), value->name, double_text(item->score, room),
                                item->member};
        log_add(to, value->db, words, 4);
    }
}

/* MIGRATE: adds the key there and removes it here, in one step. */
static void move_value(struct sim_redis *from, struct sim_redis *to, struct value *value)
{
    struct bytes gone[] = {BYTES("del"), value->name};
    struct value *there = keyspace_find(&to->keys, value->db, value->name);
    if (there)
        keyspace_drop(&to->keys, there);
    log_add(to, value->db, gone, 2);
    there = keyspace_add(&to->keys, value->db, value->name, value->kind);
    for (size_t i = 0; i < value->count; i++) {
        const struct value_item *item = &value->items[i];
        if (value->kind == VALUE_HASH)
            (void)hash_set(there, item->member, buf_bytes(&item->value)); /* it is new */
        else
            zset_add(there, item->member, item->score);
        log_item(to, value, item);
    }
    log_mark(to);
    log_add(from, value->db, gone, 2);
    log_mark(from);
    keyspace_drop(&from->keys, value);
}

bool sim_cluster_move_key(struct sim_cluster *cluster, unsigned slot)
{
    struct sim_redis *from = cluster->nodes[cluster->owner[slot]];
    struct sim_redis *to = cluster->nodes[cluster->to[slot]];
    struct value *first = NULL;
    for (size_t i = 0; i < from->keys.count; i++) {
        struct value *value = from->keys.values[i];
        if (sim_cluster_slot(value->name) == slot && (!first || keyspace_compare(value, first) < 0))
            first = value;
    }
    if (first) {
        move_value(from, to, first);
        return true;
    }
    unsigned before = cluster->owner[slot];
    cluster->owner[slot] = cluster->to[slot];
    cluster->to[slot] = SIM_CLUSTER_NONE;
    cluster->epoch++;
    leave_channels(cluster, before);
    return false;
}

void sim_cluster_take_over(struct sim_cluster *cluster, struct sim_redis *replica,
                           struct sim_redis *master)
{
    unsigned old = place_of(cluster, master), new = place_of(cluster, replica);
    for (unsigned slot = 0; slot < SIM_CLUSTER_SLOTS; slot++) {
        if (cluster->owner[slot] == old)
            cluster->owner[slot] = (uint8_t) new;
        if (cluster->to[slot] == old)
            cluster->to[slot] = (uint8_t) new;
        if (cluster->to[slot] == cluster->owner[slot])
            cluster->to[slot] = SIM_CLUSTER_NONE;
    }
    cluster->epoch++;
    sim_redis_follow(replica, NULL);
    if (cluster->cut_off[old])
        return;
    leave_channels(cluster, old);
    sim_redis_follow(master, replica);
}

static unsigned slot_of(const uint8_t *owners, unsigned node)
{
    unsigned slot = 0;
    while (slot < SIM_CLUSTER_SLOTS && owners[slot] != node)
        slot++;
    return slot;
}

void sim_cluster_cut_off(struct sim_cluster *cluster, unsigned node, bool cut_off)
{
    if (cluster->cut_off[node] == cut_off)
        return;
    cluster->cut_off[node] = cut_off;
    if (cut_off) {
        struct sim_cluster_map *kept = mem_alloc(sizeof(*kept));
        memcpy(kept->owner, cluster->owner, sizeof(kept->owner));
        kept->epoch = cluster->epoch;
        cluster->kept[node] = kept;
        return;
    }
    unsigned slot = slot_of(cluster->kept[node]->owner, node);
    mem_free(cluster->kept[node]);
    cluster->kept[node] = NULL;
    leave_channels(cluster, node);
    if (slot < SIM_CLUSTER_SLOTS && slot_of(cluster->owner, node) == SIM_CLUSTER_SLOTS)
        sim_redis_follow(cluster->nodes[node], cluster->nodes[cluster->owner[slot]]);
}
