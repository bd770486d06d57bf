/*
 * A topic's entry lives while it has settings, or until the listener was notified that it has none
 * any more. Decoded settings are dropped when REGISTRY_KEPT others were looked up since.
 *
 * Invariants: an entry is in `by_topic`; one that the listener must still be notified of is in
 * `fresh`; one with `kept` is in `recent`, and counts as a holder of it.
 */
#include "dispatch/registry.h"

#include <xxhash.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/pool.h"

enum { READ_NS = 6000, ROOM_BYTES = 64 };

/* What the first decoding of a topic's settings has found; it is kept when they are dropped. */
enum finding { NOT_READ, UNREADABLE, WITHOUT_TARGET, PUSHED };

struct topic_entry {
    uint32_t number; /* in the pool */
    uint8_t name_len;
    enum finding finding;
    uint64_t hash;
    uint64_t version;
    char *name;         /* with the text after it; one allocation */
    uint32_t text_len;  /* 0: it has no settings any more */
    struct list fresh;  // registry::fresh
    struct list recent; // registry::recent
    struct settings_kept *kept;
};

struct registry {
    struct registry_options options;
    struct settings_observer observer;
    struct registry_listener *listener;
    struct pool pool;
    struct map by_topic;
    struct list fresh;  // topic_entry::fresh: the listener is to be notified
    struct list recent; // topic_entry::recent: those with `kept`, the one looked up last at the end
    uint32_t kept_count;
    uint32_t count; /* topics with settings */
    struct arena scratch;
};

/* ---- entries ---- */

static bool entry_is(const void *ctx, uint32_t number, const void *key)
{
    const struct topic_entry *entry = pool_at(ctx, number);
    return bytes_eq(bytes_of(entry->name, entry->name_len), *(const struct bytes *)key);
}

static uint64_t hash_of(const struct registry *registry, struct bytes topic)
{
    return XXH3_64bits_withSeed(topic.at, topic.len, registry->options.hash_key);
}

static struct topic_entry *find(const struct registry *registry, struct bytes topic)
{
    if (map_count(&registry->by_topic) == 0)
        return NULL;
    uint32_t number = map_find(&registry->by_topic, hash_of(registry, topic), &topic);
    return number == MAP_NONE ? NULL : pool_at(&registry->pool, number);
}

static struct bytes name_of(const struct topic_entry *entry)
{
    return bytes_of(entry->name, entry->name_len);
}

static struct bytes text_of(const struct topic_entry *entry)
{
    return bytes_of(entry->name + entry->name_len, entry->text_len);
}

static void forget_kept(struct registry *registry, struct topic_entry *entry)
{
    if (!entry->kept)
        return;
    list_remove(&entry->recent);
    registry->kept_count--;
    settings_drop(entry->kept);
    entry->kept = NULL;
}

static void entry_free(struct registry *registry, struct topic_entry *entry)
{
    forget_kept(registry, entry);
    list_remove(&entry->fresh);
    map_remove(&registry->by_topic, entry->hash, entry->number);
    mem_free(entry->name);
    entry->name = NULL; /* tells registry_free() that it is free */
    pool_give(&registry->pool, entry->number);
}

static struct topic_entry *make(struct registry *registry, struct bytes topic)
{
    uint32_t number = pool_take(&registry->pool);
    struct topic_entry *entry = pool_at(&registry->pool, number);
    entry->number = number;
    entry->name_len = (uint8_t)topic.len;
    entry->hash = hash_of(registry, topic);
    list_init(&entry->fresh);
    list_init(&entry->recent);
    return entry;
}

/* ---- the observer ---- */

static void keep_text(struct topic_entry *entry, struct bytes topic, struct bytes text)
{
    char *room = mem_alloc(topic.len + text.len + 1); /* may be an empty one */
    memcpy(room, topic.at, topic.len);
    if (text.len)
        memcpy(room + topic.len, text.at, text.len);
    mem_free(entry->name);
    entry->name = room;
    entry->text_len = (uint32_t)text.len;
}

