#include "cli/bench/bench.h"

enum {
    MARK_DIGITS = 6,
    DUE_DIGITS = 13,           /* epoch milliseconds, until the year 2286 */
    FAR_MS = 24 * 3600 * 1000, /* a far due time: nobody waits for it */
    TTR_MS = 60 * 1000,
    WAIT_MS = 30 * 1000,
};

/* Writes `number` at `at`, `width` digits with zeros in front. */
static void put_digits(char *at, unsigned width, uint64_t number)
{
    while (width > 0) {
        at[--width] = (char)('0' + number % 10);
        number /= 10;
    }
}

static void add_head(struct buf *out, const char *target, const char *authority, size_t length)
{
    buf_addf(out,
             "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n",
             target, authority, length);
}

/* Has each push a due time of its own? */
static bool is_dated(const struct bench_options *options)
{
    return bench_timed(options) || options->within_us > 0;
}

/* The body of a push; its id and due places count from its own start, 0 = none. */
static void push_json(const struct bench *bench, struct form *json)
{
    const struct bench_options *options = &bench->options;
    bool dated = is_dated(options);
    bool far = options->scenario == BENCH_PUT || options->scenario == BENCH_CANCEL;
    buf_add_str(&json->text, "{");
    if (options->id_bytes > 0) {
        buf_add_str(&json->text, "\"id\":\"");
        json->id_at = json->text.len;
        buf_addf(&json->text, "%06x-", bench->mark);
        for (uint32_t i = MARK_DIGITS + 1; i < options->id_bytes; i++)
            buf_add_char(&json->text, '0');
        buf_add_str(&json->text, "\",");
    }
    if (options->dialect == SPEAK_DELAY_QUEUE) {
        buf_addf(&json->text, "\"topic\":\"%s\",\"delay\":%d,\"ttr\":%d,", options->topic,
                 far ? FAR_MS / 1000 : 1, TTR_MS / 1000);
    } else if (dated) {
        buf_add_str(&json->text, "\"due\":");
        json->due_at = json->text.len;
        buf_addf(&json->text, "%0*d,\"ttr\":%d,", DUE_DIGITS, 0, TTR_MS);
    } else {
        buf_addf(&json->text, "\"delay\":%d,\"ttr\":%d,", far ? FAR_MS : 0, TTR_MS);
    }
    buf_add_str(&json->text, "\"body\":\"");
    for (uint32_t i = 0; i < options->body_bytes; i++)
        buf_add_char(&json->text, (char)('a' + i % 26));
    buf_add_str(&json->text, "\"}");
}

static void push_form(struct bench *bench, const char *authority)
{
    struct form json = {0};
    char target[128];
    push_json(bench, &json);
    (void)snprintf(target, sizeof(target),
                   bench->options.dialect == SPEAK_V1 ? "/v1/topics/%s/jobs" : "/push",
                   bench->options.topic); /* it fits */
    add_head(&bench->push.text, target, authority, json.text.len);
    bench->push.id_at = json.id_at ? bench->push.text.len + json.id_at : 0;
    bench->push.due_at = json.due_at ? bench->push.text.len + json.due_at : 0;
    buf_add_bytes(&bench->push.text, buf_bytes(&json.text));
    buf_fini(&json.text);
}

/* v1 alone has it. The id stands in the path, as long as in a push. */
static void cancel_form(struct bench *bench, const char *authority)
{
    struct form *form = &bench->cancel;
    const struct form *push = &bench->push;
    buf_add_str(&form->text, "DELETE /v1/jobs/");
    form->id_at = form->text.len;
    buf_add(&form->text, push->text.at + push->id_at, bench->options.id_bytes);
    buf_addf(&form->text, " HTTP/1.1\r\nHost: %s\r\n\r\n", authority);
}

