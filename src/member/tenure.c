#include "member/tenure.h"

#include "base/check.h"

void tenure_init(struct tenure *tenure, int64_t timeout_us, int64_t now_us)
{
    *tenure = (struct tenure){.timeout_us = timeout_us, .since_us = now_us};
}

static int64_t deadline_of(const struct tenure *tenure, int64_t sent_us)
{
    return sent_us + tenure->timeout_us / TENURE_PARTS * (TENURE_PARTS - 1);
}

bool tenure_begin(struct tenure *tenure, uint64_t epoch, int64_t sent_us, int64_t now_us)
{
    CHECK(!tenure->leading && sent_us <= now_us);
    tenure_note_epoch(tenure, epoch);
    if (deadline_of(tenure, sent_us) <= now_us || epoch <= tenure->led)
        return false;
    tenure->leading = true;
    tenure->loss = LOSS_NONE;
    tenure->epoch = tenure->led = epoch;
    tenure->terms++;
    tenure->deadline_us = deadline_of(tenure, sent_us);
    tenure->since_us = now_us;
    return true;
}

bool tenure_extend(struct tenure *tenure, uint64_t epoch, int64_t sent_us, int64_t now_us)
{
    CHECK(tenure->leading && epoch >= tenure->epoch);
    if (tenure_expire_after_request(tenure, now_us))
        return false; /* after the deadline others may have begun to lead */
    tenure->epoch = tenure->led = epoch;
    if (deadline_of(tenure, sent_us) > tenure->deadline_us)
        tenure->deadline_us = deadline_of(tenure, sent_us);
    return true;
}

void tenure_set_timeout(struct tenure *tenure, int64_t timeout_us, int64_t sent_us, int64_t now_us)
{
    tenure->timeout_us = timeout_us;
    if (!tenure->leading || deadline_of(tenure, sent_us) >= tenure->deadline_us)
        return;
    tenure->deadline_us = deadline_of(tenure, sent_us);
    if (now_us >= tenure->deadline_us)
        tenure_end(tenure, LOSS_UNANSWERED, now_us);
}

void tenure_end(struct tenure *tenure, enum member_loss loss, int64_t now_us)
{
    if (!tenure->leading)
        return;
    tenure->leading = false;
    tenure->loss = loss;
    tenure->deadline_us = 0;
    tenure->since_us = now_us;
}

static bool expire(struct tenure *tenure, int64_t late_us, int64_t now_us)
{
    if (!tenure->leading || now_us < tenure->deadline_us)
        return false;
    bool late = now_us - tenure->deadline_us > late_us;
    tenure_end(tenure, late ? LOSS_PAUSED : LOSS_UNANSWERED, now_us);
    return true;
}

bool tenure_expire(struct tenure *tenure, int64_t now_us)
{
    return expire(tenure, TENURE_LATE_US, now_us);
}

bool tenure_expire_after_request(struct tenure *tenure, int64_t now_us)
{
    return expire(tenure, TENURE_LATE_REQUEST_US, now_us);
}

void tenure_note_epoch(struct tenure *tenure, uint64_t epoch)
{
    if (epoch > tenure->epoch && !tenure->leading)
        tenure->epoch = epoch;
}
