#include "os/user.h"

#include <grp.h>
#include <pwd.h>
#include <stddef.h>
#include <unistd.h>

enum err user_become(const char *name)
{
    const struct passwd *user = getpwnam(name);
    if (!user)
        return ERR_NOT_FOUND;
    if (geteuid() == user->pw_uid && getuid() == user->pw_uid && getegid() == user->pw_gid)
        return OK;
    /* The user id last: without root's rights groups can no longer be changed. */
    if (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)
        return ERR_IO;
    return OK;
}
