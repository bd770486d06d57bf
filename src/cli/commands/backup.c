/*
 * later backup: copies a store that a server may have open, as of one instant: the files that
 * store/backup.h captures are linked or copied into a new directory in a place of backups.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/mem.h"
#include "base/rfc3339.h"
#include "cli/backup/copy.h"
#include "cli/backup/place.h"
#include "cli/directory.h"
#include "cli/show.h"
#include "cli/text.h"
#include "cli/verifying.h"
#include "os/disk.h"
#include "port/clock.h"
#include "store/backup.h"
#include "store/verify.h"

struct backing_up {
    struct cli *cli;
    const char *from; /* the store's directory */
    char *id;         /* of the store that the server has, in hexadecimal; NULL: not known */
    const char *to;   /* the place */
    uint64_t rate;
    uint64_t keep; /* UINT64_MAX: all */
    bool no_links;
    bool verify;
    bool anew; /* links to no file of the last backup */
    uint64_t
        bad; /* damaged places that verify_made() found; UINT64_MAX: not all could be checked */
    struct backup backup;
    struct backup_place place;
    struct copier copier;
    int64_t at_us;
};

/* One for each file is held. */
static void allow_many_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE,
                    &limit); /* otherwise the capture fails for lack of descriptors */
}

/* Lets I/O of the server go first, where the kernel supports that. */
static void let_others_first(void)
{
    enum { WHO_PROCESS = 1, CLASS_IDLE = 3, CLASS_SHIFT = 13 };
    (void)syscall(SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE << CLASS_SHIFT); /* a wish */
}

/* ---- which store ---- */

static int no_directory(struct cli *cli, const char *kind)
{
    if (strcmp(kind, "shared") == 0)
        cli_message(cli, "this server keeps its jobs in Redis: back that up (BGSAVE and its file, "
                         "or a replica's), or take a copy of the queue with `later export`");
    else if (strcmp(kind, "memory") == 0)
        cli_message(cli, "this server keeps its jobs in memory only: `later export` copies them");
    else
        cli_message(cli, "the server does not say where its store is: give --data-dir");
    return EXIT_CONFLICT;
}

static char *copy_of(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = mem_alloc(size);
    memcpy(copy, text, size);
    return copy;
}

/* Gets the store's directory and id from the server; both must be mem_free-ed. */
static int ask_store(struct cli *cli, char **out_directory, char **out_id)
{
    json_t *stats = NULL;
    int code = cli_call(cli, "GET", "/v1/stats", NULL, &stats);
    if (code == EXIT_UNREACHABLE)
        cli_message(cli, "if the server is stopped, give its store: --data-dir DIR");
    if (code != EXIT_DONE)
        return code;
    const json_t *store = json_object_get(stats, "store");
    const char *kind = show_string(store, "kind"), *directory = show_string(store, "data_dir");
    if (strcmp(kind, "embedded") != 0 || !*directory) {
        code = no_directory(cli, kind);
    } else {
        const char *id = show_string(store, "id");
        *out_directory = copy_of(directory);
        *out_id = *id ? copy_of(id) : NULL; /* an older server tells none */
        struct buf shown = {0};
        if (directory[0] != '/' && !directory_there(directory))
            cli_message(cli,
                        "the server names its store %s, from the folder it was started in; from "
                        "elsewhere give --data-dir",
                        show_safe(store, "data_dir", &shown));
        buf_fini(&shown);
    }
    json_decref(stats);
    return code;
}

/* ---- the backup ---- */

static int refuse_capture(const struct backing_up *all, enum err err,
                          const struct store_error *error)
{
    if (err == ERR_NOT_FOUND) {
        cli_message(all->cli, "there is no store in %s", all->from);
        return EXIT_NOTHING;
    }
    cli_message(all->cli, "%s: %s%s%s", all->from, error->file, error->file[0] ? ": " : "",
                error->text[0] ? error->text : err_text(err));
    return err == ERR_CORRUPT ? EXIT_WRONG : EXIT_REFUSED;
}

/* The directory is named by the server: on this machine, or in this folder, it may be another
   store's. */
