/*
 * A world and beanstalkd clients in it: what they say, and what they must hear. Included by tests,
 * behind cmocka.
 */
#ifndef LATERD_TEST_BEANSTALK_PEER_H
#define LATERD_TEST_BEANSTALK_PEER_H

#include <stdio.h>

#include "base/bytes.h"
#include "sim/world.h"

enum { SECOND_US = 1000 * 1000, SEGMENT_BYTES = 256 * 1024 };

static inline struct world *begin(const struct world_options *options)
{
    struct world_options full = *options;
    if (!full.segment_bytes)
        full.segment_bytes = SEGMENT_BYTES;
    struct world *world = world_new(&full);
    assert_int_equal(world_boot(world), OK);
    return world;
}

static inline void settle(struct world *world)
{
    world_run(world, world_now_us(world));
}

static inline void pass(struct world *world, int64_t us)
{
    world_run(world, world_now_us(world) + us);
}

static inline struct sim_peer *join(struct world *world)
{
    return sim_loop_client(world_loop(world), WORLD_BEANSTALK);
}

static inline void send_text(struct sim_peer *peer, const char *text)
{
    sim_peer_send(peer, bytes_str(text));
}

/* These bytes have come, and no others. */
static inline void expect(struct sim_peer *peer, const char *want)
{
    struct bytes have = sim_peer_received(peer);
    if (!bytes_eq(have, bytes_str(want)))
        fail_msg("want \"%s\", have \"%.*s\"", want, (int)have.len, have.at);
    sim_peer_take(peer, have.len);
}

static inline void send_line(struct world *world, struct sim_peer *peer, const char *text,
                             const char *want)
{
    send_text(peer, text);
    settle(world);
    expect(peer, want);
}

/* The value of a key in the YAML that the command answers, as text. */
static inline const char *figure(struct world *world, struct sim_peer *peer, const char *command,
                                 const char *key)
{
    static char value[128];
    char line[64];
    send_text(peer, command);
    settle(world);
    struct bytes have = sim_peer_received(peer);
    int len = snprintf(line, sizeof(line), "\n%s: ", key);
    assert_true(bytes_starts(have, BYTES("OK ")));
    const char *at = memmem(have.at, have.len, line, (size_t)len);
    if (!at)
        fail_msg("no %s in \"%.*s\"", key, (int)have.len, have.at);
    at += len;
    size_t value_len = (size_t)((const char *)memchr(at, '\n', have.len) - at);
    assert_true(value_len < sizeof(value));
    memcpy(value, at, value_len);
    value[value_len] = 0;
    sim_peer_take(peer, have.len);
    return value;
}

static inline void expect_figure(struct world *world, const char *command, const char *key,
                                 const char *want)
{
    struct sim_peer *peer = join(world);
    assert_string_equal(figure(world, peer, command, key), want);
    sim_peer_free(peer);
    settle(world);
}

#endif
