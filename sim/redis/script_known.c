/*
 * What the engine's scripts are made of and hash to, made once in a process: mk/sim-redis.mk has
 * the linker put these in place of the engine's functions. They are the same for each daemon that a
 * test starts, and to make them again took up to half of the time of tests that start many.
 */
#include "base/bytes.h"
#include "engine/redis/script_parts.h"

void __real_script_sha1(struct bytes text, char out_hex[SCRIPT_DIGEST]);
void __wrap_script_sha1(struct bytes text, char out_hex[SCRIPT_DIGEST]);
void __real_script_write(struct buf *out, enum script_kind kind);
void __wrap_script_write(struct buf *out, enum script_kind kind);

void __wrap_script_sha1(struct bytes text, char out_hex[SCRIPT_DIGEST])
{
    static struct {
        struct buf text;
        char hex[SCRIPT_DIGEST];
    } known[SCRIPT_COUNT];
    unsigned i = 0;
    while (i < SCRIPT_COUNT && known[i].text.len && !bytes_eq(buf_bytes(&known[i].text), text))
        i++;
    if (i == SCRIPT_COUNT || !known[i].text.len)
        __real_script_sha1(text, out_hex);
    if (i == SCRIPT_COUNT)
        return;
    if (!known[i].text.len) {
        buf_add_bytes(&known[i].text, text);
        memcpy(known[i].hex, out_hex, SCRIPT_DIGEST);
    }
    memcpy(out_hex, known[i].hex, SCRIPT_DIGEST);
}

void __wrap_script_write(struct buf *out, enum script_kind kind)
{
    static struct buf known[SCRIPT_COUNT];
    if (!known[kind].len)
        __real_script_write(&known[kind], kind);
    buf_add_bytes(out, buf_bytes(&known[kind]));
}
