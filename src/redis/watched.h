/*
 * What a daemon knows of the topics that its consumers ask for: for each partition, whether ready
 * jobs may be there.
 *
 *     EMPTY    it has none, and a mark is left there: a notice comes with the next one
 *     UNKNOWN  nobody has asked yet
 *     LIKELY   a notice came, or an answer said that there are more
 *
 * A topic that nobody asks for any more is kept for a while, the longest idle is forgotten first:
 * it is UNKNOWN next time.
 */
#ifndef LATERD_REDIS_WATCHED_H
#define LATERD_REDIS_WATCHED_H

#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "core/cmd.h"

enum knowledge { EMPTY, UNKNOWN, LIKELY };

struct topic {
    char *name;
    uint8_t name_len;
    uint32_t number;   /* in watched::all */
    uint64_t notices;  /* how often it was said that there are jobs */
    uint8_t *known;    /* enum knowledge, for each partition */
    int64_t again_us;  /* when all is UNKNOWN again: a pause ends, a failed call is tried again */
    struct list lines; // place::in_topic
    struct list idle;  // watched::idle, while no line asks for it
    uint64_t waiters;
    struct lateness lateness; /* of jobs handed out here */
};

struct watched {
    uint32_t partitions;
    struct pool all; // struct topic
    struct map by_name;
    struct list idle; // topic::idle, the longest idle first
};

void watched_init(struct watched *watched, uint32_t partitions);
/* No topic has lines any more. */
void watched_fini(struct watched *watched);

struct topic *watched_find(const struct watched *watched, struct bytes name); /* or NULL */
/* Makes it if need be: it is for a line then. */
struct topic *watched_need(struct watched *watched, struct bytes name);
/* No line asks for it any more. */
void watched_rest(struct watched *watched, struct topic *topic);

struct bytes topic_name(const struct topic *topic);

#endif
