/*
 * The embedded engine on a simulated disk: what its held replies cost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/embedded.h"
#include "sim/disk.h"

enum { SEGMENT_BYTES = 1024 * 1024, ROUNDS = 4000, UNDER_WAY = 16 };

struct bed {
    struct sim_disk *disk;
    struct embedded *embedded;
    struct engine *engine;
    int64_t now_us;
    struct ticket tickets[UNDER_WAY];
};

static unsigned answers; /* tickets know nothing of their bed */

static void count_answer(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
    answers++;
}

static void open_bed(struct bed *bed, enum durability durability)
{
    *bed = (struct bed){.disk = sim_disk_new(), .now_us = 1000000};
    struct store_trouble trouble;
    struct embedded_options options = {
        .limits = {.jobs = 1000000, .topics = 10, .waiters = 10},
        .store = {.disk = sim_disk_port(bed->disk),
                  .segment_bytes = SEGMENT_BYTES,
                  .buffered = durability != DURABILITY_SYNC,
                  .recent_bytes = SEGMENT_BYTES,
                  .body_max = 1000,
                  .now_us = bed->now_us,
                  .id_seed = 1},
        .durability = durability,
        .now_us = bed->now_us,
    };
    sim_disk_eager(bed->disk, true);
    assert_int_equal(embedded_open(&options, &bed->embedded, &trouble), OK);
    sim_disk_eager(bed->disk, false);
    bed->engine = embedded_engine(bed->embedded);
    answers = 0;
}

static void close_bed(struct bed *bed)
{
    sim_disk_eager(bed->disk, true);
    embedded_close(bed->embedded);
    sim_disk_free(bed->disk);
}

/* A push with durability sync, and at once the job's end, so that no jobs pile up. */
static void push_and_end(struct bed *bed, struct ticket *ticket)
{
    static struct ticket ending = {.answered = count_answer};
    struct cmd push = {
        .kind = CMD_PUSH,
        .push = {
            .id = BYTES("a job"), .topic = BYTES("t"), .ttr_us = 1, .durability = DURABILITY_SYNC}};
    struct cmd delete = {.kind = CMD_DELETE, .job.ref.id = BYTES("a job")};
    *ticket = (struct ticket){.answered = count_answer};
    bed->engine->verbs->submit(bed->engine, &push, ticket);
    bed->engine->verbs->submit(bed->engine, &delete, &ending);
}

/* Each turn one operation of the disk ends while a new push has come: some are always held. */
static void p8_a_steady_stream_of_synced_pushes_takes_no_more_and_more_memory(void **state)
{
    (void)state;
    struct bed bed;
    size_t early_bytes = 0;
    open_bed(&bed, DURABILITY_INTERVAL);
    for (unsigned i = 0; i < ROUNDS; i++) {
        bed.now_us += 1000;
        bed.engine->verbs->begin(bed.engine, bed.now_us);
        push_and_end(&bed, &bed.tickets[i % UNDER_WAY]);
        bed.engine->verbs->match(bed.engine);
        (void)bed.engine->verbs->end(bed.engine);
        (void)sim_disk_step(bed.disk, LANE_COMMIT);
        (void)sim_disk_step(bed.disk, LANE_BACKGROUND);
        assert_true(embedded_held(bed.embedded) < UNDER_WAY);
        if (i == ROUNDS / 4)
            early_bytes = mem_used();
    }
    assert_true(answers > ROUNDS);
    assert_true(mem_used() < early_bytes + 200000);
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_a_steady_stream_of_synced_pushes_takes_no_more_and_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
