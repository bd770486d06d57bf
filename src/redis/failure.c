#include "redis/failure.h"

static const struct {
    const char *code;
    enum failure_kind kind;
} codes[] = {
    {"NOSCRIPT", FAILURE_NO_SCRIPT}, {"MOVED", FAILURE_MOVED},       {"ASK", FAILURE_ASK},
    {"TRYAGAIN", FAILURE_LATER},     {"CLUSTERDOWN", FAILURE_LATER}, {"LOADING", FAILURE_LATER},
    {"BUSY", FAILURE_LATER},         {"MASTERDOWN", FAILURE_LATER},  {"NOREPLICAS", FAILURE_LATER},
    {"MISCONF", FAILURE_LATER}, /* it cannot save to its disk, and takes no writes meanwhile */
    {"READONLY", FAILURE_NO_MASTER}, {"OOM", FAILURE_FULL},          {"NOAUTH", FAILURE_DENIED},
    {"WRONGPASS", FAILURE_DENIED},   {"NOPERM", FAILURE_DENIED},     {"DENIED", FAILURE_DENIED},
};

/* The first word; the text behind it stays. */
static struct bytes take_word(struct bytes *text)
{
    size_t len = 0;
    while (len < text->len && text->at[len] != ' ')
        len++;
    struct bytes word = bytes_of(text->at, len);
    size_t skip = len + (len < text->len);
    *text = bytes_of(text->at + skip, text->len - skip);
    return word;
}

/* "3999 127.0.0.1:6381"; since Redis 7 the host may be missing (":6381"): the one that answered. */
static bool read_redirection(struct bytes text, struct failure *failure)
{
    uint64_t slot, port;
    struct bytes word = take_word(&text);
    if (!bytes_to_u64(word, &slot) || slot > 16383)
        return false;
    failure->slot = (uint16_t)slot;
    word = take_word(&text);
    if (word.len && word.at[0] == ':') {
        if (!bytes_to_u64(bytes_of(word.at + 1, word.len - 1), &port) || port > UINT16_MAX)
            return false;
        failure->address.port = (uint16_t)port;
        return true;
    }
    return redis_address_read(word, 0, &failure->address) && failure->address.port;
}

/*
 * A script that meets an error passes it on; before Redis 7 in a frame of its own, whose first word
 * is ERR, as is that of some others. Of these only the ones that say what to do are looked for.
 */
static enum failure_kind kind_inside(struct bytes text)
{
    static const struct {
        const char *words;
        enum failure_kind kind;
    } inside[] = {
        {"OOM command not allowed", FAILURE_FULL},
        {"READONLY You can't write", FAILURE_NO_MASTER},
        {"NOREPLICAS Not enough", FAILURE_LATER},
        {"MISCONF ", FAILURE_LATER},
        {"The user executing the script can't", FAILURE_DENIED},
        {"ERR AUTH ", FAILURE_DENIED}, /* a password where there is none: it is not that server */
        {"DB index is out of range", FAILURE_DENIED},
        {"TLS: the certificate", FAILURE_DENIED},
        {"No such master with that name", FAILURE_DENIED},
    };
    for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
        if (memmem(text.at, text.len, inside[i].words, strlen(inside[i].words)))
            return inside[i].kind;
    }
    return FAILURE_OTHER;
}

struct failure failure_read(struct bytes text)
{
    struct failure failure = {.kind = FAILURE_OTHER};
    struct bytes rest = text;
    if (rest.len && rest.at[0] == '-')
        rest = bytes_of(rest.at + 1, rest.len - 1);
    struct bytes word = take_word(&rest);
    failure.kind = kind_inside(text);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (bytes_eq(word, bytes_str(codes[i].code)))
            failure.kind = codes[i].kind;
    }
    bool redirects = failure.kind == FAILURE_MOVED || failure.kind == FAILURE_ASK;
    if (redirects && !read_redirection(rest, &failure))
        failure.kind = FAILURE_LATER; /* the map of slots will tell */
    return failure;
}

const char *failure_hint(struct bytes text)
{
    static const struct {
        const char *words, *hint;
    } hints[] = {
        {"NOREPLICAS", "bring its replicas back, or lower its min-replicas-to-write"},
        {"MISCONF", "its log says why it cannot save: a full disk, or no right to write there"},
        {"TRYAGAIN", "a slot is moved in part: go on moving it, or redis-cli --cluster fix"},
        {"CLUSTERDOWN", "redis-cli --cluster check names the slots that nobody serves"},
        {"MASTERDOWN", "it is a replica without its master"},
        {"LOADING", "it reads its data from disk: wait"},
        {"BUSY", "somebody's script runs: wait, or SCRIPT KILL"},
        {"a replica", "redis.url must name the master, or the sentinels that know it"},
        {"TLS: the certificate", "look at redis.tls_ca, and at the names in its certificate"},
        {"NOAUTH", "it asks for a password"},
        {"WRONGPASS", "look at user and password in redis.url"},
        {"NOPERM", "docs/redis.md has the rights that laterd needs"},
    };
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
        if (memmem(text.at, text.len, hints[i].words, strlen(hints[i].words)))
            return hints[i].hint;
    }
    return "";
}
