/* The values of options: each is read here, or ends the program as bad usage. */
#include <ctype.h>

#include "base/check.h"
#include "cli/argv_secret.h"
#include "cli/cli.h"
#include "cli/text.h"
#include "core/job.h"

/* Is it a duration that only has too large a number? */
static bool is_long_duration(const char *text)
{
    struct buf small = {0};
    int64_t us;
    for (const char *at = text; *at; at++) {
        bool repeated = at > text && isdigit((unsigned char)*at) && isdigit((unsigned char)at[-1]);
        if (!repeated)
            buf_add_char(&small, *at);
    }
    buf_add_char(&small, '\0');
    bool is = duration_parse(small.at, &us) == OK;
    buf_fini(&small);
    return is;
}

/* Is it a duration but for blanks in it, "30 m"? Then `close` is that without them. */
static bool is_spaced_duration(const char *text, char close[static TEXT_ROOM])
{
    int64_t us;
    size_t len = 0;
    for (const char *at = text; *at && len < TEXT_ROOM - 1; at++) {
        if (*at != ' ')
            close[len++] = *at;
    }
    close[len] = '\0';
    return len < TEXT_ROOM - 1 && strchr(text, ' ') && duration_parse(close, &us) == OK;
}

int64_t cli_duration_us(const struct cli *cli, const char *option, const char *text)
{
    int64_t us;
    uint64_t bare;
    char close[TEXT_ROOM];
    if (duration_parse(text, &us) == OK)
        return us;
    if (number_parse(text, 0, INT64_MAX, &bare) == OK)
        cli_bad_value(cli, "%s %s of what? write %ss, %sm, %sh or %sms", option, text, text, text,
                      text, text);
    if (is_long_duration(text))
        cli_bad_value(cli, "%s '%s' is too long", option, text);
    if (is_spaced_duration(text, close))
        cli_bad_value(cli, "%s '%s': no space stands in a duration: write %s", option, text, close);
    cli_bad_value(
        cli, "%s '%s' is not a duration such as 250ms, 30s, 1h30m or 3650d (us, ms, s, m, h, d, w)",
        option, text);
}

json_t *cli_duration_json(int64_t us)
{
    char room[TEXT_ROOM];
    if (us % 1000 == 0)
        return json_integer(us / 1000);
    (void)snprintf(room, sizeof(room), "%lldus", (long long)us); /* it fits */
    return json_string(room);
}

json_t *cli_duration(const struct cli *cli, const char *option, const char *text)
{
    return cli_duration_json(cli_duration_us(cli, option, text));
}

uint64_t cli_number(const struct cli *cli, const char *option, const char *text, uint64_t max)
{
    uint64_t number;
    if (number_parse(text, 0, max, &number) && max >= INT64_MAX)
        cli_bad_value(cli, "%s '%s' is not a whole number", option, text);
    if (number_parse(text, 0, max, &number))
        cli_bad_value(cli, "%s '%s' is not a number up to %llu", option, text,
                      (unsigned long long)max);
    return number;
}

bool cli_is_state(const char *text)
{
    for (enum job_state state = JOB_DELAYED; state < JOB_STATES; state++) {
        if (strcmp(text, job_state_name(state)) == 0)
            return true;
    }
    return false;
}

void cli_utf8(const struct cli *cli, const char *option, const char *text)
{
    if (!bytes_is_utf8(bytes_str(text)))
        cli_bad_value(cli, "%s is not UTF-8", option);
}

json_t *cli_string(const struct cli *cli, const char *option, const char *text)
{
    cli_utf8(cli, option, text);
    json_t *string = json_string(text);
    CHECK(string);
    return string;
}

json_t *cli_time(const struct cli *cli, const char *option, const char *text)
{
    uint64_t number;
    if (number_parse(text, 0, INT64_MAX, &number) == OK)
        return json_integer((json_int_t)number);
    return cli_string(cli, option, text);
}

/* "0s,2m,10m", or with blanks between, as defaults.retry may have them: an array of
 * durations. */
static json_t *waits_of(const struct cli *cli, const char *text)
{
    json_t *waits = json_array();
    char part[TEXT_ROOM];
    for (;;) {
        size_t len = strcspn(text, ", ");
        if (len >= sizeof(part))
            cli_bad_value(cli, "--retry is a list of durations such as 0,2m,10m");
        memcpy(part, text, len);
        part[len] = '\0';
        json_array_append_new(waits, cli_duration(cli, "--retry", part));
        text += len;
        if (*text == '\0')
            return waits;
        text += strspn(text, " ");
        text += *text == ',';
        text += strspn(text, " ");
    }
}

json_t *cli_retry(const struct cli *cli, const char *text)
{
    json_error_t error;
    if (text[0] == '{') {
        json_t *formula = json_loads(text, 0, &error);
        if (!formula)
            cli_bad_value(cli, "--retry is not JSON: %s", error.text);
        return formula;
    }
    bool name = (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z');
    return name ? cli_string(cli, "--retry", text) : waits_of(cli, text);
}

void cli_header(const struct cli *cli, json_t *headers, char *text)
{
    size_t len = strcspn(text, ":");
    if (len == 0 || text[len] == '\0')
        cli_bad_value(cli, "--header is 'Name: value', not '%s'", text);
    struct buf name = {0};
    buf_add(&name, text, len);
    buf_add_char(&name, '\0');
    const char *value = text + len + 1 + strspn(text + len + 1, " ");
    if (json_object_set_new(headers, name.at, cli_string(cli, "--header", value)) != 0)
        cli_bad_value(cli, "--header is not UTF-8"); /* its name is not */
    buf_fini(&name);
    argv_cover_header(text);
}
