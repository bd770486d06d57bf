/*
 * A binary heap of nodes that are embedded in what they belong to: the one with the least key is
 * first. A node knows its place, so that its key may change and it may leave at any time.
 *
 * Memory is 8 bytes for each node at most twice over, beside the nodes; it grows, and shrinks when
 * the heap is empty. Pure.
 */
#ifndef LATERD_BASE_HEAP_H
#define LATERD_BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct heap_node {
    int64_t key;
    uint32_t place; /* heap::nodes[place - 1]; 0, as in a zeroed one: in no heap */
};

/* Zeroed is empty. */
struct heap {
    struct heap_node **nodes;
    uint32_t count, cap;
    uint64_t steps; /* nodes that were compared so far: tests read what an operation costs */
};

/* What is in it is forgotten; its nodes must not be used in it any more. */
void heap_fini(struct heap *heap);
/* The node has this key from now on, whether it was in the heap or not. O(log nodes). */
void heap_put(struct heap *heap, struct heap_node *node, int64_t key);
/* Does nothing to a node that is in no heap. O(log nodes). */
void heap_remove(struct heap *heap, struct heap_node *node);
/* CHECKs the order and the places. O(nodes). */
void heap_valid(const struct heap *heap);

/* One with the least key, or NULL: the heap is empty. */
static inline struct heap_node *heap_first(const struct heap *heap)
{
    return heap->count > 0 ? heap->nodes[0] : (struct heap_node *)0;
}

#endif
