#include "cli/verifying.h"

#include <errno.h>
#include <unistd.h>

#include "cli/directory.h"
#include "cli/text.h"
#include "os/disk.h"
#include "store/verify.h"

struct watch {
    struct cli *cli;
    bool progress; /* a line of it is on the terminal */
};

static void clear_progress(struct watch *watch)
{
    if (watch->progress)
        (void)fputs("\r\x1b[K", stderr);
    watch->progress = false;
}

static void print_line(void *ctx, const char *line)
{
    struct watch *watch = ctx;
    clear_progress(watch);
    cli_message(watch->cli, "%s", line);
}

static void show_progress(void *ctx, uint64_t done_bytes, uint64_t all_bytes)
{
    struct watch *watch = ctx;
    watch->progress = true;
    (void)fprintf(stderr, "\r%llu of %llu MB ", (unsigned long long)(done_bytes >> 20),
                  (unsigned long long)(all_bytes >> 20));
}

/* A member for each count, in the order of the text output. */
static json_t *counts_json(const struct store_counts *counts, enum err err)
{
    return json_pack(
        "{sb sI sI sI sI sI sI sI sI sI sI sI sI}", "ok", err == OK && counts->bad == 0, "segments",
        (json_int_t)counts->segments, "batches", (json_int_t)counts->batches, "records",
        (json_int_t)counts->records, "jobs", (json_int_t)counts->jobs, "slices",
        (json_int_t)counts->slices, "slice_jobs", (json_int_t)counts->slice_jobs, "live_jobs",
        (json_int_t)counts->live_jobs, "bytes", (json_int_t)counts->bytes, "bad",
        (json_int_t)counts->bad, "hit_jobs", (json_int_t)counts->hit_jobs, "hit_topics",
        (json_int_t)counts->hit_topics, "unknown_places", (json_int_t)counts->unknown);
}

static void print_counts(const struct cli *cli, const struct store_counts *counts, enum err err)
{
    if (cli->json) {
        json_t *object = counts_json(counts, err);
        cli_print_json(object);
        json_decref(object);
        return;
    }
    char far[80] = "";
    if (counts->slices > 0)
        (void)snprintf(far, sizeof(far), " in the log and %llu in %llu slice%s",
                       (unsigned long long)counts->slice_jobs, (unsigned long long)counts->slices,
                       plural(counts->slices));
    (void)printf("%llu segment%s, %llu batch%s, %llu record%s, %llu bytes\n"
                 "%llu job%s%s, %llu of them live\n",
                 (unsigned long long)counts->segments, plural(counts->segments),
                 (unsigned long long)counts->batches, counts->batches == 1 ? "" : "es",
                 (unsigned long long)counts->records, plural(counts->records),
                 (unsigned long long)counts->bytes, (unsigned long long)counts->jobs,
                 plural(counts->jobs), far, (unsigned long long)counts->live_jobs);
}

/* Prints whether live jobs or settings of topics depend on what is damaged. */
static void report_damage(const struct cli *cli, const char *directory,
                          const struct store_counts *counts)
{
    char hit[80] = "no job that lives is hit", topics[80] = "", unknown[80] = "";
    if (counts->hit_jobs)
        (void)snprintf(hit, sizeof(hit), "jobs that live, or may, and are hit: up to %llu",
                       (unsigned long long)counts->hit_jobs);
    else if (counts->unknown)
        (void)snprintf(hit, sizeof(hit), "no job that lives is known to be hit");
    if (counts->hit_topics)
        (void)snprintf(topics, sizeof(topics),
                       "; settings or a pause of a topic are hit: up to %llu",
                       (unsigned long long)counts->hit_topics);
    if (counts->unknown)
        (void)snprintf(unknown, sizeof(unknown), "; places where it cannot be told: %llu",
                       (unsigned long long)counts->unknown);
    cli_message(cli, "%s: %llu damaged place%s; %s%s%s", directory, (unsigned long long)counts->bad,
                plural(counts->bad), hit, topics, unknown);
    if (counts->bad == counts->spares)
        cli_message(cli, "the queue is whole: start laterd on it; but see whether the disk fails");
    else
        cli_message(cli, "bring what is intact into a new store with: later salvage %s NEW",
                    directory);
}

/* True: a file cannot be read because it is another user's, which was printed: it says nothing of
   damage. */
static bool complain_closed(const struct cli *cli, const char *directory)
{
    struct buf path = {0};
    bool closed = directory_closed_file(directory, &path);
    if (closed)
        cli_message(cli, "cannot read %s: %s; run it as laterd's user, or as root", path.at,
                    strerror(EACCES));
    buf_fini(&path);
    return closed;
}

int verifying_run(struct cli *cli, const char *directory, struct store_counts *out_counts)
{
    struct os_disk *disk;
    struct store_counts counts = {0};
    struct watch watch = {.cli = cli};
    struct store_watcher watcher = {.print_line = print_line, .ctx = &watch};
    if (isatty(STDERR_FILENO))
        watcher.progress = show_progress;
    if (os_disk_new(directory, &disk))
        return cli_cannot_open(cli, directory);
    enum err err = ERR_NOT_FOUND;
    if (directory_has_store(directory)) /* before the lock, which leaves a file there */
        err = store_verify(os_disk_port(disk), &watcher, &counts);
    else
        cli_message(cli, "there is no store in %s", directory);
    clear_progress(&watch);
    os_disk_free(disk);
    if (err == ERR_LOCKED) {
        cli_message(cli, "a server has %s open: stop it, or verify a copy", directory);
        return EXIT_CONFLICT;
    }
    if (err == ERR_NOT_FOUND) { /* which was printed */
        if (cli->json && !out_counts)
            (void)puts("{\"ok\":false}");
        return EXIT_NOTHING;
    }
    /* A slice or an image that cannot be opened is no error, but counts as bad. */
    bool unread = err == ERR_IO || (err == OK && counts.bad > 0);
    bool closed = unread && complain_closed(cli, directory);
    if (closed || err == ERR_UNSUPPORTED) { /* a newer laterd's, which was printed */
        if (cli->json && !out_counts)
            (void)puts("{\"ok\":false}");
        return EXIT_REFUSED;
    }
    counts.unknown += err != OK; /* what was not read may have anything in it */
    if (out_counts)
        *out_counts = counts;
    else
        print_counts(cli, &counts, err);
    if (err == OK && counts.bad == 0)
        return EXIT_DONE;
    if (counts.bad > 0)
        report_damage(cli, directory, &counts);
    else
        cli_message(cli, "%s: not all could be checked: %s", directory, err_text(err));
    return EXIT_WRONG;
}
