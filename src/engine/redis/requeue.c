/*
 * Invariant: a release is in its partition's `waiting`, or a call for it is under way, counted in
 * `under_way`, whose answer ends it or puts it back.
 */
#include "engine/redis/requeue.h"

#include "base/mem.h"

enum {
    AT_ONCE = 512,         /* releases under way to one partition at most */
    AGAIN_US = 200 * 1000, /* after a failed release */
};

struct release_queue {
    struct redis_requeue *requeue;
    struct list waiting; // release::place
    uint32_t under_way;
    int64_t again_us;   /* no release is sent before this time */
    struct timer again; /* armed for that time while something waits */
};

struct release {
    struct list place; // release_queue::waiting, or nowhere
    struct redis_requeue *requeue;
    uint64_t seq, lease;
    enum release_why why;
    bool has_delay;
    int64_t due_us;
};

static int64_t now_of(const struct redis_requeue *requeue)
{
    return requeue->options.loop->now_us;
}

static struct release_queue *queue_of(struct redis_requeue *requeue, uint32_t partition)
{
    return &requeue->partitions[partition];
}

/* The job was released, or the lease was not valid any more. */
static void answered(struct redis_requeue *requeue, const struct script_parts *received)
{
    struct script_answer answer;
    enum err err =
        script_read(requeue->options.space, CMD_RELEASE, received, &requeue->scratch, &answer);
    if (!err && !answer.reply.err)
        requeue->options.returned(requeue->options.owner, answer.reply.jobs, received->partition);
    arena_reset(&requeue->scratch);
}

static void done(void *owner, struct script_request *call, enum err err, const struct bytes *parts,
                 uint32_t count)
{
    struct release *release = owner;
    struct redis_requeue *requeue = release->requeue;
    struct script_parts received = {.partition = call->id.partition, .at = parts, .count = count};
    struct release_queue *queue = queue_of(requeue, received.partition);
    queue->under_way--;
    if (err) { /* it may have been executed; then the next one finds that the lease is not valid */
        queue->again_us = now_of(requeue) + AGAIN_US;
        list_add_tail(&queue->waiting, &release->place);
    } else {
        answered(requeue, &received);
        mem_free(release);
    }
    if (!list_empty(&queue->waiting))
        loop_arm(requeue->options.loop, &queue->again, queue->again_us);
}

/* Sends it. False: it must wait. */
static bool send(struct release *release, uint32_t partition)
{
    struct redis_requeue *requeue = release->requeue;
    struct release_queue *queue = queue_of(requeue, partition);
    if (requeue->left || queue->under_way >= AT_ONCE || queue->again_us > now_of(requeue))
        return false;
    struct script_request *call = script_requests_new(requeue->options.calls, partition);
    struct cmd cmd = {
        .kind = CMD_RELEASE,
        .job =
            {
                .ref.seq = release->seq,
                .lease = release->lease,
                .why = release->why,
                .has_delay = release->has_delay,
                .due_us = release->due_us,
            },
    };
    script_encode(&call->request, requeue->options.space, &call->id, &cmd);
    call->changes = true;
    queue->under_way++;
    list_remove(&release->place);
    script_requests_send(call, release, done);
    return true;
}

/* Waiting releases are sent at again_us, or when one under way is answered. */
static void set_timer(struct release_queue *queue)
{
    struct loop *loop = queue->requeue->options.loop;
    if (queue->again_us > loop->now_us)
        loop_arm(loop, &queue->again, queue->again_us);
}

static void send_waiting(struct timer *timer)
{
    struct release_queue *queue = LIST_ENTRY(timer, struct release_queue, again);
    struct redis_requeue *requeue = queue->requeue;
    uint32_t partition = (uint32_t)(queue - requeue->partitions);
    while (!list_empty(&queue->waiting) &&
           send(LIST_ENTRY(queue->waiting.next, struct release, place), partition))
        ;
    if (!list_empty(&queue->waiting))
        set_timer(queue);
}

void redis_requeue_add(struct redis_requeue *requeue, const struct cmd_job *job)
{
    uint32_t partition = (uint32_t)(job->ref.seq % requeue->options.space->partitions);
    struct release *release = mem_alloc(sizeof(*release));
    *release = (struct release){
        .requeue = requeue,
        .seq = job->ref.seq,
        .lease = job->lease,
        .why = job->why,
        .has_delay = job->has_delay,
        .due_us = job->due_us,
    };
    list_init(&release->place);
    struct release_queue *queue = queue_of(requeue, partition);
    if (list_empty(&queue->waiting) && send(release, partition))
        return;
    list_add_tail(&queue->waiting, &release->place);
    set_timer(queue);
}

void redis_requeue_leave(struct redis_requeue *requeue)
{
    for (uint32_t i = 0; i < requeue->options.space->partitions; i++) {
        requeue->partitions[i].again_us = 0;
        send_waiting(&requeue->partitions[i].again);
    }
    requeue->left = true;
}

bool redis_requeue_is_pending(const struct redis_requeue *requeue)
{
    bool is_pending = false;
    for (uint32_t i = 0; i < requeue->options.space->partitions; i++) {
        const struct release_queue *queue = &requeue->partitions[i];
        is_pending = is_pending || queue->under_way || !list_empty(&queue->waiting);
    }
    return is_pending;
}

void redis_requeue_init(struct redis_requeue *requeue, const struct redis_requeue_options *options)
{
    uint32_t count = options->space->partitions;
    *requeue = (struct redis_requeue){.options = *options};
    requeue->partitions = mem_zalloc(count * sizeof(*requeue->partitions));
    for (uint32_t i = 0; i < count; i++) {
        struct release_queue *queue = &requeue->partitions[i];
        *queue = (struct release_queue){.requeue = requeue, .again.expired = send_waiting};
        list_init(&queue->waiting);
    }
}

void redis_requeue_fini(struct redis_requeue *requeue)
{
    for (uint32_t i = 0; requeue->partitions && i < requeue->options.space->partitions; i++) {
        struct list *waiting = &queue_of(requeue, i)->waiting;
        loop_cancel(requeue->options.loop, &queue_of(requeue, i)->again);
        while (!list_empty(waiting)) {
            struct release *release = LIST_ENTRY(waiting->next, struct release, place);
            list_remove(&release->place);
            mem_free(release);
        }
    }
    mem_free(requeue->partitions);
    requeue->partitions = NULL;
    arena_fini(&requeue->scratch);
}
