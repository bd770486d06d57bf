/*
 * Requests and answers so long that the worker reads and writes them: they keep their place, and
 * who leaves meanwhile takes nothing. And "100 Continue", which precedes a long body.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "beanstalk_peer.h"
#include "core/core.h"
#include "server/server.h"
#include "wire.h"

enum { LONG_BYTES = 300 * 1000 };

/* A reserve of topic t whose JSON has so many spaces. */
static void add_reserve(struct buf *out, size_t spaces)
{
    struct buf body = {0};
    buf_add_str(&body, "{\"topics\":[\"t\"],\"wait\":\"30s\"");
    for (size_t i = 0; i < spaces; i++)
        buf_add_char(&body, ' ');
    buf_add_char(&body, '}');
    wire_request(out, BYTES("POST"), BYTES("/v1/reserve"), "application/json", buf_bytes(&body));
    buf_fini(&body);
}

static void add_push(struct buf *out, size_t body_bytes)
{
    struct buf body = {0};
    buf_add_str(&body, "{\"body\":\"");
    for (size_t i = 0; i < body_bytes; i++)
        buf_add_char(&body, 'x');
    buf_add_str(&body, "\"}");
    wire_request(out, BYTES("POST"), BYTES("/v1/topics/t/jobs"), "application/json",
                 buf_bytes(&body));
    buf_fini(&body);
}

static void send_buf(struct sim_peer *peer, struct buf *data)
{
    sim_peer_send(peer, buf_bytes(data));
    buf_fini(data);
}

static void p6_who_leaves_while_a_long_reserve_is_decoded_takes_no_job(void **state)
{
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *leaver = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct sim_peer *pusher = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf data = {0};
    add_reserve(&data, LONG_BYTES);
    send_buf(leaver, &data);
    sim_peer_shut(leaver);
    settle(world);
    add_push(&data, 1);
    send_buf(pusher, &data);
    pass(world, SECOND_US);
    expect_figure(world, "stats\r\n", "current-jobs-ready", "1");
    expect_figure(world, "stats\r\n", "current-jobs-reserved", "0");
    world_free(world);
}

static int next_status(struct sim_peer *peer, size_t *out_body_len)
{
    struct wire_answer answer = {0};
    size_t len = wire_cut(sim_peer_received(peer), &answer);
    assert_true(len > 0);
    *out_body_len = answer.body.len;
    sim_peer_take(peer, len);
    return answer.status;
}

static void answers_leave_in_order_though_the_worker_writes_some(void **state)
{
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 2});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf data = {0};
    size_t len;
    add_push(&data, LONG_BYTES); /* decoded by the worker */
    add_push(&data, 1);
    wire_request(&data, BYTES("GET"), BYTES("/v1/jobs/@1"), NULL, (struct bytes){0});
    wire_request(&data, BYTES("GET"), BYTES("/v1/jobs/@2"), NULL, (struct bytes){0});
    add_reserve(&data, 0);
    wire_request(&data, BYTES("GET"), BYTES("/healthz"), NULL, (struct bytes){0});
    send_buf(peer, &data);
    pass(world, SECOND_US);
    assert_int_equal(next_status(peer, &len), 201);
    assert_int_equal(next_status(peer, &len), 201);
    assert_int_equal(next_status(peer, &len), 200);
    assert_true(len > LONG_BYTES);
    assert_int_equal(next_status(peer, &len), 200);
    assert_true(len < LONG_BYTES);
    assert_int_equal(next_status(peer, &len), 200); /* the reserve: of the long job */
    assert_true(len > LONG_BYTES);
    assert_int_equal(next_status(peer, &len), 200);
    world_free(world);
}

