/*
 * Intrusive first-in-first-out queue: one link in each node, one node in one queue at a time. A
 * zeroed queue is empty. All operations are O(1).
 */
#ifndef LATERD_BASE_QUEUE_H
#define LATERD_BASE_QUEUE_H

#include <stddef.h>

struct queue_node {
    struct queue_node *next;
};

struct queue {
    struct queue_node *first; /* NULL: empty */
    struct queue_node *last;  /* of a queue that is not empty */
};

static inline void queue_add(struct queue *queue, struct queue_node *node)
{
    node->next = NULL;
    if (queue->first)
        queue->last->next = node;
    else
        queue->first = node;
    queue->last = node;
}

/* Removes the oldest node and returns it; NULL: the queue is empty. */
static inline struct queue_node *queue_take(struct queue *queue)
{
    struct queue_node *node = queue->first;
    if (node)
        queue->first = node->next;
    return node;
}

#endif
