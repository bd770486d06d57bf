#include "journal/sql.h"

#include <stdio.h>

#include "journal/extend.h"
#include "proto/base64.h"

enum { REJECTED_EVENT_MAX = 64 * 1024, BIZKEY_CHARACTERS = 128, SUBTOPIC_CHARACTERS = 250 };

/* ---- values ---- */

/* The letter behind the backslash; 0: the byte stands for itself. */
static char escape_of(char c)
{
    switch (c) {
    case '\0': return '0';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\x1a': return 'Z';
    case '\\':
    case '\'':
    case '"': return c;
    default: return 0;
    }
}

static void add_escaped(struct buf *out, struct bytes text)
{
    size_t plain = 0;
    for (size_t i = 0; i < text.len; i++) {
        char letter = escape_of(text.at[i]);
        if (!letter)
            continue;
        buf_add(out, text.at + plain, i - plain);
        buf_add_char(out, '\\');
        buf_add_char(out, letter);
        plain = i + 1;
    }
    if (plain < text.len)
        buf_add(out, text.at + plain, text.len - plain);
}

void sql_add_text(struct buf *out, struct bytes text)
{
    buf_reserve(out, text.len + 2);
    buf_add_char(out, '\'');
    add_escaped(out, text);
    buf_add_char(out, '\'');
}

/* Days since 1970 to a date: the civil calendar, by eras of 400 years (H. Hinnant's algorithm). */
static void date_of(int64_t days, int64_t *out_year, unsigned *out_month, unsigned *out_day)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    unsigned of_era = (unsigned)(days - era * 146097);
    unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned month = (5 * of_year + 2) / 153;
    *out_day = of_year - (153 * month + 2) / 5 + 1;
    *out_month = month < 10 ? month + 3 : month - 9;
    *out_year = (int64_t)year_of_era + era * 400 + (*out_month <= 2);
}

void sql_add_time(struct buf *out, int64_t us, int32_t east_s)
{
    int64_t year, ms = us / 1000 + (int64_t)east_s * 1000;
    unsigned month, day;
    char text[48];
    if (ms < 0)
        ms = 0;
    int64_t seconds = ms / 1000;
    date_of(seconds / 86400, &year, &month, &day);
    int of_day = (int)(seconds % 86400);
    if (year > 9999) { /* the last that a DATETIME can be */
        buf_add_str(out, "'9999-12-31 23:59:59.999'");
        return;
    }
    (void)snprintf(text, sizeof(text), "'%04d-%02u-%02u %02d:%02d:%02d.%03d'", (int)year, month,
                   day, of_day / 3600, of_day / 60 % 60, of_day % 60, (int)(ms % 1000));
    buf_add_str(out, text);
}

void sql_add_hex(struct buf *out, const uint8_t *at, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    buf_add_str(out, "x'");
    for (size_t i = 0; i < len; i++) {
        buf_add_char(out, digits[at[i] >> 4]);
        buf_add_char(out, digits[at[i] & 15]);
    }
    buf_add_char(out, '\'');
}

static void add_base64(struct buf *out, struct bytes data)
{
    buf_add_char(out, '\'');
    base64_write(out, data);
    buf_add_char(out, '\'');
}

/* Columns for sdmq's queries, which are only copies: truncated rather than refused. */
static void add_cut(struct buf *out, struct bytes text, size_t characters)
{
    size_t len = 0;
    if (!text.len) {
        buf_add_str(out, "NULL");
        return;
    }
    for (size_t seen = 0; len < text.len; len++) {
        seen += ((unsigned char)text.at[len] & 0xc0) != 0x80;
        if (seen > characters)
            break;
    }
    sql_add_text(out, bytes_of(text.at, len));
}

/* Microseconds below the millisecond are in extend_data. */
static int64_t due_ms(int64_t due_us)
{
    return due_us / 1000;
}

/* sdmq's column has 32 bits; extend_data has the whole of a longer one. */
static int64_t ttl_of(int64_t ttr_us)
{
    int64_t ttl_s = ttr_us / 1000000 + (ttr_us % 1000000 > 0);
    return ttl_s < INT32_MAX ? ttl_s : INT32_MAX;
}

static void add_number(struct buf *out, char before, int64_t number)
{
    buf_add_char(out, before);
    buf_add_i64(out, number);
}

/* ---- jobs ---- */

void sql_begin_jobs(struct buf *out)
{
    buf_add_str(out, "INSERT INTO " JOURNAL_JOBS
                     "(id,bizkey,topic,subtopic,delay,create_time,body,status,ttl,update_time,"
                     "extend_data) VALUES");
}

