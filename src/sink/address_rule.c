#include "sink/address_rule.h"

#include <arpa/inet.h>

/* ---- addresses ---- */

static const uint8_t v4_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool address_is_v4(const uint8_t address[ADDRESS_BYTES])
{
    return memcmp(address, v4_mapped, sizeof(v4_mapped)) == 0;
}

void address_of_v4(const uint8_t v4[4], uint8_t out_address[ADDRESS_BYTES])
{
    memcpy(out_address, v4_mapped, sizeof(v4_mapped));
    memcpy(out_address + sizeof(v4_mapped), v4, 4);
}

bool address_read(struct bytes text, uint8_t out_address[ADDRESS_BYTES])
{
    char room[INET6_ADDRSTRLEN];
    uint8_t v4[4], v6[ADDRESS_BYTES];
    if (text.len == 0 || text.len >= sizeof(room) || memchr(text.at, '\0', text.len))
        return false;
    memcpy(room, text.at, text.len);
    room[text.len] = '\0';
    if (inet_pton(AF_INET, room, v4) == 1) {
        address_of_v4(v4, out_address);
        return true;
    }
    if (inet_pton(AF_INET6, room, v6) != 1)
        return false;
    memcpy(out_address, v6, sizeof(v6));
    return true;
}

static bool block_has(const struct address_block *block, const uint8_t address[ADDRESS_BYTES])
{
    unsigned whole = block->bits / 8, rest = block->bits % 8;
    /* ::/0 means IPv6 only, although IPv4 addresses are represented as a part of it here. */
    if (block->is_v4 != address_is_v4(address) || memcmp(block->at, address, whole) != 0)
        return false;
    return !rest || ((block->at[whole] ^ address[whole]) >> (8 - rest)) == 0;
}

/* ---- what is not public ---- */

struct denied {
    uint8_t at[4];
    uint8_t bits;
};

/* IANA's special-purpose registry of IPv4, multicast, and the reserved range above it. */
static const struct denied denied_v4[] = {
    {{0}, 8},             /* this network */
    {{10}, 8},            /* private */
    {{100, 64}, 10},      /* shared by customers of a carrier */
    {{127}, 8},           /* loopback */
    {{169, 254}, 16},     /* link-local; clouds' metadata */
    {{172, 16}, 12},      /* private */
    {{192, 0, 0}, 24},    /* protocol assignments */
    {{192, 0, 2}, 24},    /* documentation */
    {{192, 88, 99}, 24},  /* relays of 6to4 */
    {{192, 168}, 16},     /* private */
    {{198, 18}, 15},      /* benchmarks */
    {{198, 51, 100}, 24}, /* documentation */
    {{203, 0, 113}, 24},  /* documentation */
    {{224}, 3},           /* multicast, reserved, broadcast */
};

/*
 * Of IPv6 only 2000::/3 has been assigned to public networks; in it, these are not public. What
 * stands outside are loopback, local networks, multicast, NAT64 and other ways to write an IPv4
 * address (such as ::ffff:0:127.0.0.1), and unassigned ranges.
 */
static const struct denied denied_v6[] = {
    {{0x20, 0x01, 0x00}, 23},       /* protocol assignments, Teredo */
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
    {{0x20, 0x02}, 16},             /* 6to4 */
    {{0x3f, 0xff, 0x00}, 20},       /* documentation */
};

static bool is_denied(const uint8_t address[ADDRESS_BYTES])
{
    bool is_v4 = address_is_v4(address);
    const struct denied *rows = is_v4 ? denied_v4 : denied_v6;
    size_t count =
        is_v4 ? sizeof(denied_v4) / sizeof(denied_v4[0]) : sizeof(denied_v6) / sizeof(denied_v6[0]);
    if (!is_v4 && address[0] >> 5 != 0x20 >> 5)
        return true;
    for (size_t i = 0; i < count; i++) {
        unsigned skip = is_v4 ? sizeof(v4_mapped) : 0;
        struct address_block block = {.bits = (uint8_t)(rows[i].bits + 8 * skip), .is_v4 = is_v4};
        memcpy(block.at, v4_mapped, skip);
        memcpy(block.at + skip, rows[i].at, sizeof(rows[i].at));
        if (block_has(&block, address))
            return true;
    }
    return false;
}

bool address_rule_allows_address(const struct address_rule *rule,
                                 const uint8_t address[ADDRESS_BYTES])
{
    for (unsigned i = 0; i < rule->allow_count; i++) {
        if (block_has(&rule->allow[i], address))
            return true;
    }
    return !is_denied(address);
}

bool address_rule_allows_port(const struct address_rule *rule, uint16_t port)
{
    for (unsigned i = 0; i < rule->port_count; i++) {
        if (port >= rule->ports[i].first && port <= rule->ports[i].last)
            return true;
    }
    return false;
}

/* ---- lists ---- */

