/*
 * Takes over the terminal for a while: the alternate screen without a cursor, keys as they are
 * pressed. The terminal is restored when the program ends in any way; a stopped program (Ctrl-Z)
 * gives it back, too, and takes it again when it continues. There is one terminal, so the state is
 * static.
 */
#ifndef LATERD_CLI_SCREEN_H
#define LATERD_CLI_SCREEN_H

#include "base/bytes.h"

struct screen_size {
    unsigned columns, lines;
};

enum screen_event {
    SCREEN_TIME,    /* nothing happened in the time */
    SCREEN_RESIZED, /* or continued after a stop: draw again */
    SCREEN_QUIT,    /* q was pressed, or there is no terminal any more */
};

/* The size of standard output's terminal; 80 columns and 24 lines if it is unknown. */
struct screen_size screen_size(void);

void screen_begin(void); /* SIGINT ends the program with 0, SIGTERM and SIGHUP with 128 and more */
void screen_end(void);
/* Waits for a key or a new size, at most `us` microseconds. */
enum screen_event screen_wait(int64_t us);

/* Reads keys that are there; true for q. For client.h's `watch`, with the descriptor of the keys,
 * which is -1 if standard input is no terminal. */
bool screen_quits(void);
int screen_keys(void);

/*
 * Appends the bytes that show a page on a screen of that size: lines are cut at its edge, never
 * within a character, and each overwrites the old one.
 */
void screen_frame(struct bytes page, struct screen_size size, struct buf *out);

#endif
