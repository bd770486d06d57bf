/* What tests of port/disk.h share: both implementations, and operations that are waited for. */
#ifndef LATERD_TEST_STORE_DISK_BED_H
#define LATERD_TEST_STORE_DISK_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/disk.h"
#include "sim/disk.h"

struct fixture {
    struct disk *disk;
    struct os_disk *os;
    struct sim_disk *sim;
    char directory[64];
};

static int done_count;

static inline void done(struct disk_op *op)
{
    (void)op;
    done_count++;
}

static inline int sim_setup(void **state)
{
    struct fixture *fixture = mem_zalloc(sizeof(*fixture));
    fixture->sim = sim_disk_new();
    sim_disk_eager(fixture->sim, true);
    fixture->disk = sim_disk_port(fixture->sim);
    *state = fixture;
    done_count = 0;
    return 0;
}

static inline int os_setup(void **state)
{
    struct fixture *fixture = mem_zalloc(sizeof(*fixture));
    memcpy(fixture->directory, "/tmp/laterd-disk-XXXXXX", 24);
    if (!mkdtemp(fixture->directory) || os_disk_new(fixture->directory, &fixture->os))
        return -1;
    fixture->disk = os_disk_port(fixture->os);
    *state = fixture;
    done_count = 0;
    return 0;
}

static inline void unlink_each(void *ctx, const char *name)
{
    char path[128 + DISK_NAME_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", (const char *)ctx, name);
    (void)unlink(path); /* a test's rest */
}

/* A file outside of the directory, to which a test makes links. */
static inline void victim_path(const struct fixture *fixture, char out[128])
{
    (void)snprintf(out, 128, "%s.victim", fixture->directory);
}

static inline int teardown(void **state)
{
    struct fixture *fixture = *state;
    char victim[128];
    sim_disk_free(fixture->sim);
    if (fixture->os) {
        (void)fixture->disk->verbs->list(fixture->disk, unlink_each, fixture->directory);
        os_disk_free(fixture->os);
        (void)rmdir(fixture->directory);
        victim_path(fixture, victim);
        (void)unlink(victim); /* left by a test that failed */
    }
    mem_free(fixture);
    return 0;
}

/* Submits, and polls until it has ended. */
static inline enum err do_op(struct disk *disk, struct disk_op *op)
{
    int before = done_count;
    op->done = done;
    disk->verbs->submit(disk, op);
    while (done_count == before) {
        disk->verbs->wait(disk);
        (void)disk->verbs->poll(disk);
    }
    return op->err;
}

static inline struct disk_file *make_as(struct disk *disk, const char *name, size_t len,
                                        bool reserve)
{
    struct disk_op op = {
        .verb = DISK_MAKE, .lane = LANE_BACKGROUND, .len = len, .reserve = reserve};
    memcpy(op.name, name, strlen(name) + 1);
    assert_int_equal(do_op(disk, &op), OK);
    assert_non_null(op.file);
    return op.file;
}

static inline struct disk_file *make(struct disk *disk, const char *name, size_t len)
{
    return make_as(disk, name, len, false);
}

static inline void write_block(struct disk *disk, struct disk_file *file, const char *block,
                               uint64_t number)
{
    struct disk_op write = {.verb = DISK_WRITE_SYNC,
                            .lane = LANE_COMMIT,
                            .file = file,
                            .data = block,
                            .len = DISK_ALIGN,
                            .offset = number * DISK_ALIGN};
    assert_int_equal(do_op(disk, &write), OK);
}

#define BOTH(test)                                                                                 \
    {"sim: " #test, test, sim_setup, teardown, NULL},                                              \
    {                                                                                              \
        "os: " #test, test, os_setup, teardown, NULL                                               \
    }

#endif