enum err sql_add_job(struct buf *out, const struct group_job *job, const struct sql_place *place)
{
    struct record record;
    if (record_decode(job->record, job->record_bytes, &record))
        return ERR_CORRUPT;
    const struct event *event = &record.event;
    struct extend extend = extend_of(event, job);
    struct arena arena = {0};
    struct extend_names names = extend_names(event->properties, &arena);
    int64_t created_ms = names.create_ms >= 0 ? names.create_ms : event->created_us / 1000;
    buf_reserve(out, event->body.len + 512);
    buf_add_char(out, '(');
    sql_add_text(out, job->id);
    buf_add_char(out, ',');
    add_cut(out, names.bizkey, BIZKEY_CHARACTERS);
    buf_add_char(out, ',');
    sql_add_text(out, event->topic);
    buf_add_char(out, ',');
    add_cut(out, names.subtopic, SUBTOPIC_CHARACTERS);
    add_number(out, ',', due_ms(job->due_us) - created_ms);
    add_number(out, ',', created_ms);
    buf_add_char(out, ',');
    if (extend.base64)
        add_base64(out, event->body);
    else
        sql_add_text(out, event->body);
    add_number(out, ',', job->status);
    add_number(out, ',', ttl_of(event->ttr_us));
    buf_add_char(out, ',');
    sql_add_time(out, job->at_us, place->east_s);
    buf_add_char(out, ',');
    struct buf json = {0};
    extend_write(&json, &extend);
    sql_add_text(out, buf_bytes(&json));
    buf_fini(&json);
    arena_fini(&arena);
    buf_add_char(out, ')');
    return OK;
}

void sql_end_jobs(struct buf *out)
{
    static const char *const columns[] = {"bizkey",      "topic",      "subtopic", "delay",
                                          "create_time", "body",       "status",   "ttl",
                                          "update_time", "extend_data"};
    buf_add_str(out, " ON DUPLICATE KEY UPDATE ");
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        buf_addf(out, "%s%s=VALUES(%s)", i ? "," : "", columns[i], columns[i]);
}

/* ---- changes ---- */

void sql_begin_moves(struct buf *out)
{
    buf_add_str(out, "UPDATE " JOURNAL_JOBS " AS t JOIN(");
}

/* The connection's collation is the column's, so that the key is used. */
void sql_add_move(struct buf *out, const struct group_job *job, const struct sql_place *place,
                  bool first)
{
    buf_add_str(out, first ? "SELECT " : " UNION ALL SELECT ");
    sql_add_text(out, job->id);
    buf_add_str(out, first ? " AS id," : ",");
    buf_add_i64(out, job->status);
    buf_add_str(out, first ? " AS s," : ",");
    buf_add_i64(out, due_ms(job->due_us));
    buf_add_str(out, first ? " AS d," : ",");
    buf_add_u64(out, job->priority);
    buf_add_str(out, first ? " AS p," : ",");
    buf_add_u64(out, job->failures);
    buf_add_str(out, first ? " AS f," : ",");
    buf_add_i64(out, job->due_us % 1000);
    buf_add_str(out, first ? " AS m," : ",");
    sql_add_time(out, job->at_us, place->east_s);
    if (first)
        buf_add_str(out, " AS u");
}

void sql_end_moves(struct buf *out)
{
    buf_add_str(out, ")AS m ON t.id=m.id SET t.status=m.s,t.delay=m.d-t.create_time,"
                     "t.update_time=m.u,t.extend_data=JSON_SET(IF(JSON_VALID(t.extend_data),"
                     "t.extend_data,'{}'),'$.priority',m.p,'$.failures',m.f,'$.us',m.m)");
}

void sql_begin_status(struct buf *out, enum journal_status_number status, int64_t at_us,
                      const struct sql_place *place)
{
    buf_addf(out, "UPDATE " JOURNAL_JOBS " SET status=%d,update_time=", (int)status);
    sql_add_time(out, at_us, place->east_s);
    buf_add_str(out, " WHERE id IN(");
}

void sql_end_status(struct buf *out)
{
    buf_add_char(out, ')');
}

void sql_begin_absent(struct buf *out, int64_t at_us, const struct sql_place *place)
{
    buf_addf(out, "UPDATE " JOURNAL_JOBS " SET status=%d,update_time=", (int)STATUS_DELETED);
    sql_add_time(out, at_us, place->east_s);
    buf_addf(out, " WHERE status NOT IN(%d,%d) AND id IN(", (int)STATUS_FINISHED,
             (int)STATUS_DELETED);
}

