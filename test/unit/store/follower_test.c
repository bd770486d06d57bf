/*
 * Followers against a list of all that was ever appended: each is told exactly the events of the
 * durable batches behind its cursor, once and in order, through checkpoints, crashes and restarts;
 * and none may fill the disk by staying away.
 */
#include "store_model.h"
#include "store_work.h"

#include "base/hash.h"
#include "store/internal.h"
#include "store/record.h"
#include "test/unit/support/grow.h"

enum { FOLLOWERS = 3, LARGE_BYTES = 4096 };

/* What an event says, as far as it is compared. */
struct told {
    uint64_t batch;
    enum event_kind kind;
    uint64_t seq;
    uint64_t value; /* of the body, or the priority */
};

struct reader {
    struct follower_callbacks callbacks;
    struct bed *bed;
    struct follower *follower;
    size_t next;    /* the first of bed::all that it was not told */
    uint64_t batch; /* that it was told of last */
    uint64_t acked; /* the highest that it ever acknowledged, or began behind */
    bool begun;
    uint64_t told_count; /* events */
    unsigned large_count;
    bool away;
};

struct bed {
    struct model model; /* first */
    struct told *all;
    size_t count;
    struct reader readers[FOLLOWERS];
    uint64_t drops;
    bool may_drop;
};

static struct told told_of(uint64_t batch, const struct event *event)
{
    struct told told = {.batch = batch, .kind = event->kind, .seq = event->job.seq};
    if (event->kind == EVENT_MOVE)
        told.value = event->job.priority;
    if (event->kind == EVENT_JOB)
        told.value = hash_of(event->body.at, event->body.len);
    return told;
}

static void bed_appended(struct model *model, const struct event *event)
{
    struct bed *bed = (struct bed *)model;
    bed->all = grow_by_one(bed->all, bed->count, sizeof(*bed->all));
    bed->all[bed->count++] = told_of(store_batch(model->store), event);
}

/* The first event of a batch above `batch`. */
static size_t index_behind(const struct bed *bed, uint64_t batch)
{
    size_t i = bed->count;
    while (i > 0 && bed->all[i - 1].batch > batch)
        i--;
    return i;
}

static void reader_batch(struct follower_callbacks *callbacks, uint64_t batch, uint64_t epoch,
                         int64_t clock_us)
{
    struct reader *reader = LIST_ENTRY(callbacks, struct reader, callbacks);
    const struct bed *bed = reader->bed;
    assert_true(batch == reader->batch + 1 && batch <= store_synced(bed->model.store));
    assert_true(reader->next == bed->count || bed->all[reader->next].batch >= batch);
    assert_true(clock_us > 0);
    assert_int_equal(epoch, bed->model.options.epoch);
    reader->batch = batch;
}

static void reader_event(struct follower_callbacks *callbacks, uint64_t batch,
                         const struct event *event)
{
    struct reader *reader = LIST_ENTRY(callbacks, struct reader, callbacks);
    struct told told = told_of(batch, event);
    assert_true(reader->next < reader->bed->count);
    const struct told *want = &reader->bed->all[reader->next++];
    assert_int_equal(batch, reader->batch);
    assert_true(told.batch == want->batch && told.kind == want->kind && told.seq == want->seq &&
                told.value == want->value);
    reader->told_count++;
}

/* Batches above LARGE_BYTES come by this to the last reader. */
static void reader_large(struct follower_callbacks *callbacks, const struct batch_head *head,
                         char *batch)
{
    struct batch_walk walk;
    batch_walk_init(&walk, batch, head->payload_bytes);
    enum err err = batch_walk_next(&walk);
    assert_true(batch_bytes(head->payload_bytes) > callbacks->large_bytes);
    reader_batch(callbacks, head->number, walk.epoch, head->clock_us);
    for (; err == OK; err = batch_walk_next(&walk)) {
        if (!walk.record.copy)
            reader_event(callbacks, head->number, &walk.record.event);
    }
    LIST_ENTRY(callbacks, struct reader, callbacks)->large_count++;
    mem_free(batch);
}

static void reader_begin(struct reader *reader)
{
    reader->batch = follower_cursor(reader->follower);
    reader->next = index_behind(reader->bed, reader->batch);
}

static void restart(struct reader *reader)
{
    follower_restart(reader->follower);
    reader_begin(reader);
    reader->acked = reader->batch;
}

