/* The configuration file: read line by line, refused with the line and what would be right. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ascii.h"
#include "base/typo.h"
#include "server/config/config_parts.h"

enum { LINE_ROOM = 4096 }; /* the longest values have 2 KiB */

struct reading {
    struct config *config;
    struct config_error *error;
    const char *path;
    FILE *file;
    unsigned line;
    unsigned lines[CONFIG_KEYS_MAX]; /* where this file set a key first; 0: not yet */
    bool refused;
    char in[CONFIG_NAME_MAX]; /* the name of the section that the lines are in; "": of none */
    /* Of the named section that the lines are in, if they are in one: */
    const struct config_section *section;
    uint64_t section_keys; /* bits: those that were set */
};

/* ---- the nearest name ---- */

/* True: `name` is probably a misspelling of `other`. A third of its letters may differ: more than
   typo_add() allows, because the file is refused anyway, and a hint that is wrong does no harm. */
static bool is_near(const char *name, const char *other)
{
    unsigned distance = typo_distance(name, other);
    return distance < TYPO_WORD_MAX && distance <= 1 + strlen(name) / 3;
}

/* Of the section's keys, or (NULL) of all; NULL: the section has none. */
static const struct config_key *nearest_of(const char *section, const char *name)
{
    const struct config_key *best = NULL;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (section && strcmp(key->section, section) != 0)
            continue;
        if (!best || typo_distance(name, key->name) < typo_distance(name, best->name))
            best = key;
    }
    return best;
}

/*
 * The key that was probably meant: one of exactly that name, which stands in the wrong section;
 * else the nearest of its section; else the nearest of any section.
 */
static const struct config_key *nearest(const char *section, const char *name)
{
    const struct config_key *home = nearest_of(section, name), *any = nearest_of(NULL, name);
    bool exact = strcmp(any->name, name) == 0;
    return home && !exact && is_near(name, home->name) ? home : any;
}

/* ---- errors ---- */

static void complain(struct reading *reading, const char *what)
{
    struct config_place place = {.path = reading->path, .line = reading->line};
    reading->refused = true; /* no line behind this one is read */
    (void)snprintf(reading->error->text, sizeof(reading->error->text), "%s%.320s",
                   config_place_text(place).text, what);
}

static bool is_key(const char *name)
{
    for (size_t i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Is it a part of a URL, for which other programs have keys? */
static bool key_is_of_url(const char *name)
{
    static const char *const words[] = {"host", "port", "db", "user", "username", "password"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(name, words[i]) == 0)
            return true;
    }
    return false;
}

static void add_sections(struct buf *out)
{
    const char *section = "";
    buf_add_str(out, "there are");
    for (size_t i = 0; i < config_key_count; i++) {
        if (strcmp(section, config_keys[i].section) != 0)
            buf_addf(out, " [%s]", config_keys[i].section);
        section = config_keys[i].section;
    }
    buf_add_str(out, " [broker.NAME] [amqp_in.NAME]");
}

/* " [server] or [journal]": all that have a key of exactly that name. */
static void add_sections_with(struct buf *out, const char *name)
{
    const char *before = "";
    for (size_t i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].name, name) != 0)
            continue;
        buf_addf(out, "%s [%s]", before, config_keys[i].section);
        before = " or";
    }
    for (unsigned i = 0; i < config_section_count; i++) {
        const struct config_section *section = &config_sections[i];
        for (unsigned key = 0; key < section->key_count; key++) {
            if (strcmp(section->key[key].name, name) != 0)
                continue;
            buf_addf(out, "%s [%s.NAME]", before, section->word);
            before = " or";
        }
    }
}

/* There is no such section: is it a key, or a section's name that is misspelt? */
static void complain_section(struct reading *reading, const char *section)
{
    const char *near_section = config_keys[0].section;
    char small[TYPO_WORD_MAX + 1] = ""; /* a longer one is near none */
    struct buf what = {0};
    buf_addf(&what, "unknown section [%.60s]; ", section);
    for (size_t i = 0; section[i] && i + 1 < sizeof(small); i++)
        small[i] = ascii_lower(section[i]);
    for (size_t i = 1; i < config_key_count; i++) {
        if (typo_distance(small, config_keys[i].section) < typo_distance(small, near_section))
            near_section = config_keys[i].section;
    }
    if (is_key(section)) {
        buf_addf(&what, "\"%s\" is a key, below a line", section);
        add_sections_with(&what, section);
    } else if (is_near(small, near_section)) {
        buf_addf(&what, "the nearest is [%s]", near_section);
    } else {
        add_sections(&what);
    }
    buf_add_char(&what, '\0');
    complain(reading, what.at);
    buf_fini(&what);
}

