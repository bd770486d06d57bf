/*
 * port/member.h without a coordination service: always leads. For starting laterd on a store that
 * an election was used for, when its service is lost or no longer wanted. An operator who sets `url
 * = alone` must make sure that only one laterd runs.
 */
#ifndef LATERD_MEMBER_ALONE_H
#define LATERD_MEMBER_ALONE_H

#include "port/member.h"

extern const struct member_plugin alone_member;

#endif
