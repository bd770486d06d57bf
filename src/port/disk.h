/*
 * The store's disk: one directory of files. Implemented by os/disk (Linux) and sim/disk (crashes,
 * torn writes, rot, full disks and failing syncs on demand).
 *
 * The calls before `run` are synchronous; all but read_cached are used only at the start and by
 * `later verify`. `submit` starts an operation that ends later: poll() calls its `done`, on the
 * owner's thread. The lanes are independent of each other. Operations of
 * LANE_COMMIT (group commit) and of LANE_BACKGROUND (all other changes, may be slow) are done in
 * the order submitted, one at a time; those of LANE_READ (DISK_READ only) several at a time, and
 * they may end in any order.
 *
 * Durability: a file's bytes are durable after a successful DISK_WRITE_SYNC or DISK_SYNC of it; its
 * name after DISK_MAKE, DISK_REPLACE, DISK_REMOVE, DISK_RENAME or DISK_REUSE, and after a DISK_SYNC
 * that gives the name. Nothing else is promised.
 *
 * Only regular files in the directory itself are opened, made or replaced. To open a symbolic link,
 * a pipe or the like is ERR_IO; where a file is to be made, it is removed.
 */
#ifndef LATERD_PORT_DISK_H
#define LATERD_PORT_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/queue.h"

enum {
    DISK_ALIGN = 4096, /* offsets, lengths and memory of DISK_WRITE_SYNC are multiples of this */
    DISK_NAME_MAX = 64,
    DISK_ZEROS_MAX = 256 * 1024, /* bytes: disk_op::zeros */
};

struct disk_file; /* an open file; closed by close() */

enum disk_lane { LANE_COMMIT, LANE_BACKGROUND, LANE_READ, LANE_COUNT };

enum disk_verb {
    DISK_WRITE_SYNC, /* write `len` bytes at `offset` of `file`, durable when done */
    DISK_WRITE,      /* the same, not durable until DISK_SYNC; survives kill -9 but no power cut.
                        Need not be aligned. Beyond its end the file grows, with it. */
    DISK_SYNC,       /* make durable all that was written to `file`; with `name`: its name too */
    DISK_MAKE,       /* make file `name` of `len` zero bytes, durable with its name; sets `file`.
                        Its room is allocated: no write to it ends with ERR_DISK_FULL, unless the
                        file system is copy-on-write. After an error there is no such file. */
    DISK_REPLACE,    /* `name` holds `data` afterwards, durably; at any crash the old or the new */
    DISK_REMOVE,     /* unlink `name`; durable when done. Whoever has it open closes it before: the
                        last close of a removed file frees its pages and blocks, for milliseconds */
    DISK_RENAME,     /* `name` becomes the name that `data` is (text), durably; a file that has it
                        already is replaced */
    DISK_REUSE,      /* write `len` bytes at the beginning of file `name`, durably, which then has
                        the name `to_name`; sets `file`. Its other bytes stay as they were. After a
                        crash it has one of the two names, and the old bytes, the new ones or a mix
                        of their sectors. A file that has another hard link, that a process holds
                        (see hold()), that cannot be opened, or for which a disk that writes to
                        another place has no room, is removed instead: `file` stays NULL. The caller
                        must have closed the file. */
    DISK_READ,       /* read `len` bytes at `offset` of `file` into `into`; `got` says how many:
                        fewer only at the end of the file. Without `file` it opens `name` first (see
                        `fresh`) and sets `file`, which is the owner's to close then, whatever `err`
                        is. */
};

/* Where disk_op::give puts the bytes of a file. */
struct disk_pieces {
    /* Writes `len` bytes at `offset`, which may be read no more afterwards. After one has failed it
       does nothing: the operation ends with that error. */
    void (*put)(struct disk_pieces *pieces, const void *data, size_t len, uint64_t offset);
};

