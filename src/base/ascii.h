/* Classes of ASCII characters, whatever the locale. O(1). */
#ifndef LATERD_BASE_ASCII_H
#define LATERD_BASE_ASCII_H

#include <stdbool.h>

#include "base/bytes.h"

static inline bool ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool ascii_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* A blank, tab, line end, vertical tab or form feed. */
static inline bool ascii_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Without the spaces at both ends. O(spaces) */
static inline struct bytes ascii_trim(struct bytes text)
{
    while (text.len && ascii_is_space(text.at[0]))
        text = bytes_of(text.at + 1, text.len - 1);
    while (text.len && ascii_is_space(text.at[text.len - 1]))
        text.len--;
    return text;
}

#endif
