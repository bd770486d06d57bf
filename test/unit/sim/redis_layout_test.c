/*
 * The forms of records, and what layout 3 left: the scripts on a simulated Redis, one call after
 * another. What layout 2 left is in redis_due_test.c.
 */
#include "redis_layout_3.h"
#include "redis_scripts_bed.h"

static const int64_t HOUR_US = 3600 * INT64_C(1000000);

static uint64_t key_type_count(const char *letter)
{
    return REDIS("EVAL",
                 "local count = 0\n"
                 "for i = 0, 255 do\n"
                 "    count = count + redis.call('EXISTS', '{laterd:0}:' .. ARGV[1] .. i)\n"
                 "end\n"
                 "return count\n",
                 "1", "{laterd:0}:h", letter);
}

/* Bytes of all records, or of one form alone: a value of `form` in its first byte, from 32 to 63.
 */
static uint64_t record_bytes(bool compact)
{
    return REDIS("EVAL",
                 "local bytes = 0\n"
                 "for i = 0, 255 do\n"
                 "    local key = '{laterd:0}:j' .. i\n"
                 "    local all = redis.call('HSCAN', key, '0', 'COUNT', 10000)[2]\n"
                 "    for n = 1, #all, 2 do\n"
                 "        local of_form = ARGV[1] == 'c' and 1 or 0\n"
                 "        if #all[n] == 8 and\n"
                 "            math.floor(string.byte(all[n + 1]) / 32) % 2 == of_form then\n"
                 "            bytes = bytes + #all[n + 1]\n"
                 "        end\n"
                 "    end\n"
                 "end\n"
                 "return bytes\n",
                 "1", "{laterd:0}:h", compact ? "c" : "-");
}

static struct script_answer ask_on(unsigned daemon, const struct cmd *cmd)
{
    struct script_call call = next_call();
    script_encode(&request, &spaces[daemon], &call, cmd);
    return ask(0);
}

static struct script_answer push_id(const char *id, int64_t due_us, enum ready_order order)
{
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = BYTES("t"),
                               .id = bytes_str(id),
                               .due_us = due_us,
                               .order = order,
                               .priority = 7,
                               .ttr_us = 60 * SECOND_US,
                               .body = BYTES("body")}};
    return ask_on(0, &cmd);
}

/* The job of that id as a daemon reads it. */
static struct script_head get(const char *id, struct arena *arena)
{
    struct cmd cmd = {.kind = CMD_GET, .job.ref.id = bytes_str(id)};
    struct script_head head;
    assert_int_equal(ask_on(1, &cmd).err, OK);
    assert_int_equal(script_read_head(&spaces[1], parts[1], true, now_us, arena, &head), OK);
    assert_int_equal(script_read_content(&head), OK);
    return head;
}

/* ---- forms ---- */

static void an_ordinary_job_takes_28_bytes_and_its_names(void **state)
{
    struct arena arena = {0};
    int64_t made_us = now_us += 10; /* no number is that far */
    (void)state;
    assert_int_equal(push_id("one", now_us + HOUR_US, ORDER_DUE).err, OK);
    assert_int_equal(record_bytes(true), 28 + 1 + 3 + 4);
    assert_int_equal(record_bytes(false), 0);
    now_us += 5 * SECOND_US;
    struct script_head head = get("one", &arena);
    assert_int_equal(head.view.created_us, made_us);
    assert_int_equal(head.view.due_us, made_us + HOUR_US);
    assert_int_equal(head.view.delay_s, 3600);
    assert_int_equal(head.view.ttr_us, 60 * SECOND_US);
    assert_int_equal(head.view.priority, 7);
    arena_fini(&arena);
}

