#include "cli/import/push.h"

#include <errno.h>

#include "base/rfc3339.h"
#include "cli/show.h"
#include "cli/text.h"
#include "proto/api/api_parts.h"
#include "proto/base64.h"
#include "proto/json.h"

enum { TTR_LEAST_US = 1000000 /* as beanstalkd has it, and the others' unit */ };

void import_push_end_progress(const struct import_push *push)
{
    if (push->progress)
        (void)fputs("\r\x1b[K", stderr);
}

void import_push_print_counts(const struct import_push *push, const char *prefix)
{
    (void)printf("%llu imported, %llu there already, %llu refused%s%s\n",
                 (unsigned long long)push->created, (unsigned long long)push->kept,
                 (unsigned long long)push->refused, *prefix ? "; ids begin with " : "", prefix);
}

void import_push_print_dry_run(uint64_t jobs, const char *prefix)
{
    (void)printf("%llu job%s%s%s; nothing was sent\n", (unsigned long long)jobs, plural(jobs),
                 *prefix ? "; ids would begin with " : "", prefix);
}

static void show_progress(const struct import_push *push)
{
    char room[TEXT_ROOM], all[TEXT_ROOM];
    if (!push->progress)
        return;
    const char *done =
        count_text(push->created + push->kept + push->refused + push->left_out, room);
    if (push->total > 0)
        (void)fprintf(stderr, "\r%s of %s jobs ", done, count_text(push->total, all));
    else
        (void)fprintf(stderr, "\r%s jobs ", done);
}

void import_push_report(const struct import_push *push, struct bytes old_id, struct bytes topic,
                        struct bytes why)
{
    struct buf line = {0};
    import_push_end_progress(push);
    buf_add_str(&line, "job ");
    text_add_safe(&line, old_id);
    buf_addf(&line, " of %s ", push->place);
    text_add_safe(&line, topic);
    buf_add_str(&line, ": ");
    buf_add_bytes(&line, why);
    cli_message(push->cli, "%.*s", (int)line.len, line.at);
    buf_fini(&line);
}

/* ---- a batch ---- */

static struct bytes old_id(const struct import_push *push, size_t i)
{
    size_t start = i ? push->old_ends[i - 1] : 0;
    return bytes_of(push->old.at + start, push->old_ends[i] - start);
}

static void add_line(struct import_push *push, const struct import_item *item)
{
    struct buf *out = &push->batch.text;
    if (item->line.len) {
        buf_add_bytes(out, item->line);
        bulk_add(&push->batch);
        return;
    }
    int64_t ttr_us = item->ttr_us < TTR_LEAST_US ? TTR_LEAST_US : item->ttr_us;
    buf_add_str(out, "{\"id\":");
    json_add_text(out, item->id, JSON_STYLE_PLAIN);
    buf_addf(out, ",\"if_exists\":\"keep\",\"priority\":%u", item->priority);
    if (!item->no_ttr)
        buf_addf(out, ",\"ttr\":%lld", (long long)(ttr_us / 1000 + (ttr_us % 1000 != 0)));
    if (item->buried) {
        buf_add_str(out, ",\"state\":\"buried\"");
    } else {
        buf_add_str(out, ",\"due\":\"");
        rfc3339_add(out, item->due_us);
        buf_add_char(out, '"');
    }
    if (item->labels)
        job_labels_write(item->labels, false, out);
    if (bytes_is_utf8(item->body)) {
        buf_add_str(out, ",\"body\":");
        json_add_text(out, item->body, JSON_STYLE_PLAIN);
    } else {
        buf_add_str(out, ",\"body_base64\":\"");
        base64_write(out, item->body);
        buf_add_char(out, '"');
    }
    buf_add_str(out, "}\n");
    bulk_add(&push->batch);
}

