/*
 * later restore: makes a store of a backup. Everything is copied, never linked, for laterd will
 * write to it; the manifest comes last, so that half a store does not open.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/backup/copy.h"
#include "cli/backup/place.h"
#include "cli/directory.h"
#include "cli/show.h"
#include "cli/text.h"
#include "cli/verifying.h"
#include "store/backup.h"
#include "store/history/history_format.h"
#include "store/slices/slice_format.h"
#include "store/verify.h"

struct restoring {
    struct cli *cli;
    const char *from; /* the backup */
    const char *to;
    json_t *index;
    struct copier copier;
};

static int failed(const struct restoring *all, const char *path, const char *what)
{
    cli_message(all->cli, "%s: %s: %s", path, what, strerror(errno));
    return EXIT_REFUSED;
}

static int write_manifest(struct restoring *all)
{
    char slots[MANIFEST_BYTES];
    struct store_error error = {0};
    int fd = openat(all->copier.from_fd, MANIFEST_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : pread(fd, slots, sizeof(slots), 0);
    if (fd >= 0)
        (void)close(fd); /* only read */
    if (len != (ssize_t)sizeof(slots) || backup_restored(slots, &error)) {
        cli_message(all->cli, "%s: the backup's manifest is not whole%s%s", all->from,
                    error.text[0] ? ": " : "", error.text);
        return EXIT_WRONG;
    }
    fd = openat(all->copier.to_fd, MANIFEST_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed(all, all->to, "the manifest cannot be made");
    bool good = copy_write(fd, slots, sizeof(slots), 0) && fsync(fd) == 0;
    good = close(fd) == 0 && good && fsync(all->copier.to_fd) == 0;
    return good ? EXIT_DONE : failed(all, all->to, "the manifest cannot be written");
}

static int copy_files(struct restoring *all)
{
    const json_t *files = json_object_get(all->index, "files"), *file;
    struct copier *copier = &all->copier;
    int code = EXIT_DONE;
    size_t i;
    json_array_foreach(files, i, file)
    {
        copier->all_bytes += show_count(file, "bytes");
    }
    json_array_foreach(files, i, file)
    {
        const char *name = show_string(file, "name");
        uint32_t number;
        bool half_made;
        if (!segment_name_parse(name, &number) && !slice_name_parse(name, &number) &&
            !history_name_parse(name, &number, &half_made)) {
            cli_message(all->cli, "%s: its list names a file that is none of a store: %s",
                        all->from, BACKUP_INDEX);
            code = EXIT_WRONG;
        }
        if (code == EXIT_DONE)
            code = copier_restore(copier, name, show_count(file, "bytes"));
    }
    copier_end_progress(copier);
    if (code == EXIT_DONE && fsync(copier->to_fd) != 0)
        code = failed(all, all->to, "cannot be synced");
    return code == EXIT_DONE ? write_manifest(all) : code;
}

static int copy_all(struct restoring *all, uint64_t rate)
{
    all->copier = (struct copier){
        .cli = all->cli,
        .previous_fd = -1,
        .rate = rate,
        .progress = isatty(STDERR_FILENO) != 0 && !all->cli->json,
        .from_fd = open(all->from, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
        .to_fd = -1,
    };
    if (all->copier.from_fd >= 0)
        all->copier.to_fd = open(all->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int code = EXIT_DONE;
    if (all->copier.from_fd < 0 || all->copier.to_fd < 0)
        code = failed(all, all->copier.from_fd < 0 ? all->from : all->to, "cannot be opened");
    if (code == EXIT_DONE)
        code = copy_files(all);
    copier_fini(&all->copier);
    if (all->copier.from_fd >= 0)
        (void)close(all->copier.from_fd); /* only read */
    if (all->copier.to_fd >= 0)
        (void)close(all->copier.to_fd); /* synced */
    return code;
}

static void report(const struct restoring *all, const struct store_counts *counts)
{
    if (all->cli->json) {
        json_t *line = json_pack("{ss ss ss sI sI}", "backup", all->from, "time",
                                 show_string(all->index, "time"), "directory", all->to, "jobs",
                                 (json_int_t)counts->live_jobs, "bytes", (json_int_t)counts->bytes);
        cli_print_json(line);
        json_decref(line);
        return;
    }
    char jobs[TEXT_ROOM], size[TEXT_ROOM];
    (void)printf("%s is the store of %s: %s job%s, %s, every byte checked\n", all->to,
                 show_string(all->index, "time"), count_text(counts->live_jobs, jobs),
                 plural(counts->live_jobs), size_text(counts->bytes, size));
}

static int restore(struct restoring *all, uint64_t rate)
{
    struct store_counts counts = {0};
    if (!directory_make(all->to))
        return failed(all, all->to, "cannot be made");
    int code = copy_all(all, rate);
    if (code != EXIT_DONE) {
        cli_message(all->cli, "%s is not whole: remove it", all->to);
        return code;
    }
    code = verifying_run(all->cli, all->to, &counts);
    if (code == EXIT_DONE)
        report(all, &counts);
    else
        cli_message(all->cli,
                    "the backup is damaged: take another one, or bring over what is intact with: "
                    "later salvage %s NEW",
                    all->to);
    return code;
}

enum { JOURNAL = 256 }; /* an option without a letter: it only says where that is done */

static int run(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"journal", no_argument, NULL, JOURNAL}, CLI_OPTIONS};
    struct restoring all = {.cli = cli};
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        if (c == JOURNAL)
            cli_usage(cli, "jobs come back from the journal in MySQL by: later journal restore");
    }
    cli_words(cli, argc, argv, 2, 2);
    const char *given = argv[optind];
    all.to = argv[optind + 1];
    if (!directory_readable(given))
        return cli_cannot_open(cli, given);
    char *found;
    enum err err = backup_place_find(given, &found);
    if (err == ERR_IO) {
        int code = cli_cannot_open(cli, found);
        mem_free(found);
        return code;
    }
    if (err) {
        cli_message(
            cli,
            "there is no whole backup in %s: a backup is a directory with a file " BACKUP_INDEX,
            given);
        return EXIT_NOTHING;
    }
    all.from = found;
    int code = EXIT_DONE;
    if (directory_within(all.to, given) || directory_within(given, all.to)) {
        cli_message(cli,
                    "%s and %s are the same directory, or one is in the other: nothing was done",
                    given, all.to);
        code = EXIT_CONFLICT;
    } else if (!directory_empty(all.to)) {
        cli_message(cli, "%s is not an empty directory: nothing was done", all.to);
        code = EXIT_CONFLICT;
    } else {
        all.index = backup_index_load(found);
        if (show_count(all.index, "format") != 1) {
            cli_message(cli, "%s/%s cannot be read, or was written by a newer `later`", found,
                        BACKUP_INDEX);
            code = EXIT_WRONG;
        }
    }
    if (code == EXIT_DONE)
        code = restore(&all, 0);
    json_decref(all.index);
    mem_free(found);
    return code;
}

const struct command command_restore = {
    .name = "restore",
    .synopsis = "BACKUP DIR",
    .summary = "Make a store of a backup, and check every byte of it",
    .help =
        "BACKUP is a directory that `later backup` made, or a place of them: then the newest is\n"
        "taken. DIR is made, or must be empty (lost+found may be there); it is copied, and BACKUP "
        "does\n"
        "not change.\n"
        "\nThe new store's numbers go on far above those of the backup, so that no server-made id "
        "and\n"
        "no lease of what happened since is given again. Jobs that were finished since come "
        "again.\n"
        "Run it as laterd's user, or give DIR to that user.\n"
        "Jobs come back from the journal in MySQL by `later journal restore`.\n"
        "\nExit 1: no whole backup there. 3: DIR is not empty, or in BACKUP. 4: it did not work,\n"
        "remove DIR. 6: the backup is damaged.\n"
        "\nExamples:\n"
        "  later restore /var/backups/laterd /var/lib/laterd.new\n"
        "  later restore /var/backups/laterd/20261123T150000Z /var/lib/laterd.new\n",
    .offline = true,
    .run = run,
};
