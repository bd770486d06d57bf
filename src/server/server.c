#include "server/server.h"

#include "base/mem.h"
#include "base/rfc3339.h"
#include "port/member.h"
#include "proto/http/host.h"
#include "server/beanstalk/session.h"
#include "server/http/request.h"
#include "server/http/restore.h"
#include "server/intake.h"
#include "server/requeue.h"
#include "server/session.h"

/* limits.buffer_bytes; if it is 0, a quarter of the memory; without a limit of that, none. */
static uint64_t buffer_limit(const struct server_options *options)
{
    if (options->config->buffer_bytes)
        return (uint64_t)options->config->buffer_bytes;
    return options->limits.memory_bytes ? options->limits.memory_bytes / 4 : UINT64_MAX;
}

/* Clients are told to reach us by the name in this URL. */
static void add_advertised_host(const char *url, struct buf *out)
{
    const char *start = url ? strstr(url, "://") : NULL;
    if (!start)
        return;
    start += sizeof("://") - 1;
    struct bytes host = host_without_port(bytes_of(start, strcspn(start, "/")));
    if (!host_is_name(host))
        return; /* an address in brackets */
    buf_add_char(out, ' ');
    buf_add_bytes(out, host);
}

static void init_snowflake(struct server *server)
{
    uint32_t machine = (uint32_t)server->options.config->sdmq_machine;
    if (machine == 0) /* none is given: any but 0, for which a configured one may be taken */
        machine = 1 + (uint32_t)(server->options.instance % (SNOWFLAKE_MACHINES - 1));
    snowflake_init(&server->snowflake, machine);
}

const char *server_host(const struct server *server)
{
    const char *given = server->options.config->sdmq_host, *found = server->options.host;
    return given[0] ? given : found[0] ? found : "127.0.0.1";
}

static int64_t meter_now_us(struct budget_meter *meter)
{
    struct clock *clock = LIST_ENTRY(meter, struct server, meter)->loop->clock;
    return clock->now_us(clock);
}

static int64_t meter_cpu_us(struct budget_meter *meter)
{
    struct clock *clock = LIST_ENTRY(meter, struct server, meter)->loop->clock;
    return clock->cpu_us ? clock->cpu_us(clock) : clock->now_us(clock);
}

struct server *server_new(const struct server_options *options)
{
    struct server *server = mem_zalloc(sizeof(*server));
    server->options = *options;
    server->loop = options->loop;
    server->engine = options->engine;
    server->meter.now_us = meter_now_us;
    server->meter.cpu_us = meter_cpu_us;
    server->budget = (struct budget){.left_ns = BUDGET_UNLIMITED, .meter = &server->meter};
    server->engine->verbs->use_budget(server->engine, &server->budget);
    server->started_us = loop_update_time(server->loop);
    server->date_s = -1;
    server->worker = options->worker;
    config_known_hosts(options->config, &server->hosts);
    add_advertised_host(options->advertise, &server->hosts);
    list_init(&server->requeues);
    list_init(&server->intakes);
    list_init(&server->batches);
    list_init(&server->offloads);
    buffers_init(&server->buffers, buffer_limit(options));
    pool_init(&server->requests, sizeof(struct request));
    list_init(&server->clearings);
    list_init(&server->replays);
    list_init(&server->listings);
    list_init(&server->scrapes);
    list_init(&server->clear_alls);
    list_init(&server->restores);
    init_snowflake(server);
    server->retry = config_default_retry(options->config);
    sessions_init(server);
    pump_stage_begin(server);
    pool_init(&server->beanstalk.pending, sizeof(struct beanstalk_pending));
    list_init(&server->beanstalk.surveys);
    beanstalk_reservations_init(&server->beanstalk.reservations);
    beanstalk_tubes_init(&server->beanstalk.tubes, options->limits.topics, options->hash_key);
    return server;
}

static void drop_sessions(struct server *server)
{
    while (!list_empty(&server->all))
        session_free(LIST_ENTRY(server->all.next, struct session, all), SESSION_DROPPED);
    sessions_drop_spares(server);
}

void server_abandon(struct server *server)
{
    server->draining = true;
    pump_drain(server->pump_stage.pump);
    drop_sessions(server);
    discard_fini(&server->discard); /* there are no more turns to free it in pieces */
}

void server_give_up(struct server *server)
{
    requeue_all(server);
    pump_give_up(server->pump_stage.pump);
}

void server_free(struct server *server)
{
    if (!server)
        return;
    drop_sessions(server);
    requeue_all(server);
    restores_free(server);
    pump_stage_end(server);
    if (server->worker)
        server->worker->verbs->wait(server->worker);
    pool_fini(&server->sessions);
    pool_fini(&server->requests);
    pool_fini(&server->beanstalk.pending);
    beanstalk_reservations_fini(&server->beanstalk.reservations);
    beanstalk_tubes_fini(&server->beanstalk.tubes);
    server->engine->verbs->use_budget(server->engine, NULL);
    buf_fini(&server->beanstalk.yaml);
    buf_fini(&server->answer_body);
    buf_fini(&server->spare_deliveries);
    buf_fini(&server->hosts);
    arena_fini(&server->scratch);
    discard_fini(&server->discard);
    mem_free(server);
}

bool server_leads(const struct server *server)
{
    const struct member *member = server->options.member;
    return server->options.led_epoch == 0 ||
           member->verbs->holds(member, server->options.led_epoch);
}

void server_refuse_pushes(struct server *server)
{
    server->refusing_pushes = true; /* read by server_submit() */
}

void server_drain(struct server *server)
{
    if (server->draining)
        return;
    server->draining = true;
    server->loop->verbs->stop_listening(server->loop);
    pump_drain(server->pump_stage.pump);
    server->drain_next = server->all.next;
    (void)sessions_drain(server); /* some; turns continue */
}

bool server_drained(const struct server *server)
{
    return server->draining && list_empty(&server->all) && list_empty(&server->requeues) &&
           pump_idle(server->pump_stage.pump) && server_intakes_idle(server);
}

bool server_step_each(struct server *server, struct list *items, bool (*step)(struct list *item))
{
    struct list *last = items->prev;
    bool left = !list_empty(items);
    for (unsigned steps = 0; left && (steps == 0 || !budget_spent(&server->budget)); steps++) {
        struct list *first = items->next;
        left = first != last;
        list_remove(first);
        if (step(first)) {
            list_add_tail(items, first);
            return true;
        }
    }
    return left;
}

size_t server_discarded(const struct server *server)
{
    return server->discard.bytes + server->loop->discard.bytes;
}

bool server_trim(struct server *server)
{
    bool more = pool_trim(&server->sessions);
    more |= pool_trim(&server->requests);
    more |= pool_trim(&server->beanstalk.pending);
    more |= pool_trim(&server->beanstalk.reservations.pool);
    more |= pool_trim(&server->beanstalk.tubes.pool);
    more |= discard_some(&server->discard, &server->budget);
    more |= discard_some(&server->loop->discard, &server->budget);
    return more;
}

unsigned server_sessions(const struct server *server)
{
    return server->sessions.count;
}

struct bytes server_date(struct server *server)
{
    int64_t now_s = server->loop->now_us / 1000000;
    if (now_s != server->date_s) {
        server->date_len = http_date(now_s, server->date).len;
        server->date_s = now_s;
    }
    return bytes_of(server->date, server->date_len);
}
