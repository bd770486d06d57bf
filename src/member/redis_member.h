/*
 * port/member.h with one key in Redis: laterd:member:NAME, a hash that a script changes by
 * compare-and-set (member/claim.h). Nothing expires in Redis, and its clock is not read.
 *
 * Only as safe as that Redis: a failover to a replica that lags may bring back an older epoch, and
 * then two laterds lead until the deadline of the first. If the jobs are in the same Redis, this
 * loses nothing beyond what such a failover loses anyway; a store on disk is fenced by its lock.
 */
#ifndef LATERD_MEMBER_REDIS_MEMBER_H
#define LATERD_MEMBER_REDIS_MEMBER_H

#include "port/member.h"

/* The same interface as a plugin's laterd_member_plugin, for redis://, redis+sentinel://,
   redis+cluster:// and the same with rediss. */
extern const struct member_plugin redis_member;

#endif
