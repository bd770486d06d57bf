#include "store/format.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "base/hex.h"

/* First eight bytes of each kind of block, chosen to be readable in a hex dump. */
#define MANIFEST_MAGIC UINT64_C(0x464e414d44544c01) /* "\1LTDMANF" */
#define SEGMENT_MAGIC  UINT64_C(0x4d47455344544c01) /* "\1LTDSEGM" */
#define SPARE_MAGIC    UINT64_C(0x5241505344544c01) /* "\1LTDSPAR" */
#define BATCH_MAGIC    UINT32_C(0x4842544c)         /* "LTBH" */

enum { SUM_AT = BLOCK - 8 }; /* manifest slot and segment header: checksum in the last bytes */

enum { FOLLOWERS_AT = 128, FOLLOWER_BYTES = 64 }; /* in a manifest's slot */

static_assert(FOLLOWERS_AT + FOLLOWERS_MAX * FOLLOWER_BYTES <= SUM_AT, "the followers fit");
static_assert(BATCH_HEAD % 8 == 0, "records begin aligned");

/* ---- manifest ---- */

/* 64 bytes for each: name, cursor, state. */
static void encode_followers(const struct manifest *manifest, char *at)
{
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++, at += FOLLOWER_BYTES) {
        const struct manifest_follower *follower = &manifest->followers[i];
        memcpy(at, follower->name, FOLLOWER_NAME_MAX);
        put_u64(at + FOLLOWER_NAME_MAX, follower->cursor);
        put_u8(at + FOLLOWER_NAME_MAX + 8, follower->dropped);
    }
}

static void decode_followers(const char *at, struct manifest *manifest)
{
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++, at += FOLLOWER_BYTES) {
        struct manifest_follower *follower = &manifest->followers[i];
        memcpy(follower->name, at, FOLLOWER_NAME_MAX);
        follower->cursor = get_u64(at + FOLLOWER_NAME_MAX);
        follower->dropped = get_u8(at + FOLLOWER_NAME_MAX + 8) & 1;
    }
}

void manifest_encode(const struct manifest *manifest, void *slot)
{
    char *at = slot;
    memset(at, 0, BLOCK);
    put_u64(at + 0, MANIFEST_MAGIC);
    put_u32(at + 8, manifest->incompatible ? FORMAT_VERSION_FEATURES : FORMAT_VERSION);
    put_u32(at + 12, manifest->clean ? 1 : 0);
    memcpy(at + 16, manifest->id.bytes, sizeof(manifest->id.bytes));
    put_u64(at + 32, manifest->generation);
    put_u64(at + 40, manifest->boot);
    put_u64(at + 48, manifest->batch_first);
    put_u64(at + 56, manifest->durable);
    put_u64(at + 64, manifest->seq_mark);
    put_u32(at + 72, manifest->number_next);
    put_u64(at + 80, manifest->lease_mark);
    put_u32(at + 88, manifest->compatible);
    put_u32(at + 92, manifest->incompatible);
    put_u64(at + 96, manifest->epoch);
    put_u64(at + 104, manifest->incompatible & FEATURE_REUSE ? manifest->secret : 0);
    encode_followers(manifest, at + FOLLOWERS_AT);
    put_u64(at + SUM_AT, hash_of(at, SUM_AT));
}

enum format_verdict manifest_decode(const void *slot, struct manifest *out_manifest)
{
    const char *at = slot;
    if (bytes_all_zero(at, BLOCK))
        return FORMAT_BLANK;
    if (get_u64(at) != MANIFEST_MAGIC || get_u64(at + SUM_AT) != hash_of(at, SUM_AT))
        return FORMAT_BAD;
    if (get_u32(at + 8) > FORMAT_VERSION_FEATURES)
        return FORMAT_NEWER;
    struct manifest manifest = {
        .version = get_u32(at + 8),
        .clean = get_u32(at + 12) & 1,
        .generation = get_u64(at + 32),
        .boot = get_u64(at + 40),
        .batch_first = get_u64(at + 48),
        .durable = get_u64(at + 56),
        .seq_mark = get_u64(at + 64),
        .number_next = get_u32(at + 72),
        .lease_mark = get_u64(at + 80),
        .compatible = get_u32(at + 88),
        .incompatible = get_u32(at + 92),
        .epoch = get_u64(at + 96),
        .secret = get_u64(at + 104),
    };
    decode_followers(at + FOLLOWERS_AT, &manifest);
    if (manifest.generation == 0 || manifest.batch_first == 0 || manifest.seq_mark == 0)
        return FORMAT_BAD; /* the checksum is valid, but laterd never writes this */
    memcpy(manifest.id.bytes, at + 16, sizeof(manifest.id.bytes));
    *out_manifest = manifest;
    return FORMAT_GOOD;
}

