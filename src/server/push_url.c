#include "server/push_url.h"

#include <stdio.h>

#include "proto/settings/target_url.h"

bool push_url_may_be_reached(const struct config *config, struct bytes url, char *out_why,
                             const char **out_key)
{
    uint8_t address[ADDRESS_BYTES];
    struct bytes host;
    uint16_t port;
    url_receiver(url, &host, &port);
    if (!address_rule_allows_port(&config->push_rule, port)) {
        (void)snprintf(out_why, PUSH_URL_WHY, "push.ports does not have port %u", port);
        *out_key = "push.ports";
        return false;
    }
    if (config->push_proxy[0] || !address_read(host, address) ||
        address_rule_allows_address(&config->push_rule, address))
        return true;
    (void)snprintf(out_why, PUSH_URL_WHY,
                   "the address %.*s is not public, and push.allow does not list it", (int)host.len,
                   host.at); /* an address is short */
    *out_key = "push.allow";
    return false;
}
