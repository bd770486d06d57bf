/* The end of an opening that tells of far jobs. */
#ifndef LATERD_TEST_FAR_ENDS_H
#define LATERD_TEST_FAR_ENDS_H

#include "core/core.h"
#include "core/far.h"

/* All of its steps: ERR_CORRUPT if a job was told of twice. */
static inline enum err end_far(struct core *core)
{
    enum err all = OK;
    bool more = true;
    while (more) {
        enum err err = core_far_end(core, &more);
        all = err ? err : all;
    }
    return all;
}

#endif
