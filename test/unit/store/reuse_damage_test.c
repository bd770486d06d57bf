/*
 * Damage in files that were used again: behind a damaged batch lie jobs of an earlier segment,
 * which have ended. Nobody may take them for those of the batch.
 */
#include "store/internal.h"
#include "store/record.h"
#include "store/recovery/salvage.h"
#include "store_model.h"
#include "store_reuse.h"
#include "store_work.h"

struct told {
    struct salvage_callbacks callbacks;
    const struct model *model;
    unsigned jobs, strays, revived; /* JOB records; of them doubtful ones; of jobs that had ended */
    unsigned lines;
};

static enum err told_event(struct salvage_callbacks *callbacks, const struct event *event,
                           enum salvage_trust trust)
{
    struct told *told = LIST_ENTRY(callbacks, struct told, callbacks);
    if (event->kind != EVENT_JOB)
        return OK;
    told->jobs++;
    if (trust == SALVAGE_INTACT)
        return OK;
    told->strays++;
    for (size_t i = 0; i < told->model->job_count; i++)
        told->revived += told->model->jobs[i].seq == event->job.seq && !told->model->jobs[i].live;
    return OK;
}

static void told_clock(struct salvage_callbacks *callbacks, int64_t clock_us)
{
    (void)callbacks;
    (void)clock_us;
}

static void told_line(struct salvage_callbacks *callbacks, const char *line)
{
    assert_true(line[0]);
    LIST_ENTRY(callbacks, struct told, callbacks)->lines++;
}

static struct told salvage(const struct model *model)
{
    struct told told = {
        .callbacks = {.replay = told_event, .clock = told_clock, .print_line = told_line},
        .model = model};
    struct salvage *salvage;
    struct store_error error;
    assert_int_equal(salvage_open(model->options.disk, true, &told.callbacks, &salvage, &error),
                     OK);
    assert_int_equal(salvage_replay(salvage), OK);
    salvage_close(salvage);
    return told;
}

/* The offset of the last batch in this segment's file; it has records. */
static uint64_t last_batch(const struct model *model, const char *name, uint32_t number)
{
    uint64_t len, last = 0;
    struct batch_head head = {0}, found;
    const char *bytes = sim_disk_file(model->disk, name, &len);
    for (uint64_t at = BLOCK; at < len; at += BLOCK) {
        if (batch_head_decode(bytes + at, len - at, &found) != FORMAT_GOOD ||
            found.segment != number)
            continue;
        head = found;
        last = at;
    }
    assert_true(last >= BLOCK && head.record_count > 0);
    return last;
}

/* More of the same, until most of the last segment's file has the bytes of the earlier one. */
static uint32_t go_on(struct model *model, uint64_t rounds)
{
    for (int round = 0; round < REUSE_ROUNDS; round++) {
        const struct segment *tail = segments_tail(model->store->segments);
        if (rounds == 0 && tail->key && tail->end <= MODEL_SEGMENT / 2)
            return tail->number;
        rounds -= rounds > 0;
        for (uint64_t i = 3 + model_random(model, 4); i > 0; i--)
            assert_int_equal(model_push(model), OK);
        reuse_end_old_jobs(model);
        model_settle(model);
    }
    fail_msg("%s", "no segment was used again");
    return 0;
}

/* Some jobs, and a stop in order; then bits of the last batch are flipped. */
static struct told damage(uint64_t seed, uint64_t from, uint64_t below)
{
    struct model model;
    char name[DISK_NAME_MAX];
    reuse_open_bed(&model, seed);
    uint64_t low = model.seq_next;
    model.seq_next += 100;
    uint32_t number = go_on(&model, seed * 7);
    segment_name(number, name);
    model.body_bytes = MODEL_BODY_MAX; /* the second job lies in the batch's second block, too */
    assert_int_equal(model_push(&model), OK);
    model.seq_next = low; /* as of a job that the cleaner has written again */
    assert_int_equal(model_push(&model), OK);
    model_close(&model);
    uint64_t at = last_batch(&model, name, number);
    for (uint64_t byte = from; byte < below; byte++)
        assert_true(sim_disk_flip(model.disk, name, (at + byte) * 8));
    struct told told = salvage(&model);
    assert_int_equal(model_open(&model), ERR_CORRUPT); /* nobody revives them here, too */
    model_fini(&model);
    return told;
}

/* P5: the batch does not say any more how long it is. Its own jobs are found. */
static void p5_salvage_revives_no_job_of_the_earlier_segment(void **state)
{
    (void)state;
    static const struct {
        uint64_t from, below; /* of the batch's bytes */
        unsigned jobs;        /* that are left */
    } places[] = {{12, 13, 2}, {50, 52, 2}, {0, 64, 1}, {64, 300, 1}, {0, BLOCK, 0}};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        for (uint64_t seed = 1; seed <= 12; seed++) {
            struct told told = damage(seed, places[i].from, places[i].below);
            assert_int_equal(told.revived, 0);
            assert_int_equal(told.strays, places[i].jobs);
        }
    }
}

static void commit(struct model *model)
{
    store_turn(model->store, ++model->now_us);
    model_disk_works(model);
    store_poll(model->store);
}