void bench_forms(struct bench *bench, const char *authority)
{
    const struct bench_options *options = &bench->options;
    struct buf json = {0};
    bool v1 = options->dialect == SPEAK_V1;
    if (options->dialect == SPEAK_BEANSTALK) {
        bench_forms_beanstalk(bench);
        return;
    }
    push_form(bench, authority);
    if (options->scenario == BENCH_CANCEL)
        cancel_form(bench, authority);
    if (v1)
        buf_addf(&json, "{\"topics\":[\"%s\"],\"wait\":%d,\"max\":%u}", options->topic, WAIT_MS,
                 options->batch);
    else
        buf_addf(&json, "{\"topic\":\"%s\"}", options->topic);
    add_head(&bench->reserve.text, v1 ? "/v1/reserve" : "/pop", authority, json.len);
    buf_add_bytes(&bench->reserve.text, buf_bytes(&json));
    buf_fini(&json);
    buf_add_str(&bench->finish_before, v1 ? "POST /v1/jobs/" : "POST /finish HTTP/1.1\r\n");
    buf_addf(&bench->finish_after, "Host: %s\r\nContent-Type: application/json\r\n", authority);
}

void bench_forms_fini(struct bench *bench)
{
    buf_fini(&bench->push.text);
    buf_fini(&bench->reserve.text);
    buf_fini(&bench->cancel.text);
    buf_fini(&bench->finish_before);
    buf_fini(&bench->finish_after);
    buf_fini(&bench->hello);
    bench->push = bench->reserve = bench->cancel = (struct form){0};
}

/* The finalizer of SplitMix64 (Steele, Lea, Flood, 2014): the same number gives the same result. */
static uint64_t mixed(uint64_t number)
{
    number = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
    return number ^ number >> 31;
}

uint64_t bench_victim(const struct bench *bench, uint64_t turn)
{
    enum { STEP = 1610612741 }; /* a prime above the number of jobs: each is met once */
    const struct bench_options *options = &bench->options;
    uint64_t all = options->there ? options->there : bench->target;
    turn += options->skip;
    return options->random || options->there ? turn * STEP % all : turn;
}

int64_t bench_due_us(const struct bench *bench, uint64_t number)
{
    if (bench->options.scenario == BENCH_BURST)
        return bench->base_us;
    if (bench->options.within_us > 0)
        return bench->base_us + (int64_t)(mixed(number) % (uint64_t)bench->options.within_us);
    if (bench->due_us) /* whole seconds after each was sent */
        return bench->due_us[number];
    uint64_t after_ms = number * 1000 / bench->options.rate;
    return bench->base_us + (int64_t)after_ms * 1000;
}

/* Appends a form with the job's number in its id. */
static void add_form(const struct bench *bench, const struct form *form, uint64_t number,
                     struct buf *out)
{
    size_t start = out->len;
    buf_add_bytes(out, buf_bytes(&form->text));
    if (form->id_at)
        put_digits(out->at + start + form->id_at + MARK_DIGITS + 1,
                   bench->options.id_bytes - MARK_DIGITS - 1, number);
    if (form->due_at && bench->options.dialect == SPEAK_BEANSTALK)
        put_digits(out->at + start + form->due_at, BENCH_DELAY_DIGITS,
                   (uint64_t)(bench_due_us(bench, number) - bench->base_us) / 1000000);
    else if (form->due_at)
        put_digits(out->at + start + form->due_at, DUE_DIGITS,
                   (uint64_t)bench_due_us(bench, number) / 1000);
}

void bench_add_push(const struct bench *bench, uint64_t number, struct buf *out)
{
    add_form(bench, &bench->push, number, out);
}

void bench_add_cancel(const struct bench *bench, uint64_t number, struct buf *out)
{
    if (bench->options.dialect != SPEAK_BEANSTALK) {
        add_form(bench, &bench->cancel, number, out);
        return;
    }
    buf_add_bytes(out, buf_bytes(&bench->finish_before));
    buf_add_u64(out, bench->ids[number]);
    buf_add_bytes(out, buf_bytes(&bench->finish_after));
}

void bench_add_reserve(const struct bench *bench, struct buf *out)
{
    buf_add_bytes(out, buf_bytes(&bench->reserve.text));
}