/* There is no such key in that section: is it the section that is wrong, or the key? */
static void complain_unknown(struct reading *reading, const char *section, const char *name)
{
    struct buf what = {0};
    const struct config_key *near_key = nearest(section, name);
    bool near = is_near(name, near_key->name);
    if (section[0] == '\0')
        buf_addf(&what, "the key \"%.60s\" stands before any section", name);
    else
        buf_addf(&what, "unknown key \"%.60s\" in section [%.60s]", name, section);
    if (section[0] == '\0' && config_is_section(bytes_str(name))) {
        buf_addf(&what, "; a section is a line of its own: write [%s]", name);
    } else if (section[0] == '\0' && !near) {
        buf_add_str(&what, ", such as [server]; --print-config shows them all");
    } else if (section[0] == '\0') {
        buf_addf(&what, "; \"%s\" goes below a line", near_key->name);
        add_sections_with(&what, near_key->name);
    } else if (strcmp(section, "redis") == 0 && key_is_of_url(name)) {
        buf_add_str(&what, "; it is a part of \"url\"");
    } else if (strpbrk(name, " \t")) {
        buf_add_str(&what, "; is an = missing?");
    } else if (!near) {
        buf_add_str(&what, "; --print-config shows them all");
    } else if (strcmp(section, near_key->section) == 0) {
        buf_addf(&what, "; the nearest is \"%s\"", near_key->name);
    } else if (strcmp(name, near_key->name) == 0) {
        buf_add_str(&what, "; it goes below a line");
        add_sections_with(&what, name);
    } else {
        buf_addf(&what, ", which has none like it; there is \"%s\" in another section,",
                 near_key->name);
        add_sections_with(&what, near_key->name);
    }
    buf_add_char(&what, '\0');
    complain(reading, what.at);
    buf_fini(&what);
}

static bool may_be_repeated(const struct config_key *key)
{
    return key->kind == KIND_LISTENER || key->kind == KIND_HOSTS || key->kind == KIND_ALLOW ||
           key->kind == KIND_PATHS;
}

/* The first line of a list drops the default, and the list of a file read before. */
static void forget_list(struct config *config, const struct config_key *key)
{
    if (key->kind == KIND_LISTENER)
        config->listeners[key->at].count = 0;
    else if (key->kind == KIND_HOSTS)
        config->hosts[0] = '\0';
    else if (key->kind == KIND_ALLOW)
        config->push_rule.allow_count = 0;
    else if (key->kind == KIND_PATHS)
        config->push_unix_sockets[0] = '\0';
}

enum { SIZE_ROOM = 24 };

/* A size but for the case of its unit, "64k" or "16mib"? `room` gets it as it must be written. */
static bool is_small_size(const char *value, char room[static SIZE_ROOM])
{
    size_t len = strlen(value);
    int64_t bytes;
    if (len >= SIZE_ROOM)
        return false;
    for (size_t i = 0; i <= len; i++) /* the i of KiB stays */
        room[i] = value[i] && strchr("kmgtb", value[i]) ? (char)(value[i] - 'a' + 'A') : value[i];
    return config_bytes(bytes_of(room, len), &bytes) && strcmp(room, value) != 0;
}

static bool is_time(const struct config_key *key)
{
    return key->kind == KIND_SECONDS || key->kind == KIND_LONG_TIME;
}

/* A duration but for blanks in it, "30 m"? `room` gets it as it must be written. */
static bool is_spaced_time(const char *value, char room[static SIZE_ROOM])
{
    size_t len = 0;
    int64_t us;
    for (const char *at = value; *at && len + 1 < SIZE_ROOM; at++) {
        if (*at != ' ' && *at != '\t')
            room[len++] = *at;
    }
    room[len] = '\0';
    return strlen(room) != strlen(value) && !config_time_is_bare(bytes_str(room)) &&
           config_duration(bytes_str(room), 1, &us);
}

/* `why`: what config_set() says; empty: the key's range says it. */
static void complain_value(struct reading *reading, const struct config_key *key, const char *value,
                           const char *why)
{
    struct buf what = {0};
    char size[SIZE_ROOM];
    if (why[0]) {
        buf_add_str(&what, why);
    } else if (key->kind == KIND_BYTES && is_small_size(value, size)) {
        buf_addf(&what, "%s = %s: units are capital letters: write %s", key->name, value, size);
    } else if (is_time(key) && is_spaced_time(value, size)) {
        buf_addf(&what, "%s = %.60s: no space stands in a duration: write %s", key->name, value,
                 size);
    } else {
        bool secret = key->kind == KIND_URL || key->kind == KIND_SECRET ||
                      key->kind == KIND_PROXY; /* or may hold one */
        if (value[0])
            buf_addf(&what, "%s = %.60s: must be ", key->name, secret ? "…" : value);
        else
            buf_addf(&what, "%s is empty: it must be ", key->name);
        config_add_range(&what, key);
    }
    buf_add_char(&what, '\0');
    complain(reading, what.at);
    buf_fini(&what);
}

