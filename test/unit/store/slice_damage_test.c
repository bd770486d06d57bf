/*
 * Damaged slices: nothing of them is served, verify tells of it, and salvage brings all that is
 * intact.
 */
#include "slice_bed.h"
#include "store/record.h"
#include "store/recovery/salvage.h"
#include "store/verify.h"
#include "store_files.h"
#include "test/unit/support/every.h"

/* ---- damage ---- */

static void count_line(void *ctx, const char *line)
{
    (void)line;
    ++*(unsigned *)ctx;
}

/* The same files again, on a disk of their own. */
static void copy_model(struct model *to, const struct model *from, const struct file_list *list)
{
    far_model(to, 1);
    to->body_bytes = from->body_bytes;
    to->now_us = from->now_us;
    copy_files(to, from, list);
}

/* Each far job is read as it was pushed, or not at all. Returns how many were not. */
static unsigned read_all(struct model *model, const struct model *whole)
{
    unsigned lost = 0;
    for (size_t i = 0; i < model->job_count; i++) {
        struct model_job *job = &model->jobs[i];
        if (!job->live || !job->far)
            continue;
        if (!model_fetch_far(model, job)) {
            lost++;
            continue;
        }
        const struct model_job *want = model_find((struct model *)(uintptr_t)whole, job->seq);
        assert_true(want && want->version == job->version && want->id == job->id);
        model_read(model, job);
    }
    return lost;
}

struct tally {
    unsigned refused, lost, unseen, noticed;
};

static void flip_and_open(const struct model *whole, const struct file_list *list, const char *name,
                          uint64_t bit, struct tally *tally)
{
    struct model model;
    struct store_counts counts = {0};
    unsigned lines = 0;
    copy_model(&model, whole, list);
    assert_true(sim_disk_flip(model.disk, name, bit));
    struct store_watcher watcher = {.print_line = count_line, .ctx = &lines};
    assert_int_equal(store_verify(model.options.disk, &watcher, &counts), OK);
    assert_true(counts.bad > 0 && lines > 0); /* verify reads every byte */
    if (model_open(&model)) {
        assert_string_equal(model.error.file, name);
        assert_non_null(strstr(model.error.text, "later salvage"));
        tally->refused++;
    } else {
        unsigned lost = read_all(&model, whole);
        tally->lost += lost;
        tally->unseen += lost == 0;
        if (bit / 8 % 143 == 0) { /* their time comes: the damage is told of */
            model.now_us += INT64_C(2000) * MODEL_DELAY_US;
            for (int i = 0; i < 3; i++)
                model_settle(&model);
            tally->noticed += model.notices[STORE_DAMAGED];
            unsigned far = 0;
            for (size_t i = 0; i < model.job_count; i++)
                far += model.jobs[i].live && model.jobs[i].far;
            assert_true(far <= 1); /* its neighbours have come back */
        }
    }
    model_fini(&model);
}

static void p2_no_flipped_bit_of_a_slice_loses_silently_or_is_served(void **state)
{
    (void)state;
    struct model whole;
    struct file_list list = {0};
    struct tally tally = {0};
    begin_far(&whole, 200);
    model_close(&whole);
    list_files(&whole, &list);
    for (size_t i = 0; i < list.count; i++) {
        uint64_t len = 0;
        const char *at = sim_disk_file(whole.disk, list.names[i], &len);
        if (memcmp(list.names[i], "slice-", 6) != 0)
            continue;
        for (uint64_t byte = 0; byte < len; byte++)
            if (byte % (at[byte] ? 11 * sim_every() : 509 * sim_every()) == 0)
                flip_and_open(&whole, &list, list.names[i], byte * 8 + byte % 8, &tally);
    }
    print_message("refused %u, lost %u, unseen by reads %u, noticed %u\n", tally.refused,
                  tally.lost, tally.unseen, tally.noticed);
    assert_true(tally.refused > 50 / sim_every() && tally.lost > 1000 / sim_every() &&
                tally.noticed > 10 / sim_every());
    assert_true(tally.unseen < tally.lost / 10); /* padding, headers of blocks */
    model_fini(&whole);
}

