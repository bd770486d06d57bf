/*
 * What happens in redis_life_test.c to daemons, servers and the way between them; faults that end
 * by themselves have a time for that.
 */
#ifndef LATERD_TEST_REDIS_LIFE_FAULTS_H
#define LATERD_TEST_REDIS_LIFE_FAULTS_H

#include "redis_life_keys.h"

/* ---- faults that end ---- */

static inline void mend_at(struct life *life, int64_t after_us, enum mending what, unsigned a,
                           unsigned b)
{
    if (life->mender_count < MENDERS_MAX)
        life->menders[life->mender_count++] =
            (struct mender){.at_us = life->now_us + after_us, .what = what, .a = a, .b = b};
}

static inline void take_over(struct life *life, unsigned old, unsigned new, bool orderly);
static inline void lose_again(struct life *life, const struct mender *mender);

/* In gentle lives: it stops in good order, and starts again. One that reaches no server could give
   nothing back. */
static inline void leave(struct life *life, struct daemon *daemon)
{
    if (life->quiet || life->leap_us || !is_awake(daemon) || life->now_us < life->uncut_us)
        return;
    oracle_left(&life->oracle, life->now_us);
    daemon_stop(daemon, false);
}

static inline void mend(struct life *life, const struct mender *mender)
{
    bool of_server =
        mender->what != MEND_CUT && mender->what != MEND_LEAVE && mender->what != MEND_LOSE;
    struct sim_redis_settings *settings =
        of_server ? sim_redis_settings(life->servers[mender->a]) : NULL;
    switch (mender->what) {
    case MEND_CUT: sim_network_cut(life->network, mender->a, mender->b, SIM_WHOLE); break;
    case MEND_DOWN: sim_network_down(life->network, mender->a, false); break;
    case MEND_LAG: settings->lag_us = 1 + span(life, 20 * MS); break;
    case MEND_FULL: settings->full = false; break;
    case MEND_LOADING: settings->loading = false; break;
    case MEND_BUSY: settings->busy = false; break;
    case MEND_SAVE: settings->cannot_save = false; break;
    case MEND_FEW: settings->few_replicas = false; break;
    case MEND_LEAVE: leave(life, &life->daemons[mender->a]); break;
    case MEND_FAIL_OVER: take_over(life, mender->a, mender->b, false); break;
    case MEND_LEAP:
        settings->ahead_us -= mender->by_us;
        late_excuse(life, LEAP_RECOVERY_US);
        break;
    case MEND_LOSE: lose_again(life, mender); break;
    }
}

static inline void mend_due(struct life *life, bool all)
{
    for (unsigned i = life->mender_count; i-- > 0;) {
        struct mender mender = life->menders[i];
        if (!all && mender.at_us > life->now_us)
            continue;
        life->menders[i] = life->menders[--life->mender_count];
        mend(life, &mender);
    }
}

/* ---- faults ---- */

static inline unsigned any_server(struct life *life)
{
    return (unsigned)below(life, life->server_count + life->sentinel_count);
}

static inline unsigned any_master(struct life *life)
{
    unsigned server = (unsigned)below(life, life->server_count);
    return sim_redis_is_replica(life->servers[server]) ? life->master : server;
}

/* What was sent into it arrives when it ends, and is done then, by the time it was sent with. */
static inline void cut_begins(struct life *life, int64_t us)
{
    life->uncut_us = life->now_us + us + 2 * SECOND_US;
    life->oracle.way_us += us;
}

static inline void cut_path(struct life *life)
{
    unsigned daemon = (unsigned)below(life, life->daemon_count), server = any_server(life);
    int64_t us = life->gentle ? span(life, chance(life, 500) ? 900 * MS : 2600 * MS)
                              : span(life, 6 * SECOND_US);
    if (!life->gentle)
        oracle_silence(&life->oracle);
    else if (life->now_us < life->uncut_us) /* two would be a silence */
        return;
    cut_begins(life, us);
    sim_network_cut(life->network, daemon, server,
                    chance(life, 600) ? SIM_CUT_ANSWERS : SIM_CUT_ALL);
    mend_at(life, us, MEND_CUT, daemon, server);
}

/*
 * Nothing passes between the daemon and any server for longer than its requests wait: what it has
 * begun fails, and has to be tried again.
 */
static inline void cut_off(struct life *life, unsigned daemon)
{
    if (!life->gentle || life->quiet || life->calm || life->now_us < life->uncut_us)
        return;
    int64_t us = 2100 * MS + span(life, 500 * MS);
    cut_begins(life, us);
    for (unsigned i = 0; i < life->server_count; i++) {
        sim_network_cut(life->network, daemon, i, SIM_CUT_ALL);
        mend_at(life, us, MEND_CUT, daemon, i);
    }
}

