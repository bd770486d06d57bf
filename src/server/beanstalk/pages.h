/*
 * beanstalkd's statistics and lists of tubes, as YAML. A tube exists while a connection uses or
 * watches it, or its topic holds a job, a waiting consumer or a pause; a topic that is empty is
 * remembered by the queue for its counters, but is no tube.
 */
#ifndef LATERD_SERVER_BEANSTALK_PAGES_H
#define LATERD_SERVER_BEANSTALK_PAGES_H

#include "server/beanstalk/session.h"

bool beanstalk_is_tube(const struct topic_view *topic);

/* Statistics of the server, which has `tubes` tubes. */
void beanstalk_stats_page(struct server *server, const struct engine_stats *totals, uint64_t tubes,
                          struct buf *yaml);
/* `topic`: the answer to CMD_TOPIC, or ERR_NOT_FOUND. False: there is no such tube. */
bool beanstalk_tube_page(struct server *server, struct bytes name, const struct reply *topic,
                         struct buf *yaml);

#endif