void bench_add_finish(const struct bench *bench, const struct bench_job *job, struct buf *out)
{
    bool v1 = bench->options.dialect == SPEAK_V1;
    struct bytes key = v1 ? BYTES("{\"lease\":") : BYTES("{\"id\":\"");
    struct bytes end = v1 ? BYTES("}") : BYTES("\"}");
    struct bytes value = v1 ? job->lease : job->id;
    buf_add_bytes(out, buf_bytes(&bench->finish_before));
    if (bench->options.dialect == SPEAK_BEANSTALK) {
        buf_add_bytes(out, job->id);
        buf_add_bytes(out, buf_bytes(&bench->finish_after));
        return;
    }
    if (v1) {
        buf_add_bytes(out, job->id); /* ours or the server's own: nothing in it needs an escape */
        buf_add_bytes(out, BYTES("/finish HTTP/1.1\r\n"));
    }
    buf_add_bytes(out, buf_bytes(&bench->finish_after));
    if (value.len == 0) { /* the server gave no lease: none is needed */
        buf_add_bytes(out, BYTES("Content-Length: 0\r\n\r\n"));
        return;
    }
    buf_add_bytes(out, BYTES("Content-Length: "));
    buf_add_u64(out, key.len + value.len + end.len);
    buf_add_bytes(out, BYTES("\r\n\r\n"));
    buf_add_bytes(out, key);
    buf_add_bytes(out, value);
    buf_add_bytes(out, end);
}

/* What stands behind `key` in `text`, up to the first of `stops`. */
static bool after(struct bytes text, struct bytes key, const char *stops, struct bytes *out_value)
{
    const char *at = text.len ? memmem(text.at, text.len, key.at, key.len) : NULL;
    if (!at)
        return false;
    const char *value = at + key.len, *end = text.at + text.len, *stop = value;
    while (stop < end && *stop != stops[0] && *stop != stops[1])
        stop++;
    *out_value = bytes_of(value, (size_t)(stop - value));
    return stop < end;
}

bool bench_next_job(const struct bench *bench, struct load_answer *answer,
                    struct bench_job *out_job)
{
    static const char id_key[] = "\"id\":\"";
    struct bytes *rest = &answer->body;
    if (bench->options.dialect == SPEAK_BEANSTALK) { /* one job in an answer, if any */
        size_t name_len = bench->options.id_bytes;
        if (answer->id.len == 0)
            return false;
        *out_job = (struct bench_job){.id = answer->id, .name = *rest};
        if (out_job->name.len > name_len)
            out_job->name.len = name_len;
        answer->id = BYTES("");
        return true;
    }
    if (!after(*rest, BYTES(id_key), "\"\"", &out_job->id))
        return false;
    out_job->name = out_job->id;
    const char *end = rest->at + rest->len;
    *rest = bytes_of(out_job->id.at + out_job->id.len,
                     (size_t)(end - out_job->id.at) - out_job->id.len);
    /* The lease belongs to this job if it stands before the next job's id. */
    const char *next = memmem(rest->at, rest->len, id_key, sizeof(id_key) - 1);
    struct bytes here = bytes_of(rest->at, next ? (size_t)(next - rest->at) : rest->len);
    if (!after(here, BYTES("\"lease\":"), ",}", &out_job->lease))
        out_job->lease = BYTES("");
    return true;
}

bool bench_number_of(const struct bench *bench, struct bytes name, uint64_t *out_number)
{
    char mark[MARK_DIGITS + 2];
    (void)snprintf(mark, sizeof(mark), "%06x-", bench->mark & 0xffffff); /* it fits */
    if (name.len <= MARK_DIGITS + 1 || !bytes_starts(name, bytes_str(mark)))
        return false;
    size_t digits = name.len - MARK_DIGITS - 1, start = name.len - (digits > 18 ? 18 : digits);
    return bytes_to_u64(bytes_of(name.at + start, name.len - start), out_number) &&
           *out_number < bench->options.jobs;
}
