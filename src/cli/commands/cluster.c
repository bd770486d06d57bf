/*
 * The command that shows who leads: cluster.
 */
#include "cli/show.h"
#include "cli/text.h"

static void line(const json_t *cluster, const char *label, const char *key, struct buf *out)
{
    if (json_is_null(json_object_get(cluster, key)))
        return;
    buf_addf(out, "%-11s ", label);
    show_value(cluster, key, out);
    buf_add_char(out, '\n');
}

static void show_cluster(const json_t *cluster)
{
    char room[TEXT_ROOM];
    struct buf out = {0};
    int64_t role_us = (int64_t)show_count(cluster, "role_ms") * 1000;
    bool election = json_is_true(json_object_get(cluster, "election"));
    bool active = strcmp(show_string(cluster, "role"), "active") == 0;
    buf_addf(&out, "%-11s ", "role");
    show_value(cluster, "role", &out);
    buf_addf(&out, " for %s%s\n", duration_text(role_us, room),
             election ? ""
             : active ? " (no election: all daemons on this Redis serve)"
                      : " (there is no election: [member])");
    line(cluster, "serving", "serving", &out);
    if (election) {
        line(cluster, "election", "name", &out);
        line(cluster, "epoch", "epoch", &out);
        line(cluster, "this one", "self", &out);
        line(cluster, "leader", "leader", &out);
        line(cluster, "connected", "connected", &out);
        line(cluster, "why", "why", &out);
    }
    cli_flush(&out);
    buf_fini(&out);
}

static int cluster_run(struct cli *cli, int argc, char **argv)
{
    json_t *answer = NULL;
    cli_only_words(cli, argc, argv, 0, 0);
    cli->repeats = true; /* one that begins to lead, or stops, drops its connections */
    int code = cli_call(cli, "GET", "/v1/cluster", NULL, &answer);
    if (code != EXIT_DONE)
        return code;
    bool serving = json_is_true(json_object_get(answer, "serving"));
    if (cli->json)
        cli_print_json(answer);
    else
        show_cluster(answer);
    json_decref(answer);
    return serving ? EXIT_DONE : EXIT_NOTHING;
}

const struct command command_cluster = {
    .name = "cluster",
    .synopsis = "",
    .summary = "Show whether this laterd leads or waits, and who leads",
    .help = "Asks the laterd of --server alone: leading or waiting in an election, active if it is "
            "one\n"
            "of several on a Redis that all serve. Exit 0 if it serves, 1 if it waits.\n"
            "\nExample:\n"
            "  later cluster --server http://queue2:9277\n",
    .run = cluster_run,
};
