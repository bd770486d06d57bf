/*
 * The history of jobs: what happened to them, kept for options.history_us, found by a job's id.
 *
 *     happening ─▶ HISTORY record in the log ─▶ (replayed after a crash)
 *             └──▶ table in memory ─flush▶ history file ─merge▶ history file ─too old▶ gone
 *
 * As in an LSM tree: the table in memory is protected by the log, a flush writes it to a file
 * sorted by key, and small files are merged into larger ones. A file has all entries of a range of
 * batches. So every entry is either in a table or in exactly one file, and after a crash none
 * appears twice: opening replays the entries of the batches behind the newest file. A segment of
 * the log may be removed when all its entries are in files (H2).
 *
 * Jobs come first: on a full disk nothing is written for the history, and its oldest file is
 * removed.
 *
 * Invariants
 * H1 The batches of files do not overlap. The newest file ends before the frozen table (the one
 *    that is being flushed) begins, and the frozen table ends before the table begins.
 * H2 No segment is removed that has entries which are in no file, unless the disk is full.
 * H3 A file has only entries of durable batches.
 *
 * Main thread only, except that the disk's threads read and write the files.
 */
#ifndef LATERD_STORE_HISTORY_H
#define LATERD_STORE_HISTORY_H

#include "base/list.h"
#include "store/history/history_format.h"
#include "store/history/history_table.h"
#include "store/stats.h"
#include "store/store.h"

struct history;
struct segments;

struct history *history_new(struct store *store);
void history_free(struct history *history); /* NULL does nothing; it must not be busy */

/* Opening, before the log is replayed: finds the files and reads their fences. A file that is
   damaged or of a newer version is kept but not used, and reported in *out_error as a notice.
   ERR_IO: the disk cannot read a file. Waits for the disk. */
enum err history_begin(struct history *history, struct store_error *out_error) MUST_USE;
/* Opening: replays an entry of this batch; ignores it if a file has it. */
void history_replay(struct history *history, struct bytes entry, uint64_t batch);
/* After history_begin(): files have all batches up to this one, so these were durable (H3). 0:
   there are no files. */
uint64_t history_covered(const struct history *history);

/* Closing: appends the entries that wait for a batch to the log. */
void history_drain(struct history *history);
/* A bounded piece of each: searches, flush (2,000 entries), merge (2,000 entries), removal of a
   file. */
void history_turn(struct history *history);
int64_t history_next_us(const struct history *history); /* when it has work; INT64_MAX: never */
bool history_busy(const struct history *history);       /* a disk operation is under way */
/* May segments with batches up to this one be removed? False: entries of theirs are in no file yet;
   a flush is begun. */
bool history_let_go(struct history *history, uint64_t batch);
void history_stats(const struct history *history, struct store_stats *out_stats);
void history_valid(const struct history *history);

#endif
