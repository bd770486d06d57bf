/*
 * May laterd connect to this address when it delivers? Whoever may set a target could otherwise
 * make laterd send requests into the network that it stands in (server-side request forgery):
 * to the metadata service of a cloud, to a database without a password.
 *
 * The rule is asked about the numeric address that is about to be connected to, never about a name:
 * a name may resolve to something else the next time (DNS rebinding).
 *
 * Addresses have 16 bytes, as in IPv6; those of IPv4 are ::ffff:a.b.c.d. Pure; a rule that is not
 * changed any more may be read by several threads.
 */
#ifndef LATERD_SINK_ADDRESS_RULE_H
#define LATERD_SINK_ADDRESS_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum { ADDRESS_BYTES = 16, ADDRESS_ALLOW_MAX = 64, ADDRESS_PORTS_MAX = 32 };

/* All addresses that begin with the first `bits` bits. */
struct address_block {
    uint8_t at[ADDRESS_BYTES]; /* the bits behind are 0 */
    uint8_t bits;              /* to 128; of IPv4 from 96 */
    bool is_v4;
};

struct address_ports {
    uint16_t first, last;
};

struct address_rule {
    struct address_block
        allow[ADDRESS_ALLOW_MAX]; /* though they are of a range that is not public */
    unsigned allow_count;
    struct address_ports ports[ADDRESS_PORTS_MAX];
    unsigned port_count;
};

/*
 * Adds what push.allow lists: "10.1.0.0/16, 192.168.7.9, fd00::/8", with commas or blanks between.
 * An address without a length is itself alone; "" adds nothing. ERR_INVALID: it is no such list, or
 * longer than ADDRESS_ALLOW_MAX; *out_problem is a clause that says why, good forever. The rule is
 * not changed then.
 */
enum err address_rule_add_allow(struct address_rule *rule, struct bytes text,
                                const char **out_problem) MUST_USE;

/* Takes what push.ports lists in place of what was there: "80, 443, 8000-8099, 1024+". As above. */
enum err address_rule_set_ports(struct address_rule *rule, struct bytes text,
                                const char **out_problem) MUST_USE;

/* Steps: the length of the rule. */
bool address_rule_allows_address(const struct address_rule *rule,
                                 const uint8_t address[ADDRESS_BYTES]);
bool address_rule_allows_port(const struct address_rule *rule, uint16_t port);

/* "127.0.0.1", "::1" without brackets; digits only. False: it is no address. */
bool address_read(struct bytes text, uint8_t out_address[ADDRESS_BYTES]);
void address_of_v4(const uint8_t v4[4], uint8_t out_address[ADDRESS_BYTES]);

#endif
