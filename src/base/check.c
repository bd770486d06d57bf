#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *file, int line, const char *claim)
{
    (void)fprintf(stderr, "laterd: bug: %s:%d: not true: %s\n", file, line, claim);
    abort();
}
