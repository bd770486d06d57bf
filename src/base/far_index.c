/*
 * Entries of a shard are sorted by fingerprint, each at or behind its home place, with no gap
 * between the two. Homes are spread over all but the last places of the array, which take what
 * overflows: so nothing wraps around, and an array that has no room left at its end grows.
 * far_index_image.c has the index as bytes.
 */
#include "base/far_index.h"

#include <string.h>

#include "base/check.h"
#include "base/far_index_parts.h"
#include "base/mem.h"
#include "base/prefetch.h"

enum {
    CAP_FIRST = 16,
    FREE_SHARE = 6, /* this fraction of a shard is free at least: runs would be long with less, and
                       a look-up reads all of a run in front of its entry */
    SORT_BITS_MIN = 10,
    SORT_BITS_MAX = 18,
    GATHER_STEPS = 512, /* of SHARDS */
    LINE_GATHERED = 32, /* entries of a shard that are put into its array at once */
    LINE_ENTRIES = 64 / sizeof(uint64_t),
    PAGE_ENTRIES = 4096 / sizeof(uint64_t),
    PAGED_CAP = PAGE_ENTRIES, /* arrays from this size on are whole pages: the heap would be
                                     left with holes too small for the next larger array */
};

/* ---- files ---- */

static bool number_is(const void *ctx, uint32_t slot, const void *key)
{
    const struct far_index *index = ctx;
    return index->files[slot].number == *(const uint32_t *)key;
}

