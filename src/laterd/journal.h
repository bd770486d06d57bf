/*
 * The journal of the configuration's [journal]: loads its plugin, laterd-journal-mysql.so, and
 * makes the engine write to it.
 */
#ifndef LATERD_LATERD_JOURNAL_H
#define LATERD_LATERD_JOURNAL_H

#include "engine/embedded/embedded.h"
#include "port/journal.h"
#include "port/member.h"
#include "server/config/config.h"

struct laterd_journal {
    const struct journal_plugin *plugin; /* NULL: no journal is configured */
    struct journal *journal;             /* of the embedded engine */
    /* For the Redis engine, which makes a journal when it becomes the writer: */
    struct journal_maker maker;
    const struct config *config;
    struct loop *loop;
    /* In an election, with the embedded engine: we lead with this epoch. Read by the journal's
       thread, so under a mutex: see journal.c. */
    const struct member *member;
    uint64_t epoch;
    bool elected; /* there is an election, also when `member` is about to be closed */
};

/* Before the engine is opened: the maker of the Redis engine's journal; NULL: no journal. */
struct journal_maker *laterd_journal_maker(struct laterd_journal *journal,
                                           const struct config *config, struct loop *loop);

/*
 * Loads the plugin if a journal is configured, and has it check the options; opens nothing. Returns
 * 0, or the exit status: the reason is on standard error.
 */
int laterd_journal_load(const struct config *config, struct laterd_journal *out_journal);

/* What laterd_journal_load() would refuse as wrong of a configuration that was read again, if the
   plugin is loaded; reads no reference. ERR_INVALID: the reason is on standard error. */
enum err laterd_journal_check(const struct laterd_journal *loaded,
                              const struct config *config) MUST_USE;

/* Sets the member and epoch that we lead with, before laterd_journal_open(). NULL: no election, or
   the member is about to be closed. */
void laterd_journal_set_leader(struct laterd_journal *journal, const struct member *member,
                               uint64_t epoch);

/* Opens the journal of the embedded engine, if the plugin was loaded (the Redis engine opens its
   own). Returns 0, or the exit status. */
int laterd_journal_open(struct laterd_journal *journal, const struct config *config,
                        struct embedded *embedded, struct loop *loop);

/* The reader of rows; NULL: there is no journal. */
struct restore *laterd_journal_restore(const struct laterd_journal *journal);

/* To be called after the engine is closed, and again until it returns true: the journal has ended
   and is closed. Never blocks. `waited_us`: since the first call; after two seconds the batches
   that are being committed are interrupted, and the log keeps them. */
bool laterd_journal_leave(struct laterd_journal *journal, int64_t waited_us);
/* The same in one call, after the engine is closed. Waits up to two seconds for batches to be
   committed, then for the journal's thread; the log keeps the rest. */
void laterd_journal_close(struct laterd_journal *journal);

#endif
