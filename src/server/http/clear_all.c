/*
 * Owns the names of one page of topics. The states of a topic are cleared in the order in which
 * jobs go through them, as in clearing.c. A topic that was removed meanwhile is skipped.
 */
#include "server/http/clear_all.h"

#include "base/log.h"
#include "base/mem.h"

enum {
    PAGE_TOPICS = 64,  /* names in memory at a time */
    SLICE_JOBS = 1000, /* deleted by one command */
};

struct clear_all {
    struct list place; // server::clear_alls, while it does not wait for the engine
    struct request *request;
    struct arena names;               /* of the page, and of the last one before it */
    struct bytes topics[PAGE_TOPICS]; /* those of the page that are left begin at `next` */
    uint32_t count, next;
    struct bytes after;   /* the last name of the page */
    bool more;            /* there are topics behind this page */
    bool lists;           /* a page is requested */
    enum job_state state; /* that is cleared now, in topics[next] */
    uint64_t done;        /* jobs deleted */
    int64_t begun_us;
};

void clear_all_free(struct clear_all *clear_all)
{
    if (!clear_all)
        return;
    list_remove(&clear_all->place);
    arena_fini(&clear_all->names);
    mem_free(clear_all);
}

static void finish(struct clear_all *clear_all)
{
    struct request *request = clear_all->request;
    struct server *server = http_server(request->http);
    int64_t took_us = server->loop->now_us - clear_all->begun_us;
    log_event(LOG_WARN, "all_cleared", "jobs=%llu ms=%lld by=/clearAll",
              (unsigned long long)clear_all->done, (long long)(took_us / 1000));
    struct pipeline_text text = request_begin(request);
    api_cleared(&request->format, took_us, clear_all->done, server_date(server), text.out);
    request_done(request, text); /* frees the request, and this with it */
}

static void keep_page(struct clear_all *clear_all, const struct reply *reply)
{
    struct arena names = {0};
    clear_all->count = clear_all->next = 0;
    for (uint32_t i = 0; i < reply->count && i < PAGE_TOPICS; i++) {
        clear_all->topics[clear_all->count++] = arena_copy(&names, reply->topics[i].name);
        clear_all->after = clear_all->topics[i];
    }
    arena_fini(&clear_all->names);
    clear_all->names = names;
    clear_all->more = reply->more && clear_all->count > 0;
    clear_all->lists = false;
    clear_all->state = JOB_DELAYED;
}

/* One slice is deleted, or the topic is gone. */
static void cleared(struct clear_all *clear_all, const struct reply *reply)
{
    bool gone = reply->err == ERR_NOT_FOUND;
    clear_all->done += gone ? 0 : reply->count;
    if (!gone && reply->more)
        return;
    if (!gone && ++clear_all->state < JOB_STATES)
        return;
    clear_all->state = JOB_DELAYED;
    clear_all->next++;
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct request *request = LIST_ENTRY(ticket, struct request, pending.ticket);
    struct clear_all *clear_all = request->more.clear_all;
    struct server *server = http_server(request->http);
    if (reply->err && !(reply->err == ERR_NOT_FOUND && !clear_all->lists)) {
        request_answer(request, reply); /* which frees it */
        return;
    }
    if (clear_all->lists)
        keep_page(clear_all, reply);
    else
        cleared(clear_all, reply);
    if (clear_all->next == clear_all->count) {
        clear_all->lists = clear_all->more;
        if (!clear_all->more) {
            finish(clear_all);
            return;
        }
    }
    list_add_tail(&server->clear_alls, &clear_all->place);
    server->turn_again = true;
}

static void step(struct clear_all *clear_all)
{
    struct pending *pending = &clear_all->request->pending;
    struct cmd cmd = {.kind = CMD_TOPICS,
                      .topic = {.topic = clear_all->after, .max = PAGE_TOPICS, .brief = true}};
    if (!clear_all->lists)
        cmd = (struct cmd){.kind = CMD_CLEAR_TOPIC,
                           .topic = {.topic = clear_all->topics[clear_all->next],
                                     .state = clear_all->state,
                                     .max = SLICE_JOBS}};
    pending->state = PENDING_EXCLUSIVE; /* until the next command is submitted */
    pipeline_submit(pending, &cmd);
}

void clear_all_begin(struct request *request)
{
    struct clear_all *clear_all = mem_zalloc(sizeof(*clear_all));
    clear_all->request = request;
    clear_all->begun_us = http_server(request->http)->loop->now_us;
    clear_all->lists = true;
    list_init(&clear_all->place);
    request->more = (struct long_command){.kind = LONG_CLEAR_ALL, .clear_all = clear_all};
    request->pending.ticket.answered = answered;
    step(clear_all);
}

static bool step_item(struct list *item)
{
    step(LIST_ENTRY(item, struct clear_all, place));
    return false;
}

bool clear_alls_step(struct server *server)
{
    return server_step_each(server, &server->clear_alls, step_item);
}
