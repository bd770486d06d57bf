/*
 * What the clients of redis_life_test.c know, and what must therefore be true, whatever happened to
 * daemons, servers and the way between them. The rules are those of ../server/life_oracle.h: an
 * operation that may end a version counts in `may_end` from the moment it is sent until its answer
 * says that it did nothing; one that was never answered stays counted.
 */
#ifndef LATERD_TEST_REDIS_LIFE_ORACLE_H
#define LATERD_TEST_REDIS_LIFE_ORACLE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "core/cmd.h"
#include "test/unit/support/broken.h"
#include "test/unit/support/grow.h"

/* One job that was pushed. All times are the world's. */
struct version {
    unsigned topic;
    uint64_t seq; /* 0: not known */
    bool acked, ended;
    bool missing;   /* ended: only because it was not found; nobody was told who ended it */
    bool loose;     /* Redis may have lost what was done to it: only P3 holds */
    bool free;      /* somebody may have changed its reservation: P4 does not hold until the next */
    bool wild;      /* it was changed without a lease, perhaps while an answer was on its way */
    bool bound;     /* its newest lease is a connection's */
    bool relapsed;  /* a failover may have lost the newest lease: the one before is good again */
    bool for_hours; /* its ttr: it comes back when the life is over */
    bool stuck;     /* a daemon may have left with it */
    unsigned may_end;
    int64_t ended_us, due_us, held_until_us;
    int64_t first_due_us; /* when it was pushed */
    uint64_t lease;       /* the newest that was seen */
    unsigned changes;     /* operations sent that may change its reservation */
    uint16_t notes;   /* that were sent for it: each has its count as code, "n" and that as text */
    uint16_t noted;   /* of the only change of it, which was acknowledged; 0: not known */
    int64_t noted_us; /* and when it was */
};

struct oracle {
    uint64_t seed;
    struct version *versions;
    unsigned count;
    int64_t slack_us;       /* clocks and their measuring are off by so much */
    int64_t way_us;         /* to a server, at the longest: a request's time may be so old */
    uint64_t settings_set;  /* how many times a topic's were sent; its count is the text */
    int64_t failed_over_us; /* the last time that a replica took over what it had; 0: never */
    int64_t left_us;        /* the last time that a daemon began to leave; 0: never */
    bool silences;     /* a daemon may have been taken for dead, so leases of connections end */
    uint64_t jobs_max; /* limits.jobs; 0: none */
    uint64_t delivered, finished, refused;
    uint64_t trace;
};

static inline void oracle_body(unsigned number, struct buf *out)
{
    buf_addf(out, "v%u.", number);
    for (size_t i = 0; i < number * 37 % 200; i++)
        buf_add_char(out, (char)('a' + (number * 7 + i * 3) % 26));
}

/* Every third has some. */
static inline void oracle_properties(unsigned number, struct buf *out)
{
    if (number % 3 == 0)
        buf_addf(out, "{\"key\":\"v%u\"}", number);
}

/* How many jobs are certainly there now. */
static inline unsigned oracle_jobs(const struct oracle *oracle)
{
    unsigned count = 0;
    for (unsigned i = 0; i < oracle->count; i++) {
        const struct version *version = &oracle->versions[i];
        count += version->acked && !version->may_end && !version->loose && !version->ended;
    }
    return count;
}

/* How many jobs may have been there at some time since then. */
static inline unsigned oracle_jobs_since(const struct oracle *oracle, int64_t since_us)
{
    unsigned count = 0;
    for (unsigned i = 0; i < oracle->count; i++) {
        const struct version *version = &oracle->versions[i];
        count += !version->ended || version->ended_us >= since_us;
    }
    return count;
}

static inline unsigned oracle_push(struct oracle *oracle, const struct version *version)
{
    oracle->versions = grow_by_one(oracle->versions, oracle->count, sizeof(*oracle->versions));
    oracle->versions[oracle->count] = *version;
    return oracle->count++;
}

static inline void oracle_ended(struct version *version, int64_t now_us)
{
    if (!version->ended || version->missing)
        version->ended_us = now_us;
    version->ended = true;
    version->missing = false;
}

static inline void oracle_missing(struct version *version, int64_t now_us)
{
    if (version->ended)
        return;
    oracle_ended(version, now_us);
    version->missing = true;
}

/* Redis came back with less than it had: nobody knows what is there. A job may be due when it was
   before it was released for later. */
static inline void oracle_lost(struct oracle *oracle)
{
    for (unsigned i = 0; i < oracle->count; i++) {
        struct version *version = &oracle->versions[i];
        version->loose = true;
        if (version->due_us > version->first_due_us)
            version->due_us = version->first_due_us;
    }
}

/* What was not acknowledged may have been lost: reservations, pushes that are made again, and the
   end of what was then not found. */
static inline void oracle_failed_over(struct oracle *oracle, int64_t now_us)
{
    oracle->failed_over_us = now_us;
    for (unsigned i = 0; i < oracle->count; i++) {
        struct version *version = &oracle->versions[i];
        version->free = version->relapsed = true;
        version->noted = 0;
        if (!version->acked)
            version->seq = 0;
        if (version->missing)
            version->ended = version->missing = false;
    }
}

/* A daemon is dead, or is taken for that. */
static inline void oracle_silence(struct oracle *oracle)
{
    oracle->silences = true;
    for (unsigned i = 0; i < oracle->count; i++)
        oracle->versions[i].free = oracle->versions[i].free || oracle->versions[i].bound;
}

