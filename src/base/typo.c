#include "base/typo.h"

#include <string.h>

static bool same(char a, char b)
{
    char letter = (char)(a | 0x20);
    return a == b || (letter == (b | 0x20) && letter >= 'a' && letter <= 'z');
}

unsigned typo_distance(const char *a, const char *b)
{
    unsigned rows[3][TYPO_WORD_MAX + 1]; /* the last three, in turn */
    size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len >= TYPO_WORD_MAX || b_len >= TYPO_WORD_MAX)
        return TYPO_WORD_MAX;
    for (unsigned j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a_len; i++) {
        const unsigned *before = rows[(i + 1) % 3], *above = rows[(i + 2) % 3];
        unsigned *row = rows[i % 3];
        row[0] = i;
        for (unsigned j = 1; j <= b_len; j++) {
            unsigned best = above[j - 1] + !same(a[i - 1], b[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]) &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[a_len % 3][b_len];
}

/* One letter may be wrong, from eight letters on two. */
static bool is_near(const char *word, unsigned distance)
{
    return distance <= (strlen(word) < 8 ? 1 : 2);
}

void typo_begin(struct typo *typo, const char *word, size_t len)
{
    *typo = (struct typo){.too_long = len >= TYPO_WORD_MAX};
    if (!typo->too_long && len > 0)
        memcpy(typo->word, word, len);
}

void typo_add(struct typo *typo, const char *known)
{
    if (typo->too_long)
        return;
    unsigned distance = typo_distance(typo->word, known);
    if (!is_near(typo->word, distance) || (typo->meant && distance >= typo->distance))
        return;
    typo->meant = known;
    typo->distance = distance;
}
