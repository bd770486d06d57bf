/*
 * The history of jobs: what happened to them, kept for options.history_us, found by a job's id.
 *
 *     happening ─▶ HISTORY record in the log ─▶ (replayed after a crash)
 *             └──▶ table in memory ─flush▶ history file ─merge▶ history file ─too old▶ gone
 *
 * The log is the table's journal. A flush writes the table to a file, sorted by key; the file says
 * of which batches it has the entries, all of them. So an entry is in the table or in one file, and
 * a crash at any point shows none twice: who opens the store takes what batches behind the last
 * file have. A segment of the log may go once files, or nobody, have its entries (H2).
 *
 * History yields to jobs: on a full disk nothing is written for it, and its oldest file goes.
 *
 * Invariants
 * H1 Files' batches do not overlap; those of the newest end before the frozen table's, and those
 *    before the table's.
 * H2 No segment is removed whose entries are in the tables only, unless the disk is full.
 * H3 A file has the entries of durable batches only.
 */
#ifndef LATERD_STORE_HISTORY_H
#define LATERD_STORE_HISTORY_H

#include "base/list.h"
#include "store/history/history_format.h"
#include "store/history/history_table.h"
#include "store/store.h"

struct history;
struct segments;

struct history *history_new(struct store *store);
void history_free(struct history *history); /* NULL does nothing; it must not be busy */

/* Opening, before the log is replayed: which files there are. One that is damaged, or of a newer
   version, is left alone, and told of in *out_error as a notice. ERR_IO: the disk cannot read one.
 */
enum err history_begin(struct history *history, struct store_error *out_error) MUST_USE;
/* Opening: an entry of a batch of the log. */
void history_replay(struct history *history, struct bytes entry, uint64_t batch);
/* Opening: all is replayed up to (not with) this batch. Removes what a crash left over. */
enum err history_replayed(struct history *history, uint64_t batch_next) MUST_USE;

/* Closing: what is not in the log yet is. */
void history_drain(struct history *history);
void history_turn(struct history *history);
int64_t history_next_us(const struct history *history);
bool history_busy(const struct history *history); /* is an operation of the disk under way? */
/* May the segments with batches up to this one go, as far as history is concerned? If not, it is
   seen to. */
bool history_let_go(struct history *history, uint64_t batch);
void history_stats(const struct history *history, struct store_stats *out_stats);
void history_valid(const struct history *history);

#endif
