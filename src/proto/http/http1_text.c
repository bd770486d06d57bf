/* Percent-decoding and queries of a request's target. */
#include "base/hex.h"
#include "proto/http/http1.h"

bool http_percent_decode(struct bytes text, bool plus_is_space, struct buf *room,
                         struct bytes *out_text)
{
    room->len = 0;
    buf_reserve(room, text.len + 1);
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '+' && plus_is_space) {
            c = ' ';
        } else if (c == '%') {
            int byte = hex_byte(text, i + 1);
            if (byte < 0)
                return false;
            c = (char)byte;
            i += 2;
        }
        if (c == '\0')
            return false;
        room->at[room->len++] = c;
    }
    *out_text = buf_bytes(room);
    return true;
}

bool http_query_next(struct bytes *rest, struct bytes *out_name, struct bytes *out_value)
{
    while (rest->len) {
        const char *amp = memchr(rest->at, '&', rest->len);
        size_t len = amp ? (size_t)(amp - rest->at) : rest->len;
        struct bytes pair = bytes_of(rest->at, len);
        size_t step = amp ? len + 1 : len;
        *rest = bytes_of(rest->at + step, rest->len - step);
        if (len == 0)
            continue;
        const char *sign = memchr(pair.at, '=', pair.len);
        size_t name_len = sign ? (size_t)(sign - pair.at) : pair.len;
        *out_name = bytes_of(pair.at, name_len);
        *out_value = sign ? bytes_of(sign + 1, pair.len - name_len - 1) : bytes_of(pair.at, 0);
        return true;
    }
    return false;
}