static void acknowledge(struct reader *reader)
{
    follower_ack(reader->follower, reader->batch);
    reader->acked = reader->batch;
}

static void open_readers(struct bed *bed)
{
    for (int i = 0; i < FOLLOWERS; i++) {
        char name[] = {(char)('a' + i), '\0'};
        struct reader *reader = &bed->readers[i];
        enum err err = follower_open(bed->model.store, bytes_of(name, 1), &reader->follower);
        reader->bed = bed;
        reader->callbacks =
            (struct follower_callbacks){.batch = reader_batch,
                                        .event = reader_event,
                                        .large = i == FOLLOWERS - 1 ? reader_large : NULL,
                                        .large_bytes = LARGE_BYTES};
        if (err) {
            assert_true(bed->model.failed || sim_disk_cut(bed->model.disk));
            reader->follower = NULL;
            continue;
        }
        assert_true(follower_cursor(reader->follower) <= store_batch(bed->model.store));
        if (!reader->begun)
            reader->acked = follower_cursor(reader->follower);
        reader->begun = true;
        assert_true(follower_cursor(reader->follower) <= reader->acked); /* not what it read */
        reader_begin(reader);
    }
}

static void bed_init(struct bed *bed, uint64_t seed)
{
    *bed = (struct bed){0};
    model_init(&bed->model, seed);
    bed->model.appended = bed_appended;
}

static void bed_fini(struct bed *bed)
{
    model_fini(&bed->model);
    mem_free(bed->all);
}

static void bed_open(struct bed *bed)
{
    struct model *model = &bed->model;
    assert_int_equal(model_open(model), OK);
    bed->count = index_behind(bed, store_durable(model->store)); /* the others were lost */
    open_readers(bed);
    store_valid(model->store);
}

static void read_some(struct bed *bed, struct reader *reader)
{
    bool more = true;
    if (!reader->follower || follower_state(reader->follower) == FOLLOWER_DROPPED)
        return;
    size_t budget = model_random(&bed->model, 3) * 20000;
    enum err err = follower_read(reader->follower, &reader->callbacks, budget, &more);
    assert_true(err == OK || err == ERR_AGAIN || sim_disk_cut(bed->model.disk));
    if (err || more)
        return;
    assert_true(reader->next == bed->count ||
                bed->all[reader->next].batch > store_synced(bed->model.store));
    assert_true(reader->batch >= store_synced(bed->model.store)); /* above it: just started over */
}

static void follow_some(struct bed *bed)
{
    struct model *model = &bed->model;
    struct reader *reader = &bed->readers[model_random(model, FOLLOWERS)];
    if (!reader->follower)
        return;
    if (follower_state(reader->follower) == FOLLOWER_DROPPED) {
        assert_true(bed->may_drop);
        bed->drops++;
        assert_int_equal(follower_read(reader->follower, &reader->callbacks, 0, &(bool){false}),
                         ERR_WRONG_STATE);
        restart(reader);
        reader->away = false;
        return;
    }
    uint64_t dice = model_random(model, 12);
    if (dice == 0)
        reader->away = !reader->away;
    else if (!reader->away && dice < 4 && reader->batch <= store_synced(model->store))
        acknowledge(reader);
    else if (!reader->away)
        read_some(bed, reader);
}

static void live(struct bed *bed, int turns)
{
    for (int turn = 0; turn < turns && !bed->model.failed; turn++) {
        model_work(&bed->model, 1);
        follow_some(bed);
        if (valid_now())
            store_valid(bed->model.store);
    }
}

/* No more faults: each comes back, reads all, and acknowledges it. */
static void heal(struct bed *bed)
{
    struct model *model = &bed->model;
    for (int i = 0; i < FOLLOWERS; i++) {
        struct reader *reader = &bed->readers[i];
        if (follower_state(reader->follower) == FOLLOWER_DROPPED) {
            restart(reader);
        }
        for (int turn = 0; turn < 3000 && reader->batch < store_synced(model->store); turn++) {
            read_some(bed, reader);
            model_disk_works(model);
            store_poll(model->store);
        }
        assert_true(reader->batch >= store_synced(model->store));
        if (reader->batch == store_synced(model->store))
            acknowledge(reader);
    }
}

