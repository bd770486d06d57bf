/*
 * What import reads out of an older server's Redis against any bytes: a layout by the first byte,
 * then a name of a key, an id, a score and a job of that layout, all of the rest. What is accepted
 * has an id and times in range, and a job's id is the one it was asked for.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "cli/import/redis_layout.h"
#include "proto/msgpack_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_job(enum redis_layout layout, struct bytes id, struct bytes in,
                     struct arena *arena)
{
    struct redis_job job;
    const char *why = NULL;
    enum err err = redis_job_read(layout, id, in, arena, &job, &why);
    CHECK((err == ERR_CORRUPT) == (why != NULL));
    if (err)
        return;
    CHECK(bytes_eq(job.id, id) && job.due_us >= 0 && job.ttr_us >= 0);
    CHECK(job.labels.create_ms >= 0);
}

/* Skipping a value and reading its parts one by one end at the same place. */
static void walk(struct bytes in)
{
    struct msgpack all, parts;
    struct msgpack_value value, part;
    msgpack_init(&all, in);
    parts = all;
    if (!msgpack_next(&all, &value) || !msgpack_skip(&all, &value))
        return;
    while (parts.at < all.at)
        CHECK(msgpack_next(&parts, &part));
    CHECK(parts.at == all.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct redis_names usual = {
        .bucket = "dq_bucket_%d", .queue = "dq_queue_%s", .prefix = "io.sdmq"};
    struct arena arena = {0};
    struct redis_names names = usual;
    struct bytes id;
    int64_t us;
    if (size < 1)
        return 0;
    char *exact = mem_alloc(size); /* so that one byte too far is seen */
    memcpy(exact, data + 1, size - 1);
    struct bytes in = bytes_of(exact, size - 1);
    names.layout = (enum redis_layout)(data[0] % 3);
    for (unsigned type = 0; type <= TYPE_OTHER; type++)
        (void)redis_role_of(&names, in, (enum redis_type)type); /* it has no wrong answer */
    if (redis_score_us(names.layout, in, &us) == OK)
        CHECK(us >= 0);
    if (redis_member_id(names.layout, in, &arena, &id) == OK)
        CHECK(id.len > 0);
    read_job(names.layout, BYTES("7"), in, &arena);
    walk(in);
    arena_fini(&arena);
    mem_free(exact);
    return 0;
}
