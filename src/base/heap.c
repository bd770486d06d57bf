#include "base/heap.h"

#include "base/check.h"
#include "base/mem.h"

enum { CAP_MIN = 16 };

static void set(struct heap *heap, uint32_t at, struct heap_node *node)
{
    heap->nodes[at] = node;
    node->place = at + 1;
}

/* Moves the free place at `at` up to where the node belongs; returns that place. */
static uint32_t sift_up(struct heap *heap, uint32_t at, const struct heap_node *node)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;
        heap->steps++;
        if (heap->nodes[parent]->key <= node->key)
            break;
        set(heap, at, heap->nodes[parent]);
        at = parent;
    }
    return at;
}

static uint32_t sift_down(struct heap *heap, uint32_t at, const struct heap_node *node)
{
    for (uint32_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && heap->nodes[child + 1]->key < heap->nodes[child]->key)
            child++;
        heap->steps += 2;
        if (node->key <= heap->nodes[child]->key)
            break;
        set(heap, at, heap->nodes[child]);
    }
    return at;
}

void heap_fini(struct heap *heap)
{
    mem_free(heap->nodes);
    *heap = (struct heap){0};
}

void heap_put(struct heap *heap, struct heap_node *node, int64_t key)
{
    if (!node->place) {
        if (heap->count == heap->cap) {
            heap->cap = heap->cap ? 2 * heap->cap : CAP_MIN;
            heap->nodes = mem_realloc(heap->nodes, heap->cap * sizeof(struct heap_node *));
        }
        set(heap, heap->count++, node);
    }
    CHECK(node->place <= heap->count && heap->nodes[node->place - 1] == node);
    node->key = key;
    set(heap, sift_down(heap, sift_up(heap, node->place - 1, node), node), node);
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
    if (!node->place)
        return;
    CHECK(node->place <= heap->count && heap->nodes[node->place - 1] == node);
    struct heap_node *last = heap->nodes[--heap->count];
    if (last != node)
        set(heap, sift_down(heap, sift_up(heap, node->place - 1, last), last), last);
    node->place = 0;
    if (heap->count > 0)
        return;
    mem_free(heap->nodes);
    heap->nodes = NULL;
    heap->cap = 0;
}

void heap_valid(const struct heap *heap)
{
    CHECK(heap->count <= heap->cap);
    for (uint32_t at = 0; at < heap->count; at++) {
        CHECK(heap->nodes[at]->place == at + 1);
        CHECK(at == 0 || heap->nodes[(at - 1) / 2]->key <= heap->nodes[at]->key);
    }
}
