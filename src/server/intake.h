/*
 * Makes jobs of the messages of an intake (port/intake.h): each is one push, or one delete, through
 * the door, and is settled by its answer. A job is due when the message's delay is over; its topic
 * has a target that sends it on, which is set if the topic has no settings.
 */
#ifndef LATERD_SERVER_INTAKE_H
#define LATERD_SERVER_INTAKE_H

#include "port/intake.h"
#include "server/server.h"

struct server_intake;

/* Strings are borrowed for its life. */
struct server_intake_options {
    const char *name;   /* of its [amqp_in.NAME], for the log */
    const char *topic;  /* of the jobs */
    const char *broker; /* where that topic's target is, if it has none yet */
};

/* Sets the intake's `arrived` and `user`. Both are borrowed. */
struct server_intake *server_intake_new(struct server *server,
                                        const struct server_intake_options *options,
                                        struct intake *intake);

/* Cancels commands under way and settles their messages as LATER: such a message may still become a
   job, and then come a second time. Makes the thread end, without waiting: server_intake_stopped()
   is true when it has ended; it must be called as intake_verbs::stopped. */
void server_intake_stop(struct server_intake *intake);
bool server_intake_stopped(struct server_intake *intake);

/* True: no message of any intake of the server waits to be a job. While the server drains no new
   ones are taken: those that come are settled as LATER. O(intakes). */
bool server_intakes_idle(const struct server *server);

/* Of its [amqp_in.NAME]. */
const char *server_intake_name(const struct server_intake *intake);

/* Stops it, if it was not, waits for its thread and closes it. Before the server is freed. NULL
   does nothing. */
void server_intake_free(struct server_intake *intake);

#endif