static inline void restart_server(struct life *life)
{
    unsigned server = any_master(life);
    enum sim_redis_kept kept = SIM_REDIS_KEEPS_ALL;
    if (life->risky && chance(life, 500)) {
        kept = chance(life, 500) ? SIM_REDIS_KEEPS_SAVED : SIM_REDIS_KEEPS_NOTHING;
        oracle_lost(&life->oracle);
    }
    sim_network_down(life->network, server, true);
    sim_redis_restart(life->servers[server], kept);
    mend_at(life, span(life, 1200 * MS), MEND_DOWN, server, 0);
    if (chance(life, 300)) {
        sim_redis_settings(life->servers[server])->loading = true;
        mend_at(life, span(life, 1500 * MS), MEND_LOADING, server, 0);
    }
}

static inline void break_settings(struct life *life)
{
    unsigned server = any_master(life);
    struct sim_redis_settings *settings = sim_redis_settings(life->servers[server]);
    int64_t us = span(life, 1200 * MS);
    switch (below(life, 4)) {
    case 0:
        settings->full = true;
        mend_at(life, us, MEND_FULL, server, 0);
        break;
    case 1:
        settings->busy = true;
        mend_at(life, us, MEND_BUSY, server, 0);
        break;
    case 2:
        settings->few_replicas = true;
        mend_at(life, us, MEND_FEW, server, 0);
        break;
    default: settings->cannot_save = true; mend_at(life, us, MEND_SAVE, server, 0);
    }
}

/* Somebody else's command. */
static inline void send_command(struct life *life, struct bytes command)
{
    struct sim_redis_conn *conn = sim_redis_accept(life->servers[any_master(life)]);
    sim_redis_input(conn, command);
    sim_redis_hang_up(conn);
}

static inline void flush_scripts(struct life *life)
{
    send_command(life, BYTES("*2\r\n$6\r\nSCRIPT\r\n$5\r\nFLUSH\r\n"));
}

/* All that was written is safe now, or all of it is gone. */
static inline void save_or_flush(struct life *life)
{
    if (chance(life, 800)) {
        sim_redis_save(life->servers[any_master(life)]);
        return;
    }
    send_command(life, BYTES("*1\r\n$8\r\nFLUSHALL\r\n"));
    oracle_lost(&life->oracle);
}

/* Somebody deletes a sorted set of the partition, or it is evicted. */
static inline void lose_set_of(struct life *life, unsigned partition)
{
    static const char *const sets[] = {"d", "l", "o"};
    char tag[16], name[32];
    struct buf command = {0};
    int len = snprintf(name, sizeof(name), "%s:%s", tag_of(partition, tag), sets[below(life, 3)]);
    buf_addf(&command, "*2\r\n$3\r\nDEL\r\n$%d\r\n%s\r\n", len, name);
    struct sim_redis_conn *conn = sim_redis_accept(server_of(life, partition));
    sim_redis_input(conn, buf_bytes(&command));
    sim_redis_hang_up(conn);
    buf_fini(&command);
    late_excuse(life, LOSS_RECOVERY_US);
}

static inline bool is_being_put_back(const struct life *life, unsigned partition)
{
    bool being = false;
    for (unsigned i = 0; i < life->daemon_count; i++) {
        const struct redis_engine *engine = life->daemons[i].engine;
        being = being || (engine && engine->partition_init.openings[partition].rebuilding);
    }
    return being;
}

/* What is lost is put back within some milliseconds, about a second later: waits for that. */
static inline void lose_again(struct life *life, const struct mender *mender)
{
    if (life->quiet)
        return;
    if (is_being_put_back(life, mender->a) && chance(life, 300)) {
        lose_set_of(life, mender->a);
    } else if (mender->by_us > 0) {
        int64_t us = 1 + span(life, 8 * MS);
        mend_at(life, us, MEND_LOSE, mender->a, 0);
        life->menders[life->mender_count - 1].by_us = mender->by_us - us;
    }
}

static inline void lose_set(struct life *life)
{
    unsigned partition = (unsigned)below(life, life->partitions);
    lose_set_of(life, partition);
    if (chance(life, 600) && life->mender_count < MENDERS_MAX) {
        mend_at(life, 1, MEND_LOSE, partition, 0);
        life->menders[life->mender_count - 1].by_us = 2 * SECOND_US;
    }
}

/* Each daemon has started, and does not end, and has seen each partition's clock, long
   enough ago to be sure of it. */
static inline bool clocks_are_known(const struct life *life)
{
    bool known = true;
    for (unsigned i = 0; i < life->daemon_count; i++) {
        const struct redis_engine *engine = life->daemons[i].engine;
        known = known && engine && !life->daemons[i].opening && !life->daemons[i].leaving;
        for (unsigned p = 0; known && p < life->partitions; p++)
            known = engine->calls.partitions[p].clock.known &&
                    daemon_now(&life->daemons[i]) - engine->calls.partitions[p].clock.adopted_us >=
                        2 * SECOND_US;
    }
    return known;
}

