/*
 * Checks what the settings that a client sends refer to (secrets, certificates, an address) before
 * they are stored, so that the client gets an error for a missing variable or file, or an address
 * that push.allow does not list, instead of failed deliveries later. Settings that are stored
 * already, and those from other daemons, are not checked.
 */
#ifndef LATERD_SERVER_HTTP_SETTINGS_PROBE_H
#define LATERD_SERVER_HTTP_SETTINGS_PROBE_H

#include "port/reference_probe.h"
#include "proto/api/api.h"
#include "server/config/config.h"

/*
 * A call with references that cannot be used becomes a CALL_PROBLEM, and so does one with a target
 * that [push] of `config` can never allow. A host's name is not looked up: what it resolves to is
 * checked by each delivery. May wait for a disk; on the worker's thread.
 */
void settings_probe(reference_probe *probe, const struct config *config, struct arena *scratch,
                    struct call *call);

#endif