/* What a reply borrows is gone in the next turn: the worker needs a copy, or what holds it. */
static void a_long_answer_shows_why_the_job_was_buried(void **state)
{
    static const size_t lengths[] = {100 * 1000, LONG_BYTES}; /* copied; held */
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct world *world = begin(&(struct world_options){.seed = 5});
        struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
        struct buf data = {0};
        add_push(&data, lengths[i]);
        add_reserve(&data, 0);
        send_buf(peer, &data);
        pass(world, SECOND_US);
        const char *lease = memmem(sim_peer_received(peer).at, sim_peer_received(peer).len,
                                   "\"lease\":\"", strlen("\"lease\":\""));
        assert_non_null(lease);
        lease += strlen("\"lease\":\"");
        buf_add_str(&data, "{\"reason\":\"out of tea\",\"lease\":\"");
        buf_add(&data, lease, strcspn(lease, "\""));
        buf_add_str(&data, "\"}");
        struct buf bury = {0};
        wire_request(&bury, BYTES("POST"), BYTES("/v1/jobs/@1/bury"), "application/json",
                     buf_bytes(&data));
        buf_fini(&data);
        sim_peer_take(peer, sim_peer_received(peer).len);
        send_buf(peer, &bury);
        wire_request(&data, BYTES("GET"), BYTES("/v1/jobs/@1"), NULL, (struct bytes){0});
        send_buf(peer, &data);
        pass(world, SECOND_US);
        assert_true(sim_peer_received(peer).len > lengths[i]);
        assert_non_null(memmem(sim_peer_received(peer).at, sim_peer_received(peer).len,
                               "\"out of tea\"", strlen("\"out of tea\"")));
        world_free(world);
    }
}

static void p6_a_long_answer_that_nobody_waits_for_gives_its_job_back(void **state)
{
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 3});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf data = {0};
    add_push(&data, LONG_BYTES);
    add_reserve(&data, 0);
    send_buf(peer, &data);
    for (int turns = 0; turns < 4; turns++) /* the answer is with the worker, or on its way */
        (void)world_step(world, world_now_us(world));
    sim_peer_reset(peer);
    pass(world, SECOND_US);
    expect_figure(world, "stats\r\n", "current-jobs-reserved", "0");
    world_free(world);
}

static void post(struct sim_peer *peer, const char *path, const char *body)
{
    struct buf data = {0};
    wire_request(&data, BYTES("POST"), bytes_str(path), "application/json", bytes_str(body));
    send_buf(peer, &data);
}

/* Their bodies are short. */
static void the_worker_writes_what_jobs_have_besides_their_bodies(void **state)
{
    enum { JOBS = 50, LABEL_BYTES = 2000 };
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 11});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct sim_peer *other = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf jobs = {0};
    for (unsigned i = 0; i < JOBS; i++)
        buf_addf(&jobs, "%c{\"body\":\"x\",\"extend_data\":\"%0*u\"}", i ? ',' : '[', LABEL_BYTES,
                 i);
    buf_add(&jobs, "]", 2);
    post(other, "/v1/topics/t/jobs", jobs.at);
    post(other, "/v1/topics/t/pause", "{}");
    pass(world, SECOND_US);
    post(peer, "/v1/reserve", "{\"topics\":[\"t\"],\"wait\":\"30s\",\"max\":50}");
    pass(world, SECOND_US);
    post(other, "/v1/topics/t/resume", ""); /* so that it gets all of them at once */
    size_t working = 0, len;
    while (sim_peer_received(peer).len == 0) {
        size_t now = world_server(world)->buffers.work_bytes;
        working = now > working ? now : working;
        assert_true(world_step(world, world_now_us(world) + SECOND_US));
    }
    pass(world, SECOND_US);
    assert_int_equal(next_status(peer, &len), 200);
    assert_true(len > JOBS * LABEL_BYTES);
    assert_true(working > JOBS * LABEL_BYTES);
    buf_fini(&jobs);
    world_free(world);
}

static unsigned count_of(struct bytes in, const char *what)
{
    unsigned count = 0;
    size_t len = strlen(what);
    for (size_t at = 0; at + len <= in.len; at++)
        count += memcmp(in.at + at, what, len) == 0;
    return count;
}

/* The worker, in place of the world's own, begins nothing while it is held. */
static const struct worker_verbs *own_verbs;

static bool poll_nothing(struct worker *worker)
{
    (void)worker;
    return false;
}

static void hold_worker(struct world *world, bool hold)
{
    static struct worker_verbs held;
    struct worker *worker = world_server(world)->worker;
    if (!own_verbs)
        own_verbs = worker->verbs;
    held = *own_verbs;
    held.poll = poll_nothing;
    worker->verbs = hold ? &held : own_verbs;
}