static uint64_t hash_number(uint32_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

static uint32_t file_find(const struct far_index *index, uint32_t number) /* 0: none */
{
    const struct far_file *last = index->last_file ? &index->files[index->last_file] : NULL;
    if (last && last->number == number && last->uses)
        return index->last_file;
    uint32_t slot = map_find(&index->by_number, hash_number(number), &number);
    return slot == MAP_NONE ? 0 : slot;
}

/* 0: there are too many files. */
static uint32_t file_get(struct far_index *index, uint32_t number)
{
    uint32_t slot = file_find(index, number);
    if (slot) {
        index->last_file = slot;
        return slot;
    }
    slot = index->free_file;
    if (!slot && index->file_count == FILES_MAX)
        return 0;
    if (slot) {
        index->free_file = index->files[slot].next_free;
    } else {
        slot = ++index->file_count;
        if (slot >= index->file_cap) {
            size_t old = index->file_cap * sizeof(*index->files);
            index->file_cap = index->file_cap ? index->file_cap * 2 : 64;
            index->files = mem_realloc(index->files, index->file_cap * sizeof(*index->files));
            index->bytes += index->file_cap * sizeof(*index->files) - old;
        }
    }
    index->files[slot] = (struct far_file){.number = number};
    map_add(&index->by_number, hash_number(number), slot);
    return slot;
}

static void file_give(struct far_index *index, uint32_t slot)
{
    struct far_file *file = &index->files[slot];
    if (file->uses)
        return;
    map_remove(&index->by_number, hash_number(file->number), slot);
    file->next_free = index->free_file;
    index->free_file = slot;
}

bool far_file_take(struct far_index *index, uint32_t slot)
{
    uint32_t number = index->files[slot].number;
    if (file_find(index, number))
        return false;
    map_add(&index->by_number, hash_number(number), slot);
    return true;
}

/* ---- entries ---- */

static uint32_t print_of(uint64_t entry)
{
    return (uint32_t)(entry >> (SLOT_BITS + OFFSET_BITS));
}

static uint64_t where_of(const struct far_index *index, uint64_t entry)
{
    return (uint64_t)index->files[slot_of(entry)].number << 32 | (entry & (FAR_OFFSET_END - 1));
}

static uint64_t entry_of(uint64_t hash, uint32_t slot, uint64_t where)
{
    uint64_t print = hash >> (64 - SHARD_BITS - PRINT_BITS) & ((1u << PRINT_BITS) - 1);
    return print << (SLOT_BITS + OFFSET_BITS) | (uint64_t)slot << OFFSET_BITS | (uint32_t)where;
}

static uint32_t home_of(const struct far_shard *shard, uint32_t print)
{
    uint32_t spread = shard->cap - shard->cap / 32 - CAP_FIRST / 2;
    return (uint32_t)((uint64_t)print * spread >> PRINT_BITS);
}

static struct far_shard *shard_of(const struct far_index *index, uint64_t hash)
{
    return &index->shards[hash >> (64 - SHARD_BITS)];
}

/* Has it no room for one more than this many entries? */
static bool is_full(const struct far_shard *shard, uint32_t count)
{
    return count >= shard->cap - shard->cap / FREE_SHARE;
}

/* An array in which this many entries have room, and some more. */
static uint64_t cap_for(uint64_t count)
{
    return count + count / (FREE_SHARE - 1) + CAP_FIRST;
}

/* The place of the entry, or where it would be inserted; shard->cap: behind the end. */
static uint32_t seek(const struct far_shard *shard, uint64_t entry)
{
    uint32_t i = home_of(shard, print_of(entry));
    while (i < shard->cap && shard->entries[i] && shard->entries[i] < entry)
        i++;
    return i;
}

static void exchange(uint64_t *one, uint64_t *other)
{
    uint64_t kept = *one;
    *one = *other;
    *other = kept;
}

enum put_result { PUT_DONE, PUT_NO_ROOM, PUT_IS_THERE };

static enum put_result put(struct far_shard *shard, uint64_t entry)
{
    CHECK(shard->entries);
    uint64_t *entries = shard->entries;
    uint32_t first = seek(shard, entry), i = first;
    if (i < shard->cap && entries[i] == entry)
        return PUT_IS_THERE;
    /* The rest of the run moves one place on: too few entries for a call of memmove(). */
    for (; entry && i < shard->cap; i++)
        exchange(&entries[i], &entry);
    if (!entry) {
        shard->count++;
        return PUT_DONE;
    }
    while (i > first) /* it reaches the end: all back again */
        exchange(&entries[--i], &entry);
    return PUT_NO_ROOM;
}

static uint32_t rounded(uint32_t cap)
{
    return cap < PAGED_CAP ? cap : (cap + PAGE_ENTRIES - 1) / PAGE_ENTRIES * PAGE_ENTRIES;
}

static void shard_start(struct far_shard *shard, uint32_t cap)
{
    cap = rounded(cap);
    size_t bytes = cap * sizeof(uint64_t);
    *shard = (struct far_shard){
        .entries = cap >= PAGED_CAP ? mem_pages(bytes) : mem_zalloc(bytes),
        .cap = cap,
    };
}

static void shard_end(struct far_shard *shard)
{
    if (shard->cap >= PAGED_CAP)
        mem_pages_free(shard->entries, shard->cap * sizeof(uint64_t));
    else
        mem_free(shard->entries);
    *shard = (struct far_shard){0};
}

/* Changes the length of the array: what is cut off is lost, and what is added is empty. */
static void set_cap(struct far_index *index, struct far_shard *shard, uint64_t cap)
{
    struct far_shard old = *shard;
    CHECK(cap < UINT32_MAX / 2);
    index->bytes += (rounded((uint32_t)cap) - (size_t)old.cap) * sizeof(uint64_t); /* mod 2^64 */
    if (old.cap >= PAGED_CAP && cap >= PAGED_CAP) {
        shard->cap = rounded((uint32_t)cap);
        shard->entries = mem_pages_resize(old.entries, old.cap * sizeof(uint64_t),
                                          shard->cap * sizeof(uint64_t));
    } else {
        uint64_t kept = cap < old.cap ? cap : old.cap;
        *shard = (struct far_shard){0};
        if (cap)
            shard_start(shard, (uint32_t)cap);
        CHECK(shard->entries || kept == 0);
        if (kept)
            memcpy(shard->entries, old.entries, kept * sizeof(uint64_t));
        shard->count = old.count;
        shard_end(&old);
    }
}

/*
 * Entries are spread within their array: first all of them move to its end, in order, then each to
 * its place. Neither step has a branch that depends on an entry: a processor would guess it
 * wrongly. In a longer array the gaps between them may stay in the first step: no entry's place
 * moves on by more than the array grows, if that is some tens or more.
 */

/* Moves all entries, which are in the first `used` places, to the end. Returns where they begin;
   what is in front of that is not cleared. */
static uint32_t pack(struct far_shard *shard, uint32_t used)
{
    uint64_t *entries = shard->entries;
    uint32_t to = shard->cap;
    for (uint32_t from = used; from-- > 0;) {
        uint64_t entry = entries[from];
        entries[to - 1] = entry; /* written over by the next one if it is empty */
        to -= entry != 0;
    }
    return to;
}

/* Moves entries, which begin at `from`, with or without gaps, to their places: none of them behind
   where it is, or those that follow would have no room. False: they have none. Then some are at
   their places and the rest are still at the end, in order; pack() takes both. */
static bool spread(struct far_shard *shard, uint32_t from)
{
    uint64_t *entries = shard->entries;
    uint32_t next = 0;
    memset(entries, 0, from * sizeof(uint64_t));
    for (; from < shard->cap; from++) {
        uint64_t entry = entries[from];
        uint32_t home = home_of(shard, print_of(entry));
        next = home > next ? home : next;
        if (next > from)
            return false;
        entries[from] = 0;
        entries[next] = entry; /* a gap is as empty as this place, */
        next += entry != 0;    /* and the next entry comes here */
    }
    return true;
}

static uint32_t larger(const struct far_shard *shard)
{
    return shard->cap < CAP_FIRST ? CAP_FIRST : shard->cap + shard->cap / 8 + 1;
}

/* Spreads the entries of the first `used` places; in a longer array if they have no room. */
static void settle(struct far_index *index, struct far_shard *shard, uint32_t used)
{
    while (shard->count && !spread(shard, pack(shard, used))) {
        used = shard->cap;
        set_cap(index, shard, larger(shard));
    }
}

static void grow(struct far_index *index, struct far_shard *shard)
{
    uint32_t used = shard->cap;
    set_cap(index, shard, larger(shard));
    memmove(&shard->entries[shard->cap - used], shard->entries, used * sizeof(uint64_t));
    if (!spread(shard, shard->cap - used))
        settle(index, shard, shard->cap);
}

/* Makes the array shorter; `cap` is at least the number of its entries. */
static void shrink(struct far_index *index, struct far_shard *shard, uint32_t cap)
{
    uint32_t used = 0;
    for (uint32_t from = 0; from < shard->cap; from++) {
        uint64_t entry = shard->entries[from];
        shard->entries[used] = entry;
        used += entry != 0;
    }
    CHECK(used == shard->count && used <= cap);
    set_cap(index, shard, cap);
    settle(index, shard, used);
}

void far_make_shards(struct far_index *index)
{
    if (index->shards)
        return;
    index->shards = mem_zalloc(SHARDS * sizeof(struct far_shard));
    index->bytes += SHARDS * sizeof(struct far_shard);
}

/* False: the entry is already there. */
static bool add_to(struct far_index *index, struct far_shard *shard, uint64_t entry)
{
    if (is_full(shard, shard->count))
        grow(index, shard);
    enum put_result result;
    while ((result = put(shard, entry)) == PUT_NO_ROOM)
        grow(index, shard);
    if (result == PUT_IS_THERE)
        return false;
    index->files[slot_of(entry)].uses++;
    index->count++;
    return true;
}

/* The slot of the place's file; 0: an entry cannot represent this place. */
static uint32_t slot_for(struct far_index *index, uint64_t where)
{
    return (uint32_t)where < FAR_OFFSET_END ? file_get(index, (uint32_t)(where >> 32)) : 0;
}

bool far_index_add(struct far_index *index, uint64_t hash, uint64_t where)
{
    CHECK(!index->gathered);
    uint32_t slot = slot_for(index, where);
    if (!slot)
        return false;
    far_make_shards(index);
    return add_to(index, shard_of(index, hash), entry_of(hash, slot, where));
}

/* ---- many: gathered without order, then sorted ---- */

/* Small enough to stay in the processor's cache while the arrays pass through it. */
struct far_gathered {
    uint64_t entries[SHARDS][LINE_GATHERED];
    uint32_t counts[SHARDS];
    uint32_t sorted; /* number of shards that are finished */
};

static void append_gathered(struct far_index *index, uint32_t number)
{
    struct far_gathered *gathered = index->gathered;
    struct far_shard *shard = &index->shards[number];
    uint32_t count = gathered->counts[number];
    if (!count)
        return;
    if (shard->cap - shard->count < count)
        set_cap(index, shard, (uint64_t)shard->cap + shard->cap / 8 + LINE_GATHERED);
    memcpy(&shard->entries[shard->count], gathered->entries[number], count * sizeof(uint64_t));
    shard->count += count;
    gathered->counts[number] = 0;
}

void far_index_gather(struct far_index *index, uint64_t entries)
{
    CHECK(!index->gathered && index->count == 0);
    uint64_t mean = entries / SHARDS;
    far_make_shards(index);
    index->gathered = mem_pages(sizeof(*index->gathered));
    /* Room for somewhat more than the mean; the few shards that get more are lengthened. */
    uint64_t cap = cap_for(mean + mean / 32 + 2 * LINE_GATHERED);
    for (uint32_t i = 0; mean > 0 && i < SHARDS; i++) {
        if (index->shards[i].cap < cap && cap < UINT32_MAX / 2)
            set_cap(index, &index->shards[i], cap);
    }
}

/* As few writes as possible for each entry: a write that waits for memory delays all after it. */
static void gather_run(struct far_index *index, uint32_t slot, const struct far_pair *pairs,
                       uint32_t count)
{
    struct far_gathered *gathered = index->gathered;
    index->files[slot].uses += count;
    index->count += count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = (uint32_t)(pairs[i].hash >> (64 - SHARD_BITS));
        uint32_t at = gathered->counts[number]++;
        gathered->entries[number][at] = entry_of(pairs[i].hash, slot, pairs[i].where);
        if (at + 1 == LINE_GATHERED)
            append_gathered(index, number);
    }
}