struct disk_op {
    enum disk_verb verb;
    enum disk_lane lane;
    struct disk_file *file;
    char name[DISK_NAME_MAX];
    char to_name[DISK_NAME_MAX]; /* DISK_REUSE */
    const void *data;            /* borrowed until done */
    void *into;                  /* DISK_READ: the same */
    size_t len;
    size_t got; /* out, DISK_READ */
    /*
     * DISK_MAKE: reserves the room without writing zeros, where the file system supports that;
     * reads see zeros all the same. The first write to each place then takes about half as long
     * again.
     */
    bool reserve;
    bool fresh;  /* DISK_READ that opens: as open() with DISK_FRESH */
    bool direct; /* DISK_READ: does so if is_direct(), which a file that it opens is then if it can
                  */
    bool exact;  /* DISK_READ that opens: no read-ahead, as after exact() */
    uint64_t offset;
    uint64_t ahead; /* DISK_READ: so many bytes behind these will be read soon, as in fetch() */
    /*
     * DISK_WRITE_SYNC: this many bytes behind `data` are zeros in the file, and may be written once
     * more together with it, so that later writes there are not the first ones (see `reserve`). A
     * multiple of DISK_ALIGN, at most DISK_ZEROS_MAX.
     */
    size_t zeros;
    /* Called first, by the thread that does the operation; may change the bytes of `data`. Other
       threads must not touch what it uses. */
    void (*prepare)(struct disk_op *op); /* or NULL */
    /*
     * DISK_REPLACE: called once in place of writing `data`, by that thread: puts all bytes of the
     * file, in pieces that are still in the processor's cache when they are written. Not called if
     * err becomes ERR_AGAIN.
     */
    void (*give)(struct disk_op *op, struct disk_pieces *to); /* or NULL */
    /* Called last, by that thread, if err is OK: may read the bytes of `into`. */
    void (*inspect)(struct disk_op *op); /* or NULL */
    enum err err;  /* out: OK, ERR_DISK_FULL, ERR_IO, ERR_NOT_FOUND (READ: no such file), ERR_AGAIN
                      (MAKE, REPLACE, READ: no descriptor is free now; nothing was done, and
                      nothing is wrong with the disk) */
    int sys_errno; /* out: why */
    int64_t took_us; /* out: duration of the operation, without waiting in its lane */
    void (*done)(struct disk_op *op);
    void *owner;             /* for done */
    struct queue_node place; /* the disk's, while the operation is under way */
};

enum disk_access { DISK_TO_WRITE, DISK_TO_READ };

/* How an open file is read. */
enum disk_cache {
    DISK_CACHED,
    DISK_FRESH, /* past the page cache: what is on the device */
};

struct disk {
    const struct disk_verbs *verbs;
};

struct disk_verbs {
    /*
     * Takes the directory's lock for this process; ERR_LOCKED: another process has it. For
     * DISK_TO_READ on a read-only file system or in a directory of another user, a shared lock is
     * enough; no lock is taken if there is no lock file and none can be made.
     */
    enum err (*lock)(struct disk *disk, enum disk_access access);
    void (*unlock)(struct disk *disk);
    /* Calls `each` with every file name in the directory, in no order. */
    enum err (*list)(struct disk *disk, void (*each)(void *ctx, const char *name), void *ctx);
    /* ERR_NOT_FOUND, ERR_IO, ERR_AGAIN (no descriptor is free now). */
    enum err (*open)(struct disk *disk, const char *name, enum disk_cache cache,
                     struct disk_file **out_file);
    void (*close)(struct disk *disk, struct disk_file *file);
    /*
     * Until it is closed no process uses this file for something else (DISK_REUSE). ERR_AGAIN: one
     * is doing that just now; then its bytes are not what they were.
     */
    enum err (*hold)(struct disk *disk, struct disk_file *file);
    enum err (*size)(struct disk *disk, struct disk_file *file, uint64_t *out_bytes);
    /* Fewer bytes than asked only at the end of the file. */
    enum err (*read)(struct disk *disk, struct disk_file *file, uint64_t offset, void *at,
                     size_t len, size_t *out_len);
    /*
     * As read, but ERR_AGAIN, at once, if the bytes are not all in memory, or if the file system
     * cannot tell: then DISK_READ gets them.
     */
    enum err (*read_cached)(struct disk *disk, struct disk_file *file, uint64_t offset, void *at,
                            size_t len, size_t *out_len);
    /*
     * True: writes of this open file have gone past the page cache, which does not have their
     * bytes. Whoever reads them once should read past it as well (disk_op::direct): that takes no
     * new pages. Not while a write to the file is under way; reads of it do not change the answer.
     */
    bool (*is_direct)(struct disk *disk, const struct disk_file *file);
    /* A hint: the system reads no more of this file than is asked for. Without it some hundred
       bytes cost 128 KiB or, where a device is set so, megabytes. Does not wait. */
    void (*exact)(struct disk *disk, struct disk_file *file);
    /* A hint: `len` bytes at `offset` will be read soon. The system may begin to bring them into
       memory; nothing waits for that, and no error is reported. At start only. */
    void (*fetch)(struct disk *disk, struct disk_file *file, uint64_t offset, uint64_t len);
    /* The free bytes of the file system; UINT64_MAX: not known. */
    uint64_t (*room)(struct disk *disk);
    /* Does the operation at once, and calls `done` before it returns; for start and shutdown. */
    void (*run)(struct disk *disk, struct disk_op *op);
    void (*submit)(struct disk *disk, struct disk_op *op);
    /* Calls `done` for every operation that has ended. Returns how many. */
    unsigned (*poll)(struct disk *disk);
    /* Sleeps until a submitted operation has ended; returns at once if none is under way. */
    void (*wait)(struct disk *disk);
};

#endif
