/*
 * Internals that the simulated disk's files share: disk.c has the operations and the port,
 * disk_medium.c the contents and names, disk_faults.c what tests do to it. Others do not include
 * this.
 */
#ifndef LATERD_SIM_DISK_PARTS_H
#define LATERD_SIM_DISK_PARTS_H

#include "base/list.h"
#include "sim/disk.h"
#include "sim/random.h"

enum { NAMES_MAX = 256, HISTORY_MAX = 16 };

struct content {
    char *at; /* `room` bytes; what `len` has more is zeros */
    uint64_t len, room;
};

/* What is written: bytes, and zeros behind them. Most of a file is zeros, of which only the number
   is kept. */
struct disk_bytes {
    uint64_t offset;
    const void *data;
    size_t len, zeros;
};

struct unsynced {
    struct unsynced *next;
    uint64_t offset;
    size_t len;
    size_t zeros; /* behind the bytes */
    char bytes[];
};

struct node {
    struct node *next; /* sim_disk::nodes */
    unsigned handles;
    unsigned holders;       /* files that hold it: see DISK_REUSE */
    uint64_t loose_reads;   /* through files that are neither fresh nor exact */
    struct content cache;   /* what reads see */
    struct content device;  /* what fresh reads see, … */
    bool apart;             /* … after a sync or a write that failed: else they see the cache */
    struct content synced;  /* what certainly survives */
    struct unsynced *first; /* since the last sync, in order */
    struct unsynced **last;
};

struct disk_file {
    struct node *node;
    bool fresh;
    bool exact; /* see disk_verbs.exact */
    bool holds;
};

struct names {
    unsigned count;
    struct {
        char name[DISK_NAME_MAX];
        struct node *node;
    } of[NAMES_MAX];
};

struct sim_disk {
    struct disk port;
    struct node *nodes;
    struct names now;
    /* Their states, a ring: the first one is durable; a cut leaves that or a later one. */
    struct names history[HISTORY_MAX];
    unsigned history_first, history_count;
    struct queue lanes[LANE_COUNT];
    struct queue ended;
    bool eager, locked, cut, starved;
    uint64_t points, cut_at, fail_at;
    int fail_errno;
    char bad_name[DISK_NAME_MAX]; /* sim_disk_bad */
    uint64_t bad_start, bad_end;
    uint64_t capacity;
    uint64_t zeros_bytes;  /* written, to make files and behind commits */
    int64_t takes_us;      /* how long operations report to have taken; 0: 1 µs */
    uint64_t removed_open; /* files removed while they were open */
    unsigned files_open;
    uint64_t fetched_bytes;
    bool direct;               /* see sim_disk_direct() */
    uint64_t direct_reads;     /* so far */
    bool cold;                 /* nothing is in memory … */
    int64_t *now_us;           /* … and a synchronous read adds to this, if not NULL, … */
    int64_t read_us;           /* … so much */
    struct sim_random shuffle; /* the order in which reads end; state 0: as submitted */
};

/* ---- disk_medium.c ---- */

void content_write(struct content *content, uint64_t offset, const void *data, size_t len);
/* All of it must be there. */
void content_read(const struct content *content, uint64_t offset, void *at, size_t len);
void content_copy(struct content *to, const struct content *from);
void content_apply(struct content *content, const struct unsynced *write);
/* Its bytes, all of `len`, which may be changed. */
char *content_bytes(struct content *content);

/* An empty file without a name. */
struct node *node_new(struct sim_disk *disk);
void node_free(struct node *node);
/* What fresh reads see. */
struct content *node_device(struct node *node);
/* The device has what is synced, and no more. */
void node_device_lost(struct node *node);
/* Writes to the cache and the device … */
void node_show(struct node *node, const struct disk_bytes *bytes);
/* … and this is durable when synced. */
void node_keep(struct node *node, const struct disk_bytes *bytes);
void node_sync(struct node *node);
/* The same for writes that overlap this range: the kernel writes their pages before it writes there
   past the page cache, so they never overwrite that later. */
void node_sync_range(struct node *node, uint64_t offset, size_t len);
/* What a kernel does when a sync fails: it marks the pages as clean, and their content is lost. */
void node_lose(struct node *node);
/* After a power cut: each unsynced write survives, is lost, or is torn. */
void node_resolve(struct node *node, struct sim_random *random);

/* NULL: there is no such name. */
struct node *sim_disk_find(const struct sim_disk *disk, const char *name);
/* node NULL: removes the name. */
void sim_disk_set_name(struct sim_disk *disk, const char *name, struct node *node);
/* Records the present names as a state that a power cut may leave. */
void sim_disk_remember_names(struct sim_disk *disk);
/* State `number` of the history, from 0 on. */
struct names *sim_disk_history(struct sim_disk *disk, unsigned number);
/* Of 256 names few are there. */
void names_copy(struct names *to, const struct names *from);
/* The present names become the only state that a power cut can leave. */
void sim_disk_sync_names(struct sim_disk *disk);
/* Frees files that are not open and have no name in any state. */
void sim_disk_collect(struct sim_disk *disk);

#endif