struct life {
    uint64_t seed, cut_at, follower_bytes;
    bool buffered;
    bool late; /* the log takes over the memory of bodies: see model_use_late() */
};

/* Returns how many bodies were in memory that the log took over. */
static unsigned play(const struct life *life)
{
    struct bed bed;
    struct model *model = &bed.model;
    uint64_t seed = life->seed, cut_at = life->cut_at, follower_bytes = life->follower_bytes;
    bool buffered = life->buffered;
    bed_init(&bed, seed);
    if (life->late)
        model_use_late(model);
    model->options.buffered = buffered;
    model->options.interval_us = buffered ? 200000 : 0;
    model->options.follower_bytes = follower_bytes;
    model->options.recent_bytes = seed % 3 ? 1 : 64 * 1024;
    model->options.epoch = seed % 2;
    bed.may_drop = follower_bytes > 0;
    bed_open(&bed);
    live(&bed, 40);
    sim_disk_cut_at(model->disk, sim_disk_points(model->disk) + cut_at);
    live(&bed, 120);
    model_close(model);
    if (sim_disk_cut(model->disk)) {
        model->store = NULL;
        sim_disk_power(model->disk, seed * 31 + cut_at);
    }
    sim_disk_cut_at(model->disk, UINT64_MAX);
    if (buffered)
        model->acknowledged = 0;
    bed_open(&bed);
    model_check(model);
    live(&bed, 40);
    model_settle(model);
    heal(&bed);
    model_close(model);
    bed_open(&bed);
    heal(&bed);
    bed_fini(&bed);
    return model->late;
}

static void p9_a_follower_sees_each_durable_event_once_whenever_the_power_goes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++)
        for (uint64_t cut_at = 0; cut_at < 300; cut_at += 2)
            (void)play(&(struct life){.seed = seed, .cut_at = cut_at});
}

static void p9_and_so_it_does_in_buffered_mode(void **state)
{
    (void)state;
    for (uint64_t cut_at = 0; cut_at < 300; cut_at += 5)
        (void)play(&(struct life){.seed = cut_at, .cut_at = cut_at, .buffered = true});
}

static void p9_and_so_it_does_between_being_dropped(void **state)
{
    (void)state;
    for (uint64_t cut_at = 0; cut_at < 300; cut_at += 3)
        (void)play(
            &(struct life){.seed = cut_at, .cut_at = cut_at, .follower_bytes = 6 * MODEL_SEGMENT});
}

/* The disk's thread copies such a body when it writes its batch, of which the follower may read
 * what is in memory. */
static void p9_and_so_it_does_of_bodies_whose_memory_the_log_takes_over(void **state)
{
    (void)state;
    unsigned late = 0, lives = 0;
    for (uint64_t cut_at = 0; cut_at < 300; cut_at += 5, lives++)
        late += play(
            &(struct life){.seed = cut_at, .cut_at = cut_at, .buffered = cut_at % 2, .late = true});
    assert_true(late > lives);
}

static void a_follower_keeps_segments_until_it_has_acknowledged_them(void **state)
{
    (void)state;
    struct bed bed;
    struct store_stats stats;
    bed_init(&bed, 3);
    bed_open(&bed);
    model_work(&bed.model, 400);
    store_stats(bed.model.store, &stats);
    assert_int_equal(stats.segment_first, 1);
    assert_int_equal(stats.followers, FOLLOWERS);
    assert_true(stats.follower_lag_batches > 100);
    assert_true(stats.follower_lag_bytes > 10 * MODEL_SEGMENT);
    heal(&bed);
    store_stats(bed.model.store, &stats);
    assert_int_equal(stats.follower_lag_batches, 0);
    assert_int_equal(stats.follower_lag_bytes, 0);
    model_settle(&bed.model);
    store_stats(bed.model.store, &stats);
    assert_true(stats.segment_first > 5 && stats.segments < 16);
    assert_true(bed.readers[0].told_count > 300);
    bed_fini(&bed);
}

