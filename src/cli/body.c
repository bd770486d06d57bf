#include "cli/body.h"

#include <errno.h>

#include "cli/raw_json.h"
#include "proto/base64.h"
#include "proto/json.h"

enum { READ_MAX = 64 << 20 /* bytes of a body from a file: far above any server's limit */ };

FILE *body_open(const struct cli *cli, const char *argument)
{
    const char *path = argument + (argument[0] == '@');
    if (strcmp(argument, "-") == 0)
        return stdin;
    if (strcmp(argument, "@") == 0)
        cli_bad_value(cli, "@: the name of a file is missing behind it");
    FILE *file = fopen(path, "re");
    if (!file)
        cli_bad_value(cli, "cannot read %s: %s%s", path, strerror(errno),
                      strcmp(argument, "@-") == 0 ? "; standard input is - without the @" : "");
    return file;
}

static void read_file(const struct cli *cli, const char *argument, struct buf *out)
{
    FILE *file = body_open(cli, argument);
    size_t count;
    do {
        buf_reserve(out, 65536);
        count = fread(out->at + out->len, 1, 65536, file);
        out->len += count;
        /* Behind its end a terminal would be read again: Ctrl-D would be wanted twice. */
    } while (count > 0 && !feof(file) && out->len <= READ_MAX);
    if (ferror(file))
        cli_bad_value(cli, "cannot read all of %s: %s",
                      file == stdin ? "standard input" : argument + 1, strerror(errno));
    if (out->len > READ_MAX)
        cli_bad_value(cli, "%s is too long for a body: a server takes %d MiB at most",
                      file == stdin ? "standard input" : argument + 1, READ_MAX >> 20);
    if (file != stdin)
        (void)fclose(file); /* only read from */
}

void body_read(const struct cli *cli, const char *argument, bool is_json, struct buf *out)
{
    size_t before = out->len;
    if (strcmp(argument, "-") == 0 || argument[0] == '@')
        read_file(cli, argument, out);
    else
        buf_add_str(out, argument);
    if (is_json && out->len == before)
        cli_bad_value(cli, "the body is empty, which is not JSON");
}

bool body_add_object(const json_t *fields, struct bytes body, bool is_json, struct buf *out,
                     const char **out_why)
{
    struct buf packed = {0};
    bool utf8 = bytes_is_utf8(body);
    if (is_json && !raw_json_check(body, out_why))
        return false;
    if (is_json)
        buf_add_bytes(&packed, body);
    else if (utf8)
        json_add_text(&packed, body, JSON_STYLE_PLAIN);
    else
        buf_add_char(&packed, '"');
    if (!is_json && !utf8) {
        base64_write(&packed, body);
        buf_add_char(&packed, '"');
    }
    raw_json_add_object(out, fields, is_json || utf8 ? "body" : "body_base64", buf_bytes(&packed));
    buf_fini(&packed);
    return true;
}

void body_add_good(const struct cli *cli, const json_t *fields, struct bytes body, bool is_json,
                   struct buf *out)
{
    const char *why;
    if (!body_add_object(fields, body, is_json, out, &why))
        cli_bad_value(cli, "the body is not JSON: %s", why);
}

struct bytes body_without_mark(struct bytes start)
{
    struct bytes mark = BYTES("\xef\xbb\xbf");
    bool marked = bytes_starts(start, mark);
    return marked ? bytes_of(start.at + mark.len, start.len - mark.len) : start;
}
