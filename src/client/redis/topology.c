/*
 * Invariants: a node in use has link.wanted; `slots` names nodes in use only. Without a cluster
 * there is one node, nodes[0], and every slot is its.
 */
#include "client/redis/topology.h"

#include <string.h>

#include "base/log.h"
#include "client/redis/info.h"
#include "client/redis/resp.h"

enum {
    /* Between two requests for the map: at first, and when something has been wrong for long, so
       that many daemons do not overload a broken cluster. */
    MAP_AGAIN_US = 100 * 1000,
    MAP_RARELY_US = 1000 * 1000,
    DISPUTED_US = 20 * 1000,  /* within this time no slot goes from one node to another and back */
    SUSPECT_US = 1000 * 1000, /* a node that said CLUSTERDOWN, or was silent */
};

/* ---- nodes ---- */

static struct topology *of_node(struct node_callbacks *callbacks)
{
    return LIST_ENTRY(callbacks, struct topology, callbacks);
}

static struct loop *loop_of(const struct topology *topology)
{
    return topology->options.loop;
}

static bool takes_commands(const struct node *node)
{
    return node->ready && !node->link.doomed;
}

static bool in_use(const struct node *node)
{
    return node->link.wanted;
}

/* The node at this address; a new one if there is none. REDIS_NO_NODE: there are too many. */
static uint8_t need_node(struct topology *topology, const struct redis_address *address)
{
    unsigned free_place = topology->node_count;
    for (unsigned i = 0; i < topology->node_count; i++) {
        struct node *node = &topology->nodes[i];
        if (in_use(node) && redis_address_eq(&node->link.address, address))
            return (uint8_t)i;
        if (!in_use(node) && free_place == topology->node_count)
            free_place = i;
    }
    if (free_place == REDIS_NODES_MAX)
        return REDIS_NO_NODE;
    if (free_place == topology->node_count) {
        node_init(&topology->nodes[free_place], &topology->link, &topology->callbacks);
        topology->node_count++;
    } else {
        node_renew(&topology->nodes[free_place]);
    }
    topology->questions[free_place].suspect_us = 0;
    link_want(&topology->nodes[free_place].link, address);
    return (uint8_t)free_place;
}

/* The node in this place, which may be REDIS_NO_NODE, if it takes commands now; else NULL. */
static struct node *node_at(struct topology *topology, uint8_t place)
{
    bool usable = place < topology->node_count && takes_commands(&topology->nodes[place]);
    return usable ? &topology->nodes[place] : NULL;
}

struct node *topology_node(struct topology *topology, unsigned slot)
{
    bool cluster = topology->options.url->topology == REDIS_CLUSTER;
    return node_at(topology, cluster ? topology->slots[slot] : 0);
}

struct node *topology_any(struct topology *topology)
{
    for (unsigned i = 0; i < topology->node_count; i++) {
        if (takes_commands(&topology->nodes[i]))
            return &topology->nodes[i];
    }
    return NULL;
}

struct node *topology_at(struct topology *topology, const struct redis_address *address)
{
    return node_at(topology, need_node(topology, address));
}

/* ---- cluster ---- */

