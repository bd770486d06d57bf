/* Bytes that must be equal; if they are not, both are shown as text. */
#ifndef LATERD_TEST_ASSERT_BYTES_H
#define LATERD_TEST_ASSERT_BYTES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"

static inline void assert_bytes(struct bytes is, struct bytes wanted)
{
    if (!bytes_eq(is, wanted))
        fail_msg("got:\n%.*s\nwant:\n%.*s", (int)is.len, is.at, (int)wanted.len, wanted.at);
}

#endif
