/*
 * What all beanstalkd connections of a server have in common.
 */
#ifndef LATERD_SERVER_BEANSTALK_SHARED_H
#define LATERD_SERVER_BEANSTALK_SHARED_H

#include "base/list.h"
#include "proto/beanstalk/beanstalk.h"
#include "server/beanstalk/reservations.h"
#include "server/beanstalk/tubes.h"

enum { YAML_SPARE_BYTES = 64 * 1024 }; /* the memory of a longer document is not kept */

struct beanstalk_shared {
    struct pool pending; // struct beanstalk_pending
    struct beanstalk_reservations reservations;
    struct beanstalk_tubes tubes;
    struct list surveys;                      // beanstalk_survey::place: those that can continue
    struct buf yaml;                          /* the document being written */
    uint64_t cmds[BEANSTALK_CMDS];            /* received so far */
    uint64_t accepted;                        /* connections so far */
    uint32_t connections, producers, workers; /* now */
};

#endif
