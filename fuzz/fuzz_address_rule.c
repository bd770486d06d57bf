/*
 * The lists of addresses and ports that [push] has. Whatever is accepted is bounded, allows what it
 * names, and is the same in two lists as in one.
 */
#include "base/check.h"
#include "sink/address_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct address_rule rule = {0}, twice = {0};
    const char *problem = NULL;
    struct bytes text = bytes_of(data, size);
    if (address_rule_add_allow(&rule, text, &problem)) {
        CHECK(problem && rule.allow_count == 0);
    } else {
        CHECK(rule.allow_count <= ADDRESS_ALLOW_MAX);
        for (unsigned i = 0; i < rule.allow_count; i++) {
            CHECK(rule.allow[i].bits <= 8 * ADDRESS_BYTES);
            CHECK(address_rule_allows_address(&rule, rule.allow[i].at) ||
                  (rule.allow[i].bits < 96 && !rule.allow[i].is_v4));
        }
        CHECK(address_rule_add_allow(&twice, text, &problem) == OK);
        CHECK(memcmp(&rule, &twice, sizeof(rule)) == 0);
        CHECK(address_rule_add_allow(&twice, text, &problem) == OK ||
              2 * rule.allow_count > ADDRESS_ALLOW_MAX);
    }
    if (address_rule_set_ports(&rule, text, &problem)) {
        CHECK(problem && rule.port_count == 0);
    } else {
        CHECK(rule.port_count >= 1 && rule.port_count <= ADDRESS_PORTS_MAX);
        for (unsigned i = 0; i < rule.port_count; i++) {
            CHECK(rule.ports[i].first && rule.ports[i].first <= rule.ports[i].last);
            CHECK(address_rule_allows_port(&rule, rule.ports[i].last));
        }
    }
    return 0;
}
