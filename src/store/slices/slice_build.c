#include "store/slices/slice_build.h"

#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "base/mem.h"
#include "port/disk.h"
#include "store/record.h"

/* A block is closed when it has this many bytes and the next record would need one more BLOCK. So
   little space is lost to padding. */
enum { BLOCK_LEAST = SLICE_BLOCK_BYTES - BLOCK };

enum {
    PIECE = 256 * 1024, /* that goes at a time: as much as the disk writes at once */
    IMAGE_FIRST = PIECE + SLICE_BLOCK_BYTES + BLOCK,
    IMAGE_LESS = 1024 * 1024,
};

static char *at_offset(const struct slice_build *build, size_t offset)
{
    CHECK(offset >= build->gone);
    return build->image + (offset - build->gone);
}

static struct bytes topic_at(const struct slice_build *build, uint32_t number)
{
    uint32_t at;
    memcpy(&at, build->topics_at.at + number * sizeof(at), sizeof(at));
    return bytes_of(build->topics.at + at + 1, get_u8(build->topics.at + at));
}

static bool topic_eq(const void *ctx, uint32_t number, const void *key)
{
    return bytes_eq(topic_at(ctx, number), *(const struct bytes *)key);
}

void slice_build_begin(struct slice_build *build, const struct store_id *id, uint32_t number)
{
    char *image = build->image;
    size_t cap = build->cap;
    struct buf index = build->index;
    CHECK(build->head.number == 0 && index.len == 0);
    if (!image) {
        image = mem_alloc(IMAGE_FIRST);
        cap = IMAGE_FIRST;
    }
    memset(image, 0, BLOCK); /* the head comes last */
    *build = (struct slice_build){
        .head = {.version = FORMAT_VERSION, .id = *id, .number = number, .state = JOB_DELAYED},
        .tag = store_tag(id),
        .image = image,
        .len = BLOCK,
        .cap = cap,
        .index = index,
        .last = {.offset = BLOCK},
    };
    map_init(&build->topics_map, topic_eq, build);
}

void slice_build_reset(struct slice_build *build, struct discard *spent)
{
    char *image = build->image;
    size_t cap = build->cap;
    struct buf index = build->index;
    struct buf *const parts[] = {&build->fences, &build->topics, &build->topics_at};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        discard_buf(spent, parts[i]);
    build->image = NULL;
    build->index = (struct buf){0};
    slice_build_fini(build);
    build->image = image;
    build->cap = cap;
    build->index = index;
    build->index.len = 0;
}

size_t slice_build_kept(const struct slice_build *build)
{
    return build->cap + build->index.cap;
}

void slice_build_fini(struct slice_build *build)
{
    mem_free(build->image);
    buf_fini(&build->fences);
    buf_fini(&build->topics);
    buf_fini(&build->topics_at);
    buf_fini(&build->index);
    map_fini(&build->topics_map);
    *build = (struct slice_build){0};
}

void slice_build_less(struct slice_build *build)
{
    CHECK(build->head.number == 0);
    if (build->cap < IMAGE_LESS + IMAGE_FIRST) { /* the rest would be too small for a new image */
        slice_build_fini(build);
        return;
    }
    build->cap -= IMAGE_LESS;
    build->image = mem_realloc(build->image, build->cap);
}

bool slice_build_room(const struct slice_build *build, size_t record_bytes)
{
    bool empty = build->head.jobs == 0;
    return empty || (build->len + BATCH_HEAD + record_bytes + BLOCK <= SLICE_DATA_MAX &&
                     build->head.topics < SLICE_TOPICS_MAX);
}

static void make_room(struct slice_build *build, size_t more)
{
    size_t used = build->len - build->gone;
    CHECK(build->cap >= used);
    if (build->cap - used >= more)
        return;
    build->cap = used + more > 2 * build->cap ? used + more : 2 * build->cap;
    build->image = mem_realloc(build->image, build->cap);
}

/* Of the complete bytes those leave that are whole pieces; `all`: the others, too. */
static void send(struct slice_build *build, bool all)
{
    size_t used = build->len - build->gone, gone = all ? used : used / PIECE * PIECE;
    if (!build->to || gone == 0)
        return;
    build->to->put(build->to, build->image, gone, build->gone);
    memmove(build->image, build->image + gone, used - gone);
    build->gone += gone;
}