int manifest_unknown_feature(const struct manifest *manifest)
{
    uint32_t unknown = manifest->incompatible & ~FEATURES_INCOMPATIBLE;
    return unknown ? __builtin_ctz(unknown) : -1;
}

/* ---- segment header ---- */

void segment_head_encode(const struct segment_head *head, void *block)
{
    CHECK(head->batch_first > 0 && head->size_bytes >= 2 * BLOCK);
    char *at = block;
    memset(at, 0, BLOCK);
    put_u64(at + 0, SEGMENT_MAGIC);
    put_u32(at + 8, head->version);
    put_u32(at + 12, head->number);
    memcpy(at + 16, head->id.bytes, sizeof(head->id.bytes));
    put_u64(at + 32, head->batch_first);
    put_u64(at + 40, head->seq_mark);
    put_u64(at + 48, head->size_bytes);
    put_u32(at + 56, head->number_next);
    put_u64(at + 64, head->key);
    put_u64(at + SUM_AT, hash_of(at, SUM_AT));
}

void spare_head_encode(const struct store_id *id, void *block)
{
    char *at = block;
    memset(at, 0, BLOCK);
    put_u64(at + 0, SPARE_MAGIC);
    put_u32(at + 8, FORMAT_VERSION);
    memcpy(at + 16, id->bytes, sizeof(id->bytes));
    put_u64(at + SUM_AT, hash_of(at, SUM_AT));
}

enum format_verdict segment_head_decode(const void *block, struct segment_head *out_head)
{
    const char *at = block;
    if (bytes_all_zero(at, BLOCK))
        return FORMAT_BLANK;
    uint64_t magic = get_u64(at);
    bool known = magic == SEGMENT_MAGIC || magic == SPARE_MAGIC;
    if (!known || get_u64(at + SUM_AT) != hash_of(at, SUM_AT))
        return FORMAT_BAD;
    if (get_u32(at + 8) > FORMAT_VERSION)
        return FORMAT_NEWER;
    if (magic == SPARE_MAGIC)
        return FORMAT_SPARE;
    struct segment_head head = {
        .version = get_u32(at + 8),
        .number = get_u32(at + 12),
        .batch_first = get_u64(at + 32),
        .seq_mark = get_u64(at + 40),
        .size_bytes = get_u64(at + 48),
        .number_next = get_u32(at + 56),
        .key = get_u64(at + 64),
    };
    if (head.batch_first == 0 || head.size_bytes < 2 * BLOCK || head.size_bytes % BLOCK != 0)
        return FORMAT_BAD; /* as in manifest_decode() */
    memcpy(head.id.bytes, at + 16, sizeof(head.id.bytes));
    *out_head = head;
    return FORMAT_GOOD;
}

/* ---- batch ---- */

size_t batch_head_encode(const struct batch_head *head, void *batch)
{
    char *at = batch;
    size_t used = BATCH_HEAD + head->payload_bytes;
    CHECK(head->number > 0 && head->durable < head->number);
    size_t whole = batch_bytes(head->payload_bytes);
    put_u32(at + 8, BATCH_MAGIC);
    put_u32(at + 12, FORMAT_VERSION);
    put_u64(at + 16, head->number);
    put_u64(at + 24, head->durable);
    put_u64(at + 32, head->seq_mark);
    put_u32(at + 40, head->segment);
    put_u32(at + 44, head->store_tag);
    put_u32(at + 48, head->payload_bytes);
    put_u32(at + 52, head->record_count);
    put_u64(at + 56, (uint64_t)head->clock_us);
    memset(at + used, 0, whole - used);
    return whole;
}

