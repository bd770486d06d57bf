/*
 * Who lives and who owns what, by what daemons say of themselves. No Redis takes part: our own
 * heartbeats are not sent, their answers are told by hand.
 */
#include "redis_members_bed.h"

static const struct script_space spaces[3] = {
    {.partitions = PARTITIONS, .daemon = "daemon-0"},
    {.partitions = PARTITIONS, .daemon = "daemon-1"},
    {.partitions = PARTITIONS, .daemon = "daemon-2"},
};
static struct members members[3];

/* All have been in contact for a long time. */
static int set_up(void **state)
{
    (void)state;
    begin_time();
    for (int i = 0; i < 3; i++) {
        members_init(&members[i], &(struct members_options){.space = &spaces[i],
                                                            .loop = &loop,
                                                            .alive_us = ALIVE_US,
                                                            .serves = serves,
                                                            .changed = note_change});
        members[i].contact_us = loop.now_us;
        members[i].since_us = loop.now_us - ALIVE_US;
        members[i].how = SCRIPT_SERVES;
        members[i].heartbeats_pending = 1; /* a heartbeat that nobody answers: no other is sent */
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        members_fini(&members[i]);
    return end_time();
}

/* All are told. */
static void report(int who, enum script_how how)
{
    struct script_member said = {.how = how};
    memcpy(said.name, spaces[who].daemon, SCRIPT_NAME);
    if (how != SCRIPT_SILENT)
        members[who].how = how;
    for (int i = 0; i < 3; i++)
        members_note_report(&members[i], &said, false);
}

static void pass(int64_t us)
{
    for (int i = 0; i < 3; i++)
        members[i].contact_us = loop.now_us + us;
    at(loop.now_us + us);
}

static uint32_t owned(int who)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < PARTITIONS; i++)
        count += members_own(&members[who], i);
    return count;
}

static size_t living(int who)
{
    struct buf names = {0};
    members_living(&members[who], &names);
    size_t count = names.len / SCRIPT_NAME;
    buf_fini(&names);
    return count;
}

static void all_say(enum script_how how)
{
    for (int i = 0; i < 3; i++)
        report(i, how);
    pass(0);
}

static void every_partition_has_one_owner(void **state)
{
    (void)state;
    all_say(SCRIPT_SERVES);
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        int owners = 0;
        for (int who = 0; who < 3; who++)
            owners += members_own(&members[who], i);
        assert_int_equal(owners, 1);
    }
    for (int who = 0; who < 3; who++)
        assert_in_range(owned(who), PARTITIONS / 8, PARTITIONS / 2);
}

static void one_that_is_silent_loses_its_partitions(void **state)
{
    (void)state;
    all_say(SCRIPT_SERVES);
    pass(SECOND_US);
    report(2, SCRIPT_SILENT);
    pass(0);
    assert_int_equal(owned(0) + owned(1), PARTITIONS);
    assert_int_equal(living(0), 3);
    assert_int_equal(members[0].gone, 0);
    report(2, SCRIPT_SERVES);
    pass(0);
    assert_int_equal(owned(0) + owned(1) + owned(2), PARTITIONS);
    assert_true(owned(2) > 0);
}

static void one_that_is_silent_for_long_is_dead(void **state)
{
    (void)state;
    all_say(SCRIPT_SERVES);
    pass(ALIVE_US);
    assert_int_equal(living(0), 3); /* nobody has said anything of it */
    report(2, SCRIPT_SILENT);
    pass(ALIVE_US - SCRIPT_FRESH_US - 1);
    assert_int_equal(living(0), 3);
    assert_int_equal(timers_next_us(&loop.timers), loop.now_us + 1);
    pass(1);
    assert_int_equal(living(0), 3); /* it may be back */
    assert_true(members[0].wants_list);
    members[0].list_sent_us = loop.now_us;
    changes = 0;
    report(1, SCRIPT_SERVES);
    pass(0);
    assert_true(changes >= 1);
    assert_int_equal(living(0), 2);
    assert_int_equal(members[0].gone, 1);
    assert_true(members_can_judge(&members[0]));
}

static void one_that_leaves_is_gone_at_once(void **state)
{
    (void)state;
    all_say(SCRIPT_SERVES);
    report(2, SCRIPT_LEAVES);
    pass(0);
    assert_int_equal(living(0), 2);
    assert_int_equal(owned(0) + owned(1), PARTITIONS);
    assert_int_equal(members[0].gone, 1); /* it may not have given back all it held */
}

