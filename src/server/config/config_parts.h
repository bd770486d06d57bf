/* Internal declarations of the configuration: the table of keys. */
#ifndef LATERD_SERVER_CONFIG_CONFIG_PARTS_H
#define LATERD_SERVER_CONFIG_CONFIG_PARTS_H

#include <stddef.h>
#include <string.h>

#include "server/config/config.h"

/* The least limits.memory_bytes, besides 0: an empty laterd takes 1.6 MB, and twice that once it
   has answered a client. */
enum { CONFIG_MEMORY_MIN = 4 << 20 };

enum config_kind {
    KIND_COUNT,
    KIND_BYTES,
    KIND_SECONDS,
    KIND_LONG_TIME, /* of hours or days: as KIND_SECONDS, but a bare number is warned of */
    KIND_LISTENER,
    KIND_DIR,
    KIND_LEVEL,
    KIND_ENGINE,
    KIND_URL,
    KIND_PREFIX,
    KIND_WORD,
    KIND_SECRET,
    KIND_DURABILITY,
    KIND_HOSTS,
    KIND_ALLOW,
    KIND_PORTS,
    KIND_PATHS,
    KIND_PROXY,
    KIND_BROKER_TYPE,
    KIND_NAME, /* of a named section */
    KIND_RETRY,
    KIND_RATE,   /* as rate_read() reads it, or 0; a word */
    KIND_CHOICE, /* one of the words of config_choice(); an int64_t, their number */
    KIND_OFFSET, /* of a zone from UTC: an int64_t, seconds */
    KIND_HOST,   /* a word for ids: SDMQ_HOST_MAX bytes of what addresses have */
    KIND_JOB_TARGETS
};

struct config_key {
    const char *section;
    const char *name;
    enum config_kind kind;
    size_t at; /* offset in struct config: of an int64_t, or of a word's CONFIG_WORD_MAX bytes; of a
                  listener: enum protocol_kind */
    int64_t least, most;
    const char *initial;
    const char *help;
};

/* For config_key::at: the offset of a field that config_set_field() writes as a number, or as a
   word. A field of another type or size does not compile. */
#define CONFIG_NUMBER(type, field) _Generic(((type *)0)->field, int64_t : offsetof(type, field))
#define CONFIG_WORD(type, field)                                                                   \
    _Generic(&((type *)0)->field, char(*)[CONFIG_WORD_MAX] : offsetof(type, field))

/* In config_keys.c. */
extern const struct config_key config_keys[];
extern const size_t config_key_count;

/* Sections that may be there many times, each with a name: [broker.NAME]. */
struct config_section {
    const char *word;             /* "broker" */
    const struct config_key *key; /* their `at` counts from the beginning of an entry */
    unsigned key_count;
    size_t entries, count; /* offsets in struct config: of the array, and of an unsigned */
    size_t entry_bytes;
    unsigned most;
    const char *help;
};

extern const struct config_section config_sections[];
extern const unsigned config_section_count;

/* How many entries the configuration has of such a section. */
static inline unsigned config_entry_count(const struct config *config,
                                          const struct config_section *section)
{
    unsigned count;
    memcpy(&count, (const char *)config + section->count, sizeof(count));
    return count;
}

/* One of these entries: it begins with a struct config_named. `number`: below their count. */
static inline const char *config_entry(const struct config *config,
                                       const struct config_section *section, unsigned number)
{
    return (const char *)config + section->entries + number * section->entry_bytes;
}

/* What stands before the first full stop of `name` and is such a section; NULL: none is. */
const struct config_section *config_section_find(struct bytes name);
/* A new entry with its defaults, for a line [word.name]. False: *error says why not. */
bool config_section_add(struct config *config, const struct config_section *section,
                        struct bytes name, struct config_place place, struct config_error *error);
/* One key of the entry that was added last. False: the value is not valid; the key's range says
   why. */
bool config_section_set(struct config *config, const struct config_section *section,
                        const struct config_key *key, const char *value);
/* Do the named sections have what they need? False: *error says what one lacks. */
bool config_sections_check(const struct config *config, struct config_error *error);
/* Their part of the sample. */
void config_sections_print(struct buf *out);
void config_print_key(struct buf *out, const struct config_key *key);
void config_print_help(struct buf *out, const char *help);

/* Set a KIND_CHOICE, a KIND_OFFSET. False: the value is not one of the words, not an offset. */
bool config_set_choice(void *base, const struct config_key *key, const char *value);
bool config_set_offset(void *base, const struct config_key *key, const char *value);
/* The words of a CHOICE, between blanks. */
const char *config_choice(const struct config_key *key);

/* A word, a secret or a number, `at` bytes behind `base`. False: as config_set. */
bool config_set_field(void *base, const struct config_key *key, const char *value);

/* NULL: there is no such key. */
const struct config_key *config_find(const char *section, const char *name);

bool config_is_section(struct bytes name);

/* Sets a key. False: the value is not valid; *error has a text only if it says more than the key's
 * range. */
bool config_set(struct config *config, const struct config_key *key, const char *value,
                struct config_error *error);

/* Appends the values that a key allows, as the rest of a sentence after "must be ". */
void config_add_range(struct buf *out, const struct config_key *key);

/* Is it a time without a unit, only digits? */
bool config_time_is_bare(struct bytes text);

/* A number as a person would write it for a key of this kind: 262144 bytes are 256K. */
void config_add_number(struct buf *out, enum config_kind kind, int64_t number);

#endif
