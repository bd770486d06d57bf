/*
 * The pipeline by itself, with a protocol made up: answers may come in any order, and leave in that
 * of the requests, whatever their lengths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/pipeline.h"
#include "sim/random.h"

enum { MODEL_STEPS = 20000, MODEL_PENDING = 12, LONG_BYTES = 6000 };

struct fake_request {
    struct pending pending;
    unsigned number;
};

/* A server with one connection, whose stream takes nothing and counts calls for more. */
struct bed {
    struct server server;
    struct stream stream;
    struct pipeline pipeline;
    struct fake_request *requests[MODEL_PENDING]; /* not answered, in no order */
    unsigned count;
    unsigned next;      /* number of the next request */
    unsigned delivered; /* in the right order so far */
    unsigned resumed;
    unsigned abandoned;
    size_t unsent;
};

static struct bed *bed_of(const struct stream *stream)
{
    return LIST_ENTRY(stream, struct bed, stream);
}

static struct bed *bed_of_pipeline(struct pipeline *pipeline)
{
    return LIST_ENTRY(pipeline, struct bed, pipeline);
}

static void count_resume(struct stream *stream)
{
    bed_of(stream)->resumed++;
}

static size_t set_unsent(const struct stream *stream)
{
    return bed_of(stream)->unsent;
}

static const struct stream_verbs stream_verbs = {.resume = count_resume, .unsent = set_unsent};

static struct fake_request *add_request(struct bed *bed)
{
    struct fake_request *request = calloc(1, sizeof(*request));
    assert_non_null(request);
    request->number = bed->next++;
    pipeline_add(&bed->pipeline, &request->pending);
    return request;
}

static struct pending *add_answered(struct pipeline *pipeline)
{
    struct bed *bed = bed_of_pipeline(pipeline);
    return &add_request(bed)->pending;
}

static void delivered(struct pending *pending)
{
    struct bed *bed = bed_of_pipeline(pending->pipeline);
    assert_int_equal(((struct fake_request *)pending)->number, bed->delivered);
    bed->delivered++;
}

static void abandon(struct pending *pending)
{
    bed_of_pipeline(pending->pipeline)->abandoned++;
}

static void end_wait(struct pending *pending)
{
    struct pipeline *pipeline = pending->pipeline;
    pipeline_abandon(pending);
    pipeline_stop(pipeline);
}

static void free_request(struct pending *pending)
{
    free(pending);
}

/* Each byte is a request; 'p' is parked, 'x' ends the input. */
static bool feed(struct pipeline *pipeline, struct bytes bytes, size_t *used)
{
    struct bed *bed = bed_of_pipeline(pipeline);
    ++*used;
    struct fake_request *request = add_request(bed);
    bed->requests[bed->count++ % MODEL_PENDING] = request;
    if (*bytes.at == 'p')
        request->pending.state = PENDING_PARKED;
    if (*bytes.at == 'x')
        pipeline_stop(pipeline);
    return true;
}

static const struct pipeline_kind kind = {
    .feed = feed,
    .add = add_answered,
    .delivered = delivered,
    .end_wait = end_wait,
    .abandon = abandon,
    .free = free_request,
};

static void open_bed(struct bed *bed)
{
    static struct loop loop;
    *bed = (struct bed){.stream.verbs = &stream_verbs,
                        .server = {.loop = &loop, .budget.left_ns = BUDGET_UNLIMITED}};
    buffers_init(&bed->server.buffers, UINT64_MAX);
    list_init(&bed->server.dirty);
    struct session *session = &bed->pipeline.session;
    session->server = &bed->server;
    session->stream = &bed->stream;
    session->kind = &kind.session;
    list_init(&session->dirty);
    list_init(&session->changed);
    list_init(&session->of_size);
    pipeline_init(&bed->pipeline);
}

static void close_bed(struct bed *bed)
{
    pipeline_fini(&bed->pipeline);
    buf_fini(&bed->pipeline.session.out);
}

static void write_answer(struct buf *out, unsigned number, size_t len)
{
    size_t before = out->len;
    buf_addf(out, "<%u", number);
    while (out->len - before < len)
        buf_add_char(out, '.');
    buf_add_char(out, '>');
}

static void answer(struct fake_request *request, size_t len)
{
    struct buf text = {0};
    if (len > LONG_BYTES / 2) {
        write_answer(&text, request->number, len);
        pipeline_end_long(&request->pending, &text);
        buf_fini(&text);
        return;
    }
    struct pipeline_text at = pipeline_begin(&request->pending);
    write_answer(at.out, request->number, len);
    pipeline_end(&request->pending, at);
}

