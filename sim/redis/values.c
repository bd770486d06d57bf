#include "sim/redis/values.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"

static struct bytes copy_of(struct bytes bytes)
{
    char *at = mem_alloc(bytes.len + 1);
    if (bytes.len)
        memcpy(at, bytes.at, bytes.len);
    return bytes_of(at, bytes.len);
}

static void bytes_free(struct bytes bytes)
{
    mem_free((void *)(uintptr_t)bytes.at);
}

static void item_fini(struct value_item *item)
{
    bytes_free(item->member);
    buf_fini(&item->value);
}

static void value_free(struct value *value)
{
    for (size_t i = 0; i < value->count; i++)
        item_fini(&value->items[i]);
    mem_free(value->items);
    buf_fini(&value->string);
    bytes_free(value->name);
    mem_free(value);
}

#ifdef __SANITIZE_ADDRESS__
/* There memmove takes byte after byte, which was half of the time of tests with many keys; memcpy
   does not. */
static void move(void *to, const void *from, size_t len)
{
    static char piece[4096];
    for (size_t done = 0, part; done < len; done += part) {
        part = len - done < sizeof(piece) ? len - done : sizeof(piece);
        size_t at = to < from ? done : len - done - part;
        memcpy(piece, (const char *)from + at, part);
        memcpy((char *)to + at, piece, part);
    }
}
#else
static void move(void *to, const void *from, size_t len)
{
    memmove(to, from, len);
}
#endif

/* ---- keys ---- */

void keyspace_clear(struct keyspace *keys)
{
    for (size_t i = 0; i < keys->count; i++)
        value_free(keys->values[i]);
    mem_free(keys->values);
    mem_free(keys->buckets);
    *keys = (struct keyspace){.scan_order = keys->scan_order};
}

int keyspace_compare(const struct value *a, const struct value *b)
{
    if (a->db != b->db)
        return a->db < b->db ? -1 : 1;
    return bytes_cmp(a->name, b->name);
}

static struct value **bucket_of(const struct keyspace *keys, uint64_t hash)
{
    return &keys->buckets[hash & (keys->cap - 1)];
}

struct value *keyspace_find(struct keyspace *keys, unsigned db, struct bytes name)
{
    if (keys->count == 0)
        return NULL;
    uint64_t hash = hash_seeded(name.at, name.len, db);
    struct value *value = *bucket_of(keys, hash);
    while (value && (value->hash != hash || value->db != db || !bytes_eq(value->name, name)))
        value = value->next;
    return value;
}

static void put_in_bucket(struct keyspace *keys, struct value *value)
{
    struct value **bucket = bucket_of(keys, value->hash);
    value->next = *bucket;
    *bucket = value;
}

static void grow(struct keyspace *keys)
{
    keys->cap = keys->cap ? 2 * keys->cap : 16;
    keys->values = mem_realloc(keys->values, keys->cap * sizeof(*keys->values));
    mem_free(keys->buckets);
    keys->buckets = mem_zalloc(keys->cap * sizeof(*keys->buckets));
    for (size_t i = 0; i < keys->count; i++)
        put_in_bucket(keys, keys->values[i]);
}

static void put_key(struct keyspace *keys, struct value *value)
{
    if (keys->count == keys->cap)
        grow(keys);
    value->hash = hash_seeded(value->name.at, value->name.len, value->db);
    value->place = keys->count;
    keys->values[keys->count++] = value;
    put_in_bucket(keys, value);
}

static void take_key(struct keyspace *keys, const struct value *value)
{
    struct value **link = bucket_of(keys, value->hash);
    while (*link != value)
        link = &(*link)->next;
    *link = value->next;
    struct value *last = keys->values[--keys->count];
    CHECK(keys->values[value->place] == value);
    keys->values[value->place] = last;
    last->place = value->place;
}

