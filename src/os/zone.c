#include "os/zone.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

#define SECOND_US INT64_C(1000000)

/* True: the zone's file exists. tzset() would silently use UTC for an unknown name. */
static bool zone_exists(const char *name)
{
    char path[PATH_BYTES];
    const char *dir = getenv("TZDIR");
    if (strcmp(name, "UTC") == 0)
        return true;
    if (name[0] == '/' || name[0] == ':' || strstr(name, "..") || name[strlen(name) - 1] == '/')
        return false;
    int len = snprintf(path, sizeof(path), "%s/%s", dir ? dir : "/usr/share/zoneinfo", name);
    FILE *file = len < (int)sizeof(path) ? fopen(path, "re") : NULL;
    char magic[4] = "";
    if (!file)
        return false;
    size_t count = fread(magic, 1, sizeof(magic), file); /* 0 of a directory */
    (void)fclose(file);                                  /* only read from */
    return count == sizeof(magic) && memcmp(magic, "TZif", sizeof(magic)) == 0;
}

enum err zone_check(const char *name)
{
    return name[0] && !zone_exists(name) ? ERR_NOT_FOUND : OK;
}

enum err zone_set(const char *name)
{
    if (zone_check(name))
        return ERR_NOT_FOUND;
    if (name[0] && setenv("TZ", strcmp(name, "UTC") == 0 ? "UTC0" : name, 1) != 0)
        return ERR_NOT_FOUND; /* without memory for a word; nothing was changed */
    tzset();
    return OK;
}

int64_t zone_east_us(int64_t at_us)
{
    struct tm local;
    time_t at_s = (time_t)(at_us / SECOND_US - (at_us % SECOND_US < 0));
    return localtime_r(&at_s, &local) ? (int64_t)local.tm_gmtoff * SECOND_US : 0;
}
