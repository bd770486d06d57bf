/*
 * What settings refer to on this machine (a variable of the environment, a file), tried before they
 * are taken from a client: port of the server to whoever reads such things at a delivery.
 */
#ifndef LATERD_PORT_REFERENCE_PROBE_H
#define LATERD_PORT_REFERENCE_PROBE_H

#include "base/bytes.h"
#include "base/err.h"

enum reference_kind {
    REFERENCE_SIGNING_KEY, /* $NAME or file:/PATH of a secret that signs requests */
    REFERENCE_FILE, /* the path of a file that must be readable; what is in it is not looked at */
};

/*
 * ERR_INVALID, with a clause in `why` that names the variable or file and shows nothing of what is
 * in it: it is missing, unreadable or malformed. May wait for a disk: not for the loop's thread
 * once turns run. Any thread.
 */
typedef enum err reference_probe(enum reference_kind kind, struct bytes reference, char *why,
                                 size_t why_bytes);

#endif