/* Takes the answers from `out`: each is whole, and follows the one before it. */
static void read_out(struct bed *bed, unsigned *read)
{
    struct buf *out = &bed->pipeline.session.out;
    for (size_t at = 0; at < out->len;) {
        char want[16];
        size_t len = (size_t)snprintf(want, sizeof(want), "<%u", *read);
        assert_true(out->len - at > len);
        assert_memory_equal(out->at + at, want, len);
        const char *end = memchr(out->at + at, '>', out->len - at);
        assert_non_null(end);
        at = (size_t)(end - out->at) + 1;
        ++*read;
    }
    out->len = 0;
}

static unsigned read_out_count(struct bed *bed, unsigned *read)
{
    unsigned before = *read;
    read_out(bed, read);
    return *read - before;
}

static void answers_leave_in_the_order_of_requests(void **state)
{
    struct bed bed;
    struct sim_random random = {.state = 11};
    unsigned read = 0;
    (void)state;
    open_bed(&bed);
    for (int step = 0; step < MODEL_STEPS; step++) {
        size_t len = sim_random_below(&random, 4) ? sim_random_below(&random, 20) : LONG_BYTES;
        if (bed.count < MODEL_PENDING && sim_random_below(&random, 2)) {
            bed.requests[bed.count++] = add_request(&bed);
        } else if (sim_random_below(&random, 4) == 0) {
            struct pipeline_text text = pipeline_begin_now(&bed.pipeline);
            bool first = text.out == &bed.pipeline.session.out;
            write_answer(text.out, bed.next, len);
            bed.next += first; /* it is numbered when it is added */
            bed.delivered += first;
            pipeline_end_now(&bed.pipeline, text);
        } else if (bed.count) {
            unsigned which = (unsigned)sim_random_below(&random, bed.count);
            struct fake_request *request = bed.requests[which];
            bed.requests[which] = bed.requests[--bed.count];
            answer(request, len);
        }
        pipeline_valid(&bed.pipeline);
        if (sim_random_below(&random, 3) == 0)
            read_out(&bed, &read);
        assert_int_equal(bed.pipeline.count == 0, bed.count == 0);
    }
    while (bed.count)
        answer(bed.requests[--bed.count], 3);
    read_out(&bed, &read);
    assert_int_equal(read, bed.next);
    assert_int_equal(read, bed.delivered);
    assert_int_equal(pipeline_footprint(&bed.pipeline), bed.pipeline.buffered.cap);
    close_bed(&bed);
}

static size_t send_in(struct bed *bed, const char *text)
{
    server_begin_visit(&bed->server);
    return pipeline_input(&bed->pipeline.session, bytes_str(text));
}

static void nothing_behind_a_parked_request_is_read(void **state)
{
    struct bed bed;
    (void)state;
    open_bed(&bed);
    assert_int_equal(send_in(&bed, "rprr"), 2);
    assert_true(bed.pipeline.unread);
    answer(bed.requests[0], 1);
    assert_int_equal(bed.resumed, 0);
    answer(bed.requests[1], 1);
    assert_int_equal(bed.resumed, 1); /* read on, once */
    bed.count = 0;
    assert_int_equal(send_in(&bed, "rr"), 2);
    answer(bed.requests[0], 1);
    answer(bed.requests[1], 1);
    assert_int_equal(bed.resumed, 1); /* nothing is left to be read */
    close_bed(&bed);
}

static void a_client_that_has_left_waits_for_nothing(void **state)
{
    struct bed bed;
    (void)state;
    open_bed(&bed);
    assert_int_equal(send_in(&bed, "rp"), 2);
    pipeline_leaving(&bed.pipeline.session);
    assert_int_equal(bed.abandoned, 1);
    assert_int_equal(bed.pipeline.session.state, SESSION_FINISHING_LEFT);
    answer(bed.requests[0], 1);
    assert_int_equal(bed.pipeline.session.state, SESSION_CLOSING);
    close_bed(&bed);

    /* As well if the wait was its last request before it left, or comes after. */
    open_bed(&bed);
    pipeline_leaving(&bed.pipeline.session);
    assert_int_equal(send_in(&bed, "p"), 1);
    assert_int_equal(bed.abandoned, 1);
    assert_int_equal(bed.pipeline.session.state, SESSION_CLOSING);
    close_bed(&bed);
    open_bed(&bed);
    assert_int_equal(send_in(&bed, "p"), 1);
    pipeline_stop(&bed.pipeline);
    pipeline_ended(&bed.pipeline.session);
    assert_int_equal(bed.abandoned, 1);
    assert_int_equal(bed.pipeline.session.state, SESSION_CLOSING);
    close_bed(&bed);
}

