/* Keys whose value is one of several words, or an offset from UTC. */
#include "base/ascii.h"
#include "base/check.h"
#include "server/config/config_parts.h"

static const struct {
    const char *section, *name;
    const char *words; /* in the order of their numbers */
} choices[] = {
    {"journal", "mode", "after before"},     {"journal", "on_lag", "refuse detach"},
    {"journal", "log", "all ends"},          {"push", "ordered", "auto on off"},
    {"redis", "order", "auto topic spread"}, /* enum redis_order */
};

const char *config_choice(const struct config_key *key)
{
    const char *words = NULL;
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        if (strcmp(choices[i].section, key->section) == 0 &&
            strcmp(choices[i].name, key->name) == 0)
            words = choices[i].words;
    }
    CHECK(words);
    return words;
}

static void set(void *base, const struct config_key *key, int64_t number)
{
    memcpy((char *)base + key->at, &number, sizeof(number));
}

bool config_set_choice(void *base, const struct config_key *key, const char *value)
{
    int64_t number = 0;
    size_t len = strlen(value);
    for (const char *word = config_choice(key); *word; number++) {
        size_t word_len = strcspn(word, " ");
        if (word_len == len && memcmp(word, value, len) == 0) {
            set(base, key, number);
            return true;
        }
        word += word_len + (word[word_len] == ' ');
    }
    return false;
}

bool config_set_offset(void *base, const struct config_key *key, const char *value)
{
    if (strlen(value) != 6 || (value[0] != '+' && value[0] != '-') || !ascii_is_digit(value[1]) ||
        !ascii_is_digit(value[2]) || value[3] != ':' || !ascii_is_digit(value[4]) ||
        !ascii_is_digit(value[5]))
        return false;
    int hours = (value[1] - '0') * 10 + value[2] - '0';
    int minutes = (value[4] - '0') * 10 + value[5] - '0';
    if (hours > 14 || minutes > 59)
        return false;
    set(base, key, (value[0] == '-' ? -1 : 1) * (int64_t)(hours * 3600 + minutes * 60));
    return true;
}
