#include "base/arena.h"

#include "base/mem.h"

enum { BLOCK_BYTES = 64 * 1024, KEEP_BYTES = 1024 * 1024 };

struct arena_block {
    struct arena_block *older;
    size_t cap;
    _Alignas(16) char room[];
};

/* Gives back the block and all older ones: at once, or by `discard`. */
static void free_blocks(struct arena_block *block, struct discard *discard)
{
    while (block) {
        struct arena_block *older = block->older;
        if (discard)
            discard_memory(discard, block, sizeof(*block) + block->cap);
        else
            mem_free(block);
        block = older;
    }
}

static void fini(struct arena *arena, struct discard *discard)
{
    free_blocks(arena->block, discard);
    *arena = (struct arena){0};
}

void arena_fini(struct arena *arena)
{
    fini(arena, NULL);
}

void arena_fini_deferred(struct arena *arena, struct discard *discard)
{
    fini(arena, discard);
}

static void reset(struct arena *arena, struct discard *discard)
{
    if (arena->left == arena->held)
        return; /* nothing was taken, or there is no block */
    if (arena->block->cap > KEEP_BYTES) {
        fini(arena, discard);
        return;
    }
    free_blocks(arena->block->older, discard); /* the newest is the largest */
    arena->block->older = NULL;
    arena->held = arena->left = arena->block->cap;
    arena->next = arena->block->room;
}

void arena_reset(struct arena *arena)
{
    reset(arena, NULL);
}

void arena_reset_deferred(struct arena *arena, struct discard *discard)
{
    reset(arena, discard);
}

void *arena_grow(struct arena *arena, size_t size_bytes)
{
    size_t cap = arena->block ? arena->block->cap * 2 : BLOCK_BYTES;
    if (cap > KEEP_BYTES)
        cap = KEEP_BYTES;
    if (cap < size_bytes)
        cap = size_bytes;
    struct arena_block *block = mem_alloc(sizeof(*block) + cap);
    block->older = arena->block;
    block->cap = cap;
    arena->block = block;
    arena->held += cap;
    arena->next = block->room + size_bytes;
    arena->left = cap - size_bytes;
    return block->room;
}

struct bytes arena_copy(struct arena *arena, struct bytes from)
{
    char *at = arena_alloc(arena, from.len);
    if (from.len)
        memcpy(at, from.at, from.len);
    return bytes_of(at, from.len);
}
