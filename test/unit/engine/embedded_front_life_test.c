/*
 * Lives of a queue whose ready jobs are mostly not in memory: per seed some consumers reserve them,
 * leave, finish and release them, others push, delete and look, topics pause, the disk ends its
 * reads in any order or fails for a while, turns have any budget, and the engine is closed and
 * opened. The loop sleeps whenever the engine says that it may. Whatever happens, no job is held
 * twice or comes back after its end, they are handed out in order, nobody is told that there is
 * none while there is one, nobody waits for a job that is there, and at the end all jobs come.
 *
 *   SIM_SEEDS=2000 build/test/engine/embedded_front_life_test     the first so many seeds
 *   SIM_SEED=7 build/test/engine/embedded_front_life_test         this one
 */
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "embedded_far_bed.h"
#include "engine/embedded/parts.h"
#include "sim/random.h"
#include "test/unit/support/every.h"

enum {
    SEEDS = 20,
    STEPS = 500,
    CONSUMERS = 6,
    MAX_MAX = 40,
    T = 1,
    U = 2,
};

enum known { UNUSED, PUSHED, LIVES, HELD, ENDED };

/* What one of the clients does. */
struct client {
    struct ticket ticket;
    bool waits;
    unsigned since; /* when it began: see life.now */
    int64_t since_us;
    unsigned topics; /* RESERVE, PEEK: T, U or both */
    unsigned number; /* of the job that is pushed, deleted, finished or released */
    enum cmd_kind kind;
};

static struct life {
    struct sim_random random;
    uint64_t seed;
    bool faulty;              /* the disk fails now and then: jobs may be put back */
    bool failing;             /* it does now, or did a moment ago */
    bool due;                 /* there is a reason for a turn */
    int64_t wake_us;          /* … or there will be */
    unsigned now;             /* counts what happens */
    unsigned disturbed;       /* the last time that jobs of others may have become ready again */
    bool left;                /* it goes on: bodies of such jobs are being read */
    int64_t paused_us[U + 1]; /* the topic may be paused until then */
    struct client consumers[CONSUMERS], pusher, deleter, holder, looker, filler;
    struct client quiet[4]; /* PAUSE, RESUME, LIST, GET */
    enum known jobs[NUMBERS_MAX];
    unsigned since[NUMBERS_MAX]; /* it is so */
    uint64_t seqs[NUMBERS_MAX];
    unsigned pushed, delivered;
    struct budget budget;
} life;

static bool chance(unsigned per_mille)
{
    return sim_random_chance(&life.random, per_mille);
}

static unsigned below(unsigned count)
{
    return (unsigned)sim_random_below(&life.random, count);
}

static void know(unsigned number, enum known known)
{
    life.jobs[number] = known;
    life.since[number] = ++life.now;
}

/* ---- the order ---- */

static bool comes_before(unsigned x, unsigned y)
{
    if (x % 4 != y % 4)
        return x % 4 < y % 4;
    return due_of(x) != due_of(y) ? due_of(x) < due_of(y) : x < y;
}

static unsigned topic_of(unsigned number)
{
    return number % 3 ? T : U;
}

/* It was ready when `since` was counted, and has been ever since: a consumer might have had it. */
static bool has_been_ready(unsigned number, unsigned since)
{
    char id[32];
    struct job_view job;
    struct job_ref ref = {.id = id_of(number, id)};
    if (life.jobs[number] != LIVES || life.since[number] > since || life.disturbed > since)
        return false;
    if (life.deleter.waits && life.deleter.number == number)
        return false;
    /* Perhaps somebody is about to get it. */
    return !core_show(bed.embedded->core, &ref, &job) || job.state == JOB_READY;
}

/* Of the topics that it asked for, all the time since then; NUMBERS_MAX: none. */
static unsigned first_ready(const struct client *client)
{
    unsigned first = NUMBERS_MAX;
    for (unsigned number = 0; number < life.pushed; number++) {
        unsigned topic = topic_of(number);
        if ((client->topics & topic) && life.paused_us[topic] <= client->since_us &&
            (first == NUMBERS_MAX || comes_before(number, first)) &&
            has_been_ready(number, client->since))
            first = number;
    }
    return first;
}

