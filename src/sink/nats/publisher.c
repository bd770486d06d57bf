/*
 * Messages to JetStream, and their outcomes.
 *
 *     broker_take ▶ publish (copied, with its Nats-Msg-Id) ▶ the stream's acknowledgement
 *
 * Each message has a struct push, which lives until libnats has answered, and has an item until
 * then or until the item's deadline. They are in the order of publishing. We check deadlines
 * ourselves: libnats' own (jsPubOptions::MaxWait) use a sorted list, and made it ten times slower
 * with 1000 messages under way. Messages that are never answered are dropped with their JetStream
 * context.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sink/fill.h"
#include "sink/headers.h"
#include "sink/nats/parts.h"

enum {
    LOST_MAX = 10000, /* unanswered messages whose deadline has passed, at most */
    SUBJECT_BYTES = 512,
    VALUE_BYTES = 8192,
};

/* An answer of libnats to a message; on the heap. */
struct answer {
    struct queue_node place;
    natsMsg *message; /* ours to destroy */
    bool acknowledged, duplicate;
    natsStatus status;
    int code;
    char text[160];
};

void jetstream_on_answer(jsCtx *stream, natsMsg *message, jsPubAck *ack, jsPubAckErr *error,
                         void *closure)
{
    struct nats *nats = closure;
    struct answer *answer = mem_zalloc(sizeof(*answer));
    (void)stream;
    answer->message = message;
    answer->acknowledged = ack != NULL;
    answer->duplicate = ack && ack->Duplicate;
    if (error) {
        answer->status = error->Err;
        answer->code = (int)error->ErrCode;
        (void)snprintf(answer->text, sizeof(answer->text), "%.150s",
                       error->ErrText && error->ErrText[0] ? error->ErrText
                                                           : natsStatus_GetText(error->Err));
    }
    (void)pthread_mutex_lock(&nats->mutex);
    bool first = !nats->answers.first;
    queue_add(&nats->answers, &answer->place);
    (void)pthread_mutex_unlock(&nats->mutex);
    if (first)
        jetstream_wake(nats);
}

/* ---- messages under way ---- */

/* Where the chain of its bucket begins. Multiplied by the golden ratio, whose product's high bits
   depend on all bits of the address. */
static struct push **bucket_of(struct nats *nats, const natsMsg *message)
{
    uint64_t hash = (uint64_t)(uintptr_t)message * UINT64_C(0x9e3779b97f4a7c15);
    return &nats->by_message[hash >> (64 - BUCKETS_LOG2)];
}

struct push *jetstream_add_push(struct nats *nats, struct broker_item *item, natsMsg *message)
{
    struct push *push = mem_zalloc(sizeof(*push));
    struct push **bucket = bucket_of(nats, message);
    push->message = message;
    push->item = item;
    push->bytes = item->delivery->body.len;
    push->alike = *bucket;
    *bucket = push;
    nats->bytes += push->bytes;
    list_add_tail(&nats->pushes, &push->place);
    item->user = push;
    return push;
}

/* Not in the list, although answers come nearly in order: in front of those that are answered there
   may be thousands that never were. */
static struct push *find_push(struct nats *nats, const natsMsg *message)
{
    struct push *push = *bucket_of(nats, message);
    while (push && push->message != message)
        push = push->alike;
    return push;
}

static void free_push(struct nats *nats, struct push *push)
{
    struct push **at = bucket_of(nats, push->message);
    while (*at != push)
        at = &(*at)->alike;
    *at = push->alike;
    list_remove(&push->place);
    nats->bytes -= push->bytes;
    mem_free(push);
}

void jetstream_forget_pushes(struct nats *nats)
{
    while (!list_empty(&nats->pushes))
        free_push(nats, LIST_ENTRY(nats->pushes.next, struct push, place));
    nats->lost = 0;
}

/* ---- outcomes ---- */

/* There is no stream; or it has no leader, as while its servers elect one, or have lost their
   majority: that is an outage of this place, which costs attempts only until its breaker opens. */
static void report_no_stream(struct nats *nats, struct broker_item *item)
{
    char reason[OUTCOME_REASON_MAX];
    char subject[SUBJECT_BYTES] = "";
    (void)sink_fill(item->delivery->target->nats.subject, item->delivery, subject,
                    sizeof(subject)); /* it was */
    (void)snprintf(reason, sizeof(reason),
                   "no stream takes the subject %.60s: it has no leader now, or is missing (nats "
                   "stream add NAME --subjects %.60s)",
                   subject, subject);
    item->unhealthy = true;
    broker_finish(nats->thread, item, OUTCOME_FAILED, reason);
}

