/*
 * Little-endian: version (1), engine (1), state (1), backwards (1), first (8), second (8), seq (8),
 * XXH3 of all this (8), seeded with the XXH3 of the topic. 36 bytes are 48 base64 digits without
 * padding.
 */
#include "base/cursor.h"

#include "base/codec.h"
#include "base/hash.h"

enum { VERSION = 1, SUM_AT = CURSOR_BYTES - 8 };

static uint64_t checksum(const struct listing *listing, const char *at)
{
    return hash_seeded(at, SUM_AT, hash_of(listing->topic.at, listing->topic.len));
}

struct bytes cursor_write(const struct listing *listing, const struct cursor *cursor,
                          char room[CURSOR_BYTES])
{
    room[0] = VERSION;
    room[1] = (char)listing->engine;
    room[2] = (char)listing->state;
    room[3] = listing->backwards;
    put_u64(room + 4, (uint64_t)cursor->first);
    put_u64(room + 12, (uint64_t)cursor->second);
    put_u64(room + 20, cursor->seq);
    put_u64(room + SUM_AT, checksum(listing, room));
    return bytes_of(room, CURSOR_BYTES);
}

enum err cursor_read(const struct listing *listing, struct bytes bytes, struct cursor *out_cursor)
{
    const char head[] = {VERSION, (char)listing->engine, (char)listing->state,
                         (char)listing->backwards};
    if (bytes.len != CURSOR_BYTES || memcmp(bytes.at, head, sizeof(head)) != 0 ||
        get_u64(bytes.at + SUM_AT) != checksum(listing, bytes.at))
        return ERR_INVALID;
    *out_cursor = (struct cursor){
        .first = (int64_t)get_u64(bytes.at + 4),
        .second = (int64_t)get_u64(bytes.at + 12),
        .seq = get_u64(bytes.at + 20),
    };
    return OK;
}