/* What it left is looked for, too, if the notice that it had come was lost. */
static void one_that_leaves_is_gone_though_nobody_knew_it(void **state)
{
    (void)state;
    report(1, SCRIPT_LEAVES);
    assert_int_equal(members[0].gone, 1);
    assert_int_equal(members[1].gone, 0);
    pass(0);
}

static void who_does_not_reach_all_owns_nothing_unless_nobody_does(void **state)
{
    (void)state;
    all_say(SCRIPT_SERVES);
    report(2, SCRIPT_LIVES);
    pass(0);
    assert_int_equal(owned(0) + owned(1), PARTITIONS);
    assert_int_equal(owned(2), 0);
    all_say(SCRIPT_LIVES);
    assert_int_equal(owned(0) + owned(1) + owned(2), PARTITIONS);
    assert_true(owned(2) > 0);
}

static void who_hears_nothing_itself_says_nobody_dead(void **state)
{
    (void)state;
    all_say(SCRIPT_SERVES);
    at(loop.now_us + ALIVE_US); /* no heartbeat of ours was answered meanwhile */
    assert_false(members_can_judge(&members[0]));
    members[0].contact_us = members[0].since_us = loop.now_us; /* it is back */
    assert_false(members_can_judge(&members[0]));
    assert_int_equal(owned(0), PARTITIONS);
}

static void who_was_never_in_contact_owns_nothing(void **state)
{
    (void)state;
    members[0].contact_us = 0;
    members_note_report(&members[0],
                        &(struct script_member){.name = "daemon-2", .how = SCRIPT_SERVES}, false);
    at(loop.now_us);
    assert_int_equal(owned(0), 0);
    assert_false(members_can_judge(&members[0]));
}

/* ---- our own heartbeats ---- */

/* Others count from when Redis had our last heartbeat, which is when we sent it, or later. */
static void whoever_was_not_heard_for_long_leaves_word_again(void **state)
{
    static struct bed bed;
    (void)state;
    make_bed(&bed);
    int64_t began_us = loop.now_us;
    at(began_us);
    loop.now_us = began_us + SECOND_US; /* a slow answer */
    answer_beat(&bed.calls);
    at(loop.now_us); /* the next one */
    loop.now_us = began_us + ALIVE_US - 1;
    answer_beat(&bed.calls);
    assert_int_equal(words_left, 0);
    at(began_us + ALIVE_US);
    loop.now_us = began_us + SECOND_US + ALIVE_US;
    answer_beat(&bed.calls); /* four seconds and less after the last answer */
    assert_int_equal(words_left, 1);
    assert_int_equal(silent_for_us, ALIVE_US);
    end_bed(&bed);
}

/* The one that came before us: all others are watched by others. */
static void one_that_is_watched_and_late_is_looked_for(void **state)
{
    static struct bed bed;
    char records[3 * SCRIPT_MEMBER_BYTES];
    struct script_member before = {.name = "daemon-2", .how = SCRIPT_SERVES};
    (void)state;
    make_bed(&bed);
    put_record(records, "daemon-1", SCRIPT_SERVES);
    put_record(records + SCRIPT_MEMBER_BYTES, "daemon-2", SCRIPT_SERVES);
    put_record(records + 2 * SCRIPT_MEMBER_BYTES, "daemon-0", SCRIPT_SERVES);
    at(loop.now_us);
    assert_true(looks(&bed.calls)); /* who has just come knows nobody */
    answer_beat_with(&bed.calls, bytes_of(records, sizeof(records)));
    for (int second = 0; second < 3; second++) {
        at(loop.now_us + SECOND_US);
        assert_false(looks(&bed.calls));
        answer_beat(&bed.calls);
        members_note_report(&bed.us, &before, true);
    }
    at(loop.now_us + SECOND_US);
    answer_beat(&bed.calls);
    at(loop.now_us + SCRIPT_FRESH_US - SECOND_US - 1);
    assert_true(none_under_way(&bed.calls));
    at(loop.now_us + 1);
    assert_true(looks(&bed.calls));
    records[SCRIPT_MEMBER_BYTES + SCRIPT_NAME] = SCRIPT_SILENT;
    answer_beat_with(&bed.calls, bytes_of(records, sizeof(records)));
    at(loop.now_us);
    for (uint32_t i = 0; i < bed.us.count; i++) {
        const struct member *member = &bed.us.others[i];
        bool is_silent = member->name[SCRIPT_NAME - 1] == '2';
        assert_int_equal(member->silent, is_silent);
        assert_int_equal(member->watched, !is_silent); /* it tells us from now on */
    }
    end_bed(&bed);
}

