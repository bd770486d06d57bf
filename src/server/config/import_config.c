#include "server/config/import_config.h"

#include <errno.h>
#include <stdio.h>

#include "server/config/config_parts.h"

enum { FILE_MAX = 1 << 20, DAY_S = 86400 };

enum go_key {
    BIND_ADDRESS,
    BUCKET_SIZE,
    BUCKET_NAME,
    QUEUE_NAME,
    BLOCK_TIMEOUT,
    REDIS_HOST,
    REDIS_DB,
    REDIS_PASSWORD,
    MAX_IDLE,
    MAX_ACTIVE,
    CONNECT_TIMEOUT,
    READ_TIMEOUT,
    WRITE_TIMEOUT,
    GO_KEYS,
};

static const struct {
    const char *name;
    const char *initial;
} go_keys[GO_KEYS] = {
    [BIND_ADDRESS] = {"bind_address", "0.0.0.0:9277"},
    [BUCKET_SIZE] = {"bucket_size", "3"},
    [BUCKET_NAME] = {"bucket_name", "dq_bucket_%d"},
    [QUEUE_NAME] = {"queue_name", "dq_queue_%s"},
    [BLOCK_TIMEOUT] = {"queue_block_timeout", "178"},
    [REDIS_HOST] = {"redis.host", "127.0.0.1:6379"},
    [REDIS_DB] = {"redis.db", "1"},
    [REDIS_PASSWORD] = {"redis.password", ""},
    [MAX_IDLE] = {"redis.max_idle", "10"},
    [MAX_ACTIVE] = {"redis.max_active", "0"},
    [CONNECT_TIMEOUT] = {"redis.connect_timeout", "5000"},
    [READ_TIMEOUT] = {"redis.read_timeout", "180000"},
    [WRITE_TIMEOUT] = {"redis.write_timeout", "3000"},
};

struct conversion {
    struct bytes values[GO_KEYS];
    struct buf *out;
    struct config_error *error;
    bool in_section;          /* the Go server does not know sections */
    bool has_key;             /* one of the Go server's, outside sections */
    struct bytes own_section; /* the first that laterd's configuration has, too; or empty */
};

/* ---- reading ---- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct bytes trim(struct bytes text)
{
    while (text.len && is_space(text.at[0]))
        text = bytes_of(text.at + 1, text.len - 1);
    while (text.len && is_space(text.at[text.len - 1]))
        text.len--;
    return text;
}

/* Up to the first of `ends`; all of it if there is none. */
static struct bytes before(struct bytes text, const char *ends)
{
    size_t len = 0;
    while (len < text.len && (text.at[len] == '\0' || !strchr(ends, text.at[len])))
        len++;
    return bytes_of(text.at, len);
}

/* Without its quotes; a value without quotes ends at a comment, as in the Go server's reader. */
static struct bytes read_value(struct bytes text)
{
    text = trim(text);
    if (text.len && strchr("\"'`", text.at[0])) {
        const char *end = memchr(text.at + 1, text.at[0], text.len - 1);
        if (end)
            return bytes_of(text.at + 1, (size_t)(end - text.at - 1));
    }
    return trim(before(text, "#;"));
}

static enum err refuse(const struct conversion *conversion, unsigned line, const char *what)
{
    (void)snprintf(conversion->error->text, sizeof(conversion->error->text), "line %u: %s", line,
                   what);
    return ERR_INVALID;
}

/* Values are written into comments and into lines of a configuration: a control byte would break
   them. */
static bool is_text(struct bytes text)
{
    return bytes_is_printable(text) && bytes_is_utf8(text);
}

/* [redis] proves nothing: it may also be in a file for the Go server. */
static void note_section(struct conversion *conversion, struct bytes name)
{
    conversion->in_section = true;
    if (!conversion->own_section.len && config_is_section(name) && !bytes_eq(name, BYTES("redis")))
        conversion->own_section = name;
}

