/*
 * later verify: reads every byte of a store that no server has open, and prints what is wrong.
 */
#include "base/mem.h"
#include "cli/backup/place.h"
#include "cli/directory.h"
#include "cli/verifying.h"

static int run(struct cli *cli, int argc, char **argv)
{
    cli_only_words(cli, argc, argv, 1, 1);
    /* Looked at first, because opening a disk makes its directory. */
    if (!directory_there(argv[optind]))
        return cli_cannot_open(cli, argv[optind]);
    char *backup = NULL;
    int code;
    if (!directory_has_store(argv[optind]) && backup_place_find(argv[optind], &backup) == ERR_IO) {
        code = cli_cannot_open(cli, backup);
    } else {
        if (backup)
            cli_message(cli, "the newest backup there is %s", backup);
        code = verifying_run(cli, backup ? backup : argv[optind], NULL);
    }
    mem_free(backup);
    return code;
}

const struct command command_verify = {
    .name = "verify",
    .synopsis = "DIR",
    .summary = "Check every byte of a store that no server has open",
    .help =
        "DIR is laterd's --data-dir, a backup, or a place of backups: then the newest one is\n"
        "checked. Of a store that was closed in order the sums of the image of far jobs are "
        "compared,\n"
        "too. Nothing is changed.\n"
        "\nExit 0: all is well. 1: no such directory, or no store in it. 3: a server has it open.\n"
        "4: it cannot be opened, or a newer laterd wrote it. 6: something is damaged; each\n"
        "finding is a line on standard error, and the last ones say whether jobs that live are\n"
        "hit.\n"
        "\nExample:\n"
        "  later verify /var/lib/laterd && echo sound\n",
    .offline = true,
    .run = run,
};