/* Damages the first block of each slice, one slice at a time: that is reported, and all of its jobs
 * but the first one come. `bytes`: the file, which has `len`. */
static void lose_only_the_first_job(void (*damage)(char *bytes, uint64_t len))
{
    struct model whole;
    struct file_list list = {0};
    unsigned slices = 0;
    begin_far(&whole, 200);
    model_close(&whole);
    list_files(&whole, &list);
    for (size_t i = 0; i < list.count; i++) {
        struct model model;
        uint64_t len = 0;
        const char *at = sim_disk_file(whole.disk, list.names[i], &len);
        if (memcmp(list.names[i], "slice-", 6) != 0)
            continue;
        char *bytes = mem_aligned(BLOCK, len);
        memcpy(bytes, at, len);
        damage(bytes, len);
        copy_model(&model, &whole, &list);
        sim_disk_put(model.disk, list.names[i], bytes, len);
        mem_free(bytes);
        assert_int_equal(model_open(&model), OK);
        model.now_us += INT64_C(2000) * MODEL_DELAY_US;
        settle_for(&model, 3);
        assert_int_equal(model.notices[STORE_DAMAGED], 1);
        assert_int_equal(far_of(&model, JOB_DELAYED), 1);
        model_fini(&model);
        slices++;
    }
    assert_true(slices > 0);
    model_fini(&whole);
}

/* The first record claims to be of a kind that may be skipped, and to be as long as three. */
static void make_first_three_one(char *bytes, uint64_t len)
{
    char *record = bytes + BLOCK + BATCH_HEAD;
    size_t first = get_u32(record), second = get_u32(record + first);
    (void)len;
    put_u32(record, (uint32_t)(first + second + get_u32(record + first + second)));
    put_u8(record + 4, RECORD_SKIP);
}

static void damage_that_looks_like_a_record_hides_no_job(void **state)
{
    (void)state;
    lose_only_the_first_job(make_first_three_one);
}

/* The first record is of no kind, and the block's checksum has been made for that. */
static void make_first_invalid(char *bytes, uint64_t len)
{
    struct batch_head head;
    put_u8(bytes + BLOCK + BATCH_HEAD + 4, RECORD_SKIP - 1);
    assert_int_equal(batch_head_decode(bytes + BLOCK, len - BLOCK, &head), FORMAT_GOOD);
    batch_sign(bytes + BLOCK, batch_bytes(head.payload_bytes), 0);
}

static void an_invalid_record_in_a_whole_block_is_told_and_hides_no_other_job(void **state)
{
    (void)state;
    lose_only_the_first_job(make_first_invalid);
}

/* Jobs that left a segment for a slice, and ended, while the segment is still in the log. */
static void end_jobs_that_have_just_left(struct model *model)
{
    struct store_stats stats = {0};
    far_model(model, 4); /* commits wait for model_turn() */
    model->delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model->body_bytes = 500;
    assert_int_equal(model_open(model), OK);
    for (unsigned i = 0; i < 500 && stats.spilled_jobs == 0; i++) {
        assert_int_equal(model_push(model), OK);
        if (i % 8 == 0)
            model_turn(model);
        store_stats(model->store, &stats);
    }
    assert_true(stats.spilled_jobs > 10);
    for (size_t i = 0; i < model->job_count; i++)
        model_end(model, &model->jobs[i]);
    model_close(model);
}