static void close_block(struct slice_build *build)
{
    char fence[SLICE_FENCE_BYTES];
    if (!build->block)
        return;
    size_t payload = build->len - build->block - BATCH_HEAD;
    size_t bytes = (size_t)batch_bytes(payload);
    make_room(build, build->block + bytes - build->len);
    struct batch_head head = {
        .number = ++build->head.blocks,
        .seq_mark = 1,
        .segment = build->head.number,
        .store_tag = build->tag,
        .payload_bytes = (uint32_t)payload,
        .record_count = build->fence.jobs,
    };
    char *block = at_offset(build, build->block);
    (void)batch_head_encode(&head, block);
    batch_sign(block, bytes, 0);
    slice_fence_encode(&build->fence, fence);
    buf_add(&build->fences, fence, sizeof(fence));
    build->len = build->block + bytes;
    build->block = 0;
    send(build, false);
}

static void open_block(struct slice_build *build, int64_t due_us)
{
    build->block = build->len;
    build->fence = (struct slice_fence){.due_us = due_us, .offset = (uint32_t)(build->len / BLOCK)};
    make_room(build, BATCH_HEAD);
    build->len += BATCH_HEAD;
}

static uint32_t topic_number(struct slice_build *build, struct bytes name)
{
    if (build->head.topics && bytes_eq(topic_at(build, build->last.topic), name))
        return build->last.topic; /* that of the job before: most often */
    uint64_t hash = hash_of(name.at, name.len);
    uint32_t number = map_find(&build->topics_map, hash, &name);
    if (number != MAP_NONE)
        return number;
    uint32_t at = (uint32_t)build->topics.len;
    buf_add(&build->topics_at, &at, sizeof(at));
    buf_add_char(&build->topics, (char)name.len);
    buf_add_bytes(&build->topics, name);
    number = build->head.topics++;
    map_add(&build->topics_map, hash, number);
    return number;
}

static void add_entry(struct slice_build *build, const struct event *job, uint64_t id_hash,
                      uint64_t offset)
{
    struct slice_index entry = {
        .offset = offset,
        .seq = job->job.seq,
        .id_hash = id_hash,
        .topic = topic_number(build, job->topic),
        .head = &build->head,
        .priority = build->head.state == JOB_READY ? job->job.priority : 0,
        .rank_us = build->head.state == JOB_READY ? event_rank_us(job) : 0,
    };
    struct buf *index = &build->index;
    buf_reserve(index, SLICE_INDEX_MAX);
    index->len += slice_index_encode(&build->last, &entry, index->at + index->len);
    build->last.offset = offset; /* what the next entry is compared with */
    build->last.seq = entry.seq;
    build->last.topic = entry.topic;
    build->last.rank_us = entry.rank_us;
}

uint64_t slice_build_add(struct slice_build *build, const struct event *job, uint64_t id_hash,
                         const void *record, size_t len)
{
    size_t open = build->block ? build->len - build->block : 0;
    CHECK(len % 8 == 0 && len >= SLICE_UNIT);
    CHECK(build->head.jobs == 0 || job->job.due_us >= build->head.due_last_us);
    if (open >= BLOCK_LEAST && open / BLOCK != (open + len) / BLOCK)
        close_block(build);
    if (!build->block)
        open_block(build, job->job.due_us);
    make_room(build, len);
    uint64_t offset = build->len;
    memcpy(at_offset(build, offset), record, len);
    build->len += len;
    build->fence.jobs++;
    if (build->head.jobs++ == 0)
        build->head.due_first_us = job->job.due_us;
    build->head.due_last_us = job->job.due_us;
    add_entry(build, job, id_hash, offset);
    return offset;
}

static uint64_t add_section(struct slice_build *build, const struct buf *section)
{
    if (build->to) {
        send(build, true);
        build->to->put(build->to, section->at, section->len, build->len);
        build->gone += section->len;
    } else {
        make_room(build, section->len);
        memcpy(at_offset(build, build->len), section->at, section->len);
    }
    build->len += section->len;
    return hash_of(section->at, section->len);
}

void slice_build_end(struct slice_build *build)
{
    struct slice_head *head = &build->head;
    CHECK(head->jobs > 0);
    close_block(build);
    head->data_end = build->len;
    head->topics_bytes = build->topics.len;
    head->index_bytes = build->index.len;
    head->fences_sum = add_section(build, &build->fences);
    head->topics_sum = add_section(build, &build->topics);
    head->index_sum = add_section(build, &build->index);
    /* Readers of the last record may read RECORD_JOB_HEAD bytes behind it. */
    size_t size = (build->len + RECORD_JOB_HEAD + BLOCK - 1) / BLOCK * BLOCK;
    make_room(build, size - build->len);
    memset(at_offset(build, build->len), 0, size - build->len);
    CHECK(size <= SLICE_FILE_MAX);
    build->len = size;
    head->size_bytes = size;
    send(build, true);
    slice_head_encode(head, build->image);
    if (build->to)
        build->to->put(build->to, build->image, BLOCK, 0);
}
