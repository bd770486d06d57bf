/*
 * What clients know, and what must therefore be true: the oracle of life_test.c.
 *
 * Every push makes a `version`, whose number is in its body. An operation that may end a version
 * counts in `may_end` from the moment it is sent; if its answer says that it did nothing it is
 * taken off again, and if it says that it did, the version has `ended`. An operation whose answer
 * never came stays counted: nobody knows. So a version that was acknowledged and that nothing may
 * have ended must be there (P2), and one that has ended must never be seen again (P5).
 */
#ifndef LATERD_TEST_LIFE_ORACLE_H
#define LATERD_TEST_LIFE_ORACLE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "test/unit/support/broken.h"
#include "test/unit/support/grow.h"

enum { IDS = 40, TOPICS = 3, NO_ID = IDS, LARGE_BODY = 300 * 1024 };

struct version {
    unsigned id, topic;
    bool json;  /* the body is a JSON object, not text */
    bool typed; /* it has a content type */
    bool acked, ended;
    bool came_bare;        /* the old dialect delivered it, which shows no leases */
    unsigned may_end;      /* operations that may have ended it, for all we know */
    int64_t ended_us;      /* when we were told */
    int64_t due_us;        /* it is not handed out before */
    int64_t due_before_us; /* the same, before it was moved last */
    int64_t ttr_us;
    int64_t held_until_us; /* no other client gets it before; 0: that is not known */
    uint64_t lease;        /* the newest that was seen */
};

struct oracle {
    uint64_t seed;
    struct version *versions;
    unsigned count;
    bool busy[IDS];        /* an operation on this id is under way: its owner's alone */
    unsigned clears;       /* of the last topic, under way: they may end what is pushed meanwhile */
    unsigned changes[IDS]; /* operations sent that may move the job */
    /* An answer may go out after later ones of others: turns are short, or bodies are to be read.
     */
    bool late_answers;
    bool large; /* some bodies are so large that the log takes over their memory */
    uint64_t pushed, delivered, finished, crashes, full, failures, large_pushed;
};

static inline void oracle_fini(struct oracle *oracle)
{
    mem_free(oracle->versions);
}

static inline bool oracle_is_large(const struct oracle *oracle, unsigned number)
{
    return oracle->large && number % 16 == 0;
}

/* The body of a version: its number, and a length that follows from it. */
static inline void oracle_body(const struct oracle *oracle, unsigned number, bool json,
                               struct buf *out)
{
    size_t filler = (number * 2654435761u >> 20) % (number % 16 ? 300 : 4000);
    filler += oracle_is_large(oracle, number) ? LARGE_BODY : 0;
    buf_addf(out, json ? "{\"v\":%u,\"pad\":\"" : "v%u.", number);
    for (size_t i = 0; i < filler; i++)
        buf_add_char(out, (char)('a' + (number * 7 + i * 3) % 26));
    if (json)
        buf_add_str(out, "\"}");
}

static inline unsigned oracle_push(struct oracle *oracle, const struct version *version)
{
    oracle->versions = grow_by_one(oracle->versions, oracle->count, sizeof(*oracle->versions));
    oracle->versions[oracle->count] = *version;
    if (version->topic == TOPICS - 1)
        oracle->versions[oracle->count].may_end += oracle->clears;
    return oracle->count++;
}

/* ---- operations on an id ---- */

/* An operation is sent that may end whatever has the id. */
static inline void oracle_may_end(struct oracle *oracle, unsigned id, unsigned before)
{
    for (unsigned i = 0; i < before; i++) {
        struct version *version = &oracle->versions[i];
        if (version->id == id && !version->ended) {
            version->may_end++;
            version->held_until_us = 0;
        }
    }
}

/* It turned out that it did nothing. */
static inline void oracle_did_not_end(struct oracle *oracle, unsigned id, unsigned before)
{
    for (unsigned i = 0; i < before; i++) {
        struct version *version = &oracle->versions[i];
        if (version->id == id && !version->ended && version->may_end > 0)
            version->may_end--;
    }
}

static inline void oracle_ended(struct version *version, int64_t now_us)
{
    if (!version->ended)
        version->ended_us = now_us;
    version->ended = true;
}

static inline void oracle_ended_all(struct oracle *oracle, unsigned id, unsigned before,
                                    int64_t now_us)
{
    for (unsigned i = 0; i < before; i++)
        if (oracle->versions[i].id == id)
            oracle_ended(&oracle->versions[i], now_us);
}

/*
 * We were told that no job has the id. `mine`: how many of the operations that may have ended one
 * are the one that was told so.
 */
static inline void oracle_absent(struct oracle *oracle, unsigned id, unsigned before, unsigned mine)
{
    for (unsigned i = 0; i < before; i++) {
        const struct version *version = &oracle->versions[i];
        if (version->id == id && version->acked && !version->ended && version->may_end <= mine)
            BROKEN(oracle, "P2: version %u of job%u was acknowledged and is not there", i, id);
    }
}

