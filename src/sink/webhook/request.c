#include "sink/webhook/request.h"

#include <curl/curl.h>

#include "base/ascii.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rfc3339.h"
#include "sink/headers.h"

void request_init(struct request *request)
{
    *request = (struct request){
        .list = mem_alloc(REQUEST_HEADERS_MAX * sizeof(struct curl_slist)),
    };
}

void request_fini(struct request *request)
{
    buf_fini(&request->text);
    mem_free(request->list);
    request->list = NULL;
}

/* ---- words ---- */

static bool is_unreserved(char c)
{
    return ascii_is_letter(c) || ascii_is_digit(c) || (c && strchr("-._~@:/", c));
}

static void add_percent(struct buf *out, char c)
{
    buf_addf(out, "%%%02X", (unsigned)(uint8_t)c);
}

/* Appends the text percent-encoded: all but letters, digits and - . _ ~ @ : / becomes %XX. */
static void add_encoded(struct buf *out, struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (is_unreserved(text.at[i]))
            buf_add_char(out, text.at[i]);
        else
            add_percent(out, text.at[i]);
    }
}

/* Percent-encodes what is not visible ASCII, " and %, as CloudEvents' HTTP binding says
   (3.1.3.2). */
static void add_attribute(struct buf *out, struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c > ' ' && c <= '~' && c != '"' && c != '%')
            buf_add_char(out, c);
        else
            add_percent(out, c);
    }
}

/* True: a target or a job may have a header of this name: not one of laterd's, nor one that frames
   the request. */
static bool header_is_free(struct bytes name)
{
    static const char *const reserved[] = {
        "content-length", "transfer-encoding", "connection", "host",   "expect", "te",
        "upgrade",        "idempotency-key",   "keep-alive", "trailer"};
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
        if (bytes_eq_nocase(name, bytes_str(reserved[i])))
            return false;
    }
    return !bytes_starts_nocase(name, BYTES("webhook-")) &&
           !bytes_starts_nocase(name, BYTES("laterd-")) &&
           !bytes_starts_nocase(name, BYTES("proxy-"));
}

/* True: a name of RFC 9110, 5.1, and a value without control characters. Nothing else is ever sent,
   even if it was accepted earlier. */