/* CRC16-XMODEM, as the Redis Cluster specification has it. Only partitions' names go through. */
static uint16_t crc16(struct bytes bytes)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        crc = (uint16_t)(crc ^ (unsigned char)bytes.at[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

unsigned topology_slot(struct bytes key)
{
    const char *open = key.len ? memchr(key.at, '{', key.len) : NULL;
    if (open) {
        size_t rest = key.len - (size_t)(open + 1 - key.at);
        const char *close = memchr(open + 1, '}', rest);
        if (close && close > open + 1)
            key = bytes_of(open + 1, (size_t)(close - open - 1));
    }
    return crc16(key) % REDIS_SLOTS;
}

static bool is_suspect(const struct topology *topology, unsigned place)
{
    return topology->questions[place].suspect_us > loop_of(topology)->now_us;
}

/* True: all slots have nodes that are ready and not suspect, or there are too many masters. */
static bool is_well(const struct topology *topology)
{
    for (unsigned i = 0; i < topology->node_count; i++) {
        if (topology->has_slot[i] &&
            (!takes_commands(&topology->nodes[i]) || is_suspect(topology, i)))
            return false;
    }
    return topology->whole && !topology->has_room;
}

/* The delay before the next request: longer, the longer something has been wrong. */
static int64_t map_again_us(const struct topology *topology)
{
    int64_t quarter_us = (loop_of(topology)->now_us - topology->error_since_us) / 4;
    quarter_us = quarter_us < MAP_RARELY_US ? quarter_us : MAP_RARELY_US;
    return topology->requested_us + (quarter_us > MAP_AGAIN_US ? quarter_us : MAP_AGAIN_US);
}

static void want_map(struct topology *topology)
{
    if (!topology->error_since_us)
        topology->error_since_us = loop_of(topology)->now_us;
    loop_arm_by(loop_of(topology), &topology->map_again, map_again_us(topology));
}

static struct bytes text_of(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING ? bytes_of(reply->str, (size_t)reply->len) : BYTES("");
}

/* The IP address of a node in CLUSTER SLOTS: what is known of it beside host, port and identity, by
 * name and value. Empty: it is not told. */
static struct bytes ip_of(const redisReply *node)
{
    const redisReply *facts = node->elements > 3 ? node->element[3] : NULL;
    size_t count = facts && facts->type == REDIS_REPLY_ARRAY ? facts->elements : 0;
    for (size_t i = 0; i + 1 < count; i += 2) {
        if (bytes_eq(text_of(facts->element[i]), BYTES("ip")))
            return text_of(facts->element[i + 1]);
    }
    return BYTES("");
}

/* One row of CLUSTER SLOTS: first, last, [host, port, …] of the master, then its replicas. */
static bool read_row(const redisReply *row, const struct redis_address *answered,
                     struct redis_address *out_address, unsigned *out_first, unsigned *out_last)
{
    if (row->type != REDIS_REPLY_ARRAY || row->elements < 3)
        return false;
    const redisReply *first = row->element[0], *last = row->element[1], *master = row->element[2];
    if (first->type != REDIS_REPLY_INTEGER || last->type != REDIS_REPLY_INTEGER ||
        first->integer < 0 || last->integer >= REDIS_SLOTS || first->integer > last->integer)
        return false;
    if (master->type != REDIS_REPLY_ARRAY || master->elements < 2 ||
        master->element[1]->type != REDIS_REPLY_INTEGER)
        return false;
    struct bytes host = text_of(master->element[0]);
    if (bytes_eq(host, BYTES("?"))) /* it has to be called by a name, and has none */
        host = ip_of(master);
    if (!host.len)
        host = bytes_str(answered->host);
    if (!redis_address_make(host, (uint64_t)master->element[1]->integer, out_address))
        return false;
    *out_first = (unsigned)first->integer;
    *out_last = (unsigned)last->integer;
    return true;
}

/* Closes nodes that have no slots any more, but keeps at least one node to ask. True: one was in
 * use, and so has left its place to others. */
static bool leave_others(struct topology *topology)
{
    bool left = false;
    for (unsigned i = 0; i < topology->node_count; i++) {
        if (topology->has_slot[i])
            continue;
        left = left || in_use(&topology->nodes[i]);
        link_rest(&topology->nodes[i].link);
    }
    return left;
}

/* Slots whose masters are too many. Logged when it begins. */
static void note_left_out(struct topology *topology, unsigned slots)
{
    if (slots && !topology->left_out)
        log_event(LOG_ERROR, "redis_too_many_masters",
                  "most=%d slots_without_master=%u hint=\"laterd connects to so many masters of a "
                  "cluster: partitions of the queue in the other slots cannot be served\"",
                  REDIS_NODES_MAX, slots);
    topology->left_out = slots;
}

static void notify_moved(struct topology *topology)
{
    struct topology_callbacks *callbacks = topology->options.callbacks;
    if (callbacks->moved)
        callbacks->moved(callbacks);
}

static void take_map(struct topology *topology, const redisReply *reply,
                     const struct redis_address *answered)
{
    unsigned covered = 0, left_out = 0;
    memset(topology->slots, REDIS_NO_NODE, sizeof(topology->slots));
    memset(topology->has_slot, 0, sizeof(topology->has_slot));
    for (size_t i = 0; i < reply->elements; i++) {
        struct redis_address address;
        unsigned first, last;
        if (!read_row(reply->element[i], answered, &address, &first, &last))
            continue;
        uint8_t place = need_node(topology, &address);
        memset(topology->slots + first, place, last - first + 1);
        if (place != REDIS_NO_NODE)
            topology->has_slot[place] = true;
        else
            left_out += last - first + 1;
        covered += last - first + 1;
    }
    topology->whole = covered == REDIS_SLOTS;
    bool left = covered && leave_others(topology);
    topology->has_room = left && left_out;
    if (!topology->has_room)
        note_left_out(topology, left_out);
    notify_moved(topology);
}

static struct node *node_of(const struct map_question *question)
{
    return &question->topology->nodes[question - question->topology->questions];
}

static unsigned ready_nodes(const struct topology *topology)
{
    unsigned count = 0;
    for (unsigned i = 0; i < topology->node_count; i++)
        count += takes_commands(&topology->nodes[i]);
    return count;
}

/*
 * Decides whether the map replaces ours. A node without the majority has an old map, and so may a
 * node that has not received a newer one yet. If all nodes have lower epochs, the cluster was
 * created again.
 */
static bool is_believed(const struct map_question *question)
{
    struct topology *topology = question->topology;
    if (!topology->whole || !topology->map_ok)
        return true;
    if (!question->ok)
        return false;
    topology->older = question->epoch < topology->epoch ? topology->older + 1 : 0;
    return !topology->older || topology->older >= ready_nodes(topology);
}

static void info_answered(struct link_call *call, redisReply *reply)
{
    struct map_question *question = LIST_ENTRY(call, struct map_question, info);
    struct bytes text = BYTES("");
    if (reply && reply->type == REDIS_REPLY_STRING)
        text = bytes_of(reply->str, (size_t)reply->len);
    question->ok = bytes_eq(redis_info_field(text, BYTES("cluster_state")), BYTES("ok"));
    if (!bytes_to_u64(redis_info_field(text, BYTES("cluster_current_epoch")), &question->epoch))
        question->epoch = 0;
    if (reply)
        freeReplyObject(reply);
}

static void map_answered(struct link_call *call, redisReply *reply)
{
    struct map_question *question = LIST_ENTRY(call, struct map_question, slots);
    struct topology *topology = question->topology;
    question->pending = false;
    question->suspect_us = question->ok ? 0 : loop_of(topology)->now_us + SUSPECT_US;
    if (reply && reply->type == REDIS_REPLY_ARRAY && is_believed(question)) {
        struct redis_address answered = node_of(question)->link.address;
        topology->map_ok = question->ok;
        topology->epoch = question->epoch;
        topology->older = 0;
        take_map(topology, reply, &answered);
    }
    if (is_well(topology)) {
        topology->error_since_us = 0;
        loop_cancel(loop_of(topology), &topology->map_again);
    } else {
        want_map(topology);
    }
    if (reply)
        freeReplyObject(reply);
}

/* The next node to ask, in rotation: a node that was removed from the cluster answers, but has no
   map. */
static struct map_question *next_question(struct topology *topology, bool suspect)
{
    for (unsigned i = 1; i <= topology->node_count; i++) {
        unsigned place = (topology->map_place + i) % topology->node_count;
        struct map_question *question = &topology->questions[place];
        if (takes_commands(&topology->nodes[place]) && !question->pending &&
            is_suspect(topology, place) == suspect) {
            topology->map_place = place;
            return question;
        }
    }
    return NULL;
}

static void request_map(struct topology *topology)
{
    struct map_question *question = next_question(topology, false);
    if (!question)
        question = next_question(topology, true);
    if (!question)
        return;
    struct link *link = &node_of(question)->link;
    resp_begin(link_out(link), 2);
    resp_add_str(link_out(link), "CLUSTER");
    resp_add_str(link_out(link), "INFO");
    link_expect(link, &question->info);
    resp_begin(link_out(link), 2);
    resp_add_str(link_out(link), "CLUSTER");
    resp_add_str(link_out(link), "SLOTS");
    question->pending = true;
    link_expect(link, &question->slots);
}

/* All known nodes may be gone: adds the addresses of the configuration again. */
static void add_seeds(struct topology *topology)
{
    const struct redis_url *url = topology->options.url;
    for (unsigned i = 0; i < url->address_count; i++)
        (void)need_node(topology, &url->addresses[i]); /* too many: then there are others to ask */
}

static void map_is_wanted(struct timer *timer)
{
    struct topology *topology = LIST_ENTRY(timer, struct topology, map_again);
    if (!topology_any(topology))
        add_seeds(topology);
    topology->requested_us = loop_of(topology)->now_us;
    request_map(topology);
    want_map(topology); /* the next one, if this one is silent, or knows nothing better */
}

/* ---- Sentinel ---- */

static void master_named(void *owner, const struct redis_address *master)
{
    struct topology *topology = owner;
    char from_room[REDIS_HOST_MAX + 8], to_room[REDIS_HOST_MAX + 8];
    if (topology->node_count == 0) {
        (void)need_node(topology, master); /* the first is never one too many */
        return;
    }
    struct link *link = &topology->nodes[0].link;
    if (!redis_address_eq(&link->address, master)) {
        struct bytes from = redis_address_text(&link->address, from_room, sizeof(from_room));
        struct bytes to = redis_address_text(master, to_room, sizeof(to_room));
        log_event(LOG_INFO, "redis_failover", "from=%.*s to=%.*s", (int)from.len, from.at,
                  (int)to.len, to.at);
    }
    link_want(link, master);
}

static void sentinel_refused(void *owner, const struct link *link)
{
    struct topology_callbacks *callbacks = ((struct topology *)owner)->options.callbacks;
    if (callbacks->refused)
        callbacks->refused(callbacks, link);
}

static void init_sentinels(struct topology *topology)
{
    const struct topology_options *options = &topology->options;
    sentinels_init(&topology->sentinels,
                   &(struct sentinels_options){.url = options->url,
                                               .user = options->sentinel_user,
                                               .password = options->sentinel_password,
                                               .tls = options->tls,
                                               .loop = options->loop,
                                               .ended = options->ended,
                                               .ended_owner = options->owner,
                                               .timeout_us = options->timeout_us,
                                               .named = master_named,
                                               .refused = sentinel_refused,
                                               .owner = topology});
    sentinels_want_master(&topology->sentinels, true);
}

/* ---- all kinds of topology ---- */

static void node_ready(struct node_callbacks *of_nodes, struct node *node)
{
    struct topology *topology = of_node(of_nodes);
    struct topology_callbacks *callbacks = topology->options.callbacks;
    if (topology->options.url->topology == REDIS_SENTINEL)
        sentinels_want_master(&topology->sentinels, false);
    if (callbacks->ready)
        callbacks->ready(callbacks, node);
}

static void node_lost(struct node_callbacks *of_nodes, struct node *node)
{
    struct topology *topology = of_node(of_nodes);
    struct topology_callbacks *callbacks = topology->options.callbacks;
    if (topology->options.url->topology == REDIS_SENTINEL)
        sentinels_want_master(&topology->sentinels, true);
    if (topology->options.url->topology == REDIS_CLUSTER) {
        want_map(topology);
        if (node->replica && node->master.host[0])
            (void)need_node(topology, &node->master); /* too many: then there are others to ask */
    }
    if (callbacks->lost)
        callbacks->lost(callbacks, node);
}

static void node_slow(struct node_callbacks *callbacks, struct node *node)
{
    struct topology *topology = of_node(callbacks);
    if (node->ready)
        topology_suspect(topology, node);
}

void topology_init(struct topology *topology, const struct topology_options *options)
{
    const struct redis_url *url = options->url;
    *topology = (struct topology){
        .options = *options,
        .link = {.loop = options->loop,
                 .user = url->user,
                 .password = url->password,
                 .db = url->db,
                 .tls = options->tls,
                 .counts = &topology->counts,
                 .ended = options->ended,
                 .owner = options->owner,
                 .timeout_us = options->timeout_us},
        .callbacks = {.ready = node_ready, .lost = node_lost, .slow = node_slow},
        .map_again.expired = map_is_wanted,
    };
    memset(topology->slots, REDIS_NO_NODE, sizeof(topology->slots));
    for (unsigned i = 0; i < REDIS_NODES_MAX; i++)
        topology->questions[i] = (struct map_question){
            .topology = topology, .info.done = info_answered, .slots.done = map_answered};
    switch (url->topology) {
    case REDIS_SINGLE: (void)need_node(topology, &url->addresses[0]); break; /* there is room */
    case REDIS_SENTINEL: init_sentinels(topology); break;
    case REDIS_CLUSTER:
        add_seeds(topology);
        want_map(topology);
        break;
    }
}

void topology_fini(struct topology *topology)
{
    for (unsigned i = 0; i < topology->node_count; i++)
        node_fini(&topology->nodes[i]);
    loop_cancel(loop_of(topology), &topology->map_again); /* a call that ended may have armed it */
    sentinels_fini(&topology->sentinels);
}

bool topology_moved(struct topology *topology, struct node *by, const struct failure *failure)
{
    if (topology->options.url->topology != REDIS_CLUSTER) {
        link_fail(&by->link, "it is a replica");
        return true;
    }
    want_map(topology);
    if (failure->kind != FAILURE_MOVED)
        return true;
    struct redis_address address = failure->address;
    if (!address.host[0])
        memcpy(address.host, by->link.address.host, sizeof(address.host));
    uint8_t place = need_node(topology, &address);
    int64_t *moved_us = &topology->moved_us[failure->slot], now_us = loop_of(topology)->now_us;
    uint8_t *moved_by = &topology->moved_by[failure->slot];
    uint8_t said_by = (uint8_t)(by - topology->nodes);
    if (place != topology->slots[failure->slot]) {
        if (*moved_us && now_us - *moved_us < DISPUTED_US && *moved_by != said_by)
            return false;
        *moved_us = now_us;
        *moved_by = said_by;
    }
    topology->slots[failure->slot] = place;
    if (place != REDIS_NO_NODE)
        topology->has_slot[place] = true;
    notify_moved(topology);
    return true;
}

void topology_suspect(struct topology *topology, struct node *node)
{
    if (topology->options.url->topology != REDIS_CLUSTER)
        return;
    topology->questions[node - topology->nodes].suspect_us = loop_of(topology)->now_us + SUSPECT_US;
    want_map(topology);
}

const struct node *topology_bad_node(const struct topology *topology)
{
    for (unsigned i = 0; i < topology->node_count; i++) {
        const struct node *node = &topology->nodes[i];
        if (in_use(node) && (!node->ready || node->stalled_us))
            return node;
    }
    return NULL;
}

const struct link *topology_error(const struct topology *topology)
{
    const struct node *node = topology_bad_node(topology);
    if (node)
        return &node->link;
    return topology->node_count ? NULL : sentinels_error(&topology->sentinels);
}

void topology_flush(struct topology *topology)
{
    for (unsigned i = 0; i < topology->node_count; i++)
        link_flush(&topology->nodes[i].link);
}