static void changed(struct settings_observer *observer, struct bytes topic, uint64_t version,
                    struct bytes settings)
{
    struct registry *registry = LIST_ENTRY(observer, struct registry, observer);
    CHECK(topic.len <= TOPIC_NAME_MAX && settings.len <= TOPIC_SETTINGS_MAX);
    struct topic_entry *entry = find(registry, topic);
    if (!entry && !settings.len)
        return;
    bool fresh = !entry;
    if (fresh)
        entry = make(registry, topic);
    else if (entry->version == version && bytes_eq(text_of(entry), settings))
        return; /* the same version. A lower one is accepted: a failover may have lost the last */
    registry->count -= entry->text_len > 0;
    registry->count += settings.len > 0;
    forget_kept(registry, entry);
    keep_text(entry, topic, settings);
    entry->version = version;
    entry->finding = NOT_READ;
    if (fresh)
        map_add(&registry->by_topic, entry->hash, entry->number);
    list_remove(&entry->fresh);
    list_add_tail(&registry->fresh, &entry->fresh);
}

/* ---- reading ---- */

void settings_hold(struct settings_kept *kept)
{
    kept->holders++;
}

void settings_drop(struct settings_kept *kept)
{
    if (kept && --kept->holders == 0)
        mem_free(kept);
}

static void complain(const struct topic_entry *entry, const struct settings_problem *problem)
{
    struct bytes name = name_of(entry);
    char text[TOPIC_NAME_MAX + 1];
    memcpy(text, name.at, name.len);
    text[name.len] = '\0';
    log_event(LOG_ERROR, "topic_settings_unreadable",
              "topic=\"%s\" version=%llu field=%s why=\"%s\" "
              "hint=\"this topic works as if it had no settings; set them again\"",
              text, (unsigned long long)entry->version, problem->field, problem->detail);
}

/*
 * Decodes twice: into scratch, to learn the size, then into a block of that size, which is a
 * fraction of what an arena of its own would take.
 */
static struct settings_kept *read_settings(struct registry *registry, struct topic_entry *entry,
                                           struct settings_problem *out_problem)
{
    struct topic_settings settings;
    struct bytes text = text_of(entry);
    *out_problem = (struct settings_problem){0};
    arena_reset(&registry->scratch);
    (void)arena_alloc(&registry->scratch, 1); /* so that there is a block */
    size_t before = registry->scratch.held - registry->scratch.left;
    if (registry->options.read(text, &registry->scratch, &settings, out_problem))
        return NULL;
    size_t used = registry->scratch.held - registry->scratch.left - before;
    size_t head = (sizeof(struct settings_kept) + 15) & ~(size_t)15;
    char *room = mem_alloc(head + ((text.len + 15) & ~(size_t)15) + used + ROOM_BYTES);
    struct settings_kept *kept = (void *)room;
    char *copy = room + head;
    memcpy(copy, text.at, text.len);
    struct arena exact = {.next = copy + ((text.len + 15) & ~(size_t)15),
                          .left = used + ROOM_BYTES};
    *kept = (struct settings_kept){.version = entry->version, .holders = 1};
    enum err err =
        registry->options.read(bytes_of(copy, text.len), &exact, &kept->settings, out_problem);
    CHECK(!err && !exact.block); /* the same text takes the same space */
    return kept;
}

static void make_room(struct registry *registry)
{
    if (registry->kept_count < REGISTRY_KEPT)
        return;
    forget_kept(registry, LIST_ENTRY(registry->recent.next, struct topic_entry, recent));
}

