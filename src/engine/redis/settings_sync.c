#include "engine/redis/settings_sync.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"

enum { SWEPT_AT_ONCE = 500 };

struct known_settings {
    uint32_t number;   /* in the pool */
    uint32_t round;    /* in which it was seen last */
    struct list place; // settings_sync::all
    uint64_t version;
    uint64_t own; /* settings_sync::own when a change of ours was the last one; else 0 */
    struct buf topic, text;
};

/* ---- what is known ---- */

static uint64_t name_hash(struct bytes name)
{
    return hash_of(name.at, name.len);
}

static bool has_name(const void *ctx, uint32_t number, const void *key)
{
    const struct settings_sync *sync = ctx;
    const struct known_settings *known = pool_at(&sync->topics, number);
    return bytes_eq(buf_bytes(&known->topic), *(const struct bytes *)key);
}

static struct known_settings *find(const struct settings_sync *sync, struct bytes topic)
{
    uint32_t number = map_find(&sync->by_name, name_hash(topic), &topic);
    return number == MAP_NONE ? NULL : pool_at(&sync->topics, number);
}

static struct known_settings *first(const struct settings_sync *sync)
{
    bool none = list_empty(&sync->all);
    return none ? NULL : LIST_ENTRY(sync->all.next, struct known_settings, place);
}

static struct known_settings *add(struct settings_sync *sync, struct bytes topic)
{
    uint32_t number = pool_take(&sync->topics);
    struct known_settings *known = pool_at(&sync->topics, number);
    known->number = number;
    buf_add_bytes(&known->topic, topic);
    list_add_tail(&sync->all, &known->place);
    map_add(&sync->by_name, name_hash(topic), number);
    return known;
}

static void drop(struct settings_sync *sync, struct known_settings *known)
{
    map_remove(&sync->by_name, name_hash(buf_bytes(&known->topic)), known->number);
    list_remove(&known->place);
    buf_fini(&known->topic);
    buf_fini(&known->text);
    pool_give(&sync->topics, known->number);
}

/* Those that were not seen in this round come first in `all`. */
static void mark_seen(struct settings_sync *sync, struct known_settings *known)
{
    known->round = sync->round;
    list_remove(&known->place);
    list_add_tail(&sync->all, &known->place);
}

static void mark_unseen(struct settings_sync *sync, struct known_settings *known)
{
    known->round = 0;
    list_remove(&known->place);
    list_add_head(&sync->all, &known->place);
}

static void notify(const struct settings_sync *sync, struct bytes topic, uint64_t version,
                   struct bytes settings)
{
    if (sync->observer)
        sync->observer->changed(sync->observer, topic, version, settings);
}

static void set(struct settings_sync *sync, struct bytes topic, uint64_t version,
                struct bytes settings)
{
    struct known_settings *known = find(sync, topic);
    if (!known)
        known = add(sync, topic);
    known->version = version;
    mark_seen(sync, known);
    known->own = 0;
    known->text.len = 0;
    buf_add_bytes(&known->text, settings);
    notify(sync, topic, version, settings);
}

static void take_away(struct settings_sync *sync, struct known_settings *known, uint64_t version)
{
    notify(sync, buf_bytes(&known->topic), version, (struct bytes){0});
    drop(sync, known);
}

/* ---- pages ---- */

/*
 * Applies a page's entry. A change of ours that was answered after the page was requested is newer,
 * unless the page has a higher version.
 */
static void take_one(struct settings_sync *sync, struct bytes topic, uint64_t version,
                     struct bytes settings)
{
    struct known_settings *known = find(sync, topic);
    bool newer = known && known->own > sync->asked_own;
    if (known)
        mark_seen(sync, known);
    if (newer && !settings.len)
        sync->stale = true; /* the order of the two is unknown */
    else if (newer && version < known->version)
        return;
    else if (!settings.len && known)
        take_away(sync, known, version);
    else if (settings.len && (!known || known->version != version))
        set(sync, topic, version, settings);
}

static void take_page(struct settings_sync *sync, const struct script_settings *page)
{
    for (uint32_t i = 0; i < page->count; i++) {
        uint64_t version;
        struct bytes settings = script_settings_of(page, i, &version);
        take_one(sync, page->at[2 * i], version, settings);
    }
}

/* All pages were read, and what was in none is removed. */
static void end_walk(struct settings_sync *sync)
{
    sync->pending = sync->walks = false;
    sync->loaded = true;
    sync->changes = sync->walked;
}

/*
 * All pages were read: removes settings that were in none, unless we have set them since the first
 * page. Our change may be older, and its answer late: then others have removed them. A slice in
 * each turn: if the key was lost it may be a hundred thousand.
 */
static void sweep(struct timer *timer)
{
    struct settings_sync *sync = LIST_ENTRY(timer, struct settings_sync, sweep);
    for (unsigned i = 0; i < SWEPT_AT_ONCE; i++) {
        struct known_settings *known = first(sync);
        if (!known || known->round == sync->round) {
            end_walk(sync);
            return;
        }
        if (known->own > sync->walk_own && known->version > sync->walked_version)
            mark_seen(sync, known);
        else
            take_away(sync, known, sync->walked_version);
    }
    loop_arm(sync->options.loop, timer, sync->options.loop->now_us + 1); /* not in this turn */
}

static void begin_sweep(struct settings_sync *sync)
{
    sync->pending = true; /* no call until it ends: a page would begin another round */
    sweep(&sync->sweep);
}

static void ask(struct settings_sync *sync);

static void begin_walk(struct settings_sync *sync)
{
    sync->stale = false;
    sync->walks = true;
    sync->walk_own = sync->own;
    sync->round++;
    sync->from.len = 0;
    buf_add_str(&sync->from, "0");
    ask(sync);
}

