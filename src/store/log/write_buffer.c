#include "store/log/write_buffer.h"

#include "base/check.h"
#include "base/mem.h"
#include "store/format.h"

enum { USUAL_BYTES = 1024 * 1024 };

void write_buffers_init(struct write_buffers *buffers, uint64_t segment_bytes,
                        struct discard *discard)
{
    *buffers = (struct write_buffers){
        .usual = segment_bytes < USUAL_BYTES ? (size_t)segment_bytes : USUAL_BYTES,
        .discard = discard,
    };
    list_init(&buffers->list);
}

static void free_one(struct write_buffers *buffers, struct write_buffer *buffer)
{
    if (buffers->discard && buffer->cap > buffers->usual)
        discard_memory(buffers->discard, buffer->at, buffer->cap);
    else
        mem_free(buffer->at);
    mem_free(buffer);
}

void write_buffers_fini(struct write_buffers *buffers)
{
    while (!list_empty(&buffers->list))
        write_buffers_drop(buffers, write_buffers_last(buffers));
    CHECK(buffers->bytes == 0);
    if (buffers->idle)
        free_one(buffers, buffers->idle);
}

struct write_buffer *write_buffers_add(struct write_buffers *buffers, size_t least)
{
    size_t cap = buffers->usual;
    while (cap < least)
        cap *= 2;
    struct write_buffer *buffer = buffers->idle;
    if (buffer && cap == buffers->usual) {
        buffers->idle = NULL;
    } else {
        buffer = mem_alloc(sizeof(*buffer));
        buffer->at = mem_aligned(BLOCK, cap);
    }
    buffer->cap = cap;
    buffer->used = 0;
    buffer->batch_last = 0;
    buffers->bytes += cap;
    CHECK(buffers->list.prev); /* for clang's analyzer */
    list_add_tail(&buffers->list, &buffer->link);
    return buffer;
}

void write_buffers_drop(struct write_buffers *buffers, struct write_buffer *buffer)
{
    list_remove(&buffer->link);
    CHECK(buffers->bytes >= buffer->cap);
    buffers->bytes -= buffer->cap;
    if (buffer->cap == buffers->usual && !buffers->idle)
        buffers->idle = buffer; /* spares the kernel from zeroing its pages again */
    else
        free_one(buffers, buffer);
}

void write_buffers_trim(struct write_buffers *buffers, uint64_t recent_bytes, uint64_t written)
{
    while (buffers->bytes > recent_bytes) {
        struct write_buffer *oldest = LIST_ENTRY(buffers->list.next, struct write_buffer, link);
        if (oldest == write_buffers_last(buffers) || oldest->batch_last > written)
            return;
        write_buffers_drop(buffers, oldest);
    }
}

struct write_buffer *write_buffers_last(const struct write_buffers *buffers)
{
    return list_empty(&buffers->list) ? NULL
                                      : LIST_ENTRY(buffers->list.prev, struct write_buffer, link);
}

const struct write_buffer *write_buffers_find(const struct write_buffers *buffers, uint32_t number,
                                              uint64_t offset)
{
    for (struct list *link = buffers->list.prev; link != &buffers->list; link = link->prev) {
        const struct write_buffer *buffer = LIST_ENTRY(link, struct write_buffer, link);
        if (buffer->number == number && offset >= buffer->start)
            return buffer;
    }
    return NULL;
}

void write_buffers_valid(const struct write_buffers *buffers)
{
    uint64_t bytes = 0;
    uint64_t batch_last = 0;
    for (struct list *link = buffers->list.next; link != &buffers->list; link = link->next) {
        const struct write_buffer *buffer = LIST_ENTRY(link, struct write_buffer, link);
        CHECK(buffer->used <= buffer->cap && buffer->used % BLOCK == 0);
        CHECK((buffer->used == 0) == (buffer->batch_last == 0));
        CHECK(buffer->batch_last == 0 || buffer->batch_last > batch_last);
        CHECK(buffer->used > 0 || link->next == &buffers->list);
        batch_last = buffer->batch_last;
        bytes += buffer->cap;
    }
    CHECK(bytes == buffers->bytes);
    CHECK(!buffers->idle || buffers->idle->cap == buffers->usual);
}
