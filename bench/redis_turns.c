/*
 * The floor under daemons that share a Redis: a bare queue with the duty of laterd's (partitions,
 * unique ids, counts, an answer kept for each request), whose clients' requests go to Redis in
 * calls that carry many. It has no checks, marks, notices, buckets, clocks or repetitions, no HTTP,
 * and each process takes as many jobs of a partition as it has pushed there, so that no look
 * finds nothing. What of two such processes is dearer than one is the price of sharing a call with
 * fewer others, which no daemon can avoid.
 *
 * Its clients are trains: those of one go together in each of its calls, first all push, then all
 * reserve, then all finish. With one daemon, trains of 13 have as many visits of partitions as
 * laterd's calls have; with two, trains of 8 (docs/decisions/0075).
 *
 * usage: redis_turns PORT NAME PARTITIONS TRAINS CLIENTS JOBS (all numbers; NAME: which of the
 * processes, CLIENTS: of one train). Prints cycles, the microseconds they took, and the visits.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/hash.h"

enum { PUSH, RESERVE, FINISH, STEPS };
enum { BODY_BYTES = 256, ID_DIGITS = 20, NAME_BYTES = 8, CLIENTS_MAX = 48, TRAINS_MAX = 64 };

/* ARGV: the name of who asks, then visits: p, r or f, the partition, how many; then for each of
 * these its place in the ring and, p: its id and record, f: its name and id. Answers of r: names
 * and records. */
static const char script[] =
    "local call, at, out, n = redis.call, 2, {}, 0 "
    "while ARGV[at] do "
    "  local kind, p, k = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]) "
    "  local h, o, l, j = 'f:' .. p .. ':h', 'f:' .. p .. ':o', 'f:' .. p .. ':l', 'f:' .. p .. "
    "':j' "
    "  at = at + 3 "
    "  if kind == 'p' then "
    "    local fields, records, places, sets = { 'p', '#p' }, {}, {}, {} "
    "    for i = 1, k do fields[2 + i] = 'i' .. ARGV[at + 3 * i - 2] end "
    "    local found = call('HMGET', h, unpack(fields)) "
    "    local last = tonumber(found[1] or 0) "
    "    for i = 1, k do "
    "      last = last + 1 "
    "      local name = string.format('%08d', last) "
    "      records[2 * i - 1], records[2 * i] = name, ARGV[at + 3 * i - 1] "
    "      places[2 * i - 1], places[2 * i] = '0', name "
    "      sets[4 * i - 3], sets[4 * i - 2] = fields[2 + i], name "
    "      sets[4 * i - 1], sets[4 * i] = ARGV[at + 3 * i - 3], name "
    "    end "
    "    call('HSET', j, unpack(records)) "
    "    call('ZADD', o, unpack(places)) "
    "    call('HSET', h, 'p', last, '#p', (found[2] or 0) + k, unpack(sets)) "
    "    at = at + 3 * k "
    "  elseif kind == 'r' then "
    "    local found = call('HMGET', h, 'p', '#r', '#h') "
    "    local ready = call('ZRANGEBYLEX', o, '-', '+', 'LIMIT', '0', k) "
    "    local wanted, held, heads, sets = {}, {}, {}, {} "
    "    for i = 1, k do wanted[2 * i - 1], wanted[2 * i] = ready[i], '+' .. ready[i] end "
    "    local jobs = call('HMGET', j, unpack(wanted)) "
    "    for i = 1, k do "
    "      held[2 * i - 1], held[2 * i] = '1', ready[i] "
    "      heads[2 * i - 1], heads[2 * i] = wanted[2 * i], string.rep('h', 50) "
    "      sets[2 * i - 1], sets[2 * i] = ARGV[at + i - 1], ready[i] "
    "      out[n + 1], out[n + 2], n = ready[i], jobs[2 * i - 1], n + 2 "
    "    end "
    "    call('ZREM', o, unpack(ready)) "
    "    call('ZADD', l, unpack(held)) "
    "    call('HSET', j, unpack(heads)) "
    "    call('HSET', h, '#r', (found[2] or 0) + k, '#h', (found[3] or 0) + k, unpack(sets)) "
    "    at = at + k "
    "  else "
    "    local names, both, ids, sets = {}, {}, {}, {} "
    "    for i = 1, k do "
    "      names[i], ids[i] = ARGV[at + 3 * i - 2], 'i' .. ARGV[at + 3 * i - 1] "
    "      both[2 * i - 1], both[2 * i] = names[i], '+' .. names[i] "
    "      sets[2 * i - 1], sets[2 * i] = ARGV[at + 3 * i - 3], names[i] "
    "    end "
    "    if not call('HMGET', j, unpack(both))[1] then error('gone') end "
    "    local found = call('HMGET', h, 'g', '#h', '#f') "
    "    call('ZREM', l, unpack(names)) "
    "    call('HDEL', j, unpack(both)) "
    "    call('HDEL', h, unpack(ids)) "
    "    call('HSET', h, 'g', (found[1] or 0) + k, '#h', (found[2] or 0) - k, '#f', "
    "        (found[3] or 0) + k, unpack(sets)) "
    "    at = at + 3 * k "
    "  end "
    "end "
    "return out";

