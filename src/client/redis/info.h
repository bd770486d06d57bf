/*
 * The texts that INFO and CLUSTER INFO answer: lines of "name:value". Pure.
 */
#ifndef LATERD_CLIENT_REDIS_INFO_H
#define LATERD_CLIENT_REDIS_INFO_H

#include "base/bytes.h"

/* The value behind "name:" at the beginning of a line, borrowed from `text`; empty: there is no
 * such line. O(text). */
struct bytes redis_info_field(struct bytes text, struct bytes name);

#endif
