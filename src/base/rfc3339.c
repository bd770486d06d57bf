#include "base/rfc3339.h"

#include <stdio.h>

#include "base/check.h"
#include "base/decimal.h"

enum { DAY_S = 86400 };

#define SECOND_US INT64_C(1000000)

struct civil {
    int64_t year;
    int64_t month; /* 1 … 12 */
    int64_t day;   /* 1 … 31 */
};

/*
 * Days since 1970-01-01 of a date and back, by H. Hinnant's "chrono-compatible low-level date
 * algorithms": years begin in March, so that the leap day comes last; 400 years are an era.
 */
static int64_t days_of(struct civil date)
{
    int64_t year = date.year - (date.month <= 2);
    int64_t era = year / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (date.month + (date.month > 2 ? -3 : 9)) + 2) / 5 + date.day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static struct civil civil_of(int64_t days)
{
    int64_t shifted = days + 719468;
    int64_t era = shifted / 146097;
    int64_t of_era_days = shifted - era * 146097;
    int64_t of_era =
        (of_era_days - of_era_days / 1460 + of_era_days / 36524 - of_era_days / 146096) / 365;
    int64_t of_year = of_era_days - (365 * of_era + of_era / 4 - of_era / 100);
    int64_t month = (5 * of_year + 2) / 153;
    return (struct civil){
        .year = of_era + era * 400 + (month >= 10),
        .month = month < 10 ? month + 3 : month - 9,
        .day = of_year - (153 * month + 2) / 5 + 1,
    };
}