/* The same, of those that are ready now. */
static unsigned first_ready_now(unsigned topics)
{
    return first_ready(
        &(struct client){.topics = topics, .since = ++life.now, .since_us = bed.loop.now_us});
}

/* ---- answers ---- */

static struct client *client_of(struct ticket *ticket)
{
    struct client *client = LIST_ENTRY(ticket, struct client, ticket);
    assert_true(client->waits);
    client->waits = false;
    return client;
}

static bool is_of_disk(enum err err)
{
    return err == ERR_IO || err == ERR_DAMAGED;
}

static unsigned number_of_body(struct bytes body)
{
    char text[40];
    unsigned number = NUMBERS_MAX;
    copy(text, body);
    assert_int_equal(sscanf(text, "body of %u", &number), 1);
    assert_true(number < life.pushed);
    return number;
}

static void hold(const struct client *consumer, unsigned number, uint64_t seq)
{
    bool given_back =
        life.holder.waits && life.holder.number == number && life.holder.kind == CMD_RELEASE;
    assert_true(topic_of(number) & consumer->topics);
    assert_true(life.jobs[number] != UNUSED);
    assert_false(life.jobs[number] == HELD && !given_back);
    if (life.jobs[number] == ENDED) {
        assert_true(life.since[number] > consumer->since); /* it was deleted on the way */
        return;
    }
    know(number, HELD);
    life.seqs[number] = seq;
    life.delivered++;
}

static void reserved(struct ticket *ticket, const struct reply *reply)
{
    struct client *consumer = client_of(ticket);
    unsigned last = NUMBERS_MAX;
    if (reply->err) {
        assert_true(reply->err == ERR_EMPTY || (life.failing && is_of_disk(reply->err)));
        assert_true(life.failing || first_ready(consumer) == NUMBERS_MAX);
        return;
    }
    assert_true(reply->count > 0);
    for (uint32_t i = 0; i < reply->count; i++) {
        unsigned number = number_of_body(reply->jobs[i].body);
        assert_true(life.faulty || last == NUMBERS_MAX || comes_before(last, number));
        last = number;
        hold(consumer, number, reply->jobs[i].ref.seq);
    }
    unsigned first = life.faulty ? NUMBERS_MAX : first_ready(consumer);
    assert_true(first == NUMBERS_MAX || comes_before(last, first));
}

static void looked(struct ticket *ticket, const struct reply *reply)
{
    struct client *looker = client_of(ticket);
    if (life.failing && is_of_disk(reply->err))
        return;
    if (reply->err) {
        assert_int_equal(reply->err, ERR_NOT_FOUND);
        assert_true(life.failing || first_ready(looker) == NUMBERS_MAX);
    } else {
        assert_int_equal(topic_of(number_of_body(reply->jobs[0].body)), looker->topics);
    }
}

static void pushed(struct ticket *ticket, const struct reply *reply)
{
    struct client *pusher = client_of(ticket);
    assert_int_equal(reply->err, OK);
    if (life.jobs[pusher->number] == PUSHED)
        know(pusher->number, LIVES);
}

static void deleted(struct ticket *ticket, const struct reply *reply)
{
    struct client *deleter = client_of(ticket);
    unsigned number = deleter->number;
    bool given_back = life.holder.waits && life.holder.number == number;
    if (reply->err == OK) {
        assert_true(life.jobs[number] != HELD || given_back);
        know(number, ENDED);
    } else {
        assert_true(reply->err == ERR_WRONG_STATE || (life.failing && is_of_disk(reply->err)) ||
                    (reply->err == ERR_NOT_FOUND && life.jobs[number] == ENDED));
    }
}

static void left(struct ticket *ticket, const struct reply *reply)
{
    struct client *holder = client_of(ticket);
    assert_int_equal(reply->err, OK);
    if (holder->kind == CMD_FINISH)
        know(holder->number, ENDED);
    else if (life.since[holder->number] < holder->since) /* nobody has it again */
        know(holder->number, LIVES);
}

static void any_answer(struct ticket *ticket, const struct reply *reply)
{
    (void)client_of(ticket);
    (void)reply;
}