/* It would wait a second more for the next heartbeat. */
static void one_that_is_late_while_a_heartbeat_is_under_way_is_looked_for_behind_it(void **state)
{
    static struct bed bed;
    (void)state;
    make_bed(&bed);
    at(loop.now_us);
    answer_beat_with(&bed.calls, records_of_two(SCRIPT_SERVES));
    at(loop.now_us + SECOND_US);
    assert_false(looks(&bed.calls));
    at(loop.now_us + SCRIPT_FRESH_US - SECOND_US);
    answer_beat(&bed.calls);
    at(loop.now_us);
    assert_false(none_under_way(&bed.calls));
    assert_true(looks(&bed.calls));
    answer_beat_with(&bed.calls, records_of_two(SCRIPT_SERVES));
    at(loop.now_us);
    assert_true(none_under_way(&bed.calls)); /* once is enough */
    end_bed(&bed);
}

/* It was said to be silent, and is said to be nothing more: it is back, or dead. */
static void one_that_may_be_dead_is_looked_for_before_it_is(void **state)
{
    struct script_member silent = {.name = "daemon-2", .how = SCRIPT_SILENT};
    (void)state;
    for (int back = 1; back >= 0; back--) {
        static struct bed bed;
        make_bed(&bed);
        at(loop.now_us);
        answer_beat_with(&bed.calls, records_of_two(SCRIPT_SERVES));
        at(loop.now_us);
        members_note_report(&bed.us, &silent, false);
        at(loop.now_us);
        beat_until(&bed, loop.now_us + ALIVE_US - SCRIPT_FRESH_US);
        assert_int_equal(bed.us.count, 1);
        if (none_under_way(&bed.calls) || !looks(&bed.calls))
            beat_until(&bed, loop.now_us + SECOND_US);
        assert_true(looks(&bed.calls));
        answer_beat_with(&bed.calls, records_of_two(back ? SCRIPT_SERVES : SCRIPT_SILENT));
        at(loop.now_us);
        assert_int_equal(bed.us.count, back);
        assert_int_equal(bed.us.gone, !back);
        end_bed(&bed);
    }
}

/* Nor does a look know it any more: it has left, or Redis has lost its record. */
static void one_that_a_look_lacks_is_dead_only_if_it_says_nothing_more(void **state)
{
    struct script_member alive = {.name = "daemon-2", .how = SCRIPT_SERVES};
    (void)state;
    for (int back = 1; back >= 0; back--) {
        static struct bed bed;
        struct bytes both = records_of_two(SCRIPT_SERVES);
        struct bytes ours = bytes_of(both.at + SCRIPT_MEMBER_BYTES, both.len - SCRIPT_MEMBER_BYTES);
        make_bed(&bed);
        at(loop.now_us);
        answer_beat_with(&bed.calls, both);
        beat_until(&bed, loop.now_us + 2 * ALIVE_US);
        int64_t missing_us = loop.now_us;
        while (!none_under_way(&bed.calls))
            answer_beat(&bed.calls);
        members_request_list(&bed.us);
        members_heartbeat(&bed.us);
        answer_beat_with(&bed.calls, ours);
        at(loop.now_us);
        assert_int_equal(bed.us.count, 1);
        assert_true(bed.us.others[0].silent);
        if (back)
            members_note_report(&bed.us, &alive, false);
        while (loop.now_us < missing_us + ALIVE_US + SECOND_US) {
            if (!none_under_way(&bed.calls))
                answer_beat_with(&bed.calls, back ? both : ours);
            at(timers_next_us(&loop.timers));
            if (loop.now_us < missing_us + ALIVE_US - SCRIPT_FRESH_US)
                assert_int_equal(bed.us.gone, 0);
        }
        assert_int_equal(bed.us.count, back);
        assert_int_equal(bed.us.gone, !back);
        while (!none_under_way(&bed.calls))
            answer_beat(&bed.calls);
        end_bed(&bed);
    }
}

