#include "engine/redis/partition_init.h"

#include "base/log.h"
#include "base/mem.h"

enum {
    AGAIN_US = 100 * 1000,           /* after a call that failed */
    SAY_EVERY_US = 10 * 1000 * 1000, /* the loss of all partitions is one event */
    NEW_US = 5 * 1000 * 1000,        /* notices of the making of a new queue are in by then */
};

/* It was there, and had to be made anew: Redis came back without its data, or was emptied. */
static void say_lost(struct opener *opener)
{
    bool said = opener->said_us && opener->now_us - opener->said_us < SAY_EVERY_US;
    if (said)
        return;
    opener->said_us = opener->now_us;
    log_event(LOG_ERROR, "redis_lost_data", "prefix=%s hint=\"%s\"", opener->options.space->prefix,
              "its jobs are gone, the queue goes on empty: see appendonly in docs/redis.md");
}

static void opened(void *owner, struct call *call, enum err err, const struct bytes *parts,
                   uint32_t count)
{
    struct opening *opening = owner;
    struct opener *opener = opening->opener;
    struct script_parts said = {.partition = opening->partition, .at = parts, .count = count};
    struct script_answer answer;
    opening->asked = false;
    if (!err)
        err = script_read_answer(opener->options.space, &said, &answer);
    if (err || answer.err) {
        opening->at_us = opener->now_us + AGAIN_US;
        if (!err)
            opener->options.refused(opener->options.owner, answer.count);
        return;
    }
    if (answer.replaced && opening->was_there)
        say_lost(opener);
    if (!opening->was_there)
        opening->since_us = opener->now_us;
    opening->was_there = true;
    if (answer.count)
        calls_give_up(opener->options.calls, opening->partition);
    calls_open(opener->options.calls, opening->partition, call->addressed);
    opener->options.opened(opener->options.owner, opening->partition);
    if (answer.count)
        opener->options.forgotten(opener->options.owner);
}

static void open_it(struct opening *opening)
{
    struct opener *opener = opening->opener;
    struct call *call = calls_new_unkept(opener->options.calls, opening->partition);
    script_ask_open(&call->request, opener->options.space, &call->id);
    call->urgent = true;
    opening->again = false;
    opening->asked = true;
    calls_send(call, opening, opened);
}

static bool wants(const struct opener *opener, const struct opening *opening)
{
    return opener->started && !opening->asked &&
           (opening->again || !calls_is_open(opener->options.calls, opening->partition)) &&
           calls_node(opener->options.calls, opening->partition);
}

void opener_lost(struct opener *opener, uint32_t partition)
{
    const struct opening *opening = &opener->openings[partition];
    /* Else we may have opened what was made for the first time before we heard that it was. */
    if (opening->was_there && opener->now_us - opening->since_us >= NEW_US)
        say_lost(opener);
    opener_again(opener, partition);
}

void opener_again(struct opener *opener, uint32_t partition)
{
    opener->openings[partition].again = true;
}

void opener_start(struct opener *opener)
{
    opener->started = true;
}

void opener_tick(struct opener *opener, int64_t now_us)
{
    opener->now_us = now_us;
    for (uint32_t i = 0; i < opener->options.space->partitions; i++) {
        struct opening *opening = &opener->openings[i];
        if (opening->at_us <= now_us && wants(opener, opening))
            open_it(opening);
    }
}

int64_t opener_next_us(const struct opener *opener)
{
    int64_t next_us = INT64_MAX;
    for (uint32_t i = 0; i < opener->options.space->partitions; i++) {
        const struct opening *opening = &opener->openings[i];
        if (opening->at_us < next_us && wants(opener, opening))
            next_us = opening->at_us;
    }
    return next_us;
}

void opener_init(struct opener *opener, const struct opener_options *options)
{
    *opener = (struct opener){.options = *options};
    opener->openings = mem_zalloc(options->space->partitions * sizeof(struct opening));
    for (uint32_t i = 0; i < options->space->partitions; i++)
        opener->openings[i] = (struct opening){.opener = opener, .partition = i};
}

void opener_fini(struct opener *opener)
{
    mem_free(opener->openings);
    opener->openings = NULL;
}