void batch_sign(void *batch, size_t len, uint64_t key)
{
    CHECK(len >= BLOCK && len % BLOCK == 0);
    char *at = batch;
    put_u64(at, hash_seeded(at + 8, len - 8, key));
}

enum format_verdict batch_head_decode(const void *batch, uint64_t room, struct batch_head *out_head)
{
    const char *at = batch;
    if (room < BLOCK || bytes_all_zero(at, BATCH_HEAD))
        return FORMAT_BLANK;
    struct batch_head head = {
        .number = get_u64(at + 16),
        .durable = get_u64(at + 24),
        .seq_mark = get_u64(at + 32),
        .segment = get_u32(at + 40),
        .store_tag = get_u32(at + 44),
        .payload_bytes = get_u32(at + 48),
        .record_count = get_u32(at + 52),
        .clock_us = (int64_t)get_u64(at + 56),
    };
    if (get_u32(at + 8) != BATCH_MAGIC || get_u32(at + 12) != FORMAT_VERSION || head.number == 0 ||
        head.durable >= head.number || batch_bytes(head.payload_bytes) > room)
        return FORMAT_BAD;
    *out_head = head;
    return FORMAT_GOOD;
}

void batch_head_counts(const void *batch, uint32_t *out_payload_bytes, uint32_t *out_record_count)
{
    const char *at = batch;
    *out_payload_bytes = get_u32(at + 48);
    *out_record_count = get_u32(at + 52);
}

bool batch_whole(const struct batch_head *head, const void *batch, uint64_t key)
{
    const char *at = batch;
    size_t whole = batch_bytes(head->payload_bytes);
    return get_u64(at) == hash_seeded(at + 8, whole - 8, key);
}

bool batch_is_of(const void *block, uint32_t segment, uint32_t store_tag)
{
    const char *at = block;
    return get_u32(at + 8) == BATCH_MAGIC && get_u32(at + 40) == segment &&
           get_u32(at + 44) == store_tag;
}

uint64_t segment_key(uint64_t secret, uint32_t number)
{
    char bytes[4];
    put_u32(bytes, number);
    uint64_t key = hash_seeded(bytes, sizeof(bytes), secret);
    return key ? key : 1;
}

/* ---- small things ---- */

uint32_t store_tag(const struct store_id *id)
{
    return (uint32_t)hash_of(id->bytes, sizeof(id->bytes));
}

bool store_id_eq(const struct store_id *a, const struct store_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

bool bytes_all_zero(const void *at, size_t len)
{
    const char *bytes = at;
    /* Each byte equals its neighbour and the first is zero: memcmp does it at memory speed. */
    return len == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0);
}

void segment_name(uint32_t number, char out_name[DISK_NAME_MAX])
{
    int len = snprintf(out_name, DISK_NAME_MAX, SEGMENT_NAME, number);
    CHECK(len == 12);
}

bool segment_name_parse(const char *name, uint32_t *out_number)
{
    enum { PREFIX_LEN = sizeof("wal-") - 1 };
    uint32_t number;
    if (strlen(name) != PREFIX_LEN + HEX_U32_DIGITS || memcmp(name, "wal-", PREFIX_LEN) != 0 ||
        !hex_lower_u32(name + PREFIX_LEN, &number))
        return false;
    *out_number = number;
    return number != 0;
}

#define ASIDE_SUFFIX ".damaged"

void aside_name(uint32_t number, char out_name[DISK_NAME_MAX])
{
    int len = snprintf(out_name, DISK_NAME_MAX, SEGMENT_NAME ASIDE_SUFFIX, number);
    CHECK(len > 0 && len < DISK_NAME_MAX);
}

bool aside_name_parse(const char *name, uint32_t *out_number)
{
    char front[DISK_NAME_MAX] = "";
    size_t len = strlen(name);
    size_t suffix = strlen(ASIDE_SUFFIX);
    if (len <= suffix || len >= DISK_NAME_MAX || strcmp(name + len - suffix, ASIDE_SUFFIX) != 0)
        return false;
    memcpy(front, name, len - suffix);
    return segment_name_parse(front, out_number);
}
