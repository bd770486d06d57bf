/*
 * The states of a connection of any protocol. Two things change the state: the client ends its
 * sending, and the server stops to take requests.
 *
 *     OPEN ──leaves──▶ LEAVING ──ends──▶ ENDED          the client sends no more
 *      │ stops           │ stops            │ stops     we take no more
 *      ▼                 ▼                  │
 *     FINISHING ─leaves▶ FINISHING_LEFT ◀───┘
 *      │ answered        │ answered                     nothing is pending any more
 *      └────▶ CLOSING ◀──┘
 *
 * Only session_state_move() writes the state.
 */
#ifndef LATERD_SERVER_SESSION_STATE_H
#define LATERD_SERVER_SESSION_STATE_H

#include <stdbool.h>

enum session_state {
    SESSION_OPEN,
    SESSION_LEAVING,   /* the client has ended its sending; not all its bytes came to input() */
    SESSION_ENDED,     /* all its bytes came; requests among them are still executed */
    SESSION_FINISHING, /* no further request is taken; closed when all are answered */
    SESSION_FINISHING_LEFT, /* the same, and the client has ended its sending */
    SESSION_CLOSING,        /* all are answered; closed when all is sent, or at its deadline */
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

/* Changes the state by the table. CHECKs that the table has this move. */
void session_state_move(enum session_state *state, enum session_event event);

/* True: requests may be taken. */
static inline bool session_state_takes(enum session_state state)
{
    return state <= SESSION_ENDED;
}

/* True: the client has ended its sending, so it must not wait for a job (P6). */
static inline bool session_state_left(enum session_state state)
{
    return state == SESSION_LEAVING || state == SESSION_ENDED || state == SESSION_FINISHING_LEFT;
}

#endif