static void what_was_sent_before_the_end_is_done(void **state)
{
    struct bed bed;
    (void)state;
    open_bed(&bed);
    bed.unsent = PIPELINE_WAITING_MAX_BYTES;
    assert_int_equal(send_in(&bed, "rr"), 0);
    pipeline_ended(&bed.pipeline.session);
    assert_int_equal(bed.pipeline.session.state, SESSION_ENDED);
    bed.unsent = 0;
    pipeline_drained(&bed.pipeline.session);
    assert_int_equal(bed.resumed, 1);
    assert_int_equal(send_in(&bed, "rr"), 2);
    assert_int_equal(bed.pipeline.session.state, SESSION_FINISHING_LEFT);
    answer(bed.requests[1], 1);
    assert_int_equal(bed.pipeline.session.state, SESSION_FINISHING_LEFT);
    answer(bed.requests[0], 1);
    assert_int_equal(bed.pipeline.session.state, SESSION_CLOSING);
    close_bed(&bed);
}

/* P8: what an answer takes counts, not only what is written into it. */
static void p8_all_memory_of_answers_that_wait_is_counted(void **state)
{
    struct bed bed;
    struct buf text = {0};
    unsigned read = 0;
    (void)state;
    open_bed(&bed);
    assert_int_equal(send_in(&bed, "rrr"), 3);
    for (int i = 1; i < 3; i++) {
        size_t before = pipeline_footprint(&bed.pipeline);
        write_answer(&text, (unsigned)i, LONG_BYTES);
        buf_reserve(&text, 8 * (size_t)LONG_BYTES);
        size_t cap = text.cap;
        pipeline_end_long(&bed.requests[i]->pending, &text);
        assert_int_equal(text.cap, 0); /* taken over */
        assert_int_equal(pipeline_footprint(&bed.pipeline), before + cap);
    }
    answer(bed.requests[0], 1); /* the first long one is copied behind it, as the next one is */
    assert_int_equal(bed.pipeline.working_bytes, 0);
    read_out(&bed, &read);
    assert_int_equal(read, 3);
    close_bed(&bed);
}

/* Copied behind others, an answer of many megabytes would make the turn long. */
static void a_long_answer_waits_until_all_before_it_was_taken(void **state)
{
    enum { MANY_BYTES = 1024 * 1024 };
    struct bed bed;
    struct buf texts[2] = {0};
    unsigned read = 0;
    (void)state;
    open_bed(&bed);
    struct buf *out = &bed.pipeline.session.out;
    assert_int_equal(send_in(&bed, "rrrr"), 4);
    answer(bed.requests[0], 1);
    for (unsigned i = 0; i < 2; i++) {
        write_answer(&texts[i], i + 1, MANY_BYTES);
        const char *memory = texts[i].at;
        bed.unsent = i; /* the one before it is in `out`, or in the stream */
        if (bed.unsent)
            assert_int_equal(read_out_count(&bed, &read), 1);
        pipeline_end_long(&bed.requests[i + 1]->pending, &texts[i]);
        pipeline_valid(&bed.pipeline);
        assert_int_equal(read_out_count(&bed, &read), !i); /* not the long one */
        bed.unsent = 0;
        pipeline_drained(&bed.pipeline.session);
        assert_ptr_equal(out->at, memory);
        pipeline_valid(&bed.pipeline);
    }
    pipeline_stop(&bed.pipeline);
    answer(bed.requests[3], 1);
    assert_int_equal(bed.pipeline.session.state, SESSION_CLOSING);
    assert_int_equal(read_out_count(&bed, &read), 2);
    assert_int_equal(bed.pipeline.working_bytes, 0);
    close_bed(&bed);
}

static void nothing_is_read_after_the_last_request(void **state)
{
    struct bed bed;
    (void)state;
    open_bed(&bed);
    assert_int_equal(send_in(&bed, "rxrrr"), 5); /* the rest is dropped */
    assert_int_equal(bed.pipeline.count, 2);
    close_bed(&bed);
    assert_int_equal(bed.abandoned, 2);
}

static void an_answer_is_written_into_the_memory_of_one_that_was_sent(void **state)
{
    (void)state;
    struct bed bed;
    open_bed(&bed);
    struct spare_outs *spares = &bed.server.spare_outs;
    buf_reserve(&spares->bufs[spares->count++], 4096);
    bed.server.buffers.bytes += spares->bufs[0].cap;
    const char *memory = spares->bufs[0].at;
    answer(add_request(&bed), 1000);
    assert_ptr_equal(bed.pipeline.session.out.at, memory);
    assert_int_equal(spares->count, 0);
    assert_int_equal(bed.server.buffers.bytes, 0);
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_leave_in_the_order_of_requests),
        cmocka_unit_test(nothing_behind_a_parked_request_is_read),
        cmocka_unit_test(a_client_that_has_left_waits_for_nothing),
        cmocka_unit_test(what_was_sent_before_the_end_is_done),
        cmocka_unit_test(p8_all_memory_of_answers_that_wait_is_counted),
        cmocka_unit_test(a_long_answer_waits_until_all_before_it_was_taken),
        cmocka_unit_test(nothing_is_read_after_the_last_request),
        cmocka_unit_test(an_answer_is_written_into_the_memory_of_one_that_was_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
