#include "cli/import/redis.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "cli/import/redis_source.h"
#include "cli/text.h"
#include "port/clock.h"

enum {
    WINDOW_JOBS = 8192,              /* are gathered, to go out topic by topic in full batches */
    WINDOW_BYTES = 16 * 1024 * 1024, /* of them, at most */
};

struct redis_topic {
    struct bytes name;
    uint64_t jobs[PLACE_COUNT];
};

struct import {
    struct import_push *push;
    const struct import_redis_options *options;
    struct redis_source source;
    struct pool topics; // struct redis_topic
    struct map by_name; /* of them */
    struct arena names;
    struct redis_job *window;
    uint32_t window_count;
    size_t window_bytes;
    struct arena texts; /* of the window */
    uint64_t jobs, strays;
    int code; /* of the push that made us stop */
};

static bool has_name(const void *ctx, uint32_t number, const void *key)
{
    const struct redis_topic *topic = pool_at(ctx, number);
    return bytes_eq(topic->name, *(const struct bytes *)key);
}

static struct redis_topic *topic_of(struct import *import, struct bytes name)
{
    uint64_t hash = hash_of(name.at, name.len);
    uint32_t number = map_find(&import->by_name, hash, &name);
    if (number == MAP_NONE) {
        number = pool_take(&import->topics);
        struct redis_topic *topic = pool_at(&import->topics, number);
        topic->name = arena_copy(&import->names, name);
        map_add(&import->by_name, hash, number);
    }
    return pool_at(&import->topics, number);
}

/* ---- jobs in, batches out ---- */

static int by_topic(const void *a, const void *b)
{
    const struct redis_job *left = a, *right = b;
    int order = bytes_cmp(left->topic, right->topic);
    if (order != 0)
        return order;
    if (left->due_us != right->due_us)
        return left->due_us < right->due_us ? -1 : 1;
    return bytes_cmp(left->id, right->id);
}

static int push_job(struct import *import, const struct redis_job *job, struct buf *id)
{
    const char *prefix = import->options->prefix;
    id->len = 0;
    buf_add_str(id, prefix ? prefix : "");
    buf_add_bytes(id, job->id);
    struct import_item item = {
        .topic = job->topic,
        .old_id = job->id,
        .id = buf_bytes(id),
        .body = job->body,
        .due_us = job->due_us,
        .ttr_us = job->ttr_us,
        .priority = job->priority,
        .labels = &job->labels,
        .no_ttr = job->ttr_us == 0,
    };
    return import_push_add(import->push, &item);
}

/* The open batch borrows a topic of the window, so it is sent, too. */
static int push_window(struct import *import)
{
    struct buf id = {0};
    int code = EXIT_DONE;
    qsort(import->window, import->window_count, sizeof(*import->window), by_topic);
    for (uint32_t i = 0; i < import->window_count && code == EXIT_DONE; i++)
        code = push_job(import, &import->window[i], &id);
    if (code == EXIT_DONE)
        code = import_push_send(import->push);
    buf_fini(&id);
    arena_reset(&import->texts);
    import->window_count = 0;
    import->window_bytes = 0;
    return code;
}

static void keep_labels(struct import *import, struct job_properties *labels)
{
    labels->biz_key = arena_copy(&import->texts, labels->biz_key);
    labels->subtopic = arena_copy(&import->texts, labels->subtopic);
    labels->extend_data = arena_copy(&import->texts, labels->extend_data);
}

static enum err take_job(void *ctx, const struct redis_job *job, enum redis_place place)
{
    struct import *import = ctx;
    topic_of(import, job->topic)->jobs[place]++;
    import->jobs++;
    import->strays += place == PLACE_STRAY;
    if (import->options->dry_run)
        return OK;
    struct redis_job *kept = &import->window[import->window_count++];
    *kept = *job;
    kept->id = arena_copy(&import->texts, job->id);
    kept->topic = arena_copy(&import->texts, job->topic);
    kept->body = arena_copy(&import->texts, job->body);
    keep_labels(import, &kept->labels);
    import->window_bytes += job->body.len + job->labels.extend_data.len;
    if (import->window_count == WINDOW_JOBS || import->window_bytes > WINDOW_BYTES)
        import->code = push_window(import);
    return import->code == EXIT_DONE ? OK : ERR_AGAIN;
}

