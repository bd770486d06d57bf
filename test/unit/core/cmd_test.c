/* The table of what is true of each kind of command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/cmd.h"

/* Does not compile when a command is added: then look at CMD_KINDS, and at the row in cmd.c. */
static bool is_last(enum cmd_kind kind)
{
    switch (kind) {
    case CMD_PUSH:
    case CMD_RESERVE:
    case CMD_RESERVE_JOB:
    case CMD_FINISH:
    case CMD_RELEASE:
    case CMD_TOUCH:
    case CMD_BURY:
    case CMD_KICK:
    case CMD_RUN:
    case CMD_RESCHEDULE:
    case CMD_GET:
    case CMD_DELETE:
    case CMD_PEEK:
    case CMD_KICK_TOPIC:
    case CMD_CLEAR_TOPIC:
    case CMD_PAUSE:
    case CMD_RESUME:
    case CMD_REMOVE_TOPIC:
    case CMD_TOPICS:
    case CMD_TOPIC:
    case CMD_LIST:
    case CMD_CONFIGURE_TOPIC: return false;
    case CMD_DUE: return true;
    }
    return false;
}

static void every_command_has_a_row_and_a_name_of_its_own(void **state)
{
    (void)state;
    assert_true(is_last(CMD_KINDS - 1));
    for (enum cmd_kind kind = CMD_PUSH; kind <= CMD_DUE; kind++) {
        assert_non_null(cmd_traits(kind)->name);
        for (enum cmd_kind other = CMD_PUSH; other < kind; other++)
            assert_string_not_equal(cmd_traits(kind)->name, cmd_traits(other)->name);
    }
}

static void a_command_on_a_job_says_in_which_states_and_no_other_does(void **state)
{
    (void)state;
    for (enum cmd_kind kind = CMD_PUSH; kind <= CMD_DUE; kind++) {
        const struct cmd_traits *traits = cmd_traits(kind);
        bool on_job = traits->subject == CMD_ON_JOB;
        assert_true(on_job == (traits->states != 0));
        assert_false(traits->states >> JOB_GONE & 1);
        assert_true(on_job || !traits->takes_lease);
    }
}

static void what_takes_jobs_shows_them_and_changes_nothing(void **state)
{
    (void)state;
    for (enum cmd_kind kind = CMD_PUSH; kind <= CMD_DUE; kind++) {
        const struct cmd_traits *traits = cmd_traits(kind);
        assert_false(traits->changes && traits->takes_jobs); /* decision 3 */
        assert_true(!traits->takes_jobs || traits->shows_bodies);
    }
    assert_true(cmd_traits(CMD_PUSH)->changes && cmd_traits(CMD_PAUSE)->changes);
    assert_false(cmd_traits(CMD_RESERVE)->changes); /* a restart forgets reservations: decision 3 */
}

/* What ends or prolongs a reservation needs one, and no other command looks at the lease. */
static void only_a_reserved_job_can_be_finished_released_touched_or_buried(void **state)
{
    static const enum cmd_kind kinds[] = {CMD_FINISH, CMD_RELEASE, CMD_TOUCH, CMD_BURY};
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        assert_int_equal(cmd_traits(kinds[i])->states, 1 << JOB_RESERVED);
        assert_true(cmd_traits(kinds[i])->takes_lease);
    }
    assert_false(cmd_traits(CMD_KICK)->takes_lease || cmd_traits(CMD_GET)->takes_lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_has_a_row_and_a_name_of_its_own),
        cmocka_unit_test(a_command_on_a_job_says_in_which_states_and_no_other_does),
        cmocka_unit_test(what_takes_jobs_shows_them_and_changes_nothing),
        cmocka_unit_test(only_a_reserved_job_can_be_finished_released_touched_or_buried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
