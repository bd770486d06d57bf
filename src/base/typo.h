/* Is a word that is not known a typing mistake for one that is? Pure; O(letters of both). */
#ifndef LATERD_BASE_TYPO_H
#define LATERD_BASE_TYPO_H

#include <stdbool.h>
#include <stddef.h>

/* Words from this length on are compared with none. */
enum { TYPO_WORD_MAX = 32 };

/*
 * How many letters have to be changed, added, taken away or exchanged with their neighbour to make
 * `b` of `a` (Damerau-Levenshtein, optimal string alignment), where A is as good as a: ifExists is
 * one letter from if_exists. TYPO_WORD_MAX for longer words.
 */
unsigned typo_distance(const char *a, const char *b);

/*
 * The nearest of many known words, of equally near ones the first: after typo_begin(), call
 * typo_add() for each; `meant` is then the one that the word is probably a typing mistake for (one
 * letter is wrong, or up to two of a word of eight letters or more), or NULL. The word is copied,
 * known ones are borrowed.
 */
struct typo {
    char word[TYPO_WORD_MAX];
    bool too_long; /* the word is near none */
    const char *meant;
    unsigned distance; /* of `meant` */
};

void typo_begin(struct typo *typo, const char *word, size_t len);
void typo_add(struct typo *typo, const char *known);

#endif