/* ---- the end ---- */

static json_t *text_json(struct bytes text)
{
    json_t *value = json_stringn(text.at, text.len);
    return value ? value : json_string("?"); /* not UTF-8: the server refused it by name */
}

static json_t *topics_json(const struct import *import)
{
    json_t *topics = json_array();
    for (uint32_t i = pool_next(&import->topics, 0); i != POOL_NONE;
         i = pool_next(&import->topics, i + 1)) {
        const struct redis_topic *topic = pool_at(&import->topics, i);
        json_array_append_new(topics, json_pack("{so sI sI sI sI}", "name", text_json(topic->name),
                                                "ready", (json_int_t)topic->jobs[PLACE_READY],
                                                "delayed", (json_int_t)topic->jobs[PLACE_DELAYED],
                                                "reserved", (json_int_t)topic->jobs[PLACE_RESERVED],
                                                "stray", (json_int_t)topic->jobs[PLACE_STRAY]));
    }
    return topics;
}

static void report_json(const struct import *import)
{
    const struct import_push *push = import->push;
    const struct redis_source *source = &import->source;
    json_t *line =
        json_pack("{sb sI sI sI sI sI sI sI sI sI so}", "dry_run", import->options->dry_run, "jobs",
                  (json_int_t)import->jobs, "created", (json_int_t)push->created, "kept",
                  (json_int_t)push->kept, "refused", (json_int_t)push->refused, "damaged",
                  (json_int_t)source->broken, "foreign", (json_int_t)source->foreign, "stray",
                  (json_int_t)import->strays, "finished", (json_int_t)source->finished, "gone",
                  (json_int_t)source->gone, "topics", topics_json(import));
    cli_print_json(line);
    json_decref(line);
}

static void report_topics(const struct import *import)
{
    static const char *const heads[] = {"TOPIC", "READY", "DELAYED", "RESERVED", "STRAY"};
    struct table table = {.columns = 1 + PLACE_COUNT};
    struct buf out = {0};
    for (unsigned i = 0; i < table.columns; i++) {
        table.right[i] = i > 0;
        table_cell_str(&table, heads[i]);
    }
    for (uint32_t i = pool_next(&import->topics, 0); i != POOL_NONE;
         i = pool_next(&import->topics, i + 1)) {
        const struct redis_topic *topic = pool_at(&import->topics, i);
        table_cell(&table, topic->name);
        for (unsigned place = 0; place < PLACE_COUNT; place++) {
            char room[TEXT_ROOM];
            table_cell_str(&table, count_text(topic->jobs[place], room));
        }
    }
    table_write(&table, &out);
    cli_flush(&out);
    table_fini(&table);
    buf_fini(&out);
}

static void report_if(const char *what, uint64_t count)
{
    char room[TEXT_ROOM];
    if (count > 0)
        (void)printf("%s: %s\n", what, count_text(count, room));
}

static void report(const struct import *import)
{
    const struct import_push *push = import->push;
    const struct redis_source *source = &import->source;
    if (push->cli->json) {
        report_json(import);
        return;
    }
    if (import->jobs > 0)
        report_topics(import);
    report_if("in no bucket and no list (STRAY), due at their own time", import->strays);
    report_if("finished or deleted, left out", source->finished);
    report_if("entries whose job is gone, as after a finish", source->gone);
    report_if("foreign keys, left out", source->foreign);
    report_if("broken jobs and entries, left out", source->broken);
    if (import->options->dry_run)
        import_push_print_dry_run(import->jobs, "");
    else
        import_push_print_counts(push, "");
}

/* ---- all of it ---- */

static void print_line(void *ctx, const char *line)
{
    const struct import *import = ctx;
    import_push_end_progress(import->push);
    cli_message(import->push->cli, "%s", line);
}

