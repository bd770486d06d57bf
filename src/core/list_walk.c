#include "core/list_walk.h"

#include "base/check.h"
#include "base/mem.h"
#include "core/core_internal.h"

enum {
    IDLE_US = 10 * 1000 * 1000,      /* a walk ends when no page has used it for this long */
    ENTRIES_MAX = 4 * LIST_WALK_MAX, /* a walk with more ends */
    SKIPPED_MAX = 4096,              /* entries that one page may skip */
    SKIP_NS = 250,
};

/* ---- the order ---- */

static bool precedes(const struct list_walk *walk, const struct top_k_entry *a,
                     const struct top_k_entry *b)
{
    return walk->backwards ? top_k_due_before(NULL, b, a) : top_k_due_before(NULL, a, b);
}

static struct top_k_entry entry_of(const struct job *job, uint32_t number)
{
    return (struct top_k_entry){.due_us = job->due_us, .seq = job->seq, .number = number};
}

static bool is_behind(const struct list_walk *walk, const struct top_k_entry *entry)
{
    struct top_k_entry after = {.due_us = walk->after.first, .seq = walk->after.seq};
    return precedes(walk, &after, entry);
}

/* ---- the heap ---- */

static void sift_down(struct list_walk *walk, uint32_t place, struct top_k_entry entry)
{
    struct top_k_entry *at = walk->found.entries;
    uint32_t count = walk->found.count;
    for (uint32_t child; (child = 2 * place + 1) < count; place = child) {
        if (child + 1 < count && precedes(walk, &at[child + 1], &at[child]))
            child++;
        if (!precedes(walk, &at[child], &entry))
            break;
        at[place] = at[child];
    }
    at[place] = entry;
}

static void push(struct list_walk *walk, struct top_k_entry entry)
{
    struct top_k *found = &walk->found;
    if (found->count == found->cap) {
        found->cap = found->cap ? 2 * found->cap : 1024;
        found->entries = mem_realloc(found->entries, found->cap * sizeof(*found->entries));
    }
    uint32_t place = found->count++;
    struct top_k_entry *at = found->entries;
    for (; place > 0 && precedes(walk, &entry, &at[(place - 1) / 2]); place = (place - 1) / 2)
        at[place] = at[(place - 1) / 2];
    at[place] = entry;
}

static struct top_k_entry pop(struct list_walk *walk)
{
    struct top_k *found = &walk->found;
    CHECK(found->count > 0);
    struct top_k_entry first = found->entries[0], last = found->entries[--found->count];
    if (found->count > 0)
        sift_down(walk, 0, last);
    return first;
}

/* ---- walks ---- */

void list_walk_end(struct list_walk *walk)
{
    if (!walk)
        return;
    list_remove(&walk->link);
    top_k_fini(&walk->found);
    mem_free(walk);
}

struct list_walk *list_walk_find(struct core *core, const struct topic *topic, enum job_state state,
                                 bool backwards, const struct cursor *after)
{
    for (struct list *link = core->walks.next; link != &core->walks; link = link->next) {
        struct list_walk *walk = LIST_ENTRY(link, struct list_walk, link);
        if (walk->whole && walk->topic_made == topic->made && walk->state == state &&
            walk->backwards == backwards && walk->after.first == after->first &&
            walk->after.seq == after->seq)
            return walk;
    }
    return NULL;
}

/* A scan fills it, or pages are taken from it. */
enum walk_stage { FILLING, WHOLE };

static uint32_t count_walks(const struct core *core, enum walk_stage stage,
                            struct list_walk **out_oldest)
{
    uint32_t count = 0;
    *out_oldest = NULL;
    for (struct list *link = core->walks.next; link != &core->walks; link = link->next) {
        struct list_walk *walk = LIST_ENTRY(link, struct list_walk, link);
        if (walk->whole == (stage == WHOLE) && count++ == 0)
            *out_oldest = walk;
    }
    return count;
}

struct list_walk *list_walk_new(struct core *core, const struct topic *topic, enum job_state state,
                                bool backwards, const struct cursor *after)
{
    struct list_walk *walk;
    if (count_walks(core, FILLING, &walk) >= LIST_WALKS_MAX)
        return NULL;
    walk = mem_zalloc(sizeof(*walk));
    walk->topic = topic->number;
    walk->topic_made = topic->made;
    walk->state = state;
    walk->backwards = backwards;
    walk->after = *after;
    walk->until_us = INT64_MAX;
    top_k_init(&walk->found, LIST_WALK_MAX, backwards ? top_k_due_after : top_k_due_before, NULL);
    list_init(&walk->link);
    list_add_tail(&core->walks, &walk->link);
    return walk;
}

void list_walk_found(struct list_walk *walk)
{
    CHECK(!walk->whole);
    walk->whole = true;
    walk->cut = walk->found.more;
    if (walk->found.count == 0)
        return;
    walk->bound = walk->found.entries[0]; /* the heap still has the last in order on top */
    for (uint32_t place = walk->found.count / 2; place > 0; place--)
        sift_down(walk, place - 1, walk->found.entries[place - 1]);
}

/* ---- pages ---- */