/* The record of a job with this number that has ended, of which the log has nothing any more. */
static uint64_t put_ended(struct model *model, uint64_t seq, char *room)
{
    struct event event = {.kind = EVENT_JOB, .id = BYTES("an id 12"), .topic = BYTES("topic")};
    event.job = (struct job_now){.seq = seq, .state = JOB_READY};
    event.body = BYTES("a body");
    uint64_t len = record_bytes(&event);
    record_encode(&event, (size_t)len, room);
    (void)model_add(model, seq); /* not a living one */
    return len;
}

/* P5: an old record lies right behind those of a damaged batch, whose header says where they end;
   the batch behind it is lost. */
static void p5_salvage_takes_no_record_behind_a_batchs_end_for_its_own(void **state)
{
    enum { MAGIC_AT = 8, CLOCK_AT = 60 };
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct model model;
        struct batch_head head = {0};
        char name[DISK_NAME_MAX];
        uint64_t len;
        reuse_open_bed(&model, seed);
        uint64_t ended = model.seq_next++;
        uint32_t number = go_on(&model, seed * 7);
        segment_name(number, name);
        model.body_bytes = 100;
        assert_int_equal(model_push(&model), OK);
        commit(&model);
        uint64_t first = last_batch(&model, name, number);
        assert_int_equal(model_push(&model), OK);
        model_close(&model);
        uint64_t last = last_batch(&model, name, number);
        assert_true(last > first);
        const char *at = sim_disk_file(model.disk, name, &len);
        char *bytes = mem_aligned(BLOCK, (size_t)len);
        memcpy(bytes, at, (size_t)len);
        assert_int_equal(batch_head_decode(bytes + first, len - first, &head), FORMAT_GOOD);
        uint64_t end = first + BATCH_HEAD + head.payload_bytes;
        assert_true(end + put_ended(&model, ended, bytes + end) <= last);
        bytes[first + CLOCK_AT] ^= 1;
        bytes[last + MAGIC_AT] ^= 1;
        sim_disk_put(model.disk, name, bytes, (size_t)len);
        struct told told = salvage(&model);
        assert_int_equal(told.revived, 0);
        assert_true(told.strays > 0);
        mem_free(bytes);
        model_fini(&model);
    }
}

/* Without its header salvage does not know whether a segment has a key; clients do not know that.
 */
static void p1_salvage_takes_no_body_for_a_batch_where_a_header_is_lost(void **state)
{
    (void)state;
    struct model model;
    char name[DISK_NAME_MAX];
    uint64_t len;
    reuse_open_bed(&model, 2);
    uint32_t number = go_on(&model, 7);
    segment_name(number, name);
    uint64_t end = segments_tail(model.store->segments)->end;
    struct batch_head head = {
        .number = log_synced(model.store->log) + 1,
        .durable = log_synced(model.store->log),
        .seq_mark = 1,
        .segment = number,
        .store_tag = model.store->tag,
    };
    sim_disk_cut_at(model.disk, sim_disk_points(model.disk));
    model_close(&model);
    sim_disk_power(model.disk, 1);
    struct told whole = salvage(&model);
    assert_int_equal(whole.lines, 0); /* spares are no damaged segments */
    const char *at = sim_disk_file(model.disk, name, &len);
    char *bytes = mem_aligned(BLOCK, (size_t)len);
    memcpy(bytes, at, (size_t)len);
    batch_sign(bytes + end, batch_head_encode(&head, bytes + end), 0);
    bytes[100] ^= 1;
    sim_disk_put(model.disk, name, bytes, (size_t)len);
    struct told told = salvage(&model);
    assert_true(told.jobs > 0 && told.jobs == whole.jobs && told.strays == 0);
    mem_free(bytes);
    model_fini(&model);
}

/* The last batch of a file that was used again is lost, and the file was cut in the block behind
 * it. */
static void salvage_reads_a_reused_segment_that_was_cut_within_a_block(void **state)
{
    (void)state;
    enum { MAGIC_AT = 8 };
    for (uint64_t cut = 1; cut < BLOCK; cut += 511) {
        struct model model;
        char name[DISK_NAME_MAX];
        uint64_t len;
        reuse_open_bed(&model, 3);
        uint32_t number = go_on(&model, 7);
        segment_name(number, name);
        assert_int_equal(model_push(&model), OK);
        model_close(&model);
        uint64_t last = last_batch(&model, name, number), left = last + BLOCK + cut;
        const char *at = sim_disk_file(model.disk, name, &len);
        char *bytes = mem_aligned(BLOCK, (size_t)len);
        memcpy(bytes, at, (size_t)len);
        bytes[last + MAGIC_AT] ^= 1;
        assert_true(left < len);
        sim_disk_put(model.disk, name, bytes, (size_t)left);
        assert_true(salvage(&model).lines > 1); /* the file, and the batch */
        mem_free(bytes);
        model_fini(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p5_salvage_revives_no_job_of_the_earlier_segment),
        cmocka_unit_test(p5_salvage_takes_no_record_behind_a_batchs_end_for_its_own),
        cmocka_unit_test(p1_salvage_takes_no_body_for_a_batch_where_a_header_is_lost),
        cmocka_unit_test(salvage_reads_a_reused_segment_that_was_cut_within_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
