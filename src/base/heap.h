/*
 * A binary heap of nodes that are embedded in other structs: the node with the least key is first.
 * A node knows its place, so that its key can be changed, or the node removed, at any time.
 *
 * Memory beside the nodes: 8 to 16 bytes for each; it is freed when the heap is empty.
 * Single-threaded. Pure.
 */
#ifndef LATERD_BASE_HEAP_H
#define LATERD_BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct heap_node {
    int64_t key;
    uint32_t place; /* heap::nodes[place - 1]; 0, as in a zeroed node: in no heap */
};

/* Zeroed is empty. */
struct heap {
    struct heap_node **nodes;
    uint32_t count, cap;
    uint64_t steps; /* comparisons so far: tests measure the cost of an operation by them */
};

/* Frees the heap's memory; nodes that are in it are the caller's, and keep a stale `place`. */
void heap_fini(struct heap *heap);
/* Adds the node with this key, or changes its key if it is in the heap. O(log nodes). */
void heap_put(struct heap *heap, struct heap_node *node, int64_t key);
/* Does nothing to a node that is in no heap. O(log nodes). */
void heap_remove(struct heap *heap, struct heap_node *node);
/* CHECKs the order and the places. O(nodes). */
void heap_valid(const struct heap *heap);

/* One with the least key, or NULL: the heap is empty. */
static inline struct heap_node *heap_first(const struct heap *heap)
{
    return heap->count > 0 ? heap->nodes[0] : NULL;
}

#endif
