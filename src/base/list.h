/*
 * Intrusive doubly linked list. The declaration of a head says which member links its nodes:
 * `struct list pending; // broker_item::pending`. A node is in at most one list; one in no list
 * points to itself. All calls are O(1).
 */
#ifndef LATERD_BASE_LIST_H
#define LATERD_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev;
    struct list *next;
};

#define LIST_ENTRY(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void list_init(struct list *list)
{
    list->prev = list;
    list->next = list;
}

static inline bool list_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_add_tail(struct list *head, struct list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void list_add_head(struct list *head, struct list *node)
{
    list_add_tail(head->next, node);
}

static inline void list_remove(struct list *node) /* from its list; does nothing to one in none */
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

#endif
