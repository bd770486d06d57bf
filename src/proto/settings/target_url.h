/*
 * URLs that jobs may be sent to, as text. Whether the address behind one may be connected to is not
 * said here: sink/address_rule.h. Pure.
 */
#ifndef LATERD_PROTO_SETTINGS_TARGET_URL_H
#define LATERD_PROTO_SETTINGS_TARGET_URL_H

#include "proto/settings/settings_reader.h"

/*
 * NULL if a job may be sent there, as far as its text says: http or https, up to TARGET_URL_MAX
 * bytes of ASCII, a host, no user, no fragment. Else why not, a sentence, good forever. O(length).
 */
const char *url_flaw(struct bytes url);

/* Reads the URL that is being read. *out_url is borrowed from the text or the reader's scratch. */
bool url_read(struct settings_reader *reader, struct bytes *out_url);

#endif