/* It came while a look was under way, which could not find it, and before the next heartbeat. */
static void one_that_came_since_a_look_was_sent_stays(void **state)
{
    static struct bed bed;
    struct script_member newcomer = {.name = "daemon-1", .how = SCRIPT_SERVES};
    (void)state;
    make_bed(&bed);
    at(loop.now_us);
    at(loop.now_us + 100 * 1000);
    members_note_report(&bed.us, &newcomer, false);
    at(loop.now_us + 100 * 1000);
    members_heartbeat(&bed.us);
    answer_beat_with(&bed.calls, records_of_two(SCRIPT_SERVES));
    assert_int_equal(bed.us.count, 2);
    assert_int_equal(bed.us.gone, 0);
    assert_false(bed.us.others[0].silent);
    assert_false(bed.us.others[1].silent);
    answer_beat(&bed.calls);
    end_bed(&bed);
}

/* The notice that it leaves overtakes the list, by another connection. */
static void one_that_left_since_a_look_was_sent_is_not_added_again(void **state)
{
    (void)state;
    for (int was_known = 0; was_known < 2; was_known++) {
        static struct bed bed;
        struct script_member leaver = {.name = "daemon-2", .how = SCRIPT_SERVES};
        struct bytes both = records_of_two(SCRIPT_SERVES);
        make_bed(&bed);
        at(loop.now_us);
        if (was_known)
            members_note_report(&bed.us, &leaver, false);
        leaver.how = SCRIPT_LEAVES;
        members_note_report(&bed.us, &leaver, false);
        at(loop.now_us + 1000);
        answer_beat_with(&bed.calls, both);
        assert_int_equal(bed.us.count, 0);
        assert_true(looks(&bed.calls)); /* at once, without a second's wait */
        answer_beat_with(&bed.calls, bytes_of(both.at + SCRIPT_MEMBER_BYTES, SCRIPT_MEMBER_BYTES));
        at(loop.now_us);
        assert_true(members_own(&bed.us, 0));
        end_bed(&bed);
    }
}

/* Before others are taken for dead because they are not known. */
static void who_may_not_know_all_asks_for_the_list(void **state)
{
    static struct bed bed;
    struct script_member other = {.name = "daemon-2", .how = SCRIPT_SERVES};
    (void)state;
    make_bed(&bed);
    at(loop.now_us);
    answer_beat_with(&bed.calls, records_of_two(SCRIPT_SERVES));
    at(loop.now_us + SCRIPT_FRESH_US - SECOND_US);
    assert_true(members_know_all(&bed.us));
    members_note_report(&bed.us, &other, true);
    beat_until(&bed, loop.now_us + SECOND_US);
    assert_true(none_under_way(&bed.calls));
    assert_false(members_know_all(&bed.us));
    assert_true(looks(&bed.calls));
    assert_false(members_know_all(&bed.us)); /* one is enough */
    answer_beat_with(&bed.calls, records_of_two(SCRIPT_SERVES));
    assert_true(none_under_way(&bed.calls));
    assert_true(members_know_all(&bed.us));
    end_bed(&bed);
}

/* ---- ordered topics ---- */

static void answer_all(struct bed *bed, struct bytes records)
{
    while (!none_under_way(&bed->calls)) {
        bool list = looks(&bed->calls);
        answer_beat_with(&bed->calls, list ? records : BYTES(""));
        at(loop.now_us);
    }
}

/* A heartbeat a second, whose answers have these records if they were asked for, until then. */
static void list_until(struct bed *bed, struct bytes records, int64_t until_us)
{
    answer_all(bed, records);
    while (loop.now_us < until_us) {
        int64_t next_us = timers_next_us(&loop.timers);
        at(next_us < until_us ? next_us : until_us);
        answer_all(bed, records);
    }
}

static struct bytes record_of_us(void)
{
    struct bytes both = records_of_two(SCRIPT_SERVES);
    return bytes_of(both.at + SCRIPT_MEMBER_BYTES, both.len - SCRIPT_MEMBER_BYTES);
}

/* A topic that the other daemon sends. */
static uint64_t topic_of_other(const struct bed *bed)
{
    uint64_t topic = 0;
    while (members_keep_order(&bed->us, topic))
        topic++;
    assert_true(topic < 100);
    return topic;
}

