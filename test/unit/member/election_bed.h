/*
 * Three candidates and one simulated coordination service, of either kind, on a virtual clock: a
 * row that is compared and set, or ZooKeeper's nodes, sessions and watches. Connections are cut,
 * answers get lost, processes are paused; each machine's clock has its own start and runs at its
 * own speed. One step is STEP_US.
 *
 * After each step the bed itself checks that at most one of those that run holds (M2, M3), and that
 * who begins to lead has a higher epoch than all before (M1).
 */
#ifndef LATERD_TEST_MEMBER_ELECTION_BED_H
#define LATERD_TEST_MEMBER_ELECTION_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "member/claim.h"
#include "member/zk_election.h"
#include "sim/random.h"

enum { BED_NODES = 3, BED_ZNODES = 16 };
#define STEP_US    INT64_C(2000)
#define SECOND_US  INT64_C(1000000)
#define TIMEOUT_US (6 * SECOND_US)

enum bed_kind { BED_ROW, BED_ZOOKEEPER };

/* One candidate, its machine and its connection. */
struct bed_node {
    struct claim claim;
    struct zk_election zk;
    int64_t clock_offset_us;
    int clock_per_mille; /* it runs so much faster */
    int64_t paused_until_us, cut_until_us;
    bool lossy; /* one answer of five is lost */
    /* the operation under way: done at, answered at (true time); -1: never */
    bool asked, done;
    int64_t do_us, answer_us;
    struct claim_answer row_answer;
    struct zk_answer zk_answer;
    char names[BED_ZNODES][ZK_NODE_MAX];
    const char *name_list[BED_ZNODES];
    char data[MEMBER_URL_MAX + 24];
    /* ZooKeeper's client: the session and what it believes of it */
    unsigned session; /* 0: none */
    bool connected;
    int64_t heard_us; /* true time of the last that came */
    char watched[ZK_PATH_MAX];
    int64_t fire_us; /* true time; -1: not */
    /* the oracle's */
    uint64_t terms_seen;
    bool held;
};

struct bed_znode {
    bool there;
    unsigned session, number;
    char name[ZK_NODE_MAX];
};

struct bed {
    enum bed_kind kind;
    struct sim_random random;
    int64_t now_us; /* true time */
    struct bed_node nodes[BED_NODES];
    struct claim_row row;
    /* ZooKeeper */
    struct bed_znode znodes[BED_ZNODES];
    unsigned next_number, next_session;
    int64_t touched_us[256]; /* by session; 0: it has expired */
    int64_t session_us[256]; /* the same: its time-out, agreed to when it was connected last */
    int64_t timeout_us;      /* that the servers agree to */
    bool made[8];            /* parents */
    uint64_t epoch;
    int epoch_version;
    char leader[MEMBER_URL_MAX + 24];
    uint64_t epoch_most; /* of all who led */
    uint64_t seed;       /* shown if a check fails */
};

static inline int64_t bed_clock(const struct bed *bed, const struct bed_node *node)
{
    return node->clock_offset_us + bed->now_us + bed->now_us * node->clock_per_mille / 1000;
}

static inline const struct tenure *bed_tenure(const struct bed *bed, const struct bed_node *node)
{
    return bed->kind == BED_ROW ? &node->claim.tenure : &node->zk.tenure;
}

static inline bool bed_paused(const struct bed *bed, const struct bed_node *node)
{
    return bed->now_us < node->paused_until_us;
}

static inline bool bed_cut(const struct bed *bed, const struct bed_node *node)
{
    return bed->now_us < node->cut_until_us;
}

static inline bool bed_holds(const struct bed *bed, unsigned i)
{
    const struct bed_node *node = &bed->nodes[i];
    const struct tenure *tenure = bed_tenure(bed, node);
    return !bed_paused(bed, node) && tenure->leading && bed_clock(bed, node) < tenure->deadline_us;
}

/* BED_NODES: nobody. */
static inline unsigned bed_holder(const struct bed *bed)
{
    for (unsigned i = 0; i < BED_NODES; i++) {
        if (bed_holds(bed, i))
            return i;
    }
    return BED_NODES;
}

static inline void bed_check(struct bed *bed)
{
    unsigned holders = 0;
    for (unsigned i = 0; i < BED_NODES; i++) {
        struct bed_node *node = &bed->nodes[i];
        const struct tenure *tenure = bed_tenure(bed, node);
        holders += bed_holds(bed, i);
        if (tenure->terms != node->terms_seen) {
            node->terms_seen = tenure->terms;
            if (tenure->epoch <= bed->epoch_most)
                fail_msg("an epoch came twice, SIM_SEED=%llu", (unsigned long long)bed->seed);
        }
        if (tenure->leading && tenure->epoch > bed->epoch_most)
            bed->epoch_most = tenure->epoch;
    }
    if (holders > 1)
        fail_msg("two hold, SIM_SEED=%llu", (unsigned long long)bed->seed);
}

