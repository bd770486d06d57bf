/*
 * Decides of the text of a URL whether [push] of the configuration can ever allow a delivery to it,
 * so that the client who sends it gets an error instead of failed deliveries later. By the rule of
 * the delivery itself (sink/address_rule.h), which is asked again for each connection. Pure.
 */
#ifndef LATERD_SERVER_PUSH_URL_H
#define LATERD_SERVER_PUSH_URL_H

#include "server/config/config.h"

enum { PUSH_URL_WHY = 160 /* bytes for what is said of one, its NUL included */ };

/*
 * False: no delivery to the URL, which has no flaw (url_flaw()), will be allowed; out_why, of
 * PUSH_URL_WHY bytes, is a clause that names the key, and *out_key that key alone. True: it may be;
 * a host's name is not looked up, for it may have another address when the job is due, and with
 * push.proxy the proxy decides.
 */
bool push_url_may_be_reached(const struct config *config, struct bytes url, char *out_why,
                             const char **out_key) MUST_USE;

#endif
