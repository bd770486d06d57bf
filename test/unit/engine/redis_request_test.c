/*
 * Calls of scripts and their places in the ring of answers, without a Redis: no call shares a place
 * with another that is not answered yet.
 */
#include "redis_calls_bed.h"

#include <stdio.h>
#include <string.h>

#include "engine/redis/partition_init.h"
#include "engine/redis/script_parts.h"

struct place_test {
    struct calls_bed bed;
    unsigned given_up;
    struct partition_init partition_init; /* of some tests */
};

static int setup(void **state)
{
    static struct place_test test;
    test = (struct place_test){0};
    if (!calls_bed_open(&test.bed))
        return -1;
    *state = &test;
    return 0;
}

static int teardown(void **state)
{
    struct place_test *test = *state;
    script_requests_fini(&test->bed.calls); /* tells the opener of what is still under way */
    partition_init_fini(&test->partition_init);
    for (unsigned i = 0; i < test->bed.topology.node_count; i++) {
        struct node *node = &test->bed.topology.nodes[i];
        loop_cancel(&test->bed.loop, &node->quiet);
        loop_cancel(&test->bed.loop, &node->link.silence);
        buf_fini(&node->link.out);
    }
    calls_bed_close(&test->bed);
    return 0;
}

static void given_up(void *owner, struct script_request *call, enum err err,
                     const struct bytes *parts, uint32_t count)
{
    (void)call;
    (void)parts;
    (void)count;
    assert_int_equal(err, ERR_AGAIN);
    ((struct place_test *)owner)->given_up++;
}