/* We asked then, and were told that a job has the id. */
static inline void oracle_present(const struct oracle *oracle, unsigned id, unsigned before,
                                  int64_t asked_us)
{
    for (unsigned i = 0; i < before; i++) {
        const struct version *version = &oracle->versions[i];
        if (version->id == id && (!version->ended || version->ended_us >= asked_us))
            return;
    }
    BROKEN(oracle, "P5: job%u is there, and all that ever had this id have ended", id);
}

/* From now on the job may be handed out from then on; earlier it must not be. */
static inline void oracle_due(struct oracle *oracle, unsigned id, int64_t due_us, bool sure)
{
    for (unsigned i = 0; i < oracle->count; i++) {
        struct version *version = &oracle->versions[i];
        if (version->id == id && !version->ended && (sure || due_us < version->due_us)) {
            version->due_before_us = version->due_us;
            version->due_us = due_us;
        }
    }
}

/* Reservations may not have been in the log: older ones may be good again. */
static inline void oracle_crashed(struct oracle *oracle)
{
    oracle->crashes++;
    for (unsigned i = 0; i < oracle->count; i++) {
        oracle->versions[i].held_until_us = 0;
        oracle->versions[i].lease = 0;
    }
    memset(oracle->busy, 0, sizeof(oracle->busy));
}

/*
 * The clock was set back between two lives. What was due may come at once, all else not before its
 * time by the new clock; and what has happened has happened before. A lease that ran out just
 * before a crash, so that the log has neither that nor the next one, may have time again.
 */
static inline void oracle_set_back(struct oracle *oracle, int64_t before_us, int64_t step_us)
{
    for (unsigned i = 0; i < oracle->count; i++) {
        struct version *version = &oracle->versions[i];
        if (version->due_us <= before_us)
            version->due_us = INT64_MIN;
        if (version->held_until_us)
            version->held_until_us -= step_us;
        version->ended_us -= step_us;
        version->lease = 0;
    }
}

/* ---- what comes back ---- */

/* A job was handed to a client. */
struct handed_out {
    unsigned number;
    int64_t now_us;
    int64_t asked_us;    /* when the client sent its reserve */
    bool prompt;         /* the answer came in the very turn that reserved it */
    uint64_t lease;      /* 0: the dialect shows none */
    int64_t deadline_ms; /* 0: the same */
};

static inline void oracle_delivered(struct oracle *oracle, const struct handed_out *delivery)
{
    struct version *version = &oracle->versions[delivery->number];
    int64_t now_us = delivery->now_us;
    unsigned number = delivery->number;
    oracle->delivered++;
    if (version->ended && (delivery->prompt || version->ended_us < delivery->asked_us))
        BROKEN(oracle, "P5: version %u of job%u has ended and is delivered", number, version->id);
    /* A slow client may read of an older reservation only now; the job was moved since. */
    bool of_old = delivery->lease && delivery->lease < version->lease;
    bool late = oracle->late_answers || !delivery->prompt;
    of_old = of_old || (late && version->due_before_us && now_us >= version->due_before_us);
    if (now_us < version->due_us && !of_old)
        BROKEN(oracle, "P3: version %u of job%u comes %lld us early", number, version->id,
               (long long)(version->due_us - now_us));
    version->came_bare = version->came_bare || !delivery->lease;
    uint64_t seen = version->lease;
    if (delivery->lease > seen)
        version->lease = delivery->lease;
    if (!delivery->prompt)
        return;
    if (now_us < version->held_until_us)
        BROKEN(oracle, "P4: version %u of job%u is held %lld us longer by another client", number,
               version->id, (long long)(version->held_until_us - now_us));
    if (delivery->deadline_ms && delivery->deadline_ms != (now_us + version->ttr_us) / 1000)
        BROKEN(oracle, "version %u of job%u: its deadline is not ttr after now", number,
               version->id);
    if (delivery->lease && delivery->lease <= seen)
        BROKEN(oracle, "P4: version %u of job%u: lease %llu is not new", number, version->id,
               (unsigned long long)delivery->lease);
    version->held_until_us = now_us + version->ttr_us;
}

/* All clients have gone, and a job is reserved: one of them must have had it (P6). */
static inline void oracle_reserved(const struct oracle *oracle, const char *id, uint64_t lease)
{
    for (unsigned i = 0; i < oracle->count; i++) {
        const struct version *version = &oracle->versions[i];
        char want[16];
        (void)snprintf(want, sizeof(want), "job%u", version->id);
        if (strcmp(id, want) == 0 && (version->came_bare || version->lease == lease))
            return;
    }
    BROKEN(oracle, "P6: %s is reserved for a client that has gone and never had it", id);
}

/* All is drained: what was acknowledged, and what nothing may have ended, came. */
static inline void oracle_finish(const struct oracle *oracle)
{
    for (unsigned i = 0; i < oracle->count; i++) {
        const struct version *version = &oracle->versions[i];
        if (version->acked && !version->ended && !version->may_end)
            BROKEN(oracle, "P2: version %u of job%u was acknowledged and never came", i,
                   version->id);
    }
}

#endif