static bool is_as_found(const struct core *core, const struct list_walk *walk,
                        const struct top_k_entry *entry)
{
    if (!pool_has(&core->jobs, entry->number))
        return false;
    const struct job *job = core_job(core, entry->number);
    return job->state == walk->state && job->topic == walk->topic && job->seq == entry->seq &&
           job->due_us == entry->due_us;
}

/* Is the walk empty, or can its first entry be shown? Not if its job has left, or was taken
 * already. */
static bool is_in_front(const struct core *core, const struct list_walk *walk)
{
    const struct top_k_entry *first = walk->found.entries;
    return walk->found.count == 0 || (is_behind(walk, first) && is_as_found(core, walk, first));
}

/* Drops the first entries that cannot be shown. False: there are more than a page may skip. */
static bool skip(struct core *core, struct list_walk *walk)
{
    uint32_t before = walk->skipped;
    bool found;
    for (; !(found = is_in_front(core, walk)) && walk->skipped < SKIPPED_MAX; walk->skipped++)
        (void)pop(walk);
    budget_spend(core->budget, (int64_t)(walk->skipped - before) * SKIP_NS);
    return found;
}

enum err list_walk_take(struct core *core, struct list_walk *walk, struct top_k_entry *out_entry)
{
    if (!skip(core, walk))
        return ERR_AGAIN;
    if (walk->found.count == 0)
        return ERR_NOT_FOUND;
    *out_entry = pop(walk);
    walk->after = (struct cursor){.first = out_entry->due_us, .seq = out_entry->seq};
    return OK;
}

bool list_walk_more(struct core *core, struct list_walk *walk)
{
    return !skip(core, walk) || walk->found.count > 0 || walk->cut;
}

void list_walk_keep(struct core *core, struct list_walk *walk)
{
    walk->skipped = 0;
    walk->until_us = time_add(core->now_us, IDLE_US);
    list_remove(&walk->link);
    struct list_walk *oldest;
    if (count_walks(core, WHOLE, &oldest) >= LIST_WALKS_MAX)
        list_walk_end(oldest);
    list_add_tail(&core->walks, &walk->link);
}

/* ---- jobs that are added meanwhile ---- */

void list_walks_entered(struct core *core, uint32_t number)
{
    const struct job *job = core_job(core, number);
    struct top_k_entry entry = entry_of(job, number);
    uint64_t made = topics_at(&core->topics, job->topic)->made;
    for (struct list *link = core->walks.next; link != &core->walks;) {
        struct list_walk *walk = LIST_ENTRY(link, struct list_walk, link);
        link = link->next;
        if (made != walk->topic_made || job->state != walk->state || !is_behind(walk, &entry))
            continue;
        if (!walk->whole)
            top_k_offer(&walk->found, &entry);
        else if (walk->found.count >= ENTRIES_MAX)
            list_walk_end(walk);
        else if (!walk->cut || !precedes(walk, &walk->bound, &entry))
            push(walk, entry);
    }
}

/* ---- their end ---- */

void list_walks_expire(struct core *core)
{
    for (struct list *link = core->walks.next; link != &core->walks;) {
        struct list_walk *walk = LIST_ENTRY(link, struct list_walk, link);
        link = link->next;
        if (walk->whole && (walk->until_us <= core->now_us || !core_has_memory(core)))
            list_walk_end(walk);
    }
}

int64_t list_walks_next_us(const struct core *core)
{
    struct list_walk *oldest;
    return count_walks(core, WHOLE, &oldest) > 0 ? oldest->until_us : INT64_MAX;
}

void list_walks_fini(struct core *core)
{
    while (!list_empty(&core->walks))
        list_walk_end(LIST_ENTRY(core->walks.next, struct list_walk, link));
}

static bool has_entry(const struct list_walk *walk, const struct top_k_entry *entry)
{
    bool found = false;
    for (uint32_t i = 0; i < walk->found.count && !found; i++) {
        const struct top_k_entry *at = &walk->found.entries[i];
        found = at->number == entry->number && at->seq == entry->seq && at->due_us == entry->due_us;
    }
    return found;
}

static void walk_valid(const struct core *core, const struct list_walk *walk)
{
    const struct top_k_entry *at = walk->found.entries;
    for (uint32_t i = 1; i < walk->found.count; i++)
        CHECK(!precedes(walk, &at[i], &at[(i - 1) / 2]));
    for (uint32_t i = pool_next(&core->jobs, 0); i != POOL_NONE;
         i = pool_next(&core->jobs, i + 1)) {
        const struct job *job = core_job(core, i);
        struct top_k_entry entry = entry_of(job, i);
        bool wanted = job->topic == walk->topic && job->state == walk->state &&
                      is_behind(walk, &entry) &&
                      (!walk->cut || !precedes(walk, &walk->bound, &entry));
        CHECK(!wanted || has_entry(walk, &entry));
    }
}

static bool has_topic(const struct core *core, const struct list_walk *walk)
{
    return pool_has(&core->topics.pool, walk->topic) &&
           topics_at(&core->topics, walk->topic)->made == walk->topic_made;
}

void list_walks_valid(const struct core *core)
{
    for (const struct list *link = core->walks.next; link != &core->walks; link = link->next) {
        const struct list_walk *walk = LIST_ENTRY(link, const struct list_walk, link);
        if (walk->whole && has_topic(core, walk))
            walk_valid(core, walk);
    }
}
