/*
 * The values of the simulated Redis: hashes, sorted sets and strings under keys, in numbered
 * databases. All but the keys are sorted arrays: a simulated queue is small, and the order is
 * deterministic. Keys are as many as there are partitions and topics: they are found by their hash.
 *
 * A hash is sorted by member; a sorted set by score, then by member, as in Redis. A key is removed
 * with its last member. One thread.
 */
#ifndef LATERD_SIM_REDIS_VALUES_H
#define LATERD_SIM_REDIS_VALUES_H

#include "base/bytes.h"

enum value_kind { VALUE_HASH, VALUE_ZSET, VALUE_STRING };

struct value_item {
    struct bytes member; /* owned */
    uint64_t hash;    /* of a sorted set's member, so that few are compared; of a hash's the first
                         eight bytes */
    double score;     /* of a sorted set */
    struct buf value; /* of a hash */
};

struct value {
    unsigned db;
    struct bytes name; /* owned */
    enum value_kind kind;
    struct value_item *items;
    size_t count, cap;
    struct buf string;
    uint64_t hash;      /* of name and database */
    size_t place;       /* in keyspace::values */
    struct value *next; /* in its bucket */
};

struct keyspace {
    struct value **values; /* as they came, but the last one takes the place of one that goes */
    struct value **buckets;
    size_t count, cap;   /* of both; a power of two */
    uint32_t scan_order; /* of HSCAN: each server has another one, and a new one with each start, so
                            that a cursor of before, or of another server, is not valid */
};

/* A zeroed keyspace is empty and valid. */
void keyspace_clear(struct keyspace *keys);
struct value *keyspace_find(struct keyspace *keys, unsigned db, struct bytes name);
/* The key must not exist. */
struct value *keyspace_add(struct keyspace *keys, unsigned db, struct bytes name,
                           enum value_kind kind);
void keyspace_drop(struct keyspace *keys, struct value *value);
/* By database and name. */
int keyspace_compare(const struct value *a, const struct value *b);
/* No key may have that name. */
void keyspace_rename(struct keyspace *keys, struct value *value, struct bytes name);

/* NULL: there is no such field. Borrowed until the next change. */
struct buf *hash_get(const struct value *value, struct bytes field);
/* True: the field is new. */
bool hash_set(struct value *value, struct bytes field, struct bytes content);
bool hash_remove(struct value *value, struct bytes field);

/* The index of the member, or SIZE_MAX. O(members). */
size_t zset_find(const struct value *value, struct bytes member);
/* The member must not be there. */
void zset_add(struct value *value, struct bytes member, double score);
/* Changes the score of the member at the index, and so its index. */
void zset_move(struct value *value, size_t at, double score);
void zset_remove_at(struct value *value, size_t at);

#endif