/* Runs turns until the held worker has something to do: so many bytes. */
static size_t until_work_waits(struct world *world)
{
    const struct buffers *buffers = &world_server(world)->buffers;
    for (int turns = 0; turns < 10000 && buffers->work_bytes == 0; turns++)
        (void)world_step(world, world_now_us(world) + SECOND_US);
    return buffers->work_bytes;
}

static void the_worker_writes_a_long_list_of_topics(void **state)
{
    enum { TOPICS = 300 };
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 13});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct sim_peer *other = join(world);
    struct buf data = {0};
    for (unsigned i = 0; i < TOPICS; i++)
        buf_addf(&data, "use topic-%03u\r\nput 0 0 60 1\r\nx\r\n", i);
    send_buf(other, &data);
    pass(world, SECOND_US);
    wire_request(&data, BYTES("GET"), BYTES("/v1/topics?limit=250"), NULL, (struct bytes){0});
    send_buf(peer, &data);
    hold_worker(world, true);
    assert_true(until_work_waits(world) > 0);
    hold_worker(world, false);
    pass(world, SECOND_US);
    struct bytes text = sim_peer_received(peer);
    assert_int_equal(count_of(text, "\"name\":\"topic-"), 250);
    assert_int_equal(count_of(text, "\"lateness_ms\""), 250);
    assert_non_null(wire_find(text, BYTES("\"cursor\":\"topic-249\"")));
    assert_int_equal(world_server(world)->buffers.work_bytes, 0);
    world_free(world);
}

enum { TUBES = 2000, TUBE_BYTES = 200 };

/* A world whose turns are so short that a survey ends in its own stage, behind that of the worker;
 * a client in it watches tubes with the longest names that there are. */
static struct world *begin_with_many_tubes(uint64_t seed, struct sim_peer **out_peer)
{
    struct world *world = begin(&(struct world_options){.seed = seed, .turn_ns = 20000});
    struct sim_peer *peer = *out_peer = join(world);
    struct buf lines = {0};
    for (unsigned i = 0; i < TUBES; i++)
        buf_addf(&lines, "watch %0*u\r\n", TUBE_BYTES, i);
    send_buf(peer, &lines);
    pass(world, SECOND_US);
    assert_non_null(wire_find(sim_peer_received(peer), BYTES("WATCHING 2001\r\n")));
    return world;
}

/* Runs turns until the worker has something to write. */
static void until_the_worker_writes(struct world *world)
{
    const struct buffers *buffers = &world_server(world)->buffers;
    for (int turns = 0; turns < 10000 && buffers->work_bytes == 0; turns++)
        (void)world_step(world, world_now_us(world) + SECOND_US);
    assert_true(buffers->work_bytes >= TUBES * TUBE_BYTES);
}

/* What `list-tubes` and `list-tubes-watched` answer there, and then `use`. */
static void expect_many_tubes(struct world *world, struct sim_peer *peer)
{
    struct buf want = {0};
    buf_addf(&want, "OK %d\r\n---\n- default\n", 4 + 10 + TUBES * (TUBE_BYTES + 3));
    for (unsigned i = 0; i < TUBES; i++)
        buf_addf(&want, "- %0*u\n", TUBE_BYTES, i);
    buf_add_str(&want, "\r\nUSING default\r\n");
    until_the_worker_writes(world);
    pass(world, SECOND_US);
    assert_non_null(wire_find(sim_peer_received(peer), buf_bytes(&want)));
    assert_int_equal(world_server(world)->buffers.work_bytes, 0);
    buf_fini(&want);
}

static void the_worker_writes_a_long_list_of_tubes(void **state)
{
    (void)state;
    struct sim_peer *watcher;
    struct world *world = begin_with_many_tubes(9, &watcher);
    struct sim_peer *peer = join(world);
    send_text(peer, "list-tubes\r\nuse default\r\n");
    expect_many_tubes(world, peer);
    world_free(world);
}

static void a_long_list_of_watched_tubes_takes_many_turns(void **state)
{
    (void)state;
    struct sim_peer *watcher;
    struct world *world = begin_with_many_tubes(11, &watcher);
    uint64_t before = world_server(world)->counts.turns;
    send_text(watcher, "list-tubes-watched\r\nuse default\r\n");
    expect_many_tubes(world, watcher);
    assert_true(world_server(world)->counts.turns - before > TUBES / 64);
    world_free(world);
}

