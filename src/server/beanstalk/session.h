/*
 * One connection of a beanstalkd client: commands in, answers out in the order asked.
 *
 * Commands are done as they come, many in one turn; an answer that must wait (for the disk, for a
 * job) makes all later ones wait in `early`. While a reserve waits nothing behind it is looked at.
 * What the connection holds when it ends goes back to its tubes at once (P6).
 *
 *     beanstalk_session.c  bytes in, the order of answers, ends
 *     beanstalk_command.c  what is done for each command
 *     beanstalk_answer.c   what the engine's reply is in beanstalkd's words
 *     beanstalk_survey.c   what is to be known of all tubes and topics
 *     beanstalk_pages.c    statistics
 */
#ifndef LATERD_SERVER_BEANSTALK_SESSION_H
#define LATERD_SERVER_BEANSTALK_SESSION_H

#include "server/session.h"

/* A command whose answer cannot be sent yet. */
struct beanstalk_owed {
    struct ticket ticket;
    struct beanstalk_session *session;
    struct list place; // beanstalk_session::owed
    uint32_t number;   /* in beanstalk_shared::owed */
    enum beanstalk_cmd cmd;
    uint64_t id;                     /* the job's; of a reserve once it is answered */
    struct buf tube;                 /* STATS_TUBE, PAUSE_TUBE: its name */
    struct beanstalk_survey *survey; /* STATS, LIST_TUBES; else NULL */
    bool deadline_soon;              /* its wait is cut short: a reservation is about to end */
    bool parked;                     /* by the engine: nothing behind it is done */
    bool answered;                   /* its text waits for older ones, in the session's `early`: */
    size_t early_at;
    size_t early_len;
};

struct beanstalk_session {
    struct session session;
    struct beanstalk codec;
    struct list owed; // beanstalk_owed::place, oldest first
    uint32_t owed_count;
    uint32_t early_count;          /* answers in `early` */
    struct buf early;              /* emptied when the last of them has gone */
    struct beanstalk_holder *held; /* what it has reserved; NULL until it reserves */
    struct beanstalk_tube *used;
    struct beanstalk_tube **watched; /* `one`, or mem_alloc'd */
    struct beanstalk_tube *one;
    uint32_t watch_count, watch_cap;
    bool producer; /* has put a job, for the statistics */
    bool worker;   /* has reserved one */
    bool leaving;  /* the client has ended its sending, and is to wait for nothing */
    bool ended;    /* all that it sent was shown to us */
    bool unread;   /* not all that was shown is taken yet */
    bool last;     /* no command is taken any more; closed when all are answered */
    bool in_input; /* input() is on the stack: it goes on reading by itself */
};

extern const struct session_kind beanstalk_session_kind;

/* ---- between the files named above ---- */

/*
 * An answer that is known at once: text is written between begin and end, which puts it in its
 * place behind what is owed.
 */
struct beanstalk_text {
    struct buf *out;
    size_t at;
};
struct beanstalk_text beanstalk_text_begin(struct beanstalk_session *beanstalk);
void beanstalk_text_end(struct beanstalk_session *beanstalk, struct beanstalk_text text);
void beanstalk_word(struct beanstalk_session *beanstalk, enum beanstalk_word word);

/* It has put a job, or reserved one, or has tried to: the statistics count such connections. */
void beanstalk_is_producer(struct beanstalk_session *beanstalk);
void beanstalk_is_worker(struct beanstalk_session *beanstalk);

/* Asks the engine; the answer is written by beanstalk_answer() when it comes. */
void beanstalk_ask(struct beanstalk_session *beanstalk, struct beanstalk_owed *owed,
                   const struct cmd *cmd);
struct beanstalk_owed *beanstalk_owed_new(struct beanstalk_session *beanstalk,
                                          enum beanstalk_cmd cmd, uint64_t id);

/* Does a whole command. */
void beanstalk_do(struct beanstalk_session *beanstalk, const struct beanstalk_request *request);
/* Takes the names off the shared table. */
void beanstalk_forget_tubes(struct beanstalk_session *beanstalk);

/* Writes the answer to what is owed; a job that was reserved becomes a reservation. */
void beanstalk_answer(struct beanstalk_owed *owed, const struct reply *reply, struct buf *out);
enum beanstalk_word beanstalk_word_of(enum err err);

/* The engine's reply to what is owed has come, or its survey is through. */
void beanstalk_answered(struct beanstalk_owed *owed, const struct reply *reply);

/* For turn.c: goes on with all surveys as far as the budget goes. True: there is more to do. */
bool beanstalk_surveys_step(struct server *server);

#endif
