/*
 * later salvage: copies everything that is intact in a damaged store to a new one. The old store is
 * only read: its events are replayed into a core, and the jobs that live at the end are appended,
 * with their bodies, to a new store.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "base/mem.h"
#include "cli/backup/place.h"
#include "cli/cli.h"
#include "cli/directory.h"
#include "cli/salvage_target.h"
#include "cli/text.h"
#include "core/core.h"
#include "core/replay.h"
#include "os/disk.h"
#include "port/clock.h"
#include "store/recovery/salvage.h"
#include "store/verify.h"

enum {
    PROGRESS_JOBS = 20000,
    TOPICS_STEPS = 32, /* of topics looked at: two with settings … */
    TOPICS_BYTES = 3 * TOPIC_SETTINGS_MAX,
};

/* A job that lives at the log's end. */
struct found_job {
    uint64_t seq;
    uint64_t where;
};

struct salvaging {
    struct cli *cli;
    struct salvage_callbacks callbacks;
    struct event_sink sink;
    struct core_callbacks core_callbacks;
    struct core *core;
    struct salvage *from;
    struct salvage_target to;
    struct buf jobs;      /* struct found_job */
    struct buf lost_jobs; /* struct found_job: those whose bodies are damaged; sorted by number */
    struct buf doubtful;  /* struct found_job; where 0: of any record; sorted before the search */
    uint64_t carried, doubtful_carried, lost;
    bool damaged;  /* damage of the old store was reported */
    bool progress; /* a line of it is on the terminal */
};

/* ---- messages ---- */

static void clear_progress(struct salvaging *salvaging)
{
    if (salvaging->progress)
        (void)fputs("\r\x1b[K", stderr);
    salvaging->progress = false;
}

static void show_progress(struct salvaging *salvaging, const char *what, uint64_t done,
                          uint64_t all)
{
    if (!isatty(STDERR_FILENO))
        return;
    salvaging->progress = true;
    (void)fprintf(stderr, "\r%s: %" PRIu64 " of %" PRIu64 " ", what, done, all);
}

static void print_line(struct salvage_callbacks *callbacks, const char *line)
{
    struct salvaging *salvaging = LIST_ENTRY(callbacks, struct salvaging, callbacks);
    clear_progress(salvaging);
    cli_message(salvaging->cli, "%s", line);
    salvaging->damaged = true; /* only damage is reported while reading */
}

static void print_line_of_new(void *ctx, const char *line)
{
    struct salvaging *salvaging = ctx;
    clear_progress(salvaging);
    cli_message(salvaging->cli, "the new store: %s", line);
}

static void read_progress(struct salvage_callbacks *callbacks, uint64_t done_bytes,
                          uint64_t all_bytes)
{
    show_progress(LIST_ENTRY(callbacks, struct salvaging, callbacks), "MB read", done_bytes >> 20,
                  all_bytes >> 20);
}

/* ---- the old store, into the core ---- */

static void note_doubtful(struct salvaging *salvaging, const struct event *event)
{
    struct found_job doubtful = {.seq = event->job.seq,
                                 .where = event->kind == EVENT_JOB ? event->record.where : 0};
    buf_add(&salvaging->doubtful, &doubtful, sizeof(doubtful));
}

static enum err replay(struct salvage_callbacks *callbacks, const struct event *event,
                       enum salvage_trust trust)
{
    struct salvaging *salvaging = LIST_ENTRY(callbacks, struct salvaging, callbacks);
    if (trust == SALVAGE_STRAY && core_has(salvaging->core, event->job.seq, event->id))
        return ERR_CORRUPT;
    if (trust != SALVAGE_INTACT && event->kind != EVENT_TOPIC && event->kind < EVENT_NOTE)
        note_doubtful(salvaging, event);
    return core_replay(salvaging->core, event);
}

static enum err keep_happening(struct salvage_callbacks *callbacks,
                               const struct happening *happening)
{
    struct salvaging *salvaging = LIST_ENTRY(callbacks, struct salvaging, callbacks);
    struct happening kept = *happening;
    kept.promised = true;
    return salvage_target_history(&salvaging->to, &kept, clock_wall_us());
}