static void verify_counts_no_job_as_live_that_is_not_there(void **state)
{
    (void)state;
    struct model whole;
    struct file_list list = {0};
    unsigned flips = 0, lines = 0;
    end_jobs_that_have_just_left(&whole);
    list_files(&whole, &list);
    for (size_t i = 0; i < list.count; i++) {
        struct model model;
        struct store_counts counts = {0};
        struct store_watcher watcher = {.print_line = count_line, .ctx = &lines};
        uint64_t len = 0;
        (void)sim_disk_file(whole.disk, list.names[i], &len);
        for (uint64_t block = 1; memcmp(list.names[i], "wal-", 4) == 0 && block < len / BLOCK;
             block++, flips++) {
            copy_model(&model, &whole, &list);
            assert_true(sim_disk_flip(model.disk, list.names[i], (block * BLOCK + BATCH_HEAD) * 8));
            assert_int_equal(store_verify(model.options.disk, &watcher, &counts), OK);
            assert_true(counts.live_jobs <= whole.job_count);
            model.store = NULL;
            model_fini(&model);
        }
    }
    assert_true(flips > 10);
    model_fini(&whole);
}

/* Where in a segment's file the end of the job lies; 0: it is none of this one. */
static uint64_t find_gone(const char *at, uint64_t len, const struct model_job *job)
{
    for (uint64_t i = 0; i + 24 <= len; i += 8)
        if (memcmp(at + i, &job->seq, 8) == 0 && memcmp(at + i + 8, &job->stored.where, 8) == 0)
            return i - 8;
    return 0;
}

/* The log has no record of a far job that its end could be compared with. */
static void p5_a_damaged_end_of_a_far_job_does_not_revive_it(void **state)
{
    (void)state;
    struct model whole;
    struct file_list list = {0};
    unsigned flips = 0;
    begin_far(&whole, 200);
    struct model_job *job = &whole.jobs[20];
    assert_true(job->live && job->far);
    model_end(&whole, job);
    model_settle(&whole);
    model_move(&whole, &whole.jobs[199]);
    model_settle(&whole);
    model_close(&whole);
    list_files(&whole, &list);
    for (size_t i = 0; i < list.count; i++) {
        uint64_t len = 0;
        const char *at = sim_disk_file(whole.disk, list.names[i], &len);
        uint64_t gone = memcmp(list.names[i], "wal-", 4) == 0 ? find_gone(at, len, job) : 0;
        for (uint64_t bit = 0; gone && bit < 64 * 8; bit += 3, flips++) {
            struct model model;
            copy_model(&model, &whole, &list);
            assert_true(sim_disk_flip(model.disk, list.names[i], gone * 8 + bit));
            if (model_open(&model) == OK) {
                const struct model_job *again = model_find(&model, job->seq);
                assert_false(again && again->live);
            }
            model_fini(&model);
        }
    }
    assert_true(flips > 100);
    model_fini(&whole);
}

/* ---- salvage ---- */

static bool log_damaged; /* by the test; or a slice so that jobs of it are doubtful */

struct salvaged {
    struct salvage_callbacks callbacks;
    struct model_job *jobs; /* by number - 1 */
    unsigned lines;
    bool doubts; /* the log is damaged, too */
    bool strays; /* there was a doubtful far job */
};

static enum err salvage_event(struct salvage_callbacks *callbacks, const struct event *event,
                              enum salvage_trust trust)
{
    struct salvaged *salvaged = LIST_ENTRY(callbacks, struct salvaged, callbacks);
    assert_true(trust == SALVAGE_INTACT || salvaged->doubts);
    /* Far jobs that are in their places come first: what a client wrote hides none of them. */
    assert_false(salvaged->strays && trust == SALVAGE_INTACT && event->record.bytes);
    salvaged->strays |= trust == SALVAGE_STRAY && event->record.bytes;
    if (event->kind == EVENT_TOPIC)
        return OK;
    struct model_job *job = &salvaged->jobs[event->job.seq - 1];
    if (trust == SALVAGE_STRAY && job->live)
        return ERR_CORRUPT;
    if (event->kind == EVENT_JOB)
        *job = (struct model_job){.live = true, .seq = event->job.seq, .stored = event->record};
    job->priority = event->job.priority;
    job->live = job->live && event->kind != EVENT_GONE;
    return OK;
}

static void salvage_clock(struct salvage_callbacks *callbacks, int64_t clock_us)
{
    (void)callbacks;
    (void)clock_us;
}