static bool is_header(const struct target_header *header)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < header->name.len; i++) {
        char c = header->name.at[i];
        if (!ascii_is_letter(c) && !ascii_is_digit(c) && !(c && strchr(marks, c)))
            return false;
    }
    for (size_t i = 0; i < header->value.len; i++) {
        uint8_t c = (uint8_t)header->value.at[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return header->name.len > 0;
}

/* True: there is a header of that name that can be sent. */
static bool among(const struct target_header *headers, unsigned count, struct bytes name)
{
    for (unsigned i = 0; i < count; i++) {
        if (bytes_eq_nocase(headers[i].name, name) && is_header(&headers[i]))
            return true;
    }
    return false;
}

/* ---- one header ---- */

/* Begins a header; its value is what is appended to request->text before end(). */
static struct buf *begin(struct request *request, const char *name)
{
    CHECK(request->count < REQUEST_HEADERS_MAX);
    request->starts[request->count++] = request->text.len;
    buf_add_str(&request->text, name);
    buf_add(&request->text, ": ", 2);
    return &request->text;
}

static void end(struct request *request)
{
    buf_add_char(&request->text, '\0');
}

static void add(struct request *request, const char *name, struct bytes value)
{
    buf_add_bytes(begin(request, name), value);
    end(request);
}

/* ---- ours ---- */

static enum err add_signature(struct request *request, const struct delivery *delivery,
                              int64_t now_s, struct secrets *secrets,
                              struct secret_problem *problem)
{
    const struct target_http *http = &delivery->target->http;
    struct signed_message message = {
        .id = delivery->message_id, .time_s = now_s, .body = delivery->body};
    if (http->sign_count == 0)
        return OK;
    struct buf *out = begin(request, "webhook-signature");
    for (unsigned i = 0; i < http->sign_count; i++) {
        const struct signing_key *key;
        enum err err = secrets_find(secrets, http->sign[i], &key, problem);
        if (err)
            return err;
        if (i)
            buf_add_char(out, ' ');
        if (signature_add(out, key, &message)) {
            memcpy(problem->text, "OpenSSL cannot sign", sizeof("OpenSSL cannot sign"));
            return ERR_INVALID;
        }
    }
    end(request);
    return OK;
}

/* W3C Trace Context: the trace is the message's, the span the attempt's. A job that is replayed has
 * attempts of the same numbers, at another time. */
static void add_trace(struct request *request, const struct delivery *delivery, int64_t now_s)
{
    struct bytes id = delivery->message_id;
    uint64_t high = hash_seeded(id.at, id.len, 1), low = hash_seeded(id.at, id.len, 2);
    uint64_t of_attempt = 3 + ((uint64_t)now_s << 32 | delivery->attempt);
    uint64_t span = hash_seeded(id.at, id.len, of_attempt);
    buf_addf(begin(request, "traceparent"), "00-%016llx%016llx-%016llx-01",
             (unsigned long long)high, (unsigned long long)(low ? low : 1),
             (unsigned long long)(span ? span : 1));
    end(request);
}

/* Makes curl send no Expect header: it would wait a second for "100 Continue" before a body over
 * 1 MB. */
static void add_no_expect(struct request *request)
{
    request->starts[request->count++] = request->text.len;
    buf_add(&request->text, "Expect:", sizeof("Expect:"));
}

static void add_own(struct request *request, const struct delivery *delivery, int64_t now_s)
{
    add(request, "webhook-id", delivery->message_id);
    add(request, "idempotency-key", delivery->message_id);
    buf_add_i64(begin(request, "webhook-timestamp"), now_s);
    end(request);
    add_encoded(begin(request, "laterd-job-id"), delivery->id);
    end(request);
    add_encoded(begin(request, "laterd-topic"), delivery->topic);
    end(request);
    buf_add_u64(begin(request, "laterd-attempt"), delivery->attempt);
    end(request);
    rfc3339_add(begin(request, "laterd-due"), delivery->due_us);
    end(request);
    for (enum delivery_label i = 0; i < DELIVERY_LABELS; i++) {
        if (delivery->labels[i].len == 0)
            continue;
        add_encoded(begin(request, sink_label_header(i).at), delivery->labels[i]);
        end(request);
    }
    add_no_expect(request);
}

/* Names of attributes have neither hyphens nor underscores (CloudEvents 1.0, 3.1). */
static const char *const label_attributes[DELIVERY_LABELS] = {
    [DELIVERY_BIZ_KEY] = "ce-bizkey",
    [DELIVERY_SUBTOPIC] = "ce-subtopic",
    [DELIVERY_TAGS] = "ce-tags",
    [DELIVERY_EXTEND_DATA] = "ce-extenddata",
};

/* CloudEvents 1.0, binary mode: the body is as it is, its attributes are headers. */
static void add_event(struct request *request, const struct delivery *delivery)
{
    struct bytes type = delivery->target->http.event_type;
    struct buf source = {0};
    add(request, "ce-specversion", BYTES("1.0"));
    add_attribute(begin(request, "ce-id"), delivery->message_id);
    end(request);
    buf_add_str(&source, "/laterd/");
    add_encoded(&source, delivery->topic); /* a URI reference */
    add_attribute(begin(request, "ce-source"), buf_bytes(&source));
    end(request);
    buf_fini(&source);
    add_attribute(begin(request, "ce-type"), type.len ? type : BYTES("laterd.job.due"));
    end(request);
    rfc3339_add(begin(request, "ce-time"), delivery->due_us);
    end(request);
    add_attribute(begin(request, "ce-subject"), delivery->id);
    end(request);
    for (enum delivery_label i = 0; i < DELIVERY_LABELS; i++) {
        if (delivery->labels[i].len == 0)
            continue;
        add_attribute(begin(request, label_attributes[i]), delivery->labels[i]);
        end(request);
    }
}

/* ---- others' ---- */

static void add_free(struct request *request, const struct delivery *delivery,
                     const struct target_header *header)
{
    bool is_event = delivery->target->http.encoding == ENCODING_CLOUDEVENTS;
    if (!header_is_free(header->name) || !is_header(header) ||
        (is_event && bytes_starts_nocase(header->name, BYTES("ce-"))) ||
        request->count == REQUEST_HEADERS_MAX)
        return;
    request->starts[request->count++] = request->text.len;
    buf_add_bytes(&request->text, header->name);
    if (header->value.len) {
        buf_add(&request->text, ": ", 2);
        buf_add_bytes(&request->text, header->value);
    } else {
        buf_add_char(&request->text, ';'); /* curl's notation for a header without a value */
    }
    end(request);
}

static bool is_given(const struct delivery *delivery, struct bytes name)
{
    return among(delivery->headers, delivery->header_count, name) ||
           among(delivery->target->headers, delivery->target->header_count, name);
}

static void add_defaults(struct request *request, const struct delivery *delivery, int64_t now_s)
{
    if (!is_given(delivery, BYTES("content-type"))) {
        struct target_header type = {BYTES("content-type"), sink_content_type(delivery)};
        if (!is_header(&type))
            type.value = BYTES("application/octet-stream");
        add(request, "content-type", type.value);
    }
    if (!is_given(delivery, BYTES("user-agent")))
        add(request, "user-agent", BYTES("laterd/" LATERD_VERSION));
    if (!is_given(delivery, BYTES("traceparent")))
        add_trace(request, delivery, now_s);
}

/* Links the list's nodes to the text, which must not grow any more. */
static void link(struct request *request)
{
    for (unsigned i = 0; i < request->count; i++)
        request->list[i] = (struct curl_slist){
            .data = request->text.at + request->starts[i],
            .next = i + 1 < request->count ? &request->list[i + 1] : NULL,
        };
}

enum err request_make(struct request *request, const struct delivery *delivery, int64_t now_s,
                      struct secrets *secrets, struct secret_problem *out_problem)
{
    const struct target *target = delivery->target;
    request->text.len = 0;
    request->count = 0;
    add_own(request, delivery, now_s);
    enum err err = add_signature(request, delivery, now_s, secrets, out_problem);
    if (err)
        return err;
    if (target->http.encoding == ENCODING_CLOUDEVENTS)
        add_event(request, delivery);
    add_defaults(request, delivery, now_s);
    for (unsigned i = 0; i < target->header_count; i++) {
        if (!among(delivery->headers, delivery->header_count, target->headers[i].name))
            add_free(request, delivery, &target->headers[i]);
    }
    for (unsigned i = 0; i < delivery->header_count; i++)
        add_free(request, delivery, &delivery->headers[i]);
    link(request);
    return OK;
}
