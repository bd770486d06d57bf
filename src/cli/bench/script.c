/*
 * What the connections say in each phase: a `begin`, and what follows each answer. A lane is one
 * request of a connection under way; a connection has `depth` of them.
 */
#include "cli/bench/bench.h"

#include "cli/text.h"
#include "proto/json.h"

static void show_progress(struct load_script *script, struct load *load)
{
    struct bench *bench = bench_of(script);
    if (!bench->progress || load->now_us - bench->printed_us < 500000)
        return;
    char done[TEXT_ROOM], of[TEXT_ROOM];
    bench->printed_us = load->now_us;
    (void)fprintf(stderr, "\r%s: %s of %s \x1b[K", bench->phase,
                  count_text(bench->answered + bench->finished, done),
                  count_text(bench->target, of));
}

/* Keeps what a refusal says: its first line and the code of the problem, or that the port is for
   another protocol. */
static void note_refusal(struct bench *bench, const struct load_answer *answer)
{
    bool of_other_port = bytes_starts(answer->body, BYTES("This is laterd's port for "));
    struct bytes why = of_other_port ? answer->body : answer->line;
    struct json_value code = json_find(answer->body, "code");
    bool coded = code.kind == JSON_KIND_STRING;
    struct buf text = {0};
    buf_add_bytes(&text, why);
    if (coded)
        buf_addf(&text, " (%.*s)", (int)code.text.len, code.text.at);
    (void)snprintf(bench->first_refusal, sizeof(bench->first_refusal), "%.*s", (int)text.len,
                   text.at ? text.at : ""); /* cut short: it is for people */
    buf_fini(&text);
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
        note_refusal(bench, answer);
    return false;
}

static void ask_push(struct bench *bench, struct load *load, struct load_conn *conn)
{
    if (bench->asked >= bench->target)
        return;
    bench_add_push(bench, bench->asked++, &conn->out);
    load_expect(load, conn, LOAD_PUSH);
}

static void ask_reserve(struct bench *bench, struct load *load, struct load_conn *conn)
{
    bench_add_reserve(bench, &conn->out);
    load_expect(load, conn, LOAD_RESERVE);
}

/* put and cycle start alike: a push in each lane of a connection. */
static void begin_pushes(struct load_script *script, struct load *load, struct load_conn *conn)
{
    struct bench *bench = bench_of(script);
    for (uint32_t i = 0; i < bench->options.depth; i++)
        ask_push(bench, load, conn);
}

static void keep_id(struct bench *bench, struct bytes id)
{
    if (bench->id_count < bench->options.jobs && bytes_to_u64(id, &bench->ids[bench->id_count]))
        bench->id_count++;
}

static void put_answer(struct load_script *script, struct load *load, struct load_conn *conn,
                       const struct load_answer *answer)
{
    struct bench *bench = bench_of(script);
    if (good(bench, answer) && bench->ids && answer->kind == LOAD_PUSH)
        keep_id(bench, answer->id);
    load->done = ++bench->answered == bench->target;
    ask_push(bench, load, conn);
}

void bench_script_put(struct bench *bench)
{
    bench->script =
        (struct load_script){.begin = begin_pushes, .answer = put_answer, .tick = show_progress};
}

/*
 * The puts of DUE in beanstalkd's protocol, which has whole seconds only: all have the same delay,
 * and are sent at the moments at which they are to fall due, so much earlier. The time noted is
 * taken before the put leaves, so no job is due before bench_due_us() has it.
 */
static void paced_wake(struct load_script *script, struct load *load)
{
    struct bench *bench = bench_of(script);
    int64_t next_us;
    for (;; bench->asked++) {
        next_us = bench->opens_us + (int64_t)(bench->asked * 1000000 / bench->options.rate);
        struct load_conn *conn = &load->conns[bench->asked % load->conn_count];
        if (bench->asked == bench->target || load_clock(load) < next_us || load->failed)
            break;
        if (!load_has_room(load, conn)) { /* the server is behind: so are we, then */
            next_us = load->now_us + 1000;
            break;
        }
        bench->due_us[bench->asked] = load->now_us + (int64_t)bench->delay_s * 1000000;
        bench_add_push(bench, bench->asked, &conn->out);
        load_expect(load, conn, LOAD_PUSH);
        load_flush(load, conn);
    }
    load->wake_us = bench->asked < bench->target ? next_us : INT64_MAX;
}

static void begin_paced(struct load_script *script, struct load *load, struct load_conn *conn)
{
    struct bench *bench = bench_of(script);
    (void)conn; /* the alarm comes at once, and speaks for all */
    bench->opens_us = load->wake_us = load->now_us;
}

static void paced_answer(struct load_script *script, struct load *load, struct load_conn *conn,
                         const struct load_answer *answer)
{
    struct bench *bench = bench_of(script);
    (void)conn;
    (void)good(bench, answer); /* counted */
    load->done = ++bench->answered == bench->target;
}

void bench_script_paced(struct bench *bench)
{
    bench->script = (struct load_script){
        .begin = begin_paced, .answer = paced_answer, .tick = show_progress, .wake = paced_wake};
}

/*
 * cycle: each lane pushes, reserves and finishes in turn. A reserve never waits for long: a lane
 * asks only after its own push was answered, so there are as many ready jobs as askers.
 */
