#include "base/arena.h"

#include "base/mem.h"

enum { BLOCK_BYTES = 64 * 1024, KEEP_BYTES = 1024 * 1024 };

struct arena_block {
    struct arena_block *older;
    size_t cap;
    _Alignas(16) char room[];
};

void arena_fini(struct arena *arena)
{
    while (arena->block) {
        struct arena_block *older = arena->block->older;
        mem_free(arena->block);
        arena->block = older;
    }
    arena->next = NULL;
    arena->left = 0;
    arena->held = 0;
}

void arena_reset(struct arena *arena)
{
    if (arena->left == arena->held)
        return; /* nothing was taken, or there is no block */
    if (arena->block->cap > KEEP_BYTES) {
        arena_fini(arena);
        return;
    }
    while (arena->block->older) { /* the newest is the largest */
        struct arena_block *dead = arena->block->older;
        arena->block->older = dead->older;
        mem_free(dead);
    }
    arena->held = arena->left = arena->block->cap;
    arena->next = arena->block->room;
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