/* ---- ZooKeeper's side ---- */

static inline void bed_fire(struct bed *bed, const char *name)
{
    for (unsigned i = 0; i < BED_NODES; i++) {
        struct bed_node *node = &bed->nodes[i];
        const char *slash = strrchr(node->watched, '/');
        if (!slash || strcmp(slash + 1, name) != 0)
            continue;
        node->watched[0] = '\0';
        node->fire_us = bed->now_us + (int64_t)sim_random_below(&bed->random, 20000);
    }
}

static inline void bed_remove_znode(struct bed *bed, struct bed_znode *znode)
{
    znode->there = false;
    bed_fire(bed, znode->name);
}

static inline void bed_expire_sessions(struct bed *bed)
{
    for (unsigned session = 1; session <= bed->next_session; session++) {
        if (!bed->touched_us[session] ||
            bed->now_us - bed->touched_us[session] < bed->session_us[session])
            continue;
        bed->touched_us[session] = 0;
        for (unsigned i = 0; i < BED_ZNODES; i++) {
            if (bed->znodes[i].there && bed->znodes[i].session == session)
                bed_remove_znode(bed, &bed->znodes[i]);
        }
    }
}

static inline struct bed_znode *bed_znode(struct bed *bed, const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    for (unsigned i = 0; i < BED_ZNODES; i++) {
        if (bed->znodes[i].there && strcmp(bed->znodes[i].name, name) == 0)
            return &bed->znodes[i];
    }
    return NULL;
}

static inline bool bed_ends(const char *path, const char *end)
{
    size_t len = strlen(path), end_len = strlen(end);
    return len >= end_len && strcmp(path + len - end_len, end) == 0;
}

static inline enum zk_result bed_create(struct bed *bed, struct bed_node *node,
                                        const struct zk_op *op)
{
    static const char *const parents[] = {"/ns",    "/ns/laterd", "/ns/laterd/q",
                                          "/elect", "/epoch",     "/leader"};
    if (op->joining) {
        if (!bed->made[3])
            return ZK_NO_NODE;
        for (unsigned i = 0; i < BED_ZNODES; i++) {
            struct bed_znode *znode = &bed->znodes[i];
            if (znode->there)
                continue;
            *znode = (struct bed_znode){true, node->session, bed->next_number++, ""};
            (void)snprintf(znode->name, sizeof(znode->name), "%.40s%010u",
                           strrchr(op->path, '/') + 1, znode->number);
            return ZK_DONE;
        }
        fail_msg("%s", "too many nodes");
    }
    for (unsigned i = 0; i < 6; i++) {
        if (!(i < 3 ? strcmp(op->path, parents[i]) == 0 : bed_ends(op->path, parents[i])))
            continue;
        if (i > 0 && !bed->made[i < 3 ? i - 1 : 2])
            return ZK_NO_NODE;
        bool was = bed->made[i];
        bed->made[i] = true;
        return was ? ZK_EXISTS_ALREADY : ZK_DONE;
    }
    fail_msg("created %s", op->path);
    return ZK_REFUSED;
}

static inline enum zk_result bed_set(struct bed *bed, const struct zk_op *op)
{
    if (bed_ends(op->path, "/leader")) {
        if (!bed->made[5])
            return ZK_NO_NODE;
        memcpy(bed->leader, op->data, sizeof(bed->leader));
        return ZK_DONE;
    }
    assert_true(bed_ends(op->path, "/epoch"));
    if (!bed->made[4])
        return ZK_NO_NODE;
    if (op->version != bed->epoch_version)
        return ZK_BAD_VERSION;
    bed->epoch_version++;
    bool read = bytes_to_u64(bytes_str(op->data), &bed->epoch);
    assert_true(read);
    return ZK_DONE;
}

static inline enum zk_result bed_get(struct bed *bed, struct bed_node *node, const char *path)
{
    bool epoch = bed_ends(path, "/epoch");
    if (!bed->made[epoch ? 4 : 5])
        return ZK_NO_NODE;
    if (epoch)
        (void)snprintf(node->data, sizeof(node->data), "%llu", (unsigned long long)bed->epoch);
    else
        memcpy(node->data, bed->leader, sizeof(node->data));
    node->zk_answer.data = bytes_str(node->data);
    node->zk_answer.version = bed->epoch_version;
    return ZK_DONE;
}

