/*
 * Answers that show a long body, written by the worker: to copy one of 64 MiB takes tens of
 * milliseconds. Meanwhile the command stays pending in its connection.
 */
#ifndef LATERD_SERVER_BEANSTALK_LONG_BODY_H
#define LATERD_SERVER_BEANSTALK_LONG_BODY_H

#include "server/beanstalk/session.h"

struct long_body;

/* True: the worker writes this answer; the command is answered in a later turn. Only of a reply
   whose memory can be kept (reply::hold): all other long bodies would be copied twice. */
bool long_body_begin(struct beanstalk_pending *pending, const struct reply *reply);
/* Called when the command is answered or abandoned. NULL does nothing. */
void long_body_free(struct long_body *body);

#endif
