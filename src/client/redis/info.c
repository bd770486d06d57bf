#include "client/redis/info.h"

#include <string.h>

struct bytes redis_info_field(struct bytes text, struct bytes name)
{
    size_t at = 0;
    while (at < text.len) {
        const char *end = memchr(text.at + at, '\n', text.len - at);
        size_t stop = end ? (size_t)(end - text.at) : text.len;
        struct bytes group = bytes_of(text.at + at, stop - at);
        if (group.len && group.at[group.len - 1] == '\r')
            group.len--;
        if (group.len > name.len && bytes_starts(group, name) && group.at[name.len] == ':')
            return bytes_of(group.at + name.len + 1, group.len - name.len - 1);
        at = stop + 1;
    }
    return (struct bytes){0};
}