static void who_leaves_while_the_worker_writes_a_list_of_tubes_is_forgotten(void **state)
{
    (void)state;
    struct sim_peer *watcher;
    struct world *world = begin_with_many_tubes(10, &watcher);
    struct sim_peer *peer = join(world);
    send_text(peer, "list-tubes\r\n");
    until_the_worker_writes(world);
    assert_true(world_server(world)->buffers.work_bytes >= 2 * TUBES * TUBE_BYTES); /* both texts */
    sim_peer_reset(peer);
    pass(world, SECOND_US);
    assert_int_equal(world_server(world)->buffers.work_bytes, 0);
    expect_figure(world, "stats\r\n", "current-connections", "2");
    world_free(world);
}

/* A world with a ready job whose body is so long, and in its file. */
static struct world *begin_with_long_body(uint64_t seed)
{
    struct world *world =
        begin(&(struct world_options){.seed = seed, .beanstalk_body_bytes = LONG_BYTES});
    struct sim_peer *peer = join(world);
    struct buf put = {0};
    buf_addf(&put, "put 0 0 60 %d\r\n%0*d\r\n", LONG_BYTES, LONG_BYTES, 7);
    send_buf(peer, &put);
    pass(world, SECOND_US);
    expect(peer, "INSERTED 1\r\n");
    sim_peer_free(peer);
    return world;
}

static void until_the_worker_writes_a_body(struct world *world)
{
    hold_worker(world, true);
    assert_true(until_work_waits(world) >= 2 * LONG_BYTES);
    assert_true(world_server(world)->buffers.bytes >= LONG_BYTES);
}

static void the_worker_writes_long_bodies_for_beanstalkd_clients(void **state)
{
    static const char *const asks[] = {"peek 1\r\nuse default\r\n", "reserve\r\nuse default\r\n"};
    (void)state;
    struct world *world = begin_with_long_body(14);
    struct sim_peer *peer = join(world);
    for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        struct buf want = {0};
        buf_addf(&want, "%s 1 %d\r\n%0*d\r\nUSING default\r\n", i ? "RESERVED" : "FOUND",
                 LONG_BYTES, LONG_BYTES, 7);
        send_text(peer, asks[i]);
        until_the_worker_writes_a_body(world);
        hold_worker(world, false);
        pass(world, SECOND_US);
        assert_true(bytes_eq(sim_peer_received(peer), buf_bytes(&want)));
        sim_peer_take(peer, want.len);
        assert_int_equal(world_server(world)->buffers.work_bytes, 0);
        buf_fini(&want);
    }
    send_line(world, peer, "release 1 0 0\r\n", "RELEASED\r\n");
    world_free(world);
}

/* Of those that have sent all, the first one gets its answer. */
static void p6_who_leaves_while_the_worker_writes_a_body_gives_the_job_back(void **state)
{
    (void)state;
    struct world *world = begin_with_long_body(15);
    for (int shuts = 1; shuts >= 0; shuts--) {
        struct sim_peer *peer = join(world);
        send_text(peer, "reserve\r\n");
        until_the_worker_writes_a_body(world);
        if (shuts)
            sim_peer_shut(peer);
        else
            sim_peer_reset(peer);
        (void)world_step(world, world_now_us(world)); /* it notices that, and the work goes on */
        (void)world_step(world, world_now_us(world));
        hold_worker(world, false);
        pass(world, SECOND_US);
        assert_int_equal(world_server(world)->buffers.work_bytes, 0);
        assert_true(!shuts || sim_peer_received(peer).len > LONG_BYTES);
        expect_figure(world, "stats\r\n", "current-jobs-ready", "1");
        expect_figure(world, "stats\r\n", "current-jobs-reserved", "0");
        sim_peer_free(peer);
    }
    world_free(world);
}