/* Redis had answered it, and lost its record: it may send for as long as it relies on that. */
static void one_that_a_list_lacks_may_send_ordered_topics_until_a_later_list_lacks_it_too(
    void **state)
{
    (void)state;
    for (int back = 1; back >= 0; back--) {
        static struct bed bed;
        make_bed(&bed);
        list_until(&bed, records_of_two(SCRIPT_SERVES), loop.now_us + 20 * SECOND_US);
        uint64_t topic = topic_of_other(&bed), changes_before = members_order_changes(&bed.us);
        int64_t missing_us = loop.now_us;
        members_request_list(&bed.us);
        members_heartbeat(&bed.us);
        answer_all(&bed, record_of_us());
        assert_true(members_own(&bed.us, 0)); /* two owners do no harm */
        list_until(&bed, record_of_us(), missing_us + SCRIPT_FRESH_US - 1);
        assert_int_equal(members_keep_order(&bed.us, topic), 0);
        at(missing_us + SCRIPT_FRESH_US);
        assert_int_equal(members_keep_order(&bed.us, topic), 0);
        assert_true(looks(&bed.calls));
        answer_all(&bed, back ? records_of_two(SCRIPT_SERVES) : record_of_us());
        assert_int_equal(members_keep_order(&bed.us, topic) != 0, !back);
        assert_int_equal(members_order_changes(&bed.us) != changes_before, !back);
        assert_int_equal(bed.us.count, 1);
        end_bed(&bed);
    }
}

/* The server that has just taken over may not have its last heartbeats. */
static void one_that_a_new_server_says_is_silent_may_send_until_a_later_list_says_so_too(
    void **state)
{
    static struct bed bed;
    struct script_member silent = {.name = "daemon-2", .how = SCRIPT_SILENT};
    (void)state;
    enum { AS_BEFORE, OPENED, NOT_YET_OPENED, COUNT };
    for (int which = 0; which < COUNT; which++) {
        make_bed(&bed);
        list_until(&bed, records_of_two(SCRIPT_SERVES), loop.now_us + 20 * SECOND_US);
        uint64_t topic = topic_of_other(&bed);
        if (which == OPENED)
            members_note_opened(&bed.us);
        int64_t silent_us = loop.now_us + SCRIPT_FRESH_US - 1;
        list_until(&bed, records_of_two(SCRIPT_SERVES), silent_us);
        serves_now = which != NOT_YET_OPENED; /* others have reached it before us */
        members_note_report(&bed.us, &silent, false);
        serves_now = true;
        at(loop.now_us);
        assert_int_equal(members_keep_order(&bed.us, topic) != 0, which == AS_BEFORE);
        assert_true(members_own(&bed.us, 0));
        list_until(&bed, records_of_two(SCRIPT_SILENT), silent_us + SCRIPT_FRESH_US - 1);
        assert_int_equal(members_keep_order(&bed.us, topic) != 0, which == AS_BEFORE);
        list_until(&bed, records_of_two(SCRIPT_SILENT), silent_us + SCRIPT_FRESH_US);
        assert_true(members_keep_order(&bed.us, topic) != 0);
        end_bed(&bed);
    }
}

/* Others may find it silent a little sooner than its own clock says, if Redis' clock has leapt. */
static void who_was_not_answered_sends_no_ordered_topic_before_others_may(void **state)
{
    static struct bed bed;
    (void)state;
    make_bed(&bed);
    list_until(&bed, record_of_us(), loop.now_us + 20 * SECOND_US);
    members_heartbeat(&bed.us);
    answer_all(&bed, record_of_us());
    int64_t sent_us = loop.now_us;
    at(sent_us + SCRIPT_FRESH_US - 50 * 1000 - 1);
    uint64_t changes_before = members_order_changes(&bed.us);
    assert_true(members_keep_order(&bed.us, 1) != 0);
    at(sent_us + SCRIPT_FRESH_US - 50 * 1000);
    assert_int_equal(members_keep_order(&bed.us, 1), 0);
    assert_true(members_order_changes(&bed.us) > changes_before);
    answer_all(&bed, record_of_us());
    end_bed(&bed);
}