struct client {
    char id[ID_DIGITS + 1];
    char name[NAME_BYTES]; /* of the job it has */
    uint32_t partition;
};

struct train {
    struct client clients[CLIENTS_MAX];
    int step;
};

struct turns {
    redisContext *redis;
    char digest[41];
    uint32_t partitions, clients, trains, under_way;
    uint64_t name, next_id, jobs, done, visits;
    struct train all[TRAINS_MAX];
};

/* ---- asking ---- */

struct words {
    const char *at[16 + CLIENTS_MAX * 8];
    size_t len[16 + CLIENTS_MAX * 8];
    int count;
    char room[CLIENTS_MAX * (ID_DIGITS + BODY_BYTES + 64)];
    size_t used;
};

static void add_word(struct words *words, const char *text, size_t len)
{
    CHECK(words->used + len <= sizeof(words->room));
    memcpy(words->room + words->used, text, len);
    words->at[words->count] = words->room + words->used;
    words->len[words->count++] = len;
    words->used += len;
}

static void add_number(struct words *words, char letter, uint64_t number)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%c%llu", letter, (unsigned long long)number);
    add_word(words, letter == ' ' ? text + 1 : text, (size_t)(letter == ' ' ? len - 1 : len));
}

static void add_request(struct turns *turns, struct words *words, const struct train *train,
                        const struct client *client)
{
    char record[ID_DIGITS + BODY_BYTES];
    add_number(words, 'a',
               turns->name * 1000000 + (uint64_t)(train - turns->all) * 1000 +
                   (uint64_t)(client - train->clients));
    if (train->step == PUSH) {
        memset(record, 'x', sizeof(record));
        memcpy(record, client->id, ID_DIGITS);
        add_word(words, client->id, ID_DIGITS);
        add_word(words, record, sizeof(record));
    } else if (train->step == FINISH) {
        add_word(words, client->name, NAME_BYTES);
        add_word(words, client->id, ID_DIGITS);
    }
}

static void begin_cycle(struct turns *turns, struct client *client)
{
    (void)snprintf(client->id, sizeof(client->id), "%02llu%018llu", (unsigned long long)turns->name,
                   (unsigned long long)turns->next_id++);
    client->partition = (uint32_t)(hash_of(client->id, ID_DIGITS) % turns->partitions);
}