static void replay_clock(struct salvage_callbacks *callbacks, int64_t clock_us)
{
    core_replay_clock(LIST_ENTRY(callbacks, struct salvaging, callbacks)->core, clock_us);
}

static void list_job(void *ctx, const struct job *job)
{
    struct salvaging *salvaging = ctx;
    struct found_job found = {.seq = job->seq, .where = job->where};
    buf_add(&salvaging->jobs, &found, sizeof(found));
}

/* In the order of the files, so that they are read from front to back. */
static int by_where(const void *left, const void *right)
{
    const struct found_job *a = left;
    const struct found_job *b = right;
    return a->where < b->where ? -1 : a->where > b->where;
}

static int by_seq(const void *left, const void *right)
{
    const struct found_job *a = left;
    const struct found_job *b = right;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* An intact record may have replaced the doubtful one. */
static bool is_doubtful(const struct salvaging *salvaging, const struct found_job *job)
{
    const struct buf *list = &salvaging->doubtful;
    size_t count = list->len / sizeof(*job);
    const struct found_job *all = (const struct found_job *)(const void *)list->at;
    const struct found_job *at = count ? bsearch(job, all, count, sizeof(*job), by_seq) : NULL;
    bool doubtful = false;
    while (at && at > all && at[-1].seq == job->seq)
        at--;
    for (; at && at < all + count && at->seq == job->seq && !doubtful; at++)
        doubtful = at->where == 0 || at->where == job->where;
    return doubtful;
}

static void no_reply(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    (void)callbacks;
    (void)ctx;
    (void)reply; /* no command is executed */
}

/* ---- into the new store ---- */

static struct stored append(struct event_sink *sink, const struct event *event)
{
    struct salvage_target *to = &LIST_ENTRY(sink, struct salvaging, sink)->to;
    if (!to->store)
        return event->record; /* of core_replayed(); jobs that are copied later have the change */
    return salvage_target_append(to, event);
}

/* A note that is lost costs nothing but itself. */
static enum err relocate_notes(struct salvaging *salvaging, uint64_t seq, struct arena *arena)
{
    struct note_place places[JOB_NOTES_MAX];
    uint32_t count = core_note_places(salvaging->core, seq, places);
    enum err err = OK;
    for (uint32_t i = 0; i < count && !err; i++) {
        struct event event;
        uint64_t where = places[i].stored.where;
        if (where == 0 || salvage_read_note(salvaging->from, seq, where, arena, &event)) {
            clear_progress(salvaging);
            cli_message(salvaging->cli, "job @%" PRIu64 ": the note of an attempt is lost", seq);
            continue;
        }
        err = salvage_target_room(&salvaging->to, event.body.len, clock_wall_us());
        if (!err)
            (void)core_relocate(salvaging->core, &event, where); /* it is there */
    }
    return err;
}

static enum err relocate_job(struct salvaging *salvaging, const struct found_job *job,
                             struct arena *arena)
{
    struct salvage_body body;
    enum err err = salvage_read(salvaging->from, job->seq, job->where, arena, &body);
    if (err) { /* reported at the end, with its id */
        buf_add(&salvaging->lost_jobs, job, sizeof(*job));
        salvaging->lost++;
        return OK;
    }
    const struct event *event = &body.event;
    err = salvage_target_room(&salvaging->to,
                              event->content_type.len + event->body.len + event->properties.len,
                              clock_wall_us());
    if (err)
        return err;
    (void)core_relocate(salvaging->core, event, job->where); /* it is there */
    salvaging->carried++;
    err = relocate_notes(salvaging, job->seq, arena);
    if (err)
        return err;
    bool doubtful = is_doubtful(salvaging, job);
    if (doubtful || body.aside) {
        clear_progress(salvaging);
        cli_message(salvaging->cli, "job @%" PRIu64 " is carried over; %s may be wrong%s", job->seq,
                    doubtful ? "its due time, state, id or topic" : "its body",
                    body.aside
                        ? ": the body is from a segment that was set aside, and may be an older one"
                        : "");
        salvaging->doubtful_carried++;
    }
    return OK;
}

static void notify_lost(void *ctx, const struct job *job)
{
    struct salvaging *salvaging = ctx;
    struct found_job wanted = {.seq = job->seq};
    const struct found_job *lost =
        bsearch(&wanted, salvaging->lost_jobs.at, salvaging->lost_jobs.len / sizeof(wanted),
                sizeof(wanted), by_seq);
    struct bytes id = job_id(job);
    struct buf line = {0};
    char file[DISK_NAME_MAX];
    uint64_t offset;
    if (!lost)
        return;
    buf_addf(&line, "job @%" PRIu64, job->seq);
    buf_add_str(&line, id.len ? " (" : "");
    text_add_safe(&line, id);
    buf_addf(&line, "%s is lost: its body is damaged: ", id.len ? ")" : "");
    salvage_place(salvaging->from, lost->where, file, &offset);
    buf_addf(&line, "%s: offset %" PRIu64, file, offset);
    clear_progress(salvaging);
    cli_message(salvaging->cli, "%.*s", (int)line.len, line.at);
    buf_fini(&line);
}

static void report_all_lost(struct salvaging *salvaging)
{
    size_t count = salvaging->lost_jobs.len / sizeof(struct found_job);
    if (count == 0)
        return;
    qsort(salvaging->lost_jobs.at, count, sizeof(struct found_job), by_seq);
    core_each(salvaging->core, notify_lost, salvaging);
}

static enum err relocate_all(struct salvaging *salvaging)
{
    struct arena arena = {0};
    size_t doubtful = salvaging->doubtful.len / sizeof(struct found_job);
    size_t count = salvaging->jobs.len / sizeof(struct found_job);
    enum err err = OK;
    if (count)
        qsort(salvaging->jobs.at, count, sizeof(struct found_job), by_where);
    if (doubtful)
        qsort(salvaging->doubtful.at, doubtful, sizeof(struct found_job), by_seq);
    for (size_t i = 0; i < count && !err; i++) {
        struct found_job job;
        memcpy(&job, salvaging->jobs.at + i * sizeof(job), sizeof(job));
        err = relocate_job(salvaging, &job, &arena);
        arena_reset(&arena);
        if (i % PROGRESS_JOBS == 0)
            show_progress(salvaging, "jobs written", i, count);
    }
    report_all_lost(salvaging);
    uint32_t cursor = 0;
    while (!err && core_relocate_topics(salvaging->core, 0, UINT64_MAX, &cursor, TOPICS_STEPS))
        err = salvage_target_room(&salvaging->to, TOPICS_BYTES, clock_wall_us());
    arena_fini(&arena);
    clear_progress(salvaging);
    return err;
}

/* ---- the command ---- */

static int refuse(struct salvaging *salvaging, const char *directory, enum err err,
                  const struct store_error *error)
{
    clear_progress(salvaging);
    if (err == ERR_LOCKED) {
        cli_message(salvaging->cli, "a server has %s open: stop it first", directory);
        return EXIT_CONFLICT;
    }
    if (err == ERR_NOT_FOUND && !error->text[0]) {
        char *backup;
        (void)backup_place_find(directory, &backup); /* one that may not be read is named, too */
        cli_message(salvaging->cli, "there is no store in %s%s%s%s", directory,
                    backup ? "; of the newest backup there one is made by: later restore " : "",
                    backup ? directory : "", backup ? " NEW" : "");
        mem_free(backup);
        return EXIT_NOTHING;
    }
    if (error->text[0])
        cli_message(salvaging->cli, "%s: %s: %s", directory, error->file, error->text);
    else
        cli_message(salvaging->cli, "%s: %s", directory, err_text(err));
    return EXIT_REFUSED;
}

static void print_counts(struct salvaging *salvaging, const struct salvage_counts *counts,
                         const char *directory)
{
    uint64_t kept = salvaging->to.history_kept, left_out = counts->history - kept;
    if (salvaging->cli->json) {
        json_t *object = json_pack(
            "{sI sI sI sI sI sI sI sI sI}", "carried", (json_int_t)salvaging->carried, "doubtful",
            (json_int_t)salvaging->doubtful_carried, "lost", (json_int_t)salvaging->lost,
            "unknown_places", (json_int_t)counts->opaque_regions, "cut_files",
            (json_int_t)counts->cut_files, "damaged_batches", (json_int_t)counts->damaged_batches,
            "batches", (json_int_t)counts->batches, "history", (json_int_t)kept, "history_lost",
            (json_int_t)left_out);
        cli_print_json(object);
        json_decref(object);
        return;
    }
    (void)printf("%" PRIu64 " job%s carried over to %s, %" PRIu64 " of them doubtful\n"
                 "%" PRIu64 " job%s known to be lost\n",
                 salvaging->carried, plural(salvaging->carried), directory,
                 salvaging->doubtful_carried, salvaging->lost, plural(salvaging->lost));
    if (counts->history)
        (void)printf("%" PRIu64 " thing%s that happened to jobs carried over\n", kept,
                     plural(kept));
    if (left_out)
        (void)printf("%" PRIu64 " thing%s that happened to jobs left out: the new disk is full\n",
                     left_out, plural(left_out));
    if (counts->opaque_regions)
        (void)printf("%" PRIu64
                     " place%s could not be read in full: more jobs may have been there\n",
                     counts->opaque_regions, plural(counts->opaque_regions));
    if (counts->cut_files)
        (void)printf("%" PRIu64 " file%s shorter than before: more jobs may have been there\n",
                     counts->cut_files, counts->cut_files == 1 ? " is" : "s are");
}

/* Reads everything before it writes, because only then the numbers are known that NEW must not
   give. */
static int relocate_over(struct salvaging *salvaging, char **directories, struct disk *to)
{
    struct store_error error = {.text = ""};
    struct salvage_counts counts;
    struct store_watcher watcher = {.print_line = print_line_of_new, .ctx = salvaging};
    enum err err = salvage_replay(salvaging->from);
    clear_progress(salvaging);
    if (err)
        return refuse(salvaging, directories[0], err, &error);
    core_replayed(salvaging->core, clock_wall_us()); /* ready jobs are copied as ready */
    core_each(salvaging->core, list_job, salvaging);
    salvage_counts(salvaging->from, &counts);
    salvaging->lost = counts.lost_jobs;
    err = salvage_target_open(&salvaging->to,
                              &(struct salvage_start){.disk = to,
                                                      .boot = counts.boot,
                                                      .seq_first = counts.seq_first,
                                                      .now_us = clock_wall_us()},
                              &error);
    if (err) {
        (void)refuse(salvaging, directories[1], err, &error);
        cli_message(salvaging->cli, "%s is not whole: remove it", directories[1]);
        return EXIT_REFUSED;
    }
    err = relocate_all(salvaging);
    if (!err)
        err = salvage_history(salvaging->from);
    salvage_counts(salvaging->from, &counts);
    if (err)
        salvage_target_abandon(&salvaging->to);
    else
        err = salvage_target_close(&salvaging->to, salvaging->carried, &watcher);
    if (err) {
        cli_message(salvaging->cli, "the new store is not whole, remove it: %s%s%s", err_text(err),
                    salvaging->to.failed ? ": " : "",
                    salvaging->to.failed ? strerror(salvaging->to.sys_errno) : "");
        return EXIT_REFUSED;
    }
    print_counts(salvaging, &counts, directories[1]);
    bool all = counts.damaged_batches == 0 && counts.bad_files == 0 && salvaging->lost == 0 &&
               salvaging->doubtful_carried == 0 && !salvaging->damaged &&
               salvaging->to.history_kept == counts.history;
    return all ? EXIT_DONE : EXIT_WRONG;
}

/* A directory without the lock's file is no server's: making one would change it. */
static bool has_lock(const char *directory)
{
    struct stat status;
    struct buf path = {0};
    buf_addf(&path, "%s/LOCK", directory);
    buf_add_char(&path, '\0');
    bool there = lstat(path.at, &status) == 0;
    buf_fini(&path);
    return there;
}

static int salvage(struct cli *cli, char **directories, struct os_disk *from, struct os_disk *to)
{
    struct store_error error;
    struct salvaging salvaging = {
        .cli = cli,
        .callbacks = {.replay = replay,
                      .clock = replay_clock,
                      .happened = keep_happening,
                      .print_line = print_line,
                      .progress = read_progress},
        .sink.emit = append,
        .core_callbacks.reply = no_reply,
    };
    enum err err = salvage_open(os_disk_port(from), has_lock(directories[0]), &salvaging.callbacks,
                                &salvaging.from, &error);
    if (err)
        return refuse(&salvaging, directories[0], err, &error);
    salvaging.core = core_new(&(struct core_options){
        .limits = {.jobs = UINT64_MAX, .topics = UINT32_MAX, .waiters = 1},
        .sink = &salvaging.sink,
        .callbacks = &salvaging.core_callbacks,
        .now_us = clock_wall_us(),
        .hash_key =
            (uint64_t)clock_wall_us(), /* ids come from a store, so no client can choose them now */
        .lease_first = 1,
        .seq_first = 1,
    });
    int code = relocate_over(&salvaging, directories, os_disk_port(to));
    core_free(salvaging.core);
    salvage_close(salvaging.from);
    buf_fini(&salvaging.jobs);
    buf_fini(&salvaging.lost_jobs);
    buf_fini(&salvaging.doubtful);
    return code;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct os_disk *from;
    struct os_disk *to;
    cli_only_words(cli, argc, argv, 2, 2);
    char **directories = argv + optind;
    if (!directory_there(directories[0]))
        return cli_cannot_open(cli, directories[0]);
    if (directory_within(directories[1], directories[0]) ||
        directory_within(directories[0], directories[1])) {
        cli_message(cli,
                    "%s and %s are the same directory, or one is in the other: nothing was done",
                    directories[0], directories[1]);
        return EXIT_CONFLICT;
    }
    if (!directory_empty(directories[1])) {
        cli_message(cli, "%s is not an empty directory: nothing was done", directories[1]);
        return EXIT_CONFLICT;
    }
    bool made = !directory_there(directories[1]);
    if (os_disk_new(directories[0], &from))
        return cli_cannot_open(cli, directories[0]);
    if (os_disk_new(directories[1], &to)) {
        cli_message(cli, "cannot use %s: %s", directories[1], strerror(errno));
        os_disk_free(from);
        return EXIT_REFUSED;
    }
    int code = salvage(cli, directories, from, to);
    os_disk_free(to);
    os_disk_free(from);
    if (made && code != EXIT_DONE)
        (void)rmdir(directories[1]); /* if nothing was written to it */
    return code;
}

const struct command command_salvage = {
    .name = "salvage",
    .synopsis = "DIR NEW",
    .summary = "Bring all that is intact in a damaged store into a new one",
    .help =
        "DIR is the data directory of a laterd that is stopped; nothing in it is changed.\n"
        "NEW is made, or must be empty (lost+found may be there); it takes as much room as DIR's\n"
        "live jobs. Neither may be in the other. Until NEW is whole, laterd does not start with "
        "it.\n"
        "\nWhat is damaged is named, a line each, on standard error. A job is carried over if its\n"
        "body is what was pushed. It is doubtful if the log around it was damaged: then its due\n"
        "time, state, id or topic may be wrong. A job can come back that had ended, if only its\n"
        "end was damaged. Bodies are also looked for in segments that were set aside; a job with\n"
        "such a body is doubtful, too: it may be one that was replaced later. What happened to\n"
        "jobs ('later history') is carried over where it is intact.\n"
        "\nExit 0: all was intact. 1: no such directory, or no store in it. 3: a server has DIR\n"
        "open, NEW is not empty, or one is in the other. 4: DIR cannot be opened, or it did not\n"
        "work: remove NEW. 6: done, and there was damage.\n"
        "\nExample:\n"
        "  later salvage /var/lib/laterd /var/lib/laterd.new\n",
    .offline = true,
    .run = run,
};