/* `digits` decimal digits from *at on. */
static bool read_digits(struct bytes text, size_t at, size_t digits, int64_t *out_number)
{
    uint64_t number;
    if (at + digits > text.len || !bytes_to_u64(bytes_of(text.at + at, digits), &number))
        return false;
    *out_number = (int64_t)number;
    return true;
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* "yyyy-MM-dd?HH:mm:ss", 19 characters; the caller checks the one in the middle. */
static bool read_date_time(struct bytes text, int64_t *out_s)
{
    static const uint8_t month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    struct civil date;
    int64_t hour, minute, second;
    if (text.len < 19 || text.at[4] != '-' || text.at[7] != '-' || text.at[13] != ':' ||
        text.at[16] != ':')
        return false;
    if (!read_digits(text, 0, 4, &date.year) || !read_digits(text, 5, 2, &date.month) ||
        !read_digits(text, 8, 2, &date.day) || !read_digits(text, 11, 2, &hour) ||
        !read_digits(text, 14, 2, &minute) || !read_digits(text, 17, 2, &second))
        return false;
    if (date.month < 1 || date.month > 12 || date.day < 1 || hour > 23 || minute > 59 ||
        second > 60) /* 60: a leap second, which is the next second here */
        return false;
    if (date.day > month_days[date.month - 1] + (date.month == 2 && is_leap(date.year)))
        return false;
    *out_s = days_of(date) * DAY_S + hour * 3600 + minute * 60 + second;
    return true;
}

/* ".123" to microseconds; *at moves past it. */
static bool read_fraction(struct bytes text, size_t *at, int64_t *out_us)
{
    int64_t us = 0;
    size_t digits = 0;
    *out_us = 0;
    if (*at == text.len || text.at[*at] != '.')
        return true;
    for (++*at; *at < text.len && text.at[*at] >= '0' && text.at[*at] <= '9'; ++*at, digits++) {
        if (digits < 6)
            us = us * 10 + (text.at[*at] - '0');
    }
    if (digits == 0 || digits > 9)
        return false;
    for (; digits < 6; digits++)
        us *= 10;
    *out_us = us;
    return true;
}

/* "Z" or "+08:00", the end of the text. */
static bool read_zone(struct bytes text, size_t at, int64_t *out_s)
{
    int64_t hours, minutes;
    if (at + 1 == text.len && (text.at[at] | 0x20) == 'z') {
        *out_s = 0;
        return true;
    }
    if (at + 6 != text.len || (text.at[at] != '+' && text.at[at] != '-') ||
        text.at[at + 3] != ':' || !read_digits(text, at + 1, 2, &hours) ||
        !read_digits(text, at + 4, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *out_s = (hours * 3600 + minutes * 60) * (text.at[at] == '-' ? -1 : 1);
    return true;
}

static bool take_us(int64_t us, int64_t *out_us)
{
    if (us > RFC3339_MAX_US)
        return false;
    *out_us = us < 0 ? 0 : us;
    return true;
}

bool rfc3339_read(struct bytes text, int64_t *out_us)
{
    int64_t seconds, fraction_us, zone_s;
    size_t at = 19;
    if (!read_date_time(text, &seconds) || !strchr("Tt ", text.at[10]) || text.at[10] == '\0')
        return false;
    if (!read_fraction(text, &at, &fraction_us) || !read_zone(text, at, &zone_s))
        return false;
    return take_us((seconds - zone_s) * SECOND_US + fraction_us, out_us);
}

/* Assumes that a zone's clocks are set at most once within two days. */
static int64_t utc_of(int64_t local_us, int64_t (*east_us)(int64_t at_us))
{
    int64_t before_us = east_us(local_us - DAY_S * SECOND_US);
    int64_t after_us = east_us(local_us + DAY_S * SECOND_US);
    int64_t first_us = local_us - before_us, second_us = local_us - after_us;
    if (before_us == after_us || east_us(first_us) == before_us)
        return first_us;
    return east_us(second_us) == after_us ? second_us : first_us;
}

bool rfc3339_read_local(struct bytes text, int64_t (*east_us)(int64_t at_us), int64_t *out_us)
{
    int64_t seconds;
    if (text.len != 19 || !read_date_time(text, &seconds) || text.at[10] != ' ')
        return false;
    int64_t local_us = seconds * SECOND_US;
    return take_us(east_us ? utc_of(local_us, east_us) : local_us, out_us);
}

/* Two digits of a number up to 99. */
static char *put_two(char *to, int64_t number)
{
    return decimal_put_two(to, (unsigned)number);
}

static char *put_year(char *to, int64_t year)
{
    return put_two(put_two(to, year / 100), year % 100);
}

/* "HH:mm:ss" */
static char *put_time(char *to, unsigned second_of_day)
{
    to = decimal_put_two(to, second_of_day / 3600);
    *to++ = ':';
    to = decimal_put_two(to, second_of_day / 60 % 60);
    *to++ = ':';
    return decimal_put_two(to, second_of_day % 60);
}

/* Three digits, or six if there are microseconds. */
static char *put_fraction(char *to, unsigned us)
{
    *to++ = (char)('0' + us / 100000);
    to = decimal_put_two(to, us / 1000 % 100);
    if (us % 1000 == 0)
        return to;
    *to++ = (char)('0' + us / 100 % 10);
    return decimal_put_two(to, us % 100);
}

size_t rfc3339_print(int64_t us, char room[static RFC3339_ROOM])
{
    char *to = room;
    if (us < 0)
        us = 0;
    if (us > RFC3339_MAX_US)
        us = RFC3339_MAX_US;
    int64_t seconds = us / SECOND_US, fraction_us = us % SECOND_US;
    struct civil date = civil_of(seconds / DAY_S);
    to = put_year(to, date.year);
    *to++ = '-';
    to = put_two(to, date.month);
    *to++ = '-';
    to = put_two(to, date.day);
    *to++ = 'T';
    to = put_time(to, (unsigned)(seconds % DAY_S));
    *to++ = '.';
    to = put_fraction(to, (unsigned)fraction_us);
    *to++ = 'Z';
    return (size_t)(to - room);
}

void rfc3339_add(struct buf *out, int64_t us)
{
    char text[RFC3339_ROOM];
    buf_add(out, text, rfc3339_print(us, text));
}

struct bytes http_date(int64_t unix_seconds, char *room)
{
    static const char days[] = "ThuFriSatSunMonTueWed"; /* 1970-01-01 was a Thursday */
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    CHECK(unix_seconds >= 0 && unix_seconds <= RFC3339_MAX_US / SECOND_US);
    struct civil date = civil_of(unix_seconds / DAY_S);
    char *to = room;
    memcpy(to, days + unix_seconds / DAY_S % 7 * 3, 3);
    memcpy(to + 3, ", ", 2);
    to = put_two(to + 5, date.day);
    *to++ = ' ';
    memcpy(to, months + (date.month - 1) * 3, 3);
    to[3] = ' ';
    to = put_year(to + 4, date.year);
    *to++ = ' ';
    to = put_time(to, (unsigned)(unix_seconds % DAY_S));
    memcpy(to, " GMT", 5); /* with its NUL: 30 bytes in all */
    return bytes_of(room, 29);
}

/* The length in microseconds of the unit at the start of the text; 0: there is no unit. *out_len:
 * the unit's letters. */
static int64_t unit_us(struct bytes text, size_t *out_len)
{
    static const struct {
        struct bytes name;
        int64_t us;
    } units[] = {
        {{"us", 2}, 1},
        {{"ms", 2}, 1000}, /* before m */
        {{"s", 1}, SECOND_US},
        {{"m", 1}, 60 * SECOND_US},
        {{"h", 1}, 3600 * SECOND_US},
        {{"d", 1}, DAY_S * SECOND_US},
        {{"w", 1}, 7 * DAY_S * SECOND_US},
    };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (bytes_starts(text, units[i].name)) {
            *out_len = units[i].name.len;
            return units[i].us;
        }
    }
    return 0;
}

bool duration_read(struct bytes text, int64_t *out_us)
{
    int64_t sum_us = 0;
    if (text.len == 0)
        return false;
    while (text.len) {
        size_t digits = 0, unit_len = 0;
        uint64_t count;
        int64_t part_us;
        while (digits < text.len && text.at[digits] >= '0' && text.at[digits] <= '9')
            digits++;
        if (!bytes_to_u64(bytes_of(text.at, digits), &count) || count > INT64_MAX)
            return false;
        text = bytes_of(text.at + digits, text.len - digits);
        int64_t unit = unit_us(text, &unit_len);
        if (unit == 0 || __builtin_mul_overflow((int64_t)count, unit, &part_us) ||
            __builtin_add_overflow(sum_us, part_us, &sum_us))
            return false;
        text = bytes_of(text.at + unit_len, text.len - unit_len);
    }
    *out_us = sum_us;
    return true;
}

const char *duration_print(int64_t us, char room[static DURATION_ROOM])
{
    bool days = us && us % (DAY_S * SECOND_US) == 0, seconds = us % SECOND_US == 0;
    int64_t unit = days ? DAY_S * SECOND_US : seconds ? SECOND_US : us % 1000 == 0 ? 1000 : 1;
    (void)snprintf(room, DURATION_ROOM, "%lld%s", (long long)(us / unit),
                   days           ? "d"
                   : seconds      ? "s"
                   : unit == 1000 ? "ms"
                                  : "us"); /* it fits */
    return room;
}
