#include "base/discard.h"

#include "base/mem.h"

/* At the beginning of the memory itself. */
struct discarded {
    struct discarded *next;
    size_t bytes;
};

enum {
    WITH_IT_BYTES = 4096, /* a rest this small is freed with the last piece (an arena's header) */
    PIECE_NS = 100 * 1000,
};

/* Blocks of less than a piece are queued, too: many of them together take long to free. */
void discard_memory(struct discard *discard, void *at, size_t bytes)
{
    if (bytes < DISCARD_SMALL_BYTES) {
        mem_free(at);
        return;
    }
    struct discarded *discarded = at;
    *discarded = (struct discarded){.next = discard->first, .bytes = bytes};
    discard->first = discarded;
    discard->bytes += bytes;
}

void discard_buf(struct discard *discard, struct buf *buf)
{
    discard_memory(discard, buf->at, buf->cap);
    *buf = (struct buf){0};
}

bool discard_piece(struct discard *discard)
{
    struct discarded *first = discard->first;
    if (first->bytes > DISCARD_PIECE_BYTES + WITH_IT_BYTES) {
        first->bytes -= DISCARD_PIECE_BYTES; /* what is left is more than the struct */
        discard->bytes -= DISCARD_PIECE_BYTES;
        discard->first = mem_realloc(first, first->bytes);
        return true;
    }
    discard->first = first->next;
    discard->bytes -= first->bytes;
    mem_free(first);
    return discard->first != NULL;
}

bool discard_pieces(struct discard *discard, struct budget *budget)
{
    do {
        size_t before = discard->bytes;
        (void)discard_piece(discard);
        budget_spend(budget, (int64_t)((before - discard->bytes) * PIECE_NS / DISCARD_PIECE_BYTES));
    } while (discard->first && !budget_spent(budget));
    return discard->first != NULL;
}

void discard_fini(struct discard *discard)
{
    while (discard->first) {
        struct discarded *next = discard->first->next;
        mem_free(discard->first);
        discard->first = next;
    }
    discard->bytes = 0;
}
