/*
 * Properties of jobs, notes of their failed attempts, and reservations with a ttr of their own, by
 * the engine's scripts on a simulated Redis: properties come with a job wherever its body does, the
 * last note with each view, and all of it ends with the job. And which releases count.
 */
#include "engine/redis/fanout.h"
#include "redis_scripts_bed.h"

static struct arena arena;

static int end_arena(void **state)
{
    arena_fini(&arena);
    return stop(state);
}

/* The last answer, as a command of that kind reads it. */
static struct reply reply_of(enum cmd_kind kind)
{
    struct script_parts said = {.at = parts, .count = part_count};
    struct script_answer answer;
    assert_int_equal(script_read(&spaces[0], kind, &said, &arena, &answer), OK);
    return answer.reply;
}

/* Fields of all buckets: '!' in each, and what jobs have. */
static uint64_t fields_of_jobs(void)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < SCRIPT_BUCKETS; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "{laterd:0}:j%u", i);
        count += REDIS("HLEN", key);
    }
    return count;
}

static struct cmd_push with_properties(const char *properties)
{
    return (struct cmd_push){.topic = BYTES("t"),
                             .due_us = now_us,
                             .ttr_us = SECOND_US,
                             .body = BYTES("body"),
                             .properties = bytes_str(properties)};
}

static uint64_t push_it(const struct cmd_push *push)
{
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_PUSH, .push = *push};
    script_encode(&request, &spaces[0], &call, &cmd);
    struct script_answer answer = ask(0);
    assert_int_equal(answer.err, OK);
    return answer.seq;
}

static void do_job(enum cmd_kind kind, struct cmd_job job)
{
    struct script_call call = next_call();
    struct cmd cmd = {.kind = kind, .job = job};
    script_encode(&request, &spaces[0], &call, &cmd);
    assert_int_equal(ask(0).err, OK);
}

/* `again`: as a request that is sent behind itself. */
static void ask_once_more(const struct script_call *call, const struct cmd *cmd, bool again)
{
    script_encode(&request, &spaces[0], call, cmd);
    if (again)
        script_mark_again(request.at, request.len);
    assert_int_equal(ask(0).err, OK);
}

/* Begins a command about a field of the job's bucket: the job's number behind `mark` ("": none). */
static void begin_on_field(const char *command, unsigned words, uint64_t seq, const char *mark)
{
    char key[32], field[9];
    size_t before = strlen(mark);
    (void)snprintf(key, sizeof(key), "{laterd:0}:j%u", (unsigned)(seq >> 16 & 255));
    memcpy(field, mark, before);
    put_u64(field + before, __builtin_bswap64(seq));
    request.len = 0;
    buf_addf(&request, "*%u\r\n", words);
    script_add(&request, bytes_str(command));
    script_add(&request, bytes_str(key));
    script_add(&request, bytes_of(field, before + 8));
}

static struct job_view get(uint64_t seq)
{
    do_job(CMD_GET, (struct cmd_job){.ref.seq = seq});
    struct reply reply = reply_of(CMD_GET);
    assert_int_equal(reply.err, OK);
    return reply.jobs[0];
}

static void reserve_for(uint32_t max, int64_t ttr_us)
{
    struct bytes name = BYTES("t");
    struct script_call call = next_call();
    struct cmd_reserve cmd = {.topics = &name, .topic_count = 1, .max = max, .ttr_us = ttr_us};
    script_encode_reserve(&request, &spaces[0], &call, &cmd,
                          &(struct script_share){.max = max, .mark = SCRIPT_MARK_WAIT});
    (void)ask(0);
}