static inline enum zk_result bed_children(struct bed *bed, struct bed_node *node)
{
    if (!bed->made[3])
        return ZK_NO_NODE;
    unsigned count = 0;
    for (unsigned i = 0; i < BED_ZNODES; i++) {
        if (!bed->znodes[i].there)
            continue;
        memcpy(node->names[count], bed->znodes[i].name, ZK_NODE_MAX);
        node->name_list[count] = node->names[count];
        count++;
    }
    node->zk_answer.names = node->name_list;
    node->zk_answer.name_count = count;
    return ZK_DONE;
}

static inline enum zk_result bed_do_zk(struct bed *bed, struct bed_node *node)
{
    const struct zk_op *op = &node->zk.op;
    struct bed_znode *znode;
    if (!bed->touched_us[node->session])
        return ZK_LOST; /* the session is over; its client hears of that by itself */
    bed->touched_us[node->session] = bed->now_us;
    switch (op->verb) {
    case ZK_CREATE: return bed_create(bed, node, op);
    case ZK_CHILDREN: return bed_children(bed, node);
    case ZK_SET: return bed_set(bed, op);
    case ZK_GET: return bed_get(bed, node, op->path);
    case ZK_EXISTS:
        znode = bed_znode(bed, op->path);
        if (znode)
            memcpy(node->watched, op->path, sizeof(node->watched));
        return znode ? ZK_DONE : ZK_NO_NODE;
    case ZK_DELETE_NODE:
        znode = bed_znode(bed, op->path);
        if (znode)
            bed_remove_znode(bed, znode);
        return znode ? ZK_DONE : ZK_NO_NODE;
    }
    return ZK_REFUSED;
}

/* The client library: pings, loses its connection, comes back or hears that its session is over. */
static inline void bed_run_client(struct bed *bed, struct bed_node *node)
{
    bool cut = bed_cut(bed, node);
    if (!cut && node->connected && bed->touched_us[node->session]) {
        if (bed->now_us - bed->touched_us[node->session] > TIMEOUT_US / 3)
            bed->touched_us[node->session] = bed->now_us; /* a ping */
        node->heard_us = bed->now_us;
    }
    if (node->connected && bed->now_us - node->heard_us > TIMEOUT_US * 2 / 3) {
        node->connected = false;
        zk_connecting(&node->zk);
    }
    if (cut)
        return;
    if (node->session && !bed->touched_us[node->session]) {
        node->session = 0;
        node->connected = node->asked = false;
        node->watched[0] = '\0';
        node->fire_us = -1;
        zk_expired(&node->zk, bed_clock(bed, node));
    }
    if (!node->session) {
        node->session = ++bed->next_session;
        assert_true(node->session < sizeof(bed->touched_us) / sizeof(bed->touched_us[0]));
        bed->touched_us[node->session] = bed->now_us;
        bed->session_us[node->session] = bed->timeout_us;
    }
    if (!node->connected) {
        node->connected = true;
        node->heard_us = bed->touched_us[node->session] = bed->now_us;
        bed->session_us[node->session] = bed->timeout_us;
        zk_connected(&node->zk, bed->timeout_us, bed_clock(bed, node));
    }
    if (node->fire_us >= 0 && node->fire_us <= bed->now_us) {
        node->fire_us = -1;
        zk_fired(&node->zk, bed_clock(bed, node));
    }
}

/* ---- the row's side ---- */

static inline void bed_do_row(struct bed *bed, struct bed_node *node)
{
    const struct claim_request *request = &node->claim.request;
    bool fits = request->make ? !bed->row.exists
                              : bed->row.exists && bed->row.epoch == request->from_epoch &&
                                    bed->row.count == request->from_count;
    node->row_answer.done = request->write && fits;
    if (node->row_answer.done)
        bed->row = request->to;
    node->row_answer.row = bed->row;
}

/* ---- one candidate's step ---- */

static inline void bed_send(struct bed *bed, struct bed_node *node)
{
    bool slow = node->lossy && sim_random_chance(&bed->random, 50);
    int64_t way_us = (int64_t)sim_random_below(&bed->random, slow ? 3 * SECOND_US : 8000);
    bool lost = node->lossy && sim_random_chance(&bed->random, 200);
    node->asked = true;
    node->done = false;
    node->do_us = bed->now_us + way_us;
    node->answer_us = lost ? -1 : node->do_us + (int64_t)sim_random_below(&bed->random, 8000);
    if (bed->kind == BED_ROW)
        (void)claim_request(&node->claim, bed_clock(bed, node));
    else
        (void)zk_next(&node->zk, bed_clock(bed, node));
}