/* So it is for some minutes after a restart: the time of making does not follow from the number. */
static void a_number_far_ahead_does_not_move_the_time_of_making(void **state)
{
    static const int64_t ahead_us[] = {0, 64510, 64511, 64512, 70000, 3600 * INT64_C(1000000)};
    static const char *const ids[] = {"a", "b", "c", "d", "e", "f"};
    struct arena arena = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        give_last(now_us + ahead_us[i] - 1);
        bool compact = ahead_us[i] + JOB_AHEAD_BASE <= UINT16_MAX;
        uint64_t before = record_bytes(compact);
        struct script_answer answer = push_id(ids[i], 0, ORDER_DUE);
        assert_int_equal(answer.err, OK);
        assert_int_equal(answer.seq, now_us + ahead_us[i]);
        assert_int_equal(record_bytes(compact) - before, (compact ? 28 : 33) + 1 + 1 + 4);
        assert_int_equal(get(ids[i], &arena).view.created_us, now_us);
        now_us += 10;
    }
    struct script_answer taken = reserve(0, "t", 10, false);
    assert_int_equal(taken.count, 6);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct script_head head;
        assert_int_equal(script_read_head(&spaces[0], parts[1 + i], true, now_us, &arena, &head),
                         OK);
        assert_bytes(head.view.ref.id, bytes_str(ids[i]));
        struct cmd finish = {.kind = CMD_FINISH,
                             .job = {.ref.id = bytes_str(ids[i]), .lease = head.view.lease}};
        assert_int_equal(ask_on(0, &finish).err, OK);
    }
    assert_int_equal(REDIS("ZCARD", "{laterd:0}:l"), 1); /* each was found in its place */
    arena_fini(&arena);
}

/* One that is moved here brings when it was made. */
static void a_job_made_elsewhere_keeps_its_time(void **state)
{
    struct arena arena = {0};
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = BYTES("t"),
                               .id = BYTES("old"),
                               .created_us = now_us - 86400 * INT64_C(1000000),
                               .ttr_us = SECOND_US,
                               .body = BYTES("body")}};
    (void)state;
    assert_int_equal(ask_on(0, &cmd).err, OK);
    assert_int_equal(get("old", &arena).view.created_us, cmd.push.created_us);
    assert_int_equal(record_bytes(true), 0);
    arena_fini(&arena);
}

/* A new body is another record. */
static void a_new_body_keeps_the_time_of_making(void **state)
{
    struct arena arena = {0};
    int64_t made_us = now_us += 10; /* no number is that far */
    (void)state;
    assert_int_equal(push_id("one", now_us + HOUR_US, ORDER_ARRIVAL).err, OK);
    now_us += 9 * SECOND_US;
    struct cmd cmd = {.kind = CMD_RESCHEDULE,
                      .job = {.ref.id = BYTES("one"),
                              .due_us = now_us + 100 * SECOND_US,
                              .has_due = true,
                              .has_body = true,
                              .body = BYTES("another")}};
    assert_int_equal(ask_on(0, &cmd).err, OK);
    assert_int_equal(record_bytes(true), 28 + 1 + 3 + 7);
    struct script_head head = get("one", &arena);
    assert_int_equal(head.view.created_us, made_us);
    assert_bytes(head.view.body, BYTES("another"));
    arena_fini(&arena);
}

/* ---- what layout 3 left ---- */

static void give_layout_3(void)
{
    (void)REDIS("EVAL", GIVE_LAYOUT_3, "1", "{laterd:0}:h");
}

