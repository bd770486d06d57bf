/*
 * Counts jobs that are due by given times. The core has counted those in memory; far jobs are
 * counted slice by slice, some in each turn, and then the sums are answered. A job that comes back
 * to memory meanwhile may be counted twice or not at all.
 */
#include <assert.h>

#include "base/mem.h"
#include "engine/embedded/parts.h"
#include "store/far.h"

enum {
    STEP_SLICES = 4,  /* counted at a time … */
    SLICE_NS = 10000, /* … at this much work each: 256 blocks and the bits of their dead jobs */
};

static_assert((int)DUE_TIMES_MAX <= (int)FAR_DUE_TIMES_MAX, "the store counts as many");

struct due_count {
    struct waiting_reply head;
    struct list link; // embedded::due_counts
    int64_t until_us[DUE_TIMES_MAX];
    uint64_t jobs[DUE_TIMES_MAX];
    struct far_due far;
};

void due_wait(struct embedded *embedded, struct ticket *ticket, const struct reply *reply)
{
    struct due_count *count = mem_zalloc(sizeof(*count));
    count->head = (struct waiting_reply){.ticket = ticket, .why = WAITS_FOR_DUE};
    for (uint32_t i = 0; i < reply->count; i++) {
        count->until_us[i] = reply->until_us[i];
        count->jobs[i] = reply->due[i];
    }
    count->far =
        (struct far_due){.until_us = count->until_us, .count = reply->count, .jobs = count->jobs};
    list_add_tail(&embedded->due_counts, &count->link);
    embedded->read_waiter_count++;
    embedded->busy = true;
    ticket->held = &count->head;
}

static void end(struct embedded *embedded, struct due_count *count, enum err err)
{
    struct ticket *ticket = count->head.ticket;
    list_remove(&count->link);
    embedded->read_waiter_count--;
    if (ticket) {
        ticket->held = NULL;
        ticket->answered(ticket, &(struct reply){.err = err,
                                                 .kind = CMD_DUE,
                                                 .count = err ? 0 : count->far.count,
                                                 .until_us = count->until_us,
                                                 .due = err ? NULL : count->jobs});
    }
    mem_free(count);
}

static struct due_count *first(struct embedded *embedded)
{
    if (list_empty(&embedded->due_counts))
        return NULL;
    return LIST_ENTRY(embedded->due_counts.next, struct due_count, link);
}

void due_turn(struct embedded *embedded)
{
    struct due_count *count;
    for (unsigned steps = 0; (count = first(embedded)) != NULL; steps++) {
        if (steps > 0 && budget_spent(embedded->budget)) {
            embedded->busy = true;
            return;
        }
        budget_spend(embedded->budget, (int64_t)STEP_SLICES * SLICE_NS);
        if (!count->head.ticket || !store_far_due(embedded->store, &count->far, STEP_SLICES))
            end(embedded, count, OK); /* cancelled, or all are counted */
    }
}

void due_fail_all(struct embedded *embedded)
{
    struct due_count *count;
    while ((count = first(embedded)) != NULL)
        end(embedded, count, ERR_STORE_FAILED);
}