static inline void bed_receive(struct bed *bed, struct bed_node *node)
{
    int64_t clock_us = bed_clock(bed, node);
    bool late = bed->now_us > node->do_us + 2 * SECOND_US;
    bool came =
        node->done && node->answer_us >= 0 && bed->now_us >= node->answer_us && !bed_cut(bed, node);
    if (!came && !late)
        return;
    node->asked = false;
    if (bed->kind == BED_ROW && came)
        claim_answered(&node->claim, &node->row_answer, clock_us);
    else if (bed->kind == BED_ROW)
        claim_unanswered(&node->claim, clock_us);
    else if (came)
        zk_answered(&node->zk, &node->zk_answer, clock_us);
    else
        zk_answered(&node->zk, &(struct zk_answer){.result = ZK_LOST}, clock_us);
}

/* What the network and the service do, even while the process is paused. */
static inline void bed_serve(struct bed *bed, struct bed_node *node)
{
    if (!node->asked || node->done || bed->now_us < node->do_us || bed_cut(bed, node))
        return;
    node->done = true;
    if (bed->kind == BED_ROW)
        bed_do_row(bed, node);
    else
        node->zk_answer.result = bed_do_zk(bed, node);
}

static inline void bed_run(struct bed *bed, struct bed_node *node)
{
    int64_t clock_us = bed_clock(bed, node);
    if (bed->kind == BED_ZOOKEEPER)
        bed_run_client(bed, node);
    if (node->asked)
        bed_receive(bed, node);
    if (bed->kind == BED_ROW)
        (void)claim_expire(&node->claim, clock_us);
    else
        (void)zk_expire(&node->zk, clock_us);
    int64_t next_us = bed->kind == BED_ROW ? claim_next_us(&node->claim) : zk_next_us(&node->zk);
    if (!node->asked && next_us <= clock_us)
        bed_send(bed, node);
}

static inline void bed_step(struct bed *bed)
{
    bed->now_us += STEP_US;
    if (bed->kind == BED_ZOOKEEPER)
        bed_expire_sessions(bed);
    bed_check(bed); /* who wakes now asks holds() before it does anything else */
    for (unsigned i = 0; i < BED_NODES; i++) {
        bed_serve(bed, &bed->nodes[i]);
        if (!bed_paused(bed, &bed->nodes[i]))
            bed_run(bed, &bed->nodes[i]);
        bed_check(bed);
    }
}

static inline void bed_pass(struct bed *bed, int64_t span_us)
{
    int64_t end_us = bed->now_us + span_us;
    while (bed->now_us < end_us)
        bed_step(bed);
}

/* How long until somebody other than `but` holds; not within `most_us`: a failure. */
static inline int64_t bed_until_holder(struct bed *bed, unsigned but, int64_t most_us)
{
    int64_t begun_us = bed->now_us;
    while (bed_holder(bed) == but || bed_holder(bed) == BED_NODES) {
        assert_true(bed->now_us - begun_us < most_us);
        bed_step(bed);
    }
    return bed->now_us - begun_us;
}

static inline void bed_kill(struct bed_node *node)
{
    node->paused_until_us = INT64_MAX;
    node->cut_until_us = INT64_MAX;
}

static inline void bed_resign(struct bed *bed, unsigned i, int64_t rest_us)
{
    struct bed_node *node = &bed->nodes[i];
    if (bed->kind == BED_ROW)
        claim_resign(&node->claim, rest_us, bed_clock(bed, node));
    else
        zk_resign(&node->zk, rest_us, bed_clock(bed, node));
}

static inline void bed_raise(struct bed *bed, unsigned i, uint64_t above)
{
    struct bed_node *node = &bed->nodes[i];
    if (bed->kind == BED_ROW)
        claim_raise(&node->claim, above, bed_clock(bed, node));
    else
        zk_raise(&node->zk, above, bed_clock(bed, node));
}

static inline void bed_init(struct bed *bed, enum bed_kind kind, uint64_t seed)
{
    memset(bed, 0, sizeof(*bed));
    bed->kind = kind;
    bed->random.state = bed->seed = seed;
    bed->now_us = SECOND_US;
    bed->timeout_us = TIMEOUT_US;
    for (unsigned i = 0; i < BED_NODES; i++) {
        struct bed_node *node = &bed->nodes[i];
        char url[32];
        node->clock_offset_us = (int64_t)sim_random_below(&bed->random, 1000000 * SECOND_US);
        node->clock_per_mille = (int)sim_random_below(&bed->random, 41) - 20;
        node->fire_us = -1;
        (void)snprintf(url, sizeof(url), "http://node%u", i);
        struct member_options options = {.url = "",
                                         .ca = "",
                                         .name = "q",
                                         .advertise = url,
                                         .timeout_us = TIMEOUT_US,
                                         .instance = sim_random_next(&bed->random)};
        claim_init(&node->claim, &options, bed_clock(bed, node));
        assert_int_equal(zk_election_init(&node->zk, "/ns", &options, bed_clock(bed, node)), OK);
    }
}

#endif