/* Its place is looked for once, and found again at the end of the log. */
static void one_that_reads_a_long_log_looks_for_no_segment_again(void **state)
{
    (void)state;
    struct bed bed;
    struct store_stats stats;
    bed_init(&bed, 3);
    bed_open(&bed);
    model_work(&bed.model, 2000);
    store_stats(bed.model.store, &stats);
    assert_true(stats.segments > 100 && stats.segment_first == 1);
    const struct followers *followers = bed.model.store->followers;
    uint64_t before = followers_looks(followers);
    heal(&bed);
    uint64_t looks = followers_looks(followers) - before;
    print_message("%llu segments looked at for %d who read %llu\n", (unsigned long long)looks,
                  FOLLOWERS, (unsigned long long)stats.segments);
    assert_true(looks <= 2 * FOLLOWERS * stats.segments);
    bed_fini(&bed);
}

static void one_that_stays_away_is_dropped_and_told_so(void **state)
{
    (void)state;
    struct bed bed;
    struct store_stats stats;
    bed_init(&bed, 3);
    bed.model.options.follower_bytes = 8 * MODEL_SEGMENT;
    bed_open(&bed);
    model_work(&bed.model, 600);
    model_settle(&bed.model);
    store_stats(bed.model.store, &stats);
    assert_true(stats.segments <= 12);
    assert_int_equal(stats.followers_dropped, FOLLOWERS);
    assert_int_equal(bed.model.notices[STORE_FOLLOWER_DROPPED], FOLLOWERS);
    assert_non_null(strstr(bed.model.noticed.text, "follower c has read up to batch"));
    model_close(&bed.model);
    bed_open(&bed);
    assert_int_equal(follower_state(bed.readers[0].follower), FOLLOWER_DROPPED);
    heal(&bed);
    assert_int_equal(follower_state(bed.readers[0].follower), FOLLOWER_READS);
    bed_fini(&bed);
}

/* Where it goes on is known elsewhere: the manifest that said so may not have been written. */
static void one_that_was_dropped_resumes_behind_what_the_log_has(void **state)
{
    (void)state;
    struct bed bed;
    struct reader *reader = &bed.readers[0];
    bed_init(&bed, 3);
    bed.model.options.follower_bytes = 8 * MODEL_SEGMENT;
    bed_open(&bed);
    model_work(&bed.model, 600);
    model_settle(&bed.model);
    uint64_t synced = store_synced(bed.model.store), cursor = follower_cursor(reader->follower);
    assert_int_equal(follower_state(reader->follower), FOLLOWER_DROPPED);
    assert_false(follower_resume(reader->follower, cursor));
    assert_false(follower_resume(reader->follower, synced + 1));
    assert_int_equal(follower_state(reader->follower), FOLLOWER_DROPPED);
    assert_true(follower_resume(reader->follower, synced));
    assert_int_equal(follower_state(reader->follower), FOLLOWER_READS);
    reader_begin(reader);
    reader->acked = reader->batch;
    uint64_t told = reader->told_count;
    model_work(&bed.model, 50);
    model_settle(&bed.model);
    heal(&bed);
    assert_true(reader->told_count > told && reader->batch > synced);
    assert_int_equal(follower_state(reader->follower), FOLLOWER_READS);
    bed_fini(&bed);
}

/* What a follower keeps is refused to clients: so on a full disk it loses first. */
static void p7_on_a_full_disk_followers_lose_before_clients_do(void **state)
{
    (void)state;
    struct bed bed;
    struct model *model = &bed.model;
    struct store_stats stats;
    bed_init(&bed, 3);
    model->options.max_bytes = 24 * MODEL_SEGMENT;
    bed_open(&bed);
    for (int i = 0; i < 3000; i++) {
        if (model_push(model) == OK)
            model_end(model, &model->jobs[model->job_count - 1]);
        model_turn(model);
    }
    model_settle(model);
    store_stats(model->store, &stats);
    assert_int_equal(stats.followers_dropped, FOLLOWERS);
    assert_false(store_full(model->store));
    assert_int_equal(store_admit(model->store, 1000), OK);
    bed_fini(&bed);
}