/* The settings of an entry, or NULL. */
static struct settings_kept *look_at(struct registry *registry, struct topic_entry *entry)
{
    struct settings_problem problem;
    if (entry->kept) {
        list_remove(&entry->recent);
        list_add_tail(&registry->recent, &entry->recent);
        return entry->kept;
    }
    if (!entry->text_len || entry->finding == UNREADABLE)
        return NULL;
    entry->kept = read_settings(registry, entry, &problem);
    if (!entry->kept) {
        entry->finding = UNREADABLE;
        complain(entry, &problem);
        return NULL;
    }
    bool pushed = entry->kept->settings.target.type != TARGET_NONE;
    entry->finding = pushed ? PUSHED : WITHOUT_TARGET;
    make_room(registry);
    registry->kept_count++;
    list_add_tail(&registry->recent, &entry->recent);
    return entry->kept;
}

/* ---- the rest of the interface ---- */

struct registry *registry_new(const struct registry_options *options)
{
    struct registry *registry = mem_zalloc(sizeof(*registry));
    registry->options = *options;
    registry->observer.changed = changed;
    pool_init(&registry->pool, sizeof(struct topic_entry));
    map_init(&registry->by_topic, entry_is, &registry->pool);
    list_init(&registry->fresh);
    list_init(&registry->recent);
    return registry;
}

void registry_free(struct registry *registry)
{
    if (!registry)
        return;
    for (uint32_t i = pool_next(&registry->pool, 0); i != POOL_NONE;
         i = pool_next(&registry->pool, i + 1)) {
        struct topic_entry *entry = pool_at(&registry->pool, i);
        if (entry->name)
            entry_free(registry, entry);
    }
    map_fini(&registry->by_topic);
    pool_fini(&registry->pool);
    arena_fini(&registry->scratch);
    mem_free(registry);
}

struct settings_observer *registry_observer(struct registry *registry)
{
    return &registry->observer;
}

void registry_listen(struct registry *registry, struct registry_listener *listener)
{
    registry->listener = listener;
}

const struct topic_settings *registry_find(struct registry *registry, struct bytes topic,
                                           uint64_t *out_version)
{
    struct topic_entry *entry = find(registry, topic);
    struct settings_kept *kept = entry ? look_at(registry, entry) : NULL;
    if (kept && out_version)
        *out_version = kept->version;
    return kept ? &kept->settings : NULL;
}

struct settings_kept *registry_hold(struct registry *registry, struct bytes topic)
{
    struct topic_entry *entry = find(registry, topic);
    struct settings_kept *kept = entry ? look_at(registry, entry) : NULL;
    if (kept)
        settings_hold(kept);
    return kept;
}

bool registry_text(const struct registry *registry, struct bytes topic, struct bytes *out_text,
                   uint64_t *out_version)
{
    const struct topic_entry *entry = find(registry, topic);
    if (!entry || !entry->text_len)
        return false;
    *out_text = text_of(entry);
    *out_version = entry->version;
    return true;
}

bool registry_is_pushed(struct registry *registry, struct bytes topic)
{
    struct topic_entry *entry = find(registry, topic);
    if (!entry)
        return false;
    if (entry->finding == NOT_READ)
        (void)look_at(registry, entry);
    return entry->finding == PUSHED;
}

uint32_t registry_count(const struct registry *registry)
{
    return registry->count;
}

bool registry_wants_step(const struct registry *registry)
{
    return !list_empty(&registry->fresh);
}

bool registry_step(struct registry *registry, struct budget *budget)
{
    while (!list_empty(&registry->fresh)) {
        if (budget && budget_spent(budget))
            return true;
        struct topic_entry *entry = LIST_ENTRY(registry->fresh.next, struct topic_entry, fresh);
        list_remove(&entry->fresh);
        struct settings_kept *kept = look_at(registry, entry);
        if (budget)
            budget_spend(budget, READ_NS);
        if (registry->listener)
            registry->listener->changed(registry->listener, name_of(entry), kept);
        if (!entry->text_len)
            entry_free(registry, entry);
    }
    (void)pool_trim(&registry->pool);
    return false;
}