static int check_id(const struct backing_up *all)
{
    const struct store_id *found = &all->backup.manifest.id;
    char id[2 * sizeof(found->bytes) + 1];
    hex_write(found->bytes, sizeof(found->bytes), id);
    if (!all->id || strcmp(id, all->id) == 0)
        return EXIT_DONE;
    cli_message(all->cli,
                "the store in %s is not the server's: run this on the server's machine, in the "
                "folder it was started in, or give --data-dir",
                all->from);
    return EXIT_CONFLICT;
}

/* The list of files: without it a directory is no backup. */
static int write_index(struct backing_up *all)
{
    const struct backup *backup = &all->backup;
    struct buf time = {0};
    char id[2 * sizeof(backup->manifest.id.bytes) + 1];
    json_t *files = json_array();
    hex_write(backup->manifest.id.bytes, sizeof(backup->manifest.id.bytes), id);
    for (size_t i = 0; i < backup->count; i++)
        json_array_append_new(files, json_pack("{ss sI}", "name", backup->files[i].name, "bytes",
                                               (json_int_t)backup->files[i].size_bytes));
    rfc3339_add(&time, all->at_us);
    buf_add_char(&time, '\0');
    json_t *index =
        json_pack("{si ss ss ss sI so}", "format", 1, "store", id, "time", time.at, "directory",
                  all->from, "batch", (json_int_t)backup->batch, "files", files);
    char *text = index ? json_dumps(index, JSON_INDENT(1)) : NULL;
    int code = EXIT_REFUSED;
    if (text)
        code = backup_place_write(&all->place, BACKUP_INDEX, text, strlen(text));
    else
        cli_message(all->cli, "%s: its name is not UTF-8", all->from);
    free(text); /* jansson's */
    json_decref(index);
    buf_fini(&time);
    return code;
}

static int take_files(struct backing_up *all, struct disk *disk, int from_fd)
{
    struct copier *copier = &all->copier;
    char slots[MANIFEST_BYTES];
    *copier = (struct copier){
        .cli = all->cli,
        .from_fd = from_fd,
        .previous_fd = -1,
        .to_fd = all->place.started_fd,
        .rate = all->rate,
        .no_links = all->no_links,
        .progress = isatty(STDERR_FILENO) != 0 && !all->cli->json,
    };
    if (all->place.newest[0] && !all->anew)
        copier->previous_fd =
            openat(all->place.fd, all->place.newest, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < all->backup.count; i++)
        copier->all_bytes += all->backup.files[i].size_bytes;
    int code = EXIT_DONE;
    for (size_t i = 0; i < all->backup.count && code == EXIT_DONE; i++)
        code = copier_take(copier, disk, &all->backup.files[i]);
    copier_end_progress(copier);
    if (copier->previous_fd >= 0)
        (void)close(copier->previous_fd); /* only read */
    copier_fini(copier);
    backup_manifest(&all->backup, slots);
    if (code == EXIT_DONE)
        code = backup_place_write(&all->place, MANIFEST_NAME, slots, sizeof(slots));
    return code == EXIT_DONE ? write_index(all) : code;
}

static void report(const struct backing_up *all, double seconds)
{
    const struct copier *copier = &all->copier;
    if (all->cli->json) {
        json_t *line = json_pack(
            "{ss ss sb sI sI sI sI sI sI}", "backup", all->place.finished, "directory", all->from,
            "verified", all->verify, "files", (json_int_t)all->backup.count, "batch",
            (json_int_t)all->backup.batch, "linked_bytes", (json_int_t)copier->linked_bytes,
            "kept_bytes", (json_int_t)copier->kept_bytes, "copied_bytes",
            (json_int_t)copier->copied_bytes, "ms", (json_int_t)(seconds * 1000));
        cli_print_json(line);
        json_decref(line);
        return;
    }
    char linked[TEXT_ROOM], kept[TEXT_ROOM], copied[TEXT_ROOM];
    (void)printf("%s/%s\n%zu file%s: %s linked to the store's, %s to the last backup's, "
                 "%s copied, in %.1f s%s\n",
                 all->to, all->place.finished, all->backup.count, plural(all->backup.count),
                 size_text(copier->linked_bytes, linked), size_text(copier->kept_bytes, kept),
                 size_text(copier->copied_bytes, copied), seconds,
                 all->verify ? "; every byte checked" : "");
}