/* How many of the first pairs are in one file. *out_all: their offsets, combined by OR. */
static uint32_t run_of(const struct far_pair *pairs, uint32_t count, uint32_t *out_all)
{
    uint64_t file = pairs[0].where >> 32;
    uint32_t run = 0;
    for (*out_all = 0; run < count && pairs[run].where >> 32 == file; run++)
        *out_all |= (uint32_t)pairs[run].where;
    return run;
}

bool far_index_gather_add(struct far_index *index, const struct far_pair *pairs, uint32_t count)
{
    CHECK(index->gathered);
    for (uint32_t done = 0, run; done < count; done += run) {
        uint32_t all, slot = 0;
        run = run_of(&pairs[done], count - done, &all);
        if (all < FAR_OFFSET_END)
            slot = file_get(index, (uint32_t)(pairs[done].where >> 32));
        if (!slot)
            return false;
        gather_run(index, slot, &pairs[done], run);
    }
    return true;
}

/* How many of the fingerprints' first bits to sort by, so that few entries have the same. */
static unsigned sort_bits(uint32_t count)
{
    unsigned bits = SORT_BITS_MIN;
    while (bits < SORT_BITS_MAX && count > 1u << bits)
        bits++;
    return bits;
}

/* Insertion sort of entries that are at or near their places. True: some are equal. */
static bool sort_neighbours(uint64_t *entries, uint32_t count)
{
    bool equal = false;
    for (uint32_t i = 1; i < count; i++) {
        uint64_t entry = entries[i];
        uint32_t at = i;
        for (; at > 0 && entries[at - 1] > entry; at--)
            entries[at] = entries[at - 1];
        entries[at] = entry;
        equal |= at > 0 && entries[at - 1] == entry;
    }
    return equal;
}