static void salvage_say(struct salvage_callbacks *callbacks, const char *line)
{
    assert_true(line[0]);
    LIST_ENTRY(callbacks, struct salvaged, callbacks)->lines++;
}

/* Returns how many jobs were found, each as it is in the model. */
static unsigned salvage_all(struct model *model, const struct model *whole,
                            struct salvage_counts *out_counts, unsigned *out_lines)
{
    struct salvaged salvaged = {
        .callbacks = {.replay = salvage_event, .clock = salvage_clock, .print_line = salvage_say},
        .jobs = mem_zalloc(whole->job_count * sizeof(struct model_job)),
        .doubts = log_damaged,
    };
    struct salvage *salvage;
    struct store_error error;
    unsigned found = 0;
    assert_int_equal(salvage_open(model->options.disk, true, &salvaged.callbacks, &salvage, &error),
                     OK);
    assert_int_equal(salvage_replay(salvage), OK);
    for (size_t i = 0; i < whole->job_count; i++) {
        const struct model_job *job = &salvaged.jobs[i], *want = &whole->jobs[i];
        struct arena arena = {0};
        struct salvage_body body;
        static char room[MODEL_ROOM];
        assert_true(want->seq == i + 1 && (want->live || !job->live));
        if (!job->live)
            continue;
        found++;
        assert_int_equal(job->priority, want->priority);
        assert_int_equal(salvage_read(salvage, job->seq, job->stored.where, &arena, &body), OK);
        assert_true(bytes_eq(body.event.body, model_body(whole, want->seq, want->version, room)));
        arena_fini(&arena);
    }
    salvage_counts(salvage, out_counts);
    salvage_close(salvage);
    *out_lines = salvaged.lines;
    mem_free(salvaged.jobs);
    return found;
}

static unsigned live_jobs(const struct model *model)
{
    unsigned live = 0;
    for (size_t i = 0; i < model->job_count; i++)
        live += model->jobs[i].live;
    return live;
}

static void salvage_brings_every_far_job_that_is_intact(void **state)
{
    (void)state;
    struct model whole, model;
    struct file_list list = {0};
    struct salvage_counts counts;
    unsigned lines, flips = 0;
    begin_far(&whole, 200);
    for (size_t i = 0; i < 200; i += 7)
        model_end(&whole, &whole.jobs[i]);
    for (size_t i = 1; i < 200; i += 7)
        model_move(&whole, &whole.jobs[i]);
    model_settle(&whole);
    model_close(&whole);
    list_files(&whole, &list);
    assert_int_equal(salvage_all(&whole, &whole, &counts, &lines), live_jobs(&whole));
    assert_true(lines == 0 && counts.bad_files == 0 && counts.lost_jobs == 0);
    for (size_t i = 0; i < list.count; i++) {
        uint64_t len = 0;
        const char *at = sim_disk_file(whole.disk, list.names[i], &len);
        if (memcmp(list.names[i], "slice-", 6) != 0)
            continue;
        for (uint64_t byte = 0; byte < len; byte++) {
            if (byte % (at[byte] ? 97 * sim_every() : 5003 * sim_every()))
                continue;
            copy_model(&model, &whole, &list);
            assert_true(sim_disk_flip(model.disk, list.names[i], byte * 8 + byte % 8));
            unsigned found = salvage_all(&model, &whole, &counts, &lines);
            assert_true(lines > 0 && counts.bad_files > 0);
            assert_true(found + 1 >= live_jobs(&whole));
            assert_int_equal(found + counts.lost_jobs, live_jobs(&whole));
            model_fini(&model);
            flips++;
        }
    }
    assert_true(flips > 50 / sim_every());
    model_fini(&whole);
}

