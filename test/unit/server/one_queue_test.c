/*
 * One queue behind two protocols: a story told over HTTP (/v1) and the same one told over
 * beanstalkd's protocol end in the same state.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "beanstalk_peer.h"
#include "core/core.h"
#include "sim/world.h"
#include "wire.h"

enum { JOBS_MAX = 16, TEXT_MAX = 256 };

/* What is done, in both tongues. `%l` in a path is the lease that the last reserve gave. */
static const struct {
    const char *method, *path, *body; /* method NULL: so many milliseconds pass instead */
    const char *line;
    int64_t pass_ms;
} story[] = {
    {"POST", "/v1/topics/t/jobs", "{\"ttr\":\"60s\",\"priority\":5,\"body\":\"one\"}",
     "put 5 0 60 3\r\none\r\n", 0},
    {"POST", "/v1/topics/t/jobs",
     "{\"ttr\":\"9s\",\"priority\":4,\"delay\":\"2s\",\"body\":\"two\"}", "put 4 2 9 3\r\ntwo\r\n",
     0},
    {"POST", "/v1/topics/t/jobs", "{\"ttr\":\"60s\",\"priority\":3000,\"body\":\"3\"}",
     "put 3000 0 60 1\r\n3\r\n", 0},
    {"POST", "/v1/topics/t/jobs",
     "{\"ttr\":\"60s\",\"priority\":1,\"delay\":\"90s\",\"body\":\"four\"}",
     "put 1 90 60 4\r\nfour\r\n", 0},
    {"POST", "/v1/reserve", "{\"topics\":[\"t\"],\"wait\":\"0s\"}", "reserve-with-timeout 0\r\n",
     0},
    {"POST", "/v1/jobs/@1/release", "{\"lease\":\"%l\",\"delay\":\"3s\",\"priority\":7}",
     "release 1 7 3\r\n", 0},
    {NULL, NULL, NULL, NULL, 2500},
    {"POST", "/v1/reserve", "{\"topics\":[\"t\"],\"wait\":\"1s\"}", "reserve-with-timeout 1\r\n",
     0},
    {"POST", "/v1/jobs/@2/touch", "{\"lease\":\"%l\"}", "touch 2\r\n", 0},
    {"POST", "/v1/jobs/@2/bury", "{\"lease\":\"%l\",\"priority\":9}", "bury 2 9\r\n", 0},
    {"POST", "/v1/jobs/@2/kick", "", "kick-job 2\r\n", 0},
    {"POST", "/v1/reserve", "{\"topics\":[\"t\"]}", "reserve-with-timeout 0\r\n", 0},
    {NULL, NULL, NULL, NULL, 10000}, /* the ttr of job 2 runs out */
    {"POST", "/v1/reserve", "{\"topics\":[\"t\"]}", "reserve-with-timeout 0\r\n", 0},
    {"POST", "/v1/jobs/@1/finish", "{\"lease\":\"%l\"}", "delete 1\r\n", 0},
    {"DELETE", "/v1/jobs/@3", "", "delete 3\r\n", 0},
    {"POST", "/v1/jobs/@4/kick", "", "kick-job 4\r\n", 0},
    {"POST", "/v1/topics/t/pause", "{\"for\":\"100s\"}", "pause-tube t 100\r\n", 0},
    {"POST", "/v1/topics/t/jobs", "{\"ttr\":\"1s\",\"priority\":0,\"body\":\"5\"}",
     "put 0 0 0 1\r\n5\r\n", 0},
};

struct teller {
    struct world *world;
    struct sim_peer *peer;
    char lease[32];
};

static void expand(char *out, const char *text, const char *lease)
{
    const char *mark = strstr(text, "%l");
    int len = mark ? (int)(mark - text) : (int)strlen(text);
    (void)snprintf(out, TEXT_MAX, "%.*s%s%s", len, text, mark ? lease : "", mark ? mark + 2 : "");
}

static void hear_http(struct teller *teller)
{
    static const struct bytes lease = {"\"lease\":\"", 9};
    struct wire_answer answer = {0};
    struct bytes have = sim_peer_received(teller->peer);
    assert_int_equal(wire_cut(have, &answer), have.len);
    assert_in_range(answer.status, 200, 299);
    const char *at = wire_find(answer.body, lease);
    if (at)
        (void)snprintf(teller->lease, sizeof(teller->lease), "%.*s",
                       (int)strcspn(at + lease.len, "\""), at + lease.len);
    sim_peer_take(teller->peer, have.len);
}

static void hear_beanstalk(struct teller *teller)
{
    struct bytes have = sim_peer_received(teller->peer);
    assert_true(have.len > 2 && memcmp(have.at, "NOT_", 4) != 0);
    sim_peer_take(teller->peer, have.len);
}