/*
 * A counting sort by the fingerprints' first bits, then sort_neighbours() for those whose first
 * bits are equal: few, because fingerprints are hashes. `starts` has room for 2^sort_bits(count)
 * numbers. True: some entries are equal.
 */
static bool sort_entries(const uint64_t *entries, uint32_t count, uint32_t *starts,
                         uint64_t *out_sorted)
{
    unsigned bits = sort_bits(count);
    uint32_t before = 0;
    memset(starts, 0, sizeof(*starts) << bits);
    for (uint32_t i = 0; i < count; i++)
        starts[entries[i] >> (64 - bits)]++;
    for (uint32_t i = 0; i < 1u << bits; i++) {
        uint32_t here = starts[i];
        starts[i] = before;
        before += here;
    }
    for (uint32_t i = 0; i < count; i++)
        out_sorted[starts[entries[i] >> (64 - bits)]++] = entries[i];
    return sort_neighbours(out_sorted, count);
}

/* Keeps one of each group of equal entries. Returns how many are left. */
static uint32_t drop_equal(struct far_index *index, uint64_t *sorted, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (kept == 0 || sorted[kept - 1] != sorted[i]) {
            sorted[kept++] = sorted[i];
            continue;
        }
        index->files[slot_of(sorted[i])].uses--;
        index->count--;
    }
    return kept;
}