/* Another may have been answered just before Redis lost its record. */
static void who_sees_nobody_is_alone_when_a_second_list_says_so(void **state)
{
    static struct bed bed;
    (void)state;
    make_bed(&bed);
    int64_t began_us = loop.now_us;
    at(began_us);
    assert_true(looks(&bed.calls));
    answer_all(&bed, record_of_us());
    assert_int_equal(members_keep_order(&bed.us, 1), 0);
    list_until(&bed, record_of_us(), began_us + SCRIPT_FRESH_US - 1);
    assert_int_equal(members_keep_order(&bed.us, 1), 0);
    at(began_us + SCRIPT_FRESH_US);
    assert_true(looks(&bed.calls));
    answer_all(&bed, record_of_us());
    assert_true(members_keep_order(&bed.us, 1) != 0);
    /* It is frozen for a while: others may have come, and taken it for dead. */
    list_until(&bed, record_of_us(), began_us + 3 * SECOND_US);
    at(loop.now_us + 60 * SECOND_US);
    assert_true(looks(&bed.calls));
    answer_all(&bed, record_of_us());
    assert_int_equal(members_keep_order(&bed.us, 1), 0);
    at(loop.now_us + SCRIPT_FRESH_US);
    assert_true(looks(&bed.calls));
    answer_all(&bed, records_of_two(SCRIPT_SERVES));
    assert_int_equal(members_keep_order(&bed.us, 1), 0);
    end_bed(&bed);
}

/* Others count on its knowing them. Each turn comes as late as it may. */
static void who_is_slow_reads_the_list_as_often(void **state)
{
    enum { SLOW_US = SCRIPT_FRESH_US - 51 * 1000 };
    static struct bed bed;
    struct script_member other = {.name = "daemon-2", .how = SCRIPT_SERVES};
    (void)state;
    make_bed(&bed);
    at(loop.now_us);
    answer_all(&bed, records_of_two(SCRIPT_SERVES));
    int64_t listed_us = loop.now_us, steady_us = bed.us.steady_us;
    for (int i = 0; i < 60; i++) {
        members_note_report(&bed.us, &other, true); /* so nothing else makes us look */
        at(loop.now_us + SLOW_US);
        assert_true(loop.now_us - listed_us < 12 * SECOND_US);
        if (looks(&bed.calls))
            listed_us = loop.now_us;
        members_note_report(&bed.us, &other, true);
        answer_all(&bed, records_of_two(SCRIPT_SERVES));
    }
    assert_int_equal(bed.us.steady_us, steady_us);
    end_bed(&bed);
}

/* The heartbeat that says so is still under way when an older one is answered. */
static void that_we_serve_is_known_when_the_heartbeat_that_says_so_is_answered(void **state)
{
    static struct bed bed;
    (void)state;
    make_bed(&bed);
    serves_now = false;
    at(loop.now_us);
    at(loop.now_us + 1000);
    serves_now = true;
    members_heartbeat(&bed.us);
    answer_beat(&bed.calls);
    assert_int_equal(bed.us.steady_us, 0);
    loop.now_us += 1000;
    answer_beat(&bed.calls);
    assert_int_equal(bed.us.steady_us, loop.now_us);
    end_bed(&bed);
}

/* An answer that is that old says who was missing then; Redis may have lost all records. */
static void who_was_frozen_counts_the_silence_of_missing_ones_from_its_return(void **state)
{
    static struct bed bed;
    (void)state;
    make_bed(&bed);
    list_until(&bed, records_of_two(SCRIPT_SERVES), loop.now_us + 20 * SECOND_US);
    members_request_list(&bed.us);
    members_heartbeat(&bed.us);
    loop.now_us += 9 * ALIVE_US; /* and only now reads the answer */
    int64_t back_us = loop.now_us;
    answer_beat_with(&bed.calls, record_of_us());
    list_until(&bed, record_of_us(), back_us + ALIVE_US - SCRIPT_FRESH_US - 1);
    assert_int_equal(bed.us.count, 1);
    assert_int_equal(bed.us.gone, 0);
    list_until(&bed, record_of_us(), back_us + ALIVE_US + SECOND_US);
    assert_int_equal(bed.us.count, 0);
    end_bed(&bed);
}

/* We were out of contact, and the first list is outdated, because of another daemon that leaves.
 * The next list is from the same microsecond as that answer. */
static void interrupt_with_an_outdated_list(struct bed *bed)
{
    struct script_member leaver = {.name = "daemon-3", .how = SCRIPT_LEAVES};
    make_bed(bed);
    list_until(bed, records_of_two(SCRIPT_SERVES), loop.now_us + 20 * SECOND_US);
    members_request_list(&bed->us);
    members_heartbeat(&bed->us);
    loop.now_us += 3 * SECOND_US;
    members_note_report(&bed->us, &leaver, false);
    loop.now_us += 1000;
    answer_beat_with(&bed->calls, records_of_two(SCRIPT_SERVES));
    assert_true(looks(&bed->calls));
}

