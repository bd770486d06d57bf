/*
 * The core's parts of an image of far jobs against any bytes: after a refusal nothing is left, and
 * after an accepted image the core's invariants hold. The input is the table of files, the first
 * part of the index, the counts and the first part of the order, each after its length; the other
 * parts are empty. That each far ready job has its entry is only checked by checksums.
 */
#include "base/check.h"
#include "base/codec.h"
#include "base/mem.h"
#include "core/core.h"
#include "core/far.h"
#include "core/far_image.h"
#include "core/replay.h"
#include "fuzz/exactly.h"

enum { EMPTY_PART = 256, LEN_BYTES = 2, COUNTS = FAR_IMAGE_PARTS + 1, ORDER };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct stored emit(struct event_sink *sink, const struct event *event)
{
    (void)sink;
    (void)event;
    return (struct stored){0};
}

static void reply(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    (void)callbacks;
    (void)ctx;
    (void)reply;
}

static enum job_state in_no_slice(void *ctx, uint64_t where)
{
    (void)ctx;
    (void)where;
    return JOB_GONE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char empty[EMPTY_PART];
    const struct far_places places = {.state_at = in_no_slice};
    struct event_sink sink = {.emit = emit};
    struct core_callbacks callbacks = {.reply = reply};
    struct core *core = core_new(&(struct core_options){
        .sink = &sink, .callbacks = &callbacks, .seq_first = 1, .lease_first = 1});
    struct core_totals totals;
    enum err err = OK;
    core_replay_clock(core, 1);
    for (uint32_t part = 0; part < CORE_FAR_IMAGE_PARTS && !err; part++) {
        bool of_input = part < 2 || part == COUNTS || part == ORDER;
        size_t empty_len = part < COUNTS ? sizeof(empty) : 0;
        size_t len = of_input && size >= LEN_BYTES ? get_u16(data) : 0;
        size_t head = size < LEN_BYTES ? size : LEN_BYTES;
        if (!of_input) {
            err = core_far_image_take(core, &places, part, bytes_of(empty, empty_len));
            continue;
        }
        len = len < size - head ? len : size - head;
        char *exact = exactly((const char *)data + head, len);
        err = core_far_image_take(core, &places, part, bytes_of(exact, len));
        mem_free(exact);
        data += head + len;
        size -= head + len;
    }
    core_replayed(core, 2);
    core_totals(core, &totals);
    if (totals.far_ready == 0)
        core_valid(core);
    CHECK(!err || !core_any_far(core));
    core_free(core);
    CHECK(mem_used() == 0);
    return 0;
}
