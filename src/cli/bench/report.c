/*
 * What a bench run has measured, for people and as one JSON line.
 */
#include "cli/bench/bench.h"

#include "cli/text.h"

enum { BUSY_PERCENT = 90 }; /* a generator above this share of a core was the bottleneck */

static const unsigned quantiles[] = {50000, 90000, 99000, 99900};
static const char *const quantile_names[] = {"p50", "p90", "p99", "p99.9"};
static const char *const dialects[] = {"v1", "delay-queue", "beanstalk"};
static const char *const kind_names[LOAD_KINDS] = {"push", "reserve", "finish", "cancel", "setup"};

/* How many operations the CPU is divided by, and the rate counts. */
static uint64_t operations(const struct bench *bench)
{
    return bench_timed(&bench->options) ? bench->received : bench->answered - bench->refused;
}

static double server_us(const struct bench *bench)
{
    return (double)(bench->after.cpu_us - bench->before.cpu_us);
}

static double percent_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* Kinds whose latency means something: a reserve that waits for a due time has none. */
static bool shown(const struct bench *bench, const struct load *load, unsigned kind)
{
    bool waits = bench_timed(&bench->options) || bench->options.scenario == BENCH_IDLE;
    return kind != LOAD_SETUP && load->latency[kind].count > 0 && !(waits && kind == LOAD_RESERVE);
}