/* Nothing is in the page cache: the disk's thread reads, a window at a time, and no turn waits. */
static void a_cold_read_is_left_to_the_disks_threads(void **state)
{
    (void)state;
    struct bed bed;
    struct model *model = &bed.model;
    unsigned waits = 0;
    bed_init(&bed, 3);
    bed_open(&bed);
    model_work(model, 200);
    model_settle(model);
    sim_disk_cold(model->disk, true);
    struct reader *reader = &bed.readers[0];
    for (int turn = 0; turn < 10000 && reader->batch < store_synced(model->store); turn++) {
        bool more;
        enum err err = follower_read(reader->follower, &reader->callbacks, 1, &more);
        assert_true(err == OK || err == ERR_AGAIN);
        if (valid_now())
            store_valid(model->store);
        if (err == OK)
            continue;
        waits++;
        assert_int_equal(follower_read(reader->follower, &reader->callbacks, 1, &more), ERR_AGAIN);
        if (waits == 3) { /* it goes while the disk reads for it */
            follower_remove(reader->follower);
            assert_int_equal(follower_open(model->store, BYTES("new"), &reader->follower), OK);
            reader->follower = bed.readers[1].follower;
            reader_begin(reader);
        }
        model_disk_works(model);
        store_poll(model->store);
    }
    assert_int_equal(reader->batch, store_synced(model->store));
    assert_true(waits > 10);
    model_close(model);
    bed_fini(&bed);
}

/* Though they are in memory: copying them, and their checksums, would take too long for a turn. */
static void large_batches_are_read_and_checked_by_the_disks_threads(void **state)
{
    (void)state;
    struct bed bed;
    struct model *model = &bed.model;
    struct reader *reader = &bed.readers[FOLLOWERS - 1];
    unsigned waits = 0;
    bed_init(&bed, 4);
    model->options.recent_bytes = 16 * 1024 * 1024;
    bed_open(&bed);
    model_work(model, 200);
    model_settle(model);
    for (int turn = 0; turn < 10000 && reader->batch < store_synced(model->store); turn++) {
        bool more;
        unsigned before = reader->large_count;
        enum err err = follower_read(reader->follower, &reader->callbacks, 1, &more);
        assert_true(err == OK || err == ERR_AGAIN);
        assert_in_range(reader->large_count, before, before + 1);
        waits += err == ERR_AGAIN;
        assert_true(reader->large_count <= waits);
        model_disk_works(model);
        store_poll(model->store);
        if (valid_now())
            store_valid(model->store);
    }
    assert_int_equal(reader->batch, store_synced(model->store));
    assert_int_equal(reader->large_count, waits);
    assert_true(waits > 10);
    model_close(model);
    bed_fini(&bed);
}

static void names_are_limited_and_so_is_their_number(void **state)
{
    (void)state;
    struct model model;
    struct follower *follower, *again, *first = NULL;
    char name[FOLLOWER_NAME_MAX + 1];
    memset(name, 'n', sizeof(name));
    model_init(&model, 1);
    assert_int_equal(model_open(&model), OK);
    assert_int_equal(follower_open(model.store, BYTES(""), &follower), ERR_INVALID);
    assert_int_equal(follower_open(model.store, bytes_of("a\0b", 3), &follower), ERR_INVALID);
    assert_int_equal(follower_open(model.store, bytes_of(name, sizeof(name)), &follower),
                     ERR_INVALID);
    for (char i = 0; i < FOLLOWERS_MAX; i++) {
        name[0] = (char)('a' + i);
        assert_int_equal(follower_open(model.store, bytes_of(name, FOLLOWER_NAME_MAX), &follower),
                         OK);
        first = first ? first : follower;
    }
    assert_int_equal(follower_open(model.store, BYTES("more"), &again), ERR_JOBS_LIMIT);
    assert_int_equal(follower_open(model.store, bytes_of(name, FOLLOWER_NAME_MAX), &again), OK);
    assert_ptr_equal(again, follower);
    follower_remove(first);
    assert_int_equal(follower_open(model.store, BYTES("more"), &again), OK);
    store_valid(model.store);
    model_fini(&model);
}

static void a_store_with_followers_is_refused_by_older_versions(void **state)
{
    (void)state;
    struct bed bed;
    uint64_t len = 0;
    bed_init(&bed, 3);
    bed_open(&bed);
    const char *slots = sim_disk_file(bed.model.disk, MANIFEST_NAME, &len);
    assert_true(slots[8] == 2 || slots[BLOCK + 8] == 2);
    bed_fini(&bed);
}

