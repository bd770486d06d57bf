/*
 * Decimal digits, two at a time from a table: half the divisions of one digit after the other
 * (Alexandrescu, "Three Optimization Tips for C++", 2012).
 */
#ifndef LATERD_BASE_DECIMAL_H
#define LATERD_BASE_DECIMAL_H

#include <stdint.h>
#include <string.h>

enum { DECIMAL_U64_DIGITS = 20 };

/* Writes two digits of a number up to 99; returns the address behind them. O(1). */
static inline char *decimal_put_two(char *to, unsigned number)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233"
        "34353637383940414243444546474849505152535455565758596061626364656667"
        "6869707172737475767778798081828384858687888990919293949596979899";
    memcpy(to, pairs + (size_t)number * 2, 2);
    return to + 2;
}

/* Writes a number without leading zeros so that it ends just before `end`, before which there must
 * be DECIMAL_U64_DIGITS bytes of room; returns the address of its first digit. O(digits). */
static inline char *decimal_put_before(char *end, uint64_t number)
{
    for (; number >= 100; number /= 100) {
        end -= 2;
        (void)decimal_put_two(end, (unsigned)(number % 100));
    }
    if (number >= 10)
        (void)decimal_put_two(end -= 2, (unsigned)number);
    else
        *--end = (char)('0' + number);
    return end;
}

#endif