static void report(struct nats *nats, struct broker_item *item, natsStatus status, int code,
                   const char *text)
{
    enum outcome_kind kind = OUTCOME_FAILED;
    char reason[OUTCOME_REASON_MAX];
    if (status == NATS_NO_RESPONDERS) {
        report_no_stream(nats, item);
        return;
    }
    (void)snprintf(reason, sizeof(reason), "NATS refused it: %.200s", text);
    if (status == NATS_MAX_PAYLOAD || status == NATS_INVALID_SUBJECT ||
        status == NATS_INVALID_ARG || code == JSStreamMessageExceedsMaximumErr) {
        kind = OUTCOME_REFUSED;
    } else if (status == NATS_TIMEOUT) {
        kind = nats->ready ? OUTCOME_FAILED : OUTCOME_UNSENT;
        item->unhealthy = kind == OUTCOME_FAILED;
        (void)snprintf(reason, sizeof(reason), "%s",
                       item->unhealthy ? "no stream acknowledged it in time" : "NATS is away");
    } else if (code == 0) { /* from libnats itself: the connection has ended, or is ending */
        kind = OUTCOME_UNSENT;
    } else {
        item->unhealthy = code == JSInsufficientResourcesErr ||
                          code == JSMemoryResourcesExceededErr ||
                          code == JSAccountResourcesExceededErr ||
                          code == JSStorageResourcesExceededErr || code == JSStreamStoreFailedErr;
    }
    broker_finish(nats->thread, item, kind, reason);
}

static void take_answer(struct nats *nats, struct answer *answer)
{
    struct push *push = find_push(nats, answer->message);
    struct broker_item *item = push ? push->item : NULL;
    if (answer->duplicate)
        atomic_fetch_add(&nats->duplicates, 1);
    if (item) {
        item->user = NULL;
        if (answer->acknowledged)
            broker_finish(nats->thread, item, OUTCOME_DELIVERED, "");
        else
            report(nats, item, answer->status, answer->code, answer->text);
    }
    if (push) {
        nats->lost -= !item;
        free_push(nats, push);
    }
    natsMsg_Destroy(answer->message);
    mem_free(answer);
}

void jetstream_take_answers(struct nats *nats)
{
    (void)pthread_mutex_lock(&nats->mutex);
    struct queue_node *node = nats->answers.first;
    nats->answers.first = NULL;
    (void)pthread_mutex_unlock(&nats->mutex);
    while (node) {
        struct answer *answer = LIST_ENTRY(node, struct answer, place);
        node = node->next;
        take_answer(nats, answer);
    }
}

void jetstream_unsend_all(struct nats *nats, const char *why)
{
    jetstream_take_answers(nats); /* some may have come since the last turn: those are outcomes */
    for (struct list *at = nats->pushes.next; at != &nats->pushes; at = at->next) {
        struct push *push = LIST_ENTRY(at, struct push, place);
        nats->lost += push->item != NULL;
        push->item = NULL;
    }
    broker_finish_all(nats->thread, OUTCOME_UNSENT, why);
}

void jetstream_forget_lost(struct nats *nats)
{
    jsCtx_Destroy(nats->stream);
    nats->stream = NULL;
    jetstream_forget_pushes(nats);
    if (jetstream_make_stream(nats) != NATS_OK)
        natsConnection_Close(nats->connection); /* a new connection is opened */
}

/* ---- sending ---- */

/* True: the text can be sent as a name or value in NATS' headers. */
static bool fits(struct bytes text, bool is_name)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c == '\r' || c == '\n' || c == '\0' || (is_name && (c <= ' ' || c == ':' || c > '~')))
            return false;
    }
    return text.len < VALUE_BYTES && (!is_name || text.len > 0);
}

/* Values of laterd's own headers may have any bytes (a job's id): percent-encoded, as in
   webhooks. */
static void encode(struct bytes text, char room[static VALUE_BYTES])
{
    size_t len = 0;
    for (size_t i = 0; i < text.len && len + 4 < VALUE_BYTES; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c > ' ' && c < 0x7f && c != '%')
            room[len++] = (char)c;
        else
            len += (size_t)snprintf(room + len, 4, "%%%02X", c);
    }
    room[len] = '\0';
}