/* The log says which of its jobs live. If that is damaged, the slice still has them. */
static void salvage_brings_far_jobs_whose_slice_the_log_does_not_name(void **state)
{
    (void)state;
    struct model whole;
    struct file_list list = {0};
    unsigned flips = 0;
    log_damaged = true;
    begin_far(&whole, 200);
    model_close(&whole);
    list_files(&whole, &list);
    for (size_t i = 0; i < list.count; i++) {
        uint64_t len = 0;
        (void)sim_disk_file(whole.disk, list.names[i], &len);
        for (uint64_t block = 1; memcmp(list.names[i], "wal-", 4) == 0 && block < len / BLOCK;
             block++) {
            struct model model;
            struct salvage_counts counts;
            unsigned lines;
            copy_model(&model, &whole, &list);
            assert_true(sim_disk_flip(model.disk, list.names[i], (block * BLOCK + BATCH_HEAD) * 8));
            unsigned found = salvage_all(&model, &whole, &counts, &lines);
            assert_true(found + 1 >= live_jobs(&whole)); /* but for the one that was hit */
            model_fini(&model);
            flips++;
        }
    }
    assert_true(flips > 10);
    log_damaged = false;
    model_fini(&whole);
}

/* Slices of several blocks, each named in a batch of its own. */
static void begin_long_slices(struct model *model)
{
    struct store_stats stats = {0};
    far_model(model, 5);
    model->options.segment_bytes = 8 * MODEL_SEGMENT;
    model->delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model->body_bytes = 3000;
    assert_int_equal(model_open(model), OK);
    for (unsigned i = 0; i < 2000 && stats.slice_jobs < 150; i++) {
        assert_int_equal(model_push(model), OK);
        model_turn(model);
        store_stats(model->store, &stats);
    }
    model_settle(model);
    assert_true(stats.slice_jobs >= 150);
}

static void damage_last_block(struct model *model, const char *name)
{
    uint64_t len = 0;
    const char *at = sim_disk_file(model->disk, name, &len);
    struct slice_head head;
    assert_int_equal(slice_head_decode(at, &head), FORMAT_GOOD);
    struct slice_fence *fences = mem_alloc(head.blocks * sizeof(*fences));
    assert_int_equal(slice_fences_decode(&head, at + head.data_end, fences), OK);
    uint64_t block = (uint64_t)fences[head.blocks - 1].offset * BLOCK;
    assert_true(sim_disk_flip(model->disk, name, (block + BATCH_HEAD + 13) * 8));
    mem_free(fences);
}

/* Zeros, as if the log had not come so far, and there is no manifest that knows better. */
static void forget_log(struct model *model, const char *name, uint64_t from)
{
    uint64_t len = 0;
    const char *at = sim_disk_file(model->disk, name, &len);
    char *bytes = mem_aligned(BLOCK, len);
    memcpy(bytes, at, from);
    memset(bytes + from, 0, len - from);
    sim_disk_put(model->disk, name, bytes, len);
    mem_free(bytes);
    (void)sim_disk_delete(model->disk, MANIFEST_NAME);
}

/* Where the log says nothing of a slice's end any more, a lost job there may have lived: it counts.
 */
static void a_damaged_block_of_a_slice_that_is_known_in_part_counts(void **state)
{
    (void)state;
    struct model whole, model;
    struct file_list list = {0};
    unsigned lines, partly = 0;
    log_damaged = true;
    begin_long_slices(&whole);
    model_close(&whole);
    list_files(&whole, &list);
    for (size_t i = 0; i < list.count; i++) {
        uint64_t len = 0;
        (void)sim_disk_file(whole.disk, list.names[i], &len);
        for (uint64_t from = BLOCK; memcmp(list.names[i], "wal-", 4) == 0 && from < len;
             from += sim_every() * BLOCK)
            for (size_t j = 0; j < list.count; j++) {
                struct salvage_counts before, counts;
                if (memcmp(list.names[j], "slice-", 6) != 0)
                    continue;
                copy_model(&model, &whole, &list);
                forget_log(&model, list.names[i], from);
                unsigned found = salvage_all(&model, &whole, &before, &lines);
                damage_last_block(&model, list.names[j]);
                unsigned left = salvage_all(&model, &whole, &counts, &lines);
                assert_true(left + 1 >= found && left <= found);
                if (left < found) {
                    assert_true(counts.lost_jobs + counts.opaque_regions >
                                before.lost_jobs + before.opaque_regions);
                    partly += counts.opaque_regions > before.opaque_regions;
                }
                model_fini(&model);
            }
    }
    print_message("%u in parts of slices that the log does not name\n", partly);
    assert_true(partly > 0);
    log_damaged = false;
    model_fini(&whole);
}

