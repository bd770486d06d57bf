/*
 * The contract of port/member.h (M1 to M3) on both ways to elect, in the simulator: the row that
 * MySQL and Redis keep, and ZooKeeper's nodes. One list of tests for both; the bed checks after
 * each step that no two hold, and that epochs grow. SIM_SEED=7 runs one life.
 */
#include "election_bed.h"
#include "test/unit/support/every.h"

#include <stdlib.h>

enum { LIVES = 150 };

static const enum bed_kind kinds[] = {BED_ROW, BED_ZOOKEEPER};

static void begin(struct bed *bed, void **state)
{
    bed_init(bed, *(const enum bed_kind *)*state, 42);
    (void)bed_until_holder(bed, BED_NODES, TIMEOUT_US + SECOND_US);
}

static void one_of_three_leads_and_goes_on_leading(void **state)
{
    static struct bed bed;
    begin(&bed, state);
    unsigned leader = bed_holder(&bed);
    for (int i = 0; i < 60; i++) {
        bed_pass(&bed, SECOND_US);
        assert_int_equal(bed_holder(&bed), leader);
    }
    assert_int_equal(bed_tenure(&bed, &bed.nodes[leader])->terms, 1);
    assert_int_equal(bed_tenure(&bed, &bed.nodes[leader])->epoch, 1);
}

static void when_the_leader_is_killed_another_leads_within_the_timeout_and_a_second(void **state)
{
    static struct bed bed;
    for (unsigned i = 0; i < 20; i++) {
        begin(&bed, state);
        bed_pass(&bed, (int64_t)i * 137000);
        unsigned killed = bed_holder(&bed);
        bed_kill(&bed.nodes[killed]);
        int64_t took_us = bed_until_holder(&bed, killed, TIMEOUT_US + SECOND_US);
        assert_true(took_us > TIMEOUT_US / 2); /* and not while the killed one might have held */
    }
}

static void when_the_leader_resigns_another_leads_within_a_fifth_of_a_second(void **state)
{
    static struct bed bed;
    begin(&bed, state);
    bed_pass(&bed, 3 * SECOND_US);
    unsigned resigned = bed_holder(&bed);
    bed_resign(&bed, resigned, 60 * SECOND_US);
    assert_false(bed_holds(&bed, resigned));
    assert_true(bed_until_holder(&bed, resigned, SECOND_US) <= SECOND_US / 5);
    for (int i = 0; i < 50; i++) { /* it takes no part while it rests */
        bed_pass(&bed, SECOND_US);
        assert_int_not_equal(bed_holder(&bed), resigned);
    }
}

static void who_is_paused_beyond_its_deadline_does_not_hold_when_it_wakes(void **state)
{
    static struct bed bed;
    begin(&bed, state);
    unsigned paused = bed_holder(&bed);
    bed.nodes[paused].paused_until_us = bed.now_us + 20 * SECOND_US;
    (void)bed_until_holder(&bed, paused, TIMEOUT_US + SECOND_US);
    unsigned next = bed_holder(&bed);
    bed_pass(&bed, 30 * SECOND_US); /* bed_check() looks at it before it does anything */
    assert_int_equal(bed_holder(&bed), next);
    assert_int_equal(bed_tenure(&bed, &bed.nodes[paused])->loss, LOSS_PAUSED);
}

static void who_is_cut_off_stops_before_another_begins(void **state)
{
    static struct bed bed;
    begin(&bed, state);
    unsigned cut = bed_holder(&bed);
    bed.nodes[cut].cut_until_us = bed.now_us + 30 * SECOND_US;
    int64_t begun_us = bed.now_us;
    while (bed_holds(&bed, cut))
        bed_step(&bed);
    assert_true(bed.now_us - begun_us <= TIMEOUT_US * 2 / 3 + TIMEOUT_US / 10);
    (void)bed_until_holder(&bed, cut, TIMEOUT_US + SECOND_US);
    assert_int_equal(bed_tenure(&bed, &bed.nodes[cut])->loss, LOSS_UNANSWERED);
    bed_pass(&bed, 40 * SECOND_US);
    assert_int_not_equal(bed_holder(&bed), BED_NODES);
}

static void when_the_service_is_away_longer_than_the_session_nobody_leads_and_then_one(void **state)
{
    static struct bed bed;
    begin(&bed, state);
    for (unsigned i = 0; i < BED_NODES; i++)
        bed.nodes[i].cut_until_us = bed.now_us + 3 * TIMEOUT_US;
    bed_pass(&bed, TIMEOUT_US);
    assert_int_equal(bed_holder(&bed), BED_NODES);
    bed_pass(&bed, 2 * TIMEOUT_US);
    (void)bed_until_holder(&bed, BED_NODES, TIMEOUT_US + SECOND_US);
}