/* ---- what is asked ---- */

static void submit(struct client *client, const struct cmd *cmd,
                   void (*answered)(struct ticket *ticket, const struct reply *reply))
{
    client->ticket = (struct ticket){.answered = answered};
    client->kind = cmd->kind;
    client->since = ++life.now;
    client->since_us = bed.loop.now_us;
    client->waits = true;
    life.due = true;
    (void)bed.engine->verbs->submit(bed.engine, cmd, &client->ticket);
}

static void leave(struct client *consumer)
{
    bed.engine->verbs->cancel(bed.engine, &consumer->ticket);
    consumer->waits = false;
    life.disturbed = ++life.now;
    life.left = life.due = true;
}

static void ask_reserve(struct client *consumer, unsigned topics)
{
    static const struct bytes both[2] = {{"t", 1}, {"u", 1}};
    consumer->topics = topics;
    struct cmd cmd = {.kind = CMD_RESERVE,
                      .reserve = {.topics = consumer->topics == U ? both + 1 : both,
                                  .topic_count = consumer->topics == (T | U) ? 2 : 1,
                                  .max = chance(500) ? 1 : 1 + below(MAX_MAX),
                                  .wait_us = chance(300) ? 0 : 1000000 * HOUR_US,
                                  .ttr_us = 1000000 * HOUR_US}};
    submit(consumer, &cmd, reserved);
}

static void ask_push(void)
{
    static const int64_t none[1];
    char id[32], body[40];
    unsigned number = life.pusher.number = life.pushed++;
    (void)snprintf(body, sizeof(body), "body of %u", number);
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = id_of(number, id),
                               .topic = topic_of(number) == T ? BYTES("t") : BYTES("u"),
                               .due_us = due_of(number) - 1000 * HOUR_US,
                               .ttr_us = 60 * SECOND_US,
                               .priority = number % 4,
                               .body = bytes_str(body),
                               .retry_us = none}};
    know(number, PUSHED);
    submit(&life.pusher, &cmd, pushed);
}

/* A job that is known to be so; NUMBERS_MAX: none was met. */
static unsigned find(enum known known)
{
    for (unsigned i = 0; i < 8; i++) {
        unsigned number = below(life.pushed);
        if (life.jobs[number] == known)
            return number;
    }
    return NUMBERS_MAX;
}

static void ask_delete(void)
{
    char id[32];
    unsigned number = chance(700) ? first_ready_now(1 + below(3)) : find(LIVES);
    struct cmd cmd = {.kind = CMD_DELETE, .job.if_free = true};
    if (number == NUMBERS_MAX)
        return;
    cmd.job.ref.id = id_of(number, id);
    life.deleter.number = number;
    submit(&life.deleter, &cmd, deleted);
}

static void ask_held(void)
{
    unsigned number = find(HELD);
    struct cmd cmd = {.kind = chance(500) ? CMD_FINISH : CMD_RELEASE,
                      .job.why = RELEASE_UNDELIVERED};
    if (number == NUMBERS_MAX)
        return;
    cmd.job.ref.seq = life.seqs[number];
    life.holder.number = number;
    submit(&life.holder, &cmd, left);
}

static struct cmd on_topic(enum cmd_kind kind, unsigned topic)
{
    return (struct cmd){.kind = kind,
                        .topic = {.topic = topic == T ? BYTES("t") : BYTES("u"),
                                  .state = JOB_READY,
                                  .max = 1 + below(MAX_MAX)}};
}

static void ask_look(void)
{
    life.looker.topics = 1 + below(2);
    struct cmd cmd = on_topic(CMD_PEEK, life.looker.topics);
    submit(&life.looker, &cmd, looked);
}

static void ask_quiet(void)
{
    static const enum cmd_kind kinds[] = {CMD_PAUSE, CMD_RESUME, CMD_LIST, CMD_GET};
    unsigned which = below(4);
    char id[32];
    struct cmd cmd = on_topic(kinds[which], 1 + below(2));
    if (life.quiet[which].waits)
        return;
    if (kinds[which] == CMD_PAUSE) {
        cmd.topic.pause_until_us = bed.loop.now_us + 1 + below(50000);
        for (unsigned topic = T; topic <= U; topic++)
            if (life.paused_us[topic] < cmd.topic.pause_until_us)
                life.paused_us[topic] = cmd.topic.pause_until_us;
    }
    if (kinds[which] == CMD_GET)
        cmd = (struct cmd){.kind = CMD_GET, .job.ref.id = id_of(below(life.pushed), id)};
    submit(&life.quiet[which], &cmd, any_answer);
}

