#include "cli/argv_secret.h"

#include <string.h>

/* Its length is not shown, either: what follows moves to it, and the end is filled with NULs, which
   ps(1) shows as blanks. */
static void cover(char *secret, size_t len)
{
    size_t rest = strlen(secret + len);
    if (len == 0)
        return;
    secret[0] = '*';
    memmove(secret + 1, secret + len, rest);
    memset(secret + 1 + rest, '\0', len - 1);
}

void argv_take_url(char *url, struct buf *copy)
{
    copy->len = 0;
    buf_add_str(copy, url);
    buf_add_char(copy, '\0');
    if (strncmp(url, "unix:", strlen("unix:")) == 0)
        return;
    char *user = strstr(url, "://");
    user = user ? user + strlen("://") : url;
    char *end = strrchr(user, '@'); /* the last: a password may have one that is not encoded */
    char *colon = end ? memchr(user, ':', (size_t)(end - user)) : NULL;
    if (colon)
        cover(colon + 1, (size_t)(end - colon - 1));
}

void argv_cover_header(char *header)
{
    char *value = header + strcspn(header, ":");
    value += *value == ':';
    value += strspn(value, " ");
    cover(value, strlen(value));
}