static void add_quantiles(struct buf *out, const char *name, const struct histogram *histogram)
{
    char room[TEXT_ROOM];
    buf_addf(out, "  %-11s", name);
    for (unsigned i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
        buf_addf(out, "%s %s  ", quantile_names[i],
                 duration_text((int64_t)histogram_quantile(histogram, quantiles[i]), room));
    buf_addf(out, "max %s\n", duration_text((int64_t)histogram->max, room));
}

static void add_server(const struct bench *bench, struct buf *out)
{
    double each = (double)operations(bench), elapsed_us = (double)bench->elapsed_us;
    char room[TEXT_ROOM];
    if (bench->options.pid_count == 0)
        return;
    buf_addf(out, "  %-11s", "server");
    if (each > 0)
        buf_addf(out, "%.2f µs of CPU per operation, ", server_us(bench) / each);
    buf_addf(out, "%.1f %% of a core, %.1f sleeps a second, %s of memory\n",
             percent_of(server_us(bench), elapsed_us),
             (double)(bench->after.switches - bench->before.switches) * 1e6 / elapsed_us,
             size_text(bench->after.memory_bytes, room));
}

static void add_timing(const struct bench *bench, struct buf *out)
{
    char first[TEXT_ROOM], last[TEXT_ROOM];
    add_quantiles(out, "lateness", bench->lateness);
    buf_addf(
        out, "  %-11s%llu early, %llu lost, %llu twice\n", "jobs", (unsigned long long)bench->early,
        (unsigned long long)(bench->target - bench->received), (unsigned long long)bench->twice);
    if (bench->early > 0)
        buf_addf(out, "  %-11sby %s at most\n", "early", duration_text(bench->earliest_us, first));
    if (bench->options.scenario == BENCH_BURST)
        buf_addf(out, "  %-11sfirst after %s, all within %s\n", "burst",
                 duration_text(bench->first_us, first), duration_text(bench->last_us, last));
}

void bench_report(const struct bench *bench, const struct load *load, struct buf *out)
{
    const struct bench_options *o = &bench->options;
    char jobs[TEXT_ROOM], rate[TEXT_ROOM], room[TEXT_ROOM];
    double elapsed_us = (double)bench->elapsed_us,
           own = percent_of((double)bench->own_us, elapsed_us);
    uint64_t count = operations(bench);
    buf_addf(out, "%s: %s jobs, %u connections, depth %u, %u-byte bodies, %u-byte ids\n",
             bench_scenario_name(o->scenario), count_text(count, jobs), o->connections, o->depth,
             o->body_bytes, o->id_bytes);
    if (!bench_timed(o) && o->scenario != BENCH_IDLE) /* else the due times set it */
        buf_addf(out, "  %-11s%s a second, for %s\n", "rate",
                 count_text((uint64_t)((double)count * 1e6 / elapsed_us), rate),
                 duration_text(bench->elapsed_us, room));
    for (unsigned kind = 0; kind < LOAD_KINDS; kind++) {
        if (shown(bench, load, kind))
            add_quantiles(out, kind_names[kind], &load->latency[kind]);
    }
    if (bench_timed(o))
        add_timing(bench, out);
    add_server(bench, out);
    buf_addf(out, "  %-11s%.1f %% of a core\n", "generator", own);
    if (own > BUSY_PERCENT)
        buf_add_str(out, "  note       the generator itself was the bottleneck\n");
    if (bench->refused > 0)
        buf_addf(out, "  refused    %llu, the first with %s\n", (unsigned long long)bench->refused,
                 bench->first_refusal);
}

static json_t *quantiles_json(const struct histogram *histogram)
{
    json_t *object = json_object();
    for (unsigned i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
        json_object_set_new(object, quantile_names[i],
                            json_integer((json_int_t)histogram_quantile(histogram, quantiles[i])));
    json_object_set_new(object, "max", json_integer((json_int_t)histogram->max));
    json_object_set_new(object, "mean", json_integer((json_int_t)histogram_mean(histogram)));
    return object;
}

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static void lateness_json(const struct bench *bench, json_t *all)
{
    const struct bench_options *o = &bench->options;
    if (bench->due_us && bench->target > 1) { /* was the asked pace kept? */
        json_object_set_new(all, "rate", number(o->rate));
        int64_t spread_us = bench->due_us[o->jobs - 1] - bench->due_us[0];
        json_object_set_new(all, "due_per_second",
                            json_real((double)(o->jobs - 1) * 1e6 / (double)spread_us));
    }
    json_object_set_new(all, "lateness_us", quantiles_json(bench->lateness));
    json_object_set_new(all, "early", number(bench->early));
    json_object_set_new(all, "earliest_us", json_integer(bench->earliest_us));
    json_object_set_new(all, "lost", number(bench->target - bench->received));
    json_object_set_new(all, "twice", number(bench->twice));
    json_object_set_new(all, "first_us", json_integer(bench->first_us));
    json_object_set_new(all, "last_us", json_integer(bench->last_us));
}

static void server_json(const struct bench *bench, json_t *all)
{
    uint64_t count = operations(bench);
    double elapsed_us = (double)bench->elapsed_us;
    json_object_set_new(all, "server_cpu_us", json_real(server_us(bench)));
    if (count > 0)
        json_object_set_new(all, "server_us_per_operation",
                            json_real(server_us(bench) / (double)count));
    json_object_set_new(all, "server_core_share", json_real(server_us(bench) / elapsed_us));
    json_object_set_new(all, "server_sleeps",
                        number(bench->after.switches - bench->before.switches));
    json_object_set_new(all, "server_memory_bytes", number(bench->after.memory_bytes));
}

void bench_report_json(const struct bench *bench, const struct load *load)
{
    const struct bench_options *o = &bench->options;
    double elapsed_us = (double)bench->elapsed_us, own = (double)bench->own_us / elapsed_us;
    uint64_t count = operations(bench);
    json_t *all =
        json_pack("{ss ss sI sI sI sI sI}", "scenario", bench_scenario_name(o->scenario), "dialect",
                  dialects[o->dialect], "connections", (json_int_t)o->connections, "depth",
                  (json_int_t)o->depth, "batch", (json_int_t)o->batch, "body_bytes",
                  (json_int_t)o->body_bytes, "id_bytes", (json_int_t)o->id_bytes);
    json_object_set_new(all, "operations", number(count));
    json_object_set_new(all, "elapsed_us", json_integer(bench->elapsed_us));
    json_object_set_new(all, "per_second", json_real((double)count * 1e6 / elapsed_us));
    json_object_set_new(all, "refused", number(bench->refused));
    if (bench->refused > 0)
        json_object_set_new(all, "first_refusal", json_string(bench->first_refusal));
    json_object_set_new(all, "generator_core_share", json_real(own));
    json_object_set_new(all, "generator_bound", json_boolean(own * 100 > BUSY_PERCENT));
    for (unsigned kind = 0; kind < LOAD_KINDS; kind++) {
        char name[TEXT_ROOM];
        (void)snprintf(name, sizeof(name), "%s_us", kind_names[kind]); /* it fits */
        if (shown(bench, load, kind))
            json_object_set_new(all, name, quantiles_json(&load->latency[kind]));
    }
    if (bench_timed(o))
        lateness_json(bench, all);
    if (o->pid_count > 0)
        server_json(bench, all);
    cli_print_json(all);
    json_decref(all);
}
