/*
 * Checks what the settings that a client sends refer to (secrets, certificates) before they are
 * stored, so that the client gets an error for a missing variable or file, instead of failed
 * deliveries later. Settings that are stored already, and those from other daemons, are not
 * checked.
 */
#ifndef LATERD_SERVER_SETTINGS_PROBE_H
#define LATERD_SERVER_SETTINGS_PROBE_H

#include "port/reference_probe.h"
#include "proto/api/api.h"

/* A call with references that cannot be used becomes a CALL_PROBLEM. May wait for a disk; on the
   worker's thread. */
void settings_probe(reference_probe *probe, struct arena *scratch, struct call *call);

#endif
