/*
 * port/member.h by one key in Redis: laterd:member:NAME, a hash that a script compares and sets
 * (member/claim.h). Nothing expires in Redis, and its clock is not read.
 *
 * As safe as that Redis: a failover to a replica that is behind may bring back an older epoch, and
 * with it two who lead until the deadline of the first. Where the jobs are in the same Redis that
 * costs nothing beyond what such a failover costs anyway; a store on a disk is fenced by its lock.
 */
#ifndef LATERD_MEMBER_REDIS_MEMBER_H
#define LATERD_MEMBER_REDIS_MEMBER_H

#include "port/member.h"

/* As a plugin's laterd_member_plugin; of redis://, redis+sentinel://, redis+cluster://, rediss… */
extern const struct member_plugin redis_member;

#endif