/* One bad stretch hits the header and the first block: only the records in it are lost. */
static void salvage_brings_what_is_intact_behind_a_damaged_header_and_block(void **state)
{
    (void)state;
    struct model whole, model;
    struct file_list list = {0};
    unsigned slices = 0;
    log_damaged = true;
    begin_long_slices(&whole);
    model_close(&whole);
    list_files(&whole, &list);
    for (size_t i = 0; i < list.count; i++) {
        struct salvage_counts counts;
        unsigned lines;
        if (memcmp(list.names[i], "slice-", 6) != 0)
            continue;
        copy_model(&model, &whole, &list);
        assert_true(sim_disk_flip(model.disk, list.names[i], 100 * 8));
        assert_true(sim_disk_flip(model.disk, list.names[i], (BLOCK + BATCH_HEAD + 13) * 8));
        unsigned found = salvage_all(&model, &whole, &counts, &lines);
        assert_int_equal(found + 1, live_jobs(&whole));
        assert_true(counts.opaque_regions > 0);
        model_fini(&model);
        slices++;
    }
    assert_true(slices > 1);
    log_damaged = false;
    model_fini(&whole);
}

/* Of a log without its first segments nobody knows how many jobs it had. */
static void a_log_that_lacks_its_beginning_is_not_said_to_have_lost_nothing(void **state)
{
    (void)state;
    struct model whole, model;
    struct file_list list = {0};
    struct salvage_counts counts;
    unsigned lines, segments = 0;
    log_damaged = true;
    begin_far(&whole, 200);
    model_close(&whole);
    list_files(&whole, &list);
    copy_model(&model, &whole, &list);
    for (size_t i = 0; i < list.count; i++)
        segments +=
            memcmp(list.names[i], "wal-", 4) == 0 && sim_disk_delete(model.disk, list.names[i]);
    assert_true(segments > 1);
    assert_true(salvage_all(&model, &whole, &counts, &lines) < live_jobs(&whole));
    assert_true(counts.opaque_regions > 0);
    log_damaged = false;
    model_fini(&model);
    model_fini(&whole);
}

static void note_line(void *ctx, const char *line)
{
    char *last = ctx;
    (void)snprintf(last, 200, "%s", line);
}

/* At each block, also where a block of jobs ends and what is left is intact. */
static void a_slice_that_was_cut_is_not_said_to_have_lost_nothing(void **state)
{
    (void)state;
    struct model whole;
    struct file_list list = {0};
    unsigned cuts = 0;
    log_damaged = true; /* jobs of the block that was cut are doubtful */
    begin_far(&whole, 600);
    model_close(&whole);
    list_files(&whole, &list);
    for (size_t i = 0; i < list.count; i++) {
        uint64_t len = 0;
        const char *at = sim_disk_file(whole.disk, list.names[i], &len);
        for (uint64_t left = 0; memcmp(list.names[i], "slice-", 6) == 0 && left < len;
             left += BLOCK, cuts++) {
            struct model model;
            struct store_counts verified = {0};
            struct salvage_counts counts;
            unsigned lines;
            char last[200] = "";
            struct store_watcher watcher = {.print_line = note_line, .ctx = last};
            char *bytes = mem_aligned(BLOCK, len);
            copy_model(&model, &whole, &list);
            memcpy(bytes, at, len);
            sim_disk_put(model.disk, list.names[i], bytes, left);
            mem_free(bytes);
            assert_int_equal(store_verify(model.options.disk, &watcher, &verified), OK);
            assert_true(verified.bad > 0);
            unsigned found = salvage_all(&model, &whole, &counts, &lines);
            assert_true(lines > 0);
            if (found < live_jobs(&whole)) {
                assert_true(verified.hit_jobs > 0 || verified.unknown > 0);
                assert_true(counts.lost_jobs > 0 || counts.opaque_regions > 0);
            }
            model_fini(&model);
        }
    }
    log_damaged = false;
    assert_true(cuts > 10);
    model_fini(&whole);
}

