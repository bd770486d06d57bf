/*
 * Notes of failed attempts: their places, their events, and when their records die.
 *
 * A note may come before its job in the log, because the cleaner has moved only the job's record,
 * or a new body has made a new record of it. So replay keeps notes whether or not their jobs are
 * known, and core_replayed() drops those without a job.
 */
#include "core/notes.h"

#include "base/check.h"
#include "base/mem.h"
#include "core/core_internal.h"

_Static_assert(sizeof(struct job_notes) == 72, "what core/notes.h says");

static bool seq_is(const void *ctx, uint32_t number, const void *key)
{
    return ((const struct job_notes *)pool_at(ctx, number))->seq == *(const uint64_t *)key;
}

static uint64_t hash_of_seq(uint64_t seq)
{
    return seq * UINT64_C(0x9e3779b97f4a7c15) >> 16; /* no key: the server makes the numbers */
}

void notes_init(struct notes *notes)
{
    pool_init(&notes->pool, sizeof(struct job_notes));
    map_init(&notes->by_seq, seq_is, &notes->pool);
}

void notes_fini(struct notes *notes)
{
    map_fini(&notes->by_seq);
    pool_fini(&notes->pool);
}

struct job_notes *notes_find(const struct notes *notes, uint64_t seq)
{
    uint32_t number = map_find(&notes->by_seq, hash_of_seq(seq), &seq);
    return number == MAP_NONE ? NULL : pool_at(&notes->pool, number);
}

static struct job_notes *get_or_create(struct notes *notes, uint64_t seq)
{
    struct job_notes *of_job = notes_find(notes, seq);
    if (of_job)
        return of_job;
    uint32_t number = pool_take(&notes->pool);
    of_job = pool_at(&notes->pool, number);
    of_job->seq = seq;
    map_add(&notes->by_seq, hash_of_seq(seq), number);
    return of_job;
}

static void remove_notes(struct notes *notes, const struct job_notes *of_job)
{
    uint32_t number = map_find(&notes->by_seq, hash_of_seq(of_job->seq), &of_job->seq);
    map_remove(&notes->by_seq, hash_of_seq(of_job->seq), number);
    ((struct job_notes *)pool_at(&notes->pool, number))->last = 0;
    pool_give(&notes->pool, number);
}

/* The number in the pool of the next job_notes at or after `number`, or POOL_NONE. */
static uint32_t next_notes(const struct notes *notes, uint32_t number)
{
    number = pool_next(&notes->pool, number);
    while (number != POOL_NONE &&
           ((const struct job_notes *)pool_at(&notes->pool, number))->last == 0)
        number = pool_next(&notes->pool, number + 1);
    return number;
}

/* ---- places ---- */

static void clear(struct core *core, struct job_notes *of_job, uint32_t number)
{
    uint32_t slot = number % JOB_NOTES_MAX;
    struct stored record = {of_job->where[slot], of_job->bytes[slot]};
    of_job->where[slot] = 0;
    if (record.where && core->sink->died)
        core->sink->died(core->sink, record);
}

/* Adds the note's place; notes beyond the last JOB_NOTES_MAX die. */
static void take_place(struct core *core, struct job_notes *of_job, const struct note_head *note,
                       struct stored stored)
{
    bool newest = note->number > of_job->last;
    uint32_t added = newest ? note->number - of_job->last : 1; /* in replay some may be missing */
    CHECK(stored.bytes <= UINT16_MAX);
    for (uint32_t i = 0; i < added && i < JOB_NOTES_MAX; i++)
        clear(core, of_job, note->number - i);
    if (newest)
        of_job->last = note->number;
    of_job->where[note->number % JOB_NOTES_MAX] = stored.where;
    of_job->bytes[note->number % JOB_NOTES_MAX] = (uint16_t)stored.bytes;
    if (note->number == of_job->last) {
        of_job->last_us = note->at_us;
        of_job->last_code = note->code;
    }
}

static struct stored emit(struct core *core, uint64_t seq, const struct note_head *note,
                          struct bytes text, bool promised)
{
    return core->sink->emit(core->sink, &(struct event){.kind = EVENT_NOTE,
                                                        .promised = promised,
                                                        .job = {.seq = seq},
                                                        .note = *note,
                                                        .body = text});
}

