#include "store/slices/far_walk.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/time_us.h"
#include "store/far.h"
#include "store/internal.h"
#include "store/slices/far_page.h"
#include "store/slices/slices_parts.h"

enum {
    TURN_FREES = 256,                /* runs of walks that have ended, freed in a turn */
    WALK_IDLE_US = 10 * 1000 * 1000, /* a walk ends when no page has used it for this long */
    UNUSED_PARTS = 4,                /* one block may use this fraction of the unused memory */
};

static bool has_room(const struct far_walks *walks)
{
    struct store_callbacks *callbacks = walks->store->callbacks;
    return !callbacks->far_room || callbacks->far_room(callbacks);
}

/* ---- ending ---- */

static void walk_free(struct far_walk *walk)
{
    list_remove(&walk->link);
    far_merge_fini(&walk->merge);
    far_blocks_fini(&walk->blocks);
    mem_free(walk);
}

/* Its memory, which may be large, is freed in later turns, a piece in each. */
static void discard(struct far_walks *walks, struct far_walk *walk)
{
    list_remove(&walk->link);
    list_add_tail(&walks->ended, &walk->link);
}

static void free_some(struct far_walks *walks)
{
    if (list_empty(&walks->ended))
        return;
    struct far_walk *walk = LIST_ENTRY(walks->ended.next, struct far_walk, link);
    if (!far_merge_free_some(&walk->merge, TURN_FREES))
        walk_free(walk);
}

static struct far_walk *oldest(const struct far_walks *walks)
{
    return list_empty(&walks->idle) ? NULL : LIST_ENTRY(walks->idle.next, struct far_walk, link);
}

static void end_oldest(struct far_walks *walks)
{
    CHECK(walks->idle_count > 0);
    walks->idle_count--;
    discard(walks, oldest(walks));
}

static void end_idle(struct far_walks *walks)
{
    int64_t now_us = walks->store->now_us;
    const struct far_walk *walk;
    while ((walk = oldest(walks)) && (walk->until_us <= now_us || !has_room(walks)))
        end_oldest(walks);
}

void far_walks_turn(struct far_walks *walks)
{
    end_idle(walks);
    free_some(walks);
}

int64_t far_walks_next_us(const struct far_walks *walks)
{
    const struct far_walk *walk = oldest(walks);
    if (!list_empty(&walks->ended))
        return walks->store->now_us;
    return walk ? walk->until_us : INT64_MAX;
}

/* ---- from page to page ---- */

static struct far_walk *walk_new(struct far_walks *walks, const struct far_page *page)
{
    struct far_walk *walk = mem_zalloc(sizeof(*walk) + page->topic.len);
    char *name = (char *)(walk + 1);
    memcpy(name, page->topic.at, page->topic.len);
    list_init(&walk->link);
    walk->topic = bytes_of(name, page->topic.len);
    walk->merge.backwards = page->backwards;
    walk->blocks = (struct far_blocks){
        .slices = walks->store->slices,
        .topic = walk->topic,
        .state = page->state,
        .from = {page->due_us, page->seq},
        .backwards = page->backwards,
    };
    return walk;
}

static bool goes_on(const struct far_walk *walk, const struct far_page *page,
                    const struct job_place *after)
{
    return walk->merge.backwards == page->backwards && walk->blocks.state == page->state &&
           bytes_eq(walk->topic, page->topic) && far_merge_has(&walk->merge, after);
}

struct far_walk *far_walks_take(struct far_walks *walks, const struct far_page *page)
{
    struct job_place after = {page->due_us, page->seq};
    struct far_walk *found = NULL;
    for (struct list *link = walks->idle.next; link != &walks->idle && !found; link = link->next) {
        struct far_walk *walk = LIST_ENTRY(link, struct far_walk, link);
        if (goes_on(walk, page, &after))
            found = walk;
    }
    if (found) {
        list_remove(&found->link);
        list_init(&found->link);
        walks->idle_count--;
    } else {
        found = walk_new(walks, page);
    }
    far_merge_begin(&found->merge, after);
    return found;
}

