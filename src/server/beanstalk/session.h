/*
 * One connection of a beanstalkd client: commands in, answers out in the order of the commands.
 *
 * A pipeline of `struct beanstalk_pending`: commands are done as they come, many in one turn. While
 * a reserve waits nothing behind it is looked at.
 * What the connection holds when it ends goes back to its tubes at once (P6).
 *
 *     session.c  bytes in, the order of answers, ends
 *     command.c  what is done for each command
 *     answer.c   what the engine's reply is in beanstalkd's words
 *     long_body.c  the same for a long body, by the worker
 *     survey.c   what is counted of all tubes and topics
 *     pages.c    statistics
 */
#ifndef LATERD_SERVER_BEANSTALK_SESSION_H
#define LATERD_SERVER_BEANSTALK_SESSION_H

#include "server/pipeline.h"

struct long_body;

/* A command that is pending. */
struct beanstalk_pending {
    struct pending pending; /* in beanstalk_session::pipeline */
    struct beanstalk_session *session;
    uint32_t number; /* in beanstalk_shared::pending */
    enum beanstalk_cmd cmd;
    uint64_t id;                     /* the job's; of a reserve once it is answered */
    struct buf tube;                 /* STATS_TUBE, PAUSE_TUBE: its name */
    struct beanstalk_survey *survey; /* STATS, and long lists; else NULL */
    struct long_body *long_body;     /* while the worker writes its answer; else NULL */
    struct beanstalk_lease ended;    /* RELEASE, BURY, DELETE: the reservation that it ends */
    bool waits;                      /* RESERVE: for a job; else the engine is just not done yet */
    bool deadline_soon;              /* its wait is cut short: a reservation is about to end */
    bool noted;                      /* its reservation knows where the answer ends */
};

struct beanstalk_session {
    struct pipeline pipeline;
    struct beanstalk codec;
    struct beanstalk_holder *held; /* its reservations; NULL before the first */
    struct beanstalk_tube *used;
    struct beanstalk_tube **watched; /* `one`, or mem_alloc'd */
    struct beanstalk_tube *one;
    uint32_t watch_count, watch_cap;
    bool producer; /* has put a job, for the statistics */
    bool worker;   /* has reserved one */
};

extern const struct pipeline_kind beanstalk_session_kind;

static inline struct server *beanstalk_server(const struct beanstalk_session *beanstalk)
{
    return beanstalk->pipeline.session.server;
}

/* ---- between the files named above ---- */

/* An answer of one word that is known at once. */
void beanstalk_word(struct beanstalk_session *beanstalk, enum beanstalk_word word);

/* It has put a job, or reserved one, or has tried to: the statistics count such connections. */
void beanstalk_is_producer(struct beanstalk_session *beanstalk);
void beanstalk_is_worker(struct beanstalk_session *beanstalk);

/* Submits a command; beanstalk_answer() writes its answer. */
void beanstalk_submit(struct beanstalk_pending *pending, const struct cmd *cmd);
struct beanstalk_pending *beanstalk_pending_new(struct beanstalk_session *beanstalk,
                                                enum beanstalk_cmd cmd, uint64_t id);

/* Does a whole command. */
void beanstalk_do(struct beanstalk_session *beanstalk, const struct beanstalk_request *request);
/* Takes the names off the shared table. */
void beanstalk_forget_tubes(struct beanstalk_session *beanstalk);

/* A job was reserved: it becomes a reservation, which does not know yet where its answer ends. */
struct beanstalk_reservation *beanstalk_take(struct beanstalk_pending *pending,
                                             const struct job_view *job);
/* Writes the answer; a job that was reserved becomes a reservation. */
void beanstalk_answer(struct beanstalk_pending *pending, const struct reply *reply,
                      struct buf *out);
enum beanstalk_word beanstalk_word_of(enum err err);

/* The engine's reply has come, or the survey is complete. */
void beanstalk_answered(struct beanstalk_pending *pending, const struct reply *reply);

/* For turn.c: continues all surveys as far as the budget goes. True: there is more to do. */
bool beanstalk_surveys_step(struct server *server);

#endif