static void p2_p3_p5_a_partition_of_layout_3_is_served_on(void **state)
{
    struct arena arena = {0};
    int64_t made_us = now_us, due_us = now_us + 50 * SECOND_US;
    (void)state;
    (void)push_id("ready", 0, ORDER_DUE);
    (void)push_id("arrival", 0, ORDER_ARRIVAL);
    (void)push_id("delayed", due_us, ORDER_DUE);
    assert_int_equal(reserve(0, "t", 1, true).count, 1); /* arrival or ready, for a connection */
    uint64_t short_bytes = record_bytes(true) + 3 * 5;
    give_layout_3();
    assert_int_equal(key_type_count("b"), 256);
    now_us += SECOND_US;
    assert_int_equal(open_as(1, 256).err, OK); /* the first daemon of this version */
    (void)REDIS("HSET", "{laterd:0}:h", "u", "old-name", "mold-name", "it still runs");
    assert_int_equal(open_as(2, 256).err, OK);
    assert_int_equal(key_type_count("b"), 0);
    assert_int_equal(key_type_count("j"), 256);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "u"), 0);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "mold-name"), 0);
    assert_int_equal(record_bytes(false), short_bytes); /* they stay as they are */
    assert_int_equal(get("delayed", &arena).view.created_us, made_us);
    assert_int_equal(get("delayed", &arena).view.due_us, due_us);
    (void)push_id("new", due_us, ORDER_DUE);
    assert_int_equal(record_bytes(true), 28 + 1 + 3 + 4);
    struct script_answer answer = reserve(1, "t", 10, false);
    assert_int_equal(answer.count, 1);
    now_us = due_us;
    struct script_call call = next_call();
    script_encode_promote(&request, &spaces[1], &call, 200, false);
    assert_int_equal(ask(0).count, 2);
    assert_int_equal(reserve(2, "t", 10, false).count, 2);
    static const char *const ids[] = {"ready", "arrival", "delayed", "new"};
    for (size_t i = 0; i < 4; i++) {
        struct script_head head = get(ids[i], &arena);
        assert_int_equal(head.view.state, JOB_RESERVED);
        struct cmd cmd = {.kind = CMD_FINISH,
                          .job = {.ref.id = bytes_str(ids[i]), .lease = head.view.lease}};
        assert_int_equal(ask_on(1, &cmd).err, OK);
    }
    assert_int_equal(record_bytes(true) + record_bytes(false), 0);
    assert_int_equal(REDIS("ZCARD", "{laterd:0}:l"), 1);
    arena_fini(&arena);
}

/* Of the journal's field what begins at that byte, as the scripts count. */
static int64_t journal_number(unsigned at)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%u", at);
    return (int64_t)REDIS("EVAL",
                          "local field = redis.call('HGET', KEYS[1], 'j')\n"
                          "return (struct.unpack('<I8', field, tonumber(ARGV[1])))\n",
                          "1", "{laterd:0}:h", text);
}

static uint64_t journal_entries(void)
{
    return REDIS("ZLEXCOUNT", "{laterd:0}:o", "[j", "(k");
}

static void wants_journal(unsigned daemon, int64_t lag_us)
{
    spaces[daemon].journal_bytes = 1 << 20;
    spaces[daemon].journal_lag_us = lag_us;
}

/* Its field had no ages then. The oldest change that waits is as old as the conversion. */
static void p1_a_journal_of_layout_3_goes_on(void **state)
{
    (void)state;
    for (int wanted = 0; wanted < 2; wanted++) { /* by the daemon that takes it over */
        wants_journal(0, 0);
        assert_int_equal(open_as(0, 256).err, OK);
        assert_int_equal(push_id(wanted ? "b" : "a", 0, ORDER_DUE).err, OK);
        uint64_t entries = journal_entries();
        give_layout_3();
        now_us += SECOND_US;
        if (wanted)
            wants_journal(1, 5 * SECOND_US);
        assert_int_equal(open_as(1, 256).err, OK);
        assert_int_equal(journal_number(34), now_us);
        assert_int_equal(journal_number(42), wanted ? 5 * SECOND_US : 0);
        assert_int_equal(push_id("c", 0, ORDER_DUE).err, OK);
        assert_int_equal(reserve(1, "t", 10, false).count, 2);
        struct cmd cmd = {.kind = CMD_DELETE, .job.ref.id = BYTES("c")};
        assert_int_equal(ask_on(1, &cmd).err, OK);
        assert_int_equal(journal_entries(), entries + 4);
        assert_int_equal(journal_number(34), now_us);
    }
    now_us += 6 * SECOND_US;
    assert_int_equal(push_id("late", 0, ORDER_DUE).err, ERR_JOURNAL_BEHIND);
}

