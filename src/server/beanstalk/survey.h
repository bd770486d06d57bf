/*
 * `stats` and `list-tubes` are about all topics and tubes, of which there may be a hundred
 * thousand: a survey goes through them in slices, one or more a turn, and then the command is
 * answered. Tubes that come or go meanwhile may be counted or not; all others are counted once. A
 * long `list-tubes-watched` is a survey, too. A long list is written by the worker.
 */
#ifndef LATERD_SERVER_BEANSTALK_SURVEY_H
#define LATERD_SERVER_BEANSTALK_SURVEY_H

#include "server/beanstalk/session.h"
#include "server/offload.h"

struct beanstalk_survey {
    struct list place; // beanstalk_shared::surveys; nowhere while it waits for engine or worker
    struct beanstalk_pending *pending; /* NULL: the client has gone while the worker writes */
    uint32_t tube_next; /* in the pool of tubes, or among those watched; UINT32_MAX: all are seen */
    struct buf after;   /* the last topic seen */
    bool topics_seen;   /* all of them */
    enum err err;       /* the engine's error instead of topics */
    uint64_t tubes;     /* so far */
    struct buf names;   /* of the lists: the YAML document */
    struct engine_stats stats;
    struct offload offload; /* writes `answer`, of a long list */
    struct buf answer;
    bool in_use; /* by the worker */
};

/* Begins a survey, which will answer the command and owns it until then. It runs at once as far as
 * the budget goes. */
void beanstalk_survey_begin(struct beanstalk_pending *pending);
/* NULL does nothing. The engine must not answer any more. */
void beanstalk_survey_free(struct beanstalk_survey *survey);

#endif
