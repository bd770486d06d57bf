/* What the files that make up the configuration share: the table of keys. */
#ifndef LATERD_SERVER_CONFIG_CONFIG_PARTS_H
#define LATERD_SERVER_CONFIG_CONFIG_PARTS_H

#include "server/config/config.h"

enum config_kind {
    KIND_COUNT,
    KIND_BYTES,
    KIND_SECONDS,
    KIND_LISTENER,
    KIND_DIR,
    KIND_LEVEL,
    KIND_ENGINE,
    KIND_URL,
    KIND_PREFIX,
    KIND_WORD,
    KIND_SECRET,
    KIND_DURABILITY,
    KIND_HOSTS
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

extern const struct config_key config_keys[];
extern const size_t config_key_count;

/* NULL: there is no such key. */
const struct config_key *config_find(const char *section, const char *name);

bool config_is_section(struct bytes name);

/* False: the value is not one for this key; *error has a text only if that says more than its
 * range. */
bool config_set(struct config *config, const struct config_key *key, const char *value,
                struct config_error *error);

/* What a key's value must be, to be read after "must be ". */
void config_add_range(struct buf *out, const struct config_key *key);

/* A number as a person would write it for a key of this kind: 262144 bytes are 256K. */
void config_add_number(struct buf *out, enum config_kind kind, int64_t number);

#endif
