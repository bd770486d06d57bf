/*
 * The server's limits of one request, read (GET /v1/limits) when a command first needs them. A
 * server without that call has the usual limits; if they are lower, it refuses a request, and
 * limits_halve() requests half.
 */
#ifndef LATERD_CLI_LIMITS_H
#define LATERD_CLI_LIMITS_H

#include "cli/cli.h"

enum limit {
    LIMIT_BATCH,   /* jobs in a batch of pushes or finishes */
    LIMIT_RESERVE, /* jobs in a reserve, a kick or a clear */
    LIMIT_LIST,    /* entries in a page */
};

/* Read once from the server; if it cannot be reached, the usual limit. */
uint64_t limits_of(struct cli *cli, enum limit limit);

/* Is a body too large for the server? Then prints that. Small ones are left to the server. */
bool limits_body_over(struct cli *cli, uint64_t bytes);

/*
 * For calls that can be made with less, in a loop:
 *     do {
 *         cli->may_halve = size > 1;
 *         code = … a call for `size` …
 *     } while (limits_halve(cli, code, &size));
 * A call that was refused because `size` is over a limit is repeated with half of it, and only the
 * last refusal is printed.
 */
bool limits_halve(struct cli *cli, int code, uint64_t *size);

/*
 * Gets one page of a listing, of at most `size` entries, or as many as the server allows: `path`
 * ends with "?" or "&", `cursor` is the last page's (empty: the first page). The exit code of
 * cli_call().
 */
int limits_get_page(struct cli *cli, const char *path, struct bytes cursor, uint64_t size,
                    json_t **out_answer);

/* Appends the value of the "limits.…" that `text` names: "limits.body_bytes is 1.0 MiB". Nothing if
 * it names none, has the value itself, or the server does not return it. */
void limits_add_named(struct cli *cli, const char *text, struct buf *out);

#endif