static void properties_come_with_the_body_and_end_with_the_job(void **state)
{
    (void)state;
    uint64_t before = fields_of_jobs();
    struct cmd_push push = with_properties("{\"url\":\"https://shop.example/\"}");
    for (int i = 0; i < 3; i++)
        (void)push_it(&push);
    push.properties = (struct bytes){0};
    (void)push_it(&push);
    assert_int_equal(fields_of_jobs(), before + 3 * 2 + 1); /* none for who has none */
    push = with_properties("{\"url\":\"https://shop.example/\"}");

    /* One alone, and several. */
    for (uint32_t max = 1; max <= 3; max += 2) {
        reserve_for(max, 0);
        struct reply reply = reply_of(CMD_RESERVE);
        assert_int_equal(reply.count, max);
        for (uint32_t i = 0; i < max; i++) {
            bool has = max == 1 || i < 2;
            assert_bytes(reply.jobs[i].properties, has ? push.properties : BYTES(""));
            assert_bytes(reply.jobs[i].body, BYTES("body"));
            assert_bytes(get(reply.jobs[i].ref.seq).properties, has ? push.properties : BYTES(""));
        }
        for (uint32_t i = 0; i < max; i++) {
            struct cmd_job job = {.ref.seq = reply.jobs[i].ref.seq, .lease = reply.jobs[i].lease};
            do_job(i % 2 ? CMD_DELETE : CMD_FINISH, job);
        }
    }
    assert_int_equal(fields_of_jobs(), before);
}

static void a_replaced_jobs_properties_end_with_it(void **state)
{
    (void)state;
    uint64_t before = fields_of_jobs();
    struct cmd_push push = with_properties("first");
    push.id = BYTES("order-1");
    push.if_exists = IF_EXISTS_REPLACE;
    (void)push_it(&push);
    push.properties = BYTES("second");
    uint64_t seq = push_it(&push);
    assert_bytes(get(seq).properties, BYTES("second"));
    push.properties = (struct bytes){0};
    seq = push_it(&push);
    assert_int_equal(get(seq).properties.len, 0);
    assert_int_equal(fields_of_jobs(), before + 1);
    push.properties = BYTES("third");
    seq = push_it(&push);
    do_job(CMD_DELETE, (struct cmd_job){.ref.seq = seq});
    assert_int_equal(fields_of_jobs(), before);
}

static void a_large_body_and_properties_are_both_apart(void **state)
{
    char body[3000], properties[JOB_PROPERTIES_MAX];
    (void)state;
    memset(body, 'b', sizeof(body));
    memset(properties, '=', sizeof(properties));
    uint64_t before = fields_of_jobs();
    struct cmd_push push = with_properties("");
    push.body = bytes_of(body, sizeof(body));
    push.content_type = BYTES("text/plain");
    push.properties = bytes_of(properties, sizeof(properties));
    for (int i = 0; i < 2; i++) { /* the first push to its topic, and one that is not */
        struct job_view job = get(push_it(&push));
        assert_bytes(job.body, push.body);
        assert_bytes(job.content_type, push.content_type);
        assert_bytes(job.properties, push.properties);
    }
    reserve_for(1, 0);
    struct reply reply = reply_of(CMD_RESERVE);
    assert_bytes(reply.jobs[0].properties, push.properties);
    do_job(CMD_FINISH, (struct cmd_job){.ref.seq = reply.jobs[0].ref.seq});
    do_job(CMD_DELETE, (struct cmd_job){.ref.seq = get(reply.jobs[0].ref.seq + 1).ref.seq});
    assert_int_equal(fields_of_jobs(), before);
}

static void a_new_body_keeps_the_properties(void **state)
{
    char large[2000];
    (void)state;
    memset(large, 'l', sizeof(large));
    uint64_t before = fields_of_jobs();
    struct cmd_push push = with_properties("kept");
    push.due_us = now_us + 60 * SECOND_US;
    uint64_t seq = push_it(&push);
    struct bytes bodies[] = {BYTES("other"), bytes_of(large, sizeof(large)), BYTES("")};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        do_job(CMD_RESCHEDULE,
               (struct cmd_job){.ref.seq = seq, .has_body = true, .body = bodies[i]});
        struct job_view job = get(seq);
        assert_bytes(job.body, bodies[i]);
        assert_bytes(job.properties, BYTES("kept"));
    }
    do_job(CMD_RESERVE_JOB, (struct cmd_job){.ref.seq = seq});
    struct reply reply = reply_of(CMD_RESERVE_JOB);
    assert_bytes(reply.jobs[0].properties, BYTES("kept"));
    do_job(CMD_FINISH, (struct cmd_job){.ref.seq = seq, .lease = reply.jobs[0].lease});
    assert_int_equal(fields_of_jobs(), before);
}

