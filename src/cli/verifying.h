/* Verifies a store and prints the findings on standard error, for verify, backup and restore. */
#ifndef LATERD_CLI_VERIFYING_H
#define LATERD_CLI_VERIFYING_H

#include "cli/cli.h"
#include "store/verify.h"

/*
 * Verifies the directory, which must be there. With `out_counts` the counts go there and nothing is
 * printed if all is well; NULL: prints them. An exit code.
 */
int verifying_run(struct cli *cli, const char *directory, struct store_counts *out_counts);

#endif
