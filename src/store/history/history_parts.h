/*
 * What the files of the history share. Nobody else includes this.
 */
#ifndef LATERD_STORE_HISTORY_PARTS_H
#define LATERD_STORE_HISTORY_PARTS_H

#include "store/history/history.h"
#include "store/internal.h"

struct history_file {
    struct list link; // history::files, history::retired or history::strays
    uint32_t number;
    bool merging, damaged; /* it is an input; a part of it cannot be read */
    bool nameless;         /* a stray file whose header does not name its store */
    uint32_t users;        /* that read it: until then it stays on the disk */
    struct history_head head;
    struct history_fence *fences;
};

enum flush_step { FLUSH_IDLE, FLUSH_SYNC, FLUSH_BUILD, FLUSH_WRITE };

struct history {
    struct store *store;
    uint64_t key;
    int64_t keep_us;     /* 0: no history is kept */
    struct list files;   // history_file::link, the oldest first
    struct list retired; // the same: to be removed from the disk
    struct list strays;  // history_file::link: files whose batches are unknown; they are kept
    uint32_t file_count, number_next;
    uint64_t bytes, entries; /* of all files that are on the disk */
    uint64_t covered;        /* the newest file has all batches up to this one */
    struct history_table table;
    struct buf waiting; /* entries of the table that are not in the log yet: see history_add() */
    uint64_t lost;      /* entries, since opening */
    /* A flush: */
    enum flush_step step;
    bool wanted; /* the cleaner waits for it */
    struct history_table frozen;
    uint64_t frozen_last;     /* batch */
    uint32_t bucket;          /* the next to be built */
    struct history_sort sort; /* of the one before */
    struct history_image image;
    uint32_t number; /* of its file */
    bool writing;
    struct disk_op write;
    int64_t retry_at_us;
    int64_t yield_at_us; /* when to check again whether far jobs lack room */
    /* A removal: */
    bool removing;
    struct disk_op remove;
    struct history_merge *merge;
    struct discard spent; /* images that were written, up to 32 MiB: freed a piece a turn */
    struct list searches; // history_search::link
    uint64_t steps;       /* entries that were sorted, encoded or examined in tables: for tests */
    uint32_t reading;     /* searches that have a disk operation under way */
};

/* Makes the struct for a file that is on the disk now; the caller adds it to history::files. NULL:
   these are not the file's fences. */
struct history_file *history_file_new(struct history *history, uint32_t number,
                                      const struct history_head *head, const char *fences);
void history_retire(struct history *history, struct history_file *file);
/* Is there enough room on the disk for history to take `bytes`? */
bool history_has_room(const struct history *history, uint64_t bytes);

/* The head and the fences of a file, to be freed. ERR_CORRUPT, ERR_UNSUPPORTED. Waits. */
enum err history_file_read(struct disk *disk, struct disk_file *file, struct history_head *out_head,
                           char **out_fences) MUST_USE;

/* ---- history_merge.c ---- */

struct history_merge *history_merge_new(struct history *history);
void history_merge_free(struct history_merge *merge);
void history_merge_turn(struct history_merge *merge);
bool history_merge_busy(const struct history_merge *merge);
bool history_merge_works(const struct history_merge *merge); /* wants the next turn at once */

/* ---- history_find.c ---- */

void history_searches_turn(struct history *history);
int64_t history_searches_next_us(const struct history *history); /* INT64_MAX: never */
void history_searches_fini(struct history *history);             /* none may be pending */

#endif