/* P5: the same request once more is answered as the first time, properties and all. */
static void p5_a_repeated_reserve_by_name_has_the_properties(void **state)
{
    (void)state;
    struct cmd_push push = with_properties("kept");
    uint64_t seq = push_it(&push), lease = 0;
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_RESERVE_JOB, .job = {.ref.seq = seq}};
    for (int again = 0; again < 2; again++) {
        ask_once_more(&call, &cmd, again);
        struct reply reply = reply_of(CMD_RESERVE_JOB);
        assert_int_equal(reply.count, 1);
        assert_bytes(reply.jobs[0].properties, BYTES("kept"));
        assert_bytes(reply.jobs[0].body, BYTES("body"));
        if (again)
            assert_int_equal(reply.jobs[0].lease, lease);
        lease = reply.jobs[0].lease;
    }
}

/* The answer to a reserve by name was lost, and before the request is sent again its job is
 * deleted, or has been given back and is another one's. That body is not what the first answer had,
 * and is not damaged for that. */
static void p4_a_repeated_reserve_by_name_does_not_show_what_is_no_longer_reserved(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 2; way++) {
        struct cmd_push push = with_properties("kept");
        push.due_us = now_us + 60 * SECOND_US;
        uint64_t seq = push_it(&push);
        struct script_call call = next_call();
        struct cmd cmd = {.kind = CMD_RESERVE_JOB, .job.ref.seq = seq};
        ask_once_more(&call, &cmd, false);
        struct cmd_job named = {.ref.seq = seq, .why = RELEASE_UNDELIVERED};
        do_job(way ? CMD_RELEASE : CMD_DELETE, named);
        if (way)
            do_job(CMD_RESCHEDULE,
                   (struct cmd_job){.ref.seq = seq, .has_body = true, .body = BYTES("another")});
        script_encode(&request, &spaces[0], &call, &cmd);
        script_mark_again(request.at, request.len);
        (void)ask(0);
        assert_int_equal(reply_of(CMD_RESERVE_JOB).err, way ? ERR_WRONG_STATE : ERR_NOT_FOUND);
        assert_int_equal(part_count, 1);
    }
}

static void damaged_properties_are_noticed(void **state)
{
    (void)state;
    struct cmd_push push = with_properties("kept");
    uint64_t seq = push_it(&push);
    begin_on_field("HSET", 4, seq, "=");
    script_add(&request, BYTES("12345678kepT"));
    sim_redis_output(conn)->len = 0;
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
    assert_int_equal(sim_redis_output(conn)->at[1], '0'); /* it was there */
    reserve_for(1, 0);
    assert_int_equal(reply_of(CMD_RESERVE).err, ERR_DAMAGED);
}

/* A daemon that knows of no properties ended the job: what it left goes when all is looked at. */
static void properties_without_a_job_go_with_the_next_rebuild(void **state)
{
    (void)state;
    uint64_t before = fields_of_jobs();
    struct cmd_push push = with_properties("kept");
    uint64_t kept = push_it(&push), ended = push_it(&push);
    begin_on_field("HDEL", 3, ended, "");
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
    assert_int_equal(fields_of_jobs(), before + 3);
    rebuild_all();
    assert_int_equal(fields_of_jobs(), before + 2);
    assert_bytes(get(kept).properties, BYTES("kept"));
}

static void a_reserve_with_a_ttr_of_its_own_runs_so_long(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        (void)push("t", now_us);
    for (uint32_t max = 1; max <= 3; max += 2) { /* the common case, and the other */
        reserve_for(max, 0);
        assert_int_equal(reply_of(CMD_RESERVE).jobs[0].until_us, now_us + SECOND_US);
        reserve_for(max, 25 * (int64_t)SECOND_US + 1);
        struct reply reply = reply_of(CMD_RESERVE);
        assert_int_equal(reply.count, max);
        for (uint32_t i = 0; i < max; i++) {
            assert_int_equal(reply.jobs[i].until_us, now_us + 25 * SECOND_US + 1);
            assert_int_equal(reply.jobs[i].ttr_us, SECOND_US); /* the job's own is as it was */
        }
    }
}

/* ---- notes ---- */

static struct job_view reserve_one(void)
{
    reserve_for(1, 60 * (int64_t)SECOND_US);
    struct reply reply = reply_of(CMD_RESERVE);
    assert_int_equal(reply.count, 1);
    return reply.jobs[0];
}

