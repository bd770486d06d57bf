/*
 * Order by key: one job of each key at a time is sent, in the order in which the queue hands them
 * out; a job that failed holds its key until it ends or is buried. Jobs behind it wait in memory
 * for a short time; for a longer one they are given back to the queue, with a due time after that
 * of the job before them.
 *
 * A key has a queue of entries (job numbers) while it has jobs; the first entry's job is the one
 * that is sent. See README.md for what happens at a start, and with several daemons.
 */
#ifndef LATERD_DISPATCH_KEY_ORDER_H
#define LATERD_DISPATCH_KEY_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct key_order;
struct lane;
struct pump;
struct shipment;

/* Begins to list the topic's jobs, a slice in each turn: key_order_open() is false until that is
   done. Borrows the lane. Never NULL. */
struct key_order *key_order_new(struct lane *lane);
/* Its lane ends; it must have no shipments. key_orders_step() drops its entries, of which there may
   be millions, and frees it. O(1). NULL does nothing. */
void key_order_end(struct key_order *order);
void key_orders_free(struct pump *pump); /* the pump ends: frees all of these at once */

/* Another daemon may have sent the topic's jobs meanwhile: drops all entries, a slice in each turn,
   and lists the topic's jobs again. This call is O(1). */
void key_order_restart(struct key_order *order);

/* True: jobs may be reserved now. False: too many wait in memory, or the list of jobs that hold
   their keys is not complete yet. */
bool key_order_open(const struct key_order *order);

/*
 * A job was reserved. True: it is the first of its key, and may be sent. False: this has kept it,
 * or given it back.
 */
bool key_order_arrive(struct key_order *order, struct shipment *shipment);

/* Kicks jobs that were given back and are now the first of their keys; drops entries of orders that
   have ended. True: there are more. */
bool key_orders_step(struct pump *pump);

/* Where several daemons share the queue: the due time of a job that is given back to come again at
   once. It keeps the job before those of its key that were put off, whichever daemon gets it. */
int64_t key_order_return_us(const struct shipment *shipment);

/* The shipment is being freed. `due_us` above 0: its job is due again then, and keeps its key; else
   the job has ended. */
void key_order_left(struct shipment *shipment, int64_t due_us);

#endif
