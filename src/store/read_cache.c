#include "store/read_cache.h"

#include "base/check.h"
#include "base/mem.h"

static struct cached_read *of_used(struct list *link)
{
    return LIST_ENTRY(link, struct cached_read, used);
}

/* The list of the aligned piece that has the byte at `offset`. */
static struct list *pieces_at(struct read_cache *cache, uint32_t segment, uint64_t offset)
{
    uint64_t piece = offset / READ_CACHE_PIECE_BYTES + (uint64_t)segment * 31;
    return &cache->pieces[piece % READ_CACHE_LISTS];
}

static size_t bytes_of_read(const struct cached_read *read)
{
    return (size_t)(read->end - read->start);
}

static void forget(struct read_cache *cache, struct cached_read *read)
{
    cache->bytes -= bytes_of_read(read);
    list_remove(&read->used);
    list_remove(&read->pieces[0].link);
    list_remove(&read->pieces[1].link);
    mem_free(read->bytes);
    mem_free(read);
}

static void add_piece(struct read_cache *cache, struct cached_read *read,
                      struct cached_piece *piece, uint64_t offset)
{
    piece->read = read;
    list_add_head(pieces_at(cache, read->segment, offset), &piece->link);
}

void read_cache_add(struct read_cache *cache, uint32_t segment, uint64_t start, uint64_t end,
                    char *bytes)
{
    uint64_t last = end - 1;
    CHECK(start < end && end - start <= READ_CACHE_PIECE_BYTES);
    struct cached_read *read = mem_alloc(sizeof(*read));
    *read = (struct cached_read){.segment = segment, .start = start, .end = end, .bytes = bytes};
    list_init(&read->pieces[1].link);
    add_piece(cache, read, &read->pieces[0], start);
    if (start / READ_CACHE_PIECE_BYTES != last / READ_CACHE_PIECE_BYTES)
        add_piece(cache, read, &read->pieces[1], last);
    list_add_tail(&cache->used, &read->used);
    cache->bytes += bytes_of_read(read);
    while (cache->bytes > READ_CACHE_BYTES)
        forget(cache, of_used(cache->used.next));
}

struct cached_read *read_cache_find(struct read_cache *cache, uint32_t segment, uint64_t start,
                                    uint64_t end)
{
    struct list *pieces = pieces_at(cache, segment, start);
    for (struct list *link = pieces->next; link != pieces; link = link->next) {
        struct cached_read *read = LIST_ENTRY(link, struct cached_piece, link)->read;
        cache->looks++;
        if (read->segment == segment && read->start <= start && end <= read->end)
            return read;
    }
    return NULL;
}

void read_cache_touch(struct read_cache *cache, struct cached_read *read)
{
    list_remove(&read->used);
    list_add_tail(&cache->used, &read->used);
}

void read_cache_init(struct read_cache *cache)
{
    *cache = (struct read_cache){.bytes = 0};
    list_init(&cache->used);
    for (unsigned i = 0; i < READ_CACHE_LISTS; i++)
        list_init(&cache->pieces[i]);
}

void read_cache_fini(struct read_cache *cache)
{
    while (!list_empty(&cache->used))
        forget(cache, of_used(cache->used.next));
}

void read_cache_valid(const struct read_cache *cache)
{
    size_t bytes = 0;
    for (struct list *link = cache->used.next; link != &cache->used; link = link->next) {
        const struct cached_read *read = of_used(link);
        CHECK(read->bytes && read->start < read->end);
        CHECK(bytes_of_read(read) <= READ_CACHE_PIECE_BYTES);
        CHECK(read->pieces[0].read == read && !list_empty(&read->pieces[0].link));
        bytes += bytes_of_read(read);
    }
    CHECK(bytes == cache->bytes && bytes <= READ_CACHE_BYTES);
}