void far_place_sorted(struct far_index *index, struct far_shard *shard, const uint64_t *sorted,
                      uint32_t count)
{
    if (is_full(shard, count))
        set_cap(index, shard, cap_for(count));
    uint32_t from = shard->cap - count;
    memcpy(&shard->entries[from], sorted, count * sizeof(uint64_t));
    shard->count = count;
    if (spread(shard, from))
        return;
    uint32_t used = shard->cap; /* no room at the end */
    set_cap(index, shard, larger(shard));
    settle(index, shard, used);
}

/* Sorts the shards [first, end) in one call, so that they share the scratch memory. */
static void sort_shards(struct far_index *index, uint32_t first, uint32_t end)
{
    uint32_t most = 0;
    for (uint32_t i = first; i < end; i++) {
        append_gathered(index, i);
        most = index->shards[i].count > most ? index->shards[i].count : most;
    }
    uint64_t *sorted = mem_alloc((most + (size_t)1) * sizeof(*sorted));
    uint32_t *starts = mem_alloc(sizeof(*starts) << sort_bits(most));
    for (uint32_t i = first; i < end; i++) {
        struct far_shard *shard = &index->shards[i];
        uint32_t count = shard->count;
        if (count == 0)
            continue;
        if (sort_entries(shard->entries, count, starts, sorted))
            count = drop_equal(index, sorted, count);
        far_place_sorted(index, shard, sorted, count);
    }
    mem_free(sorted);
    mem_free(starts);
}

bool far_index_gather_end(struct far_index *index, bool *out_more)
{
    CHECK(index->gathered);
    uint64_t gathered = index->count;
    uint32_t first = index->gathered->sorted, end = first + SHARDS / GATHER_STEPS;
    sort_shards(index, first, end);
    index->gathered->sorted = end;
    *out_more = end < SHARDS;
    if (!*out_more) {
        mem_pages_free(index->gathered, sizeof(*index->gathered));
        index->gathered = NULL;
    }
    return index->count == gathered;
}

/* ---- few ---- */

/* The place of the pair's entry; false: it is not there. The file's slot is not looked up: few
   entries have this fingerprint, and each says its file. */
static bool locate(const struct far_index *index, uint64_t hash, uint64_t where,
                   uint32_t *out_place)
{
    const struct far_shard *shard = index->count ? shard_of(index, hash) : NULL;
    if (!shard || !shard->count)
        return false;
    uint64_t first = entry_of(hash, 0, 0);
    uint32_t print = print_of(first);
    for (uint32_t i = seek(shard, first); i < shard->cap && shard->entries[i]; i++) {
        if (print_of(shard->entries[i]) != print)
            return false;
        if (where_of(index, shard->entries[i]) == where) {
            *out_place = i;
            return true;
        }
    }
    return false;
}

bool far_index_has(const struct far_index *index, uint64_t hash, uint64_t where)
{
    uint32_t place;
    return locate(index, hash, where, &place);
}

