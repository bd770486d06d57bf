/*
 * Decides to which addresses laterd may connect for a delivery. Without it, a client that may set a
 * target could make laterd send requests into its own network (server-side request forgery): to the
 * metadata service of a cloud, or to a database without a password.
 *
 * The rule is applied to the numeric address just before connecting, never to a name, which may
 * resolve to another address the next time (DNS rebinding).
 *
 * Addresses have 16 bytes, as in IPv6; IPv4 addresses are ::ffff:a.b.c.d. Pure; a rule that is no
 * longer changed may be read by several threads.
 */
#ifndef LATERD_SINK_ADDRESS_RULE_H
#define LATERD_SINK_ADDRESS_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum { ADDRESS_BYTES = 16, ADDRESS_ALLOW_MAX = 64, ADDRESS_PORTS_MAX = 32 };

/* All addresses whose first `bits` bits are those of `at`. */
struct address_block {
    uint8_t at[ADDRESS_BYTES]; /* the bits behind are 0 */
    uint8_t bits;              /* up to 128; of IPv4 at least 96 */
    bool is_v4;
};

struct address_ports {
    uint16_t first, last;
};

struct address_rule {
    struct address_block allow[ADDRESS_ALLOW_MAX]; /* allowed although not public */
    unsigned allow_count;
    struct address_ports ports[ADDRESS_PORTS_MAX];
    unsigned port_count;
};

/*
 * Adds the list of push.allow: "10.1.0.0/16, 192.168.7.9, fd00::/8", separated by commas or blanks.
 * An address without a length means only itself; "" adds nothing. ERR_INVALID: not such a list, or
 * longer than ADDRESS_ALLOW_MAX; *out_problem is a clause that says why, valid forever, and the
 * rule is not changed.
 */
enum err address_rule_add_allow(struct address_rule *rule, struct bytes text,
                                const char **out_problem) MUST_USE;

/* Replaces the ports by the list of push.ports: "80, 443, 8000-8099, 1024+". Errors as above. */
enum err address_rule_set_ports(struct address_rule *rule, struct bytes text,
                                const char **out_problem) MUST_USE;

/* True: the rule allows to connect to the address. O(blocks in the rule). */
bool address_rule_allows_address(const struct address_rule *rule,
                                 const uint8_t address[ADDRESS_BYTES]);
bool address_rule_allows_port(const struct address_rule *rule, uint16_t port);

/* Reads a numeric address: "127.0.0.1", or "::1" without brackets. False: not an address. */
bool address_read(struct bytes text, uint8_t out_address[ADDRESS_BYTES]);
void address_of_v4(const uint8_t v4[4], uint8_t out_address[ADDRESS_BYTES]);

#endif
