#include "journal/group.h"

#include <stdio.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"

enum { SLOTS_FIRST = 1024, HEX_BYTES = 8 };

void group_init(struct group *group, const uint8_t store[JOURNAL_STORE_BYTES], bool log_all)
{
    *group = (struct group){.log_all = log_all, .slot_count = SLOTS_FIRST};
    memcpy(group->store, store, sizeof(group->store));
    group->slots = mem_zalloc(group->slot_count * sizeof(*group->slots));
}

void group_fini(struct group *group)
{
    arena_fini(&group->arena);
    mem_free(group->jobs);
    mem_free(group->logs);
    mem_free(group->slots);
    *group = (struct group){.batch = 0};
}

void group_reset(struct group *group)
{
    arena_reset(&group->arena);
    memset(group->slots, 0, group->slot_count * sizeof(*group->slots));
    group->job_count = group->log_count = 0;
    group->batch = 0;
    group->at_us = 0;
    group->resync_begins = group->resync_ends = false;
}

/* ---- ids ---- */

static void hex_of(const uint8_t store[JOURNAL_STORE_BYTES], char hex[2 * HEX_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < HEX_BYTES; i++) {
        hex[2 * i] = digits[store[i] >> 4];
        hex[2 * i + 1] = digits[store[i] & 15];
    }
    hex[2 * HEX_BYTES] = '\0';
}

size_t journal_id_write(uint64_t seq, const uint8_t store[JOURNAL_STORE_BYTES],
                        char room[static JOURNAL_ID_ROOM])
{
    char hex[2 * HEX_BYTES + 1];
    hex_of(store, hex);
    int len = snprintf(room, JOURNAL_ID_ROOM, "@%llu.%s", (unsigned long long)seq, hex);
    CHECK(len > 0 && len < JOURNAL_ID_ROOM);
    return (size_t)len;
}

uint64_t journal_id_read(struct bytes id, const uint8_t store[JOURNAL_STORE_BYTES])
{
    char hex[2 * HEX_BYTES + 1];
    uint64_t seq;
    size_t tail = 1 + 2 * HEX_BYTES;
    hex_of(store, hex);
    if (id.len < 2 + tail || id.at[0] != '@' || id.at[id.len - tail] != '.' ||
        memcmp(id.at + id.len - 2 * HEX_BYTES, hex, 2 * HEX_BYTES) != 0 || id.at[1] == '0' ||
        !bytes_to_u64(bytes_of(id.at + 1, id.len - 1 - tail), &seq))
        return 0;
    return seq;
}

static struct bytes id_of(struct group *group, const struct event *event)
{
    if (event->id.len)
        return event->id;
    char *room = arena_alloc(&group->arena, JOURNAL_ID_ROOM);
    return bytes_of(room, journal_id_write(event->job.seq, group->store, room));
}

/* ---- the jobs by id ---- */

static uint32_t *slot_of(struct group *group, struct bytes id)
{
    unsigned mask = group->slot_count - 1;
    unsigned at = (unsigned)hash_of(id.at, id.len) & mask;
    while (group->slots[at] && !bytes_eq(group->jobs[group->slots[at] - 1].id, id))
        at = (at + 1) & mask;
    return &group->slots[at];
}

static void widen(struct group *group)
{
    mem_free(group->slots);
    group->slot_count *= 2;
    group->slots = mem_zalloc(group->slot_count * sizeof(*group->slots));
    for (unsigned i = 0; i < group->job_count; i++)
        *slot_of(group, group->jobs[i].id) = i + 1;
}

/* The entry of the id. A new one changes nothing yet but the status. */
static struct group_job *job_of(struct group *group, struct bytes id)
{
    if (group->job_count * 2 >= group->slot_count)
        widen(group);
    uint32_t *slot = slot_of(group, id);
    if (*slot)
        return &group->jobs[*slot - 1];
    if (group->job_count == group->job_cap) {
        group->job_cap = group->job_cap ? 2 * group->job_cap : SLOTS_FIRST;
        group->jobs = mem_realloc(group->jobs, group->job_cap * sizeof(*group->jobs));
    }
    struct group_job *job = &group->jobs[group->job_count++];
    *slot = group->job_count;
    *job = (struct group_job){.id = id, .change = GROUP_STATUS};
    return job;
}