/* Removes the entry; those behind it that are not at their homes move one place back. */
static void cut(struct far_shard *shard, uint32_t gap)
{
    uint64_t *entries = shard->entries, next;
    for (; gap + 1 < shard->cap && (next = entries[gap + 1]) != 0; gap++) {
        if (home_of(shard, print_of(next)) > gap)
            break;
        entries[gap] = next;
    }
    entries[gap] = 0;
    shard->count--;
}

bool far_index_remove(struct far_index *index, uint64_t hash, uint64_t where)
{
    uint32_t i;
    if (!locate(index, hash, where, &i))
        return false;
    struct far_shard *shard = shard_of(index, hash);
    uint32_t slot = slot_of(shard->entries[i]);
    index->last_file = slot; /* the job's other entry will be removed next */
    cut(shard, i);
    index->count--;
    index->files[slot].uses--;
    file_give(index, slot);
    uint32_t enough = shard->count ? rounded(shard->count + shard->count / 4 + CAP_FIRST) : 0;
    if (enough < shard->cap / 2)
        shrink(index, shard, enough);
    return true;
}

uint32_t far_index_find(const struct far_index *index, uint64_t hash, uint64_t *out_where,
                        uint32_t max)
{
    if (!index->count)
        return 0;
    const struct far_shard *shard = shard_of(index, hash);
    if (!shard->count)
        return 0;
    uint32_t print = print_of(entry_of(hash, 0, 0)), count = 0;
    for (uint32_t i = home_of(shard, print); i < shard->cap && shard->entries[i] && count < max;
         i++) {
        uint32_t other = print_of(shard->entries[i]);
        if (other > print)
            break;
        if (other == print)
            out_where[count++] = where_of(index, shard->entries[i]);
    }
    return count;
}

void far_index_prefetch(const struct far_index *index, uint64_t hash)
{
    if (!index->count)
        return;
    const struct far_shard *shard = shard_of(index, hash);
    if (!shard->count)
        return;
    /* A run is mostly longer than a cache line: the next line will be needed as well. */
    const uint64_t *home = &shard->entries[home_of(shard, print_of(entry_of(hash, 0, 0)))];
    prefetch_write(home);
    prefetch_write(home + LINE_ENTRIES);
}

void far_index_init(struct far_index *index)
{
    *index = (struct far_index){0};
    map_init(&index->by_number, number_is, index);
}

void far_index_fini(struct far_index *index)
{
    for (uint32_t i = 0; index->shards && i < SHARDS; i++)
        shard_end(&index->shards[i]);
    mem_pages_free(index->gathered, sizeof(*index->gathered));
    mem_free(index->shards);
    mem_free(index->files);
    map_fini(&index->by_number);
    *index = (struct far_index){0};
}

static uint32_t valid_shard(const struct far_index *index, const struct far_shard *shard,
                            uint64_t *uses)
{
    uint32_t count = 0;
    uint64_t before = 0;
    for (uint32_t i = 0; i < shard->cap; i++) {
        uint64_t entry = shard->entries[i];
        if (!entry)
            continue;
        uint32_t home = home_of(shard, print_of(entry));
        count++;
        CHECK(home <= i && entry >= before);
        CHECK(slot_of(entry) > 0 && slot_of(entry) <= index->file_count);
        for (uint32_t at = home; at < i; at++)
            CHECK(shard->entries[at]); /* no gap on the way to it */
        uses[slot_of(entry)]++;
        before = entry;
    }
    CHECK(count == shard->count);
    return count;
}

void far_index_valid(const struct far_index *index)
{
    uint64_t count = 0;
    uint64_t *uses = mem_zalloc((index->file_count + 1) * sizeof(*uses));
    for (uint32_t i = 0; index->shards && i < SHARDS; i++)
        count += valid_shard(index, &index->shards[i], uses);
    CHECK(count == index->count);
    for (uint32_t slot = 1; slot <= index->file_count; slot++)
        CHECK(uses[slot] == index->files[slot].uses);
    mem_free(uses);
}
