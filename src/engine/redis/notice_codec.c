/*
 * Decodes notices, and the answers to heartbeats.
 */
#include "engine/redis/notice_codec.h"

#include <string.h>

#include "base/codec.h"
#include "engine/redis/script_parts.h"

bool script_take_number(struct bytes *text, uint64_t *out_number)
{
    size_t digits = 0;
    while (digits < text->len && text->at[digits] >= '0' && text->at[digits] <= '9')
        digits++;
    if (!bytes_to_u64(bytes_of(text->at, digits), out_number))
        return false;
    *text = bytes_of(text->at + digits, text->len - digits);
    return true;
}

enum err script_read_members(const struct script_parts *parts, struct script_member *out_members,
                             uint32_t *out_count)
{
    enum { HOW = SCRIPT_NAME, SAID = SCRIPT_NAME + 1 };
    if (parts->count < 2 || parts->count > 3 || parts->at[0].len != SCRIPT_ANSWER_BYTES ||
        parts->at[1].len % SCRIPT_MEMBER_BYTES != 0)
        return ERR_CORRUPT;
    int64_t now_us = script_clock(parts->at, parts->count);
    size_t count = parts->at[1].len / SCRIPT_MEMBER_BYTES;
    *out_count = count < SCRIPT_MEMBERS_MAX ? (uint32_t)count : SCRIPT_MEMBERS_MAX;
    for (uint32_t i = 0; i < *out_count; i++) {
        const char *at = parts->at[1].at + (size_t)i * SCRIPT_MEMBER_BYTES;
        uint64_t sent_us = get_u64(at + SAID);
        if (sent_us > (uint64_t)SCRIPT_FOREVER)
            return ERR_CORRUPT;
        bool known = at[HOW] == SCRIPT_SERVES || at[HOW] == SCRIPT_SILENT;
        out_members[i].how = known ? (enum script_how)at[HOW] : SCRIPT_LIVES;
        out_members[i].age_us = now_us > (int64_t)sent_us ? now_us - (int64_t)sent_us : 0;
        memcpy(out_members[i].name, at, SCRIPT_NAME);
    }
    return OK;
}

bool notice_channel_is(const struct script_space *space, struct bytes channel,
                       uint32_t *out_partition, enum notice_readers *out_readers)
{
    size_t before = strlen(space->prefix) + 2; /* { PREFIX : */
    char room[SCRIPT_CHANNEL_MAX];
    uint64_t partition;
    if (channel.len <= before)
        return false;
    struct bytes rest = bytes_of(channel.at + before, channel.len - before);
    if (!script_take_number(&rest, &partition) || partition >= space->partitions)
        return false;
    *out_partition = (uint32_t)partition;
    bool to_us = bytes_eq(channel, notice_channel(space, *out_partition, NOTICE_TO_US, room));
    *out_readers = to_us ? NOTICE_TO_US : NOTICE_TO_ALL;
    return to_us || bytes_eq(channel, notice_channel(space, *out_partition, NOTICE_TO_ALL, room));
}

/* Decodes the fields behind the partition's number, each after a space. */
static enum err read_change(const struct script_space *space, struct bytes rest,
                            struct notice *notice)
{
    uint64_t due_us;
    if (rest.len < 2 || rest.at[0] != ' ')
        return ERR_CORRUPT;
    rest = bytes_of(rest.at + 1, rest.len - 1);
    if (notice->kind == NOTICE_MADE || notice->kind == NOTICE_CLOCK_SET) {
        notice->by_us = bytes_eq(rest, bytes_of(space->daemon, SCRIPT_NAME));
        return OK;
    }
    if (notice->kind == NOTICE_READY || notice->kind == NOTICE_HINT) {
        notice->topic = rest;
        return OK;
    }
    if (!bytes_to_u64(rest, &due_us) || due_us > (uint64_t)SCRIPT_FOREVER)
        return ERR_CORRUPT;
    notice->due_us = script_time_out(space, notice->partition, (int64_t)due_us);
    return OK;
}

static const char HOWS[] = {SCRIPT_SERVES, SCRIPT_LIVES, SCRIPT_LEAVES, SCRIPT_SILENT};

static enum err read_member(struct bytes rest, struct script_member *member)
{
    if (rest.len != 1 + SCRIPT_NAME || !memchr(HOWS, rest.at[0], sizeof(HOWS)))
        return ERR_CORRUPT;
    member->how = (enum script_how)rest.at[0];
    memcpy(member->name, rest.at + 1, SCRIPT_NAME);
    return OK;
}

enum err notice_decode(const struct script_space *space, struct bytes message,
                       struct notice *out_notice)
{
    uint64_t partition;
    if (message.len < 2 || !memchr("rhwnob", message.at[0], 6))
        return ERR_CORRUPT;
    struct notice notice = {.kind = (enum notice_kind)message.at[0]};
    struct bytes rest = bytes_of(message.at + 1, message.len - 1);
    notice.only_we_wait = /* the script wrote a zero in front of the partition's number */
        notice.kind == NOTICE_READY && rest.at[0] == '0' && rest.len > 1 && rest.at[1] != ' ';
    enum err err;
    if (notice.kind == NOTICE_MEMBER) {
        err = read_member(rest, &notice.member);
    } else if (script_take_number(&rest, &partition) && partition < space->partitions) {
        notice.partition = (uint32_t)partition;
        err = read_change(space, rest, &notice);
    } else {
        err = ERR_CORRUPT;
    }
    *out_notice = notice;
    return err;
}
