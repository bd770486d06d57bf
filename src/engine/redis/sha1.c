/*
 * SHA-1 (FIPS 180-4), only because Redis names a script by it: nothing here must be secret or hard
 * to forge.
 */
#include "engine/redis/script_parts.h"

struct sha1 {
    uint32_t state[5];
};

static uint32_t rotate(uint32_t word, unsigned bits)
{
    return word << bits | word >> (32 - bits);
}

static void mix(struct sha1 *sha1, const unsigned char block[64])
{
    static const uint32_t constants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t words[80];
    for (int i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
                   (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    uint32_t a = sha1->state[0], b = sha1->state[1], c = sha1->state[2], d = sha1->state[3],
             e = sha1->state[4];
    for (int i = 0; i < 80; i++) {
        uint32_t choice = b ^ c ^ d;
        if (i < 20)
            choice = (b & c) | (~b & d);
        else if (i >= 40 && i < 60)
            choice = (b & c) | (b & d) | (c & d);
        uint32_t next = rotate(a, 5) + choice + e + constants[i / 20] + words[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    sha1->state[0] += a;
    sha1->state[1] += b;
    sha1->state[2] += c;
    sha1->state[3] += d;
    sha1->state[4] += e;
}

void script_sha1(struct bytes text, char out_hex[SCRIPT_DIGEST])
{
    struct sha1 sha1 = {{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
    unsigned char last[128] = {0};
    size_t whole = text.len / 64 * 64, left = text.len - whole;
    for (size_t at = 0; at < whole; at += 64)
        mix(&sha1, (const unsigned char *)text.at + at);
    if (left)
        memcpy(last, text.at + whole, left);
    last[left] = 0x80;
    size_t end = left < 56 ? 64 : 128;
    for (size_t i = 0; i < 8; i++)
        last[end - 1 - i] = (unsigned char)((uint64_t)text.len * 8 >> (8 * i));
    for (size_t at = 0; at < end; at += 64)
        mix(&sha1, last + at);
    for (size_t i = 0; i < SCRIPT_DIGEST; i++)
        out_hex[i] = "0123456789abcdef"[sha1.state[i / 8] >> (28 - 4 * (i % 8)) & 15];
}