/* Verifies the new backup. */
static int verify_made(struct backing_up *all)
{
    struct buf path = {0};
    buf_addf(&path, "%s/%s", all->to, all->place.finished);
    buf_add_char(&path, '\0');
    struct store_counts counts = {0};
    int code = verifying_run(all->cli, path.at, &counts);
    all->bad = code == EXIT_DONE || counts.bad ? counts.bad : UINT64_MAX;
    buf_fini(&path);
    return code;
}

static int make(struct backing_up *all, struct disk *disk, int from_fd)
{
    struct store_error error;
    int code = backup_place_open(&all->place, all->cli, all->to);
    if (code == EXIT_DONE)
        code = backup_place_start(&all->place);
    if (code == EXIT_DONE) {
        enum err err = backup_capture(disk, &all->backup, &error);
        all->at_us = clock_wall_us();
        if (err)
            code = refuse_capture(all, err, &error);
    }
    if (code == EXIT_DONE)
        code = check_id(all);
    if (code == EXIT_DONE)
        code = take_files(all, disk, from_fd);
    return code;
}

static int make_and_verify(struct backing_up *all, struct disk *disk, int from_fd)
{
    int code = make(all, disk, from_fd);
    if (code == EXIT_DONE)
        code = backup_place_finish(&all->place, all->at_us);
    return code == EXIT_DONE && all->verify ? verify_made(all) : code;
}

/* The copies of an earlier backup may be what is damaged, and later ones would link to them again,
   each time: takes all from the store itself. */
static int make_anew(struct backing_up *all, struct disk *disk, int from_fd)
{
    cli_message(all->cli,
                "%s/%s is damaged, perhaps in files of %s that it links to: one without such links "
                "is made; look at the others with: later verify PLACE/NAME",
                all->to, all->place.finished, all->place.newest);
    backup_release(&all->backup);
    backup_place_close(&all->place);
    all->anew = true;
    uint64_t linked_bad = all->bad;
    int code = make_and_verify(all, disk, from_fd);
    if (code != EXIT_WRONG || !all->place.finished[0] || all->bad < linked_bad)
        return code;
    /* It has all files once more: of a damaged store each backup would, and fill the place. */
    cli_message(all->cli, "%s/%s is damaged as much, so %s is: it is removed again", all->to,
                all->place.finished, all->from);
    int dropped = backup_place_drop(&all->place);
    return dropped == EXIT_DONE ? code : dropped;
}

static int back_up(struct backing_up *all)
{
    struct os_disk *disk;
    int64_t start_us = clock_monotonic_us();
    int from_fd = open(all->from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from_fd < 0 || os_disk_new(all->from, &disk)) {
        int code = cli_cannot_open(all->cli, all->from);
        if (from_fd >= 0)
            (void)close(from_fd); /* only read */
        return code;
    }
    int code = make_and_verify(all, os_disk_port(disk), from_fd);
    if (code == EXIT_WRONG && all->copier.kept_bytes > 0)
        code = make_anew(all, os_disk_port(disk), from_fd);
    if (code == EXIT_DONE)
        report(all, (double)(clock_monotonic_us() - start_us) / 1e6);
    if (code == EXIT_DONE && all->keep != UINT64_MAX)
        code = backup_place_prune(&all->place, all->keep);
    backup_release(&all->backup);
    backup_place_close(&all->place);
    os_disk_free(disk);
    (void)close(from_fd); /* only read */
    return code;
}

/* ---- the command ---- */

/* Nobody wants a slower backup. */
enum { RATE_MIN = 1024 };

static uint64_t rate_of(const struct cli *cli, const char *text)
{
    static const struct {
        char unit;
        unsigned shift;
    } units[] = {{'K', 10}, {'M', 20}, {'G', 30}};
    char digits[TEXT_ROOM];
    uint64_t number;
    size_t len = strlen(text);
    unsigned shift = 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]) && len > 0; i++)
        shift = text[len - 1] == units[i].unit ? units[i].shift : shift;
    len -= shift > 0;
    if (len < sizeof(digits)) {
        memcpy(digits, text, len);
        digits[len] = '\0';
        if (number_parse(digits, 0, UINT64_C(1) << 30, &number) == OK &&
            (number == 0 || number << shift >= RATE_MIN))
            return number << shift;
        if (number_parse(digits, 0, RATE_MIN, &number) == OK && shift == 0) /* forgotten unit */
            cli_bad_value(cli, "--rate %s is %s bytes a second: write %sK or %sM", digits, digits,
                          digits, digits);
    }
    cli_bad_value(cli, "--rate is bytes a second, such as 50M; 0 is without a limit");
}