/* The log grows, and its cleaner takes jobs out of memory. */
static void ask_filler(void)
{
    static char body[60000];
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = BYTES("filler"),
                               .topic = BYTES("f"),
                               .due_us = bed.loop.now_us,
                               .ttr_us = SECOND_US,
                               .if_exists = IF_EXISTS_REPLACE,
                               .body = bytes_of(body, sizeof(body))}};
    submit(&life.filler, &cmd, any_answer);
}

static void ask_something(void)
{
    struct client *consumer = &life.consumers[below(CONSUMERS)];
    unsigned dice = below(100);
    if (dice < 35 && !consumer->waits)
        ask_reserve(consumer, 1 + below(3));
    else if (dice < 45 && consumer->waits)
        leave(consumer);
    else if (dice < 55 && !life.pusher.waits && life.pushed < NUMBERS_MAX)
        ask_push();
    else if (dice < 65 && !life.deleter.waits)
        ask_delete();
    else if (dice < 75 && !life.holder.waits)
        ask_held();
    else if (dice < 85 && !life.looker.waits)
        ask_look();
    else if (dice < 92)
        ask_quiet();
    else if (!life.filler.waits)
        ask_filler();
}

/* ---- the loop ---- */

static void one_turn(unsigned commands)
{
    bool reads = sim_disk_waiting(bed.disk, LANE_READ) > 0;
    life.due = false;
    life.budget.left_ns = chance(500) ? BUDGET_UNLIMITED : (int64_t)below(40000);
    bed.engine->verbs->begin(bed.engine);
    for (unsigned i = 0; i < commands; i++)
        ask_something();
    bed.engine->verbs->match(bed.engine);
    if (chance(100))
        life.budget.left_ns = 0; /* others had it */
    life.due = false;
    life.wake_us = bed.engine->verbs->end(bed.engine);
    if (life.left)
        life.disturbed = ++life.now;
    life.left = life.left && reads;
}

static bool disk_does_something(void)
{
    static const enum disk_lane lanes[] = {LANE_COMMIT, LANE_BACKGROUND, LANE_READ};
    unsigned first = below(3);
    bool done = false;
    for (unsigned i = 0; i < 3 && !done; i++)
        done = sim_disk_step(bed.disk, lanes[(first + i) % 3]);
    life.due |= done;
    return done;
}

static void live_on(void)
{
    unsigned commands = chance(400) ? 1 + below(3) : 0;
    for (unsigned i = below(6); i > 0; i--)
        (void)disk_does_something();
    if (commands || life.due || life.wake_us <= bed.loop.now_us)
        one_turn(commands);
    bed.loop.now_us += below(chance(50) ? 3000 : 100);
}

/* Nothing is asked any more: all that goes on by itself does so, for this time. */
static void settle(int64_t time_us)
{
    int64_t end_us = bed.loop.now_us + time_us;
    for (unsigned i = 0;; i++) {
        assert_true(i < 100 * TURNS_MAX);
        bool done = disk_does_something();
        if (life.due || life.wake_us <= bed.loop.now_us)
            one_turn(0);
        else if (!done && life.wake_us <= end_us)
            bed.loop.now_us = life.wake_us;
        else if (!done)
            break;
        bed.loop.now_us += 10;
    }
}

/* P2: it gets what is there, even if nothing else happens. */
static void nobody_waits_in_vain(void)
{
    settle(SECOND_US);
    for (unsigned i = 0; i < CONSUMERS && !life.failing; i++)
        if (life.consumers[i].waits)
            assert_int_equal(first_ready_now(life.consumers[i].topics), NUMBERS_MAX);
    assert_false(life.pusher.waits || life.deleter.waits || life.holder.waits ||
                 life.looker.waits || life.filler.waits);
    core_valid(bed.embedded->core);
}