/* Else they would be a part of the value: of a path, for instance. */
static bool complain_quotes(struct reading *reading, const struct config_key *key,
                            const char *value)
{
    size_t len = strlen(value);
    struct config_error why;
    if (len < 2 || (value[0] != '"' && value[0] != '\'') || value[len - 1] != value[0])
        return false;
    (void)snprintf(why.text, sizeof(why.text), "%s: write the value without quotation marks",
                   key->name);
    complain(reading, why.text);
    return true;
}

/* ---- the file ---- */

static void set_place(struct reading *reading, const struct config_key *key, const char *value)
{
    struct config_place place = {.path = reading->path,
                                 .line = reading->line,
                                 .bare_time = config_time_is_bare(bytes_str(value))};
    reading->config->places[key - config_keys] = place;
    if (key->kind != KIND_LISTENER)
        return;
    struct config_listeners *listeners = &reading->config->listeners[key->at];
    if (listeners->count) /* it was "none" otherwise */
        listeners->at[listeners->count - 1].place = place;
}

static void complain_of_named(struct reading *reading, const char *name)
{
    const struct config_section *section = reading->section;
    struct buf what = {0};
    buf_addf(&what, "unknown key \"%.60s\" in section [%s.NAME]; its keys are", name,
             section->word);
    for (unsigned i = 0; i < section->key_count; i++)
        buf_addf(&what, "%s %s", i ? "," : "", section->key[i].name);
    buf_add_char(&what, '\0');
    complain(reading, what.at);
    buf_fini(&what);
}

/* A key of a named section: [broker.NAME]. */
static void take_named_key(struct reading *reading, const char *name, const char *value)
{
    const struct config_section *section = reading->section;
    unsigned at = 0;
    while (at < section->key_count && strcmp(section->key[at].name, name) != 0)
        at++;
    if (at == section->key_count) {
        complain_of_named(reading, name);
        return;
    }
    if (reading->section_keys >> at & 1) {
        char what[CONFIG_TEXT_MAX];
        (void)snprintf(what, sizeof(what), "%s is set in this section already", name);
        complain(reading, what);
        return;
    }
    reading->section_keys |= UINT64_C(1) << at;
    if (complain_quotes(reading, &section->key[at], value))
        return;
    if (!config_section_set(reading->config, section, &section->key[at], value))
        complain_value(reading, &section->key[at], value, "");
    else if (strcmp(section->key[at].section, "broker") == 0 && strcmp(name, "url") == 0)
        reading->config->brokers[reading->config->broker_count - 1].url_line = reading->line;
}

static void take_key(struct reading *reading, const char *name, const char *value)
{
    const struct config_key *key = config_find(reading->in, name);
    struct config_error why = {{0}};
    if (reading->section) {
        take_named_key(reading, name, value);
        return;
    }
    if (!key) {
        complain_unknown(reading, reading->in, name);
        return;
    }
    unsigned *first_line = &reading->lines[key - config_keys];
    if (*first_line && !may_be_repeated(key)) {
        char what[CONFIG_TEXT_MAX];
        (void)snprintf(what, sizeof(what),
                       "%s.%s is set in line %u already; take one of the two lines away",
                       key->section, key->name, *first_line);
        complain(reading, what);
        return;
    }
    if (!*first_line) {
        forget_list(reading->config, key);
        *first_line = reading->line;
    }
    if (complain_quotes(reading, key, value))
        return;
    if (config_set(reading->config, key, value, &why))
        set_place(reading, key, value);
    else
        complain_value(reading, key, value, why.text);
}

/* A line [broker.NAME] is an entry more; any other [section] ends it. */
static void begin_section(struct reading *reading, struct bytes name)
{
    struct config_place place = {.path = reading->path, .line = reading->line};
    struct config_error why = {{0}};
    reading->section = config_section_find(name);
    reading->section_keys = 0;
    if (!reading->section) {
        char word[CONFIG_TEXT_MAX];
        (void)snprintf(word, sizeof(word), "%.*s", (int)name.len,
                       name.at); /* cut: it is shown so */
        if (!config_is_section(name))
            complain_section(reading, word);
        (void)snprintf(reading->in, sizeof(reading->in), "%.32s", word); /* known ones fit */
        return;
    }
    const char *stop = memchr(name.at, '.', name.len);
    name = stop ? bytes_of(stop + 1, (size_t)(name.at + name.len - stop - 1)) : bytes_of("", 0);
    if (!config_section_add(reading->config, reading->section, name, place, &why))
        complain(reading, why.text);
}