/* Those of one partition stand together: one visit. */
static void ask(struct turns *turns, struct train *train)
{
    static struct words words;
    words.count = 0;
    words.used = 0;
    for (uint32_t i = 0; train->step == PUSH && i < turns->clients; i++)
        begin_cycle(turns, &train->clients[i]);
    add_word(&words, "EVALSHA", 7);
    add_word(&words, turns->digest, 40);
    add_word(&words, "0", 1);
    add_number(&words, 'n', turns->name);
    for (uint32_t partition = 0; partition < turns->partitions; partition++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < turns->clients; i++)
            count += train->clients[i].partition == partition;
        if (!count)
            continue;
        turns->visits++;
        add_word(&words, &"prf"[train->step], 1);
        add_number(&words, ' ', partition);
        add_number(&words, ' ', count);
        for (uint32_t i = 0; i < turns->clients; i++) {
            if (train->clients[i].partition == partition)
                add_request(turns, &words, train, &train->clients[i]);
        }
    }
    CHECK(redisAppendCommandArgv(turns->redis, words.count, words.at, words.len) == REDIS_OK);
    int written = 0;
    while (!written)
        CHECK(redisBufferWrite(turns->redis, &written) == REDIS_OK);
    turns->under_way++;
}

/* ---- answers ---- */

/* The jobs come in the order of the visits. */
static void take_jobs(const struct turns *turns, struct train *train, const redisReply *reply)
{
    size_t at = 0;
    CHECK(reply->elements == (size_t)2 * turns->clients);
    for (uint32_t partition = 0; partition < turns->partitions; partition++) {
        for (uint32_t i = 0; i < turns->clients; i++) {
            struct client *client = &train->clients[i];
            if (client->partition != partition)
                continue;
            memcpy(client->name, reply->element[at]->str, NAME_BYTES);
            memcpy(client->id, reply->element[at + 1]->str, ID_DIGITS);
            at += 2;
        }
    }
}

static void answered(struct turns *turns, struct train *train)
{
    redisReply *reply;
    CHECK(redisGetReply(turns->redis, (void **)&reply) == REDIS_OK);
    turns->under_way--;
    if (reply->type != REDIS_REPLY_ARRAY) {
        (void)fprintf(stderr, "redis_turns: %s\n", reply->str);
        exit(1);
    }
    if (train->step == RESERVE)
        take_jobs(turns, train, reply);
    freeReplyObject(reply);
    turns->done += train->step == FINISH ? turns->clients : 0;
    train->step = (train->step + 1) % STEPS;
}

static uint64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t number_of(const char *text)
{
    uint64_t number = 0;
    CHECK(bytes_to_u64(bytes_str(text), &number) && number > 0);
    return number;
}

int main(int argc, char **argv)
{
    static struct turns turns;
    CHECK(argc == 7);
    turns.name = number_of(argv[2]);
    turns.partitions = (uint32_t)number_of(argv[3]);
    turns.trains = (uint32_t)number_of(argv[4]);
    turns.clients = (uint32_t)number_of(argv[5]);
    turns.jobs = number_of(argv[6]);
    CHECK(turns.trains <= TRAINS_MAX && turns.clients <= CLIENTS_MAX);
    turns.redis = redisConnect("127.0.0.1", (int)number_of(argv[1]));
    CHECK(turns.redis && !turns.redis->err);
    redisReply *loaded = redisCommand(turns.redis, "SCRIPT LOAD %s", script);
    CHECK(loaded && loaded->type == REDIS_REPLY_STRING && loaded->len == 40);
    memcpy(turns.digest, loaded->str, 40);
    freeReplyObject(loaded);
    uint64_t start_us = now_us();
    for (uint32_t i = 0; i < turns.trains; i++)
        ask(&turns, &turns.all[i]);
    for (uint32_t i = 0; turns.under_way; i = (i + 1) % turns.trains) {
        answered(&turns, &turns.all[i]);
        if (turns.done < turns.jobs)
            ask(&turns, &turns.all[i]);
    }
    uint64_t took_us = now_us() - start_us;
    (void)printf("{\"cycles\":%llu,\"elapsed_us\":%llu,\"visits\":%llu}\n",
                 (unsigned long long)turns.done, (unsigned long long)took_us,
                 (unsigned long long)turns.visits);
    redisFree(turns.redis);
    return 0;
}