static struct cmd_job with_note(const struct job_view *job, const char *note, uint16_t code)
{
    return (struct cmd_job){
        .ref.seq = job->ref.seq, .lease = job->lease, .note = bytes_str(note), .note_code = code};
}

static void the_last_five_notes_are_kept_with_the_job(void **state)
{
    static const char *const texts[] = {"a", "bb", "ccc", "dddd", "eeeee", "ffffff", "ggggggg"};
    (void)state;
    uint64_t seq = push("t", now_us).seq;
    int64_t first_us = now_us;
    for (uint16_t i = 0; i < 7; i++) {
        struct job_view job = reserve_one();
        assert_int_equal(job.last_code, i ? 500 + i - 1 : 0);
        assert_int_equal(job.last_note_us, i ? now_us - SECOND_US : 0);
        assert_int_equal(job.note_count, 0); /* GET shows them */
        do_job(CMD_RELEASE, with_note(&job, texts[i], (uint16_t)(500 + i)));
        assert_int_equal(reply_of(CMD_RELEASE).jobs[0].last_code, 500 + i);
        now_us += SECOND_US;
    }
    struct job_view job = get(seq);
    assert_int_equal(job.note_count, JOB_NOTES_MAX);
    for (uint8_t i = 0; i < JOB_NOTES_MAX; i++) {
        assert_int_equal(job.notes[i].code, 502 + i);
        assert_int_equal(job.notes[i].at_us, first_us + (2 + i) * SECOND_US);
        assert_bytes(job.notes[i].text, bytes_str(texts[2 + i]));
    }
    assert_int_equal(job.last_code, 506);
    assert_int_equal(job.last_note_us, first_us + 6 * SECOND_US);
}

/* P5: the first time was done, and its answer was lost. */
static void p5_a_release_that_is_sent_again_leaves_one_note(void **state)
{
    (void)state;
    uint64_t seq = push("t", now_us).seq;
    for (uint16_t i = 0; i < 2; i++) {
        struct job_view job = reserve_one();
        struct script_call call = next_call();
        struct cmd cmd = {.kind = i ? CMD_BURY : CMD_RELEASE, .job = with_note(&job, "no", 503)};
        for (int again = 0; again < 2; again++) {
            ask_once_more(&call, &cmd, again);
            assert_int_equal(reply_of(cmd.kind).jobs[0].last_code, 503);
        }
        assert_int_equal(get(seq).note_count, i + 1);
    }
    struct cmd cmd = {.kind = CMD_RESERVE_JOB, .job.ref.seq = seq};
    struct script_call call = next_call();
    for (int again = 0; again < 2; again++) {
        ask_once_more(&call, &cmd, again);
        struct reply reply = reply_of(CMD_RESERVE_JOB);
        assert_int_equal(reply.jobs[0].last_code, 503);
        assert_bytes(reply.jobs[0].body, BYTES("body"));
    }
}

/* Ways in which a job of topic t, reserved or buried, may end. */
static void end_some(const struct job_view *job, int way)
{
    struct cmd_job named = {.ref.seq = job->ref.seq, .lease = job->lease};
    if (way == 0) {
        do_job(CMD_FINISH, named);
    } else if (way == 1) {
        do_job(CMD_BURY, with_note(job, "over", 410));
        do_job(CMD_DELETE, (struct cmd_job){.ref.seq = job->ref.seq});
    } else if (way == 2) {
        do_job(CMD_RELEASE, with_note(job, "wait", 429));
        do_job(CMD_DELETE, (struct cmd_job){.ref.seq = job->ref.seq});
    } else {
        do_job(CMD_BURY, with_note(job, "over", 410));
        struct cmd cmd = {.kind = CMD_CLEAR_TOPIC,
                          .topic = {.topic = BYTES("t"), .state = JOB_BURIED, .max = 10}};
        struct fanout *fanout = fanout_new(&spaces[0], &cmd);
        assert_true(fanout_wants(fanout, 0));
        struct script_call call = next_call();
        fanout_encode(fanout, &request, &call);
        assert_int_equal(ask(0).count, 1);
        assert_int_equal(fanout_take(fanout, 0, parts, part_count), OK);
        fanout_free(fanout, NULL);
    }
}

