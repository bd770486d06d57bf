/*
 * Where a connection is between its first byte and its last, whatever it speaks. Two things move
 * it: the client, which ends its sending, and we, who take no further request.
 *
 *     OPEN ──leaves──▶ LEAVING ──ends──▶ ENDED          the client sends no more
 *      │ stops           │ stops            │ stops     we take no more
 *      ▼                 ▼                  │
 *     FINISHING ─leaves▶ FINISHING_LEFT ◀───┘
 *      │ answered        │ answered                     nothing is pending any more
 *      └────▶ CLOSING ◀──┘
 *
 * session_state_move() alone writes the state.
 */
#ifndef LATERD_SERVER_SESSION_STATE_H
#define LATERD_SERVER_SESSION_STATE_H

#include <stdbool.h>

enum session_state {
    SESSION_OPEN,
    SESSION_LEAVING,   /* the client has ended its sending; not all that it sent was shown to us */
    SESSION_ENDED,     /* all was shown; what is not taken yet is still to be done */
    SESSION_FINISHING, /* no request is taken any more; closed when all are answered */
    SESSION_FINISHING_LEFT, /* the same, and the client has ended its sending */
    SESSION_CLOSING,        /* all are answered: closed when all is sent, or its time is up */
    SESSION_STATES,
    SESSION_NEVER = SESSION_STATES /* in the table: a move that does not happen */
};

enum session_event {
    SESSION_LEAVES,   /* stream_handler::leaving */
    SESSION_ENDS,     /* stream_handler::gone, half */
    SESSION_STOPS,    /* no further request is taken */
    SESSION_ANSWERED, /* no request is pending */
    SESSION_EVENTS
};

/* The table of moves; SESSION_NEVER: only a bug could cause that event in that state. Pure. */
enum session_state session_state_after(enum session_state state, enum session_event event);

/* Moves along the table. CHECKs that there is such a move. */
void session_state_move(enum session_state *state, enum session_event event);

/* May a request be taken? */
static inline bool session_state_takes(enum session_state state)
{
    return state <= SESSION_ENDED;
}

/* Has the client ended its sending? Then it is to wait for no job (P6). */
static inline bool session_state_left(enum session_state state)
{
    return state == SESSION_LEAVING || state == SESSION_ENDED || state == SESSION_FINISHING_LEFT;
}

#endif