static void cycle_answer(struct load_script *script, struct load *load, struct load_conn *conn,
                         const struct load_answer *answer)
{
    struct bench *bench = bench_of(script);
    struct load_answer rest = *answer;
    struct bench_job job;
    bool fine = good(bench, answer);
    if (answer->kind == LOAD_PUSH && fine) {
        ask_reserve(bench, load, conn);
        return;
    }
    if (answer->kind == LOAD_RESERVE && fine) {
        if (bench_next_job(bench, &rest, &job)) {
            bench_add_finish(bench, &job, &conn->out);
            load_expect(load, conn, LOAD_FINISH);
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
        (struct load_script){.begin = begin_pushes, .answer = cycle_answer, .tick = show_progress};
}

/* A job of DUE or BURST has come: on time, late, early, twice? */
static void received(struct bench *bench, struct bytes name, int64_t now_us)
{
    uint64_t number;
    if (!bench_number_of(bench, name, &number)) {
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
    if (-late_us > bench->earliest_us)
        bench->earliest_us = -late_us;
    histogram_add(bench->lateness, late_us);
}

static void begin_drain(struct load_script *script, struct load *load, struct load_conn *conn)
{
    struct bench *bench = bench_of(script);
    if (script->wake)
        load->wake_us = bench->opens_us;
    ask_reserve(bench, load, conn);
}

/* A consumer finishes what it got and asks for more, in one write. */
static void drain_answer(struct load_script *script, struct load *load, struct load_conn *conn,
                         const struct load_answer *answer)
{
    struct bench *bench = bench_of(script);
    struct load_answer rest = *answer;
    struct bench_job job;
    bool fine = good(bench, answer);
    if (answer->kind == LOAD_FINISH) {
        bench->finished += fine;
        load->done = bench->finished + bench->refused >= bench->target;
        return;
    }
    while (fine && bench_next_job(bench, &rest, &job)) {
        received(bench, job.name, answer->now_us);
        bench_add_finish(bench, &job, &conn->out);
        load_expect(load, conn, LOAD_FINISH);
    }
    bench->empty += answer->status == 204;
    if (bench->received < bench->target)
        ask_reserve(bench, load, conn);
}

void bench_script_drain(struct bench *bench, void (*wake)(struct load_script *, struct load *))
{
    bench->script = (struct load_script){
        .begin = begin_drain, .answer = drain_answer, .tick = show_progress, .wake = wake};
}

/* cancel: the jobs put before are deleted by id, in the order of the puts or in a random one. */
static void ask_cancel(struct bench *bench, struct load *load, struct load_conn *conn)
{
    if (bench->asked >= bench->target)
        return;
    bench_add_cancel(bench, bench_victim(bench, bench->asked++), &conn->out);
    load_expect(load, conn, LOAD_CANCEL);
}

static void begin_cancel(struct load_script *script, struct load *load, struct load_conn *conn)
{
    struct bench *bench = bench_of(script);
    for (uint32_t i = 0; i < bench->options.depth; i++)
        ask_cancel(bench, load, conn);
}

static void cancel_answer(struct load_script *script, struct load *load, struct load_conn *conn,
                          const struct load_answer *answer)
{
    struct bench *bench = bench_of(script);
    (void)good(bench, answer); /* counted */
    load->done = ++bench->answered == bench->target;
    ask_cancel(bench, load, conn);
}

void bench_script_cancel(struct bench *bench)
{
    bench->script =
        (struct load_script){.begin = begin_cancel, .answer = cancel_answer, .tick = show_progress};
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
    bench->script =
        (struct load_script){.begin = begin_drain, .answer = idle_answer, .tick = show_progress};
}

/* Says bench->hello; its lines are answered one by one. */
static void begin_hello(struct load_script *script, struct load *load, struct load_conn *conn)
{
    struct bench *bench = bench_of(script);
    buf_add_bytes(&conn->out, buf_bytes(&bench->hello));
    for (size_t i = 0; i < bench->hello.len; i++) {
        if (bench->hello.at[i] == '\n') {
            load_expect(load, conn, LOAD_SETUP);
            bench->target++;
        }
    }
}

static void begin_hello_once(struct load_script *script, struct load *load, struct load_conn *conn)
{
    if (conn == load->conns)
        begin_hello(script, load, conn);
}

static void hello_answer(struct load_script *script, struct load *load, struct load_conn *conn,
                         const struct load_answer *answer)
{
    struct bench *bench = bench_of(script);
    (void)conn;
    (void)good(bench, answer); /* counted */
    bench->nothing_kicked = bytes_eq(answer->line, BYTES("KICKED 0"));
    load->done = ++bench->answered == bench->target;
}

void bench_script_hello(struct bench *bench)
{
    bench->script =
        (struct load_script){.begin = begin_hello, .answer = hello_answer, .tick = show_progress};
}

void bench_script_hello_once(struct bench *bench)
{
    bench->script = (struct load_script){
        .begin = begin_hello_once, .answer = hello_answer, .tick = show_progress};
}

/* The target of clear is its lanes: each ends when it finds nothing. */
static void ask_any(struct load *load, struct load_conn *conn)
{
    buf_add_str(&conn->out, "reserve-with-timeout 0\r\n");
    load_expect(load, conn, LOAD_SETUP);
}

static void begin_clear(struct load_script *script, struct load *load, struct load_conn *conn)
{
    struct bench *bench = bench_of(script);
    for (uint32_t i = 0; i < bench->options.depth; i++, bench->target++)
        ask_any(load, conn);
}

static void clear_answer(struct load_script *script, struct load *load, struct load_conn *conn,
                         const struct load_answer *answer)
{
    struct bench *bench = bench_of(script);
    struct load_answer rest = *answer;
    struct bench_job job;
    if (bench_next_job(bench, &rest, &job)) {
        bench_add_finish(bench, &job, &conn->out);
        load_expect(load, conn, LOAD_SETUP);
    } else if (answer->status == 204 || !good(bench, answer)) {
        load->done = ++bench->answered == bench->target;
    } else {
        ask_any(load, conn); /* DELETED */
    }
}

void bench_script_clear(struct bench *bench)
{
    bench->script =
        (struct load_script){.begin = begin_clear, .answer = clear_answer, .tick = show_progress};
}