/* Slices and segments have numbers of one row: such a slice is of another store. */
static void salvage_reads_no_bodies_from_a_slice_with_the_number_of_a_segment(void **state)
{
    (void)state;
    struct model whole, model;
    struct file_list list = {0};
    struct salvage_counts counts;
    unsigned lines, segments = 0;
    begin_far(&whole, 200);
    for (size_t i = 1; i < 200; i += 7) /* their records are in the log again */
        model_move(&whole, &whole.jobs[i]);
    model_settle(&whole);
    model_close(&whole);
    list_files(&whole, &list);
    copy_model(&model, &whole, &list);
    for (size_t i = 0; i < list.count; i++) {
        char name[DISK_NAME_MAX];
        uint32_t number;
        if (!segment_name_parse(list.names[i], &number))
            continue;
        slice_name(number, name);
        sim_disk_put(model.disk, name, list.names[i], 4);
        segments++;
    }
    assert_true(segments > 0);
    assert_int_equal(salvage_all(&model, &whole, &counts, &lines), live_jobs(&whole));
    model_fini(&model);
    model_fini(&whole);
}

static void a_missing_slice_is_told_of(void **state)
{
    (void)state;
    struct model whole, model;
    struct file_list list = {0};
    unsigned lines = 0, slices = 0;
    begin_far(&whole, 200);
    model_close(&whole);
    list_files(&whole, &list);
    for (size_t i = 0; i < list.count; i++) {
        struct store_counts counts = {0};
        struct store_watcher watcher = {.print_line = count_line, .ctx = &lines};
        if (memcmp(list.names[i], "slice-", 6) != 0)
            continue;
        copy_model(&model, &whole, &list);
        assert_int_equal(store_verify(model.options.disk, &watcher, &counts), OK);
        assert_true(counts.bad == 0 && counts.slices > 0 && counts.live_jobs == 200);
        assert_true(sim_disk_delete(model.disk, list.names[i]));
        assert_int_equal(store_verify(model.options.disk, &watcher, &counts), OK);
        assert_true(counts.bad > 0 && counts.live_jobs < 200);
        assert_int_equal(model_open(&model), ERR_CORRUPT);
        assert_string_equal(model.error.file, list.names[i]);
        assert_non_null(strstr(model.error.text, "missing"));
        model_fini(&model);
        slices++;
    }
    assert_true(slices > 0);
    model_fini(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p2_no_flipped_bit_of_a_slice_loses_silently_or_is_served),
        cmocka_unit_test(damage_that_looks_like_a_record_hides_no_job),
        cmocka_unit_test(an_invalid_record_in_a_whole_block_is_told_and_hides_no_other_job),
        cmocka_unit_test(verify_counts_no_job_as_live_that_is_not_there),
        cmocka_unit_test(salvage_brings_far_jobs_whose_slice_the_log_does_not_name),
        cmocka_unit_test(a_slice_that_was_cut_is_not_said_to_have_lost_nothing),
        cmocka_unit_test(salvage_reads_no_bodies_from_a_slice_with_the_number_of_a_segment),
        cmocka_unit_test(a_missing_slice_is_told_of),
        cmocka_unit_test(a_damaged_block_of_a_slice_that_is_known_in_part_counts),
        cmocka_unit_test(salvage_brings_what_is_intact_behind_a_damaged_header_and_block),
        cmocka_unit_test(a_log_that_lacks_its_beginning_is_not_said_to_have_lost_nothing),
        cmocka_unit_test(p5_a_damaged_end_of_a_far_job_does_not_revive_it),
        cmocka_unit_test(salvage_brings_every_far_job_that_is_intact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