/* The clock of one server, or of all, is set: for some seconds, or for good. */
static inline void leap(struct life *life)
{
    int64_t most_us = chance(life, 500) ? life->leap_us : 2 * SECOND_US;
    int64_t by_us = span(life, 2 * most_us) - most_us;
    unsigned only = (unsigned)below(life, 2 * life->server_count);
    bool for_good = chance(life, 300);
    if (!clocks_are_known(life))
        return;
    for (unsigned i = 0; i < life->server_count; i++) {
        if (only < life->server_count && i != only)
            continue;
        sim_redis_settings(life->servers[i])->ahead_us += by_us;
        late_excuse(life, LEAP_RECOVERY_US);
        if (for_good || life->mender_count == MENDERS_MAX)
            continue;
        mend_at(life, span(life, 3 * SECOND_US), MEND_LEAP, i, 0);
        life->menders[life->mender_count - 1].by_us = by_us;
    }
}

/*
 * The replica takes over. What was acknowledged is there: the change of hands was orderly, or the
 * daemons wait for replicas; else what it had not got is lost.
 */
static inline void take_over(struct life *life, unsigned old, unsigned new, bool orderly)
{
    if (!sim_redis_is_replica(life->servers[new]) || sim_redis_is_replica(life->servers[old]))
        return;
    if (orderly)
        sim_redis_catch_up(life->servers[new]);
    else
        oracle_failed_over(&life->oracle, life->now_us);
    if (!orderly && !life->wait_replicas)
        oracle_lost(&life->oracle);
    if (life->shape == SHAPE_CLUSTER) {
        sim_cluster_take_over(&life->cluster, life->servers[new], life->servers[old]);
    } else {
        sim_redis_follow(life->servers[new], NULL);
        sim_redis_follow(life->servers[old], life->servers[new]);
        for (unsigned i = 0; i < life->sentinel_count; i++)
            sim_redis_name_master(life->sentinels[i], life->servers[new], true);
        life->master = new;
    }
    sim_network_down(life->network, old, true);
    mend_at(life, span(life, SECOND_US), MEND_DOWN, old, 0);
}

/* In disorder: the replica hears nothing any more, for longer than a WAIT takes perhaps, and then
   its master dies. */
static inline void fail_over(struct life *life)
{
    unsigned old = life->shape == SHAPE_SENTINEL ? life->master : any_master(life);
    unsigned new = life->shape == SHAPE_SENTINEL ? 1 - old : (old + 3) % 6;
    bool orderly = chance(life, 300) || life->moving || !(life->wait_replicas || life->risky);
    if (orderly) {
        take_over(life, old, new, true);
        return;
    }
    int64_t us = span(life, chance(life, 500) ? 600 * MS : 2 * SECOND_US);
    sim_redis_settings(life->servers[new])->lag_us = INT64_MAX;
    mend_at(life, us, MEND_LAG, new, 0);
    mend_at(life, us, MEND_FAIL_OVER, old, new);
}

static inline void move_slot(struct life *life)
{
    struct sim_cluster *cluster = &life->cluster;
    char tag[16];
    int len = snprintf(tag, sizeof(tag), "{q:%u}", (unsigned)below(life, life->partitions));
    unsigned slot = sim_cluster_slot(bytes_of(tag, (size_t)len));
    unsigned to = (unsigned)below(life, life->server_count);
    if (cluster->to[slot] != SIM_CLUSTER_NONE)
        (void)sim_cluster_move_key(cluster, slot); /* one more */
    else if (to != cluster->owner[slot] && !sim_redis_is_replica(life->servers[to]))
        sim_cluster_begin_move(cluster, slot, to);
}

/* Where the servers' clocks differ, all daemons are to know the one before. */
static inline void other_server(struct life *life, void (*take)(struct life *life))
{
    if (!life->leap_us || clocks_are_known(life))
        take(life);
}

static inline void disturb_daemon(struct life *life)
{
    struct daemon *daemon = &life->daemons[below(life, life->daemon_count)];
    if (!is_awake(daemon))
        return;
    if (life->gentle) {
        leave(life, daemon);
        return;
    }
    oracle_silence(&life->oracle);
    if (life->leap_us)
        daemon->frozen_until_us = life->now_us + span(life, 8 * SECOND_US);
    else if (chance(life, 500))
        daemon_stop(daemon, true);
    else if (chance(life, 500))
        daemon_stop(daemon, false);
    else
        daemon->frozen_until_us = life->now_us + span(life, 8 * SECOND_US);
}

static inline void fault(struct life *life)
{
    if (life->loses && chance(life, 250)) {
        lose_set(life);
        return;
    }
    uint64_t dice = below(life, 1000);
    if (life->leap_us && chance(life, 300))
        leap(life);
    else if (dice < 200)
        sim_network_reset(life->network, (unsigned)below(life, life->daemon_count),
                          any_server(life));
    else if (dice < 350)
        cut_path(life);
    else if (dice < 450)
        restart_server(life);
    else if (dice < 550)
        break_settings(life);
    else if (dice < 600)
        flush_scripts(life);
    else if (dice < 650 && life->risky)
        save_or_flush(life);
    else if (dice < 750 && life->shape != SHAPE_SINGLE)
        other_server(life, fail_over);
    else if (dice < 900 && life->shape == SHAPE_CLUSTER && life->moving)
        other_server(life, move_slot);
    else if (!life->gentle || chance(life, 300))
        disturb_daemon(life);
}

#endif
