/*
 * The keys that the queue of redis_life_world.h has in its simulated servers, and what is wrong
 * with them when a life is over: each job in its bucket, and nothing left of who is not there any
 * more.
 */
#ifndef LATERD_TEST_REDIS_LIFE_KEYS_H
#define LATERD_TEST_REDIS_LIFE_KEYS_H

#include "redis_life_world.h"
#include "sim/redis/server_parts.h"

enum {
    /* Of any script, in words and parts. Redis takes 0.2 to 0.5 us for one: 2 ms at most. */
    WORK_MAX = 4000,
    BUCKETS = 256,
};

static inline const char *tag_of(unsigned partition, char room[16])
{
    CHECK(partition < 10);
    memcpy(room, "{q:0}", sizeof("{q:0}"));
    room[3] = (char)('0' + partition);
    return room;
}

/* Who has the partition now: its master. */
static inline struct sim_redis *server_of(const struct life *life, unsigned partition)
{
    char tag[16];
    if (life->shape != SHAPE_CLUSTER)
        return life->servers[life->master];
    return life->servers[life->cluster.owner[sim_cluster_slot(bytes_str(tag_of(partition, tag)))]];
}

/* NULL: there is no such key. */
static inline struct value *key_of(const struct life *life, unsigned partition, const char *which)
{
    char name[32];
    size_t len = strlen(tag_of(partition, name)), which_len = strlen(which);
    CHECK(len + 1 + which_len <= sizeof(name));
    name[len] = ':';
    memcpy(name + len + 1, which, which_len);
    return keyspace_find(&server_of(life, partition)->keys, 0, bytes_of(name, len + 1 + which_len));
}

/* How many fields of a partition's hash begin with these bytes. */
static inline size_t fields_with(const struct life *life, unsigned partition, struct bytes start)
{
    const struct value *hash = key_of(life, partition, "h");
    size_t count = 0;
    for (size_t i = 0; hash && i < hash->count; i++) {
        struct bytes field = hash->items[i].member;
        count += field.len >= start.len && memcmp(field.at, start.at, start.len) == 0;
    }
    return count;
}

/* ---- when a life is over ---- */

static inline void jobs_are_in_their_buckets(const struct life *life, unsigned partition)
{
    for (unsigned number = 0; number < BUCKETS; number++) {
        char which[8];
        (void)snprintf(which, sizeof(which), "j%u", number);
        const struct value *bucket = key_of(life, partition, which);
        for (size_t i = 0; bucket && i < bucket->count; i++) {
            struct bytes field = bucket->items[i].member; /* '!', or ends with the job's name */
            if (field.len >= SCRIPT_NAME && (uint8_t)field.at[field.len - 3] != number)
                BROKEN(&life->oracle, "bucket %u of partition %u has another one's job", number,
                       partition);
        }
    }
}

static inline bool lives_by_name(const struct life *life, const char *name)
{
    bool found = false;
    for (unsigned i = 0; i < life->daemon_count; i++) {
        const struct redis_engine *engine = life->daemons[i].engine;
        found = found || (engine && memcmp(engine->space.daemon, name, SCRIPT_NAME) == 0);
    }
    return found;
}

/* Answers ('a' and the name), and when it came ('d'). */
static inline void the_dead_have_nothing(const struct life *life, unsigned partition)
{
    const struct value *hash = key_of(life, partition, "h");
    for (size_t i = 0; hash && i < hash->count; i++) {
        struct bytes field = hash->items[i].member;
        bool of_daemon = (field.at[0] == 'd' && field.len == 1 + SCRIPT_NAME) ||
                         (field.at[0] == 'a' && field.len > 1 + SCRIPT_NAME);
        if (of_daemon && !lives_by_name(life, field.at + 1))
            BROKEN(&life->oracle, "partition %u still has '%c' of a daemon that is dead", partition,
                   field.at[0]);
    }
}

/* Topics whose names are none of `topics` have no mark. */
static inline void marks_are_of_topics(const struct life *life, unsigned partition,
                                       const struct bytes *topics, unsigned count)
{
    size_t known = 0;
    for (unsigned i = 0; i < count; i++) {
        struct buf mark = {0};
        buf_add_str(&mark, "#w");
        buf_add_bytes(&mark, topics[i]);
        known += fields_with(life, partition, buf_bytes(&mark));
        buf_fini(&mark);
    }
    if (fields_with(life, partition, BYTES("#w")) > known)
        BROKEN(&life->oracle, "partition %u has a mark of a topic that is not there", partition);
}

static inline void no_script_did_too_much(const struct life *life)
{
    if (sim_lua_ledger()->most_work > WORK_MAX)
        BROKEN(&life->oracle, "a script did %llu steps",
               (unsigned long long)sim_lua_ledger()->most_work);
}

#endif
