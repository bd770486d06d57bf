/*
 * Can this Redis server be used? Decided from the texts of INFO and CLUSTER INFO. Pure.
 */
#ifndef LATERD_ENGINE_REDIS_SERVER_INFO_H
#define LATERD_ENGINE_REDIS_SERVER_INFO_H

#include "base/bytes.h"
#include "base/err.h"

/*
 * Checks the texts of INFO and (only if server_info_is_cluster) of CLUSTER INFO; `cluster` is empty
 * otherwise. OK, or an error with a sentence for people in *out_reason (static). ERR_UNSUPPORTED:
 * too old, may evict keys, a cluster without all its slots. ERR_AGAIN: the cluster is not up yet,
 * or this server is not part of it. script_encode_open() checks the number of partitions.
 */
enum err server_info_judge(struct bytes info, struct bytes cluster,
                           const char **out_reason) MUST_USE;
/* The policy by which the server of this INFO may evict keys; empty: it may not. Borrows `info`. */
struct bytes server_info_evicting_policy(struct bytes info);
bool server_info_is_cluster(struct bytes info);
/* Since Redis 7: scripts publish by SPUBLISH there, so that who has no SSUBSCRIBE hears nothing. */
bool server_info_has_sharded_channels(struct bytes info);

#endif
