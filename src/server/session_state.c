#include "server/session_state.h"

#include "base/check.h"

static const enum session_state moves[SESSION_STATES][SESSION_EVENTS] = {
    [SESSION_OPEN] =
        {
            [SESSION_LEAVES] = SESSION_LEAVING,
            [SESSION_ENDS] = SESSION_ENDED,
            [SESSION_STOPS] = SESSION_FINISHING,
            [SESSION_ANSWERED] = SESSION_OPEN,
        },
    [SESSION_LEAVING] =
        {
            [SESSION_LEAVES] = SESSION_NEVER, /* the port reports it at most once */
            [SESSION_ENDS] = SESSION_ENDED,
            [SESSION_STOPS] = SESSION_FINISHING_LEFT,
            [SESSION_ANSWERED] = SESSION_LEAVING,
        },
    [SESSION_ENDED] =
        {
            [SESSION_LEAVES] = SESSION_NEVER, /* all was shown already */
            [SESSION_ENDS] = SESSION_NEVER,   /* once */
            [SESSION_STOPS] = SESSION_FINISHING_LEFT,
            [SESSION_ANSWERED] = SESSION_ENDED,
        },
    [SESSION_FINISHING] =
        {
            [SESSION_LEAVES] = SESSION_FINISHING_LEFT,
            [SESSION_ENDS] = SESSION_FINISHING_LEFT,
            [SESSION_STOPS] = SESSION_FINISHING,
            [SESSION_ANSWERED] = SESSION_CLOSING,
        },
    [SESSION_FINISHING_LEFT] =
        {
            [SESSION_LEAVES] = SESSION_FINISHING_LEFT,
            [SESSION_ENDS] = SESSION_FINISHING_LEFT,
            [SESSION_STOPS] = SESSION_FINISHING_LEFT,
            [SESSION_ANSWERED] = SESSION_CLOSING,
        },
    [SESSION_CLOSING] =
        {
            [SESSION_LEAVES] = SESSION_CLOSING,
            [SESSION_ENDS] = SESSION_CLOSING,
            [SESSION_STOPS] = SESSION_CLOSING,
            [SESSION_ANSWERED] = SESSION_CLOSING,
        },
};

enum session_state session_state_after(enum session_state state, enum session_event event)
{
    CHECK(state < SESSION_STATES && event < SESSION_EVENTS);
    return moves[state][event];
}

void session_state_move(enum session_state *state, enum session_event event)
{
    enum session_state next = session_state_after(*state, event);
    CHECK(next != SESSION_NEVER);
    *state = next;
}