/* The memory that notes the reservations of an answer goes to the next request, without them. */
static void p6_who_leaves_gives_back_its_own_job_alone(void **state)
{
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 16});
    struct sim_peer *peers[2], *other = join(world);
    struct buf data = {0};
    size_t len;
    for (unsigned i = 0; i < 2; i++) {
        send_line(world, other, "put 0 0 60 1\r\nx\r\n", i ? "INSERTED 2\r\n" : "INSERTED 1\r\n");
        peers[i] = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
        wire_request(&data, BYTES("POST"), BYTES("/v1/reserve"), "application/json",
                     BYTES("{\"topics\":[\"default\"]}"));
        send_buf(peers[i], &data);
        if (i == 1)
            sim_peer_window(peers[i], 10); /* it takes a part of its answer */
        pass(world, SECOND_US);
        assert_true(i == 1 || next_status(peers[i], &len) == 200);
    }
    expect_figure(world, "stats\r\n", "current-jobs-reserved", "2");
    sim_peer_reset(peers[1]);
    pass(world, SECOND_US);
    expect_figure(world, "stats\r\n", "current-jobs-ready", "1");
    expect_figure(world, "stats\r\n", "current-jobs-reserved", "1");
    world_free(world);
}

/* Each two bytes of it may be a parameter. */
static void the_worker_reads_a_form_of_many_parameters(void **state)
{
    enum { FORM_BYTES = 100 * 1000 };
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 12});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAYQUEUE_JAVA);
    struct buf form = {0}, data = {0};
    size_t len;
    while (form.len < FORM_BYTES)
        buf_add_str(&form, "a&");
    buf_add_str(&form, "topic=t&delayTime=1&ttrTime=60&message=x&topic=u");
    wire_request(&data, BYTES("POST"), BYTES("/push"), "application/x-www-form-urlencoded",
                 buf_bytes(&form));
    send_buf(peer, &data);
    hold_worker(world, true);
    assert_true(until_work_waits(world) >= form.len);
    hold_worker(world, false);
    pass(world, SECOND_US);
    assert_int_equal(next_status(peer, &len), 200);
    expect_figure(world, "stats-tube t\r\n", "current-jobs-ready", "1"); /* the first counts */
    buf_fini(&form);
    world_free(world);
}

/* Once the body has come nobody waits for it, though the head came when it could not be said. */
static void no_100_continue_comes_behind_the_body(void **state)
{
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 4});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf data = {0};
    size_t len;
    world_hold_disk(world, true); /* the first answer waits for it */
    add_push(&data, 1);
    buf_add_str(&data, "POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\n"
                       "Content-Type: application/json\r\nContent-Length: 12\r\n"
                       "Expect: 100-continue\r\n\r\n");
    send_buf(peer, &data);
    settle(world);
    buf_add_str(&data, "{\"body\":\"x\"}");
    send_buf(peer, &data);
    settle(world);
    world_hold_disk(world, false);
    pass(world, SECOND_US);
    assert_int_equal(next_status(peer, &len), 201);
    assert_int_equal(next_status(peer, &len), 201);
    assert_int_equal(sim_peer_received(peer).len, 0);
    world_free(world);
}

/* ---- memory ---- */

/* Its topics wait in what was read from the request, which is more than the request was. */
static void a_long_reserve_that_waits_counts_all_that_was_read_from_it(void **state)
{
    enum { NAMES = 40 * 1000, BYTES_OF_NAME = 16 };
    (void)state;
    struct world *world =
        begin(&(struct world_options){.seed = 6, .buffer_bytes = 100 * 1000 * 1000});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf body = {0}, data = {0};
    buf_add_str(&body, "{\"wait\":\"30s\",\"topics\":[\"u\"");
    for (unsigned i = 0; i < NAMES; i++)
        buf_add_str(&body, ",\"\\u0074\"");
    buf_add_str(&body, "]}");
    wire_request(&data, BYTES("POST"), BYTES("/v1/reserve"), "application/json", buf_bytes(&body));
    send_buf(peer, &data);
    pass(world, SECOND_US);
    assert_true(world_server(world)->buffers.bytes >= body.len + NAMES * BYTES_OF_NAME);
    add_push(&data, 1);
    send_buf(sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE), &data);
    pass(world, SECOND_US);
    size_t len;
    assert_int_equal(next_status(peer, &len), 200);
    pass(world, SECOND_US);
    assert_true(world_server(world)->buffers.bytes < BYTES_OF_NAME * NAMES);
    buf_fini(&body);
    world_free(world);
}

