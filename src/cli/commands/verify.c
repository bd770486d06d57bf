/*
 * later verify: reads every byte of a store that no server has open, and says what is wrong.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/text.h"
#include "os/disk.h"
#include "store/store.h"

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

static void say(void *ctx, const char *line)
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

/* Looked for before anything is opened: locking a directory leaves a file there. */
static bool has_store(const char *directory)
{
    DIR *dir = opendir(directory);
    bool found = dir == NULL; /* opening the disk will say why */
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry && !found; entry = readdir(dir))
        found = strcmp(entry->d_name, "MANIFEST") == 0 || strncmp(entry->d_name, "wal-", 4) == 0;
    if (dir)
        (void)closedir(dir); /* only read */
    return found;
}

/* A member for each count, in the order they are told. */
static json_t *counts_json(const struct store_counts *counts, enum err err)
{
    return json_pack("{sb sI sI sI sI sI sI sI}", "ok", err == OK && counts->bad == 0, "segments",
                     (json_int_t)counts->segments, "batches", (json_int_t)counts->batches,
                     "records", (json_int_t)counts->records, "jobs", (json_int_t)counts->jobs,
                     "live_jobs", (json_int_t)counts->live_jobs, "bytes", (json_int_t)counts->bytes,
                     "bad", (json_int_t)counts->bad);
}

static int verify(struct cli *cli, const char *directory)
{
    struct os_disk *disk;
    struct store_counts counts = {0};
    struct watch watch = {.cli = cli};
    struct store_watcher watcher = {.say = say, .ctx = &watch};
    if (isatty(STDERR_FILENO))
        watcher.progress = show_progress;
    if (os_disk_new(directory, &disk)) {
        cli_message(cli, "cannot open %s: %s", directory, strerror(errno));
        return EXIT_NOTHING;
    }
    enum err err = ERR_NOT_FOUND;
    if (has_store(directory))
        err = store_verify(os_disk_port(disk), &watcher, &counts);
    else
        cli_message(cli, "there is no store in this directory");
    clear_progress(&watch);
    os_disk_free(disk);
    if (err == ERR_LOCKED) {
        cli_message(cli, "a server has %s open: stop it, or verify a copy", directory);
        return EXIT_CONFLICT;
    }
    if (err == ERR_NOT_FOUND) { /* which was said */
        if (cli->json)
            (void)puts("{\"ok\":false}");
        return EXIT_NOTHING;
    }
    if (cli->json) {
        json_t *object = counts_json(&counts, err);
        cli_print_json(object);
        json_decref(object);
    } else {
        (void)printf("%llu segment%s, %llu batch%s, %llu record%s, %llu bytes\n"
                     "%llu job%s, %llu of them live\n",
                     (unsigned long long)counts.segments, plural(counts.segments),
                     (unsigned long long)counts.batches, counts.batches == 1 ? "" : "es",
                     (unsigned long long)counts.records, plural(counts.records),
                     (unsigned long long)counts.bytes, (unsigned long long)counts.jobs,
                     plural(counts.jobs), (unsigned long long)counts.live_jobs);
    }
    if (err == OK && counts.bad == 0)
        return EXIT_DONE;
    if (counts.bad > 0)
        cli_message(cli,
                    "%s: %llu damaged place%s; bring what is intact into a new store with: later "
                    "salvage %s NEW",
                    directory, (unsigned long long)counts.bad, plural(counts.bad), directory);
    else
        cli_message(cli, "%s: not all could be checked: %s", directory, err_text(err));
    return EXIT_WRONG;
}

static int run(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {CLI_OPTIONS};
    struct stat directory;
    while (cli_option(cli, argc, argv, options) != -1)
        continue; /* only the common ones */
    cli_words(cli, argc, argv, 1, 1);
    /* Looked at first, because opening a disk makes its directory. */
    if (stat(argv[optind], &directory) != 0 || !S_ISDIR(directory.st_mode)) {
        cli_message(cli, "%s is not a directory", argv[optind]);
        return EXIT_NOTHING;
    }
    return verify(cli, argv[optind]);
}

const struct command command_verify = {
    .name = "verify",
    .synopsis = "DIR",
    .summary = "Check every byte of a store that no server has open",
    .help =
        "DIR is laterd's --data-dir. Nothing is changed.\n"
        "\nExit 0: all is well. 1: no such directory, or no store in it. 3: a server has it open.\n"
        "6: something is damaged; each finding is a line on standard error.\n"
        "\nExample:\n"
        "  later verify /var/lib/laterd && echo sound\n",
    .offline = true,
    .run = run,
};
