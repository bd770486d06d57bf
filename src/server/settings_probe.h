/*
 * What the settings that a client sends refer to (secrets, certificates) is tried before they are
 * taken, so that the client learns of a missing variable or file, and not the jobs. Only that:
 * settings that are stored, and those of other daemons, are taken as they are.
 */
#ifndef LATERD_SERVER_SETTINGS_PROBE_H
#define LATERD_SERVER_SETTINGS_PROBE_H

#include "port/reference_probe.h"
#include "proto/api/api.h"

/* A call with references that cannot be used becomes a CALL_PROBLEM. May wait for a disk; on the
   worker's thread. */
void settings_probe(reference_probe *probe, struct arena *scratch, struct call *call);

#endif
