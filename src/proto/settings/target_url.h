/*
 * Checks the text of URLs that jobs may be sent to. sink/address_rule.h checks the addresses that
 * they resolve to. Pure.
 */
#ifndef LATERD_PROTO_SETTINGS_TARGET_URL_H
#define LATERD_PROTO_SETTINGS_TARGET_URL_H

#include "proto/settings/settings_reader.h"

/*
 * Returns NULL if the text is allowed: http or https, up to TARGET_URL_MAX bytes of ASCII, a host,
 * no user, no fragment. Else why not, a sentence that is valid forever. O(length).
 */
const char *url_flaw(struct bytes url);

/* The host, without brackets, and the port, or that of the scheme, of a URL without a flaw. */
void url_receiver(struct bytes url, struct bytes *out_host, uint16_t *out_port);

/* Reads the URL that is being read. *out_url is borrowed from the text or the reader's scratch. */
bool url_read(struct settings_reader *reader, struct bytes *out_url);

#endif
