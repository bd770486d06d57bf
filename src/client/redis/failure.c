#include "client/redis/failure.h"

#include <stdio.h>

static const struct {
    const char *code;
    enum failure_kind kind;
} codes[] = {
    {"NOSCRIPT", FAILURE_NO_SCRIPT},
    {"MOVED", FAILURE_MOVED},
    {"ASK", FAILURE_ASK},
    {"TRYAGAIN", FAILURE_LATER},
    {"CLUSTERDOWN", FAILURE_CLUSTER_DOWN},
    {"LOADING", FAILURE_LATER},
    {"BUSY", FAILURE_LATER},
    {"MASTERDOWN", FAILURE_LATER},
    {"NOREPLICAS", FAILURE_LATER},
    {"MISCONF", FAILURE_LATER}, /* it cannot save to its disk, and takes no writes meanwhile */
    {"READONLY", FAILURE_NO_MASTER},
    {"OOM", FAILURE_FULL},
    {"WRONGTYPE", FAILURE_WRONG_TYPE},
    {"NOAUTH", FAILURE_DENIED},
    {"WRONGPASS", FAILURE_DENIED},
    {"NOPERM", FAILURE_DENIED},
    {"DENIED", FAILURE_DENIED},
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
    return redis_address_read(word, 0, &failure->address) && failure->address.port &&
           strcmp(failure->address.host, "?") != 0; /* of a node without a name */
}

/*
 * Finds known errors within other texts. Before Redis 7 an error within a script is reported inside
 * a text that begins with ERR, as other errors do. Only errors that need a reaction are looked for.
 */
static enum failure_kind kind_inside(struct bytes text)
{
    static const struct {
        const char *words;
        enum failure_kind kind;
    } inside[] = {
        {"OOM command not allowed", FAILURE_FULL},
        {"READONLY You can't write", FAILURE_NO_MASTER},
        {"WRONGTYPE Operation against", FAILURE_WRONG_TYPE},
        {"NOREPLICAS Not enough", FAILURE_LATER},
        {"MISCONF ", FAILURE_LATER},
        /* A key that the script did not name has moved with its slot, which is still on its way. */
        {"attempted to access a non local key", FAILURE_LATER},
        {"The user executing the script can't", FAILURE_DENIED},
        {"ERR AUTH ", FAILURE_DENIED}, /* the server has no password: probably the wrong server */
        {"DB index is out of range", FAILURE_DENIED},
        {"TLS: the certificate", FAILURE_DENIED},
        {"No such master with that name", FAILURE_DENIED},
        {"it is a sentinel", FAILURE_DENIED},
        {"it is not a sentinel", FAILURE_DENIED},
        {"max number of clients", FAILURE_LATER},
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
    bool moved = failure.kind == FAILURE_MOVED;
    if (redirects && !read_redirection(rest, &failure)) /* the map of slots has the address */
        failure.kind = moved ? FAILURE_CLUSTER_DOWN : FAILURE_LATER;
    return failure;
}

const char *failure_hint(struct bytes text)
{
    static const struct {
        const char *words, *hint;
    } hints[] = {
        {"OOM ", "pushes and new bodies are refused: raise its maxmemory, or take jobs"},
        {"NOREPLICAS", "bring its replicas back, or lower its min-replicas-to-write"},
        {"MISCONF", "its log says why it cannot save: a full disk, or no right to write there"},
        {"TRYAGAIN", "a slot is moved in part: go on moving it, or redis-cli --cluster fix"},
        {"CLUSTERDOWN", "redis-cli --cluster check names the slots that nobody serves"},
        {"MASTERDOWN", "it is a replica without its master"},
        {"LOADING", "it reads its data from disk: wait"},
        {"BUSY", "somebody's script runs: wait, or SCRIPT KILL"},
        {"a replica", "redis.url must name the master, or the sentinels that know it"},
        {"it is a sentinel", "redis.url for sentinels is redis+sentinel://h1,h2,h3/NAME"},
        {"it is not a sentinel", "redis+sentinel:// names sentinels, on port 26379 as a rule"},
        {"No such master", "redis.url ends in the name by which the sentinels know the master"},
        {"TLS: the certificate", "look at redis.tls_ca, and at the names in its certificate"},
        {"certificate required", "it wants to see redis.tls_certificate and redis.tls_key"},
        {"NOAUTH", "it asks for a password: set LATERD_REDIS_PASSWORD, or put user:password@ into "
                   "redis.url; a sentinel's is redis.sentinel_password"},
        {"WRONGPASS", "look at user and password in redis.url, or at LATERD_REDIS_PASSWORD; a "
                      "sentinel's are redis.sentinel_user and redis.sentinel_password"},
        {"ERR AUTH", "redis.url or LATERD_REDIS_PASSWORD has a password, and this server has none"},
        {"DB index", "look at the number at the end of redis.url, and at its setting databases"},
        {"Connection refused", "nobody listens there: does Redis run, and is this its port?"},
        {"Connection reset", "it ended; or, if it never answered, it may want TLS (rediss://)"},
        {"answer a TLS hello", "most likely it speaks no TLS on this port: write redis:// in "
                               "redis.url, or name its tls-port"},
        {"wrong version number", "it does not speak TLS on this port: write redis:// in redis.url, "
                                 "or name its tls-port"},
        {"answer a new connection", "it hangs, or a firewall is between"},
        {"it does not answer", "it hangs, CLIENT PAUSE holds it, or the network between is cut"},
        {"it closed the connection", "it stopped, or cut this client off: its log says why"},
        {"No such file", "redis.url is unix:// and what its setting unixsocket says"},
        {"Permission denied", "laterd's user may not open it: see its setting unixsocketperm"},
        {"not known", "look at the host's name in redis.url"},
        {"knows of no slots", "redis-cli --cluster create makes servers a cluster"},
        {"cluster_state is not ok", "redis-cli --cluster check tells what it lacks"},
        {"unknown command", "laterd needs it: see rename-command in its configuration"},
        {"max number of clients", "raise its maxclients"},
        {"NOPERM ", "docs/redis-recipes.md has the rights that laterd needs"},
    };
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
        if (memmem(text.at, text.len, hints[i].words, strlen(hints[i].words)))
            return hints[i].hint;
    }
    return "";
}

void failure_write(const char *error, char *room, size_t room_bytes)
{
    const char *hint = failure_hint(bytes_str(error));
    size_t len = strlen(error);
    if (hint[0] && len && error[len - 1] == '.')
        len--;
    (void)snprintf(room, room_bytes, "%.*s%s%s", (int)len, error, hint[0] ? ": " : "", hint);
}