static int check(struct backing_up *all)
{
    if (!directory_there(all->from))
        return cli_cannot_open(all->cli, all->from);
    if (!directory_has_store(all->from)) {
        cli_message(all->cli, "there is no store in %s", all->from);
        return EXIT_NOTHING;
    }
    if (!directory_within(all->to, all->from) && !directory_within(all->from, all->to))
        return EXIT_DONE;
    cli_message(all->cli,
                "%s and %s are the same directory, or one is in the other: nothing was done",
                all->from, all->to);
    return EXIT_CONFLICT;
}

static int run(struct cli *cli, int argc, char **argv)
{
    enum { NO_LINKS = 256, VERIFY };
    static const struct option options[] = {
        {"data-dir", required_argument, NULL, 'd'}, {"keep", required_argument, NULL, 'k'},
        {"rate", required_argument, NULL, 'r'},     {"copy", no_argument, NULL, NO_LINKS},
        {"verify", no_argument, NULL, VERIFY},      CLI_OPTIONS};
    struct backing_up all = {.cli = cli, .rate = COPY_RATE, .keep = UINT64_MAX};
    char *asked = NULL;
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        switch (c) {
        case 'd': all.from = optarg; break;
        case 'k': all.keep = cli_number(cli, "--keep", optarg, INT32_MAX); break;
        case 'r': all.rate = rate_of(cli, optarg); break;
        case NO_LINKS: all.no_links = true; break;
        case VERIFY: all.verify = true; break;
        default: break;
        }
    }
    cli_words(cli, argc, argv, 1, 1);
    if (all.keep == 0)
        cli_bad_value(cli, "--keep is at least 1: the backup that is being made");
    all.to = argv[optind];
    int code = all.from ? EXIT_DONE : ask_store(cli, &asked, &all.id);
    if (asked)
        all.from = asked;
    if (code == EXIT_DONE)
        code = check(&all);
    allow_many_files();
    let_others_first();
    if (code == EXIT_DONE)
        code = back_up(&all);
    mem_free(asked);
    mem_free(all.id);
    return code;
}

const struct command command_backup = {
    .name = "backup",
    .synopsis = "[options] PLACE",
    .summary = "Back up the store of a server, while it runs",
    .help =
        "Makes PLACE/20261123T150000Z, a directory that is the store as it was at one instant.\n"
        "Run it on the server's machine as the server's user, or as root. The server does nothing\n"
        "for it and is not slowed down but by the disk.\n\n"
        "  -d, --data-dir DIR    the store (the server is asked; DIR may be a stopped one's)\n"
        "  -k, --keep N          then remove the oldest backups until N are left (none is "
        "removed)\n"
        "  -r, --rate BYTES      copy at most BYTES a second (100M); 0: no limit\n"
        "      --copy            never link to the store's own files\n"
        "      --verify          then read every byte of it, as `later verify` does; if a copy "
        "that\n"
        "                        the last backup made is damaged, make one without its files\n"
        "\nSegments that do not change any more are hard links where PLACE is on the store's file\n"
        "system: they take no room, and no help if that disk is lost. Elsewhere they are copied, "
        "and\n"
        "later backups link to those copies: only what is new is copied.\n"
        "What was left by a backup that broke off is never taken for one, and goes with the next.\n"
        "One that you have given another name is yours: it is not counted, and not removed.\n"
        "\nExit 1: no store there. 3: the server's jobs are in Redis or in memory, another backup\n"
        "is being made, or PLACE and the store are in each other. 4: it did not work. 5: the\n"
        "server did not answer. 6: the store is damaged.\n"
        "\nExamples:\n"
        "  later backup /var/backups/laterd --keep 7\n"
        "  later backup --data-dir /var/lib/laterd /mnt/other-disk/laterd --verify\n"
        "  later restore /var/backups/laterd /var/lib/laterd.new\n",
    .run = run,
};