static enum err read_line(struct conversion *conversion, struct bytes line, unsigned number)
{
    line = trim(line);
    if (line.len == 0 || line.at[0] == '#' || line.at[0] == ';')
        return OK;
    if (line.at[0] == '[') {
        note_section(conversion, before(bytes_of(line.at + 1, line.len - 1), "]"));
        return OK;
    }
    struct bytes name = before(line, "=:");
    if (name.len == line.len)
        return refuse(conversion, number, "not a key = value, or a comment");
    struct bytes value = read_value(bytes_of(line.at + name.len + 1, line.len - name.len - 1));
    name = trim(name);
    if (!is_text(name) || !is_text(value))
        return refuse(conversion, number, "a control character, or not UTF-8");
    for (unsigned i = 0; i < GO_KEYS && !conversion->in_section; i++) {
        if (!bytes_eq(name, bytes_str(go_keys[i].name)))
            continue;
        conversion->has_key = true;
        conversion->values[i] = value.len ? value : bytes_str(go_keys[i].initial);
        return OK;
    }
    buf_add_str(conversion->out, "# The Go server does not look at: ");
    buf_add_bytes(conversion->out, name);
    buf_add_char(conversion->out, '\n');
    return OK;
}

/* A file of laterd's own would be taken for one that has nothing but defaults. */
static enum err refuse_own(const struct conversion *conversion)
{
    if (!conversion->own_section.len || conversion->has_key)
        return OK;
    (void)snprintf(conversion->error->text, sizeof(conversion->error->text),
                   "this is a configuration of laterd already: it has the section [%.*s], and no "
                   "key of the Go server; check it with laterd -c FILE --check-config",
                   (int)conversion->own_section.len, conversion->own_section.at);
    return ERR_INVALID;
}

/* ---- writing ---- */

/* As in the Go server, a value that is no number counts as missing. */
static uint64_t number_of(const struct conversion *conversion, enum go_key key)
{
    uint64_t number = 0;
    if (bytes_to_u64(conversion->values[key], &number))
        return number;
    (void)bytes_to_u64(bytes_str(go_keys[key].initial), &number); /* it is one */
    buf_addf(conversion->out, "# %s is not a number: the Go server used its default, %s.\n",
             go_keys[key].name, go_keys[key].initial);
    return number;
}

/* To Go, an empty host means all addresses. */
static enum err write_listener(struct conversion *conversion)
{
    struct bytes address = conversion->values[BIND_ADDRESS];
    struct bytes host = before(address, " ,;#\"'");
    if (host.len != address.len || !memchr(address.at, ':', address.len) ||
        address.len + 8 >= CONFIG_ADDRESS_MAX) {
        (void)snprintf(conversion->error->text, sizeof(conversion->error->text),
                       "bind_address = %.*s is no HOST:PORT, as 0.0.0.0:9277 is",
                       address.len > 100 ? 100 : (int)address.len, address.at);
        return ERR_INVALID;
    }
    buf_add_str(conversion->out, "http = ");
    if (address.at[0] == ':')
        buf_add_str(conversion->out, "0.0.0.0");
    buf_add_bytes(conversion->out, address);
    buf_add_str(conversion->out, ",delay-queue\n");
    return OK;
}

static void write_block_timeout(struct conversion *conversion)
{
    uint64_t seconds = number_of(conversion, BLOCK_TIMEOUT);
    if (seconds == 0 || seconds > DAY_S) {
        buf_add_str(conversion->out, "# A /pop waited longer than a day, or forever (0); a day is "
                                     "the most here.\n");
        seconds = DAY_S;
    }
    buf_addf(conversion->out, "block_timeout = %llus\n", (unsigned long long)seconds);
}

/* As one word for a shell. */
static void add_quoted(struct buf *out, struct bytes text)
{
    buf_add_char(out, '\'');
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '\'')
            buf_add_str(out, "'\\'");
        buf_add_char(out, text.at[i]);
    }
    buf_add_char(out, '\'');
}

/* The alternative, as comments: the queue stays in Redis. */
static void write_engine(const struct conversion *conversion, uint64_t db)
{
    struct buf *out = conversion->out;
    buf_add_str(
        out, "\n# laterd keeps jobs on its own disk. To keep them in that Redis instead, shared by "
             "any\n# number of laterds (docs/redis.md), take these # away:\n"
             "#[engine]\n#engine = redis\n#[redis]\n#url = redis://");
    buf_add_bytes(out, conversion->values[REDIS_HOST]);
    buf_addf(out, "/%llu\n", (unsigned long long)db);
    if (conversion->values[REDIS_PASSWORD].len)
        buf_add_str(out, "# with redis.password in the environment's LATERD_REDIS_PASSWORD.\n");
    buf_add_str(out, "# Its keys, \"{laterd:…\", lie beside those of the Go server.\n");
}

