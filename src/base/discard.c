#include "base/discard.h"

#include "base/mem.h"

/* At the beginning of the memory itself. */
struct discarded {
    struct discarded *next;
    size_t bytes;
};

void discard_buf(struct discard *discard, struct buf *buf)
{
    if (buf->cap <= DISCARD_PIECE_BYTES) {
        buf_fini(buf);
        return;
    }
    struct discarded *discarded = (void *)buf->at;
    *discarded = (struct discarded){.next = discard->first, .bytes = buf->cap};
    discard->first = discarded;
    *buf = (struct buf){0};
}

bool discard_step(struct discard *discard)
{
    struct discarded *first = discard->first;
    if (!first)
        return false;
    if (first->bytes > DISCARD_PIECE_BYTES) {
        first->bytes -= DISCARD_PIECE_BYTES;
        if (first->bytes < sizeof(*first))
            first->bytes = sizeof(*first);
        discard->first = mem_realloc(first, first->bytes);
        return true;
    }
    discard->first = first->next;
    mem_free(first);
    return discard->first != NULL;
}

void discard_fini(struct discard *discard)
{
    while (discard->first) {
        struct discarded *next = discard->first->next;
        mem_free(discard->first);
        discard->first = next;
    }
}
