#include "cli/limits.h"

#include "base/rfc3339.h"
#include "cli/show.h"
#include "cli/text.h"

enum {
    USUAL = 1000,      /* limits.batch_jobs, if it was not changed */
    SMALL_BODY = 65536 /* bytes: smaller bodies are not checked */
};

/* Calls without messages: an error here will be one in the next call, and reported then. */
static const json_t *answer_of(struct cli *cli)
{
    if (cli->limits_read)
        return cli->limits;
    bool quiet = cli->quiet;
    cli->quiet = true;
    int code = cli_call(cli, "GET", "/v1/limits", NULL, &cli->limits);
    cli->quiet = quiet;
    cli->limits_read = code != EXIT_UNREACHABLE; /* `later top` waits for a server */
    return cli->limits;
}

uint64_t limits_of(struct cli *cli, enum limit limit)
{
    static const char *const keys[] = {
        [LIMIT_BATCH] = "batch_jobs", [LIMIT_RESERVE] = "reserve_max", [LIMIT_LIST] = "list_limit"};
    uint64_t value = show_count(answer_of(cli), keys[limit]);
    return value > 0 ? value : USUAL;
}

bool limits_body_over(struct cli *cli, uint64_t bytes)
{
    /* Written as JSON a large body can be over limits.request_bytes, which is all the server would
     * say then. */
    uint64_t most = bytes > SMALL_BODY ? show_count(answer_of(cli), "body_bytes") : 0;
    if (most == 0 || bytes <= most)
        return false;
    cli_message(cli, "the body has %llu bytes; limits.body_bytes is %llu (too_large)",
                (unsigned long long)bytes, (unsigned long long)most);
    return true;
}

bool limits_halve(struct cli *cli, int code, uint64_t *size)
{
    bool again = cli->may_halve && code == EXIT_REFUSED && cli->over_limit;
    cli->may_halve = false;
    if (again)
        *size /= 2;
    return again;
}

int limits_get_page(struct cli *cli, const char *path, struct bytes cursor, uint64_t size,
                    json_t **out_answer)
{
    uint64_t limit = limits_of(cli, LIMIT_LIST);
    int code;
    size = size < limit ? size : limit;
    do {
        struct buf target = {0};
        buf_addf(&target, "%slimit=%llu%s", path, (unsigned long long)size,
                 cursor.len > 0 ? "&cursor=" : "");
        url_add_part(&target, cursor);
        buf_add_char(&target, '\0');
        cli->may_halve = size > 1;
        code = cli_call(cli, "GET", target.at, NULL, out_answer);
        buf_fini(&target);
    } while (limits_halve(cli, code, &size));
    return code;
}

/* The configuration's names, and what /v1/limits calls them. */
static const struct {
    const char *name;
    const char *key;
    enum { COUNT, SIZE, MILLISECONDS } unit;
} named[] = {
    {"limits.batch_jobs", "batch_jobs", COUNT},
    {"limits.body_bytes", "body_bytes", SIZE},
    {"limits.request_bytes", "request_bytes", SIZE},
    {"limits.reserve_topics", "reserve_topics", COUNT},
    {"limits.json_depth", "json_depth", COUNT},
    {"limits.wait_seconds", "wait_ms", MILLISECONDS},
    {"limits.ttr_seconds", "ttr_ms", MILLISECONDS},
};

void limits_add_named(struct cli *cli, const char *text, struct buf *out)
{
    char room[TEXT_ROOM], plain[TEXT_ROOM];
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        if (!strstr(text, named[i].name))
            continue;
        uint64_t value = show_count(answer_of(cli), named[i].key);
        const char *shown = named[i].unit == COUNT  ? count_text(value, room)
                            : named[i].unit == SIZE ? size_text(value, room)
                                                    : duration_print((int64_t)value * 1000, room);
        (void)snprintf(plain, sizeof(plain), "%llu", (unsigned long long)value); /* it fits */
        if (value > 0 && !strstr(text, plain) && !strstr(text, shown))
            buf_addf(out, "%s is %s", named[i].name, shown);
        return;
    }
}
