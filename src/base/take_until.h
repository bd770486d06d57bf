/* Takes a text apart at its marks, from the front. Pure; O(bytes). */
#ifndef LATERD_BASE_TAKE_UNTIL_H
#define LATERD_BASE_TAKE_UNTIL_H

#include "base/bytes.h"

/* Returns what is before the first `mark`, and leaves in *text what is behind it. Without a mark:
   returns all, and leaves nothing. Borrowed from *text. */
static inline struct bytes take_until(struct bytes *text, char mark)
{
    const char *at = text->len ? (const char *)memchr(text->at, mark, text->len) : NULL;
    size_t len = at ? (size_t)(at - text->at) : text->len;
    struct bytes taken = bytes_of(text->at, len);
    size_t skip = len + (at != NULL);
    *text = bytes_of(text->at + skip, text->len - skip);
    return taken;
}

#endif
