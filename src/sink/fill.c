#include "sink/fill.h"

bool sink_fill_bytes(struct bytes text, const struct delivery *delivery, char *room,
                     size_t room_bytes, size_t *out_len)
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
        if (part.len > room_bytes - len)
            return false;
        (void)bytes_put(room + len, part);
        len += part.len;
        text = bytes_of(text.at + taken, text.len - taken);
    }
    *out_len = len;
    return true;
}

bool sink_fill(struct bytes text, const struct delivery *delivery, char *room, size_t room_bytes)
{
    size_t len;
    if (!sink_fill_bytes(text, delivery, room, room_bytes - 1, &len) || memchr(room, '\0', len))
        return false;
    room[len] = '\0';
    return true;
}