void sql_begin_logs(struct buf *out)
{
    buf_add_str(out, "INSERT INTO " JOURNAL_LOGS "(id,status,thread,update_time,host) VALUES");
}

void sql_add_log(struct buf *out, const struct group_log *log, const struct sql_place *place)
{
    buf_add_char(out, '(');
    sql_add_text(out, log->id);
    add_number(out, ',', log->status);
    buf_addf(out, ",'laterd-%u',", log->stream);
    sql_add_time(out, log->at_us, place->east_s);
    buf_add_char(out, ',');
    sql_add_text(out, bytes_str(place->host));
    buf_add_char(out, ')');
}

/* ---- the journal's own tables ---- */

void sql_add_cursor(struct buf *out, const struct sql_step *step, const struct sql_place *place)
{
    buf_addf(out,
             "UPDATE " JOURNAL_CURSORS " SET batch=%llu,updated=", (unsigned long long)step->to);
    sql_add_time(out, step->at_us, place->east_s);
    buf_add_str(out, " WHERE store_id=");
    sql_add_hex(out, step->store, JOURNAL_STORE_BYTES);
    buf_addf(out, " AND epoch=%llu AND batch=%llu", (unsigned long long)step->epoch,
             (unsigned long long)step->from);
}

void sql_add_probe(struct buf *out, const uint8_t store[JOURNAL_STORE_BYTES])
{
    buf_add_str(out, "UPDATE " JOURNAL_CURSORS " SET epoch=epoch WHERE store_id=");
    sql_add_hex(out, store, JOURNAL_STORE_BYTES);
}

void sql_begin_streams(struct buf *out)
{
    buf_add_str(out, "INSERT INTO " JOURNAL_STREAMS "(store_id,stream,entry,mark) VALUES");
}

void sql_add_stream(struct buf *out, const uint8_t store[JOURNAL_STORE_BYTES], uint32_t stream,
                    const struct journal_stream *at)
{
    buf_add_char(out, '(');
    sql_add_hex(out, store, JOURNAL_STORE_BYTES);
    buf_addf(out, ",%u,%llu,%llu)", stream, (unsigned long long)at->entry,
             (unsigned long long)at->mark);
}

void sql_end_streams(struct buf *out)
{
    buf_add_str(out, " ON DUPLICATE KEY UPDATE entry=VALUES(entry),mark=VALUES(mark)");
}

void sql_add_resync_begin(struct buf *out, const uint8_t store[JOURNAL_STORE_BYTES], int64_t at_us,
                          const struct sql_place *place)
{
    buf_add_str(out, "INSERT INTO " JOURNAL_RESYNCS "(store_id,run,begun,ended) VALUES(");
    sql_add_hex(out, store, JOURNAL_STORE_BYTES);
    buf_add_str(out, ",1,");
    sql_add_time(out, at_us, place->east_s);
    buf_add_str(out, ",NULL) ON DUPLICATE KEY UPDATE run=run+1,begun=VALUES(begun),ended=NULL");
}

void sql_add_resync_end(struct buf *out, const uint8_t store[JOURNAL_STORE_BYTES], int64_t at_us,
                        const struct sql_place *place)
{
    buf_add_str(out, "UPDATE " JOURNAL_RESYNCS " SET ended=");
    sql_add_time(out, at_us, place->east_s);
    buf_add_str(out, " WHERE store_id=");
    sql_add_hex(out, store, JOURNAL_STORE_BYTES);
}

void sql_add_rejected(struct buf *out, const struct sql_rejected *row,
                      const struct sql_place *place)
{
    size_t len = row->event.len < REJECTED_EVENT_MAX ? row->event.len : REJECTED_EVENT_MAX;
    struct bytes error = bytes_str(row->error);
    error.len = bytes_utf8_prefix(error); /* else this row is refused, too, and none follows */
    buf_addf(out, "INSERT INTO " JOURNAL_REJECTED "(batch,id,error,event,at) VALUES(%llu,",
             (unsigned long long)row->batch);
    sql_add_hex(out, (const uint8_t *)row->id.at, row->id.len);
    buf_add_char(out, ',');
    sql_add_text(out, error);
    buf_add_char(out, ',');
    sql_add_hex(out, (const uint8_t *)row->event.at, len);
    buf_add_char(out, ',');
    sql_add_time(out, row->at_us, place->east_s);
    buf_add_char(out, ')');
}