/* It died while we were out of contact, and Redis has lost its record. */
static void one_that_the_list_behind_an_outdated_one_lacks_is_silent(void **state)
{
    static struct bed bed;
    (void)state;
    interrupt_with_an_outdated_list(&bed);
    answer_all(&bed, record_of_us());
    assert_int_equal(bed.us.count, 1);
    assert_true(bed.us.others[0].silent);
    end_bed(&bed);
}

/* It died 1.3 s before: its silence counts from then on, not from our return. */
static void an_interruption_does_not_begin_the_silence_of_others_again(void **state)
{
    static struct bed bed;
    char records[2 * SCRIPT_MEMBER_BYTES];
    (void)state;
    interrupt_with_an_outdated_list(&bed);
    memcpy(records, records_of_two(SCRIPT_SERVES).at, sizeof(records));
    put_u64(records + SCRIPT_NAME + 1, REDIS_US - (SCRIPT_FRESH_US - 100 * 1000));
    answer_all(&bed, bytes_of(records, sizeof(records)));
    at(loop.now_us + 100 * 1000 - 1);
    assert_true(none_under_way(&bed.calls));
    at(loop.now_us + 1);
    assert_true(looks(&bed.calls));
    answer_all(&bed, records_of_two(SCRIPT_SILENT));
    assert_true(bed.us.others[0].silent);
    end_bed(&bed);
}

/* It said so before we asked: since then Redis has lost its record, or it has left. */
static void one_that_was_heard_when_the_list_was_sent_is_silent_if_that_lacks_it(void **state)
{
    static struct bed bed;
    struct script_member other = {.name = "daemon-2", .how = SCRIPT_SERVES};
    (void)state;
    make_bed(&bed);
    list_until(&bed, records_of_two(SCRIPT_SERVES), loop.now_us + 20 * SECOND_US);
    members_note_report(&bed.us, &other, true);
    members_request_list(&bed.us);
    members_heartbeat(&bed.us);
    loop.now_us += 1000;
    answer_all(&bed, record_of_us());
    assert_true(bed.us.others[0].silent);
    end_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_partition_has_one_owner, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_silent_loses_its_partitions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_silent_for_long_is_dead, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_leaves_is_gone_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_leaves_is_gone_though_nobody_knew_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_does_not_reach_all_owns_nothing_unless_nobody_does,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_hears_nothing_itself_says_nobody_dead, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_was_never_in_contact_owns_nothing, set_up, tear_down),
        cmocka_unit_test(one_that_is_watched_and_late_is_looked_for),
        cmocka_unit_test(one_that_is_late_while_a_heartbeat_is_under_way_is_looked_for_behind_it),
        cmocka_unit_test(one_that_may_be_dead_is_looked_for_before_it_is),
        cmocka_unit_test(one_that_a_look_lacks_is_dead_only_if_it_says_nothing_more),
        cmocka_unit_test(one_that_came_since_a_look_was_sent_stays),
        cmocka_unit_test(one_that_left_since_a_look_was_sent_is_not_added_again),
        cmocka_unit_test(who_may_not_know_all_asks_for_the_list),
        cmocka_unit_test(
            one_that_a_list_lacks_may_send_ordered_topics_until_a_later_list_lacks_it_too),
        cmocka_unit_test(
            one_that_a_new_server_says_is_silent_may_send_until_a_later_list_says_so_too),
        cmocka_unit_test(who_was_not_answered_sends_no_ordered_topic_before_others_may),
        cmocka_unit_test(who_sees_nobody_is_alone_when_a_second_list_says_so),
        cmocka_unit_test(who_is_slow_reads_the_list_as_often),
        cmocka_unit_test(that_we_serve_is_known_when_the_heartbeat_that_says_so_is_answered),
        cmocka_unit_test(who_was_frozen_counts_the_silence_of_missing_ones_from_its_return),
        cmocka_unit_test(one_that_the_list_behind_an_outdated_one_lacks_is_silent),
        cmocka_unit_test(an_interruption_does_not_begin_the_silence_of_others_again),
        cmocka_unit_test(one_that_was_heard_when_the_list_was_sent_is_silent_if_that_lacks_it),
        cmocka_unit_test(whoever_was_not_heard_for_long_leaves_word_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