static void a_short_cut_ends_no_tenure(void **state)
{
    static struct bed bed;
    begin(&bed, state);
    unsigned leader = bed_holder(&bed);
    for (unsigned i = 0; i < BED_NODES; i++)
        bed.nodes[i].cut_until_us = bed.now_us + SECOND_US;
    bed_pass(&bed, 10 * SECOND_US);
    assert_int_equal(bed_holder(&bed), leader);
    assert_int_equal(bed_tenure(&bed, &bed.nodes[leader])->terms, 1);
}

/* ZooKeeper's servers were restarted with a lower maxSessionTimeout. */
static void who_comes_back_to_a_shorter_session_stops_before_another_begins(void **state)
{
    static struct bed bed;
    for (int64_t after_us = 0; after_us < TIMEOUT_US / 3; after_us += TIMEOUT_US / 30) {
        begin(&bed, state);
        bed_pass(&bed, after_us);
        unsigned leader = bed_holder(&bed);
        struct bed_node *node = &bed.nodes[leader];
        bed.timeout_us = SECOND_US;
        node->connected = false;
        zk_connecting(&node->zk);
        while (!node->connected)
            bed_step(&bed);
        node->cut_until_us = bed.now_us + 30 * SECOND_US;
        (void)bed_until_holder(&bed, leader, 2 * SECOND_US);
        assert_int_equal(bed_tenure(&bed, node)->loss, LOSS_UNANSWERED);
    }
}

static void an_epoch_is_raised_above_what_a_store_has_seen(void **state)
{
    static struct bed bed;
    begin(&bed, state);
    unsigned leader = bed_holder(&bed);
    bed_raise(&bed, leader, 41);
    bed_pass(&bed, SECOND_US / 2);
    assert_int_equal(bed_holder(&bed), leader);
    assert_int_equal(bed_tenure(&bed, &bed.nodes[leader])->epoch, 42);
    bed_kill(&bed.nodes[leader]);
    (void)bed_until_holder(&bed, leader, TIMEOUT_US + SECOND_US);
    assert_int_equal(bed_tenure(&bed, &bed.nodes[bed_holder(&bed)])->epoch, 43);
}

/* What somebody removes by hand: the row, or the leader's node. */
static void delete_by_hand(struct bed *bed, unsigned leader)
{
    struct bed_node *node = &bed->nodes[leader];
    if (bed->kind == BED_ROW) {
        bed->row = (struct claim_row){.exists = false};
        return;
    }
    for (unsigned i = 0; i < BED_ZNODES; i++) {
        if (bed->znodes[i].there && bed->znodes[i].session == node->session)
            bed_remove_znode(bed, &bed->znodes[i]);
    }
}

static void a_deleted_row_or_node_ends_a_tenure_and_begins_one(void **state)
{
    static struct bed bed;
    begin(&bed, state);
    unsigned leader = bed_holder(&bed);
    bed_pass(&bed, SECOND_US);
    delete_by_hand(&bed, leader);
    int64_t begun_us = bed.now_us;
    /* The watch tells the leader when it tells the next one, who has more to ask before it leads.
     */
    while (bed_holds(&bed, leader)) {
        assert_true(bed.now_us - begun_us < TIMEOUT_US / 2);
        bed_step(&bed);
    }
    assert_int_equal(bed_tenure(&bed, &bed.nodes[leader])->loss, LOSS_DELETED);
    (void)bed_until_holder(&bed, BED_NODES, TIMEOUT_US + SECOND_US);
    assert_true(bed_tenure(&bed, &bed.nodes[bed_holder(&bed)])->epoch > 1);
}

static void a_row_of_another_or_an_expired_session_ends_a_tenure_and_says_so(void **state)
{
    static struct bed bed;
    begin(&bed, state);
    unsigned leader = bed_holder(&bed);
    struct bed_node *node = &bed.nodes[leader];
    const struct tenure *tenure = bed_tenure(&bed, node);
    bed_pass(&bed, SECOND_US);
    if (bed.kind == BED_ROW) {
        bed.row.epoch = 40;
        (void)snprintf(bed.row.holder, sizeof(bed.row.holder), "somebody");
        bed_pass(&bed, TIMEOUT_US / 2);
    } else {
        zk_expired(&node->zk, bed_clock(&bed, node));
    }
    assert_false(tenure->leading);
    assert_int_equal(tenure->loss, bed.kind == BED_ROW ? LOSS_TAKEN : LOSS_EXPIRED);
}

static void all_that_is_deleted_by_hand_is_made_again(void **state)
{
    static struct bed bed;
    begin(&bed, state);
    bed_pass(&bed, 2 * SECOND_US);
    unsigned leader = bed_holder(&bed);
    bed.row = (struct claim_row){.exists = false};
    memset(bed.made, 0, sizeof(bed.made));
    bed.epoch = 0;
    bed.epoch_version = 0;
    delete_by_hand(&bed, leader);
    bed_pass(&bed, 2 * TIMEOUT_US + SECOND_US);
    assert_int_not_equal(bed_holder(&bed), BED_NODES);
}