static void fail_slice(void *ctx, const char *name)
{
    uint64_t bytes;
    (void)ctx;
    if (strncmp(name, "slice-", 6) != 0 || !sim_disk_file(bed.disk, name, &bytes) || bytes <= 4096)
        return; /* of the others the last one, or the one before it */
    if (chance(300))
        return;
    uint64_t start = 4096 + sim_random_below(&life.random, bytes - 4096);
    sim_disk_bad(bed.disk, name, start, start + 1 + below(4096));
}

static void begin_faults(void)
{
    struct disk *disk = sim_disk_port(bed.disk);
    life.failing = true;
    assert_int_equal(disk->verbs->list(disk, fail_slice, NULL), OK);
}

/* What could not be read is tried again later. */
static void end_faults(void)
{
    sim_disk_bad(bed.disk, "", 0, 0);
    settle(HOUR_US);
    life.failing = false;
}

static void all_leave(void)
{
    for (unsigned i = 0; i < CONSUMERS; i++)
        if (life.consumers[i].waits)
            leave(&life.consumers[i]);
    nobody_waits_in_vain();
}

static void open_again(void)
{
    all_leave();
    restart();
    bed.engine->verbs->use_budget(bed.engine, &life.budget);
    life.due = true;
}

/* What is there comes, and nothing else. */
static void drain(void)
{
    struct client *consumer = &life.consumers[0];
    unsigned held = 0;
    end_faults();
    all_leave();
    while (first_ready_now(T | U) != NUMBERS_MAX) {
        unsigned delivered = life.delivered;
        bed.engine->verbs->begin(bed.engine);
        ask_reserve(consumer, T | U);
        settle(SECOND_US);
        assert_true(life.delivered > delivered && !consumer->waits);
    }
    for (unsigned number = 0; number < life.pushed; number++) {
        assert_true(life.jobs[number] == HELD || life.jobs[number] == ENDED);
        held += life.jobs[number] == HELD;
    }
    assert_int_equal(totals().jobs[JOB_RESERVED], held);
    assert_true(totals().jobs[JOB_READY] <= 1); /* the filler */
}

/* ---- lives ---- */

static void live(uint64_t seed)
{
    memset(&bed, 0, sizeof(bed));
    memset(&life, 0, sizeof(life));
    life.random.state = life.seed = seed;
    life.faulty = chance(300);
    bed.readies = true;
    bed.ready_stay = chance(500) ? 0 : below(50);
    fill(chance(700));
    for (life.pushed = 0; life.pushed < JOBS; life.pushed++)
        know(life.pushed, LIVES);
    sim_disk_shuffle_reads(bed.disk, chance(500) ? sim_random_next(&life.random) : 0);
    bed.engine->verbs->use_budget(bed.engine, &life.budget);
    life.due = true;
    for (unsigned step = 0; step < STEPS; step++) {
        live_on();
        if (chance(10))
            nobody_waits_in_vain();
        if (life.faulty && chance(10))
            life.failing ? end_faults() : begin_faults();
        if (chance(3) && !life.failing)
            open_again();
    }
    drain();
    assert_int_equal(teardown(NULL), 0);
    life.seed = 0;
}

static void say_seed(int signal)
{
    (void)fprintf(stderr,
                  "run it alone: SIM_SEED=%llu build/test/engine/embedded_front_life_test\n",
                  (unsigned long long)life.seed);
    (void)signal;
}

static int say_failed_seed(void **state)
{
    (void)state;
    if (life.seed)
        say_seed(0);
    return 0;
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void whoever_waits_gets_each_job_once(void **state)
{
    (void)state;
    uint64_t alone = number_of("SIM_SEED", 0);
    uint64_t seeds = number_of("SIM_SEEDS", sim_lives(SEEDS));
    if (alone)
        live(alone);
    for (uint64_t seed = 1; !alone && seed <= seeds; seed++)
        live(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(whoever_waits_gets_each_job_once, say_failed_seed)};
    log_level_set((enum log_level)(LOG_ERROR + 1)); /* broken disks are not news here */
    (void)signal(SIGABRT, say_seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