static bool is_separator(char c)
{
    return c == ',' || c == ' ' || c == '\t';
}

/* Takes the next word off the front of the text; empty: there is none. */
static struct bytes take_word(struct bytes *text)
{
    size_t begin = 0, end;
    while (begin < text->len && is_separator(text->at[begin]))
        begin++;
    for (end = begin; end < text->len && !is_separator(text->at[end]); end++)
        continue;
    struct bytes word = bytes_of(text->at + begin, end - begin);
    *text = bytes_of(text->at + end, text->len - end);
    return word;
}

/* Splits the word at the first `c`. False: there is no `c`. */
static bool split(struct bytes word, char c, struct bytes *out_before, struct bytes *out_behind)
{
    const char *at = word.len ? memchr(word.at, c, word.len) : NULL;
    if (!at)
        return false;
    size_t before = (size_t)(at - word.at);
    *out_before = bytes_of(word.at, before);
    *out_behind = bytes_of(at + 1, word.len - before - 1);
    return true;
}

/* True: all bits behind the block's length are zero. */
static bool is_aligned(const struct address_block *block)
{
    for (unsigned bit = block->bits; bit < 8 * ADDRESS_BYTES; bit++) {
        if (block->at[bit / 8] & 0x80 >> bit % 8)
            return false;
    }
    return true;
}

/* Reads a block. Returns NULL, or a clause that says what is wrong. */
static const char *read_block(struct bytes word, struct address_block *out_block)
{
    struct address_block block = {.bits = 8 * ADDRESS_BYTES};
    struct bytes address = word, length;
    uint64_t bits = 0;
    bool has_length = split(word, '/', &address, &length);
    if (!address_read(address, block.at))
        return "it must be addresses such as 10.0.0.0/8, 192.168.7.9 or fd00::/8";
    bool as_v4 = address_is_v4(block.at) && !memchr(address.at, ':', address.len);
    if (has_length) {
        if (length.len > 3 || !bytes_to_u64(length, &bits) || bits > (as_v4 ? 32 : 128))
            return "the length behind / must be a number, up to 32 for IPv4 and 128 for IPv6";
        block.bits = (uint8_t)(bits + (as_v4 ? 96 : 0));
    }
    block.is_v4 = address_is_v4(block.at) && block.bits >= 96;
    if (!is_aligned(&block))
        return "an address must have no bits set behind its length: write 10.0.0.0/8 for "
               "10.1.2.3/8";
    *out_block = block;
    return NULL;
}

enum err address_rule_add_allow(struct address_rule *rule, struct bytes text,
                                const char **out_problem)
{
    unsigned count = rule->allow_count;
    for (struct bytes word = take_word(&text); word.len; word = take_word(&text)) {
        const char *problem = "there must be no more than 64 addresses";
        if (count < ADDRESS_ALLOW_MAX)
            problem = read_block(word, &rule->allow[count++]);
        if (problem) {
            *out_problem = problem;
            return ERR_INVALID;
        }
    }
    rule->allow_count = count;
    return OK;
}

static bool read_port(struct bytes text, uint16_t *out_port)
{
    uint64_t port;
    if (text.len > 5 || !bytes_to_u64(text, &port) || port == 0 || port > UINT16_MAX)
        return false;
    *out_port = (uint16_t)port;
    return true;
}

/* "443", "8000-8099", "1024+" */
static bool read_ports(struct bytes word, struct address_ports *out_ports)
{
    struct address_ports ports;
    struct bytes first = word, last = word;
    if (split(word, '-', &first, &last)) {
        if (!read_port(first, &ports.first) || !read_port(last, &ports.last))
            return false;
    } else if (word.at[word.len - 1] == '+') {
        ports.last = UINT16_MAX;
        if (!read_port(bytes_of(word.at, word.len - 1), &ports.first))
            return false;
    } else {
        if (!read_port(word, &ports.first))
            return false;
        ports.last = ports.first;
    }
    *out_ports = ports;
    return ports.first <= ports.last;
}

enum err address_rule_set_ports(struct address_rule *rule, struct bytes text,
                                const char **out_problem)
{
    struct address_ports ports[ADDRESS_PORTS_MAX];
    unsigned count = 0;
    for (struct bytes word = take_word(&text); word.len; word = take_word(&text)) {
        if (count == ADDRESS_PORTS_MAX) {
            *out_problem = "there must be no more than 32 ports and ranges";
            return ERR_INVALID;
        }
        if (!read_ports(word, &ports[count++])) {
            *out_problem = "it must be ports such as 443, 8000-8099 or 1024+, from 1 to 65535";
            return ERR_INVALID;
        }
    }
    if (!count) {
        *out_problem = "it must name a port";
        return ERR_INVALID;
    }
    memcpy(rule->ports, ports, count * sizeof(ports[0]));
    rule->port_count = count;
    return OK;
}
