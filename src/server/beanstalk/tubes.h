/*
 * The tubes that beanstalkd clients use or watch. To the queue a tube is a topic, which need not
 * exist yet; here it is a name with the numbers of its users and watchers, and it lives as long as
 * it has any. The tube "default" is always there.
 */
#ifndef LATERD_SERVER_BEANSTALK_TUBES_H
#define LATERD_SERVER_BEANSTALK_TUBES_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/map.h"
#include "base/pool.h"

struct beanstalk_tube {
    struct bytes name; /* mem_alloc'd; empty: the place in the pool is free */
    uint64_t hash;
    uint32_t number;          /* in beanstalk_tubes::pool */
    uint32_t users, watchers; /* connections */
};

struct beanstalk_tubes {
    struct pool pool;
    struct map by_name;
    struct beanstalk_tube *standard; /* "default" */
    uint64_t key;
    uint32_t max;
};

void beanstalk_tubes_init(struct beanstalk_tubes *tubes, uint32_t max, uint64_t hash_key);
void beanstalk_tubes_fini(struct beanstalk_tubes *tubes);

struct beanstalk_tube *beanstalk_tubes_find(const struct beanstalk_tubes *tubes,
                                            struct bytes name); /* or NULL */
/*
 * Finds or makes. ERR_TOPICS_LIMIT. A caller that does not raise `users` or `watchers`, or that
 * lowers one, calls beanstalk_tubes_drop_unused(), which forgets a tube that nobody refers to.
 */
enum err beanstalk_tubes_get_or_create(struct beanstalk_tubes *tubes, struct bytes name,
                                       struct beanstalk_tube **out_tube) MUST_USE;
void beanstalk_tubes_drop_unused(struct beanstalk_tubes *tubes, struct beanstalk_tube *tube);

/* The next tube at or after this number in the pool, or NULL: goes through all. */
struct beanstalk_tube *beanstalk_tubes_next(const struct beanstalk_tubes *tubes, uint32_t number);

#endif
