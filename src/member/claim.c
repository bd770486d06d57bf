#include "member/claim.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

enum {
    POLL_US = 25 * 1000,   /* between reads of the row */
    AGAIN_US = 100 * 1000, /* after a request without an answer */
};

void claim_init(struct claim *claim, const struct member_options *options, int64_t now_us)
{
    *claim = (struct claim){.next_us = now_us, .rest_until_us = INT64_MIN};
    tenure_init(&claim->tenure, options->timeout_us, now_us);
    (void)snprintf(claim->holder, sizeof(claim->holder), "%016llx",
                   (unsigned long long)options->instance);
    (void)snprintf(claim->url, sizeof(claim->url), "%s", options->advertise);
}

int64_t claim_next_us(const struct claim *claim)
{
    return claim->pending ? INT64_MAX : claim->next_us;
}

static bool is_ours(const struct claim *claim, const struct claim_row *row)
{
    return row->exists && strcmp(row->holder, claim->holder) == 0;
}

bool claim_is_held(const struct claim *claim)
{
    bool writing = claim->pending && claim->request.write && is_ours(claim, &claim->request.to);
    return writing || !claim->known || is_ours(claim, &claim->row);
}

const char *claim_leader(const struct claim *claim)
{
    bool held = claim->known && claim->row.exists && claim->row.holder[0];
    return held && !is_ours(claim, &claim->row) ? claim->row.url : "";
}

/* ---- requests ---- */

static bool is_resting(const struct claim *claim, int64_t now_us)
{
    return now_us < claim->rest_until_us;
}

/* How long a row must stay unchanged before it is taken over: the holder's time-out, or ours if
 * that is longer. */
static int64_t wait_us_of(const struct claim *claim)
{
    int64_t theirs_us = claim->row.exists ? claim->row.timeout_us : 0;
    return theirs_us > claim->tenure.timeout_us ? theirs_us : claim->tenure.timeout_us;
}

static bool may_claim(const struct claim *claim, int64_t now_us)
{
    if (!claim->known || is_resting(claim, now_us))
        return false;
    if (claim->row.exists && (!claim->row.holder[0] || is_ours(claim, &claim->row)))
        return true;
    return now_us - claim->seen_us >= wait_us_of(claim);
}

static uint64_t above_all(const struct claim *claim)
{
    uint64_t epoch = claim->row.exists ? claim->row.epoch : 0;
    if (claim->tenure.epoch > epoch)
        epoch = claim->tenure.epoch;
    return (claim->above > epoch ? claim->above : epoch) + 1;
}

static void write_ours(struct claim *claim, uint64_t epoch, struct claim_request *request)
{
    *request = (struct claim_request){
        .write = true,
        .make = !claim->row.exists,
        .from_epoch = claim->row.epoch,
        .from_count = claim->row.count,
        .to = {.exists = true,
               .epoch = epoch,
               .count = claim->row.exists ? claim->row.count + 1 : 1,
               .timeout_us = claim->tenure.timeout_us},
    };
    memcpy(request->to.holder, claim->holder, sizeof(request->to.holder));
    memcpy(request->to.url, claim->url, sizeof(request->to.url));
}

static void write_free(struct claim *claim, struct claim_request *request)
{
    write_ours(claim, claim->row.epoch, request);
    request->to.holder[0] = '\0';
    request->to.url[0] = '\0';
}

const struct claim_request *claim_request(struct claim *claim, int64_t now_us)
{
    struct claim_request *request = &claim->request;
    CHECK(!claim->pending);
    claim->pending = true;
    claim->sent_us = now_us;
    *request = (struct claim_request){.write = false};
    (void)tenure_expire(&claim->tenure, now_us);
    if (claim->tenure.leading)
        write_ours(claim,
                   claim->above >= claim->tenure.epoch ? above_all(claim) : claim->tenure.epoch,
                   request);
    else if (claim->known && is_ours(claim, &claim->row) && is_resting(claim, now_us))
        write_free(claim, request);
    else if (may_claim(claim, now_us))
        write_ours(claim, above_all(claim), request);
    return request;
}

/* ---- answers ---- */

static bool is_same(const struct claim_row *a, const struct claim_row *b)
{
    return a->exists == b->exists && a->epoch == b->epoch && a->count == b->count &&
           strcmp(a->holder, b->holder) == 0;
}

static void take_row(struct claim *claim, const struct claim_row *row, int64_t now_us)
{
    if (!claim->known || !is_same(&claim->row, row))
        claim->seen_us = now_us;
    claim->row = *row;
    claim->known = true;
    tenure_note_epoch(&claim->tenure, row->epoch);
}

/* The row is ours, since sent_us at the latest. */
static void lead(struct claim *claim, int64_t now_us)
{
    struct tenure *tenure = &claim->tenure;
    bool leads = tenure->leading ? tenure_extend(tenure, claim->row.epoch, claim->sent_us, now_us)
                                 : tenure_begin(tenure, claim->row.epoch, claim->sent_us, now_us);
    claim->next_us = leads ? claim->sent_us + tenure->timeout_us / TENURE_PARTS : now_us + POLL_US;
}

/* The row is not the one that we wrote last. It can still be ours: of a write whose answer was
 * lost. */
static void check_changed_row(struct claim *claim, int64_t now_us)
{
    bool ours = is_ours(claim, &claim->row) && claim->row.epoch >= claim->tenure.epoch;
    if (ours) {
        claim->tenure.epoch = claim->tenure.led = claim->row.epoch;
    } else {
        tenure_end(&claim->tenure, claim->row.exists ? LOSS_TAKEN : LOSS_DELETED, now_us);
        tenure_note_epoch(&claim->tenure, claim->row.epoch);
    }
    claim->next_us = ours ? now_us : now_us + POLL_US;
}

void claim_answered(struct claim *claim, const struct claim_answer *answer, int64_t now_us)
{
    CHECK(claim->pending);
    bool wrote = claim->request.write && answer->done;
    claim->pending = false;
    (void)tenure_expire_after_request(&claim->tenure, now_us);
    take_row(claim, wrote ? &claim->request.to : &answer->row, now_us);
    claim->next_us = now_us + POLL_US;
    if (is_resting(claim, now_us)) {
        if (is_ours(claim, &claim->row))
            claim->next_us = now_us; /* to give it back */
    } else if (wrote && is_ours(claim, &claim->row)) {
        lead(claim, now_us);
    } else if (claim->tenure.leading) {
        check_changed_row(claim, now_us);
    } else if (may_claim(claim, now_us) && !claim->request.write) {
        claim->next_us = now_us;
    }
}

void claim_unanswered(struct claim *claim, int64_t now_us)
{
    CHECK(claim->pending);
    claim->pending = false;
    (void)tenure_expire_after_request(&claim->tenure, now_us);
    if (!claim->row.exists)
        claim->known = false; /* it may have been made and deleted: the wait starts again */
    claim->next_us = now_us + AGAIN_US;
}

/* ---- calls of the owner ---- */

bool claim_expire(struct claim *claim, int64_t now_us)
{
    return tenure_expire(&claim->tenure, now_us);
}

void claim_raise(struct claim *claim, uint64_t above, int64_t now_us)
{
    if (above > claim->above)
        claim->above = above;
    if (claim->tenure.leading && claim->above >= claim->tenure.epoch)
        claim->next_us = now_us;
}

void claim_resign(struct claim *claim, int64_t rest_us, int64_t now_us)
{
    tenure_end(&claim->tenure, LOSS_RESIGNED, now_us);
    claim->rest_until_us = now_us + rest_us;
    if (claim_is_held(claim))
        claim->next_us = now_us;
}
