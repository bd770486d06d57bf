/*
 * Order by key: of one key one job at a time, in the order in which the queue hands them out; a job
 * that failed holds its key until it ends or is buried. Jobs behind it wait in memory for a little
 * while, and longer in the queue, given back with a due time after that of the job before them.
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

struct key_order *key_order_new(struct lane *lane);
void key_order_free(struct key_order *order); /* NULL: nothing. It has no shipments any more */

/* Another daemon may have sent the topic's jobs meanwhile: forgets what it knew, a slice in each
   turn, and finds out again what is there. O(1) in this call. */
void key_order_restart(struct key_order *order);

/* May jobs be reserved now? False: too many wait in memory, or it is still finding out which keys
   failed jobs hold. */
bool key_order_open(const struct key_order *order);

/*
 * A job of this key has been reserved. True: it is the first one, and may go. Else it is kept, or
 * given back, by this.
 */
bool key_order_arrive(struct key_order *order, struct shipment *shipment);

/* Calls the first jobs of keys that were put off and whose turn has come. True: there are more. */
bool key_orders_step(struct pump *pump);

/* Where several daemons share the queue: when a job comes that is given back at once. With a time
   of its own it keeps its place before those that were put off, whoever finds it. */
int64_t key_order_return_us(const struct shipment *shipment);

/* The shipment is not there any more. `due_us` above 0: its job comes again then, and keeps its
   key; else it has ended. */
void key_order_left(struct shipment *shipment, int64_t due_us);

#endif
