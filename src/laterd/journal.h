/*
 * The journal that [journal] asks for: loads its plugin, laterd-journal-mysql.so, and has the
 * embedded engine write to it.
 */
#ifndef LATERD_LATERD_JOURNAL_H
#define LATERD_LATERD_JOURNAL_H

#include "engine/embedded/embedded.h"
#include "port/journal.h"
#include "port/member.h"
#include "server/config/config.h"

struct laterd_journal {
    const struct journal_plugin *plugin; /* NULL: the configuration asks for none */
    struct journal *journal;
    /* With the Redis engine, which makes one when it is its turn to write: */
    struct journal_maker maker;
    const struct config *config;
    struct loop *loop;
    /* In an election, with the embedded engine: we lead with this epoch. The journal's thread asks:
       see journal.c. */
    const struct member *member;
    uint64_t epoch;
    bool elected; /* there is an election, also when `member` is about to be closed */
};

/* Before the engine is opened: who makes the Redis engine's journal; NULL: it has none. */
struct journal_maker *laterd_journal_maker(struct laterd_journal *journal,
                                           const struct config *config, struct loop *loop);

/*
 * Loads the plugin if there is to be a journal, and asks it whether the options are right; opens
 * nothing. 0, or the exit status: the reason is on standard error.
 */
int laterd_journal_load(const struct config *config, struct laterd_journal *out_journal);

/* Before laterd_journal_open() in an election, whose epoch this is; NULL: there is none, or it is
   about to be closed. */
void laterd_journal_led(struct laterd_journal *journal, const struct member *member,
                        uint64_t epoch);

/* Opens it, if it was loaded, for an engine that has a store (that in Redis opens its own). 0, or
   the exit status. */
int laterd_journal_open(struct laterd_journal *journal, const struct config *config,
                        struct embedded *embedded, struct loop *loop);

/* Who reads rows back; NULL: there is no journal. */
struct restore *laterd_journal_restore(const struct laterd_journal *journal);

/* After the engine, and again until it returns true: the journal has ended and is closed. Waits for
   nothing. `waited_us`: since the first call; after two seconds what is being committed is broken
   off, and the log keeps it. */
bool laterd_journal_leave(struct laterd_journal *journal, int64_t waited_us);
/* The same at once; waits up to two seconds for what is being committed, then for its thread. */
void laterd_journal_close(struct laterd_journal *journal);

#endif
