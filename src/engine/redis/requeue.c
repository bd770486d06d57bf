/*
 * Invariant: a release is in its partition's `waiting`, or a call to the partition is under way for
 * it (`under_way` counts these) and tells it how it ended.
 */
#include "engine/redis/requeue.h"

#include "base/mem.h"

enum {
    AT_ONCE = 512,         /* under way to one partition */
    AGAIN_US = 200 * 1000, /* after Redis did not take one */
};

struct returning {
    struct list waiting; // release::place
    uint32_t under_way;
    int64_t again_us; /* nothing is sent before */
};

struct release {
    struct list place; // returning::waiting, or nowhere
    struct returns *returns;
    uint64_t seq, lease;
    enum release_why why;
};

static struct returning *where(struct returns *returns, uint32_t partition)
{
    return &returns->partitions[partition];
}

/* The job is back, or the lease was not good any more. */
static void answered(struct returns *returns, const struct script_parts *said)
{
    struct script_answer answer;
    enum err err =
        script_read(returns->options.space, CMD_RELEASE, said, &returns->scratch, &answer);
    if (!err && !answer.reply.err)
        returns->options.returned(returns->options.owner, answer.reply.jobs, said->partition);
    arena_reset(&returns->scratch);
}

static void done(void *owner, struct call *call, enum err err, const struct bytes *parts,
                 uint32_t count)
{
    struct release *release = owner;
    struct returns *returns = release->returns;
    struct script_parts said = {.partition = call->id.partition, .at = parts, .count = count};
    struct returning *returning = where(returns, said.partition);
    returning->under_way--;
    if (err) { /* perhaps it was done: then the next one finds that its lease is no good */
        returning->again_us = returns->now_us + AGAIN_US;
        list_add_tail(&returning->waiting, &release->place);
        return;
    }
    answered(returns, &said);
    mem_free(release);
}

/* False: it has to wait. */
static bool send(struct release *release, uint32_t partition)
{
    struct returns *returns = release->returns;
    struct returning *returning = where(returns, partition);
    struct call *call = NULL;
    if (returning->under_way < AT_ONCE && returning->again_us <= returns->now_us)
        call = calls_new(returns->options.calls, partition);
    if (!call)
        return false;
    struct cmd cmd = {
        .kind = CMD_RELEASE,
        .job = {.ref.seq = release->seq, .lease = release->lease, .why = release->why},
    };
    script_ask(&call->request, returns->options.space, &call->id, &cmd);
    call->changes = true;
    returning->under_way++;
    list_remove(&release->place);
    calls_send(call, release, done);
    return true;
}

void returns_add(struct returns *returns, const struct cmd_job *job)
{
    uint32_t partition = (uint32_t)(job->ref.seq % returns->options.space->partitions);
    struct release *release = mem_alloc(sizeof(*release));
    *release = (struct release){
        .returns = returns,
        .seq = job->ref.seq,
        .lease = job->lease,
        .why = job->why,
    };
    list_init(&release->place);
    if (!list_empty(&where(returns, partition)->waiting) || !send(release, partition))
        list_add_tail(&where(returns, partition)->waiting, &release->place);
}

void returns_tick(struct returns *returns, int64_t now_us)
{
    returns->now_us = now_us;
    for (uint32_t i = 0; i < returns->options.space->partitions; i++) {
        struct list *waiting = &where(returns, i)->waiting;
        while (!list_empty(waiting) && send(LIST_ENTRY(waiting->next, struct release, place), i))
            ;
    }
}

/* While some are under way, the others go when one of these is answered. */
int64_t returns_next_us(const struct returns *returns)
{
    int64_t next_us = INT64_MAX;
    for (uint32_t i = 0; i < returns->options.space->partitions; i++) {
        const struct returning *returning = &returns->partitions[i];
        int64_t again_us = returning->again_us;
        if (again_us <= returns->now_us)
            again_us = returns->now_us + AGAIN_US;
        if (!list_empty(&returning->waiting) && again_us < next_us)
            next_us = again_us;
    }
    return next_us;
}

void returns_init(struct returns *returns, const struct returns_options *options)
{
    uint32_t count = options->space->partitions;
    *returns = (struct returns){.options = *options};
    returns->partitions = mem_zalloc(count * sizeof(*returns->partitions));
    for (uint32_t i = 0; i < count; i++)
        list_init(&returns->partitions[i].waiting);
}

void returns_fini(struct returns *returns)
{
    for (uint32_t i = 0; returns->partitions && i < returns->options.space->partitions; i++) {
        struct list *waiting = &where(returns, i)->waiting;
        while (!list_empty(waiting)) {
            struct release *release = LIST_ENTRY(waiting->next, struct release, place);
            list_remove(&release->place);
            mem_free(release);
        }
    }
    mem_free(returns->partitions);
    returns->partitions = NULL;
    arena_fini(&returns->scratch);
}
