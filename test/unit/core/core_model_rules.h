/*
 * The rules of the dullest correct model: who is handed out first, what a command makes of a job,
 * when it is refused. For model_test.c alone; `life` is the one under way.
 */
#ifndef LATERD_TEST_CORE_MODEL_RULES_H
#define LATERD_TEST_CORE_MODEL_RULES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core_model.h"

static struct life *life; /* static: cmocka's checks have no place for it */

#define MUST(claim)                                                                                \
    do {                                                                                           \
        if (!(claim))                                                                              \
            fail_msg("seed %llu step %d: %s", (unsigned long long)life->seed, life->step, #claim); \
    } while (0)

static uint64_t below(uint64_t bound)
{
    uint64_t mixed = life->random += 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return (mixed ^ mixed >> 31) % bound;
}

static bool comes_before(uint64_t a, uint64_t b)
{
    const struct model_job *x = &life->jobs[a], *y = &life->jobs[b];
    if (x->priority != y->priority)
        return x->priority < y->priority;
    int64_t x_rank_us = x->order == ORDER_ARRIVAL ? x->created_us : x->due_us;
    int64_t y_rank_us = y->order == ORDER_ARRIVAL ? y->created_us : y->due_us;
    return x_rank_us != y_rank_us ? x_rank_us < y_rank_us : a < b;
}

static uint64_t best_of(int topic) /* or 0 */
{
    uint64_t best = 0;
    if (life->paused_until_us[topic])
        return 0;
    for (uint64_t i = 1; i < life->seq_next; i++) {
        if (life->jobs[i].state == JOB_READY && life->jobs[i].topic == topic &&
            (!best || comes_before(i, best)))
            best = i;
    }
    return best;
}

static uint64_t choose(const int *topics, int count, bool listed)
{
    uint64_t best = 0;
    for (int i = 0; i < count; i++) {
        uint64_t first = best_of(topics[i]);
        if (first && listed)
            return first;
        if (first && (!best || comes_before(first, best)))
            best = first;
    }
    return best;
}

static enum job_state waiting_state(int64_t due_us)
{
    return due_us <= life->now_us ? JOB_READY : JOB_DELAYED;
}

static void model_wait(struct model_job *job, int64_t due_us)
{
    job->due_us = due_us;
    job->state = waiting_state(due_us);
    job->lease = 0;
    job->until_us = 0;
}

static void model_lease(struct model_job *job, bool bound)
{
    job->bound = bound;
    job->state = JOB_RESERVED;
    job->lease = life->lease_next++;
    job->until_us = life->now_us + job->ttr_us;
    job->counts.reserves++;
}

static void model_bury(struct model_job *job)
{
    job->state = JOB_BURIED;
    job->lease = 0;
    job->until_us = 0;
    job->counts.buries++;
}

static void model_fail(struct model_job *job)
{
    job->failures++;
    if (job->wait_count && job->failures > job->wait_count)
        model_bury(job);
    else
        model_wait(job, life->now_us + (job->wait_count ? job->waits_us[job->failures - 1] : 0));
}

static uint64_t find_id(int id)
{
    for (uint64_t i = 1; i < life->seq_next; i++) {
        if (id >= 0 && life->jobs[i].state != JOB_GONE && life->jobs[i].id == id)
            return i;
    }
    return 0;
}

/* ---- what a command makes of a job ---- */

static enum err expect_lease(const struct model_job *job, uint64_t lease)
{
    if (job->state != JOB_RESERVED)
        return lease ? ERR_STALE_LEASE : ERR_WRONG_STATE;
    return lease && lease != job->lease ? ERR_STALE_LEASE : OK;
}

static enum err expect(const struct model_job *job, const struct cmd *cmd)
{
    if (job->state == JOB_GONE)
        return ERR_NOT_FOUND;
    if (cmd->kind == CMD_RESERVE_JOB)
        return job->state == JOB_RESERVED ? ERR_WRONG_STATE : OK;
    if (cmd->kind == CMD_DELETE && cmd->job.if_free && job->state == JOB_RESERVED)
        return ERR_WRONG_STATE;
    if (cmd->kind == CMD_DELETE)
        return cmd->job.lease ? expect_lease(job, cmd->job.lease) : OK;
    if (cmd->kind == CMD_KICK)
        return job->state == JOB_DELAYED || job->state == JOB_BURIED ? OK : ERR_WRONG_STATE;
    if (cmd->kind == CMD_RUN || cmd->kind == CMD_RESCHEDULE)
        return job->state == JOB_DELAYED ? OK : ERR_WRONG_STATE;
    return expect_lease(job, cmd->job.lease);
}

static void model_release(struct model_job *job, const struct cmd_job *cmd)
{
    if (cmd->has_priority)
        job->priority = cmd->priority;
    if (cmd->why == RELEASE_UNDELIVERED && !cmd->has_delay) {
        job->counts.reserves--;
        model_wait(job, job->due_us);
        return;
    }
    if (cmd->why == RELEASE_ABANDONED) {
        model_fail(job);
        return;
    }
    job->counts.releases++;
    if (!cmd->has_delay) {
        model_fail(job);
        return;
    }
    job->failures = (uint16_t)(job->failures + (cmd->why != RELEASE_UNDELIVERED));
    if (cmd->why == RELEASE_UNDELIVERED)
        job->counts.reserves--;
    int64_t due_us = cmd->due_us > life->now_us ? cmd->due_us : life->now_us;
    if (cmd->why == RELEASE_UNDELIVERED && job->due_us > due_us)
        due_us = job->due_us;
    model_wait(job, due_us);
}

static void model_kick(struct model_job *job)
{
    job->counts.kicks++;
    if (job->state == JOB_BURIED)
        job->failures = 0;
    model_wait(job, life->now_us);
}

static void model_reserve_job(struct model_job *job, bool bound)
{
    if (job->state == JOB_BURIED)
        job->failures = 0;
    model_lease(job, bound);
}

static void model_do(struct model_job *job, const struct cmd *cmd)
{
    const struct cmd_job *asked = &cmd->job;
    bool said = cmd->kind == CMD_BURY || (cmd->kind == CMD_RELEASE && asked->why == RELEASE_ASKED);
    if (said && asked->note.len) {
        job->notes++;
        job->last_code = asked->note_code;
        job->last_note_us = life->now_us;
    }
    if (cmd->kind == CMD_RELEASE) {
        model_release(job, asked);
    } else if (cmd->kind == CMD_RESERVE_JOB) {
        model_reserve_job(job, asked->bound);
    } else if (cmd->kind == CMD_TOUCH) {
        job->until_us = life->now_us + (asked->has_ttr ? asked->ttr_us : job->ttr_us);
    } else if (cmd->kind == CMD_BURY) {
        if (asked->has_priority)
            job->priority = asked->priority;
        model_bury(job);
    } else if (cmd->kind == CMD_KICK) {
        model_kick(job);
    } else if (cmd->kind == CMD_RUN) {
        model_wait(job, life->now_us);
    } else if (cmd->kind == CMD_RESCHEDULE) {
        if (asked->has_priority)
            job->priority = asked->priority;
        if (asked->has_body)
            job->body_len = (uint32_t)asked->body.len;
        model_wait(job, asked->has_due ? asked->due_us : job->due_us);
    }
}

#endif