static void one_that_could_not_be_opened_leaves_the_store_to_older_versions(void **state)
{
    (void)state;
    struct bed bed;
    struct model *model = &bed.model;
    struct follower *follower;
    struct directory directory;
    struct store_error error;
    bed_init(&bed, 3);
    assert_int_equal(model_open(model), OK);
    model_settle(model);
    sim_disk_starve(model->disk, true); /* no segment can be made … */
    for (unsigned i = 0; i < 200; i++)  /* … and more is appended than is there */
        (void)model_push(model);
    assert_int_equal(follower_open(model->store, BYTES("standby"), &follower), ERR_DISK_FULL);
    sim_disk_starve(model->disk, false);
    model_settle(model);
    model_close(model);
    assert_int_equal(directory_read(sim_disk_port(model->disk), &directory, &error), OK);
    assert_int_equal(directory.manifest.incompatible, 0);
    directory_fini(&directory);
    bed_fini(&bed);
}

/* What is pushed as soon as it is opened is its own, though the process is killed before the disk's
   background thread has had a turn: it was making segments, say. */
static void p9_one_that_was_opened_is_known_after_a_kill(void **state)
{
    (void)state;
    struct bed bed;
    struct model *model = &bed.model;
    struct follower *follower;
    bed_init(&bed, 3);
    assert_int_equal(model_open(model), OK);
    model_settle(model);
    assert_int_equal(follower_open(model->store, BYTES("journal"), &follower), OK);
    uint64_t begins = follower_cursor(follower);
    (void)model_push(model);
    for (int turn = 0; turn < 20 && model->acknowledged <= begins; turn++) {
        model->now_us += 30000;
        store_turn(model->store, model->now_us);
        (void)sim_disk_step(model->disk, LANE_COMMIT);
        store_poll(model->store);
    }
    assert_true(model->acknowledged > begins);
    sim_disk_cut_at(model->disk, sim_disk_points(model->disk));
    model_close(model);
    sim_disk_kill(model->disk);
    sim_disk_cut_at(model->disk, UINT64_MAX);
    assert_int_equal(model_open(model), OK);
    assert_int_equal(follower_open(model->store, BYTES("journal"), &follower), OK);
    assert_int_equal(follower_cursor(follower), begins);
    bed_fini(&bed);
}

/* The process is killed when all that it has begun is on the disk, and starts again. */
static void kill_settled(struct bed *bed)
{
    struct model *model = &bed->model;
    model_settle(model);
    sim_disk_cut_at(model->disk, sim_disk_points(model->disk));
    model_close(model);
    sim_disk_kill(model->disk);
    sim_disk_cut_at(model->disk, UINT64_MAX);
    assert_int_equal(model_open(model), OK);
}

static void p9_what_a_follower_was_told_to_do_is_known_after_a_kill(void **state)
{
    (void)state;
    struct bed bed;
    struct model *model = &bed.model;
    struct store_stats stats;
    struct follower *follower;
    bed_init(&bed, 5);
    model->options.follower_bytes = 8 * MODEL_SEGMENT;
    bed_open(&bed);
    model_work(model, 600);
    model_settle(model); /* all were dropped */
    uint64_t synced = store_synced(model->store);
    assert_true(follower_resume(bed.readers[0].follower, synced));
    kill_settled(&bed);
    assert_int_equal(follower_open(model->store, BYTES("a"), &follower), OK);
    assert_int_equal(follower_state(follower), FOLLOWER_READS);
    assert_int_equal(follower_cursor(follower), synced);
    assert_int_equal(follower_open(model->store, BYTES("b"), &follower), OK);
    assert_int_equal(follower_state(follower), FOLLOWER_DROPPED);
    follower_restart(follower);
    uint64_t begins = follower_cursor(follower);
    kill_settled(&bed);
    assert_int_equal(follower_open(model->store, BYTES("b"), &follower), OK);
    assert_int_equal(follower_state(follower), FOLLOWER_READS);
    assert_int_equal(follower_cursor(follower), begins);
    follower_remove(follower);
    kill_settled(&bed);
    store_stats(model->store, &stats);
    assert_int_equal(stats.followers, FOLLOWERS - 1);
    bed_fini(&bed);
}

static void one_that_was_dropped_resumes_at_the_oldest_batch_that_is_kept(void **state)
{
    (void)state;
    struct bed bed;
    struct reader *reader = &bed.readers[0];
    bed_init(&bed, 6);
    bed.model.options.follower_bytes = 8 * MODEL_SEGMENT;
    bed_open(&bed);
    model_work(&bed.model, 600);
    model_settle(&bed.model);
    uint64_t batch = follower_cursor(reader->follower), synced = store_synced(bed.model.store);
    while (!follower_resume(reader->follower, batch))
        batch++;
    assert_true(batch < synced);
    reader_begin(reader);
    reader->acked = reader->batch;
    heal(&bed); /* it is told of all behind it, in order */
    assert_int_equal(reader->batch, store_synced(bed.model.store));
    bed_fini(&bed);
}