static struct world *tell(bool http)
{
    struct teller teller = {.world = world_new(&(struct world_options){.seed = 1})};
    struct buf bytes = {0};
    assert_int_equal(world_boot(teller.world), OK);
    teller.peer =
        sim_loop_client(world_loop(teller.world), http ? WORLD_DELAY_QUEUE : WORLD_BEANSTALK);
    if (!http) {
        sim_peer_send(teller.peer, BYTES("use t\r\nwatch t\r\n"));
        world_run(teller.world, world_now_us(teller.world));
        hear_beanstalk(&teller);
    }
    for (size_t i = 0; i < sizeof(story) / sizeof(story[0]); i++) {
        world_run(teller.world, world_now_us(teller.world) + story[i].pass_ms * 1000);
        if (story[i].pass_ms)
            continue;
        bytes.len = 0;
        if (http) {
            char body[TEXT_MAX];
            expand(body, story[i].body, teller.lease);
            wire_request(&bytes, bytes_str(story[i].method), bytes_str(story[i].path),
                         "application/json", bytes_str(body));
        } else {
            buf_add_str(&bytes, story[i].line);
        }
        sim_peer_send(teller.peer, buf_bytes(&bytes));
        world_run(teller.world, world_now_us(teller.world));
        if (http)
            hear_http(&teller);
        else
            hear_beanstalk(&teller);
    }
    buf_fini(&bytes);
    return teller.world;
}

struct album {
    const struct core *core;
    struct job_view jobs[JOBS_MAX];
    size_t count;
};

static void take_picture(void *ctx, const struct job *job)
{
    struct album *album = ctx;
    assert_true(job->seq < JOBS_MAX);
    assert_true(core_show(album->core, &(struct job_ref){.seq = job->seq}, &album->jobs[job->seq]));
    album->count++;
}

static void expect_same_job(const struct job_view *a, const struct job_view *b)
{
    assert_int_equal(a->ref.seq, b->ref.seq);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->priority, b->priority);
    assert_int_equal(a->due_us, b->due_us);
    assert_int_equal(a->until_us, b->until_us);
    assert_int_equal(a->lease, b->lease);
    assert_int_equal(a->ttr_us, b->ttr_us);
    assert_int_equal(a->created_us, b->created_us);
    assert_int_equal(a->failures, b->failures);
    assert_int_equal(a->body_len + (a->body_kind == BODY_JSON ? 0 : 2),
                     b->body_len + (b->body_kind == BODY_JSON ? 0 : 2));
    assert_memory_equal(&a->counts, &b->counts, sizeof(a->counts));
}

static void a_story_ends_the_same_over_both_protocols(void **state)
{
    struct world *http = tell(true), *beanstalk = tell(false);
    struct album a = {.core = world_core(http)}, b = {.core = world_core(beanstalk)};
    struct core_totals ours, theirs;
    (void)state;
    core_each(world_core(http), take_picture, &a);
    core_each(world_core(beanstalk), take_picture, &b);
    assert_int_equal(a.count, 3);
    assert_int_equal(a.count, b.count);
    for (size_t i = 0; i < JOBS_MAX; i++)
        expect_same_job(&a.jobs[i], &b.jobs[i]);
    core_totals(world_core(http), &ours);
    core_totals(world_core(beanstalk), &theirs);
    theirs.topics = ours.topics; /* whoever watches "default" makes a topic of it, or does not */
    assert_memory_equal(&ours, &theirs, sizeof(ours));
    world_free(http);
    world_free(beanstalk);
}

/* ---- a job that a client of beanstalkd's holds, touched over HTTP ---- */

static void touch_over_http(struct world *world, const char *body)
{
    struct teller teller = {.world = world,
                            .peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE)};
    struct buf bytes = {0};
    wire_request(&bytes, BYTES("POST"), BYTES("/v1/jobs/@1/touch"), "application/json",
                 bytes_str(body));
    sim_peer_send(teller.peer, buf_bytes(&bytes));
    settle(world);
    hear_http(&teller);
    sim_peer_free(teller.peer);
    buf_fini(&bytes);
}

static void p4_a_holder_keeps_what_was_touched_over_http(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world), *bob = join(world);
    (void)state;
    send_line(world, ann, "put 0 0 3 1\r\na\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\na\r\n");
    touch_over_http(world, "{\"ttr\":\"60s\"}");
    pass(world, 10 * SECOND_US); /* its own ttr would be over */
    send_line(world, ann, "reserve-with-timeout 0\r\n", "TIMED_OUT\r\n");
    send_line(world, bob, "delete 1\r\n", "NOT_FOUND\r\n");
    touch_over_http(world, "{\"ttr\":\"1s\"}");
    send_line(world, ann, "reserve\r\n", "DEADLINE_SOON\r\n");
    touch_over_http(world, "{\"ttr\":\"60s\"}");
    pass(world, 10 * SECOND_US);
    send_line(world, ann, "release 1 0 0\r\nreserve\r\n", "RELEASED\r\nRESERVED 1 1\r\na\r\n");
    touch_over_http(world, "{\"ttr\":\"60s\"}");
    pass(world, 10 * SECOND_US);
    sim_peer_free(ann); /* it goes back at once (P6) */
    settle(world);
    send_line(world, bob, "reserve-with-timeout 0\r\ndelete 1\r\n",
              "RESERVED 1 1\r\na\r\nDELETED\r\n");
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_story_ends_the_same_over_both_protocols),
        cmocka_unit_test(p4_a_holder_keeps_what_was_touched_over_http),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