enum { BATCH_JOBS = 1000, BATCH_ID_BYTES = 250 };

/* An array of as many objects with an id, and what follows it. */
static void add_batch(struct buf *out, const char *rest)
{
    for (unsigned i = 0; i < BATCH_JOBS; i++)
        buf_addf(out, "%c{\"id\":\"%0*u\"%s}", i ? ',' : '[', BATCH_ID_BYTES, i, rest);
    buf_add_char(out, ']');
}

/* So does a batch with all its commands, until the worker has written what it is answered with. Of
 * one that shows jobs no answer waits for the disk, so the worker has it between two turns. */
static void a_long_batch_counts_all_of_it_while_its_answer_is_written(void **state)
{
    enum { BYTES_OF_COMMANDS = 128 * 1024 };
    (void)state;
    struct world *world =
        begin(&(struct world_options){.seed = 7, .buffer_bytes = 100 * 1000 * 1000});
    struct sim_peer *pusher = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf body = {0}, data = {0};
    add_batch(&body, ",\"body\":\"x\"");
    wire_request(&data, BYTES("POST"), BYTES("/v1/topics/t/jobs"), "application/json",
                 buf_bytes(&body));
    send_buf(pusher, &data);
    pass(world, SECOND_US);
    size_t len;
    assert_int_equal(next_status(pusher, &len), 200);
    sim_peer_reset(pusher);
    settle(world);
    assert_int_equal(world_server(world)->buffers.bytes, 0);
    body.len = 0;
    buf_add_str(&body, "{\"jobs\":");
    add_batch(&body, "");
    buf_add_char(&body, '}');
    wire_request(&data, BYTES("POST"), BYTES("/v1/get"), "application/json", buf_bytes(&body));
    send_buf(peer, &data);
    uint64_t counted = 0; /* before the turn in which the answer came */
    while (sim_peer_received(peer).len == 0) {
        counted = world_server(world)->buffers.bytes;
        (void)world_step(world, world_now_us(world) + SECOND_US);
    }
    pass(world, SECOND_US);
    assert_int_equal(next_status(peer, &len), 200);
    assert_true(len > 256 * 1024); /* else the worker has nothing to do with it */
    assert_true(counted >= body.len + len + BYTES_OF_COMMANDS);
    buf_fini(&body);
    world_free(world);
}

/* And so does what a batch has read and submitted, slice by slice. */
static void a_batch_counts_what_it_has_submitted_so_far(void **state)
{
    enum { BYTES_OF_COMMAND = 512 };
    (void)state;
    struct world *world = begin(
        &(struct world_options){.seed = 8, .buffer_bytes = 100 * 1000 * 1000, .turn_ns = 20000});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf body = {0}, data = {0};
    struct core_totals totals = {0};
    add_batch(&body, ",\"body\":\"x\"");
    wire_request(&data, BYTES("POST"), BYTES("/v1/topics/t/jobs"), "application/json",
                 buf_bytes(&body));
    world_hold_disk(world, true);
    send_buf(peer, &data);
    for (int turns = 0; turns < 100000 && totals.pushed < BATCH_JOBS / 2; turns++) {
        (void)world_step(world, world_now_us(world) + SECOND_US);
        core_totals(world_core(world), &totals);
    }
    assert_in_range(totals.pushed, BATCH_JOBS / 2, BATCH_JOBS - 1);
    assert_true(world_server(world)->buffers.bytes >= body.len + totals.pushed * BYTES_OF_COMMAND);
    world_hold_disk(world, false);
    pass(world, SECOND_US);
    size_t len;
    assert_int_equal(next_status(peer, &len), 200);
    buf_fini(&body);
    world_free(world);
}

static void add_item(struct buf *out, char id, const char *field, size_t bytes)
{
    buf_addf(out, "%c{\"id\":\"%c\",\"%s\":\"", id == 'a' ? '[' : ',', id, field);
    for (size_t i = 0; i < bytes; i++)
        buf_add_char(out, id);
    buf_add_str(out, "\"}");
}

/* Its long items are decoded by the worker, in their order with the others; behind a job with a
   body above 1 MiB nothing is submitted until that is stored. */