/* A job that the server has: its old id and the new one, for programs and for the map. */
static void report(const struct import_push *push, struct bytes old, const json_t *answer)
{
    const char *id = show_string(answer, "id");
    uint64_t number = 0;
    if (push->map)
        (void)fprintf(push->map, "%.*s\t%s\n", (int)old.len, old.at, id);
    if (!push->cli->json)
        return;
    bool is_number = push->old_numbers && bytes_to_u64(old, &number);
    json_t *line =
        json_pack("{so ss ss ss ss}", "old",
                  is_number ? json_integer((json_int_t)number) : json_stringn(old.at, old.len),
                  "id", id, "topic", show_string(answer, "topic"), "state",
                  show_string(answer, "state"), "result", show_string(answer, "result"));
    cli_print_json(line);
    json_decref(line);
}

static void count_created(struct import_push *push, const struct import_mark *mark)
{
    push->created++;
    push->renamed += mark->renamed;
    push->reserved += mark->reserved;
    push->noted += mark->noted;
}

static void take_result(void *ctx, unsigned line, const json_t *result)
{
    struct import_push *push = ctx;
    struct bytes old = old_id(push, line);
    const json_t *problem = json_object_get(result, "problem"),
                 *answer = json_object_get(result, "job");
    if (!problem) {
        bool kept = strcmp(show_string(answer, "result"), "kept") == 0;
        push->kept += kept;
        if (!kept)
            count_created(push, &push->marks[line]);
        report(push, old, answer);
        return;
    }
    struct buf why = {0};
    push->refused++;
    show_line_problem(problem, &why);
    import_push_report(push, old, push->topic, buf_bytes(&why));
    buf_fini(&why);
    if (show_count(result, "status") >= 429) /* 429, 503, 507: a limit of the whole server */
        push->refused_all = true;
}

int import_push_send(struct import_push *push)
{
    struct buf target = {0};
    if (push->batch.count == 0)
        return EXIT_DONE;
    buf_add_str(&target, "/v1/topics/");
    url_add_part(&target, push->topic);
    buf_add_str(&target, "/jobs");
    push->batch.cli = push->cli;
    push->batch.take = take_result;
    push->batch.ctx = push;
    int code = bulk_send(&push->batch, buf_bytes(&target));
    buf_fini(&target);
    push->old.len = 0;
    show_progress(push);
    return code == EXIT_DONE && push->refused_all ? EXIT_REFUSED : code;
}

/* Appends why the item would make the server refuse the whole batch, or cannot be sent. False:
   nothing. */
static bool impossible(const struct import_item *item, struct buf *why)
{
    const char *topic = api_topic_flaw(item->topic), *id = api_id_flaw(item->id);
    if (topic || id)
        buf_addf(why, "its %s %s", topic ? "topic" : "id", topic ? topic : id);
    return topic || id;
}

int import_push_add(struct import_push *push, const struct import_item *item)
{
    struct buf why = {0};
    int code = EXIT_DONE;
    if (impossible(item, &why)) {
        push->refused++;
        import_push_report(push, item->old_id, item->topic, buf_bytes(&why));
        buf_fini(&why);
        return EXIT_DONE;
    }
    if (bulk_full(&push->batch, item->body.len + item->line.len) ||
        (push->batch.count > 0 && !bytes_eq(push->topic, item->topic)))
        code = import_push_send(push);
    if (code != EXIT_DONE)
        return code;
    buf_add_bytes(&push->old, item->old_id);
    push->old_ends[push->batch.count] = push->old.len;
    push->marks[push->batch.count] = (struct import_mark){
        .renamed = item->renamed, .reserved = item->reserved, .noted = item->noted};
    add_line(push, item);
    push->topic = item->topic;
    return EXIT_DONE;
}

/* ---- all of it ---- */

int import_push_open(struct import_push *push)
{
    if (!push->map_path)
        return EXIT_DONE;
    push->map = fopen(push->map_path, "we");
    if (push->map)
        return EXIT_DONE;
    cli_message(push->cli, "cannot write %s: %s", push->map_path, strerror(errno));
    return EXIT_REFUSED;
}

int import_push_close(struct import_push *push, int code)
{
    if (push->map && (ferror(push->map) | fclose(push->map)) != 0) {
        cli_message(push->cli, "cannot write all of %s", push->map_path);
        code = code == EXIT_DONE ? EXIT_REFUSED : code;
    }
    push->map = NULL;
    bulk_fini(&push->batch);
    buf_fini(&push->old);
    return code;
}
