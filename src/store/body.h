/*
 * What a record has that the core does not keep in memory: content type, body and properties of a
 * job, the text of a note. Read from memory, or by the disk's threads.
 */
#ifndef LATERD_STORE_BODY_H
#define LATERD_STORE_BODY_H

#include "base/arena.h"
#include "base/list.h"
#include "store/store.h"

/* Names a record of a job or note; lengths in bytes. */
struct body_place {
    uint64_t seq;
    uint64_t where;
    size_t content_type_len;
    size_t body_len;
    uint32_t record_bytes; /* struct stored::bytes, if the job has properties; else 0 */
    bool is_note;          /* a note's record: only seq, where and record_bytes are used */
};

/* The parts of a record that the core does not have in memory. */
struct body_content {
    struct bytes content_type, body, properties;
    struct note_head note; /* of a note, whose text is the body */
};

/*
 * Copies content type, body and properties into the arena, if they are in memory (a recent batch,
 * what was read ahead, the page cache), and verifies the checksum made from the client's bytes.
 * Does not wait. ERR_DAMAGED; ERR_AGAIN: use store_fetch(). ERR_AGAIN also for records above 128
 * KiB, unless they are not in their file yet, because copying them takes a turn too long. O(their
 * bytes).
 */
enum err store_read(struct store *store, const struct body_place *place, struct arena *arena,
                    struct body_content *out_content) MUST_USE;

enum body_fetch_state { FETCH_NONE, FETCH_QUEUED, FETCH_READING, FETCH_ENDED };

/*
 * One body that is read by the disk's threads. The caller sets the first three fields and must not
 * move the struct from store_fetch() to store_fetch_end().
 */
struct body_fetch {
    struct body_place place;
    /* Called once when it has ended, from store_poll() or store_turn(), never from store_fetch();
     * may call only store_fetch_end(). `err` is set, and on OK `content`, valid until
     * store_fetch_end(). */
    void (*done)(struct body_fetch *fetch);
    void *owner;                 /* for done */
    enum err err;                /* out: OK, ERR_IO, ERR_DAMAGED */
    struct body_content content; /* out */
    enum body_fetch_state state; /* internal, as all that follows */
    bool alone;                  /* an earlier read failed, perhaps of its neighbours only */
    char *bytes;                 /* the memory of `content` */
    uint32_t segment;            /* is pinned until it has been read */
    struct list link;            /* body_reads::queue or body_read::fetches */
};

/*
 * Reads a body for which store_read() returned ERR_AGAIN. Reads start in store_turn(), in the order
 * of the fetches, several at a time; adjacent records of a segment are read together. There is no
 * limit on fetches: one that has not ended takes no memory beyond struct body_fetch. The record may
 * be relocated meanwhile; its segment is kept until it has been read. O(1).
 */
void store_fetch(struct store *store, struct body_fetch *fetch);
/*
 * Passes the memory of `content` of an ended fetch to the caller, to be freed by mem_free(), on any
 * thread. NULL: there is none. store_fetch_end() must be called all the same. O(1).
 */
char *store_fetch_take(struct store *store, struct body_fetch *fetch) MUST_USE;
/* Frees what it brought; if it has not ended, it never will. O(1). Does nothing to an ended one. */
void store_fetch_end(struct store *store, struct body_fetch *fetch);

/*
 * A hint: these bodies will likely be needed next, in this order. Reads them ahead unless there are
 * more urgent reads. O(count * reads under way).
 */
void store_read_ahead(struct store *store, const struct body_place *places, uint32_t count);
/* Since the last call, was a body read that a read ahead had brought, or should have? */
bool store_wants_read_ahead(struct store *store);

/* For tests: how many bodies had to be read from the disk so far. O(1). */
uint64_t store_cold_reads(const struct store *store);
/* For tests: bytes of memory of reads under way, of cached bytes, and of fetches not ended. O(1).
 */
size_t store_read_bytes(const struct store *store);

#endif