struct value *keyspace_add(struct keyspace *keys, unsigned db, struct bytes name,
                           enum value_kind kind)
{
    struct value *value = mem_zalloc(sizeof(*value));
    value->db = db;
    value->name = copy_of(name);
    value->kind = kind;
    put_key(keys, value);
    return value;
}

void keyspace_drop(struct keyspace *keys, struct value *value)
{
    take_key(keys, value);
    value_free(value);
}

void keyspace_rename(struct keyspace *keys, struct value *value, struct bytes name)
{
    take_key(keys, value);
    bytes_free(value->name);
    value->name = copy_of(name);
    put_key(keys, value);
}

/* ---- members ---- */

static struct value_item *insert(struct value *value, size_t at)
{
    if (value->count == value->cap) {
        value->cap = value->cap ? 2 * value->cap : 8;
        value->items = mem_realloc(value->items, value->cap * sizeof(*value->items));
    }
    move(&value->items[at + 1], &value->items[at], (value->count - at) * sizeof(*value->items));
    value->count++;
    value->items[at] = (struct value_item){0};
    return &value->items[at];
}

static void take_out(struct value *value, size_t at)
{
    value->count--;
    move(&value->items[at], &value->items[at + 1], (value->count - at) * sizeof(*value->items));
}

/* They sort as the bytes do, as far as they go: most are compared by them alone. */
static uint64_t first_bytes(struct bytes field)
{
    uint64_t first = 0;
    for (size_t i = 0; i < sizeof(first); i++)
        first = first << 8 | (i < field.len ? (unsigned char)field.at[i] : 0);
    return first;
}

static size_t field_place(const struct value *value, struct bytes field, bool *out_there)
{
    size_t low = 0, high = value->count;
    uint64_t first = first_bytes(field);
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct value_item *item = &value->items[middle];
        if (item->hash != first ? item->hash < first : bytes_cmp(item->member, field) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *out_there = low < value->count && value->items[low].hash == first &&
                 bytes_eq(value->items[low].member, field);
    return low;
}

struct buf *hash_get(const struct value *value, struct bytes field)
{
    bool there;
    size_t at = field_place(value, field, &there);
    return there ? &value->items[at].value : NULL;
}

bool hash_set(struct value *value, struct bytes field, struct bytes content)
{
    bool there;
    size_t at = field_place(value, field, &there);
    struct value_item *item = there ? &value->items[at] : insert(value, at);
    if (!there) {
        item->member = copy_of(field);
        item->hash = first_bytes(field);
    }
    item->value.len = 0;
    buf_add_bytes(&item->value, content);
    return !there;
}

bool hash_remove(struct value *value, struct bytes field)
{
    bool there;
    size_t at = field_place(value, field, &there);
    if (!there)
        return false;
    item_fini(&value->items[at]);
    take_out(value, at);
    return true;
}

size_t zset_find(const struct value *value, struct bytes member)
{
    uint64_t hash = hash_of(member.at, member.len);
    for (size_t i = 0; i < value->count; i++) {
        if (value->items[i].hash == hash && bytes_eq(value->items[i].member, member))
            return i;
    }
    return SIZE_MAX;
}

static size_t zset_place(const struct value *value, struct bytes member, double score)
{
    size_t low = 0, high = value->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct value_item *item = &value->items[middle];
        bool before =
            item->score < score || (item->score <= score && bytes_cmp(item->member, member) < 0);
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void zset_insert(struct value *value, struct value_item added)
{
    *insert(value, zset_place(value, added.member, added.score)) = added;
}

void zset_add(struct value *value, struct bytes member, double score)
{
    zset_insert(value, (struct value_item){.member = copy_of(member),
                                           .hash = hash_of(member.at, member.len),
                                           .score = score});
}

void zset_move(struct value *value, size_t at, double score)
{
    struct value_item moved = value->items[at];
    moved.score = score;
    take_out(value, at);
    zset_insert(value, moved);
}

void zset_remove_at(struct value *value, size_t at)
{
    item_fini(&value->items[at]);
    take_out(value, at);
}
