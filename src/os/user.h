/* Becoming another user for good, after what only root may do is done (beanstalkd's -u). */
#ifndef LATERD_OS_USER_H
#define LATERD_OS_USER_H

#include "base/err.h"

/*
 * Takes the user's id and primary group and gives up every other group; there is no way back.
 * Call before there are threads. Nothing happens if we are that user already. ERR_NOT_FOUND: nobody
 * has this name. ERR_IO: the system refused, errno says why (EPERM: we are not root).
 */
enum err user_become(const char *name) MUST_USE;

#endif