/* A line that begins with a bracket. */
static void take_section(struct reading *reading, const char *line)
{
    char what[CONFIG_TEXT_MAX];
    const char *end = strchr(line, ']');
    size_t len = strcspn(line + 1, " \t");
    if (!end) {
        (void)snprintf(what, sizeof(what), "the ] of a section is missing: write [%.*s]",
                       len > 60 ? 60 : (int)len, line + 1);
        complain(reading, what);
    } else if (end[1] && end[1] != ';' && end[1] != '#') { /* a comment may touch the bracket */
        (void)snprintf(what, sizeof(what),
                       "behind the ] of a section stands \"%.60s\": write it in a line of its own",
                       end + 1 + strspn(end + 1, " \t"));
        complain(reading, what);
    } else {
        begin_section(reading, bytes_of(line + 1, (size_t)(end - line - 1)));
    }
}

/* A ; or a # behind a blank begins a comment. */
static void cut_comment(char *line)
{
    for (char *at = line; *at; at++) {
        if ((*at != '#' && *at != ';') || at == line || (at[-1] != ' ' && at[-1] != '\t'))
            continue;
        *at = '\0';
        return;
    }
}

/* Without the blanks at both ends, which are cut off in place. */
static char *trim(char *text)
{
    static const char blanks[] = " \t\r\n\v\f";
    text += strspn(text, blanks);
    size_t len = strlen(text);
    while (len && strchr(blanks, text[len - 1]))
        len--;
    text[len] = '\0';
    return text;
}

static void take_line(struct reading *reading, char *line)
{
    if (reading->line == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
        line += 3;
    line = trim(line);
    if (line[0] == '\0' || line[0] == ';' || line[0] == '#')
        return;
    cut_comment(line);
    line = trim(line);
    if (line[0] == '[') {
        take_section(reading, line);
        return;
    }
    char *end = line + strcspn(line, "=:");
    if (*end == '\0') {
        complain(reading, "not a [section], a key = value, or a comment");
        return;
    }
    *end = '\0';
    take_key(reading, trim(line), trim(end + 1));
}

/* Reads a line. False: there is none, or it cannot be taken, which has been complained of. */
static bool read_line(struct reading *reading, char room[LINE_ROOM])
{
    if (!fgets(room, LINE_ROOM, reading->file)) {
        reading->line++;
        if (ferror(reading->file))
            complain(reading, "the file cannot be read on from here");
        return false;
    }
    reading->line++;
    if (strchr(room, '\n') || feof(reading->file))
        return true;
    char what[80];
    bool cut = strlen(room) + 1 == LINE_ROOM;
    (void)snprintf(what, sizeof(what), "the line is longer than %d bytes", LINE_ROOM - 2);
    complain(reading, cut ? what : "the line has a NUL byte: is this a text file?");
    return false;
}

/* False: another reading would wait for who writes to it, or find nothing where there were lines:
   laterd -c <(…), -c /dev/stdin. */
static bool can_be_read_again(const char *path)
{
    struct stat status;
    return stat(path, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
}

enum err config_read(struct config *config, const char *path, struct config_error *out_error)
{
    struct reading reading = {.config = config, .error = out_error, .path = path};
    struct stat status;
    if (config->again && !can_be_read_again(path)) {
        (void)snprintf(
            out_error->text, sizeof(out_error->text),
            "%.300s: this is a pipe or a device, which cannot be read again; give a file, "
            "or restart laterd",
            path);
        return ERR_INVALID;
    }
    reading.file = fopen(path, "re");
    if (!reading.file) {
        bool missing = errno == ENOENT;
        (void)snprintf(out_error->text, sizeof(out_error->text), "%.300s: %s%s", path,
                       strerror(errno),
                       missing ? "; laterd --print-config writes one with every key" : "");
        return missing ? ERR_NOT_FOUND : ERR_IO;
    }
    if (fstat(fileno(reading.file), &status) == 0 && S_ISDIR(status.st_mode)) {
        (void)fclose(reading.file); /* nothing was read */
        (void)snprintf(out_error->text, sizeof(out_error->text),
                       "%.300s: this is a directory; give the configuration file itself", path);
        return ERR_INVALID;
    }
    char line[LINE_ROOM];
    while (!reading.refused && read_line(&reading, line))
        take_line(&reading, line);
    (void)fclose(reading.file); /* only read from */
    return reading.refused ? ERR_INVALID : OK;
}
