/*
 * Checks what topic settings refer to on this machine (an environment variable, a file) before the
 * settings are accepted from a client. Implemented by the code that reads them at a delivery.
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
 * ERR_INVALID: it is missing, unreadable or malformed; `why` is then a clause that names the
 * variable or file and shows nothing of its content. Any thread. May wait for a disk, so it must
 * not be called on the loop's thread once turns run.
 */
typedef enum err reference_probe(enum reference_kind kind, struct bytes reference, char *why,
                                 size_t why_bytes);

#endif
