/* The table of a session's moves, walked whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/session_state.h"

/* What must hold of every move, besides the table itself. */
static void every_move_is_as_the_picture_has_it(void **state)
{
    (void)state;
    for (int from = 0; from < SESSION_STATES; from++) {
        for (int event = 0; event < SESSION_EVENTS; event++) {
            int to = (int)session_state_after((enum session_state)from, (enum session_event)event);
            if (to == SESSION_NEVER) { /* a client ends its sending once */
                assert_true(from == SESSION_LEAVING || from == SESSION_ENDED);
                assert_true(event == SESSION_LEAVES || event == SESSION_ENDS);
                continue;
            }
            bool took = session_state_takes((enum session_state)from);
            bool takes = session_state_takes((enum session_state)to);
            bool had_left = session_state_left((enum session_state)from);
            bool left = session_state_left((enum session_state)to) || to == SESSION_CLOSING;
            assert_true(to >= from); /* nothing goes back: every connection comes to its end */
            assert_true(took || !takes);
            assert_true(!had_left || left);
            if (event == SESSION_STOPS)
                assert_false(takes);
            if (event == SESSION_LEAVES || event == SESSION_ENDS)
                assert_true(left);
            if (to == SESSION_CLOSING) /* only when all are answered, and none is to come */
                assert_true(from == SESSION_CLOSING || (event == SESSION_ANSWERED && !took));
            if (event == SESSION_ANSWERED && took)
                assert_int_equal(to, from);
        }
    }
}

static void every_state_is_reached_and_left(void **state)
{
    bool reached[SESSION_STATES] = {[SESSION_OPEN] = true};
    (void)state;
    for (int round = 0; round < SESSION_STATES; round++) {
        for (int from = 0; from < SESSION_STATES; from++) {
            for (int event = 0; reached[from] && event < SESSION_EVENTS; event++) {
                int to =
                    (int)session_state_after((enum session_state)from, (enum session_event)event);
                if (to != SESSION_NEVER)
                    reached[to] = true;
            }
        }
    }
    for (int one = 0; one < SESSION_STATES; one++) {
        enum session_state now = (enum session_state)one;
        assert_true(reached[one]);
        session_state_move(&now, SESSION_STOPS);
        session_state_move(&now, SESSION_ANSWERED);
        assert_int_equal(now, SESSION_CLOSING);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_move_is_as_the_picture_has_it),
        cmocka_unit_test(every_state_is_reached_and_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
