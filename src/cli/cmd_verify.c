/*
 * later verify: reads every byte of a store that no server has open, and says what is wrong.
 */
#include <errno.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "os/disk.h"
#include "store/store.h"

static void say(void *ctx, const char *line)
{
    cli_say(ctx, "%s", line);
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
    if (os_disk_new(directory, &disk)) {
        cli_say(cli, "cannot open %s: %s", directory, strerror(errno));
        return EXIT_NOTHING;
    }
    enum err err = store_verify(os_disk_port(disk), say, cli, &counts);
    os_disk_free(disk);
    if (err == ERR_LOCKED) {
        cli_say(cli, "a server has %s open: stop it, or verify a copy", directory);
        return EXIT_CONFLICT;
    }
    if (err == ERR_NOT_FOUND) { /* the store has said so */
        if (cli->json)
            (void)puts("{\"ok\":false}");
        return EXIT_NOTHING;
    }
    if (cli->json) {
        json_t *object = counts_json(&counts, err);
        cli_print_json(object);
        json_decref(object);
    } else {
        (void)printf("%llu segments, %llu batches, %llu records, %llu bytes\n"
                     "%llu jobs, %llu of them live\n",
                     (unsigned long long)counts.segments, (unsigned long long)counts.batches,
                     (unsigned long long)counts.records, (unsigned long long)counts.bytes,
                     (unsigned long long)counts.jobs, (unsigned long long)counts.live_jobs);
    }
    if (err == OK && counts.bad == 0)
        return EXIT_DONE;
    if (counts.bad > 0)
        cli_say(cli, "%s: %llu damaged place%s", directory, (unsigned long long)counts.bad,
                counts.bad == 1 ? "" : "s");
    else
        cli_say(cli, "%s: not all could be checked: %s", directory, err_text(err));
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
        cli_say(cli, "%s is not a directory", argv[optind]);
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
    .run = run,
};
