/*
 * Writes what happened to a job, as JSON. The log has no entry for a job that became due, so this
 * is derived from its due time and the next entry, or the present time.
 */
#include "base/rfc3339.h"
#include "core/happening.h"
#include "proto/api/v1.h"

static const char *const words[HAPPENINGS] = {
    [HAPPENED_PUSHED] = "pushed",           [HAPPENED_REPLACED] = "replaced",
    [HAPPENED_RESERVED] = "reserved",       [HAPPENED_RELEASED] = "released",
    [HAPPENED_UNDELIVERED] = "undelivered", [HAPPENED_ABANDONED] = "abandoned",
    [HAPPENED_TIMED_OUT] = "timed_out",     [HAPPENED_BURIED] = "buried",
    [HAPPENED_KICKED] = "kicked",           [HAPPENED_RUN] = "run",
    [HAPPENED_RESCHEDULED] = "rescheduled", [HAPPENED_FINISHED] = "finished",
    [HAPPENED_DELETED] = "deleted",
};

static void add_time(struct buf *out, const char *key, int64_t us)
{
    buf_add_str(out, key);
    rfc3339_add(out, us);
    buf_add_char(out, '"');
}

static void begin(struct buf *out, const char *event, const struct happening *happening,
                  int64_t at_us)
{
    add_time(out, "{\"time\":\"", at_us);
    buf_add_str(out, ",\"event\":\"");
    buf_add_str(out, event);
    buf_add_str(out, "\",\"number\":\"");
    buf_add_u64(out, happening->seq);
    buf_add_char(out, '"');
}

static void add_happening(struct buf *out, const struct happening *happening)
{
    begin(out, words[happening->what], happening, happening->at_us);
    if (happening->state != JOB_GONE) {
        buf_add_str(out, ",\"state\":\"");
        buf_add_str(out, job_state_name(happening->state));
        buf_add_char(out, '"');
    }
    if (happening->state == JOB_RESERVED) {
        add_time(out, ",\"until\":\"", happening->time_us);
        buf_add_str(out, ",\"lease\":\"");
        buf_add_u64(out, happening->lease);
        buf_add_char(out, '"');
    } else if (happening->state == JOB_DELAYED || happening->state == JOB_READY) {
        add_time(out, ",\"due\":\"", happening->time_us);
    }
    if (happening->topic.len) {
        buf_add_str(out, ",\"topic\":");
        json_add_text(out, happening->topic, JSON_STYLE_PLAIN);
    }
    if (happening->code) {
        buf_add_str(out, ",\"code\":");
        buf_add_u64(out, happening->code);
    }
    if (happening->what == HAPPENED_RESERVED && happening->note.len) {
        buf_add_str(out, ",\"by\":");
        json_add_text(out, happening->note, JSON_STYLE_PLAIN);
    } else if (happening->note.len) {
        v1_add_note(out, happening->note, true);
    }
    buf_add_char(out, '}');
}

/* The job was delayed; did it fall due before `until_us`, when something else happened to it? */
static void add_due(struct buf *out, const struct happening *happening, int64_t until_us)
{
    if (happening->state != JOB_DELAYED || happening->time_us > until_us)
        return;
    buf_add_char(out, ',');
    begin(out, "due", happening, happening->time_us);
    buf_add_str(out, ",\"state\":\"ready\"}");
}

/* The time before which the job may have become due: that of its next entry, or of one of another
 * job with its id, or the present time if it lives. If the entry of its end may be missing, whether
 * it became due is unknown. */
static int64_t next_us(const struct reply *reply, uint32_t i, int64_t now_us)
{
    if (i + 1 < reply->happening_count)
        return reply->happenings[i + 1].at_us;
    return reply->happens_on ? now_us : INT64_MIN;
}

void v1_add_history(struct buf *out, const struct reply *reply, int64_t now_us)
{
    char room[JOB_TEXT_ID_MAX];
    struct job_ref ref = {.id = reply->happenings[0].id, .seq = reply->happenings[0].seq};
    buf_add_str(out, "{\"id\":");
    json_add_text(out, job_ref_text(&ref, room), JSON_STYLE_PLAIN);
    buf_add_str(out, ",\"events\":[");
    for (uint32_t i = 0; i < reply->happening_count; i++) {
        if (i)
            buf_add_char(out, ',');
        add_happening(out, &reply->happenings[i]);
        add_due(out, &reply->happenings[i], next_us(reply, i, now_us));
    }
    buf_add_char(out, ']');
    if (reply->damaged)
        buf_add_str(out, ",\"damaged\":true");
    buf_add_str(out, reply->more ? ",\"more\":true}" : ",\"more\":false}");
}