static void notes_end_with_their_job_however_that_ends(void **state)
{
    (void)state;
    uint64_t before = fields_of_jobs();
    for (int way = 0; way < 4; way++) {
        struct cmd_push job = with_properties(way % 2 ? "some" : "");
        (void)push_it(&job);
        struct job_view view = reserve_one();
        do_job(CMD_RELEASE, with_note(&view, "no", 500));
        view = reserve_one();
        assert_int_equal(view.last_code, 500);
        end_some(&view, way);
        assert_int_equal(fields_of_jobs(), before);
    }
    struct cmd_push job = with_properties(""); /* or is replaced */
    job.id = BYTES("order-1");
    job.if_exists = IF_EXISTS_REPLACE;
    (void)push_it(&job);
    struct job_view view = reserve_one();
    do_job(CMD_BURY, with_note(&view, "no", 500));
    uint64_t seq = push_it(&job);
    assert_int_equal(get(seq).last_code, 0);
    assert_int_equal(get(seq).note_count, 0);
    assert_int_equal(fields_of_jobs(), before + 1);
}

static void a_kicked_job_keeps_its_notes(void **state)
{
    (void)state;
    uint64_t seq = push("t", now_us).seq;
    struct job_view view = reserve_one();
    do_job(CMD_BURY, with_note(&view, "no", 500));
    do_job(CMD_KICK, (struct cmd_job){.ref.seq = seq});
    struct job_view job = get(seq);
    assert_int_equal(job.state, JOB_READY);
    assert_int_equal(job.note_count, 1);
    assert_bytes(job.notes[0].text, BYTES("no"));
}

static void a_release_that_nobody_asked_for_leaves_no_note(void **state)
{
    (void)state;
    uint64_t seq = push("t", now_us).seq, before = fields_of_jobs();
    for (int i = 0; i < 3; i++) {
        struct job_view view = reserve_one();
        struct cmd_job job = with_note(&view, "no", 500);
        job.why = i == 2 ? RELEASE_ABANDONED : RELEASE_UNDELIVERED;
        job.has_delay = i == 1;
        job.due_us = now_us;
        do_job(CMD_RELEASE, job);
        assert_int_equal(get(seq).note_count, 0);
    }
    assert_int_equal(fields_of_jobs(), before + 1); /* its head */
    struct job_view view = reserve_one();
    do_job(CMD_RELEASE, with_note(&view, "", 500)); /* nothing to keep */
    assert_int_equal(get(seq).last_code, 0);
}

static void a_job_put_off_undelivered_has_not_been_tried(void **state)
{
    (void)state;
    uint64_t seq = push("t", now_us).seq;
    struct job_view view = reserve_one();
    struct cmd_job job = with_note(&view, "", 0);
    job.why = RELEASE_UNDELIVERED;
    job.has_delay = true;
    job.due_us = now_us + 1000000;
    do_job(CMD_RELEASE, job);
    struct job_view after = get(seq);
    assert_int_equal(after.state, JOB_DELAYED);
    assert_int_equal(after.due_us, now_us + 1000000);
    assert_int_equal(after.failures, 0);
    assert_int_equal(after.attempt, 0);
}

/* As on the embedded engine (core_test.c has the same): nobody has tried it. */
static void p3_a_job_reserved_early_and_undelivered_keeps_its_due_time(void **state)
{
    (void)state;
    int64_t due_us = now_us + INT64_C(100) * SECOND_US;
    struct cmd_job take = {.ref.seq = push("t", due_us).seq, .bound = true};
    struct cmd_job back = {.ref = take.ref, .why = RELEASE_UNDELIVERED};
    for (int later = 0; later < 2; later++) {
        do_job(CMD_RESERVE_JOB, take);
        back.has_delay = later;
        back.due_us = now_us + SECOND_US;
        do_job(CMD_RELEASE, back);
        assert_int_equal(get(take.ref.seq).state, JOB_DELAYED);
        assert_int_equal(get(take.ref.seq).due_us, due_us);
    }
    do_job(CMD_RESERVE_JOB, take); /* its daemon goes, as it should */
    struct script_call call = next_call();
    script_encode_reap_dead(&request, &spaces[0], &call, &(struct script_reap){.max = 20});
    (void)ask(0);
    assert_int_equal(get(take.ref.seq).state, JOB_DELAYED);
    assert_int_equal(get(take.ref.seq).due_us, due_us);
    do_job(CMD_RESERVE_JOB, take);
    do_job(CMD_RELEASE, (struct cmd_job){.ref = take.ref}); /* a failed attempt: again at once */
    assert_int_equal(get(take.ref.seq).state, JOB_READY);
    back.due_us = now_us + SECOND_US; /* one that was due is put off */
    struct job_view view = reserve_one();
    assert_int_equal(view.ref.seq, take.ref.seq);
    do_job(CMD_RELEASE, back);
    assert_int_equal(get(take.ref.seq).due_us, now_us + SECOND_US);
    assert_int_equal(get(take.ref.seq).failures, 1);
}

