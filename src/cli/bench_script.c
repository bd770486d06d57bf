#include "cli/bench.h"

#include "cli/text.h"

static struct bench *bench_of(struct load_script *script)
{
    return (struct bench *)(void *)script; /* its first member */
}

static void tell(struct load_script *script, struct load *load)
{
    struct bench *bench = bench_of(script);
    if (!bench->progress || load->now_us - bench->told_us < 500000)
        return;
    char done[TEXT_ROOM], of[TEXT_ROOM];
    bench->told_us = load->now_us;
    (void)fprintf(stderr, "\r%s: %s of %s \x1b[K", bench->phase,
                  count_text(bench->answered + bench->finished, done),
                  count_text(bench->target, of));
}

/* Counts an answer that is no success; the dialect says so with "code":1 and status 200. */
static bool good(struct bench *bench, const struct load_answer *answer)
{
    bool refused = answer->status > 299;
    if (bench->options.dialect == SPEAK_DELAY_QUEUE)
        refused = refused || memmem(answer->body.at, answer->body.len, "\"code\":1", 8);
    if (!refused)
        return true;
    if (bench->refused++ == 0)
        bench->first_refusal = answer->status;
    return false;
}

static void ask_push(struct bench *bench, struct load *load, struct load_conn *conn)
{
    if (bench->asked >= bench->target)
        return;
    bench_add_push(bench, bench->asked++, &conn->out);
    load_asked(load, conn, LOAD_PUSH);
}

static void ask_reserve(struct bench *bench, struct load *load, struct load_conn *conn)
{
    bench_add_reserve(bench, &conn->out);
    load_asked(load, conn, LOAD_RESERVE);
}

/* put and cycle start alike: a push in each lane of a connection. */
static void begin_pushes(struct load_script *script, struct load *load, struct load_conn *conn)
{
    struct bench *bench = bench_of(script);
    for (uint32_t i = 0; i < bench->options.depth; i++)
        ask_push(bench, load, conn);
}

static void put_answer(struct load_script *script, struct load *load, struct load_conn *conn,
                       const struct load_answer *answer)
{
    struct bench *bench = bench_of(script);
    (void)good(bench, answer); /* counted; the next push may fare better */
    load->done = ++bench->answered == bench->target;
    ask_push(bench, load, conn);
}

void bench_script_put(struct bench *bench)
{
    bench->script = (struct load_script){.begin = begin_pushes, .answer = put_answer, .tick = tell};
}

/*
 * cycle: each lane pushes, reserves and finishes in turn. A reserve never waits for long: a lane
 * asks only after its own push was answered, so there are as many ready jobs as askers.
 */
static void cycle_answer(struct load_script *script, struct load *load, struct load_conn *conn,
                         const struct load_answer *answer)
{
    struct bench *bench = bench_of(script);
    struct bytes rest = answer->body, id, lease;
    bool fine = good(bench, answer);
    if (answer->kind == LOAD_PUSH && fine) {
        ask_reserve(bench, load, conn);
        return;
    }
    if (answer->kind == LOAD_RESERVE && fine) {
        if (bench_next_job(&rest, &id, &lease)) {
            bench_add_finish(bench, id, lease, &conn->out);
            load_asked(load, conn, LOAD_FINISH);
        } else {
            bench->empty++;
            ask_reserve(bench, load, conn);
        }
        return;
    }
    /* Finished, or refused: in both cases this lane's turn is over. */
    load->done = ++bench->answered == bench->target;
    ask_push(bench, load, conn);
}

void bench_script_cycle(struct bench *bench)
{
    bench->script =
        (struct load_script){.begin = begin_pushes, .answer = cycle_answer, .tick = tell};
}

/* A job of DUE or BURST has come: on time, late, early, twice? */
static void received(struct bench *bench, struct bytes id, int64_t now_us)
{
    uint64_t number;
    if (!bench_number_of(bench, id, &number)) {
        bench->foreign++;
        return;
    }
    if (bench->seen[number]) {
        bench->twice++;
        return;
    }
    int64_t late_us = now_us - bench_due_us(bench, number);
    bench->seen[number] = 1;
    if (bench->received++ == 0)
        bench->first_us = now_us - bench->base_us;
    bench->last_us = now_us - bench->base_us;
    bench->early += late_us < 0;
    histogram_add(bench->lateness, late_us);
}

static void begin_drain(struct load_script *script, struct load *load, struct load_conn *conn)
{
    ask_reserve(bench_of(script), load, conn);
}

/* A consumer finishes what it got and asks for more, in one write. */
static void drain_answer(struct load_script *script, struct load *load, struct load_conn *conn,
                         const struct load_answer *answer)
{
    struct bench *bench = bench_of(script);
    struct bytes rest = answer->body, id, lease;
    bool fine = good(bench, answer);
    if (answer->kind == LOAD_FINISH) {
        bench->finished += fine;
        load->done = bench->finished + bench->refused >= bench->target;
        return;
    }
    while (fine && bench_next_job(&rest, &id, &lease)) {
        received(bench, id, answer->now_us);
        bench_add_finish(bench, id, lease, &conn->out);
        load_asked(load, conn, LOAD_FINISH);
    }
    bench->empty += answer->status == 204;
    if (bench->received < bench->target)
        ask_reserve(bench, load, conn);
}

void bench_script_drain(struct bench *bench)
{
    bench->script =
        (struct load_script){.begin = begin_drain, .answer = drain_answer, .tick = tell};
}

/* idle: each connection has one reserve parked, again and again, until the time is over. */
static void idle_answer(struct load_script *script, struct load *load, struct load_conn *conn,
                        const struct load_answer *answer)
{
    struct bench *bench = bench_of(script);
    (void)good(bench, answer); /* counted */
    bench->empty++;
    ask_reserve(bench, load, conn);
}

void bench_script_idle(struct bench *bench)
{
    bench->script = (struct load_script){.begin = begin_drain, .answer = idle_answer, .tick = tell};
}
