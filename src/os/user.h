/* Becoming another user for good, after what only root may do is done (beanstalkd's -u). */
#ifndef LATERD_OS_USER_H
#define LATERD_OS_USER_H

#include "base/err.h"

/*
 * Sets the user id and primary group and drops all other groups; it cannot be undone. Call before
 * there are threads. Does nothing if we are that user already. ERR_NOT_FOUND: there is no such
 * user. ERR_IO: the system refused, errno says why (EPERM: we are not root).
 */
enum err user_become(const char *name) MUST_USE;

#endif
