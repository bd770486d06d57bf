/*
 * port/member.h without any service: always leads. For starting laterd on a store that was led by
 * an election whose service is lost for good, or is not wanted any more; it is up to whoever writes
 * `url = alone` that there is one.
 */
#ifndef LATERD_MEMBER_ALONE_H
#define LATERD_MEMBER_ALONE_H

#include "port/member.h"

extern const struct member_plugin alone_member;

#endif
