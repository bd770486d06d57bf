#include "proto/http/host.h"

#include "base/ascii.h"

enum { NAME_BYTES_MAX = 253 };

struct bytes host_without_port(struct bytes host)
{
    size_t len = host.len;
    while (len && host.at[len - 1] >= '0' && host.at[len - 1] <= '9')
        len--;
    return len && host.at[len - 1] == ':' ? bytes_of(host.at, len - 1) : host;
}

/* Four numbers up to 255. A browser writes every other spelling of an address so. */
static bool is_ipv4(struct bytes text)
{
    unsigned dots = 0, number = 0, digits = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (ascii_is_digit(c)) {
            number = number * 10 + (unsigned)(c - '0');
            digits++;
            if (number > 255)
                return false;
        } else if (c == '.' && digits) {
            dots++;
            number = digits = 0;
        } else {
            return false;
        }
    }
    return dots == 3 && digits;
}

/* What stands in brackets is no name: the brackets, and the characters of an address, suffice. */
static bool is_ipv6(struct bytes text)
{
    if (text.len < 4 || text.at[0] != '[' || text.at[text.len - 1] != ']')
        return false;
    for (size_t i = 1; i + 1 < text.len; i++) {
        char c = text.at[i], letter = (char)(c | 0x20);
        if (!ascii_is_digit(c) && !(letter >= 'a' && letter <= 'f') && c != ':' && c != '.')
            return false;
    }
    return true;
}

bool host_next_name(struct bytes *names, struct bytes *out_name)
{
    *out_name = *names;
    if (names->len == 0)
        return false;
    size_t start = 0, end;
    while (start < names->len && (names->at[start] == ' ' || names->at[start] == ','))
        start++;
    for (end = start; end < names->len && names->at[end] != ' ' && names->at[end] != ','; end++)
        continue;
    *out_name = bytes_of(names->at + start, end - start);
    *names = bytes_of(names->at + end, names->len - end);
    return out_name->len > 0;
}

bool host_is_name(struct bytes name)
{
    if (bytes_eq(name, BYTES("*")))
        return true;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i], letter = (char)(c | 0x20);
        if (!ascii_is_digit(c) && !(letter >= 'a' && letter <= 'z') && c != '-' && c != '_' &&
            c != '.')
            return false;
    }
    return name.len > 0 && name.len <= NAME_BYTES_MAX;
}

bool host_is_known(struct bytes host, struct bytes names)
{
    struct bytes name, asked = host_without_port(host);
    if (host.len == 0 || is_ipv4(asked) || is_ipv6(asked))
        return true;
    if (asked.len && asked.at[asked.len - 1] == '.')
        asked.len--;
    if (bytes_eq_nocase(asked, BYTES("localhost")))
        return true;
    while (host_next_name(&names, &name)) {
        if (bytes_eq_nocase(asked, name) || bytes_eq(name, BYTES("*")))
            return true;
    }
    return false;
}