/* What daemons of layout 3 do in such a partition: nothing. docs/redis-layout.md says why. */
static void a_daemon_of_layout_3_is_turned_away(void **state)
{
    (void)state;
    for (int taken_over = 0; taken_over < 2; taken_over++) {
        if (taken_over) {
            give_layout_3();
            assert_int_equal(open_as(1, 256).err, OK);
        }
        assert_int_equal(REDIS("EVAL",
                               "local s = redis.call('HGET', KEYS[1], 's')\n"
                               "local read = pcall(struct.unpack, '<I8I8I8I7', s)\n"
                               "local scanned = redis.pcall('ZREVRANGEBYSCORE', KEYS[2],\n"
                               "    redis.call('HGET', KEYS[1], 'l'), '0', 'LIMIT', 0, 10)\n"
                               "local dead = redis.call('ZRANGEBYLEX', KEYS[3], '[d', '(e')\n"
                               "local since = redis.call('HGET', KEYS[1], dead[1])\n"
                               "local reaps = pcall(struct.unpack, '<I8', since)\n"
                               "return (read and 1000 or 0) + (scanned.err and 0 or 100) +\n"
                               "    (reaps and 10000 or 0) +\n"
                               "    struct.unpack('<I8', s, 17) * 10 +\n"
                               "    tonumber(redis.call('HGET', KEYS[1], 'v'))\n",
                               "3", "{laterd:0}:h", "{laterd:0}:d", "{laterd:0}:o"),
                         14); /* one partition, layout 4 */
        assert_int_equal(key_type_count("b"), 0);
    }
}

/* With a slot that is on its way to another server nothing is begun. */
static void nothing_is_taken_over_at_the_node_that_a_slot_comes_to(void **state)
{
    (void)state;
    (void)push_id("one", 0, ORDER_DUE);
    give_layout_3();
    struct script_call call = next_call();
    script_encode_open(&request, &spaces[1], &call, 256, 0);
    assert_true(is_missing_while_importing());
    assert_int_equal(key_type_count("b"), 256);
    assert_int_equal(open_as(1, 256).err, OK);
    assert_int_equal(reserve(1, "t", 1, false).count, 1);
}

/* Its buckets look empty there, until they have arrived: members of their jobs would be left out.
 */
static void nothing_is_rebuilt_at_the_node_that_a_slot_comes_to(void **state)
{
    (void)state;
    struct script_call call = next_call();
    script_encode_rebuild(&request, &spaces[0], &call, BYTES("0"), REBUILD_ALL);
    assert_true(is_missing_while_importing());
    rebuild_all();
}

/* A daemon of the version before leads, and this one waits to lead. */
static void one_that_waits_to_lead_leaves_layout_3_as_it_is(void **state)
{
    (void)state;
    (void)push_id("one", 0, ORDER_DUE);
    give_layout_3();
    spaces[1].leaves_older = true;
    struct script_answer answer = open_as(1, 256);
    assert_int_equal(answer.err, ERR_WRONG_STATE);
    assert_int_equal(answer.seq, 3);
    assert_int_equal(key_type_count("b"), 256);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "p"), 0);
    spaces[1].leaves_older = false;
    assert_int_equal(open_as(1, 256).err, OK);
    assert_int_equal(key_type_count("j"), 256);
    spaces[1].leaves_older = true; /* which there is none of any more */
    assert_int_equal(open_as(1, 256).err, OK);
    assert_int_equal(reserve(1, "t", 1, false).count, 1);
}

/* A bucket that layout 3 lost is told, not made in silence. */
static void a_bucket_that_layout_3_lost_is_missed(void **state)
{
    (void)state;
    give_layout_3();
    (void)REDIS("DEL", "{laterd:0}:b9");
    assert_true(open_as(1, 256).missed);
    assert_int_equal(key_type_count("j"), 256);
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        STARTED(an_ordinary_job_takes_28_bytes_and_its_names),
        STARTED(a_number_far_ahead_does_not_move_the_time_of_making),
        STARTED(a_job_made_elsewhere_keeps_its_time),
        STARTED(a_new_body_keeps_the_time_of_making),
        STARTED(p2_p3_p5_a_partition_of_layout_3_is_served_on),
        STARTED(p1_a_journal_of_layout_3_goes_on),
        STARTED(a_daemon_of_layout_3_is_turned_away),
        STARTED(nothing_is_taken_over_at_the_node_that_a_slot_comes_to),
        STARTED(nothing_is_rebuilt_at_the_node_that_a_slot_comes_to),
        STARTED(one_that_waits_to_lead_leaves_layout_3_as_it_is),
        STARTED(a_bucket_that_layout_3_lost_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