void core_note(struct core *core, struct job *job, struct bytes text, uint16_t code)
{
    if (text.len == 0 || (core->limits.memory_bytes && mem_used() > core->limits.memory_bytes))
        return;
    struct job_notes *of_job = get_or_create(&core->notes, job->seq);
    struct note_head note = {.at_us = core->now_us, .number = of_job->last + 1, .code = code};
    if (note.number == UINT32_MAX)
        return; /* the numbers are used up: after 136 years with one note a second */
    job->has_notes = true;
    take_place(core, of_job, &note, emit(core, job->seq, &note, text, PROMISED));
}

static void drop(struct core *core, struct job_notes *of_job)
{
    for (uint32_t slot = 0; slot < JOB_NOTES_MAX; slot++)
        clear(core, of_job, slot);
    remove_notes(&core->notes, of_job);
}

void core_drop_notes(struct core *core, uint64_t seq)
{
    struct job_notes *of_job = notes_find(&core->notes, seq);
    if (of_job)
        drop(core, of_job);
}

void core_drop_all_notes(struct core *core)
{
    for (uint32_t i = next_notes(&core->notes, 0); i != POOL_NONE;
         i = next_notes(&core->notes, i + 1))
        drop(core, pool_at(&core->notes.pool, i));
}

uint32_t core_note_places(const struct core *core, uint64_t seq,
                          struct note_place out_places[static JOB_NOTES_MAX])
{
    const struct job_notes *of_job = notes_find(&core->notes, seq);
    uint32_t count = 0;
    for (uint32_t number = of_job ? notes_oldest(of_job) : 1; of_job && number <= of_job->last;
         number++) {
        uint32_t slot = number % JOB_NOTES_MAX;
        out_places[count++] =
            (struct note_place){number, {of_job->where[slot], of_job->bytes[slot]}};
    }
    return count;
}

void core_view_notes(const struct core *core, const struct job *job, struct job_view *view)
{
    const struct job_notes *of_job = notes_find(&core->notes, job->seq);
    CHECK(of_job);
    view->last_code = of_job->last_code;
    view->last_note_us = of_job->last_us;
}

/* ---- replay, checkpoints ---- */

enum err core_replay_note(struct core *core, const struct event *event)
{
    if (event->job.seq == 0 || event->job.seq == UINT64_MAX || event->note.number == 0 ||
        event->note.number == UINT32_MAX || event->body.len > JOB_NOTE_MAX)
        return ERR_CORRUPT;
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = event->job.seq});
    if (number != POOL_NONE)
        core_job(core, number)->has_notes = true;
    struct job_notes *of_job = get_or_create(&core->notes, event->job.seq);
    if (event->note.number < notes_oldest(of_job)) { /* newer notes have replaced it */
        if (core->sink->died)
            core->sink->died(core->sink, event->record);
        return OK;
    }
    take_place(core, of_job, &event->note, event->record);
    return OK;
}

void core_replayed_notes(struct core *core)
{
    for (uint32_t i = next_notes(&core->notes, 0); i != POOL_NONE;
         i = next_notes(&core->notes, i + 1)) {
        struct job_notes *of_job = pool_at(&core->notes.pool, i);
        if (index_find(&core->index, &(struct job_ref){.seq = of_job->seq}) == POOL_NONE)
            drop(core, of_job);
    }
}

bool core_relocate_note(struct core *core, const struct event *event, uint64_t where)
{
    struct job_notes *of_job = notes_find(&core->notes, event->job.seq);
    uint32_t slot = event->note.number % JOB_NOTES_MAX;
    if (!of_job || of_job->where[slot] != where)
        return false;
    take_place(core, of_job, &event->note,
               emit(core, event->job.seq, &event->note, event->body, NOT_PROMISED));
    return true;
}

bool core_drop_unread_notes(struct core *core, uint64_t first, uint64_t end, uint32_t *cursor,
                            uint32_t budget)
{
    for (uint32_t steps = 0; steps < budget; steps++, ++*cursor) {
        *cursor = next_notes(&core->notes, *cursor);
        if (*cursor == POOL_NONE)
            return false;
        struct job_notes *of_job = pool_at(&core->notes.pool, *cursor);
        for (uint32_t slot = 0; slot < JOB_NOTES_MAX; slot++)
            if (of_job->where[slot] >= first && of_job->where[slot] < end)
                clear(core, of_job, slot);
    }
    return true;
}