/* A daemon leaves in good order, and gives back what its connections hold. */
static inline void oracle_left(struct oracle *oracle, int64_t now_us)
{
    oracle->left_us = now_us;
    for (unsigned i = 0; i < oracle->count; i++)
        oracle->versions[i].free = oracle->versions[i].free || oracle->versions[i].bound;
}

/* It could not reach Redis, so it may have had jobs, or taken some, that nobody can give back. */
static inline void oracle_left_late(struct oracle *oracle)
{
    for (unsigned i = 0; i < oracle->count; i++)
        oracle->versions[i].stuck = oracle->versions[i].stuck || oracle->versions[i].for_hours;
}

/* Notes that a GET asked for at `asked_us` shows: each was sent, and is there once (P5). Its answer
   may be late, and say nothing of what was noted meanwhile. */
static inline void oracle_notes(const struct oracle *oracle, unsigned number, int64_t asked_us,
                                const struct job_note *notes, uint8_t count)
{
    const struct version *version = &oracle->versions[number];
    for (uint8_t i = 0; i < count; i++) {
        char text[16];
        int len = snprintf(text, sizeof(text), "n%u", notes[i].code);
        if (notes[i].code == 0 || notes[i].code > version->notes ||
            !bytes_eq(notes[i].text, bytes_of(text, (size_t)len)))
            BROKEN(oracle, "version %u has a note that nobody left", number);
        for (uint8_t j = 0; j < i; j++) {
            if (notes[j].code == notes[i].code)
                BROKEN(oracle, "P5: note %u of version %u is there twice", notes[i].code, number);
        }
    }
    if (version->noted && version->noted_us < asked_us && !version->loose && !version->relapsed &&
        count == 0)
        BROKEN(oracle, "P2: note %u of version %u was acknowledged", version->noted, number);
}

/* Which version is it? All of its body and its properties must be what was pushed. */
static inline unsigned oracle_version(struct oracle *oracle, struct bytes body,
                                      struct bytes properties)
{
    struct buf want = {0};
    unsigned number = 0;
    for (size_t i = 1; i < body.len && body.at[i] >= '0' && body.at[i] <= '9'; i++)
        number = 10 * number + (unsigned)(body.at[i] - '0');
    if (number >= oracle->count)
        BROKEN(oracle, "version %u was never pushed", number);
    oracle_body(number, &want);
    if (!bytes_eq(buf_bytes(&want), body))
        BROKEN(oracle, "version %u has another body", number);
    want.len = 0;
    oracle_properties(number, &want);
    if (!bytes_eq(buf_bytes(&want), properties))
        BROKEN(oracle, "version %u has other properties", number);
    buf_fini(&want);
    return number;
}

struct handed_out {
    unsigned number;
    int64_t now_us, asked_us, until_us;
    int64_t reserved_us; /* in Redis, by the time of the request: it was on its way since */
    uint64_t lease, seq;
    bool bound;
};

static inline void oracle_delivered(struct oracle *oracle, const struct handed_out *delivery)
{
    struct version *version = &oracle->versions[delivery->number];
    int64_t now_us = delivery->now_us, slack_us = oracle->slack_us;
    unsigned number = delivery->number;
    oracle->delivered++;
    if (version->seq && version->seq != delivery->seq && !version->loose && !oracle->silences)
        BROKEN(oracle, "version %u was pushed once, and there are two of it", number);
    bool same = version->seq == delivery->seq; /* else one taken for dead pushed it again */
    version->seq = delivery->seq;
    if (version->ended && !version->loose && version->ended_us < delivery->asked_us &&
        version->ended_us < delivery->reserved_us - slack_us)
        BROKEN(oracle, "P5: version %u has ended and is delivered", number);
    if (delivery->lease == version->lease && !version->loose)
        BROKEN(oracle, "P4: version %u: one lease was given to two", number);
    if (delivery->lease < version->lease)
        return; /* a late answer */
    /* When it was reserved, at the latest: by then the request was there, and its answer is here.
     */
    int64_t there_us = delivery->reserved_us + oracle->way_us;
    if (there_us > now_us)
        there_us = now_us;
    if (there_us < version->due_us - slack_us)
        BROKEN(oracle, "P3: version %u comes %lld us early", number,
               (long long)(version->due_us - there_us));
    if (same && !version->free && !version->loose && now_us < version->held_until_us - slack_us)
        BROKEN(oracle, "P4: version %u is held %lld us longer by another", number,
               (long long)(version->held_until_us - now_us));
    version->lease = delivery->lease;
    version->held_until_us = delivery->until_us;
    version->bound = delivery->bound;
    version->relapsed = delivery->asked_us <= oracle->failed_over_us;
    version->free =
        version->relapsed || version->wild ||
        (delivery->bound && (oracle->silences || delivery->asked_us <= oracle->left_us));
}

/* The first that was acknowledged, that nothing may have ended, and that is still to come; `count`:
   none. */
static inline unsigned oracle_owed(const struct oracle *oracle)
{
    unsigned i = 0;
    for (; i < oracle->count; i++) {
        const struct version *version = &oracle->versions[i];
        if (version->acked && !version->ended && !version->may_end && !version->loose &&
            !version->stuck)
            break;
    }
    return i;
}

static inline void oracle_fini(struct oracle *oracle)
{
    mem_free(oracle->versions);
}

#endif
