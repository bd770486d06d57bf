#include "sink/webhook/answer.h"

#include <stdio.h>

#include "base/ascii.h"

void answer_init(struct answer *answer, const struct target_http *http, uint64_t body_max)
{
    *answer = (struct answer){.http = http, .body_max = body_max, .retry_after_us = -1};
}

void answer_fini(struct answer *answer)
{
    buf_fini(&answer->kept);
}

/* ---- headers ---- */

int64_t retry_after_read(struct bytes value, answer_date *date, int64_t now_us)
{
    static const int64_t seconds_max = (int64_t)50 * 365 * 86400;
    char text[64];
    uint64_t seconds;
    if (bytes_to_u64(value, &seconds))
        return (seconds < (uint64_t)seconds_max ? (int64_t)seconds : seconds_max) * 1000000;
    /* All three date formats begin with a weekday; curl_getdate() alone would accept "12". */
    if (value.len == 0 || value.len >= sizeof(text) || (value.at[0] | 0x20) < 'a' ||
        (value.at[0] | 0x20) > 'z' || memchr(value.at, '\0', value.len))
        return -1;
    memcpy(text, value.at, value.len);
    text[value.len] = '\0';
    time_t at_s = date(text, NULL);
    if (at_s < 0)
        return -1;
    int64_t wait_s = (int64_t)at_s - now_us / 1000000;
    if (wait_s <= 0)
        return 0;
    return (wait_s < seconds_max ? wait_s : seconds_max) * 1000000;
}

/* True: a header of that name, with its colon. */
static bool take_name(struct bytes line, struct bytes name, struct bytes *out_value)
{
    if (line.len <= name.len || !bytes_eq_nocase(bytes_of(line.at, name.len), name))
        return false;
    *out_value = ascii_trim(bytes_of(line.at + name.len, line.len - name.len));
    return true;
}

/* "HTTP/1.1 204 …" */
static bool is_bodiless(struct bytes line)
{
    if (line.len < 12 || !bytes_starts(line, BYTES("HTTP/1")))
        return false;
    struct bytes status = bytes_of(line.at + 9, 3);
    return bytes_eq(status, BYTES("204")) || bytes_eq(status, BYTES("304"));
}

bool answer_header(struct answer *answer, struct bytes line, answer_date *date, int64_t now_us)
{
    struct bytes value;
    answer->header_bytes +=
        (uint32_t)(line.len < ANSWER_HEADERS_MAX ? line.len : ANSWER_HEADERS_MAX);
    if (answer->header_bytes > ANSWER_HEADERS_MAX) {
        answer->flooded = true;
        return false;
    }
    if (bytes_starts(line, BYTES("HTTP/"))) {
        answer->retry_after_us = -1;
        answer->bodiless = is_bodiless(line);
        answer->stray = false;
    } else if (take_name(line, BYTES("retry-after:"), &value)) {
        answer->retry_after_us = retry_after_read(value, date, now_us);
    } else if (answer->bodiless) {
        answer->stray |=
            take_name(line, BYTES("transfer-encoding:"), &value) ||
            (take_name(line, BYTES("content-length:"), &value) && !bytes_eq(value, BYTES("0")));
    }
    return true;
}

/* ---- body ---- */

/* Continues the comparison of the body with http->success_body. */
static void match(struct answer *answer, struct bytes bytes)
{
    struct bytes wanted = ascii_trim(answer->http->success_body);
    for (size_t i = 0; i < bytes.len && !answer->mismatched; i++) {
        char c = bytes.at[i];
        bool more = answer->matched < wanted.len;
        if (ascii_is_space(c) && (answer->matched == 0 || !more))
            continue; /* before it, or behind */
        if (more && bytes_eq_nocase(bytes_of(&c, 1), bytes_of(wanted.at + answer->matched, 1)))
            answer->matched++;
        else
            answer->mismatched = true;
    }
}

bool answer_body(struct answer *answer, struct bytes bytes)
{
    uint64_t room = answer->body_max - answer->body_bytes;
    if (bytes.len > room) {
        answer->cut = true;
        bytes.len = (size_t)room;
    }
    answer->body_bytes += bytes.len;
    size_t keep = OUTCOME_RESPONSE_MAX - answer->kept.len;
    buf_add(&answer->kept, bytes.at, bytes.len < keep ? bytes.len : keep);
    if (answer->http->success_body.len)
        match(answer, bytes);
    return !answer->cut;
}

/* ---- the outcome ---- */

static bool is_success_body(const struct answer *answer)
{
    size_t wanted = ascii_trim(answer->http->success_body).len;
    return wanted == 0 || (!answer->mismatched && !answer->cut && answer->matched == wanted);
}

static bool buries(const struct target_http *http, unsigned status)
{
    for (unsigned i = 0; i < http->bury_on_count; i++) {
        if (http->bury_on[i] == status)
            return true;
    }
    return false;
}

static void explain(const struct answer *answer, unsigned status, bool is_success, char *reason)
{
    const char *of_status = status >= 300 && status < 400 ? "; redirects are not followed" : "";
    if (is_success && answer->cut)
        (void)snprintf(reason, OUTCOME_REASON_MAX,
                       "answered %u with more than %llu bytes, which is not the body of a success",
                       status, (unsigned long long)answer->body_max);
    else if (is_success)
        (void)snprintf(reason, OUTCOME_REASON_MAX,
                       "answered %u with another body than that of a success", status);
    else if (status == 410)
        (void)snprintf(reason, OUTCOME_REASON_MAX,
                       "answered 410 (Gone): the receiver wants no more webhooks");
    else
        (void)snprintf(reason, OUTCOME_REASON_MAX, "answered %u%s", status, of_status);
}

void answer_judge(const struct answer *answer, unsigned status, struct outcome *outcome,
                  char *reason)
{
    const struct target_http *http = answer->http;
    unsigned first = http->success_first ? http->success_first : 200;
    unsigned last = http->success_last ? http->success_last : 299;
    bool is_success = status >= first && status <= last;
    outcome->code = (uint16_t)status;
    outcome->response = buf_bytes(&answer->kept);
    outcome->unhealthy = status == 429 || status >= 500;
    outcome->retry_after_us = status == 429 || status == 503 ? answer->retry_after_us : -1;
    reason[0] = '\0';
    if (is_success && is_success_body(answer)) {
        outcome->kind = OUTCOME_DELIVERED;
        outcome->unhealthy = false;
    } else {
        explain(answer, status, is_success, reason);
        outcome->kind = status == 410          ? OUTCOME_GONE
                        : buries(http, status) ? OUTCOME_REFUSED
                                               : OUTCOME_FAILED;
    }
    outcome->reason = bytes_str(reason);
}