static void a_batch_of_long_and_short_items_is_done_in_order(void **state)
{
    enum { ITEM_BYTES = 2 * 1024 * 1024 };
    (void)state;
    struct world *world = begin(&(struct world_options){
        .seed = 12, .body_bytes = 2 * ITEM_BYTES, .buffer_bytes = 100 * 1000 * 1000});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf body = {0}, data = {0};
    struct core_totals totals;
    size_t len;
    add_item(&body, 'a', "body", 1);
    add_item(&body, 'b', "boddy", ITEM_BYTES / 4);
    add_item(&body, 'c', "body", ITEM_BYTES);
    add_item(&body, 'd', "body", 1);
    add_item(&body, 'e', "body", ITEM_BYTES / 2);
    buf_add_char(&body, ']');
    wire_request(&data, BYTES("POST"), BYTES("/v1/topics/t/jobs"), "application/json",
                 buf_bytes(&body));
    world_hold_disk(world, true);
    send_buf(peer, &data);
    for (int turns = 0; turns < 1000; turns++)
        (void)world_step(world, world_now_us(world) + 1000);
    core_totals(world_core(world), &totals);
    assert_int_equal(totals.pushed, 2);
    world_hold_disk(world, false);
    pass(world, SECOND_US);
    struct bytes answer = sim_peer_received(peer);
    const char *first = wire_find(answer, BYTES("\"id\":\"a\"")),
               *second = wire_find(answer, BYTES("\"code\":\"unknown_field\"")),
               *third = wire_find(answer, BYTES("\"id\":\"c\""));
    assert_non_null(wire_find(answer, BYTES("{\"failed\":1,")));
    assert_true(first && first < second && second < third);
    assert_int_equal(next_status(peer, &len), 200);
    static const struct bytes ids[] = {{"c", 1}, {"d", 1}, {"e", 1}};
    for (unsigned i = 0; i < 3; i++) {
        struct buf path = {0};
        buf_addf(&path, "/v1/jobs/%s", ids[i].at);
        wire_request(&data, BYTES("GET"), buf_bytes(&path), NULL, (struct bytes){0});
        send_buf(peer, &data);
        pass(world, SECOND_US);
        assert_int_equal(next_status(peer, &len), 200);
        assert_in_range(len,
                        i == 0   ? ITEM_BYTES
                        : i == 1 ? 1
                                 : ITEM_BYTES / 2,
                        i == 0   ? ITEM_BYTES + 1000
                        : i == 1 ? 1000
                                 : ITEM_BYTES / 2 + 1000);
        buf_fini(&path);
    }
    assert_int_equal(world_server(world)->buffers.work_bytes, 0);
    buf_fini(&body);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p6_who_leaves_while_a_long_reserve_is_decoded_takes_no_job),
        cmocka_unit_test(answers_leave_in_order_though_the_worker_writes_some),
        cmocka_unit_test(a_long_answer_shows_why_the_job_was_buried),
        cmocka_unit_test(p6_a_long_answer_that_nobody_waits_for_gives_its_job_back),
        cmocka_unit_test(the_worker_writes_what_jobs_have_besides_their_bodies),
        cmocka_unit_test(the_worker_writes_a_long_list_of_topics),
        cmocka_unit_test(the_worker_writes_a_long_list_of_tubes),
        cmocka_unit_test(a_long_list_of_watched_tubes_takes_many_turns),
        cmocka_unit_test(who_leaves_while_the_worker_writes_a_list_of_tubes_is_forgotten),
        cmocka_unit_test(the_worker_writes_long_bodies_for_beanstalkd_clients),
        cmocka_unit_test(p6_who_leaves_while_the_worker_writes_a_body_gives_the_job_back),
        cmocka_unit_test(p6_who_leaves_gives_back_its_own_job_alone),
        cmocka_unit_test(the_worker_reads_a_form_of_many_parameters),
        cmocka_unit_test(no_100_continue_comes_behind_the_body),
        cmocka_unit_test(a_long_reserve_that_waits_counts_all_that_was_read_from_it),
        cmocka_unit_test(a_batch_counts_what_it_has_submitted_so_far),
        cmocka_unit_test(a_long_batch_counts_all_of_it_while_its_answer_is_written),
        cmocka_unit_test(a_batch_of_long_and_short_items_is_done_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