static void add_log(struct group *group, const struct group_job *job, uint32_t stream)
{
    if (group->log_count == group->log_cap) {
        group->log_cap = group->log_cap ? 2 * group->log_cap : SLOTS_FIRST;
        group->logs = mem_realloc(group->logs, group->log_cap * sizeof(*group->logs));
    }
    group->logs[group->log_count++] = (struct group_log){
        .id = job->id, .stream = stream, .status = job->status, .at_us = job->at_us};
}

/* ---- events ---- */

static enum journal_status_number status_of(enum job_state state)
{
    switch (state) {
    case JOB_DELAYED: return STATUS_DELAYED;
    case JOB_READY:
    case JOB_RESERVED: return STATUS_READY;
    case JOB_BURIED: return STATUS_BURIED;
    case JOB_GONE:
    case JOB_STATES: break;
    }
    return STATUS_FINISHED; /* no such event is written */
}

static void take_now(struct group_job *job, const struct job_now *now)
{
    job->status = status_of(now->state);
    job->due_us = now->due_us;
    job->priority = now->priority;
    job->failures = now->failures;
}

/* Most moves are reservations, which change neither due time nor priority: the row is found by its
   key alone then, as for an end. */
static void take_move(struct group_job *job, const struct job_now *now)
{
    bool only_reserved = now->state == JOB_RESERVED && job->change == GROUP_STATUS;
    if (job->change == GROUP_STATUS && !only_reserved)
        job->change = GROUP_MOVE;
    take_now(job, now);
}

/* The job does not exist; records that follow may change that again. */
static void take_absent(struct group_job *job, bool is_new)
{
    if (is_new)
        job->change = GROUP_ABSENT;
    if (is_new || (job->status != STATUS_FINISHED && job->status != STATUS_DELETED))
        job->status = STATUS_DELETED;
}

static void take_event(struct group *group, const struct journal_batch *batch,
                       const struct batch_walk *walk)
{
    const struct event *event = &walk->record.event;
    bool ends = event->kind == EVENT_GONE;
    if (event->kind != EVENT_JOB && event->kind != EVENT_MOVE && !ends)
        return;
    unsigned known = group->job_count;
    struct group_job *job = job_of(group, id_of(group, event));
    job->at_us = batch->clock_us;
    job->batch = batch->number;
    if (batch->kind == JOURNAL_ABSENT) {
        take_absent(job, known != group->job_count);
        return;
    }
    if (job->change == GROUP_ABSENT)
        job->change = GROUP_STATUS;
    if (event->kind == EVENT_JOB) {
        job->change = GROUP_IMAGE;
        job->record = journal_batch_at(batch) + walk->record_at;
        job->record_bytes = walk->record.len;
        take_now(job, &event->job);
    } else if (ends) {
        job->status = event->end == END_DELETED ? STATUS_DELETED : STATUS_FINISHED;
        job->change = job->change == GROUP_IMAGE ? GROUP_IMAGE : GROUP_STATUS;
    } else {
        take_move(job, &event->job);
    }
    if (batch->kind == JOURNAL_CHANGES && (group->log_all || ends))
        add_log(group, job, batch->stream);
}

enum err group_add(struct group *group, const struct journal_batch *batch)
{
    struct batch_walk walk;
    CHECK(batch->number > group->batch);
    batch_walk_init(&walk, journal_batch_at(batch), batch->payload_bytes);
    enum err err = batch_walk_next(&walk);
    for (; err == OK; err = batch_walk_next(&walk)) {
        if (!walk.record.copy)
            take_event(group, batch, &walk);
    }
    if (batch->numbered)
        group->batch = batch->number;
    group->resync_begins |= batch->kind == JOURNAL_RESYNC_BEGINS;
    group->resync_ends |= batch->kind == JOURNAL_RESYNC_ENDS;
    group->at_us = batch->clock_us;
    return err == ERR_NOT_FOUND ? OK : err;
}