static void two_who_race_for_it_get_two_epochs(void **state)
{
    static struct bed bed;
    for (uint64_t seed = 0; seed < 40; seed++) { /* all three begin in the same instant */
        bed_init(&bed, *(const enum bed_kind *)*state, seed);
        (void)bed_until_holder(&bed, BED_NODES, TIMEOUT_US + SECOND_US);
        bed_kill(&bed.nodes[bed_holder(&bed)]);
        (void)bed_until_holder(&bed, BED_NODES, TIMEOUT_US + 2 * SECOND_US);
    }
}

static void who_waits_knows_where_the_leader_is(void **state)
{
    static struct bed bed;
    begin(&bed, state);
    bed_pass(&bed, 2 * TIMEOUT_US);
    char url[32];
    (void)snprintf(url, sizeof(url), "http://node%u", bed_holder(&bed));
    for (unsigned i = 0; i < BED_NODES; i++) {
        const struct bed_node *node = &bed.nodes[i];
        const char *known = bed.kind == BED_ROW ? claim_leader(&node->claim) : node->zk.leader;
        assert_string_equal(known, i == bed_holder(&bed) ? "" : url);
    }
}

/* One thing that goes wrong, now and then. */
static void disturb(struct bed *bed)
{
    struct sim_random *random = &bed->random;
    struct bed_node *node = &bed->nodes[sim_random_below(random, BED_NODES)];
    int64_t span_us = (int64_t)sim_random_below(random, (uint64_t)(2 * TIMEOUT_US));
    switch (sim_random_below(random, 5)) {
    case 0: node->paused_until_us = bed->now_us + span_us; break;
    case 1: node->cut_until_us = bed->now_us + span_us; break;
    case 2: node->lossy = !node->lossy; break;
    case 3: bed_resign(bed, (unsigned)(node - bed->nodes), span_us); break;
    case 4:
        for (unsigned i = 0; i < BED_NODES; i++)
            bed->nodes[i].cut_until_us = bed->now_us + span_us;
        break;
    }
}

static void live(enum bed_kind kind, uint64_t seed)
{
    static struct bed bed;
    bed_init(&bed, kind, seed);
    for (int i = 0; i < 60; i++) {
        bed_pass(&bed, (int64_t)sim_random_below(&bed.random, 4 * SECOND_US));
        disturb(&bed);
    }
    for (unsigned i = 0; i < BED_NODES; i++)
        bed.nodes[i].lossy = false;
    bed_pass(&bed, 2 * TIMEOUT_US); /* all that was begun is over */
    (void)bed_until_holder(&bed, BED_NODES, TIMEOUT_US + 2 * SECOND_US);
    unsigned leader = bed_holder(&bed);
    bed_pass(&bed, 5 * TIMEOUT_US);
    assert_int_equal(bed_holder(&bed), leader);
}

static void lives_with_cuts_pauses_and_lost_answers_never_have_two_who_hold(void **state)
{
    const char *one = getenv("SIM_SEED");
    uint64_t first = one ? strtoull(one, NULL, 10) : 0, count = one ? 1 : sim_lives(LIVES);
    for (uint64_t seed = first; seed < first + count; seed++)
        live(*(const enum bed_kind *)*state, seed);
}

#define BOTH(test)                                                                                 \
    {#test " (a row)", test, NULL, NULL, (void *)(uintptr_t)&kinds[0]},                            \
    {                                                                                              \
#test " (ZooKeeper)", test, NULL, NULL, (void *)(uintptr_t)&kinds[1]                       \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(one_of_three_leads_and_goes_on_leading),
        BOTH(when_the_leader_is_killed_another_leads_within_the_timeout_and_a_second),
        BOTH(when_the_leader_resigns_another_leads_within_a_fifth_of_a_second),
        BOTH(who_is_paused_beyond_its_deadline_does_not_hold_when_it_wakes),
        BOTH(who_is_cut_off_stops_before_another_begins),
        BOTH(when_the_service_is_away_longer_than_the_session_nobody_leads_and_then_one),
        BOTH(a_short_cut_ends_no_tenure),
        BOTH(an_epoch_is_raised_above_what_a_store_has_seen),
        BOTH(a_deleted_row_or_node_ends_a_tenure_and_begins_one),
        BOTH(a_row_of_another_or_an_expired_session_ends_a_tenure_and_says_so),
        BOTH(all_that_is_deleted_by_hand_is_made_again),
        BOTH(two_who_race_for_it_get_two_epochs),
        BOTH(who_waits_knows_where_the_leader_is),
        {.name = "who_comes_back_to_a_shorter_session_stops_before_another_begins",
         .test_func = who_comes_back_to_a_shorter_session_stops_before_another_begins,
         .initial_state = (void *)(uintptr_t)&kinds[1]},
        BOTH(lives_with_cuts_pauses_and_lost_answers_never_have_two_who_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
