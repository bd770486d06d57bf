/*
 * The requests of later bench in beanstalkd's protocol. Every job of a run is put with the same
 * line: one delay unless --within says else, one priority, one ttr. The server makes the ids, so
 * what tells our jobs apart is in the body: it begins with the run's mark and the job's number
 * where jobs are timed.
 */
#include "cli/bench/bench.h"

enum { TTR_S = 60 };

void bench_forms_beanstalk(struct bench *bench)
{
    const struct bench_options *options = &bench->options;
    struct buf *push = &bench->push.text;
    buf_add_str(push, "put 0 ");
    bench->push.due_at = options->within_us ? push->len : 0;
    buf_addf(push, "%0*u", options->within_us ? BENCH_DELAY_DIGITS : 1, bench->delay_s);
    buf_addf(push, " %d %u\r\n", TTR_S, options->body_bytes);
    uint32_t used = 0;
    if (bench_timed(options)) {
        bench->push.id_at = push->len;
        buf_addf(push, "%06x-", bench->mark);
        for (used = 7; used < options->id_bytes; used++)
            buf_add_char(push, '0');
    }
    for (; used < options->body_bytes; used++)
        buf_add_char(push, (char)('a' + used % 26));
    buf_add_str(push, "\r\n");
    buf_add_str(&bench->reserve.text, "reserve\r\n");
    buf_add_str(&bench->finish_before, "delete ");
    buf_add_str(&bench->finish_after, "\r\n");
    buf_addf(&bench->hello, "use %s\r\nwatch %s\r\nignore default\r\n", options->topic,
             options->topic);
}