static void write_import(const struct conversion *conversion, uint64_t db)
{
    struct buf *out = conversion->out;
    struct bytes bucket = conversion->values[BUCKET_NAME], queue = conversion->values[QUEUE_NAME];
    buf_add_str(out, "\n# Jobs that the Go server has in Redis, once it is stopped:\n#   later "
                     "import redis --layout delay-queue");
    if (!bytes_eq(bucket, bytes_str(go_keys[BUCKET_NAME].initial))) {
        buf_add_str(out, " --bucket-name ");
        add_quoted(out, bucket);
    }
    if (!bytes_eq(queue, bytes_str(go_keys[QUEUE_NAME].initial))) {
        buf_add_str(out, " --queue-name ");
        add_quoted(out, queue);
    }
    buf_add_str(out, " redis://");
    buf_add_bytes(out, conversion->values[REDIS_HOST]);
    buf_addf(out, "/%llu\n", (unsigned long long)db);
    if (conversion->values[REDIS_PASSWORD].len)
        buf_add_str(out, "# with redis.password in the environment's LATER_REDIS_PASSWORD.\n");
    buf_add_str(out, "# bucket_size, redis.max_idle, redis.max_active and the redis timeouts have "
                     "nothing to set here.\n");
}

enum err import_config_convert(struct bytes text, struct buf *out, struct config_error *out_error)
{
    struct conversion conversion = {.out = out, .error = out_error};
    unsigned line = 0;
    enum err err = OK;
    for (unsigned i = 0; i < GO_KEYS; i++)
        conversion.values[i] = bytes_str(go_keys[i].initial);
    if (bytes_starts(text, BYTES("\xef\xbb\xbf"))) /* a byte order mark */
        text = bytes_of(text.at + 3, text.len - 3);
    buf_add_str(out, "# What the configuration of the Go server says, in laterd's words. All other "
                     "keys have\n# their defaults: laterd --print-config shows them.\n");
    while (text.len && !err) {
        struct bytes one = before(text, "\n");
        err = read_line(&conversion, one, ++line);
        size_t used = one.len < text.len ? one.len + 1 : one.len;
        text = bytes_of(text.at + used, text.len - used);
    }
    if (!err)
        err = refuse_own(&conversion);
    if (err)
        return err;
    buf_add_str(out, "\n[server]\n");
    err = write_listener(&conversion);
    if (err)
        return err;
    buf_add_str(out, "# The Go server has no listener for beanstalkd's clients.\n"
                     "beanstalk = none\n\n[defaults]\n");
    write_block_timeout(&conversion);
    uint64_t db = number_of(&conversion, REDIS_DB);
    write_engine(&conversion, db);
    write_import(&conversion, db);
    return OK;
}

enum err import_config_file(const char *path, struct buf *out, struct config_error *out_error)
{
    struct buf text = {0};
    FILE *file = fopen(path, "re");
    size_t got = 0;
    if (file) {
        buf_reserve(&text, FILE_MAX);
        got = fread(text.at, 1, FILE_MAX, file);
        text.len = got;
    }
    bool failed = !file || ferror(file);
    if (failed)
        (void)snprintf(out_error->text, sizeof(out_error->text), "%.300s: %s", path,
                       strerror(errno));
    if (file)
        (void)fclose(file); /* only read from */
    enum err err = failed ? ERR_IO : OK;
    if (!err && got == FILE_MAX) {
        (void)snprintf(out_error->text, sizeof(out_error->text),
                       "%.300s is too large for a configuration", path);
        err = ERR_INVALID;
    }
    struct config_error why;
    if (!err) {
        err = import_config_convert(buf_bytes(&text), out, &why);
        if (err)
            (void)snprintf(out_error->text, sizeof(out_error->text), "%.200s: %.300s", path,
                           why.text);
    }
    buf_fini(&text);
    return err;
}
