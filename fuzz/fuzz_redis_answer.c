/*
 * The decoders of Redis' answers against any bytes: the first byte chooses a command, the second
 * the number of partitions, then follow parts, each after its length in two bytes. They are decoded
 * as the answer to that command, as the answers of all partitions, as a notice, an error, and INFO.
 * Every input is a valid answer or ERR_CORRUPT, and every fan-out ends.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "client/redis/failure.h"
#include "engine/redis/fanout.h"
#include "engine/redis/notice_codec.h"
#include "engine/redis/script_answer.h"
#include "engine/redis/server_info.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARTS = 64, ASKED = 200 };

/* Each in memory of its own, so that one byte too far is seen. */
static uint32_t cut(const uint8_t *data, size_t size, struct bytes *parts)
{
    uint32_t count = 0;
    while (size >= 2 && count < PARTS) {
        size_t len = data[0] | (size_t)data[1] << 8;
        data += 2;
        size -= 2;
        if (len > size)
            len = size;
        char *room = mem_alloc(len + (len == 0));
        if (len)
            memcpy(room, data, len);
        parts[count++] = bytes_of(room, len);
        data += len;
        size -= len;
    }
    return count;
}

static void look(const struct reply *reply)
{
    for (uint32_t i = 0; i < reply->count && reply->jobs; i++) {
        const struct job_view *job = &reply->jobs[i];
        CHECK(job->state > JOB_GONE && job->state < JOB_STATES);
        CHECK(job->ref.id.len <= JOB_ID_MAX || job->ref.id.at);
        for (uint8_t step = 0; step < job->retry_count; step++)
            CHECK(job->retry_us[step] >= 0);
    }
    for (uint32_t i = 0; i < reply->count && reply->topics; i++)
        CHECK(reply->topics[i].name.len > 0);
}

static void read_one(const struct script_space *space, enum cmd_kind kind,
                     const struct bytes *parts, uint32_t count, bool restores)
{
    struct arena arena = {0};
    struct script_answer answer;
    struct job_view damaged[4];
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = BYTES("topic"), .ttr_us = 1, .restore = restores}};
    struct buf request = {0};
    script_encode(&request, space, &(struct script_call){.number = 1}, &push);
    struct script_parts said = {
        .partition = 1, .at = parts, .count = count, .request = buf_bytes(&request)};
    enum err err = script_read(space, kind, &said, &arena, &answer);
    CHECK(err == OK || err == ERR_CORRUPT);
    if (!err)
        look(&answer.reply);
    struct script_rank rank;
    uint32_t close_jobs;
    for (uint32_t place = 0; !err && place < PARTS; place++)
        CHECK(script_first(space, 1, &answer, place, &rank, &close_jobs) <= SCRIPT_FIRST);
    CHECK(script_damaged(space, &said, damaged, 4) <= 4);
    buf_fini(&request);
    arena_fini(&arena);
}

/* Every call to a partition is answered by the parts as they are. */
static void fanout(const struct script_space *space, enum cmd_kind kind, uint8_t mode,
                   const struct bytes *parts, uint32_t count)
{
    struct cmd cmd = {
        .kind = kind,
        .topic = {.topic = BYTES("topic"),
                  .max = 1 + mode % 7u,
                  .stats = mode & 8,
                  .due_within = mode & 8,
                  .brief = mode & 32,
                  .in_use = mode & 64,
                  .state = (enum job_state)(JOB_DELAYED + mode % 4)},
    };
    struct listing listing = {
        .engine = CURSOR_REDIS, .state = (uint8_t)cmd.topic.state, .topic = cmd.topic.topic};
    char room[CURSOR_BYTES];
    if (mode & 16)
        cmd.topic.cursor = cursor_write(&listing, &(struct cursor){.first = 1000}, room);
    struct buf request = {0};
    struct fanout *fanout = fanout_new(space, &cmd);
    for (uint32_t asked = 0; asked < ASKED && !fanout_done(fanout); asked++) {
        uint32_t partition = 0;
        while (partition < space->partitions && !fanout_wants(fanout, partition))
            partition++;
        if (partition == space->partitions)
            break;
        request.len = 0;
        fanout_encode(fanout, &request, &(struct script_call){.partition = partition});
        enum err err = fanout_take(fanout, partition, parts, count);
        CHECK(err == OK || err == ERR_CORRUPT);
    }
    if (fanout_done(fanout)) {
        struct reply reply;
        fanout_reply(fanout, &reply);
        if (!reply.err)
            look(&reply);
    }
    fanout_free(fanout, NULL);
    buf_fini(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char daemon[8] = "daemon..";
    static struct script_space space;
    struct bytes parts[PARTS];
    if (size < 3)
        return 0;
    if (!space.partitions)
        CHECK(!script_space_init(&space, BYTES("fuzz"), 3, daemon));
    space.ahead_us[1] = (int64_t)data[1] * 1000000 - 128000000;
    enum cmd_kind kind = (enum cmd_kind)(data[0] % (CMD_LIST + 1));
    uint32_t count = cut(data + 3, size - 3, parts);
    read_one(&space, kind, parts, count, false);
    read_one(&space, kind, parts, count, true);
    if (kind >= CMD_PEEK)
        fanout(&space, kind, data[2], parts, count);
    if (count) {
        struct notice notice;
        const char *reason = NULL;
        if (!notice_decode(&space, parts[0], &notice))
            CHECK(notice.partition < space.partitions);
        struct script_member members[SCRIPT_MEMBERS_MAX];
        uint32_t found = 0;
        struct script_parts said = {.at = parts, .count = count};
        if (!script_read_members(&said, members, &found))
            CHECK(found <= SCRIPT_MEMBERS_MAX);
        if (server_info_judge(parts[0], parts[count - 1], &reason))
            CHECK(reason);
        CHECK(failure_read(parts[0]).slot <= 16383);
    }
    for (uint32_t i = 0; i < count; i++)
        mem_free((char *)(uintptr_t)parts[i].at);
    return 0;
}