/* False: a header cannot be sent; *out_name is which. */
static bool add_headers(natsMsg *message, const struct delivery *delivery, struct bytes *out_name)
{
    struct sink_headers headers;
    char name[VALUE_BYTES], value[VALUE_BYTES];
    sink_headers_make(&headers, delivery);
    for (unsigned i = 0; i < headers.count; i++) {
        const struct target_header *header = &headers.all[i];
        bool encoded = i > 0 && i < headers.own_count; /* not content-type, or our id */
        *out_name = header->name;
        if (bytes_eq_nocase(header->name, BYTES("Nats-Msg-Id")))
            continue; /* always set by the message itself */
        if (!fits(header->name, true) || (!encoded && !fits(header->value, false)))
            return false;
        (void)snprintf(name, sizeof(name), "%.*s", (int)header->name.len, header->name.at);
        if (encoded)
            encode(header->value, value);
        else
            (void)snprintf(value, sizeof(value), "%.*s", (int)header->value.len, header->value.at);
        if (natsMsgHeader_Set(message, name, value) != NATS_OK)
            return false;
    }
    return true;
}

static void publish(struct nats *nats, struct broker_item *item, natsMsg *message)
{
    const struct delivery *delivery = item->delivery;
    char id[OUTCOME_REASON_MAX];
    jsPubOptions options;
    (void)jsPubOptions_Init(&options);
    (void)snprintf(id, sizeof(id), "%.*s", (int)delivery->message_id.len, delivery->message_id.at);
    options.MsgId = id;
    struct push *push = jetstream_add_push(nats, item, message);
    natsStatus status = js_PublishMsgAsync(nats->stream, &message, &options);
    if (status == NATS_OK)
        return;
    item->user = NULL;
    free_push(nats, push);
    natsMsg_Destroy(message);
    report(nats, item, status, 0, natsStatus_GetText(status));
}

/* A job's key must not make the subject a command to NATS ($JS.API…), or a wildcard. */
static bool make_subject(const struct delivery *delivery, char room[static SUBJECT_BYTES])
{
    struct bytes text = delivery->target->nats.subject;
    if (!sink_fill(text, delivery, room, SUBJECT_BYTES) || !room[0])
        return false;
    for (const char *at = room; *at; at++) {
        if ((unsigned char)*at <= ' ' || *at == '*' || *at == '>' || *at == 0x7f)
            return false;
    }
    return room[0] != '$' || text.at[0] == '$';
}

static void send_item(struct nats *nats, struct broker_item *item)
{
    const struct delivery *delivery = item->delivery;
    struct bytes bad = BYTES("");
    char name[SUBJECT_BYTES], reason[OUTCOME_REASON_MAX];
    natsMsg *message = NULL;
    if (!make_subject(delivery, name)) {
        broker_finish(nats->thread, item, OUTCOME_REFUSED, "NATS takes no such subject");
        return;
    }
    natsStatus status =
        natsMsg_Create(&message, name, NULL, delivery->body.at, (int)delivery->body.len);
    if (status != NATS_OK) {
        report(nats, item, status, 0, natsStatus_GetText(status));
        return;
    }
    if (add_headers(message, delivery, &bad)) {
        publish(nats, item, message);
        return;
    }
    natsMsg_Destroy(message);
    (void)snprintf(reason, sizeof(reason),
                   "the header %.*s cannot be sent to NATS: it has a line "
                   "end, or is too long",
                   (int)(bad.len < 100 ? bad.len : 100), bad.at);
    broker_finish(nats->thread, item, OUTCOME_REFUSED, reason);
}

void jetstream_take_items(struct nats *nats)
{
    struct broker_item *item;
    while (nats->bytes < WINDOW_BYTES && (item = broker_take(nats->thread))) {
        if (nats->ready && nats->stream)
            send_item(nats, item);
        else
            broker_finish(nats->thread, item, OUTCOME_UNSENT, "NATS is away");
    }
}

void jetstream_report_late(struct nats *nats)
{
    struct broker_item *item;
    while ((item = broker_late(nats->thread, broker_now_us()))) {
        struct push *push = item->user;
        nats->lost += push != NULL;
        if (push)
            push->item = NULL;
        report(nats, item, NATS_TIMEOUT, 0, "");
    }
    if (nats->lost > LOST_MAX)
        jetstream_unsend_all(nats, "NATS answers too few messages");
    if (nats->lost && nats->stream && broker_pending(nats->thread) == 0)
        jetstream_forget_lost(nats);
}
