#include "sink/fill.h"

static bool add(struct bytes part, char *room, size_t room_bytes, size_t *len)
{
    if (part.len >= room_bytes - *len || (part.len && memchr(part.at, '\0', part.len)))
        return false;
    if (part.len)
        memcpy(room + *len, part.at, part.len);
    *len += part.len;
    return true;
}

bool sink_fill(struct bytes text, const struct delivery *delivery, char *room, size_t room_bytes)
{
    const struct bytes topic = BYTES("{topic}"), key = BYTES("{key}");
    size_t len = 0;
    while (text.len) {
        struct bytes part = bytes_of(text.at, 1);
        size_t taken = 1;
        if (bytes_starts(text, topic)) {
            part = delivery->topic;
            taken = topic.len;
        } else if (bytes_starts(text, key)) {
            part = delivery->key;
            taken = key.len;
        }
        if (!add(part, room, room_bytes, &len))
            return false;
        text = bytes_of(text.at + taken, text.len - taken);
    }
    room[len] = '\0';
    return true;
}