void far_walks_give_back(struct far_walks *walks, struct far_walk *walk, bool keep)
{
    CHECK(list_empty(&walk->link));
    if (walk->stale || !keep) {
        discard(walks, walk);
        return;
    }
    walk->until_us = time_add(walks->store->now_us, WALK_IDLE_US);
    list_add_tail(&walks->idle, &walk->link);
    if (++walks->idle_count > FAR_WALKS_MAX)
        end_oldest(walks);
}

bool far_walk_has_passed(const struct far_walk *walk, const struct slice *slice, uint32_t block)
{
    return !far_blocks_passed(&walk->blocks, slice, block, &walk->merge.after) &&
           !far_blocks_finds(&walk->blocks, slice, block, far_merge_last(&walk->merge));
}

void far_walks_named(struct far_walks *walks, const struct slice *slice, uint32_t block)
{
    for (struct list *link = walks->idle.next; link != &walks->idle; link = link->next) {
        struct far_walk *walk = LIST_ENTRY(link, struct far_walk, link);
        if (walk->blocks.state != slice->head.state || !slice_may_have(slice, walk->topic) ||
            !far_walk_has_passed(walk, slice, block))
            continue;
        /* A listing that has jobs in memory, too, goes on within the last page. */
        far_merge_rewind(&walk->merge);
        far_blocks_add(&walk->blocks, slice, block);
    }
}

/* ---- memory ---- */

/* Bytes that a page's walk may hold: an equal share for each walk. */
static size_t share_of_walk(const struct far_walks *walks)
{
    size_t share = walks->idle_bytes_max / (1 + walks->idle_count);
    return has_room(walks) || share < FAR_PAGE_BYTES_MAX ? share : FAR_PAGE_BYTES_MAX;
}

static size_t walk_bytes(const struct far_walk *walk)
{
    return walk->merge.bytes + far_blocks_bytes(&walk->blocks);
}

void far_walks_limit(const struct far_walks *walks, struct far_walk *walk)
{
    if (walk_bytes(walk) > share_of_walk(walks))
        (void)far_merge_cut_half(&walk->merge);
}

/*
 * Equal shares of half of the walk's memory; more while less than a quarter is used. The other half
 * is for the overhead of runs, and for runs of which some jobs were released.
 */
size_t far_walks_block_share(const struct far_walks *walks, const struct far_walk *walk)
{
    size_t most = share_of_walk(walks), slices = (size_t)walk->blocks.count + 1;
    size_t used = walk_bytes(walk);
    size_t equal = most / 2 / slices + 1;
    size_t unused = used < most / 4 ? (most / 4 - used) / UNUSED_PARTS : 0;
    if (slices * SLICE_BLOCK_BYTES <= most)
        return SIZE_MAX;
    return equal > unused ? equal : unused;
}

size_t far_walks_held_bytes(const struct far_walks *walks)
{
    size_t bytes = 0;
    for (const struct list *link = walks->idle.next; link != &walks->idle; link = link->next)
        bytes += walk_bytes(LIST_ENTRY(link, const struct far_walk, link));
    return bytes;
}

/* ---- life ---- */

void far_walks_init(struct far_walks *walks, struct store *store)
{
    *walks = (struct far_walks){.store = store, .idle_bytes_max = FAR_WALKS_BYTES};
    list_init(&walks->idle);
    list_init(&walks->ended);
}

void far_walks_fini(struct far_walks *walks)
{
    while (walks->idle_count > 0)
        end_oldest(walks);
    while (!list_empty(&walks->ended))
        walk_free(LIST_ENTRY(walks->ended.next, struct far_walk, link));
    CHECK(list_empty(&walks->idle));
}

void far_walks_valid(const struct far_walks *walks)
{
    uint32_t count = 0;
    for (const struct list *link = walks->idle.next; link != &walks->idle; link = link->next) {
        const struct far_walk *walk = LIST_ENTRY(link, const struct far_walk, link);
        far_merge_valid(&walk->merge);
        CHECK(!walk->stale);
        count++;
    }
    CHECK(count == walks->idle_count && count <= FAR_WALKS_MAX);
}