/* Reads and pushes all there is; what went wrong has been said. */
static int run(struct import *import, const struct redis_url *url)
{
    struct import_push *push = import->push;
    struct redis_source *source = &import->source;
    char room[REDIS_HOST_MAX + 16];
    struct bytes name = redis_address_text(&url->addresses[0], room, sizeof(room));
    enum err err = redis_source_open(source, url, push->cli->timeout_us);
    bool reached = !err;
    if (!err)
        err = redis_source_survey(source);
    if (!err)
        err = redis_source_read(source);
    if (!err)
        import->code = push_window(import);
    import_push_end_progress(push);
    if (err == ERR_IO) {
        cli_message(push->cli, "Redis at %.*s: %s", (int)name.len, name.at, source->error);
        import->code = EXIT_UNREACHABLE;
    } else if (import->code == EXIT_DONE && source->found == 0 && import->jobs == 0) {
        cli_message(push->cli, "Redis at %.*s, database %u, holds nothing of this layout",
                    (int)name.len, name.at, url->db);
        import->code = source->broken > 0 ? EXIT_WRONG : EXIT_NOTHING;
    }
    if (reached && import->code != EXIT_DONE && !import->options->dry_run && import->jobs > 0)
        cli_message(push->cli, "stopped before the end: run it again, what is there is kept");
    return import->code;
}

/* A URL that cannot be meant is bad usage. */
static void read_url(const struct import *import, struct redis_url *url)
{
    struct redis_error error;
    struct cli *cli = import->push->cli;
    const char *text = import->options->url;
    if (strncmp(text, "redis", strlen("redis")) != 0 &&
        strncmp(text, "unix:", strlen("unix:")) != 0)
        cli_bad_value(cli, "URL is redis://[user:password@]host[:port]/DB or unix:///path");
    if (redis_url_read(bytes_str(text), url, &error)) {
        static const char key[] = "redis.url"; /* of laterd's configuration */
        bool named = strncmp(error.text, key, strlen(key)) == 0;
        cli_bad_value(cli, "%s%s", named ? "URL" : "", error.text + (named ? strlen(key) : 0));
    }
    if (url->tls)
        cli_bad_value(cli, "import does not speak TLS: lead it through a TLS tunnel");
    if (url->topology != REDIS_SINGLE)
        cli_bad_value(cli,
                      "import reads one server: name the master itself, as redis://host:port/db");
}

/* As with a user of the server: the option counts before the URL, and that before the environment.
 */
static void take_password(const struct import *import, struct redis_url *url)
{
    static const char option[] = "--password-file", name[] = "LATER_REDIS_PASSWORD";
    const struct cli *cli = import->push->cli;
    const char *path = import->options->password_file, *password = NULL;
    struct buf room = {0};
    if (path)
        password = access_secret_file(cli, option, path, &room);
    else if (!url->password[0])
        password = access_secret_variable(cli, name, &room);
    if (password && strlen(password) >= sizeof(url->password))
        cli_bad_value(cli, "%s: a password has up to %d bytes", path ? option : name,
                      REDIS_WORD_MAX - 1);
    if (password)
        memcpy(url->password, password, strlen(password) + 1);
    buf_fini(&room);
}

int import_redis(struct import_push *push, const struct import_redis_options *options)
{
    struct import import = {
        .push = push,
        .options = options,
        .source = {.print_line = print_line, .job = take_job, .names = options->names},
        .window = mem_alloc(WINDOW_JOBS * sizeof(*import.window)),
    };
    struct redis_url url;
    import.source.ctx = &import;
    import.source.now_us = clock_wall_us();
    pool_init(&import.topics, sizeof(struct redis_topic));
    map_init(&import.by_name, has_name, &import.topics);
    push->place = "topic";
    read_url(&import, &url);
    take_password(&import, &url);
    int code = options->dry_run ? EXIT_DONE : import_push_open(push);
    if (code == EXIT_DONE)
        code = import_push_close(push, run(&import, &url));
    if (import.jobs > 0 || (code != EXIT_UNREACHABLE && code != EXIT_NOTHING))
        report(&import);
    if (code == EXIT_DONE && push->refused > 0)
        code = EXIT_REFUSED;
    if (code == EXIT_DONE && import.source.broken + import.source.foreign > 0)
        code = EXIT_WRONG;
    redis_source_close(&import.source);
    map_fini(&import.by_name);
    pool_fini(&import.topics);
    arena_fini(&import.names);
    arena_fini(&import.texts);
    mem_free(import.window);
    return code;
}