static redisReply *redis_error(const char *text)
{
    char group[64];
    void *reply = NULL;
    redisReader *reader = redisReaderCreate();
    int len = snprintf(group, sizeof(group), "-%s\r\n", text);
    assert_int_equal(redisReaderFeed(reader, group, (size_t)len), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    redisReaderFree(reader);
    return reply;
}

/* Of so many bytes 0. */
static redisReply *redis_string(size_t len)
{
    char text[64];
    void *reply = NULL;
    redisReader *reader = redisReaderCreate();
    int head = snprintf(text, sizeof(text), "$%zu\r\n", len);
    assert_int_equal(redisReaderFeed(reader, text, (size_t)head), REDIS_OK);
    memset(text, 0, len);
    memcpy(text + len, "\r\n", 2);
    assert_int_equal(redisReaderFeed(reader, text, len + 2), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    redisReaderFree(reader);
    return reply;
}

static void ignore_lost(struct node_callbacks *callbacks, struct node *node)
{
    (void)callbacks;
    (void)node;
}

static struct node_callbacks deaf = {.ready = ignore_lost, .lost = ignore_lost};

static void make_nodes(struct place_test *test, unsigned count)
{
    test->bed.url.topology = REDIS_CLUSTER;
    test->bed.topology.node_count = count;
    for (unsigned i = 0; i < count; i++) {
        struct node *node = &test->bed.topology.nodes[i];
        node_init(node,
                  &(struct link_options){.loop = &test->bed.loop, .timeout_us = INT64_C(1) << 40},
                  &deaf);
        node->ready = true;
        node->link.state = LINK_UP; /* to nowhere: what is sent stays in its buffer */
    }
}

/* Sends one more, and says which place it got. */
static uint32_t send_one(struct place_test *test, uint32_t partition)
{
    struct script_request *call = script_requests_new(&test->bed.calls, partition);
    assert_non_null(call);
    script_requests_send(call, test, given_up);
    return call->id.place;
}

static void the_place_of_an_ended_call_is_taken_again(void **state)
{
    struct place_test *test = *state;
    assert_int_equal(send_one(test, 0), 0);
    calls_bed_at(&test->bed, TIMEOUT_US / 2);
    assert_int_equal(send_one(test, 0), 1);
    assert_int_equal(send_one(test, 1), 0); /* each partition has a ring of its own */
    calls_bed_at(&test->bed, TIMEOUT_US);   /* the first is too old */
    assert_int_equal(test->given_up, 1);
    assert_int_equal(send_one(test, 0), 0);
    assert_int_equal(send_one(test, 0), 2);
}

static void only_places_that_redis_knows_of_are_taken(void **state)
{
    struct place_test *test = *state;
    for (uint32_t i = 0; i < SCRIPT_RING_FIRST; i++)
        assert_int_equal(send_one(test, 1), i);
    assert_false(script_requests_wants_places(&test->bed.calls, 1));
    struct script_request *call = script_requests_new(&test->bed.calls, 1);
    script_encode_promote(&call->request, &test->bed.space, &call->id, 1, false); /* any request */
    script_requests_send(call, test, given_up);
    assert_int_equal(call->id.place, SCRIPT_RING);
    assert_true(script_requests_wants_places(&test->bed.calls, 1));
    uint32_t places = script_requests_places(&test->bed.calls, 1);
    script_requests_open(&test->bed.calls, 1, NULL, places);
    assert_int_equal(call->id.place, SCRIPT_RING_FIRST);
    assert_false(script_requests_wants_places(&test->bed.calls, 1));
    assert_false(script_requests_wants_places(&test->bed.calls, 0));
}

static void all_places(struct place_test *test)
{
    for (uint32_t i = 0; i < PARTITIONS; i++)
        script_requests_open(&test->bed.calls, i, NULL, SCRIPT_RING);
}

static void as_many_calls_as_there_are_places_may_be_unanswered(void **state)
{
    struct place_test *test = *state;
    all_places(test);
    static bool seen[SCRIPT_RING];
    for (uint32_t i = 0; i < SCRIPT_RING; i++) {
        uint32_t place = send_one(test, 1);
        assert_true(place < SCRIPT_RING && !seen[place]);
        seen[place] = true;
    }
    struct script_request *unkept =
        script_requests_new_unkept(&test->bed.calls, 1); /* needs none, and gives none back */
    script_requests_send(unkept, test, given_up);
    calls_bed_at(&test->bed, TIMEOUT_US);
    assert_int_equal(test->given_up, SCRIPT_RING + 1);
    assert_int_equal(send_one(test, 1), 0);
}

static struct script_request *send_any(struct place_test *test)
{
    struct script_request *call = script_requests_new(&test->bed.calls, 1);
    script_encode_promote(&call->request, &test->bed.space, &call->id, 1, false);
    script_requests_send(call, test, given_up);
    return call;
}

static void who_finds_no_place_waits_for_one(void **state)
{
    struct place_test *test = *state;
    all_places(test);
    for (uint32_t i = 0; i < SCRIPT_RING; i++)
        (void)send_any(test);
    calls_bed_at(&test->bed, TIMEOUT_US / 2);
    struct script_request *first = send_any(test), *second = send_any(test);
    assert_int_equal(first->id.place, SCRIPT_RING);
    struct script_request *ended =
        LIST_ENTRY(test->bed.calls.partitions[1].calls.next, struct script_request, place);
    uint32_t place = ended->id.place;
    ended->on_link.done(&ended->on_link, redis_error("NOPERM for a test"));
    assert_int_equal(first->id.place, place);
    assert_int_equal(script_argument(buf_bytes(&first->request), 1).at[11], (char)place);
    assert_int_equal(second->id.place, SCRIPT_RING);
    assert_int_equal(test->given_up, 1);
    calls_bed_at(&test->bed, TIMEOUT_US); /* the others are too old */
    assert_int_equal(test->given_up, SCRIPT_RING);
    assert_in_range(second->id.place, 0, SCRIPT_RING - 1);
}

/* Nobody has done it: it is not waited for. */
static void who_waits_for_a_place_for_too_long_is_told(void **state)
{
    struct place_test *test = *state;
    struct script_request *calls[SCRIPT_RING];
    all_places(test);
    for (uint32_t i = 0; i < SCRIPT_RING; i++) {
        calls[i] = send_any(test);
        calls[i]->at_most_once = true;
    }
    send_any(test)->at_most_once = true;
    calls_bed_at(&test->bed, TIMEOUT_US);
    assert_int_equal(test->given_up, 1);
}

/* A call that is tried until its answer is known. */
static struct script_request *send_must(struct place_test *test)
{
    struct script_request *call = script_requests_new(&test->bed.calls, 0);
    call->at_most_once = true;
    script_encode_promote(&call->request, &test->bed.space, &call->id, 1, false); /* any request */
    script_requests_send(call, test, given_up);
    return call;
}

static void what_may_have_been_done_is_given_up_with_its_answer(void **state)
{
    struct place_test *test = *state;
    struct script_request *done = send_must(test);
    (void)send_must(test); /* nobody has it yet: it takes nothing twice */
    done->on_link.done(&done->on_link, NULL);
    calls_bed_at(&test->bed, 10 * TIMEOUT_US);
    assert_int_equal(test->given_up, 0);
    script_requests_give_up(&test->bed.calls, 1);
    assert_int_equal(test->given_up, 0);
    script_requests_give_up(&test->bed.calls, 0);
    assert_int_equal(test->given_up, 1);
}

static void refuse(struct script_request *call, const char *error)
{
    list_remove(&call->on_link.place);
    call->on_link.done(&call->on_link, redis_error(error));
}

/* Nobody has what it took the first time: only Redis can tell what that is. */
static void what_may_have_been_done_is_sent_again_though_it_is_refused(void **state)
{
    static const char *const errors[] = {
        "NOPERM for a test",
        "WRONGTYPE Operation against a key",
        "OOM command not allowed when used memory > 'maxmemory'.",
    };
    enum { SECOND_US = 1000 * 1000 };
    struct place_test *test = *state;
    make_nodes(test, 1);
    test->bed.url.topology = REDIS_SINGLE;
    struct node *node = &test->bed.topology.nodes[0];
    script_requests_open(&test->bed.calls, 0, node, SCRIPT_RING_FIRST);
    struct script_request *call = send_must(test);
    list_remove(&call->on_link.place);
    call->on_link.done(&call->on_link, NULL); /* its connection is lost */
    for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        calls_bed_at(&test->bed, (i + 1) * SECOND_US);
        assert_ptr_equal(call->sent_to, node);
        refuse(call, errors[i]);
        assert_int_equal(test->given_up, 0);
        script_requests_open(&test->bed.calls, 0, node, SCRIPT_RING_FIRST); /* one closes it */
    }
    calls_bed_at(&test->bed, 100 * SECOND_US); /* the errors have closed it meanwhile */
    script_requests_open(&test->bed.calls, 0, node, SCRIPT_RING_FIRST);
    refuse(call, errors[2]);
    calls_bed_at(&test->bed, 109 * SECOND_US);
    assert_null(call->sent_to); /* after so long it need not be tried twice a second */
    script_requests_open(&test->bed.calls, 0, node, SCRIPT_RING_FIRST); /* it may be put right */
    assert_ptr_equal(call->sent_to, node);
    struct script_request *first = send_must(test); /* it was not done: nothing is lost with it */
    refuse(first, "NOPERM for a test");
    assert_int_equal(test->given_up, 1);
}

/* A server that is late may do it still, behind what comes next, whose answer must be left alone.
 */
static void the_place_of_a_call_that_may_still_be_done_is_not_the_next_one(void **state)
{
    struct place_test *test = *state;
    struct script_request *call = script_requests_new(&test->bed.calls, 0);
    uint32_t place = call->id.place;
    script_encode_promote(&call->request, &test->bed.space, &call->id, 1, false); /* any request */
    script_requests_send(call, test, given_up);
    calls_bed_at(&test->bed, TIMEOUT_US - 1);
    call->on_link.done(&call->on_link, NULL); /* its connection is lost */
    calls_bed_at(&test->bed, TIMEOUT_US);
    assert_int_equal(test->given_up, 1);
    uint32_t next = send_one(test, 0);
    assert_int_not_equal(next, place);
    assert_int_equal(send_one(test, 0), next + 1);
    assert_int_equal(send_one(test, 1), 0); /* nothing was given up there */
}

/* "Not now" to the call that opens a partition: only that one is sent before it is open. */
static void a_call_that_opens_is_sent_again_as_soon_as_others(void **state)
{
    struct place_test *test = *state;
    struct script_request *call = script_requests_new_unkept(&test->bed.calls, 0);
    make_nodes(test, 1);
    test->bed.url.topology = REDIS_SINGLE;
    script_encode_promote(&call->request, &test->bed.space, &call->id, 1, false); /* any request */
    call->urgent = true;
    call->owner = test;
    call->done = given_up;
    call->deadline_us = TIMEOUT_US * 1000;
    call->sent_to = &test->bed.topology.nodes[0];
    call->on_link.done(&call->on_link, redis_error("LOADING Redis is loading"));
    assert_true(timers_next_us(&test->bed.loop.timers) <= 20 * 1000);
    calls_bed_at(&test->bed, 20 * 1000);
    assert_ptr_equal(call->sent_to, &test->bed.topology.nodes[0]);
    list_remove(&call->on_link.place);
    call->on_link.done(&call->on_link, redis_error("LOADING Redis is loading"));
    test->bed.topology.nodes[0].ready = false; /* it is sent when there is a node again */
    calls_bed_at(&test->bed, 60 * 1000);
    assert_null(call->sent_to);
    assert_true(timers_next_us(&test->bed.loop.timers) > 60 * 1000 + TIMEOUT_US);
    test->bed.topology.nodes[0].ready = true;
    script_requests_moved(&test->bed.calls);
    assert_ptr_equal(call->sent_to, &test->bed.topology.nodes[0]);
}

/* Of 8 KiB, as a push has them. */
static struct script_request *send_large(struct place_test *test)
{
    static const char body[8 * 1024];
    struct script_request *call = script_requests_new_unkept(&test->bed.calls, 0);
    script_encode_promote(&call->request, &test->bed.space, &call->id, 1, false); /* any request */
    buf_add(&call->request, body, sizeof(body));
    script_requests_send(call, test, given_up);
    return call;
}

static unsigned owed_by(const struct node *node)
{
    unsigned count = 0;
    uint64_t number = 0;
    const struct list *head = &node->link.calls;
    for (const struct list *at = head->next; at != head; at = at->next) {
        const struct script_request *call =
            LIST_ENTRY(at, const struct script_request, on_link.place);
        assert_true(call->id.number > number); /* in the order in which they were made */
        number = call->id.number;
        count++;
    }
    return count;
}

static size_t never_sent(const struct stream *stream)
{
    (void)stream;
    return 1;
}

/* A turn must not take long: a connection that was lost while many calls were under way comes back.
 * What is new meanwhile does not overtake what waits. */
static void what_has_waited_is_sent_in_slices(void **state)
{
    enum { CALLS = 300, SLICE_BYTES = 256 * 1024, SOME_BYTES = 16 * 1024 };
    struct place_test *test = *state;
    make_nodes(test, 1);
    test->bed.url.topology = REDIS_SINGLE;
    struct node *node = &test->bed.topology.nodes[0];
    const struct stream_verbs verbs = {.unsent = never_sent}; /* it keeps what is sent */
    struct stream stream = {.verbs = &verbs};
    node->link.stream = &stream;
    for (unsigned i = 0; i < CALLS; i++)
        assert_null(send_large(test)->sent_to); /* it is not open */
    script_requests_open(&test->bed.calls, 0, node, 64);
    unsigned sent = 0, turns = 0, before;
    size_t bytes = 0;
    do {
        before = sent;
        sent = owed_by(node);
        assert_true(sent > before);
        assert_true(node->link.out.len - bytes <= SLICE_BYTES + SOME_BYTES);
        bytes = node->link.out.len;
        if (turns++ == 0)
            assert_null(send_large(test)->sent_to);      /* behind those that wait */
        calls_bed_at(&test->bed, test->bed.loop.now_us); /* the same turn */
        assert_int_equal(owed_by(node), sent);
        calls_bed_at(&test->bed, test->bed.loop.now_us + 1);
    } while (sent < CALLS + 1);
    assert_true(turns > CALLS * 8 * 1024 / SLICE_BYTES);
    assert_ptr_equal(send_large(test)->sent_to, node); /* nothing waits any more */
    calls_bed_at(&test->bed, test->bed.loop.now_us + 2);
    node->link.stream = NULL;
}

/* ---- partitions that are opened ---- */

static void told_open(void *owner, uint32_t partition, bool buckets_checked)
{
    (void)partition, (void)buckets_checked;
    ((struct place_test *)owner)->given_up++;
}

/* Of all partitions, which lie at the first node. */
static struct partition_init *start_opener(struct place_test *test, unsigned nodes)
{
    make_nodes(test, nodes);
    memset(test->bed.topology.slots, 0, sizeof(test->bed.topology.slots));
    partition_init_init(&test->partition_init,
                        &(struct partition_init_options){.space = &test->bed.space,
                                                         .calls = &test->bed.calls,
                                                         .loop = &test->bed.loop,
                                                         .opened = told_open,
                                                         .owner = test});
    partition_init_start(&test->partition_init);
    return &test->partition_init;
}

/* It has moved to another server, which has not been opened and may have another clock. */
static void a_partition_that_moves_while_it_is_opened_is_not_open(void **state)
{
    struct place_test *test = *state;
    (void)start_opener(test, 2);
    calls_bed_at(&test->bed, 0);
    for (unsigned partition = 0; partition < PARTITIONS; partition++) {
        struct script_request *call = LIST_ENTRY(test->bed.calls.partitions[partition].calls.next,
                                                 struct script_request, place);
        if (partition == 1)
            memset(test->bed.topology.slots, 1, sizeof(test->bed.topology.slots));
        list_remove(&call->on_link.place);
        call->on_link.done(&call->on_link, redis_string(SCRIPT_ANSWER_BYTES));
        assert_int_equal(script_requests_is_open(&test->bed.calls, partition), partition == 0);
    }
    assert_false(script_requests_is_open(&test->bed.calls, 0)); /* that one has moved since, too */
    assert_int_equal(test->given_up, PARTITIONS);
}

static void no_longer_known(void *owner)
{
    (void)owner;
}

/* Redis knew us no more: the answers that it kept for us are gone, and what is sent again would be
   done once more. */
static void what_may_have_been_done_is_given_up_when_redis_has_forgotten_us(void **state)
{
    struct place_test *test = *state;
    struct partition_init *partition_init = start_opener(test, 1);
    partition_init->options.forgotten = no_longer_known;
    calls_bed_at(&test->bed, 0);
    struct script_request *call =
        LIST_ENTRY(test->bed.calls.partitions[0].calls.next, struct script_request, place);
    struct script_request *done = send_must(test);
    redisReply *reply = redis_string(SCRIPT_ANSWER_BYTES);
    done->on_link.done(&done->on_link, NULL);
    reply->str[4] = 1; /* its count */
    list_remove(&call->on_link.place);
    call->on_link.done(&call->on_link, reply);
    assert_int_equal(test->given_up, 2); /* that, and it is open */
}

/* Answers an error, or one whose clock says that it is 0. */
static void answer_at_zero(struct script_request *call, bool lost_first)
{
    struct script_requests *calls = call->calls;
    list_remove(&call->on_link.place);
    if (lost_first) {
        call->on_link.done(&call->on_link, NULL);
        (void)loop_expire(calls->options.loop, NULL); /* it is sent again */
        list_remove(&call->on_link.place);
    }
    redisReply *reply = redis_string(SCRIPT_ANSWER_BYTES);
    reply->str[SCRIPT_ANSWER_BYTES - 8] = 1;
    call->on_link.done(&call->on_link, reply);
}

static void answered(void *owner, struct script_request *call, enum err err,
                     const struct bytes *parts, uint32_t count)
{
    (void)owner;
    (void)call;
    (void)parts;
    assert_int_equal(err, OK);
    assert_int_equal(count, 1);
}

/* It may be the first answer, kept: of a time before the request was sent again. */
static void p3_an_answer_to_what_was_sent_again_tells_nothing_of_the_clock(void **state)
{
    struct place_test *test = *state;
    make_nodes(test, 1);
    memset(test->bed.topology.slots, 0, sizeof(test->bed.topology.slots));
    test->bed.calls.options.timeout_us = INT64_C(60) * 1000 * 1000;
    calls_bed_at(&test->bed, 5 * 1000 * 1000);
    script_requests_open(&test->bed.calls, 0, &test->bed.topology.nodes[0], SCRIPT_RING);
    struct partition *partition = &test->bed.calls.partitions[0];
    partition->clock = (struct queue_clock){.known = true, .agreed_us = test->bed.loop.now_us};
    for (int lost = 1; lost >= 0; lost--) {
        struct script_request *call = script_requests_new(&test->bed.calls, 0);
        script_encode_promote(&call->request, &test->bed.space, &call->id, 1, false);
        script_requests_send(call, test, answered);
        answer_at_zero(call, lost);
        assert_int_equal(partition->clock_pending, !lost); /* it seems to have leapt */
    }
}

/* Two daemons that start on a new queue: what the other made may be opened before the news come. */
static void news_of_a_new_queue_are_no_loss(void **state)
{
    struct place_test *test = *state;
    struct partition_init *partition_init = start_opener(test, 1);
    calls_bed_at(&test->bed, 1000);
    struct script_request *call =
        LIST_ENTRY(test->bed.calls.partitions[0].calls.next, struct script_request, place);
    list_remove(&call->on_link.place);
    call->on_link.done(&call->on_link, redis_string(SCRIPT_ANSWER_BYTES));
    partition_init_lost(partition_init, 0);
    partition_init_lost(partition_init, 1); /* which we have never seen */
    assert_int_equal(partition_init->logged_us, 0);
    test->bed.loop.now_us = 60 * 1000 * 1000;
    partition_init_lost(partition_init, 1);
    assert_int_equal(partition_init->logged_us, 0);
    partition_init_lost(partition_init, 0);
    assert_int_equal(partition_init->logged_us, test->bed.loop.now_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_place_of_an_ended_call_is_taken_again, setup, teardown),
        cmocka_unit_test_setup_teardown(only_places_that_redis_knows_of_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(as_many_calls_as_there_are_places_may_be_unanswered, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(who_finds_no_place_waits_for_one, setup, teardown),
        cmocka_unit_test_setup_teardown(who_waits_for_a_place_for_too_long_is_told, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_may_have_been_done_is_sent_again_though_it_is_refused,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(what_may_have_been_done_is_given_up_with_its_answer, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            the_place_of_a_call_that_may_still_be_done_is_not_the_next_one, setup, teardown),
        cmocka_unit_test_setup_teardown(
            what_may_have_been_done_is_given_up_when_redis_has_forgotten_us, setup, teardown),
        cmocka_unit_test_setup_teardown(
            p3_an_answer_to_what_was_sent_again_tells_nothing_of_the_clock, setup, teardown),
        cmocka_unit_test_setup_teardown(a_partition_that_moves_while_it_is_opened_is_not_open,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(news_of_a_new_queue_are_no_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(what_has_waited_is_sent_in_slices, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_that_opens_is_sent_again_as_soon_as_others, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
