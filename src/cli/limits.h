/*
 * What the server takes in one request, asked of it (GET /v1/limits) when a command first needs to
 * know. A server that does not know the call has the usual limits, or tells by a refusal that they
 * are lower: then limits_halve() says to ask for half.
 */
#ifndef LATERD_CLI_LIMITS_H
#define LATERD_CLI_LIMITS_H

#include "cli/cli.h"

enum limit {
    LIMIT_BATCH,   /* jobs in a batch of pushes or finishes */
    LIMIT_RESERVE, /* jobs in a reserve, a kick or a clear */
    LIMIT_LIST,    /* entries in a page */
};

/* The server is asked once. One that cannot be reached has the usual limit. */
uint64_t limits_of(struct cli *cli, enum limit limit);

/* Is a body too large for the server? Then that is said. Small ones it measures itself. */
bool limits_body_over(struct cli *cli, uint64_t bytes);

/*
 * For calls that can be made with less, in a loop:
 *     do {
 *         cli->may_halve = size > 1;
 *         code = … a call that asks for `size` …
 *     } while (limits_halve(cli, code, &size));
 * A call that was refused because `size` is over a limit is made again with half of it, and only
 * the last refusal is said.
 */
bool limits_halve(struct cli *cli, int code, uint64_t *size);

/*
 * Asks for one page of a listing, of at most `size` entries, or as many as the server takes:
 * `path` ends with "?" or "&", `cursor` is the last page's (empty: the first page). The exit code
 * of cli_call().
 */
int limits_get_page(struct cli *cli, const char *path, struct bytes cursor, uint64_t size,
                    json_t **out_answer);

/* The value of the "limits.…" that `text` names, for people: "limits.body_bytes is 1.0 MiB". Adds
 * nothing if it names none, says the value itself, or the server does not tell it. */
void limits_add_named(struct cli *cli, const char *text, struct buf *out);

#endif