/* The page's cursor may be another server's, which leaves some topics out: the partition was opened
 * again since, or its slot is being moved, so that another node answers (ASK). */
static bool has_lost_cursor(const struct settings_sync *sync, const struct script_request *call)
{
    return sync->reopened || call->answered_by != sync->read_at;
}

static void walked(struct settings_sync *sync, const struct script_request *call,
                   const struct script_settings *page)
{
    if (bytes_eq(buf_bytes(&sync->from), BYTES("0"))) { /* the first one */
        sync->walked = page->changes;
        sync->walked_version = page->version;
        sync->reopened = false;
        sync->read_at = call->answered_by;
    } else if (has_lost_cursor(sync, call)) {
        begin_walk(sync);
        return;
    }
    take_page(sync, page);
    sync->from.len = 0;
    buf_add_bytes(&sync->from, page->from);
    if (page->more)
        ask(sync);
    else
        begin_sweep(sync);
}

static void fetched(struct settings_sync *sync, const struct script_settings *page)
{
    if (page->err) {
        begin_walk(sync);
        return;
    }
    take_page(sync, page);
    sync->changes = page->changes;
    if (page->more)
        ask(sync);
}

/* A page that fails is requested again after the next heartbeat. */
static void answered(void *owner, struct script_request *call, enum err err,
                     const struct bytes *parts, uint32_t count)
{
    struct settings_sync *sync = owner;
    struct script_parts received = {.partition = call->id.partition, .at = parts, .count = count};
    struct script_settings page;
    sync->pending = false;
    if (!err)
        err = script_read_settings(&received, sync->walks, &page);
    if (err) {
        sync->stale = sync->stale || sync->walks;
        sync->walks = false;
    } else if (sync->walks) {
        walked(sync, call, &page);
    } else {
        fetched(sync, &page);
    }
}

static void ask(struct settings_sync *sync)
{
    struct script_request *call = script_requests_new_unkept(sync->options.calls, 0);
    script_encode_settings(&call->request, sync->options.space, &call->id, sync->changes,
                           sync->walks ? buf_bytes(&sync->from) : (struct bytes){0});
    sync->pending = true;
    sync->asked_own = sync->own;
    sync->pages++;
    script_requests_send(call, sync, answered);
}

/* ---- calls of the engine ---- */

void settings_sync_init(struct settings_sync *sync, const struct settings_sync_options *options)
{
    *sync = (struct settings_sync){.options = *options, .stale = true, .sweep.expired = sweep};
    pool_init(&sync->topics, sizeof(struct known_settings));
    map_init(&sync->by_name, has_name, sync);
    list_init(&sync->all);
}

void settings_sync_fini(struct settings_sync *sync)
{
    loop_cancel(sync->options.loop, &sync->sweep);
    for (struct known_settings *known; (known = first(sync));)
        drop(sync, known);
    pool_fini(&sync->topics);
    map_fini(&sync->by_name);
    buf_fini(&sync->from);
}

void settings_sync_observe(struct settings_sync *sync, struct settings_observer *observer)
{
    sync->observer = observer;
    for (struct list *at = sync->all.next; at != &sync->all; at = at->next) {
        struct known_settings *known = LIST_ENTRY(at, struct known_settings, place);
        notify(sync, buf_bytes(&known->topic), known->version, buf_bytes(&known->text));
    }
}

bool settings_sync_has(const struct settings_sync *sync, struct bytes topic)
{
    return find(sync, topic) != NULL;
}

bool settings_sync_is_whole(const struct settings_sync *sync)
{
    return sync->loaded && !sync->pending;
}

/* The key stays when the last settings are removed. So if it existed and now there were no changes,
 * it was deleted or evicted, because opening the partition again would have been noticed. */
static void see_loss(struct settings_sync *sync, uint64_t changes)
{
    bool lost = changes == 0 && (sync->lost || sync->existed);
    sync->existed = sync->existed || changes > 0;
    if (lost && !sync->lost)
        log_event(LOG_ERROR, "redis_unfit", "key={%s:0}:s reason=\"%s\" hint=\"%s\"",
                  sync->options.space->prefix, "the key with all topics' settings was lost",
                  "set them again, set maxmemory-policy to noeviction, and let nobody else write "
                  "to these keys");
    else if (!lost && sync->lost)
        log_event(LOG_INFO, "redis_fit", "reason=\"topics have settings again\"");
    sync->lost = lost;
}

void settings_sync_heartbeat(struct settings_sync *sync, uint64_t changes)
{
    if (changes == (uint64_t)SCRIPT_FOREVER || sync->pending)
        return;
    see_loss(sync, changes);
    if (changes == 0 && list_empty(&sync->all)) { /* there were no settings before either */
        sync->loaded = true;
        sync->stale = false;
        sync->changes = 0;
    } else if (sync->stale || !sync->loaded || changes < sync->changes || sync->lost) {
        begin_walk(sync);
    } else if (changes > sync->changes) {
        ask(sync);
    }
}

void settings_sync_opened(struct settings_sync *sync)
{
    sync->stale = sync->reopened = true;
    sync->existed = sync->lost = false; /* the loss is accepted */
}

void settings_sync_changed(struct settings_sync *sync, struct bytes topic, uint64_t version,
                           struct bytes settings, bool resent)
{
    struct known_settings *known = find(sync, topic);
    sync->own++;
    sync->stale = sync->stale || resent;
    sync->existed = sync->existed || settings.len;
    if (known && known->version >= version)
        return; /* others have changed it since */
    if (!settings.len) {
        if (known)
            take_away(sync, known, version);
        return;
    }
    set(sync, topic, version, settings);
    known = find(sync, topic);
    known->own = sync->own;
    mark_unseen(sync, known); /* it is in no page */
}