/* Some batches may have been skipped. */
static void reader_some_batch(struct follower_callbacks *callbacks, uint64_t batch, uint64_t epoch,
                              int64_t clock_us)
{
    struct reader *reader = LIST_ENTRY(callbacks, struct reader, callbacks);
    assert_true(batch > reader->batch && batch <= store_synced(reader->bed->model.store));
    reader->next = index_behind(reader->bed, batch - 1);
    reader->batch = batch - 1;
    reader_batch(callbacks, batch, epoch, clock_us);
}

static void reader_some_large(struct follower_callbacks *callbacks, const struct batch_head *head,
                              char *batch)
{
    struct reader *reader = LIST_ENTRY(callbacks, struct reader, callbacks);
    reader->next = index_behind(reader->bed, head->number - 1);
    reader->batch = head->number - 1;
    reader_large(callbacks, head, batch);
}

static void of_a_damaged_log_nothing_is_told_that_was_not_written(void **state)
{
    (void)state;
    for (unsigned which = 0; which < FOLLOWERS; which += FOLLOWERS - 1) {
        struct bed bed;
        struct model *model = &bed.model;
        struct reader *reader = &bed.readers[which];
        unsigned flips = 0;
        bed_init(&bed, 7);
        bed_open(&bed);
        model_work(model, 200);
        model_settle(model);
        for (unsigned number = 1; number < 100; number++) {
            char name[32];
            uint64_t bytes = 0;
            (void)snprintf(name, sizeof(name), "wal-%08x", number);
            if (!sim_disk_file(model->disk, name, &bytes))
                continue;
            for (uint64_t at = BLOCK + 300; at < bytes; at += 5 * BLOCK)
                flips += sim_disk_flip(model->disk, name, 8 * at);
        }
        reader->callbacks.batch = reader_some_batch;
        reader->callbacks.large = reader->callbacks.large ? reader_some_large : NULL;
        bool more = true;
        for (int turn = 0; turn < 10000 && more; turn++) {
            enum err err = follower_read(reader->follower, &reader->callbacks, 1, &more);
            assert_true(err == OK || err == ERR_AGAIN);
            more |= err == ERR_AGAIN;
            model_disk_works(model);
            store_poll(model->store);
        }
        assert_true(!more && flips > 20);
        assert_true(reader->told_count > 0 && reader->told_count < bed.count);
        model_close(model);
        bed_fini(&bed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_limited_and_so_is_their_number),
        cmocka_unit_test(a_cold_read_is_left_to_the_disks_threads),
        cmocka_unit_test(large_batches_are_read_and_checked_by_the_disks_threads),
        cmocka_unit_test(a_store_with_followers_is_refused_by_older_versions),
        cmocka_unit_test(one_that_could_not_be_opened_leaves_the_store_to_older_versions),
        cmocka_unit_test(a_follower_keeps_segments_until_it_has_acknowledged_them),
        cmocka_unit_test(one_that_reads_a_long_log_looks_for_no_segment_again),
        cmocka_unit_test(one_that_stays_away_is_dropped_and_told_so),
        cmocka_unit_test(one_that_was_dropped_resumes_behind_what_the_log_has),
        cmocka_unit_test(one_that_was_dropped_resumes_at_the_oldest_batch_that_is_kept),
        cmocka_unit_test(of_a_damaged_log_nothing_is_told_that_was_not_written),
        cmocka_unit_test(p7_on_a_full_disk_followers_lose_before_clients_do),
        cmocka_unit_test(p9_one_that_was_opened_is_known_after_a_kill),
        cmocka_unit_test(p9_what_a_follower_was_told_to_do_is_known_after_a_kill),
        cmocka_unit_test(p9_a_follower_sees_each_durable_event_once_whenever_the_power_goes),
        cmocka_unit_test(p9_and_so_it_does_in_buffered_mode),
        cmocka_unit_test(p9_and_so_it_does_between_being_dropped),
        cmocka_unit_test(p9_and_so_it_does_of_bodies_whose_memory_the_log_takes_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