static void many_jobs_with_long_notes_are_listed_and_reserved_in_small_steps(void **state)
{
    static char long_note[JOB_NOTE_MAX + 1];
    (void)state;
    memset(long_note, 'n', JOB_NOTE_MAX);
    for (int i = 0; i < 300; i++)
        (void)push("t", now_us);
    for (int i = 0; i < 300 * JOB_NOTES_MAX; i++) {
        struct job_view view = reserve_one();
        do_job(CMD_RELEASE, with_note(&view, long_note, 500));
        now_us++;
    }
    most_work = 0;
    struct cmd cmd = {.kind = CMD_LIST,
                      .topic = {.topic = BYTES("t"), .state = JOB_READY, .max = 300}};
    struct fanout *fanout = fanout_new(&spaces[0], &cmd);
    while (fanout_wants(fanout, 0)) {
        struct script_call call = next_call();
        fanout_encode(fanout, &request, &call);
        (void)ask(0);
        assert_int_equal(fanout_take(fanout, 0, parts, part_count), OK);
    }
    struct reply reply;
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.count, 300);
    for (uint32_t i = 0; i < 300; i++) {
        assert_int_equal(reply.jobs[i].last_code, 500);
        assert_int_equal(reply.jobs[i].note_count, 0);
    }
    fanout_free(fanout, NULL);
    reserve_for(300, 0);
    assert_int_equal(reply_of(CMD_RESERVE).count, 300);
    assert_int_equal(reply_of(CMD_RESERVE).jobs[299].last_code, 500);
    assert_in_range(most_work, 1, WORK_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(properties_come_with_the_body_and_end_with_the_job, start,
                                        end_arena),
        cmocka_unit_test_setup_teardown(a_replaced_jobs_properties_end_with_it, start, end_arena),
        cmocka_unit_test_setup_teardown(a_large_body_and_properties_are_both_apart, start,
                                        end_arena),
        cmocka_unit_test_setup_teardown(a_new_body_keeps_the_properties, start, end_arena),
        cmocka_unit_test_setup_teardown(
            p4_a_repeated_reserve_by_name_does_not_show_what_is_no_longer_reserved, start, stop),
        cmocka_unit_test_setup_teardown(p5_a_repeated_reserve_by_name_has_the_properties, start,
                                        end_arena),
        cmocka_unit_test_setup_teardown(damaged_properties_are_noticed, start, end_arena),
        cmocka_unit_test_setup_teardown(properties_without_a_job_go_with_the_next_rebuild, start,
                                        end_arena),
        cmocka_unit_test_setup_teardown(a_reserve_with_a_ttr_of_its_own_runs_so_long, start,
                                        end_arena),
        cmocka_unit_test_setup_teardown(the_last_five_notes_are_kept_with_the_job, start,
                                        end_arena),
        cmocka_unit_test_setup_teardown(p5_a_release_that_is_sent_again_leaves_one_note, start,
                                        end_arena),
        cmocka_unit_test_setup_teardown(notes_end_with_their_job_however_that_ends, start,
                                        end_arena),
        cmocka_unit_test_setup_teardown(a_kicked_job_keeps_its_notes, start, end_arena),
        cmocka_unit_test_setup_teardown(a_job_put_off_undelivered_has_not_been_tried, start,
                                        end_arena),
        cmocka_unit_test_setup_teardown(a_release_that_nobody_asked_for_leaves_no_note, start,
                                        end_arena),
        cmocka_unit_test_setup_teardown(p3_a_job_reserved_early_and_undelivered_keeps_its_due_time,
                                        start, end_arena),
        cmocka_unit_test_setup_teardown(
            many_jobs_with_long_notes_are_listed_and_reserved_in_small_steps, start, end_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
